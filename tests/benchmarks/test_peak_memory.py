"""Memory that tracing takes is bounded, whatever the program does: each bound, met by a program that goes beyond it."""

from __future__ import annotations

from pathlib import Path

import pytest
from effort import sweep

from foretrace.benchmarks.peers import peak_memory
from foretrace.tracer.qemu.binary import QemuEngine
from foretrace.tracer.reader.side_table import INSTRUCTIONS_PER_BLOCK
from foretrace.tracer.recording.recording import Recording
from foretrace.tracer.session import session
from foretrace.tracer.session.options import TraceOptions

MIB = 1 << 20


@pytest.fixture(scope="module")
def greedy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(peak_memory.build(tmp_path_factory.mktemp("greedy")))


def record(*command: str) -> Recording:
    return session.Session(QemuEngine(command), TraceOptions(())).run()


def test_blocks_of_many_instructions_are_bounded_by_these(greedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MAX_BLOCKS", 10_000)
    recording = record(greedy, "blocks", "1000", "100")
    instructions = sum(len(block.lengths) for block in recording.raw.blocks)
    assert 19_000 < instructions <= 10_000 * INSTRUCTIONS_PER_BLOCK
    assert "outgrew the trace's table of 20,000 different instructions" in recording.problem


@pytest.mark.full  # a minute; the bound on blocks is met above, and jumps just within theirs below
def test_jumps_are_bounded(greedy: str) -> None:
    bound = 1 << 17  # FT_MAX_RARE_EDGES of reader.h
    recording = record(greedy, "edges", "2048", "200000")
    assert bound < len(recording.raw.edges) < bound + 2 * len(recording.raw.blocks)
    assert "jumps outgrew" in recording.problem


def test_jumps_within_the_bound_are_all_counted(greedy: str) -> None:
    recording = record(greedy, "edges", "1024", "50000")
    assert recording.problem == ""
    assert recording.raw.edges[:, 2].sum() > 50_000


@sweep(
    "arguments", [("footprint", "128"), ("threads", "200"), ("blocks", "10000", "3")], [("footprint", "128")],
    ids=" ".join,
)  # fmt: skip
def test_peak_memory(greedy: str, arguments: tuple[str, ...], tmp_path: Path) -> None:
    peak = peak_memory.measure("greedy", [greedy, *arguments], tmp_path)
    assert peak.incomplete_reason == ""
    assert peak.peak_bytes < 400 * MIB
