"""Cache sizes as loads see them: where the time of a dependent load rises with the working set.

In a virtual machine, or beside busy neighbours, a core gets less of a shared cache than the system reports.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeVar

_PART_OF_STEP = 0.25
"""A cache ends where this part of the next level's time is added. Where lines are evicted at random, or scattered
unevenly over the sets, times rise slowly beyond a cache's size: at a third beyond it, by this part."""
_LESS = 0.75
"""A cache that ends below this part of its reported size is taken for smaller."""
_LOST = 2.0
"""Loads of the last cache do not take so many times longer from one working set to the next: beyond, lines are there no
more, however small the set is beside the reported size."""
_RISE = 1.35
"""Without reported sizes: a cache ends where doubling the working set makes loads so much slower."""

Size = TypeVar("Size", int, float)
Point = tuple[int, float]
"""A working set in bytes, or what else times rise with, and the time of a load in seconds."""


def without_bumps(points: Sequence[tuple[Size, float]]) -> list[tuple[Size, float]]:
    """The points in order of size, no time more than those of larger working sets: noise only ever adds time."""
    ordered = sorted(points)
    times = list(itertools.accumulate((time for _, time in reversed(ordered)), min))[::-1]
    return [(size, time) for (size, _), time in zip(ordered, times, strict=True)]


def effective_size(points: Sequence[Point], reported_bytes: Sequence[int]) -> int | None:
    """Size of the last cache for loads, in bytes; None where that is about what is reported, or cannot be told.

    The last is the one that others take their share of. Its own time is taken near its small end: how far it reaches is
    the question.

    Args:
        points: measured times of dependent loads.
        reported_bytes: sizes of two or more caches as the system reports them, ascending.
    """
    if len(reported_bytes) < 2:
        return None
    below, reported = reported_bytes[-2:]
    curve = without_bumps(points)
    reach = max(2.0 * below, below * (reported / below) ** (1 / 3))
    inside = [time for size, time in curve if 1.5 * below <= size <= reach]
    beyond = [time for size, time in curve if size >= 1.5 * reported]
    if not inside or not beyond:
        return None
    own = next((time for time, next_time in itertools.pairwise(inside) if next_time >= _LOST * time), inside[-1])
    if beyond[-1] < _RISE * own:
        return None
    end = crossing(curve, own + _PART_OF_STEP * (beyond[-1] - own))
    return int(end) if end is not None and end < _LESS * reported else None


def streamed_size(points: Sequence[Point], reported_bytes: Sequence[int]) -> int | None:
    """Size of the last cache for streams, in bytes; None where that is about what is reported, or cannot be told.

    Where they begin to take a quarter of what main memory adds, a quarter of their lines come from there: lines are
    evicted much as if at random, so that three quarters of the working set stay.

    Args:
        points: measured times of sequential loads.
        reported_bytes: sizes of two or more caches as the system reports them, ascending.
    """
    end = effective_size(points, reported_bytes)
    return None if end is None else int((1 - _PART_OF_STEP) * end)


def cache_ends(points: Sequence[Point]) -> list[int]:
    """Ends of the caches, nearest first, found without knowing how many there are: sizes among those measured."""
    curve = without_bumps(points)
    ends: list[int] = []
    before: float | None = None  # the time before a rise that has not ended
    for size, time in curve:
        doubled = _time_at(curve, 2 * size)
        rises = doubled is not None and doubled >= _RISE * time
        if rises and before is None:
            before = time
        elif not rises and before is not None:
            limit = before + _PART_OF_STEP * (time - before)
            ends.append(max(s for s, t in curve if t <= limit))
            before = None
    return ends


def crossing(curve: Sequence[tuple[float, float]], time_s: float) -> float | None:
    """The working set, or what else times are given by, at which loads begin to take `time_s`, between the points."""
    for (size, time), (next_size, next_time) in itertools.pairwise(curve):
        if time <= time_s < next_time:
            part = (time_s - time) / (next_time - time)
            return math.exp(math.log(size) + part * math.log(next_size / size))
    return None


def _time_at(curve: Sequence[Point], size_bytes: float) -> float | None:
    """Time at a working set, between the points; None beyond them."""
    for (size, time), (next_size, next_time) in itertools.pairwise(curve):
        if size <= size_bytes <= next_size:
            return time + (next_time - time) * math.log(size_bytes / size) / math.log(next_size / size)
    return None
