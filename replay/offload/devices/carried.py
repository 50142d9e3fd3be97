"""Loops that the data flow shows to carry something from one iteration to a later one.

What a later child wrote and an earlier one reads crosses an iteration of the loop around both. What a node itself wrote
and reads again crosses one of the loops that go over the same bytes again. Loops further out carry it too, unless each
of their iterations begins anew: fills the buffer before it is used, or goes to another part of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretrace.replay.spread import Floats
from foretrace.tracer.signature.data_flow_records import DataFlow

from .stores import Stores, loop_around
from .work import Ints, Work, shown

_MOST_PAIRS = 20_000
"""Of writers and readers that are looked at, those with most bytes."""
_SELF_SHARE = 0.3
"""Of what a node stores, read again by itself, from which on a loop around it is taken to carry it."""
_SWEEP_SHARE = 0.4
"""Of the different bytes that a node stores, in one entry of a loop that goes over a buffer of two, or all."""
_ANEW_SHARE = 0.75
"""Of the bytes that a loop hands from one iteration to the next: filled, or elsewhere, in each iteration further out."""
_LEAST_PARTS = 4
"""Iterations from which on an array is told from a few buffers that are used in turn."""


@dataclass(frozen=True, slots=True, eq=False)
class _Reads:
    """Which node reads what another one wrote: int64, int64, float64 [pairs of a version's writer and a reader]."""

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


def carried(work: Work) -> dict[int, str]:
    """Loops that carry something, and what."""
    reads, found, depth = _Reads.of(work.flow), dict[int, str](), _depths(work)
    stores = Stores(work)
    for (writer, reader), size in reads.backward(len(work)).items():
        loop = _carrier(work, depth, writer, reader) if writer != reader else _again(stores, writer, size)
        if loop < 0:
            continue
        rounds = max(int(work.iterations[loop] - work.entries[loop]), 1)
        if writer != reader and size < 2 * rounds:
            continue
        each = size / rounds
        while loop >= 0:
            if work.iterations[loop] > work.entries[loop] and loop not in found:
                source, sink = shown(work.places[writer]), shown(work.places[reader])
                found[loop] = f"an iteration reads what an earlier one wrote ({source} to {sink})"
            outer = loop_around(work, int(work.parent[loop]))
            if outer >= 0 and _begins_anew(stores, reads, outer, loop, writer, reader, each):
                break
            loop = outer
    return found


def _begins_anew(
    stores: Stores, reads: _Reads, outer: int, loop: int, writer: int, reader: int, each: float
) -> bool:
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


def _again(stores: Stores, node: int, size: float) -> int:
    """The innermost loop that goes again over the bytes that a node leaves to itself; -1 where there is none.

    Loops from the node on outwards belong to one sweep until an entry of them stores most of the different bytes that
    are stored at all; those around the sweep go over them again.
    """
    work, arrays = stores.work, stores.arrays(node, node)
    total = sum(one.stored_bytes for one in arrays)
    if not arrays or size < _SELF_SHARE * total:
        return -1
    distinct = sum(one.distinct_bytes for one in arrays)
    loop = loop_around(work, node)
    while loop >= 0 and total / max(int(work.entries[loop]), 1) < _SWEEP_SHARE * distinct:
        loop = loop_around(work, int(work.parent[loop]))
    return loop_around(work, int(work.parent[loop])) if loop >= 0 else -1


def _depths(work: Work) -> list[int]:
    depth: list[int] = []
    for parent in work.parent.tolist():
        depth.append(0 if parent < 0 else depth[parent] + 1)
    return depth


def _carrier(work: Work, depth: list[int], writer: int, reader: int) -> int:
    """The innermost loop that must carry a flow between two nodes; -1 where it need not cross an iteration."""
    parent = work.parent
    low, high = writer, reader
    while depth[low] > depth[high]:
        low = int(parent[low])
        if low == high:
            return -1
    while depth[high] > depth[low]:
        high = int(parent[high])
        if low == high:
            return -1
    while parent[low] != parent[high]:
        low, high = int(parent[low]), int(parent[high])
        if low < 0 or high < 0:
            return -1
    return loop_around(work, int(parent[low])) if low > high else -1
