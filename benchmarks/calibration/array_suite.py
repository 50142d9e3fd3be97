"""Time per point of array operations of Python: NumPy's loops, and SciPy's sparse product where it is installed.

Each is timed over arrays that lie in near caches and over a few elements; a point takes the difference.
"""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from foretrace.benchmarks.harness.sampling import Measurement, Run, Timing, rounded
from foretrace.profiles.points import ARRAY_OPERATIONS, ArrayCost

_POINTS, _FEW_POINTS = 1000, 8
"""Three vectors of the first lie in a nearest cache."""
_COLUMNS = 100
_POINTS_OF_ROW = 4
_NONZEROS, _NONZEROS_OF_ROW = 20_000, 10
_BOOLEANS = 8000
_MORE_POINTS = {"csr_matvec": _NONZEROS, "logical_and": _BOOLEANS}
"""More of them: the call of a sparse product takes as long as thousands, and bytes begin with short vectors."""
_FEW, _OF = ", few", " of "
_BESIDE = {
    "stretch": ("add", 1),
    "add.reduce.row": ("add.reduce", _POINTS_OF_ROW),
    "maximum.reduce.row": ("maximum.reduce", _POINTS_OF_ROW),
}
"""Operations measured together with so many points of another operation."""


def array_measurements() -> dict[str, Measurement]:
    """The measurements, by name: two of each operation."""
    return {
        name + suffix: Measurement(name + suffix, repeated(call))
        for suffix, points in (("", _POINTS), (_FEW, _FEW_POINTS))
        for name, call in _operations(points).items()
    }


def array_costs(measured: Mapping[str, Timing], source: str) -> tuple[ArrayCost, ...]:
    """The cost of a point of each operation. What came out impossible, for noise, is left out."""
    costs = []
    for name, many in measured.items():
        few = measured.get(name + _FEW)
        if few is None or many.time_s <= few.time_s:
            continue
        taken_s = many.time_s - few.time_s
        noise_s = many.noise * many.time_s + few.noise * few.time_s
        points = _MORE_POINTS.get(name, _POINTS) - _FEW_POINTS
        operation, _, element_type = name.partition(_OF)
        costs.append(ArrayCost(operation, taken_s / points, source, noise_s / taken_s, element_type or None))
    return tuple(map(_as_written, _alone(costs)))


def _alone(costs: Sequence[ArrayCost]) -> Iterator[ArrayCost]:
    """Costs less those of what they were measured with."""
    by_name = {cost.operation: cost for cost in costs if cost.element_type is None}
    for cost in costs:
        name, points = _BESIDE.get(cost.operation, ("", 0)) if cost.element_type is None else ("", 0)
        beside = by_name.get(name)
        if not points:
            yield cost
        elif beside is not None and cost.point_s > points * beside.point_s:
            beside_s = points * beside.point_s
            point_s = cost.point_s - beside_s
            noise = (cost.point_s * (cost.noise or 0.0) + beside_s * (beside.noise or 0.0)) / point_s
            yield ArrayCost(cost.operation, point_s, cost.source, noise)


def _as_written(cost: ArrayCost) -> ArrayCost:
    return ArrayCost(cost.operation, rounded(cost.point_s), cost.source, rounded(cost.noise or 0.0), cost.element_type)


def repeated(call: Callable[[], Any], operations: int = 1) -> Run:
    """Runs of a call that does so many operations."""

    def run(repeats: int) -> tuple[float, int]:
        begin = time.perf_counter()
        for _ in itertools.repeat(None, repeats):
            call()
        return time.perf_counter() - begin, repeats * operations

    return run


def _operations(n: int) -> dict[str, Callable[[], Any]]:
    """Calls over `n` points each, by the name in `profiles.points.ARRAY_OPERATIONS`, and " of float32" for other types
    than its first."""
    calls = _on_usual_types(n)
    for operation, kinds in ARRAY_OPERATIONS.items():
        for kind in kinds[1:]:
            calls[f"{operation}{_OF}{kind}"] = _on_type(operation, kind, n)
    return calls


def _on_type(operation: str, kind: str, n: int) -> Callable[[], Any]:
    """An elementwise function or a reduction on numbers of another type."""
    random = np.random.default_rng(1)
    a, b = (
        (1000 * random.random(n)).astype(kind) if kind.startswith("int") else random.random(n).astype(kind)
        for _ in "ab"
    )
    name, _, method = operation.partition(".")
    function = getattr(np, name)
    if method:
        return lambda: function.reduce(a)
    operands = (a, b)[: function.nin]
    out = np.empty_like(function(*operands))
    return lambda: function(*operands, out=out)


def _on_usual_types(n: int) -> dict[str, Callable[[], Any]]:
    random = np.random.default_rng(1)
    a, b, c = random.random(n), random.random(n), np.empty(n)
    i, j = random.integers(0, n, n), np.empty(n, np.int64)
    m, d = np.arange(n) < n // 2, np.empty(n, np.bool_)
    x, y = random.random((2, _BOOLEANS if n == _POINTS else n)) < 0.5
    shape = max(n // _COLUMNS, 2), min(n // 2, _COLUMNS)
    table, sums = random.random((shape[0], shape[1] + 2)), np.empty(shape)
    short = random.random((n, _POINTS_OF_ROW))
    calls: dict[str, Callable[[], Any]] = {
        "add": lambda: np.add(a, b, out=c),
        "divide": lambda: np.divide(a, b, out=c),
        "sqrt": lambda: np.sqrt(a, out=c),
        "exp": lambda: np.exp(a, out=c),
        "log": lambda: np.log(a, out=c),
        "sin": lambda: np.sin(a, out=c),
        "power": lambda: np.power(a, b, out=c),
        "stretch": lambda: np.add(table[:, 1:-1], sums, out=sums),
        "remainder": lambda: np.remainder(a, b, out=c),
        "int_remainder": lambda: np.remainder(i, 7, out=j),
        "int_floor_divide": lambda: np.floor_divide(i, 7, out=j),
        "less": lambda: np.less(a, b, out=d),
        "logical_and": lambda: np.logical_and(x, y, out=x),
        "add.reduce": lambda: np.add.reduce(a),
        "multiply.reduce": lambda: np.multiply.reduce(a),
        "maximum.reduce": lambda: np.maximum.reduce(a),
        "add.reduce.row": lambda: np.add.reduce(short, axis=1, out=c),
        "maximum.reduce.row": lambda: np.maximum.reduce(short, axis=1, out=c),
        "add.accumulate": lambda: np.add.accumulate(a, out=c),
        "add.at": lambda: np.add.at(c, i, 1.0),
        "copy": lambda: np.copyto(c, a),
        "astype": lambda: a.astype(np.int64),
        "take": lambda: a[i],
        "put": lambda: c.__setitem__(i, b),
        "take_mask": lambda: a[m],
        "put_mask": lambda: c.__setitem__(m, 1.5),
        "where": lambda: np.where(m, a, b),
        "nonzero": lambda: m.nonzero(),
        "bincount": lambda: np.bincount(i),
    }
    try:
        sparse = importlib.import_module("scipy.sparse")
    except ImportError:
        return calls
    nonzeros = _NONZEROS if n == _POINTS else n
    rows = nonzeros // _NONZEROS_OF_ROW + 1
    places = (np.arange(nonzeros) % rows, random.integers(0, rows, nonzeros))
    matrix, vector = sparse.csr_matrix((np.ones(nonzeros), places), shape=(rows, rows)), np.ones(rows)
    return calls | {"csr_matvec": lambda: matrix @ vector}
