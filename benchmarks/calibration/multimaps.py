"""MultiMAPS (Tikir et al.; Carrington et al., ICS'11, Figure 8): loads, stores, copies over working sets and strides.

Each point comes with the hit rates that our simulator finds for it at the machine's geometry, so that the points are a
surface: bandwidth as a function of hit rates.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.benchmarks.harness.buffers import allocate, over
from foretrace.benchmarks.harness.sampling import Measurement, Room, Timing, rounded
from foretrace.benchmarks.kernels import _kernels
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.simulator import Simulator
from foretrace.profiles.points import Movement, SurfacePoint

from .latency_suite import working_sets

ACCESS_BYTES = 8
STRIDES_BYTES = (8, 16, 32, 64, 128, 256)
COARSE_STRIDES_BYTES = (8, 64, 256)
_VECTOR_BYTES = (32, 16)  # the widest that there are kernels for comes first


@dataclass(frozen=True, slots=True)
class Sweep:
    """A loop through the working set, again and again; a copy goes from its first half to its second."""

    movement: Movement
    working_set_bytes: int
    stride_bytes: int
    access_bytes: int


def surface_measurements(largest_bytes: int, *, fine: bool, room: Room) -> dict[Sweep, Measurement]:
    """The measurements, all over one buffer."""
    data = allocate(largest_bytes)
    widest = next((w for w in _VECTOR_BYTES if f"load{w}" in _kernels.available()), None)
    found: dict[Sweep, Measurement] = {}
    sizes = working_sets(largest_bytes, fine=False)
    for size in sizes if fine else sizes[:-1:2] + sizes[-1:]:
        view = data[:size]
        for movement in Movement:
            for stride in STRIDES_BYTES if fine else COARSE_STRIDES_BYTES:
                run = over(f"{movement}_strided", view, stride_bytes=stride)
                found[Sweep(movement, size, stride, ACCESS_BYTES)] = room.measurement(movement, run, size)
            if widest is not None:
                run = over(f"{movement}{widest}", view)
                found[Sweep(movement, size, widest, widest)] = room.measurement(movement, run, size)
    return found


def surface_points(
    measured: Mapping[Sweep, Timing], hierarchy: Hierarchy | None, source: str
) -> tuple[SurfacePoint, ...]:
    """Bandwidth of each sweep with its hit rates in a hierarchy; none where no caches are known."""
    if hierarchy is None:
        return ()
    rates = {sweep: hit_rates(sweep, hierarchy) for sweep in measured}
    return tuple(
        SurfacePoint(
            movement=sweep.movement,
            working_set_bytes=sweep.working_set_bytes,
            stride_bytes=sweep.stride_bytes,
            access_bytes=sweep.access_bytes,
            hit_rates=rates[sweep],
            bandwidth_bytes_per_s=rounded(sweep.access_bytes / timing.time_s),
            source=source,
            noise=rounded(timing.noise),
        )
        for sweep, timing in sorted(
            measured.items(),
            key=lambda item: (item[0].movement, item[0].access_bytes, item[0].stride_bytes, item[0].working_set_bytes),
        )
    )


def hit_rates(sweep: Sweep, hierarchy: Hierarchy) -> tuple[float, ...]:
    """Share of a sweep's accesses that hit the first level, one of the first two, ..., once it has run for a while.

    Only one access to each line is simulated: those that follow in the same line hit the first level, whatever came
    before. And a working set that is twice the last level misses it as any larger one does.
    """
    line_bytes = hierarchy.levels[0].line_bytes
    largest = 2 * max(level.size_bytes for level in hierarchy.levels)
    size = min(sweep.working_set_bytes, 1 << (largest - 1).bit_length())
    step = max(sweep.stride_bytes, line_bytes)
    addresses = np.arange(0, size, step, dtype=np.uint64)
    stores = np.full(len(addresses), sweep.movement is Movement.STORE)
    if sweep.movement is Movement.COPY:
        half = len(addresses) // 2
        addresses = np.stack([addresses[:half], addresses[half:]], axis=1).ravel()
        stores = np.tile([False, True], half)
    missed = _misses_of_a_pass(addresses, stores, hierarchy)
    per_line = step / sweep.stride_bytes
    rates = [1 - misses / (len(addresses) * per_line) for misses in missed]
    return tuple(rounded(rate) for rate in itertools.accumulate(rates, max))


def _misses_of_a_pass(
    addresses: npt.NDArray[np.uint64], stores: npt.NDArray[np.bool_], hierarchy: Hierarchy
) -> list[int]:
    """Misses of each level in a pass over the addresses that follows another."""
    simulator = Simulator([hierarchy], reuse_rate=None)
    for number in (0, 1):
        simulator.feed(addresses, ACCESS_BYTES, number, stores)
    (simulated,) = simulator.simulated()
    return [int(misses) for misses in simulated.misses[1]]
