"""Rows of triage: each loop that was judged has one, with its own reason, and all others are accounted for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from offload_samples import examined, gpu, nest, recurrence, with_flow
from replay_samples import measured_host
from traces import trace_binary

from foretrace.base.units import format_seconds
from foretrace.cli import group
from foretrace.profiles.library import find
from foretrace.replay.base.records import Answer, Bound, Triage
from foretrace.replay.limits.page_faults import with_page_faults
from foretrace.replay.offload.triage import triage
from foretrace.replay.prediction.predict import HostRun
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.file import write_signature
from foretrace.tracer.signature.records import Signature

PROGRAM = r"""
#include <stdio.h>
#define N 20000
static double a[N], b[N];
__attribute__((noinline)) static void twice(double *x, double by) {
    for (int i = 0; i < N; i++) x[i] = by * x[i] + 1.0;
}
int main(void) {
    for (int i = 0; i < N; i++) b[i] = (i % 7) * 0.5;
    for (int r = 0; r < 3; r++) {
        double last = 1.0;
        for (int i = 0; i < N; i++) {
            last = last * 0.99 + b[i];
            a[i] = last;
        }
        twice(b, 0.5);
    }
    twice(a, 2.0);
    printf("%f\n", a[N - 1]);
    return 0;
}
"""


@pytest.fixture(scope="module")
def signature(compile_c: Callable[..., Path]) -> Signature:
    return trace_binary([str(compile_c(PROGRAM, "-O1"))], has_dependences=True).signature


def judged(signature: Signature, explain: str = "") -> Triage:
    return triage(signature, find("epyc-9654"), find("h200-sxm-141gb"), explain=explain)


def line_of(text: str) -> int:
    return 1 + next(number for number, line in enumerate(PROGRAM.splitlines()) if text in line)


def test_serial_loops_have_rows_and_say_which_line_carries(signature: Signature) -> None:
    report = judged(signature)
    [one] = [one for one in report.instances if one.place.line == line_of("i++) {")]
    assert (one.answer, one.parallel) == (Answer.LEAVE, "serial")
    [line] = [line for line in one.explanation if line.startswith("iterations: ")]
    assert f"at line {line_of('last * 0.99')}, distance 1" in line
    [around] = [one for one in report.instances if one.place.line == line_of("r < 3")]
    assert around.answer is Answer.LEAVE
    assert around.reason


def test_rows_of_one_line_are_told_apart(signature: Signature, tmp_path: Path) -> None:
    rows = [one for one in judged(signature, explain="twice").explained if one.kind == "loop"]
    assert sorted(one.path for one in rows) == [
        "main > loop " + Path(rows[0].place.file).name + f":{line_of('r < 3')} > twice",
        "main > twice",
    ]
    write_signature(signature, tmp_path / "a.sig")
    asked = ["triage", str(tmp_path / "a.sig"), "--host", "epyc-9654", "--accelerator", "h200-sxm-141gb"]
    shown = CliRunner().invoke(group, [*asked, "--all-loops"]).stdout
    assert "[main > twice] " in shown
    document = json.loads(CliRunner().invoke(group, [*asked, "--json"]).stdout)
    assert {one["path"] for one in document["instances"]} >= {"main > twice"}
    assert document["loops"]["listed"] == len(document["instances"])


@pytest.mark.parametrize("text", ["last * 0.99", "a[i] = last"])
def test_a_line_of_a_body_finds_its_loop(signature: Signature, text: str) -> None:
    file = Path(next(one.place.file for one in judged(signature).instances)).name
    found = judged(signature, explain=f"{file}:{line_of(text)}").explained
    assert [one.place.line for one in found] == [line_of("i++) {")]


def test_all_loops_are_accounted_for(signature: Signature) -> None:
    report = judged(signature)
    counts = report.loops
    assert counts is not None
    assert counts.listed == len(report.instances)
    assert counts.there == counts.listed + counts.inside + counts.library + counts.outside + counts.once + counts.small
    assert signature.tree is not None
    assert counts.there >= sum(loop.function in ("main", "twice") for loop in signature.loops)


def test_loops_inside_of_kernels_are_counted_and_those_that_stay_have_rows() -> None:
    tree, around, loop = nest(outer=1000, inner=1000, flops=100)
    ported = triage(examined(with_flow(tree, []), around, loop), measured_host(), gpu())
    assert ported.loops is not None
    assert (ported.loops.listed, ported.loops.inside) == (1, 1)
    tree, around, loop = nest(outer=1 << 16, inner=16)
    signature = examined(with_flow(tree, []), around, loop, dependences=[recurrence(around)])
    left = triage(signature, measured_host(), gpu())
    assert left.loops is not None
    assert (left.loops.there, left.loops.listed) == (2, 2)
    assert Counter(one.parallel for one in left.instances) == {"serial": 1, "parallel": 1}


def test_times_without_page_faults_are_not_bound_by_them() -> None:
    tree, _, _ = nest()
    run = HostRun.of(Workload.of(tree.signature()), measured_host())
    pages = run.times.time_s[1] + 1.0
    slow = with_page_faults(run.times, pages, pages[:1].repeat(3))
    assert set(slow.bound_by) == {Bound.PAGES}
    assert slow.bound_without_pages == run.times.bound_by


def test_no_time_is_shorter_than_a_part_of_a_nanosecond() -> None:
    assert [format_seconds(time_s) for time_s in (820e-12, 12.9e-12, 3e-15)] == ["0.82 ns", "0.0129 ns", "< 0.01 ns"]


LAZY = r"""
#include <math.h>
#include <stdio.h>
static double a[20000], b[20000];
int main(void) {
    for (int i = 0; i < 20000; i++) a[i] = i * 1e-4;
    for (int i = 0; i < 20000; i++) b[i] = exp(a[i]);
    printf("%f\n", b[77]);
    return 0;
}
"""


def test_a_loop_has_no_idioms_of_the_loader_that_resolves_its_calls(compile_c: Callable[..., Path]) -> None:
    signature = trace_binary([str(compile_c(LAZY, "-O2", "-Wl,-z,lazy", "-lm"))]).signature
    line = 1 + next(number for number, text in enumerate(LAZY.splitlines()) if "exp(" in text)
    assert signature.tree is not None
    [loop] = [loop for loop in signature.loops if loop.function == "main" and loop.line == line]
    [row] = [one for one in judged(signature).instances if one.place.line == line and one.place.function == "main"]
    own = {str(idiom.kind) for idiom in signature.idioms if idiom.loop_id == loop.loop_id}
    assert set(row.idiom.split("+")) == own
