"""Phases of a program: loops whose iterations change over the run, in order of time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from foretrace.replay.tree.timed_tree import add_seconds

from .tree_work import TreeWork

LEAST_SHARE = 0.01
"""Share of the program that a loop must take for its phases to be told apart."""
MOST_BREAKS = 16
"""Between phases of a program."""


class Phased:
    """Iterations of loops in a stretch of the run, the window.

    A window is a share of a node's entries, from 0 to 1 in order of time. Below a loop with phases it becomes the share
    of that loop's iterations.
    """

    def __init__(self, work: TreeWork) -> None:
        """All of the run."""
        self._work = work
        total_s = float(sum(work.inclusive_s[thread.root] for thread in work.tree.threads))
        self._curves: dict[int, tuple[list[float], list[float]]] = {}
        for node, phases in work.tree.phases().items():
            entries, iterations = (np.cumsum([0, *column]) for column in zip(*phases, strict=True))
            if iterations[-1] and work.inclusive_s[node] >= LEAST_SHARE * total_s:
                self._curves[node] = (entries / entries[-1]).tolist(), (iterations / iterations[-1]).tolist()
        self._is_phased_below = work.any_below(work.flags(self._curves))
        self._stops_below = work.any_below(work.flags([*work.waits.stops, *work.waits.inside]))
        self.window: tuple[float, float] | None = None
        """None: all of the run."""

    def may_split(self, node: int) -> bool:
        """Whether the run is to be divided at a loop: below it others have phases, and no thread waits for another
        one's signal."""
        is_split = self.window is not None
        return bool(not is_split and self._is_phased_below[node] and not self._stops_below[node])

    def breaks(self, node: int, count: int) -> list[int]:
        """Iterations of a loop at which phases below it begin, with 0 and the end."""
        found: set[int] = set()
        ends = self._work.outermost(
            self._work.children[node], lambda below: below in self._curves or not self._is_phased_below[below]
        )
        outermost = [below for below in ends if below in self._curves]
        for below in sorted(outermost, key=lambda loop: (-self._work.inclusive_s[loop], loop)):
            more = {round(share * count) for share in self._curves[below][0]} - {0, count}
            if len(found | more) <= MOST_BREAKS:
                found |= more
        return [0, *sorted(found), count]

    @contextmanager
    def within(self, begin: float, end: float) -> Iterator[None]:
        """In that part of the run."""
        before, self.window = self.window, (begin, end)
        try:
            yield
        finally:
            self.window = before

    @contextmanager
    def inside(self, node: int) -> Iterator[None]:
        """Below a loop."""
        if self.window is None or node not in self._curves:
            yield
            return
        begin, end = (float(np.interp(at, *self._curves[node])) for at in self.window)
        with self.within(begin, end):
            yield

    def scale(self, node: int) -> float:
        """Iterations of a loop's entries in the window, relative to those of all entries."""
        if self.window is None or node not in self._curves:
            return 1.0
        begin, end = self.window
        iterations = np.diff(np.interp(self.window, *self._curves[node]))[0]
        return float(iterations / (end - begin)) if end > begin else 1.0

    def sums(self, node: int) -> dict[int, float]:
        """Seconds by region of a node and all below it, at the window's rate: as if all of the run were like it."""
        if self.window is None or not self._is_phased_below[node]:
            return self._work.seconds_below(node)
        scale = self.scale(node)
        sums = {region: seconds * scale for region, seconds in self._work.own_s[node].items()}
        with self.inside(node):
            for child in self._work.children[node]:
                add_seconds(sums, self.sums(child), scale)
        return sums
