"""Tracing from Python: programs, functions of this interpreter, and blocks of code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from foretrace.base.errors import ForetraceError, ProgramError, quoted
from foretrace.tracer.python.forked import Outcome, called
from foretrace.tracer.python.program import PythonCore
from foretrace.tracer.recording.recording import Ending, signal_name
from foretrace.tracer.sampling.burst_schedule import Accuracy
from foretrace.tracer.session.launch import CompiledProgram, PythonCall, PythonProgram, launch_of
from foretrace.tracer.session.options import TraceOptions
from foretrace.tracer.session.session import Progress
from foretrace.tracer.tracing import Traced, trace_program

from .blocks import Block, SkipBlock
from .hierarchies import HierarchyLike, wanted_hierarchies
from .machines import MachineLike
from .measurements import command_of
from .signatures import Signature, described
from .views import Shown, ShownTable, shown_as

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trace(Shown):
    """A traced run: its `signature`, and how the program ended.

    `explanation` says in one line what the ending leaves open. `outcome` is that of a traced function; None
    for programs, and for a function whose process ended in its middle.
    """

    signature: Signature
    ending: Ending
    explanation: str = ""
    outcome: Outcome | None = None

    @property
    def exit_code(self) -> int | None:
        """The program's exit code; None if a signal ended it."""
        return self.ending.exit_code

    @property
    def result(self) -> Any:
        """Result of the traced function, as a copy.

        Raises:
            ForetraceError: it did not come back: what was traced is no function, its process ended before it returned,
                or the result cannot be pickled.
        """
        if self.outcome is None:
            raise ForetraceError("there is no result: it was no function, or its process ended before it returned")
        if self.outcome.unpicklable:
            raise ForetraceError(f"the result stayed in the child process: {self.outcome.unpicklable}")
        return self.outcome.result

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the signature file; an existing one is replaced only with `force`.

        Raises:
            OutputError: the file exists, or cannot be written.
        """
        self.signature.save(path, force=force)

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each loop, as `info(trace).to_dataframe()`."""
        return self.signature.to_dataframe()

    def _line(self) -> str:
        if self.ending.signal_number is not None:
            return f"{described(self.signature)}; ended by {signal_name(self.ending.signal_number)}"
        return described(self.signature) + (f"; ended with exit code {self.exit_code}" if self.exit_code else "")

    def _table(self) -> ShownTable:
        return self.signature._table()


class TracedFunctionError(ProgramError):
    """A traced function or block raised an exception.

    `trace` is the run until then. The exception itself is the cause (`__cause__`) where it could be pickled; its
    traceback in the child is a note.
    """

    def __init__(self, message: str, trace: Trace) -> None:
        """`trace` is the run until then."""
        super().__init__(message)
        self.trace = trace


@dataclass(frozen=True, slots=True)
class _Tracer:
    """Options of a trace, and the place where the stream is kept."""

    options: TraceOptions
    keep_stream: Path | None
    force: bool
    on_progress: Callable[[Progress], None]

    def trace(self, launch: CompiledProgram | PythonProgram | PythonCall) -> Trace:
        if self.keep_stream is None:
            return trace_of(trace_program(launch, self.options, self.on_progress))
        from foretrace.tracer import kept_stream
        from foretrace.tracer.stored.stored_stream import StreamWriter

        with StreamWriter(self.keep_stream, force=self.force) as keep:
            traced = trace_program(launch, self.options, self.on_progress, keep)
            kept_stream.commit(keep, traced)
        return trace_of(traced)

    def trace_function(self, function: Callable[[], object], name: str) -> Trace:
        made = self.trace(PythonCall(function, name))
        outcome = made.outcome
        if outcome is not None and isinstance(outcome.exception, KeyboardInterrupt):
            raise KeyboardInterrupt
        if outcome is not None and outcome.error:
            raised = TracedFunctionError(f"{name}: raised {outcome.error}", made)
            raised.add_note(f"in the traced process:\n{outcome.traceback.rstrip()}")
            raise raised from outcome.exception
        return made


class BlockTracer:
    """Context manager that `foretrace.trace()` gives for a `with` statement, whose body is traced and does not run
    here."""

    def __init__(self, tracer: _Tracer) -> None:
        """`tracer` says how."""
        self._tracer = tracer

    def __enter__(self) -> Trace:
        """Trace the body in a fork of this interpreter.

        Raises:
            TracedFunctionError: it raised an exception.
            ForetraceError: it cannot run by itself.
        """
        block = Block(sys._getframe(1))
        traced = self._tracer.trace_function(block.function(), block.name)
        self._block = block
        block.skip()
        return traced

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        """End at the statement."""
        self._block.restore()
        return kind is SkipBlock

    def __repr__(self) -> str:
        """Text that says how to use it."""
        return "<BlockTracer: use it as `with foretrace.trace() as run:`>"


@overload
def trace(
    *,
    hierarchies: HierarchyLike | Iterable[HierarchyLike] = ...,
    machines: MachineLike | Iterable[MachineLike] = ...,
    python_core: str = ...,
    keep_stream: str | os.PathLike[str] | None = ...,
    force: bool = ...,
    on_progress: Callable[[Progress], None] = ...,
) -> BlockTracer: ...
@overload
def trace(
    program: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Callable[..., object],
    /,
    *arguments: Any,
    hierarchies: HierarchyLike | Iterable[HierarchyLike] = ...,
    machines: MachineLike | Iterable[MachineLike] = ...,
    accuracy: str = ...,
    seed: int | None = ...,
    follow_children: bool = ...,
    python_core: str = ...,
    keep_stream: str | os.PathLike[str] | None = ...,
    force: bool = ...,
    on_progress: Callable[[Progress], None] = ...,
) -> Trace: ...
def trace(
    program: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Callable[..., object] | None = None,
    /,
    *arguments: Any,
    hierarchies: HierarchyLike | Iterable[HierarchyLike] = (),
    machines: MachineLike | Iterable[MachineLike] = (),
    accuracy: str = "auto",
    seed: int | None = None,
    follow_children: bool = False,
    python_core: str = "markers",
    keep_stream: str | os.PathLike[str] | None = None,
    force: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Trace | BlockTracer:
    """Run a program, a function or a block once, and record its signature: what it did, independent of any machine.

    A program runs unmodified, in a process of its own:

        run = foretrace.trace("./solver", "1000")
        run = foretrace.trace("script.py", "input.csv")

    A function runs in a fork of this interpreter, with all its modules and variables. `run.result` is a copy of what it
    returned; nothing else that it does to variables comes back. What it prints appears here:

        run = foretrace.trace(solve, matrix, 1e-6)

    So does the body of a `with` statement. It does not run here: none of its assignments come back:

        with foretrace.trace() as run:
            solve(matrix, 1e-6)

    In a fork there is only the thread that called: code that waits for other threads of this interpreter, or has used
    GCC's OpenMP here before, may wait forever (^C three times kills it). Child processes share open files, and their
    positions, with this one.

    Args:
        program: a compiled program or a script, by name or path, or a list of it and its arguments; or a function, or
            anything else that can be called; nothing for a `with` statement.
        arguments: its arguments. Keyword arguments: trace `functools.partial(function, key=value)`.
        hierarchies: caches to simulate while it runs, e.g. "L1=48K/12/64,L2=2M/16/64".
        machines: also simulate the caches of these machines. Predictions need neither.
        accuracy: how much of a long run's accesses to record, as `foretrace trace --accuracy` has it.
        seed: decides where bursts of recorded accesses lie; None for chance.
        follow_children: trace the processes that a program forks, too; of Python also those that it starts in the same
            interpreter.
        python_core: how Python code is followed: "markers" in the program's own code, or "settrace" through all code.
        keep_stream: a file to keep all accesses in, compressed, for `simulate`.
        force: replace that file if it is a stored stream.
        on_progress: hears how far the run has come.

    Returns:
        The run: `predict`, `triage`, `curve` and `info` take it as it is, `run.save("run.sig")` keeps it. Of a program
        that fails, or a function that exits, `run.exit_code` has the code.

    Raises:
        TracedFunctionError: the function or block raised an exception, which is the cause.
        ProgramError: there is no such program, or it may not be run.
        EngineError: it cannot be traced here.
        OutputError: `keep_stream` exists, or cannot be written.
        ForetraceError: the options do not go together with the program or with each other.
    """
    options = TraceOptions(
        wanted_hierarchies(hierarchies, machines), accuracy_of(accuracy), seed, follow_children, core_of(python_core)
    )
    tracer = _Tracer(options, None if keep_stream is None else Path(keep_stream), force, on_progress)
    if program is None:
        return BlockTracer(tracer)
    if callable(program):
        return tracer.trace_function(called(program, arguments), name_of(program))
    return tracer.trace(launch_of(command_of(program, arguments)))


def name_of(function: Callable[..., object]) -> str:
    """Name of a function in a signature: module and name, as far as it has them."""
    inner = getattr(function, "func", function)  # of functools.partial
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    return f"{getattr(inner, '__module__', None) or '__main__'}.{name}"


def trace_of(traced: Traced) -> Trace:
    """The library's record as a result."""
    return Trace(shown_as(Signature, traced.signature), traced.ending, traced.explanation, traced.outcome)


def accuracy_of(name: str) -> Accuracy:
    """An accuracy by its name.

    Raises:
        ForetraceError: there is none of that name.
    """
    try:
        return Accuracy(name)
    except ValueError:
        raise ForetraceError(f"accuracy {quoted(str(name))} is not known: {', '.join(Accuracy)}") from None


def core_of(name: str) -> str:
    """A Python core by its name.

    Raises:
        ForetraceError: there is none of that name.
    """
    if name not in [*PythonCore]:
        raise ForetraceError(f"python_core {quoted(str(name))} is not known: {', '.join(PythonCore)}")
    return name
