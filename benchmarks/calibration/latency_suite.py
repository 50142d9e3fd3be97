"""Time of a dependent load: by working set, in usual and in huge pages; what a miss in the TLB adds.

The TLB's part is the difference of two chains through as many lines: one line in each page, and all lines side by side.
Both take the same room in the caches.
"""

from __future__ import annotations

import itertools
import math
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from foretrace.benchmarks.harness.buffers import Pages, allocate, allocate_each, huge_page_bytes, over, page_bytes_of
from foretrace.benchmarks.harness.sampling import Measurement, Room, Timing, rounded
from foretrace.benchmarks.kernels import _kernels
from foretrace.profiles.points import Tlb
from foretrace.profiles.profile import LatencyPoint

from .cache_sizes import without_bumps

SMALLEST_BYTES = 4096
MOST_PAGES = 16384
_FEWEST_PAGES = 16
_STEP_S = 1e-9  # a TLB's step is at least this high, or a quarter of what was before
_STEP_PART = 0.25
_WARM_PASSES = 2  # through a chain, before it is timed; each load is taken to need so long
_WARM_LOAD_S = 20e-9


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of dependent loads through `size_bytes` in pages of `page_bytes`.

    `sparse`: one line in each page. `dense`: as many lines as a sparse chain has, side by side.
    """

    size_bytes: int
    page_bytes: int
    kind: str = "all"  # or "sparse", "dense"


def working_sets(largest_bytes: int, *, fine: bool, smallest_bytes: int = SMALLEST_BYTES) -> tuple[int, ...]:
    """Powers of two from the smallest working set up, with `fine` also those half way between."""
    sizes = []
    size = smallest_bytes
    while size <= largest_bytes:
        sizes.append(size)
        if fine and size + size // 2 <= largest_bytes:
            sizes.append(size + size // 2)
        size *= 2
    return tuple(sizes)


def latency_measurements(largest_bytes: int, pages: Pages, *, fine: bool, room: Room) -> dict[Chain, Measurement]:
    """Chains through all lines of each working set. They hold on to some four times `largest_bytes` of memory."""
    rng = np.random.default_rng(2)
    found: dict[Chain, Measurement] = {}
    sizes = working_sets(largest_bytes, fine=fine)
    for size, data in zip(sizes, allocate_each(sizes, pages), strict=True):
        if pages is Pages.HUGE and size >= 2 * (huge_page_bytes() or 0) and page_bytes_of(data) == mmap.PAGESIZE:
            return {}  # the system has none to give
        num_lines = size // _kernels.LINE_BYTES
        _kernels.link_chain(data, rng.permutation(num_lines).astype(np.uint32))
        page_bytes = (huge_page_bytes() or mmap.PAGESIZE) if pages is Pages.HUGE else mmap.PAGESIZE
        warm_s = _WARM_PASSES * num_lines * _WARM_LOAD_S
        found[Chain(size, page_bytes)] = room.measurement(
            "chase", over("chase", data), size, warm_s=warm_s, fetch=over("load8", data), scattered=True
        )
    return found


def tlb_measurements(largest_bytes: int, pages: Pages, *, fine: bool, room: Room) -> dict[Chain, Measurement]:
    """Sparse and dense chains through up to `MOST_PAGES` pages, as far as they fit `largest_bytes`."""
    page_bytes = mmap.PAGESIZE if pages is Pages.USUAL else huge_page_bytes()
    if page_bytes is None:
        return {}
    most = min(MOST_PAGES, largest_bytes // page_bytes)
    counts = working_sets(most, fine=fine, smallest_bytes=_FEWEST_PAGES)
    if not counts:
        return {}
    rng = np.random.default_rng(3)
    lines_of_page = page_bytes // _kernels.LINE_BYTES
    spread = allocate(counts[-1] * page_bytes, pages)
    if page_bytes_of(spread) != page_bytes:
        return {}
    found: dict[Chain, Measurement] = {}
    side_by_side = allocate_each([max(count * _kernels.LINE_BYTES, mmap.PAGESIZE) for count in counts], Pages.HUGE)
    for count, dense in zip(counts, side_by_side, strict=True):
        # Chains share the pages but not the lines: each begins one line further on than the one before, and in each
        # page the line is another one, or all would lie in one set of the caches.
        number = len(found)
        pages_used = rng.permutation(count)
        lines = pages_used * lines_of_page + (pages_used + number // 2) % lines_of_page
        _kernels.link_chain(spread, lines.astype(np.uint32))
        start = int(lines[0]) * _kernels.LINE_BYTES
        size = count * _kernels.LINE_BYTES
        run = over("chase", spread, state=start)
        found[Chain(count * page_bytes, page_bytes, "sparse")] = room.measurement("tlb", run, size)
        _kernels.link_chain(dense, rng.permutation(count).astype(np.uint32))
        found[Chain(count * page_bytes, page_bytes, "dense")] = room.measurement("tlb", over("chase", dense), size)
    return found


def latency_points(measured: Mapping[Chain, Timing], source: str) -> tuple[LatencyPoint, ...]:
    """Time of a dependent load by working set and page.

    Loads from less memory are not slower: where they came out so, the difference is noise, and counted as such.
    """
    points = []
    chains = sorted((c for c in measured if c.kind == "all"), key=lambda c: (c.page_bytes, -c.size_bytes))
    least_s, page_bytes = math.inf, 0
    for chain in chains:
        timing = measured[chain]
        least_s = min(timing.time_s, least_s if chain.page_bytes == page_bytes else math.inf)
        page_bytes = chain.page_bytes
        noise = max(timing.noise, timing.time_s / least_s - 1)
        points.append(LatencyPoint(chain.size_bytes, rounded(timing.time_s), source, rounded(noise), page_bytes))
    return tuple(sorted(points, key=lambda p: (p.page_bytes or 0, p.working_set_bytes)))


def tlbs(measured: Mapping[Chain, Timing], source: str) -> tuple[Tlb, ...]:
    """The levels of the data TLB that were seen, for each size of page."""
    found = []
    for page_bytes in sorted({chain.page_bytes for chain in measured if chain.kind == "sparse"}):
        counts, added, errors = _added_by_pages(measured, page_bytes)
        extremes = [
            dict(enumerate(tlb_steps(counts, [max(a + sign * e, 0.0) for a, e in zip(added, errors, strict=True)]), 1))
            for sign in (-1, 1)
        ]
        for number, (entries, miss_s) in enumerate(tlb_steps(counts, added), 1):
            others = [steps.get(number, (counts[-1], 0.0))[0] for steps in extremes]
            beyond = [error for count, error in zip(counts, errors, strict=True) if count > entries]
            found.append(
                Tlb(
                    f"L{number} TLB",
                    page_bytes,
                    {"entries": source, "miss_s": source},
                    entries=entries,
                    miss_s=rounded(miss_s),
                    noise={
                        "entries": rounded(max(*others, entries) / min(*others, entries) - 1),
                        "miss_s": rounded(float(np.median(beyond)) / miss_s),
                    },
                )
            )
    return tuple(found)


def _added_by_pages(measured: Mapping[Chain, Timing], page_bytes: int) -> tuple[list[int], list[float], list[float]]:
    """Numbers of pages, what one line in each takes longer than lines side by side, and its error, in seconds."""
    sizes = sorted(c.size_bytes for c in measured if c.kind == "sparse" and c.page_bytes == page_bytes)
    sparse = [measured[Chain(size, page_bytes, "sparse")] for size in sizes]
    dense = [measured[Chain(size, page_bytes, "dense")] for size in sizes]
    times = [
        [time for _, time in without_bumps(list(zip(sizes, (t.time_s for t in x), strict=True)))]
        for x in (sparse, dense)
    ]
    added = [max(s - d, 0.0) for s, d in zip(*times, strict=True)]
    errors = [s.time_s * s.noise + d.time_s * d.noise for s, d in zip(sparse, dense, strict=True)]
    return [size // page_bytes for size in sizes], added, errors


def tlb_steps(counts: Sequence[int], added_s: Sequence[float], most: int = 2) -> list[tuple[int, float]]:
    """Steps in the time that pages add: the number of pages before each step, and its height in seconds.

    Noise only adds time, so no time is taken to be more than those of more pages. A step ends where doubling the pages
    adds little; the last may not have ended at the largest number measured, and is as high as seen.
    """
    times = list(itertools.accumulate(reversed(added_s), min))[::-1]
    steps: list[tuple[int, float]] = []
    begin = 0
    while begin < len(times) - 1 and len(steps) < most:
        level = times[begin]
        threshold = level + max(_STEP_S, _STEP_PART * level)
        rise = next((i for i in range(begin + 1, len(times)) if times[i] > threshold), None)
        if rise is None:
            break
        end = rise
        while end + 1 < len(times) and times[end + 1] > times[end] + max(_STEP_S, _STEP_PART * times[end]):
            end += 1
        steps.append((counts[rise - 1], times[end] - level))
        begin = end
    return steps
