"""Array operations: slices, masks, ufuncs and the functions of NumPy that are loops."""

import numpy as np
from numpy import add


def whole(a: np.ndarray, b: np.ndarray, c: np.ndarray, q):
    a[:] = b + q * c                                     # idiom: stream
    a[::2] = b[::2]                                      # idiom: stream
    a += b                                               # idiom: stream
    a[1:] = 0.0                                          # idiom: stream
    a[:] = np.where(b > 0, b, c)                         # idiom: stream
    a[:] = np.sqrt(np.abs(b)) * c                        # idiom: stream


def fresh(n):
    a = np.zeros(n)
    b = np.arange(n) * 0.5                               # idiom: stream
    c = np.exp(b)                                        # idiom: stream
    a[:] = c                                             # idiom: stream
    return a


def neighbours(u: np.ndarray, v: np.ndarray):
    v[1:-1] = u[:-2] - 2 * u[1:-1] + u[2:]               # idiom: stencil


def neighbours_2d(u, v):
    v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])  # idiom: stencil


def gaps(n):
    x = np.linspace(0.0, 1.0, n)                         # idiom: stream
    h = np.empty(n - 1)
    h[:] = x[1:] - x[:-1]                                # idiom: stencil
    return h


def shifts(a: np.ndarray, b: np.ndarray):
    a[1:] = b[:-1]                                       # idiom: stream


def flips(n):
    a = np.ones((n, n))
    b = np.empty((n, n))
    b[:, :] = a.T                                        # idiom: transpose
    return b


def rows_to_columns(n, a, b):
    for i in range(n):                                   # loop: parallel
        a[:, i] = b[i, :]                                # idiom: transpose


def rows_to_rows(n, a, b):
    for i in range(n):                                   # loop: parallel
        a[i, :] = b[i, :]                                # idiom: stream


def picks(a: np.ndarray, b: np.ndarray, index: np.ndarray):
    a[:] = b[index]                                      # idiom: gather
    a[:] = 2.0 * np.take(b, index)                       # idiom: gather


def places(a: np.ndarray, b: np.ndarray, index: np.ndarray):
    a[index] = b                                         # idiom: scatter


def updates(a: np.ndarray, b: np.ndarray, index: np.ndarray):
    a[index] += b                                        # idiom: gather-modify-scatter
    np.add.at(a, index, b)                               # idiom: gather-modify-scatter
    np.subtract.at(a, index, 1.0)                        # idiom: gather-modify-scatter
    np.maximum.at(a, index, b)                           # idiom: gather-modify-scatter
    add.at(a, index, b)                                  # idiom: gather-modify-scatter


def counts(keys: np.ndarray):
    found = np.bincount(keys, minlength=256)             # idiom: gather-modify-scatter
    return found


def totals(a: np.ndarray, b: np.ndarray):
    total = np.sum(a)                                    # idiom: reduction
    total += (a * b).sum()                               # idiom: reduction
    most = a.max()                                       # idiom: reduction
    least = np.min(np.abs(a - b))                        # idiom: reduction
    inner = np.dot(a, b)                                 # idiom: reduction
    many = np.count_nonzero(a > b)                       # idiom: reduction
    every = np.all(a > 0)                                # idiom: reduction
    return total, most, least, inner, many, every


def picked_total(a: np.ndarray, index: np.ndarray):
    return np.sum(a[index])                              # idiom: gather (reduction)


def running(a: np.ndarray):
    sums = np.cumsum(a)                                  # idiom: prefix-scan
    return sums


def products(n):
    a = np.ones((n, n))
    b = np.ones((n, n))
    x = np.ones(n)
    c = a @ b                                            # idiom: matrix-product (reduction)
    y = a @ x                                            # idiom: matrix-vector-product (reduction)
    z = np.dot(a, x)                                     # idiom: matrix-vector-product (reduction)
    d = a * b                                            # idiom: stream
    return c, y, z, d


def columns_times(n, a, x):
    y = np.zeros(n)
    for j in range(n):                                   # loop: reduction
        y += a[:, j] * x[j]                              # idiom: matrix-vector-product
    return y


def kept(a: np.ndarray):
    positive = a[a > 0]                                  # idiom: compaction
    return positive


def clipped(a: np.ndarray):
    a[a < 0] = 0.0                                       # idiom: stream


def over_time(steps, u: np.ndarray):
    for _ in range(steps):                               # loop: recurrence
        u[1:-1] = 0.5 * (u[:-2] + u[2:])                 # idiom: stencil


def row_sums(n):
    a = np.ones((n, n))
    rows = a.sum(axis=1)                                 # idiom: reduction
    return rows


def sparse_rows(n, first, column, value, x: np.ndarray, y):
    for i in range(n):                                   # loop: parallel
        span = slice(first[i], first[i + 1])
        y[i] = np.dot(value[span], x[column[span]])      # idiom: sparse-product-csr (gather, reduction)
