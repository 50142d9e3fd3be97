"""usage: process_pool.py [PROCESSES]

Lengths of Collatz sequences in tasks of a pool of processes, each of which has an interpreter of its own.
"""

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

TASKS, NUMBERS = 24, 1600


def steps(first: int) -> int:
    """Steps to 1 of the numbers from `first` on, all together."""
    total = 0
    for number in range(first, first + NUMBERS):
        while number > 1:
            number = 3 * number + 1 if number & 1 else number >> 1
            total += 1
    return total


def workers() -> int:
    """The argument, 1 if there is none."""
    given = sys.argv[1:] or ["1"]
    if len(given) > 1 or not given[0].isdecimal() or not 1 <= int(given[0]) <= 64:
        print(f"usage: {sys.argv[0]} [PROCESSES], from 1 to 64", file=sys.stderr)
        sys.exit(2)
    return int(given[0])


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(max_workers=workers(), mp_context=context) as pool:
        print(sum(pool.map(steps, range(1, TASKS * NUMBERS, NUMBERS))))
