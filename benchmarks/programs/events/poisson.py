"""Solves Poisson's equation on a square by conjugate gradients in NumPy, and counts its iterations as an event.

usage: poisson.py SIDE ITERATIONS
"""

import sys

import numpy as np

from foretrace import events

library = events.Library("Poisson")
iterations = library.counter("iterations", "iterations of the solver [iteration]")
residuals = library.recorder("residuals", description="norm of the residual of each iteration")


def apply(u):
    """4 u less the four neighbours: zero outside of the square."""
    found = 4 * u
    found[1:] -= u[:-1]
    found[:-1] -= u[1:]
    found[:, 1:] -= u[:, :-1]
    found[:, :-1] -= u[:, 1:]
    return found


def solve(b, most):
    x, r = np.zeros_like(b), b.copy()
    direction, square = r.copy(), float((r * r).sum())
    for _ in range(most):
        product = apply(direction)
        alpha = square / float((direction * product).sum())
        x += alpha * direction
        r -= alpha * product
        before, square = square, float((r * r).sum())
        direction = r + square / before * direction
        iterations.increment()
        residuals.record(square**0.5)
    return x


side, most = map(int, sys.argv[1:])
rows, columns = np.mgrid[:side, :side] / side
solution = solve(np.sin(3 * rows) * columns, most)
print(f"{solution.sum():.6g}")
