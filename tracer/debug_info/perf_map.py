"""Functions that a program compiled while it ran, named by its perf map.

A perf map is a text file, /tmp/perf-PID.map, with a line for each function: its address and size in hexadecimal, and
its name (Linux, tools/perf/Documentation/jit-interface.txt). JVMs, V8, .NET, LuaJIT, PyPy and numba write one on
request. Anyone can put a file there: one is read only if it is a regular file of this user's, written since the program
began, and no more of it than the limits here.
"""

from __future__ import annotations

import io
import os
import stat
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from foretrace.base.files import open_unfollowed

from .symbols import Function

MAX_BYTES = 64 << 20
MAX_FUNCTIONS = 1 << 20
_MAX_LINES = 1 << 21
_MAX_LINE_BYTES = 1024
_MAX_NAME_LENGTH = 300
_CLOCK_STEP_S = 1.0
"""File systems' times are coarser than the clock's."""
MODULE = "[compiled while it ran]"


@dataclass(frozen=True, slots=True)
class PerfMap:
    """Functions sorted by start, without overlaps, and notes on what was left out."""

    functions: Sequence[Function] = ()
    notes: tuple[str, ...] = ()

    def function(self, address: int) -> Function | None:
        """The function that holds an address, or None."""
        position = bisect_right(self.functions, address, key=lambda function: function.start) - 1
        if position < 0 or address >= self.functions[position].end:
            return None
        return self.functions[position]


NO_MAP = PerfMap()


def read_perf_maps(
    pids: Sequence[int], parents: Sequence[int | None], since_s: float, directory: str = "/tmp"
) -> list[PerfMap]:
    """The perf maps of processes, of at most `MAX_FUNCTIONS` functions together.

    `parents` are positions of those that forked one, whose code it goes on with; None: it began with a program. Of two
    with the same number the first became the second, whose map it is.
    """
    found: list[PerfMap] = []
    last = {pid: position for position, pid in enumerate(pids)}
    total = 0
    for position, (pid, parent) in enumerate(zip(pids, parents, strict=True)):
        own = NO_MAP
        if total > MAX_FUNCTIONS:
            own = PerfMap(
                notes=("perf maps: those of all processes together have too many functions: some were not read",)
            )
        elif last[pid] == position:
            own = read_perf_map(pid, since_s, directory)
        total += len(own.functions)
        inherited = found[parent].functions if parent is not None and parent < position else ()
        if inherited and own.functions:
            own = PerfMap(without_overlaps([*inherited, *own.functions]), own.notes)
        found.append(own if own.functions or not inherited else PerfMap(inherited, own.notes))
    return found


def read_perf_map(pid: int, since_s: float, directory: str = "/tmp") -> PerfMap:
    """Read the perf map of a process that began at a time (seconds since the epoch); empty if the process has none."""
    path = f"{directory}/perf-{pid}.map"
    try:
        descriptor = open_unfollowed(path)
    except FileNotFoundError:
        return NO_MAP
    except OSError as error:
        return PerfMap(notes=(f"{path}: not read: {error.strerror}",))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        refused = _refusal(status, since_s)
        if refused:
            return PerfMap(notes=(f"{path}: not read: {refused}",))
        text = file.read(MAX_BYTES)
    notes = []
    if status.st_size > MAX_BYTES:
        notes.append(f"{path}: of {status.st_size:,} bytes only the first {MAX_BYTES:,} were read")
    found, damaged, is_cut = _parse(text)
    if damaged:
        notes.append(f"{path}: {damaged:,} lines are not an address, a size and a name")
    if is_cut:
        notes.append(f"{path}: only the first {len(found):,} functions were read")
    return PerfMap(without_overlaps(found), tuple(notes))


def _refusal(status: os.stat_result, since_s: float) -> str:
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_uid != os.geteuid():
        return "it is another user's"
    if status.st_mtime < since_s - _CLOCK_STEP_S:
        return "it is older than the run, so another process's"
    return ""


def _parse(text: bytes) -> tuple[list[Function], int, bool]:
    """Functions in the order of the lines, the number of lines that are none, and whether there are too many."""
    found: list[Function] = []
    damaged = 0
    for number, line in enumerate(io.BytesIO(text)):
        if len(found) == MAX_FUNCTIONS or number == _MAX_LINES:
            return found, damaged, True
        words = line[:_MAX_LINE_BYTES].split(None, 2)
        if not words:
            continue
        try:
            start, size_bytes = int(words[0], 16), int(words[1], 16)
            name = words[2].decode("utf-8", "replace").strip()
        except (ValueError, IndexError):
            damaged += 1
            continue
        if not 0 <= start < start + size_bytes < 1 << 64 or not name:
            damaged += 1
            continue
        name = "".join(letter if letter.isprintable() else "?" for letter in name[:_MAX_NAME_LENGTH])
        found.append(Function(name, start, start + size_bytes))
    return found, damaged, False


def without_overlaps(functions: Sequence[Function]) -> tuple[Function, ...]:
    """Sorted by start. Of functions at the same place the one that was compiled last, which overwrote the others."""
    kept: list[Function] = []
    order = sorted(range(len(functions)), key=lambda at: (functions[at].start, at))
    ranks: list[int] = []
    for at in order:
        function = functions[at]
        while kept and kept[-1].end > function.start and ranks[-1] < at:
            last = kept.pop()
            rank = ranks.pop()
            if last.start < function.start:
                kept.append(Function(last.name, last.start, function.start))
                ranks.append(rank)
                break
        if kept and kept[-1].end > function.start:
            if function.end <= kept[-1].end:
                continue
            function = Function(function.name, kept[-1].end, function.end)
        kept.append(function)
        ranks.append(at)
    return tuple(kept)
