"""Speed-ups that follow from a program's source and published figures of machines, without a trace or a model.

What the source says of a region (operations, bytes, launches, the longest thread) is a `Work`. A `Reference` holds one
figure for each thing that can limit it: a roofline with launches, transfers and dependence chains. Nothing of it comes
from the profiles or the model that it is compared with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct

Positive = Annotated[float, Meta(gt=0)]
Amount = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(gt=0)]

DEPTH_CYCLES = 2000.0
"""Depth of a kernel whose threads are short: a few dependent accesses to memory, and its drain."""


class Work(Struct, frozen=True, forbid_unknown_fields=True):
    """Work of a region of a program in one run, read off its source.

    Attributes:
        cycles: of one core, with its data in caches.
        bytes: that move to and from `footprint_bytes` of data.
        footprint_bytes: the data, which decides what cache holds it.
        kernels: parallel loops entered: launches on a device, regions on many cores.
        flops64: floating-point operations in double precision.
        flops32: those in single precision.
        depth_cycles: of a device: its longest thread, summed over kernels, where an outermost iteration is a thread.
        shared_depth_cycles: the same where the threads of a warp share the loops inside.
        moved_bytes: that the host makes and the device needs.
        waits: results of the device that the host waits for.
        width: iterations that cores can share at most; None: as many as there are cores.
    """

    cycles: Positive
    bytes: Positive
    footprint_bytes: Positive
    kernels: Count
    flops64: Amount = 0.0
    flops32: Amount = 0.0
    depth_cycles: Positive | None = None
    shared_depth_cycles: Positive | None = None
    moved_bytes: Amount = 0.0
    waits: Annotated[int, Meta(ge=0)] = 0
    width: Count | None = None


class Reference(Struct, frozen=True, forbid_unknown_fields=True):
    """Published figures of a host and a device; `fork_s` is a parallel region with its barrier on all cores,
    `wait_s` what the host waits for a result beyond the kernel that makes it."""

    core_clock_hz: Positive
    cores: Count
    core_cache_bytes_per_s: Positive
    core_memory_bytes_per_s: Positive
    core_cache_bytes: Positive
    cores_memory_bytes_per_s: Positive
    cores_cache_bytes: Positive
    fork_s: Positive
    device_clock_hz: Positive
    device_memory_bytes_per_s: Positive
    device_cache_bytes_per_s: Positive
    device_cache_bytes: Positive
    device_flops64_per_s: Positive
    device_flops32_per_s: Positive
    launch_s: Positive
    link_bytes_per_s: Positive
    wait_s: Positive


@dataclass(frozen=True, slots=True)
class Expected:
    """Times of a region on one core, on all cores (no longer than on one), and on the device with its transfers.

    The device's time is an interval where it matters whether a warp shares the loops inside a parallel one: either is a
    way to write the kernel.
    """

    core_s: float
    cores_s: float
    device_low_s: float
    device_high_s: float

    def over(self, host_s: float) -> tuple[float, float]:
        """Least and most times as fast as a host the device is."""
        return host_s / self.device_high_s, host_s / self.device_low_s


def beside(speedup: float, interval: tuple[float, float]) -> float:
    """A speed-up over the nearer end of an interval; 1 inside it."""
    low, high = interval
    return speedup / min(max(speedup, low), high)


def expected(work: Work, reference: Reference) -> Expected:
    """Times that follow from a region's work."""
    in_core_caches = work.footprint_bytes <= reference.core_cache_bytes
    core_bandwidth = reference.core_cache_bytes_per_s if in_core_caches else reference.core_memory_bytes_per_s
    core_s = max(work.cycles / reference.core_clock_hz, work.bytes / core_bandwidth)

    sharing = min(reference.cores, work.width or reference.cores)
    in_cores_caches = work.footprint_bytes <= reference.cores_cache_bytes
    cores_bandwidth = (
        sharing * reference.core_cache_bytes_per_s if in_cores_caches else reference.cores_memory_bytes_per_s
    )
    shared_s = max(work.cycles / reference.core_clock_hz / sharing, work.bytes / cores_bandwidth)
    cores_s = min(core_s, shared_s + work.kernels * reference.fork_s)

    depth = work.kernels * DEPTH_CYCLES if work.depth_cycles is None else work.depth_cycles
    shared_depth = depth if work.shared_depth_cycles is None else work.shared_depth_cycles
    low_s, high_s = sorted(_device_s(work, reference, cycles) for cycles in (depth, shared_depth))
    return Expected(core_s, cores_s, low_s, high_s)


def _device_s(work: Work, reference: Reference, depth_cycles: float) -> float:
    in_cache = work.footprint_bytes <= reference.device_cache_bytes
    bandwidth = reference.device_cache_bytes_per_s if in_cache else reference.device_memory_bytes_per_s
    kernels_s = max(
        work.bytes / bandwidth,
        work.flops64 / reference.device_flops64_per_s,
        work.flops32 / reference.device_flops32_per_s,
        depth_cycles / reference.device_clock_hz,
    )
    started_s = work.kernels * reference.launch_s + work.waits * reference.wait_s
    return kernels_s + started_s + work.moved_bytes / reference.link_bytes_per_s
