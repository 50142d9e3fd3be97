"""The time that a program takes undisturbed, on a machine where no whole run ever is.

Another virtual machine on the core's other hardware thread slows down any run of a second for part of it, but not each
millisecond. A program that does the same each time is divided into segments at places that it comes to in the same
order in every run (`stamp_points`). Of each segment the runs count that were at rest there, the tenth of them in which
the segments around it took least, and of its own times in those the median: rest lasts longer than a segment does, and
what a segment was spared by luck says nothing of the ones around it. These times are summed up.

The sum holds all real time from the program's first instruction to its end: its own, page faults and system calls, and
is no more than the shortest of the runs took. Two errors of it are known, and in its interval: segments that were
disturbed in all runs (the sum of least times, and three times as much below it as it became less by the last doubling
of runs), and how much rest counts as such (the same of a quarter of the runs).
"""

from __future__ import annotations

import itertools
import math
import os
import platform
import signal
import stat
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import EngineError, ProgramError
from foretrace.base.neighbours import DISTURBED, Reference, SegmentTime
from foretrace.base.units import format_seconds
from foretrace.tracer.session.launch import is_own_python
from foretrace.tracer.signature.records import Signature

from .interpreter_places import affordable, counted, find_functions, start_up
from .program_input import ProgramInput, Reading
from .stamp_code import Place
from .stamp_points import COUNTING_S, COUNTING_SHARES, SEGMENT_S, Candidate, choose, find_candidates, probe
from .stamped_run import StampedRun, TimeStampCounter, run_stamped

ANOTHER_WAY = "it does not go the same way each time"
LONG_S = 0.002
"""Of a longer segment few are undisturbed."""
LEAST_RUNS, MOST_RUNS = 12, 100
ENOUGH_CHANGE = 0.003
"""Runs end when twice as many no longer make the sum of least times so much smaller."""
REST, LESS_REST = 1 / 10, 1 / 4
"""Of a segment's runs so many are taken to be at rest; the more are for the high end of the time."""
AROUND = 2
"""So many segments before and after one tell whether it was at rest. Of 23 programs on a quiet machine one to twenty
gave the same within 2 %, mostly within 0.5 %."""
MISSED = 3
"""What was missed is taken to be at most so many times what the last doubling of runs told more of the least times. Of
spmv, bfs and euler, timed beside work on both cores of a machine and on a quieter one, it was 1.5 to 2.8 times that."""
_SPARE_RECORDS = 1024
_MUCH_IN_LONG = 0.5
_TELLING_RUNS = 4
_MOST_OTHER_CALLS = 0.01  # of the interpreter's functions: tables ordered by addresses differ each time
_MOST_OTHER = 0.01  # of the records are left out for their order before a place is
_COUNTING_RUNS = 3
_START_SHARE = 0.25  # of the time for runs of a script is for starting Python
_MOST_WAITS, _MOST_WAITS_PER_S = 10, 50  # of a program that may be taken to wait for nothing, but for the kernel

Times = npt.NDArray[np.float64]


class UndividedError(EngineError):
    """A program whose runs cannot be divided into segments; says why."""


def time_by_segments(
    signature: Signature,
    path: str,
    command: Sequence[str],
    *,
    about_s: float,
    exit_code: int,
    best_s: float,
    budget_s: float,
    reference: Reference | None = None,
    given: ProgramInput | None = None,
) -> SegmentTime:
    """Run the program until its segments' least times no longer change, for `budget_s` at most (12 runs at least).

    What it prints is thrown away.

    Args:
        signature: of this program with these arguments.
        path: of the executable.
        command: its name and arguments.
        about_s: what it takes, roughly.
        exit_code: what it ends with.
        best_s: what the best whole run took, which its undisturbed time does not exceed.
        budget_s: seconds.
        reference: tells the clock between the runs.
        given: its standard input; None: an empty one.

    Raises:
        UndividedError: it cannot be done, with the reason.
    """
    _check(signature, path)
    real = str(Path(path).resolve())
    if not any(block.module == real for block in signature.blocks):
        raise UndividedError(f"its signature is of another program: it has no blocks of {real}")
    try:
        found = _time(
            _Program(path, command, exit_code, given=given),
            partial(find_candidates, signature, about_s),
            about_s,
            budget_s,
            reference,
        )
        return no_more_than(found, best_s)
    except (OSError, ValueError, ProgramError) as error:
        raise UndividedError(f"its code cannot be divided: {error}") from error


def time_script_by_segments(
    signature: Signature,
    command: Sequence[str],
    *,
    exit_code: int,
    best_s: float,
    budget_s: float,
    reference: Reference | None = None,
    given: ProgramInput | None = None,
) -> SegmentTime:
    """The same of a Python script, without the start of Python and what it imports, which are timed by themselves.

    Both run with one seed of hashes (`PYTHONHASHSEED`: ours, or else 0), so that they go the same way.

    Args:
        signature: of this script with these arguments.
        command: the interpreter that runs us, then the script and its arguments.
        exit_code: what it ends with.
        best_s: what the best whole run took, the start of Python included.
        budget_s: seconds.
        reference: tells the clock between the runs.
        given: its standard input; None: an empty one.

    Raises:
        UndividedError: it cannot be done, with the reason.
    """
    _check(signature, command[0])
    if not is_own_python(Path(command[0])):
        raise UndividedError(f"its interpreter, {command[0]}, is not the one that runs foretrace, {sys.executable}")
    if Path(signature.provenance.command[0]).resolve() != Path(command[1]).resolve():
        raise UndividedError(f"its signature is of another program, {signature.provenance.command[0]}")
    environment = {"PYTHONHASHSEED": "0"} | dict(os.environ)
    try:
        functions = find_functions()
        whole = _Program(command[0], command, exit_code, environment, given)
        start = _Program(command[0], start_up(command[1]), 0, environment)
        with _one_core():
            found = _time(whole, *_of_interpreter(whole, functions), budget_s * (1 - _START_SHARE), reference)
            found = no_more_than(found, best_s)
            alone = without_start(found, _time(start, *_of_interpreter(start, functions), budget_s * _START_SHARE))
    except (OSError, ValueError, SyntaxError, ProgramError) as error:
        raise UndividedError(f"its interpreter's code cannot be divided: {error}") from error
    if alone.time_s <= 0:
        raise UndividedError("starting Python and importing takes all of its time")
    return alone


@contextmanager
def _one_core() -> Iterator[None]:
    """What is started meanwhile finds one core, for which libraries that compute with as many threads start none."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _of_interpreter(
    program: _Program, functions: Sequence[Place]
) -> tuple[Callable[[float], Sequence[Candidate]], float]:
    """What to divide a run of Python at, and about what it takes."""
    executions = [program.run(functions, _SPARE_RECORDS).executions for _ in range(_COUNTING_RUNS)]
    totals = [run.sum() for run in executions]
    if max(totals) > (1 + _MOST_OTHER_CALLS) * min(totals):
        raise UndividedError(ANOTHER_WAY)
    candidates = counted(functions, executions)
    about_s = program.run((), _SPARE_RECORDS).cpu_s
    return partial(affordable, candidates, about_s), about_s


_STARTS_DIFFER_S = 1e-3
"""Processor time by which two starts of the same program differ. For a short program it exceeds `DISTURBED`."""


def no_more_than(found: SegmentTime, best_s: float) -> SegmentTime:
    """A segment timing bounded by the best whole run; an excess within measurement error is cut off.

    Raises:
        UndividedError: it is longer: no segment was at rest.
    """
    if found.time_s > max(DISTURBED * best_s, best_s + _STARTS_DIFFER_S):
        raise UndividedError(
            f"the machine is busy: its segments take {format_seconds(found.time_s)} at their quietest, and the best "
            f"whole run took {format_seconds(best_s)}"
        )
    return replace(found, time_s=min(found.time_s, best_s), low_s=min(found.low_s, best_s))


def without_start(found: SegmentTime, start: SegmentTime) -> SegmentTime:
    """Of a script, less the time of starting Python."""
    return replace(
        found,
        time_s=found.time_s - start.time_s,
        low_s=max(found.low_s - start.high_s, 0.0),
        high_s=found.high_s - start.low_s,
        counting_s=max(found.counting_s - start.counting_s, 0.0),
    )


class _Program:
    """A program that is run again and again."""

    def __init__(
        self,
        path: str,
        command: Sequence[str],
        exit_code: int,
        environment: dict[str, str] | None = None,
        given: ProgramInput | None = None,
    ) -> None:
        self._path, self._command, self._exit_code, self._environment = path, command, exit_code, environment
        self._given = given
        self._counter = TimeStampCounter()

    def run(self, places: Sequence[Place], num_records: int) -> StampedRun:
        """Run it once, and see that it ended well and wrote no more than there is room for."""
        with nullcontext(Reading(None)) if self._given is None else self._given.again() as reading:
            run = run_stamped(self._path, self._command, places, num_records, self._counter, self._environment, reading)
        if run.exit_code == -signal.SIGINT != self._exit_code:
            raise KeyboardInterrupt
        if run.exit_code != self._exit_code:
            raise UndividedError(f"divided, it ended with {run.exit_code} instead of {self._exit_code}")
        if len(run.ticks) >= num_records:
            raise UndividedError("it came to places far more often than its signature says")
        return run


def _time(
    program: _Program,
    candidates_of: Callable[[float], Sequence[Candidate]],
    about_s: float,
    budget_s: float,
    reference: Reference | None = None,
) -> SegmentTime:
    """`candidates_of` tells where it may be divided if counting may add such a share of its time."""
    end = time.monotonic() + budget_s
    for share in COUNTING_SHARES:
        candidates = candidates_of(share)
        if not candidates:
            raise UndividedError("it has no blocks, outside the C library, whose code can be moved")
        noted = probe(candidates)
        first = program.run(noted, _room(zip(candidates, noted, strict=True)))
        chosen = choose(candidates, first.ticks, first.numbers, first.end_ticks, about_s, share)
        if _long_share(first, [candidates.index(candidate) for candidate, _ in chosen]) <= _MUCH_IN_LONG:
            break
    places = tuple(place for _, place in chosen)
    executions = sum(candidate.executions for candidate, _ in chosen)
    num_records = _room(chosen)
    ways: dict[bytes, list[StampedRun]] = defaultdict(list)
    clocks_hz: list[list[float]] = []
    for number in itertools.count(1):
        if reference is not None:
            clocks_hz.append(reference.clocks_hz())
        run = program.run(places, num_records)
        ways[np.bincount(run.numbers).tobytes()].append(run)
        runs = max(ways.values(), key=len)
        if number >= _TELLING_RUNS and 2 * len(runs) <= number:
            raise UndividedError(ANOTHER_WAY)
        alike = in_one_order(runs)
        if 2 * len(alike[0].numbers) < len(runs[0].numbers):
            raise UndividedError(ANOTHER_WAY)
        if len(runs) >= LEAST_RUNS:
            times = segment_times(alike)
            is_over = number >= MOST_RUNS or time.monotonic() >= end
            least_s, of_half_s = sums_of_least(times)
            if is_over or of_half_s < (1 + ENOUGH_CHANGE) * least_s:
                break
    found = replace(summarise(times, executions), clock_hz=resting_hz(clocks_hz) if clocks_hz else None)
    if min(run.waits for run in runs) > _MOST_WAITS + _MOST_WAITS_PER_S * found.time_s:
        raise UndividedError("it waits for something, and real time is then not its own")
    if least_s > min(run.cpu_s for run in runs):
        raise UndividedError(
            "other work interrupted some segment in each of its runs "
            f"({found.long_share:.0%} of its time are in segments of more than 2 ms)"
        )
    return found


def _long_share(run: StampedRun, numbers: Sequence[int]) -> float:
    """What of a run is in long segments, if only these places divide it."""
    ticks = np.concatenate([[0], run.ticks[np.isin(run.numbers, numbers)], [run.end_ticks]])
    lengths = np.diff(ticks)
    return float(lengths[lengths > LONG_S * run.end_ticks / run.wall_s].sum() / run.end_ticks)


def _room(noted: Iterable[tuple[Candidate, Place]]) -> int:
    """Twice the records that are expected, and some."""
    return 2 * sum(candidate.executions // place.period for candidate, place in noted) + _SPARE_RECORDS


def _check(signature: Signature, path: str) -> None:
    """That the method is one for this program and machine."""
    obtained = signature.provenance
    if platform.machine() != "x86_64" or obtained.guest not in ("x86_64", "python"):
        raise UndividedError("only x86-64 programs are divided, on their own machines")
    flags = Path("/proc/cpuinfo").read_text().partition("\nflags")[2].partition("\n")[0].split()
    if not {"constant_tsc", "nonstop_tsc"} <= set(flags):
        raise UndividedError("the processor's time-stamp counter does not tell time")
    if obtained.threads > 1 or obtained.untraced_threads or obtained.processes or obtained.untraced_children:
        raise UndividedError("it has several threads or processes")
    if not obtained.complete:
        raise UndividedError("its signature is incomplete")
    if Path(path).stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise UndividedError("it has another user's rights, which it has not when it is looked at")


def in_one_order(runs: Sequence[StampedRun]) -> list[StampedRun]:
    """Runs of as many records without those of which the order differs: such as where Python frees what it has made, in
    the order of addresses.

    Where it differs often, all records are left out of the place that is most often at another turn.
    """
    while True:
        numbers = runs[0].numbers
        same = np.all([run.numbers == numbers for run in runs], axis=0)
        if np.count_nonzero(~same) <= _MOST_OTHER * len(numbers):
            return [replace(run, ticks=run.ticks[same], numbers=numbers[same]) for run in runs]
        records = np.bincount(numbers)
        others = np.bincount(numbers[~same], minlength=len(records))
        worst = np.argmax(others / np.maximum(records, 1))
        kept = [run.numbers != worst for run in runs]
        runs = [
            replace(run, ticks=run.ticks[mask], numbers=run.numbers[mask]) for run, mask in zip(runs, kept, strict=True)
        ]


def segment_times(runs: Sequence[StampedRun]) -> Times:
    """Seconds [runs, segments], of segments of about 0.2 ms, or more where there are no places.

    All came to the same places. How long a tick is all runs tell together.
    """
    tick_s = sum(run.wall_s for run in runs) / sum(run.end_ticks for run in runs)
    stamps = [np.concatenate([[0], run.ticks, [run.end_ticks]]) for run in runs]
    parts = np.diff(np.array(stamps, np.float64), axis=1) * tick_s
    after = np.cumsum(parts.min(axis=0))
    number = np.minimum(after // SEGMENT_S, max(after[-1] // SEGMENT_S - 1, 0))
    begins = np.flatnonzero(np.diff(number, prepend=-1))
    return np.add.reduceat(parts, begins, axis=1)


def resting_s(times: Times, share: float = REST) -> float:
    """What the segments take, in all, in the runs in which they were at rest.

    Args:
        times: seconds [runs, segments].
        share: of the runs.
    """
    if times.shape[1] == 1:
        return float(times.min())
    padded = np.pad(times, ((0, 0), (AROUND, AROUND)))  # at the ends there are fewer
    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * AROUND + 1, axis=1).sum(axis=2) - times
    at_rest = np.argsort(around, axis=0, kind="stable")[: math.ceil(share * len(times))]
    return float(np.median(np.take_along_axis(times, at_rest, axis=0), axis=0).sum())


def sums_of_least(times: Times) -> tuple[float, float]:
    """Sums over the segments of the least time, and of the least that half as many runs would have had, on average over
    all such halves.

    Args:
        times: seconds [runs, segments], two runs or more.
    """
    runs = len(times)
    half = runs // 2
    ordered = np.sort(times, axis=0).sum(axis=1)
    # The k-th least of all (from 0) is the least of a half if none of the k before it is in it.
    chances = [math.comb(runs - 1 - k, half - 1) / math.comb(runs, half) for k in range(runs)]
    return float(ordered[0]), float(np.dot(chances, ordered))


def resting_hz(clocks_hz: Sequence[Sequence[float]]) -> float:
    """The clock that runs at rest are at: the median of the tenth that is highest, on average over the moments.

    Args:
        clocks_hz: of each run, in as many moments.
    """
    return float(np.quantile(np.array(clocks_hz), 1 - REST / 2, axis=0).mean())


def summarise(times: Times, executions: int) -> SegmentTime:
    """Of runs in which stubs were executed so many times.

    Args:
        times: seconds [runs, segments].
        executions: of a run.
    """
    least_s, of_half_s = sums_of_least(times)
    time_s = min(resting_s(times), float(times.sum(axis=1).min()))
    counting_s = executions * COUNTING_S / 2
    shortest = times.min(axis=0)
    return SegmentTime(
        time_s=time_s - counting_s,
        low_s=max(least_s - MISSED * (of_half_s - least_s) - 2 * counting_s, 0.0),
        high_s=max(time_s, resting_s(times, LESS_REST)),
        runs=times.shape[0],
        segments=times.shape[1],
        long_share=float(shortest[shortest > LONG_S].sum() / least_s),
        counting_s=counting_s,
    )
