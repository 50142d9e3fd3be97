"""Times with a range as arrays [fast, typical, slow]."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foretrace.profiles.ranges import Assumptions, Range

Floats = npt.NDArray[np.float64]

FAST, TYPICAL, SLOW = 0, 1, 2


def exactly(time_s: float) -> Floats:
    """A figure that is not in doubt."""
    return np.full(3, time_s)


def between(fast_s: float, typical_s: float, slow_s: float) -> Floats:
    """A figure in a range; a range that does not hold its typical value is stretched to."""
    return np.array([min(fast_s, typical_s), typical_s, max(typical_s, slow_s)])


def cycles(fast: float, typical: float, slow: float, clock_hz: float) -> Floats:
    """A range of cycles as times."""
    return between(fast / clock_hz, typical / clock_hz, slow / clock_hz)


def assumed_as(assumed: Assumptions, name: str, text: str, values: Floats) -> Floats:
    """Notes the assumption of a figure, [3]. Returns what it is to be taken as (`Assumptions.figure`)."""
    fast, typical, slow = values.tolist()
    return np.array(assumed.figure(name, text, Range(fast, typical, slow)))
