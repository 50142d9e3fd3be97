"""usage: array_tasks.py [THREADS]

A polynomial and a root of arrays in tasks of a thread pool: NumPy's operations run beside each other.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

TASKS, VALUES, ROUNDS = 16, 60_000, 60


def smoothed(task: int) -> float:
    """The sum of values that are mapped again and again."""
    values = np.linspace(0, 1 + task, VALUES)
    mapped = np.empty_like(values)
    for _ in range(ROUNDS):
        np.multiply(values, values, out=mapped)
        np.add(mapped, 1.5, out=mapped)
        np.sqrt(mapped, out=values)
        np.divide(mapped, values, out=mapped)
        np.subtract(mapped, 0.25, out=values)
    return float(values.sum())


def workers() -> int:
    """The argument, 1 if there is none."""
    given = sys.argv[1:] or ["1"]
    if len(given) > 1 or not given[0].isdecimal() or not 1 <= int(given[0]) <= 64:
        print(f"usage: {sys.argv[0]} [THREADS], from 1 to 64", file=sys.stderr)
        sys.exit(2)
    return int(given[0])


with ThreadPoolExecutor(max_workers=workers()) as pool:
    print(f"{sum(pool.map(smoothed, range(TASKS))):.6f}")
