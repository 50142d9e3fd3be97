"""Waits for other processes however long a busy machine takes: pytest's timeout is the limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def wait_until(condition: Callable[[], object]) -> None:
    """Return once `condition` holds."""
    while not condition():
        time.sleep(0.01)


def wait_until_it_has_run(pid: int, ticks: int = 20) -> None:
    """Return once the process has used that much more processor time, of which a second has `SC_CLK_TCK` ticks."""
    begun = _ticks(pid)
    wait_until(lambda: _ticks(pid) >= begun + ticks)


def child_of(pid: int) -> int:
    """The first process that the first thread of `pid` has started and not yet waited for."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _ticks(pid: int) -> int:
    """utime and stime (proc(5), /proc/pid/stat: fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
