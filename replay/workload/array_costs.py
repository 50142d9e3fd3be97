"""Measured array operations of Python that stand for what blocks do, and for how many points.

A profile has costs for some (`foretrace.profiles.points.ARRAY_OPERATIONS`), each for types of elements; the tracer
tells what ran, on which types, in which layout and how dense masks were. One rule decides what a region takes: where
each of its blocks is an operation that was calibrated, its cost; else as long as it was timed while it was traced. Of
signatures without such times, what is not known here is left to the convolution's own limits. Linear algebra is in
`linear_algebra.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.profiles.points import ARRAY_KEYS, ArrayCost
from foretrace.replay.base.spread import Floats
from foretrace.tracer.signature.records import ArrayTime, Block, MemoryOperation, OperationKind, Signature

ARRAY_POINT = (0.7, 1.6)
"""Time of another operation of the kind, or of the same on other numbers, over what was measured: 56 calls of NumPy and
SciPy over arrays of 2 million elements, on an Intel Xeon (Sapphire Rapids), each with its memory's time apart."""
Key = tuple[str, str]
_ADD, _STRETCH, _ROW = ("add", "float64"), ("stretch", "float64"), ("add.reduce.row", "float64")
_AS_ADD = ("subtract", "maximum", "minimum", "negative", "absolute", "conjugate")
_AS_ADD_OF_FLOATS = ("multiply", "square", "floor", "ceil", "rint", "trunc")
_AS_ADD_OF_INTEGERS = ("bitwise_and", "bitwise_or", "bitwise_xor", "invert")
_STANDING_FOR = {
    "divide": ("true_divide",),
    "sin": ("cos",),
    "less": ("less_equal", "greater", "greater_equal", "equal", "not_equal"),
    "logical_and": ("logical_or",),
}
"""Loops of vectors that differ in an instruction, and polynomials of the same length."""
_ELEMENTWISE = {name: operation for operation, names in _STANDING_FOR.items() for name in names} | {
    name: name for name in ("add", "divide", "sqrt", "exp", "log", "sin", "power", "less", "logical_and", "remainder")
}
_OPERANDS = {"power": 2, "remainder": 2, "int_remainder": 1, "int_floor_divide": 1}
"""Arrays that it was calibrated with: another exponent or divisor takes another path."""
_REDUCTIONS = {
    "add": "add.reduce",
    "multiply": "multiply.reduce",
    "maximum": "maximum.reduce",
    "minimum": "maximum.reduce",
}
_COPIES = frozenset(
    (
        *("copyto", "concatenate", "array", "asarray", "ascontiguousarray", "ndarray.copy", "ndarray.flatten"),
        *("ndarray.ravel", "ndarray.reshape", "ndarray.__setitem__"),
    )
)
_FILLS = frozenset(("copyto", "ndarray.fill", "ndarray.__setitem__"))
_TAKES = {"ndarray.__getitem__": "take", "ndarray.take": "take", "ndarray.__setitem__": "put"}
_BY_VALUES = frozenset((("sin", "float64"), ("power", "float64"), ("remainder", "float64")))
"""Their time depends on the numbers: where a time as traced is known, it tells more than a cost."""
_MASKED = {"ndarray.__getitem__": "take_mask", "ndarray.__setitem__": "put_mask"}
_READ_TWICE = 2
"""The tracer counts two points for each of a mask's: one to count, one to pick."""
_TIMED = " (timed)"
_RUNS_OF_CALL = 2
"""An operand that is one run of memory begins anew with each call, no more."""
_LEAST_STRETCH = 16
"""Points of one: in shorter ones, calls of loops take more than the loops."""
_FEW_RUNS = 0.002
"""Runs as a share of a mask's elements: with more, branches are missed, and how long that takes was not calibrated."""
_HALF = (0.4, 0.6)
"""Shares of a mask as it was calibrated, about."""
_CHANGES_OF_RUN = 2
"""A mask changes where a run of elements that are picked begins, and where it ends."""
_MISSES_OF_RUN = 3
"""Missed branches per run of a subscript with a mask, which searches a run's end, copies it, and searches the next: on
an Intel Xeon (Sapphire Rapids) a run of a random mask took as long as 3.4 missed branches."""
_PICKING = ("where", "copyto", "putmask", "_place", "ndarray.compress")
"""Operations that take elements one by one as a mask says, which is in blocks of the same name, and branch on each."""
_WORD = 8
"""Bytes of the elements that movements were calibrated with."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayWork:
    """Work of regions of array operations.

    `points` is [regions, ARRAY_KEYS], NaN of those that do other things; `branch_misses` [regions] is how often a mask
    changes, which no predictor foresees. `kept` [regions]: the time of some calls is in that of their line, or of a
    compiled function. `lines` and `faults` [regions]: what the others took as they were traced, NaN where that is not
    known, and pages that they mapped.
    """

    points: Floats
    branch_misses: Floats
    kept: npt.NDArray[np.bool_]
    lines: Floats
    faults: Floats

    @classmethod
    def of(cls, signature: Signature, members: Sequence[Sequence[Block]], is_array: npt.NDArray[np.bool_]) -> ArrayWork:
        """Array work of regions with these blocks, of which some are array operations."""
        accesses: dict[int, list[MemoryOperation]] = defaultdict(list)
        for operation in signature.operations:
            accesses[operation.block_id].append(operation)
        times = {time.block_id: time for time in signature.array_times}
        points = np.full((len(members), len(ARRAY_KEYS)), np.nan)
        misses, kept = np.zeros(len(members)), np.zeros(len(members), np.bool_)
        lines, faults = np.full(len(members), np.nan), np.zeros(len(members))
        for region in np.flatnonzero(is_array).tolist():
            blocks = members[region]
            of_region = [times[block.block_id] for block in blocks if block.block_id in times]
            kept[region] = any(b.module.endswith(_TIMED) for b in blocks) or any(t.kept_calls for t in of_region)
            calls = signature.loops[blocks[0].loop_id or 0].entries
            touched = [accesses[block.block_id] for block in blocks]
            one = _Region(blocks, touched, [times.get(block.block_id) for block in blocks], calls)
            misses[region] = one.branch_misses()
            points[region] = one.points()
            taken = sum(time.lines for time in of_region)
            is_hooked = all(block.module.startswith(("numpy.", "scipy.")) for block in blocks)
            if of_region and (taken or kept[region] or not is_hooked):  # else no call was timed
                lines[region] = taken
                faults[region] = sum(time.faults for time in of_region)
        return cls(points, misses, kept, lines, faults)


@dataclass(frozen=True, slots=True)
class _Region:
    """Blocks of one array operation at one place, with their accesses and times, which was called so often."""

    blocks: Sequence[Block]
    accesses: Sequence[Sequence[MemoryOperation]]
    times: Sequence[ArrayTime | None]
    calls: int

    def points(self) -> Floats:
        """[ARRAY_KEYS]: of each calibrated operation; NaN if a block is none of them."""
        points = np.zeros(len(ARRAY_KEYS))
        masked = self._masked()
        if masked is not None:
            twice = self.blocks[0].module.endswith("nonzero")
            found = {masked: self._mask_points() / (_READ_TWICE if twice else 1)}
        else:
            found = {}
            for block, accesses, time in zip(self.blocks, self.accesses, self.times, strict=True):
                if "(index check)" in block.module:
                    continue  # measured with the rest
                of_block = self._of_block(block, accesses, _types_of(block, accesses, time))
                if of_block is None or (time is not None and not _BY_VALUES.isdisjoint(of_block)):
                    return np.full_like(points, np.nan)
                for key, number in of_block.items():
                    found[key] = found.get(key, 0.0) + number
        for key, number in found.items():
            if key not in ARRAY_KEYS:
                return np.full_like(points, np.nan)
            points[ARRAY_KEYS.index(key)] = number
        return points

    def branch_misses(self) -> float:
        """The number of changes between set and clear elements of masks."""
        if self.blocks[0].module.removeprefix("numpy.") in _PICKING:
            return self._changes()
        if not any(block.module.endswith(" (mask)") for block in self.blocks):
            return 0.0
        picked = [a for b, a in zip(self.blocks, self.accesses, strict=True) if b.module.endswith(" (picked)")]
        return float(sum(_MISSES_OF_RUN * max(max(map(_breaks, one), default=0) - self.calls, 0) for one in picked))

    def _changes(self) -> float:
        """The number of changes in masks, all in C order, that decide for each element what is done."""
        points = self._mask_points()
        changes = 0.0
        for block, accesses in zip(self.blocks, self.accesses, strict=True):
            if points and not _has_mask(accesses):
                runs = max(max(map(_breaks, accesses), default=0) - self.calls, 0)
                of_both = block.executions >= points  # what is picked where it is true, and where it is not
                changes = max(changes, runs * (1 if of_both else _CHANGES_OF_RUN))
        return changes

    def _mask_points(self) -> float:
        """Elements of all masks."""
        points = sum(b.executions for b, a in zip(self.blocks, self.accesses, strict=True) if _has_mask(a))
        return points / (_READ_TWICE if any(b.module.endswith(" (mask)") for b in self.blocks) else 1)

    def _masked(self) -> Key | None:
        """The operation of a subscript that is a mask, or of `where` or `nonzero`; ("", "") if not calibrated so."""
        name = self.blocks[0].module.removeprefix("numpy.").partition(" ")[0]
        is_mask = any(block.module.endswith(" (mask)") for block in self.blocks)
        operation = _MASKED.get(name) if is_mask else {"where": "where", "ndarray.nonzero": "nonzero"}.get(name)
        if operation is None:
            return None
        picking = [
            (block, access)
            for block, accesses in zip(self.blocks, self.accesses, strict=True)
            for access in accesses
            if access.size_bytes > 1 and not (operation == "where" and access.is_store)
        ]
        masks = self._mask_points() / (_READ_TWICE if operation == "nonzero" else 1)
        picked = max((block.executions for block, _ in picking), default=0)
        runs = max((max(_breaks(access) - self.calls, 0) for _, access in picking if not access.is_store), default=0)
        runs = max(runs, self._runs_stored(operation, picking))
        chooses = all(len(accesses) > 1 for accesses in self.accesses if _has_mask(accesses))  # else it is `nonzero`
        if not masks or runs > _FEW_RUNS * masks or not self._moves_words() or (operation == "where" and not chooses):
            return "", ""
        share = picked / masks
        return (operation, "float64") if operation == "where" or _HALF[0] <= share <= _HALF[1] else ("", "")

    def _moves_words(self) -> bool:
        """Whether all but masks are words."""
        accesses = [access for of_block in self.accesses for access in of_block]
        return all(access.size_bytes == _WORD for access in accesses if access.is_store or access.size_bytes > 1)

    def _runs_stored(self, operation: str, picking: Sequence[tuple[Block, MemoryOperation]]) -> int:
        of_stores = operation == "put_mask"
        return max((max(_breaks(a) - self.calls, 0) for _, a in picking if of_stores and a.is_store), default=0)

    def _of_block(
        self, block: Block, accesses: Sequence[MemoryOperation], types: Sequence[str]
    ) -> dict[Key, float] | None:
        """Points of calibrated operations that one block has; None if it is none of them."""
        name = block.module.removeprefix("numpy.").partition(" ")[0]
        stem, _, method = name.rpartition(".")
        points = float(block.executions)
        if name == "scipy.sparse.csr_matvec":
            products = any(access.index_operation is not None for access in accesses)
            return {("csr_matvec", "float64"): points} if products else {}  # or its rows
        if method == "at":
            is_known = stem == "add" and block.flops and self._in_words(accesses)
            return {("add.at", "float64"): points} if is_known else None
        if name == "bincount":
            counts = any(o.kind is OperationKind.INT_ALU for o in block.operations)
            return {("bincount", "int64"): points} if counts and self._in_words(accesses) else None
        if method == "reduce":
            return self._of_reduction(stem, block, accesses, types)
        if method == "accumulate":
            is_known = stem == "add" and set(types) == {"float64"} and not self._is_broken(block, accesses)
            return {("add.accumulate", "float64"): points} if is_known else None
        if name in _TAKES and (of_indices := self._of_indices(block, accesses)) is not None:
            return {(_TAKES[name], "float64"): points} if of_indices else None
        if name == "ndarray.astype" and types != ["float64", "int64"]:
            types = [] if len(set(types)) > 1 else types  # another type; the same is a copy
            name = "ndarray.copy"
        if name == "ndarray.astype":
            return None if self._is_broken(block, accesses) else {("astype", "float64"): points}
        if name in _COPIES:
            return self._of_copy(name, block, accesses, types)
        key = self._elementwise(name, accesses, types)
        return None if key is None else self._in_layout(key, block, accesses)

    def _elementwise(self, name: str, accesses: Sequence[MemoryOperation], types: Sequence[str]) -> Key | None:
        loads = [kind for access, kind in zip(accesses, types, strict=True) if not access.is_store]
        stores = [kind for access, kind in zip(accesses, types, strict=True) if access.is_store]
        if len(set(loads)) != 1 or len(stores) != 1:
            return None
        (kind,) = set(loads)
        operation = _ELEMENTWISE.get(name)
        if name in _AS_ADD or name in (_AS_ADD_OF_FLOATS if kind.startswith("float") else _AS_ADD_OF_INTEGERS):
            operation = "add"
        if kind.startswith("int"):
            operation = {"remainder": "int_remainder", "floor_divide": "int_floor_divide"}.get(name, operation)
        if operation is None or len(loads) > _OPERANDS.get(operation, len(loads)):
            return None
        if len(loads) < _OPERANDS.get(operation, 1) or stores[0] != ("bool" if operation == "less" else kind):
            return None
        return operation, kind

    def _in_layout(self, key: Key, block: Block, accesses: Sequence[MemoryOperation]) -> dict[Key, float] | None:
        """Arrays are one run of memory, or what is added lies in stretches."""
        points = {key: float(block.executions)}
        in_stretches = [access for access in accesses if _breaks(access) > _RUNS_OF_CALL * self.calls]
        if in_stretches:
            shortest = min(access.executions / _breaks(access) for access in in_stretches)
            if key != _ADD or shortest < _LEAST_STRETCH:
                return None
            points[_STRETCH] = float(sum(access.executions for access in in_stretches))
        return points

    def _of_reduction(
        self, stem: str, block: Block, accesses: Sequence[MemoryOperation], types: Sequence[str]
    ) -> dict[Key, float] | None:
        """Over the innermost dimension: a pass over the array, and each result. Over another, arrays are added up."""
        reduction, loads = _REDUCTIONS.get(stem), [access for access in accesses if not access.is_store]
        if reduction is None or len(set(types)) != 1:
            return None
        if len(accesses) == 1:
            return None if self._is_broken(block, accesses) else {(reduction, types[0]): float(block.executions)}
        rows = "maximum.reduce.row" if reduction == "maximum.reduce" else "add.reduce.row"
        if len(loads) == 1:
            return {(rows, "float64"): float(block.executions)}
        key = self._elementwise(stem, accesses, types)
        if key is None or self._is_broken(block, accesses):
            return None
        of_rows = max((_breaks(access) for access in accesses if access.is_store), default=0)
        return {key: float(block.executions), _ROW: float(max(of_rows - self.calls, 0))}

    def _of_copy(
        self, name: str, block: Block, accesses: Sequence[MemoryOperation], types: Sequence[str]
    ) -> dict[Key, float] | None:
        loads = [access for access in accesses if not access.is_store]
        is_fill = not loads and name in _FILLS
        if len(set(types)) != 1 or self._is_broken(block, accesses) or not (is_fill or len(loads) == 1):
            return None
        return {("copy", "float64"): block.executions * accesses[0].size_bytes / _WORD}

    def _of_indices(self, block: Block, accesses: Sequence[MemoryOperation]) -> bool | None:
        """Whether elements of words are taken by one array of indices; None where no indices are."""
        if not any(access.index_operation is not None for access in accesses):
            is_index = any(access.index_operation is not None for of_other in self.accesses for access in of_other)
            return False if is_index else None
        return len(accesses) <= 3 and self._in_words(accesses) and not any(  # indices, and what goes to and fro
            other.executions != block.executions for other in self.blocks if "(index check)" not in other.module
        )  # fmt: skip

    def _in_words(self, accesses: Sequence[MemoryOperation]) -> bool:
        return all(access.size_bytes == _WORD for access in accesses)

    def _is_broken(self, block: Block, accesses: Sequence[MemoryOperation]) -> bool:
        """Whether runs of memory are short."""
        runs = max(map(_breaks, accesses), default=0)
        return runs > _RUNS_OF_CALL * self.calls and runs * _LEAST_STRETCH > block.executions


def _types_of(block: Block, accesses: Sequence[MemoryOperation], time: ArrayTime | None) -> list[str]:
    """The types of a block's elements; where the signature does not tell, those of numbers of that size."""
    if time is not None:
        return time.operand_types.split(",") if time.operand_types else []
    is_integer = any(operation.kind is OperationKind.INT_ALU for operation in block.operations)
    return [
        "bool" if access.size_bytes == 1 else f"{'int' if is_integer else 'float'}{8 * access.size_bytes}"
        for access in accesses
    ]


def _has_mask(accesses: Sequence[MemoryOperation]) -> bool:
    return any(access.size_bytes == 1 and not access.is_store for access in accesses)


def _breaks(access: MemoryOperation) -> int:
    """Number of ends of runs of neighbours."""
    return access.strided + access.irregular


def point_times(costs: Sequence[ArrayCost]) -> Floats:
    """[3, ARRAY_KEYS]: seconds of a point, NaN of what was not measured; of a row as of an addition's."""
    known = {cost.key: cost for cost in costs}
    times = np.full((3, len(ARRAY_KEYS)), np.nan)
    for number, (name, kind) in enumerate(ARRAY_KEYS):
        cost = known.get((name, kind))
        if cost is None and name.endswith(".row"):
            cost = known.get(_ADD)
        if cost is not None:
            spread = 1 + (cost.noise or 0.0)
            times[:, number] = cost.point_s * np.array([ARRAY_POINT[0] / spread, 1.0, ARRAY_POINT[1] * spread])
    return times


def of_accesses(point_s: Floats) -> Floats:
    """[3, ARRAY_KEYS]: what of the points' times goes to loads and stores, no more than an addition takes, or the
    quickest operation where that is not known."""
    if np.isnan(point_s).all():
        return point_s
    added = point_s[:, ARRAY_KEYS.index(_ADD), None]
    return np.fmin(point_s, np.where(np.isnan(added), np.nanmin(point_s, axis=1, keepdims=True), added))


def array_times(point_s: Floats, points: Floats) -> Floats:
    """[3, regions]: seconds of each region's points; NaN where they are not known, or not measured."""
    times: Floats = np.where(points > 0, point_s[:, None, :] * points, 0 * points).sum(axis=2)
    return times
