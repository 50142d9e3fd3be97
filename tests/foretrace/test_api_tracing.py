"""Tracing from Python: programs, functions and blocks. Functions and blocks run in a fork of the interpreter."""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import foretrace
from foretrace.base.errors import EngineError
from foretrace.tracer.python import forked, resident
from foretrace.tracer.python.resident import resident_ranges
from foretrace.tracer.signature.records import AddressRange, LinearAlgebra, Loop

HERE = Path(__file__).name
STATE: list[int] = []


def count(total: int) -> int:
    values = list(range(total))
    found = 0
    for number in range(total):
        found += values[number]
    return found


def loops_of(run: foretrace.Trace, function: str) -> list[Loop]:
    return [loop for loop in run.signature.loops if loop.function.endswith(function)]


def test_a_function_is_traced_with_what_it_calls() -> None:
    def outer(times: int) -> int:
        return sum(count(500) for _ in range(times))

    run = foretrace.trace(outer, 4)
    assert run.result == 4 * sum(range(500)) and run.exit_code == 0
    (loop,) = [loop for loop in loops_of(run, "count") if loop.kind == "code"]
    assert (loop.entries, loop.iterations) == (4, 4 * 500)
    loads = [op for op in run.signature.operations if op.array_operation == "list.__getitem__"]
    assert sum(op.executions for op in loads) == 4 * 500
    assert run.signature.provenance.complete and "outer" in run.signature.provenance.command[0]
    assert foretrace.predict(run, "grace").time_s > 0
    assert len(repr(run)) < 300 and "count" in str(run)


def test_array_operations_on_variables_of_this_process_are_seen() -> None:
    table = np.arange(5000.0)
    index = np.random.default_rng(1).integers(0, 5000, 2000)
    run = foretrace.trace(lambda: float(table[index].sum()))
    assert run.result == table[index].sum()
    assert {str(idiom.kind) for idiom in run.signature.idioms} == {"gather", "reduction"}
    assert sum(op.executions for op in run.signature.operations if op.index_operation is not None) == 2000


def test_memory_of_this_process_is_not_touched_for_the_first_time() -> None:
    table = np.ones(5 << 20)  # more than malloc ever takes from memory that it has had before
    address = table.ctypes.data

    def pages_s(run: foretrace.Trace) -> float:
        return sum(loop.pages_s for loop in foretrace.predict(run, "epyc-turin-vm").loops)

    within = foretrace.trace(lambda: np.add(table, 1.0, out=table)[0])
    new = foretrace.trace(lambda: np.add(table, 1.0)[0])
    if not within.signature.provenance.notes:  # where the system can copy pages
        mapped = within.signature.provenance.mapped
        assert any(one.first <= address and address + table.nbytes <= one.last_exclusive for one in mapped)
        assert pages_s(within) < 0.1 * pages_s(new)
    assert pages_s(new) > 0


def test_pages_that_stay_shared_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> tuple[AddressRange, ...]:
        raise EngineError("/proc/self/pagemap: cannot be read")

    monkeypatch.setattr(forked, "resident_ranges", unknown)
    provenance = foretrace.trace(count, 3).signature.provenance
    assert provenance.mapped == () and "pagemap: cannot be read" in provenance.notes[-1]
    monkeypatch.undo()
    monkeypatch.setattr(resident, "MOST_BYTES", 1 << 20)
    assert "more than" in foretrace.trace(count, 3).signature.provenance.notes[-1]


def test_untouched_memory_is_not_resident() -> None:
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    with mmap.mmap(-1, 64 * page_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        memory[5 * page_bytes] = memory[7 * page_bytes] = 1
        first = np.frombuffer(memory, np.uint8).ctypes.data
        found = resident_ranges()
    pages = [first + page * page_bytes for page in range(64)]
    touched = [number for number, page in enumerate(pages) if any(r.first <= page < r.last_exclusive for r in found)]
    assert touched == [5, 7]


def test_a_function_of_an_installed_package_is_traced_at_the_line_that_calls_it() -> None:
    matrix = np.eye(50)
    run = foretrace.trace(np.linalg.solve, matrix, matrix)
    assert np.array_equal(run.result, matrix)
    (called,) = run.signature.linear_algebra
    assert isinstance(called, LinearAlgebra) and (called.n, called.calls) == (50, 1)


def test_partial_functions_bring_keyword_arguments() -> None:
    assert foretrace.trace(functools.partial(sorted, reverse=True), [1, 3, 2]).result == [3, 2, 1]


def test_nothing_but_the_result_comes_back() -> None:
    STATE.clear()

    def change() -> list[int]:
        STATE.append(1)
        return STATE

    run = foretrace.trace(change)
    assert run.result == [1] and STATE == []


def test_what_is_printed_appears_here(capsys: pytest.CaptureFixture[str]) -> None:
    def say() -> None:
        print("to output, ä")
        print("to errors", file=sys.stderr)

    foretrace.trace(say)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("to output, ä\n", "to errors\n")


def test_more_than_a_pipe_holds_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    foretrace.trace(lambda: print("x" * 300_000))
    assert capsys.readouterr().out == "x" * 300_000 + "\n"


def test_what_is_printed_goes_where_this_process_prints() -> None:
    script = "import foretrace\nprint('before')\nforetrace.trace(print, 'within')\nprint('after')\n"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["before", "within", "after"] and done.stderr == ""


def test_an_exception_is_raised_here_with_its_traceback() -> None:
    def fail() -> None:
        raise ValueError("no such thing")

    with pytest.raises(foretrace.TracedFunctionError, match=r"fail: raised ValueError: no such thing") as raised:
        foretrace.trace(fail)
    assert isinstance(raised.value.__cause__, ValueError)
    (note,) = raised.value.__notes__
    assert HERE in note and "in fail" in note and 'tracing.py", line' not in note.replace(HERE, "")
    assert raised.value.trace.exit_code == 1


def test_an_exception_that_cannot_be_pickled_is_named() -> None:
    class OwnError(Exception):
        pass

    def fail() -> None:
        raise OwnError("of its own")

    with pytest.raises(foretrace.ForetraceError, match="of its own") as raised:
        foretrace.trace(fail)
    assert raised.value.__cause__ is None


def test_a_result_that_cannot_be_pickled_stays_there() -> None:
    run = foretrace.trace(lambda: lambda: 1)
    assert run.exit_code == 0
    with pytest.raises(foretrace.ForetraceError, match="stayed in the child process: function cannot be pickled"):
        run.result  # noqa: B018


@pytest.mark.parametrize(("given", "code"), [(None, 0), (3, 3), ("a message", 1)])
def test_a_function_may_exit(given: object, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    run = foretrace.trace(sys.exit, given)
    assert run.exit_code == code and run.result is None
    assert ("a message" in capsys.readouterr().err) == (given == "a message")


def test_a_process_that_ends_at_once_has_no_result() -> None:
    run = foretrace.trace(os._exit, 5)
    assert run.exit_code == 5
    with pytest.raises(foretrace.ForetraceError, match="there is no result"):
        run.result  # noqa: B018
    run = foretrace.trace(lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert run.exit_code is None and not run.signature.provenance.complete and "SIGKILL" in repr(run)


def test_an_interrupt_of_the_function_is_one_here() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        foretrace.trace(interrupted)


def test_an_interrupt_here_reaches_the_function() -> None:
    def wait() -> None:
        os.kill(os.getppid(), signal.SIGINT)
        threading.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        foretrace.trace(wait)


def test_the_third_interrupt_kills_a_function_that_does_not_end() -> None:
    def wait() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(0.05)

    with pytest.raises(KeyboardInterrupt):
        foretrace.trace(wait)


def test_a_traced_function_cannot_trace() -> None:
    def nested() -> str:
        try:
            foretrace.trace(count, 3)
        except foretrace.ForetraceError as error:
            return str(error)
        return ""

    assert "is being traced already" in foretrace.trace(nested).result


def test_a_block_is_traced_and_does_not_run_here() -> None:
    times = 3
    done: list[int] = []
    with foretrace.trace() as run:
        done.append(1)
        for _ in range(times):
            count(100)
    assert done == []
    (loop,) = [loop for loop in loops_of(run, "count") if loop.kind == "code"]
    assert loop.entries == 3
    (own,) = [loop for loop in run.signature.loops if loop.function == "test_a_block_is_traced_and_does_not_run_here"]
    assert Path(own.file).name == HERE and own.iterations == 3
    assert run.signature.provenance.command[0].startswith(HERE)


def test_a_block_of_a_module(tmp_path: Path) -> None:
    script = tmp_path / "block.py"
    script.write_text(
        "import foretrace\nn = 10\nwith foretrace.trace() as run:\n    total = sum(k * n for k in range(n))\n"
        "    print(total)\nassert 'total' not in globals()\nprint(run.exit_code, len(run.signature.loops))\n"
    )
    done = subprocess.run([sys.executable, "-P", str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["450", "0", "1"]


def test_a_block_that_raises_does_so_here_and_tracing_goes_back_to_what_it_was() -> None:
    seen: list[str] = []

    def watch(frame: object, event: str, argument: object) -> None:
        seen.append(event)

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        with foretrace.trace():
            count(3)
        assert sys.gettrace() is watch
    finally:
        sys.settrace(before)
    with (
        pytest.raises(foretrace.TracedFunctionError, match="raised ZeroDivisionError") as raised,
        foretrace.trace(),
    ):
        1 / 0  # noqa: B018
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_an_exception_within_a_block_of_another_manager_is_not_swallowed() -> None:
    with contextlib.suppress(KeyError), foretrace.trace():
        count(2)
    with pytest.raises(KeyError):
        with foretrace.trace():
            count(2)
        raise KeyError


def test_blocks_that_cannot_run_by_themselves_are_refused() -> None:
    def yields() -> Iterator[int]:
        with foretrace.trace():
            yield 1

    with pytest.raises(foretrace.ForetraceError, match="has a yield"):
        next(yields())
    for _ in range(2):
        with pytest.raises(foretrace.ForetraceError, match="'break' outside loop"), foretrace.trace():
            break
    with pytest.raises(foretrace.ForetraceError, match="lines of its own"):  # noqa: SIM117
        with foretrace.trace(): pass  # fmt: skip # noqa: E701
    with pytest.raises(foretrace.ForetraceError, match="last item"), foretrace.trace(), contextlib.nullcontext():
        pass
    with pytest.raises(foretrace.ForetraceError, match="statement of its own"):
        contextlib.ExitStack().enter_context(foretrace.trace())
    with pytest.raises(foretrace.ForetraceError, match="not at hand"):
        exec("with foretrace.trace():\n    pass\n", {"foretrace": foretrace})
    assert "with foretrace.trace()" in repr(foretrace.trace())


def test_options_that_do_not_fit_are_errors() -> None:
    with pytest.raises(foretrace.ForetraceError, match="accuracy 'best' is not known: auto, low"):
        foretrace.trace("ls", accuracy="best")
    with pytest.raises(foretrace.ForetraceError, match="python_core 'fast' is not known"):
        foretrace.trace(count, 3, python_core="fast")
    with pytest.raises(foretrace.ForetraceError, match="trace it as a program"):
        foretrace.trace(count, 3, follow_children=True)
    with pytest.raises(foretrace.ForetraceError, match="no such program"):
        foretrace.trace("no-such-program-here")
    with pytest.raises(TypeError, match="text, paths or numbers"):
        foretrace.trace("ls", ["-l"])


def test_the_other_core_follows_functions_as_well() -> None:
    run = foretrace.trace(count, 50, python_core="settrace", hierarchies="L1=4K/4/64")
    assert [loop.iterations for loop in loops_of(run, "count") if loop.kind == "code"] == [50]
    assert [one.hierarchy.levels[0].size_bytes for one in run.signature.hierarchies] == [4096]


def test_a_stream_is_kept_and_simulated(tmp_path: Path) -> None:
    path = tmp_path / "count.fts"
    run = foretrace.trace(count, 300, keep_stream=path)
    simulation = foretrace.simulate(path, "L1=4K/4/64")
    assert simulation.loads == run.signature.totals.loads == 300
    with pytest.raises(foretrace.ForetraceError, match="exists"):
        foretrace.trace(count, 3, keep_stream=path)
    foretrace.trace(count, 3, keep_stream=path, force=True)
    with pytest.raises(foretrace.ForetraceError, match="one process"):
        foretrace.trace("ls", keep_stream=tmp_path / "ls.fts", follow_children=True)


def test_programs_are_traced_by_name_and_arguments(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text("import sys\nprint(sys.argv[1:])\nsys.exit(4)\n")
    run = foretrace.trace(script, 7, "x")
    assert run.exit_code == 4 and run.signature.provenance.command[1:] == ("7", "x")
    assert foretrace.trace([str(script)], "y").exit_code == 4
    run.save(tmp_path / "own.sig")
    assert foretrace.info(tmp_path / "own.sig").provenance.exit_code == 4
    with pytest.raises(foretrace.ForetraceError, match="no result"):
        run.result  # noqa: B018
