"""The graph algorithms that the analysis needs. A graph library takes longer to import than these take to run."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping

_COMPLETE = sys.maxsize


def cycles(successors: Mapping[int, Collection[int]]) -> Iterator[set[int]]:
    """The strongly connected components of a directed graph, without the single nodes that are on no cycle.

    Tarjan, "Depth-First Search and Linear Graph Algorithms", SIAM Journal on Computing 1(2), 1972, without recursion.
    """
    number: dict[int, int] = {}  # of each node, in the order visited
    lowest: dict[int, int] = {}  # number found to be reached from a node; _COMPLETE once its component is known
    pending: list[int] = []
    for root in successors:
        if root in number:
            continue
        number[root] = lowest[root] = len(number)
        pending.append(root)
        path = [(root, iter(successors[root]))]
        while path:
            node, following = path[-1]
            for successor in following:
                if successor not in number:
                    number[successor] = lowest[successor] = len(number)
                    pending.append(successor)
                    path.append((successor, iter(successors.get(successor, ()))))
                    break
                if lowest[successor] < lowest[node]:
                    lowest[node] = lowest[successor]
            else:
                path.pop()
                if lowest[node] < number[node]:
                    before = path[-1][0]
                    lowest[before] = min(lowest[before], lowest[node])
                    continue
                component = set()
                while node not in component:
                    member = pending.pop()
                    lowest[member] = _COMPLETE
                    component.add(member)
                if len(component) > 1 or node in successors.get(node, ()):
                    yield component


def groups(nodes: Iterable[int], pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The nodes that pairs connect, directly or through others: sorted groups, in order of their smallest node."""
    group_of = {node: [node] for node in nodes}
    for one, other in pairs:
        larger, smaller = sorted((group_of[one], group_of[other]), key=len, reverse=True)
        if larger is not smaller:
            larger += smaller
            for node in smaller:
                group_of[node] = larger
    return sorted({id(group): sorted(group) for group in group_of.values()}.values())
