"""Which blocks of bytecode ran, how often and in what order, and the loops they form."""

from __future__ import annotations

from pathlib import Path

import pytest
from python_runs import Run, trace

from foretrace.tracer.python.program import PythonCore

PROGRAM = """\
import threading
def outer(n):
    total = 0
    for i in range(n):
        for j in range(i):
            total += inner(j)
    return total
def inner(x):
    return x * 2
def numbers(n):
    for i in range(n):
        yield i
def recursive(n):
    if n:
        recursive(n - 1)
    return n
def raising(n):
    for i in range(n):
        try:
            fail(i)
        except ValueError:
            pass
def fail(i):
    raise ValueError(i)
outer(6)
for x in numbers(4):
    y = x
recursive(5)
raising(3)
k = 0
while k < 7:
    k += 1
exec("for z in range(3):\\n    w = z")
thread = threading.Thread(target=outer, args=(3,))
thread.start()
thread.join()
squares = [inner(v) for v in range(8)]
"""


@pytest.fixture(scope="module", params=list(PythonCore))
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trace(tmp_path_factory.mktemp("blocks"), PROGRAM, core=request.param)


def test_lines_run_as_often_as_they_are_begun(run: Run) -> None:
    assert run.executions(3, "outer") == 2  # once in the thread
    assert run.executions(6, "outer") == 15 + 3
    assert run.executions(9, "inner") == 15 + 3 + 8
    assert run.executions(12, "numbers") == 4
    assert run.executions(16, "recursive") == 6
    assert run.executions(15, "recursive") == 5
    assert run.executions(20, "raising") == 3
    assert run.executions(24, "fail") == 3
    assert run.executions(27) == 4
    assert run.executions(32) == 7


def test_functions_are_entered_once_a_call(run: Run) -> None:
    calls = {"outer": 2, "inner": 26, "numbers": 1, "recursive": 6, "raising": 1, "fail": 3}
    for function, count in calls.items():
        entries = [block for block in run.blocks(function) if block.offset_bytes == 0 and block.instructions]
        assert [block.executions for block in entries] == [count], function


def test_loops_nest_and_count(run: Run) -> None:
    loops = [loop for loop in run.loops() if loop.function in ("outer", "numbers", "raising")]
    found = {(loop.function, loop.line): (loop.depth, loop.entries, loop.iterations) for loop in loops}
    assert found["outer", 4][0] == 1
    assert found["outer", 5] == (2, 7, 18)  # not entered for range(0)
    assert found["numbers", 11] == (1, 1, 4)
    assert found["raising", 18] == (1, 1, 3)
    outer = {loop.line: loop for loop in run.loops() if loop.function == "outer"}
    assert outer[5].parent_id == outer[4].loop_id
    assert outer[4].parent_id is None


def test_a_call_is_no_loop(run: Run) -> None:
    assert not [loop for loop in run.loops() if loop.function in ("recursive", "inner", "fail")]


def test_loops_of_the_main_program(run: Run) -> None:
    loops = {loop.line: (loop.entries, loop.iterations) for loop in run.loops() if loop.function == "<module>"}
    assert loops[26] == (1, 4)
    assert loops[31] == (1, 7)


def test_code_without_a_file_is_seen(run: Run) -> None:
    blocks = [b for b in run.recording.raw.python_blocks if b.file == "<string>" and b.line == 2 and b.instructions]
    assert sum(block.executions for block in blocks) == 3


def test_the_thread_has_a_stream_of_its_own(run: Run) -> None:
    assert run.recording.threads == 2
    assert run.recording.untraced_threads == 0


def test_edges_agree_with_executions(run: Run) -> None:
    """Control that enters a block comes from somewhere: in a stream with resumptions, executions are steps into it."""
    raw = run.recording.raw
    into: dict[int, int] = {}
    for _, target, count in raw.edges.tolist():
        into[target] = into.get(target, 0) + count
    starts = sum(block.executions - into.get(block.block_id, 0) for block in raw.python_blocks)
    assert starts == run.recording.threads


def test_resumptions_become_their_blocks(run: Run) -> None:
    blocks = run.analysis.blocks
    assert all(block.instructions > 0 for block in blocks)
    assert [block.block_id for block in blocks] == list(range(len(blocks)))
    assert len(run.analysis.edges) == len({(source, target) for source, target, _ in run.analysis.edges.tolist()})
    raw = run.recording.raw.python_blocks
    assert sum(b.executions for b in blocks) == sum(b.executions for b in raw if b.instructions)


@pytest.mark.parametrize(("core", "executions", "unseen"), [(PythonCore.SETTRACE, 2, 1), (PythonCore.MARKERS, 3, 0)])
def test_a_program_that_traces_itself(tmp_path: Path, core: PythonCore, executions: int, unseen: int) -> None:
    run = trace(
        tmp_path,
        "import sys\n"
        "def f():\n"
        "    return 1\n"
        "f()\n"
        "sys.settrace(lambda *arguments: None)\n"
        "f()\n"
        "sys.settrace(None)\n"
        "f()\n",
        core=core,
    )
    assert run.executions(3, "f") == executions
    assert run.recording.unseen_calls == unseen


def test_a_forked_child_is_counted(tmp_path: Path) -> None:
    run = trace(tmp_path, "import os\nif os.fork() == 0:\n    for i in range(10): pass\n    os._exit(0)\nos.wait()\n")
    assert run.recording.untraced_children == 1
    assert run.executions(3) == 0
    assert run.executions(5) == 1
