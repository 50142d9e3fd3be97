"""Absolute names for the registers of a stack, such as x87's, in each instruction of a block.

Compilers keep the stack equally deep on all paths to a block. So its depth follows from any path to the block, and a
register has the same name on all of them. An exchange of two registers is treated as renaming: within a block it swaps
their names. Where a block ends with swapped names, the exchange is treated as a copy of the values, because the code
after the block uses the old names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from foretrace.tracer.isa.instruction_set import Isa, StackUse

from .basic_blocks import BasicBlocks

NUM_REGISTERS = 8
Names = tuple[str, ...]
ReadsAndWrites = tuple[Names, Names]


def stack_registers(blocks: BasicBlocks, isa: Isa) -> dict[int, ReadsAndWrites]:
    """Stack registers that each instruction reads and writes, by its position."""
    uses = [isa.stack_use(code) for code in blocks.codes]
    if not any(uses):
        return {}
    of_block = [[uses[number] for number in blocks.instructions(block)] for block in range(blocks.num_blocks)]
    return {
        number: found
        for block, top in enumerate(_tops(blocks, of_block))
        for number, found in zip(blocks.instructions(block), named(of_block[block], top), strict=True)
        if found is not None
    }


def named(uses: Sequence[StackUse | None], top: int) -> list[ReadsAndWrites | None]:
    """Registers that the instructions of a block read and write; None for those that do not use the stack.

    Args:
        uses: the stack use of each instruction.
        top: the register at its top when the block begins.
    """
    found, is_as_before = _named(uses, top, renames=True)
    return found if is_as_before else _named(uses, top, renames=False)[0]


def _named(uses: Sequence[StackUse | None], top: int, *, renames: bool) -> tuple[list[ReadsAndWrites | None], bool]:
    names = [f"st({number})" for number in range(NUM_REGISTERS)]
    before = list(names)
    found: list[ReadsAndWrites | None] = []
    for use in uses:
        if use is None:
            found.append(None)
            continue
        if use.exchanges:
            one, other = top % NUM_REGISTERS, (top + use.exchanges) % NUM_REGISTERS
            both = (names[one], names[other])
            found.append(((), ()) if renames else (both, both))
            if renames:
                names[one], names[other] = names[other], names[one]
            continue
        reads = tuple(names[(top + distance) % NUM_REGISTERS] for distance in use.reads)
        top -= use.pushes
        found.append((reads, tuple(names[(top + distance) % NUM_REGISTERS] for distance in use.writes)))
        top += use.pops
    return found, names == before


def _tops(blocks: BasicBlocks, uses: Sequence[Sequence[StackUse | None]]) -> list[int]:
    """The register at the stack's top where each block begins, along the first path found to it."""
    added = [sum(use.pops - use.pushes for use in of_block if use is not None) for of_block in uses]
    following = defaultdict(list)
    for source, destination, _ in blocks.edges.tolist():
        following[source].append(destination)
    tops: dict[int, int] = {}
    for first in range(blocks.num_blocks):
        tops.setdefault(first, 0)
        waiting = [first]
        while waiting:
            block = waiting.pop()
            for after in following.pop(block, ()):
                if after not in tops:
                    tops[after] = tops[block] + added[block]
                    waiting.append(after)
    return [tops[block] % NUM_REGISTERS for block in range(blocks.num_blocks)]
