"""Which of a signature's blocks a timing's samples lie in."""

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
    """int64 [blocks]: samples in each block; and how many lie in none, such as those of a function for another CPU.

    The C library, for one, chooses its string functions by the CPU it runs on, and the engine shows another one.
    """
    longest = _MOST_INSTRUCTION_BYTES.get(signature.provenance.guest, 15)
    starts: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for block in signature.blocks:
        starts[block.module].append((block.offset, block.offset + block.instructions * longest, block.block_id))
    for rows in starts.values():
        rows.sort()
    counts = np.zeros(len(signature.blocks), np.int64)
    outside = timing.elsewhere
    for position in timing.positions:
        rows = starts.get(position.module, [])
        at = bisect_right(rows, (position.offset, 1 << 64, 0)) - 1
        if at >= 0 and position.offset < rows[at][1]:
            counts[rows[at][2]] += position.samples
        else:
            outside += position.samples
    return counts, outside
