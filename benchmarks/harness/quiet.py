"""Waits until other programs leave the machine alone, for a bounded time: what is measured beside them is too slow."""

from __future__ import annotations

import time
from collections.abc import Callable

from .machine_facts import Load, load

MOST_BUSY = 0.2
"""Largest share of processor time used by others at which measuring starts without waiting."""
PROBE_S = 0.5
LONGEST_WAIT_S, QUICK_LONGEST_WAIT_S = 60.0, 20.0


def busy_share(before: Load, after: Load) -> float:
    """Part of the processors' time between two readings that was not idle; 0 where the system does not tell."""
    total = after.total - before.total
    return 0.0 if total <= 0 else 1 - (after.idle - before.idle) / total


def wait_until_quiet(
    longest_s: float,
    *,
    on_wait: Callable[[float, float], None] | None = None,
    read: Callable[[], Load] = load,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Look, for half a second at a time, how busy the machine is, until it is quiet.

    Args:
        longest_s: when to give up.
        on_wait: told each time how busy it is, and what part of the longest wait is over, from 0 to 1.
        read: the processors' times.
        clock: seconds.
        sleep: for so many seconds.

    Returns:
        Part of the processors' time that others took in the last half second: `MOST_BUSY` at most, unless it gave up.
    """
    begin = clock()
    while True:
        before = read()
        sleep(PROBE_S)
        busy, waited_s = busy_share(before, read()), clock() - begin
        if busy <= MOST_BUSY:
            return busy
        if on_wait is not None:
            on_wait(busy, min(waited_s / longest_s, 1.0))
        if waited_s >= longest_s:
            return busy
