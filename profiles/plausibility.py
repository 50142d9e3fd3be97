"""Figures that no machine can have: out of every range, which mostly means another unit, or at odds with each other.

What is beyond doubt is refused. What may be noise is a doubt, a sentence that `foretrace machines check` prints.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from foretrace.base.errors import ProfileError

from .figure import unit_of
from .profile import BandwidthPoint, LatencyPoint, Pattern, Profile, SourceKind

IMPOSSIBLE_FALL = 2.0
"""Latency never falls by this factor with a larger working set, whatever the noise."""
DOUBTFUL_CHANGE = 1.25
"""Beyond the noise of both points: latency that falls by this factor, or bandwidth that rises by it farther out."""

_ROUNDING = 1e-9
_MEASURED_TOLERANCE = 1.1  # clocks differ between what two figures were measured at
_PEAK_TOLERANCE = 1.02  # published figures are rounded


def refuse_unlikely(where: str, field: str, value: float) -> None:
    """Refuse a figure out of the range that its unit, told by its key, allows. Zero is another rule's.

    Raises:
        ProfileError: names the figure, the range and how the unit is written.
    """
    unit = unit_of(field)
    if unit is not None and value and not unit.least <= value <= unit.most:
        raise ProfileError(
            f"{where}: {field} is {value:g}, no machine has that: must be from {unit.least:g} to {unit.most:g}, in "
            f"{unit.written}"
        )


def refuse_contradictions(profile: Profile) -> None:
    """Refuse figures that cannot both be true.

    Raises:
        ProfileError: names both.
    """
    memory = profile.memory
    if memory is not None and memory.peak_bandwidth_bytes_per_s is not None:
        peak = memory.peak_bandwidth_bytes_per_s
        for field in ("core_read_bandwidth_bytes_per_s", "sustained_bandwidth_bytes_per_s"):
            value = getattr(memory, field)
            if value is not None and value > peak * _PEAK_TOLERANCE:
                raise ProfileError(
                    f"memory: {field} is {value:g}, must be at most peak_bandwidth_bytes_per_s, {peak:g}"
                )
    for text, measured in _rates_at_odds(profile):
        if not measured:
            raise ProfileError(text)
    for number, before, after, fall in _falls(profile.latency):
        if fall > IMPOSSIBLE_FALL:
            raise ProfileError(
                f"latency entry {number}: latency_s is {after.latency_s:g} over {after.working_set_bytes} bytes, "
                f"{fall:.3g} times below the {before.latency_s:g} over {before.working_set_bytes}, noise allowed for: "
                "loads from more memory are not faster"
            )


def _rates_at_odds(profile: Profile) -> Iterator[tuple[str, bool]]:
    """Rates of an accelerator that its other figures rule out, each with whether one was measured."""
    table, core, memory = profile.accelerator, profile.core, profile.memory
    if table is None:
        return
    peak = None
    if core and core.cores and core.clock_hz and core.peak_flops_per_cycle:
        peak = core.cores * core.clock_hz * core.peak_flops_per_cycle
    bandwidth = memory.sustained_bandwidth_bytes_per_s if memory else None
    for smaller, larger, value, most in (
        ("warp_threads", "threads_per_multiprocessor", table.warp_threads, table.threads_per_multiprocessor),
        ("fp64_flops_per_s", "core's cores x clock_hz x peak_flops_per_cycle", table.fp64_flops_per_s, peak),
        ("fp64_flops_per_s", "fp32_flops_per_s", table.fp64_flops_per_s, table.fp32_flops_per_s),
        ("special_ops_per_s", "fp32_flops_per_s", table.special_ops_per_s, table.fp32_flops_per_s),
        ("l2_bytes_per_s", "l1_bytes_per_s", table.l2_bytes_per_s, table.l1_bytes_per_s),
        ("last_cache_bytes_per_s", "l2_bytes_per_s", table.last_cache_bytes_per_s, table.l2_bytes_per_s),
        ("l1_bytes_per_s", "l1_peak_bytes_per_s", table.l1_bytes_per_s, table.l1_peak_bytes_per_s),
        ("l2_bytes_per_s", "l2_peak_bytes_per_s", table.l2_bytes_per_s, table.l2_peak_bytes_per_s),
        ("last_cache_bytes_per_s", "last_cache_peak_bytes_per_s", table.last_cache_bytes_per_s,
         table.last_cache_peak_bytes_per_s),
        ("memory's sustained_bandwidth_bytes_per_s", "l2_bytes_per_s", bandwidth, table.l2_bytes_per_s),
        ("memory's sustained_bandwidth_bytes_per_s", "last_cache_bytes_per_s", bandwidth, table.last_cache_bytes_per_s),
    ):  # fmt: skip
        if value is not None and most is not None and value > most * _MEASURED_TOLERANCE:
            measured = any(
                profile.sources[table.source[field]].kind is SourceKind.MEASURED
                for field in (smaller, larger)
                if field in table.source
            )
            yield f"accelerator: {smaller} is {value:g}, must be at most {larger}, {most:g}", measured


def doubts(profile: Profile) -> tuple[str, ...]:
    """Measured figures that contradict each other beyond their noise, a sentence each."""
    rates = (text for text, measured in _rates_at_odds(profile) if measured)
    return (*_latency_doubts(profile), *_bandwidth_doubts(profile), *rates)


def with_contradictions_as_noise(profile: Profile) -> Profile:
    """A profile just measured, where figures that contradict each other are as noisy as that shows.

    Other work makes a machine slower, never faster: of two figures in contradiction the slower one was disturbed.
    """
    latency = list(profile.latency)
    while falls := [fall for fall in _falls(latency) if fall[-1] > 1 + _ROUNDING]:
        _, before, _, factor = max(falls, key=lambda fall: fall[-1])
        latency[latency.index(before)] = structs.replace(before, noise=_noise_with(before.noise, factor))
    bandwidth = profile.bandwidth
    for access_bytes in _sequential_sizes(profile):
        farther = 0.0
        for points in reversed(_by_level(profile, access_bytes)):
            if points and _most_of(points) < farther:
                factor = farther / _most_of(points)
                noisy = {id(p): structs.replace(p, noise=_noise_with(p.noise, factor)) for p in points}
                bandwidth = tuple(noisy.get(id(p), p) for p in bandwidth)
            farther = max(farther, _least_of(points) if points else 0.0)
    return structs.replace(profile, latency=tuple(latency), bandwidth=bandwidth)


def _noise_with(noise: float | None, factor: float) -> float:
    return (1 + (noise or 0)) * factor - 1


def _latency_doubts(profile: Profile) -> Iterable[str]:
    for number, before, after, fall in _falls(profile.latency):
        if fall > DOUBTFUL_CHANGE:
            yield (
                f"latency entry {number}: falls from {before.latency_s:g} s over {before.working_set_bytes} bytes to "
                f"{after.latency_s:g} s over {after.working_set_bytes}, {fall - 1:.0%} more than noise explains"
            )


def _falls(latency: Sequence[LatencyPoint]) -> Iterable[tuple[int, LatencyPoint, LatencyPoint, float]]:
    """Latency points below one of a smaller working set: number in the file, that one, the point, how many times."""
    pages = {point.page_bytes for point in latency}
    for page_bytes in sorted(pages, key=lambda size: size or 0):
        points = [(n, p) for n, p in enumerate(latency, 1) if p.page_bytes == page_bytes]
        highest: LatencyPoint | None = None
        for number, point in sorted(points, key=lambda pair: pair[1].working_set_bytes):
            if highest is None or _least(point.latency_s, point.noise) >= _least(highest.latency_s, highest.noise):
                highest = point
            else:
                noise = (1 + (highest.noise or 0)) * (1 + (point.noise or 0))
                yield number, highest, point, highest.latency_s / point.latency_s / noise


def _least(value: float, noise: float | None) -> float:
    return value / (1 + (noise or 0))


def _bandwidth_doubts(profile: Profile) -> Iterable[str]:
    """Levels that stream faster than one nearer to the core."""
    names = [*(cache.name for cache in profile.caches), "main memory"]
    for access_bytes in _sequential_sizes(profile):
        levels = zip(names, _by_level(profile, access_bytes), strict=True)
        known = [(name, points) for name, points in levels if points]
        for (inner_name, inner), (outer_name, outer) in itertools.pairwise(known):
            if _least_of(outer) > _most_of(inner) * DOUBTFUL_CHANGE:
                yield (
                    f"bandwidth: {outer_name} streams at {_least_of(outer):g} bytes/s ({access_bytes} bytes an access) "
                    f"or more, faster than {inner_name}, {_most_of(inner):g} at most"
                )


def _sequential_sizes(profile: Profile) -> Sequence[int]:
    return sorted({p.access_bytes for p in profile.bandwidth if p.pattern is Pattern.SEQUENTIAL})


def _by_level(profile: Profile, access_bytes: int) -> list[list[BandwidthPoint]]:
    """Sequential points by the level that holds their working set."""
    ends: Sequence[float] = (*(cache.size_bytes for cache in profile.caches), float("inf"))
    wanted = [p for p in profile.bandwidth if p.pattern is Pattern.SEQUENTIAL and p.access_bytes == access_bytes]
    starts = (0, *ends[:-1])
    return [[p for p in wanted if start < p.working_set_bytes <= end] for start, end in zip(starts, ends, strict=True)]


def _least_of(points: Sequence[BandwidthPoint]) -> float:
    return max(_least(p.bandwidth_bytes_per_s, p.noise) for p in points)


def _most_of(points: Sequence[BandwidthPoint]) -> float:
    return max(p.bandwidth_bytes_per_s * (1 + (p.noise or 0)) for p in points)
