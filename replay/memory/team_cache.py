"""Caches of threads that divide a loop: what all of them hold together, and what those at one cache leave each other.

A loop with a static schedule gives each thread the same part of the data each time it is entered. What is used again
from one entry to the next is therefore spread over all caches that the threads have: of a reuse distance `d`, each of
`K` caches sees `d / K`, so that together they hold `K` times as much. So it is with the caches of single cores as well.

Within an entry, the `m` threads at one cache bring lines at the same time. A line is kept while all of them bring less
than the cache holds. Lines of a thread's own iterations see `m d`: the layer condition with the cache's size over its
threads (Stengel, Treibig, Hager, Wellein, ICS'15, section 2.3). Lines that any iteration may use, those of irregular
accesses, see `d`. Where all that an entry touches fits into one cache, all of that hits.

Bounds: all data is spread over all caches, and no thread takes lines from another (fast); data comes to another cache
each time, and all accesses share what the threads leave (slow).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from foretrace.cache_sim.base.hierarchy import Hierarchy, Level
from foretrace.cache_sim.reuse.model import misses_from_reuse
from foretrace.profiles.profile import Profile
from foretrace.replay.base.spread import Floats
from foretrace.tracer.signature.records import Signature

from .hit_rates import Misses
from .shared_cache import last_caches

_FROM_THE_LAST_ENTRY = 0.5
"""Share of what a loop touches in an entry: the reuse distance from which an access is one to what the last entry left.
Loops go over their data in the same order each time, and what they use again before is used again soon."""


@dataclass(frozen=True, slots=True, eq=False)
class TeamCaches:
    """The caches of `threads` threads on as many cores.

    Attributes:
        signature: of the program, with reuse distances.
        alone: its misses on one core.
        caches: of each level, how many the threads have.
        sharers: of each level, threads at one cache.
        irregular: [operations] share of accesses that are irregular.
    """

    signature: Signature
    alone: Misses
    caches: tuple[int, ...]
    sharers: tuple[int, ...]
    irregular: Floats
    _known: dict[tuple[int, int], Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, signature: Signature, profile: Profile, alone: Misses, threads: int) -> TeamCaches | None:
        """None without reuse distances, or for one thread."""
        if signature.reuse is None or threads <= 1:
            return None
        inner = (max(threads // (cache.shared_by_cores or 1), 1) for cache in profile.caches[:-1])
        caches = (*inner, min(last_caches(profile, threads), threads))
        executions = np.array([max(one.executions, 1) for one in signature.operations], np.float64)
        irregular = np.array([one.irregular for one in signature.operations], np.float64) / executions
        sharers = tuple(-(-threads // number) for number in caches)
        return cls(signature, alone, caches, sharers, np.minimum(irregular, 1.0))

    def misses(self, footprint_bytes: float) -> tuple[Floats, Floats, Floats]:
        """Misses of a loop that touches so many bytes each time it is entered, [operations, levels]: at the fast end,
        typically, at the slow end. They are of all threads together."""
        columns = [self._of_level(number, footprint_bytes) for number in range(len(self.caches))]
        fast, typical, slow = (self._bounded(np.column_stack(part)) for part in zip(*columns, strict=True))
        return fast, typical, slow

    def _of_level(self, number: int, footprint_bytes: float) -> tuple[Floats, Floats, Floats]:
        size = self.alone.hierarchy.levels[number].size_bytes
        whole, caches, sharers = self._beyond(number, size), self.caches[number], self.sharers[number]
        together = self._beyond(number, caches * size)
        if footprint_bytes <= size:
            return together, together, whole
        part = self._beyond(number, size // sharers)
        within = self.irregular * whole + (1 - self.irregular) * part
        if footprint_bytes >= caches * size:
            return whole, within, part
        between = self._beyond(number, int(_FROM_THE_LAST_ENTRY * footprint_bytes))
        typical = np.maximum(within - between, 0) + together
        return together, np.minimum(typical, part), part

    def _beyond(self, number: int, size_bytes: int) -> Floats:
        """[operations]: accesses that a cache like that of a level misses if it has so many bytes; of the level's own
        size those that it misses alone."""
        if (number, size_bytes) not in self._known:
            level = self.alone.hierarchy.levels[number]
            found = self._estimated(_sized(level, size_bytes)) - self._estimated(level)
            self._known[number, size_bytes] = np.maximum(self.alone.misses[:, number] + found, 0)
        return self._known[number, size_bytes]

    def _estimated(self, level: Level) -> Floats:
        unit = np.array([one.unit_stride for one in self.signature.operations]) / np.maximum(self.alone.executions, 1)
        assert self.signature.reuse is not None, "checked when it was made"
        hierarchy = Hierarchy("one", (replace(level, name="one"),))
        return misses_from_reuse(self.signature.reuse, hierarchy, self.alone.executions, unit)[:, 0]

    def _bounded(self, misses: Floats) -> Floats:
        columns = np.column_stack([self.alone.executions, misses])
        return np.asarray(np.minimum.accumulate(columns, axis=1)[:, 1:], np.float64)


def _sized(level: Level, size_bytes: int) -> Level:
    """A cache of that many bytes, with as many ways."""
    set_bytes = level.ways * level.line_bytes
    return replace(level, size_bytes=max(size_bytes // set_bytes, 1) * set_bytes)
