"""Lifetime of lines in the last cache if they are left alone: the more others bring in meanwhile, the shorter.

A part of the cache is filled, left alone for a while, and read at random: how long that takes tells how much is gone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from foretrace.benchmarks.harness.buffers import Buffer, allocate
from foretrace.benchmarks.harness.sampling import Measurement, Run, Samples, Timing, rounded
from foretrace.benchmarks.kernels import _kernels

from .cache_sizes import crossing
from .memory_suite import RANDOM

IDLE_S = (0.0, *(0.00025 * 2**n for n in range(9)))
"""So long the lines are left alone."""
_PART_OF_CACHE = 8
_LEAST_OF_BEFORE = 2
"""Size of the filled range: this part of the last cache, and at least so many times the cache before, which is the
core's own."""
_FILLINGS = 4
_PART_OF_LINES = 8
"""One load for so many lines: few of them are read twice."""
_GONE = 1.35
"""Lines that stay away from a cache that others use make loads so many times longer, at least."""


def lifetime_measurements(cache_bytes: Sequence[int]) -> dict[float, Measurement]:
    """Loads at random, by how long their lines were left alone; none without a last cache of several.

    Args:
        cache_bytes: sizes of the caches, nearest first.
    """
    if len(cache_bytes) < 2:
        return {}
    size = 1 << (max(cache_bytes[-1] // _PART_OF_CACHE, _LEAST_OF_BEFORE * cache_bytes[-2]).bit_length() - 1)
    if 2 * size > cache_bytes[-1]:
        return {}
    data = allocate(size)
    return {
        idle_s: Measurement("left alone", _after(idle_s, data, size), Samples(shared=True), is_fixed=True)
        for idle_s in IDLE_S
    }


def _after(idle_s: float, data: Buffer, size_bytes: int) -> Run:
    _, loads, _ = _kernels.run(RANDOM, data=data)
    repeats = max(1, size_bytes // _kernels.LINE_BYTES // _PART_OF_LINES // loads)

    def run(_: int) -> tuple[float, int]:
        _kernels.run("load8", repeats=_FILLINGS, data=data)
        end = time.perf_counter() + idle_s
        while time.perf_counter() < end:
            pass
        seconds, number, _ = _kernels.run(RANDOM, repeats=repeats, data=data, state=time.perf_counter_ns())
        return seconds, number

    return run


def line_lifetime(measured: Mapping[float, Timing]) -> tuple[float, float] | None:
    """After how long half of the lines are gone, in seconds, and how uncertain that is.

    None where they stay as long as was measured: nobody else uses the cache.
    """
    times = sorted((idle_s, timing.time_s) for idle_s, timing in measured.items())
    if len(times) < 2 or times[-1][1] < _GONE * times[0][1]:
        return None
    half = (times[0][1] + times[-1][1]) / 2
    noise = min(timing.noise for timing in measured.values() if timing.time_s >= half)
    curve = [(times[1][0] / 2, times[0][1]), *times[1:]]  # no time at all has no logarithm
    limits = (half, half * (1 + noise / 2), half / (1 + noise / 2))
    found = [curve[0][0] if limit < curve[0][1] else crossing(curve, limit) or curve[-1][0] for limit in limits]
    return rounded(found[0]), rounded(max(found) / min(found) - 1)
