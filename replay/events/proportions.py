"""Which share of a node's work is proportional to an event.

At the moments when an event has a new value, the executions of a node so far are known. Between the first and the last
of these moments its work is proportional if the same amount of it is done in each stretch of the
event, be the stretch a unit or a number of units after which things repeat (a solver that restarts). What ran before
and after, and what a proportional node did besides, is fixed. All else is unrecognised.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.replay.spread import Floats

TOLERANCE = 0.02
"""Of a node's work while the event changes: how much that of two equal stretches may differ, beyond what sampling
leaves open."""
MOST_STEP = 1 / 6
"""Of that work, between two samples: with larger steps nothing is told of a node."""
LEAST_REPEATS = 3
_POINTS = 240
_AT_ONCE = 256
"""Nodes that are worked on together, which bounds the memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Proportions:
    """Shares of the nodes' executions in the traced run, float64 [nodes] each; what is in neither is fixed.

    Attributes:
        proportional: to what the event counted; 0 where that was not recognised, 1 where the samples allow that it is
            all of the work.
        least, most: the same by the stretches of the run with the least and the most work for what the event counted.
        unrecognised: done while the event changed, and not proportional.
        deviation: how much the work of two equal stretches of the event differs, of all work while it changes; of
            nodes that are not proportional at its least for stretches of half the run. nan where there is no work.
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
    changes_at = np.flatnonzero(np.diff(np.concatenate([[start], values])) > 0)
    moments = changes_at[:-1]  # at the last one, work behind it may have begun
    counted, rise = values[moments] - start, float(values[-1] - start)
    seen = executions[moments].astype(np.float64)
    total = executions[-1].astype(np.float64)
    during = seen[-1] - seen[0]
    steps = np.max(seen[1:] - executions[moments[1:] - 1], axis=0, initial=0.0)
    until_first = executions[moments[0] - 1] if moments[0] else np.zeros_like(total)
    proportional, least_of, most_of, unrecognised, stretches = np.zeros((5, len(total)))
    found = Proportions(proportional, least_of, most_of, unrecognised, np.full(len(total), np.nan), stretches)
    moved = np.flatnonzero(during > 0)
    for first in range(0, len(moved), _AT_ONCE):
        nodes = moved[first : first + _AT_ONCE]
        done = (seen[:, nodes] - seen[0, nodes]) / during[nodes]
        rate, least, most, deviation, stretch = _rates(counted, done, steps[nodes] / during[nodes])
        of_total = during[nodes] / total[nodes] * rise / (counted[-1] - counted[0])
        rate, least, most = rate * of_total, least * of_total, most * of_total
        found.proportional[nodes] = np.where((least <= 1) & (most >= 1), 1.0, np.clip(rate, 0.0, 1.0))
        found.least[nodes], found.most[nodes] = np.minimum(least, found.proportional[nodes]), most
        found.unrecognised[nodes] = np.where(stretch > 0, 0.0, (seen[-1] - until_first)[nodes] / total[nodes])
        found.deviation[nodes] = deviation
        found.stretch[nodes] = np.where(stretch > 0, np.maximum(stretch, np.diff(counted).min()), 0.0)
    return found


def _rates(counted: Floats, done: Floats, step: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Work for what the event counts, of that while it changes: typical, least and most; deviation, and stretch.

    Args:
        counted: [moments] by the event.
        done: [moments, nodes], from 0 to 1.
        step: [nodes], the largest between two samples.
    """
    grid = np.linspace(counted[0], counted[-1], _POINTS + 1)
    work = np.stack([np.interp(grid, counted, column) for column in done.T])
    longest = 2 * _POINTS // LEAST_REPEATS
    spread, least, mean, most = (np.zeros((longest + 1, len(work))) for _ in range(4))
    for width in range(1, longest + 1):
        of_stretch = work[:, width:] - work[:, :-width]
        least[width], mean[width], most[width] = of_stretch.min(axis=1), of_stretch.mean(axis=1), of_stretch.max(axis=1)
    spread = most - least
    is_same = spread <= TOLERANCE + 2 * step
    stretch = np.zeros(len(work), np.int64)
    for width in range(_POINTS // LEAST_REPEATS, 0, -1):
        stretch[is_same[width::width].all(axis=0)] = width
    stretch[step > MOST_STEP] = 0
    nodes = np.arange(len(work))
    half = np.where(stretch > 0, stretch * (_POINTS // 2 // np.maximum(stretch, 1)), _POINTS // 2)
    rates = (column[half, nodes] * _POINTS / half for column in (mean, least, most))
    unit = (counted[-1] - counted[0]) / _POINTS
    typical, least_rate, most_rate = (np.where(stretch > 0, rate, 0.0) for rate in rates)
    return typical, least_rate, most_rate, spread[half, nodes], stretch * unit
