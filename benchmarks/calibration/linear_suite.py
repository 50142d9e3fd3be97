"""Time of linear algebra by size and type: products of matrices and vectors, factorisations, eigenvalues.

Square matrices, through NumPy: its BLAS and LAPACK are what Python programs get. A call works on many small ones, so
that the routine is measured, not the call. One thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foretrace.benchmarks.harness.sampling import Measurement, Timing, rounded
from foretrace.profiles.points import LinearCost

from .array_suite import repeated

_TYPES = ("float32", "float64", "complex128")
_PRODUCT_SIZES = (4, 16, 32, 64, 128, 256, 512)
_LARGE_SIZE = 1024  # complex ones would take too long
_VECTOR_SIZES = (4, 32, 64)
_LENGTHS = (8, 2048)
"""Matrices and vectors lie in near caches: what farther ones take longer is memory's."""
_LAPACK_SIZES = (4, 30, 100, 300)
_LOOP_SIZE = 64
_ROWS_AT_ONCE = 512
"""Least number of rows of all matrices of a call together."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Routine, type and size to measure: see LinearCost."""

    routine: str
    element_type: str
    size: int

    def __str__(self) -> str:
        """For people."""
        return f"{self.routine} of {self.size} rows, {self.element_type}"


def linear_measurements(*, fine: bool) -> dict[Linear, Measurement]:
    """The measurements."""
    return {
        key: Measurement(str(key), repeated(call, operations=batch))
        for key, (call, batch) in {**dict(_products(fine=fine)), **dict(_factorisations())}.items()
    }


def linear_costs(measured: Mapping[Linear, Timing], source: str) -> tuple[LinearCost, ...]:
    """The profile's points, of all that was measured."""
    return tuple(
        LinearCost(key.routine, key.element_type, key.size, rounded(timing.time_s), source, noise=rounded(timing.noise))
        for key, timing in measured.items()
    )


_Call = tuple[Callable[[], Any], int]


def _products(*, fine: bool) -> Iterator[tuple[Linear, _Call]]:
    """Calls, and how many products each makes."""
    for element_type in _TYPES:
        large = (_LARGE_SIZE,) if fine and element_type in ("float32", "float64") else ()
        for n in (*_PRODUCT_SIZES, *large):
            yield Linear("gemm", element_type, n), _matmul(_matrix(n, element_type), _matrix(n, element_type))
        for n in _VECTOR_SIZES:
            yield Linear("gemv", element_type, n), _matmul(_matrix(n, element_type), _matrix(n, element_type)[:, :1])
        for n in _LENGTHS:
            vector = _numbers((1, n), element_type)
            yield Linear("dot", element_type, n), _matmul(vector, vector.T, least=_ROWS_AT_ONCE)
        a = _matrix(_LOOP_SIZE, element_type)
        yield Linear("einsum", element_type, _LOOP_SIZE), (_einsum(a), 1)
    i = np.arange(_LOOP_SIZE**2).reshape(_LOOP_SIZE, _LOOP_SIZE)
    yield Linear("no_blas", "int64", _LOOP_SIZE), _matmul(i, i)


def _factorisations() -> Iterator[tuple[Linear, _Call]]:
    linalg = np.linalg
    for n in _LAPACK_SIZES:
        a, b = _matrix(n, "float64"), _matrix(n, "float64")[:, :1]
        h = a + a.T
        spd = a @ a.T + n * np.eye(n)
        calls: dict[str, tuple[Callable[[Any], Any], npt.NDArray[Any]]] = {
            "solve": (_solve, a),
            "inverse": (linalg.inv, a),
            "cholesky": (linalg.cholesky, spd),
            "qr": (lambda x: linalg.qr(x, mode="raw"), a),
            "eigenvalues_symmetric": (linalg.eigvalsh, h),
            "eigenvectors_symmetric": (linalg.eigh, h),
            "eigenvalues": (linalg.eigvals, a),
            "eigenvectors": (linalg.eig, a),
            "singular_values": (lambda x: linalg.svd(x, compute_uv=False), a),
            "singular_vectors": (linalg.svd, a),
        }
        for routine, (function, matrix) in calls.items():
            stack, batch = _stack(matrix)
            yield Linear(routine, "float64", n), (_bound(function, stack), batch)
        if n > _LAPACK_SIZES[0]:  # one at a time: the call would be most of it
            yield Linear("least_squares", "float64", n), (_bound(_least_squares, (a, b[:, 0])), 1)


def _solve(matrices: npt.NDArray[Any]) -> Any:
    return np.linalg.solve(matrices, matrices[..., :1])


def _least_squares(operands: tuple[npt.NDArray[Any], npt.NDArray[Any]]) -> Any:
    return np.linalg.lstsq(*operands, rcond=None)


def _bound(function: Callable[[Any], Any], argument: Any) -> Callable[[], Any]:
    return lambda: function(argument)


def _einsum(a: npt.NDArray[Any]) -> Callable[[], Any]:
    return lambda: np.einsum("ij,jk->ik", a, a)


def _matmul(a: npt.NDArray[Any], b: npt.NDArray[Any], least: int = 0) -> _Call:
    """The product of a stack of the one matrix with another, into memory that is there."""
    stack, batch = _stack(a, least)
    out = np.empty((batch, a.shape[0], b.shape[1]), a.dtype)
    return (lambda: np.matmul(stack, b, out=out)), batch


def _stack(matrix: npt.NDArray[Any], least: int = 0) -> tuple[npt.NDArray[Any], int]:
    """A stack of one matrix many times over, in the same memory, and its height."""
    batch = max(least, _ROWS_AT_ONCE // matrix.shape[-1], 1)
    return np.broadcast_to(matrix, (batch, *matrix.shape)), batch


def _numbers(shape: tuple[int, ...], element_type: str) -> npt.NDArray[Any]:
    random = np.random.default_rng(1)
    numbers = random.random(shape)
    return (numbers + 1j * random.random(shape) if element_type.startswith("complex") else numbers).astype(element_type)


def _matrix(n: int, element_type: str) -> npt.NDArray[Any]:
    return _numbers((n, n), element_type)
