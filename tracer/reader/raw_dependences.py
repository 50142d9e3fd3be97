"""Dependences between iterations as the stream reader hands them over."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from foretrace.tracer.signature.data_flow_records import ExaminedLoop

if TYPE_CHECKING:
    from foretrace.tracer.reader._reader import DependenceRows

Counts = npt.NDArray[np.uint64]


class RawKind(IntEnum):
    """Order of two accesses to one place: `enum ft_dependence` of dependences.h."""

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
    """The reader's dependences as arrays."""
    if tables is None:
        return None
    rows = np.frombuffer(tables["rows"], np.uint64).reshape(-1, 8)
    loops = np.frombuffer(tables["loops"], np.uint64).reshape(-1, 7)
    return RawDependences(rows, loops, tables["share"], tables["in_windows"])


NO_LOOP = (1 << 32) - 1
"""In a column of loops of dependences.h."""


def nest_of(
    innermost: int, outermost: int, around: Sequence[int], nodes: Sequence[int], parents: Sequence[int]
) -> list[int]:
    """The nodes of the loops from one out to another: a row of `RawKind.WRITTEN` is of them all.

    Loops of the recording that are none in the finished tree are passed over; those between two that are in it count,
    also where the recording came to know of them late.

    Args:
        innermost, outermost: rows of `RawDependences.loops`.
        around: of each row the loop around it, `NO_LOOP` where there is none.
        nodes: of each row its node in the tree, -1 where it has none.
        parents: of each node.
    """
    beyond = set(_outwards(outermost, around)[1:])
    inside = itertools.takewhile(lambda loop: loop != outermost and loop not in beyond, _outwards(innermost, around))
    found = list(dict.fromkeys(nodes[loop] for loop in (*inside, outermost) if nodes[loop] >= 0))
    if not found:
        return []
    path = [found[0]]
    while path[-1] != found[-1] and parents[path[-1]] >= 0:
        path.append(parents[path[-1]])
    return path if path[-1] == found[-1] else found


def _outwards(loop: int, around: Sequence[int]) -> list[int]:
    """A loop and those around it."""
    found = [loop]
    while around[found[-1]] != NO_LOOP:
        found.append(around[found[-1]])
    return found


def examined_loop(node: int, iterations: int, written_bytes: int, overwritten_bytes: int) -> ExaminedLoop:
    """Record of a loop's examination. A loop has written all bytes that it overwrites, also those of loops inside that
    belong to no node, or that the recording came to know of late."""
    return ExaminedLoop(node, iterations, max(written_bytes, overwritten_bytes), overwritten_bytes)
