"""A program's share of a last cache that others use as well: neighbours on other cores, or other virtual machines.

Lines leave such a cache in the order of their last use, whoever brought them. So each user holds a share in proportion
to the rate at which it brings lines: of `size` bytes, `size x own / (own + others)`. That is how a fast stream keeps
more than dependent loads. A program's own rate follows from its time, and that from what it holds: the largest size for
which both agree is found by going on from the most.

`size` is what streams were measured to get, the fastest users: not the whole cache, of which others hold a part by
using it again and again. How fast others bring lines follows from how long lines stay that nobody uses; where that was
not measured, from the size that dependent loads get: they bring a line each latency. Bounds: a cache all the program's
own (fast), and what dependent loads get (slow).

Copies of a program divide each level that their cores share, nearer ones as well: `jobs_of_levels`. What all of them
hold of a level never exceeds it, which `check_held` asserts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.profiles.hierarchies import DEFAULT_LINE_BYTES, effective_bytes
from foretrace.profiles.profile import Profile

from .hit_rates import Misses

MOST_STEPS = 8
SETTLED = 0.02
"""Steps in which the size held is looked for, and the relative change that ends it."""
_FEW = 0.05  # others' rate over that of dependent loads, where these hold as much as streams do


def last_caches(profile: Profile, cores: int) -> int:
    """Number of last caches that `cores` cores of a machine share."""
    return max(-(-cores // (profile.caches[-1].shared_by_cores or cores)), 1)


def jobs_of_levels(profile: Profile, jobs: int) -> tuple[int, ...]:
    """Jobs that divide one cache of each level, where `jobs` divide the last one.

    They are spread evenly over the caches nearer to the cores. Of jobs that wait for a core, nothing is in these: a
    core refills them soon. A last cache keeps lines of all jobs.
    """
    last = profile.caches[-1].shared_by_cores or (profile.core.cores if profile.core else None) or jobs
    running = min(jobs, last)
    inner = (-(-running * min(cache.shared_by_cores or 1, last) // last) for cache in profile.caches[:-1])
    return (*inner, jobs)


def check_held(profile: Profile, held_bytes: Sequence[float], jobs: Sequence[int]) -> None:
    """Assert that so many jobs with so many bytes each of a cache level hold no more than there is of it."""
    for cache, held, number in zip(profile.caches, held_bytes, jobs, strict=True):
        is_line = held <= (cache.line_bytes or DEFAULT_LINE_BYTES)  # less cannot be simulated
        assert is_line or held * number <= cache.size_bytes * (1 + 1e-9), (
            f"{profile.name}: {number} jobs hold {held:.0f} bytes each of {cache.name}, which has {cache.size_bytes}"
        )


def most_bytes(profile: Profile) -> int:
    """Bytes of the last cache that streams get.

    Where that was not measured, it lies between what dependent loads get and all of it: halfway, as a ratio (on an AMD
    EPYC 14 MiB were measured, of 8 and 32).
    """
    cache = profile.caches[-1]
    if cache.effective_stream_size_bytes is not None:
        return cache.effective_stream_size_bytes
    effective = effective_bytes(profile)
    return round(math.sqrt(effective * cache.size_bytes)) if effective else cache.size_bytes


def others_bytes_per_s(profile: Profile, latency_s: float) -> float:
    """The rate at which others bring lines into the last cache, where a hit takes `latency_s`; 0 if there are none."""
    effective, last = effective_bytes(profile), profile.caches[-1]
    if last.line_lifetime_s is not None:
        return most_bytes(profile) / last.line_lifetime_s
    if effective is None or latency_s <= 0:
        return 0.0
    return (last.line_bytes or 64) / latency_s * max(most_bytes(profile) / effective - 1, _FEW)


def held_bytes(
    hierarchy: Hierarchy,
    others: float,
    most: float,
    misses_if: Callable[[float], Misses],
    time_s: Callable[[Misses], float],
    jobs: int = 1,
) -> float:
    """Bytes of the last cache that a program holds.

    Args:
        hierarchy: the caches of one core, whole.
        others: rate at which others bring lines, bytes/s.
        most: what the fastest streams get of the last of them, bytes.
        misses_if: the program's misses if it held so many bytes.
        time_s: the program's time with such misses.
        jobs: copies of the program that bring lines at the same rate, itself included.
    """
    size, last = most, most / jobs
    for _ in range(MOST_STEPS):
        misses = misses_if(last)
        arriving = misses.misses[:, -2] if misses.misses.shape[1] > 1 else misses.executions
        own = float(arriving.sum()) * hierarchy.levels[-1].line_bytes / max(time_s(misses), 1e-12)
        held = min(size * own / (jobs * own + others), last) if own > 0 else 0.0
        if held >= last * (1 - SETTLED):
            return held
        last = held
    return last
