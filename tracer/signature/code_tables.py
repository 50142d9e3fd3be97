"""The tables of a program's code: blocks, memory operations, loops, idioms, edges, and times of Python's blocks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from . import schema
from .records import (
    AddressRange,
    ArrayTime,
    Block,
    Frame,
    Idiom,
    InterpreterTime,
    LibraryCall,
    LinearAlgebra,
    Loop,
    MemoryOperation,
    OperationCount,
    Signature,
    merge_ranges,
)
from .schema import StoredTables, Table, columns, columns_of, table_of, transposed, values_of


def _block_ranges(signature: Signature) -> Iterator[tuple[int, int, int]]:
    ranges = defaultdict(list)
    for operation in signature.operations:
        ranges[operation.block_id].append(AddressRange(operation.first, operation.last_exclusive))
    for block_id, block_ranges in ranges.items():
        for merged in merge_ranges(block_ranges):
            yield block_id, merged.first, merged.last_exclusive


def _idiom_operations(signature: Signature) -> Iterator[tuple[int, int, bool]]:
    for idiom in signature.idioms:
        for operation in idiom.operations:
            yield idiom.idiom_id, operation, False
        for operation in idiom.index_operations:
            yield idiom.idiom_id, operation, True


def _called_code(signature: Signature) -> Iterator[tuple[str, int, str]]:
    keys = () if signature.tree is None else signature.tree.keys
    yield from (("block", block.block_id, block.caller) for block in signature.blocks if block.caller)
    yield from (("node", node, key.caller) for node, key in enumerate(keys) if key.caller)


CODE_TABLES = (
    table_of("blocks", Block, skip=("operations", "caller")),
    Table(
        "block_operations",
        "Instructions of one kind in an execution of a block.",
        columns(block_id=schema.OfBlock) | columns_of(OperationCount),
        lambda s: transposed((block.block_id, *values_of(one)) for block in s.blocks for one in block.operations),
    ),
    Table(
        "block_ranges",
        "Bytes that a block's memory operations touched; follows from these.",
        columns(block_id=schema.OfBlock, first=schema.Lowest, last_exclusive=schema.Highest),
        lambda s: transposed(_block_ranges(s)),
    ),
    table_of("memory_operations", MemoryOperation, "operations"),
    table_of("loops", Loop, skip=("calls", "frames")),
    table_of("idioms", Idiom, skip=("operations", "index_operations")),
    Table(
        "idiom_operations",
        "A memory operation of an idiom; `is_index`: it loads an index.",
        columns(idiom_id=schema.OfIdiom, operation_id=schema.OperationId, is_index=bool),
        lambda s: transposed(_idiom_operations(s)),
    ),
    Table(
        "edges",
        "Control flow from one block to another.",
        columns(source_block_id=schema.BlockId, destination_block_id=schema.BlockId, count=schema.Count),
        lambda s: s.edges.T,
    ),
)
TIME_TABLES = (
    table_of("interpreter_times", InterpreterTime),
    table_of("array_times", ArrayTime, since=17),
    table_of("linear_algebra", LinearAlgebra, order="rowid"),
)
LIBRARY_TABLES = (
    Table(
        "called_code",
        "What has the place of a call by the program: a `block`, or a `node` of the execution tree.",
        columns(kind=str, id=int, caller=str),
        lambda s: transposed(_called_code(s)),
        since=16,
    ),
    Table(
        "library_calls",
        "A call for which a library's loop ran; by `rank`, most instructions first.",
        columns(loop_id=schema.OfLoop, rank=int) | columns_of(LibraryCall),
        lambda s: transposed((one.loop_id, i, *values_of(call)) for one in s.loops for i, call in enumerate(one.calls)),
        order="loop_id, rank",
        since=16,
    ),
    Table(
        "frames",
        "A function of the chain that was expanded in line at a loop; by `depth`, innermost first.",
        columns(loop_id=schema.OfLoop, depth=int) | columns_of(Frame),
        lambda s: transposed((one.loop_id, i, *values_of(at)) for one in s.loops for i, at in enumerate(one.frames)),
        order="loop_id, depth",
        since=16,
    ),
)


def read_code(stored: StoredTables) -> dict[str, Any]:
    """The fields of a `Signature` that hold its code, and the callers of the tree's nodes as `callers`.

    Raises:
        ValueError: the tables do not fit together.
    """
    mixes = stored.parts(OperationCount, "block_operations")
    calls, frames = stored.parts(LibraryCall, "library_calls"), stored.parts(Frame, "frames")
    callers = _read_callers(stored)
    loops = range(stored.count("loops"))
    members: dict[bool, dict[int, list[int]]] = {False: defaultdict(list), True: defaultdict(list)}
    for idiom, operation, is_index in zip(*stored.columns("idiom_operations").values(), strict=True):
        members[is_index][idiom].append(operation)
    idioms = range(stored.count("idioms"))
    found: dict[str, Any] = {
        "blocks": stored.records(
            Block,
            "blocks",
            operations=[mixes.get(block, ()) for block in range(stored.count("blocks"))],
            caller=[callers["block"].get(block, "") for block in range(stored.count("blocks"))],
        ),
        "operations": stored.records(MemoryOperation, "memory_operations"),
        "loops": stored.records(
            Loop, "loops", calls=[calls.get(one, ()) for one in loops], frames=[frames.get(one, ()) for one in loops]
        ),
        "idioms": stored.records(
            Idiom,
            "idioms",
            operations=[tuple(members[False][one]) for one in idioms],
            index_operations=[tuple(members[True][one]) for one in idioms],
        ),
        "edges": np.array(list(stored.columns("edges").values()), np.uint64).T.reshape(-1, 3),
        "interpreter_times": stored.records(InterpreterTime, "interpreter_times"),
        "array_times": stored.records(ArrayTime, "array_times"),
        "linear_algebra": stored.records(LinearAlgebra, "linear_algebra"),
    }
    _check_code(found["operations"], found["loops"])
    return found | {"callers": callers["node"]}


def _read_callers(stored: StoredTables) -> dict[str, dict[int, str]]:
    callers: dict[str, dict[int, str]] = {"block": {}, "node": {}}
    bounds = {"block": stored.count("blocks"), "node": stored.count("tree_nodes")}
    for kind, number, caller in zip(*stored.columns("called_code").values(), strict=True):
        if kind not in callers or number >= bounds[kind]:
            raise ValueError("called_code.id names no block or node of the execution tree")
        callers[kind][number] = caller
    return callers


def _check_code(operations: Sequence[MemoryOperation], loops: Sequence[Loop]) -> None:
    if any(operation.first > operation.last_exclusive for operation in operations):
        raise ValueError("memory_operations.first is above last_exclusive")
    if any(loop.parent_id is not None and loops[loop.parent_id].depth >= loop.depth for loop in loops):
        raise ValueError("loops.parent_id names a loop that is not around it")
