"""usage: array_lock.py [THREADS]

Arrays that tasks of a thread pool prepare, and add to a shared total under a lock, which takes three times as long:
bound by the lock.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

TASKS, VALUES, ROUNDS = 48, 60_000, 8
lock = threading.Lock()
total = np.zeros(VALUES)


def merged(task: int) -> None:
    """Prepare values, and add functions of them to the total."""
    values = np.linspace(0, 1 + task, VALUES)
    mapped = np.empty_like(values)
    for _ in range(ROUNDS):
        np.multiply(values, 0.5, out=mapped)
        np.sqrt(mapped, out=values)
    with lock:
        for _ in range(3 * ROUNDS):
            np.sqrt(values, out=mapped)
            np.add(total, mapped, out=total)


def workers() -> int:
    """The argument, 1 if there is none."""
    given = sys.argv[1:] or ["1"]
    if len(given) > 1 or not given[0].isdecimal() or not 1 <= int(given[0]) <= 64:
        print(f"usage: {sys.argv[0]} [THREADS], from 1 to 64", file=sys.stderr)
        sys.exit(2)
    return int(given[0])


with ThreadPoolExecutor(max_workers=workers()) as pool:
    for _ in pool.map(merged, range(TASKS)):
        pass
print(f"{total.sum():.3f}")
