"""Calls of linear algebra, one kind a run: `linear_algebra.py CASE CALLS [--time]`; prints the cases without arguments.

With --time it makes the calls in several rounds and prints the median round's processor time a call, in seconds.
"""

import statistics
import sys
import time

import numpy as np

ROUNDS = 9
random = np.random.default_rng(1)


def matrix(n, kind="float64", rows=None):
    """A matrix of random numbers with n columns."""
    numbers = random.random((rows or n, n))
    return (numbers + 1j * random.random(numbers.shape) if kind.startswith("complex") else numbers).astype(kind)


def pair(n, kind="float64"):
    """Two square matrices."""
    return matrix(n, kind), matrix(n, kind)


def symmetric(n):
    """A symmetric matrix."""
    a = matrix(n)
    return a + a.T


CASES = {
    "matmul float64 100": (lambda: pair(100), lambda a, b: a @ b),
    "matmul float64 300": (lambda: pair(300), lambda a, b: a @ b),
    "matmul float64 1000": (lambda: pair(1000), lambda a, b: a @ b),
    "matmul float32 100": (lambda: pair(100, "float32"), lambda a, b: a @ b),
    "matmul float32 300": (lambda: pair(300, "float32"), lambda a, b: a @ b),
    "matmul float32 1000": (lambda: pair(1000, "float32"), lambda a, b: a @ b),
    "matmul complex128 100": (lambda: pair(100, "complex128"), lambda a, b: a @ b),
    "matmul complex128 300": (lambda: pair(300, "complex128"), lambda a, b: a @ b),
    "matmul complex128 1000": (lambda: pair(1000, "complex128"), lambda a, b: a @ b),
    "matmul complex64 300": (lambda: pair(300, "complex64"), lambda a, b: a @ b),
    "matmul int64 100": (lambda: (np.arange(10000).reshape(100, 100),), lambda a: a @ a),
    "a @ a.T 500": (lambda: (matrix(500),), lambda a: a @ a.T),
    "tall times small 100000x20": (lambda: (matrix(20, rows=100_000), matrix(20)), lambda a, b: a @ b),
    "batched matmul 1000 of 20": (lambda: (random.random((1000, 20, 20)),), lambda a: a @ a),
    "batched matmul 50000 of 3": (lambda: (random.random((50_000, 3, 3)),), lambda a: a @ a),
    "matrix times vector 300": (lambda: (matrix(300), random.random(300)), lambda a, v: a @ v),
    "matrix times vector 3000": (lambda: (matrix(3000), random.random(3000)), lambda a, v: a @ v),
    "vector times matrix 1000": (lambda: (matrix(1000), random.random(1000)), lambda a, v: v @ a),
    "dot 10000": (lambda: (random.random(10_000), random.random(10_000)), lambda a, b: np.dot(a, b)),
    "tensordot 30x30x30": (lambda: (random.random((30, 30, 30)),), lambda a: np.tensordot(a, a, 1)),
    "einsum ij,jk->ik 100": (lambda: pair(100), lambda a, b: np.einsum("ij,jk->ik", a, b)),
    "einsum ij,jk->ik 300": (lambda: pair(300), lambda a, b: np.einsum("ij,jk->ik", a, b)),
    "einsum ij,jk->ik 300, optimize": (lambda: pair(300), lambda a, b: np.einsum("ij,jk->ik", a, b, optimize=True)),
    "einsum bij,bj->bi": (
        lambda: (random.random((1000, 20, 20)), random.random((1000, 20))),
        lambda a, v: np.einsum("bij,bj->bi", a, v),
    ),
    "solve 100": (lambda: (matrix(100), random.random(100)), lambda a, b: np.linalg.solve(a, b)),
    "solve 300": (lambda: (matrix(300), random.random(300)), lambda a, b: np.linalg.solve(a, b)),
    "solve 1000": (lambda: (matrix(1000), random.random(1000)), lambda a, b: np.linalg.solve(a, b)),
    "solve 20000 of 3": (
        lambda: (random.random((20_000, 3, 3)) + np.eye(3), random.random((20_000, 3, 1))),
        lambda a, b: np.linalg.solve(a, b),
    ),
    "solve float32 300": (lambda: pair(300, "float32"), lambda a, b: np.linalg.solve(a, b[:, 0])),
    "inv 300": (lambda: (matrix(300),), lambda a: np.linalg.inv(a)),
    "cholesky 500": (lambda: (matrix(500) + 500 * np.eye(500),), lambda a: np.linalg.cholesky(a)),
    "qr 300": (lambda: (matrix(300),), lambda a: np.linalg.qr(a)),
    "svd 100": (lambda: (matrix(100),), lambda a: np.linalg.svd(a)),
    "svd 300": (lambda: (matrix(300),), lambda a: np.linalg.svd(a)),
    "svd 2000x50": (lambda: (matrix(50, rows=2000),), lambda a: np.linalg.svd(a, full_matrices=False)),
    "eigh 100": (lambda: (symmetric(100),), lambda a: np.linalg.eigh(a)),
    "eigh 500": (lambda: (symmetric(500),), lambda a: np.linalg.eigh(a)),
    "eig 200": (lambda: (matrix(200),), lambda a: np.linalg.eig(a)),
    "eig complex128 100": (lambda: (matrix(100, "complex128"),), lambda a: np.linalg.eig(a)),
    "lstsq 1000x50": (
        lambda: (matrix(50, rows=1000), random.random(1000)),
        lambda a, b: np.linalg.lstsq(a, b, rcond=None),
    ),
    "det 200": (lambda: (matrix(200),), lambda a: np.linalg.det(a)),
}
"""For each case the operands and the call."""


def main(arguments):
    """Run a case."""
    if not arguments:
        print("\n".join(CASES))
        return
    make, call = CASES[arguments[0]]
    operands, calls = make(), int(arguments[1])
    taken_s = []
    for _ in range(ROUNDS if "--time" in arguments else 1):
        begin_s = time.process_time()
        for _ in range(calls):
            call(*operands)
        taken_s.append((time.process_time() - begin_s) / calls)
    if "--time" in arguments:
        print(statistics.median(taken_s[1:]))


if __name__ == "__main__":
    main(sys.argv[1:])
