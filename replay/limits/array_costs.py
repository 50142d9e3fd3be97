"""Which of the measured array operations of Python stands for what a block does, and for how many points.

A profile has costs for some (`foretrace.profiles.points.ARRAY_OPERATIONS`); the tracer names what ran. Arithmetic that
a profile has no costs for takes the usual cycles. What else is not known here is left to the convolution's own limits,
but for linear algebra (`linear_algebra.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.profiles.points import ARRAY_OPERATIONS, ArrayCost
from foretrace.replay.spread import Floats
from foretrace.tracer.signature.records import Block, MemoryOperation, OperationKind, Signature

ARRAY_POINT = (0.7, 1.6)
"""What another operation of the kind takes, or the same on other numbers, over what was measured: 56 calls of NumPy and
SciPy over arrays of 2 million elements, on an Intel Xeon (Sapphire Rapids), each with its memory's time apart."""
USUAL_CYCLES = {
    "divide": (1.5, 1.3),
    "sqrt": (3.4, 4.6),
    "exp": (2.5, 17.0),
    "log": (2.6, 14.0),
    "sin": (25.0, 31.0),
    "power": (6.6, 45.0),
    "remainder": (28.0, 36.0),
    "int_remainder": (8.3, 7.3),
    "int_floor_divide": (1.9, 3.0),
}
"""Cycles a point of arithmetic that accesses do not tell, of a machine that was not calibrated: with AVX-512, for which
NumPy has code of its own, the geometric mean of two (the profiles epyc-turin-vm and xeon-granite-vm), and without it
those of a third (docs/measurements/public-programs.md)."""
USUAL_POINT = (0.5, 2.0)
"""Bounds of another machine's cycles over the usual ones: the two differ by up to 1.7, and `ARRAY_POINT`."""
_WITH_AVX512 = frozenset({"sunny-cove", "golden-cove", "redwood-cove", "zen4", "zen5"})
"""Microarchitectures of servers whose vectors have 512 bits, by their manufacturers' manuals."""
_MEASURED_BYTES = 8

_STANDING_FOR = {
    "divide": ("reciprocal", "true_divide"),
    "sqrt": ("cbrt",),
    "exp": ("exp2", "expm1", "sinh", "cosh", "tanh", "logaddexp"),
    "log": ("log2", "log10", "log1p"),
    "sin": ("cos", "tan", "arcsin", "arccos", "arctan"),
    "power": ("float_power", "arctan2", "hypot"),
    "remainder": ("fmod", "floor_divide"),
    "less": ("less_equal", "greater", "greater_equal", "equal", "not_equal", "isnan", "isfinite", "isinf", "signbit"),
    "logical_and": ("logical_or", "logical_xor", "logical_not"),
    "add": (
        *(
            "subtract",
            "multiply",
            "square",
            "negative",
            "positive",
            "absolute",
            "fabs",
            "conjugate",
            "sign",
            "copysign",
        ),
        *("maximum", "minimum", "fmax", "fmin", "clip", "floor", "ceil", "rint", "trunc", "invert"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"),
    ),
    "copy": (
        *("copyto", "concatenate", "array", "asarray", "full", "arange", "zeros_like", "ones_like", "full_like"),
        *("ndarray.copy", "ndarray.flatten", "ndarray.ravel", "ndarray.reshape", "ndarray.fill", "ndarray.repeat"),
        *("ndarray.__getitem__", "ndarray.__setitem__"),
    ),
    "astype": ("ndarray.astype",),
    "take": ("ndarray.take",),
    "put": ("ndarray.put",),
    "nonzero": ("ndarray.nonzero",),
    "maximum.reduce": (
        *("minimum.reduce", "logical_or.reduce", "logical_and.reduce", "ndarray.argmax", "ndarray.argmin"),
        "count_nonzero",
    ),
}
_OPERATION = {name: name for name in ARRAY_OPERATIONS} | {
    name: operation for operation, names in _STANDING_FOR.items() for name in names
}
_INDEXED = {"ndarray.__getitem__": "take", "ndarray.__setitem__": "put"}
_MASKED = {"ndarray.__getitem__": "take_mask", "ndarray.__setitem__": "put_mask"}
_BY_WIDTH = ("add", "divide", "sqrt", "less", "logical_and", "copy", "add.reduce", "multiply.reduce", "maximum.reduce")
"""What vectors do: of elements half as wide twice as many at a time."""
_READ_TWICE = ("take_mask", "put_mask", "nonzero")
"""The tracer counts two points for each of the mask's: one to count, one to pick."""
_OF_MASKS = ("where", "nonzero")
_TIMED = " (timed)"
_ROWS = ("add.reduce.row", "maximum.reduce.row")
_UNBUFFERED = (
    *("add.reduce", "multiply.reduce", "maximum.reduce", "add.accumulate", "add.at", "copy", "astype", "take", "put"),
    *("take_mask", "put_mask", "where", "nonzero", "bincount", "csr_matvec"),
)
"""What goes through arrays as they lie. Elementwise functions copy operands that are not one run to a buffer first."""
_RUNS_OF_CALL = 2
"""An operand that is one run of memory begins anew with each call, no more."""
_CHANGES_OF_RUN = 2
"""A mask changes where a run of elements that are picked begins, and where it ends."""
_MISSES_OF_RUN = 3
"""Of a subscript with a mask, which searches a run's end, copies it, and searches the next: on an Intel Xeon (Sapphire
Rapids) a run of a random mask took as long as 3.4 missed branches."""
_PICKING = ("where", "copyto", "putmask", "_place", "ndarray.compress")
"""What takes elements one by one as a mask says, which is in blocks of the same name, and branches on each."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayWork:
    """What the regions of array operations do.

    `points` is [regions, ARRAY_OPERATIONS], NaN of those that do other things; `branch_misses` [regions] is how often a
    mask changes, which no predictor foresees. `timed` [regions]: their time does not follow from what they touch, and
    is in that of their line.
    """

    points: Floats
    branch_misses: Floats
    timed: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, signature: Signature, members: Sequence[Sequence[Block]], is_array: npt.NDArray[np.bool_]) -> ArrayWork:
        """That of regions with these blocks, of which some are array operations."""
        accesses: dict[int, list[MemoryOperation]] = defaultdict(list)
        for operation in signature.operations:
            accesses[operation.block_id].append(operation)
        points = np.full((len(members), len(ARRAY_OPERATIONS)), np.nan)
        misses = np.zeros(len(members))
        timed = np.zeros(len(members), np.bool_)
        for region in np.flatnonzero(is_array).tolist():
            blocks = members[region]
            timed[region] = any(block.module.endswith(_TIMED) for block in blocks)
            calls = signature.loops[blocks[0].loop_id or 0].entries
            points[region], misses[region] = _work(blocks, [accesses[block.block_id] for block in blocks], calls)
        return cls(points, misses, timed)


def _work(blocks: Sequence[Block], operations: Sequence[Sequence[MemoryOperation]], calls: int) -> tuple[Floats, float]:
    """Points and missed branches of one region, which was run so many times."""
    points = np.zeros(len(ARRAY_OPERATIONS))
    misses = 0.0
    masked = any(block.module.endswith(" (mask)") for block in blocks)
    if blocks[0].module.removeprefix("numpy.") in _PICKING:
        misses += _changes(blocks, operations, calls)
    for block, accesses in zip(blocks, operations, strict=True):
        name, _, part = block.module.partition(" ")
        if masked and not part:
            misses += _MISSES_OF_RUN * max(max(map(_breaks, accesses), default=0) - calls, 0)
        if part == "(index check)" or (masked and not part):
            continue  # measured with the rest
        operation = _operation_of(name.removeprefix("numpy."), part, block, accesses)
        if operation is None:
            return np.full_like(points, np.nan), misses
        if operation in _OF_MASKS and not _has_mask(accesses):
            continue  # what the mask leads to
        if operation == "csr_matvec" and all(access.index_operation is None for access in accesses):
            continue  # its rows
        points[ARRAY_OPERATIONS.index(operation)] += block.executions * _weight(operation, accesses)
        if operation not in _UNBUFFERED and not name.endswith(".reduce"):
            in_stretches = [access.executions for access in accesses if _breaks(access) > _RUNS_OF_CALL * calls]
            points[ARRAY_OPERATIONS.index("stretch")] += sum(in_stretches)
        if name.endswith(".reduce") and operation not in _UNBUFFERED:
            rows = max((_breaks(access) for access in accesses if access.is_store), default=0)
            points[ARRAY_OPERATIONS.index("add.reduce.row")] += max(rows - calls, 0)
    return points, misses


def _changes(blocks: Sequence[Block], operations: Sequence[Sequence[MemoryOperation]], calls: int) -> float:
    """How often masks change that decide for each element what is done; all of these lie in C order."""
    points = sum(b.executions for b, accesses in zip(blocks, operations, strict=True) if _has_mask(accesses))
    changes = 0.0
    for block, accesses in zip(blocks, operations, strict=True):
        if points and not _has_mask(accesses):
            runs = max(max(map(_breaks, accesses), default=0) - calls, 0)
            of_both = block.executions >= points  # what is picked where it is true, and where it is not
            changes = max(changes, runs * (1 if of_both else _CHANGES_OF_RUN))
    return changes


def _has_mask(accesses: Sequence[MemoryOperation]) -> bool:
    return any(access.size_bytes == 1 and not access.is_store for access in accesses)


def _breaks(access: MemoryOperation) -> int:
    """How often a run of neighbours ends."""
    return access.strided + access.irregular


def _weight(operation: str, accesses: Sequence[MemoryOperation]) -> float:
    """Points of those measured that one of the operation stands for."""
    if operation in _READ_TWICE:
        return 0.5
    if operation not in _BY_WIDTH:
        return 1.0
    widest = max((access.size_bytes for access in accesses), default=_MEASURED_BYTES)
    return widest / (1 if operation == "logical_and" else _MEASURED_BYTES)


def _operation_of(name: str, part: str, block: Block, accesses: Sequence[MemoryOperation]) -> str | None:
    if part == "(mask)":
        return _MASKED.get(name)
    if name in _INDEXED and any(access.index_operation is not None for access in accesses):
        return _INDEXED[name]
    if name == "scipy.sparse.csr_matvec":
        return "csr_matvec"
    stem, _, method = name.rpartition(".")
    if method == "at":
        return "add.at"
    if method == "reduce" and any(access.is_store for access in accesses):
        if all(o.kind is OperationKind.MOVE for o in block.operations):
            return "maximum.reduce.row" if _OPERATION.get(name) == "maximum.reduce" else "add.reduce.row"
        name = stem  # over an outer dimension, an array is added to another
    elif method == "reduce" and name not in _OPERATION and stem in _OPERATION:
        return "add.reduce"
    elif method == "accumulate":
        return "add.accumulate"
    operation = _OPERATION.get(name)
    if operation == "remainder" and any(o.kind is OperationKind.INT_ALU for o in block.operations):
        return "int_floor_divide" if name == "floor_divide" else "int_remainder"
    return operation


def point_times(costs: Sequence[ArrayCost], microarchitecture: str | None, cycle_s: float) -> Floats:
    """[3, ARRAY_OPERATIONS]: seconds of a point; of a row as of an addition's.

    Of arithmetic that was not measured the usual cycles; NaN of all else.
    """
    by_name = {cost.operation: cost.point_s for cost in costs}
    if "add" in by_name:
        by_name = dict.fromkeys(_ROWS, by_name["add"]) | by_name
    column = 0 if microarchitecture in _WITH_AVX512 else 1
    times = np.full((3, len(ARRAY_OPERATIONS)), np.nan)
    for number, name in enumerate(ARRAY_OPERATIONS):
        if name in by_name:
            times[:, number] = by_name[name] * np.array([ARRAY_POINT[0], 1.0, ARRAY_POINT[1]])
        elif name in USUAL_CYCLES:
            usual_s = USUAL_CYCLES[name][column] * cycle_s
            times[:, number] = usual_s * np.array([USUAL_POINT[0], 1.0, USUAL_POINT[1]])
    return times


def of_accesses(point_s: Floats) -> Floats:
    """[3, ARRAY_OPERATIONS]: what of the points' times goes to loads and stores, no more than an addition takes, or the
    quickest operation where that is not known."""
    added = point_s[:, ARRAY_OPERATIONS.index("add"), None]
    return np.fmin(point_s, np.where(np.isnan(added), np.nanmin(point_s, axis=1, keepdims=True), added))


def array_times(point_s: Floats, points: Floats) -> Floats:
    """[3, regions]: seconds of each region's points; NaN where they are not known, or not measured."""
    times: Floats = np.where(points > 0, point_s[:, None, :] * points, 0 * points).sum(axis=2)
    return times
