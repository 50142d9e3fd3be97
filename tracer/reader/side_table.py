"""The address stream's side table, as Python reads it. The layout's authority is stream.h; a test compares the two.

Its bytes come from the memory of a program that may have gone wrong: what does not fit raises StreamError.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from foretrace.base.errors import ForetraceError

from .raw_trace import (
    RawArrayOperation,
    RawBlock,
    RawChild,
    RawCompiled,
    RawFile,
    RawLinear,
    RawObject,
    RawOperand,
    RawPythonBlock,
    RawUnseen,
)

MEMORY_BYTES = 1 << 30
"""Size of the shared memory. Pages never touched cost nothing; nearly all of it is room for the side table."""

SIDE_BLOCK, SIDE_MAPS, SIDE_PYBLOCK, SIDE_OPERATION, SIDE_UNSEEN, SIDE_LINEAR, SIDE_COMPILED = 1, 2, 3, 4, 5, 6, 7
SIDE_CHILD = 8
CHILD_ENDED, CHILD_BECAME = 1, 2
SIDE_OBJECT, SIDE_LANDING, SIDE_FILE = 9, 10, 11
MAX_OPERANDS = 8
INSTRUCTIONS_PER_BLOCK = 2
"""Instructions that a table of blocks has room for, on average."""

ENTRY = struct.Struct("<II")
BLOCK = struct.Struct("<IIIIQII")
PYBLOCK = struct.Struct("<IIIIIIIIIIIIQQqQQ")
OPERATION = struct.Struct("<IIIIIIIIIIQQQ")
OPERAND = struct.Struct("<HBBBB2x")
UNSEEN = struct.Struct("<IIIIQQQQ")
LINEAR = struct.Struct("<IIIIIIIIQQQQQQQQ")
COMPILED = struct.Struct("<IIIIQ")
CHILD = struct.Struct("<IIIIiI")
OBJECT = struct.Struct("<IIIIQII")
LANDING = struct.Struct("<IIQQ")
FILE = struct.Struct("<IIQQII")
OPERATION_BYTES = OPERATION.size + MAX_OPERANDS * OPERAND.size


class StreamError(ForetraceError):
    """A stream that cannot be right: the traced program overwrote it, or the two sides differ in version."""

    exit_code = 79


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


@lru_cache(maxsize=1 << 16)  # forked processes have their parent's blocks
def _block(entry: bytes, block_id: int) -> RawBlock:
    _, _, _, count, address, first_access, is_counted = BLOCK.unpack_from(entry)
    lengths = tuple(entry[BLOCK.size : BLOCK.size + count])
    code = entry[BLOCK.size + count : BLOCK.size + count + sum(lengths)]
    if len(lengths) != count or len(code) != sum(lengths):
        raise StreamError("the trace stream describes a block longer than its entry; the program may have damaged it")
    return RawBlock(block_id, address, lengths, code, 0, bool(is_counted), first_access)


def _python_block(entry: bytes, block_id: int) -> RawPythonBlock:
    _, _, _, code_id, line, first_line, offset, instructions, file_bytes, name_bytes, *_ = PYBLOCK.unpack_from(entry)
    file_end = PYBLOCK.size + file_bytes
    file, name = _text(entry[PYBLOCK.size : file_end]), _text(entry[file_end : file_end + name_bytes])
    return RawPythonBlock(block_id, code_id, file, name, line, first_line, offset, instructions)


def _operation(entry: bytes, number: int) -> RawArrayOperation:
    _, _, _, block_id, n_operands, name_bytes, site, _, flops, int_ops, *_ = OPERATION.unpack_from(entry)
    operands = tuple(
        RawOperand(size, bool(store), bool(indexed), bool(index), chr(kind) if kind else "")
        for size, store, indexed, index, kind in OPERAND.iter_unpack(entry[OPERATION.size : OPERATION_BYTES])
    )
    name = _text(entry[OPERATION_BYTES : OPERATION_BYTES + name_bytes])
    return RawArrayOperation(number, block_id, name, site, flops, int_ops, operands[:n_operands])


def _unseen(entry: bytes) -> RawUnseen:
    _, _, block_id, name_bytes, *counts = UNSEEN.unpack_from(entry)
    return RawUnseen(block_id, _text(entry[UNSEEN.size : UNSEEN.size + name_bytes]), *counts)


def _linear(entry: bytes) -> RawLinear:
    _, _, block_id, site, name_bytes, item_bytes, kind, symmetric, *shape, batch, calls = LINEAR.unpack_from(entry)
    return RawLinear(
        block_id,
        site,
        _text(entry[LINEAR.size : LINEAR.size + name_bytes]),
        chr(kind & 0x7F),
        item_bytes,
        bool(symmetric),
        (shape[0], shape[1]),
        (shape[2], shape[3]),
        (shape[4], shape[5]),
        batch,
        calls,
    )


def _object(entry: bytes) -> RawObject:
    _, _, _, kind, site, name_bytes, _ = OBJECT.unpack_from(entry)
    return RawObject(kind, site, _text(entry[OBJECT.size : OBJECT.size + name_bytes]))


def _compiled(entry: bytes) -> RawCompiled:
    _, _, block_id, name_bytes, rounds = COMPILED.unpack_from(entry)
    return RawCompiled(block_id, _text(entry[COMPILED.size : COMPILED.size + name_bytes]), rounds)


@lru_cache(maxsize=16)  # forked processes have their parent's files
def _file(entry: bytes) -> RawFile:
    _, _, inode, file_bytes, path_bytes, _ = FILE.unpack_from(entry)
    begin = FILE.size + path_bytes
    return RawFile(_text(entry[FILE.size : begin]), inode, entry[begin : begin + file_bytes])


def _child(entry: bytes) -> RawChild:
    _, _, pid, event, status, command_bytes = CHILD.unpack_from(entry)
    words = entry[CHILD.size : CHILD.size + command_bytes].split(b"\0")[:-1]
    command = tuple(os.fsdecode(word) for word in words)
    return RawChild(pid, status if event == CHILD_ENDED else None, command, event == CHILD_BECAME)


_COUNTED: dict[int, tuple[str, Callable[[bytes], Any]]] = {
    SIDE_UNSEEN: ("unseen", _unseen), SIDE_LINEAR: ("linear", _linear), SIDE_COMPILED: ("compiled", _compiled),
}  # fmt: skip
"""Entries whose counts go on changing: the field of `RawTrace` that has them, and what reads one."""


class SideTable:
    """The entries read so far, without counts. Ids are positions in `blocks` and `operations`, counted from 1."""

    def __init__(self) -> None:
        """Nothing read yet."""
        self.blocks: list[RawBlock | RawPythonBlock] = []
        self.operations: list[RawArrayOperation] = []
        self.maps: list[str] = []
        self.files: list[RawFile] = []
        self.children: list[RawChild] = []
        self.objects: list[RawObject] = []
        self.landings: dict[tuple[int, int], None] = {}
        """Addresses at which calls return, with those at which exceptions leaving them continue."""
        self._counted: dict[int, list[slice]] = {kind: [] for kind in _COUNTED}
        self._operations: list[int] = []
        self._python_blocks: dict[int, int] = {}
        self._position = 0

    def extend(self, table: memoryview) -> None:
        """Read what the table has gained since the last call.

        Raises:
            StreamError: it is damaged.
        """
        while self._position < len(table):
            kind, length = ENTRY.unpack_from(table, self._position)
            if length < ENTRY.size or self._position + length > len(table):
                raise StreamError(f"the trace stream's side table is damaged at byte {self._position}")
            try:
                self._add(kind, bytes(table[self._position : self._position + length]))
            except struct.error as error:
                raise StreamError(f"the trace stream's side table is damaged at byte {self._position}") from error
            self._position += length

    def _add(self, kind: int, entry: bytes) -> None:
        if kind == SIDE_BLOCK:
            self.blocks.append(_block(entry, len(self.blocks) + 1))
        elif kind == SIDE_PYBLOCK:
            self.blocks.append(_python_block(entry, len(self.blocks) + 1))
            self._python_blocks[len(self.blocks)] = self._position
        elif kind == SIDE_OPERATION:
            self.operations.append(_operation(entry, len(self.operations) + 1))
            self._operations.append(self._position)
        elif kind == SIDE_OBJECT:
            self.objects.append(_object(entry))
        elif kind == SIDE_LANDING:
            _, _, behind, pad = LANDING.unpack_from(entry)
            self.landings[behind, pad] = None
        elif kind == SIDE_MAPS:
            self.maps.append(sys.intern(_text(entry[ENTRY.size :].rstrip(b"\0"))))
        elif kind == SIDE_FILE:
            self.files.append(_file(entry))
        elif kind == SIDE_CHILD:
            self.children.append(_child(entry))
        elif kind in _COUNTED:
            _COUNTED[kind][1](entry)
            self._counted[kind].append(slice(self._position, self._position + len(entry)))

    def array_times(self, table: memoryview) -> list[dict[str, int]]:
        """Times of each array operation so far: fields of `RawArrayOperation`."""
        names = ("rounds", "faults", "kept_calls")
        return [dict(zip(names, OPERATION.unpack_from(table, at)[-3:], strict=True)) for at in self._operations]

    def timings(self, table: memoryview) -> dict[int, dict[str, int]]:
        """Times of each block of bytecode so far, by id: fields of `RawPythonBlock`."""
        names = ("timed", "timed_rounds", "long_rounds", "array_rounds")
        return {
            block: dict(zip(names, PYBLOCK.unpack_from(table, at)[-4:], strict=True))
            for block, at in self._python_blocks.items()
        }

    def counted(self, table: memoryview) -> dict[str, tuple[Any, ...]]:
        """Current counts of what is not seen, of linear algebra, and of compiled functions: fields of `RawTrace`."""
        return {
            name: tuple(read(bytes(table[at])) for at in self._counted[kind]) for kind, (name, read) in _COUNTED.items()
        }
