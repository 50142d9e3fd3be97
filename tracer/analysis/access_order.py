"""Access patterns of memory operations, alone (stride) and together: streams, stencils, recurrences, transposes.

All of it comes from recorded accesses, so it holds for machine code and Python alike. Ranges of addresses that are
equal but for a shift belong to one walk at several places of one array, such as `B[i - 1]` and `B[i + 1]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from foretrace.cache_sim.base.results import OperationStatistics

_FARTHEST = 16
"""Most elements between a store and the load that reads it again, in a recurrence."""
_NEAREST = 32
"""Most elements between the operations of an unrolled loop."""
_COVERED = 0.9
"""Least share of a range that the operations of an unrolled loop touch together."""


class Order(Enum):
    """Predominant stride of an operation's successive addresses."""

    STAYS = 0
    UNIT = 1
    STRIDED = 2
    IRREGULAR = 3


@dataclass(frozen=True, slots=True)
class Access:
    """A memory operation, the order of its addresses, and the range [first, last) in bytes."""

    number: int
    is_store: bool
    order: Order
    size: int
    executions: int
    first: int
    last: int

    @classmethod
    def of(cls, statistics: OperationStatistics, number: int, *, is_store: bool) -> Access:
        """An operation by its statistics."""
        stays, unit = int(statistics.repeated[number]), int(statistics.unit_stride[number])
        strided, irregular = int(statistics.strided[number]), int(statistics.irregular[number])
        moved = unit + strided + irregular
        if stays >= moved:
            order = Order.STAYS
        elif 2 * unit >= moved:
            order = Order.UNIT
        elif 2 * (unit + strided) >= moved:
            order = Order.STRIDED
        else:
            order = Order.IRREGULAR
        return cls(
            number, is_store, order, max(int(statistics.size_bytes[number]), 1), int(statistics.executions[number]),
            int(statistics.first[number]), int(statistics.last_exclusive[number]),
        )  # fmt: skip

    @property
    def range(self) -> int:
        """Length of its address range in bytes."""
        return self.last - self.first

    def shift(self, other: Access) -> int | None:
        """Bytes by which another operation's range is shifted, if it has the same size and mostly overlaps."""
        moved = other.first - self.first
        is_same = other.last - self.last == moved and other.size == self.size
        fewer, more = sorted((self.executions, other.executions))
        if not is_same or 2 * abs(moved) > self.range or more - fewer > 0.02 * more + 1:
            return None
        return moved


Flows = Callable[[Access, Access], bool]
"""Whether the value that the first operation loads flows into the value that the second one stores."""


def recurrences(walks: Sequence[Access], flows: Flows) -> Iterator[tuple[Access, Access]]:
    """Recurrences through memory: loads that read an earlier element of a store's array, and that store."""
    for store in walks:
        if not store.is_store or store.order is not Order.UNIT:
            continue
        for load in walks:
            moved = None if load.is_store or load.order is not Order.UNIT else load.shift(store)
            if moved and 0 < moved <= _FARTHEST * store.size and flows(load, store):
                yield load, store
                break


def stencil(walks: Sequence[Access], flows: Flows) -> set[int]:
    """Stencil loads: they walk over one array at several offsets at once, and flow into one stored value. The bounds of
    a sparse matrix's row do not, and a copy of several places stores each value separately.

    Two offsets that are also stored to are no stencil: Gaussian elimination of one row from another, a butterfly.
    """
    stored = {(one.first, one.last) for one in walks if one.is_store}
    stores = [one for one in walks if one.is_store]
    loads = [one for one in walks if not one.is_store]
    taken: set[int] = set()
    for one in loads:
        if one.number in taken:
            continue
        group = [other for other in loads if other.number not in taken and one.shift(other) is not None]
        if len({other.first for other in group}) < 2:
            continue
        into = [[other for other in group if flows(other, store)] for store in stores]
        joined = {other.number for those in into if len({other.first for other in those}) > 1 for other in those}
        group = [other for other in group if other.number in joined]
        places = {other.first for other in group}
        least = 3 if any((other.first, other.last) in stored for other in group) else 2
        if len(places) >= least and not _is_unrolled(group):
            taken.update(other.number for other in group)
    return taken


def is_unit(one: Access, walks: Sequence[Access]) -> bool:
    """Whether it takes one element after the other, alone or together with others of an unrolled loop."""
    if one.order is Order.UNIT:
        return True
    group = [
        other
        for other in walks
        if other.is_store == one.is_store and other.size == one.size and other.order is Order.STRIDED
        and abs(other.first - one.first) < _NEAREST * one.size
    ]  # fmt: skip
    if len({other.first for other in group}) < 2 or not _is_unrolled(group):
        return False
    span = max(other.last for other in group) - min(other.first for other in group)
    return sum(other.executions for other in group) * one.size >= _COVERED * span


def transposed(walks: Sequence[Access], flows: Flows) -> set[int]:
    """Loads and stores of a transpose: one side accesses successive elements, the other the same data with a
    stride."""
    units = {one.number: is_unit(one, walks) for one in walks}
    return {
        number
        for store in walks
        if store.is_store
        for load in walks
        if not load.is_store and units[load.number] != units[store.number] and load.size == store.size
        and load.range <= 2 * store.range <= 4 * load.range and flows(load, store)
        for number in (load.number, store.number)
    }  # fmt: skip


def _is_unrolled(group: Sequence[Access]) -> bool:
    """Whether operations are one unrolled walk: each accesses every n-th element."""
    firsts = sorted({one.first for one in group})
    steps = {after - before for before, after in pairwise(firsts)}
    return all(one.order is Order.STRIDED for one in group) and steps == {group[0].size}
