"""An execution tree with times: what each node takes itself, and what is special about it.

A region's time belongs to a node by the node's share of the instructions that ran in the region's blocks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np

from foretrace.replay.spread import Floats
from foretrace.replay.workload import Workload
from foretrace.tracer.signature.tree_records import ExecutionTree, TreeNodeKind

_OUTLINED = re.compile(r"(\._omp_fn\.\d+$)|(\.omp_outlined)|(^__omp_outlined)")
"""Functions that a compiler made of parallel regions: GCC's and Clang's names."""
_RUNTIME = re.compile(r"^lib(gomp|omp|iomp5)[.-]")
_LOADER = re.compile(r"^ld[-.]")


class Special(Enum):
    """What a call is to a replay of threads."""

    CREATE = auto()
    JOIN = auto()
    BARRIER = auto()
    PARALLEL = auto()  # a function made of a parallel region
    LOCK = auto()
    UNLOCK = auto()


_CALLS = {
    "pthread_create": Special.CREATE,
    "pthread_join": Special.JOIN,
    "pthread_barrier_wait": Special.BARRIER,
    "pthread_mutex_lock": Special.LOCK,
    "pthread_mutex_unlock": Special.UNLOCK,
    "pthread_spin_lock": Special.LOCK,
    "pthread_spin_unlock": Special.UNLOCK,
    "omp_set_lock": Special.LOCK,
    "omp_unset_lock": Special.UNLOCK,
    "GOMP_critical_start": Special.LOCK,
    "GOMP_critical_end": Special.UNLOCK,
}


@dataclass(frozen=True, slots=True)
class Section:
    """A critical section in a body: its lock's name, the places of both calls among the children, its own seconds."""

    name: str
    first: int
    last: int
    own_s: dict[int, float]


@dataclass(slots=True, eq=False)
class TreeWork:
    """A tree with the seconds of its nodes.

    Attributes:
        tree: of the signature.
        children: of each node, in order.
        own_s: of each node, {region: seconds} that are its own. Runtimes of parallel regions have none: what they do
            there is wait, as long as it takes.
        inclusive_s: [nodes].
        special: of nodes that are special.
        is_special_below: bool [nodes], whether a special node is among those below, or the node itself.
        waited_s: seconds that runtimes spun while the program was traced.
        elsewhere_s: {region: seconds} of regions that the tree has no node for.
    """

    tree: ExecutionTree
    children: list[list[int]]
    own_s: list[dict[int, float]]
    inclusive_s: Floats
    special: dict[int, Special]
    is_special_below: np.typing.NDArray[np.bool_]
    waited_s: float
    elsewhere_s: dict[int, float] = field(default_factory=dict)
    row_region: np.typing.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    row_line: np.typing.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    row_s: Floats = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, workload: Workload, tree: ExecutionTree, time_s: Floats) -> TreeWork:
        """Divide the regions' times, [regions], among the nodes of a tree."""
        blocks = workload.signature.blocks
        instructions = np.array([max(block.instructions, 1) for block in blocks], np.float64)
        regions = workload.region_of_block[tree.work_block]
        weights = tree.work_executions * instructions[tree.work_block]
        of_region = np.bincount(regions, weights=weights, minlength=len(time_s))
        seconds = weights * np.divide(time_s, of_region, out=np.zeros_like(of_region), where=of_region > 0)[regions]
        special = {node: found for node in range(len(tree)) if (found := _special(tree, node)) is not None}
        waits = _waits(tree, special)
        own: list[dict[int, float]] = [{} for _ in range(len(tree))]
        waited_s = 0.0
        for node, region, time in zip(tree.work_node.tolist(), regions.tolist(), seconds.tolist(), strict=True):
            if waits[node]:
                waited_s += time
            elif time > 0:
                own[node][region] = own[node].get(region, 0.0) + time
        below = tree.inclusive(np.array([node in special for node in range(len(tree))], np.float64)) > 0
        missing = np.flatnonzero((of_region == 0) & (time_s > 0)).tolist()
        return cls(
            tree=tree,
            children=tree.children(),
            own_s=own,
            inclusive_s=tree.inclusive(np.array([sum(times.values()) for times in own])),
            special=special,
            is_special_below=below,
            waited_s=waited_s,
            elsewhere_s={region: float(time_s[region]) for region in missing},
            row_region=regions,
            row_line=np.array([block.line for block in blocks], np.int64)[tree.work_block],
            row_s=np.where(waits[tree.work_node], 0.0, seconds),
        )

    def sections(self, node: int) -> list[Section]:
        """Critical sections of a body: from a call that takes a lock to the next one that gives one back.

        A node's own work is in a section if its source lines lie between those of the two calls. Each pair of places
        is a lock of its own.
        """
        found: list[Section] = []
        first: int | None = None
        for place, child in enumerate(self.children[node]):
            special = self.special.get(child)
            if special is Special.LOCK and first is None:
                first = place
            elif special is Special.UNLOCK and first is not None:
                lines = [self.tree.keys[self.children[node][at]].site_line for at in (first, place)]
                key = self.tree.keys[node]
                name = f"lock {key.function}:{lines[0] or key.line}"
                found.append(Section(name, first, place, self._between(node, *lines)))
                first = None
        return found

    def _between(self, node: int, after: int, before: int) -> dict[int, float]:
        low, high = np.searchsorted(self.tree.work_node, [node, node + 1])
        rows = slice(int(low), int(high))
        inside = (self.row_line[rows] > after) & (self.row_line[rows] < before)
        sums: dict[int, float] = {}
        for region, seconds in zip(self.row_region[rows][inside], self.row_s[rows][inside], strict=True):
            if seconds > 0:
                sums[int(region)] = sums.get(int(region), 0.0) + float(seconds)
        return sums

    def sums_below(self, node: int) -> dict[int, float]:
        """Seconds by region of a node and all nodes below it."""
        sums: dict[int, float] = {}
        pending = [node]
        while pending:
            one = pending.pop()
            pending += self.children[one]
            for region, seconds in self.own_s[one].items():
                sums[region] = sums.get(region, 0.0) + seconds
        return sums

    def parallel_below(self, node: int) -> list[int]:
        """The functions of parallel regions that a call leads to through the runtime (and the loader) alone."""
        if not self.is_special_below[node]:
            return []
        if self.special.get(node) is Special.PARALLEL:
            return [node]
        if not (is_runtime(self.tree, node) or is_loader(self.tree, node)):
            return []
        return [found for child in self.children[node] for found in self.parallel_below(child)]

    def all_parallel(self, root: int) -> list[int]:
        """All functions of parallel regions below a node that are in no other one."""
        found, pending = [], [root]
        while pending:
            node = pending.pop()
            if self.special.get(node) is Special.PARALLEL:
                found.append(node)
            else:
                pending += reversed(self.children[node])
        return found


def is_runtime(tree: ExecutionTree, node: int) -> bool:
    """Whether a node is code of a runtime of parallel regions."""
    return _RUNTIME.match(_module(tree, node)) is not None


def is_loader(tree: ExecutionTree, node: int) -> bool:
    """Whether a node is code of the dynamic loader, which resolves a function at its first call, and calls it."""
    return _LOADER.match(_module(tree, node)) is not None


def _module(tree: ExecutionTree, node: int) -> str:
    return tree.keys[node].module.rpartition("/")[2]


def _special(tree: ExecutionTree, node: int) -> Special | None:
    if tree.kind[node] != TreeNodeKind.CALL:
        return None
    function = tree.keys[node].function
    if _OUTLINED.search(function):
        return Special.PARALLEL
    return _CALLS.get(function.partition("@")[0])


def _waits(tree: ExecutionTree, special: dict[int, Special]) -> np.typing.NDArray[np.bool_]:
    """bool [nodes]: runtimes, where there are parallel regions; all that a barrier or a join does."""
    waits = np.zeros(len(tree), np.bool_)
    is_parallel = Special.PARALLEL in special.values()
    for node in range(len(tree)):
        parent = int(tree.parent[node])
        inside = parent >= 0 and bool(waits[parent]) and special.get(node) is not Special.PARALLEL
        below_runtime = inside and not (is_parallel and _is_user_code(tree, node))
        waits[node] = (
            below_runtime
            or special.get(node) in (Special.BARRIER, Special.JOIN)
            or (is_parallel and is_runtime(tree, node))
        )
    return waits


def _is_user_code(tree: ExecutionTree, node: int) -> bool:
    """Whether a call from a runtime leads out of it: into neither itself, nor the loader, nor the C library."""
    return not (is_runtime(tree, node) or is_loader(tree, node) or _module(tree, node).startswith("libc."))
