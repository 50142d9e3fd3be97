"""Stores of nodes: different bytes and how often, to tell loops that go over new bytes from those that go over the
same ones again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foretrace.tracer.signature.records import AddressRange, MemoryOperation, merge_ranges

from .work import Work

ARRAY_BYTES = 4096
"""Span of a store above which it is taken to go to an array, not to a few scalars or registers spilled."""


@dataclass(frozen=True, slots=True)
class StoredArray:
    """A stretch of memory that some nodes store to: its different bytes, all bytes stored there, and those of them that
    did not go to the address stored to just before."""

    distinct_bytes: float
    stored_bytes: float
    advancing_bytes: float


class Stores:
    """The arrays that nodes of a program store to."""

    def __init__(self, work: Work) -> None:
        """Look at all store operations of a program."""
        self.work = work
        self.of_block: dict[int, list[MemoryOperation]] = defaultdict(list)
        for one in work.run.workload.signature.operations:
            if one.is_store and one.range_bytes > ARRAY_BYTES:
                self.of_block[one.block_id].append(one)

    def arrays(self, first: int, last: int) -> list[StoredArray]:
        """Arrays that nodes `first` to `last` store to. Operations whose ranges overlap store to one array."""
        work = self.work
        low, high = np.searchsorted(work.row_node, [first, last + 1])
        shares: dict[int, float] = defaultdict(float)
        operations: dict[int, MemoryOperation] = {}
        for row in range(int(low), int(high)):
            for one in self.of_block.get(int(work.row_block[row]), ()):
                shares[one.operation_id] += float(work.row_share[row])
                operations[one.operation_id] = one
        merged = merge_ranges(AddressRange(one.first, one.last_exclusive) for one in operations.values())
        starts = [one.first for one in merged]
        inside: list[list[MemoryOperation]] = [[] for _ in merged]
        for one in operations.values():
            inside[int(np.searchsorted(starts, one.first, side="right")) - 1].append(one)
        return [self._array(bounds, found, shares, first, last) for bounds, found in zip(merged, inside, strict=True)]

    def _array(
        self, bounds: AddressRange, found: Sequence[MemoryOperation], shares: dict[int, float], first: int, last: int
    ) -> StoredArray:
        stored = sum(one.total_bytes * shares[one.operation_id] for one in found)
        advancing = sum(
            one.total_bytes * shares[one.operation_id] * (1 - one.repeated / max(one.executions, 1)) for one in found
        )
        return StoredArray(min(self._touched(bounds, first, last), stored), stored, advancing)

    def _touched(self, bounds: AddressRange, first: int, last: int) -> float:
        """Different bytes of a range that nodes may store to: all of it, or what they touch of the objects in it."""
        flow = self.work.flow
        objects = [
            number
            for number, one in enumerate(flow.objects)
            if one.first < bounds.last_exclusive and bounds.first < one.last_exclusive
        ]
        if not objects:
            return float(bounds.range_bytes)
        inside = np.zeros(len(self.work), np.bool_)
        inside[first : last + 1] = True
        hits = flow.sets_with(inside)[flow.touched_by]
        touched = float(flow.touched_bytes[hits & np.isin(flow.touched_object, objects)].sum())
        return min(float(bounds.range_bytes), touched or float(bounds.range_bytes))
