"""The execution tree of machine code, built from functions in their calling contexts down to blocks and loops.

A function as the engine saw it can be several: code that a function jumps to belongs to another function where symbols
say so (a tail call that was the first to reach it). Stubs of procedure linkage tables, and the loader that resolves
them, are left out between a caller and its callee.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt

from foretrace.tracer.reader.raw_trace import RawBlock
from foretrace.tracer.reader.raw_tree import NONE, CallKind, RawTree
from foretrace.tracer.signature.records import Block, Loop
from foretrace.tracer.signature.tree_records import (
    ExecutionTree,
    NodeKey,
    Synchronisation,
    SynchronisationKind,
    TreeNodeKind,
    TreeThread,
)

from .builder import Draft, TreeBuilder, joined_places

Ints = npt.NDArray[np.int64]

_RESOLVER = re.compile(r"^$|^_dl_runtime_resolve|\+0x[0-9a-f]+$")
"""Names of the loader's function that resolves symbols, which is often left without one."""
_STUB = re.compile(r"^$|@plt$|\+0x[0-9a-f]+$")
"""Names of stubs, and of code without a name."""
_STUB_INSTRUCTIONS = 12
"""Most instructions that a stub executes per entry."""


@dataclass(frozen=True, slots=True, eq=False)
class EngineBlocks:
    """Basic blocks that each block of the engine runs, by its id.

    Of block i, `whole[first[i] : first[i + 1]]` int64 are the basic blocks whose first instruction it has, in order.
    `begin` and `end` int64 are the basic blocks of its first and last instruction; -1 for blocks without known code.
    """

    first: Ints
    whole: Ints
    begin: Ints
    end: Ints


def engine_blocks(
    engine_first: Ints, engine_instructions: Ints, block_of: Ints, block_first: Ints, raw: Sequence[RawBlock]
) -> EngineBlocks:
    """Relate engine blocks to basic blocks (`BasicBlocks` has the arrays).

    An engine block that never ran under its id, but under another id with the same code, stands for that other one.
    """
    known = np.diff(engine_first) > 0
    size = max([len(known), *(block.block_id + 1 for block in raw)])
    same: dict[tuple[int, bytes, tuple[int, ...]], int] = {}
    for block in raw:
        if block.block_id < len(known) and known[block.block_id]:
            same.setdefault((block.address, block.code, block.lengths), block.block_id)
    stands_for = np.full(size, -1, np.int64)
    stands_for[: len(known)][known] = np.flatnonzero(known)
    for block in raw:
        if stands_for[block.block_id] < 0:
            stands_for[block.block_id] = same.get((block.address, block.code, block.lengths), -1)
    first = np.zeros(size + 1, np.int64)
    begin = np.full(size, -1, np.int64)
    end = np.full(size, -1, np.int64)
    leads = np.zeros(len(block_of), bool)
    leads[block_first[:-1]] = True
    parts: list[Ints] = []
    for number, other in enumerate(stands_for.tolist()):
        if other >= 0:
            instructions = engine_instructions[engine_first[other] : engine_first[other + 1]]
            parts.append(block_of[instructions[leads[instructions]]])
            begin[number], end[number] = block_of[instructions[0]], block_of[instructions[-1]]
            first[number + 1] = len(parts[-1])
    whole = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    return EngineBlocks(np.cumsum(first), whole, begin, end)


def expanded(engine: EngineBlocks, engine_block: Ints) -> tuple[Ints, Ints]:
    """The basic blocks that engine blocks run: positions in `engine_block`, and the basic blocks."""
    lengths = engine.first[engine_block + 1] - engine.first[engine_block]
    starts = np.repeat(engine.first[engine_block] - (np.cumsum(lengths) - lengths), lengths)
    return np.repeat(np.arange(len(engine_block)), lengths), engine.whole[starts + np.arange(len(starts))]


class CodeTree:
    """Builds the execution tree of a recording from its analysed blocks and loops."""

    def __init__(self, raw: RawTree, engine: EngineBlocks, blocks: Sequence[Block], loops: Sequence[Loop]) -> None:
        """Take the recording and its analysed code; `tree` builds the tree."""
        self._raw, self.engine, self.blocks, self.loops = raw, engine, blocks, loops
        self.builder = TreeBuilder()
        self._function = self._function_numbers()
        nodes = raw.nodes.astype(np.int64)
        self._parent: list[int] = nodes[:, 0].tolist()
        self._entry = [self._begin(block) for block in nodes[:, 1].tolist()]
        self._site: list[int] = nodes[:, 2].tolist()
        self._kind: list[int] = nodes[:, 3].tolist()
        self._entries: list[int] = nodes[:, 4].tolist()
        self._rank: list[int] = nodes[:, 7].tolist()
        self._own = [int(self._function[block]) if block >= 0 else 0 for block in self._entry]
        self._work = self._rows()
        self._takes_over = list(range(len(self._parent)))
        """Node that each node's work belongs to: another one for stubs, and for calls that are resumed."""
        self._groups: dict[tuple[int, int], int] = {}
        """The drafts of a node's functions."""
        self._header_loop = {loop.header_block_id: loop.loop_id for loop in loops}

    def _function_numbers(self) -> Ints:
        """A number for the function of each block; 0 where it has no name, or is the stub of another one."""
        numbers: dict[tuple[str, str], int] = {}
        return np.array(
            [
                numbers.setdefault((block.module, block.function.removesuffix(".cold")), len(numbers) + 1)
                if block.function and not block.function.endswith("@plt")
                else 0
                for block in self.blocks
            ],
            np.int64,
        )

    def _begin(self, engine_block: int) -> int:
        return int(self.engine.begin[engine_block]) if engine_block < len(self.engine.begin) else -1

    def _site_block(self, node: int) -> int:
        """The block that calls a node; -1 if unknown, or if it is a stub."""
        site = self._site[node]
        block = int(self.engine.end[site]) if 0 < site < len(self.engine.end) else -1
        return -1 if block >= 0 and self.blocks[block].function.endswith("@plt") else block

    def _rows(self) -> list[dict[int, int]]:
        """Executions of basic blocks, by node of the recording."""
        node, engine_block, times = (self._raw.counts[:, i].astype(np.int64) for i in range(3))
        source, block = expanded(self.engine, engine_block)
        rows: list[dict[int, int]] = [defaultdict(int) for _ in range(len(self._parent))]
        pairs = zip(node[source].tolist(), block.tolist(), times[source].tolist(), strict=True)
        for of_node, of_block, executions in pairs:
            rows[of_node][of_block] += executions
        return rows

    # ---- stubs ----

    def _is_resolver(self, node: int) -> bool:
        entry = self._entry[node]
        if entry < 0 or self._kind[node] != CallKind.TAIL_CALL:
            return False
        block = self.blocks[entry]
        name = PurePosixPath(block.module).name
        return name.startswith(("ld-", "ld.", "ld64")) and bool(_RESOLVER.search(block.function))

    def _leave_out_stubs(self) -> None:
        """Replace stubs, and the resolver, by the functions called through them."""
        num = len(self._parent)
        resolves = [self._is_resolver(node) for node in range(num)]
        children: list[list[int]] = [[] for _ in range(num)]
        for node, parent in enumerate(self._parent):
            if parent >= 0:
                children[parent].append(node)
        for node in range(num):
            parent = self._parent[node]
            while (
                parent >= 0
                and self._kind[node] == CallKind.TAIL_CALL
                and (self._takes_over[parent] != parent or resolves[parent])
            ):
                self._site[node], self._kind[node] = self._site[parent], self._kind[parent]
                parent = self._parent[node] = self._parent[parent]
            origin = self._resumed(node)
            if origin >= 0:
                self._takes_over[node] = origin
                for child in children[node]:
                    self._parent[child] = origin
            elif self._is_stub(node, children[node]):
                called = [child for child in children[node] if not resolves[child]]
                called += [below for child in children[node] if resolves[child] for below in children[child]]
                tails = [child for child in called if self._kind[child] == CallKind.TAIL_CALL]
                if tails:
                    self._takes_over[node] = max(tails, key=lambda child: self._entries[child])
        for node in range(num):
            target = self._takes_over[node]
            if target != node:
                for block, executions in self._work[node].items():
                    self._work[target][block] += executions
                self._work[node] = {}

    def _resumed(self, node: int) -> int:
        """The call that goes on where a jump led to (the landing pad of an exception, say); -1 for none."""
        above = self._parent[node]
        if not self._own[node] or self._kind[node] != CallKind.TAIL_CALL:
            return -1
        while above >= 0 and self._own[above] != self._own[node]:
            above = self._parent[above]
        return self._takes_over[above] if above >= 0 and self._entry[above] != self._entry[node] else -1

    def _is_stub(self, node: int, children: Sequence[int]) -> bool:
        if self._entry[node] < 0 or not children:
            return False
        if any(self._kind[child] != CallKind.TAIL_CALL for child in children):
            return False
        work = self._work[node]
        instructions = sum(self.blocks[block].instructions * times for block, times in work.items())
        is_unnamed = all(_STUB.search(self.blocks[block].function) for block in work)
        return is_unnamed and instructions <= _STUB_INSTRUCTIONS * max(self._entries[node], 1)

    # ---- nodes ----

    def tree(self) -> ExecutionTree:
        """Build the whole tree."""
        self._leave_out_stubs()
        raw = self._raw
        details = raw.nodes.astype(np.int64)
        for node in range(len(self._parent)):
            if self._takes_over[node] == node:
                self._add_node(node, recursive=int(details[node, 5]), depth=int(details[node, 6]))
        for node, work in enumerate(self._work):
            for block, executions in work.items():
                draft = self.builder.drafts[self.place(node, block)]
                draft.work[block] = draft.work.get(block, 0) + executions
        self._add_loop_entries()
        self.add_leaves()
        edges = self._edges()
        parents = {edge.target: edge.source for edge in edges if edge.kind is SynchronisationKind.CREATE}
        threads = [
            TreeThread(number, process, self._groups[root, 0], first, last, parents.get(number, -1))
            for number, (_, root, first, last, process) in enumerate(raw.threads.tolist())
        ]
        return self.builder.finish(threads, edges, merged_contexts=raw.merged_contexts, notes=_tree_notes(raw))

    def _origin(self, node: int) -> int:
        """The node that has a node's work."""
        while self._takes_over[node] != node:
            node = self._takes_over[node]
        return node

    def _edges(self) -> list[Synchronisation]:
        """Synchronisation edges between threads, with drafts as nodes; edges between the same places are merged."""
        counts: dict[tuple[int, ...], int] = {}
        for row in self._raw.edges.tolist():
            kind, source, source_node, source_block, target, target_node, target_block, count = row
            places = self._draft_at(source_node, source_block), self._draft_at(target_node, target_block)
            key = kind - 1, source, target, *(node for node, _ in places), *(line for _, line in places)
            counts[key] = counts.get(key, 0) + count
        return [
            Synchronisation(SynchronisationKind(kind), source, target, count, *places)
            for (kind, source, target, *places), count in counts.items()
        ]

    def _draft_at(self, node: int, engine_block: int) -> tuple[int, int]:
        """The draft that a thread was in, and the source line there; -1 and 0 if that is not known."""
        if node == NONE:
            return -1, 0
        node = self._origin(node)
        if self._parent[node] < 0:
            return self._groups[node, 0], 0
        block = int(self.engine.end[engine_block]) if 0 < engine_block < len(self.engine.end) else -1
        return (self.place(node, block), self.blocks[block].line) if block >= 0 else (self._main(node), 0)

    def nodes_of(self, places: Iterable[tuple[int, int]]) -> Ints:
        """The nodes of places in the tree, once it is made: int64 [places]. A place is a node of the recording and a
        block."""
        return np.array([self._final(self.place(self._origin(node), block)) for node, block in places], np.int64)

    def _final(self, draft: int) -> int:
        """The node of a draft; of one without work that came after the tree was made, the node above it."""
        while draft not in self.builder.final:
            draft = self.builder.drafts[draft].parent
        return self.builder.final[draft]

    def loop_nodes(self, loops: Iterable[tuple[int, int, int]]) -> list[int]:
        """The nodes of loops in the tree, once it is made; -1 for those that are none in the end.

        A loop is given by the rank of its node in the recording, and the engine's blocks that the function and the loop
        begin with.
        """
        nodes = self._raw.nodes.astype(np.int64)
        by_rank = {rank: node for node, rank in enumerate(self._rank)}
        merged = {int(entry): node for node, entry in enumerate(nodes[:, 1]) if nodes[node, 9]}
        found = []
        for rank, entry, header in loops:
            node = by_rank.get(rank, merged.get(entry, -1))
            block = self._begin(header)
            loop_id = self._header_loop.get(block)
            if node < 0 or loop_id is None:
                found.append(-1)
                continue
            draft = self.place(self._origin(node), block)
            found.append(self._final(draft) if self.builder.drafts[draft].loop_id == loop_id else -1)
        return found

    def add_leaves(self) -> None:
        """Add nodes without blocks in the recording: none for machine code."""

    def _add_node(self, node: int, *, recursive: int, depth: int) -> None:
        builder = self.builder
        if self._parent[node] < 0:
            key = NodeKey("", "", "", 0, 0, 0)
            draft = self._groups[node, 0] = builder.node(-1, node, TreeNodeKind.THREAD, key)
            builder.drafts[draft].entries = 1
            builder.drafts[draft].rank = self._rank[node]
            return
        above, site = self._parent[node], self._site_block(node)
        parent = self.place(above, site) if site >= 0 else self._main(above)
        number = self._add_function(node, self._own[node], parent, site, self._entry[node])
        own = builder.drafts[number]
        own.entries += self._entries[node]
        own.recursive_entries += recursive
        own.depth = max(own.depth, depth)
        own.rank = min(own.rank, self._rank[node])
        others = {int(self._function[block]) for block in self._work[node]} - {0, self._own[node]}
        for function in sorted(others):
            above = self._parent[node]
            while above >= 0 and self._own[above] != function:
                above = self._parent[above]
            if above >= 0:
                self._groups[node, function] = self._groups[above, function]
                continue
            members = [block for block in self._work[node] if self._function[block] == function]
            entry = min(members, key=lambda block: self.blocks[block].offset)
            other = builder.drafts[self._add_function(node, function, number, -1, entry)]
            other.entries += self._work[node][entry]
            other.rank = min(other.rank, self._rank[node] + 0.5)

    def _add_function(self, node: int, function: int, parent: int, site: int, entry: int) -> int:
        """The draft of one of a node's functions, called from block `site`, which begins with block `entry`."""
        block = self.blocks[entry] if entry >= 0 else None
        site_line = self.blocks[site].line if site >= 0 else 0
        name, file, line, module = (block.function, block.file, block.line, block.module) if block else ("", "", 0, "")
        key = NodeKey(module, name.removesuffix(".cold"), file, line, site_line, 0)
        kind = TreeNodeKind.MERGED if self._raw.nodes[node, 9] else TreeNodeKind.CALL
        identity = (site, function, kind) if function else (site, -1, entry, kind)
        number = self.builder.node(parent, identity, kind, key)
        self.builder.drafts[number].place = site
        self._groups[node, function] = number
        return number

    def _main(self, node: int) -> int:
        return self._groups[node, self._own[node]]

    def place(self, node: int, block: int) -> int:
        """The draft that a block of a node is in: its function, or the innermost loop there."""
        function = int(self._function[block]) or self._own[node]
        number = self._groups.get((node, function))
        if number is None:
            number = self._main(node)
        return self._loop_below(number, self.blocks[block].loop_id)

    def _loop_below(self, number: int, loop_id: int | None) -> int:
        if loop_id is None:
            return number
        loop = self.loops[loop_id]
        parent = self._loop_below(number, loop.parent_id)
        key = NodeKey(loop.module, loop.function, loop.file, loop.line, 0, 0)
        below = self.builder.node(parent, ("loop", loop_id), TreeNodeKind.LOOP, key, loop_id)
        self.builder.drafts[below].place = self.blocks[loop.header_block_id].offset
        return below

    # ---- loops ----

    def _add_loop_entries(self) -> None:
        histograms: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        stretches: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for node, header, entries, iterations in self._raw.stretches.tolist():
            stretches[node, header].append((entries, iterations))
        places: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        for node, header, iterations_around, entries, iterations in self._raw.places.tolist():
            places[node, header].append((entries, iterations, iterations_around))
        for node, header, bucket, entries in self._raw.histograms.tolist():
            histograms[node, header][bucket] = entries
        for node, header, _, iterations, least, most, rank, is_estimated in self._raw.loops.tolist():
            block = self._begin(header)
            loop_id = self._header_loop.get(block)
            if loop_id is None or self._takes_over[node] != node:
                continue
            place = self.place(node, block)
            draft = self.builder.drafts[place]
            if draft.loop_id == loop_id:
                draft.add_entries(iterations, least, most, histograms[node, header], stretches[node, header])
                draft.places = joined_places(draft.places, places[node, header])
                draft.rank = min(draft.rank, rank)
                draft.is_estimated |= bool(is_estimated)
        drafts: dict[int, list[Draft]] = defaultdict(list)
        for draft in self.builder.drafts:
            if draft.kind is TreeNodeKind.LOOP:
                self._complete(draft)
                drafts[draft.loop_id].append(draft)
        for loop_id, alike in drafts.items():
            _correct(alike, self.loops[loop_id].entries)

    def _complete(self, draft: Draft) -> None:
        """Estimate a node's entries from its share of the loop's iterations, if these differ from the recorded ones."""
        loop = self.loops[draft.loop_id]
        iterations = draft.work.get(loop.header_block_id, 0)
        if draft.iterations == iterations and draft.entries:
            return
        share = iterations / loop.iterations if loop.iterations else 0.0
        draft.is_estimated = True
        draft.iterations = iterations
        if not draft.entries:
            draft.entries = max(1, round(loop.entries * share))
            mean = iterations // draft.entries
            draft.least, draft.most = mean, -(-iterations // draft.entries)
            draft.histogram = {mean.bit_length(): draft.entries}


def _correct(drafts: Sequence[Draft], entries: int) -> None:
    """Correct the entries of a loop's nodes to their exact total, which the edges between blocks give.

    The sums differ where a loop was detected during calls of its function that fold into one node.
    """
    excess = sum(draft.entries for draft in drafts) - entries
    if excess == 0:
        return
    for draft in drafts:
        draft.is_estimated = True
    most = max(drafts, key=lambda draft: draft.entries)
    bucket = max(most.histogram, key=lambda bucket: most.histogram[bucket], default=1)
    kept = max(most.histogram.get(bucket, 0) - excess, 1)
    most.entries += kept - most.histogram.get(bucket, 0)
    most.histogram[bucket] = kept


def _tree_notes(raw: RawTree) -> list[str]:
    what = (
        (raw.unwound, "jumps out of several calls (longjmp, exceptions)"),
        (raw.resumed, "jumps into functions that were not called (coroutines)"),
        (raw.signals, "signals and jumps for no reason seen, each taken for a call of its handler"),
        (raw.overflows, "stacks deeper than could be followed"),
        (raw.unplaced_waits, "waits for other threads at places too many to tell apart"),
    )
    return [f"{count} {text}" for count, text in what if count]
