"""Assembles and orders the nodes of an execution tree, of machine code and of Python alike."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from foretrace.tracer.signature.tree_records import (
    MOST_PHASES,
    ExecutionTree,
    NodeKey,
    Synchronisation,
    TreeNodeKind,
    TreeThread,
)

LEAST_CHANGE = 1.25
"""Ratio of mean iterations from which on stretches of a loop's entries are different phases."""
_NOT_RUN = math.inf
_Stretch = TypeVar("_Stretch", bound=tuple[int, ...])


@dataclass(slots=True)
class Draft:
    """A node under construction. `rank` orders siblings; `place`, such as an address, distinguishes like siblings."""

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
    stretches: list[tuple[int, int]] = field(default_factory=list)
    places: list[tuple[int, int, int]] = field(default_factory=list)
    work: dict[int, int] = field(default_factory=dict)

    def add_entries(
        self, iterations: int, least: int, most: int, histogram: dict[int, int], stretches: list[tuple[int, int]]
    ) -> None:
        """Add entries of a loop that were counted elsewhere. `stretches` are (entries, iterations) in order of time."""
        self.stretches = stretches if self.entries == 0 else []  # nobody knows which of several counts came first
        self.entries += sum(histogram.values())
        self.iterations += iterations
        self.least = least if self.least is None else min(self.least, least)
        self.most = max(self.most, most)
        for bucket, entries in histogram.items():
            self.histogram[bucket] = self.histogram.get(bucket, 0) + entries


class TreeBuilder:
    """Collects the nodes of a tree, by their identity below a parent."""

    def __init__(self) -> None:
        """Start without nodes."""
        self.drafts: list[Draft] = []
        self.final: dict[int, int] = {}
        """The node that each draft became."""
        self._numbers: dict[Hashable, int] = {}

    def node(self, parent: int, identity: Hashable, kind: TreeNodeKind, key: NodeKey, loop_id: int = -1) -> int:
        """The child of a parent (-1: a root) with that identity, created on first use."""
        number = self._numbers.setdefault((parent, identity), len(self.drafts))
        if number == len(self.drafts):
            self.drafts.append(Draft(kind, parent, key, loop_id))
        return number

    def finish(
        self,
        threads: Sequence[TreeThread],
        edges: Sequence[Synchronisation] = (),
        *,
        merged_contexts: int = 0,
        notes: Sequence[str] = (),
    ) -> ExecutionTree:
        """The tree. `root` of the threads and nodes of the edges are numbers of drafts here."""
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
        self.final = place = {number: position for position, number in enumerate(order)}
        nodes = [drafts[number] for number in order]
        histogram = [
            (node, bucket, entries)
            for node, draft in enumerate(nodes)
            for bucket, entries in sorted(draft.histogram.items())
            if entries
        ]
        work = [(node, block, times) for node, draft in enumerate(nodes) for block, times in sorted(draft.work.items())]
        histogram_columns = np.array(histogram, np.int64).reshape(-1, 3)
        phases = [(node, *phase) for node, draft in enumerate(nodes) for phase in _phases_of(draft)]
        phase_columns = np.array(phases, np.int64).reshape(-1, 3)
        rounds = [(node, *part) for node, draft in enumerate(nodes) for part in _round_of(draft)]
        round_columns = np.array(rounds, np.int64).reshape(-1, 4)
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
            synchronisation=tuple(
                replace(edge, source_node=place.get(edge.source_node, -1), target_node=place.get(edge.target_node, -1))
                for edge in edges
            ),
            phase_node=phase_columns[:, 0].copy(),
            phase_entries=phase_columns[:, 1].copy(),
            phase_iterations=phase_columns[:, 2].copy(),
            round_node=round_columns[:, 0].copy(),
            round_entries=round_columns[:, 1].copy(),
            round_iterations=round_columns[:, 2].copy(),
            round_around=round_columns[:, 3].copy(),
            merged_contexts=merged_contexts,
            notes=tuple(notes),
        )


def _number_alike(siblings: Sequence[Draft]) -> None:
    """Distinguish siblings with the same key by their place in the code."""
    alike: dict[tuple[TreeNodeKind, NodeKey], list[Draft]] = {}
    for draft in siblings:
        alike.setdefault((draft.kind, draft.key), []).append(draft)
    for (_, key), drafts in alike.items():
        for position, draft in enumerate(sorted(drafts, key=lambda draft: draft.place)):
            if position:
                draft.key = replace(key, position=position)


def _phases_of(draft: Draft) -> list[tuple[int, int]]:
    """A loop's phases, (entries, iterations) of each; none if it does not change, or is estimated."""
    sums = [sum(stretch[i] for stretch in draft.stretches) for i in range(2)]
    if draft.is_estimated or sums != [draft.entries, draft.iterations]:
        return []
    found = phases(draft.stretches)
    return [(entries, iterations) for entries, iterations in found] if len(found) > 1 else []


def _round_of(draft: Draft) -> list[tuple[int, int, int]]:
    """A loop's (entries, iterations, iterations of the loop around it) along that loop; none as for phases."""
    sums = [sum(place[i] for place in draft.places) for i in range(2)]
    if draft.is_estimated or sums != [draft.entries, draft.iterations]:
        return []
    found = phases(draft.places)
    return [(entries, iterations, around) for entries, iterations, around in found] if len(found) > 1 else []


def joined_places(
    one: Sequence[tuple[int, int, int]], other: Sequence[tuple[int, int, int]]
) -> list[tuple[int, int, int]]:
    """Places of a loop's entries in the iterations of the loop around it, counted in two ways, as one.

    Each is (entries, iterations, iterations of the loop around), and all of one way but the last are as long.
    """
    if not one or not other:
        return list(one or other)
    length = max(one[0][2], other[0][2])
    sums: dict[int, list[int]] = {}
    for places in (one, other):
        for number, (entries, iterations, around) in enumerate(places):
            found = sums.setdefault(number * around // length, [0, 0])
            found[0] += entries
            found[1] += iterations
    rows = [sums.get(number, [0, 0]) for number in range(max(sums) + 1)]
    return [(row[0], row[1], length) for row in rows]


def phases(stretches: Sequence[_Stretch]) -> list[_Stretch]:
    """Join neighbours among stretches of a loop's entries, (entries, iterations, ...) each, until neighbours differ.

    First those whose mean iterations differ by less than `LEAST_CHANGE`, the most alike first; then those whose union
    adds least to the sum of squared deviations (Ward, JASA 1963), until `MOST_PHASES` are left.
    """
    found: list[_Stretch] = []
    for stretch in stretches:
        if found and not (stretch[0] and found[-1][0]):  # one without entries belongs to its neighbour
            found[-1] = _sum(found[-1], stretch)
        else:
            found.append(stretch)

    def change(at: int) -> float:
        low, high = sorted(found[i][1] / found[i][0] for i in (at, at + 1))
        return high / low if low else math.inf if high else 1.0

    def deviation(at: int) -> float:
        (entries, iterations), (others, further) = found[at][:2], found[at + 1][:2]
        return entries * others / (entries + others) * (iterations / entries - further / others) ** 2

    def join(measure: Callable[[int], float]) -> None:
        at = min(range(len(found) - 1), key=measure)
        found[at : at + 2] = [_sum(found[at], found[at + 1])]

    while len(found) > 1 and min(map(change, range(len(found) - 1))) <= LEAST_CHANGE:
        join(change)
    while len(found) > MOST_PHASES:  # what comes to be alike then stays apart: phases that repeat would be one
        join(deviation)
    return found


def _sum(one: _Stretch, other: _Stretch) -> _Stretch:
    return tuple(map(operator.add, one, other))  # type: ignore[return-value]
