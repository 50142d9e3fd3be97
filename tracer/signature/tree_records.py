"""The execution tree of a run: what ran inside what, in which order, and how often. See docs/execution-tree.md.

A tree is kept in columns (NumPy arrays), one row a node: programs with many call contexts have 10^5 nodes. `TreeNode`
is one row as an object, for callers that walk a few.

How it joins the rest of the signature: a node's own work is the executions of basic blocks in it (`work_node`,
`work_block`, `work_executions`), summed over all nodes exactly `Block.executions`. So a share of a region's time
belongs to a node by its share of the executions of the region's blocks. A node of a loop names that `Loop` (`loop_id`);
the blocks of a loop's own work have its `loop_id`, those of a call have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt

from . import schema
from .schema import Column, Flags, Floats, Ints, Scale, no_ints

if TYPE_CHECKING:
    from .records import Signature

Counts = Annotated[Ints, Column(Scale.COUNT)]
ThreadId = Annotated[int, Column(Scale.REFERENCE, of="tree_threads")]
OfNode = Annotated[Ints, Column(Scale.OWNER, of="tree_nodes", column="node_id")]
Entries = Annotated[Ints, Column(Scale.COUNT, column="entries")]
PartEntries = Annotated[Ints, Column(Scale.COUNT, column="entries", least=1)]
Iterations = Annotated[Ints, Column(Scale.COUNT, column="iterations")]

BUCKETS = 64
"""Number of buckets of a histogram of iterations. Bucket 0 holds entries with 0 iterations, bucket b > 0 those with
2^(b-1) to 2^b - 1."""


MOST_PHASES = 8
MOST_AROUND = 1 << 62
"""Iterations that a part of a loop may have."""


class TreeNodeKind(IntEnum):
    """Kind of a node of an execution tree."""

    THREAD = 0  # the root of one or several threads
    CALL = 1  # a function in its calling context
    LOOP = 2  # a loop of the function above it
    LEAF = 3  # an array operation, or calls of a compiled function whose accesses were not seen (Python)
    MERGED = 4  # a function in all the contexts that were given up to keep the tree within its bounds


@dataclass(frozen=True, slots=True)
class NodeKey:
    """Identity of a node, as stable across runs and builds as possible. Keys of a path from the root join trees.

    `module` and `function` are those of the code, `file` and `line` those of the call's function or the loop; "" and 0
    where unknown. `site_line` is the line that calls (0 for loops, or unknown). `position` counts siblings that are
    alike in all the above, by address: 0 for the first. `caller`, of library code, is the function of the program that
    calls the library, and `file` and `line` are those of that call.
    """

    module: str
    function: str
    file: str
    line: int
    site_line: int
    position: int
    caller: str = ""


@dataclass(frozen=True, slots=True)
class TreeThread:
    """A thread of the run.

    `number` counts from 0 in the order in which threads began; `process` is `ProcessRecord.number`. `root` is its node,
    which alike threads share where there were too many. `first` and `last` are the positions at which it began and
    ended: how many basic-block executions (as the engine saw them) of all the process's threads together had been read
    by then, to within some thousands. Threads whose stretches overlap ran at the same time. `parent` is the thread that
    created it, -1 where that is not known.
    """

    number: Annotated[int, Column(Scale.IDENTITY, column="thread_id")]
    process: int
    root: Annotated[int, Column(Scale.REFERENCE, of="tree_nodes", column="root_id")]
    first: int
    last: int
    parent: Annotated[int, Column(Scale.REFERENCE, of="tree_threads", least=-1)] = -1


class SynchronisationKind(IntEnum):
    """Kinds of synchronisation between two threads."""

    CREATE = 0  # the source created the target
    JOIN = 1  # the target waited for the source's end
    WAKE = 2  # the target waited (futex) until the source woke it
    LOCK = 3  # the target waited for a lock that the source held (Python; contended locks of binaries leave WAKE edges)


@dataclass(frozen=True, slots=True)
class Synchronisation:
    """A happens-before edge: `count` times `target` (a thread's number) could not go on before `source` had come to a
    point.

    `source_node` and `target_node` are the nodes in which the two threads were then, -1 where that is not known,
    `source_line` and `target_line` their source lines in these, 0 where unknown. Edges of a kind and pair of threads
    that differ in either are rows of their own.
    """

    kind: SynchronisationKind
    source: ThreadId
    target: ThreadId
    count: schema.Count
    source_node: Annotated[int, Column(Scale.REFERENCE, of="tree_nodes", column="source_node_id", null=-1)] = -1
    target_node: Annotated[int, Column(Scale.REFERENCE, of="tree_nodes", column="target_node_id", null=-1)] = -1
    source_line: int = 0
    target_line: int = 0


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One row of an `ExecutionTree`: see there."""

    node: int
    kind: TreeNodeKind
    parent: int
    rank: int
    key: NodeKey
    loop_id: int | None
    entries: int
    iterations: int
    least: int
    most: int
    depth: int
    recursive_entries: int
    is_estimated: bool
    children: tuple[int, ...]

    @property
    def mean_iterations(self) -> float:
        """Iterations of an entry, on average."""
        return self.iterations / self.entries if self.entries else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class ExecutionTree:
    """The calls and loops of a run in their contexts. Nodes are numbered depth first: a parent comes before its
    children, siblings in the order in which they first ran.

    Per node, int64 [nodes] unless said otherwise:

    - `kind`: of `TreeNodeKind`; `parent`: a node, or -1 for the root of a thread; `rank`: 0, 1, ... among its siblings
    - `keys`: `NodeKey` of each node
    - `loop_id`: the signature's loop, or -1
    - `entries`: times it was called or entered from outside, the first call of a recursion only
    - `iterations`: executions of a loop's header in all entries; 0 for other kinds
    - `least`, `most`: iterations of the shortest and the longest entry
    - `depth`: of a call, how deep it recursed into itself, directly or not, at most (0: not at all); all calls of a
      recursion are one node. `recursive_entries`: the calls that are folded so
    - `is_estimated` bool: entries and distribution are shared out by executions of the header, as the machine that
      builds the tree saw no such loop (irreducible control flow)

    Sparse, in the order of their node: `histogram_node`, `histogram_bucket`, `histogram_entries` int64 [rows]: entries
    of a loop by number of iterations (see `BUCKETS`). `work_node`, `work_block`, `work_executions` int64 [rows]: the
    executions of basic blocks (`Block.block_id`) that are the node's own, in no node below it.

    `phase_node`, `phase_entries`, `phase_iterations` int64 [rows]: the entries of a loop whose iterations change over
    the run, split in order of time into at most `MOST_PHASES` phases, and the iterations of all entries of a phase. In
    the order of their node; their sums are the node's. Loops that do not change, and estimated ones, have none.

    `round_node`, `round_entries`, `round_iterations`, `round_around` int64 [rows]: the same entries of a loop that is
    nested in another loop of its function, split along the iterations of that one, whichever entry of it they were in:
    `round_around` of its iterations each, the last as many as there are or more.

    `merged_contexts` counts the contexts that were given up: their work is in nodes of kind `MERGED`. `notes` say what
    could not be told: jumps out of nowhere, coroutines.
    """

    kind: Annotated[Ints, Column(kinds=TreeNodeKind)]
    parent: Annotated[Ints, Column(Scale.OWNER, of="tree_nodes", column="parent_id", null=-1)]
    rank: Ints
    keys: tuple[NodeKey, ...]
    loop_id: Annotated[Ints, Column(Scale.REFERENCE, of="loops", null=-1)]
    entries: Counts
    iterations: Counts
    least: Annotated[Ints, Column(Scale.LOWEST)]
    most: Annotated[Ints, Column(Scale.HIGHEST)]
    depth: Annotated[Ints, Column(Scale.HIGHEST)]
    recursive_entries: Counts
    is_estimated: Annotated[Flags, Column(Scale.FLAG)]
    histogram_node: OfNode
    histogram_bucket: Annotated[Ints, Column(column="bucket", most=BUCKETS - 1)]
    histogram_entries: Entries
    work_node: OfNode
    work_block: Annotated[Ints, Column(Scale.REFERENCE, of="blocks", column="block_id")]
    work_executions: Annotated[Ints, Column(Scale.COUNT, column="executions")]
    threads: tuple[TreeThread, ...]
    synchronisation: tuple[Synchronisation, ...] = ()
    phase_node: OfNode = field(default_factory=no_ints)
    phase_entries: PartEntries = field(default_factory=no_ints)
    phase_iterations: Iterations = field(default_factory=no_ints)
    round_node: OfNode = field(default_factory=no_ints)
    round_entries: PartEntries = field(default_factory=no_ints)
    round_iterations: Iterations = field(default_factory=no_ints)
    round_around: Annotated[Ints, Column(column="iterations_around", least=1, most=MOST_AROUND)] = field(
        default_factory=lambda: np.zeros(0, np.int64)
    )
    merged_contexts: schema.Count = 0
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self.kind)

    def children(self) -> list[list[int]]:
        """Children of each node, in the order in which they first ran."""
        below: list[list[int]] = [[] for _ in range(len(self))]
        for node, parent in enumerate(self.parent.tolist()):
            if parent >= 0:
                below[parent].append(node)
        return below

    def nodes(self) -> Iterator[TreeNode]:
        """All nodes as objects, depth first."""
        below = self.children()
        for node, key in enumerate(self.keys):
            loop_id = int(self.loop_id[node])
            yield TreeNode(
                node=node,
                kind=TreeNodeKind(self.kind[node]),
                parent=int(self.parent[node]),
                rank=int(self.rank[node]),
                key=key,
                loop_id=loop_id if loop_id >= 0 else None,
                entries=int(self.entries[node]),
                iterations=int(self.iterations[node]),
                least=int(self.least[node]),
                most=int(self.most[node]),
                depth=int(self.depth[node]),
                recursive_entries=int(self.recursive_entries[node]),
                is_estimated=bool(self.is_estimated[node]),
                children=tuple(below[node]),
            )

    def phases(self) -> dict[int, list[tuple[int, int]]]:
        """Phases of the loops that have them: (entries, iterations) of each phase, in order, by node."""
        found: dict[int, list[tuple[int, int]]] = {}
        rows = zip(self.phase_node.tolist(), self.phase_entries.tolist(), self.phase_iterations.tolist(), strict=True)
        for node, entries, iterations in rows:
            found.setdefault(node, []).append((entries, iterations))
        return found

    def rounds(self) -> dict[int, list[tuple[int, int, int]]]:
        """Rounds of the loops whose iterations change along those of the loop around them: (entries, iterations,
        iterations of that loop), in order, by node."""
        found: dict[int, list[tuple[int, int, int]]] = {}
        columns = (self.round_node, self.round_entries, self.round_iterations, self.round_around)
        for node, entries, iterations, around in zip(*(column.tolist() for column in columns), strict=True):
            found.setdefault(node, []).append((entries, iterations, around))
        return found

    def inclusive(self, own: npt.NDArray[np.generic]) -> Floats:
        """Sums over each node and all below it of what nodes have themselves: float64 [nodes, ...]."""
        sums = own.astype(np.float64)
        for node in range(len(self) - 1, -1, -1):
            parent = int(self.parent[node])
            if parent >= 0:
                sums[parent] += sums[node]
        return sums


@dataclass(frozen=True, slots=True, eq=False)
class TreeCounts:
    """Own work of the nodes of a tree, float64 [nodes] each: instructions, floating-point operations, loads, stores,
    and the bytes of both. Operations that access memory only in some executions of their block are shared out
    evenly."""

    instructions: Floats
    flops: Floats
    loads: Floats
    stores: Floats
    load_bytes: Floats
    store_bytes: Floats

    @property
    def bytes(self) -> Floats:
        """Loaded and stored."""
        return self.load_bytes + self.store_bytes


def own_counts(signature: Signature, tree: ExecutionTree) -> TreeCounts:
    """Own work of each node; `ExecutionTree.inclusive` sums it up."""
    blocks = signature.blocks
    per_block = np.zeros((6, len(blocks)))
    executions = np.array([max(block.executions, 1) for block in blocks], np.float64)
    per_block[0] = [block.instructions for block in blocks]
    per_block[1] = [block.flops for block in blocks]
    for operation in signature.operations:
        per_block[3 if operation.is_store else 2, operation.block_id] += operation.executions
        per_block[5 if operation.is_store else 4, operation.block_id] += operation.total_bytes
    per_block[2:] /= executions
    sums = [
        np.bincount(tree.work_node, weights=of_one[tree.work_block] * tree.work_executions, minlength=len(tree)).astype(
            np.float64
        )
        for of_one in per_block
    ]
    return TreeCounts(*sums)


def check_tree(tree: ExecutionTree) -> None:
    """Refuse a tree whose columns, each of them allowed, do not fit together.

    Raises:
        ValueError: says what is wrong.
    """
    nodes = len(tree)
    if np.any(tree.parent >= np.arange(nodes)):
        raise ValueError("a node of the execution tree comes before its parent")
    is_root = tree.kind == TreeNodeKind.THREAD
    if np.any(is_root != (tree.parent < 0)):
        raise ValueError("a node of the execution tree is of an impossible kind")
    if np.any(tree.most < tree.least):
        raise ValueError("a distribution of the execution tree is impossible")
    if np.any(np.diff(tree.histogram_node) < 0) or np.any(np.diff(tree.work_node) < 0):
        raise ValueError("work or distributions of the execution tree are not in the order of their nodes")
    _check_parts(tree, tree.phase_node, tree.phase_entries, tree.phase_iterations, "phases")
    _check_parts(tree, tree.round_node, tree.round_entries, tree.round_iterations, "rounds")
    for thread in tree.threads:
        if not is_root[thread.root] or thread.first > thread.last:
            raise ValueError("a thread of the execution tree has no root, or ends before it begins")


def _check_parts(tree: ExecutionTree, of_node: Ints, entries: Ints, iterations: Ints, what: str) -> None:
    if np.any(np.diff(of_node) < 0):
        raise ValueError(f"{what} of the execution tree are not in the order of their nodes")
    has_any = np.bincount(of_node, minlength=len(tree)) > 0
    for totals, parts in ((tree.entries, entries), (tree.iterations, iterations)):
        sums = np.bincount(of_node, weights=parts.astype(np.float64), minlength=len(tree))
        if np.any(sums[has_any] != totals[has_any]):
            raise ValueError(f"the {what} of a loop are not its entries")
