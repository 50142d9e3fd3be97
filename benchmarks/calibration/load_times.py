"""How far the times of single loads from main memory lie apart: of each by the clock, less what reading it takes.

Some lines come late: their bank is busy, or is being refreshed. The mean does not tell what that costs a core whose
instructions retire in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from foretrace.benchmarks.harness.buffers import Pages, allocate
from foretrace.benchmarks.harness.sampling import Measurement, Room, Run, Timing, rounded
from foretrace.benchmarks.kernels import _kernels
from foretrace.profiles.points import LatencyQuantile

QUANTILES = tuple((2 * number + 1) / 32 for number in range(16))
_NEAREST_BYTES = 4096
_LOADS = 64


@dataclass(frozen=True, slots=True)
class LoadTime:
    """What so great a part of the loads of a chain through `size_bytes` takes at most."""

    size_bytes: int
    quantile: float


def load_time_measurements(largest_bytes: int, *, room: Room) -> dict[LoadTime, Measurement]:
    """Of loads from main memory, and the median of those from the nearest cache, of which reading the clock is most.

    None where `largest_bytes` is not beyond the caches of `room`.
    """
    if largest_bytes < room.cached_bytes:
        return {}
    rng = np.random.default_rng(5)
    found = {}
    for size, quantiles in ((_NEAREST_BYTES, (0.5,)), (largest_bytes, QUANTILES)):
        data = allocate(size, Pages.HUGE)
        _kernels.link_chain(data, rng.permutation(size // _kernels.LINE_BYTES).astype(np.uint32))
        chain = _Chain(data)
        for quantile in quantiles:
            run = chain.run_of(quantile)
            found[LoadTime(size, quantile)] = room.measurement("load time", run, size, scattered=True)
    return found


class _Chain:
    """Linked memory, and the line that comes next: no load finds what the one before it brought into a cache."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._state = 0

    def run_of(self, quantile: float) -> Run:
        """Loads one by one: their number times what this part of them takes at most."""

        def run(repeats: int) -> tuple[float, int]:
            times = np.empty(_LOADS * repeats)
            self._state = _kernels.load_times(self._data, times, self._state)
            return float(np.quantile(times, quantile)) * len(times), len(times)

        return run


def latency_quantiles(measured: Mapping[LoadTime, Timing], source: str) -> tuple[LatencyQuantile, ...]:
    """The times over their mean; none where some took no longer than in the nearest cache."""
    if not measured:
        return ()
    clock_s = measured[LoadTime(_NEAREST_BYTES, 0.5)].time_s
    timings = [timing for load, timing in sorted(measured.items(), key=lambda item: item[0].quantile)
               if load.size_bytes != _NEAREST_BYTES]  # fmt: skip
    times = np.maximum.accumulate([timing.time_s - clock_s for timing in timings])
    if times[0] <= 0:
        return ()
    return tuple(
        LatencyQuantile(quantile, rounded(time_s / float(times.mean())), source, rounded(timing.noise))
        for quantile, time_s, timing in zip(QUANTILES, times, timings, strict=True)
    )
