"""Repeated timing on machines that are not quiet: passes over all that is to be measured, until the figures settle.

A pass takes a few samples of everything, so a burst of noise costs each measurement a few samples, and none all of
them. How well the passes agree is a figure's noise.
"""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

SAMPLES_OF_PASS = 4
STABLE_NOISE = 0.05
"""A figure with more noise is unstable: another run need not agree."""

_OWN_WARM_S = 0.002
_SHARED_WARM_S = 0.02
"""A cache that others use as well takes its time: it learns which lines to keep, and others must be driven out."""
_QUARTER = 0.25

_USUAL_OWN_BYTES, _USUAL_LAST_BYTES = 512 << 10, 32 << 20

STATISTIC = (
    "the shortest time of the samples, noise: how far above it half of the passes come; where others have a part in it "
    "(caches that several cores use, memory, new pages) the lower quartile, noise: twice its standard error over passes"
)

Run = Callable[[int], tuple[float, int]]
"""`run(repeats)` does the work and returns seconds and the number of operations it did."""
Progress = Callable[[float], None]
Groups = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Timing:
    """What a measurement came to: seconds of one operation, and how far the passes agree on it."""

    time_s: float
    noise: float
    num_samples: int

    @property
    def is_stable(self) -> bool:
        """Whether measuring again is likely to give the same."""
        return self.noise <= STABLE_NOISE


def timing_of(groups: Groups, *, shared: bool) -> Timing:
    """The figure of samples that were taken in groups, one group after the other, and its noise.

    What a core has for itself takes its shortest time whenever nothing interrupts it; the noise is how far above it the
    shortest times of half of the groups lie. What it shares with others, a cache or memory, has no such time: the
    shortest would be that of a rare moment. So the lower quartile is taken, and the noise is twice the standard error
    of those of the groups: of normally distributed ones, another run as long lies farther away in one of six times.

    Args:
        groups: seconds of one operation; one group or more, none empty.
        shared: whether others have a part in it.
    """

    num_samples = sum(map(len, groups))
    if len(groups) == 1:
        time_s = _figure(groups, shared=shared)
        return Timing(time_s, statistics.median(groups[0]) / time_s - 1, num_samples)
    if not shared:
        shortest = sorted(map(min, groups))
        return Timing(shortest[0], shortest[len(shortest) // 2] / shortest[0] - 1, num_samples)
    figures = [_figure([group], shared=True) for group in groups]
    error = 2 * statistics.stdev(figures) / math.sqrt(len(figures)) / statistics.fmean(figures)
    return Timing(_figure(groups, shared=True), error, num_samples)


def _figure(groups: Groups, *, shared: bool) -> float:
    samples = sorted(sample for group in groups for sample in group)
    return samples[int(_QUARTER * (len(samples) - 1)) if shared else 0]


@dataclass(slots=True)
class Samples:
    """Seconds of one operation, in groups taken one after the other; `shared`: see `timing_of`.

    `repeats` is how much work a sample takes.
    """

    shared: bool = False
    repeats: int = 1
    groups: list[list[float]] = field(default_factory=list)

    @property
    def timing(self) -> Timing:
        """What they come to."""
        return timing_of(self.groups, shared=self.shared)


@dataclass(slots=True)
class Measurement:
    """Time of one operation. `run(repeats)` does the work and returns seconds and the number of operations it did.

    A `reference`, which others are divided by, is sampled as long as any of them: the clock may rise meanwhile.
    The work is done for `warm_s` before it is timed. The samples may be those of an earlier pass, to be added to.
    """

    name: str
    run: Run
    samples: Samples = field(default_factory=Samples)
    reference: bool = False
    warm_s: float = 0.0

    @property
    def timing(self) -> Timing:
        """What it came to, without what it was measured with."""
        return self.samples.timing

    def tune(self, sample_s: float) -> None:
        """Choose how much work takes about `sample_s`."""
        samples = self.samples
        while True:
            seconds, _ = self.run(samples.repeats)
            if seconds >= sample_s / 2 or samples.repeats >= 1 << 40:
                return
            factor = min(sample_s / max(seconds, 1e-9), 16)
            samples.repeats = max(samples.repeats + 1, int(samples.repeats * factor))

    def sample(self, num_samples: int = SAMPLES_OF_PASS) -> None:
        """Take a group of samples. Those in which something else got the processor are left out, if others remain."""
        warm_s = 0.0
        while warm_s < self.warm_s:
            warm_s += max(self.run(self.samples.repeats)[0], 1e-6)
        whole: list[float] = []
        broken: list[float] = []
        for _ in range(num_samples):
            before = _interruptions()
            seconds, operations = self.run(self.samples.repeats)
            (whole if _interruptions() == before else broken).append(seconds / operations)
        self.samples.groups.append(whole or broken)


def _interruptions() -> int:
    """How often the system took a processor away from this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


@dataclass(frozen=True, slots=True)
class Room:
    """How much data stays near a core: in caches of its own, and in any."""

    own_bytes: int
    cached_bytes: int

    @classmethod
    def of(cls, cache_bytes: Sequence[int]) -> Room:
        """That of caches of these sizes, nearest first. Others have a part in the last of several."""
        sizes = list(cache_bytes) or [_USUAL_OWN_BYTES, _USUAL_LAST_BYTES]
        return cls(sizes[max(0, len(sizes) - 2)], 2 * sizes[-1])

    def measurement(self, name: str, run: Run, size_bytes: int, warm_s: float = 0.0, threads: int = 1) -> Measurement:
        """A measurement over so much data, warmed up for at least `warm_s` where that stays in a cache with others.

        Half of its own caches are a core's for certain: how well more fits them depends on the pages it lies in. In
        what several threads do, other cores have a part.
        """
        shared = size_bytes > self.own_bytes // 2
        least_s = max(_SHARED_WARM_S, warm_s) if shared else _OWN_WARM_S
        return Measurement(
            name, run, Samples(shared or threads > 1), warm_s=least_s if size_bytes <= self.cached_bytes else 0.0
        )


def measure_once(measurements: Sequence[Measurement], *, sample_s: float) -> None:
    """Add a group of samples to each measurement."""
    for measurement in measurements:
        if not measurement.samples.groups:
            measurement.tune(sample_s)
        measurement.sample()


def measure(
    measurements: Sequence[Measurement],
    *,
    sample_s: float,
    passes: int,
    budget_s: float,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Sample all measurements in `passes`, then those that are unstable, until none is or time is up.

    On a slow machine passes beyond the second are left out once the time is up.

    Args:
        measurements: what to measure; the samples end up in them.
        sample_s: time that a sample should last.
        passes: how often each is sampled, at least.
        budget_s: time to spend altogether, more only if two passes take more.
        progress: is told the done part, from 0 to 1.
        clock: seconds, for tests.
    """
    start = clock()
    done = 0.0

    def advance(least: float) -> None:
        nonlocal done
        done = max(done, least, min(1.0, (clock() - start) / budget_s) if budget_s > 0 else 0.0)
        if progress is not None:
            progress(done)

    for number in range(passes):
        if number >= 2 and clock() - start >= budget_s:
            break
        for place, measurement in enumerate(measurements):
            measure_once([measurement], sample_s=sample_s)
            advance((number + place / len(measurements)) / passes / 2)
    while clock() - start < budget_s and not all(m.timing.is_stable for m in measurements):
        for measurement in measurements:
            if measurement.reference or not measurement.timing.is_stable:
                measurement.sample()
        advance(done)
    advance(1.0)


def rounded(value: float) -> float:
    """Four significant digits: no measurement has more."""
    return float(f"{value:.4g}")
