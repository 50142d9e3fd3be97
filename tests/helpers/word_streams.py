"""Address streams written word by word."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.simulator import Simulator
from foretrace.tracer.reader import _reader
from foretrace.tracer.reader import side_table as stream

MEMORY_BYTES = 80 << 20

HIERARCHY = Hierarchy.parse("L1=256/2/32,L2=1K/4/64")

LAYOUT = _reader.layout()

WIDE_BYTES = 16

ENTRY = 1 << 63

FIRST_ACCESS = (0 + 1) << 3 | 3
"""What every block has for the access that its entry words may bring along: 8 bytes, loaded by its first instruction"""

Access = tuple[int, int, int]  # slot, log2 of the size, address

Execution = tuple[int, list[Access]]  # block id, its accesses


def machine_code_block(block_id: int, instructions: int) -> bytes:
    """The side table's entry of a block with so many one-byte instructions, which are not in it."""
    length = -(-(stream.BLOCK.size + 2 * instructions) // 8) * 8
    entry = stream.BLOCK.pack(stream.SIDE_BLOCK, length, block_id, instructions, 0x1000 * block_id, FIRST_ACCESS, 0)
    return (entry + b"\1" * instructions).ljust(length, b"\0")


def python_block(block_id: int, code_id: int, offset_bytes: int, instructions: int, goes_on: bool = False) -> bytes:
    """The side table's entry of a block of bytecode; without instructions it says that the block there goes on."""
    kind, size = stream.SIDE_PYBLOCK, stream.PYBLOCK.size
    return stream.PYBLOCK.pack(
        kind, size, block_id, code_id, 1, 1, offset_bytes, instructions, 0, 0, goes_on, 0, 0, 0, 0, 0, 0
    )


class Stream:
    """A stream in memory, with the reader that reads it."""

    def __init__(self, hierarchy: Hierarchy = HIERARCHY, reuse_rate: float | None = 1) -> None:
        self.memory = mmap.mmap(-1, MEMORY_BYTES)
        self.simulator = Simulator([hierarchy], reuse_rate=reuse_rate)
        self.reader = _reader.StreamReader(self.memory, self.simulator.sink)

    def word(self, offset: int) -> int:
        return int(struct.unpack_from("<Q", self.memory, offset)[0])

    def describe_blocks(self, instructions: Sequence[int]) -> None:
        """Blocks 1, 2, ... with so many one-byte instructions."""
        self.describe([machine_code_block(number, count) for number, count in enumerate(instructions, 1)])

    def describe(self, entries: Sequence[bytes]) -> None:
        """A side table of `entries`, each of a multiple of eight bytes."""
        begin, table = self.word(LAYOUT["side_offset"]), b"".join(entries)
        self.memory[begin : begin + len(table)] = table
        struct.pack_into("<Q", self.memory, LAYOUT["side_used_bytes"], len(table))

    def publish(self, words: Sequence[int], number: int = 0) -> None:
        """One chunk of thread 0."""
        head = struct.unpack_from("<I", self.memory, LAYOUT["ready_head"])[0]
        chunk = self.word(LAYOUT["chunks_offset"]) + number * LAYOUT["chunk_words"] * 8
        struct.pack_into(f"<{len(words)}Q", self.memory, chunk, *words)
        at = LAYOUT["ready"] + LAYOUT["ready_bytes"] * head
        struct.pack_into("<IIIII", self.memory, at, number, len(words), 0, head + 1, 1)
        struct.pack_into("<I", self.memory, LAYOUT["ready_head"], head + 1)

    def read(self) -> None:
        while (status := self.reader.salvage()) == _reader.WIDTH:
            self.reader.set_width(WIDE_BYTES)
        assert status == _reader.IDLE


def words_of(executions: Sequence[Execution]) -> list[int]:
    words = []
    for block_id, accesses in executions:
        if block_id > 1 and accesses and accesses[0][:2] == (0, 3):
            words.append(ENTRY | block_id << 48 | accesses[0][2])
            accesses = accesses[1:]
        else:
            words.append(ENTRY | block_id)
        words += [(slot + 1) << 51 | shift << 48 | address for slot, shift, address in accesses]
    return words
