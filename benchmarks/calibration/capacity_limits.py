"""Capacity limits: the number of items beyond which time per item rises."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import NamedTuple

from foretrace.benchmarks.harness.sampling import Timing, rounded

from .cache_sizes import without_bumps


class Edge(NamedTuple):
    """Edge of a capacity: of the numbers tried, the largest that fits and the next; and how noisy it is that this one
    does not."""

    fits: int
    beyond: int
    noise: float = 0.0

    @property
    def figure(self) -> float:
        """Number that the edge is taken to be at."""
        return rounded(math.sqrt(self.fits * self.beyond))

    @property
    def uncertain(self) -> float:
        """By what part it may be off either way."""
        return rounded(max(math.sqrt(self.beyond / self.fits) - 1, self.noise))


def edge_of(timings: Mapping[int, Timing], rise: float) -> Edge | None:
    """The first rise to `rise` times the least time. None where there is none.

    Noise only adds time, so none is taken to be more than those of larger numbers. A neighbour on the core, which may
    have taken room there, makes the edge as uncertain as the time beyond it.
    """
    curve = without_bumps([(number, timing.time_s) for number, timing in timings.items()])
    for (fits, _), (beyond, time_s) in itertools.pairwise(curve):
        if time_s > rise * curve[0][1]:
            return Edge(fits, beyond, timings[beyond].noise if timings[beyond].disturbed else 0.0)
    return None
