"""How many lines of a stream out of main memory nobody has fetched ahead, by how many other lines miss the first cache.

Prefetchers see what misses the nearest cache. Among misses to lines elsewhere, even such as the second cache has, they
lose sight of streams, and some lines are waited for the whole latency. That is told by what a stream takes longer than
alone, and than out of caches beside the same loads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foretrace.profiles.points import PrefetchPoint

from .buffers import allocate, over
from .cache_sizes import without_bumps
from .sampling import Measurement, Room, Timing, rounded

_KERNEL = "stream_beside"
LINES_BESIDE = (0, 1, 2, 4, 6, 8, 16)
"""Near lines that are loaded for each `_LINES` of the stream."""
_LINES = 4
_NEAR_TIMES = 2  # the nearest cache, at least, are the near lines: they do not stay there
_LAST_TIMES = 2  # the last cache, at least, is what a stream out of main memory goes through
_MOST_LATE = 0.999
_PARTS = 16  # of a stream out of caches and the near lines together, of which these are one


@dataclass(frozen=True, slots=True)
class Stream:
    """Through `size_bytes`, with so many near lines beside it for each four."""

    lines_beside: int
    size_bytes: int


def prefetch_measurements(cache_bytes: Sequence[int], largest_bytes: int, *, room: Room) -> dict[Stream, Measurement]:
    """The measurements, all over one buffer; none without two caches.

    Args:
        cache_bytes: sizes of the caches, nearest first.
        largest_bytes: a power of two beyond the last of them.
        room: what stays in caches.
    """
    if len(cache_bytes) < 2:
        return {}
    near = 1 << (_NEAR_TIMES * cache_bytes[0] - 1).bit_length()
    small, large = _PARTS * near, min(largest_bytes, 1 << (_LAST_TIMES * cache_bytes[-1] - 1).bit_length())
    if 2 * near > cache_bytes[1] or 2 * small > large:
        return {}
    data = allocate(large)
    found: dict[Stream, Measurement] = {}
    for number in LINES_BESIDE:
        for size in (small, large):
            run = over(f"{_KERNEL}{number}", data[:size], stride_bytes=near)
            found[Stream(number, size)] = room.measurement("stream", run, size)
    return found


def prefetch_points(
    measured: Mapping[Stream, Timing], latency_s: Mapping[int, float], source: str
) -> tuple[PrefetchPoint, ...]:
    """The share of a stream's lines that are fetched ahead; none where the latency over as much memory is not known.

    Args:
        measured: the timings.
        latency_s: of dependent loads, by working set.
        source: of the points.
    """
    small, large = (edge((s.size_bytes for s in measured), default=0) for edge in (min, max))
    if large not in latency_s:
        return ()
    alone = measured[Stream(0, large)]
    late, noise = [], []
    for number in LINES_BESIDE[1:]:
        near, far = measured[Stream(number, small)], measured[Stream(number, large)]
        waits_s = far.time_s - max(near.time_s, alone.time_s)
        late.append((number, min(max(waits_s / latency_s[large], 0.0), _MOST_LATE)))
        noise.append(rounded((far.time_s * far.noise + alone.time_s * alone.noise) / latency_s[large]))
    return tuple(
        PrefetchPoint(number / _LINES, rounded(1 - share), source, error)
        for (number, share), error in zip(without_bumps(late), noise, strict=True)
    )
