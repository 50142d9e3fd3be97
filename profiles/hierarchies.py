"""The cache hierarchy of a machine, for the simulator; with what had to be assumed where nobody published a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from foretrace.cache_sim.base.hierarchy import Hierarchy, Level
from foretrace.cache_sim.base.level import Inclusion, Replacement

from .profile import CacheLevel, Profile

DEFAULT_LINE_BYTES = 64
DEFAULT_WAYS = 16
"""Beyond 8 ways, more make little difference (Hill and Smith, IEEE Trans. Computers 38(12), 1989)."""
ONE_HAS_ALL = "here one has all of it"
"""Remark on a shared cache where a single job runs."""


@dataclass(frozen=True, slots=True)
class MachineHierarchy:
    """The cache hierarchy to simulate for a machine, None where its profile has no cache; `assumptions` made."""

    hierarchy: Hierarchy | None
    assumptions: tuple[str, ...]


def hierarchy_of(profile: Profile) -> MachineHierarchy:
    """The hierarchy one core of a machine sees, its last cache whole, whatever others leave of it.

    Raises:
        HierarchyError: the profile was not checked, and no cache can have its figures.
    """
    if not profile.caches:
        return MachineHierarchy(None, ())
    levels: list[Level] = []
    assumptions: list[str] = []
    line_bytes = next((c.line_bytes for c in profile.caches if c.line_bytes), DEFAULT_LINE_BYTES)
    for cache in profile.caches:
        if cache.line_bytes is None:
            assumptions.append(f"{profile.name}: {cache.name} line size is not published, {line_bytes} bytes assumed")
        else:
            line_bytes = cache.line_bytes
        ways = cache.ways
        if ways is None:
            ways = _plausible_ways(cache, line_bytes)
            assumptions.append(f"{profile.name}: {cache.name} associativity is not published, {ways} ways assumed")
        if cache.shared_by_cores is not None and cache.shared_by_cores > 1:
            assumptions.append(
                f"{profile.name}: {cache.name} is shared by {cache.shared_by_cores} cores, {ONE_HAS_ALL}"
            )
        levels.append(
            Level(
                cache.name, cache.size_bytes, ways, line_bytes,
                replacement=cache.replacement or Replacement.LRU,
                inclusion=cache.inclusion or Inclusion.NON_INCLUSIVE,
            )
        )  # fmt: skip
    return MachineHierarchy(Hierarchy(profile.name, tuple(levels)), tuple(assumptions))


def effective_bytes(profile: Profile) -> int | None:
    """Bytes of the last cache that dependent loads get, where that is less than its size."""
    cache = profile.caches[-1] if profile.caches else None
    if cache is None or cache.effective_size_bytes is None or cache.effective_size_bytes >= cache.size_bytes:
        return None
    return cache.effective_size_bytes


def as_measured(hierarchy: Hierarchy, profile: Profile) -> Hierarchy:
    """The hierarchy with what dependent loads get of its last cache: points measured beyond are not of that cache."""
    effective = effective_bytes(profile)
    whole = [float(level.size_bytes) for level in hierarchy.levels]
    return hierarchy if effective is None else shrunk(hierarchy, (*whole[:-1], effective))


def shrunk(hierarchy: Hierarchy, held_bytes: Sequence[float]) -> Hierarchy:
    """The hierarchy with what a program holds of each level: as many ways of fewer sets, and never more than that.

    Lines that others bring fall into all sets, and the more of a set's ways a program uses, the more it keeps of them.
    So what it holds behaves like a cache of its own with all ways, not like some ways of each set.
    """
    levels = (_part(level, held) for level, held in zip(hierarchy.levels, held_bytes, strict=True))
    return replace(hierarchy, levels=tuple(levels))


def _part(level: Level, held_bytes: float) -> Level:
    """Part of a cache: at most `held_bytes`, at least one line; its ways where each has a line, else one."""
    if held_bytes >= level.size_bytes:
        return level
    ways = level.ways if held_bytes >= level.ways * level.line_bytes else 1
    sets = max(int(held_bytes // (ways * level.line_bytes)), 1)
    return replace(level, size_bytes=sets * ways * level.line_bytes, ways=ways)


def _plausible_ways(cache: CacheLevel, line_bytes: int) -> int:
    """The most ways, up to the default, that divide the cache into whole sets."""
    return next((w for w in range(DEFAULT_WAYS, 0, -1) if cache.size_bytes % (w * line_bytes) == 0), 1)
