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

from foretrace.replay.spread import Floats
from foretrace.tracer.signature.data_flow_records import Dependence, DependenceKind

from .demand import Demand
from .gather_scatter import LOADERS_CODE, is_loader
from .work import NodeKind, Work

_CARRIED_BYTES = 4096
"""That a loop's child leaves to its own next entry, from which on it is taken for an array, not for a few scalars."""
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
    array operations, without serial loops that hold parallel ones. Those are sequences of kernels.
    """

    parallel: tuple[Parallel, ...]
    texts: tuple[str, ...]
    refusals: tuple[str, ...]
    refused_below: tuple[str, ...]
    is_candidate: np.typing.NDArray[np.bool_]

    @classmethod
    def of(cls, work: Work, demand: Demand) -> Evidence:
        """Judge all nodes of a program."""
        judged = _judged(work, demand)
        refusals = [_refusal(work, demand, node) for node in range(len(work))]
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
            is_candidate=runs & ~is_sequence & np.array([not text for text in below]),
        )


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
            judged.append((Parallel.ASSUMED, "assumed parallel: run trace --dependences to know"))
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
    """Loops that the data flow shows to carry something from one iteration to a later one."""
    flow = work.flow
    carried: dict[int, str] = {}
    depth = _depths(work)
    sums: dict[tuple[int, int, int], float] = defaultdict(float)
    for writer, readers, size in zip(
        flow.flow_writer.tolist(), flow.flow_readers.tolist(), flow.flow_bytes.tolist(), strict=True
    ):
        if writer < 0:
            continue
        for reader in flow.set_nodes[flow.set_starts[readers] : flow.set_starts[readers + 1]].tolist():
            sums[writer, reader, _carrier(work, depth, writer, reader)] += size
    for (writer, reader, loop), size in sums.items():
        if loop < 0 or loop in carried:
            continue
        rounds = max(int(work.iterations[loop] - work.entries[loop]), 1)
        least = _CARRIED_BYTES if writer == reader else 2
        if work.iterations[loop] > work.entries[loop] and size >= least * rounds:
            source, sink = work.places[writer], work.places[reader]
            carried[loop] = f"an iteration reads what the one before it wrote ({source} to {sink})"
    return carried


def _depths(work: Work) -> list[int]:
    depth: list[int] = []
    for parent in work.parent.tolist():
        depth.append(0 if parent < 0 else depth[parent] + 1)
    return depth


def _carrier(work: Work, depth: list[int], writer: int, reader: int) -> int:
    """The innermost loop that must carry a flow between two nodes; -1 where it need not cross an iteration."""
    parent = work.parent
    if writer == reader:
        return _loop_around(work, int(parent[writer]))
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
