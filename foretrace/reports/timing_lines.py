"""Lines on a native run: whether neighbours disturbed it, and what its segments tell."""

from __future__ import annotations

from foretrace.base.units import format_seconds
from foretrace.tracer.native.timing import Timing


def said_of_neighbours(timing: Timing) -> str:
    """Whether runs were disturbed, for people."""
    if timing.shortest.slowdown is None:
        return "no neighbour was looked for"
    if timing.undisturbed_runs:
        return f"{timing.undisturbed_runs} of {len(timing.runs)} runs undisturbed"
    return f"beside a neighbour, a reference loop took {timing.shortest.slowdown:.2f} times as long"


def said_of_segments(timing: Timing) -> str:
    """The time by segments that older timings hold, for people, after something else; nothing if there is none."""
    if timing.segments is None:
        return ""
    found = timing.segments
    low, likely, high = (format_seconds(time_s) for time_s in (found.low_s, found.time_s, found.high_s))
    return (
        f"; undisturbed {likely} ({low} to {high}), "
        f"by the times at rest of {found.segments} segments of {found.runs} runs"
    )
