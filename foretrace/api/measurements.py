"""Measuring this machine: its profile, and how long a program takes on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foretrace.base.errors import EngineError
from foretrace.base.units import format_seconds
from foretrace.benchmarks.calibration import calibrate as calibration
from foretrace.reports.model import RATIO, SECONDS, Column, Table, for_programs
from foretrace.reports.renderers import data_frame
from foretrace.tracer.native import timing as native

from .machines import Machine, find_machine
from .views import Shown, ShownTable, shortened, shown_as

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

_RUNS = (
    Column("wall_s", "wall clock", SECONDS),
    *for_programs("user_s", "system_s"),
    Column("cpu_s", "processor", SECONDS),
    Column("slowdown", "slowdown", RATIO),
    Column("clock_hz"),
)


@dataclass(frozen=True, slots=True, repr=False)
class Calibration(Shown, calibration.Calibration):
    """A machine as measured (`machine`), and what made it uncertain (`warnings`)."""

    @property
    def machine(self) -> Machine:
        """The profile, as `predict` takes it."""
        return find_machine(self.profile)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the profile as TOML; an existing one is replaced only with `force`.

        Raises:
            OutputError: the file exists, or cannot be written.
        """
        self.machine.save(path, force=force)

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each figure, as that of the machine."""
        return self.machine.to_dataframe()

    def plot(self, *curves: str) -> Sequence[Axes]:
        """Draw the machine's curves, see `Machine.plot`."""
        return self.machine.plot(*curves)

    def _line(self) -> str:
        return f"of {self.profile.title}, measured in {format_seconds(self.duration_s)}"

    def _table(self) -> ShownTable:
        shown = self.machine._table()
        return ShownTable(
            f"{shown.title}, measured in {format_seconds(self.duration_s)}", shown.headings, shown.rows, shown.total,
            shown.left, (*shown.notes, *(f"warning: {warning}" for warning in self.warnings)),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class Timing(Shown, native.Timing):
    """Time that a program takes here (`time_s`, of a processor), run by run, and where its time goes."""

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the timing for `foretrace predict --timing`; an existing one is replaced only with `force`.

        Raises:
            OutputError: the file exists, or cannot be written.
        """
        from foretrace.tracer.native.timing_file import write_timing

        write_timing(self, Path(path), force=force)

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each run. From a `slowdown` of 1.05 on it had a noisy neighbour."""
        return data_frame(Table(_RUNS, self.runs))

    def _line(self) -> str:
        return f"of {shortened(' '.join(self.command), 40)}: {format_seconds(self.time_s)} in {len(self.runs)} runs"

    def _table(self) -> ShownTable:
        columns = (Column("", "run", value=lambda row: row[0]), *(one.within(lambda row: row[1]) for one in _RUNS))
        headings = ("run", "processor", "wall clock", "slowdown")
        return ShownTable.of(self._line(), Table(columns, [*enumerate(self.runs, 1)], headings=headings))


def calibrate(
    name: str = "here",
    *,
    quick: bool = False,
    keep_partial: bool = False,
    gpu: bool = False,
    on_progress: Callable[[float], None] | None = None,
) -> Calibration:
    """Measure this machine, or its GPU: some four minutes, or half a minute if `quick`.

    Args:
        name: name of the profile.
        quick: coarser and faster.
        keep_partial: if interrupted, return what was measured, marked as partial, and do not raise.
        gpu: measure the first CUDA GPU, through CuPy, in place of the host.
        on_progress: hears the done part, from 0 to 1.

    Returns:
        The machine, for `predict`, `triage` and `save`; and warnings of what disturbed the measurement.

    Raises:
        CalibrationError: there is too little memory, or no GPU that can be used.
        KeyboardInterrupt: interrupted, and not `keep_partial`.
    """
    if gpu:
        from foretrace.benchmarks.calibration.gpu_suite import calibrate_gpu, load_cupy

        made = calibrate_gpu(load_cupy(), name=name, quick=quick, progress=on_progress)
    else:
        made = calibration.calibrate(name=name, quick=quick, keep_partial=keep_partial, progress=on_progress)
    return shown_as(Calibration, made)


def time(
    program: str | os.PathLike[str] | Sequence[str],
    *arguments: str | os.PathLike[str],
    runs: int = 1,
    method: str = "auto",
    on_terminal_input: Callable[[], None] = lambda: None,
) -> Timing:
    """Run a program natively, as it is, and time it: what a prediction for this machine is compared with.

    Args:
        program: a compiled program or a script, by name or path; or a list of it and its arguments.
        arguments: its arguments.
        runs: how often to run it.
        method: how to find where its time goes: "perf", "ptrace", or "auto" for the first that the system allows.
        on_terminal_input: called where only the first run can read the terminal's input.

    Returns:
        Times in seconds of a processor, run by run.

    Raises:
        ProgramError: it cannot be run, or does not end the same way each time.
        EngineError: `method` is not possible here.
    """
    from foretrace.benchmarks.harness.reference_loop import ReferenceLoop
    from foretrace.tracer.native.program_input import ProgramInput
    from foretrace.tracer.session.launch import launch_of

    command = command_of(program, arguments)
    words = launch_of(command).command
    loop = ReferenceLoop()
    loop.learn()
    several = runs > 1
    with ProgramInput(several=several) as given:
        if several and given.is_terminal:
            on_terminal_input()
        try:
            timing = native.time_natively(words, runs=runs, method=method, reference=loop, given=given)
        except OSError as error:
            raise EngineError(f"--method {method} is not possible here: {error.strerror or error}") from error
    return shown_as(Timing, timing)


def command_of(
    program: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], arguments: Sequence[object] = ()
) -> tuple[str, ...]:
    """A program's name and arguments as text, from the forms that `trace` and `time` take.

    Raises:
        TypeError: an argument is no text, path or number.
    """
    words = [program] if isinstance(program, (str, os.PathLike)) else [*program]
    for word in (*words, *arguments):
        if not isinstance(word, (str, os.PathLike, int, float)):
            raise TypeError(f"a program's arguments are text, paths or numbers, not {type(word).__name__}")
    return tuple(os.fspath(w) if isinstance(w, (str, os.PathLike)) else str(w) for w in (*words, *arguments))
