"""Share of a node's work that is proportional to an event.

What a node has done when an event comes to a value lies between its executions at the last sample with a lower value
and at the first one without. Between the first value that was seen and the last but one its work is proportional if the
same amount of it is done in each stretch of the event, be the stretch a unit or a number of units after which things
repeat (a solver that restarts). What ran before and after, and what a proportional node did besides, is fixed. All else
is unrecognised.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.replay.base.spread import Floats

TOLERANCE = 0.02
"""Tolerance between two equal stretches, as a share of a node's work while the event changes, beyond what samples leave
open."""
MOST_OPEN = 1 / 6
"""Share of that work that samples may leave open of a value on average: with more nothing is told of a node."""
LEAST_VALUES = 9
"""Values of an event at samples, its last one left out: with fewer nothing can be seen to keep pace."""
LEAST_REPEATS = 3
"""Times that work repeats in the run."""
_POINTS = 480
_AT_ONCE = 256
"""Nodes that are worked on together, which bounds the memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Proportions:
    """Shares of the nodes' executions in the traced run, float64 [nodes] each; what is in neither is fixed.

    Attributes:
        proportional: to what the event counted; 0 where that was not recognised, 1 where the samples allow that it is
            all of the work.
        least, most: between which that share lies.
        unrecognised: done while the event changed, and not proportional.
        deviation: how much the work of two equal stretches of the event differs at least, of all work while it changes,
            beyond what samples leave open; of nodes that are not proportional for stretches of half the run. nan where
            there is no work.
        stretch: units of the event after which work repeats; 0 where it does not.
    """

    proportional: Floats
    least: Floats
    most: Floats
    unrecognised: Floats
    deviation: Floats
    stretch: Floats


def proportions(values: Floats, start: float, executions: npt.NDArray[np.int64]) -> Proportions:
    """Compare the work of nodes with an event.

    Args:
        values: [samples] of the event, never falling, with several values.
        start: the value that it began with.
        executions: [samples, nodes] by each sample.
    """
    gains = np.diff(np.concatenate([[start], values]))
    unit = float(gains[gains > 0].min())
    seen = values[np.flatnonzero(gains > 0)[:-1]]  # behind the last change, work that comes after it may have begun
    wanted, slack = _grid(seen, unit)
    behind = np.minimum(np.searchsorted(values, wanted + slack), len(values) - 1)
    before = np.searchsorted(values, wanted - slack) - 1
    at_ends = executions[np.searchsorted(values, wanted[[0, -1]])].astype(np.float64)
    total, during = executions[-1].astype(np.float64), at_ends[1] - at_ends[0]
    until_first = executions[before[0]] if before[0] >= 0 else np.zeros_like(total)
    of_counted = float(values[-1] - start) / float(wanted[-1] - wanted[0])
    proportional, least_of, most_of, unrecognised, stretches = np.zeros((5, len(total)))
    found = Proportions(proportional, least_of, most_of, unrecognised, np.full(len(total), np.nan), stretches)
    moved = np.flatnonzero(during > 0)
    for first in range(0, len(moved), _AT_ONCE):
        nodes = moved[first : first + _AT_ONCE]
        done = (executions[:, nodes] - at_ends[0, nodes]) / during[nodes]
        low = np.where(before[:, None] >= 0, done[before], -at_ends[0, nodes] / during[nodes])
        rate, least, most, deviation, stretch = _rates(low, done[behind])
        of_total = during[nodes] / total[nodes] * of_counted
        rate, least, most = rate * of_total, least * of_total, most * of_total
        found.proportional[nodes] = np.where((least <= 1) & (most >= 1), 1.0, np.clip(rate, 0.0, 1.0))
        found.least[nodes] = np.minimum(least, found.proportional[nodes])
        found.most[nodes] = np.maximum(most, found.proportional[nodes])
        found.unrecognised[nodes] = np.where(stretch > 0, 0.0, (at_ends[1] - until_first)[nodes] / total[nodes])
        found.deviation[nodes] = deviation
        found.stretch[nodes] = stretch * (wanted[1] - wanted[0])
    return found


def _grid(seen: Floats, unit: float) -> tuple[Floats, float]:
    """Values at equal distances from the first to the last that was seen: units where these are few, which is exact.

    With more, a stretch is a number of distances that may be none of units: by the slack its ends may be elsewhere.
    """
    units = round(float(seen[-1] - seen[0]) / unit)
    if units <= _POINTS:
        return seen[0] + unit * np.arange(units + 1), 0.0
    wanted = np.linspace(seen[0], seen[-1], _POINTS + 1)
    return wanted, float(wanted[1] - wanted[0])


def _rates(low: Floats, high: Floats) -> tuple[Floats, Floats, Floats, Floats, npt.NDArray[np.int64]]:
    """Work while the event changes, of that seen: typical, least and most; deviation, and stretch in distances.

    Args:
        low, high: [values, nodes] which lie between the work done before each value, 0 to 1, and at it.
    """
    low, high = np.ascontiguousarray(low.T), np.ascontiguousarray(high.T)
    points = low.shape[1] - 1
    middle = (low + high) / 2
    run = points + 2  # the first value and the last one are not among them
    longest = min(2 * run // LEAST_REPEATS, points)
    least, typical, most = np.zeros((3, longest + 1, len(low)))
    for width in range(1, longest + 1):
        least[width] = (low[:, width:] - high[:, :-width]).max(axis=1)
        most[width] = (high[:, width:] - low[:, :-width]).min(axis=1)
        typical[width] = (middle[:, width:] - middle[:, :-width]).mean(axis=1)
    is_same = least - most <= TOLERANCE
    stretch = np.zeros(len(low), np.int64)
    for width in range(run // LEAST_REPEATS, 0, -1):
        stretch[is_same[width::width].all(axis=0)] = width
    stretch[(high - low).mean(axis=1) > MOST_OPEN] = 0
    nodes = np.arange(len(low))
    half = np.where(stretch > 0, stretch * np.maximum(points // 2 // np.maximum(stretch, 1), 1), points // 2)
    ends = least[half, nodes], most[half, nodes]
    least_rate, most_rate = (end * points / half for end in (np.minimum(*ends), np.maximum(*ends)))
    rate = np.clip(typical[half, nodes] * points / half, least_rate, most_rate)
    rates = (np.where(stretch > 0, np.maximum(one, 0.0), 0.0) for one in (rate, least_rate, most_rate))
    return (*rates, np.maximum(ends[0] - ends[1], 0.0), stretch)
