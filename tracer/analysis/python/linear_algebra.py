"""Routines and sizes of linear algebra calls, from NumPy's and LAPACK's names and the operands' shapes."""

from __future__ import annotations

from foretrace.tracer.reader.raw_trace import RawLinear
from foretrace.tracer.signature.linear_algebra import LinearRoutine as Routine
from foretrace.tracer.signature.linear_algebra import linear_flops
from foretrace.tracer.signature.records import LinearAlgebra

_ELEMENT_TYPES = {
    ("f", 2): "float16",
    ("f", 4): "float32",
    ("f", 8): "float64",
    ("c", 8): "complex64",
    ("c", 16): "complex128",
}
BLAS_TYPES = ("float32", "float64", "complex64", "complex128")
_PRODUCTS = ("matmul", "dot", "inner", "vdot", "vecdot", "matvec", "vecmat")

_NUMPY = {
    "cholesky": Routine.CHOLESKY,
    "det": Routine.LU,
    "slogdet": Routine.LU,
    "eig": Routine.EIGENVECTORS,
    "eigvals": Routine.EIGENVALUES,
    "eigh": Routine.EIGENVECTORS_SYMMETRIC,
    "eigvalsh": Routine.EIGENVALUES_SYMMETRIC,
    "inv": Routine.INVERSE,
    "lstsq": Routine.LEAST_SQUARES,
    "qr_r_raw": Routine.QR,
    "qr_complete": Routine.QR_VECTORS,
    "qr_reduced": Routine.QR_VECTORS,
    "solve": Routine.SOLVE,
    "solve1": Routine.SOLVE,
    "svd": Routine.SINGULAR_VALUES,
    "svd_s": Routine.SINGULAR_VECTORS,
    "svd_f": Routine.SINGULAR_VECTORS_FULL,
}
"""Routines by the name of the generalised ufunc, without "_lo" and "_up", or "_m" and "_n" (NumPy before 2)."""

_LAPACK = {
    "gemm": Routine.GEMM,
    "symm": Routine.GEMM,
    "hemm": Routine.GEMM,
    "syrk": Routine.SYRK,
    "herk": Routine.SYRK,
    "trmm": Routine.TRMM,
    "trsm": Routine.TRMM,
    "trtrs": Routine.TRMM,
    "gemv": Routine.GEMV,
    "dot": Routine.DOT,
    "dotu": Routine.DOT,
    "dotc": Routine.DOT,
    "gesv": Routine.SOLVE,
    "getrf": Routine.LU,
    "getrs": Routine.LU_SOLVE,
    "getri": Routine.INVERSE_OF_LU,
    "posv": Routine.CHOLESKY,
    "potrf": Routine.CHOLESKY,
    "potrs": Routine.CHOLESKY_SOLVE,
    "potri": Routine.TRMM,
    "sytrf": Routine.LDL,
    "hetrf": Routine.LDL,
    "geqrf": Routine.QR,
    "gerqf": Routine.QR,
    "geqp3": Routine.QR_PIVOTED,
    "orgqr": Routine.QR_VECTORS,
    "ungqr": Routine.QR_VECTORS,
    "orgrq": Routine.QR_VECTORS,
    "ungrq": Routine.QR_VECTORS,
    "ormqr": Routine.QR_TIMES,
    "unmqr": Routine.QR_TIMES,
    "geev": Routine.EIGENVALUES,
    "gees": Routine.EIGENVECTORS,
    "gehrd": Routine.HESSENBERG,
    "orghr": Routine.HESSENBERG_VECTORS,
    "unghr": Routine.HESSENBERG_VECTORS,
    "gesdd": Routine.SINGULAR_VALUES,
    "gesvd": Routine.SINGULAR_VALUES,
    "gels": Routine.LEAST_SQUARES,
    "gelsd": Routine.LEAST_SQUARES,
    "gelss": Routine.LEAST_SQUARES,
    "gelsy": Routine.LEAST_SQUARES,
} | {kind + driver: Routine.EIGENVALUES_SYMMETRIC for kind in ("sy", "he") for driver in ("ev", "evd", "evr", "evx")}
"""Routines by LAPACK's name, without the letter of its type. Those with optional vectors are listed as without."""

_SCIPY = {"_solve": Routine.SOLVE, "_inv": Routine.INVERSE, "lu_dispatcher": Routine.LU}
_WITH_VECTORS = {
    Routine.EIGENVALUES_SYMMETRIC: Routine.EIGENVECTORS_SYMMETRIC,
    Routine.EIGENVALUES: Routine.EIGENVECTORS,
    Routine.SINGULAR_VALUES: Routine.SINGULAR_VECTORS,
}


def linear_algebra(raw: RawLinear, loop_id: int) -> LinearAlgebra:
    """The record of calls that belong to a loop."""
    routine, m, n, k = _work(raw)
    element_type = _ELEMENT_TYPES.get((raw.kind, raw.item_bytes), "other" if raw.kind in "fc" else "integer")
    if element_type not in BLAS_TYPES and routine in (Routine.GEMM, Routine.SYRK, Routine.GEMV, Routine.DOT):
        routine = Routine.NO_BLAS
    return LinearAlgebra(
        loop_id=loop_id,
        routine=routine,
        element_type=element_type,
        m=m,
        n=n,
        k=k,
        batch=raw.batch,
        calls=raw.calls,
        flops=linear_flops(routine, m, n, k, is_complex=raw.kind == "c"),
    )


def _work(raw: RawLinear) -> tuple[Routine, int, int, int]:
    """Routine, m, n and k."""
    module, _, name = raw.name.rpartition(".")
    m, n = raw.first[0], max(raw.first[1], 1)
    columns = max(raw.second[1], 1) if raw.second[0] else 0
    if name == "c_einsum":
        return Routine.EINSUM, raw.first[0], 1, raw.second[0]
    if name in _PRODUCTS:
        return _product(m, raw.second[1], n, symmetric=raw.symmetric)
    if module == "numpy.linalg":
        name = name.removesuffix("_lo").removesuffix("_up")
        if name not in _NUMPY:
            name = name.replace("_m", "").replace("_n", "")
        routine = _NUMPY[name]
        return _sized(routine, m, n, columns, raw)
    routine = _SCIPY[name] if name in _SCIPY else _LAPACK[name[1:]]
    if routine in _WITH_VECTORS and _has_vectors(raw):
        routine = _WITH_VECTORS[routine]
        if routine is Routine.SINGULAR_VECTORS and raw.result == (max(m, n), max(m, n)) and m != n:
            routine = Routine.SINGULAR_VECTORS_FULL
    return _sized(routine, m, n, columns, raw)


def _product(m: int, n: int, k: int, *, symmetric: bool) -> tuple[Routine, int, int, int]:
    """Routine and sizes of the product of m x k and k x n, as NumPy calls BLAS."""
    if m == 1 and n == 1:
        return Routine.DOT, 1, 1, k
    if m == 1 or n == 1:
        return Routine.GEMV, max(m, n), 1, k
    return (Routine.SYRK if symmetric else Routine.GEMM), m, n, k


def _sized(routine: Routine, m: int, n: int, columns: int, raw: RawLinear) -> tuple[Routine, int, int, int]:
    if routine is Routine.GEMM:  # either operand may count as transposed: the result tells
        rows, result_columns = raw.result[0], max(raw.result[1], 1)
        return routine, rows, result_columns, max(m * n // max(rows, 1), 1)
    if routine is Routine.SYRK:
        rows = raw.result[0]
        return routine, rows, rows, max(m * n // max(rows, 1), 1)
    if routine is Routine.GEMV:
        return routine, m, 1, n
    if routine is Routine.DOT:
        return routine, 1, 1, m
    if routine is Routine.QR_VECTORS:  # of m x k reflectors, an m x n result
        return routine, m, max(raw.result[1], 1), min(raw.second[0], n)
    if routine is Routine.TRMM:
        return routine, n, n, columns or n
    return routine, m, n, columns


def _has_vectors(raw: RawLinear) -> bool:
    """Whether a result is a matrix; LAPACK's wrappers return one of a single element for an unwanted result."""
    return raw.result[0] * raw.result[1] > max(raw.first[0], 1)
