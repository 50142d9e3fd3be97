"""What runs tell of one without a neighbour on the same core: each has the slowdown of a reference loop beside it.

The loop is in `foretrace.benchmarks.harness.reference_loop`; here is what follows from its times.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

DISTURBED = 1.05
"""From this on, relative to its undisturbed time, the loop ran beside a neighbour for part of a run."""
LEAST_RUNS_OF_LINE = 5
MOST_ERROR_OF_LINE = 0.1
"""A straight line through fewer runs, or one less certain than this part, tells nothing of an undisturbed run."""


class LoopSample(NamedTuple):
    """Cycles that an instruction of the loop took, and the core's clock beside it."""

    cycles: float
    clock_hz: float


class Reference(Protocol):
    """A loop to run beside something else."""

    def beside(self, cpu: Callable[[], int | None] | None = None) -> AbstractContextManager[list[LoopSample]]:
        """Sample it while the context lasts, on the core that `cpu` tells, if it does; the list has the samples."""
        ...

    def slowdown(self, cycles: float) -> float:
        """How many times longer that is than an instruction of it takes undisturbed: 1 or more."""
        ...


def reading(reference: Reference, samples: Sequence[LoopSample]) -> tuple[float, float]:
    """What samples of one run tell: how many times longer than undisturbed the loop took, and the clock in the median.

    Args:
        samples: one or more.
    """
    slowdown = reference.slowdown(statistics.fmean(sample.cycles for sample in samples))
    return slowdown, statistics.median(sample.clock_hz for sample in samples)


class Run(Protocol):
    """A run of which it may be known that no neighbour used the core."""

    @property
    def is_undisturbed(self) -> bool:
        """Whether that is known."""
        ...


AnyRun = TypeVar("AnyRun", bound=Run)


def counted(runs: Sequence[AnyRun]) -> Sequence[AnyRun]:
    """The undisturbed runs; all, if there are no such."""
    return [run for run in runs if run.is_undisturbed] or runs


@dataclass(frozen=True, slots=True)
class Alone:
    """Processor time without a neighbour, by a straight line through runs beside more and less of one.

    `error_s` is twice the standard error.
    """

    time_s: float
    error_s: float


def alone(runs: Sequence[tuple[float, float]]) -> Alone | None:
    """Least squares, read at a slowdown of 1, and no longer than the shortest run took; None if that is uncertain.

    Args:
        runs: slowdown of the reference loop, and time of the program.
    """
    if len(runs) < LEAST_RUNS_OF_LINE or len({slowdown for slowdown, _ in runs}) < 2:
        return None
    slope, at_zero = statistics.linear_regression(*zip(*runs, strict=True))
    if slope < 0:  # whatever makes its runs differ, it is not the neighbour
        slope, at_zero = 0.0, statistics.fmean(time_s for _, time_s in runs)
    mean = statistics.fmean(slowdown for slowdown, _ in runs)
    variance = sum((time_s - at_zero - slope * slowdown) ** 2 for slowdown, time_s in runs) / (len(runs) - 2)
    leverage = 1 / len(runs) + (1 - mean) ** 2 / sum((slowdown - mean) ** 2 for slowdown, _ in runs)
    found = Alone(min(at_zero + slope, min(time_s for _, time_s in runs)), 2 * math.sqrt(variance * leverage))
    return found if found.error_s <= MOST_ERROR_OF_LINE * found.time_s else None


@dataclass(frozen=True, slots=True)
class SegmentTime:
    """An undisturbed time in an older timing: the sum of the times at rest of a program's segments, over many runs.

    `long_share` of the sum is in segments longer than 2 ms. `counting_s` was taken off for counting at the places
    between them. `clock_hz` is that of moments between the runs at rest.
    """

    time_s: float
    low_s: float
    high_s: float
    runs: int
    segments: int
    long_share: float
    counting_s: float
    clock_hz: float | None = None
