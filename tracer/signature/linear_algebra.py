"""Floating-point operations of linear algebra, by formula from the shapes of its operands.

Products as defined. Factorisations and solvers: Blackford and Dongarra, "Installation Guide for LAPACK", LAPACK Working
Note 41, Appendix C (operation counts of BLAS and LAPACK). Hessenberg QR: Golub and Van Loan, Matrix Computations, 4th
edition, section 7.5.6, 10 n^3 for the eigenvalues and 25 n^3 with vectors. Symmetric eigenproblem and singular values:
the reduction and the transformation back, with divide and conquer in between, taken as 4/3 n^3 and twice that, which
deflation may save. Lower-order terms are left out. Complex arithmetic counts four times real, as there: six operations
for a multiplication, two for an addition.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

TALL = 11 / 6
"""LAPACK factorises taller matrices (QR) before it looks for singular values (ILAENV, MNTHR of xGESDD)."""


class LinearRoutine(StrEnum):
    """Computation of a routine, whichever library computes it: numpy.linalg.solve and LAPACK's dgesv are one.

    m, n and k are those of the first operand's rows and columns, and of the second's columns; of products m x k times
    k x n. `no_blas` and `einsum` are products in loops of NumPy's own, of k operands over m points in `einsum`.
    """

    GEMM = "gemm"
    SYRK = "syrk"  # a matrix times its own transpose
    TRMM = "trmm"  # a triangular one times another, or its inverse times that
    GEMV = "gemv"
    DOT = "dot"
    EINSUM = "einsum"
    NO_BLAS = "no_blas"
    LU = "lu"
    LU_SOLVE = "lu_solve"
    SOLVE = "solve"
    INVERSE = "inverse"
    INVERSE_OF_LU = "inverse_of_lu"
    CHOLESKY = "cholesky"
    CHOLESKY_SOLVE = "cholesky_solve"
    LDL = "ldl"
    QR = "qr"
    QR_PIVOTED = "qr_pivoted"
    QR_VECTORS = "qr_vectors"
    QR_TIMES = "qr_times"
    LEAST_SQUARES = "least_squares"
    EIGENVALUES_SYMMETRIC = "eigenvalues_symmetric"
    EIGENVECTORS_SYMMETRIC = "eigenvectors_symmetric"
    EIGENVALUES = "eigenvalues"
    EIGENVECTORS = "eigenvectors"
    HESSENBERG = "hessenberg"
    HESSENBERG_VECTORS = "hessenberg_vectors"
    SINGULAR_VALUES = "singular_values"
    SINGULAR_VECTORS = "singular_vectors"
    SINGULAR_VECTORS_FULL = "singular_vectors_full"


def _qr(m: float, n: float) -> float:
    long, short = max(m, n), min(m, n)
    return 2 * short**2 * (long - short / 3)


def _lu(m: float, n: float) -> float:
    long, short = max(m, n), min(m, n)
    return short**2 * (long - short / 3)


def _bidiagonal(m: float, n: float) -> float:
    return 4 * n**2 * (m - n / 3)


def _singular_values(m: float, n: float) -> float:
    m, n = max(m, n), min(m, n)
    return _qr(m, n) + _bidiagonal(n, n) if m >= TALL * n else _bidiagonal(m, n)


def _singular_vectors(m: float, n: float) -> float:
    m, n = max(m, n), min(m, n)
    small = _bidiagonal(n, n) + 20 / 3 * n**3
    if m >= TALL * n:
        return _qr(m, n) + small + 4 * m * n**2
    return _bidiagonal(m, n) + 8 / 3 * n**3 + 4 * m * n**2


def _all_singular_vectors(m: float, n: float) -> float:
    m, n = max(m, n), min(m, n)
    return _singular_vectors(m, n) + 4 * m * n * (m - n)


_FLOPS: dict[LinearRoutine, Callable[[float, float, float], float]] = {
    LinearRoutine.GEMM: lambda m, n, k: 2 * m * n * k,
    LinearRoutine.SYRK: lambda m, n, k: m * (m + 1) * k,
    LinearRoutine.TRMM: lambda m, n, k: m * m * k,
    LinearRoutine.GEMV: lambda m, n, k: 2 * m * n * k,
    LinearRoutine.DOT: lambda m, n, k: 2 * m * n * k,
    LinearRoutine.EINSUM: lambda m, n, k: m * k,
    LinearRoutine.NO_BLAS: lambda m, n, k: 2 * m * n * k,
    LinearRoutine.LU: lambda m, n, k: _lu(m, n),
    LinearRoutine.LU_SOLVE: lambda m, n, k: 2 * n * n * k,
    LinearRoutine.SOLVE: lambda m, n, k: _lu(n, n) + 2 * n * n * k,
    LinearRoutine.INVERSE: lambda m, n, k: 2 * n**3,
    LinearRoutine.INVERSE_OF_LU: lambda m, n, k: 4 / 3 * n**3,
    LinearRoutine.CHOLESKY: lambda m, n, k: n**3 / 3,
    LinearRoutine.CHOLESKY_SOLVE: lambda m, n, k: 2 * n * n * k,
    LinearRoutine.LDL: lambda m, n, k: n**3 / 3,
    LinearRoutine.QR: lambda m, n, k: _qr(m, n),
    LinearRoutine.QR_PIVOTED: lambda m, n, k: _qr(m, n),
    LinearRoutine.QR_VECTORS: lambda m, n, k: 4 * m * n * k - 2 * (m + n) * k**2 + 4 / 3 * k**3,
    LinearRoutine.QR_TIMES: lambda m, n, k: 2 * n * k * (2 * m - n),
    LinearRoutine.LEAST_SQUARES: lambda m, n, k: _singular_values(m, n) + 4 * (m + n) * min(m, n) * k,
    LinearRoutine.EIGENVALUES_SYMMETRIC: lambda m, n, k: 4 / 3 * n**3,
    LinearRoutine.EIGENVECTORS_SYMMETRIC: lambda m, n, k: 14 / 3 * n**3,
    LinearRoutine.EIGENVALUES: lambda m, n, k: 10 * n**3,
    LinearRoutine.EIGENVECTORS: lambda m, n, k: 25 * n**3,
    LinearRoutine.HESSENBERG: lambda m, n, k: 10 / 3 * n**3,
    LinearRoutine.HESSENBERG_VECTORS: lambda m, n, k: 4 / 3 * n**3,
    LinearRoutine.SINGULAR_VALUES: lambda m, n, k: _singular_values(m, n),
    LinearRoutine.SINGULAR_VECTORS: lambda m, n, k: _singular_vectors(m, n),
    LinearRoutine.SINGULAR_VECTORS_FULL: lambda m, n, k: _all_singular_vectors(m, n),
}


def linear_flops(routine: LinearRoutine, m: float, n: float, k: float, *, is_complex: bool = False) -> float:
    """Floating-point operations of one call, in real arithmetic."""
    return (4 if is_complex else 1) * max(_FLOPS[routine](m, n, k), 0.0)
