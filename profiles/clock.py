"""A machine at another clock of its cores: it rises and falls with load and heat, and is sold at several."""

from __future__ import annotations

from typing import TypeVar

from msgspec import structs

from foretrace.base.errors import ProfileError
from foretrace.base.units import format_hz

from .points import SurfacePoint
from .profile import BandwidthPoint, Core, CurvePoint, Profile

_PYTHON_TIMES = ("python_block_s", "python_line_s", "python_call_s")

Bandwidth = TypeVar("Bandwidth", BandwidthPoint, SurfacePoint, CurvePoint)


def at_clock(profile: Profile, clock_hz: float) -> Profile:
    """A copy of a machine with its cores at another clock, named after it.

    What a core does alone goes with the clock: instructions, the caches of its own, its TLBs but for the last one's
    misses, the interpreter. What it shares stays as it is: a last cache of several cores, memory, links and networks.

    Raises:
        ProfileError: the profile does not tell its clock.
    """
    if profile.core is None or profile.core.clock_hz is None:
        raise ProfileError(f"profile {profile.name}: core.clock_hz is missing, so it cannot be taken to another clock")
    times = profile.core.clock_hz / clock_hz
    own = [cache for cache in profile.caches if cache.shared_by_cores == 1 or cache is not profile.caches[-1]]
    own_bytes = max((cache.size_bytes for cache in own), default=0)
    last_tlbs = {tlb.page_bytes: tlb.name for tlb in profile.tlbs}

    def at(points: tuple[Bandwidth, ...]) -> tuple[Bandwidth, ...]:
        return tuple(
            structs.replace(point, bandwidth_bytes_per_s=point.bandwidth_bytes_per_s / times)
            if _set_bytes(point) <= own_bytes
            else point
            for point in points
        )

    return structs.replace(
        profile,
        name=f"{profile.name}@{format_hz(clock_hz).replace(' ', '')}",
        title=f"{profile.title} at {format_hz(clock_hz)}",
        core=_core_at(profile.core, clock_hz, times),
        caches=tuple(
            structs.replace(cache, latency_s=cache.latency_s * times)
            if cache in own and cache.latency_s is not None
            else cache
            for cache in profile.caches
        ),
        bandwidth=at(profile.bandwidth),
        surface=at(profile.surface),
        latency=tuple(
            structs.replace(point, latency_s=point.latency_s * times) if point.working_set_bytes <= own_bytes else point
            for point in profile.latency
        ),
        gather_scatter=tuple(structs.replace(curve, points=at(curve.points)) for curve in profile.gather_scatter),
        array_costs=tuple(structs.replace(cost, point_s=cost.point_s * times) for cost in profile.array_costs),
        linear_algebra=tuple(structs.replace(cost, time_s=cost.time_s * times) for cost in profile.linear_algebra),
        tlbs=tuple(
            structs.replace(tlb, miss_s=tlb.miss_s * times)
            if tlb.miss_s is not None and tlb.name != last_tlbs[tlb.page_bytes]
            else tlb
            for tlb in profile.tlbs
        ),
    )


def _core_at(core: Core, clock_hz: float, times: float) -> Core:
    python = {name: value * times for name in _PYTHON_TIMES if (value := getattr(core, name)) is not None}
    return structs.replace(core, clock_hz=clock_hz, **python)


def _set_bytes(point: Bandwidth) -> int:
    return point.range_bytes if isinstance(point, CurvePoint) else point.working_set_bytes
