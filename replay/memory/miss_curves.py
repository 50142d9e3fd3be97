"""Miss ratios over cache sizes: of a program, of a function, of the accesses of a source line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import PredictionError
from foretrace.base.names import demangle, short_name
from foretrace.cache_sim.base.hierarchy import Hierarchy, Level
from foretrace.cache_sim.base.level import MAX_WAYS
from foretrace.cache_sim.reuse.model import miss_count_error, misses_from_reuse
from foretrace.tracer.signature.records import Signature

SIZES_BYTES = tuple(4096 << shift for shift in range(15))
"""4 KB to 64 MB."""
FULLY_ASSOCIATIVE = 0
"""In place of a number of ways: as many as there are lines, or MAX_WAYS, which is the same to any program."""


@dataclass(frozen=True, slots=True)
class MissRatio:
    """Miss ratio of one cache. `standard_error`, from sampling, is known for a whole program only."""

    size_bytes: int
    ways: int
    line_bytes: int
    misses: float
    miss_ratio: float
    standard_error: float | None


@dataclass(frozen=True, slots=True)
class Curve:
    """Miss ratios of caches with so many ways (or `FULLY_ASSOCIATIVE`), by size."""

    ways: int
    points: tuple[MissRatio, ...]

    @property
    def title(self) -> str:
        """Title of the curve in a picture."""
        if self.ways == FULLY_ASSOCIATIVE:
            return "fully associative"
        return "direct-mapped" if self.ways == 1 else f"{self.ways}-way"


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A part of a program: which operations belong to it."""

    name: str
    operations: npt.NDArray[np.bool_]
    is_all: bool


def whole_program(signature: Signature) -> Part:
    """All operations."""
    return Part("the program", np.ones(len(signature.operations), dtype=np.bool_), True)


def part_of_function(signature: Signature, function: str) -> Part:
    """The operations of the functions of that name: mangled, demangled, or that without parameters.

    Raises:
        PredictionError: there is none that accesses memory.
    """
    blocks = [
        function in (block.function, demangle(block.function), short_name(block.function)) for block in signature.blocks
    ]
    return _checked(f"function {function}", np.array([blocks[op.block_id] for op in signature.operations], np.bool_))


def part_of_line(signature: Signature, place: str) -> Part:
    """The operations of a source line, `FILE:LINE`; the file by its path or the end of it.

    Raises:
        PredictionError: it has not that form, or no access there was traced.
    """
    file, colon, number = place.rpartition(":")
    if not colon or not file or not number.isdecimal():
        raise PredictionError(f"{place!r} is not a source line: write FILE:LINE, e.g. spmv.c:11")
    wanted = PurePath(file).parts
    chosen = [
        op.line == int(number) and PurePath(op.file).parts[-len(wanted) :] == wanted for op in signature.operations
    ]
    return _checked(f"line {place}", np.array(chosen, np.bool_))


def _checked(name: str, operations: npt.NDArray[np.bool_]) -> Part:
    if not operations.any():
        raise PredictionError(f"{name}: no memory access there was traced; `foretrace info` lists functions and lines")
    return Part(name, operations, False)


def miss_ratio(signature: Signature, part: Part, level: Level) -> MissRatio:
    """Miss ratio of one cache, as if it were the first level.

    Raises:
        PredictionError: the signature has no reuse distances.
    """
    if signature.reuse is None:
        raise PredictionError("the signature holds no reuse distances: trace the program again")
    executions = np.array([op.executions for op in signature.operations], dtype=np.float64)
    unit = np.array([op.unit_stride for op in signature.operations]) / np.maximum(executions, 1)
    misses = misses_from_reuse(signature.reuse, Hierarchy("one", (level,)), executions, unit)[:, 0]
    total, missed = float(executions[part.operations].sum()), float(misses[part.operations].sum())
    error = miss_count_error(signature.reuse, level) / max(total, 1.0) if part.is_all else None
    return MissRatio(
        level.size_bytes, level.ways, level.line_bytes, missed, missed / total if total else 0.0, error
    )  # fmt: skip


def miss_curve(
    signature: Signature, part: Part, ways: int, line_bytes: int, sizes_bytes: Sequence[int] = SIZES_BYTES
) -> Curve:
    """Miss ratios of the caches of these sizes that can have so many ways.

    Raises:
        PredictionError: the signature has no reuse distances.
    """
    points = []
    for size_bytes in sizes_bytes:
        if size_bytes < ways * line_bytes:
            continue
        own_ways = min(size_bytes // line_bytes, MAX_WAYS) if ways == FULLY_ASSOCIATIVE else ways
        level = Level("cache", size_bytes // (own_ways * line_bytes) * own_ways * line_bytes, own_ways, line_bytes)
        points.append(miss_ratio(signature, part, level))
    return Curve(ways, tuple(points))
