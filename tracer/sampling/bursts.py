"""Counts of each burst, in traces whose accesses are recorded in bursts (burst_schedule.py).

Of the time between bursts the stream has the blocks alone, so what follows from these is exact. What is worked out for
the rest of the accesses is in `estimate`; docs/sampling.md says how, and how well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.base.results import Counts
from foretrace.cache_sim.simulator import Simulator
from foretrace.tracer.reader import _reader

from .burst_schedule import Schedule

NUM_GROUPS = 16
"""Bursts are summed up in so many groups, in turn: estimates without each of them tell how sure the estimate is."""


@dataclass(frozen=True, slots=True, eq=False)
class BurstCounts:
    """Counts taken while accesses were recorded, divided by the time of recording. No access is in two of them.

    Each has a row for every operation; the columns are accesses, then the misses of each level of each hierarchy.
    `first`: until the first gap, beginning with the program's own first access. `measured` [operations, groups,
    columns]: in bursts that came when they were due, once caches had been warmed up. `other`: in the rest of these, in
    bursts that came because of new code, and by new code in gaps.
    `in_parts`: uint64 [operations], in how many bursts and gaps the operation was seen.
    `perhaps_fewer`, `perhaps_more`: float64 [columns - 1], how many misses too many or too few were measured at most,
    because caches held what they did before the gap.
    `bursts` are those that were due, by group; `early_bursts` those for new code. `seed` is the schedule's.
    """

    first: Counts
    measured: Counts
    other: Counts
    in_parts: Counts
    perhaps_fewer: npt.NDArray[np.float64]
    perhaps_more: npt.NDArray[np.float64]
    bursts: npt.NDArray[np.int64]
    early_bursts: int
    gaps: int
    seed: int

    @property
    def recorded(self) -> Counts:
        """uint64 [operations], accesses in any of them."""
        return np.asarray(self.first[:, 0] + self.measured[:, :, 0].sum(axis=1) + self.other[:, 0])

    @property
    def is_unmeasured(self) -> npt.NDArray[np.bool_]:
        """[operations], of those whose misses were neither known nor measured as they should be."""
        return np.asarray(self.first[:, 0] + self.measured[:, :, 0].sum(axis=1) == 0)

    def merged(self, mapping: npt.NDArray[np.int64], num_operations: int) -> BurstCounts:
        """The counts of `num_operations` operations that these are parts of: operation i of `mapping[i]`."""

        def summed(counts: Counts) -> Counts:
            total = np.zeros((num_operations, *counts.shape[1:]), np.uint64)
            np.add.at(total, mapping, counts)
            return total

        return replace(
            self,
            first=summed(self.first),
            measured=summed(self.measured),
            other=summed(self.other),
            in_parts=summed(self.in_parts),
        )


def concatenated(parts: Sequence[BurstCounts]) -> BurstCounts:
    """The counts of several processes, one's operations behind the other's."""
    return BurstCounts(
        first=np.concatenate([part.first for part in parts]),
        measured=np.concatenate([part.measured for part in parts]),
        other=np.concatenate([part.other for part in parts]),
        in_parts=np.concatenate([part.in_parts for part in parts]),
        perhaps_fewer=np.sum([part.perhaps_fewer for part in parts], axis=0),
        perhaps_more=np.sum([part.perhaps_more for part in parts], axis=0),
        bursts=np.sum([part.bursts for part in parts], axis=0),
        early_bursts=sum(part.early_bursts for part in parts),
        gaps=sum(part.gaps for part in parts),
        seed=parts[0].seed,
    )


class BurstRecorder:
    """Follows the marks of a stream, and counts for each burst what a simulator has gained."""

    def __init__(self, simulator: Simulator, hierarchies: Sequence[Hierarchy], schedule: Schedule) -> None:
        """The stream begins with accesses. `hierarchies` are those that are simulated.

        May be made at any time before the first mark.
        """
        self._simulator, self._seed = simulator, schedule.seed
        levels = [(level, index) for hierarchy in hierarchies for index, level in enumerate(hierarchy.levels)]
        self._lines = np.array([level.size_bytes / level.line_bytes for level, _ in levels])
        self._is_inner = np.array([index > 0 for _, index in levels], bool)
        self._fills = np.zeros(len(levels))  # of the burst, before what is measured
        self._perhaps_fewer = self._perhaps_more = np.zeros(len(levels))
        self._phase = _reader.MARK_MEASURE
        self._gaps = self._due = self._early = 0
        self._before = self._first = self._other = np.zeros((0, 1 + len(levels)), np.uint64)
        self._measured: list[Counts] = [self._before] * NUM_GROUPS
        self._at_start = self._before
        self._in_parts: Counts = np.zeros(0, np.uint64)

    def _now(self) -> Counts:
        """[operations, columns] so far."""
        executions = self._simulator.statistics().executions
        misses = [simulated.misses for simulated in self._simulator.simulated()]
        return np.concatenate([executions[:, None], *misses], axis=1)

    def mark(self, phase: int) -> None:
        """Take in that what was read last ended a phase, and `phase` begins."""
        self._add()
        if phase != _reader.MARK_MEASURE:
            self._end_part()
        if phase == _reader.MARK_COUNT:
            self._gaps += 1
        elif phase == _reader.MARK_WARM:
            self._due += 1
        elif phase == _reader.MARK_NEW_CODE:
            self._early += 1
        self._phase = phase

    def _add(self) -> None:
        now = self._now()
        gained = now - _padded(self._before, len(now))
        self._before = now
        totals = gained.sum(axis=0).astype(np.float64)
        if self._gaps == 0:
            self._first = _sum(self._first, gained)
        elif self._phase == _reader.MARK_MEASURE:
            group = (self._due - 1) % NUM_GROUPS
            self._measured[group] = _sum(self._measured[group], gained)
            self._doubt(totals)
        else:
            self._other = _sum(self._other, gained)
            self._fills = totals[1:]

    def _doubt(self, totals: npt.NDArray[np.float64]) -> None:
        """Bound what caches that were not warm can have changed in what a burst has measured.

        An access can go otherwise than it would have gone only where it is the first to use a line in its burst, in a
        set whose ways have not all been filled in it. That are at most as many as there were ways left to fill when
        measuring began; if lines fall on sets at random, exp(-fills / lines) of all.
        """
        misses = totals[1:]
        arriving = np.where(self._is_inner, np.roll(misses, 1), totals[0])
        left = self._lines * np.exp(-self._fills / self._lines)
        self._perhaps_fewer = self._perhaps_fewer + np.minimum(left, misses)
        self._perhaps_more = self._perhaps_more + np.minimum(left, np.maximum(arriving - misses, 0))

    def _end_part(self) -> None:
        executions = self._before[:, 0]
        seen = executions > _padded(self._at_start, len(executions))[:, 0]
        self._in_parts = _sum(self._in_parts, seen.astype(np.uint64))
        self._at_start = self._before

    def counts(self) -> BurstCounts:
        """Once the stream has been read to its end."""
        self._add()
        self._end_part()
        rows = len(self._now())
        return BurstCounts(
            first=_padded(self._first, rows),
            measured=np.stack([_padded(group, rows) for group in self._measured], axis=1),
            other=_padded(self._other, rows),
            in_parts=_padded(self._in_parts, rows),
            perhaps_fewer=self._perhaps_fewer,
            perhaps_more=self._perhaps_more,
            bursts=np.bincount(np.arange(self._due) % NUM_GROUPS, minlength=NUM_GROUPS),
            early_bursts=self._early,
            gaps=self._gaps,
            seed=self._seed,
        )


def _padded(counts: Counts, rows: int) -> Counts:
    """With rows of 0 for operations that came later."""
    return np.concatenate([counts, np.zeros((rows - len(counts), *counts.shape[1:]), np.uint64)])


def _sum(one: Counts, other: Counts) -> Counts:
    rows = max(len(one), len(other))
    return _padded(one, rows) + _padded(other, rows)
