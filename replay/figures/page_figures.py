"""The time of touching a page of memory for the first time."""

from __future__ import annotations

from foretrace.profiles.figure import CoreClass
from foretrace.profiles.profile import Memory
from foretrace.profiles.ranges import Assumptions, default_of
from foretrace.replay.base.spread import Floats, assumed_as, between

PAGE_BYTES = 4096


def page_times(memory: Memory | None, notes: Assumptions) -> tuple[int, Floats]:
    """Size of a page that a program gets, and the time [3] of touching it first."""
    page_bytes = (memory.default_page_bytes or memory.page_bytes if memory else None) or PAGE_BYTES
    if memory is not None:
        is_huge = memory.huge_page_bytes is not None and page_bytes == memory.huge_page_bytes
        given = memory.first_touch_huge_page_s if is_huge else memory.first_touch_page_s
        if given is not None:
            noise = (memory.noise or {}).get("first_touch_huge_page_s" if is_huge else "first_touch_page_s", 0.0)
            return page_bytes, between(given / (1 + noise), given, given * (1 + noise))
    default = default_of(Memory, "first_touch_page_s", CoreClass())
    fast, typical, slow = (time_s * page_bytes / PAGE_BYTES for time_s in (default.fast, default.typical, default.slow))
    text = (
        f"not in the profile, {typical * 1e6:g} us assumed for the first touch of a page of {page_bytes:,} bytes "
        f"({fast * 1e6:g} to {slow * 1e6:g})"
    )
    return page_bytes, assumed_as(notes, "first_touch_page_s", text, between(fast, typical, slow))
