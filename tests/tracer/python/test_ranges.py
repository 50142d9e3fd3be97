"""The range of a gather in Python is that of its array, wherever the array lies each time."""

from __future__ import annotations

from pathlib import Path

from traces import trace_python

from foretrace.cache_sim.base.hierarchy import DEFAULT_HIERARCHY
from foretrace.profiles.library import find
from foretrace.replay.offload.triage import triage
from foretrace.tracer.signature.records import IdiomKind

SCRIPT = """
import numpy as np
kept = []
def gather(n):
    for _ in range(4):
        x = np.ones(n)
        kept.append((x, np.ones(100_000)))
        index = np.resize(np.array([0, n - 1, n // 2]), 6000)
        x[index]
gather(191 * 128)
gather(193 * 128)
"""


def test_arrays_that_move_keep_their_range(tmp_path: Path) -> None:
    (tmp_path / "gathers.py").write_text(SCRIPT)
    traced = trace_python(str(tmp_path / "gathers.py"), [], [DEFAULT_HIERARCHY])
    signature = traced.signature
    gathers = [idiom for idiom in signature.idioms if idiom.kind is IdiomKind.GATHER and idiom.line == 9]
    (operation,) = {signature.operations[op] for idiom in gathers for op in idiom.operations}
    assert operation.execution_range_bytes == 193 * 1024
    assert operation.range_bytes > 5 * 193 * 1024
    report = triage(signature, find("jaguar-xt4"), find("convey-hc1-fpga"))
    (instance,) = (instance for instance in report.instances if instance.place.line == 9)
    assert instance.range_bytes == 193 * 1024
    assert "below" not in instance.reason
