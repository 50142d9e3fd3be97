"""Lookahead of prefetchers on streams out of main memory, and the lines of them that nobody has fetched ahead.

Streams beside streams are fetched so many lines ahead, all together, those out of nearer caches as well: a stream's
line is there `latency` after the line was wanted that is as many lines before it as its share of these and what the
core itself has in flight. Beside some out of the second cache they also begin anew at each page: some of their lines
are waited for even where computing takes much longer than all lines do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from foretrace.benchmarks.harness.buffers import allocate, over
from foretrace.benchmarks.harness.sampling import Measurement, Room, Timing, rounded
from foretrace.profiles.points import PrefetchPoint

from .cache_sizes import without_bumps

_NEAR_TIMES = 2  # the nearest cache, at least, are the near lines: they do not stay there
_LAST_TIMES = 2  # the last cache, at least, is what a stream out of main memory goes through
_MOST_LATE = 0.999
_LEAST_WAIT = 0.25  # of the latency: where as much is in flight as takes longer, the difference tells nothing
_PARTS = 16  # of a stream out of caches and the near lines together, of which these are one
MIXES = ((1, 2), (1, 4), (2, 2), (2, 4), (4, 4))
"""Streams out of main memory, and those out of a near cache beside them."""
BUSY_MIXES = ((2, 1), (2, 2), (1, 2))
"""Streams out of main memory and out of a near cache, where elements of all are loaded in turns and computed with."""
_MIX_INSTRUCTIONS = 16  # for a line of each stream: eight elements are loaded, and added
_BUSY_INSTRUCTIONS = 16, 160  # for a line of each stream, and for all together
_PLACES = np.append(0.0, np.geomspace(0.1, 20, 200))
_Places = TypeVar("_Places", float, npt.NDArray[np.float64])


@dataclass(frozen=True, slots=True)
class Mix:
    """So many streams through `size_bytes`, side by side, beside some out of a near cache; `busy`: much is computed."""

    far: int
    near: int
    size_bytes: int
    busy: bool = False


@dataclass(frozen=True, slots=True)
class Lookahead:
    """`lines` of streams are fetched ahead, of all together; one out of a nearer cache counts as `near_places`."""

    lines: float
    near_places: float
    noise: float


def mix_measurements(cache_bytes: Sequence[int], largest_bytes: int, *, room: Room) -> dict[Mix, Measurement]:
    """The measurements of streams beside streams, all over one buffer; none without two caches.

    Args:
        cache_bytes: sizes of the caches, nearest first.
        largest_bytes: a power of two beyond the last of them.
        room: what stays in caches.
    """
    sizes = _sizes(cache_bytes, largest_bytes)
    if sizes is None:
        return {}
    near, small, large = sizes
    data = allocate(large)
    kernels = {f"streams{mix[0]}_{mix[1]}": partial(Mix, *mix) for mix in MIXES}
    kernels |= {f"busy_streams{mix[0]}_{mix[1]}": partial(Mix, *mix, busy=True) for mix in BUSY_MIXES}
    return {
        mix(size): room.measurement("stream", over(kernel, data[:size], stride_bytes=near), size)
        for kernel, mix in kernels.items()
        for size in (small, large)
    }


def _sizes(cache_bytes: Sequence[int], largest_bytes: int) -> tuple[int, int, int] | None:
    """Bytes of the near lines, and with streams out of caches, and out of main memory; None without two caches."""
    if len(cache_bytes) < 2:
        return None
    near = 1 << (_NEAR_TIMES * cache_bytes[0] - 1).bit_length()
    small, large = _PARTS * near, min(largest_bytes, 1 << (_LAST_TIMES * cache_bytes[-1] - 1).bit_length())
    return None if 2 * near > cache_bytes[1] or 2 * small > large else (near, small, large)


def _small_and_large(measured: Iterable[Mix]) -> tuple[int, int]:
    """The sizes that streams were measured in; 0 where none were."""
    sizes = {one.size_bytes for one in measured}
    return min(sizes, default=0), max(sizes, default=0)


def lookahead(
    measured: Mapping[Mix, Timing], latency_s: Mapping[int, float], line_s: float, in_flight: float
) -> Lookahead | None:
    """Lookahead of prefetchers on streams; None where nothing was measured, or near streams hold up none.

    As many lines as a stream alone has under way (Little's law), of which near ones take what explains the times best.

    Args:
        measured: the timings, of a line of each stream.
        latency_s: of dependent loads, by working set.
        line_s: of a line of a stream out of main memory, alone.
        in_flight: instructions that a core has, of all kinds.
    """
    small, large = _small_and_large(measured)
    if large not in latency_s:
        return None
    lines = latency_s[large] / line_s
    off = np.zeros(len(_PLACES))
    for far, near in MIXES:
        anyway_s = max(measured[Mix(far, near, small)].time_s, far * line_s)
        own = in_flight / (_MIX_INSTRUCTIONS * (far + near))
        predicted_s = np.maximum(anyway_s, _ahead_allows_s(latency_s[large], lines, far + near * _PLACES, own))
        off += np.log(predicted_s / measured[Mix(far, near, large)].time_s) ** 2 / len(MIXES)
    best = int(off.argmin())
    if _PLACES[best] == 0:
        return None
    return Lookahead(rounded(lines), rounded(float(_PLACES[best])), rounded(float(np.sqrt(off[best]))))


def _ahead_allows_s(latency_s: float, lines: float, places: _Places, own: float) -> _Places:
    """Seconds of a line of each stream, which take so many places ahead; `own` of each are in flight in the core."""
    return latency_s / (lines / places + own)


def stream_points(
    measured: Mapping[Mix, Timing],
    latency_s: Mapping[int, float],
    line_s: float,
    in_flight: float,
    ahead: Lookahead | None,
    source: str,
) -> tuple[PrefetchPoint, ...]:
    """The share of a stream's lines that are fetched ahead beside streams out of the second cache, if much is computed.

    What it takes longer than out of caches, and than so many lines ahead allow, is what its other lines are waited for:
    the latency, but for as long as the core computes meanwhile with what it has in flight.

    Args:
        measured: the timings, of a line of each stream.
        latency_s: of dependent loads, by working set.
        line_s: of a line of a stream out of main memory, alone.
        in_flight: instructions that a core has, of all kinds.
        ahead: how far ahead streams are fetched; None: as far as they need.
        source: of the points.
    """
    small, large = _small_and_large(measured)
    if large not in latency_s:
        return ()
    late, noise = [], []
    for far, near in BUSY_MIXES:
        nearby, distant = measured[Mix(far, near, small, busy=True)], measured[Mix(far, near, large, busy=True)]
        of_each, of_all = _BUSY_INSTRUCTIONS
        own = in_flight / (of_each * (far + near) + of_all)
        anyway_s = max(nearby.time_s, far * line_s)
        if ahead is not None:
            places = far + near * ahead.near_places
            anyway_s = max(anyway_s, _ahead_allows_s(latency_s[large], ahead.lines, places, own))
        waits_s = far * max(latency_s[large] - own * anyway_s, _LEAST_WAIT * latency_s[large])
        late.append((near / far, min(max((distant.time_s - anyway_s) / waits_s, 0.0), _MOST_LATE)))
        noise.append(rounded((distant.time_s * distant.noise + nearby.time_s * nearby.noise) / waits_s))
    return tuple(
        PrefetchPoint(others, rounded(1 - share), source, error)
        for (others, share), error in zip(without_bumps(late), noise, strict=True)
    )
