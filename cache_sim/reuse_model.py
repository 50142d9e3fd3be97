"""From reuse distances to the misses of a cache that nobody simulated.

An access of reuse distance d, in lines, hits a fully associative LRU cache of more than d lines. In a cache of S sets
of A ways it hits if fewer than A of the d other lines lie in its own set. With lines spread over the sets
independently, their number is binomial (d, 1/S): Hill and Smith, "Evaluating Associativity in CPU Caches", IEEE
Transactions on Computers 38(12), 1989. Programs that walk arrays spread their lines more evenly than that, so that the
model errs towards misses where a working set nearly fills a cache; strides that meet few sets err the other way.

Each level is treated as if it saw every access (its own contents then hold those of the levels above), and an outer
level has never more misses than an inner one.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .hierarchy import Hierarchy, Level
from .results import ReuseHistograms

_POINTS_PER_BIN = 8

Floats = npt.NDArray[np.float64]


def misses_from_reuse(
    reuse: ReuseHistograms,
    hierarchy: Hierarchy,
    executions: npt.ArrayLike,
    unit_stride_share: npt.ArrayLike = 0.0,
) -> Floats:
    """Estimate how many accesses of each operation miss each level of a hierarchy.

    An operation of which no access was sampled is taken to touch few lines, and to hit everywhere.

    Where a level's lines have another size than the histogram's, *equal bytes* are assumed: a distance is a number of
    bytes, whatever lines these are held in. What then changes is how many accesses a miss fetches data for: misses of
    the `unit_stride_share` of an operation's accesses scale with 1 / line size, those of the others not at all.

    Args:
        reuse: the histograms.
        hierarchy: the caches.
        executions: [operations], what the histogram of each operation is scaled to.
        unit_stride_share: [operations] or one for all, share of an operation's accesses that go to the next element.

    Returns:
        float64 [operations, levels].
    """
    accesses = np.asarray(executions, dtype=np.float64)
    counts = reuse.dense(len(accesses)).astype(np.float64)
    sampled = counts.sum(axis=1)
    scale = np.divide(accesses, sampled, out=np.zeros_like(accesses), where=sampled > 0)
    share = np.broadcast_to(np.asarray(unit_stride_share, dtype=np.float64), accesses.shape)
    misses = np.empty((len(accesses), len(hierarchy.levels)))
    limit = accesses
    for index, level in enumerate(hierarchy.levels):
        fetches = share * (reuse.line_bytes / level.line_bytes) + (1 - share)
        estimate = counts @ miss_probabilities(reuse, level) * scale * fetches
        limit = np.minimum(estimate, limit)
        misses[:, index] = limit
    return misses


def miss_probabilities(reuse: ReuseHistograms, level: Level) -> Floats:
    """Probability that an access in each bin misses: float64 [bins]. Distances are taken as uniform within a bin."""
    num_sets = max(1.0, level.size_bytes / (level.ways * reuse.line_bytes))
    ways = level.ways if num_sets > 1 else max(1, level.size_bytes // reuse.line_bytes)
    edges = reuse.bin_edges
    result = np.ones(len(edges))
    for index, (low, high) in enumerate(pairwise(edges[:-1])):
        num_points = int(min(_POINTS_PER_BIN, high - low))
        points = np.floor(low + (high - low) * (np.arange(num_points) + 0.5) / num_points)
        result[index] = np.mean([_miss_probability(point, num_sets, ways) for point in points])
        if result[index] > 1 - 1e-12:
            break  # and so in all further bins
    return result


def _miss_probability(distance: float, num_sets: float, ways: int) -> float:
    """P(X >= ways) for X binomial (distance, 1 / num_sets)."""
    if distance < ways:
        return 0.0
    if num_sets == 1:
        return 1.0
    number = np.arange(ways)
    # log P(X = k) = log P(X = 0) + sum over i < k of log((distance - i) / (i + 1) / (num_sets - 1))
    ratios = np.log(distance - number[:-1]) - np.log((number[:-1] + 1) * (num_sets - 1))
    logs = distance * math.log1p(-1 / num_sets) + np.concatenate([[0.0], np.cumsum(ratios)])
    return float(np.clip(1 - np.exp(logs).sum(), 0, 1))


def expected_error(reuse: ReuseHistograms, miss_ratio: float) -> float:
    """Standard error of a program's estimated miss ratio, from sampling alone.

    Lines are sampled, not accesses, and accesses to one line tend to miss or hit together. So this is the binomial
    error for as many trials as there are sampled lines, less the part of the lines that was sampled. Where few lines
    take most accesses it is larger.
    """
    if reuse.sampled_lines == 0:
        return 0.0
    variance = miss_ratio * (1 - miss_ratio) / reuse.sampled_lines * (1 - reuse.sampling_rate)
    return math.sqrt(max(0.0, variance))
