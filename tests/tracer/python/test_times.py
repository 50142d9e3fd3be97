"""What is timed of a Python program: which blocks, for how many executions, and what is left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_clock import LARGE_BLOCK_NS, ROUND_NS, fake_clock
from msgspec import structs
from python_runs import Run, trace

from foretrace.tracer.analysis.python.python_analysis import BLOCK_LINES, LIST_ELEMENT_LINES, analyse
from foretrace.tracer.analysis.result import Analysis
from foretrace.tracer.python.program import PythonCore
from foretrace.tracer.reader.raw_trace import RawArrayOperation, RawPythonBlock

PROGRAM = """\
import json, time
def numbers(n):
    for i in range(n):
        yield i
def sort(values):
    return time.clock_getres(50_000_000)
total = 0
for x in numbers(3000):
    total += x
values = [(i * 7919) % 200003 for i in range(200003)]
for _ in range(3):
    a = sort(values)
b = 0
"""


@pytest.fixture(scope="module", autouse=True)
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Time is what the programs say it is: `time.clock_getres(NANOSECONDS)` runs for so long."""
    with fake_clock(tmp_path_factory.mktemp("clock")):
        yield


@pytest.fixture(scope="module")
def run(clock: None, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trace(tmp_path_factory.mktemp("times"), PROGRAM)


def analysed(run: Run) -> Analysis:
    """With times, a round of what the agent runs being 100 lines."""
    return analyse(run.recording.raw, run.recording.statistics, 100.0)


def block_of(run: Run, line: int, function: str = "<module>") -> RawPythonBlock:
    return max((b for b in run.blocks(function) if b.line == line and b.instructions), key=lambda b: b.executions)


def nanoseconds_of(block: RawPythonBlock) -> float:
    """What its timings came to, in the fake clock's time."""
    return (block.timed_rounds + block.long_rounds) * 1e-6 * ROUND_NS


def test_the_first_executions_are_timed_and_then_one_of_many_stands_for_all(run: Run) -> None:
    for line in (7, 10, 11, 13):
        assert block_of(run, line).timed > 0
    for block in (block_of(run, 9), block_of(run, 4, "numbers")):
        assert 3000 - 200 <= block.timed <= block.executions


def test_what_goes_on_after_a_yield_is_no_execution_of_its_own(run: Run) -> None:
    resumptions = [b for b in run.blocks("numbers") if not b.instructions]
    assert sum(b.executions for b in resumptions) >= 3000
    assert not any(b.timed for b in resumptions)


def test_a_block_that_imports_is_not_timed(run: Run) -> None:
    assert block_of(run, 1).timed == 0


def test_what_a_block_calls_of_compiled_code_counts_for_it(run: Run) -> None:
    sort = block_of(run, 6, "sort")
    assert sort.timed == 3
    assert nanoseconds_of(sort) == pytest.approx(3 * 50e6, rel=1e-3)
    assert nanoseconds_of(block_of(run, 7)) < 10_000


def test_a_module_that_is_loaded_late_does_not_end_a_timing(tmp_path: Path) -> None:
    """Its code has markers, of which none is timed; what the line goes on to do is the line's."""
    (tmp_path / "late.py").write_text("def f():\n    return 1\nx = [f() for _ in range(100)]\n")
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "lazy.py").write_text(
        "import importlib, time\n"
        "def ordered():\n    importlib.import_module('late')\n    return time.clock_getres(50_000_000)\n"
    )
    source = (
        f"import sys\nsys.path[:0] = [{str(tmp_path)!r}, {str(library)!r}]\nimport lazy\n"
        "a = lazy.ordered()\nb = lazy.ordered()\n"
    )
    run = trace(tmp_path, source)
    assert nanoseconds_of(block_of(run, 4)) == pytest.approx(50e6, rel=1e-2)
    assert nanoseconds_of(block_of(run, 5)) == pytest.approx(50e6, rel=1e-3)


def test_the_last_block_is_timed_to_the_program_s_end(run: Run) -> None:
    assert block_of(run, 13).timed == 1


@pytest.mark.parametrize("last", ["b = 0", "raise SystemExit(0)"])
def test_the_interpreter_s_end_is_not_timed(tmp_path: Path, last: str) -> None:
    """What the program still holds then takes as long to take apart as it took to make."""
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "holding.py").write_text(
        "import time\nclass Held:\n"
        "    def __init__(self, clock=time.clock_getres):\n        self.clock = clock\n        clock(50_000_000)\n"
        "    def __del__(self):\n        self.clock(50_000_000)\n"
    )
    start = f"import sys; sys.path.insert(0, {str(library)!r}); import holding\n"
    run = trace(tmp_path, f"{start}values = holding.Held()\n{last}\n")
    made, end = block_of(run, 2), block_of(run, 3)
    assert end.timed == 1
    assert nanoseconds_of(made) == pytest.approx(50e6, rel=1e-3)
    assert nanoseconds_of(end) < 1e6


def test_less_than_nothing_is_nothing(run: Run) -> None:
    """What reading the clock takes is taken off, and can be more than its ticks tell of short blocks."""
    blocks = tuple(structs.replace(block, timed_rounds=-5, long_rounds=0) for block in run.recording.raw.python_blocks)
    raw = replace(run.recording.raw, python_blocks=blocks)
    times = analyse(raw, run.recording.statistics, 100.0).interpreter_times
    assert times
    assert not any(time.lines for time in times)


def test_times_are_told_in_lines(run: Run) -> None:
    raw, statistics = run.recording.raw, run.recording.statistics
    assert analyse(raw, statistics).interpreter_times == ()
    times = {time.block_id: time for time in analyse(raw, statistics, 100.0).interpreter_times}
    (number,) = (b.block_id for b in run.analysis.blocks if b.function == "sort" and b.offset)
    sort = block_of(run, 6, "sort")
    rounds = (sort.timed_rounds + sort.long_rounds) * 1e-6
    assert times[number].lines == pytest.approx(rounds / 3 * 100.0 - BLOCK_LINES)
    assert times[number].recording_lines == BLOCK_LINES


def test_array_operations_that_are_seen_are_left_out(tmp_path: Path) -> None:
    """The first can be told from its accesses; Fourier transforms cannot. Each gets memory, which takes its time."""
    source = (
        "import numpy as np\na = np.ones(3_000_000)\n"
        "for _ in range(5):\n    b = a * 1.5\n"
        "for _ in range(5):\n    b = np.fft.rfft(a)\n"
    )
    run = trace(tmp_path, source)
    seen, unseen = block_of(run, 4), block_of(run, 6)
    assert seen.timed == unseen.timed == 5
    assert nanoseconds_of(seen) < 1e6
    assert nanoseconds_of(unseen) >= 5 * LARGE_BLOCK_NS


def test_what_recording_elements_adds_is_taken_off(tmp_path: Path) -> None:
    run = trace(tmp_path, "a = [1] * 100\nfor i in range(3000):\n    a[i % 100] = a[0]\n")
    analysis = analysed(run)
    (number,) = (b.block_id for b in analysis.blocks if b.line == 3)
    (time,) = (time for time in analysis.interpreter_times if time.block_id == number)
    assert time.recording_lines == pytest.approx(BLOCK_LINES + 2 * LIST_ELEMENT_LINES)


def test_the_other_core_times_nothing(tmp_path: Path) -> None:
    run = trace(tmp_path, "x = 1\ny = 2\n", core=PythonCore.SETTRACE)
    assert not any(block.timed for block in run.recording.raw.python_blocks)
    assert analysed(run).interpreter_times == ()


def test_what_takes_very_long_counts_for_itself(tmp_path: Path) -> None:
    """As a sort that begins when the last key has been asked for. Few calls are timed; the last would have all."""
    source = "import time\nx = sum(map(lambda v: v % 7, range(200_000))), time.clock_getres(50_000_000)\ny = 1\n"
    run = trace(tmp_path, source)
    assert block_of(run, 2).executions == 1
    long_rounds = sum(b.long_rounds for b in run.recording.raw.python_blocks if b.line == 2)
    assert long_rounds * 1e-6 * ROUND_NS == pytest.approx(50e6, rel=1e-2)


def test_pages_of_arrays_that_come_and_go_are_counted(tmp_path: Path) -> None:
    source = (
        "import mmap\nimport numpy as np\na = np.ones(1 << 17)\n"
        "for _ in range(20):\n    b = np.frombuffer(mmap.mmap(-1, 1 << 20))\n"
        "    np.copyto(b, a)\n    b += a\n    del b\n"
    )
    with fake_clock(tmp_path, pages_take_time=True):
        run = trace(tmp_path, source)
    times = {time.block_id: time for time in analysed(run).interpreter_times}

    def faults(line: int) -> float:
        return max(
            times[b.block_id].array_faults for b in run.analysis.blocks if b.line == line and b.block_id in times
        )

    assert 200 <= faults(6) <= 300  # 256 pages
    assert faults(7) < 10


def test_pages_that_recording_touches_are_not_counted(tmp_path: Path) -> None:
    """The stream holds the indices: more than the program's own memory."""
    source = (
        "import numpy as np\na = np.zeros(1000)\ni = np.arange(300_000) % 1000\nfor _ in range(4):\n    a[i] = 1.0\n"
    )
    run = trace(tmp_path, source)
    (block,) = (b for b in run.blocks("<module>") if b.line == 5 and b.instructions)
    assert block.timed == 4
    faults = [operation.faults for operation in run.arrays(5)]
    assert faults
    assert sum(faults) < 4 * 100


LARGE = """\
import numpy as np
a, b, c = (np.arange(1 << 17) * 1.0 for _ in range(3))
for _ in range(5):
    np.tan(a)
for _ in range(5):
    np.argsort(b)
for _ in range(5):
    np.array([0.5])
words = np.array(["2020-01-01"] * (1 << 17))
dates = words.astype("M8[D]")
halves = [0.5] * (1 << 17)
numbers = np.array(halves)
elements = list(a[:2000])
diagonal = np.trace(np.ones((300, 300)))
"""


@pytest.fixture(scope="module")
def large(clock: None, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Array operations that get a megabyte, which takes its time, and others."""
    return trace(tmp_path_factory.mktemp("large"), LARGE)


def _kinds(operation: RawArrayOperation) -> list[str]:
    return [one.kind for one in operation.operands]


def array_lines(run: Run, line: int) -> float:
    """Lines that array operations took on a line of the script, at 100 a round."""
    found = analysed(run)
    lines = {block.block_id: block.line for block in found.blocks}
    return sum(time.lines for time in found.array_times if lines[time.block_id] == line)


@pytest.mark.parametrize(("line", "calls"), [(4, 5), (10, 1), (12, 1)], ids=["tan", "dates from text", "from a list"])
def test_array_operations_have_their_own_time(large: Run, line: int, calls: int) -> None:
    """Each call has, with what it converts of Python's objects, and their lines have not."""
    expected = 100 * calls * LARGE_BLOCK_NS / ROUND_NS
    assert array_lines(large, line) == pytest.approx(expected, rel=0.02)
    assert nanoseconds_of(block_of(large, line)) < 0.02 * calls * LARGE_BLOCK_NS


def test_what_is_not_seen_is_timed_once(large: Run) -> None:
    """A sort is compiled code that was not seen: its pass over the array is there, but none of its time."""
    (call,) = (called for called in large.recording.raw.compiled if "sort" in called.name)
    assert call.rounds * 1e-6 * ROUND_NS == pytest.approx(5 * LARGE_BLOCK_NS, rel=0.2)
    kept = [operation.kept_calls for operation in large.arrays(6) if "sort" in operation.name]
    assert sum(kept) == 5
    assert not any(operation.rounds for operation in large.arrays(6) if "sort" in operation.name)


def test_elements_taken_by_a_built_in_function_are_not_timed(large: Run) -> None:
    """Two thousand of them; the clock, which takes 300 ns, is not read for each."""
    assert nanoseconds_of(block_of(large, 13)) < 50 * 300
    assert sum(operation.points for operation in large.arrays(13)) >= 2000


def test_the_trace_of_a_matrix_reads_its_diagonal(large: Run) -> None:
    (diagonal,) = (operation for operation in large.arrays(14) if operation.name == "numpy.ndarray.trace")
    assert (diagonal.points, _kinds(diagonal), diagonal.kept_calls) == (300, ["f"], 0)


def test_element_types_are_told(large: Run) -> None:
    (tan,) = (operation for operation in large.arrays(4) if operation.name == "numpy.tan")
    assert _kinds(tan) == ["f", "f"]
    (dates,) = (operation for operation in large.arrays(10) if operation.name == "numpy.ndarray.astype")
    assert _kinds(dates) == ["U", "M"]


def test_waiting_for_the_reader_hides_no_time(tmp_path: Path) -> None:
    """Recording the indices waits, within the same lines as what takes its time."""
    source = (
        "import time\nimport numpy as np\na = np.zeros(1_000_000)\n"
        "i = np.random.default_rng(1).integers(0, 1_000_000, 4_000_000)\n"
        "for _ in range(3):\n    b = time.clock_getres(20_000_000)\n"
        "for _ in range(3):\n    a[i] = 1.0; b = time.clock_getres(20_000_000)\n"
    )
    run = trace(tmp_path, source)
    alone, beside = block_of(run, 6), block_of(run, 8)
    assert alone.timed == beside.timed == 3
    for block in (alone, beside):
        assert nanoseconds_of(block) == pytest.approx(3 * 20e6, rel=1e-2)
