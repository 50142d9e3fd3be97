"""The execution tree as the stream reader hands it over: functions in their contexts, and the engine's blocks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from foretrace.tracer.reader._reader import TreeRows

Counts = npt.NDArray[np.uint64]
NONE = (1 << 64) - 1
FAR = NONE - 1
"""In place of a node of `edges`: the thread's number has that of another process above its 14 bits."""
CREATED = 1
"""Value of `enum ft_synchronisation` (stream.h)."""
_COLUMNS = {
    "nodes": 10, "counts": 3, "loops": 8, "histograms": 4, "threads": 4, "edges": 8, "stretches": 4, "places": 5,
}  # fmt: skip
"""Columns of the reader's tables, see tree.h."""
_REMARKS = ("merged_contexts", "unwound", "resumed", "signals", "overflows", "unplaced_waits")


class CallKind(IntEnum):
    """Kind of call by which a function came to run: `enum ft_tree_call` of parts.h."""

    CALL = 0
    TAIL_CALL = 1
    SIGNAL = 2
    BASE = 3  # at the bottom of a thread's stack


@dataclass(frozen=True, slots=True, eq=False)
class RawTree:
    """Tables of numbers, uint64 [rows, columns]; tree.h names their columns. Node numbers are positions in `nodes`.

    `threads` has one more column: the process's number. In `edges` threads are positions in `threads`, and those of
    threads that never ran are left out. `far` are edges from other processes, once it is known which these are: kind;
    position of the process, of its thread in its own tree, node and block there; thread, node and block here; count.
    """

    nodes: Counts
    counts: Counts
    loops: Counts
    histograms: Counts
    threads: Counts
    edges: Counts
    stretches: Counts
    places: Counts
    merged_contexts: int
    unwound: int
    resumed: int
    signals: int
    overflows: int
    unplaced_waits: int
    far: Counts = field(default_factory=lambda: np.zeros((0, 9), np.uint64))


def combined(trees: Sequence[RawTree], block_offsets: Sequence[int], parents: Sequence[int]) -> RawTree:
    """The trees of several processes, whose blocks are numbered from those offsets, as one.

    `parents` are positions of processes, which created each (the first one itself): by the first thread of each, where
    `far` does not say by which.
    """
    firsts = list(itertools.accumulate((len(tree.threads) for tree in trees), initial=0))
    first_nodes = list(itertools.accumulate((len(tree.nodes) for tree in trees), initial=0))
    num_nodes = num_threads = 0
    begun: set[int] = set()
    moved: dict[str, list[Counts]] = {name: [] for name in _COLUMNS}
    for process, (tree, offset) in enumerate(zip(trees, block_offsets, strict=True)):
        nodes = tree.nodes.copy()
        nodes[:, 0][nodes[:, 0] != NONE] += np.uint64(num_nodes)
        for column in (1, 2):
            nodes[:, column][nodes[:, column] != 0] += np.uint64(offset)
        step = np.array([num_nodes, offset], np.uint64)
        threads = tree.threads + np.array([0, num_nodes, 0, 0, 0], np.uint64)
        threads[:, 4] = process
        moved["nodes"].append(nodes)
        moved["threads"].append(threads)
        edges = tree.edges.copy()
        for thread, node, block in ((1, 2, 3), (4, 5, 6)):
            edges[:, thread] += np.uint64(num_threads)
            edges[:, node][edges[:, node] != NONE] += np.uint64(num_nodes)
            edges[:, block][edges[:, block] != 0] += np.uint64(offset)
        moved["edges"].append(edges)
        for kind, source, thread, node, block, target, target_node, target_block, count in tree.far.tolist():
            near = target + num_threads, target_node + (num_nodes if target_node != NONE else 0), target_block
            where = firsts[source] + thread, first_nodes[source] + node, block
            moved["edges"].append(np.array([(kind, *where, *near, count)], np.uint64))
            if kind == CREATED:
                begun.add(process)
        for name in ("counts", "loops", "histograms", "stretches", "places"):
            table = getattr(tree, name).copy()
            table[:, :2] += step
            moved[name].append(table)
        num_nodes += len(nodes)
        num_threads += len(threads)
    created = [
        (CREATED, firsts[parent], NONE, 0, firsts[process], NONE, 0, 1)
        for process, parent in enumerate(parents)
        if parent != process and process not in begun and len(trees[parent].threads) and len(trees[process].threads)
    ]
    moved["edges"].append(np.array(created, np.uint64).reshape(-1, 8))
    tables: dict[str, Any] = {name: np.concatenate(of_all) for name, of_all in moved.items()}
    return RawTree(**tables, **{name: sum(getattr(tree, name) for tree in trees) for name in _REMARKS})


def raw_tree(rows: TreeRows | None) -> RawTree | None:
    """The reader's tree as arrays."""
    if rows is None:
        return None

    given: dict[str, Any] = {**rows}
    tables: dict[str, Any] = {
        name: np.frombuffer(given[name], np.uint64).reshape(-1, columns) for name, columns in _COLUMNS.items()
    }
    threads = tables["threads"]
    tables["edges"] = _by_position(tables["edges"], threads[:, 0])
    tables["threads"] = np.hstack([threads, np.zeros((len(threads), 1), np.uint64)])
    return RawTree(**tables, **{name: given[name] for name in _REMARKS})


def _by_position(edges: Counts, numbers: Counts) -> Counts:
    """Edges with the positions of threads among `numbers`, ascending, in place of these."""
    found = edges.copy()
    is_far = edges[:, 2] == FAR
    is_known = (is_far | np.isin(edges[:, 1], numbers)) & np.isin(edges[:, 4], numbers)
    found[~is_far, 1] = np.searchsorted(numbers, edges[~is_far, 1])
    found[:, 4] = np.searchsorted(numbers, edges[:, 4])
    kept: Counts = found[is_known]
    return kept
