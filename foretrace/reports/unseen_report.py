"""Share of a Python program's time in code that was not seen, in one line."""

from __future__ import annotations

from foretrace.base.units import format_seconds
from foretrace.tracer.signature.records import Unseen

NOTABLE_SHARE = 0.01
"""Share of the time from which on a trace says so when it ends."""

_NAMED = 3


def is_notable(unseen: Unseen) -> bool:
    """Whether its share is."""
    return max(unseen.time_share or 0.0, unseen.native_threads_share) >= NOTABLE_SHARE


def line(unseen: Unseen) -> str:
    """Its share of the traced run's time, the functions that took most of it, and what native threads took."""
    more = len(unseen.functions) - _NAMED
    names = ", ".join(unseen.functions[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    threads = (
        f"native threads took {format_seconds(unseen.native_threads_s)} of processor time, "
        f"{unseen.native_threads_share:.1%} of the process's"
    )
    if unseen.time_share is None:
        return f"{threads}, in compiled code that was not seen"
    said = (
        f"{unseen.time_share:.1%} of the run is compiled code that was not seen ({names}): its time is known, its "
        "loops and accesses are not"
    )
    return f"{said}; {threads}" if unseen.native_threads_share >= NOTABLE_SHARE else said
