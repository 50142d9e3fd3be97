"""The paths of a signature on disk: their instructions as rows, their long arrays compressed (zlib, little-endian).

Registers are told in one text, with spaces between them. Like the rest of a signature, all of it may come from anyone.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from .signature import NO_PATHS, Instruction, MemoryOperation, Paths, Signature

MAX_PATH_EXECUTIONS = 1 << 20
MAX_PATH_ACCESSES = 1 << 23
_COMPRESSION = 1  # takes half as long as zlib's default, and a fifth more room


def instruction_rows(paths: Paths) -> Iterator[tuple[Any, ...]]:
    """Rows of the table `instructions`."""
    joined = cache(" ".join)
    for block_id, instructions in paths.instructions.items():
        for position, one in enumerate(instructions):
            yield (
                block_id, position, str(one.kind), one.element_bits, one.lanes, one.length_bytes, one.flow,
                joined(one.reads), joined(one.addresses), joined(one.writes), one.load_operation, one.store_operation,
            )  # fmt: skip


def path_rows(signature: Signature) -> Iterator[tuple[Any, ...]]:
    """Rows of the table `paths`."""
    paths = signature.paths
    per_block = _operations_per_block(signature.operations, len(signature.blocks))
    accesses = np.cumsum([0, *per_block[paths.blocks].tolist()])
    for number, (begin, end) in enumerate(zip(paths.starts[:-1].tolist(), paths.starts[1:].tolist(), strict=True)):
        inside = slice(int(accesses[begin]), int(accesses[end]))
        arrays = (paths.blocks[begin:end], paths.store_distances[inside], paths.line_distances[inside])
        yield number, end - begin, *(zlib.compress(_little_endian(array).tobytes(), _COMPRESSION) for array in arrays)


def read(database: sqlite3.Connection, operations: Sequence[MemoryOperation], num_blocks: int) -> Paths:
    """Read both tables.

    Raises:
        ValueError: they do not fit together, or the rest of the signature.
        msgspec.ValidationError: an instruction is impossible.
    """
    instructions = _read_instructions(database, operations)
    per_block = _operations_per_block(operations, num_blocks)
    starts = [0]
    columns: list[list[npt.NDArray[Any]]] = [[], [], []]
    for number, (path_id, executions, *blobs) in enumerate(database.execute("SELECT * FROM paths ORDER BY 1")):
        if path_id != number or not 0 <= executions <= MAX_PATH_EXECUTIONS:
            raise ValueError("a path has an impossible number or length")
        blocks = _array(blobs[0], np.dtype("<u4"), executions)
        if not np.all(np.isin(blocks, list(instructions))):
            raise ValueError("a path runs a block whose instructions are not told")
        accesses = int(per_block[blocks].sum())
        if accesses > MAX_PATH_ACCESSES:
            raise ValueError("a path makes more accesses than it can")
        starts.append(starts[-1] + executions)
        distances = (_array(blob, np.dtype("<u2"), accesses) for blob in blobs[1:])
        for column, array in zip(columns, (blocks, *distances), strict=True):
            column.append(array)
    if len(starts) == 1:
        return NO_PATHS
    executed, stored, touched = (np.concatenate(column) for column in columns)
    return Paths(np.array(starts, np.int64), executed, stored, touched, instructions)


def _operations_per_block(operations: Sequence[MemoryOperation], num_blocks: int) -> npt.NDArray[np.int64]:
    return np.bincount(np.array([op.block_id for op in operations], np.int64), minlength=num_blocks)


def _little_endian(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array.astype(array.dtype.newbyteorder("<"))


def _array(blob: Any, kind: np.dtype[Any], length: int) -> npt.NDArray[Any]:
    """An array of just this length."""
    size_bytes = length * kind.itemsize
    try:
        content = zlib.decompressobj().decompress(blob, size_bytes + 1)
    except (zlib.error, TypeError) as error:
        raise ValueError(f"a path cannot be unpacked: {error}") from error
    if len(content) != size_bytes:
        raise ValueError("a path is longer or shorter than it says")
    return np.frombuffer(content, kind).astype(kind.newbyteorder("="))


def _read_instructions(
    database: sqlite3.Connection, operations: Sequence[MemoryOperation]
) -> Mapping[int, tuple[Instruction, ...]]:
    found: dict[int, list[Instruction]] = defaultdict(list)
    for block_id, position, *values in database.execute("SELECT * FROM instructions ORDER BY block_id, position"):
        names = ("kind", "element_bits", "lanes", "length_bytes", "flow", "reads", "addresses", "writes")
        record = dict(zip((*names, "load_operation", "store_operation"), values, strict=True))
        for name in ("reads", "addresses", "writes"):
            record[name] = record[name].split()
        one = msgspec.convert(record, type=Instruction, strict=True)
        if position != len(found[block_id]) or min(one.element_bits, one.lanes, one.length_bytes) < 0:
            raise ValueError("the instructions of a block are not in order")
        for operation, is_store in ((one.load_operation, False), (one.store_operation, True)):
            good = operation is None or (
                0 <= operation < len(operations)
                and operations[operation].block_id == block_id
                and operations[operation].is_store == is_store
            )
            if not good:
                raise ValueError("an instruction has a memory operation that is not its own")
        found[block_id].append(one)
    return {block_id: tuple(instructions) for block_id, instructions in found.items()}
