"""Programs that nobody here wrote: run times, what to port, and threads, beside first principles and measured times.

The programs are listed in `public_programs.toml`, with their origin, the command that runs them, and what their source
says of the region in question. None of them is part of this project, and nothing is downloaded: `--sources` holds one
folder a program, named as the program or its repository, and `--builds` a TOML file of its user's that says how each is
built: a table a program, with the shell lines `serial` and `openmp`. Without `--builds`, executables lie in the folders
already.

Table A: each program is timed natively, traced, predicted on the machine at hand, and put to an accelerator beside one
core of a host and beside all of them. A verdict is right if what to do with the region is what the source says, and
both speed-ups are within a factor of two of what follows from its work (`first_principles`). Table B: OpenMP programs
with 1, 2 and 4 threads: the replay of one thread over its prediction, and speed-ups on two cores over those measured.
Table C: what loops take on `MEASURED_ACCELERATOR`, launches and kernels, over what the kernels of the programs' own
CUDA versions took there. What fails is a row that says why.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from foretrace.base.errors import EngineError, ForetraceError
from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness.results import (
    MeasuredPrediction,
    Part,
    ResultTable,
    formatted,
    growing,
    prediction_table,
    say,
    times,
)

from .first_principles import Expected, Reference, Work, beside, expected
from .public_runs import Runner, environment_of, measured_threads, scratch_copy

PROGRAMS = Path(__file__).parent / "public_programs.toml"
HOST = "epyc-9654"
ACCELERATOR = "h200-sxm-141gb"
MEASURED_ACCELERATOR = "h200-vm"
THREADS = (1, 2, 4)
WITHIN_ONE_THREAD = 0.02
"""The replay of one thread and its prediction differ by no more."""
WITHIN_SPEEDUP = 0.1
WITHIN = 2.0
"""Both speed-ups are right within this factor of the reference."""
NOTHING_GAINED = 1.1
"""A program of which nothing pays may become so many times as fast all the same: its other loops."""
_MAIN_PART = 0.5
"""A region's answer is that of rows with this share of the time of its largest row."""

Line = Annotated[str, Meta(pattern=r"^[\w.+-]+:\d+-\d+$")]
Answer = Literal["port", "thread", "leave", "none"]
ANSWERS: tuple[Answer, ...] = ("port", "thread")
"""Answers of a costed row."""


class Kernel(Struct, frozen=True, forbid_unknown_fields=True):
    """A loop's kernels in the program's CUDA version: their time on `MEASURED_ACCELERATOR`, all launches together."""

    at: Line
    kernel_s: Annotated[float, Meta(gt=0)]
    what: str


class Program(Struct, frozen=True, forbid_unknown_fields=True):
    """A public program, its input, and what its source says of it; see the head of `public_programs.toml`."""

    name: Annotated[str, Meta(pattern="^[a-z0-9-]{1,40}$")]
    repository: Annotated[str, Meta(pattern=r"^[\w.-]+/[\w.-]+$")]
    commit: Annotated[str, Meta(pattern="^[0-9a-f]{40}$")]
    language: str
    command: tuple[str, ...]
    input: str
    region: tuple[Line, ...]
    expected: Literal["port", "leave"]
    reason: str
    work: Work | None = None
    script: str = ""
    exit_code: int = 0
    threaded_command: tuple[str, ...] = ()
    kernels: tuple[Kernel, ...] = ()

    def __post_init__(self) -> None:
        """Refuse work without a speed-up to expect, and the reverse."""
        if (self.work is None) == (self.expected == "port"):
            raise ValueError(f"{self.name}: work is given for what is ported, and for nothing else")

    def holds(self, file: str, line: int) -> bool:
        """Whether a line of a source file is in the region."""
        return any(_is_at(part, file, line) for part in self.region)


def _is_at(lines: Line, file: str, line: int) -> bool:
    name, first, last = re.fullmatch(r"(.*):(\d+)-(\d+)", lines).groups()  # type: ignore[union-attr]
    return bool(Path(file).name == name and int(first) <= line <= int(last))


class Build(Struct, frozen=True, forbid_unknown_fields=True):
    """Commands with which a user builds a program: shell lines, run in a copy of its folder."""

    serial: tuple[str, ...] = ()
    openmp: tuple[str, ...] = ()


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    reference: Reference
    programs: tuple[Program, ...]


@dataclass(frozen=True, slots=True)
class Triaged:
    """Result of a triage for a region: its answer, and times on the host and on the device of what is ported or
    threaded; the whole program's speed-up."""

    answer: Answer
    host_s: float
    device_s: float
    program_speedup: float

    @property
    def speedup(self) -> float | None:
        """Speed-up of the region on the device; None where nothing of it was costed."""
        return self.host_s / self.device_s if self.device_s else None


@dataclass(frozen=True, slots=True)
class Row:
    """A program in table A. `one` is beside one core, `cores` beside all; None where `problem` says what failed."""

    program: Program
    expected: Expected | None
    native_s: float | None = None
    predicted_s: float | None = None
    one: Triaged | None = None
    cores: Triaged | None = None
    problem: str = ""

    @property
    def is_right(self) -> bool:
        """Whether the answer is what the source says, and both speed-ups are within `WITHIN` of the reference."""
        return not self.problem and not self.wrong

    @property
    def wrong(self) -> str:
        """Description of what is wrong with the answers, for people; empty if nothing is."""
        if self.one is None or self.cores is None:
            return self.problem or "no answer"
        if self.expected is None:
            for found in (self.one, self.cores):
                if found.answer == "port" or found.program_speedup > NOTHING_GAINED:
                    return f"{found.answer}, {found.program_speedup:.2f} times as fast, where nothing pays"
            return ""
        if self.one.answer != "port":
            return f"{self.one.answer}, where porting pays"
        for what, found, wanted in (
            ("one core", self.one, self.expected.over(self.expected.core_s)),
            ("all cores", self.cores, self.expected.over(self.expected.cores_s)),
        ):
            if found.speedup is None:
                return f"no speed-up over {what}"
            ratio = beside(found.speedup, wanted)
            if not 1 / WITHIN <= ratio <= WITHIN:
                return f"{ratio:.2f} of the reference over {what}"
        return ""


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A program in table B: predicted time of one thread, replayed and measured times by number of threads."""

    name: str
    predicted_s: float | None = None
    replayed_s: Mapping[int, float] | None = None
    measured_s: Mapping[int, float | None] | None = None
    problem: str = ""

    @property
    def one_thread(self) -> float | None:
        """The replay of one thread over its prediction, less one."""
        if self.predicted_s is None or self.replayed_s is None:
            return None
        return self.replayed_s[1] / self.predicted_s - 1

    def speedups(self, threads: int) -> tuple[float | None, float | None]:
        """Over one thread: replayed and measured."""
        replayed = None if self.replayed_s is None else self.replayed_s[1] / self.replayed_s[threads]
        one, more = (None, None) if self.measured_s is None else (self.measured_s[1], self.measured_s[threads])
        return replayed, None if one is None or more is None else one / more

    def error(self, threads: int) -> float | None:
        """Relative error of the replayed speed-up."""
        replayed, measured = self.speedups(threads)
        return None if replayed is None or measured is None else replayed / measured - 1


def listed(path: Path = PROGRAMS) -> tuple[Reference, tuple[Program, ...]]:
    """The reference's figures and the programs.

    Raises:
        EngineError: the file cannot be read, or is not as `Program` says.
    """
    try:
        found = msgspec.toml.decode(path.read_bytes(), type=_File)
    except (OSError, msgspec.MsgspecError) as error:
        raise EngineError(f"{path}: {error}") from None
    return found.reference, found.programs


def builds(path: Path) -> dict[str, Build]:
    """Build commands of programs, by name.

    Raises:
        EngineError: the file cannot be read, or is not as `Build` says.
    """
    try:
        return msgspec.toml.decode(path.read_bytes(), type=dict[str, Build])
    except (OSError, msgspec.MsgspecError) as error:
        raise EngineError(f"{path}: {error}") from None


def folder_of(program: Program, sources: Path) -> Path:
    """A program's folder in `sources`: of its name, or of its repository's.

    Raises:
        EngineError: there is none; with where it is from.
    """
    for name in (program.name, program.repository.partition("/")[2]):
        if (sources / name).is_dir():
            return sources / name
    raise EngineError(f"not in {sources}: github.com/{program.repository} at {program.commit[:12]}")


def triaged(document: dict[str, Any], program: Program) -> Triaged:
    """Result for a program's region in a triage's JSON. The host is the faster one of a core and all of them."""
    rows = [row for row in document["instances"] if program.holds(row["file"] or "", row["line"] or 0)]
    largest_s = max((row["host_s"] for row in rows), default=0.0)
    answer: Answer = "leave" if rows else "none"
    for wanted in ANSWERS:
        part_s = sum(row["host_s"] for row in rows if row["answer"] == wanted)
        if answer == "leave" and part_s > 0 and part_s >= _MAIN_PART * largest_s:
            answer = wanted
    costed = [row for row in rows if row["answer"] in ANSWERS and row["accelerator_s"]]
    whole = document["program"]
    before_s = min(whole["host_s"], whole["threads_s"] or whole["host_s"])
    return Triaged(
        answer,
        sum(min(row["host_s"], row["thread_s"] or row["host_s"]) for row in costed),
        sum(row["accelerator_s"] for row in costed),
        before_s / whole["after_s"],
    )


def compare(
    programs: Sequence[Program],
    reference: Reference,
    sources: Path,
    built: Mapping[str, Build] | None,
    machine: str,
    runner: Runner,
    directory: Path,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[Row]:
    """Build, time, trace, predict and triage each program; a failure is a row."""
    for program in programs:
        progress(program.name)
        wanted = None if program.work is None else expected(program.work, reference)
        native_s = predicted_s = None
        try:
            folder = _built(program, sources, built, runner, directory, openmp=False)
            command = _command(program.command, folder)
            runner = replace(runner, exit_code=program.exit_code)
            native_s = runner.native_s(command, folder)
            signature = directory / f"{program.name}.sig"
            runner.trace(command, folder, signature)
            predicted_s = runner.verb("predict", str(signature), "--machine", machine)["predictions"][0]["time_s"]
            devices = ("triage", str(signature), "--host", HOST, "--accelerator", ACCELERATOR)
            one, cores = (triaged(runner.verb(*devices, "--host-cores", number), program) for number in ("1", "all"))
            yield Row(program, wanted, native_s, predicted_s, one, cores)
        except ForetraceError as error:
            yield Row(program, wanted, native_s, predicted_s, problem=str(error))


def compare_threads(
    programs: Sequence[Program],
    sources: Path,
    built: Mapping[str, Build] | None,
    machine: str,
    runner: Runner,
    directory: Path,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[ThreadRow]:
    """Trace each OpenMP program with 1, 2 and 4 threads, replay it on two cores, and run it there."""
    for program in programs:
        if not program.threaded_command:
            continue
        progress(f"{program.name} with {', '.join(map(str, THREADS))} threads")
        try:
            folder = _built(program, sources, built, runner, directory, openmp=True)
            runner = replace(runner, exit_code=program.exit_code)
            commands = {threads: _command(program.threaded_command, folder, threads) for threads in THREADS}
            replayed_s: dict[int, float] = {}
            predicted_s = None
            for threads, command in commands.items():
                signature = directory / f"{program.name}-{threads}.sig"
                runner.trace(command, folder, signature, environment_of(threads), dependences=False)
                replay = runner.verb("replay", str(signature), "--machine", machine, "--cores", "2")
                replayed_s[threads] = replay["makespan_s"]
                if threads == 1:
                    predict = runner.verb("predict", str(signature), "--machine", machine, "--threads", "1")
                    predicted_s = predict["predictions"][0]["time_s"]
            found = measured_threads(runner, commands, folder)
            problem = next((why for _, why in found.values() if why), "")
            yield ThreadRow(
                program.name, predicted_s, replayed_s, {key: time_s for key, (time_s, _) in found.items()}, problem
            )
        except ForetraceError as error:
            yield ThreadRow(program.name, problem=str(error))


def compare_kernels(
    programs: Sequence[Program],
    sources: Path,
    built: Mapping[str, Build] | None,
    runner: Runner,
    directory: Path,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[MeasuredPrediction]:
    """Trace and triage each program whose kernels were measured, for the accelerator that they were measured on."""
    for program in programs:
        if not program.kernels:
            continue
        progress(f"{program.name} on {MEASURED_ACCELERATOR}")
        try:
            folder = _built(program, sources, built, runner, directory, openmp=False)
            signature = directory / f"{program.name}.sig"
            runner = replace(runner, exit_code=program.exit_code)
            runner.trace(_command(program.command, folder), folder, signature)
            device = ("--accelerator", MEASURED_ACCELERATOR)
            rows = runner.verb("triage", str(signature), "--host", HOST, *device)["instances"]
        except ForetraceError as error:
            yield from (kernel_row(program.name, kernel, problem=str(error)) for kernel in program.kernels)
            continue
        yield from (kernel_row(program.name, kernel, *_predicted(rows, kernel)) for kernel in program.kernels)


def kernel_row(name: str, kernel: Kernel, predicted_s: float | None = None, problem: str = "") -> MeasuredPrediction:
    """A row of table C: launches and kernels of a loop."""
    notes = {"loop": kernel.at, "kernels of its CUDA version": kernel.what}
    return MeasuredPrediction(name=name, predicted=predicted_s, measured=kernel.kernel_s, problem=problem, notes=notes)


def _predicted(rows: Sequence[dict[str, Any]], kernel: Kernel) -> tuple[float | None, str]:
    """Seconds of the loops at a kernel's lines that are ported, or why there are none."""
    there = [row for row in rows if _is_at(kernel.at, row["file"] or "", row["line"] or 0)]
    parts = [row["accelerator_parts"] for row in there if row["answer"] == "port"]
    if not parts:
        return None, "not ported" if there else "no row"
    return sum(part["launch_s"] + part["kernel_s"] for part in parts), ""


def _built(
    program: Program,
    sources: Path,
    built: Mapping[str, Build] | None,
    runner: Runner,
    directory: Path,
    *,
    openmp: bool,
) -> Path:
    """The scratch folder of a program, with what its command runs.

    Raises:
        EngineError: the folder is missing, or building fails.
    """
    folder = scratch_copy(folder_of(program, sources), directory, program.name)
    if program.script:
        (folder / "run.py").write_text(program.script.replace("{folder}", str(folder)), encoding="utf-8")
    template = program.threaded_command if openmp else program.command
    runs = Path(_command(template, folder)[0])
    build = (built or {}).get(program.name, Build())
    mark = folder / (".built-openmp" if openmp else ".built")
    if not mark.exists():
        runner.build(build.openmp if openmp else build.serial, folder)
        mark.touch()
    if not runs.exists():
        raise EngineError(f"no {runs.name} in {folder.name}: build it there, or say how in --builds")
    return folder


def _command(template: Sequence[str], folder: Path, threads: int = 1) -> list[str]:
    values = {"{folder}": str(folder), "{python}": sys.executable, "{threads}": str(threads)}
    return [re.sub(r"\{\w+\}", lambda found: values[found[0]], part) for part in template]


HEADINGS = (
    "program", "measured", "predicted", "ratio", "answer", "one core", "reference", "ratio", "all cores", "reference",
    "ratio", "verdict",
)  # fmt: skip
THREAD_HEADINGS = (
    "program", "predicted", "replayed", "difference", "2 threads", "measured", "error", "4 threads", "measured",
    "error", "within",
)  # fmt: skip


def kernel_summary(rows: Sequence[MeasuredPrediction]) -> str:
    """The number of rows of table C within the factor `WITHIN`."""
    return f"{sum(row.is_within(WITHIN) for row in rows)} of {len(rows)} within a factor of {WITHIN:g}"


def cells(row: Row) -> list[str]:
    """A line of table A."""
    ratio = None if row.predicted_s is None or not row.native_s else row.predicted_s / row.native_s
    compared: list[str] = []
    for found, all_cores in ((row.one, False), (row.cores, True)):
        if row.expected is None:
            compared += [times(None if found is None else found.program_speedup), "nothing pays", "-"]
            continue
        speedup = None if found is None else found.speedup
        interval = row.expected.over(row.expected.cores_s if all_cores else row.expected.core_s)
        compared += [
            times(speedup), _interval(interval), _number(None if speedup is None else beside(speedup, interval)),
        ]  # fmt: skip
    answer = "-" if row.one is None or row.cores is None else f"{row.one.answer}, {row.cores.answer}"
    verdict = "right" if row.is_right else f"wrong: {row.wrong}"
    return [
        row.program.name,
        formatted(row.native_s, "s"),
        formatted(row.predicted_s, "s"),
        _number(ratio),
        answer,
        *compared,
        verdict,
    ]


def thread_cells(row: ThreadRow) -> list[str]:
    """A line of table B."""
    speedups: list[str] = []
    for threads in THREADS[1:]:
        replayed, measured = row.speedups(threads)
        speedups += [times(replayed), times(measured), _percent(row.error(threads))]
    replayed_s = None if row.replayed_s is None else row.replayed_s[1]
    return [
        row.name, formatted(row.predicted_s, "s"), formatted(replayed_s, "s"), _percent(row.one_thread), *speedups,
        row.problem or ("yes" if is_within(row) else "no"),
    ]  # fmt: skip


def is_within(row: ThreadRow) -> bool:
    """Whether one thread and all speed-ups of a program are within the bounds of the module."""
    errors = [row.error(threads) for threads in THREADS[1:]]
    return (
        row.one_thread is not None
        and abs(row.one_thread) <= WITHIN_ONE_THREAD
        and all(error is not None and abs(error) <= WITHIN_SPEEDUP for error in errors)
    )


def summary(rows: Sequence[Row]) -> str:
    """Summary of table A: how many are right, and how far predicted times are from measured ones."""
    errors = [abs(row.predicted_s / row.native_s - 1) for row in rows if row.predicted_s and row.native_s]
    right, unanswered = sum(row.is_right for row in rows), sum(row.one is None for row in rows)
    text = f"{right} of {len(rows)} right, {unanswered} without an answer"
    return text + (f"; run times: median error {statistics.median(errors):.0%}" if errors else "")


def thread_summary(rows: Sequence[ThreadRow]) -> str:
    """Summary of table B: how many are within the bounds."""
    single = [abs(row.one_thread) for row in rows if row.one_thread is not None]
    errors = [abs(error) for row in rows for n in THREADS[1:] if (error := row.error(n)) is not None]
    text = f"{sum(error <= WITHIN_ONE_THREAD for error in single)} of {len(rows)} replays of one thread within "
    text += f"{WITHIN_ONE_THREAD:.0%} of its prediction, "
    return (
        text
        + f"{sum(error <= WITHIN_SPEEDUP for error in errors)} of {len(errors)} speed-ups within {WITHIN_SPEEDUP:.0%}"
    )


def table_a(rows: Sequence[Row]) -> ResultTable:
    """Run times and what to port."""
    title = f"{ACCELERATOR} over {HOST}: one core, then all of them"
    return ResultTable(title, HEADINGS, [cells(row) for row in rows])


def table_b(rows: Sequence[ThreadRow]) -> ResultTable:
    """Threads."""
    title = "OpenMP on two cores: replayed and measured"
    return ResultTable(title, THREAD_HEADINGS, [thread_cells(row) for row in rows])


def origins(rows: Sequence[Row]) -> ResultTable:
    """Table of the programs' origins, and what their sources say."""
    entries = [
        [
            one.name, f"[{one.repository}](https://github.com/{one.repository}), {one.commit[:12]}", one.input,
            ", ".join(one.region), one.reason,
        ]
        for one in (row.program for row in rows)
    ]  # fmt: skip
    return ResultTable("programs", ("program", "origin", "input", "region", "what its source says"), entries)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _interval(value: tuple[float, float]) -> str:
    low, high = (f"{end:.3g}" for end in value)
    return f"{low}x" if low == high else f"{low}x to {high}x"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1%}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.machine(parser)
    common.rounds(parser, 3)
    common.realtime(parser)
    common.directory(parser)
    parser.add_argument("--sources", required=True, type=Path, metavar="DIR", help="holds one folder a program")
    parser.add_argument("--builds", type=Path, metavar="FILE", help="TOML: how you build each program")
    parser.add_argument("--programs", type=Path, default=PROGRAMS, metavar="FILE", help="another list of programs")
    parser.add_argument(
        "--limit", type=common.positive_number, default=120.0, metavar="S", help="of each step (default 120)"
    )
    parser.add_argument("--table", choices=("a", "b", "c", "all"), default="all", help="which to make (default all)")
    parser.add_argument("only", nargs="*", metavar="PROGRAM", help="these only")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The tables."""
    reference, programs = listed(options.programs)
    built = None if options.builds is None else builds(options.builds)
    known = {one.name: one for one in programs}
    unknown = [name for name in options.only if name not in known]
    if unknown:
        raise EngineError(f"there is no program {unknown[0]!r}: {', '.join(known)}")
    chosen = [known[name] for name in options.only] or list(programs)
    runner = Runner(options.limit, options.rounds, options.realtime)
    where = (options.sources.absolute(), built)
    machine, directory = options.machine, common.kept(options, scratch)
    rows: list[Row] = []
    if options.table in ("a", "all"):
        for rows in growing(compare(chosen, reference, *where, machine, runner, directory, say)):
            yield table_a(rows)
        yield summary(rows) + "."
    if options.table in ("b", "all"):
        threaded: list[ThreadRow] = []
        for threaded in growing(compare_threads(chosen, *where, machine, runner, directory, say)):
            yield table_b(threaded)
        yield from [thread_summary(threaded) + "."] if threaded else []
    if options.table in ("c", "all"):
        kernels: list[MeasuredPrediction] = []
        for kernels in growing(compare_kernels(chosen, *where, runner, directory, say)):
            yield prediction_table(f"{MEASURED_ACCELERATOR}: predicted and measured", kernels)
        yield from [kernel_summary(kernels) + "."] if kernels else []
    if rows:
        yield origins(rows)
