"""What a program holds of a last cache that others use as well: neighbours on other cores, or other virtual machines.

Lines leave such a cache in the order of their last use, whoever brought them. So each user holds a share in proportion
to the rate at which it brings lines: of `size` bytes, `size x own / (own + others)`. That is how a fast stream keeps 24
MiB where dependent loads keep 8. A program's own rate follows from its time, and that from what it holds: the largest
size for which both agree is found by going on from the whole cache.

How fast others bring lines follows from the size that dependent loads were measured to get of the cache: they bring a
line each latency. Bounds: a cache all the program's own (fast), and what dependent loads get (slow).
"""

from __future__ import annotations

from collections.abc import Callable

from foretrace.cache_sim.hierarchy import Hierarchy
from foretrace.profiles.profile import Profile

from .hit_rates import Misses, shrunk

MOST_STEPS = 8
SETTLED = 0.02
"""Steps in which the size held is looked for, and the relative change that ends it."""


def effective_bytes(profile: Profile) -> int | None:
    """What dependent loads get of the last cache, where that is less than its size."""
    cache = profile.caches[-1] if profile.caches else None
    if cache is None or cache.effective_size_bytes is None or cache.effective_size_bytes >= cache.size_bytes:
        return None
    return cache.effective_size_bytes


def as_measured(hierarchy: Hierarchy, profile: Profile) -> Hierarchy:
    """The hierarchy with what dependent loads get of its last cache: points measured beyond are not of that cache."""
    effective = effective_bytes(profile)
    return hierarchy if effective is None else shrunk(hierarchy, effective)


def others_bytes_per_s(profile: Profile, latency_s: float) -> float:
    """The rate at which others bring lines into the last cache, where a hit takes `latency_s`; 0 if there are none."""
    effective, last = effective_bytes(profile), profile.caches[-1]
    if effective is None or latency_s <= 0:
        return 0.0
    return (last.line_bytes or 64) / latency_s * (last.size_bytes / effective - 1)


def held_bytes(
    hierarchy: Hierarchy, others: float, misses_if: Callable[[float], Misses], time_s: Callable[[Misses], float]
) -> float:
    """What a program holds of the last cache.

    Args:
        hierarchy: the caches of one core, whole.
        others: rate at which others bring lines, bytes/s.
        misses_if: the program's misses if it held so many bytes.
        time_s: the program's time with such misses.
    """
    size = last = float(hierarchy.levels[-1].size_bytes)
    for _ in range(MOST_STEPS):
        misses = misses_if(last)
        arriving = misses.misses[:, -2] if misses.misses.shape[1] > 1 else misses.executions
        own = float(arriving.sum()) * hierarchy.levels[-1].line_bytes / max(time_s(misses), 1e-12)
        held = min(size * own / (own + others), last) if own > 0 else 0.0
        if held >= last * (1 - SETTLED):
            return held
        last = held
    return last
