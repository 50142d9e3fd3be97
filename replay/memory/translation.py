"""What translating an address adds to an access, by the range that addresses lie in.

A TLB of `entries` pages serves `entries x page / range` of the accesses somewhere in a range; each of the others takes
its `miss_s`. In large ranges the page tables themselves fall out of the caches: there the difference of dependent loads
in usual and in huge pages tells, where both were measured far beyond the last cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretrace.profiles.profile import Profile
from foretrace.replay.spread import FAST, SLOW, TYPICAL, Floats

_BEYOND = 1.5
"""Times the last cache's size from which on loads are taken to come from main memory."""
_STEPS = 33
_SMALLEST_BYTES, _LARGEST_BYTES = 1 << 16, 1 << 40


@dataclass(frozen=True, slots=True, eq=False)
class Translation:
    """`range_bytes` float64 [points], ascending; `time_s` float64 [3, points], never falling."""

    range_bytes: Floats
    time_s: Floats

    def at(self, range_bytes: Floats, corner: int) -> Floats:
        """What an access somewhere in a range takes longer, on average."""
        points = np.log(self.range_bytes)
        return np.asarray(np.interp(np.log(np.maximum(range_bytes, 1)), points, self.time_s[corner]), np.float64)


def translation_of(profile: Profile) -> Translation | None:
    """Of the pages that programs get by default; None where neither TLBs nor two sizes of page were measured."""
    memory = profile.memory
    page_bytes = (memory.default_page_bytes or memory.page_bytes) if memory else None
    tlbs = [tlb for tlb in profile.tlbs if tlb.page_bytes == page_bytes and tlb.entries and tlb.miss_s]
    beyond = _page_differences(profile)
    if page_bytes is None or not (tlbs or beyond):
        return None
    reach = [float((tlb.entries or 0) * page_bytes) for tlb in tlbs]
    sizes_bytes = [*np.geomspace(_SMALLEST_BYTES, _LARGEST_BYTES, _STEPS), *reach, *(size for size, _ in beyond)]
    ranges = np.unique(sizes_bytes)
    time_s = np.zeros((3, len(ranges)))
    for tlb in tlbs:
        noise = 1 + (tlb.noise or {}).get("miss_s", 0.0)
        missing = np.maximum(1 - (tlb.entries or 0) * page_bytes / ranges, 0)
        time_s += np.array([1 / noise, 1, noise])[:, None] * (tlb.miss_s or 0.0) * missing
    if beyond:
        sizes, differences = np.array([size for size, _ in beyond]), np.array([times for _, times in beyond])
        for corner in (FAST, TYPICAL, SLOW):
            found = np.interp(np.log(ranges), np.log(sizes), differences[:, corner], left=0.0)
            time_s[corner] = np.maximum(time_s[corner], found)
    return Translation(ranges, np.maximum.accumulate(np.maximum.accumulate(time_s, axis=1), axis=0))


def _page_differences(profile: Profile) -> list[tuple[float, tuple[float, float, float]]]:
    """Working sets in main memory, and how much longer loads take there in usual pages than in huge ones."""
    huge = profile.memory.huge_page_bytes if profile.memory else None
    if huge is None or not profile.caches:
        return []
    least = _BEYOND * profile.caches[-1].size_bytes
    in_huge = {p.working_set_bytes: p for p in profile.latencies(huge)}
    found: list[tuple[float, tuple[float, float, float]]] = []
    for point in sorted(profile.latencies(), key=lambda p: p.working_set_bytes):
        other = in_huge.get(point.working_set_bytes)
        if point.working_set_bytes >= least and other is not None and other.page_bytes != point.page_bytes:
            typical = max(point.latency_s - other.latency_s, 0.0)
            spread = max(point.noise or 0.0, other.noise or 0.0)
            found.append((float(point.working_set_bytes), (typical / (1 + spread), typical, typical * (1 + spread))))
    return found
