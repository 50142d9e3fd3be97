"""Address streams of array operations, written word by word, and what a plain walk over them counts."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.simulator import Simulator
from foretrace.tracer.reader import _reader
from foretrace.tracer.reader import side_table as stream

MEMORY_BYTES = 80 << 20
LAYOUT = _reader.layout()
BULK, ELEMENT = 0xFFF << 51, 0xFFE << 51
ENTRY = 1 << 63
BLOCK_ID, STORE_ID = 1, 1
"""The block that all operations belong to; the operation of single stores of 8 bytes"""
NUM_BLOCKS = 3
ADDRESS_MASK = (1 << 48) - 1
QUEUE_SLOTS = 2048


@dataclass(frozen=True)
class Operand:
    base: int
    strides: tuple[int, ...]
    size_bytes: int = 8
    is_store: bool = False
    is_indexed: bool = False


@dataclass(frozen=True)
class Operation:
    """An execution of an array operation."""

    extents: tuple[int, ...]
    operands: tuple[Operand, ...]
    index: tuple[int, ...] = ()

    def shape(self) -> tuple[tuple[int, bool, bool], ...]:
        """What the side table says of it."""
        return tuple((o.size_bytes, o.is_store, o.is_indexed) for o in self.operands)

    def words(self, operation_id: int) -> list[int]:
        facts = len(self.operands) | len(self.extents) << 8 | len(self.index) << 16
        body = [facts, *self.extents]
        for operand in self.operands:
            strides = operand.strides[:1] + (0,) * (len(self.extents) - 1) if operand.is_indexed else operand.strides
            body += [operand.base, *strides]
        words = [BULK | (1 + len(body) + len(self.index)) << 32 | operation_id, *body, *self.index]
        return [word % (1 << 64) for word in words]

    def addresses(self) -> npt.NDArray[np.uint64]:
        """Point by point, operand by operand."""
        columns = []
        for operand in self.operands:
            if operand.is_indexed:
                offsets = np.array(self.index, np.int64) * operand.strides[0]
            else:
                offsets = np.zeros(self.extents, np.int64)
                for axis, stride in enumerate(operand.strides):
                    at = np.arange(self.extents[axis]) * stride
                    offsets += at.reshape([-1 if d == axis else 1 for d in range(len(self.extents))])
            columns.append(offsets.ravel() + operand.base)
        return np.stack(columns, axis=1).ravel().astype(np.uint64) & np.uint64(ADDRESS_MASK)


@dataclass(frozen=True)
class Entry:
    """A block is entered."""

    block_id: int


Step = Operation | int | Entry
"""An array operation, the address of a single store, or what block is entered."""


@dataclass
class Stream:
    """A stream in memory that holds some steps, with the reader that reads it."""

    hierarchy: Hierarchy
    reuse_rate: float | None = 1
    others: Sequence[Hierarchy] = ()
    ids: dict[tuple[tuple[int, bool, bool], ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.memory = mmap.mmap(-1, MEMORY_BYTES)
        self.simulator = Simulator([self.hierarchy, *self.others], reuse_rate=self.reuse_rate)
        self.reader = _reader.StreamReader(self.memory, self.simulator.sink)
        self.side_bytes = 0
        self.chunks = 0
        self.marks: list[tuple[int, int]] = []  # where the reader makes bursts: accesses fed before each, and its phase
        for block_id in range(1, NUM_BLOCKS + 1):
            block = stream.BLOCK.pack(stream.SIDE_BLOCK, stream.BLOCK.size + 8, block_id, 1, 0x1000 * block_id, 0, 0)
            self._describe(block + b"\1" * 8)
        self.first_operand = [0, 0]  # of each operation by id: the reader's number
        self._id(((8, True, False),))

    def _describe(self, entry: bytes) -> None:
        position = struct.unpack_from("<Q", self.memory, LAYOUT["side_offset"])[0] + self.side_bytes
        self.memory[position : position + len(entry)] = entry
        self.side_bytes += len(entry)
        struct.pack_into("<Q", self.memory, LAYOUT["side_used_bytes"], self.side_bytes)

    def _id(self, shape: tuple[tuple[int, bool, bool], ...]) -> int:
        if shape not in self.ids:
            number = self.ids[shape] = len(self.ids) + 1
            operands = b"".join(stream.OPERAND.pack(*operand, False, 0) for operand in shape)
            entry = stream.OPERATION.pack(
                stream.SIDE_OPERATION, stream.OPERATION_BYTES, number, BLOCK_ID, len(shape), 0, 0, 0, 0, 0, 0, 0, 0
            )
            self._describe(entry + operands.ljust(stream.OPERATION_BYTES - len(entry), b"\0"))
            self.first_operand.append(self.first_operand[-1] + len(shape))
        return self.ids[shape]

    def run(self, steps: Iterable[Step]) -> None:
        """Read the steps, in as many chunks as they take."""
        words = [ENTRY | BLOCK_ID]
        for step in steps:
            own = self._words(step)
            if len(words) + len(own) > LAYOUT["chunk_words"]:
                self._publish(words)
                words = []
            words += own
        self._publish(words)

    def _words(self, step: Step) -> list[int]:
        if isinstance(step, Entry):
            return [ENTRY | step.block_id]
        return [ELEMENT | STORE_ID, step] if isinstance(step, int) else step.words(self._id(step.shape()))

    def _publish(self, words: Sequence[int]) -> None:
        number, head = self.chunks % 40, self.chunks % QUEUE_SLOTS
        chunk = struct.unpack_from("<Q", self.memory, LAYOUT["chunks_offset"])[0] + number * LAYOUT["chunk_words"] * 8
        struct.pack_into(f"<{len(words)}Q", self.memory, chunk, *words)
        at = LAYOUT["ready"] + LAYOUT["ready_bytes"] * head
        struct.pack_into("<IIIII", self.memory, at, number, len(words), 0, self.chunks + 1, 1)
        self.chunks += 1
        struct.pack_into("<I", self.memory, LAYOUT["ready_head"], self.chunks)
        while (status := self.reader.salvage()) == _reader.MARK:
            self.marks.append((int(self.simulator.statistics().executions.sum()), self.reader.mark()))
        assert status == _reader.IDLE


def walked(under_test: Stream, steps: Sequence[Step]) -> Simulator:
    """What a simulator says that is fed the same access by access."""
    twin = Simulator([under_test.hierarchy], reuse_rate=under_test.reuse_rate)
    addresses, sizes, operations, stores = [], [], [], []
    for step in steps:
        if isinstance(step, Entry):
            continue
        if isinstance(step, int):
            step = Operation((1,), (Operand(step, (0,), is_store=True),))
        shape, points = step.shape(), int(np.prod(step.extents))
        first = under_test.first_operand[under_test.ids[shape]]
        addresses.append(step.addresses())
        sizes.append(np.tile(np.array([size for size, _, _ in shape], np.uint64), points))
        operations.append(np.tile(np.arange(first, first + len(shape)), points))
        stores.append(np.tile([store for _, store, _ in shape], points))
    if addresses:
        twin.feed(*map(np.concatenate, (addresses, sizes, operations, stores)))
    return twin
