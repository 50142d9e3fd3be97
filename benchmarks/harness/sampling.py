"""Repeated timing on machines that are not quiet: passes over all that is to be measured, until the figures settle.

A pass takes a few samples of everything, so a burst of noise costs each measurement a few samples, and none all of
them. How well the passes agree is a figure's noise.

Beside a neighbour on the same core, which comes and goes within milliseconds, a reference loop runs before and after
each sample: those that it shows to be disturbed count only where there are no others.
"""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .reference_loop import DISTURBED_GLANCE, ReferenceLoop

SAMPLES_OF_PASS = 4
"""So many undisturbed ones are waited for."""
STABLE_NOISE = 0.05
"""A figure with more noise is unstable: another run need not agree."""

_OWN_WARM_S = 0.002
_SHARED_WARM_S = 0.02
"""A cache that others use as well takes its time: it learns which lines to keep, and others must be driven out."""
_OF_THREADS_S = 0.001
"""Threads begin and end some microseconds apart."""
_QUARTER = 0.25
_RUNS_OF_TUNING = 3
_PIECES = 8
_LEAST_GROUPS = 2  # of undisturbed samples: one alone does not tell its noise
_TRUSTED_SAMPLES = 3  # so many are not undisturbed by mistake

_USUAL_OWN_BYTES, _USUAL_LAST_BYTES = 512 << 10, 32 << 20

STATISTIC = (
    "the shortest time of the samples, noise: how far above it half of the passes come; where others have a part in it "
    "(caches that several cores use, memory, new pages) the lower quartile, noise: its error over passes, by Student's "
    "distribution; of samples between two moments at which a reference loop on the core was undisturbed, if there are"
)

Run = Callable[[int], tuple[float, int]]
"""`run(repeats)` does the work and returns seconds and the number of operations it did."""
Progress = Callable[[float], None]
Groups = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Timing:
    """Result of a measurement: seconds of one operation, and how far the passes agree on it.

    `disturbed`: a neighbour on the core had a part in it, as far as a reference loop tells.
    """

    time_s: float
    noise: float
    num_samples: int
    disturbed: bool = False

    @property
    def is_stable(self) -> bool:
        """Whether measuring again is likely to give the same."""
        return self.noise <= STABLE_NOISE


def timing_of(groups: Groups, *, shared: bool) -> Timing:
    """The figure of samples that were taken in groups, one group after the other, and its noise.

    What a core has for itself takes its shortest time whenever nothing interrupts it; the noise is how far above it the
    shortest times of half of the groups lie. What it shares with others, a cache or memory, has no such time: the
    shortest would be that of a rare moment. So the lower quartile is taken, and the noise is twice the standard error
    of those of the groups, more for few of them, as Student's distribution has it: of normally distributed ones, the
    figure lies farther away in one of twenty times, that of another run as long in one of six. It is no more than the
    longest sample lies above.

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
    error = statistics.stdev(figures) / math.sqrt(len(figures)) / statistics.fmean(figures)
    time_s = _figure(groups, shared=True)
    farthest = max(map(max, groups)) / time_s - 1
    return Timing(time_s, min(_two_sigma(len(figures) - 1) * error, farthest), num_samples)


def _two_sigma(degrees: int) -> float:
    """Quantile of Student's distribution that is as rare as 2 of the normal one: Abramowitz and Stegun, 26.7.5.

    Too low by a quarter for 1 degree of freedom, by 3 % for 2, and by less than 1 % from 3 on.
    """
    return 2 + 2.5 / degrees + 3.0625 / degrees**2 + 2.8594 / degrees**3


def _figure(groups: Groups, *, shared: bool) -> float:
    samples = sorted(sample for group in groups for sample in group)
    return samples[int(_QUARTER * (len(samples) - 1)) if shared else 0]


class Sample(NamedTuple):
    """Seconds of one operation; cycles of an instruction of the reference loop before or after it, whichever are more.

    Of what lies in caches also before the run before: a neighbour that has gone has left its data there. Without a
    reference loop that is 0.
    """

    time_s: float
    reference_cycles: float = 0.0


@dataclass(slots=True)
class Samples:
    """In groups taken one after the other; `shared`: see `timing_of`.

    `repeats` is how much work a sample takes, `loop` what was run beside them.
    """

    shared: bool = False
    repeats: int = 1
    groups: list[list[Sample]] = field(default_factory=list)
    loop: ReferenceLoop | None = None

    def slowdown(self, sample: Sample) -> float:
        """Slowdown of the reference loop during a sample: its time over the undisturbed time; 1 without a loop."""
        return 1.0 if self.loop is None else self.loop.slowdown(sample.reference_cycles)

    def is_undisturbed(self, sample: Sample) -> bool:
        """Whether no neighbour was noticed beside it."""
        return self.slowdown(sample) < DISTURBED_GLANCE

    @property
    def timing(self) -> Timing:
        """Timing that the samples come to.

        Undisturbed ones alone, if there are three or more, in two groups. Else it may be off by as much as the loop was
        beside the third of the least disturbed ones, or by as much as all groups disagree, whichever is more.
        """
        all_groups = [[sample.time_s for sample in group] for group in self.groups]
        quiet = [[s.time_s for s in group if self.is_undisturbed(s)] for group in self.groups]
        quiet = [group for group in quiet if group]
        trusted = len(quiet) >= _LEAST_GROUPS and sum(map(len, quiet)) >= _TRUSTED_SAMPLES
        if trusted or quiet == all_groups:
            return timing_of(quiet, shared=self.shared)
        found = timing_of(all_groups, shared=self.shared)
        slowdowns = sorted(self.slowdown(sample) for group in self.groups for sample in group)
        beside = slowdowns[min(_TRUSTED_SAMPLES, len(slowdowns)) - 1]
        time_s = timing_of(quiet, shared=self.shared).time_s if quiet else found.time_s
        return Timing(time_s, max(found.noise, beside - 1), found.num_samples, disturbed=True)


@dataclass(slots=True)
class Measurement:
    """Time of one operation. `run(repeats)` does the work and returns seconds and the number of operations it did.

    A `reference`, which others are divided by, is sampled as long as any of them: the clock may rise meanwhile.
    The work is done for `warm_s` before it is timed. Before that `fetch` brings its data into a cache that others use:
    slow work would not get it there before they have driven out again what it began with. The samples may be those of
    an earlier pass, to be added to; none lasts less than `least_sample_s`. What `is_fixed` does the same whatever
    `repeats` is.
    """

    name: str
    run: Run
    samples: Samples = field(default_factory=Samples)
    reference: bool = False
    warm_s: float = 0.0
    least_sample_s: float = 0.0
    fetch: Run | None = None
    is_fixed: bool = False

    @property
    def timing(self) -> Timing:
        """Timing of the measurement, without what it was measured with."""
        return self.samples.timing

    def tune(self, sample_s: float) -> None:
        """Choose how much work takes about `sample_s`, whatever may interrupt it: the shortest of a few runs."""
        samples = self.samples
        if self.is_fixed:
            return
        sample_s = max(sample_s, self.least_sample_s)
        while True:
            seconds, _ = self.run(samples.repeats)
            for _ in range(_RUNS_OF_TUNING - 1):
                if seconds >= sample_s / 2:
                    seconds = min(seconds, self.run(samples.repeats)[0])
            if seconds >= sample_s / 2 or samples.repeats >= 1 << 40:
                return
            factor = min(sample_s / max(seconds, 1e-9), 16)
            samples.repeats = max(samples.repeats + 1, int(samples.repeats * factor))

    def sample(self, loop: ReferenceLoop | None = None, *, patience_s: float = 0.0) -> None:
        """Take a group of samples. Those in which something else got the processor are left out, if others remain.

        Args:
            loop: runs before and after each sample; None tells nothing of neighbours.
            patience_s: how long to wait for undisturbed ones, if the first are not.
        """
        self._warm_up()
        self.samples.loop = loop
        if self._is_kept_beside_others:
            patience_s = 0.0  # while waiting its data would be driven out, by neighbours on any core
        whole: list[Sample] = []
        broken: list[Sample] = []
        undisturbed = 0
        end = time.monotonic() + patience_s
        earlier_cycles = before_cycles = _glance(loop)
        while undisturbed < SAMPLES_OF_PASS:
            if len(whole) + len(broken) >= SAMPLES_OF_PASS:
                if loop is None or time.monotonic() >= end:
                    break
                if self._is_disturbed(before_cycles):
                    earlier_cycles, before_cycles = before_cycles, _glance(loop)
                    continue
                if self._is_disturbed(self._counted(earlier_cycles)):
                    self._fetch_again()
                    earlier_cycles, before_cycles = before_cycles, _glance(loop)
                    continue
            interruptions = _interruptions()
            seconds, operations = self.run(self.samples.repeats)
            after_cycles = _glance(loop)
            sample = Sample(seconds / operations, max(self._counted(earlier_cycles), before_cycles, after_cycles))
            earlier_cycles, before_cycles = before_cycles, after_cycles
            if _interruptions() != interruptions:
                broken.append(sample)
                if self.warm_s:
                    self._fetch_again()
                    before_cycles = _glance(loop)
                continue
            whole.append(sample)
            undisturbed += self.samples.is_undisturbed(sample)
        self.samples.groups.append(whole or broken)

    @property
    def _is_kept_beside_others(self) -> bool:
        """Whether its data lies in a cache that others use as well."""
        return self.samples.shared and self.warm_s > 0

    def _warm_up(self) -> None:
        if self.fetch is not None and self._is_kept_beside_others:
            _run_for(_SHARED_WARM_S, self.fetch, 1)
        _run_for(self.warm_s, self.run, self.samples.repeats)

    def _fetch_again(self) -> None:
        """Fetch what somebody else drove out of caches: of a core's own a sample's work is all, of others a part."""
        if self._is_kept_beside_others:
            self._warm_up()
        else:
            self.run(self.samples.repeats)

    def _counted(self, earlier_cycles: float) -> float:
        """A glance before the run before: with nothing in caches, it does not matter."""
        return earlier_cycles if self.warm_s else 0.0

    def _is_disturbed(self, glance_cycles: float) -> bool:
        return not self.samples.is_undisturbed(Sample(0.0, glance_cycles))


def _run_for(least_s: float, run: Run, repeats: int) -> None:
    done_s = 0.0
    while done_s < least_s:
        done_s += max(run(repeats)[0], 1e-6)


def in_pieces(run: Run) -> Run:
    """Runs of which the shortest of several pieces counts: for what is disturbed within less than a sample takes."""

    def run_pieces(repeats: int) -> tuple[float, int]:
        seconds, operations = min(run(repeats) for _ in range(_PIECES))
        return _PIECES * seconds, _PIECES * operations

    return run_pieces


def _glance(loop: ReferenceLoop | None) -> float:
    return 0.0 if loop is None else loop.glance()


def _interruptions() -> int:
    """Number of times that the system took a processor away from this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


@dataclass(frozen=True, slots=True)
class Room:
    """Amount of data that stays near a core: in caches of its own, and in any."""

    own_bytes: int
    cached_bytes: int

    @classmethod
    def of(cls, cache_bytes: Sequence[int]) -> Room:
        """Room in caches of these sizes, nearest first. Others have a part in the last of several."""
        sizes = list(cache_bytes) or [_USUAL_OWN_BYTES, _USUAL_LAST_BYTES]
        return cls(sizes[max(0, len(sizes) - 2)], 2 * sizes[-1])

    def measurement(
        self,
        name: str,
        run: Run,
        size_bytes: int,
        *,
        warm_s: float = 0.0,
        fetch: Run | None = None,
        threads: int = 1,
        scattered: bool = False,
    ) -> Measurement:
        """A measurement over so much data. `fetch`: see Measurement.

        Where that stays in a cache with others it is warmed up for `warm_s`, and for some time if nothing fetches it.
        Beyond caches that is done for `scattered` accesses alone: their data does not stay, but the tables by which
        addresses are translated do.

        Half of its own caches are a core's for certain: how well more fits them depends on the pages it lies in. In
        what several threads do, other cores have a part.
        """
        shared = size_bytes > self.own_bytes // 2
        least_s = max(warm_s, 0.0 if fetch else _SHARED_WARM_S) if shared else _OWN_WARM_S
        if size_bytes > self.cached_bytes:
            least_s, fetch = _SHARED_WARM_S if scattered else 0.0, None
        return Measurement(
            name,
            run,
            Samples(shared or threads > 1),
            warm_s=least_s,
            least_sample_s=_OF_THREADS_S if threads > 1 else 0.0,
            fetch=fetch,
        )


def measure_once(
    measurements: Sequence[Measurement],
    *,
    sample_s: float,
    loop: ReferenceLoop | None = None,
    patience_s: float = 0.0,
) -> None:
    """Add a group of samples to each measurement; `loop` and `patience_s`: see `Measurement.sample`."""
    for measurement in measurements:
        if not measurement.samples.groups:
            measurement.tune(sample_s)
        measurement.sample(loop, patience_s=patience_s)


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
