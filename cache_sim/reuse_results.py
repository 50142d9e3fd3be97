"""What a simulation found out about reuse, from which the misses of any LRU cache follow (reuse_model.py).

The core (reuse.c) counts what it sampled. Here that is scaled to all accesses, and its sampling error worked out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .results import checked_mapping

LINE_BYTES = (32, 64, 128, 256)
NUM_WAYS = 21
"""Way sizes are numbered: 1 to 19 are ways of 128 << number bytes, 256 bytes to 64 MB."""
ONE_SET_NEAR, ONE_SET_FAR = 0, 20
"""Numbers of fully associative caches: distances measured in bursts, and on sampled classes (large ones only)."""
CHAINS = (range(1), range(1, 5), range(5, 13), range(13, 20), range(20, 21))
"""Ways whose counts are changes from each way to the next larger one."""

_NEAR, _DENSE, _FAR = 13, 5, 13  # FT_NEAR_WAYS + 1, FT_REUSE_DENSE_WAY, FT_FAR_WAY of reuse.h
_NEAR_BINS, _NUM_GROUPS = 17, 16
_RESOLVED = 0x8000
_COUNT = np.dtype(
    [("operation", np.uint32), ("size", np.uint8), ("way", np.uint8), ("bin", np.uint16), ("n", np.int64)]
)
_LEAST_EXECUTIONS, _LEAST_RESOLVED = 64, 16384  # weighted: for an operation's own share to be better than that of all

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ReuseHistograms:
    """How many lines of its set were used since a line was, for many cache geometries at once.

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
        """Of the accesses; 1 for a program that was measured exactly."""
        return self.burst_accesses / self.accesses if self.accesses else 1.0

    @property
    def document(self) -> dict[str, Any]:
        """How it was sampled, for reports."""
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
    result: tuple[int, int, int, int, int, bytes, bytes, bytes, bytes], executions: npt.ArrayLike, bin_edges: Floats
) -> ReuseHistograms:
    """What the core's `reuse()` returned, scaled to the `executions` [operations] of the program."""
    accesses, burst_accesses, bursts, class_shift, blocks, data, in_bursts, variances, groups = result
    counts = np.frombuffer(data, dtype=_COUNT)
    executed = np.asarray(executions, dtype=np.float64)
    scale = _scales(executed, np.frombuffer(in_bursts, dtype=np.uint64).reshape(-1, 2).astype(np.float64))
    is_resolved, bins = (counts["bin"] & _RESOLVED) > 0, counts["bin"] & (_RESOLVED - 1)
    is_dense, operation = (counts["way"] >= _DENSE).astype(np.intp), counts["operation"]
    count = counts["n"].astype(np.float64)
    count *= np.where(counts["way"] < _NEAR, scale[operation, is_dense], 1.0)
    share = _first_uses_for_a_resolved_one(counts, bins, len(executed))
    count *= np.where(is_resolved, share[operation, counts["size"], is_dense], 1.0)
    empty = np.zeros(0)
    reuse = ReuseHistograms(
        accesses=accesses, bursts=bursts, burst_accesses=burst_accesses, sampling_rate=2.0**-class_shift,
        sampled_blocks=blocks, bin_edges=bin_edges, operation=empty.astype(np.uint32),
        line_bytes=empty.astype(np.uint16), way=empty.astype(np.uint8), bin=empty.astype(np.uint16),
        count=empty.astype(np.int64), errors=_errors(variances, groups, 2.0**-class_shift, len(bin_edges)),
    )  # fmt: skip
    used = bins > 0
    line = np.array(LINE_BYTES)[counts["size"]]
    return _with_rows(reuse, operation[used], line[used], counts["way"][used], bins[used], count[used])


def _scales(executed: Floats, in_bursts: Floats) -> Floats:
    """[operations, sparse or dense]: executions for each that bursts stand for, of an operation or of all.

    An operation's own share makes up for a phase of the program that had more or fewer bursts than its due.
    """
    found = np.zeros((len(executed), 2))
    rows = min(len(found), len(in_bursts))
    found[:rows] = in_bursts[:rows, ::-1]
    overall = executed.sum() / np.maximum(found.sum(axis=0), 1)
    own = executed[:, None] / np.maximum(found, 1)
    return np.asarray(np.where(found >= _LEAST_EXECUTIONS, own, overall))


def _first_uses_for_a_resolved_one(counts: npt.NDArray[Any], bins: npt.NDArray[Any], num_operations: int) -> Floats:
    """[operations, line sizes, sparse or dense], of the operation or of all where it has few.

    Bin 0 of four ways holds the numbers that this needs (`count_first_use` of reuse.c).
    """
    numbers = np.zeros((num_operations, len(LINE_BYTES), 2, 2))
    for way, place in {1: (0, 0), 2: (0, 1), _DENSE: (1, 0), _DENSE + 1: (1, 1)}.items():
        rows = counts[(bins == 0) & (counts["way"] == way)]
        numbers[rows["operation"], rows["size"], *place] = rows["n"]
    total = numbers.sum(axis=0)
    ratio = total[..., 0] / np.maximum(total[..., 1], 1)
    own = numbers[..., 0] / np.maximum(numbers[..., 1], 1)
    return np.asarray(np.where(numbers[..., 1] >= _LEAST_RESOLVED, own, ratio))


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
