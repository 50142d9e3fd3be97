"""Blocks of a signature that a timing's samples lie in."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

import numpy as np
import numpy.typing as npt

from foretrace.tracer.signature.records import Signature

from .timing import Timing

_MOST_INSTRUCTION_BYTES = {"x86_64": 15, "aarch64": 4, "riscv64": 4}
"""By architecture: Intel SDM, section 2.3.11; Arm and RISC-V without longer encodings."""


def samples_per_block(signature: Signature, timing: Timing) -> tuple[npt.NDArray[np.int64], int]:
    """int64 [blocks]: samples in each block; and how many lie in none.

    A library may choose among variants of a function by the processor, and the engine's is another one: samples in a
    variant are those of the block of the traced variant that ran most instructions.
    """
    longest = _MOST_INSTRUCTION_BYTES.get(signature.provenance.guest, 15)
    starts: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for block in signature.blocks:
        starts[block.module].append((block.offset, block.offset + block.instructions * longest, block.block_id))
    for rows in starts.values():
        rows.sort()
    hottest: dict[tuple[str, str], int] = {}
    for block in sorted(signature.blocks, key=lambda block: block.executions * block.instructions):
        hottest[block.module, block.function] = block.block_id
    counts = np.zeros(len(signature.blocks), np.int64)
    outside = timing.elsewhere
    for position in timing.positions:
        rows = starts.get(position.module, [])
        at = bisect_right(rows, (position.offset, 1 << 64, 0)) - 1
        if at >= 0 and position.offset < rows[at][1]:
            counts[rows[at][2]] += position.samples
        else:
            known = [
                hottest[position.module, name] for name in position.functions if (position.module, name) in hottest
            ]
            if known:
                counts[max(known, key=lambda number: _instructions(signature, number))] += position.samples
            else:
                outside += position.samples
    return counts, outside


def _instructions(signature: Signature, block: int) -> int:
    return signature.blocks[block].executions * signature.blocks[block].instructions
