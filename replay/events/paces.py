"""Work that keeps pace with an event: by node of the execution tree, and by region of the workload.

The tracer counts the executions of nodes that matter while the program runs. The others are judged by what they did
together, the rest of all executions. A region's work is shared out among nodes by their instructions in its blocks, as
times are.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from foretrace.replay.base.spread import Floats
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.tree_records import ExecutionTree

from .proportions import Proportions, proportions
from .series import EventSeries, series_of

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Paces:
    """A program's work and an event.

    Attributes:
        series: the event over the run.
        tree: of the signature.
        of_nodes: of all nodes of the tree.
        row_node, row_region: int64 [rows]; which node did work of which region.
        row_share: float64 [rows], of the region's instructions.
        regions: how many there are.
    """

    series: EventSeries
    tree: ExecutionTree
    of_nodes: Proportions
    row_node: Ints
    row_region: Ints
    row_share: Floats
    regions: int

    @classmethod
    def of(cls, workload: Workload, name: str) -> Paces:
        """Compare a program's work with the event of a name.

        Raises:
            PredictionError: there is no such event, or it does not tell which work goes with it; says why.
        """
        series = series_of(workload.signature, name)
        tree = workload.signature.tree
        assert tree is not None, "series_of refuses signatures without"
        samples = series.samples
        instructions = np.array([max(block.instructions, 1) for block in workload.signature.blocks], np.float64)
        weights = tree.work_executions * instructions[tree.work_block]
        count = len(workload.regions)
        regions = workload.region_of_block[tree.work_block]
        of_region = np.bincount(regions, weights=weights, minlength=count)
        keys, place = np.unique(tree.work_node * count + regions, return_inverse=True)
        sums = np.bincount(place, weights=weights, minlength=len(keys))
        row_region = keys % count
        shares = np.divide(sums, of_region[row_region], out=np.zeros_like(sums), where=of_region[row_region] > 0)
        rest = np.maximum(samples.position - samples.executions.sum(axis=1), 0)
        found = proportions(series.values, series.start, np.column_stack([samples.executions, rest]))
        return cls(series, tree, _of_all(tree, samples.nodes, found), keys // count, row_region, shares, count)

    def of_regions(self, of_nodes: Floats, *, elsewhere: float = 0.0) -> Floats:
        """[regions]: a share of the work, [nodes], of each region; `elsewhere` is that of regions without a node."""
        shares = np.bincount(self.row_region, weights=self.row_share * of_nodes[self.row_node], minlength=self.regions)
        known = np.bincount(self.row_region, weights=self.row_share, minlength=self.regions) > 0
        return np.where(known, shares, elsewhere).astype(np.float64)

    def seconds(self, time_s: Floats) -> Floats:
        """[nodes]: what each takes itself, of the regions' times."""
        weights = self.row_share * time_s[self.row_region]
        return np.bincount(self.row_node, weights=weights, minlength=len(self.tree)).astype(np.float64)


def _of_all(tree: ExecutionTree, sampled: Ints, found: Proportions) -> Proportions:
    """[nodes] of the tree: the columns of `found`, of which the last one is that of all nodes that were not sampled."""
    column = np.full(len(tree), len(sampled), np.int64)
    column[sampled] = np.arange(len(sampled))
    everywhere = (getattr(found, one.name)[column] for one in fields(found))
    together = Proportions(*everywhere)
    return replace(together, deviation=np.where(column < len(sampled), together.deviation, np.nan))
