"""Cost of the first touch of a page: the system finds it, clears it and maps it.

Nobody sees that in a program's own accesses. The pages that a region is the first to touch follow from the address
ranges of its operations, in the order in which regions first ran.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from foretrace.profiles.profile import Memory
from foretrace.replay.base.records import Bound
from foretrace.replay.base.spread import TYPICAL, Floats
from foretrace.replay.figures.page_figures import PAGE_BYTES
from foretrace.replay.memory.hit_rates import Misses
from foretrace.replay.workload.workload import Workload

if TYPE_CHECKING:
    from .convolution import RegionTimes

DENSE = 4
"""An operation that finds at least one in so many lines of its range in no cache has touched all pages of that range;
one that finds fewer may have touched a few objects far apart, such as heap and stack."""


def first_touches(workload: Workload, misses: Misses, page_bytes: int) -> Floats:
    """[regions]: pages that each is the first to touch.

    Those of its operations' ranges that nothing touched before, neither a region nor, before a fork, its parent. An
    operation that leaves most of its range alone touches no more than what the lines fill that it finds in no cache.
    """
    operations = workload.signature.operations
    line_bytes = misses.hierarchy.levels[-1].line_bytes
    missing = misses.misses[:, -1] if misses.misses.size else np.zeros(len(operations))
    touched = _Pages(
        (one.first // page_bytes, -(-one.last_exclusive // page_bytes)) for one in workload.signature.provenance.mapped
    )
    pages = np.zeros(len(operations))
    for region in workload.regions:
        for operation_id in region.operations:
            lines = float(missing[operation_id])
            operation = operations[operation_id]
            if not operation.executions or lines <= 0:
                continue
            first = operation.first // page_bytes
            last_exclusive = max((operation.last_exclusive - 1) // page_bytes + 1, first + 1)
            is_dense = DENSE * lines * line_bytes >= operation.range_bytes
            uncovered = float(touched.uncovered(first, last_exclusive, add=is_dense))
            pages[operation_id] = uncovered if is_dense else min(lines * line_bytes / page_bytes, uncovered)
    of_regions = np.bincount(workload.operations.region, weights=pages, minlength=len(workload.regions))
    is_timed = workload.totals.python_lines > 0  # and that time holds what its pages took
    of_regions = np.where(is_timed, 0.0, of_regions)
    return of_regions + _mapped_again(workload, float(of_regions.sum()), page_bytes)


def _mapped_again(workload: Workload, first_touched: float, page_bytes: int) -> Floats:
    """[regions]: pages that were counted as mapped for array operations, beyond those that were touched first.

    An array that is made takes the place of one that is gone, and its pages were given back in between.
    """
    counted = workload.totals.array_faults * (PAGE_BYTES / page_bytes)
    return counted * max(1 - first_touched / max(float(counted.sum()), 1.0), 0.0)


def in_huge_pages(workload: Workload, pages: Floats, memory: Memory | None) -> Floats:
    """[regions] `pages` of usual size, as many of them as take as long as the pages that they lie in.

    Where array operations were seen to map fewer pages than they touched first, some were huge: NumPy asks the system
    for such if an array is large.
    """
    touched, counted = float(pages.sum()), float(workload.totals.array_faults.sum())
    if memory is None or not 0 < counted < touched:
        return pages
    usual, huge = memory.page_bytes or PAGE_BYTES, memory.huge_page_bytes
    usual_s, huge_s = memory.first_touch_page_s, memory.first_touch_huge_page_s
    if memory.default_page_bytes not in (None, usual) or not huge or not usual_s or huge_s is None:
        return pages
    of_huge = huge / usual
    n_huge = min((touched - counted) / (of_huge - 1), touched / of_huge)
    return pages * (1 - n_huge * (of_huge - huge_s / usual_s) / touched)


class _Pages:
    """A set of pages: ranges that are sorted and do not meet."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        for first, end in ranges:
            self.uncovered(first, end, add=True)

    def uncovered(self, first: int, end: int, *, add: bool) -> int:
        """Number of the pages [first, end) that are not in the set; with `add` they are from now on."""
        begin, behind = bisect_left(self._ends, first), bisect_right(self._firsts, end)
        inside = zip(self._firsts[begin:behind], self._ends[begin:behind], strict=True)
        found = max(end - first, 0) - sum(max(min(last, end) - max(one, first), 0) for one, last in inside)
        if add and end > first:
            if begin < behind:
                first, end = min(first, self._firsts[begin]), max(end, self._ends[behind - 1])
            self._firsts[begin:behind], self._ends[begin:behind] = [first], [end]
        return found


def with_page_faults(times: RegionTimes, pages: Floats, page_s: Floats) -> RegionTimes:
    """The times with what the first touches of pages add."""
    added = page_s[:, None] * pages[None, :]
    rest = times.time_s[TYPICAL]
    bounds = [
        Bound.PAGES if added[TYPICAL, region] > rest[region] else bound for region, bound in enumerate(times.bound_by)
    ]
    return replace(
        times,
        time_s=times.time_s + added,
        pages_s=added[TYPICAL],
        bound_by=tuple(bounds),
        bound_without_pages=times.bound_by,
    )
