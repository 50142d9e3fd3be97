"""A program as offload weighs it: nodes with their times on the host, what they contain, and whose data they use.

Nodes are those of the execution tree. A signature without a tree gives the nest of its loops; a gather/scatter unit,
which takes innermost loops alone, gets the program's regions side by side. Where no data flow was recorded, the spans
between the lowest and the highest address of each memory operation stand for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np

from foretrace.base.units import format_bytes
from foretrace.replay.base.records import LoopKind, Place
from foretrace.replay.base.spread import TYPICAL, Floats
from foretrace.replay.prediction.predict import HostRun
from foretrace.replay.threads.tree_work import TreeWork
from foretrace.replay.tree.timed_tree import Flags, Ints, TimedTree, add_seconds, children_of, divided_among_rows
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.analysis.data_flow.library_code import places_of
from foretrace.tracer.signature.data_flow_records import OUTSIDE, DataFlow
from foretrace.tracer.signature.records import MemoryOperation, Signature
from foretrace.tracer.signature.tree_records import ExecutionTree, TreeNodeKind

from .bounded_flow import BoundedFlow, bounded, counted_for
from .spans import flow_by_spans


class NodeKind(StrEnum):
    """Kind of a node."""

    LOOP = "loop"
    CALL = "call"
    ARRAY = "array"
    COMPILED = "compiled"
    OTHER = "other"


_OF_REGION = {
    LoopKind.LOOP: NodeKind.LOOP,
    LoopKind.ARRAY: NodeKind.ARRAY,
    LoopKind.COMPILED: NodeKind.COMPILED,
}


@dataclass(frozen=True, eq=False)
class Work(TimedTree):
    """The timed tree of a program on one core of the host, without the first touch of pages.

    Attributes:
        run: the program on the host.
        kinds, places: of each node. `entries` and `iterations`: int64 [nodes].
        tree_node: int64 [nodes], the node of the signature's tree, -1 where there is none.
        loop_number: int64 [nodes], the signature's loop, -1 for other nodes.
        pages_s: float64 [nodes], the first touch of pages: somebody does it wherever a loop runs.
        row_node, row_block, row_share: the share of a block's executions that are a node's own.
        flow: which node uses whose data.
        place: int64 [nodes], the node that each one's part of the data flow counts for: itself, but in libraries.
        left_out_bytes: of the data flow that was too much to weigh divisions by.
        notes: what stands in place of the tree or the data flow, and what to do about it.
        has_unseen: bool [nodes], array operations whose time does not follow from the accesses that were seen.
    """

    run: HostRun
    kinds: tuple[NodeKind, ...]
    places: tuple[Place, ...]
    entries: Ints
    iterations: Ints
    tree_node: Ints
    loop_number: Ints
    pages_s: Floats
    row_node: Ints
    row_block: Ints
    row_share: Floats
    flow: DataFlow
    place: Ints
    left_out_bytes: float
    notes: tuple[str, ...]
    has_unseen: Flags | None = None

    @classmethod
    def of_tree(cls, run: HostRun) -> Work:
        """By the execution tree; without one, by the nest of loops."""
        signature = run.workload.signature
        if signature.tree is None:
            return cls.of_loops(run, nested=True)
        tree, pages_s = signature.tree, run.times.pages_s
        times = TreeWork.of(run.workload, tree, run.times.time_s[TYPICAL] - pages_s)
        executions = np.array([max(block.executions, 1) for block in signature.blocks], np.float64)
        share = tree.work_executions / executions[tree.work_block]
        _, row_pages_s, _ = divided_among_rows(run.workload, tree, pages_s)
        pages = np.bincount(tree.work_node, row_pages_s, minlength=len(tree))
        flow = signature.data_flow
        notes: tuple[str, ...] = ()
        if flow is None:
            flow = flow_by_spans(signature, _node_of_block(tree, executions), tree.entries)
            notes = (_no_flow(signature),)
        elif not len(flow.node_place) and signature.provenance.guest != "python":
            flow = counted_for(flow, places_of(tree, [block.instructions for block in signature.blocks]))
        limited = bounded(flow)
        notes += _notes_on(limited)
        add_seconds(times.own_s[0], times.elsewhere_s)
        return cls(
            run=run,
            parent=tree.parent,
            children=times.children,
            kinds=tuple(_kind(signature, tree, node) for node in range(len(tree))),
            places=tuple(_place(signature, tree, node) for node in range(len(tree))),
            entries=np.maximum(tree.entries, 1),
            iterations=tree.iterations,
            tree_node=np.arange(len(tree)),
            loop_number=np.asarray(tree.loop_id, np.int64),
            own_s=times.own_s,
            pages_s=pages.astype(np.float64),
            row_node=tree.work_node,
            row_block=tree.work_block,
            row_share=share,
            flow=limited.flow,
            place=flow.node_place if len(flow.node_place) else np.arange(len(tree)),
            left_out_bytes=limited.left_out_bytes,
            notes=notes,
        )

    @classmethod
    def of_loops(cls, run: HostRun, *, nested: bool) -> Work:
        """By regions: in the nest of their loops, or side by side."""
        workload = run.workload
        parents = _nest(workload) if nested else [-1] * len(workload.regions)
        order = _depth_first(parents)
        number = {region: node for node, region in enumerate(order)}
        regions = [workload.regions[region] for region in order]
        time_s = run.times.time_s[TYPICAL] - run.times.pages_s
        rows = [(number[int(region)], block) for block, region in enumerate(workload.region_of_block)]
        rows.sort()
        parent = np.array([number[parents[region]] if parents[region] >= 0 else -1 for region in order], np.int64)
        entries = np.array([region.entries for region in regions], np.int64)
        node_of_block = np.array([number[int(region)] for region in workload.region_of_block], np.int64)
        limited = bounded(_flow_of_regions(workload.signature, node_of_block, entries))
        return cls(
            run=run,
            parent=parent,
            children=children_of(parent),
            kinds=tuple(_OF_REGION.get(region.kind, NodeKind.OTHER) for region in regions),
            places=tuple(region.place for region in regions),
            entries=entries,
            iterations=np.array([region.iterations for region in regions], np.int64),
            tree_node=np.full(len(order), -1),
            loop_number=np.array([-1 if one.loop_id is None else one.loop_id for one in regions], np.int64),
            own_s=[{region: float(time_s[region])} for region in order],
            pages_s=run.times.pages_s[order],
            row_node=np.array([node for node, _ in rows], np.int64),
            row_block=np.array([block for _, block in rows], np.int64),
            row_share=np.ones(len(rows)),
            flow=limited.flow,
            place=np.arange(len(order)),
            left_out_bytes=limited.left_out_bytes,
            notes=((_NO_TREE,) if nested else ()) + _notes_on(limited),
        )

    def operations_of(self, node: int) -> list[MemoryOperation]:
        """The memory operations of a node's own blocks."""
        rows = slice(*np.searchsorted(self.row_node, [node, node + 1]).tolist())
        return [one for block in np.unique(self.row_block[rows]).tolist() for one in self._of_block.get(block, ())]

    @cached_property
    def _of_block(self) -> dict[int, list[MemoryOperation]]:
        found: dict[int, list[MemoryOperation]] = defaultdict(list)
        for one in self.run.workload.signature.operations:
            found[one.block_id].append(one)
        return found

    def loop_around(self, node: int) -> int:
        """The innermost loop that a node is in or is; -1 where there is none."""
        return next((one for one in self.around(node) if self.kinds[one] is NodeKind.LOOP), -1)

    def of_operations(self, values: Floats) -> Floats:
        """Sums counts of memory operations, [operations], into their nodes' own: [nodes]."""
        blocks = np.array([operation.block_id for operation in self.run.workload.signature.operations], np.int64)
        sums = np.bincount(blocks, values, minlength=len(self.run.workload.signature.blocks))
        return self.of_blocks(sums.astype(np.float64))

    def of_blocks(self, values: Floats) -> Floats:
        """Sums counts of blocks in all executions, [blocks], into their nodes' own: [nodes]."""
        return np.bincount(self.row_node, values[self.row_block] * self.row_share, minlength=len(self)).astype(
            np.float64
        )


def shown(place: Place) -> str:
    """A place in a sentence: file and line, else the function."""
    if place.caller:
        return f"{place.name} {place.text}"
    if place.line:
        return f"{place.file.rpartition('/')[2] or place.module.rpartition('/')[2]}:{place.line}"
    return place.function or place.module.rpartition("/")[2]


_NO_TREE = (
    "the signature holds no execution tree: loops are nested by function alone, and data is the span between lowest "
    "and highest address; trace the program again"
)


def _no_flow(signature: Signature) -> str:
    why, how = "", ""
    if signature.provenance.sampling is not None:
        why, how = ", as accesses were recorded in bursts", " with --accuracy high"
    return (
        f"the signature holds no data flow{why}: transfers are the spans between lowest and highest address; trace the "
        f"program again{how}"
    )


LEAST_TOLD_SHARE = 0.02
"""Share of the data flow: what is merged or left out beyond that is said."""


def _notes_on(limited: BoundedFlow) -> tuple[str, ...]:
    """Notes on gaps of the data flow."""
    flow, notes = limited.flow, []
    total = float(flow.flow_bytes.sum()) + limited.left_out_bytes
    if flow.merged_bytes > LEAST_TOLD_SHARE * total:
        notes.append(
            f"{flow.merged_bytes / total:.0%} of the data flow had too many different sets of readers to tell apart, "
            "and counts as read by all: less may have to move; intervals reach to none of it"
        )
    if limited.left_out_bytes:
        notes.append(
            f"{limited.left_out_share:.1%} of the data flow ({format_bytes(round(limited.left_out_bytes))}), its "
            "smallest parts, was left out, as it has too many parts to weigh divisions by: that much more may have to "
            "move; intervals reach to all of it"
        )
    return tuple(notes)


def _kind(signature: Signature, tree: ExecutionTree, node: int) -> NodeKind:
    kind = TreeNodeKind(int(tree.kind[node]))
    if kind is TreeNodeKind.LOOP:
        return NodeKind.LOOP
    if kind is TreeNodeKind.LEAF:
        loop = int(tree.loop_id[node])
        return NodeKind.COMPILED if loop >= 0 and signature.loops[loop].kind == "compiled" else NodeKind.ARRAY
    return NodeKind.OTHER if kind is TreeNodeKind.THREAD else NodeKind.CALL


def _place(signature: Signature, tree: ExecutionTree, node: int) -> Place:
    key, loop = tree.keys[node], int(tree.loop_id[node])
    if loop >= 0:
        found = signature.loops[loop]
        if not key.caller:
            return Place(found.module, found.function, found.file, found.line, "", found.inlined)
    return Place(key.module, key.function, key.file, key.line, key.caller)


def _node_of_block(tree: ExecutionTree, executions: Floats) -> Ints:
    """The node in which each block ran most; -1 where there is none."""
    found = np.full(len(executions), -1, np.int64)
    order = np.argsort(tree.work_executions, kind="stable")
    found[tree.work_block[order]] = tree.work_node[order]
    return found


def _flow_of_regions(signature: Signature, node_of_block: Ints, entries: Ints) -> DataFlow:
    """The data flow of the tree's nodes as that of the regions that they run most of; else by spans."""
    flow, tree = signature.data_flow, signature.tree
    if flow is None or tree is None:
        return flow_by_spans(signature, node_of_block, entries)
    region = np.full(len(tree) + 1, OUTSIDE, np.int64)  # OUTSIDE is the last
    order = np.argsort(tree.work_executions, kind="stable")
    region[tree.work_node[order]] = node_of_block[tree.work_block[order]]
    sets = np.repeat(np.arange(len(flow.set_starts) - 1), np.diff(flow.set_starts))
    pairs = np.unique(np.column_stack([sets, region[flow.set_nodes]])[region[flow.set_nodes] >= 0], axis=0)
    counts = np.bincount(pairs[:, 0], minlength=len(flow.set_starts) - 1)
    return replace(
        flow,
        set_starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        set_nodes=pairs[:, 1].astype(np.int64),
        flow_writer=region[flow.flow_writer],
        node_place=np.zeros(0, np.int64),
    )


def _nest(workload: Workload) -> list[int]:
    """The region around each region's loop; -1 where there is none."""
    of_loop = {region.loop_id: number for number, region in enumerate(workload.regions) if region.loop_id is not None}
    loops = workload.signature.loops
    parents = []
    for region in workload.regions:
        around = loops[region.loop_id].parent_id if region.loop_id is not None else None
        while around is not None and around not in of_loop:
            around = loops[around].parent_id
        parents.append(-1 if around is None else of_loop[around])
    return parents


def _depth_first(parents: Sequence[int]) -> list[int]:
    below: dict[int, list[int]] = defaultdict(list)
    for number, parent in enumerate(parents):
        below[parent].append(number)
    order: list[int] = []
    pending = list(reversed(below[-1]))
    while pending:
        one = pending.pop()
        order.append(one)
        pending += reversed(below[one])
    return order
