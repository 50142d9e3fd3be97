"""How much of a Python program's time is in code that was not seen, in one line."""

from __future__ import annotations

from foretrace.tracer.signature.records import Unseen

NOTABLE_SHARE = 0.01
"""Of the time, from which on a trace says so when it ends."""

_NAMED = 3


def line(unseen: Unseen) -> str:
    """Its share of the traced run's time, and the functions that took most of it."""
    more = len(unseen.functions) - _NAMED
    names = ", ".join(unseen.functions[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return (
        f"{unseen.time_share or 0:.1%} of the run is compiled code that was not seen ({names}): its time is known, its "
        "loops and accesses are not"
    )
