"""Several Python processes' traces as one: the same code of the same file is the same, whichever process ran it.

Forked processes share the numbers of code objects that existed before, others share none. Code objects are the same if
they are the n-th of their file, name and first line in each process. Blocks, array operations and accesses follow from
that, and their counts and times are summed.

Each process has addresses of its own. A function's ranges of addresses are those of the process that made most accesses
in it: ranges of several address spaces have nothing in common.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from foretrace.cache_sim.base.results import OperationStatistics
from foretrace.tracer.reader.raw_flow import RawFlow, with_sites
from foretrace.tracer.reader.raw_trace import (
    RawArrayOperation,
    RawPythonBlock,
    RawTrace,
)
from foretrace.tracer.reader.raw_tree import FAR, RawTree
from foretrace.tracer.recording.recording import Recording
from foretrace.tracer.signature.merging import joined_misses, joined_reuse

from .combination import bursts_of, flow_of, samples_of, statistics_of, tree_of

Ints = npt.NDArray[np.int64]
_Row = TypeVar("_Row", bound=msgspec.Struct)

_TIMES = ("executions", "timed", "timed_rounds", "long_rounds", "array_rounds")
_COUNTS = ("executions", "points", "rounds", "faults", "kept_calls")
"""Counts of array operations."""
_BLOCK_COLUMNS = {
    "nodes": (1, 2),
    "counts": (1,),
    "loops": (1,),
    "histograms": (1,),
    "stretches": (1,),
    "places": (1,),
    "edges": (3, 6),
}
"""Columns of blocks in the tables of a tree."""
_CALLS = ("calls", "bytes", "one_pass_calls", "one_pass_bytes")


@dataclass(slots=True)
class _Numbers:
    """Numbers from `first` on, by key in order of first use."""

    first: int
    of: dict[Hashable, int] = field(default_factory=dict)

    def number(self, key: Hashable) -> int:
        return self.of.setdefault(key, self.first + len(self.of))


class _Unified:
    """Code objects, blocks, array operations and memory operations that stand for those of all processes."""

    def __init__(self, raws: Sequence[RawTrace]) -> None:
        self._codes, self._blocks, self._arrays, self._operations = (_Numbers(first) for first in (1, 1, 1, 0))
        self.blocks: dict[int, RawPythonBlock] = {}
        self.arrays: dict[int, RawArrayOperation] = {}
        self.block_maps: list[dict[int, int]] = []
        array_maps: list[dict[int, int]] = []
        self.operation_rows: list[tuple[int, int, int]] = []
        self.operation_map: list[int] = []
        self.operation_code: list[int] = []
        self.operation_process: list[int] = []
        for process, raw in enumerate(raws):
            self.block_maps.append(self._add_blocks(raw))
            array_maps.append(self._add_arrays(raw, self.block_maps[-1]))
            self._add_operations(raw, process, array_maps[-1])

    def _add_blocks(self, raw: RawTrace) -> dict[int, int]:
        first_of: dict[int, RawPythonBlock] = {}
        for block in raw.python_blocks:
            first_of.setdefault(block.code_id, block)
        seen: Counter[Hashable] = Counter()
        codes: dict[int, int] = {}
        for code_id in sorted(first_of):
            one = first_of[code_id]
            place = (one.file, one.function, one.first_line)
            codes[code_id] = self._codes.number((*place, seen[place]))
            seen[place] += 1
        numbers = {}
        for block in raw.python_blocks:
            code = codes[block.code_id]
            number = self._blocks.number((code, block.offset_bytes, block.instructions, block.line))
            numbers[block.block_id] = number
            before = self.blocks.get(number)
            sums = {name: getattr(block, name) + (getattr(before, name) if before else 0) for name in _TIMES}
            self.blocks[number] = msgspec.structs.replace(block, block_id=number, code_id=code, **sums)
        return numbers

    def _add_arrays(self, raw: RawTrace, blocks: dict[int, int]) -> dict[int, int]:
        numbers = {0: 0}
        for array in raw.array_operations:
            moved = msgspec.structs.replace(array, block_id=blocks.get(array.block_id, 0))
            plain = msgspec.structs.replace(moved, array_operation_id=0, **dict.fromkeys(_COUNTS, 0))
            number = self._arrays.number(msgspec.structs.astuple(plain))
            numbers[array.array_operation_id] = number
            before = self.arrays.get(number)
            self.arrays[number] = msgspec.structs.replace(
                moved,
                array_operation_id=number,
                **{name: getattr(array, name) + (getattr(before, name) if before else 0) for name in _COUNTS},
            )
        return numbers

    def _add_operations(self, raw: RawTrace, process: int, arrays: dict[int, int]) -> None:
        blocks = self.block_maps[process]
        rows = zip(raw.operation_block.tolist(), raw.operation_slot.tolist(), raw.operation_array.tolist(), strict=True)
        for block, slot, array in rows:
            row = blocks.get(block, 0), slot, arrays.get(array, 0)
            number = self._operations.number(row)
            if number == len(self.operation_rows):
                self.operation_rows.append(row)
            self.operation_map.append(number)
            known = self.blocks.get(row[0])
            self.operation_code.append(known.code_id if known else 0)
            self.operation_process.append(process)


def combine_python(recordings: Sequence[Recording], parents: Sequence[int], numbers: Sequence[int]) -> Recording:
    """The recordings as one, of processes with these numbers that those at positions `parents` created.

    Each process has simulated caches of its own: misses, like all counts, are summed.
    """
    raws = [each.raw for each in recordings]
    unified = _Unified(raws)
    rows = np.array(unified.operation_rows, np.uint32).reshape(-1, 3)
    mapping = np.array(unified.operation_map, np.int64)
    longest = np.zeros(len(rows), np.uint64)
    np.maximum.at(longest, mapping, np.concatenate([raw.operation_longest_range for raw in raws]))
    moved = [_moved(raw, ids) for raw, ids in zip(raws, unified.block_maps, strict=True)]
    offsets = np.cumsum([0, *(each.statistics.num_operations for each in recordings)])[:-1].tolist()
    reuse = joined_reuse([each.reuse for each in recordings], offsets)
    bursts = bursts_of([each.bursts for each in recordings])
    trees = (
        None if any(raw.tree is None for raw in raws) else [_near(raws, moved, n, numbers) for n in range(len(raws))]
    )
    with_trees = moved if trees is None else [replace(one, tree=tree) for one, tree in zip(moved, trees, strict=True)]
    raw = replace(
        raws[0],
        python_blocks=tuple(unified.blocks.values()),
        array_operations=tuple(unified.arrays.values()),
        operation_block=rows[:, 0].copy(),
        operation_slot=rows[:, 1].copy(),
        operation_array=rows[:, 2].copy(),
        operation_longest_range=longest,
        edges=np.concatenate([one.edges for one in moved]),
        unseen=_summed((row for one in moved for row in one.unseen), _CALLS),
        linear=_summed((row for one in moved for row in one.linear), ("calls",)),
        compiled=_summed((row for one in moved for row in one.compiled), ("rounds",)),
        native_threads_rounds=sum(one.native_threads_rounds for one in raws),
        tree=tree_of(with_trees, parents),
        flow=_flow(moved, offsets, mapping),
        event_samples=samples_of(moved, [0] * len(moved)),
    )
    statistics = statistics_of([each.statistics for each in recordings])
    return replace(
        recordings[0],
        raw=raw,
        statistics=_ranged(statistics, mapping, len(rows), unified.operation_code, unified.operation_process),
        simulated=[
            joined_misses(of_one).merged(mapping, len(rows))
            for of_one in zip(*(each.simulated for each in recordings), strict=True)
        ],
        reuse=None if reuse is None else reuse.merged(mapping, len(rows)),
        bursts=None if bursts is None else bursts.merged(mapping, len(rows)),
    )


def _ranged(
    statistics: OperationStatistics, mapping: Ints, num_operations: int, code: Sequence[int], process: Sequence[int]
) -> OperationStatistics:
    """Statistics summed over processes, with the ranges of one process for each function."""
    merged = statistics.merged(mapping, num_operations)
    made = statistics.executions.tolist()
    accesses: dict[int, Counter[int]] = defaultdict(Counter)
    for row, count in enumerate(made):
        accesses[code[row]][process[row]] += count
    chosen = {one: counts.most_common(1)[0][0] for one, counts in accesses.items()}
    first, last = merged.first.copy(), merged.last_exclusive.copy()
    is_known = np.zeros(num_operations, np.bool_)
    order = sorted((row for row, count in enumerate(made) if count), key=lambda row: process[row] != chosen[code[row]])
    for row in order:
        number = int(mapping[row])
        if not is_known[number]:
            is_known[number] = True
            first[number], last[number] = statistics.first[row], statistics.last_exclusive[row]
    return replace(merged, first=first, last_exclusive=last)


def _moved(raw: RawTrace, ids: dict[int, int]) -> RawTrace:
    """A trace whose rows name the blocks that stand for its own."""
    number = np.zeros(max(ids, default=0) + 1, np.uint64)
    for own, unified in ids.items():
        number[own] = unified
    edges = raw.edges.copy()
    edges[:, :2] = number[edges[:, :2].astype(np.int64)]

    def of_block(row: _Row) -> _Row:
        return msgspec.structs.replace(row, block_id=ids.get(row.block_id, 0))  # type: ignore[attr-defined]

    def renumbered(blocks: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        return number[blocks.astype(np.int64)]

    return replace(
        raw,
        edges=edges,
        unseen=tuple(map(of_block, raw.unseen)),
        linear=tuple(map(of_block, raw.linear)),
        compiled=tuple(map(of_block, raw.compiled)),
        tree=None if raw.tree is None else _tree_moved(raw.tree, renumbered),
        flow=None if raw.flow is None else with_sites(raw.flow, lambda site: _site(site, ids)),
        event_samples=tuple(samples.with_blocks(renumbered) for samples in raw.event_samples),
    )


def _site(site: int, ids: dict[int, int]) -> int:
    """Combined site of an array's allocation: its block, and the rest (struct ft_side_object of
    tracer/transport/stream.h)."""
    return ids.get(site >> 32, 0) << 32 | site & 0xFFFFFFFF


def _tree_moved(tree: RawTree, number: Callable[[npt.NDArray[np.uint64]], npt.NDArray[np.uint64]]) -> RawTree:
    changed: dict[str, Any] = {}
    for name, columns in _BLOCK_COLUMNS.items():
        table = getattr(tree, name).copy()
        for column in columns:
            near = table[:, 2] != FAR if name == "edges" and column == 3 else np.ones(len(table), np.bool_)
            table[near, column] = number(table[near, column])
        changed[name] = table
    return replace(tree, **changed)


def _near(raws: Sequence[RawTrace], moved: Sequence[RawTrace], process: int, numbers: Sequence[int]) -> RawTree:
    """A process's tree, of whose edges those that come from other processes are left out: see `RawTree.far`."""
    tree = moved[process].tree
    assert tree is not None, "checked by the caller"
    is_far = tree.edges[:, 2] == FAR
    rows = [
        found for edge in tree.edges[is_far].tolist() if (found := _source_of(edge, raws, moved, numbers)) is not None
    ]
    return replace(tree, edges=tree.edges[~is_far], far=np.array(rows, np.uint64).reshape(-1, 9))


def _source_of(
    edge: list[int], raws: Sequence[RawTrace], moved: Sequence[RawTrace], numbers: Sequence[int]
) -> tuple[int, ...] | None:
    """Kind, process, thread, node and block that others waited for; thread, node and block that waited; count.

    The block is told, not the context that ran it: of several, the one that ran it most.
    """
    kind, source, _, block, *target = edge
    process, thread = source >> 14, source & 0x3FFF
    if process not in numbers:
        return None
    position = numbers.index(process)
    own, renumbered = raws[position].tree, moved[position].tree
    assert own is not None, "checked by the caller"
    assert renumbered is not None, "checked by the caller"
    places = np.flatnonzero(own.threads[:, 0] == thread)
    if not len(places):
        return None
    of_thread = own.nodes[:, 8] == thread
    rows = np.flatnonzero((own.counts[:, 1] == block) & of_thread[own.counts[:, 0].astype(np.int64)])
    place = int(places[0])
    if not block or not len(rows):
        return kind, position, place, int(own.threads[place, 1]), 0, *target
    best = int(rows[np.argmax(own.counts[rows, 2])])
    return kind, position, place, int(own.counts[best, 0]), int(renumbered.counts[best, 1]), *target


def _flow(raws: Sequence[RawTrace], offsets: Sequence[int], mapping: Ints) -> RawFlow | None:
    found = flow_of(raws, offsets)
    if found is None:
        return None
    operation, of_program = found.operation.copy(), found.node >= 0
    operation[of_program] = mapping[operation[of_program]]
    return replace(found, operation=operation)


def _summed(rows: Iterable[_Row], names: Sequence[str]) -> tuple[_Row, ...]:
    """Rows that differ in nothing but these counts, with the sums of them."""
    found: dict[Hashable, _Row] = {}
    for row in rows:
        key = msgspec.structs.astuple(msgspec.structs.replace(row, **dict.fromkeys(names, 0)))
        before = found.get(key)
        if before is not None:
            row = msgspec.structs.replace(row, **{name: getattr(row, name) + getattr(before, name) for name in names})
        found[key] = row
    return tuple(found.values())
