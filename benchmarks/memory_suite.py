"""What memory can do, by working set: loads in sequence and at random, dependent loads, gather and scatter."""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.profiles.profile import (
    BandwidthPoint,
    CurvePiece,
    GatherScatterCurve,
    LatencyPoint,
    Pattern,
)

from . import _kernels
from .sampling import Measurement

SMALLEST_BYTES = 4096
ELEMENT_BYTES = 8
RANGE_PER_ELEMENT_BYTES = 32
"""SGBench gathers one element for each four in range (the sizes in Carrington et al., ICS'11, Table 2)."""
REFERENCED_BYTES = 2 * ELEMENT_BYTES + 4
"""An iteration of gather or scatter moves an element on either side and reads its index."""

LOAD_BYTES = {"load8": 8, "load16": 16, "load32": 32}
CURVES = ("gather", "scatter")


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel at a working set or address range."""

    kernel: str
    size_bytes: int


def working_sets(largest_bytes: int, *, fine: bool) -> tuple[int, ...]:
    """Powers of two from the smallest working set up, with `fine` also those half way between."""
    sizes = []
    size = SMALLEST_BYTES
    while size <= largest_bytes:
        sizes.append(size)
        if fine and size + size // 2 <= largest_bytes:
            sizes.append(size + size // 2)
        size *= 2
    return tuple(sizes)


def memory_measurements(largest_bytes: int, *, fine: bool) -> dict[Point, Measurement]:
    """The measurements; they hold on to about five times `largest_bytes` of memory, less if not `fine`."""
    rng = np.random.default_rng(2)
    found: dict[Point, Measurement] = {}
    loads = [name for name in LOAD_BYTES if name in _kernels.available()]
    for size in working_sets(largest_bytes, fine=fine):
        data = mmap.mmap(-1, size)
        _kernels.link_chain(data, rng.permutation(size // _kernels.LINE_BYTES).astype(np.uint32))
        power_of_two = size & (size - 1) == 0
        for kernel in (*loads, "chase", *(("random8",) if power_of_two else ())):
            found[Point(kernel, size)] = Measurement(kernel, _over(kernel, data))
    span = mmap.mmap(-1, largest_bytes)
    np.frombuffer(span, dtype=np.uint8).fill(1)  # a page not written to yet is one and the same page of zeros
    dense = np.ones(largest_bytes // RANGE_PER_ELEMENT_BYTES)
    for size in working_sets(largest_bytes, fine=False):
        index = rng.integers(0, size // ELEMENT_BYTES, size // RANGE_PER_ELEMENT_BYTES, dtype=np.uint32)
        for kernel in CURVES:
            found[Point(kernel, size)] = Measurement(kernel, _indexed(kernel, span, index, dense))
    return found


def bandwidth_points(measured: Mapping[Point, Measurement], source: str) -> tuple[BandwidthPoint, ...]:
    """The surface: sequential bandwidth for each width of load, and random loads of 8 bytes."""
    points = []
    for point, measurement in measured.items():
        access = LOAD_BYTES.get(point.kernel, ELEMENT_BYTES)
        if point.kernel in LOAD_BYTES or point.kernel == "random8":
            pattern = Pattern.SEQUENTIAL if point.kernel in LOAD_BYTES else Pattern.RANDOM
            rate = rounded(access / measurement.best_s)
            noise = rounded(measurement.noise)
            points.append(BandwidthPoint(point.size_bytes, pattern, access, rate, source, noise))
    return tuple(sorted(points, key=lambda p: (p.pattern, p.access_bytes, p.working_set_bytes)))


def latency_points(measured: Mapping[Point, Measurement], source: str) -> tuple[LatencyPoint, ...]:
    """Time of a dependent load by working set."""
    return tuple(
        LatencyPoint(point.size_bytes, rounded(m.best_s), source, rounded(m.noise))
        for point, m in sorted(measured.items(), key=lambda item: item[0].size_bytes)
        if point.kernel == "chase"
    )


def gather_scatter_curves(measured: Mapping[Point, Measurement], source: str) -> tuple[GatherScatterCurve, ...]:
    """Bandwidth over address range, straight between the measured ranges; nothing is said beyond them."""
    curves = []
    for kernel in CURVES:
        ranges = sorted((p.size_bytes, REFERENCED_BYTES / m.best_s) for p, m in measured.items() if p.kernel == kernel)
        curves.append(GatherScatterCurve((kernel,), source, pieces=_pieces(ranges, source)))
    return tuple(curves)


def rounded(value: float) -> float:
    """Four significant digits: no measurement has more."""
    return float(f"{value:.4g}")


def _pieces(ranges: Sequence[tuple[int, float]], source: str) -> tuple[CurvePiece, ...]:
    pieces = []
    for (begin, left), (end, right) in itertools.pairwise(ranges):
        slope = (right - left) / (end - begin)
        last = end == ranges[-1][0]
        pieces.append(
            CurvePiece(
                from_bytes=begin,
                to_bytes=end + 1 if last else end,
                intercept_bytes_per_s=left - slope * begin,
                slope_bytes_per_s_per_byte=slope,
                source=source,
            )
        )
    return tuple(pieces)


def _over(kernel: str, data: mmap.mmap) -> Callable[[int], tuple[float, int]]:
    """Run a kernel over a buffer, going on where the run before stopped."""
    state = 0

    def run(repeats: int) -> tuple[float, int]:
        nonlocal state
        seconds, operations, state = _kernels.run(kernel, repeats=repeats, data=data, state=state)
        return seconds, operations

    return run


def _indexed(
    kernel: str,
    data: mmap.mmap,
    index: npt.NDArray[np.uint32],
    dense: npt.NDArray[np.float64],
) -> Callable[[int], tuple[float, int]]:
    def run(repeats: int) -> tuple[float, int]:
        seconds, operations, _ = _kernels.run(kernel, repeats=repeats, data=data, index=index, dense=dense)
        return seconds, operations

    return run
