"""A program that calls two functions of a library through its linkage table, as blocks of machine code.

`g` is bound by the loader's resolver, and so is `f`, which calls `g` when that is bound: the resolver of `f` is over,
but its frame is on the stack. All lie near each other, as the loader and its own functions do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from word_streams import ENTRY, Stream

from foretrace.tracer.reader import side_table

MAIN, RESOLVER, FIXUP, F, G, STUB_F, STUB_G, LAZY_F, LAZY_G, LAZY = range(0x10000, 0x10A00, 0x100)

Instructions = Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Isa:
    """The code of a linkage table: `stub` jumps to what is written down, `first` to the resolver.

    `calls` and `jumps` are of their own address and the one that they go to; `goes` is how the resolver ends.
    """

    guest: str
    call_bytes: int
    calls: Callable[[int, int], Instructions]
    jumps: Callable[[int, int], Instructions]
    returns: Instructions
    stub: Instructions
    first: Instructions
    goes: Instructions


def _words(*values: int) -> Instructions:
    return [struct.pack("<I", value) for value in values]


def _near(opcode: bytes) -> Callable[[int, int], Instructions]:
    return lambda here, there: [opcode + struct.pack("<i", there - here - 5)]


def _branch(opcode: int) -> Callable[[int, int], Instructions]:
    return lambda here, there: _words(opcode | (there - here) // 4 & 0x3FFFFFF)


def _jal(opcode: int) -> Callable[[int, int], Instructions]:
    parts = ((20, 1, 31), (1, 10, 21), (11, 1, 20), (12, 8, 12))  # lowest bit, bits, where they are
    return lambda here, there: _words(
        opcode | sum((there - here >> low & (1 << bits) - 1) << at for low, bits, at in parts)
    )


ISAS = {
    isa.guest: isa
    for isa in (
        Isa(
            "x86_64", 5, _near(b"\xe8"), _near(b"\xe9"), [b"\xc3"],
            stub=[b"\xf3\x0f\x1e\xfa", b"\xf2\xff\x25" + bytes(4)],
            first=[b"\xff\x35" + bytes(4), b"\xff\x25" + bytes(4)],
            goes=[b"\x41\xff\xe3"],
        ),
        Isa(
            "aarch64", 4, _branch(0x94000000), _branch(0x14000000), _words(0xD65F03C0),
            stub=_words(0x90000110, 0xF9400211, 0x91000210, 0xD61F0220),
            first=_words(0xA9BF7BF0, 0xF00000F0, 0xF947FE11, 0x913FE210, 0xD61F0220),
            goes=_words(0xD61F0220),
        ),
        Isa(
            "riscv64", 4, _jal(0xEF), _jal(0x6F), _words(0x00008067),
            stub=_words(0x00002E17, 0x818E3E03, 0x000E0367),
            first=_words(
                0x00002397, 0x41C30333, 0x8283BE03, 0xFD430313, 0x82838293, 0x00135313, 0x0082B283, 0x000E0067
            ),
            goes=_words(0x00030067),
        ),
    )
}  # fmt: skip


def linked(isa: Isa) -> tuple[Stream, dict[str, int]]:
    """The stream of the program, and the blocks that its functions begin with."""
    after = isa.call_bytes
    codes: list[tuple[int, Instructions]] = [
        (MAIN, isa.calls(MAIN, STUB_G)),  # 1
        (MAIN + after, isa.calls(MAIN + after, STUB_F)),
        (MAIN + 2 * after, isa.returns),
        (STUB_G, isa.stub),  # 4
        (STUB_F, isa.stub),
        (LAZY_G, isa.jumps(LAZY_G, LAZY)),  # 6
        (LAZY_F, isa.jumps(LAZY_F, LAZY)),
        (LAZY, isa.first),  # 8
        (RESOLVER, isa.calls(RESOLVER, FIXUP)),
        (RESOLVER + after, isa.goes),  # 10
        (FIXUP, isa.returns),
        (G, isa.returns),  # 12
        (F, isa.calls(F, STUB_G)),
        (F + after, isa.returns),  # 14
    ]
    stream = Stream()
    stream.reader.make_tree(isa.guest, 1 << 10)
    entries = []
    for number, (address, instructions) in enumerate(codes, 1):
        content = bytes(len(one) for one in instructions) + b"".join(instructions)
        length = -(-(side_table.BLOCK.size + len(content)) // 8) * 8
        head = side_table.BLOCK.pack(side_table.SIDE_BLOCK, length, number, len(instructions), address, 0, 0)
        entries.append((head + content).ljust(length, b"\0"))
    stream.describe(entries)
    bind_g, bind_f = [4, 6, 8, 9, 11, 10, 12], [5, 7, 8, 9, 11, 10, 13]
    ran = [1, *bind_g, 2, *bind_f, 4, 12, 14, 3]
    stream.publish([ENTRY | block for block in ran])
    stream.read()
    return stream, {"main": 1, "g": 12, "f": 13, "fixup": 11}
