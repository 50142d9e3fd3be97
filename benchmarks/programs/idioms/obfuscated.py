"""The same idioms in other clothes: classes, closures, walrus, generators, matrices of lists, library calls."""

from __future__ import annotations

import itertools
import operator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np
import numpy.typing as npt

WEIGHTS = np.array([0.25, 0.5, 0.25, 0.0])


@dataclass
class Grid:
    values: np.ndarray
    width: int
    height: int

    def at(self, x, y):
        return self.values[y * self.width + x]

    def brighten(self, amount):
        for y in range(self.height):                     # loop: parallel
            for x in range(self.width):                  # loop: parallel
                self.values[y * self.width + x] += amount  # idiom: stream

    def blurred(self):
        out = np.zeros_like(self.values)
        w = self.width
        for y in range(1, self.height - 1):              # loop: parallel
            for x in range(1, w - 1):                    # loop: parallel
                k = y * w + x
                out[k] = (self.values[k - 1] + self.values[k + 1] + self.values[k - w] + self.values[k + w]) / 4  # idiom: stencil
        return out


class Node:
    def __init__(self, value, link=None):
        self.value, self.link = value, link


class Stack:
    def __init__(self):
        self.top = None
        self.items = []

    def total(self):
        result, node = 0, self.top
        while node:                                      # loop: recurrence
            result += node.value                         # idiom: reduction
            node = node.link                             # idiom: pointer-chase
        return result

    def last(self):
        node = self.top
        while (after := node.link) is not None:          # loop: recurrence
            node = after                                 # idiom: pointer-chase
        return node


def two_ends(a):
    i, j = 0, len(a) - 1
    while i < j:                                         # loop: parallel
        a[i], a[j] = a[j], a[i]                          # idiom: none
        i += 1
        j -= 1


def nested_lists(n):
    return [[i * j for j in range(n)] for i in range(n)]  # idiom: stream


def flattened(rows):
    return [value for row in rows for value in row]      # idiom: stream


def turned(m):
    rows, columns = len(m), len(m[0])
    out = [[0.0] * rows for _ in range(columns)]         # idiom: stream
    for i in range(rows):                                # loop: parallel
        for j in range(columns):                         # loop: parallel
            out[j][i] = m[i][j]                          # idiom: transpose
    return out


def list_product(a, b):
    n, m, p = len(a), len(b), len(b[0])
    c = [[0.0] * p for _ in range(n)]                    # idiom: stream
    for i in range(n):                                   # loop: parallel
        for j in range(p):                               # loop: parallel
            c[i][j] = sum(a[i][k] * b[k][j] for k in range(m))  # idiom: matrix-product (reduction)
    return c


def list_times_vector(a, x):
    y = []
    for row in a:                                        # loop: parallel
        y.append(sum(p * q for p, q in zip(row, x)))     # idiom: matrix-vector-product (reduction)
    return y


def numpy_rows(a: npt.NDArray, x: npt.NDArray):
    y = np.empty(a.shape[0])
    for i in range(a.shape[0]):                          # loop: parallel
        y[i] = a[i, :].dot(x)                            # idiom: matrix-vector-product (reduction)
    return y


def coo_numpy(row: np.ndarray, column: np.ndarray, value: np.ndarray, x: np.ndarray, n):
    y = np.zeros(n)
    np.add.at(y, row, value * x[column])                 # idiom: sparse-product-coo (gather, gather-modify-scatter)
    return y


def csr_zip(starts, columns, values, x):
    out = []
    for begin, end in zip(starts, starts[1:]):           # loop: parallel
        s = 0.0
        for k in range(begin, end):                      # loop: reduction
            s += values[k] * x[columns[k]]               # idiom: sparse-product-csr (gather, reduction)
        out.append(s)                                    # idiom: none
    return out


def histogram_dict(words):
    count = {}
    for word in words:                                   # loop: unjudged
        count[word] = count.get(word, 0) + 1             # idiom: gather-modify-scatter
    return count


def degree(edges, n):
    out = np.zeros(n, dtype=np.int64)
    for u, v in edges:                                   # loop: reduction
        out[u] += 1                                      # idiom: gather-modify-scatter
        out[v] += 1                                      # idiom: gather-modify-scatter
    return out


def looked_up(codes: np.ndarray):
    return WEIGHTS[codes & 3]                            # idiom: table-lookup


def above(values, limit):
    kept = []
    for i, value in enumerate(values):                   # loop: recurrence
        if value <= limit:
            continue
        kept.append(i)                                   # idiom: compaction
    return kept


def nonzero(a: np.ndarray):
    return np.flatnonzero(a > 0)                         # idiom: compaction


def summed(values):
    return reduce(operator.add, values, 0)               # idiom: reduction


def any_large(values, limit):
    for value in values:                                 # loop: unjudged
        if value > limit:
            return True
    return False


def rms(a: np.ndarray):
    return float(np.sqrt(np.mean(a**2)))                 # idiom: reduction


def mean_and_max(a):
    total, most = 0.0, a[0]
    for v in a:                                          # loop: reduction
        total += v                                       # idiom: reduction
        most = v if v > most else most                   # idiom: reduction
    return total / len(a), most


def growth(values):
    return [b - a for a, b in pairwise(values)]          # idiom: stencil


def growth_numpy(values: np.ndarray):
    return np.diff(values)                               # idiom: stencil


def running_max(values: np.ndarray):
    return np.maximum.accumulate(values)                 # idiom: prefix-scan


def running_total(values):
    total = 0
    return [total := total + v for v in values]          # idiom: prefix-scan


def tables(counts):
    offsets = [0]
    for c in counts:                                     # loop: recurrence
        offsets.append(offsets[-1] + c)                  # idiom: prefix-scan
    return offsets


def horner(coefficients, x):
    result = 0.0
    for c in reversed(coefficients):                     # loop: recurrence
        result = result * x + c                          # idiom: recurrence
    return result


def logistic(n, r, x):
    out = np.empty(n)
    for i in range(n):                                   # loop: recurrence
        x = r * x * (1 - x)                              # idiom: recurrence
        out[i] = x
    return out


def gnome(a):
    i = 0
    while i < len(a):                                    # loop: unjudged
        if i == 0 or a[i] >= a[i - 1]:
            i += 1
        else:
            a[i], a[i - 1] = a[i - 1], a[i]              # idiom: sort
            i -= 1


def odd_even(a):
    n = len(a)
    for start in (0, 1):                                 # loop: unjudged
        for i in range(start, n - 1, 2):                 # loop: parallel
            if a[i + 1] < a[i]:
                a[i], a[i + 1] = a[i + 1], a[i]          # idiom: sort


def fft(x: np.ndarray, size):
    half = size // 2
    for start in range(0, len(x), size):                 # loop: unjudged
        for k in range(start, start + half):             # loop: parallel
            even, odd = x[k], x[k + half]
            x[k], x[k + half] = even + odd, even - odd   # idiom: fft-butterfly


def product_pairs(a, b):
    return [x * y for x, y in itertools.product(a, b)]   # idiom: stream


def wave(steps, u, v, w, c):
    for _ in range(steps):                               # loop: recurrence
        for i in range(1, len(u) - 1):                   # loop: parallel
            w[i] = 2 * u[i] - v[i] + c * (u[i - 1] - 2 * u[i] + u[i + 1])  # idiom: stencil
        u, v, w = w, u, v


def rolled(a: np.ndarray):
    return 0.5 * (np.roll(a, 1) + np.roll(a, -1))        # idiom: stencil


def outer(x: np.ndarray, y: np.ndarray):
    return np.outer(x, y)                                # idiom: stream


def einsum(a: np.ndarray, b: np.ndarray):
    return np.einsum("ik,kj->ij", a, b)                  # idiom: matrix-product (reduction)


def selected(a: np.ndarray, b: np.ndarray):
    mask = b > 0                                         # idiom: stream
    a[mask] = b[mask]                                    # idiom: stream


def distances(x: np.ndarray):
    n = len(x)
    d = np.zeros((n, n))
    for i in range(n):                                   # loop: parallel
        for j in range(n):                               # loop: parallel
            d[i, j] = abs(x[i] - x[j])                   # idiom: stream
    return d
