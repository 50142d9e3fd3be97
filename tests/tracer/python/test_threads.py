"""Times of Python programs with threads: each thread times itself, beside functions that let go of the interpreter."""

from __future__ import annotations

import pytest
from python_runs import Run, trace

PROGRAM = """\
import hashlib, mmap, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
data = bytes(range(256)) * 200
values = np.random.default_rng(1).random(30_000)
def of_arrays(n):
    for _ in range(120):
        np.partition(values, 100)
        np.median(values[:3000])
        np.convolve(values[:500], values[:30])
def of_pages(n):
    for _ in range(8):
        a = np.frombuffer(mmap.mmap(-1, 1 << 20))
        np.copyto(a, 1.5)
        np.sort(a[:5000])
def of_bytes(n):
    for _ in range(200):
        hashlib.sha256(data).digest()
with ThreadPoolExecutor(int(sys.argv[1])) as pool:
    for function in (of_arrays, of_bytes, of_pages) * 4:
        pool.submit(function, 1)
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trace(tmp_path_factory.mktemp("alone"), PROGRAM, "1")


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trace(tmp_path_factory.mktemp("together"), PROGRAM, "6")


def rounds(run: Run, function: str) -> float:
    """What a function took, by those of its executions that were timed."""
    timed = [block for block in run.blocks(function) if block.timed]
    return sum(1e-6 * (block.timed_rounds * block.executions / block.timed + block.long_rounds) for block in timed)


@pytest.mark.parametrize("function", ["of_arrays", "of_bytes"])
def test_threads_take_what_one_thread_does_for_all(alone: Run, together: Run, function: str) -> None:
    """Without the time for which a thread waits for the interpreter: six threads would take six times as long."""
    assert 0.4 < rounds(together, function) / rounds(alone, function) < 2.5


def test_compiled_functions_are_charged_to_the_thread_that_called(together: Run) -> None:
    lines = {block.block_id: (block.function, block.line) for block in together.recording.raw.python_blocks}
    called = {(*lines[called.block_id], called.name) for called in together.recording.raw.compiled}
    assert all(name for _, _, name in called)
    assert ("of_arrays", 8) in {(function, line) for function, line, name in called if "partition" in name}
    assert not any("partition" in name or "correlate" in name for function, _, name in called if function == "of_bytes")


def test_pages_are_counted_in_the_thread_that_touched_them(together: Run) -> None:
    (block,) = (block for block in together.blocks("of_pages") if block.line == 14 and block.instructions)
    assert block.executions == 32
    operations = together.recording.raw.array_operations
    faults = sum(operation.faults for operation in operations if operation.block_id == block.block_id)
    assert 200 <= faults / block.timed <= 300, "256 pages"
    others = [block for block in together.recording.raw.python_blocks if block.function in ("of_arrays", "of_bytes")]
    of_others = {block.block_id: max(block.timed, 1) for block in others}
    assert all(o.faults <= 20 * of_others[o.block_id] for o in operations if o.block_id in of_others)
