"""Repeated timing on machines that are not quiet: samples of everything in turns, until the shortest times settle.

A burst of noise then costs each measurement a sample, and no measurement all of its samples.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

SETTLED_SAMPLES = 4
SETTLED_SPREAD = 0.02
"""A measurement whose shortest samples lie this close together is not repeated further."""

LEAST_ROUNDS = 3

_ROUNDS_PART = 0.6  # of the progress told; the rest is for what takes longer to settle

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Timing:
    """What a measurement came to. `best_s` is the shortest time of one operation."""

    best_s: float
    noise: float
    settled: bool
    num_samples: int


@dataclass(slots=True)
class Measurement:
    """Time of one operation. `run(repeats)` does the work and returns seconds and the number of operations it did.

    A `reference`, which others are divided by, is sampled as long as any of them: the clock may rise meanwhile.
    """

    name: str
    run: Callable[[int], tuple[float, int]]
    reference: bool = False
    repeats: int = 1
    samples_s: list[float] = field(default_factory=list)

    @property
    def best_s(self) -> float:
        """The shortest time: what the machine can do when nothing disturbs it."""
        return min(self.samples_s)

    @property
    def noise(self) -> float:
        """How far the median lies above the shortest time, relative to it."""
        return statistics.median(self.samples_s) / self.best_s - 1

    @property
    def settled(self) -> bool:
        """Whether the shortest time was reached again and again, so that more samples would not find a shorter one."""
        shortest = sorted(self.samples_s)[:SETTLED_SAMPLES]
        return len(shortest) == SETTLED_SAMPLES and shortest[-1] <= shortest[0] * (1 + SETTLED_SPREAD)

    @property
    def timing(self) -> Timing:
        """What it came to, without what it was measured with."""
        return Timing(self.best_s, self.noise, self.settled, len(self.samples_s))

    def tune(self, sample_s: float) -> None:
        """Choose `repeats` so that a sample lasts about `sample_s`. Warms up as well."""
        while True:
            seconds, _ = self.run(self.repeats)
            if seconds >= sample_s / 2 or self.repeats >= 1 << 40:
                return
            self.repeats = max(self.repeats + 1, int(self.repeats * min(sample_s / max(seconds, 1e-9), 16)))

    def sample(self) -> None:
        """Take one more sample."""
        seconds, operations = self.run(self.repeats)
        self.samples_s.append(seconds / operations)


def measure(
    measurements: Sequence[Measurement],
    *,
    sample_s: float,
    rounds: int,
    budget_s: float,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Sample all measurements in `rounds` turns, then those that have not settled, until they have or time is up.

    On a slow machine turns are left out beyond `LEAST_ROUNDS` once the time is up.

    Args:
        measurements: what to measure; the samples end up in them.
        sample_s: time that a sample should last.
        rounds: samples that each measurement gets, at least.
        budget_s: time to spend altogether, more only if the least turns take more.
        progress: is told the done part, from 0 to 1.
        clock: seconds, for tests.
    """
    start = clock()
    steps = len(measurements) * (rounds + 1)
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(_ROUNDS_PART * done / steps)

    for measurement in measurements:
        measurement.tune(sample_s)
        advance()
    for number in range(rounds):
        if number >= LEAST_ROUNDS and clock() - start >= budget_s:
            break
        for measurement in measurements:
            measurement.sample()
            advance()
    sampled = clock()
    while clock() - start < budget_s:
        if all(m.settled for m in measurements):
            break
        for measurement in measurements:
            if measurement.reference or not measurement.settled:
                measurement.sample()
        if progress is not None:
            spent = (clock() - sampled) / max(budget_s - (sampled - start), 1e-9)
            progress(_ROUNDS_PART + (1 - _ROUNDS_PART) * min(1.0, spent))
    if progress is not None:
        progress(1.0)


def rounded(value: float) -> float:
    """Four significant digits: no measurement has more."""
    return float(f"{value:.4g}")
