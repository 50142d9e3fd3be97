"""Time of linear algebra: flops by formula, at the rate that a machine's BLAS and LAPACK reach by size and type.

A call takes a fixed time, and its flops at a rate that grows with its size. Of a product of m x k and k x n matrices
that is the harmonic mean of m, n and k: copying and loading the operands takes in proportion to mk + kn + mn what the
multiplications take in proportion to mnk (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication",
ACM TOMS 34 (3), 2008). Where a profile tells how long square matrices take (`[[linear_algebra]]`), rates are
interpolated between these; what was not measured stands for its like, or is taken from the vector peak and usual
efficiencies. One thread throughout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from msgspec import structs

from foretrace.profiles.points import LinearCost
from foretrace.replay.base.spread import Floats
from foretrace.tracer.signature.linear_algebra import TALL, linear_flops
from foretrace.tracer.signature.linear_algebra import LinearRoutine as Routine
from foretrace.tracer.signature.records import LinearAlgebra

MEASURED = (0.85, 1.0, 1.25)
"""Time of other shapes and layouts over what was measured of square matrices: assumed, here and below."""
STANDING = (0.6, 1.0, 1.8)
"""Time over what was measured of another type, or of a routine of the kind: assumed."""
DERIVED = (0.4, 1.0, 2.5)
"""Time over the derived one, of a routine whose efficiency over that of products is the usual one."""
PRODUCT_EFFICIENCY = (0.95, 0.75, 0.4)
"""Share of the vector peak in large products: OpenBLAS 0.3 and MKL on server cores, most to least."""

_HALF_RATE = {"float32": 2.0, "complex64": 1.0, "complex128": 0.5}
"""The size at which half of the rate is reached, over that of float64."""
_PEAK = {"float32": 2.0, "complex64": 2.0}
"""Peak rate over that of float64."""
_SMALL = 8
"""Rows of small matrices: what matrices of so few rows take is the call's fixed time."""
_LEAST_POINTS = 2
_BEYOND = 1.5
"""So many times the largest size measured, and rates are extrapolated."""
_HALF_HIDDEN = 100.0
"""Size of products that hide memory's time for half as long as they take: they use what they loaded that often. Those
measured in near caches are as small, those that hide all of it were measured out of farther ones."""
_NO_BLAS_CYCLES = 2.0
"""A multiplication and an addition in NumPy's own loop: 1.2 to 3 on a Xeon of 2023, by type."""
_SPREAD_OF_NO_BLAS = (0.4, 1.0, 3.0)


@dataclass(frozen=True, slots=True)
class _Kind:
    """Usual efficiency of a routine: `of_product` of the rate of large products, half of that at `half_size`, and
    `fixed_cycles` a call. OpenBLAS 0.3.31, a Xeon of 2023 with AVX-512, float64, 4 to 1000 rows."""

    of_product: float
    half_size: float
    fixed_cycles: float


_PRODUCT = _Kind(1.0, 15, 120)
_ONE_SIDED = _Kind(0.6, 330, 500)  # LU, Cholesky, QR: mostly products
_TWO_SIDED = _Kind(0.45, 450, 4000)  # eigenvalues, singular values: half of it products of a matrix and a vector
_KINDS = {
    Routine.GEMM: _PRODUCT,
    Routine.GEMV: _Kind(0.3, 20, 150),
    Routine.DOT: _Kind(0.2, 100, 35),
    Routine.EINSUM: _Kind(0.15, 0, 0),
    Routine.SOLVE: _ONE_SIDED,
    Routine.INVERSE: _ONE_SIDED,
    Routine.CHOLESKY: _Kind(0.4, 220, 400),
    Routine.QR: _ONE_SIDED,
    Routine.EIGENVALUES_SYMMETRIC: _TWO_SIDED,
    Routine.EIGENVECTORS_SYMMETRIC: _TWO_SIDED,
    Routine.EIGENVALUES: _TWO_SIDED,
    Routine.EIGENVECTORS: _TWO_SIDED,
    Routine.SINGULAR_VALUES: _TWO_SIDED,
    Routine.SINGULAR_VECTORS: _TWO_SIDED,
    Routine.LEAST_SQUARES: _Kind(0.3, 600, 6000),
}
_STANDING_FOR = {
    Routine.SYRK: Routine.GEMM,
    Routine.TRMM: Routine.GEMM,
    Routine.LU: Routine.SOLVE,
    Routine.LU_SOLVE: Routine.GEMM,
    Routine.CHOLESKY_SOLVE: Routine.GEMM,
    Routine.INVERSE_OF_LU: Routine.INVERSE,
    Routine.LDL: Routine.CHOLESKY,
    Routine.QR_PIVOTED: Routine.SINGULAR_VALUES,
    Routine.QR_VECTORS: Routine.QR,
    Routine.QR_TIMES: Routine.QR,
    Routine.HESSENBERG: Routine.SINGULAR_VALUES,
    Routine.HESSENBERG_VECTORS: Routine.QR,
    Routine.SINGULAR_VECTORS_FULL: Routine.SINGULAR_VECTORS,
}
"""Routines that are measured in their place."""
_NOT_HIDING = (Routine.GEMV, Routine.DOT, Routine.EINSUM, Routine.NO_BLAS)
"""Each element is used once or a few times: loads wait for memory."""
_OBLONG = 4
"""Rows for a column, or columns for a row, from which on a matrix is far from square."""
_BY_THREE_SIZES = (Routine.GEMM, Routine.SYRK, Routine.TRMM, Routine.LU_SOLVE, Routine.CHOLESKY_SOLVE)


@dataclass(frozen=True, slots=True, eq=False)
class _Curve:
    """Time of square matrices: `fixed_s` for a call of `fixed_flops` or more, the others at `rates` by `sizes`."""

    fixed_s: float
    fixed_flops: float
    sizes: Floats
    rates: Floats  # flops a second, without the fixed time

    @classmethod
    def of(cls, routine: Routine, costs: Sequence[LinearCost]) -> _Curve:
        """Through measured points of a routine and type, in ascending order."""
        flops = [square_flops(routine, cost.size, cost.element_type) for cost in costs]
        fixed_s = fixed_flops = 0.0
        if costs[0].size <= _SMALL and len(costs) > 1:
            fixed_s, fixed_flops = costs[0].time_s, flops[0]
            costs, flops = costs[1:], flops[1:]
        sizes = np.array([float(cost.size) for cost in costs])
        taken_s = np.array([max(cost.time_s - fixed_s, 0.1 * cost.time_s) for cost in costs])
        return cls(fixed_s, fixed_flops, sizes, (np.array(flops) - fixed_flops) / taken_s)

    def time_s(self, flops: float, size: float) -> float:
        """Seconds of one call."""
        fixed = min(np.sqrt(flops / self.fixed_flops), 1.0) if self.fixed_flops else 0.0
        return float(self.fixed_s * fixed + max(flops - self.fixed_flops, 0.0) / self._rate(size))

    def is_near(self, flops: float, size: float) -> bool:
        """Whether sizes as these were measured."""
        return flops >= self.fixed_flops and size <= _BEYOND * float(self.sizes[-1])

    def _rate(self, size: float) -> float:
        """Below what was measured rates fall with the size. Above they rise as between the last two sizes, with as much
        time lost to surfaces (1 / rate is linear in 1 / size), at most to twice the last."""
        sizes, rates = self.sizes, self.rates
        if len(sizes) < _LEAST_POINTS:
            return float(rates[-1])
        if size > sizes[-1] and rates[-1] > rates[-2]:
            lost = (1 / rates[-2] - 1 / rates[-1]) / (1 / sizes[-2] - 1 / sizes[-1])
            return float(1 / max(1 / rates[-1] - lost * (1 / sizes[-1] - 1 / size), 0.5 / rates[-1]))
        return float(np.interp(np.log(size), np.log(sizes), rates) * min(size / sizes[0], 1.0))


_HOW = ("measured", "standing", "derived", "assumed")
"""Origin of a time: measured for this routine and type, for its like, by its usual efficiency, without any
measurement."""


@dataclass(frozen=True, slots=True, eq=False)
class Price:
    """Seconds of calls: `time_s` [3] with their data in near caches, `hiding_s` of it in which memory may work beside.
    `how` is one of _HOW."""

    time_s: Floats
    hiding_s: float
    how: str


@dataclass(frozen=True, slots=True, eq=False)
class LinearFigures:
    """A machine's linear algebra. `peak_flop_s` [3] is a flop of float64 at the vector peak."""

    curves: Mapping[tuple[Routine, str], _Curve]
    peak_flop_s: Floats
    cycle_s: float

    @classmethod
    def of(cls, costs: Sequence[LinearCost], peak_flop_s: Floats, cycle_s: float) -> LinearFigures:
        """Figures of linear algebra from a profile's points."""
        by_kind: dict[tuple[Routine, str], list[LinearCost]] = defaultdict(list)
        for cost in sorted(costs, key=lambda cost: cost.size):
            by_kind[Routine(cost.routine), cost.element_type].append(cost)
        return cls({kind: _Curve.of(kind[0], of_kind) for kind, of_kind in by_kind.items()}, peak_flop_s, cycle_s)

    def price(self, record: LinearAlgebra) -> Price:
        """The time of all calls of a record."""
        time_s, hiding_s, how = np.zeros(3), 0.0, ""
        for part in _parts(record):
            spread, of_part = self._one(part)
            time_s = time_s + spread * part.calls * part.batch
            how = max(how, of_part, key=_HOW.index) if how else of_part
            if _priced_as(part) not in _NOT_HIDING:
                size = effective_size(part)
                hiding_s += float(spread[1]) * part.calls * part.batch * size / (size + _HALF_HIDDEN)
        return Price(time_s, hiding_s, how)

    def _one(self, record: LinearAlgebra) -> tuple[Floats, str]:
        """[3], seconds of one call, and how that is known."""
        routine, element_type, size = _priced_as(record), record.element_type, effective_size(record)
        if record.flops == 0:
            return np.zeros(3), "measured"
        if routine is Routine.NO_BLAS:
            return self._no_blas(record)
        curve = self.curves.get((routine, element_type))
        if curve is not None:
            is_own = routine is record.routine
            is_near = is_own and routine is not Routine.EINSUM and curve.is_near(record.flops, size)
            is_near = is_near and not _is_oblong(record)
            is_near = is_near or routine is record.routine is Routine.GEMM
            spread = MEASURED if is_near else STANDING
            return curve.time_s(record.flops, size) * np.array(spread), "measured" if is_near else "standing"
        for other in ("float64", "complex128", "float32"):
            curve = self.curves.get((routine, other))
            if curve is not None:
                as_other = curve.time_s(record.flops, size)
                factor = self._usual(routine, element_type, record.flops, size) / self._usual(
                    routine, other, record.flops, size
                )
                return as_other * factor * np.array(STANDING), "standing"
        typical = self._usual(routine, element_type, record.flops, size)
        if self._products(element_type) is not None:
            return typical * np.array(DERIVED), "derived"
        of_peak = np.array([PRODUCT_EFFICIENCY[1] / efficiency for efficiency in PRODUCT_EFFICIENCY])
        peak = self.peak_flop_s / self.peak_flop_s[1]
        others = np.ones(3) if _KINDS[routine] is _PRODUCT else np.array(DERIVED)
        return typical * of_peak * peak * others, "assumed"

    def _products(self, element_type: str) -> float | None:
        """Rate of the largest products measured."""
        curve = self.curves.get((Routine.GEMM, element_type)) or self.curves.get((Routine.GEMM, "float64"))
        return None if curve is None else float(curve.rates.max())

    def _usual(self, routine: Routine, element_type: str, flops: float, size: float) -> float:
        """Seconds by the routine's usual efficiency, typical."""
        kind = _KINDS[routine]
        measured = self.curves.get((Routine.GEMM, element_type))
        if measured is not None:
            products = float(measured.rates.max())
        else:
            known = self._products("float64")
            products = PRODUCT_EFFICIENCY[1] / float(self.peak_flop_s[1]) if known is None else known
            products *= _PEAK.get(element_type, 1.0)
        half = kind.half_size * _HALF_RATE.get(element_type, 1.0)
        return kind.fixed_cycles * self.cycle_s + flops / (products * kind.of_product * size / (size + half))

    def _no_blas(self, record: LinearAlgebra) -> tuple[Floats, str]:
        curve = self.curves.get((Routine.NO_BLAS, "int64"))
        if curve is None:
            return 0.5 * record.flops * _NO_BLAS_CYCLES * self.cycle_s * np.array(_SPREAD_OF_NO_BLAS), "assumed"
        spread = STANDING if record.element_type == "integer" else _SPREAD_OF_NO_BLAS
        return curve.time_s(record.flops, curve.sizes[-1]) * np.array(spread), "measured"


def square_flops(routine: Routine, size: int, element_type: str) -> float:
    """Floating-point operations of what is measured: of matrices of `size` rows and columns, one right-hand side; of a
    dot product of vectors of that length."""
    is_complex = element_type.startswith("complex")
    if routine is Routine.DOT:
        m, n, k = 1, 1, size
    elif routine is Routine.EINSUM:
        m, n, k = size**3, 1, 2
    elif routine is Routine.GEMV:
        m, n, k = size, 1, size
    else:
        m, n, k = size, size, 1 if routine in (Routine.SOLVE, Routine.LEAST_SQUARES) else size
    return linear_flops(routine, m, n, k, is_complex=is_complex)


_TALL_SINGULAR = (
    *(Routine.SINGULAR_VALUES, Routine.SINGULAR_VECTORS, Routine.SINGULAR_VECTORS_FULL),
    Routine.LEAST_SQUARES,
)


def _parts(record: LinearAlgebra) -> Iterator[LinearAlgebra]:
    """Parts of a call, one after the other: of tall or wide matrices a QR, then the work on the triangle."""
    routine, m, n = record.routine, max(record.m, record.n), min(record.m, record.n)
    is_complex = record.element_type.startswith("complex")

    def part(routine: Routine, m: int, n: int, k: int) -> LinearAlgebra:
        flops = linear_flops(routine, m, n, k, is_complex=is_complex)
        return structs.replace(record, routine=routine, m=m, n=n, k=k, flops=flops)

    if routine is Routine.SINGULAR_VECTORS_FULL and m == n:
        yield part(Routine.SINGULAR_VECTORS, n, n, record.k)
    elif routine not in _TALL_SINGULAR or m < TALL * n:
        yield record
    else:
        yield part(Routine.QR, m, n, 0)
        if routine in (Routine.SINGULAR_VECTORS, Routine.SINGULAR_VECTORS_FULL):
            columns = m if routine is Routine.SINGULAR_VECTORS_FULL else n
            yield part(Routine.QR_VECTORS, m, columns, n)
            yield part(Routine.GEMM, m, n, n)
            routine = Routine.SINGULAR_VECTORS
        yield part(routine, n, n, record.k)


def _priced_as(record: LinearAlgebra) -> Routine:
    """The routine that is measured in a record's place. Triangular solutions of one vector read the matrix once."""
    standing = _STANDING_FOR.get(record.routine, record.routine)
    of_vector = standing is Routine.GEMM and record.k == 1 and record.routine is not Routine.GEMM
    return Routine.GEMV if of_vector else standing


def _is_oblong(record: LinearAlgebra) -> bool:
    """Whether a matrix that is no factor of a product is far from square, as those measured are not."""
    is_product = record.routine in _NOT_HIDING or record.routine in _BY_THREE_SIZES
    return not is_product and max(record.m, record.n) > _OBLONG * min(record.m, record.n)


def effective_size(record: LinearAlgebra) -> float:
    """The size of square matrices that reach the same rate: harmonic mean of those that matter."""
    m, n, k = max(record.m, 1), max(record.n, 1), max(record.k, 1)
    if record.routine is Routine.DOT:
        return float(k)
    if _priced_as(record) is Routine.GEMV:
        return 2 / (1 / m + 1 / (k if record.routine is Routine.GEMV else n))
    if record.routine in _BY_THREE_SIZES:
        return 3 / (1 / m + 1 / n + 1 / k)
    return 2 / (1 / m + 1 / n)


_WORTH_TELLING = 0.01
_MOST_NAMES = 3
_TEXTS = {
    "measured": "at the rates measured of square matrices by size and type",
    "standing": "at rates measured of another type, size or shape, or of a routine like it",
    "derived": "at a usual efficiency over the measured rate of products",
    "assumed": (
        f"not measured on this machine, products taken to reach {PRODUCT_EFFICIENCY[1]:g} of the vector peak "
        f"({PRODUCT_EFFICIENCY[2]:g} to {PRODUCT_EFFICIENCY[0]:g}), other routines usual parts of that; foretrace "
        "calibrate measures them"
    ),
}


@dataclass(frozen=True, slots=True, eq=False)
class LinearWork:
    """Linear algebra by region: each record with its region's number. `mask` bool [regions]: has some."""

    records: tuple[tuple[int, LinearAlgebra], ...]
    mask: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, records: Sequence[LinearAlgebra], loop_ids: Sequence[int | None]) -> LinearWork:
        """Linear algebra of regions which are these loops."""
        region_of = {loop: region for region, loop in enumerate(loop_ids) if loop is not None}
        placed = tuple((region_of[record.loop_id], record) for record in records if record.loop_id in region_of)
        mask = np.zeros(len(loop_ids), np.bool_)
        mask[[region for region, _ in placed]] = True
        return cls(placed, mask)

    def times(self, figures: LinearFigures) -> tuple[Floats, Floats]:
        """[3, regions], seconds of each region's linear algebra with its data in near caches, 0 where there is none;
        [regions], for how long of it memory may work beside, typical."""
        times, hiding = np.zeros((3, len(self.mask))), np.zeros(len(self.mask))
        for region, record in self.records:
            price = figures.price(record)
            times[:, region] += price.time_s
            hiding[region] += price.hiding_s
        return times, hiding

    def measured(self, figures: LinearFigures) -> npt.NDArray[np.bool_]:
        """[regions]: whether all of a region's linear algebra was measured, of these types and about these shapes."""
        found = self.mask.copy()
        for region, record in self.records:
            found[region] &= figures.price(record).how == _HOW[0]
        return found

    def assumption(self, figures: LinearFigures, total_s: float) -> str | None:
        """Sentence on how linear algebra was priced; None where there is none of it, or next to none."""
        by_how: dict[str, dict[Routine, float]] = defaultdict(lambda: defaultdict(float))
        for _, record in self.records:
            price = figures.price(record)
            by_how[price.how][record.routine] += float(price.time_s[1])
        whole = sum(sum(by_routine.values()) for by_routine in by_how.values())
        if not whole or whole < _WORTH_TELLING * total_s:
            return None
        parts = [
            f"{_names(by_how[how])} {text}"
            for how, text in _TEXTS.items()
            if sum(by_how[how].values()) >= _WORTH_TELLING * whole
        ]
        share = min(whole / total_s, 1.0) if total_s else 1.0
        return f"{share:.0%} of the time is linear algebra, with one BLAS thread: {'; '.join(parts)}"


def _names(by_routine: Mapping[Routine, float]) -> str:
    """The routines that take most."""
    names = [str(routine) for routine in sorted(by_routine, key=lambda routine: -by_routine[routine])]
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
