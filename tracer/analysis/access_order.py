"""How a memory operation's addresses follow one another, and what several of them together show: streams, stencils.

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
"""Elements between a store and the load that reads it again, at most, in a recurrence."""
_NEAREST = 32
"""Elements between the operations of an unrolled loop, at most."""
_COVERED = 0.9
"""Share of a range that operations of an unrolled loop touch together, at least."""


class Order(Enum):
    """How an operation's addresses follow one another, for the most part."""

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
        """By how many bytes another operation's range is moved, if it is otherwise the same and mostly overlaps."""
        moved = other.first - self.first
        is_same = other.last - self.last == moved and other.size == self.size
        fewer, more = sorted((self.executions, other.executions))
        if not is_same or 2 * abs(moved) > self.range or more - fewer > 0.02 * more + 1:
            return None
        return moved


Flows = Callable[[Access, Access], bool]
"""Whether what the first one loads goes into what the second one stores."""


def recurrences(walks: Sequence[Access], flows: Flows) -> Iterator[tuple[Access, Access]]:
    """Loads that read what a store has stored some elements before, and that store."""
    for store in walks:
        if not store.is_store or store.order is not Order.UNIT:
            continue
        for load in walks:
            moved = None if load.is_store or load.order is not Order.UNIT else load.shift(store)
            if moved and 0 < moved <= _FARTHEST * store.size and flows(load, store):
                yield load, store
                break


def stencil(walks: Sequence[Access], flows: Flows) -> set[int]:
    """Loads that walk over one array at several places of it at once, and go together into what is stored: the bounds
    of a row of a sparse matrix do not, and what copies several places at once stores each by itself.

    Two places that are also stored to are none: a row of a matrix that is eliminated from another one, a butterfly.
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
    """Loads and stores of which one takes one element after the other, and the other one the same data with a
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
    """Whether operations share the elements of one walk among them, each taking every so many."""
    firsts = sorted({one.first for one in group})
    steps = {after - before for before, after in pairwise(firsts)}
    return all(one.order is Order.STRIDED for one in group) and steps == {group[0].size}
