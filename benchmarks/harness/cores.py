"""Runs of programs on chosen cores, and how much of these cores somebody else had meanwhile.

Whether a program gained from a second core can only be measured while there is one. What others took is the processor
time that Linux counts for these cores (`/proc/stat`, proc(5): that given to other virtual machines as well), less the
program's own. With real-time priority nobody else of this machine takes anything that the program wants: what other
virtual machines had is left. Linux counts in ticks of 10 ms: runs should take several.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from foretrace.base.errors import EngineError

MOST_TAKEN = 0.1
"""Share of the cores' time taken by others, from which on the cores were not free."""
_STAT = Path("/proc/stat")
_BUSY = (0, 1, 2, 5, 6, 7)  # of a line's numbers: not idle and iowait; the last two of ten are in the first two already
_STOLEN = (7,)
_PRIORITY = 10


@dataclass(frozen=True, slots=True)
class CoreRun:
    """One run: real time, processor time of its own, and the share of the cores' time that others had.

    `taken` is None where the system does not tell.
    """

    wall_s: float
    cpu_s: float
    taken: float | None

    @property
    def is_free(self) -> bool:
        """Whether the cores were the run's own, as far as is known."""
        return self.taken is None or self.taken <= MOST_TAKEN


def run_on(
    commands: Sequence[Sequence[str]],
    cores: Sequence[Sequence[int]],
    *,
    realtime: bool = False,
    environment: Mapping[str, str] | None = None,
    stat: Path = _STAT,
) -> CoreRun:
    """Run commands at the same time, each on cores of its own, until the last one has ended.

    Args:
        commands: to run; what they print is discarded.
        cores: numbers of those that each may use.
        realtime: before all else on this machine (SCHED_RR: threads that share a core
            take turns, as they would otherwise; one that polls would keep the others waiting for good).
        environment: of the commands, beside ours.
        stat: what the system counts.

    Raises:
        EngineError: one cannot be started, or fails.
    """
    used = sorted({core for some in cores for core in some})
    counted = _STOLEN if realtime else _BUSY
    before_s = _used_s(used, counted, stat)
    start = time.perf_counter()
    running = [_start(command, some, realtime, environment) for command, some in zip(commands, cores, strict=True)]
    ended = [os.wait4(process.pid, 0) for process in running]
    wall_s = time.perf_counter() - start
    after_s = _used_s(used, counted, stat)
    for command, process, (_, status, _) in zip(commands, running, ended, strict=True):
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise EngineError(f"{command[0]} ended with {process.returncode}")
    cpu_s = sum(usage.ru_utime + usage.ru_stime for _, _, usage in ended)
    taken = None
    if before_s is not None and after_s is not None:
        others_s = after_s - before_s - (0.0 if realtime else cpu_s)
        taken = min(max(others_s / (wall_s * len(used)), 0.0), 1.0)
    return CoreRun(wall_s, cpu_s, taken)


def _start(
    command: Sequence[str], cores: Sequence[int], realtime: bool, environment: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    def prepare() -> None:
        os.sched_setaffinity(0, cores)
        if realtime:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_PRIORITY))

    try:
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, env=os.environ | (environment or {}), preexec_fn=prepare
        )
    except (OSError, subprocess.SubprocessError) as error:
        rights = " (--realtime needs the right to real-time scheduling)" if realtime else ""
        raise EngineError(f"{command[0]} cannot be started on cores {', '.join(map(str, cores))}{rights}") from error


def _used_s(cores: Sequence[int], counted: Sequence[int], stat: Path) -> float | None:
    """Seconds of these kinds on cores since the machine started; None where the system does not tell."""
    try:
        lines = stat.read_text().splitlines()
    except OSError:
        return None
    fields = {words[0]: words[1:] for line in lines if (words := line.split())}
    ticks = 0
    for core in cores:
        numbers = fields.get(f"cpu{core}", [])
        if len(numbers) <= max(counted):
            return None
        ticks += sum(int(numbers[place]) for place in counted)
    return ticks / os.sysconf("SC_CLK_TCK")


def shortest(runs: Iterable[CoreRun]) -> CoreRun | None:
    """The shortest of the runs whose cores were free; None if there is none."""
    return min((run for run in runs if run.is_free), key=lambda run: run.wall_s, default=None)


def said_of_others(runs: Sequence[CoreRun]) -> str:
    """Share of the cores that others took, for people."""
    taken = statistics.median(run.taken or 0.0 for run in runs)
    return f"others had {taken:.0%} of the cores in the median of {len(runs)} runs"
