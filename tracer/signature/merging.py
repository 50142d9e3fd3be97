"""Several signatures as one: of processes, ranks or runs of the same program.

Records are the same if all that tells them apart is (`Scale.NAME`), and what they are a part of is the same. So blocks
are joined by module and offset, Python's also by file, function and line, and loops by their first block. Numbers are
combined as they scale (`schema.Scale`). Trees, data flows and events stand side by side: the threads of each signature
stay threads of their own.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from foretrace.cache_sim.base.results import MemoryEvents, SimulatedHierarchy
from foretrace.cache_sim.reuse.results import ReuseHistograms

from .data_flow_records import DataFlow
from .event_records import Events
from .records import (
    NO_PATHS,
    ArrayTime,
    Block,
    Idiom,
    Instruction,
    InterpreterTime,
    LibraryCall,
    LinearAlgebra,
    Loop,
    MemoryOperation,
    Paths,
    Provenance,
    Signature,
)
from .schema import Column, Ints, Scale, columns_of
from .tree_records import ExecutionTree

_COMBINED: dict[Scale, Callable[[Any, Any], Any]] = {
    Scale.COUNT: operator.add, Scale.LOWEST: min, Scale.HIGHEST: max, Scale.FLAG: operator.or_,
}  # fmt: skip
_Part = TypeVar("_Part")
_Record = TypeVar("_Record")


def merged(signatures: Sequence[Signature], provenance: Provenance) -> Signature:
    """The signatures as one, with a provenance that says what it is of.

    The processes of each signature are numbered behind those of the ones before. Of a memory operation, whose
    addresses in several processes have nothing in common, the longest range is kept. A tree, a data flow or reuse
    histograms that any signature with blocks lacks are left out.

    Raises:
        ValueError: different hierarchies were simulated.
    """
    given = [one for one in signatures if one.blocks] or list(signatures[:1])
    if any([h.hierarchy for h in one.hierarchies] != [h.hierarchy for h in given[0].hierarchies] for one in given):
        raise ValueError("the signatures to merge have different simulated hierarchies")
    join = _Join(len(given))
    # Where machine code lies says what it is; library code has the place of the call, which may differ.
    place = () if given[0].provenance.guest == "python" else ("function", "file", "line", "caller", "frames")
    blocks = join.records(Block, "blocks", [one.blocks for one in given], apart=place)
    operations = join.records(
        MemoryOperation,
        "memory_operations",
        [one.operations for one in given],
        apart=("first", "last_exclusive", *place),
    )
    loops = join.records(Loop, "loops", [one.loops for one in given], apart=("calls", "order", *place))
    idioms = join.records(
        Idiom, "idioms", [one.idioms for one in given], of_operations=("operations", "index_operations")
    )
    weights = [[block.executions for block in one.blocks] for one in given]
    times = [
        join.records(record, "", [getattr(one, name) for one in given], weights=weights, by_owner=True)
        for record, name in ((InterpreterTime, "interpreter_times"), (ArrayTime, "array_times"))
    ]
    linear = join.records(LinearAlgebra, "", [one.linear_algebra for one in given])
    of_blocks, of_operations, of_loops = (
        [np.array(maps[name], np.int64) for maps in join.maps] for name in ("blocks", "memory_operations", "loops")
    )
    made_operations = _with_ranges(join.made(MemoryOperation, operations), given, of_operations)
    trees = _known([one.tree for one in given])
    nodes = _offsets([len(tree) for tree in trees or ()])
    operation_offsets = _offsets([len(one.operations) for one in given])
    mapping = np.concatenate(of_operations)
    reuse = joined_reuse([one.reuse for one in given], operation_offsets)
    return Signature(
        provenance=provenance,
        blocks=join.made(Block, blocks),
        operations=made_operations,
        loops=_with_calls(join.made(Loop, loops), given, of_loops),
        idioms=join.made(Idiom, idioms),
        edges=_edges(given, of_blocks),
        hierarchies=[
            joined_misses(of_one)
            .merged(mapping, len(operations))
            .merged_blocks(np.concatenate(of_blocks), len(blocks))
            for of_one in zip(*(one.hierarchies for one in given), strict=True)
        ],
        reuse=None if reuse is None else reuse.merged(mapping, len(operations)),
        paths=_paths(given, of_blocks, of_operations, made_operations),
        interpreter_times=join.made(InterpreterTime, times[0]),
        array_times=join.made(ArrayTime, times[1]),
        linear_algebra=join.made(LinearAlgebra, linear),
        tree=None if trees is None else _tree(trees, given, of_blocks, of_loops),
        data_flow=None if trees is None else _flow(given, nodes),
        dependences=() if trees is None else tuple(
            replace(
                one, node=one.node + nodes[i], source=_mapped_one(one.source, of_operations[i]),
                sink=_mapped_one(one.sink, of_operations[i]),
            )
            for i, it in enumerate(given) for one in it.dependences
        ),
        examined_loops=() if trees is None else tuple(
            replace(one, node=one.node + nodes[i]) for i, it in enumerate(given) for one in it.examined_loops
        ),
        events=_events(given, nodes),
    )  # fmt: skip


@dataclass(slots=True)
class _Row:
    """The values of a merged record by field; of references with the position of the signature that they are in."""

    values: dict[str, Any]
    weight: float


class _Join:
    """The numbers of merged records, by table, for each signature: `maps[signature][table][number]`."""

    def __init__(self, num_signatures: int) -> None:
        self.maps: list[dict[str, list[int]]] = [{} for _ in range(num_signatures)]

    def records(
        self,
        record: type,
        table: str,
        parts: Sequence[Sequence[Any]],
        *,
        apart: Sequence[str] = (),
        of_operations: Sequence[str] = (),
        weights: Sequence[Sequence[int]] = (),
        by_owner: bool = False,
    ) -> list[_Row]:
        """Merge the records of each signature.

        Args:
            record: their type.
            table: where they are numbered, if they are referred to.
            parts: of each signature.
            apart: fields that are merged elsewhere; those of the first are kept.
            of_operations: fields with numbers of memory operations.
            weights: for means, of each signature by the number of the owner.
            by_owner: an owner has one record at most, whatever else differs.
        """
        columns = columns_of(record)
        rows: list[_Row] = []
        numbers: dict[Hashable, int] = {}
        for position, (records, maps) in enumerate(zip(parts, self.maps, strict=True)):
            seen: Counter[Hashable] = Counter()
            found = []
            for one in records:
                values = {name: self._value(column, getattr(one, name), position) for name, column in columns.items()}
                for name in of_operations:
                    values[name] = tuple(maps["memory_operations"][number] for number in values[name])
                scales = (Scale.OWNER,) if by_owner else (Scale.OWNER, Scale.NAME)
                key = tuple(
                    values[name] for name, column in columns.items() if column.scale in scales and name not in apart
                )
                number = numbers.setdefault((key, seen[key]), len(rows))
                seen[key] += 1
                found.append(number)
                weight = weights[position][next(iter(msgspec.structs.astuple(one)))] if weights else 0
                if number == len(rows):
                    rows.append(_Row(values, weight))
                else:
                    _combine(rows[number], values, weight, columns, apart)
            if table:
                maps[table] = found
        return rows

    def _value(self, column: Column, value: Any, position: int) -> Any:
        if column.scale is Scale.OWNER:
            return self.maps[position][column.of][value]
        return (position, value) if column.scale is Scale.REFERENCE and value is not None else value

    def made(self, record: Callable[..., _Record], rows: Sequence[_Row]) -> tuple[_Record, ...]:
        """The merged records, once all that they refer to is merged."""
        columns = columns_of(record)  # type: ignore[arg-type]
        found = []
        for number, row in enumerate(rows):
            for name, column in columns.items():
                if column.scale is Scale.IDENTITY:
                    row.values[name] = number
                elif column.scale is Scale.REFERENCE and row.values[name] is not None:
                    position, value = row.values[name]
                    row.values[name] = self.maps[position][column.of][value]
            found.append(record(**row.values))
        return tuple(found)


def _combine(
    row: _Row, values: Mapping[str, Any], weight: float, columns: Mapping[str, Column], apart: Sequence[str]
) -> None:
    """Add the values of another record to those of a merged one."""
    total = row.weight + weight
    for name, column in columns.items():
        before, now = row.values[name], values[name]
        if before is None:
            row.values[name] = now
        elif column.scale is Scale.MEAN:
            row.values[name] = (before * row.weight + now * weight) / total if total else before
        elif column.scale in _COMBINED and now is not None and name not in apart:
            row.values[name] = _COMBINED[column.scale](before, now)
    row.weight = total


def _known(parts: Iterable[_Part | None]) -> list[_Part] | None:
    """The parts, if none is missing."""
    found = list(parts)
    known = [part for part in found if part is not None]
    return known if len(known) == len(found) else None


def _offsets(lengths: Sequence[int]) -> list[int]:
    return list(accumulate(lengths, initial=0))[:-1] if lengths else []


def _with_ranges(
    operations: Sequence[MemoryOperation], given: Sequence[Signature], maps: Sequence[Ints]
) -> tuple[MemoryOperation, ...]:
    """Memory operations with the longest of their ranges of addresses; of equal ones the lowest."""
    best: dict[int, tuple[int, int]] = {}
    for one, numbers in zip(given, maps, strict=True):
        for operation, number in zip(one.operations, numbers.tolist(), strict=True):
            rank = (-operation.range_bytes, operation.first)
            best[number] = min(best.get(number, rank), rank)
    return tuple(
        msgspec.structs.replace(one, first=best[i][1], last_exclusive=best[i][1] - best[i][0])
        for i, one in enumerate(operations)
    )


def _with_calls(loops: Sequence[Loop], given: Sequence[Signature], maps: Sequence[Ints]) -> tuple[Loop, ...]:
    """Loops with the calls that they ran for, shares weighted by iterations, and in the order in which they first ran:
    those of a signature behind those of the ones before."""
    shares: dict[int, Counter[LibraryCall]] = {}
    weights: Counter[int] = Counter()
    ranks: dict[int, tuple[int, int]] = {}
    for position, (one, numbers) in enumerate(zip(given, maps, strict=True)):
        for loop, number in zip(one.loops, numbers.tolist(), strict=True):
            ranks.setdefault(number, (position, loop.order))
            weight = max(loop.iterations, 1)
            weights[number] += weight
            for call in loop.calls:
                plain = msgspec.structs.replace(call, share=0.0)
                shares.setdefault(number, Counter())[plain] += call.share * weight  # type: ignore[assignment]
    order = {number: rank for rank, number in enumerate(sorted(ranks, key=ranks.__getitem__))}
    return tuple(
        msgspec.structs.replace(
            loop,
            order=order[i],
            calls=tuple(
                msgspec.structs.replace(call, share=share / weights[i]) for call, share in shares[i].most_common()
            ) if i in shares else (),
        )
        for i, loop in enumerate(loops)
    )  # fmt: skip


def _edges(given: Sequence[Signature], of_blocks: Sequence[Ints]) -> npt.NDArray[np.uint64]:
    counts: Counter[tuple[int, int]] = Counter()
    for one, numbers in zip(given, of_blocks, strict=True):
        ends = numbers[one.edges[:, :2].astype(np.int64)].tolist()
        for (source, destination), count in zip(ends, one.edges[:, 2].tolist(), strict=True):
            counts[source, destination] += count
    return np.array([(*ends, count) for ends, count in counts.items()], np.uint64).reshape(-1, 3)


def joined_misses(parts: Sequence[SimulatedHierarchy]) -> SimulatedHierarchy:
    """The simulations of several processes, the operations and blocks of one behind those of the other."""
    events = [part.events for part in parts if part.events is not None]
    return SimulatedHierarchy(
        parts[0].hierarchy,
        np.concatenate([part.misses for part in parts]),
        None
        if not events
        else MemoryEvents(
            events[0].parts,
            np.concatenate([part.by_operation for part in events]),
            np.concatenate([part.by_block for part in events]),
        ),
    )


def joined_reuse(parts: Sequence[ReuseHistograms | None], offsets: Sequence[int]) -> ReuseHistograms | None:
    """Histograms of several processes whose operations are numbered from `offsets`, if all have some.

    `sampling_rate` is the lowest of theirs.
    """
    known = _known(parts)
    if known is None:
        return None
    summed = ("accesses", "bursts", "burst_accesses", "sampled_blocks")
    totals: dict[str, Any] = {name: sum(getattr(part, name) for part in known) for name in summed}
    for name in ("line_bytes", "way", "bin", "count"):
        totals[name] = np.concatenate([getattr(part, name) for part in known])
    numbered = [part.operation + np.uint32(offset) for part, offset in zip(known, offsets, strict=True)]
    return replace(
        known[0],
        **totals,
        sampling_rate=min(part.sampling_rate for part in known),
        operation=np.concatenate(numbered),
        errors=np.sqrt(sum(part.errors**2 for part in known)),  # of sums of independent samples
    )


def _paths(
    given: Sequence[Signature],
    of_blocks: Sequence[Ints],
    of_operations: Sequence[Ints],
    operations: Sequence[MemoryOperation],
) -> Paths:
    """All paths; a block's memory operations are those that it has in any signature."""
    known = [
        (one.paths, one, blocks, numbers) for one, blocks, numbers in zip(given, of_blocks, of_operations, strict=True)
    ]
    if not any(len(paths.blocks) for paths, *_ in known):
        return NO_PATHS
    owner = np.array([operation.block_id for operation in operations], np.int64)
    num_blocks = 1 + max(int(blocks.max(initial=0)) for blocks in of_blocks)
    per_block = np.bincount(owner, minlength=num_blocks)
    ordered = np.argsort(owner, kind="stable")
    slot = np.empty(len(owner), np.int64)  # of each operation in its block
    slot[ordered] = np.arange(len(owner)) - np.repeat(np.cumsum(per_block) - per_block, per_block)
    starts, num_executed = [np.zeros(1, np.int64)], 0
    blocks_of_all: list[npt.NDArray[np.uint32]] = []
    distances: tuple[list[npt.NDArray[np.uint16]], ...] = ([], [])
    instructions: dict[int, tuple[Instruction, ...]] = {}
    for paths, one, blocks, numbers in known:
        executed = blocks[paths.blocks.astype(np.int64)]
        own = np.array([operation.block_id for operation in one.operations], np.int64)
        order, counts = np.argsort(own, kind="stable"), np.bincount(own, minlength=len(one.blocks))
        firsts, lengths = (np.cumsum(counts) - counts)[paths.blocks], counts[paths.blocks]
        execution = np.repeat(np.arange(len(executed)), lengths)
        within = np.arange(len(execution)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        accessed = numbers[order[firsts[execution] + within]]
        begins = np.cumsum(per_block[executed]) - per_block[executed]
        for column, values in zip(distances, (paths.store_distances, paths.line_distances), strict=True):
            spread = np.zeros(int(per_block[executed].sum()), np.uint16)
            spread[begins[execution] + slot[accessed]] = values
            column.append(spread)
        starts.append(paths.starts[1:] + num_executed)
        num_executed += len(executed)
        blocks_of_all.append(executed.astype(np.uint32))
        for block, its_own in paths.instructions.items():
            instructions.setdefault(
                int(blocks[block]), tuple(_renumbered(instruction, numbers) for instruction in its_own)
            )
    stores, lines = map(np.concatenate, distances)
    return Paths(
        np.concatenate(starts), np.concatenate(blocks_of_all), stores, lines, dict(sorted(instructions.items()))
    )


def _renumbered(instruction: Instruction, numbers: Ints) -> Instruction:
    ends = ("load_operation", "store_operation")
    own = {end: getattr(instruction, end) for end in ends}
    return msgspec.structs.replace(
        instruction, **{end: None if number is None else int(numbers[number]) for end, number in own.items()}
    )


def _moved(column: npt.NDArray[Any], offset: int) -> npt.NDArray[Any]:
    """Numbers behind an offset; -1 is none."""
    return np.where(column < 0, column, column + offset)


def _mapped(column: Ints, numbers: Ints) -> Ints:
    """Numbers of merged records; -1 is none."""
    return np.append(numbers, -1)[column]


def _mapped_one(number: int, numbers: Ints) -> int:
    return int(numbers[number]) if number >= 0 else -1


def _process_offsets(given: Sequence[Signature]) -> list[int]:
    return _offsets([1 + max((one.number for one in it.provenance.processes), default=0) for it in given])


def _tree(
    trees: Sequence[ExecutionTree], given: Sequence[Signature], of_blocks: Sequence[Ints], of_loops: Sequence[Ints]
) -> ExecutionTree:
    """The trees side by side."""
    nodes, threads = _offsets([len(tree) for tree in trees]), _offsets([len(tree.threads) for tree in trees])
    columns: dict[str, list[Any]] = {}
    found_threads, waits = [], []
    parts = zip(trees, nodes, threads, _process_offsets(given), of_blocks, of_loops, strict=True)
    for tree, node, thread, process, blocks, loops in parts:
        for name, column in columns_of(ExecutionTree).items():
            if column.array is not None:
                values = getattr(tree, name)
                moved = {"tree_nodes": lambda v, n=node: _moved(v, n), "loops": lambda v, m=loops: _mapped(v, m),
                         "blocks": lambda v, m=blocks: _mapped(v, m)}.get(column.of, lambda v: v)  # fmt: skip
                columns.setdefault(name, []).append(moved(values))
        for one in tree.threads:
            parent = one.parent + thread if one.parent >= 0 else -1
            found_threads.append(replace(
                one, number=one.number + thread, process=one.process + process, root=one.root + node, parent=parent
            ))  # fmt: skip
        for edge in tree.synchronisation:
            ends = {end: getattr(edge, end) for end in ("source_node", "target_node")}
            waits.append(replace(
                edge, source=edge.source + thread, target=edge.target + thread,
                **{end: number + node if number >= 0 else -1 for end, number in ends.items()},
            ))  # fmt: skip
    joined = {name: np.concatenate(of_all) for name, of_all in columns.items()}
    by_block = np.lexsort((joined["work_block"], joined["work_node"]))
    joined |= {name: joined[name][by_block] for name in ("work_node", "work_block", "work_executions")}
    return ExecutionTree(
        **joined,
        keys=tuple(key for tree in trees for key in tree.keys),
        threads=tuple(found_threads),
        synchronisation=tuple(waits),
        merged_contexts=sum(tree.merged_contexts for tree in trees),
        notes=tuple(dict.fromkeys(note for tree in trees for note in tree.notes)),
    )


def _flow(given: Sequence[Signature], nodes: Sequence[int]) -> DataFlow | None:
    """The data flows side by side, with one empty set."""
    flows = _known([one.data_flow for one in given])
    if flows is None:
        return None
    sets = _offsets([len(flow.set_starts) - 2 for flow in flows])
    offsets = {
        "tree_nodes": nodes,
        "memory_objects": _offsets([len(flow.objects) for flow in flows]),
        "allocations": _offsets([len(flow.allocations) for flow in flows]),
    }
    columns: dict[str, list[Any]] = {}
    is_placed = any(len(flow.node_place) for flow in flows)
    for i, flow in enumerate(flows):
        place = flow.node_place if len(flow.node_place) or not is_placed else np.arange(len(given[i].tree or ()))
        for name, column in columns_of(DataFlow).items():
            if column.array is not None and name != "set_starts":
                values = place if name == "node_place" else getattr(flow, name)
                if name in ("flow_readers", "touched_by"):
                    values = np.where(values > 0, values + sets[i], 0)
                elif column.of:
                    values = _moved(values, offsets[column.of][i])
                columns.setdefault(name, []).append(values[1:] if name == "set_has_system" and i else values)
    lengths = [np.diff(flow.set_starts)[bool(i) :] for i, flow in enumerate(flows)]
    total = sum(flow.flow_bytes.sum() for flow in flows)
    errors = [flow.relative_error * flow.flow_bytes.sum() for flow in flows]
    return DataFlow(
        **{name: np.concatenate(of_all) for name, of_all in columns.items()},
        set_starts=np.concatenate(([0], np.cumsum(np.concatenate(lengths)))),
        objects=tuple(
            replace(one, allocation=one.allocation + offset if one.allocation >= 0 else -1)
            for flow, offset in zip(flows, offsets["allocations"], strict=True) for one in flow.objects
        ),
        allocations=tuple(one for flow in flows for one in flow.allocations),
        sampled_share=min(flow.sampled_share for flow in flows),
        relative_error=float(np.hypot.reduce(errors) / total) if total else 0.0,
        merged_bytes=sum(flow.merged_bytes for flow in flows),
    )  # fmt: skip


def _events(given: Sequence[Signature], nodes: Sequence[int]) -> Events:
    firsts = _offsets([len(one.events.events) for one in given])
    parts = list(zip(given, _process_offsets(given), firsts, nodes or [0] * len(given), strict=True))
    return Events(
        tuple(replace(event, process=event.process + number) for it, number, *_ in parts for event in it.events.events),
        tuple(
            replace(one, process=one.process + process, events=one.events + first, nodes=one.nodes + node)
            for it, process, first, node in parts if nodes for one in it.events.samples
        ),
        sum(one.events.lost_bytes for one in given),
    )  # fmt: skip
