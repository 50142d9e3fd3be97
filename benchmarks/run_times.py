"""Predicted and measured run times of the suite, on the machine at hand.

The profile is fixed beforehand and never changed here. Each program is traced and predicted through the command line,
as a user would; then all are run natively, in rounds, so that a slow moment of the machine meets each of them; last
they are sampled, to compare the shares of their loops.

What is measured is the time a program keeps a processor busy, its own and the kernel's for it: that is what a
prediction is of. On a quiet machine it is the real time, which is noted as well.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foretrace.errors import EngineError

from . import tools
from .suite import HELD_OUT, INSTALLED_LANGUAGE, Program

Progress = Callable[[str], None]

TOP_LOOPS = 5
SAMPLED_RUNS = 3
NOTABLE_ERROR = 0.05
"""From this on a cause is looked for."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Native runs: processor time of the shortest, how far the median lies above it, real time, time in the kernel.

    Starting Python and importing packages is taken off; it is no part of a script's signature.
    """

    shortest_s: float
    spread: float
    wall_s: float
    kernel_s: float
    runs: int


@dataclass(frozen=True, slots=True)
class LoopShare:
    """A loop's share of the run time, predicted and sampled."""

    function: str
    file: str
    line: int
    bound_by: str
    predicted_share: float
    measured_share: float

    @property
    def difference(self) -> float:
        """Predicted less measured; 0.05 is five points."""
        return self.predicted_share - self.measured_share


@dataclass(frozen=True, slots=True)
class Row:
    """A program of the suite. `loops` are the five in which it was most often seen; none for Python programs.

    `cause` says where most of a notable error comes from, as far as samples tell.
    """

    program: str
    title: str
    language: str
    measured: Measured
    predicted_s: float
    low_s: float
    high_s: float
    bound_by: str
    loops: tuple[LoopShare, ...]
    cause: str

    @property
    def error(self) -> float:
        """Of the prediction, relative to the measurement."""
        return self.predicted_s / self.measured.shortest_s - 1

    @property
    def inside(self) -> bool:
        """The measured time lies in the predicted interval."""
        return self.low_s <= self.measured.shortest_s <= self.high_s

    @property
    def disturbed(self) -> bool:
        """Much real time passed beside the processor's: the machine was busy with something else."""
        return self.measured.wall_s > 1.1 * self.measured.shortest_s

    @property
    def worst_loop_difference(self) -> float | None:
        """The largest difference of a share among `loops`; None where nothing was sampled."""
        return max((abs(loop.difference) for loop in self.loops), default=None)


@dataclass(frozen=True, slots=True)
class Machine:
    """The profile that everything is predicted from. `sha256` is that of its file."""

    name: str
    path: str
    date: str
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Machine:
        """Read what identifies a profile.

        Raises:
            ForetraceError: it is no profile.
        """
        from foretrace.profiles.library import find

        profile = find(str(path))
        return cls(profile.name, str(path), profile.date, hashlib.sha256(path.read_bytes()).hexdigest())


@dataclass(frozen=True, slots=True)
class RunTimes:
    """All rows, and the programs that could not be run, with the reason. Nothing here is anchored."""

    machine: Machine
    rows: tuple[Row, ...]
    skipped: tuple[tuple[str, str], ...]

    @property
    def held_out(self) -> RunTimes | None:
        """Those of our programs that the model was not made with; None if there are none among them."""
        return self._only(row for row in self.rows if row.program in HELD_OUT)

    @property
    def installed(self) -> RunTimes | None:
        """Those of the programs of the system; None if there are none among them."""
        return self._only(row for row in self.rows if row.language == INSTALLED_LANGUAGE)

    def _only(self, rows: Iterable[Row]) -> RunTimes | None:
        chosen = tuple(rows)
        return RunTimes(self.machine, chosen, ()) if chosen else None

    @property
    def mean_absolute_error(self) -> float:
        """Mean of the errors' sizes."""
        return statistics.mean(abs(row.error) for row in self.rows)

    @property
    def worst(self) -> Row:
        """The program with the largest error."""
        return max(self.rows, key=lambda row: abs(row.error))

    @property
    def share_inside(self) -> float:
        """Share of the programs whose measured time lies in the interval."""
        return statistics.mean(row.inside for row in self.rows)

    @property
    def share_of_loops_within_5_points(self) -> float | None:
        """Among the top loops of all programs; None where nothing was sampled."""
        differences = [abs(loop.difference) <= 0.05 for row in self.rows for loop in row.loops]
        return statistics.mean(differences) if differences else None


@dataclass(slots=True)
class _Subject:
    """A program on its way through the steps."""

    program: Program
    command: tuple[str, ...]
    signature: Path
    prediction: dict[str, Any]


def compare(
    chosen: Sequence[Program],
    directory: Path,
    machine: Machine,
    progress: Progress,
    *,
    runs: int,
    small: bool = False,
) -> RunTimes:
    """Trace, predict, measure and sample the programs.

    Args:
        chosen: programs of the suite.
        directory: for executables, signatures and timings; signatures newer than their program are used again.
        machine: the profile of this machine.
        progress: is told what comes next.
        runs: native runs of each.
        small: take the small sizes.

    Raises:
        EngineError: none of the programs could be run.
    """
    subjects, skipped = [], []
    for program in chosen:
        progress(f"{program.name}: tracing and predicting")
        try:
            subjects.append(_predict(program, directory, machine, small=small))
        except EngineError as error:
            skipped.append((program.name, str(error)))
    if not subjects:
        raise EngineError(f"none of the programs could be run; {skipped[0][0]}: {skipped[0][1]}")
    measured = measure_in_rounds(subjects, runs, progress)
    rows = []
    for subject in subjects:
        progress(f"{subject.program.name}: sampling")
        rows.append(_row(subject, measured[subject.program.name], _sampled(subject, machine)))
    return RunTimes(machine, tuple(rows), tuple(skipped))


def _predict(program: Program, directory: Path, machine: Machine, *, small: bool) -> _Subject:
    command = program.command(directory, small=small)
    for package in program.imports:
        tools.measure((command[0], "-c", f"import {package}"))
    signature = directory / f"{program.name}.sig"
    traced = command[1:] if program.is_python else command
    if not signature.exists() or signature.stat().st_mtime < Path(traced[0]).stat().st_mtime:
        options = ("-o", str(signature), "--force", "--machine", machine.path)
        tools.measure([tools.foretrace_executable(), "trace", *options, "--", *traced])
    (prediction,) = tools.foretrace_json("predict", str(signature), "--machine", machine.path)["predictions"]
    return _Subject(program, command, signature, prediction)


def measure_in_rounds(subjects: Sequence[_Subject], runs: int, progress: Progress) -> dict[str, Measured]:
    """Each program once, then each once more, ... By name of the program."""
    costs: dict[str, list[tools.Cost]] = {subject.program.name: [] for subject in subjects}
    starts: dict[str, list[tools.Cost]] = {subject.program.name: [] for subject in subjects}
    for number in range(runs):
        for subject in subjects:
            name, start_up = subject.program.name, subject.program.start_up()
            progress(f"{name}: native run {number + 1} of {runs}")
            costs[name].append(tools.measure(subject.command))
            if start_up:
                starts[name].append(tools.measure(start_up))
    return {name: summarise(costs[name], starts[name]) for name in costs}


def summarise(costs: Sequence[tools.Cost], starts: Sequence[tools.Cost]) -> Measured:
    """Of one program; `starts` are what is to be taken off, if anything."""
    start = min(starts, key=lambda cost: cost.cpu_s) if starts else tools.Cost(0.0, 0.0, 0.0)
    shortest = min(costs, key=lambda cost: cost.cpu_s)
    median_s = statistics.median(cost.cpu_s for cost in costs)
    return Measured(
        shortest_s=shortest.cpu_s - start.cpu_s,
        spread=(median_s - shortest.cpu_s) / (shortest.cpu_s - start.cpu_s),
        wall_s=min(cost.wall_s for cost in costs) - min((cost.wall_s for cost in starts), default=0.0),
        kernel_s=max(shortest.kernel_s - start.kernel_s, 0.0),
        runs=len(costs),
    )


def _sampled(subject: _Subject, machine: Machine) -> dict[str, Any] | None:
    """The prediction with measured shares; None for what cannot be sampled."""
    if subject.program.is_python:
        return None
    timing = str(subject.signature.with_suffix(".timing"))
    options = ("-o", timing, "--force", "--runs", str(SAMPLED_RUNS))
    tools.measure([tools.foretrace_executable(), "time", *options, "--", *subject.command])
    return tools.foretrace_json("predict", str(subject.signature), "--machine", machine.path, "--timing", timing)


def _row(subject: _Subject, measured: Measured, sampled: dict[str, Any] | None) -> Row:
    prediction = subject.prediction
    regions = [] if sampled is None else sampled["predictions"][0]["loops"]
    regions = [region for region in regions if region["measured_share"] is not None]
    row = Row(
        program=subject.program.name,
        title=subject.program.title,
        language=subject.program.language,
        measured=measured,
        predicted_s=prediction["time_s"],
        low_s=prediction["low_s"],
        high_s=prediction["high_s"],
        bound_by=prediction["bound_by"],
        loops=top_loops(regions),
        cause="",
    )
    if abs(row.error) < NOTABLE_ERROR:
        return row
    return replace(row, cause=cause_of(regions, row.predicted_s, measured))


def top_loops(regions: Sequence[dict[str, Any]]) -> tuple[LoopShare, ...]:
    """The loops with most samples, most first."""
    loops = [region for region in regions if region["kind"] == "loop" and region["measured_share"] > 0]
    loops.sort(key=lambda region: -region["measured_share"])
    return tuple(
        LoopShare(
            function=region["function"],
            file=Path(region["file"]).name,
            line=region["line"],
            bound_by=region["bound_by"],
            predicted_share=region["share"],
            measured_share=region["measured_share"],
        )
        for region in loops[:TOP_LOOPS]
    )


def cause_of(regions: Sequence[dict[str, Any]], predicted_s: float, measured: Measured) -> str:
    """Where predicted and sampled time differ most: a loop, a function, or code that was not traced."""
    if not regions:
        return ""
    unseen_s = (1 - sum(region["measured_share"] for region in regions)) * measured.shortest_s
    candidates = [(-unseen_s, f"code that was not traced: {unseen_s:.3g} s sampled")]
    for region in regions:
        sampled_s = region["measured_share"] * measured.shortest_s
        place = f"{Path(region['file']).name}:{region['line']}" if region["file"] else Path(region["module"]).name
        text = f"{place} {region['function']}: {region['time_s']:.3g} s predicted, {sampled_s:.3g} s sampled"
        candidates.append((region["time_s"] - sampled_s, f"{text} ({region['bound_by']})"))
    wanted = 1 if predicted_s > measured.shortest_s else -1
    return max(candidates, key=lambda candidate: wanted * candidate[0])[1]
