"""Which objects the reports of the data flow name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import run
from flow_samples import flow_of

from foretrace.errors import SignatureError
from foretrace.reports.data_flow_reports import objects_of
from foretrace.tracer import tracing
from foretrace.tracer.sampling.burst_schedule import Accuracy, Schedule
from foretrace.tracer.signature.data_flow_records import OUTSIDE, MemoryObject, ObjectKind
from foretrace.tracer.signature.file import write_signature
from foretrace.tracer.tracing import trace_binary

COPIES = """
double from[1000], to[1000];
int main(void) {
    for (int i = 0; i < 1000; i++) from[i] = i;
    for (int i = 0; i < 1000; i++) to[i] = from[i] + 1;
    return to[7] < 0;
}
"""


def test_objects_are_those_that_all_touch() -> None:
    objects = [MemoryObject(ObjectKind.STATIC, name, 0, 64) for name in ("small", "large", "written")]
    objects.append(MemoryObject(ObjectKind.UNKNOWN, "", 64, 128))
    flow = flow_of(
        [(0, [1], 64), (OUTSIDE, [2], 8), (0, [1, 2], 8)],
        [([0, 1], 8), ([0, 1, 2], 32), ([0], 64), ([1, 2], 16)],
        objects,
    )
    flow = replace(flow, touched_object=np.array([0, 1, 2, 3]))
    assert objects_of(flow, 0) == ["large", "small"]
    assert objects_of(flow, 1) == ["large", "unknown"]
    assert objects_of(flow, 2) == ["large"]


def test_info_names_static_variables(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    program = compile_c(COPIES, "-O1", "-g")
    write_signature(trace_binary([str(program)]).signature, tmp_path / "copies.sig")
    flows, _ = run("info", tmp_path / "copies.sig", "--data-flow").output.split("Nodes", 1)
    (line,) = (row for row in flows.splitlines() if ".c:4" in row and ".c:5" in row)
    assert line.rstrip().endswith("from")


WRITTEN = """
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    double *out = malloc(8000);                                  /* line 6 */
    for (int i = 0; i < 1000; i++) out[i] = i;
    return write(open("/dev/null", O_WRONLY), out, 8000) != 8000;
}
"""


def test_info_lists_allocations(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    program = compile_c(WRITTEN, "-O1", "-g")
    signature = trace_binary([str(program)]).signature
    write_signature(signature, tmp_path / "s.sig")
    text = run("info", tmp_path / "s.sig", "--data-flow").output
    where = f"heap at {program.name}.c:6"
    (row,) = (line for line in text[text.index("Allocations") :].splitlines() if where in line)
    assert row.split()[:9] == ["7.812", "KiB", "7.812", "KiB", "0", "B", "7.812", "KiB", "1"]
    assert "the system" in text
    assert "not sampled" in text
    document = json.loads(run("info", tmp_path / "s.sig", "--data-flow", "--json").output)
    (heap,) = (number for number, one in enumerate(document["allocations"]) if one["line"] == 6)
    (flow,) = (one for one in document["flows"] if one["allocation"] == heap)
    assert (flow["bytes"], flow["read_by_system"], flow["readers"]) == (8000, True, [])


ROUNDS = """
double x[1000], y[1000];
int main(void) {
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < 1000; i++) y[i] += 2 * x[i];
        for (int i = 0; i < 1000; i++) x[i] = y[i] + round;
    }
    return y[7] < 0;
}
"""


def test_bursts_have_no_data_flow_and_say_so(
    compile_c: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "schedule_of", lambda *_: Schedule(4, 8, 4, 4, 1))
    signature = trace_binary([str(compile_c(ROUNDS, "-O1", "-static"))], accuracy=Accuracy.LOW).signature
    assert signature.provenance.sampling is not None
    path = tmp_path / "bursts.sig"
    write_signature(signature, path)
    shown = run("info", path).output
    assert "data flow     none, as accesses were recorded in bursts; trace --accuracy high has it" in shown
    with pytest.raises(SignatureError, match=r"has no data flow: accesses were recorded in bursts.* --accuracy high"):
        run("info", path, "--data-flow")
    machines = ("--host", "epyc-9654", "--accelerator", "h200-sxm-141gb")
    document = json.loads(run("triage", path, *machines, "--json").stdout)
    (warning,) = (line for line in document["warnings"] if "data flow" in line)
    assert "recorded in bursts" in warning
    assert warning.endswith("trace the program again with --accuracy high")
