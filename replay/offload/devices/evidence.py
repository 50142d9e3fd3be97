"""What may run in parallel, by the evidence of a signature; and what cannot run on a device at all.

Where dependences were recorded, they decide. Where they were not, a loop counts as parallel, unless the data flow shows
that it carries something: what a later child wrote and an earlier one reads crosses an iteration, and so do arrays that
a child leaves to its own next entry. That is an assumption, and it is called so.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from foretrace.replay.records import Place
from foretrace.replay.spread import Floats
from foretrace.tracer.signature.data_flow_records import Dependence, DependenceKind
from foretrace.tracer.signature.records import MemoryOperation

from .demand import Demand
from .gather_scatter import LOADERS_CODE, is_loader
from .work import NodeKind, Work

_CARRIED_BYTES = 4096
"""Span of a store from which on it is taken to go to an array, not to a few scalars."""
_MOST_PAIRS = 20_000
"""Of writers and readers that are looked at, those with most bytes."""
_SELF_SHARE = 0.3
"""Of what a node stores, read again by itself, from which on a loop around it is taken to carry it."""
_SWEEP_SHARE = 0.4
"""Of the different bytes that a node stores, in one entry of a loop that goes over a buffer of two, or all."""
_HOST_ONLY = re.compile(
    r"(_IO_.*|_?_?v?[fs]?n?w?printf(_internal|_chk)?|puts|fputs|putchar|fputc|fwrite|fread|fopen|fclose|fflush|read|write|open"
    r"|close|getline|fgets|v?f?scanf|getc|getchar|malloc|calloc|realloc|free|posix_memalign|aligned_alloc|mmap|munmap|brk"
    r"|exit|abort|fork|pthread_.*|rand|random|srand|drand48|getenv|time|clock_gettime|nanosleep|qsort)"
)


class Parallel(StrEnum):
    """What is known of a loop's iterations."""

    YES = "parallel"  # examined, none depends on another
    REDUCTION = "reduction"  # examined, they only combine into one value
    COLLISION = "colliding updates"  # examined, some update the same place: atomics
    ASSUMED = "assumed parallel"  # not examined
    NO = "serial"


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Of each node: whether its iterations are independent, why, and why it cannot run on a device ("" if it can).

    `refusals` are of the node itself, `refused_below` of it or a node below it. `is_candidate` bool [nodes]: loops and
    array operations, without serial loops that hold parallel ones. Those are sequences of kernels. `is_outside` bool
    [nodes]: what runs before, after or around `main`, where there is one.
    """

    parallel: tuple[Parallel, ...]
    texts: tuple[str, ...]
    refusals: tuple[str, ...]
    refused_below: tuple[str, ...]
    is_candidate: np.typing.NDArray[np.bool_]
    is_outside: np.typing.NDArray[np.bool_]

    @classmethod
    def of(cls, work: Work, demand: Demand) -> Evidence:
        """Judge all nodes of a program."""
        judged = _judged(work, demand)
        refusals = [_refusal(work, demand, node) for node in range(len(work))]
        is_outside = _outside_main(work)
        for node in range(len(work)):  # what a call does that needs the host is of no interest of its own
            parent = int(work.parent[node])
            if parent >= 0 and refusals[parent].startswith("calls "):
                refusals[node] = refusals[parent]
        below = list(refusals)
        for node in range(len(work) - 1, 0, -1):
            parent = int(work.parent[node])
            if parent >= 0 and below[node] and not below[parent] and refusals[node] != LOADERS_CODE:
                below[parent] = below[node]
        runs = np.array([kind in (NodeKind.LOOP, NodeKind.ARRAY) for kind in work.kinds])
        goes = [kind is not Parallel.NO for kind, _ in judged]
        has_loops = work.inclusive(np.array(goes, np.float64)) > 0
        is_sequence = has_loops & ~np.array(goes)
        return cls(
            parallel=tuple(kind for kind, _ in judged),
            texts=tuple(text for _, text in judged),
            refusals=tuple(refusals),
            refused_below=tuple(below),
            is_candidate=runs & ~is_sequence & ~is_outside & np.array([not text for text in below]),
            is_outside=is_outside,
        )


def _outside_main(work: Work) -> np.typing.NDArray[np.bool_]:
    is_main = [
        kind is NodeKind.CALL and place.function == "main" for kind, place in zip(work.kinds, work.places, strict=True)
    ]
    if not any(is_main):
        return np.zeros(len(work), np.bool_)
    inside = np.zeros(len(work), np.bool_)
    for node in range(len(work)):
        parent = int(work.parent[node])
        inside[node] = is_main[node] or (parent >= 0 and inside[parent])
    return ~inside


def _refusal(work: Work, demand: Demand, node: int) -> str:
    place, kind = work.places[node], work.kinds[node]
    if is_loader(place.module):
        return LOADERS_CODE
    if kind is NodeKind.COMPILED:
        return f"{place.module} is compiled code that was not seen: its work is not known"
    if kind is NodeKind.CALL and _HOST_ONLY.fullmatch(place.function.partition("@")[0]):
        return f"calls {place.function.partition('@')[0]}, which needs the host"
    if demand.is_bytecode[node]:
        return "runs in the Python interpreter: write it as array operations or as a compiled kernel first"
    return ""


def _judged(work: Work, demand: Demand) -> list[tuple[Parallel, str]]:
    signature = work.run.workload.signature
    number = {int(tree): node for node, tree in enumerate(work.tree_node) if tree >= 0}
    found: dict[int, list[Dependence]] = defaultdict(list)
    for one in signature.dependences:
        if one.node in number:
            found[number[one.node]].append(one)
    examined = {number[one.node]: one.iterations for one in signature.examined_loops if one.node in number}
    carried = _carried(work)
    judged = []
    for node, kind in enumerate(work.kinds):
        if kind is NodeKind.ARRAY:
            judged.append((Parallel.YES, "array operation"))
        elif kind is not NodeKind.LOOP:
            judged.append((Parallel.NO, ""))
        elif node in examined:
            judged.append(_examined(work, found[node], examined[node]))
        elif demand.chased[node] > 0.01 * demand.accesses[node]:
            judged.append((Parallel.NO, "each address comes from the load before it (pointer chase)"))
        elif node in carried:
            judged.append((Parallel.NO, carried[node]))
        else:
            judged.append((Parallel.ASSUMED, "not examined: trace --dependences would tell"))
    return judged


def _examined(work: Work, found: list[Dependence], iterations: int) -> tuple[Parallel, str]:
    of_kind = {one.kind: one for one in found}
    if recurrence := of_kind.get(DependenceKind.RECURRENCE):
        operations = work.run.workload.signature.operations
        ends = [operations[number] for number in (recurrence.source, recurrence.sink) if number >= 0]
        lines = " to ".join(f"line {one.line}" for one in ends if one.line) or recurrence.where or "a register"
        far = recurrence.least_distance
        return Parallel.NO, f"recurrence from {lines}, distance {far:,}"
    if collision := of_kind.get(DependenceKind.COLLISION):
        return Parallel.COLLISION, f"{collision.count:,} updates hit a place that another iteration hit: atomics"
    if reduction := of_kind.get(DependenceKind.REDUCTION):
        return Parallel.REDUCTION, f"reduction ({reduction.operation or 'of an unknown operation'})"
    return Parallel.YES, f"no dependence seen in {iterations:,} iterations"


def _carried(work: Work) -> dict[int, str]:
    """Loops that the data flow shows to carry something from one iteration to a later one.

    What a later child wrote and an earlier one reads crosses an iteration of the loop around both. What a node itself
    wrote and reads again crosses one of the loops that go over the same bytes again; which ones, see `_sweep`. Loops
    further out carry it too, unless each of their iterations begins anew, which the flow does not show.
    """
    flow, carried, depth = work.flow, dict[int, str](), _depths(work)
    counts = np.diff(flow.set_starts)[flow.flow_readers]
    row = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    readers = flow.set_nodes[flow.set_starts[flow.flow_readers][row] + within]
    writers = flow.flow_writer[row]
    backward = writers >= readers  # a later node wrote what an earlier one, or itself, reads
    pairs, of_row = np.unique(writers[backward] * len(work) + readers[backward], return_inverse=True)
    sizes = np.bincount(of_row, flow.flow_bytes[row[backward]], minlength=len(pairs))
    largest = np.argsort(-sizes, kind="stable")[:_MOST_PAIRS]
    sums = {
        (int(pair) // len(work), int(pair) % len(work)): float(size)
        for pair, size in zip(pairs[largest], sizes[largest], strict=True)
    }
    stored = _Stored(work)
    for (writer, reader), size in sums.items():
        loop = _carrier(work, depth, writer, reader) if writer != reader else stored.again(writer, size)
        least = 2 * max(int(work.iterations[loop] - work.entries[loop]), 1) if loop >= 0 else 0
        if writer != reader and size < least:
            continue
        while loop >= 0:
            if work.iterations[loop] > work.entries[loop] and loop not in carried:
                source, sink = shown(work.places[writer]), shown(work.places[reader])
                carried[loop] = f"an iteration reads what an earlier one wrote ({source} to {sink})"
            loop = _loop_around(work, int(work.parent[loop]))
    return carried


def shown(place: Place) -> str:
    """A place in a sentence: file and line, else the function."""
    if place.line:
        return f"{place.file.rpartition('/')[2] or place.module.rpartition('/')[2]}:{place.line}"
    return place.function or place.module.rpartition("/")[2]


class _Stored:
    """What nodes store, to tell loops that go over new bytes from those that go over the same ones again."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.operations = [one for one in work.run.workload.signature.operations if one.is_store]
        self.of_block: dict[int, list[MemoryOperation]] = defaultdict(list)
        for one in self.operations:
            if one.range_bytes > _CARRIED_BYTES:
                self.of_block[one.block_id].append(one)

    def again(self, node: int, size: float) -> int:
        """The innermost loop that goes again over the bytes that a node leaves to itself; -1 where there is none.

        Loops from the node on outwards belong to one sweep until an entry of them stores most of the different bytes
        that are stored at all; those around the sweep go over them again.
        """
        work = self.work
        low, high = np.searchsorted(work.row_node, [node, node + 1])
        rows = range(int(low), int(high))
        found = [(one, float(work.row_share[row])) for row in rows for one in self.of_block[int(work.row_block[row])]]
        if not found:
            return -1
        total = sum(one.total_bytes * share for one, share in found)
        if size < _SELF_SHARE * total:
            return -1
        distinct = sum(min(self._touched(node, one), one.total_bytes * share) for one, share in found)
        loop = _loop_around(work, node)
        while loop >= 0 and total / max(int(work.entries[loop]), 1) < _SWEEP_SHARE * distinct:
            loop = _loop_around(work, int(work.parent[loop]))
        return _loop_around(work, int(work.parent[loop])) if loop >= 0 else -1

    def _touched(self, node: int, operation: MemoryOperation) -> float:
        """Different bytes that a store may go to: its span, or what the node touches of the allocations in it."""
        flow = self.work.flow
        inside = np.zeros(len(self.work), np.bool_)
        inside[node] = True
        hits = flow.sets_with(inside)[flow.touched_by]
        objects = [
            number
            for number, one in enumerate(flow.objects)
            if one.first < operation.last_exclusive and operation.first < one.last_exclusive
        ]
        touched = float(flow.touched_bytes[hits & np.isin(flow.touched_object, objects)].sum()) if objects else 0.0
        return min(float(operation.range_bytes), touched or float(operation.range_bytes))


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
    return _loop_around(work, int(parent[low])) if low > high else -1


def _loop_around(work: Work, node: int) -> int:
    while node >= 0 and work.kinds[node] is not NodeKind.LOOP:
        node = int(work.parent[node])
    return node


def trip_counts(work: Work) -> Floats:
    """Iterations of an entry of each loop, on average; 1 for other nodes."""
    is_loop = np.array([kind is NodeKind.LOOP for kind in work.kinds])
    return np.where(is_loop, np.maximum(work.iterations / np.maximum(work.entries, 1), 1.0), 1.0)
