"""Assembles and orders the nodes of an execution tree, of machine code and of Python alike."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from foretrace.tracer.signature.tree_records import BUCKETS, ExecutionTree, NodeKey, TreeNodeKind, TreeThread

_NOT_RUN = math.inf


@dataclass(slots=True)
class Draft:
    """A node in the making. `rank` orders siblings; `place` tells alike ones apart, such as an address."""

    kind: TreeNodeKind
    parent: int
    key: NodeKey
    loop_id: int = -1
    place: int = 0
    rank: float = _NOT_RUN
    entries: int = 0
    iterations: int = 0
    least: int | None = None
    most: int = 0
    depth: int = 0
    recursive_entries: int = 0
    is_estimated: bool = False
    histogram: dict[int, int] = field(default_factory=dict)
    work: dict[int, int] = field(default_factory=dict)

    def add_entries(self, iterations: int, least: int, most: int, histogram: dict[int, int]) -> None:
        """Add entries of a loop that were counted elsewhere."""
        self.entries += sum(histogram.values())
        self.iterations += iterations
        self.least = least if self.least is None else min(self.least, least)
        self.most = max(self.most, most)
        for bucket, entries in histogram.items():
            self.histogram[bucket] = self.histogram.get(bucket, 0) + entries


class TreeBuilder:
    """Nodes by their identity below a parent."""

    def __init__(self) -> None:
        """None yet."""
        self.drafts: list[Draft] = []
        self._numbers: dict[Hashable, int] = {}
        self.position: dict[int, int] = {}
        """The node that each draft has become, once the tree is finished."""

    def node(self, parent: int, identity: Hashable, kind: TreeNodeKind, key: NodeKey, loop_id: int = -1) -> int:
        """The child of a parent (-1: a root) with that identity; made if there is none yet."""
        number = self._numbers.setdefault((parent, identity), len(self.drafts))
        if number == len(self.drafts):
            self.drafts.append(Draft(kind, parent, key, loop_id))
        return number

    def finish(
        self, threads: Sequence[TreeThread], *, merged_contexts: int = 0, notes: Sequence[str] = ()
    ) -> ExecutionTree:
        """The tree. `root` of the threads are numbers of drafts here."""
        drafts = self.drafts
        below: list[list[int]] = [[] for _ in drafts]
        for number in range(len(drafts) - 1, -1, -1):  # a parent is made before its children
            draft = drafts[number]
            if draft.parent >= 0:
                below[draft.parent].append(number)
                above = drafts[draft.parent]
                if above.kind is TreeNodeKind.LOOP:
                    above.rank = min(above.rank, draft.rank)
        for children in below:
            children.sort(key=lambda number: (drafts[number].rank, number))
            _number_alike([drafts[number] for number in children])
        order: list[int] = []
        rank = [0] * len(drafts)
        pending = [number for number in reversed(range(len(drafts))) if drafts[number].parent < 0]
        while pending:
            number = pending.pop()
            order.append(number)
            for position, child in enumerate(below[number]):
                rank[child] = position
            pending.extend(reversed(below[number]))
        place = self.position = {number: position for position, number in enumerate(order)}
        nodes = [drafts[number] for number in order]
        histogram = [
            (node, bucket, entries)
            for node, draft in enumerate(nodes)
            for bucket, entries in sorted(draft.histogram.items())
            if entries
        ]
        work = [(node, block, times) for node, draft in enumerate(nodes) for block, times in sorted(draft.work.items())]
        histogram_columns = np.array(histogram, np.int64).reshape(-1, 3)
        work_columns = np.array(work, np.int64).reshape(-1, 3)

        def column(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            return np.array(values, np.int64)

        return ExecutionTree(
            kind=column([draft.kind for draft in nodes]),
            parent=column([place[draft.parent] if draft.parent >= 0 else -1 for draft in nodes]),
            rank=column([rank[number] for number in order]),
            keys=tuple(draft.key for draft in nodes),
            loop_id=column([draft.loop_id for draft in nodes]),
            entries=column([draft.entries for draft in nodes]),
            iterations=column([draft.iterations for draft in nodes]),
            least=column([draft.least or 0 for draft in nodes]),
            most=column([draft.most for draft in nodes]),
            depth=column([draft.depth for draft in nodes]),
            recursive_entries=column([draft.recursive_entries for draft in nodes]),
            is_estimated=np.array([draft.is_estimated for draft in nodes], bool),
            histogram_node=histogram_columns[:, 0].copy(),
            histogram_bucket=histogram_columns[:, 1].copy(),
            histogram_entries=histogram_columns[:, 2].copy(),
            work_node=work_columns[:, 0].copy(),
            work_block=work_columns[:, 1].copy(),
            work_executions=work_columns[:, 2].copy(),
            threads=tuple(
                TreeThread(number, thread.process, place[thread.root], thread.first, thread.last, thread.parent)
                for number, thread in enumerate(threads)
            ),
            merged_contexts=merged_contexts,
            notes=tuple(notes),
        )


def _number_alike(siblings: Sequence[Draft]) -> None:
    """Tell siblings with the same key apart by their place in the code."""
    alike: dict[tuple[TreeNodeKind, NodeKey], list[Draft]] = {}
    for draft in siblings:
        alike.setdefault((draft.kind, draft.key), []).append(draft)
    for (_, key), drafts in alike.items():
        for position, draft in enumerate(sorted(drafts, key=lambda draft: draft.place)):
            if position:
                draft.key = NodeKey(key.module, key.function, key.file, key.line, key.site_line, position)


def bucket_of(iterations: int) -> int:
    """Where a number of iterations is in a histogram."""
    return min(iterations.bit_length(), BUCKETS - 1)
