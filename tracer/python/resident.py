"""Resident memory of a process before it forks: its page ranges, and how a child makes them its own.

A child of fork() shares its pages with the parent until it writes to them, and each first write is a page fault. The
parent running the same code has none of these faults. So the child copies all pages before tracing starts, unless there
are too many.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

import numpy as np

from foretrace.base.errors import EngineError
from foretrace.tracer.signature.records import AddressRange, merge_ranges

MOST_BYTES = 2 << 30
"""Largest size of memory that is copied for a child, in bytes."""
LEAST_RANGE_BYTES = 256 << 10
MOST_RANGES = 256
"""Limits of the listed ranges: smaller or further ones matter little, and a signature stores the list."""
_PRESENT = np.uint64(1 << 63 | 1 << 62)  # or swapped; Documentation/admin-guide/mm/pagemap.rst
_MADV_POPULATE_WRITE = 23  # madvise(2), from Linux 5.14 on


def resident_ranges() -> tuple[AddressRange, ...]:
    """The pages of private writable memory that this process has touched, as ranges.

    Raises:
        EngineError: the system does not say.
    """
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    found: list[AddressRange] = []
    try:
        with open("/proc/self/maps", "rb") as maps, open("/proc/self/pagemap", "rb", buffering=0) as pagemap:  # noqa: PTH123
            for line in maps.read().splitlines():
                span, flags = line.split()[:2]
                if not (flags.startswith(b"rw") and flags.endswith(b"p")):
                    continue
                first, last_exclusive = (int(end, 16) for end in span.split(b"-"))
                pagemap.seek(first // page_bytes * 8)
                entries = np.frombuffer(pagemap.read((last_exclusive - first) // page_bytes * 8), np.uint64)
                touched = np.concatenate(([False], entries & _PRESENT != 0, [False]))
                edges = np.flatnonzero(touched[1:] != touched[:-1])
                for begin, end in (first + page_bytes * edges.reshape(-1, 2)).tolist():
                    if found and found[-1].last_exclusive == begin:  # madvise() divides mappings
                        begin = found.pop().first
                    found.append(AddressRange(begin, end))
    except OSError as error:
        raise EngineError(f"{error.filename}: cannot be read: {error.strerror}") from error
    return tuple(found)


def own_copies(ranges: Sequence[AddressRange]) -> str:
    """Copy these pages for a child, in the child. Returns why that failed; "" if it did not."""
    if sum(one.range_bytes for one in ranges) > MOST_BYTES:
        return f"this process has more than {MOST_BYTES >> 30} GiB of memory"
    library = ctypes.CDLL(None, use_errno=True)
    for one in ranges:
        address = ctypes.c_void_p(one.first)
        if library.madvise(address, ctypes.c_size_t(one.range_bytes), _MADV_POPULATE_WRITE) != 0:
            return f"the system does not copy them: {os.strerror(ctypes.get_errno())}"
    return ""


def largest(ranges: Sequence[AddressRange]) -> tuple[AddressRange, ...]:
    """The largest ranges, at least `LEAST_RANGE_BYTES` and at most `MOST_RANGES` of them, in order of address."""
    wanted = sorted((one for one in ranges if one.range_bytes >= LEAST_RANGE_BYTES), key=lambda one: -one.range_bytes)
    return merge_ranges(wanted[:MOST_RANGES])
