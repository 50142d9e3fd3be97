"""A hierarchy as the C core of memory systems takes it: numbers in tuples."""

from __future__ import annotations

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.base.level import Inclusion, Level, Prefetch, Replacement, Tlb, WritePolicy

# In the order of the enums of memory_system.h and tags.h.
_REPLACEMENTS = (Replacement.LRU, Replacement.PLRU, Replacement.FIFO, Replacement.RANDOM)
_INCLUSIONS = (Inclusion.NON_INCLUSIVE, Inclusion.INCLUSIVE, Inclusion.EXCLUSIVE)
_PREFETCHES = (None, Prefetch.NEXT_LINE, Prefetch.STRIDE)


def plan_of(hierarchy: Hierarchy) -> tuple[int, bool, int, int, int, list[tuple[int, ...]]]:
    """Number of levels, instruction cache or not, number of TLBs and of cores, seed, and the parts in their order."""
    return (
        len(hierarchy.levels),
        hierarchy.instruction is not None,
        len(hierarchy.tlbs),
        hierarchy.cores,
        hierarchy.seed,
        [_part(part) for part in hierarchy.parts],
    )


def _part(part: Level | Tlb) -> tuple[int, ...]:
    granule_bytes = part.page_bytes if isinstance(part, Tlb) else part.line_bytes
    shape = (part.num_sets, part.ways, granule_bytes.bit_length() - 1, _REPLACEMENTS.index(part.replacement))
    if isinstance(part, Tlb):
        return (*shape, 0, 0, 1, 0, False, False, False)
    return (
        *shape,
        _INCLUSIONS.index(part.inclusion),
        _PREFETCHES.index(part.prefetch),
        part.prefetch_degree,
        part.victim_lines,
        part.write is WritePolicy.THROUGH,
        not part.allocate_on_write,
        part.shared,
    )
