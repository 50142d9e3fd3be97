"""Results of a simulation, as records of arrays: one row for each memory operation.

A tracer may find that several operations are one (an engine translates an instruction more than once). Each record has
`merged` for that: `mapping[old id]` is the new id, several old ids may have the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from .hierarchy import Hierarchy

Counts = npt.NDArray[np.uint64]


def checked_mapping(mapping: npt.ArrayLike, num_before: int, num_after: int) -> npt.NDArray[np.intp]:
    """The mapping as indices.

    Raises:
        ValueError: it has not `num_before` entries, or one that is not below `num_after`.
    """
    indices = np.asarray(mapping, dtype=np.intp)
    if indices.shape != (num_before,):
        raise ValueError(f"mapping has shape {indices.shape}, must have one entry for each of {num_before} operations")
    if num_before and not 0 <= indices.min() <= indices.max() < num_after:
        raise ValueError(f"mapping has operation ids outside 0 to {num_after - 1}")
    return indices


def _summed(values: Counts, indices: npt.NDArray[np.intp], num_after: int) -> Counts:
    total = np.zeros((num_after, *values.shape[1:]), dtype=np.uint64)
    np.add.at(total, indices, values)
    return total


@dataclass(frozen=True, slots=True, eq=False)
class OperationStatistics:
    """Totals of each operation, uint64 [operations]; all 0 for an operation that did nothing.

    `first` and `last_exclusive` bound the bytes touched; `size_bytes` is the largest access. Each access but the first
    is classed by where it lies, seen from the one before: `repeated` (same address), `unit_stride` (adjacent, upwards
    or downwards), `strided` (the same distance again, another than those), `irregular`. The four sum to
    `executions` - 1.
    """

    executions: Counts
    total_bytes: Counts
    size_bytes: Counts
    first: Counts
    last_exclusive: Counts
    repeated: Counts
    unit_stride: Counts
    strided: Counts
    irregular: Counts

    @property
    def num_operations(self) -> int:
        """Number of rows."""
        return len(self.executions)

    def merged(self, mapping: npt.ArrayLike, num_operations: int) -> OperationStatistics:
        """The totals of `num_operations` operations that these are parts of.

        Where parts are joined, nobody knows the distance from the last access of one to the first of the next: these
        accesses are classed `irregular`.
        """
        indices = checked_mapping(mapping, self.num_operations, num_operations)
        used = self.executions > 0
        first = np.full(num_operations, np.iinfo(np.uint64).max)
        np.minimum.at(first, indices[used], self.first[used])
        last_exclusive = np.zeros(num_operations, dtype=np.uint64)
        np.maximum.at(last_exclusive, indices, self.last_exclusive)
        size_bytes = np.zeros(num_operations, dtype=np.uint64)
        np.maximum.at(size_bytes, indices, self.size_bytes)
        executions = _summed(self.executions, indices, num_operations)
        joints = _summed(used.astype(np.uint64), indices, num_operations) - (executions > 0)
        return OperationStatistics(
            executions=executions,
            total_bytes=_summed(self.total_bytes, indices, num_operations),
            size_bytes=size_bytes,
            first=np.where(executions > 0, first, np.uint64(0)),
            last_exclusive=last_exclusive,
            repeated=_summed(self.repeated, indices, num_operations),
            unit_stride=_summed(self.unit_stride, indices, num_operations),
            strided=_summed(self.strided, indices, num_operations),
            irregular=_summed(self.irregular, indices, num_operations) + joints,
        )


class Event(StrEnum):
    """Events counted for each part of a memory system, in the order of `enum ft_event`."""

    ACCESSES = "accesses"
    MISSES = "misses"
    VICTIM_HITS = "victim_hits"
    EVICTIONS = "evictions"
    WRITE_BACKS = "write_backs"
    BACK_INVALIDATIONS = "back_invalidations"
    COHERENCE_INVALIDATIONS = "coherence_invalidations"
    PREFETCHES = "prefetches"
    USEFUL_PREFETCHES = "useful_prefetches"


@dataclass(frozen=True, slots=True, eq=False)
class MemoryEvents:
    """Event counts of each part of a memory system, by the operation or block of code that caused them.

    Parts are the levels of data caches, the instruction cache if there is one, and the TLBs, named by `parts`.
    `by_operation`: uint64 [operations, parts, events], the events that each operation's accesses caused, in the order
    of `Event`. `by_block`: uint64 [blocks, parts, events], those that the fetches of each block's code caused; no rows
    where no instruction cache was simulated. Accesses and misses count an access of the program, or a fetch, once,
    however many lines or pages of it a part was asked for; the other events count lines.
    """

    parts: tuple[str, ...]
    by_operation: Counts
    by_block: Counts

    def totals(self) -> dict[str, dict[str, int]]:
        """Sums over all operations and blocks: totals()[part][event]."""
        sums = self.by_operation.sum(axis=0) + self.by_block.sum(axis=0)
        return {
            part: {str(event): int(sums[p, e]) for e, event in enumerate(Event)} for p, part in enumerate(self.parts)
        }

    def merged(self, mapping: npt.ArrayLike, num_operations: int) -> MemoryEvents:
        """The events of `num_operations` operations that these are parts of."""
        indices = checked_mapping(mapping, len(self.by_operation), num_operations)
        return replace(self, by_operation=_summed(self.by_operation, indices, num_operations))

    def merged_blocks(self, mapping: npt.ArrayLike, num_blocks: int) -> MemoryEvents:
        """The events of `num_blocks` blocks that these are parts of. `mapping` may be longer than there are rows."""
        indices = checked_mapping(np.asarray(mapping)[: len(self.by_block)], len(self.by_block), num_blocks)
        return replace(self, by_block=_summed(self.by_block, indices, num_blocks))


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedHierarchy:
    """Misses and events of one simulated hierarchy.

    `misses`: uint64 [operations, levels], the accesses of each operation that missed the level. An access that spans
    two lines is one access, and misses where either line does. `events` is None for a hierarchy that is nothing but
    LRU caches (`Hierarchy.is_plain`): there the accesses of a level are the misses of the level inside it.
    """

    hierarchy: Hierarchy
    misses: Counts
    events: MemoryEvents | None = None

    def merged(self, mapping: npt.ArrayLike, num_operations: int) -> SimulatedHierarchy:
        """The misses of `num_operations` operations that these are parts of."""
        indices = checked_mapping(mapping, len(self.misses), num_operations)
        events = None if self.events is None else self.events.merged(mapping, num_operations)
        return SimulatedHierarchy(self.hierarchy, _summed(self.misses, indices, num_operations), events)

    def merged_blocks(self, mapping: npt.ArrayLike, num_blocks: int) -> SimulatedHierarchy:
        """This record with the fetched blocks' events merged into those of `num_blocks` blocks."""
        events = None if self.events is None else self.events.merged_blocks(mapping, num_blocks)
        return replace(self, events=events)
