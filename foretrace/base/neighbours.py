"""Estimates a program's undisturbed time from runs with noisy neighbours, each with the slowdown of a reference loop.

The loop is in `foretrace.benchmarks.harness.reference_loop`; this module evaluates its times.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

DISTURBED = 1.05
"""Slowdown of the loop from which a run counts as disturbed by a neighbour."""
LEAST_RUNS_OF_LINE = 5
MOST_ERROR_OF_LINE = 0.1
"""A straight line through fewer runs, or with a larger relative error, gives no undisturbed time."""


class LoopSample(NamedTuple):
    """Cycles per instruction of the loop, and the core's clock frequency during the sample."""

    cycles: float
    clock_hz: float


class Reference(Protocol):
    """A reference loop that runs on the same core as the measured program."""

    def beside(self, cpu: Callable[[], int | None] | None = None) -> AbstractContextManager[list[LoopSample]]:
        """Sample the loop while the context lasts, on the core that `cpu` returns, if any; yields the samples' list."""
        ...

    def slowdown(self, cycles: float) -> float:
        """Slowdown of the reference loop: its cycles per instruction over the undisturbed value; at least 1."""
        ...


def reading(reference: Reference, samples: Sequence[LoopSample]) -> tuple[float, float]:
    """Slowdown of the loop and median clock frequency, from the samples of one run.

    Args:
        samples: one or more.
    """
    slowdown = reference.slowdown(statistics.fmean(sample.cycles for sample in samples))
    return slowdown, statistics.median(sample.clock_hz for sample in samples)


class Run(Protocol):
    """A run that may be known to be undisturbed by a neighbour."""

    @property
    def is_undisturbed(self) -> bool:
        """Whether the run is known to be undisturbed."""
        ...


AnyRun = TypeVar("AnyRun", bound=Run)


def counted(runs: Sequence[AnyRun]) -> Sequence[AnyRun]:
    """The undisturbed runs; all runs if none is undisturbed."""
    return [run for run in runs if run.is_undisturbed] or runs


@dataclass(frozen=True, slots=True)
class Alone:
    """Processor time without a neighbour, extrapolated by a straight line through runs with neighbours of varying load.

    `error_s` is twice the standard error.
    """

    time_s: float
    error_s: float


def alone(runs: Sequence[tuple[float, float]]) -> Alone | None:
    """Least-squares estimate at a slowdown of 1, at most the time of the shortest run; None if it is uncertain.

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
    """An undisturbed time in an older timing: the sum of a program's per-segment times from undisturbed runs.

    `long_share` of the sum is in segments longer than 2 ms. `counting_s` is the subtracted overhead of counting at
    segment ends. `clock_hz` is the clock frequency in moments between the undisturbed runs.
    """

    time_s: float
    low_s: float
    high_s: float
    runs: int
    segments: int
    long_share: float
    counting_s: float
    clock_hz: float | None = None
