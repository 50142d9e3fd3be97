"""The paths of a signature on disk: forms of instructions as rows, and long arrays packed.

Registers are told in one text, with spaces between them; a block's instructions are packed as the numbers of their
forms and of their memory operations. Like the rest of a signature, all of it may come from anyone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from .instruction_table import NO_OPERATION, InstructionTable
from .packed_arrays import packed, unpacked
from .records import NO_PATHS, InstructionForm, MemoryOperation, Paths, Signature

MAX_PATH_EXECUTIONS = 1 << 20
MAX_PATH_ACCESSES = 1 << 23
_BLOCK, _DISTANCE = "<u4", "<u2"
_NUMBER = "<i4"  # of a form or a memory operation


def form_rows(table: InstructionTable) -> Iterator[tuple[Any, ...]]:
    """Rows of the table `instruction_forms`."""
    for number, one in enumerate(table.forms):
        registers = (" ".join(names) for names in (one.reads, one.addresses, one.writes))
        yield number, str(one.kind), one.element_bits, one.lanes, one.length_bytes, one.flow, *registers, one.scaled


def instruction_rows(table: InstructionTable) -> Iterator[tuple[Any, ...]]:
    """Rows of the table `instructions`."""
    columns = [column.astype(_NUMBER).tobytes() for column in (table.form, table.load, table.store)]
    bounds = (table.first * np.dtype(_NUMBER).itemsize).tolist()
    for block, begin, end in zip(table.blocks.tolist(), bounds[:-1], bounds[1:], strict=True):
        yield block, *(column[begin:end] for column in columns)


def path_rows(signature: Signature) -> Iterator[tuple[Any, ...]]:
    """Rows of the table `paths`."""
    paths = signature.paths
    per_block = _operations_per_block(signature.operations, len(signature.blocks))
    accesses = np.cumsum([0, *per_block[paths.blocks].tolist()])
    for number, (begin, end) in enumerate(zip(paths.starts[:-1].tolist(), paths.starts[1:].tolist(), strict=True)):
        inside = slice(int(accesses[begin]), int(accesses[end]))
        blocks, stores, lines = paths.blocks[begin:end], paths.store_distances[inside], paths.line_distances[inside]
        yield number, end - begin, packed(blocks, _BLOCK), packed(stores, _DISTANCE), packed(lines, _DISTANCE)


def read(database: sqlite3.Connection, operations: Sequence[MemoryOperation], num_blocks: int) -> Paths:
    """Read the tables.

    Raises:
        ValueError: they do not fit together, or the rest of the signature.
        msgspec.ValidationError: an instruction is impossible.
    """
    instructions = _read_instructions(database)
    _check_operations(instructions, operations)
    per_block = _operations_per_block(operations, num_blocks)
    starts = [0]
    columns: list[list[npt.NDArray[Any]]] = [[], [], []]
    for number, (path_id, executions, *blobs) in enumerate(database.execute("SELECT * FROM paths ORDER BY 1")):
        if path_id != number or not 0 <= executions <= MAX_PATH_EXECUTIONS:
            raise ValueError("a path has an impossible number or length")
        blocks = unpacked(blobs[0], _BLOCK, executions, "a path")
        if not np.all(np.isin(blocks, instructions.blocks)):
            raise ValueError("a path runs a block whose instructions are not told")
        accesses = int(per_block[blocks].sum())
        if accesses > MAX_PATH_ACCESSES:
            raise ValueError("a path makes more accesses than it can")
        starts.append(starts[-1] + executions)
        distances = (unpacked(blob, _DISTANCE, accesses, "a path") for blob in blobs[1:])
        for column, array in zip(columns, (blocks, *distances), strict=True):
            column.append(array)
    if len(starts) == 1:
        return NO_PATHS
    executed, stored, touched = (np.concatenate(column) for column in columns)
    return Paths(np.array(starts, np.int64), executed, stored, touched, instructions)


def _operations_per_block(operations: Sequence[MemoryOperation], num_blocks: int) -> npt.NDArray[np.int64]:
    return np.bincount(np.array([op.block_id for op in operations], np.int64), minlength=num_blocks)


def _read_instructions(database: sqlite3.Connection) -> InstructionTable:
    names = InstructionForm.__struct_fields__
    forms: list[InstructionForm] = []
    for number, *values in database.execute("SELECT * FROM instruction_forms ORDER BY form_id"):
        one = msgspec.convert(_record(names, values), type=InstructionForm, strict=True)
        if number != len(forms) or min(one.element_bits, one.lanes, one.length_bytes) < 0:
            raise ValueError("the forms of instructions are not in order")
        forms.append(one)
    rows = database.execute("SELECT * FROM instructions ORDER BY block_id").fetchall()
    columns: list[npt.NDArray[np.int64]] = []
    for column in range(1, 4):
        # Joining and reading them refuses what is no such bytes.
        columns.append(np.frombuffer(b"".join(row[column] for row in rows), _NUMBER).astype(np.int64))
    lengths = np.array([[len(blob) for blob in row[1:]] for row in rows], np.int64).reshape(-1, 3)
    if np.any(lengths == 0) or np.any(lengths % np.dtype(_NUMBER).itemsize) or np.any(lengths[:, 0] != lengths.T):
        raise ValueError("the instructions of a block are cut off")
    form, load, store = columns
    if np.any(form < 0) or np.any(form >= len(forms)):
        raise ValueError("an instruction has no form")
    first = np.cumsum([0, *(lengths[:, 0] // np.dtype(_NUMBER).itemsize)], dtype=np.int64)
    return InstructionTable(forms, np.array([row[0] for row in rows], np.int64), first, form, load, store)


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


def _record(columns: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """The fields of a form."""
    record = dict(zip(columns, values, strict=True))
    names = ("reads", "addresses", "writes")
    if not all(isinstance(record[name], str) for name in names):
        raise ValueError("the registers of an instruction are no text")
    return record | {name: record[name].split() for name in names} | {"scaled": bool(record["scaled"])}
