"""When the bursts come in which a long run's accesses are recorded, and what that is expected to cost.

Needed before a program starts, so what takes long to import has no place here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum


class Accuracy(StrEnum):
    """Extent to which a run is recorded access by access: all of a run that is not too long, bursts, or all."""

    AUTO = "auto"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Schedule:
    """When bursts come: see struct ft_schedule of stream.h. Lengths are in chunks of 8192 words.

    A word is a block's execution, or an access other than the first of a block.
    """

    first_chunks: int
    period_chunks: int
    warm_chunks: int
    measured_chunks: int
    seed: int


@dataclass(frozen=True, slots=True)
class ExpectedCost:
    """Wall time as a multiple of QEMU's alone: the geometric mean over five programs, the least and the most."""

    mean: float
    least: float
    most: float


# Measured with `make accuracy`, three LRU levels, runs of 65 to 350 million accesses (docs/sampling.md).
EXPECTED_COSTS = {
    Accuracy.LOW: ExpectedCost(2.1, 1.1, 3.7),
    Accuracy.MEDIUM: ExpectedCost(2.4, 1.2, 5.8),
    Accuracy.HIGH: ExpectedCost(5.3, 3.2, 9.2),
}

AUTO_EXACT_CHUNKS = 160_000
"""Chunks of 8192 words that `Accuracy.AUTO` records whole: of most programs about 10^9 accesses."""

_LENGTHS = {
    Accuracy.AUTO: (AUTO_EXACT_CHUNKS, 1024, 128, 128),
    Accuracy.LOW: (1024, 4096, 128, 128),
    Accuracy.MEDIUM: (2048, 1024, 128, 256),
}
"""The fields of `Schedule`, but for the seed."""


def schedule_of(accuracy: Accuracy, seed: int | None = None) -> Schedule | None:
    """When bursts come, at random places that `seed` (0 to 2^63 - 1) decides; None where all is recorded."""
    if accuracy is Accuracy.HIGH:
        return None
    return Schedule(*_LENGTHS[accuracy], seed=int.from_bytes(os.urandom(4)) >> 1 if seed is None else seed)
