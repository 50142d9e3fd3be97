"""Derives the loop-carried dependences of the execution tree's loops from recorded dependences between accesses."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec
import numpy as np

from foretrace.tracer.analysis.loops import LoopForest
from foretrace.tracer.isa.instruction_set import Isa
from foretrace.tracer.reader.raw_dependences import RawDependences, RawKind, examined_loop, nest_of
from foretrace.tracer.signature.data_flow_records import Dependence, ExaminedLoop
from foretrace.tracer.signature.records import Block
from foretrace.tracer.signature.tree_records import ExecutionTree

from .basic_blocks import BasicBlocks
from .carried import CarriedValues, Occurrence, Pair, Seen
from .value_graph import ValueGraph

_ALLOCATOR = re.compile(
    r"(__libc_|__GI_)*(malloc|free|cfree|calloc|realloc|reallocarray|memalign|aligned_alloc|posix_memalign|valloc|pvalloc)"
    r"|_int_(malloc|free|realloc|memalign)\w*|malloc_\w+|unlink_chunk\S*|sysmalloc\S*|systrim\S*|sysmalloc_mmap\S*"
    r"|tcache_\w+|_mid_memalign\S*|__default_morecore|_Zn[wa]m\w*|_Zd[la]Pv\w*|arena_get\S*|alloc_perturb|free_perturb"
    r"|operator (new|delete).*"
)
"""Functions of the C and C++ libraries' allocator: dependences through its internal state are ignored."""
_UNNAMED = re.compile(r"^$|\+0x[0-9a-f]+$")
"""Functions of a library without symbols; those that the allocator calls are taken for its own."""
_NONE = (1 << 32) - 1
_HOT_SHARE = 0.001
"""Least share of a program's instructions from which a loop seen in windows is judged."""
_LEAST_ITERATIONS = 2.5
"""Least mean iterations per entry of a loop in windows: only an iteration between two others is seen whole."""
_MOST_HOT = 100
"""Most loops seen in windows that are judged: computing the values of all may take longer than the program."""


class Found(msgspec.Struct, frozen=True):
    """Dependences of a recording's loops, and the loops that were examined."""

    dependences: tuple[Dependence, ...] = ()
    examined: tuple[ExaminedLoop, ...] = ()
    notes: tuple[str, ...] = ()


def find_dependences(
    raw: RawDependences,
    loop_nodes: Sequence[int],
    tree: ExecutionTree,
    basic: BasicBlocks,
    forest: LoopForest,
    isa: Isa,
    blocks: Sequence[Block],
    function_of: Sequence[int],
    fixed: Mapping[int, int],
    indirect: Iterable[int],
    values: ValueGraph,
    *,
    in_windows: bool = False,
    lines: Sequence[int] = (),
) -> Found:
    """Loop-carried dependences. `loop_nodes` are the tree's nodes of the rows of `raw.loops`, -1 for missing ones.

    `fixed` maps memory operations that touched one place only to its address; `indirect` are those of gathers and
    scatters. With `in_windows` only parts of the run were examined: then hot loops with consecutive iterations seen are
    judged, and `values` that do not look into calls suffice. `lines` has the line of each instruction.
    """
    if in_windows:
        loop_nodes = _hot(loop_nodes, tree, blocks)
    loader = frozenset(
        number for number, block in enumerate(blocks) if PurePosixPath(block.module).name.startswith(("ld-", "ld."))
    )
    if not in_windows:
        values = ValueGraph(basic, forest, isa, function_of, loader)
    own = _OwnState(blocks, basic, loader)
    seen = _empty_records(raw, loop_nodes, tree)
    if in_windows:
        seen = {node: one for node, one in seen.items() if _has_whole_iterations(one, tree)}
        loop_nodes = [node if node in seen else -1 for node in loop_nodes]
    updates: dict[Pair, int] = defaultdict(int)
    stores: dict[int, int] = defaultdict(int)
    members = {node: _Members(forest, int(tree.loop_id[node]), basic, function_of) for node in seen}
    loop_of_row = [int(node) for node in loop_nodes]
    parents = tree.parent.tolist()
    around = raw.loops[:, 6].tolist()
    new: list[tuple[list[int], int, int]] = []
    for kind, source, sink, loop, count, least, most, size_bytes in _rows(raw, basic.operation_map):
        if kind == RawKind.STORES:
            stores[sink] += count
            continue
        if kind == RawKind.WRITTEN:
            if sink not in own:
                new.append((nest_of(source, loop, around, loop_of_row, parents), sink, size_bytes))
            continue
        if source in own or sink in own:
            continue
        if kind == RawKind.UPDATE:
            updates[source, sink] += count
            continue
        node = loop_of_row[loop]
        if node < 0:
            continue
        pair = (source, sink)
        here = seen[node]
        table = {RawKind.FLOW: here.flow, RawKind.OUTPUT: here.output, RawKind.ANTI: here.anti}.get(RawKind(kind))
        if pair in members[node]:
            if table is None:
                here.within.add(pair)
            else:
                table.setdefault(pair, Occurrence()).add(count, least, most, size_bytes)
        if kind in (RawKind.FLOW, RawKind.FLOW_WITHIN):
            above = parents[node]
            while above >= 0:
                if above in seen and pair in members[above]:
                    seen[above].within.add(pair)
                above = parents[above]
    carried = CarriedValues(
        basic, forest, isa, function_of, values, updates, stores, fixed, frozenset(indirect),
        [block.function for block in blocks], lines,
    )  # fmt: skip
    by_loop: dict[int, list[Seen]] = defaultdict(list)
    for node, one in seen.items():
        by_loop[int(tree.loop_id[node])].append(one)
    dependences = [one for loop, contexts in by_loop.items() for one in carried.dependences(loop, contexts)]
    dependences.sort(key=lambda one: (one.node, -int(one.kind), -one.count, one.source, one.sink, one.where))
    notes = []
    if raw.share < 1:
        notes.append(f"dependences through memory: {raw.share:.1%} of the memory pages were followed")
    if len(tree.threads) > 1:
        notes.append(
            "dependences between threads were not followed: a loop that threads share is judged in each of them"
        )
    written = _written(new, seen, lambda store, node: carried.is_private(store, int(tree.loop_id[node])))
    examined = [
        examined_loop(node, one.iterations, written[node], carried.overwritten_bytes(int(tree.loop_id[node]), one))
        for node, one in sorted(seen.items())
    ]
    return Found(tuple(dependences), tuple(examined), tuple(notes))


def _hot(loop_nodes: Sequence[int], tree: ExecutionTree, blocks: Sequence[Block]) -> list[int]:
    """The nodes of hot loops, with a notable part of the program's instructions; -1 for all others."""
    lengths = np.array([block.instructions for block in blocks], np.float64)
    ran = np.bincount(tree.work_node, tree.work_executions * lengths[tree.work_block], len(tree)).astype(np.float64)
    for node in range(len(tree) - 1, 0, -1):
        if tree.parent[node] >= 0:
            ran[tree.parent[node]] += ran[node]
    nodes = sorted({int(node) for node in loop_nodes if node >= 0}, key=lambda node: -ran[node])
    least = _HOT_SHARE * float(ran[tree.parent < 0].sum())
    hot = {node for node in nodes[:_MOST_HOT] if ran[node] >= least}
    return [int(node) if node in hot else -1 for node in loop_nodes]


def _has_whole_iterations(one: Seen, tree: ExecutionTree) -> bool:
    """Whether iterations of a loop were seen one after the other, not mostly parts of two, which windows cut off."""
    of_entry = int(tree.iterations[one.node]) / max(int(tree.entries[one.node]), 1)
    return one.iterations > one.entries and one.iterations >= min(_LEAST_ITERATIONS, 0.9 * of_entry) * one.entries


def _rows(raw: RawDependences, operation_map: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Iterator[list[int]]:
    rows = raw.rows.astype(np.int64)
    for column in (1, 2):
        is_one = rows[:, column] != _NONE
        if column == 1:
            is_one &= rows[:, 0] != RawKind.WRITTEN  # it is a loop
        rows[is_one, column] = operation_map[rows[is_one, column]]
    yield from rows.tolist()


def _empty_records(raw: RawDependences, loop_nodes: Sequence[int], tree: ExecutionTree) -> dict[int, Seen]:
    """Empty records of each loop's dependences, with its iterations and entries."""
    seen: dict[int, Seen] = {}
    for node, (iterations, entries) in zip(loop_nodes, raw.loops[:, 4:6].tolist(), strict=True):
        if node < 0:
            continue
        one = seen.setdefault(node, Seen(node, 0, 0, {}, {}, {}, set()))
        one.iterations += iterations
        one.entries += entries
    return seen


def _written(
    rows: Iterable[tuple[Sequence[int], int, int]], seen: Mapping[int, Seen], is_private: Callable[[int, int], bool]
) -> dict[int, int]:
    """Bytes that each loop stores, once an iteration. `rows`: loops, store, bytes."""
    written = dict.fromkeys(seen, 0)
    for loops, store, size_bytes in rows:
        for node in loops:
            if node in seen and not is_private(store, node):
                written[node] += size_bytes
    return written


class _Members:
    """Whether operations are of a loop: in its blocks, or in another function, which it calls."""

    def __init__(self, forest: LoopForest, loop: int, basic: BasicBlocks, function_of: Sequence[int]) -> None:
        self._blocks = forest.loops[loop].blocks
        self._function = function_of[forest.loops[loop].header]
        self._block_of = basic.block_of
        self._instruction = basic.operation_instruction
        self._function_of = function_of

    def __contains__(self, pair: Pair) -> bool:
        for operation in pair:
            block = int(self._block_of[self._instruction[operation]])
            if block not in self._blocks and self._function_of[block] == self._function:
                return False
        return True


class _OwnState:
    """The memory operations of allocators and of the loader, which resolves calls."""

    def __init__(self, blocks: Sequence[Block], basic: BasicBlocks, loader: Iterable[int]) -> None:
        is_own = np.array([_ALLOCATOR.fullmatch(block.function) is not None for block in blocks], bool)
        successors: dict[int, list[int]] = defaultdict(list)
        for source, target, _ in basic.edges.tolist():
            if blocks[target].module == blocks[source].module and _UNNAMED.search(blocks[target].function):
                successors[source].append(target)
        pending = np.flatnonzero(is_own).tolist()
        while pending:
            for target in successors[pending.pop()]:
                if not is_own[target]:
                    is_own[target] = True
                    pending.append(target)
        is_own[list(loader)] = True
        self._of_operation: list[bool] = is_own[basic.block_of[basic.operation_instruction]].tolist()

    def __contains__(self, operation: int) -> bool:
        return 0 <= operation < len(self._of_operation) and self._of_operation[operation]
