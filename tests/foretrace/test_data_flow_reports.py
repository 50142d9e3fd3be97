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
from traces import trace_binary
from tree_samples import Tree

from foretrace.base.errors import SignatureError
from foretrace.reports.data_flow_reports import document, nodes_of, objects_of
from foretrace.tracer.sampling.burst_schedule import Accuracy, Schedule
from foretrace.tracer.session import options
from foretrace.tracer.signature.data_flow_records import OUTSIDE, MemoryObject, ObjectKind
from foretrace.tracer.signature.file import write_signature

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


def test_nodes_exchange_what_crosses_to_a_device_of_their_own() -> None:
    chance = np.random.default_rng(5)
    for _ in range(20):
        versions = [
            (
                int(chance.integers(-1, 8)),
                np.flatnonzero(chance.random(8) < 0.3).tolist(),
                float(chance.integers(1, 99)),
            )
            for _ in range(30)
        ]
        flow = flow_of(versions, [(np.flatnonzero(chance.random(8) < 0.3).tolist(), 8.0) for _ in range(9)])
        flow = replace(flow, set_has_system=np.append(False, chance.random(len(flow.set_starts) - 2) < 0.3))
        for one in nodes_of(flow, 8):
            alone = np.arange(8) == one.node
            unread = (flow.flow_writer == one.node) & (flow.flow_readers == 0)
            to_device, from_device = flow.crossing_bytes(alone)
            assert (one.live_in, one.live_out) == (to_device, from_device + flow.flow_bytes[unread].sum())
            assert one.footprint == flow.footprint_bytes(alone)


def test_the_document_is_bounded() -> None:
    """Each of 600 versions is read by all of 2,000 nodes but one, and each node has a long name."""
    tree = Tree()
    root = tree.thread()
    for node in range(2000):
        tree.call(root, f"function_{node}" * 100)
    made = tree.signature().tree
    assert made is not None
    readers = np.arange(2001)
    flow = flow_of([(row % 2000, np.delete(readers, row % 2001).tolist(), 8.0 + row % 7) for row in range(600)])
    shown = document(made, flow)
    assert len(json.dumps(shown, indent=2)) < 10_000_000
    assert shown["left_out"]["flows"] == 600 - len(shown["flows"]) > 0
    left = sum(flow.flow_bytes) - sum(one["bytes"] for one in shown["flows"])
    assert shown["left_out"]["flow_bytes"] == left
    assert min(one["bytes"] for one in shown["flows"]) == 14


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
    assert flow["bytes"] == 8000
    assert document["sets"][flow["set"]] == {"nodes": [], "has_system": True}
    assert document["left_out"] == dict.fromkeys(
        ("flows", "nodes", "objects", "allocations", "touched", "flow_bytes"), 0
    )


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
    monkeypatch.setattr(options, "schedule_of", lambda *_: Schedule(4, 8, 4, 4, 1))
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
