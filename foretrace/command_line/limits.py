"""Limits of each verb: memory and processor time of its process. Declared here, shown by --help and docs/limits.md.

A file may come from anyone. What it makes a verb take is bounded: by the readers, which refuse what no run can have
made, by algorithms whose cost grows as the file does, and, behind both, by the kernel (RLIMIT_DATA, RLIMIT_CPU).
"""

from __future__ import annotations

import resource
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

GIB = 1 << 30
GRACE_S = 30
"""Seconds beyond a verb's limit of processor time at which the kernel kills it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Memory and processor time that a verb may take.

    Attributes:
        memory_bytes: private memory beyond that of the started interpreter.
        cpu_s: processor time of all its threads.
        note: where they count, if not from start to end.
    """

    memory_bytes: int
    cpu_s: int
    note: str = ""

    def __str__(self) -> str:
        """The limits in the words of --help."""
        note = f" ({self.note})" if self.note else ""
        return f"{self.memory_bytes / GIB:g} GiB of memory, {self.cpu_s} s of processor time{note}"


READING = Limits(4 * GIB, 600)
"""Verbs that read a file or a few, and print what follows."""

LIMITS = {
    "trace": Limits(16 * GIB, 3600, "from the program's end"),
    "info": READING,
    "simulate": Limits(4 * GIB, 36_000),
    "curve": READING,
    "predict": READING,
    "replay": READING,
    "sweep": Limits(4 * GIB, 360_000, "each of its processes; 600 s for one point"),
    "idioms": Limits(4 * GIB, 3600, "each of its processes; 120 s for one file"),
    "triage": READING,
    "events": Limits(4 * GIB, 600, "of a program that it runs: from its end"),
    "machines": Limits(1 * GIB, 60),
}
"""Limits of verbs that read files. The others (time, calibrate, sgbench, validate) run programs, which would inherit
them."""


def changed(limits: Limits, memory_gib: float | None, cpu_s: int | None) -> Limits:
    """The limits, overridden by those that a user gives; None keeps a limit."""
    memory_bytes = limits.memory_bytes if memory_gib is None else int(memory_gib * GIB)
    return replace(limits, memory_bytes=memory_bytes, cpu_s=limits.cpu_s if cpu_s is None else cpu_s)


class TimeLimitReachedError(BaseException):
    """A verb has taken its processor time. No `Exception`: no handler of faults may take it for one."""


def apply(limits: Limits) -> None:
    """Bound what this process takes from now on. Programs started later inherit it."""
    data_bytes = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    _lower(resource.RLIMIT_DATA, data_bytes + limits.memory_bytes)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    signal.signal(signal.SIGXCPU, _stop)
    _lower(resource.RLIMIT_CPU, int(usage.ru_utime + usage.ru_stime) + limits.cpu_s, GRACE_S)


def _lower(which: int, wanted: int, grace: int | None = None) -> None:
    """Lower the soft limit, and with a grace the hard one, to that much more. A limit that is lower already stays."""
    soft, hard = resource.getrlimit(which)
    if soft == resource.RLIM_INFINITY or wanted < soft:
        soft = wanted
    if grace is not None and (hard == resource.RLIM_INFINITY or wanted + grace < hard):
        hard = wanted + grace
    resource.setrlimit(which, (soft, hard))


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise TimeLimitReachedError
