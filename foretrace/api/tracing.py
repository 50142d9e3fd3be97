"""Tracing from Python: programs, functions of this interpreter, and blocks of code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foretrace.errors import ForetraceError, quoted
from foretrace.tracer.launch import launch_of
from foretrace.tracer.sampling.burst_schedule import Accuracy
from foretrace.tracer.session import Ending, Progress, signal_name
from foretrace.tracer.tracing import Traced, trace_program

from .machines import MachineLike
from .measurements import command_of
from .signatures import Signature, described
from .simulations import HierarchyLike, wanted_hierarchies
from .views import Shown, ShownTable, shown_as

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trace(Shown):
    """A traced run: its `signature`, and how the program ended.

    `explanation` says in one line what the ending leaves open, if anything.
    """

    signature: Signature
    ending: Ending
    explanation: str = ""

    @property
    def exit_code(self) -> int | None:
        """The program's exit code; None if a signal ended it."""
        return self.ending.exit_code

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


def trace(
    program: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *arguments: Any,
    hierarchies: HierarchyLike | Iterable[HierarchyLike] = (),
    machines: MachineLike | Iterable[MachineLike] = (),
    accuracy: str | None = None,
    seed: int | None = None,
    follow_children: bool = False,
    python_core: str = "markers",
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Trace:
    """Run a program once, unmodified, and record its signature: what it did, independent of any machine.

    Args:
        program: a compiled program or a script, by name or path; or a list of it and its arguments.
        arguments: its arguments.
        hierarchies: caches to simulate while it runs, e.g. "L1=48K/12/64,L2=2M/16/64".
        machines: also simulate the caches of these machines. Predictions need neither.
        accuracy: how much of a long run's accesses to record, as `foretrace trace --accuracy` has it.
        seed: decides where bursts of recorded accesses lie; None for chance.
        follow_children: trace the processes that a compiled program forks, too.
        python_core: how Python code is followed: "markers" in the program's own code, or "settrace" through all code.
        on_progress: hears how far the run has come.

    Returns:
        The signature, and how the program ended; `predict`, `triage`, `curve` and `info` take it as it is.

    Raises:
        ProgramError: there is no such program, or it may not be run.
        EngineError: it cannot be traced here.
        ForetraceError: the options do not go together with the program or with each other.
    """
    traced = trace_program(
        launch_of(command_of(program, arguments)),
        wanted_hierarchies(hierarchies, machines),
        on_progress,
        follow_children=follow_children,
        accuracy=accuracy_of(accuracy),
        seed=seed,
        python_core=python_core,
    )
    return trace_of(traced)


def trace_of(traced: Traced) -> Trace:
    """The library's record as a result."""
    return Trace(shown_as(Signature, traced.signature), traced.ending, traced.explanation)


def accuracy_of(name: str | None) -> Accuracy | None:
    """An accuracy by its name.

    Raises:
        ForetraceError: there is none of that name.
    """
    try:
        return None if name is None else Accuracy(name)
    except ValueError:
        raise ForetraceError(f"accuracy {quoted(str(name))} is not known: {', '.join(Accuracy)}") from None
