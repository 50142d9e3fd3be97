"""Time of a line of Python on this machine: the unit in which the time of other Python code is given.

The lines are a mix of what programs do, in bytecode and in the functions it calls: small and large numbers, lists,
dictionaries, strings. A noisy neighbour slows them as much as other Python code. On a busy host lines of
floating-point numbers alone took 1.46 times as long, twenty other loops 1.5 to 1.9 times, and this mix 1.9.
"""

from __future__ import annotations

import itertools
import time

LINES = 10
"""Lines of the loop's body."""


def run_lines(repeats: int) -> tuple[float, int]:
    """Run the lines. Returns seconds and the number of lines. tracer/python/blocks/lines.c has the same lines."""
    values, counts, pair = [1, 2, 3, 5], {"alpha": 1, "beta": 2, "alphabet": 3}, (1, 2)
    name, suffix, x, y, text = "alpha", "bet", 0.25, 0.25, ""
    begin = time.perf_counter()
    for k in itertools.repeat(3, repeats):
        n = values[k]
        m = (n * 7919 + k) % 1009
        x = x * 0.5 + y
        if m > 504:
            y = 0.125
        counts[name] = m
        word = name + suffix
        if word in counts:
            first, second = pair
        text = f"{n}:{(m * 6364136223846793005 + second) % 18446744073709551557 + first}"
    return time.perf_counter() - begin, LINES * repeats if text else 0
