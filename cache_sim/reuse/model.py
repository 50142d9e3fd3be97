"""Estimates the misses of a cache that was not simulated, from reuse distances.

An access misses an LRU cache of A ways if A or more lines of its set were used since its own was (Mattson et al.,
"Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970; for many numbers of sets at once, Hill
and Smith, "Evaluating associativity in CPU caches", IEEE Transactions on Computers 38(12), 1989). These distances were
measured for ways of 256 bytes, 512 bytes, ... 64 MB, and for one set. What lies between is interpolated at equal
capacity: between two way sizes for a number of sets that is no power of two, and between the largest number of ways
that was measured and one set for more ways than that.

Each level is treated as if it saw every access (its own contents then hold those of the levels above), and an outer
level has never more misses than an inner one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from foretrace.cache_sim.base.hierarchy import Hierarchy, Level

from .results import CHAINS, LINE_BYTES, NUM_WAYS, ONE_SET_FAR, ONE_SET_NEAR, ReuseHistograms

_MOST_NEAR_WAYS, _MOST_FAR_WAYS = 28, 192  # associativities up to which distances are measured
_FAR, _LAST = 13, 19
_NEAR_BYTES = 512 << 10  # of fully associative caches that bursts measure better
_FIRST_WAYS = (1, 5, 7)  # of bursts and of the two tracks (reuse.h)
_SEEN_SHARE = 0.25  # of the accesses that a sample should have of an operation; with less, it has missed it

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Probe:
    """A share of the accesses with at least `lines` for a distance, for ways of this number."""

    weight: float
    way: int
    lines: float


def misses_from_reuse(
    reuse: ReuseHistograms,
    hierarchy: Hierarchy,
    executions: npt.ArrayLike,
    unit_stride_share: npt.ArrayLike = 0.0,
) -> Floats:
    """Estimate how many accesses of each operation miss each level of a hierarchy.

    An operation without a sampled access is taken to hit everywhere. The sample that a level is read from may alone
    lack an operation (an array operation that ran between two of its windows) or nearly all of its misses (lines that
    bursts never saw used again): then a fully associative cache of the same size stands for the level.

    For lines shorter or longer than those measured (32 to 256 bytes), distances of the nearest of these are taken for
    distances in bytes. Misses of the `unit_stride_share` of an operation's accesses then scale with 1 / line size,
    those of the others not at all.

    Args:
        reuse: the histograms.
        hierarchy: the caches.
        executions: [operations], how often each was executed: it has no more misses.
        unit_stride_share: [operations] or one for all, share of an operation's accesses that go to the next element.

    Returns:
        float64 [operations, levels].
    """
    accesses = np.asarray(executions, dtype=np.float64)
    share = np.broadcast_to(np.asarray(unit_stride_share, dtype=np.float64), accesses.shape)
    misses = np.empty((len(accesses), len(hierarchy.levels)))
    limit = accesses
    for index, level in enumerate(hierarchy.levels):
        line_bytes = measured_line_bytes(level)
        fetches = share * (line_bytes / level.line_bytes) + (1 - share)
        limit = np.clip(_misses(reuse, level, len(accesses)) * fetches, 0, limit)
        misses[:, index] = limit
    return misses


def misses_fully_associative(
    reuse: ReuseHistograms,
    sizes_bytes: Sequence[int],
    line_bytes: int,
    executions: npt.ArrayLike,
    unit_stride_share: npt.ArrayLike = 0.0,
) -> Floats:
    """Estimate misses of fully associative caches, which approximate caches whose set index is a hash.

    Args:
        reuse: the histograms.
        sizes_bytes: of the levels, from the inside out.
        line_bytes: of all of them, at least 1.
        executions: [operations], as for `misses_from_reuse`.
        unit_stride_share: likewise.

    Returns:
        float64 [operations, levels].
    """
    accesses = np.asarray(executions, dtype=np.float64)
    share = np.broadcast_to(np.asarray(unit_stride_share, dtype=np.float64), accesses.shape)
    measured = _measured(line_bytes)
    lines = _line_size(reuse, measured)
    fetches = share * (measured / line_bytes) + (1 - share)
    misses = np.empty((len(accesses), len(sizes_bytes)))
    limit = accesses
    for index, size_bytes in enumerate(sizes_bytes):
        found = lines.at_least([_one_set(size_bytes, measured)], len(accesses))
        found = _with_lost(lines, found, size_bytes, measured)
        limit = np.clip(found * fetches, 0, limit)
        misses[:, index] = limit
    return misses


def measured_line_bytes(level: Level) -> int:
    """The measured line size whose distances stand for a level's."""
    return _measured(level.line_bytes)


def _measured(line_bytes: int) -> int:
    return min(max(line_bytes, LINE_BYTES[0]), LINE_BYTES[-1])


class _LineSize:
    """The distances between lines of one size. Results are kept: machines have many figures of their caches in common.

    Args:
        reuse: the histograms.
        line_bytes: one of the sizes that were measured.
    """

    _MOST_KEPT = 64

    def __init__(self, reuse: ReuseHistograms, line_bytes: int) -> None:
        rows = reuse.line_bytes == line_bytes
        self._edges = reuse.bin_edges
        self._cell = reuse.way[rows].astype(np.int64) * len(self._edges) + reuse.bin[rows]
        self._count = reuse.count[rows].astype(np.float64)
        self._operation = reuse.operation[rows].astype(np.int64)
        self._at_least = lru_cache(self._MOST_KEPT)(self._count_at_least)

    def at_least(self, probes: Sequence[_Probe], num_operations: int) -> Floats:
        """[operations]: how many of their accesses the probes count. Not to be written to."""
        return self._at_least(tuple(probes), num_operations)

    def total(self, probe: _Probe) -> float:
        """Number of accesses of all operations that the probe counts."""
        return float((self._count * _coefficients(self._edges, [probe]).ravel()[self._cell]).sum())

    def _count_at_least(self, probes: tuple[_Probe, ...], num_operations: int) -> Floats:
        weights = self._count * _coefficients(self._edges, probes).ravel()[self._cell]
        return np.bincount(self._operation, weights=weights, minlength=num_operations).astype(np.float64)


_LINE_SIZES: WeakKeyDictionary[ReuseHistograms, dict[int, _LineSize]] = WeakKeyDictionary()


def _line_size(reuse: ReuseHistograms, line_bytes: int) -> _LineSize:
    sizes = _LINE_SIZES.setdefault(reuse, {})
    if line_bytes not in sizes:
        sizes[line_bytes] = _LineSize(reuse, line_bytes)
    return sizes[line_bytes]


def _misses(reuse: ReuseHistograms, level: Level, num_operations: int) -> Floats:
    line_bytes = measured_line_bytes(level)
    lines = _line_size(reuse, line_bytes)

    def at_least(probes: Sequence[_Probe]) -> Floats:
        return lines.at_least(probes, num_operations)

    probes = _probes(level)
    misses = at_least(probes)
    unseen = _unseen(at_least, probes, line_bytes)
    if unseen.any():
        far = at_least([_Probe(1.0, ONE_SET_FAR, max(level.size_bytes, _NEAR_BYTES) / line_bytes)])
        if level.size_bytes <= _NEAR_BYTES:  # at least those that miss a larger one; bursts tell of the others
            far = np.maximum(far, at_least([_Probe(1.0, ONE_SET_NEAR, level.size_bytes / line_bytes)]))
        misses = np.where(unseen, far, misses)
    return _with_lost(lines, misses, level.size_bytes, line_bytes)


def _with_lost(lines: _LineSize, misses: Floats, size_bytes: int, line_bytes: int) -> Floats:
    """Misses, corrected for operations of which a sample lost nearly all misses.

    A burst cannot tell how far back a line was used that it sees for the first time. If it saw none of these lines
    used again either, their misses are lost. What misses a fully associative cache of twice the size misses this one.
    """
    least = lines.at_least([_Probe(1.0, ONE_SET_FAR, 2 * max(size_bytes, _NEAR_BYTES) / line_bytes)], len(misses))
    return np.where(misses < _SEEN_SHARE * least, least, misses)


def _unseen(
    at_least: Callable[[Sequence[_Probe]], Floats], probes: list[_Probe], line_bytes: int
) -> npt.NDArray[np.bool_]:
    """The operations that a sample which is read has missed, though others saw accesses that belong into it.

    What has two or more of a track's smallest ways between two uses has another line of its set between them.
    """
    unseen = np.zeros(len(at_least([])), np.bool_)
    for way in {first for probe in probes for first in _FIRST_WAYS if _holds(first, probe.way)}:
        expected = at_least([_Probe(1.0, ONE_SET_FAR, 2 * (128 << way) / line_bytes)])
        unseen |= at_least([_Probe(1.0, way, 0.0)]) < _SEEN_SHARE * expected
    return unseen


def _holds(first: int, way: int) -> bool:
    """Whether a way size is one that is sampled from `first` on, in bursts or by a track."""
    return first == max((other for other in _FIRST_WAYS if other <= way < _FAR), default=0)


def miss_count_error(reuse: ReuseHistograms, level: Level) -> float:
    """Standard error of the number of accesses of the program that are estimated to miss a level.

    That of sampling; of what is interpolated, errors are added up as if they were one. To these comes how far the
    estimate is from the further one of the two that it lies between: conflicts of a number of sets that was not
    measured may be like those of either. Conflicts that neither has are in no error.
    """
    errors = reuse.errors[LINE_BYTES.index(measured_line_bytes(level))]
    probes = _probes(level)
    total = 0.0
    for probe in probes:
        bin_index, part = _place(reuse.bin_edges, probe.lines)
        below, above = errors[probe.way, bin_index], errors[probe.way, min(bin_index + 1, errors.shape[1] - 1)]
        total += abs(probe.weight) * float(below + (above - below) * part)
    return math.hypot(total, _interpolation_error(reuse, level, probes))


def _interpolation_error(reuse: ReuseHistograms, level: Level, probes: list[_Probe]) -> float:
    if len(probes) == 1:
        return 0.0
    lines = _line_size(reuse, measured_line_bytes(level))
    misses = [lines.total(replace(probe, weight=1.0)) for probe in probes]
    estimate = sum(probe.weight * count for probe, count in zip(probes, misses, strict=True))
    return max(abs(count - estimate) for probe, count in zip(probes, misses, strict=True) if probe.weight)


def _place(edges: Floats, lines: float) -> tuple[int, float]:
    """The bin that a distance is in, and how far up."""
    index = int(np.searchsorted(edges, lines, side="right")) - 1
    if index + 2 >= len(edges):
        return index, 0.0
    return index, (lines - edges[index]) / (edges[index + 1] - edges[index])


def _coefficients(edges: Floats, probes: Sequence[_Probe]) -> Floats:
    """[ways, bins]: how many misses a count of 1 there is."""
    table = np.zeros((NUM_WAYS, len(edges)))
    for probe in probes:
        index, part = _place(edges, probe.lines)
        at_least = np.zeros(len(edges))
        at_least[index:] = 1
        at_least[index] -= part
        chain = next(chain for chain in CHAINS if probe.way in chain)
        table[chain.start : probe.way + 1] += probe.weight * at_least
    return table


def _probes(level: Level) -> list[_Probe]:
    """Probes of a level: the distances that its misses are read from, each with a weight."""
    line_bytes = measured_line_bytes(level)
    way_bytes = level.size_bytes / level.ways
    number = math.log2(way_bytes / 128)
    below, above = math.floor(number + 1e-9), math.ceil(number - 1e-9)
    if way_bytes <= line_bytes:
        return [_one_set(level.size_bytes, line_bytes)]
    if below < 1 or _ways(level.size_bytes, below) > _most_ways(below):
        return _towards_one_set(level.size_bytes, number, line_bytes)
    if above > _LAST:
        return [_Probe(1.0, _LAST, _ways(level.size_bytes, _LAST))]
    share = number - below if above > below else 0.0
    probes = [_Probe(1 - share, below, _ways(level.size_bytes, below))]
    return probes + [_Probe(share, above, _ways(level.size_bytes, above))] * (share > 0)


def _ways(size_bytes: int, way: int) -> float:
    return size_bytes / (128 << way)


def _most_ways(way: int) -> int:
    return _MOST_NEAR_WAYS if way < _FAR else _MOST_FAR_WAYS


def _one_set(size_bytes: int, line_bytes: int) -> _Probe:
    return _Probe(1.0, ONE_SET_NEAR if size_bytes <= _NEAR_BYTES else ONE_SET_FAR, size_bytes / line_bytes)


def _towards_one_set(size_bytes: int, number: float, line_bytes: int) -> list[_Probe]:
    """Two probes, one set and the smallest way size measured for so few ways, weighted by the logarithm of the size."""
    way = next(way for way in range(1, _LAST + 1) if _ways(size_bytes, way) <= _most_ways(way) or way == _LAST)
    one_set = _one_set(size_bytes, line_bytes)
    line_number = math.log2(line_bytes / 128)
    share = min(1.0, (number - line_number) / (way - line_number))
    return [_Probe(1 - share, one_set.way, one_set.lines), _Probe(share, way, _ways(size_bytes, way))]
