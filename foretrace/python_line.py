"""How long a line of plain Python takes here: the unit that times of other Python code are told in."""

from __future__ import annotations

import itertools
import time

LINES = 5
"""Lines of the loop's body."""
BYTECODES = 19
"""Of one time around, in CPython 3.11."""


def run_lines(repeats: int) -> tuple[float, int]:
    """Run lines of arithmetic, an element of a list, a comparison. Returns seconds, and how many lines it was."""
    values = [0.25, 0.75, 0.5, 1.5]
    total = 0.0
    begin = time.perf_counter()
    for i in itertools.repeat(3, repeats):
        x = values[i]
        y = x * 0.5 + total
        if y > 1e6:
            y = 0.0
        total = y
    return time.perf_counter() - begin, LINES * repeats
