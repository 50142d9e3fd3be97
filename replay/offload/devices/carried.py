"""Loops that the data flow shows to carry something from one iteration to a later one.

What a later child wrote and an earlier one reads crosses an iteration of the loop around both. What a node itself wrote
and reads again crosses one of the loops that go over the same bytes again. Loops further out carry it too, unless each
of their iterations begins anew: fills the buffer before it is used, or goes to another part of it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from foretrace.cache_sim.reuse.model import misses_fully_associative
from foretrace.replay.base.spread import Floats
from foretrace.replay.tree.timed_tree import Ints
from foretrace.tracer.signature.data_flow_records import DataFlow
from foretrace.tracer.signature.records import MemoryOperation

from .gather_scatter import is_loader
from .stores import ARRAY_BYTES, Stores
from .work import Work, shown

HANDED_ON = "an iteration reads what an earlier one wrote"
_MOST_PAIRS = 20_000
"""Pairs of writers and readers that are looked at, those with most bytes."""
_SELF_SHARE = 0.3
"""Share of what a node stores that it reads again itself, from which on a loop around it is taken to carry it."""
_SWEEP_SHARE = 0.4
"""Share of the different bytes that a node stores, in one entry of a loop that goes over a buffer of two, or all."""
_MISSED_SHARE = 0.5
"""Share of the bytes that a node leaves to itself: fewer missed by a cache than this are hits."""
_HIT_SHARE = 0.2
"""Share of what a store writes that the smallest cache misses, below which it goes to what was loaded just before."""
_SAME_PART_SHARE = 0.01
"""Share of a store's range by which a load's may differ that loads what the store goes back to."""
_ANEW_SHARE = 0.75
"""Share of the bytes that a loop hands on: filled, or elsewhere, in each iteration of a loop further out."""
_LEAST_PARTS = 4
"""Iterations from which on an array is told from a few buffers that are used in turn."""


@dataclass(frozen=True, slots=True, eq=False)
class _Reads:
    """Pairs of a node that writes and one that reads it: int64, int64, float64 [pairs of a version's writer and a
    reader]."""

    writer: Ints
    reader: Ints
    size: Floats

    @classmethod
    def of(cls, flow: DataFlow) -> _Reads:
        counts = np.diff(flow.set_starts)[flow.flow_readers]
        row = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        reader = flow.set_nodes[flow.set_starts[flow.flow_readers][row] + within]
        order = np.argsort(reader, kind="stable")
        return cls(flow.flow_writer[row][order], reader[order], flow.flow_bytes[row][order])

    def backward(self, nodes: int) -> dict[tuple[int, int], float]:
        """Bytes that a later node wrote and an earlier one reads, or one node both, for the largest pairs."""
        goes_back = self.writer >= self.reader
        pairs, of_row = np.unique(self.writer[goes_back] * nodes + self.reader[goes_back], return_inverse=True)
        sizes = np.bincount(of_row, self.size[goes_back], minlength=len(pairs))
        largest = np.argsort(-sizes, kind="stable")[:_MOST_PAIRS]
        return {
            (int(pair) // nodes, int(pair) % nodes): float(size)
            for pair, size in zip(pairs[largest], sizes[largest], strict=True)
        }

    def between(self, first: int, before: int, reader: int) -> float:
        """Bytes that nodes `first` to `before` - 1 wrote and a node reads."""
        low, high = np.searchsorted(self.reader, [reader, reader + 1])
        writers = self.writer[low:high]
        return float(self.size[low:high][(writers >= first) & (writers < before)].sum())


def carried(work: Work, stores: Stores, accessed: Floats) -> dict[int, str]:
    """Loops that carry something, and what.

    Args:
        work: the program.
        stores: of it.
        accessed: float64 [nodes], bytes of each node and all below it.
    """
    reads, found = _Reads.of(work.flow), dict[int, str]()
    reuse = _Reuse(stores, accessed) if work.run.workload.signature.reuse is not None else None
    is_resolving = [is_loader(place.module) for place in work.places]  # calls, at their first execution
    for (writer, reader), size in reads.backward(len(work)).items():
        if is_resolving[writer] or is_resolving[reader]:
            continue
        loop = _carrier(work, writer, reader) if writer != reader else _again(stores, reuse, writer, size)
        if loop < 0:
            continue
        rounds = max(int(work.iterations[loop] - work.entries[loop]), 1)
        if writer != reader and size < 2 * rounds:
            continue
        each = size / rounds
        while loop >= 0:
            if work.iterations[loop] > work.entries[loop] and loop not in found:
                source, sink = shown(work.places[writer]), shown(work.places[reader])
                found[loop] = f"{HANDED_ON} ({source} to {sink})"
            outer = work.loop_around(work.parents[loop])
            if outer >= 0 and _begins_anew(stores, reads, outer, loop, writer, reader, each):
                break
            loop = outer
    return found


def _begins_anew(stores: Stores, reads: _Reads, outer: int, loop: int, writer: int, reader: int, each: float) -> bool:
    """Whether iterations of an outer loop do not hand on what `loop` hands on, `each` bytes an iteration: nodes before
    `loop` fill it in each of them, or the writer's arrays are as large as what all of them hand on, each in its part.
    """
    work = stores.work
    iterations = int(work.iterations[outer])
    if reads.between(outer, loop, reader) >= _ANEW_SHARE * each * iterations:
        return True
    parts = iterations / max(int(work.entries[outer]), 1)
    arrays = stores.arrays(writer, writer)
    stored = sum(one.stored_bytes for one in arrays)
    if parts < _LEAST_PARTS or each * max(int(work.iterations[loop]), 1) < _SELF_SHARE * stored:
        return False
    return sum(one.distinct_bytes for one in arrays) >= _ANEW_SHARE * each * parts


def _again(stores: Stores, reuse: _Reuse | None, node: int, size: float) -> int:
    """The innermost loop that goes again over the bytes that a node leaves to itself; -1 where there is none.

    It goes over them an iteration later. So a cache of all that an iteration accesses would hit them, and one of what
    an iteration of a loop further inside accesses would not. Without reuse distances, loops from the node on outwards
    belong to one sweep until an entry of them stores most of the different bytes that are stored at all; the one around
    the sweep goes over them again.
    """
    work, arrays = stores.work, stores.arrays(node, node)
    total = sum(one.stored_bytes for one in arrays)
    if not arrays or size < _SELF_SHARE * total:
        return -1
    loop = work.loop_around(node)
    if reuse is not None:
        while loop >= 0 and reuse.missed_bytes(node, loop) > _MISSED_SHARE * size:
            loop = work.loop_around(work.parents[loop])
        return loop
    distinct = sum(one.distinct_bytes for one in arrays)
    while loop >= 0 and total / max(int(work.entries[loop]), 1) < _SWEEP_SHARE * distinct:
        loop = work.loop_around(work.parents[loop])
    return work.loop_around(work.parents[loop]) if loop >= 0 else -1


class _Reuse:
    """Reloads of nodes by the bytes accessed in between, from the signature's reuse distances."""

    _LINE_BYTES = 32
    _SIZES = tuple(1 << power for power in range(9, 36))

    def __init__(self, stores: Stores, accessed: Floats) -> None:
        """`accessed` float64 [nodes]: bytes of each node and all below it."""
        self.stores, self.work, self.accessed = stores, stores.work, accessed
        signature = self.work.run.workload.signature
        operations = signature.operations
        executions = np.array([one.executions for one in operations], np.float64)
        size = np.array([one.size_bytes for one in operations], np.float64)
        unit = np.array([one.unit_stride + one.repeated for one in operations]) / np.maximum(executions, 1)
        assert signature.reuse is not None
        misses = misses_fully_associative(signature.reuse, self._SIZES, self._LINE_BYTES, executions, unit)
        moved = np.where(unit > 0.5, self._LINE_BYTES, np.minimum(size, self._LINE_BYTES))
        self.missed = misses * moved[:, None]
        self.of_block: dict[int, list[MemoryOperation]] = defaultdict(list)
        for one in operations:
            if one.range_bytes > ARRAY_BYTES:
                self.of_block[one.block_id].append(one)

    def missed_bytes(self, node: int, loop: int) -> float:
        """Bytes that a node loads and that a cache of what an iteration of a loop accesses would miss.

        Where stores hit what was loaded just before, in place, loads of other parts of the array do not count, and of
        loads of the same part the one that misses most.
        """
        loads, in_place, shares = self._loads(node)
        level = self._level(loop)
        if in_place:
            return sum(max(float(self.missed[one, level]) * shares[one] for one in found) for found in in_place)
        return sum(float(self.missed[one, level]) * shares[one] for one in loads)

    def _loads(self, node: int) -> tuple[list[int], list[list[int]], dict[int, float]]:
        """A node's loads; of each of its stores that go back to what was loaded, the loads that it may be; and the
        node's share of each."""
        work = self.work
        low, high = np.searchsorted(work.row_node, [node, node + 1])
        loads: list[int] = []
        in_place: list[list[int]] = []
        shares: dict[int, float] = {}
        for row in range(int(low), int(high)):
            found = self.of_block.get(int(work.row_block[row]), [])
            shares |= {one.operation_id: float(work.row_share[row]) for one in found}
            loaded = [one for one in found if not one.is_store]
            loads += [one.operation_id for one in loaded]
            for store in (one for one in found if one.is_store):
                if self.missed[store.operation_id, 0] < _HIT_SHARE * store.total_bytes:
                    near = [one.operation_id for one in loaded if _is_same_part(one, store)]
                    in_place += [near] if near else []
        return loads, in_place, shares

    def _level(self, loop: int) -> int:
        inside = np.zeros(len(self.work), np.bool_)
        inside[loop : self.work.last_below[loop] + 1] = True
        held = self.accessed[loop] / max(int(self.work.iterations[loop]), 1)
        size = min(held, self.work.flow.footprint_bytes(inside) or held)
        return min(int(np.searchsorted(self._SIZES, size)), len(self._SIZES) - 1)


def _is_same_part(one: MemoryOperation, other: MemoryOperation) -> bool:
    away = abs(one.first - other.first) + abs(one.last_exclusive - other.last_exclusive)
    return away <= _SAME_PART_SHARE * other.range_bytes


def _carrier(work: Work, writer: int, reader: int) -> int:
    """The innermost loop that must carry a flow between two nodes; -1 where it need not cross an iteration."""
    sides = work.siblings_around(writer, reader)
    return work.loop_around(work.parents[sides[0]]) if sides is not None and sides[0] > sides[1] else -1
