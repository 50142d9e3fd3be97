"""Accesses that take turns in a set of the nearest cache: walks by a power of two, whose lines all fall into few sets.

What is fetched ahead into a full set, by a prefetcher or for stores that wait in the store buffer, is gone again before
it is used. So misses of conflicts in a set come one after the other, each with the latency of the next cache, where
those of a stream overlap. With 64 lines 4096 bytes apart, all in the second cache, a store took 4.6 ns on an AMD EPYC
(Zen 3) and 4.2 ns on an Intel Xeon, whose second caches answer in as long, against 0.7 and 1.4 ns in a stream; a load
3.4 and 1.0 ns. So this is a limit in the typical and the slow case alone.

Misses of conflicts are those that a cache of half the size without sets would not have: set-associative caches lose
less than half of their size to chance. How many sets they are in: the distinct lines between two uses of a line, over
those of its own set.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.base.level import Level
from foretrace.cache_sim.reuse.model import measured_line_bytes, misses_from_reuse, misses_fully_associative
from foretrace.replay.base.records import Bound
from foretrace.replay.base.spread import SLOW, TYPICAL, Floats
from foretrace.replay.memory.figures import MemoryFigures
from foretrace.replay.memory.hit_rates import Misses
from foretrace.replay.workload.workload import Workload

if TYPE_CHECKING:
    from .convolution import RegionTimes

_DOUBLINGS = 9
"""Doublings of the ways, up to which distances are looked at: more than a walk through a set has lines."""


def set_turns(workload: Workload, misses: Misses) -> Floats:
    """[operations]: accesses that wait for each other in a set of the nearest cache, by the sets that they are in.

    Those of as many sets do not wait for each other. 0 where reuse distances are not known.
    """
    reuse = workload.signature.reuse
    if reuse is None or not misses.misses.size:
        return np.zeros(len(misses.executions))
    nearest = misses.hierarchy.levels[0]
    line_bytes, missed = measured_line_bytes(nearest), misses.misses[:, 0]
    unit_stride = workload.operations.unit_stride / np.maximum(misses.executions, 1)

    def without_sets(size_bytes: int) -> Floats:
        found = misses_fully_associative(reuse, [size_bytes], line_bytes, misses.executions, unit_stride)
        return np.asarray(found[:, 0])

    def with_sets(size_bytes: int) -> Floats:
        level = Level(nearest.name, size_bytes, nearest.ways, nearest.line_bytes)
        found = misses_from_reuse(reuse, Hierarchy("sets", (level,)), misses.executions, unit_stride)
        return np.asarray(found[:, 0])

    others = without_sets(nearest.size_bytes // 2)
    conflicts = np.maximum(missed - others, 0)
    if not conflicts.any():
        return conflicts
    doublings = np.zeros(len(missed))  # of the number of sets
    for doubling in range(1, _DOUBLINGS + 1):
        lines, in_set = without_sets(nearest.ways * line_bytes << doubling), with_sets(nearest.size_bytes << doubling)
        shares = np.clip((np.stack([lines, in_set]) - others) / np.maximum(conflicts, 1), 0, 1)
        doublings += shares[0] - shares[1]
    return np.asarray(conflicts / 2 ** np.maximum(doublings, 0))


def with_set_conflicts(times: RegionTimes, workload: Workload, misses: Misses, memory: MemoryFigures) -> RegionTimes:
    """The times of regions, none less than its accesses take turns in sets.

    Those of linear algebra block their operands, and those that a line of Python was timed with hold their waits.
    """
    if len(misses.hierarchy.levels) < 2:
        return times
    turns = np.bincount(
        workload.operations.region, weights=set_turns(workload, misses), minlength=len(workload.regions)
    )
    turns[workload.linear.mask | workload.totals.array_kept | times.as_traced] = 0
    least = np.zeros_like(times.time_s)
    for corner in (TYPICAL, SLOW):
        least[corner] = turns * memory.dependent_s[corner, 1]
    is_longer = least[TYPICAL] > times.time_s[TYPICAL]
    bounds = [Bound.CACHE_LATENCY if is_longer[number] else bound for number, bound in enumerate(times.bound_by)]
    return replace(
        times,
        time_s=np.maximum(times.time_s, least),
        memory_s=np.where(is_longer, least[TYPICAL], times.memory_s),
        overlap_s=np.where(is_longer, np.minimum(times.compute_s, least[TYPICAL]), times.overlap_s),
        bound_by=tuple(bounds),
    )
