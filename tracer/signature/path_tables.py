"""The tables of the paths of a run, and of the instructions in them.

Registers are stored in one text, with spaces between them; a block's instructions as the numbers of their forms and of
their memory operations. The distances of a path are those of its blocks' memory operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from . import schema
from .instruction_table import NO_OPERATION, InstructionTable
from .packed_arrays import packed, unpacked
from .records import NO_PATHS, InstructionForm, MemoryOperation, Paths, Signature
from .schema import Column, Scale, StoredTables, Table, columns, columns_of, fields_of, summary, transposed

MAX_PATH_EXECUTIONS = 1 << 20
MAX_PATH_ACCESSES = 1 << 23
_BLOCK, _DISTANCE = "<u4", "<u2"
_NUMBER = "<i4"  # of a form or a memory operation
_FORM = columns_of(InstructionForm)


def _forms(signature: Signature) -> Iterator[Sequence[Any]]:
    forms = InstructionTable.of(signature.paths.instructions).forms
    yield range(len(forms))
    yield from fields_of(forms, _FORM)


def _instructions(signature: Signature) -> Iterator[tuple[Any, ...]]:
    table = InstructionTable.of(signature.paths.instructions)
    numbers = [column.astype(_NUMBER).tobytes() for column in (table.form, table.load, table.store)]
    bounds = (table.first * np.dtype(_NUMBER).itemsize).tolist()
    for block, begin, end in zip(table.blocks.tolist(), bounds[:-1], bounds[1:], strict=True):
        yield block, *(column[begin:end] for column in numbers)


def _paths(signature: Signature) -> Iterator[tuple[Any, ...]]:
    paths = signature.paths
    per_block = _operations_per_block(signature.operations, len(signature.blocks))
    accesses = np.cumsum([0, *per_block[paths.blocks].tolist()])
    for number, (begin, end) in enumerate(zip(paths.starts[:-1].tolist(), paths.starts[1:].tolist(), strict=True)):
        inside = slice(int(accesses[begin]), int(accesses[end]))
        blocks, stores, lines = paths.blocks[begin:end], paths.store_distances[inside], paths.line_distances[inside]
        yield number, end - begin, packed(blocks, _BLOCK), packed(stores, _DISTANCE), packed(lines, _DISTANCE)


PATH_TABLES = (
    Table("instruction_forms", summary(InstructionForm), columns(form_id=schema.Identity) | _FORM, _forms, order=""),
    Table(
        "instructions",
        "The instructions of a block in paths: numbers of forms and memory operations, -1 for none.",
        columns(block_id=schema.OfBlock, forms=bytes, load_operations=bytes, store_operations=bytes),
        lambda s: transposed(_instructions(s)),
        order="",
    ),
    Table(
        "paths",
        "A stretch of the run, in the order in which it went.",
        columns(
            path_id=schema.Identity,
            executions=Annotated[int, Column(Scale.COUNT, most=MAX_PATH_EXECUTIONS)],
            blocks=bytes,
            store_distances=bytes,
            line_distances=bytes,
        ),
        lambda s: transposed(_paths(s)),
        order="",
    ),
)


def read_paths(stored: StoredTables, operations: Sequence[MemoryOperation]) -> Paths:
    """The paths of a run with these memory operations.

    Raises:
        ValueError: the tables do not fit together.
    """
    instructions = _read_instructions(stored)
    _check_operations(instructions, operations)
    per_block = _operations_per_block(operations, stored.count("blocks"))
    starts = [0]
    arrays: list[list[npt.NDArray[Any]]] = [[], [], []]
    for _, executions, *blobs in zip(*stored.columns("paths").values(), strict=True):
        blocks = unpacked(blobs[0], _BLOCK, executions, "paths.blocks")
        if not np.all(np.isin(blocks, instructions.blocks)):
            raise ValueError("paths.blocks names a block without instructions")
        accesses = int(per_block[blocks].sum())
        if accesses > MAX_PATH_ACCESSES:
            raise ValueError("a path makes more accesses than it can")
        starts.append(starts[-1] + executions)
        distances = (unpacked(blob, _DISTANCE, accesses, "the distances of a path") for blob in blobs[1:])
        for column, array in zip(arrays, (blocks, *distances), strict=True):
            column.append(array)
    if len(starts) == 1:
        return NO_PATHS
    executed, stores, lines = (np.concatenate(column) for column in arrays)
    return Paths(np.array(starts, np.int64), executed, stores, lines, instructions)


def _operations_per_block(operations: Sequence[MemoryOperation], num_blocks: int) -> npt.NDArray[np.int64]:
    return np.bincount(np.array([op.block_id for op in operations], np.int64), minlength=num_blocks)


def _read_instructions(stored: StoredTables) -> InstructionTable:
    forms = stored.records(InstructionForm, "instruction_forms")
    blocks, *numbers = stored.columns("instructions").values()
    form, load, store = (np.frombuffer(b"".join(column), _NUMBER).astype(np.int64) for column in numbers)
    lengths = np.array([list(map(len, column)) for column in numbers], np.int64)
    if np.any(lengths == 0) or np.any(lengths % np.dtype(_NUMBER).itemsize) or np.any(lengths != lengths[0]):
        raise ValueError("the instructions of a block are cut off")
    if np.any(form < 0) or np.any(form >= len(forms)):
        raise ValueError("instructions.forms names a form that does not exist")
    first = np.cumsum([0, *(lengths[0] // np.dtype(_NUMBER).itemsize)], dtype=np.int64)
    return InstructionTable(forms, np.array(blocks, np.int64), first, form, load, store)


def _check_operations(table: InstructionTable, operations: Sequence[MemoryOperation]) -> None:
    """Refuse instructions with memory operations that are not their own."""
    block_of = np.repeat(table.blocks, np.diff(table.first))
    owner = np.array([operation.block_id for operation in operations], np.int64)
    stores = np.array([operation.is_store for operation in operations], bool)
    for column, is_store in ((table.load, False), (table.store, True)):
        has_one = column != NO_OPERATION
        numbers = column[has_one]
        known = np.all((numbers >= 0) & (numbers < len(operations)))
        if not known or np.any(owner[numbers] != block_of[has_one]) or np.any(stores[numbers] != is_store):
            raise ValueError("an instruction has a memory operation that is not its own")
