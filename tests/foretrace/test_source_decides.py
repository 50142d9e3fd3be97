"""What the source proves of a loop decides whether it is ported; what it assumes does where the run agrees."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from traces import trace_binary

import foretrace
from foretrace.api.triages import Triage
from foretrace.base import json_text
from foretrace.replay.offload.devices.evidence import Parallel, with_source
from foretrace.reports.triage_reports import document
from foretrace.tracer.signature.verdicts import Authority, Said, Verdict

RECURRENCE = """
#include <stdio.h>
#include <stdlib.h>
#define N 400000
static double a[N], b[N];
int main(void) {
    for (int i = 0; i < N; i++) b[i] = (i % 7) * 0.5;           /* line 7 */
    for (int r = 0; r < 3; r++)
        for (int i = 1; i < N; i++)
            a[i] = a[i - 1] * 0.99 + b[i];                      /* line 10 */
    printf("%f\\n", a[N - 1]);
    return 0;
}
"""


@pytest.fixture
def triaged(compile_c: Callable[..., Path], tmp_path: Path) -> Triage:
    """The recurrence, traced without a word on dependences, beside its source."""
    program = compile_c(RECURRENCE, "-O2", "-g")
    run = trace_binary([str(program)], has_windows=False, has_data_flow=False).signature
    source = tmp_path / "src"
    source.mkdir()
    (source / f"{program.name}.c").write_text(RECURRENCE)
    made = foretrace.triage(run, "epyc-9654", "h200-sxm-141gb", source=source, explain=f"{program.name}.c:9")
    assert isinstance(made, Triage)
    return made


def test_a_recurrence_by_its_source_stays(triaged: Triage) -> None:
    for one in (*triaged.instances, *triaged.explained):
        if one.place.line in (8, 9):
            assert not one.offload
    (inner,) = triaged.explained
    assert inner.parallel == "serial"
    assert "recurrence by its source" in " ".join(inner.explanation)
    assert inner.verdict is not None
    assert (inner.verdict.verdict, inner.verdict.decided_by) == (Verdict.RECURRENCE, Authority.SOURCE)
    assert inner.verdict.run is None


PROOF, ASSUMING = Said(Verdict.PARALLEL), Said(Verdict.PARALLEL, "", ("x and y do not overlap",))
SUM, CARRIED = Said(Verdict.REDUCTION, "s (+)"), Said(Verdict.RECURRENCE, "a[i] takes a[i - 1]")
NONE_SEEN, SEEN = Said(Verdict.PARALLEL), Said(Verdict.RECURRENCE)


@pytest.mark.parametrize(
    ("kind", "source", "run", "now", "by"),
    [
        (Parallel.ASSUMED, CARRIED, None, Parallel.NO, Authority.SOURCE),
        (Parallel.YES, CARRIED, NONE_SEEN, Parallel.NO, Authority.SOURCE),
        (Parallel.SAMPLED, CARRIED, NONE_SEEN, Parallel.NO, Authority.SOURCE),
        (Parallel.ASSUMED, PROOF, None, Parallel.YES, Authority.SOURCE),
        (Parallel.NO, PROOF, NONE_SEEN, Parallel.YES, Authority.SOURCE),  # only registers look carried
        (Parallel.NO, PROOF, SEEN, Parallel.YES, Authority.SOURCE),
        (Parallel.NO, PROOF, None, Parallel.YES, Authority.SOURCE),  # by the data flow
        (Parallel.NO, ASSUMING, NONE_SEEN, Parallel.YES, Authority.SOURCE),
        (Parallel.NO, ASSUMING, SEEN, Parallel.NO, Authority.RUN),  # the assumption does not hold
        (Parallel.ASSUMED, ASSUMING, None, Parallel.ASSUMED, Authority.ASSUMPTION),
        (Parallel.SAMPLED, ASSUMING, NONE_SEEN, Parallel.SAMPLED, Authority.RUN),
        (Parallel.ASSUMED, SUM, None, Parallel.REDUCTION, Authority.SOURCE),
        (Parallel.NO, SUM, NONE_SEEN, Parallel.REDUCTION, Authority.SOURCE),
        (Parallel.COLLISION, SUM, Said(Verdict.COLLISION), Parallel.COLLISION, Authority.RUN),
        (Parallel.REPETITION, PROOF, None, Parallel.REPETITION, Authority.RUN),
        (Parallel.ASSUMED, Said(Verdict.UNKNOWN, "a call"), None, Parallel.ASSUMED, Authority.ASSUMPTION),
        (Parallel.NO, None, SEEN, Parallel.NO, Authority.RUN),
    ],
)
def test_what_decides(kind: Parallel, source: Said | None, run: Said | None, now: Parallel, by: Authority) -> None:
    found, _, decided_by = with_source(kind, "as the run showed", source, run)
    assert (found, decided_by) == (now, by)


def test_each_kind_is_on_the_scale() -> None:
    assert {kind.verdict for kind in Parallel} == set(Verdict)


def test_json_has_what_each_says(triaged: Triage) -> None:
    (inner,) = json.loads(json_text.encode(document(triaged)))["explained"]
    verdict = inner["verdict"]
    assert (verdict["verdict"], verdict["decided_by"], verdict["run"]) == ("recurrence", "source", None)
    assert verdict["source"]["verdict"] == "recurrence"
