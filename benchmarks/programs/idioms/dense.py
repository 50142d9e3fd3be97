"""Dense loops: streams, transposes, stencils, products of matrices and vectors, and what looks like them."""

import math

import numpy as np


def triad(n, a, b, c, q):
    for i in range(n):                                   # loop: parallel
        a[i] = b[i] + q * c[i]                           # idiom: stream


def figure_1(n, c, values, constants, dest_array, source_array):
    values[c] = constants[c]                             # idiom: none
    for i in range(n):                                   # loop: parallel
        item = source_array[i]
        dest_array[i] = item                             # idiom: stream


def same_place(n, c, a, b):
    for _ in range(n):                                   # loop: unjudged
        a[c] = b[c]                                      # idiom: none


def scaled(a):
    for i, value in enumerate(a):                        # loop: parallel
        a[i] = 2.0 * value                               # idiom: stream


def paired(out, left, right):
    i = 0
    for one, other in zip(left, right):                  # loop: parallel
        out[i] = one * other                             # idiom: stream
        i += 1


def countdown(a, b):
    i = len(a) - 1
    while i >= 0:                                        # loop: parallel
        a[i] += b[i]                                     # idiom: stream
        i -= 1


def strided(n, a, b, step):
    for i in range(0, n, step):                          # loop: parallel
        a[i] = b[i]                                      # idiom: stream


def even_places(n, a, b):
    for i in range(n // 2):                              # loop: parallel
        a[i] = b[2 * i + 1]                              # idiom: none


def backwards(n, a, b):
    for i in reversed(range(n)):                         # loop: parallel
        a[i] = math.sqrt(b[i])                           # idiom: stream


def rows_of_lists(rows):
    for row in rows:                                     # loop: unjudged
        for j in range(len(row)):                        # loop: parallel
            row[j] = row[j] + 1                          # idiom: stream


def flipped(n, m, a, b):
    for i in range(n):                                   # loop: parallel
        for j in range(m):                               # loop: parallel
            a[j][i] = b[i][j]                            # idiom: transpose


def flipped_flat(rows, columns, out, matrix):
    for r in range(rows):                                # loop: parallel
        for c in range(columns):                         # loop: parallel
            kept = matrix[r * columns + c]
            out[c * rows + r] = kept                     # idiom: transpose


def flipped_array(n, a: np.ndarray):
    out = np.empty((n, n))
    for i in range(n):                                   # loop: parallel
        for j in range(n):                               # loop: parallel
            out[i, j] = a[j, i]                          # idiom: transpose
    return out


def not_flipped(n, a, b):
    for j in range(n):                                   # loop: parallel
        for i in range(n):                               # loop: parallel
            a[i, j] = b[i, j]                            # idiom: stream


def exchanged_in_place(n, m):
    for i in range(1, n):                                # loop: parallel
        for j in range(i):                               # loop: parallel
            m[i, j], m[j, i] = m[j, i], m[i, j]          # idiom: transpose


def three_points(n, a, b):
    for i in range(1, n - 1):                            # loop: parallel
        a[i] = (b[i - 1] + b[i] + b[i + 1]) / 3          # idiom: stencil


def differences(n, flux, u):
    for i in range(n - 1):                               # loop: parallel
        flux[i] = u[i + 1] - u[i]                        # idiom: stencil


def five_points(u, v):
    rows, columns = u.shape
    for i in range(1, rows - 1):                         # loop: parallel
        for j in range(1, columns - 1):                  # loop: parallel
            across = u[i, j - 1] + u[i, j + 1]
            along = u[i - 1, j] + u[i + 1, j]
            v[i, j] = 0.25 * (across + along)            # idiom: stencil


def gauss_seidel(n, u, f):
    for i in range(1, n - 1):                            # loop: recurrence
        for j in range(1, n - 1):                        # loop: recurrence
            u[i, j] = (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j]) / 4  # idiom: stencil (recurrence)


def shifted(n, a, b):
    for i in range(n - 1):                               # loop: parallel
        a[i] = b[i + 1] * b[i + 1]                       # idiom: stream


def shifted_in_place(n, a):
    for i in range(n - 1):                               # loop: recurrence
        a[i] = a[i + 1]                                  # idiom: stream


def product(n, a, b, c):
    for i in range(n):                                   # loop: parallel
        for j in range(n):                               # loop: parallel
            total = 0.0
            for k in range(n):                           # loop: reduction
                total += a[i][k] * b[k][j]               # idiom: matrix-product (reduction)
            c[i][j] = total                              # idiom: none


def product_by_rows(n, a, b, c):
    for i in range(n):                                   # loop: parallel
        for k in range(n):                               # loop: reduction
            factor = a[i, k]
            for j in range(n):                           # loop: parallel
                c[i, j] += factor * b[k, j]              # idiom: matrix-product


def element_products(n, a, b, c):
    for i in range(n):                                   # loop: parallel
        for j in range(n):                               # loop: parallel
            c[i, j] += a[i, j] * b[i, j]                 # idiom: stream


def times_vector(n, m, a, x, y):
    for i in range(n):                                   # loop: parallel
        y[i] = 0.0                                       # idiom: stream
        for j in range(m):                               # loop: reduction
            y[i] += a[i, j] * x[j]                       # idiom: matrix-vector-product (reduction)


def times_vector_flat(n, m, a, x, y):
    at = 0
    for i in range(n):                                   # loop: unjudged
        total = 0.0
        for j in range(m):                               # loop: reduction
            total = total + x[j] * a[i * m + j]          # idiom: matrix-vector-product (reduction)
            at += 1
        y[i] = total                                     # idiom: none
    return at


def row_total(n, m, a, x, y):
    for i in range(n):                                   # loop: parallel
        for j in range(m):                               # loop: reduction
            y[i] += a[i, j] * x[i]                       # idiom: reduction


def rank_one(n, a, x, y):
    for i in range(n):                                   # loop: parallel
        for j in range(n):                               # loop: parallel
            a[i, j] += x[i] * y[j]                       # idiom: stream


def butterflies(half, re):
    for k in range(half):                                # loop: parallel
        upper = re[k]
        lower = re[k + half]
        re[k] = upper + lower                            # idiom: fft-butterfly
        re[k + half] = upper - lower


def twisted(half, start, z, turns):
    for k in range(half):                                # loop: parallel
        t = turns[k] * z[start + half + k]
        z[start + half + k] = z[start + k] - t           # idiom: fft-butterfly
        z[start + k] = z[start + k] + t


def sum_and_difference(n, total, gap, a, b):
    for i in range(n):                                   # loop: parallel
        total[i] = a[i] + b[i]                           # idiom: stream
        gap[i] = a[i] - 2 * b[i]                         # idiom: stream


class Field:
    def __init__(self, n):
        self.now = np.zeros(n)
        self.next = np.zeros(n)
        self.n = n

    def diffuse(self, rate):
        for i in range(1, self.n - 1):                   # loop: parallel
            self.next[i] = self.now[i] + rate * (self.now[i - 1] - 2 * self.now[i] + self.now[i + 1])  # idiom: stencil

    def scale(self, factor):
        for i in range(self.n):                          # loop: parallel
            self.now[i] *= factor                        # idiom: stream
