"""Predicted and measured run times of the suite, on the machine at hand.

The profile is fixed beforehand and never changed here. Each program is traced and predicted through the command line,
as a user would; then all are run natively, in rounds, so that a slow moment of the machine meets each of them, and
beside a reference loop, which tells whether it was one; last compiled ones are sampled, to compare the shares of their
loops.

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

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.harness.machine_facts import pinned
from foretrace.benchmarks.harness.native_runs import Measured, Timed, measure_in_rounds
from foretrace.benchmarks.harness.reference_loop import ReferenceLoop
from foretrace.benchmarks.harness.suite import HELD_BACK, HELD_OUT, INSTALLED_LANGUAGE, TEXTBOOK, Program
from foretrace.profiles.library import content, find
from foretrace.profiles.profile import Profile

Progress = Callable[[str], None]

TOP_LOOPS = 5
SAMPLED_RUNS = 3
NOTABLE_ERROR = 0.05
"""From this on a cause is looked for."""


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

    `at_clock_s` is what is predicted for the clock beside the measured time, where that is known; `convolution_s` what
    the convolution as published predicts (equation 1 of Carrington et al., ICS'11), without the core model.

    `cause` says where most of a notable error comes from, as far as samples tell, or why there are none. The checksums
    are those of what was run (the executable, or the script) and of the timing that the shares are from.
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
    executable_sha256: str | None = None
    timing_sha256: str | None = None
    at_clock_s: float | None = None
    convolution_s: float | None = None

    @property
    def error(self) -> float:
        """Error of the prediction, relative to the measurement."""
        return self.predicted_s / self.measured.time_s - 1

    @property
    def error_at_clock(self) -> float | None:
        """Relative error of the prediction for the clock that was measured beside the runs."""
        return None if self.at_clock_s is None else self.at_clock_s / self.measured.time_s - 1

    @property
    def error_of_convolution(self) -> float | None:
        """Relative error of the convolution's prediction."""
        return None if self.convolution_s is None else self.convolution_s / self.measured.time_s - 1

    @property
    def error_alone(self) -> float | None:
        """Error of the prediction, relative to the time without a neighbour; None where that is not known."""
        alone = self.measured.alone
        return self.predicted_s / alone.time_s - 1 if alone is not None and alone.time_s > 0 else None

    @property
    def beside_a_neighbour(self) -> bool:
        """No run was without one."""
        return not self.measured.undisturbed_runs

    @property
    def inside(self) -> bool:
        """The measured time lies in the predicted interval."""
        return self.low_s <= self.measured.time_s <= self.high_s

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

    path: str
    sha256: str
    profile: Profile

    @classmethod
    def of(cls, name_or_path: str) -> Machine:
        """Read what identifies a profile: one that comes with foretrace, or a file.

        Raises:
            ForetraceError: it is no profile.
        """
        profile = find(name_or_path)
        return cls(name_or_path, _sha256(content(name_or_path)), profile)


@dataclass(frozen=True, slots=True)
class RunTimes:
    """All rows, and the programs that could not be run, with the reason. Nothing here is anchored."""

    machine: Machine
    rows: tuple[Row, ...]
    skipped: tuple[tuple[str, str], ...]

    @property
    def held_out(self) -> RunTimes | None:
        """Rows of our programs that the model was not made with; None if there are none."""
        return self._only(row for row in self.rows if row.program in HELD_OUT)

    @property
    def held_back(self) -> RunTimes | None:
        """All that the model was not made with, textbook kernels and programs of the system among them; None if there
        are none."""
        return self._only(row for row in self.rows if row.program in HELD_BACK)

    @property
    def textbook(self) -> RunTimes | None:
        """The textbook kernels; None if there are none among them."""
        return self._only(row for row in self.rows if row.program in TEXTBOOK)

    @property
    def installed(self) -> RunTimes | None:
        """Rows of the system's programs; None if there are none."""
        return self._only(row for row in self.rows if row.language == INSTALLED_LANGUAGE)

    def _only(self, rows: Iterable[Row]) -> RunTimes | None:
        chosen = tuple(rows)
        return RunTimes(self.machine, chosen, ()) if chosen else None

    @property
    def mean_absolute_error(self) -> float:
        """Mean absolute error of the predictions."""
        return statistics.mean(abs(row.error) for row in self.rows)

    @property
    def mean_absolute_error_alone(self) -> float | None:
        """Mean absolute error of the programs whose time without a neighbour is known; None where there are none."""
        return _mean_size_of_known(row.error_alone for row in self.rows)

    @property
    def mean_absolute_error_at_clock(self) -> float | None:
        """Mean absolute error of predictions for the clock beside each program's runs; None where none is known."""
        return _mean_size_of_known(row.error_at_clock for row in self.rows)

    @property
    def mean_absolute_error_of_convolution(self) -> float | None:
        """Mean absolute error of the convolution as published; None where nothing was predicted by it."""
        return _mean_size_of_known(row.error_of_convolution for row in self.rows)

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


def _mean_size_of_known(errors: Iterable[float | None]) -> float | None:
    sizes = [abs(error) for error in errors if error is not None]
    return statistics.mean(sizes) if sizes else None


@dataclass(slots=True)
class _Subject:
    """A program on its way through the steps."""

    program: Program
    command: tuple[str, ...]
    signature: Path
    prediction: dict[str, Any]
    convolution_s: float | None = None

    @property
    def traced(self) -> tuple[str, ...]:
        """Command that is traced: of Python programs the script, without Python."""
        return _traced(self.program, self.command)

    @property
    def timing(self) -> Path:
        """File that is written when it is sampled."""
        return self.signature.with_suffix(".timing")


def compare(
    chosen: Sequence[Program],
    directory: Path,
    machine: Machine,
    progress: Progress,
    *,
    runs: int,
    small: bool = False,
    under: Sequence[str] = (),
) -> RunTimes:
    """Trace, predict, measure and sample the programs.

    Args:
        chosen: programs of the suite.
        directory: for executables, signatures and timings; signatures newer than their program are used again.
        machine: the profile of this machine.
        progress: is told what comes next.
        runs: native runs of each.
        small: take the small sizes.
        under: a command that the programs are run by, such as an emulator: the machine is what it makes of this one.

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
    timed = [_timed(subject, tuple(under)) for subject in subjects]
    loop = ReferenceLoop() if under else ReferenceLoop.of(machine.profile)
    loop.learn()
    measured = measure_in_rounds(timed, runs, loop, progress)
    rows = []
    for subject in subjects:
        progress(f"{subject.program.name}: sampling")
        sampled, reason = None, ""
        try:
            sampled = None if under or subject.program.is_python else _sampled(subject, machine)
        except EngineError as error:  # such as that it was traced under another path
            reason = f"not sampled: {error}"
        row = _row(subject, measured[subject.program.name], sampled, machine)
        rows.append(replace(row, cause=reason) if reason else row)
    return RunTimes(machine, tuple(rows), tuple(skipped))


def _timed(subject: _Subject, under: tuple[str, ...]) -> Timed:
    start_up = subject.program.start_up()
    return Timed(subject.program.name, under + subject.command, under + start_up if start_up else None)


def _traced(program: Program, command: tuple[str, ...]) -> tuple[str, ...]:
    return command[1:] if program.is_python else command


def _predict(program: Program, directory: Path, machine: Machine, *, small: bool) -> _Subject:
    command = program.command(directory, small=small)
    for package in program.imports:
        tools.measure((command[0], "-c", f"import {package}"))
    signature, traced = directory / f"{program.name}.sig", _traced(program, command)
    if not tools.has_whole_run(signature, Path(traced[0])):
        options = ("-o", str(signature), "--force", "--machine", machine.path)
        tools.measure([tools.foretrace_executable(), "trace", *options, "--", *traced])
    published = _predicted(signature, machine, "--model", "convolution")
    return _Subject(program, command, signature, _predicted(signature, machine), float(published["time_s"]))


def _predicted(signature: Path, machine: Machine, *options: str) -> dict[str, Any]:
    """Prediction of `foretrace predict --json` for one machine."""
    document = tools.foretrace_json("predict", str(signature), "--machine", machine.path, *options)
    (prediction,) = document["predictions"]
    assert isinstance(prediction, dict)
    return prediction


def _sampled(subject: _Subject, machine: Machine) -> dict[str, Any]:
    """The prediction with measured shares."""
    timing = str(subject.timing)
    options = ["-o", timing, "--force", "--runs", str(SAMPLED_RUNS)]
    with pinned():
        tools.measure([tools.foretrace_executable(), "time", *options, "--", *subject.command])
    return tools.foretrace_json("predict", str(subject.signature), "--machine", machine.path, "--timing", timing)


def _at_clock(subject: _Subject, machine: Machine, clock_hz: float | None) -> float | None:
    """Time predicted for a clock, if it is known."""
    if clock_hz is None:
        return None
    return float(_predicted(subject.signature, machine, "--clock", f"{clock_hz / 1e9}")["time_s"])


def _row(subject: _Subject, measured: Measured, sampled: dict[str, Any] | None, machine: Machine) -> Row:
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
        executable_sha256=_sha256(Path(subject.traced[0]).read_bytes()),
        timing_sha256=None if sampled is None else _sha256(subject.timing.read_bytes()),
        at_clock_s=_at_clock(subject, machine, measured.time_clock_hz),
        convolution_s=subject.convolution_s,
    )
    if abs(row.error) < NOTABLE_ERROR:
        return row
    return replace(row, cause=cause_of(regions, row.predicted_s, measured))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


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
    """Place where predicted and sampled time differ most: a loop, a function, or code that was not traced."""
    if not regions:
        return ""
    unseen_s = (1 - sum(region["measured_share"] for region in regions)) * measured.time_s
    candidates = [(-unseen_s, f"code that was not traced: {unseen_s:.3g} s sampled")]
    for region in regions:
        sampled_s = region["measured_share"] * measured.time_s
        place = f"{Path(region['file']).name}:{region['line']}" if region["file"] else Path(region["module"]).name
        text = f"{place} {region['function']}: {region['time_s']:.3g} s predicted, {sampled_s:.3g} s sampled"
        candidates.append((region["time_s"] - sampled_s, f"{text} ({region['bound_by']})"))
    wanted = 1 if predicted_s > measured.time_s else -1
    return max(candidates, key=lambda candidate: wanted * candidate[0])[1]
