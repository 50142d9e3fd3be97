"""Memory performance of one core by working set: sequential loads by width, random loads; and the cost of new pages."""

from __future__ import annotations

import ctypes
import mmap
import time
from collections.abc import Mapping
from dataclasses import dataclass

from foretrace.benchmarks.harness.buffers import Pages, allocate, huge_page_bytes, new_memory, over
from foretrace.benchmarks.harness.sampling import Measurement, Room, Run, Samples, Timing, rounded
from foretrace.benchmarks.kernels import _kernels
from foretrace.profiles.profile import BandwidthPoint, Pattern

from .latency_suite import working_sets

ELEMENT_BYTES = 8
LOAD_BYTES = {"load8": 8, "load16": 16, "load32": 32}
RANDOM = "random8"
NEW_MEMORY_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel at a working set."""

    kernel: str
    size_bytes: int


def memory_measurements(largest_bytes: int, *, fine: bool, room: Room, nearest_bytes: int) -> dict[Point, Measurement]:
    """The measurements, all over one buffer.

    Loads at random from the nearest cache, of `nearest_bytes`, take as long as any: what would be timed is how their
    addresses are made.
    """
    data = allocate(largest_bytes)
    found: dict[Point, Measurement] = {}
    loads = [name for name in LOAD_BYTES if name in _kernels.available()]
    for size in working_sets(largest_bytes, fine=fine):
        at_random = size & (size - 1) == 0 and size > nearest_bytes
        for kernel in (*loads, *((RANDOM,) if at_random else ())):
            run = over(kernel, data[:size])
            found[Point(kernel, size)] = room.measurement(kernel, run, size, scattered=kernel == RANDOM)
    return found


def bandwidth_points(measured: Mapping[Point, Timing], source: str) -> tuple[BandwidthPoint, ...]:
    """Sequential bandwidth for each width of load, and random loads of 8 bytes."""
    points = []
    for point, timing in measured.items():
        access = LOAD_BYTES.get(point.kernel, ELEMENT_BYTES)
        pattern = Pattern.SEQUENTIAL if point.kernel in LOAD_BYTES else Pattern.RANDOM
        rate, noise = rounded(access / timing.time_s), rounded(timing.noise)
        points.append(BandwidthPoint(point.size_bytes, pattern, access, rate, source, noise))
    return tuple(sorted(points, key=lambda p: (p.pattern, p.access_bytes, p.working_set_bytes)))


# ---- new pages -------------------------------------------------------------------------------------------------------


def first_touch_measurements(available_bytes: int | None) -> dict[int, Measurement]:
    """The first store to each page of new memory, and giving the page back, by the size of page."""
    if available_bytes is not None and available_bytes < 4 * NEW_MEMORY_BYTES:
        return {}
    found = {mmap.PAGESIZE: Measurement("first touch", _first_stores(mmap.PAGESIZE, Pages.USUAL), Samples(shared=True))}
    huge = huge_page_bytes()
    if huge is not None and huge <= NEW_MEMORY_BYTES // 8:
        found[huge] = Measurement("first touch", _first_stores(huge, Pages.HUGE), Samples(shared=True))
    return found


def _first_stores(page_bytes: int, pages: Pages) -> Run:
    """Stores to all pages of some memory, which are given back, at most four times whatever `repeats` is: a page is new
    only once."""
    size = max(16 * page_bytes, NEW_MEMORY_BYTES)  # a strided kernel takes 16 steps at least

    def run(repeats: int) -> tuple[float, int]:
        seconds, touched = 0.0, 0
        for _ in range(min(repeats, 4)):
            memory = new_memory(size + page_bytes, pages)
            view = _untouched(memory, size, page_bytes)
            took, stores, _ = _kernels.run("store_strided", data=view, stride=page_bytes)
            seconds += took
            touched += stores
            view.release()
            began = time.perf_counter()
            memory.close()
            seconds += time.perf_counter() - began
        return seconds, touched

    return run


def _untouched(memory: mmap.mmap, size_bytes: int, page_bytes: int) -> memoryview:
    """A view of new memory that begins with a page; nothing of it is read or written for it."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start = -address % page_bytes
    return memoryview(memory)[start : start + size_bytes]
