"""Teams of parallel regions: who does which part of the traced work, at each place that enters a region.

A strand is a node of one traced thread, with the share of that node's work that belongs to the place. The first thread
has a node for each place, and all of it belongs there. Other threads have one node of a region's function for all
places: it is divided among these as the first thread's work is, or by entries where the first thread has none.

A body is a tuple of strands: what all threads of a team did at the same point of the code. A body of one strand is
what one thread does alone. The parts of a team's program are the same for all of its members; their times differ.
Members of a kind do the same for as long.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from foretrace.tracer.signature.tree_records import NodeKey, TreeNodeKind

from .runtimes import is_runtime
from .schedules import BLOCKS, chunks, runs_as_task, shares_of_blocks, shares_of_chunks, work_along
from .tree_waits import Role, runs_of
from .tree_work import TreeWork

_DIGITS = 12
"""Shares that differ by rounding alone are the same."""
ONCE = 0.05
"""Share by which what is done once in each run of a body may be done more often."""
_SAME = 1e-9
"""Share that may be left over by rounding."""
RegionKey = tuple[str, str]
"""Module and function of a parallel region."""


class Strand(NamedTuple):
    """`share` of a node's work; `root` is the place of its thread's root in `Team.roots`."""

    root: int
    node: int
    share: float


Body = tuple[Strand, ...]
Doers = Sequence[Sequence[tuple[int, float]]]
"""By root: the kinds of members that do its work, each with the share that one member does."""


@dataclass(slots=True)
class Team:
    """The threads that run a process's parallel regions; the first one alone, if there are none.

    Attributes:
        work: of the program.
        roots: of the traced threads, the first thread's first; alike threads share one.
        threads_of: by root, how many traced threads have it.
        kind_of: by member, its kind. The first member has kind 0 to itself.
        regions: by root, the nodes of each region's function.
        shares: {region: by kind, the share of all threads' work that a member does}; none for regions that stay as
            they were traced.
        dynamic: regions whose work goes to who is free.
        as_traced: by root, who does what its threads did; empty for a team of another size.
        placed: {region: share of the other threads' work that belongs to the places found so far}.
    """

    work: TreeWork
    roots: tuple[int, ...]
    threads_of: tuple[int, ...]
    kind_of: tuple[int, ...]
    regions: list[dict[RegionKey, list[int]]]
    shares: dict[RegionKey, tuple[float, ...]]
    dynamic: frozenset[RegionKey]
    as_traced: Doers
    placed: dict[RegionKey, float] = field(default_factory=lambda: defaultdict(float))

    @classmethod
    def of(cls, work: TreeWork, roots: Sequence[int], size: int) -> Team:
        """A team of `size` members that does what threads with these roots did."""
        threads = Counter(roots)
        regions = [_regions(work, root) for root in threads]
        is_as_traced = size == len(roots)
        dynamic: set[RegionKey] = set()
        shares: dict[RegionKey, list[float]] = {}
        for key in dict.fromkeys(key for group in regions for key in group):
            found = _divided(work, key, regions, dynamic, size, is_as_traced, tuple(threads.values()))
            if found:
                shares[key] = found
        kinds: dict[tuple[object, ...], int] = {}
        kind_of = []
        for member in range(size):
            alike = (member == 0, roots[member] if is_as_traced else None, *(each[member] for each in shares.values()))
            kind_of.append(kinds.setdefault(alike, len(kinds)))
        firsts = [kind_of.index(kind) for kind in range(len(kinds))]
        as_traced: list[list[tuple[int, float]]] = [[] for _ in threads]
        if is_as_traced:
            for root, found_in in enumerate(threads):
                own = {kind for kind, one in zip(kind_of, roots, strict=True) if one == found_in}
                as_traced[root] = [(kind, 1 / threads[found_in]) for kind in sorted(own)]
        return cls(
            work=work,
            roots=tuple(threads),
            threads_of=tuple(threads.values()),
            kind_of=tuple(kind_of),
            regions=regions,
            shares={key: tuple(each[first] for first in firsts) for key, each in shares.items()},
            dynamic=frozenset(dynamic),
            as_traced=as_traced if is_as_traced else (),
        )

    @property
    def num_kinds(self) -> int:
        """Kinds of members."""
        return max(self.kind_of) + 1

    @property
    def first_alone(self) -> Doers:
        """Outside of parallel regions the first member does what the first thread did."""
        return [[(0, 1.0)], *([] for _ in self.roots[1:])]

    @property
    def one_for_all(self) -> Doers:
        """In a region, what one member does for all."""
        return [[(0, 1.0)] for _ in self.roots]

    def doers(self, key: RegionKey) -> Doers:
        """Who does a region's work."""
        if key not in self.shares:
            return self.as_traced
        some = [(kind, share) for kind, share in enumerate(self.shares[key]) if share]
        return [some for _ in self.roots]

    @property
    def outside(self) -> Doers:
        """Who does what the traced threads did outside of all regions."""
        if self.as_traced:
            return self.as_traced
        others = Counter(self.kind_of[1:])
        rest = [(kind, 1 / others.total()) for kind in others] or [(0, 1.0)]
        return [[(0, 1.0)], *(rest for _ in self.roots[1:])]

    def strands(self, key: RegionKey, nodes: Sequence[int]) -> Body:
        """The body of a region at the place where the first thread came to `nodes`."""
        own = self.regions[0].get(key, nodes)
        size = self._seconds if self._seconds(own) else self._entries
        share = size(nodes) / (size(own) or 1.0)
        self.placed[key] += share
        others = [Strand(root, node, share) for root, node in self._of_others(key)]
        return (*(Strand(0, node, 1.0) for node in nodes), *others)

    def left(self) -> Iterator[tuple[RegionKey, Strand]]:
        """Strands that belong to no place that the first thread came to, with their region."""
        for key in dict.fromkeys(key for group in self.regions[1:] for key in group):
            share = 1.0 - self.placed[key]
            if share > _SAME:
                for root, node in self._of_others(key):
                    yield key, Strand(root, node, share)

    def _of_others(self, key: RegionKey) -> list[tuple[int, int]]:
        return [(root, node) for root, group in enumerate(self.regions) if root for node in group.get(key, [])]

    def _seconds(self, nodes: Sequence[int]) -> float:
        return float(sum(self.work.inclusive_s[node] for node in nodes))

    def _entries(self, nodes: Sequence[int]) -> float:
        return float(sum(self.work.tree.entries[node] for node in nodes))


def region_key(work: TreeWork, node: int) -> RegionKey:
    """Module and function of a parallel region."""
    key = work.tree.keys[node]
    return key.module, key.function


def _regions(work: TreeWork, root: int) -> dict[RegionKey, list[int]]:
    """The functions of parallel regions of a thread."""
    found: dict[RegionKey, list[int]] = defaultdict(list)
    for node in work.all_parallel(root):
        found[region_key(work, node)].append(node)
    return dict(found)


def _divided(
    work: TreeWork,
    key: RegionKey,
    regions: Sequence[Mapping[RegionKey, list[int]]],
    dynamic: set[RegionKey],
    size: int,
    is_as_traced: bool,
    threads_of: Sequence[int],
) -> list[float]:
    """By member, its share of a region's work; none where that stays as it was traced. Adds to `dynamic`."""
    nodes = [node for group in regions for node in group.get(key, [])]
    own = regions[0].get(key, [])
    tasks = {node for node, role in work.special.items() if role is Role.PARALLEL}
    found = chunks(work.tree, work.children, nodes, tasks)
    if any(runs_as_task(work.tree, node) for node in nodes):
        dynamic.add(key)
        found += sum(int(work.tree.entries[node] + work.tree.recursive_entries[node]) for node in nodes)
        return _rounded(shares_of_chunks(found, size))
    if found:
        dynamic.add(key)
        return _rounded(shares_of_chunks(found / max(sum(int(work.tree.entries[node]) for node in own), 1), size))
    if is_as_traced:
        return []
    came = [root for root, group in enumerate(regions) if group.get(key)]  # others were in no team of the region
    apart_s = _of_one_s(work, [regions[root][key] for root in came])
    along = np.zeros((len(came), BLOCKS))
    for place, root in enumerate(came):
        for node in regions[root][key]:
            along[place] += np.array(work_along(work, node)) - apart_s.get(node, 0.0) / BLOCKS
    along = np.maximum(along, 0.0)
    times = [threads_of[root] for root in came]
    blocks = np.repeat(along / np.array(times)[:, None], times, axis=0)
    return _rounded(shares_of_blocks(blocks.ravel().tolist(), size))


def _of_one_s(work: TreeWork, groups: Sequence[Sequence[int]]) -> dict[int, float]:
    """{node: seconds}: of each thread's nodes of a region, what one thread did for all: what they came to once together
    in each run of what is around it."""
    found: dict[int, float] = defaultdict(float)
    if len(groups) < 2:
        return found
    entries: Counter[tuple[NodeKey, ...]] = Counter()
    runs: Counter[tuple[NodeKey, ...]] = Counter()
    places: list[tuple[tuple[NodeKey, ...], int, int]] = []
    pending: list[tuple[tuple[NodeKey, ...], int, int]] = [((), node, node) for group in groups for node in group]
    while pending:
        path, node, region = pending.pop()
        runs[path] += runs_of(work.tree, node)
        for child in work.children[node]:
            below = (*path, work.tree.keys[child])
            meets = any(work.special.get(one) is Role.MEETING for one in work.children[child])
            if work.tree.kind[child] == TreeNodeKind.LOOP and meets:
                pending.append((below, child, region))
            elif not is_runtime(work.tree, child):
                entries[below] += int(work.tree.entries[child])
                places.append((below, child, region))
    for path, node, region in places:
        if entries[path] * len(groups) <= (1 + ONCE) * runs[path[:-1]]:
            found[region] += float(work.inclusive_s[node])
    return found


def _rounded(shares: Sequence[float]) -> list[float]:
    """Shares that add up to 1, and are equal if they differ by rounding alone; of nothing all have the same."""
    kept = [round(share, _DIGITS) for share in shares]
    total = sum(kept)
    return [share / total for share in kept] if total else [1 / len(kept)] * len(kept)
