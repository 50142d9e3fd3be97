"""The curves of a machine, as points to be drawn: what was measured, and what was published by cache level."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median
from typing import Any

from foretrace.base.errors import ProfileError, quoted
from foretrace.base.units import format_bytes, format_bytes_per_s, format_seconds

from .checks import suggestion
from .points import Movement, SurfacePoint, ThreadPoint
from .profile import BandwidthPoint, GatherScatterCurve, Profile


class Quantity(StrEnum):
    """The quantity along an axis."""

    SIZE = "bytes"
    THREADS = "threads"
    TIME = "seconds"
    BANDWIDTH = "bytes/s"
    HIT_RATE = "hit rate"
    SPEEDUP = "times as fast"

    @property
    def is_logarithmic(self) -> bool:
        """Whether an axis of it is; a hit rate may be 0."""
        return self is not Quantity.HIT_RATE

    def shown(self, value: float) -> str:
        """A value of it, for people."""
        if self is Quantity.SIZE:
            return format_bytes(round(value))
        if self is Quantity.TIME:
            return format_seconds(value)
        if self is Quantity.HIT_RATE:
            return f"{value:.0%}"
        if self is Quantity.SPEEDUP:
            return f"{value:.2f}x"
        return format_bytes_per_s(value) if self is Quantity.BANDWIDTH else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Series:
    """One curve: (x, y, relative noise) with ascending x; two points of the same x are a step.

    `measured`: its points are measurements, rather than places on a published curve.
    """

    title: str
    points: tuple[tuple[float, float, float], ...]
    measured: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves that share their axes, which are logarithmic but for hit rates."""

    title: str
    x: Quantity
    x_title: str
    y: Quantity
    y_title: str
    series: tuple[Series, ...]


MOST_CURVES = 5
BEYOND = 4
"""An end that a curve does not have is drawn at this many times its last known range or size."""


def charts_of(profile: Profile) -> tuple[Chart, ...]:
    """Everything a profile has that can be drawn, in the order in which it is explained; empty charts are left out."""
    set_title = "working set"
    charts = (
        Chart("dependent loads", Quantity.SIZE, set_title, Quantity.TIME, "latency", tuple(_latency(profile))),
        Chart("one core's bandwidth", Quantity.SIZE, set_title, Quantity.BANDWIDTH, "bandwidth", _bandwidth(profile)),
        Chart("loads by stride", Quantity.SIZE, set_title, Quantity.BANDWIDTH, "bandwidth", _surface(profile)),
        Chart(
            "loads by hit rate", Quantity.HIT_RATE, "hit rate of the first cache", Quantity.BANDWIDTH, "bandwidth",
            _by_hit_rate(profile),
        ),
        *gather_scatter_charts(profile.gather_scatter),
        Chart("several threads", Quantity.THREADS, "threads", Quantity.BANDWIDTH, "bandwidth", _threads(profile)),
    )  # fmt: skip
    return tuple(chart for chart in charts if chart.series)


def chosen(charts: Sequence[Chart], titles: Sequence[str], machine: str) -> tuple[Chart, ...]:
    """The charts with only the curves of these titles; charts without any are left out.

    Raises:
        ProfileError: there is no curve of that title.
    """
    known = [series.title for chart in charts for series in chart.series]
    for title in titles:
        if title not in known:
            raise ProfileError(f"{machine}: has no curve {quoted(title)}{suggestion(title, known)}")
    kept = (replace(chart, series=tuple(s for s in chart.series if s.title in titles)) for chart in charts)
    return tuple(chart for chart in kept if chart.series)


def gather_scatter_charts(curves: Sequence[GatherScatterCurve]) -> tuple[Chart, ...]:
    """The curves in one chart, or, where they are more than can be told apart, those of each operation in one."""
    groups = {"gather and scatter": list(curves)}
    if len(curves) > MOST_CURVES:
        operations = dict.fromkeys(operation for curve in curves for operation in curve.operations)
        groups = {operation: [c for c in curves if operation in c.operations] for operation in operations}
    return tuple(
        Chart(title, Quantity.SIZE, "address range", Quantity.BANDWIDTH, "bandwidth", tuple(map(_curve, chosen)))
        for title, chosen in groups.items()
    )


def _latency(profile: Profile) -> Iterator[Series]:
    pages = sorted({p.page_bytes for p in profile.latency}, key=lambda size: size or 0)
    for page_bytes in pages:
        points = [(p.working_set_bytes, p.latency_s, p.noise) for p in profile.latency if p.page_bytes == page_bytes]
        yield _measured(f"pages of {format_bytes(page_bytes)}" if page_bytes else "measured", points)
    if not pages:
        yield from _published_latency(profile)


def _published_latency(profile: Profile) -> Iterator[Series]:
    """The latencies given for the cache levels and main memory, as steps; with a gap where one is not given."""
    steps: list[tuple[str, float, float | None]] = [(c.name, c.size_bytes, c.latency_s) for c in profile.caches]
    if steps and profile.memory is not None:
        steps.append(("main memory", BEYOND * steps[-1][1], profile.memory.latency_s))
    starts = (min(1024.0, steps[0][1] / 2), *(size for _, size, _ in steps)) if steps else ()
    given = zip(starts, steps, strict=False)
    for known, run in itertools.groupby(given, key=lambda pair: pair[1][2] is not None):
        if known:
            levels = list(run)
            points = [
                (x, latency or 0.0, 0.0) for start, (_, size, latency) in levels for x in (float(start), float(size))
            ]
            yield Series(f"{', '.join(name for _, (name, _, _) in levels)}, as published", tuple(points))


def _bandwidth(profile: Profile) -> tuple[Series, ...]:
    return _grouped(
        (f"{p.pattern}, {p.access_bytes} bytes an access", (p.pattern, p.access_bytes), p.working_set_bytes, p)
        for p in profile.bandwidth
    )


def _surface(profile: Profile) -> tuple[Series, ...]:
    """Loads only: a chart of all three movements is not to be read."""
    return _grouped(
        (
            f"stride {format_bytes(p.stride_bytes)}, {p.access_bytes} bytes",
            (p.stride_bytes, p.access_bytes),
            p.working_set_bytes,
            p,
        )
        for p in profile.surface
        if p.movement is Movement.LOAD
    )


def _by_hit_rate(profile: Profile) -> tuple[Series, ...]:
    """The MultiMAPS surface as in Figure 8 of Carrington et al., ICS'11: a curve for each level that serves most of the
    misses, the median of the points with equal hit rates."""
    names = [*(cache.name for cache in profile.caches), "main memory"]
    found: dict[int, dict[float, list[float]]] = {}
    for point in profile.surface:
        if point.movement is Movement.LOAD and len(point.hit_rates) == len(profile.caches):
            served = [b - a for a, b in itertools.pairwise((*point.hit_rates, 1.0))]
            level = served.index(max(served)) + 1
            if max(served) > 0:
                found.setdefault(level, {}).setdefault(point.hit_rates[0], []).append(point.bandwidth_bytes_per_s)
    return tuple(
        _measured(f"misses served by {names[level]}", [(x, median(ys), None) for x, ys in found[level].items()])
        for level in sorted(found)
    )


def _threads(profile: Profile) -> tuple[Series, ...]:
    return _grouped(
        (f"{p.movement}, {format_bytes(p.working_set_bytes)} each", (p.movement, p.working_set_bytes), p.threads, p)
        for p in profile.thread_bandwidth
    )


def _grouped(
    points: Iterable[tuple[str, tuple[Any, ...], int, BandwidthPoint | SurfacePoint | ThreadPoint]],
) -> tuple[Series, ...]:
    """A curve of bandwidth for each key, in ascending order, of points given as title, key, x and what was measured."""
    groups: dict[tuple[Any, ...], tuple[str, list[tuple[int, float, float | None]]]] = {}
    for title, key, x, point in points:
        groups.setdefault(key, (title, []))[1].append((x, point.bandwidth_bytes_per_s, point.noise))
    return tuple(_measured(*groups[key]) for key in sorted(groups))


def curve_title(curve: GatherScatterCurve) -> str:
    """The title of a gather/scatter curve, unlike those of the machine's other curves."""
    parts = [" and ".join(curve.operations)]
    parts += [str(curve.index_mode)] if curve.index_mode else []
    parts += [f"{curve.element_bytes} bytes"] if curve.element_bytes else []
    parts += [f"{curve.threads} threads"] if curve.threads and curve.threads > 1 else []
    return ", ".join(parts)


def _curve(curve: GatherScatterCurve) -> Series:
    title = curve_title(curve)
    if curve.points:
        return _measured(title, [(p.range_bytes, p.bandwidth_bytes_per_s, p.noise) for p in curve.points])
    return Series(title, tuple(_published(curve)))


def _published(curve: GatherScatterCurve) -> Iterator[tuple[float, float, float]]:
    """The ends of a curve's pieces, and places in between: a straight line is none on logarithmic axes."""
    for piece in curve.pieces:
        first = max(piece.from_bytes, 1)
        last = BEYOND * first if piece.to_bytes is None else piece.to_bytes - 1
        for x in sorted({first, last, *_between(first, last)}):
            yield float(x), piece.bandwidth_bytes_per_s(x), 0.0


def _between(first: int, last: int) -> Iterator[int]:
    """Eight places to each doubling."""
    return itertools.takewhile(lambda x: x < last, (round(first * 2 ** (k / 8)) for k in range(1, 512)))


def _measured(title: str, points: Sequence[tuple[float, float, float | None]]) -> Series:
    ordered = sorted(points, key=lambda point: point[0])
    return Series(title, tuple((float(x), y, noise or 0.0) for x, y, noise in ordered), measured=True)
