"""usage: sparse_solvers.py [SIDE [WIND]]

Solves -u'' + WIND u' = 1 on a square of SIDE by SIDE points (50, 40) with SciPy's Krylov methods, alone and with an
incomplete factorisation. Each method is a library of events: SciPy calls a function of ours in each iteration.
"""

import sys

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from foretrace import events

METHODS = {"CG": linalg.cg, "BiCGSTAB": linalg.bicgstab, "GMRES": linalg.gmres}


def grid(side, wind):
    """Central differences. The wind makes the matrix unsymmetric."""
    drift = wind / (side + 1) / 2
    second = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    windward = sparse.diags_array([-1 - drift, 2.0, -1 + drift], offsets=[-1, 0, 1], shape=(side, side))
    one = sparse.eye_array(side)
    return sparse.csr_array(sparse.kron(second, one) + sparse.kron(one, windward))


class Run:
    """One method on one system, and its events."""

    def __init__(self, name, matrix, right_side):
        self.matrix, self.right_side, self.residual = matrix, right_side, float(np.linalg.norm(right_side))
        library = events.Library(name)
        self.iterations = library.counter("iterations", "iterations until convergence")
        self.products = library.counter("products", "products with the matrix")
        self.residuals = library.recorder("residuals", description="norm of the residual of each iteration")
        library.watch("residual", lambda: self.residual, "norm of the last residual", kind=float)
        self.precondition = library.counted(precondition)

    def multiply(self, x):
        self.products.increment()
        return self.matrix @ x

    def note(self, residual):
        self.iterations.increment()
        self.residual = residual
        self.residuals.record(residual)

    def solve(self, method, factors, most_iterations):
        operator = linalg.LinearOperator(self.matrix.shape, self.multiply, dtype=float)
        settings = {"rtol": 1e-8, "maxiter": most_iterations}
        if factors is not None:
            apply = self.precondition
            settings["M"] = linalg.LinearOperator(self.matrix.shape, lambda r: apply(factors, r), dtype=float)
        if method is linalg.gmres:  # tells the norm of the preconditioned residual, relative to that of the right side
            scale = float(np.linalg.norm(self.right_side))
            settings |= {"callback_type": "pr_norm", "callback": lambda norm: self.note(norm * scale)}
        else:  # tells the solution
            settings["callback"] = lambda x: self.note(float(np.linalg.norm(self.right_side - self.matrix @ x)))
        return method(operator, self.right_side, **settings)


def precondition(factors, residual):
    return factors.solve(residual)


def main():
    side = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    wind = float(sys.argv[2]) if len(sys.argv) > 2 else 40.0
    matrix = grid(side, wind)
    right_side = np.ones(matrix.shape[0])
    factors = linalg.spilu(sparse.csc_array(matrix), drop_tol=1e-2)
    for name, method in METHODS.items():
        for with_ilu in (False, True):
            run = Run(name + "+ILU" * with_ilu, matrix, right_side)
            solution, code = run.solve(method, factors if with_ilu else None, 400)
            left = np.linalg.norm(right_side - matrix @ solution) / np.linalg.norm(right_side)
            print(f"{name}{' with ILU' * with_ilu}: {'did not converge' if code else 'converged'}, residual {left:.1e}")


if __name__ == "__main__":
    main()
