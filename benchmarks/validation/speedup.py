"""Threaded programs with one thread and with two: times and speed-up predicted, and measured here.

Each program is traced with one thread and with two. Predicted are one and two threads from the trace with two, and two
from the trace with one, where that tells how two would share the work (OpenMP; workers of a pool). Measured is real
time, runs with one thread on one core and with two on two alternating: the speed-up is the shortest with one over the
shortest with two, of Python programs each less the start of the interpreter. Runs in which others had more than a tenth
of these cores do not count, and a program without any that counts is not compared: there was no second core to gain
from.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foretrace.base.errors import EngineError
from foretrace.base.units import format_seconds
from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.harness.cores import CoreRun, run_on, said_of_others, shortest
from foretrace.benchmarks.harness.results import Part, ResultTable, growing, say
from foretrace.benchmarks.harness.threaded import PASSIVE, command_of, has_processes, start_up_of, threaded_programs
from foretrace.profiles.library import find
from foretrace.profiles.profile import Profile
from foretrace.replay.base.records import Limit, Prediction
from foretrace.replay.node.speedup import possible_threads, predict_threads
from foretrace.tracer.signature.file import read_signature

TIE = 0.05
"""Speed-ups that differ by less, relatively, count as equal when ranks are compared."""
ROUNDS = 9
_LEAST_FREE = 3
_MOST_ROUNDS = 4
"""Times the rounds asked for, until as many of them as needed had their cores."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Times with one thread and with two, from one trace. `two_s` is None where the trace does not tell."""

    one_s: float
    two_s: float | None
    limit: Limit = Limit.NONE

    @property
    def speedup(self) -> float | None:
        """Speed-up of two threads over one."""
        return None if self.two_s is None else self.one_s / self.two_s


@dataclass(frozen=True, slots=True)
class Speedup:
    """Speed-up of a program with two threads over one: predicted from the traces with one thread and with two, and
    measured.

    `one_s` and `two_s` are measured; None where the cores were never free, which `problem` says.
    """

    name: str
    from_one: Predicted
    from_two: Predicted
    one_s: float | None
    two_s: float | None
    problem: str = ""

    @property
    def measured(self) -> float | None:
        """The speed-up."""
        return None if self.one_s is None or self.two_s is None else self.one_s / self.two_s

    @property
    def error(self) -> float | None:
        """Error of the speed-up predicted from the trace with two threads: over the measured one, less one."""
        return _over(self.from_two.speedup, self.measured)

    @property
    def error_from_one(self) -> float | None:
        """Error of the speed-up predicted from the trace with one thread: over the measured one, less one."""
        return _over(self.from_one.speedup, self.measured)

    @property
    def one_from_two(self) -> float | None:
        """Error of the time with one thread, predicted from the trace with two: over the measured one, less one."""
        return _over(self.from_two.one_s, self.one_s)

    @property
    def two_from_one(self) -> float | None:
        """Error of the time with two threads, predicted from the trace with one: over the measured one, less one."""
        return _over(self.from_one.two_s, self.two_s)

    def as_json(self) -> dict[str, Any]:
        """Fields and what follows from them."""
        names = ("measured", "error", "error_from_one", "one_from_two", "two_from_one")
        return asdict(self) | {name: getattr(self, name) for name in names}


def _over(predicted: float | None, measured: float | None) -> float | None:
    return None if predicted is None or measured is None else predicted / measured - 1


def compare(
    names: Iterable[str],
    profile: Profile,
    rounds: int,
    realtime: bool,
    directory: Path,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[Speedup]:
    """Trace, predict and run each program.

    Raises:
        ForetraceError: one cannot be built, traced, predicted or run; or this process may use one core only.
    """
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise EngineError("two threads need two cores, and there is one")
    for name in names:
        progress(f"{name} with one thread and with two")
        command = command_of(name, directory)
        from_one, from_two = (
            _predicted(_traced(name, command, threads, directory), threads, profile) for threads in (1, 2)
        )
        start_up = start_up_of(name)
        runs: dict[int, list[CoreRun]] = {0: [], 1: [], 2: []} if start_up else {1: [], 2: []}
        for number in range(rounds * _MOST_ROUNDS):
            free = min(sum(run.is_free for run in some) for some in runs.values())
            if number >= rounds and free >= _LEAST_FREE:
                break
            for threads, some in runs.items():
                line = [*command, str(threads)] if threads else start_up
                some.append(_run(line, cores[: max(threads, 1)], realtime))
        found = [shortest(some) for some in runs.values()]
        if any(run is None for run in found):
            yield Speedup(name, from_one, from_two, None, None, said_of_others(runs[2]))
            continue
        *before, one_s, two_s = (run.wall_s for run in found if run is not None)
        yield Speedup(name, from_one, from_two, one_s - sum(before), two_s - sum(before))


def _predicted(signature_file: Path, traced: int, profile: Profile) -> Predicted:
    signature = read_signature(signature_file)
    (one,) = predict_threads(signature, profile, [1])
    allowed = possible_threads(signature, profile)
    if traced == 1 and allowed is not None:  # its one worker's trace says nothing of two
        return Predicted(one.time_s, None)
    (two,) = predict_threads(signature, profile, [2])
    return Predicted(one.time_s, two.time_s, _limit(two))


def _limit(prediction: Prediction) -> Limit:
    return Limit.NONE if prediction.scaling is None else prediction.scaling.limit


def _traced(name: str, command: Sequence[str], threads: int, directory: Path) -> Path:
    signature = directory / f"{name}-{threads}.sig"
    program = command[1:] if command[0] == sys.executable else command
    follow = ["--follow-children"] if has_processes(name) else []
    line = [
        tools.foretrace_executable(),
        "trace",
        "--force",
        *follow,
        "-o",
        str(signature),
        "--",
        *program,
        str(threads),
    ]
    result = subprocess.run(line, capture_output=True, text=True, check=False, env=os.environ | PASSIVE)
    if result.returncode:
        raise EngineError(f"{name}: foretrace trace failed with: {result.stderr.strip()}")
    return signature


def _run(command: Sequence[str], cores: Sequence[int], realtime: bool) -> CoreRun:
    places = ",".join(f"{{{core}}}" for core in cores)
    return run_on(
        [command], [cores], realtime=realtime,
        environment=PASSIVE | {"OMP_PROC_BIND": "true", "OMP_PLACES": places},
    )  # fmt: skip


def compared(rows: Sequence[Speedup]) -> tuple[Speedup, ...]:
    """The programs that were measured."""
    return tuple(row for row in rows if row.measured is not None)


def mean_error(rows: Sequence[Speedup], what: str = "error") -> float | None:
    """The mean of the absolute errors: of `error`, `error_from_one`, `one_from_two` or `two_from_one`."""
    errors = [abs(error) for row in rows if (error := getattr(row, what)) is not None]
    return statistics.fmean(errors) if errors else None


def pairs_in_order(rows: Sequence[Speedup]) -> tuple[int, int]:
    """Pairs of programs whose measured speed-ups differ by `TIE` or more: how many are ranked right, and how many."""
    known = [
        (predicted, measured)
        for row in rows
        if (predicted := row.from_two.speedup) is not None and (measured := row.measured) is not None
    ]
    found = [(left, right) for left, right in itertools.combinations(known, 2) if abs(left[1] / right[1] - 1) >= TIE]
    return sum((left[0] > right[0]) == (left[1] > right[1]) for left, right in found), len(found)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.machine(parser)
    common.rounds(parser, ROUNDS)
    common.realtime(parser)
    common.names(parser, threaded_programs(), "PROGRAM")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The table and its summary."""
    rows: list[Speedup] = []
    names = options.names or threaded_programs()
    for rows in growing(compare(names, find(options.machine), options.rounds, options.realtime, scratch, say)):
        yield speedup_table(rows)
    yield from remarks(rows)


def speedup_table(rows: Sequence[Speedup]) -> ResultTable:
    """Times and speed-ups, the largest measured speed-up first."""
    headings = (
        "program", "one", "two", "measured", "from two", "error", "bound by", "from one", "error", "1 from 2",
        "2 from 1",
    )  # fmt: skip
    cells = [
        [
            row.name, *("-" if time_s is None else format_seconds(time_s) for time_s in (row.one_s, row.two_s)),
            _number(row.measured), _number(row.from_two.speedup), _percent(row.error), str(row.from_two.limit),
            _number(row.from_one.speedup), _percent(row.error_from_one), _percent(row.one_from_two),
            _percent(row.two_from_one),
        ]
        for row in sorted(rows, key=lambda row: -(row.measured or 0.0))
    ]  # fmt: skip
    title = "speed-up of two threads over one, from the traces with two and with one"
    return ResultTable(title, headings, cells, [row.as_json() for row in rows])


def remarks(rows: Sequence[Speedup]) -> Iterator[str]:
    """Remarks below the table: what the columns mean, what was not compared and why, and the summary."""
    yield "1 from 2: error of the time with one thread, predicted from the trace with two; 2 from 1: the reverse"
    for row in rows:
        if row.problem:
            yield f"not compared: {row.name}: no second core was free: {row.problem}"
    found = compared(rows)
    if found:
        yield said_of(found)


def said_of(rows: Sequence[Speedup]) -> str:
    """Mean errors and ranks, for people."""
    right, pairs = pairs_in_order(rows)
    means = [
        f"{_percent(mean_error(rows, what)).removeprefix('+')} {text}"
        for what, text in (("error", "from the trace with two threads"), ("error_from_one", "from that with one"))
        if mean_error(rows, what) is not None
    ]
    return (
        f"{len(rows)} programs: mean absolute error of the speed-up {', '.join(means)}; "
        f"{right} of {pairs} pairs that differ by {TIE:.0%} or more are ranked right"
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1%}"
