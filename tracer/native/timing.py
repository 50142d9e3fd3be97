"""Runs a program natively, to be timed and sampled. Its output, exit code and signals are its own.

Several runs: the first has our standard streams, the later ones none, so that what the program prints appears once.
"""

from __future__ import annotations

import datetime
import os
import platform
import signal
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from foretrace import __version__
from foretrace.errors import ProgramError
from foretrace.tracer.qemu.binary import find_program

from .perf_events import PerfSampler
from .ptrace_stops import PtraceSampler
from .samples import Position, Sampler, Samples

PERF_INTERVAL_S = 0.000997
PTRACE_INTERVAL_S = 0.00997
"""Not whole milliseconds: a program's own rhythm should not meet them."""


@dataclass(frozen=True, slots=True)
class NativeRun:
    """One run: real time from its start to its end, and what it used of a CPU, in the program and in the kernel."""

    wall_s: float
    user_s: float
    system_s: float

    @property
    def cpu_s(self) -> float:
        """What the program kept a processor busy. A prediction is of this: waiting is no part of it."""
        return self.user_s + self.system_s


@dataclass(frozen=True, slots=True)
class SampledPosition:
    """How many samples found the program at an instruction; `kernel_samples` of them while the kernel worked for it."""

    module: str
    offset: int
    samples: int
    kernel_samples: int


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a program took on a machine, and where its time went.

    `method` says how it was sampled. `elsewhere` counts samples of child processes and of code that
    lies in no file.
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

    @property
    def shortest(self) -> NativeRun:
        """The run least disturbed."""
        return min(self.runs, key=lambda run: run.cpu_s)

    @property
    def spread(self) -> float:
        """How far the median run lies above the shortest, relative to it."""
        return statistics.median(run.cpu_s for run in self.runs) / self.shortest.cpu_s - 1

    @property
    def num_samples(self) -> int:
        """All samples that were kept."""
        return self.elsewhere + sum(position.samples for position in self.positions)


def time_natively(command: Sequence[str], *, runs: int = 1, method: str = "auto") -> Timing:
    """Run `command` `runs` times, sampling it each time.

    Args:
        command: a program's name, then its arguments.
        runs: how often.
        method: "perf", "ptrace", or "auto" for the first of them that the system allows.

    Raises:
        ProgramError: it cannot be run, or does not end the same way each time.
        OSError: `method` is not allowed here.
    """
    path = str(find_program(command[0]))
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    done: list[NativeRun] = []
    found: list[Samples] = []
    endings = []
    sampled_by = ""
    for number in range(runs):
        sampler = _sampler(method)
        try:
            run, status = _run(sampler, path, command, own_streams=number == 0)
            found.append(sampler.samples())
        finally:
            sampler.close()
        done.append(run)
        endings.append(os.waitstatus_to_exitcode(status))
        sampled_by = sampler.name
        if endings[-1] != endings[0]:
            raise ProgramError(f"{command[0]}: ended with {endings[0]} first, with {endings[-1]} in run {number + 1}")
    return Timing(
        command=tuple(command),
        foretrace_version=__version__,
        host=platform.node(),
        started=started,
        exit_code=endings[0] if endings[0] >= 0 else None,
        signal=-endings[0] if endings[0] < 0 else None,
        runs=tuple(done),
        method=sampled_by,
        interval_s=PTRACE_INTERVAL_S if sampled_by == PtraceSampler.name else PERF_INTERVAL_S,
        positions=_summed(found),
        elsewhere=sum(samples.elsewhere for samples in found),
        lost=sum(samples.lost for samples in found),
    )


def _sampler(method: str) -> Sampler:
    if method in ("auto", "perf"):
        try:
            return PerfSampler(PERF_INTERVAL_S)
        except OSError:
            if method == "perf":
                raise
    return PtraceSampler(PTRACE_INTERVAL_S)


def _run(sampler: Sampler, path: str, command: Sequence[str], *, own_streams: bool) -> tuple[NativeRun, int]:
    """One run. A terminal's ^C is the program's, not ours, while it runs."""
    streams = [] if own_streams else [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    began = 0.0
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])

    def start() -> int:
        nonlocal began
        began = time.perf_counter()
        try:
            return os.posix_spawn(
                path, list(command), dict(os.environ), file_actions=streams,
                setsigdef=[signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ], setsigmask=mask,
            )  # fmt: skip
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
    rows = [SampledPosition(module, offset, *counts) for (module, offset), counts in sums.items()]
    return tuple(sorted(rows, key=lambda row: (-row.samples, row.module, row.offset)))


def _add(sums: dict[tuple[str, int], list[int]], position: Position, count: int) -> None:
    counts = sums.setdefault((position.module, position.offset), [0, 0])
    counts[0] += count
    counts[1] += count if position.in_kernel else 0
