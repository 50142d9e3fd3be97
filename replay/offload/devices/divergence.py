"""Divergence: what a warp issues beyond what its threads do, as all of them go through the same instructions.

A block that some threads of a warp reach is issued for all, and a loop that each thread runs by itself takes as long as
its longest thread. Iterations of neighbours are taken to be independent of each other. Neighbours that are alike, as
points of a picture often are, diverge less: the fast end of an interval has no divergence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foretrace.replay.base.spread import Floats
from foretrace.tracer.signature.tree_records import ExecutionTree

from .work import Work


def expected_longest(first: Sequence[float], last: Sequence[float], share: Sequence[float], lanes: float) -> float:
    """The expected maximum of independent draws of a number that lies evenly in one of some stretches.

    The integral of 1 - F(x)^lanes over x from 0 on, for a distribution function F that is piecewise linear.

    Args:
        first, last: ends of the stretches, ascending, none overlapping another. Equal ends are a single value.
        share: of the draws that fall into each; their sum is 1.
        lanes: how many draws.
    """
    longest, below, end = 0.0, 0.0, 0.0
    for low, high, part in zip(first, last, share, strict=True):
        above = min(below + part, 1.0)
        longest += (low - end) * (1 - below**lanes)
        if high > low:
            power = below**lanes
            if above > below:
                power = (above ** (lanes + 1) - below ** (lanes + 1)) / ((lanes + 1) * (above - below))
            longest += (high - low) * (1 - power)
        below, end = above, high
    return longest


class TripCounts:
    """Spread of iterations over each loop's entries: how much longer than the mean the longest of some is.

    The distribution is that of the tree's histogram, whose buckets are powers of two: even within a bucket, between the
    least and the most of any entry. What changes slowly over the run is no difference between neighbours: of the
    variance that the loop's phases do not explain, the standard deviation counts, in proportion to that of all.
    """

    def __init__(self, work: Work) -> None:
        """Trip counts of a program; without a tree no loop is known to vary."""
        tree = work.run.workload.signature.tree
        self._nodes = work.tree_node
        self._tree = tree
        self._found: dict[tuple[int, float], float] = {}
        if tree is not None:
            numbers = np.arange(len(tree) + 1)
            self._rows = np.searchsorted(tree.histogram_node, numbers)
            self._phases = np.searchsorted(tree.phase_node, numbers)

    def varies(self, node: int) -> bool:
        """Whether some entry of a loop has at least twice the iterations of another."""
        number = int(self._nodes[node])
        return self._tree is not None and number >= 0 and int(self._tree.most[number]) > 2 * self._tree.least[number]

    def imbalance(self, node: int, lanes: float) -> float:
        """The expected longest of `lanes` entries of a loop, over the mean."""
        number = int(self._nodes[node])
        if self._tree is None or number < 0 or lanes <= 1:
            return 1.0
        if (number, lanes) not in self._found:
            self._found[number, lanes] = self._imbalance(self._tree, number, lanes)
        return self._found[number, lanes]

    def _imbalance(self, tree: ExecutionTree, number: int, lanes: float) -> float:
        least, most = float(tree.least[number]), float(tree.most[number])
        rows = slice(int(self._rows[number]), int(self._rows[number + 1]))
        entries = tree.histogram_entries[rows].astype(np.float64)
        mean = float(tree.iterations[number]) / max(float(tree.entries[number]), 1.0)
        if most <= least or mean <= 0 or entries.sum() <= 0:
            return 1.0
        power = 2.0 ** np.maximum(tree.histogram_bucket[rows] - 1, 0)
        is_none = tree.histogram_bucket[rows] == 0
        first = np.clip(np.where(is_none, 0.0, power), least, most)
        last = np.clip(np.where(is_none, 0.0, 2 * power - 1), least, most)
        share = entries / entries.sum()
        evenly = float(((first + last) / 2) @ share)
        variance = float(((first**2 + first * last + last**2) / 3) @ share) - evenly**2
        longest = expected_longest(first.tolist(), last.tolist(), share.tolist(), lanes)
        factor = max(min(longest / max(evenly, 1e-300), most / mean), 1.0)
        return 1 + (factor - 1) * self._unexplained(tree, number, variance)

    def _unexplained(self, tree: ExecutionTree, number: int, variance: float) -> float:
        """The standard deviation within phases over that of all entries."""
        rows = slice(int(self._phases[number]), int(self._phases[number + 1]))
        entries = tree.phase_entries[rows].astype(np.float64)
        if not len(entries) or variance <= 0:
            return 1.0
        means = tree.phase_iterations[rows] / entries
        between = float(entries @ (means - entries @ means / entries.sum()) ** 2 / entries.sum())
        return float(np.sqrt(max(1 - between / variance, 0.0)))


def issued(work: Work, rounds: Floats) -> Floats:
    """Instructions that a warp of 32 issues for each of its threads over what these do, [nodes], if each takes a branch
    whatever its neighbours do.

    A block that runs in a share f of `rounds`, float64 [nodes], is issued in 1 - (1 - f)^32 of them.
    """
    lengths = np.array([max(block.instructions, 1) for block in work.run.workload.signature.blocks], np.float64)
    executions = np.array([block.executions for block in work.run.workload.signature.blocks], np.float64)
    of_row = executions[work.row_block] * work.row_share
    most = np.zeros(len(work))
    np.maximum.at(most, work.row_node, of_row)
    rounds = np.maximum(np.maximum(rounds, most), 1.0)[work.row_node]
    share = np.clip(of_row / rounds, 0.0, 1.0)
    all_s = np.bincount(work.row_node, rounds * (1 - (1 - share) ** 32) * lengths[work.row_block], minlength=len(work))
    alone = np.bincount(work.row_node, of_row * lengths[work.row_block], minlength=len(work))
    return np.asarray(np.divide(all_s, alone, out=np.ones_like(alone), where=alone > 0))
