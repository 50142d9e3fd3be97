"""Figures with a range: arrays [fast, typical, slow] of times, and the notes on what was assumed for them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .records import Assumption

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


class Notes:
    """Collects assumptions, each name once."""

    def __init__(self) -> None:
        """Start with none."""
        self._texts: dict[str, str] = {}

    def add(self, name: str, text: str) -> None:
        """Note an assumption; a name noted before keeps its text."""
        self._texts.setdefault(name, text)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """In the order in which they were made."""
        return tuple(Assumption(name, text) for name, text in self._texts.items())
