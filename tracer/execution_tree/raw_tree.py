"""The execution tree as the stream reader hands it over: functions in their contexts, and blocks as the engine has them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from foretrace.tracer.reader._reader import TreeRows

Counts = npt.NDArray[np.uint64]
NONE = (1 << 64) - 1


class CallKind(IntEnum):
    """How a function came to run: `enum ft_tree_call` of parts.h."""

    CALL = 0
    TAIL_CALL = 1
    SIGNAL = 2
    BASE = 3  # at the bottom of a thread's stack


@dataclass(frozen=True, slots=True, eq=False)
class RawTree:
    """Tables of numbers, uint64 [rows, columns]; tree.h names their columns. Node numbers are positions in `nodes`."""

    nodes: Counts
    counts: Counts
    loops: Counts
    histograms: Counts
    threads: Counts
    merged_contexts: int
    unwound: int
    resumed: int
    signals: int
    overflows: int


def raw_tree(rows: TreeRows | None) -> RawTree | None:
    """What the reader returned, as arrays."""
    if rows is None:
        return None

    def table(name: str, columns: int) -> Counts:
        return np.frombuffer(rows[name], np.uint64).reshape(-1, columns)  # type: ignore[literal-required]

    return RawTree(
        nodes=table("nodes", 10),
        counts=table("counts", 3),
        loops=table("loops", 8),
        histograms=table("histograms", 4),
        threads=table("threads", 5),
        merged_contexts=rows["merged_contexts"],
        unwound=rows["unwound"],
        resumed=rows["resumed"],
        signals=rows["signals"],
        overflows=rows["overflows"],
    )
