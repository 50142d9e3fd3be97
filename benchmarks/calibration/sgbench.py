"""SGBench (Carrington et al., ICS'11, section 3.1): bandwidth of gather and scatter against the address range.

The loops are `B[i] = A[index[i]]` (gather), `A[index[i]] = B[i]` (scatter) and `A[index[i]] += B[i]` (update); the
address range is the size of A. See `index_array` for the index modes. As in the paper's Table 2 there is one index for
each four elements of A, but in stride-1 mode, where each element has one.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import CalibrationError
from foretrace.base.units import format_bytes
from foretrace.benchmarks.harness.buffers import allocate, indexed
from foretrace.benchmarks.harness.machine_facts import caches, core_cpus, memory_bytes, pinned
from foretrace.benchmarks.harness.sampling import Measurement, Progress, Room, Run, Timing, measure, rounded
from foretrace.benchmarks.kernels import _kernels
from foretrace.profiles.points import IndexMode
from foretrace.profiles.profile import CurvePoint, GatherScatterCurve

from .latency_suite import working_sets

OPERATIONS = ("gather", "scatter", "update")
ELEMENT_BYTES = (4, 8)
SMALLEST_BYTES = 1024
ELEMENTS_PER_INDEX = 4
INDEX_BYTES = 4
SECTION_BYTES = 4096
STREAMS = 8
OFFSET_BYTES = 33 * 64
"""Arrays that all begin at the same place of a page are a special case: a core may take loads and stores to the same
place of two pages for the same."""
_INDEX_OFFSET_BYTES = 1024
_SEED = 4


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of SGBench; with several threads each has arrays of its own."""

    operation: str
    index_mode: IndexMode
    element_bytes: int
    threads: int
    range_bytes: int

    @property
    def referenced_bytes(self) -> int:
        """Bytes that an iteration references: an element on either side (an update's twice) and its index."""
        return (3 if self.operation == "update" else 2) * self.element_bytes + INDEX_BYTES


def _bytes_of(loop: Loop) -> int:
    """All that a thread of a loop goes through: the range, the dense array and the index."""
    per_index = 1 if loop.index_mode is IndexMode.STRIDE_1 else ELEMENTS_PER_INDEX
    elements = loop.range_bytes // loop.element_bytes
    return loop.range_bytes + elements // per_index * (loop.element_bytes + INDEX_BYTES)


def ranges(largest_bytes: int, *, fine: bool) -> tuple[int, ...]:
    """Address ranges from 1 KiB: powers of two, or of four and the largest if not `fine`."""
    sizes = working_sets(largest_bytes, fine=False, smallest_bytes=SMALLEST_BYTES)
    return sizes if fine else sizes[:-1:2] + sizes[-1:]


def index_array(
    mode: IndexMode, num_elements: int, element_bytes: int, rng: np.random.Generator
) -> npt.NDArray[np.uint32]:
    """Indices into an array of `num_elements`, a power of two from 64 up.

    stride-1: one after the other. random: anywhere. clustered: sections of 4 KiB one after the other, at random within
    each. spread: eight streams in turns, each through its eighth of the array in steps of four elements.
    """
    if mode is IndexMode.STRIDE_1:
        return np.arange(num_elements, dtype=np.uint32)
    count = num_elements // ELEMENTS_PER_INDEX
    if mode is IndexMode.RANDOM:
        return rng.integers(0, num_elements, count, dtype=np.uint32)
    if mode is IndexMode.CLUSTERED:
        section = min(SECTION_BYTES // element_bytes, num_elements)
        begins = np.repeat(np.arange(0, num_elements, section, dtype=np.uint32), section // ELEMENTS_PER_INDEX)
        return begins + rng.integers(0, section, count, dtype=np.uint32)
    begins = np.arange(STREAMS, dtype=np.uint32) * np.uint32(num_elements // STREAMS)
    steps = np.arange(count // STREAMS, dtype=np.uint32) * np.uint32(ELEMENTS_PER_INDEX)
    return (steps[:, None] + begins[None, :]).ravel()


def loop_measurements(
    loops: Sequence[Loop], *, room: Room, cpus: Sequence[int] = (), offset_bytes: int = OFFSET_BYTES
) -> dict[Loop, Measurement]:
    """The measurements. For each thread they hold on to two and a half times the largest range, and on the indices.

    Args:
        loops: what to measure.
        room: what stays in caches.
        cpus: where the threads of a loop run; without, wherever the system puts them.
        offset_bytes: B begins so many bytes behind a page's beginning, the index 1 KiB further; a multiple of 64. With
            0 all begin at a page.
    """
    most_threads = max(loop.threads for loop in loops)
    largest = max(loop.range_bytes for loop in loops)
    arrays = [_Arrays.of(largest, offset_bytes) for _ in range(most_threads)]
    indices: dict[tuple[IndexMode, int, int], npt.NDArray[np.uint32]] = {}
    found = {}
    for loop in loops:
        kernel = f"{loop.operation}{loop.element_bytes}"
        size = loop.range_bytes
        index_of = (loop.index_mode, size // loop.element_bytes, loop.element_bytes)
        if index_of not in indices:
            index = index_array(*index_of, np.random.default_rng(_SEED))
            indices[index_of] = _at(index, offset_bytes + _INDEX_OFFSET_BYTES if offset_bytes else 0)
        run = (
            indexed(kernel, arrays[0].a[:size], indices[index_of], arrays[0].b)
            if loop.threads == 1
            else _together(kernel, size, indices[index_of], arrays[: loop.threads], cpus)
        )
        found[loop] = room.measurement(loop.operation, run, _bytes_of(loop), threads=loop.threads)
    return found


def curves(measured: Mapping[Loop, Timing], source: str) -> tuple[GatherScatterCurve, ...]:
    """Bandwidth over address range, for each operation, index mode, element size and number of threads."""
    found = []
    for kind in dict.fromkeys((x.operation, x.index_mode, x.element_bytes, x.threads) for x in measured):
        operation, mode, element_bytes, threads = kind
        loops = [x for x in measured if (x.operation, x.index_mode, x.element_bytes, x.threads) == kind]
        points = tuple(
            CurvePoint(
                loop.range_bytes,
                rounded(loop.referenced_bytes / measured[loop].time_s),
                rounded(measured[loop].noise),
            )
            for loop in sorted(loops, key=lambda x: x.range_bytes)
        )
        if len(points) > 1:
            found.append(
                GatherScatterCurve(
                    operations=(operation,),
                    source=source,
                    points=points,
                    index_mode=mode,
                    element_bytes=element_bytes,
                    threads=threads,
                )
            )
    return tuple(found)


# ---- arrays and threads ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Arrays:
    """A and B of one thread."""

    a: memoryview
    b: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, largest_bytes: int, offset_bytes: int) -> _Arrays:
        dense = np.frombuffer(allocate(largest_bytes + offset_bytes), dtype=np.uint8)
        return cls(allocate(largest_bytes), dense[offset_bytes:])


def _at(index: npt.NDArray[np.uint32], offset_bytes: int) -> npt.NDArray[np.uint32]:
    """A copy of an index array that begins so many bytes behind a page's beginning."""
    room = np.frombuffer(allocate(index.nbytes + offset_bytes + mmap.PAGESIZE), dtype=np.uint32)
    placed = room[offset_bytes // INDEX_BYTES :][: len(index)]
    placed[:] = index
    return placed


def _together(
    kernel: str, size: int, index: npt.NDArray[np.uint32], threads: Sequence[_Arrays], cpus: Sequence[int]
) -> Run:
    """Several threads at once. The time is of one operation of all: their bandwidths add up."""
    states = [0] * len(threads)

    def run(repeats: int) -> tuple[float, int]:
        works = tuple(
            (cpus[i] if i < len(cpus) else -1, arrays.a[:size], index, arrays.b, states[i])
            for i, arrays in enumerate(threads)
        )
        seconds, operations, states[:] = _kernels.run_together(kernel, repeats, works)
        return seconds, operations

    return run


# ---- SGBench alone ---------------------------------------------------------------------------------------------------


def run_sgbench(
    loops: Sequence[Loop], *, quick: bool, offset_bytes: int = OFFSET_BYTES, progress: Progress | None = None
) -> tuple[dict[Loop, Timing], float]:
    """Measure loops on one core, or those with threads on one core each; and how long that took, in seconds.

    Raises:
        CalibrationError: they need more memory than is free.
    """
    begin = time.monotonic()
    _, available_bytes = memory_bytes()
    threads, largest = max(x.threads for x in loops), max(x.range_bytes for x in loops)
    needed = (2 * threads + 3) * largest
    if available_bytes is not None and needed > available_bytes // 2:
        raise CalibrationError(
            f"a range of {format_bytes(largest)} needs {format_bytes(needed)} of memory, more than half of the "
            f"{format_bytes(available_bytes)} that are free: choose a smaller --largest, or fewer threads"
        )
    with pinned() as cpu:
        room = Room.of([cache.size_bytes for cache in caches(cpu or 0)])
        measurements = loop_measurements(loops, room=room, cpus=core_cpus(), offset_bytes=offset_bytes)
        measure(
            list(measurements.values()),
            sample_s=0.001 if quick else 0.003,
            passes=2 if quick else 3,
            budget_s=8.0 if quick else 40.0,
            progress=progress,
        )
    return {loop: m.timing for loop, m in measurements.items()}, time.monotonic() - begin
