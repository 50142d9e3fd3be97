"""Two measurements of a machine, figure by figure: what agrees, and what does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import Struct

from foretrace.profiles.profile import Profile

AGREEMENT = 0.05
"""Two runs on a quiet machine are to agree within this part."""

_NOT_MEASURED = {"system"}  # the source of what the operating system tells


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure that both profiles have. `relative` is how far the larger lies above the smaller."""

    figure: str
    before: float
    after: float

    @property
    def relative(self) -> float:
        """0 where they are the same."""
        low, high = sorted((self.before, self.after))
        return high / low - 1


def differences(before: Profile, after: Profile) -> list[Difference]:
    """Every measured figure that both profiles have, those that differ most first."""
    old, new = dict(_figures(before)), dict(_figures(after))
    found = [Difference(name, old[name], new[name]) for name in new if name in old]
    return sorted(found, key=lambda difference: -difference.relative)


def _figures(profile: Profile) -> Iterator[tuple[str, float]]:
    """Name and value of each measured figure; none is zero."""
    places: list[tuple[str, Struct | None]] = [("core", profile.core), ("memory", profile.memory)]
    places += [(cache.name, cache) for cache in profile.caches]
    places += [(f"{tlb.name}, pages of {tlb.page_bytes}:", tlb) for tlb in profile.tlbs]
    for place, record in places:
        if record is not None:
            sources: dict[str, str] = getattr(record, "source")  # noqa: B009 - shared by records, not by a base class
            for name, source in sources.items():
                if source not in _NOT_MEASURED:
                    yield f"{place} {name}", float(getattr(record, name))
    for cost in profile.operations:
        for part in ("latency_cycles", "interval_cycles"):
            value = getattr(cost, part)
            if value is not None:
                yield f"{cost.operation} {cost.element_bits}x{cost.elements} {part}", value
    for bandwidth in profile.bandwidth:
        place = f"{bandwidth.pattern} loads of {bandwidth.access_bytes} at {bandwidth.working_set_bytes}"
        yield place, bandwidth.bandwidth_bytes_per_s
    for latency in profile.latency:
        yield f"latency at {latency.working_set_bytes}, pages of {latency.page_bytes}", latency.latency_s
    for point in profile.surface:
        place = f"{point.movement} of {point.access_bytes} at {point.working_set_bytes}, stride {point.stride_bytes}"
        yield place, point.bandwidth_bytes_per_s
    for team in profile.thread_bandwidth:
        place = f"{team.movement} at {team.working_set_bytes}, {team.threads} threads"
        yield place, team.bandwidth_bytes_per_s
    for curve in profile.gather_scatter:
        operations = " and ".join(curve.operations)
        kind = f"{operations} {curve.index_mode}, {curve.element_bytes} bytes, {curve.threads} threads"
        for place_on in curve.points:
            yield f"{kind} at {place_on.range_bytes}", place_on.bandwidth_bytes_per_s
