"""Runs a program natively, to be timed and sampled. Its output, exit code and signals are its own.

Several runs: the first has our standard streams; the later ones read the same input, and what they print is thrown
away, so that it appears once.
"""

from __future__ import annotations

import datetime
import os
import platform
import select
import signal
import statistics
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from foretrace.base.errors import ProgramError
from foretrace.base.neighbours import DISTURBED, LoopSample, Reference, SegmentTime, alone, counted, reading
from foretrace.base.version import __version__
from foretrace.tracer.recording.recording import signal_name
from foretrace.tracer.session.launch import find_program

from .chosen_variants import chosen_variants
from .perf_events import PerfSampler
from .program_input import ProgramInput, Reading
from .ptrace_stops import PtraceSampler
from .samples import Position, Sampler, Samples

PERF_INTERVAL_S = 0.000997
PTRACE_INTERVAL_S = 0.00997
"""Not whole milliseconds: a program's own rhythm should not meet them."""
NO_READER = "whoever reads its output stopped early, and nobody reads that of later runs; send it to a file"


@dataclass(frozen=True, slots=True)
class NativeRun:
    """One run: real time from its start to its end, and what it used of a CPU, in the program and in the kernel.

    `slowdown` is how many times longer than undisturbed a reference loop took beside it, on the core of its first
    thread, and `clock_hz` that core's clock, in the median; None where none was run, or the run was too short for one.
    """

    wall_s: float
    user_s: float
    system_s: float
    slowdown: float | None = None
    clock_hz: float | None = None

    @property
    def cpu_s(self) -> float:
        """Processor time of the program. A prediction is of this: waiting is no part of it."""
        return self.user_s + self.system_s

    @property
    def is_undisturbed(self) -> bool:
        """Whether it is known that no neighbour used the core."""
        return self.slowdown is not None and self.slowdown < DISTURBED


@dataclass(frozen=True, slots=True)
class SampledPosition:
    """Number of samples that found the program at an instruction; `kernel_samples` of them while the kernel worked for
    it.

    `functions` are the public names of the code there, where it is a variant that a library chose for the processor:
    "memcpy" and "memmove" may be one.
    """

    module: str
    offset: int
    samples: int
    kernel_samples: int
    functions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timing:
    """Time that a program took on a machine, and where it went.

    `method` says how it was sampled. `elsewhere` counts samples of child processes and of code that
    lies in no file. `segments` and `undivided` are only in older timings, which held the time by segments of further
    runs, or why there was none.
    """

    command: tuple[str, ...]
    foretrace_version: str
    host: str
    started: str
    exit_code: int | None
    signal: int | None
    runs: tuple[NativeRun, ...]
    method: str
    interval_s: float
    positions: tuple[SampledPosition, ...]
    elsewhere: int
    lost: int
    segments: SegmentTime | None = None
    undivided: str = ""

    @property
    def time_s(self) -> float:
        """Time of the program: the shortest run; of an older timing the time by segments, if it has one."""
        return self.shortest.cpu_s if self.segments is None else self.segments.time_s

    @property
    def clock_hz(self) -> float | None:
        """The clock at which it takes that."""
        return self.shortest.clock_hz if self.segments is None else self.segments.clock_hz

    @property
    def shortest(self) -> NativeRun:
        """The run least disturbed: one without a neighbour, if there are such."""
        return min(counted(self.runs), key=lambda run: run.cpu_s)

    @property
    def spread(self) -> float:
        """Distance of the median run from the shortest, relative to it; of the runs without a neighbour, if any."""
        return statistics.median(run.cpu_s for run in counted(self.runs)) / self.shortest.cpu_s - 1

    @property
    def most_s(self) -> float:
        """The most that it may take: by segments, if these are known, else what the median run took."""
        return self.shortest.cpu_s * (1 + self.spread) if self.segments is None else self.segments.high_s

    @property
    def undisturbed_runs(self) -> int:
        """Number of runs without a neighbour."""
        return sum(run.is_undisturbed for run in self.runs)

    @property
    def least_alone_s(self) -> float:
        """The least that it may take without a neighbour: by segments, if these are known; else of the shortest run, as
        long as it took if no neighbour is known of.

        Else the low end of a straight line through the runs, beside more and less of one. Where they are too few for
        that, less by the loop's slowdown: no program loses more than one that issues as much as the core can.
        """
        if self.segments is not None:
            return self.segments.low_s
        shortest = self.shortest
        if shortest.slowdown is None or shortest.is_undisturbed:
            return shortest.cpu_s
        found = alone([(run.slowdown, run.cpu_s) for run in self.runs if run.slowdown is not None])
        if found is not None:
            return min(max(found.time_s - found.error_s, 0.0), shortest.cpu_s)
        return shortest.cpu_s / shortest.slowdown

    @property
    def num_samples(self) -> int:
        """All samples that were kept."""
        return self.elsewhere + sum(position.samples for position in self.positions)


def time_natively(
    command: Sequence[str],
    *,
    runs: int = 1,
    method: str = "auto",
    reference: Reference | None = None,
    given: ProgramInput | None = None,
) -> Timing:
    """Run `command` `runs` times, sampling it each time.

    A program that ends because nobody reads its output any more runs once (`lost_its_reader`): nothing would end a
    later run, whose output is thrown away.

    Args:
        command: a program's name, then its arguments.
        runs: how often.
        method: "perf", "ptrace", or "auto" for the first of them that the system allows.
        reference: a loop to run beside each run, which takes turns with it on its core.
        given: the program's standard input.

    Raises:
        ProgramError: it cannot be run, does not end the same way each time, or its input cannot be kept for all runs.
        KeyboardInterrupt: a later run, unlike the first, was ended by a terminal's ^C.
        OSError: `method` is not allowed here.
    """
    if given is None:
        with ProgramInput(several=runs > 1) as own:
            return time_natively(command, runs=runs, method=method, reference=reference, given=own)
    path = str(find_program(command[0]))
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    done: list[NativeRun] = []
    found: list[Samples] = []
    references: list[list[LoopSample]] = []
    endings = []
    sampled_by = ""
    for number in range(runs):
        place = _Place()
        with nullcontext([]) if reference is None else reference.beside(place.cpu) as beside:
            sampler = _sampler(method)
            try:
                if number == 0:
                    with given.first() as reading:
                        run, status = _run(sampler, path, command, place, reading)
                else:
                    with given.again() as reading:
                        run, status = _run(sampler, path, command, place, reading, is_quiet=True)
                found.append(sampler.samples())
            finally:
                sampler.close()
        done.append(run)
        references.append(beside)
        endings.append(os.waitstatus_to_exitcode(status))
        sampled_by = sampler.name
        if endings[-1] == -signal.SIGINT != endings[0]:
            raise KeyboardInterrupt
        if endings[-1] != endings[0]:
            raise ProgramError(_difference(command[0], endings[0], endings[-1], number + 1))
        if lost_its_reader(endings[0]):
            break
    return Timing(
        command=tuple(command),
        foretrace_version=__version__,
        host=platform.node(),
        started=started,
        exit_code=endings[0] if endings[0] >= 0 else None,
        signal=-endings[0] if endings[0] < 0 else None,
        runs=tuple(_with_reading(run, reference, samples) for run, samples in zip(done, references, strict=True)),
        method=sampled_by,
        interval_s=PTRACE_INTERVAL_S if sampled_by == PtraceSampler.name else PERF_INTERVAL_S,
        positions=_summed(found),
        elsewhere=sum(samples.elsewhere for samples in found),
        lost=sum(samples.lost for samples in found),
    )


def lost_its_reader(ending: int) -> bool:
    """Whether a program ended because nobody reads its output any more, as far as its end and our output tell.

    Args:
        ending: as by `os.waitstatus_to_exitcode`.
    """
    if ending == -signal.SIGPIPE:
        return True
    poll = select.poll()
    for descriptor in (1, 2):
        poll.register(descriptor, 0)
    return ending != 0 and any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _difference(program: str, first: int, later: int, number: int) -> str:
    """Message about a program whose runs end in two ways, given as by `os.waitstatus_to_exitcode`."""
    return (
        f"{program}: {_said(first)} in the first run, {_said(later)} in run {number}; "
        "time a single run (--runs 1), or make it end the same way each time"
    )


def _said(ending: int) -> str:
    return f"killed by {signal_name(-ending)}" if ending < 0 else f"exit code {ending}"


def _with_reading(run: NativeRun, reference: Reference | None, samples: Sequence[LoopSample]) -> NativeRun:
    """With what the loop beside it tells, if it does."""
    if reference is None or not samples:
        return run
    slowdown, clock_hz = reading(reference, samples)
    return replace(run, slowdown=slowdown, clock_hz=clock_hz)


def _sampler(method: str) -> Sampler:
    if method in ("auto", "perf"):
        try:
            return PerfSampler(PERF_INTERVAL_S)
        except OSError:
            if method == "perf":
                raise
    return PtraceSampler(PTRACE_INTERVAL_S)


class _Place:
    """Core that the program runs on, for whoever wants to run beside it."""

    def __init__(self) -> None:
        self.pid: int | None = None

    def cpu(self) -> int | None:
        """The core that its first thread ran on last; None before it is started, and when it has ended."""
        try:
            # proc_pid_stat(5): field 39, of which the first two are the number and the name in parentheses.
            return int(Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[36])
        except (OSError, ValueError, IndexError):
            return None


def _run(
    sampler: Sampler, path: str, command: Sequence[str], place: _Place, reading: Reading, *, is_quiet: bool = False
) -> tuple[NativeRun, int]:
    """One run. A terminal's ^C is the program's, not ours, while it runs. `is_quiet`: nothing of it is seen, and its
    input is empty unless it has one of its own.
    """
    nothing = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    streams: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [*nothing] if is_quiet else []
    if reading.descriptor is not None:
        streams.insert(0, (os.POSIX_SPAWN_DUP2, reading.descriptor, 0))
        streams = [action for action in streams if action != nothing[0]]
    began = 0.0
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])

    def start() -> int:
        nonlocal began
        began = time.perf_counter()
        try:
            place.pid = os.posix_spawn(
                path, list(command), dict(os.environ), file_actions=streams,
                setsigdef=[signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ], setsigmask=mask,
            )  # fmt: skip
            reading.begun()
            return place.pid
        except OSError as error:
            raise ProgramError(f"cannot run {path}: {error.strerror}") from error

    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        status, usage = sampler.run(start)
        wall_s = time.perf_counter() - began
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return NativeRun(wall_s, usage.ru_utime, usage.ru_stime), status


def _summed(found: Sequence[Samples]) -> tuple[SampledPosition, ...]:
    """Most frequent first."""
    sums: dict[tuple[str, int], list[int]] = {}
    for samples in found:
        for position, count in samples.positions.items():
            _add(sums, position, count)
    variants = chosen_variants({module for module, _ in sums})
    rows = [
        SampledPosition(module, offset, every, in_kernel, variants[module].names(offset) if module in variants else ())
        for (module, offset), (every, in_kernel) in sums.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.samples, row.module, row.offset)))


def _add(sums: dict[tuple[str, int], list[int]], position: Position, count: int) -> None:
    counts = sums.setdefault((position.module, position.offset), [0, 0])
    counts[0] += count
    counts[1] += count if position.in_kernel else 0
