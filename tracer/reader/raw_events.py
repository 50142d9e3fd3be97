"""Samples of software-defined events, and work before the calls of a rank, as the stream reader hands them over."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.tracer.reader._reader import EventSampleRows

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RawEventSamples:
    """Samples of one process; the last is the end of its run.

    Attributes:
        process: its number.
        position: int64 [samples]: executions of the engine's blocks.
        numbers: int64 [events]: which events of the board they are of, rising.
        values: float64 [samples, events]: 0 before the first value was read.
        sample, node, block, executions: int64 [rows]: what ran since the sample before: a node of the raw tree, and a
            block. No rows without a tree.
    """

    process: int
    position: Ints
    numbers: Ints
    values: npt.NDArray[np.float64]
    sample: Ints
    node: Ints
    block: Ints
    executions: Ints

    def with_blocks(self, blocks: Callable[[npt.NDArray[np.uint64]], npt.NDArray[np.uint64]]) -> RawEventSamples:
        """The samples with their blocks renumbered by `blocks`."""
        return replace(self, block=blocks(self.block.astype(np.uint64)).astype(np.int64))

    def moved(self, node_offset: int, block_offset: int) -> RawEventSamples:
        """The samples in a tree whose nodes and blocks are numbered from these offsets."""
        return replace(self, node=self.node + node_offset, block=self.block + block_offset)


def raw_event_samples(rows: EventSampleRows | None, process: int) -> tuple[RawEventSamples, ...]:
    """The reader's event samples as arrays; none of a process without events."""
    if rows is None:
        return ()
    position = np.frombuffer(rows["positions"], np.uint64).astype(np.int64)
    are_known = np.frombuffer(rows["are_known"], np.bool_)
    bits = np.frombuffer(rows["values"], np.int64).reshape(len(position), len(are_known))
    are_real = np.frombuffer(rows["are_real"], np.bool_)
    values = np.where(are_real, bits.view(np.float64), bits.astype(np.float64))
    work = np.frombuffer(rows["work"], np.uint64).reshape(-1, 4).astype(np.int64)
    return (
        RawEventSamples(
            process, position, np.flatnonzero(are_known), values[:, are_known], *(work[:, i].copy() for i in range(4))
        ),
    )


def raw_rank_work(rows: bytes) -> Ints | None:
    """The reader's work before each call of a rank: int64 [rows, 4] (call, node, block, executions); None without."""
    return np.frombuffer(rows, np.uint64).reshape(-1, 4).astype(np.int64) if rows else None
