"""Dependences between iterations as the stream reader hands them over."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from foretrace.tracer.reader._reader import DependenceRows

Counts = npt.NDArray[np.uint64]


class RawKind(IntEnum):
    """How two accesses of one place follow on one another: `enum ft_dependence` of dependences.h."""

    FLOW_WITHIN = 0
    FLOW = 1
    OUTPUT = 2
    ANTI = 3
    UPDATE = 4
    STORES = 5
    WRITTEN = 6


@dataclass(frozen=True, slots=True, eq=False)
class RawDependences:
    """Tables of numbers, uint64 [rows, columns]; dependences.h names their columns.

    `share` of the memory that the program touched was followed; `in_windows`: not all the time.
    """

    rows: Counts
    loops: Counts
    share: float
    in_windows: bool = False


def raw_dependences(tables: DependenceRows | None) -> RawDependences | None:
    """What the reader returned, as arrays."""
    if tables is None:
        return None
    rows = np.frombuffer(tables["rows"], np.uint64).reshape(-1, 8)
    loops = np.frombuffer(tables["loops"], np.uint64).reshape(-1, 6)
    return RawDependences(rows, loops, tables["share"], tables["in_windows"])
