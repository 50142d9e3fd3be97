"""Labelled after the recogniser was finished: array programs of physics and statistics."""

import numpy as np


def velocities(x: np.ndarray, v: np.ndarray, dt: float):
    x += dt * v                                          # idiom: stream
    np.multiply(v, 0.99, out=v)                          # idiom: stream


def upwind(q: np.ndarray, c):
    q[1:] -= c * (q[1:] - q[:-1])                        # idiom: stencil


def laplace(p, f, h):
    p[1:-1, 1:-1] = 0.25 * (p[1:-1, 2:] + p[1:-1, :-2] + p[2:, 1:-1] + p[:-2, 1:-1] - h * h * f[1:-1, 1:-1])  # idiom: stencil
    p[:, 0] = 0.0                                        # idiom: stream
    p[0, :] = p[1, :]                                    # idiom: stream


def energies(mass: np.ndarray, speed: np.ndarray):
    return 0.5 * np.sum(mass * speed**2)                 # idiom: reduction


def standardised(x: np.ndarray):
    centred = x - x.mean()                               # idiom: stream, idiom: reduction
    return centred / np.sqrt((centred * centred).sum())  # idiom: stream, idiom: reduction


def bootstrap(x: np.ndarray, index: np.ndarray):
    sample = x[index]                                    # idiom: gather
    return sample.max()                                  # idiom: reduction


def clusters(label: np.ndarray, x: np.ndarray, k):
    total = np.zeros(k)
    np.add.at(total, label, x)                           # idiom: gather-modify-scatter
    size = np.bincount(label, minlength=k)               # idiom: gather-modify-scatter
    return total / size                                  # idiom: stream


def cumulative(p: np.ndarray):
    edges = np.cumsum(p)                                 # idiom: prefix-scan
    edges /= edges[-1]                                   # idiom: stream
    return edges


def outliers(x: np.ndarray, limit):
    return x[np.abs(x) > limit]                          # idiom: compaction


def placed(x: np.ndarray, order: np.ndarray):
    out = np.empty_like(x)
    out[order] = x                                       # idiom: scatter
    return out


def regression(a: np.ndarray, y: np.ndarray, n):
    gram = np.zeros((n, n))
    for i in range(n):                                   # loop: parallel
        for j in range(n):                               # loop: parallel
            gram[i, j] = a[:, i] @ a[:, j]               # idiom: matrix-product (reduction)
    return gram


def power_iteration(n, steps):
    a = np.ones((n, n))
    x = np.ones(n)
    for _ in range(steps):                               # loop: recurrence
        y = a @ x                                        # idiom: matrix-vector-product (reduction)
        x = y / np.sqrt(np.sum(y * y))                   # idiom: stream, idiom: reduction
    return x


def covariance_rows(m):
    out = np.zeros((3, 3))
    for i in range(3):                                   # loop: parallel
        out[i, :] = m[:, i]                              # idiom: transpose
    return out


def thermal(t: np.ndarray, conductivity: np.ndarray):
    flux = conductivity[:-1] * np.diff(t)                # idiom: stencil
    t[1:-1] += flux[1:] - flux[:-1]                      # idiom: stencil
