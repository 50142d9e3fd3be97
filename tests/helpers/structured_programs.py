"""Random structured programs as blocks of machine code, run by a slow interpreter that keeps the execution tree itself.

It knows what is a call and what is a loop, where the C core has to tell that from the blocks alone.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from word_streams import ENTRY, LAYOUT, Stream

from foretrace.tracer.reader import side_table

Path = tuple[int, ...]
"""Blocks that call, from the first function to the one at hand."""


@dataclass
class LoopCount:
    """Iterations of each entry of a loop in one context."""

    entries: list[int] = field(default_factory=list)


@dataclass
class Running:
    """A loop that is being run, since the execution `entry`."""

    path: Path
    header: int
    entry: int
    iteration: int = 0


class Program:
    """Functions of straight blocks, branches, loops and calls; function 0 is run."""

    def __init__(self, seed: int, *, functions: int = 4, max_blocks: int = 20_000) -> None:
        self.random = random.Random(seed)
        self.codes: list[tuple[int, bytes]] = []  # address, instruction at its end
        self._address = 0x10000
        self._left = max_blocks
        self.bodies = [self._body(number, functions, 0) for number in range(functions)]
        self.starts: list[int] = []
        self.layout = [self._place_function(body) for body in self.bodies]
        self._link()
        self.ran: list[int] = []
        self.calls: dict[Path, int] = {}
        self.loops: dict[tuple[Path, int], LoopCount] = {}
        self.executions: dict[tuple[Path, int], int] = {}
        self.repeated: set[int] = set()  # headers of loops that came back
        self.active: list[Running] = []  # loops, outermost first
        self.known: set[int] = set()  # headers of loops that have come back so far

    def _body(self, function: int, functions: int, nesting: int) -> list[tuple]:  # type: ignore[type-arg]
        body: list[tuple] = []  # type: ignore[type-arg]
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.random()
            if kind < 0.35 and nesting < 3:
                body.append(("loop", self.random.randint(1, 5), self._body(function, functions, nesting + 1)))
            elif kind < 0.5 and nesting < 3:
                body.append(("if", self._body(function, functions, nesting + 1)))
            elif kind < 0.8 and function + 1 < functions:
                body.append(("call", self.random.randint(function + 1, functions - 1)))
            else:
                body.append(("straight",))
        return body

    def _block(self, size: int) -> int:
        """A new block whose last instruction has some bytes; its id."""
        self.codes.append((self._address, bytes(size)))
        self._address += size
        return len(self.codes)

    def _place_function(self, body: list[tuple]) -> list[tuple]:  # type: ignore[type-arg]
        self._address += 0x100
        placed = [("straight", self._block(5)), *self._place(body)]
        return [*placed, ("return", self._block(1))]

    def _place(self, body: list[tuple]) -> list[tuple]:  # type: ignore[type-arg]
        placed: list[tuple] = []  # type: ignore[type-arg]
        for kind, *rest in body:
            if kind == "straight":
                placed.append(("straight", self._block(5)))
            elif kind == "call":
                placed.append(("call", self._block(5), rest[0]))
            elif kind == "if":
                branch = self._block(6)
                inner = self._place(rest[0])
                placed.append(("if", branch, self._address, inner))
            else:
                header = self._block(5)
                inner = self._place(rest[1])
                placed.append(("loop", header, rest[0], inner, self._block(6)))
        return placed

    def _link(self) -> None:
        self.starts = [self.codes[placed[0][1] - 1][0] for placed in self.layout]
        for placed in self.layout:
            self._link_all(placed)

    def _set(self, block: int, opcode: bytes, target: int) -> None:
        address, code = self.codes[block - 1]
        self.codes[block - 1] = address, opcode + struct.pack("<i", target - (address + len(code)))

    def _link_all(self, placed: list[tuple]) -> None:  # type: ignore[type-arg]
        for kind, block, *rest in placed:
            address, code = self.codes[block - 1]
            if kind == "straight":
                self._set(block, b"\xe9", address + len(code))
            elif kind == "return":
                self.codes[block - 1] = address, b"\xc3"
            elif kind == "call":
                self._set(block, b"\xe8", self.starts[rest[0]])
            elif kind == "if":
                self._set(block, b"\x0f\x84", rest[0])
                self._link_all(rest[1])
            else:
                self._set(block, b"\xe9", address + len(code))
                self._link_all(rest[1])
                self._set(rest[2], b"\x0f\x85", address)

    def run(self) -> None:
        """Run function 0 once; it stops early where it has run long enough."""
        self._call(0, ())

    def _step(self, path: Path, block: int) -> None:
        self.ran.append(block)
        self.executions[path, block] = self.executions.get((path, block), 0) + 1
        self._left -= 1

    def _call(self, function: int, path: Path) -> None:
        self.calls[path] = self.calls.get(path, 0) + 1
        self._run(self.layout[function], path)

    def _run(self, placed: list[tuple], path: Path) -> None:  # type: ignore[type-arg]
        for kind, block, *rest in placed:
            if kind == "loop":
                most, inner, back = rest
                count = self.random.randint(1, most) if self._left > 0 else 1
                self.loops.setdefault((path, block), LoopCount()).entries.append(count)
                if count > 1:
                    self.repeated.add(block)
                self.active.append(Running(path, block, len(self.ran)))
                for number in range(count):
                    self.active[-1].iteration = number
                    if number:
                        self.known.add(block)
                    self._step(path, block)
                    self._run(inner, path)
                    self._step(path, back)
                self.active.pop()
                continue
            self._step(path, block)
            if kind == "call":
                self._call(rest[0], (*path, block))
            elif kind == "if" and self.random.random() < 0.5:
                self._run(rest[1], path)

    def stream(self) -> Stream:
        """A reader's stream of what ran, that makes a tree."""
        stream = Stream()
        stream.reader.make_tree("x86_64", 1 << 17)
        self._prepare(stream)
        position = begin = stream.word(LAYOUT["side_offset"])
        for block_id, (address, code) in enumerate(self.codes, 1):
            length = -(-(side_table.BLOCK.size + 1 + len(code)) // 8) * 8
            entry = side_table.BLOCK.pack(side_table.SIDE_BLOCK, length, block_id, 1, address, 0, 0)
            entry += bytes([len(code)]) + code
            stream.memory[position : position + len(entry)] = entry
            position += length
        struct.pack_into("<Q", stream.memory, LAYOUT["side_used_bytes"], position - begin)
        return self._published(stream)

    def _prepare(self, stream: Stream) -> None:
        """What else the reader is to look for: nothing."""

    def _chunks(self) -> Iterator[list[int]]:
        size = LAYOUT["chunk_words"]
        for begin in range(0, len(self.ran), size):
            yield [ENTRY | block for block in self.ran[begin : begin + size]]

    def _published(self, stream: Stream) -> Stream:
        for number, words in enumerate(self._chunks()):
            stream.publish(words, number)
        return stream
