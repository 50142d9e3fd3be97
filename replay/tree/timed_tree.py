"""The timed tree: a program's nodes, each within its parent, with their seconds on one machine.

All of it is arrays and lists over node numbers, in which a parent comes before its children. Every walk is a loop, so a
tree may be nested more deeply than the interpreter recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from foretrace.replay.base.spread import Floats
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.tree_records import ExecutionTree

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def children_of(parent: Ints) -> list[list[int]]:
    """The children of each node, ascending."""
    children: list[list[int]] = [[] for _ in range(len(parent))]
    for node, above in enumerate(parent.tolist()):
        if above >= 0:
            children[above].append(node)
    return children


@dataclass(frozen=True, eq=False)
class NodeTree:
    """The structure of a tree: int64 [nodes], the parent of each node, -1 for roots."""

    parent: Ints

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self.parent)

    @cached_property
    def parents(self) -> list[int]:
        """`parent` as a list, whose elements are read faster one by one."""
        found: list[int] = self.parent.tolist()
        return found

    @cached_property
    def roots(self) -> list[int]:
        """Nodes without a parent."""
        return [node for node, parent in enumerate(self.parents) if parent < 0]

    @cached_property
    def levels(self) -> list[int]:
        """Depth of each node, 1 for roots; the last element, 0, is that of no node."""
        levels = [0] * (len(self) + 1)
        for node, parent in enumerate(self.parents):
            levels[node] = levels[parent] + 1
        return levels

    @cached_property
    def _subtrees(self) -> tuple[list[int], list[int]]:
        """For each node, the size of its subtree and the last node in it."""
        size, last = [1] * len(self), list(range(len(self)))
        for node in range(len(self) - 1, -1, -1):
            parent = self.parents[node]
            if parent >= 0:
                size[parent] += size[node]
                last[parent] = max(last[parent], last[node])
        return size, last

    @property
    def last_below(self) -> list[int]:
        """The last node of each one's subtree; itself where there is nothing below."""
        return self._subtrees[1]

    def below(self, node: int) -> Sequence[int]:
        """A node's subtree, ascending: a range, which takes no memory, where it is numbered depth first."""
        size, last = self._subtrees
        if last[node] - node + 1 == size[node]:
            return range(node, last[node] + 1)
        inside = {node: None}
        for one in range(node + 1, last[node] + 1):
            if self.parents[one] in inside:
                inside[one] = None
        return list(inside)

    def around(self, node: int) -> Iterator[int]:
        """A node and those around it, innermost first; none of -1."""
        while node >= 0:
            yield node
            node = self.parents[node]

    def inclusive(self, own: npt.NDArray[np.generic]) -> Floats:
        """float64 [nodes]: sums over each node's subtree of what nodes have of their own."""
        sums: list[float] = own.astype(np.float64).tolist()
        for node in range(len(self) - 1, -1, -1):
            parent = self.parents[node]
            if parent >= 0:
                sums[parent] += sums[node]
        return np.array(sums, np.float64)

    def flags(self, nodes: Iterable[int]) -> Flags:
        """bool [nodes]: those of some nodes are true."""
        flags = np.zeros(len(self), np.bool_)
        flags[list(nodes)] = True
        return flags

    def any_below(self, flags: Flags) -> Flags:
        """bool [nodes]: whether any node of each one's subtree is flagged."""
        found: list[bool] = flags.tolist()
        for node in range(len(self) - 1, -1, -1):
            parent = self.parents[node]
            if parent >= 0 and found[node]:
                found[parent] = True
        return np.array(found, np.bool_)

    def any_around(self, flags: Flags) -> Flags:
        """bool [nodes]: whether each node, or any around it, is flagged."""
        found: list[bool] = flags.tolist()
        for node, parent in enumerate(self.parents):
            if parent >= 0 and found[parent]:
                found[node] = True
        return np.array(found, np.bool_)

    def common_ancestors(self, ones: Ints, others: Ints) -> Ints:
        """[pairs]: the innermost node that holds both nodes of each pair, which may be one of them; -1: none."""
        up, level = np.append(self.parent, -1), np.array(self.levels, np.int64)
        low, high = ones.copy(), others.copy()
        apart = np.flatnonzero(low != high)
        while len(apart):
            one, other = low[apart], high[apart]
            low[apart] = np.where(level[one] >= level[other], up[one], one)
            high[apart] = np.where(level[other] >= level[one], up[other], other)
            apart = apart[low[apart] != high[apart]]
        return np.asarray(low, np.int64)

    def siblings_around(self, one: int, other: int) -> tuple[int, int] | None:
        """The two children of the innermost node around both that hold one each; None: one holds the other."""
        parents, levels = self.parents, self.levels
        while parents[one] != parents[other]:
            difference = levels[one] - levels[other]
            one = parents[one] if difference >= 0 else one
            other = parents[other] if difference <= 0 else other
        return None if one == other else (one, other)


@dataclass(frozen=True, eq=False)
class TimedTree(NodeTree):
    """A program's nodes with their times.

    Attributes:
        children: of each node, in the order in which they run.
        own_s: of each node, {region: seconds} that are its own.
    """

    children: list[list[int]]
    own_s: list[dict[int, float]]

    @cached_property
    def own_total_s(self) -> Floats:
        """[nodes]: seconds of their own, of all regions together."""
        return np.array([sum(seconds.values()) for seconds in self.own_s], np.float64)

    @cached_property
    def inclusive_s(self) -> Floats:
        """[nodes]: seconds of each node's subtree."""
        return self.inclusive(self.own_total_s)

    def outermost(self, start: Iterable[int], holds: Callable[[int], bool]) -> Iterator[int]:
        """Nodes at or below those of `start` for which something holds, without those inside of others, in order."""
        pending = [*start][::-1]
        while pending:
            node = pending.pop()
            if holds(node):
                yield node
            else:
                pending += reversed(self.children[node])

    def seconds_of(self, nodes: Iterable[int]) -> dict[int, float]:
        """{region: seconds} of some nodes' own."""
        sums: dict[int, float] = {}
        for node in nodes:
            add_seconds(sums, self.own_s[node])
        return sums

    def seconds_below(self, node: int, without: Collection[int] = ()) -> dict[int, float]:
        """{region: seconds} of a node's subtree, without the subtrees of some nodes."""
        return self.seconds_of(self._walk(node, without))

    def _walk(self, node: int, without: Collection[int]) -> Iterator[int]:
        pending = [node]
        while pending:
            one = pending.pop()
            if one not in without:
                pending += self.children[one]
                yield one


def add_seconds(sums: dict[int, float], more: dict[int, float], scale: float = 1.0) -> None:
    """Add {region: seconds} to others."""
    for region, seconds in more.items():
        sums[region] = sums.get(region, 0.0) + seconds * scale


def divided_among_rows(
    workload: Workload, tree: ExecutionTree, time_s: Floats
) -> tuple[Ints, Floats, dict[int, float]]:
    """Divides the regions' times, [regions], among the rows of a tree's work, by the instructions that ran in each.

    Returns:
        the region of each row; its seconds, float64 [rows]; {region: seconds} of regions that have no row.
    """
    instructions = np.array([max(block.instructions, 1) for block in workload.signature.blocks], np.float64)
    regions = workload.region_of_block[tree.work_block]
    weights = tree.work_executions * instructions[tree.work_block]
    of_region = np.bincount(regions, weights=weights, minlength=len(time_s))
    rate = np.divide(time_s, of_region, out=np.zeros_like(of_region), where=of_region > 0)
    missing = np.flatnonzero((of_region == 0) & (time_s > 0)).tolist()
    return regions, np.asarray(weights * rate[regions], np.float64), {one: float(time_s[one]) for one in missing}
