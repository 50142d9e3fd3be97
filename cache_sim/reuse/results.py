"""Reuse-distance histograms of a simulation, from which the misses of any LRU cache follow (model.py).

The core (reuse.c) counts sampled accesses. This module scales the counts to all accesses and computes the sampling
error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from foretrace.cache_sim.base.results import checked_mapping

LINE_BYTES = (32, 64, 128, 256)
NUM_WAYS = 21
"""Way sizes are numbered: 1 to 19 are ways of 128 << number bytes, 256 bytes to 64 MB."""
ONE_SET_NEAR, ONE_SET_FAR = 0, 20
"""Numbers of fully associative caches: distances measured in bursts, and on sampled classes (large ones only)."""
CHAINS = (range(1), range(1, 5), range(5, 13), range(13, 20), range(20, 21))
"""Ways whose counts are changes from each way to the next larger one."""

_NEAR, _FAR = 13, 13  # FT_NEAR_WAYS + 1, FT_FAR_WAY of set_order.h
_MIDDLE, _LARGE = 5, 7  # FT_REUSE_MIDDLE_WAY, FT_REUSE_LARGE_WAY of reuse.h
_TRACKS = (1, _MIDDLE, _LARGE)
_NEAR_BINS, _NUM_BINS, _NUM_GROUPS = 17, 173, 8
_RESOLVED, _FIRST = 0x8000, 0x100  # FT_REUSE_RESOLVED, FT_REUSE_FIRST
_COUNT = np.dtype(
    [("operation", np.uint32), ("size", np.uint8), ("way", np.uint8), ("bin", np.uint16), ("n", np.int64)]
)
_SAMPLED = np.dtype(
    [("in_bursts", np.uint64), ("leaving", np.uint64), ("followed", np.uint64, 2), ("is_of_array", np.uint64)]
)
_LEAST_EXECUTIONS, _LEAST_RESOLVED = 64, 16384  # weighted: for an operation's own share to be better than that of all

Floats = npt.NDArray[np.float64]
Rows = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], Floats]
"""Operations, line sizes, ways, bins and counts."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ReuseHistograms:
    """Reuse distances by operation: the number of lines of its set used since a line was, for many cache geometries.

    `operation`, `line_bytes`, `way`, `bin`, `count`: one row for each count that is not 0, sorted. `count` accesses of
    the operation have a distance in the bin, for this way size and the larger ones of its chain (see `CHAINS`); a
    negative count takes back what smaller ways have. Counts stand for all accesses of the program, not for those that
    were sampled. An access that spans lines has the largest of their distances, of those in its last 256 bytes.

    `bin_edges`: float64 [bins], the lower edge of each bin, in lines. The last (inf) holds what is beyond all others,
    first uses included; for ways below 1 MB, distances from 30 on.
    `errors`: float64 [line sizes, ways, bins], standard error of the number of accesses of the whole program with at
    least the bin's edge for a distance, from sampling; nothing is known of bin 0.
    `sampling_rate`: share of the memory in the sampled classes in the end. `sampled_blocks`: 256-byte blocks in these
    that were used. `burst_accesses` of all `accesses` were in one of `bursts`.
    """

    accesses: int
    bursts: int
    burst_accesses: int
    sampling_rate: float
    sampled_blocks: int
    bin_edges: Floats
    operation: npt.NDArray[np.uint32]
    line_bytes: npt.NDArray[np.uint16]
    way: npt.NDArray[np.uint8]
    bin: npt.NDArray[np.uint16]
    count: npt.NDArray[np.int64]
    errors: Floats

    @property
    def burst_share(self) -> float:
        """Share of the accesses that were in bursts; 1 for a program that was measured exactly."""
        return self.burst_accesses / self.accesses if self.accesses else 1.0

    @property
    def document(self) -> dict[str, Any]:
        """Sampling parameters and standard error, for reports."""
        return {
            "line_bytes": list(LINE_BYTES),
            "sampling_rate": self.sampling_rate,
            "sampled_blocks": self.sampled_blocks,
            "bursts": self.bursts,
            "burst_share": self.burst_share,
            "largest_standard_error": float(self.errors.max()) / max(self.accesses, 1),
        }

    def merged(self, mapping: npt.ArrayLike, num_operations: int) -> ReuseHistograms:
        """The counts of `num_operations` operations that these are parts of.

        `mapping` must cover the largest operation that has a row.
        """
        indices = checked_mapping(mapping, np.size(np.asarray(mapping)), num_operations)
        if len(self.operation) and self.operation.max() >= len(indices):
            raise ValueError(f"mapping has {len(indices)} entries, operation {self.operation.max()} has a histogram")
        return _with_rows(self, indices[self.operation], self.line_bytes, self.way, self.bin, self.count)


def _with_rows(
    reuse: ReuseHistograms, operation: npt.NDArray[Any], line: npt.NDArray[Any], way: npt.NDArray[Any],
    bins: npt.NDArray[Any], count: npt.NDArray[Any],
) -> ReuseHistograms:  # fmt: skip
    """Rows of one key summed, those of 0 left out, in order."""
    key = ((operation.astype(np.int64) << 10 | line) << 5 | way) << 8 | bins
    keys, row_of = np.unique(key, return_inverse=True)
    sums = np.rint(np.bincount(row_of, weights=count, minlength=len(keys))).astype(np.int64)
    keys, sums = keys[sums != 0], sums[sums != 0]
    return replace(
        reuse,
        operation=(keys >> 23).astype(np.uint32),
        line_bytes=(keys >> 13 & 0x3FF).astype(np.uint16),
        way=(keys >> 8 & 0x1F).astype(np.uint8),
        bin=(keys & 0xFF).astype(np.uint16),
        count=sums,
    )


def measured_reuse(
    result: tuple[int, int, int, int, int, int, int, bytes, bytes, bytes, bytes],
    executions: npt.ArrayLike,
    bin_edges: Floats,
) -> ReuseHistograms:
    """Histograms from the result of the core's `reuse()`, scaled to the `executions` [operations] of the program."""
    accesses, burst_accesses, bursts, class_shift, blocks, middle, large = result[:7]
    data, sampled, variances, groups = result[7:]
    counts = np.frombuffer(data, dtype=_COUNT)
    executed = np.asarray(executions, dtype=np.float64)
    scale = _scales(executed, np.frombuffer(sampled, dtype=_SAMPLED), [accesses / max(n, 1) for n in (middle, large)])
    empty = np.zeros(0)
    reuse = ReuseHistograms(
        accesses=accesses, bursts=bursts, burst_accesses=burst_accesses, sampling_rate=2.0**-class_shift,
        sampled_blocks=blocks, bin_edges=bin_edges, operation=empty.astype(np.uint32),
        line_bytes=empty.astype(np.uint16), way=empty.astype(np.uint8), bin=empty.astype(np.uint16),
        count=empty.astype(np.int64), errors=_errors(variances, groups, 2.0**-class_shift, len(bin_edges)),
    )  # fmt: skip
    kind, bins = counts["bin"] & (_RESOLVED | _FIRST), counts["bin"] & (_FIRST - 1)
    line, count = np.array(LINE_BYTES)[counts["size"]], counts["n"].astype(np.float64)
    rows = (counts["operation"], line, counts["way"], bins, count)
    known, resolved, seen, seen_of_resolved = (
        _selected(rows, (kind == of) & (bins > 0)) for of in (0, _RESOLVED, _FIRST, _FIRST | _RESOLVED)
    )
    first_uses = _first_uses(counts[bins == 0], len(executed))
    rows = _joined(known, _post_stratified(resolved, seen, seen_of_resolved, first_uses))
    near = np.searchsorted((*_TRACKS[1:], _FAR), rows[2], side="right") < len(_TRACKS)
    track = np.searchsorted(_TRACKS[1:], rows[2], side="right")
    rows[4][near] *= scale[rows[0][near], track[near]]
    return _with_rows(reuse, *_as_changes(rows))


def _selected(rows: Rows, of: npt.NDArray[np.bool_]) -> Rows:
    operation, line, way, bins, count = rows
    return operation[of], line[of], way[of], bins[of], count[of]


def _as_changes(rows: Rows) -> Rows:
    """Rows that turn counts of large ways into changes relative to the middle ways."""
    operation, line, way, bins, count = _selected(rows, (rows[2] >= _MIDDLE) & (rows[2] < _LARGE))
    return _joined(rows, (operation, line, np.full_like(way, _LARGE), bins, -count))


def _scales(executed: Floats, sampled: npt.NDArray[Any], followed: Sequence[float]) -> Floats:
    """[operations, tracks]: executions for each that was sampled or stood for by it, of an operation or of all.

    An operation's own share makes up for a phase of the program that had more or fewer bursts than its due, or for
    memory that was followed more often or less: then of the accesses that miss a small cache, known of all operations
    but those of arrays. `followed`: accesses for each that middle and large ways stand for.
    """
    rows = np.zeros(len(executed), dtype=_SAMPLED)
    known = min(len(rows), len(sampled))
    rows[:known] = sampled[:known]
    scales = np.empty((len(executed), len(_TRACKS)))
    in_bursts, leaving = rows["in_bursts"].astype(np.float64), rows["leaving"].astype(np.float64)
    overall = executed.sum() / max(in_bursts.sum(), 1)
    scales[:, 0] = np.where(in_bursts >= _LEAST_EXECUTIONS, executed / np.maximum(in_bursts, 1), overall)
    for track, ratio in enumerate(followed):
        found = rows["followed"][:, track].astype(np.float64)
        is_known = (found > 0) & (rows["is_of_array"] == 0)
        unseen = leaving[(found == 0) & (rows["is_of_array"] == 0)].sum()
        others = 1 + unseen / max(leaving[is_known].sum(), 1)
        scales[:, 1 + track] = np.where(is_known, leaving / np.maximum(found, 1) * others, ratio)
    return scales


def _first_uses(counts: npt.NDArray[Any], num_operations: int) -> Floats:
    """[operations, line sizes, tracks, 2]: how many there are, and how many those stand for whose distance is known.

    Bin 0 of the first two ways of each track holds them (`count_first_use` of reuse.c).
    """
    numbers = np.zeros((num_operations, len(LINE_BYTES), len(_TRACKS), 2))
    for track, first in enumerate(_TRACKS):
        for resolved in (0, 1):
            rows = counts[counts["way"] == first + resolved]
            numbers[rows["operation"], rows["size"], track, resolved] = rows["n"]
    return numbers


def _post_stratified(resolved: Rows, seen: Rows, seen_of_resolved: Rows, first_uses: Floats) -> Rows:
    """Changes of the histogram by first uses of resolved distance, each weighted by the first uses it represents.

    A first use that misses whatever its true distance needs no correction. Only first uses whose seen distance is below
    a bin's edge do, and the resolved ones among them represent them all. Post-stratification: Cochran, "Sampling
    Techniques", 3rd edition, section 5A.9. The strata are of the operation, or of all operations where it has few.
    """
    found = []
    for index, (first, end) in enumerate(zip((0, *_TRACKS), (*_TRACKS, _NEAR), strict=True)):
        track, num_bins = max(index - 1, 0), _NEAR_BINS if first else _NUM_BINS
        for size, line_bytes in enumerate(LINE_BYTES):
            part = [_of_track(rows, line_bytes, first, end) for rows in (resolved, seen, seen_of_resolved)]
            operations = np.flatnonzero(np.bincount(part[0][0])).astype(part[0][0].dtype)  # np.unique imports numpy.ma
            shape = (end - first, num_bins)
            changes, *of_own = (_at_least(rows, operations, first, shape) for rows in part)
            of_all = (_at_least((np.zeros_like(r[0]), *r[1:]), np.zeros(1, r[0].dtype), first, shape) for r in part[1:])
            uses = first_uses[:, size, track]
            own = [uses[operations, i, None, None] - at_least for i, at_least in enumerate(of_own)]
            everything = [uses[:, i].sum() - at_least for i, at_least in enumerate(of_all)]
            share = everything[0] / np.maximum(everything[1], 1)
            is_known = (uses[operations, 1, None, None] >= _LEAST_RESOLVED) & (own[1] > 0)
            changes *= np.where(is_known, own[0] / np.maximum(own[1], 1), share)
            in_bins = np.diff(-np.diff(changes, axis=2, append=0.0), axis=1, prepend=0.0)
            in_bins[..., 0] = 0
            at = np.nonzero(in_bins)
            found.append((
                operations[at[0]], np.full(len(at[0]), line_bytes), (at[1] + first).astype(np.uint8),
                np.where(at[2] == num_bins - 1, _NUM_BINS - 1, at[2]).astype(np.uint16), in_bins[at],
            ))  # fmt: skip
    return _joined(*found)


def _of_track(rows: Rows, line_bytes: int, first: int, end: int) -> Rows:
    return _selected(rows, (rows[1] == line_bytes) & (rows[2] >= first) & (rows[2] < end))


def _at_least(rows: Rows, operations: npt.NDArray[Any], first: int, shape: tuple[int, int]) -> Floats:
    """[operations, ways, bins]: counts from each bin's edge on, of changes from way to way."""
    rows = _selected(rows, np.isin(rows[0], operations))
    table = np.zeros((len(operations), *shape))
    place = np.searchsorted(operations, rows[0]), rows[2].astype(int) - first, np.minimum(rows[3], shape[1] - 1)
    np.add.at(table, place, rows[4])
    return np.asarray(np.cumsum(np.cumsum(table[..., ::-1], axis=2)[..., ::-1], axis=1))


def _joined(*parts: Rows) -> Rows:
    operation, line, way, bins, count = (np.concatenate(part) for part in zip(*parts, strict=True))
    return operation, line, way, bins, count


def _errors(variances: bytes, groups: bytes, rate: float, num_bins: int) -> Floats:
    """[line sizes, ways, bins], from the variances of bursts and from the spread of groups of classes."""
    sizes = len(LINE_BYTES)
    errors = np.zeros((sizes, NUM_WAYS, num_bins))
    numbers = np.frombuffer(variances, dtype=np.float64)
    near = np.sqrt(numbers[: sizes * (_NEAR - 1) * _NEAR_BINS].reshape(sizes, _NEAR - 1, _NEAR_BINS))
    errors[:, 1:_NEAR, : _NEAR_BINS - 1] = near[:, :, :-1]
    errors[:, 1:_NEAR, _NEAR_BINS - 1 :] = near[:, :, -1:]
    errors[:, ONE_SET_NEAR] = np.sqrt(numbers[near.size :].reshape(sizes, num_bins))
    far = np.frombuffer(groups, dtype=np.float64).reshape(_NUM_GROUPS, sizes, NUM_WAYS - _FAR, num_bins).copy()
    far[:, :, :-1] = np.cumsum(far[:, :, :-1], axis=2)
    at_least = np.cumsum(far[..., ::-1], axis=3)[..., ::-1]
    # Groups are equal parts of the sample: their sum varies by their number times their variance.
    errors[:, _FAR:] = np.sqrt(_NUM_GROUPS * at_least.var(axis=0, ddof=1) * (1 - rate))
    errors[:, :, 0] = 0
    return errors
