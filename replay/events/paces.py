"""What of a program's work keeps pace with an event: by node of the execution tree, and by region of the workload.

The tracer counts the executions of nodes that matter while the program runs. A node that is too small for that is taken
to be as the node above it. A region's work is shared out among nodes by their instructions in its blocks, as times are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.replay.spread import Floats
from foretrace.replay.workload import Workload
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
        sampled = proportions(series.values, series.start, samples.executions)
        of_nodes = _of_all(tree, samples.nodes, samples.executions[-1], sampled)
        return cls(series, tree, of_nodes, keys // count, row_region, shares, count)

    def of_regions(self, of_nodes: Floats, *, elsewhere: float = 0.0) -> Floats:
        """[regions]: a share of the work, [nodes], of each region; `elsewhere` is that of regions without a node."""
        shares = np.bincount(self.row_region, weights=self.row_share * of_nodes[self.row_node], minlength=self.regions)
        known = np.bincount(self.row_region, weights=self.row_share, minlength=self.regions) > 0
        return np.where(known, shares, elsewhere).astype(np.float64)

    def seconds(self, time_s: Floats) -> Floats:
        """[nodes]: what each takes itself, of the regions' times."""
        weights = self.row_share * time_s[self.row_region]
        return np.bincount(self.row_node, weights=weights, minlength=len(self.tree)).astype(np.float64)


def _of_all(tree: ExecutionTree, sampled: Ints, executions: Ints, found: Proportions) -> Proportions:
    """Those of the nodes that were sampled, and for the others those of the nearest one above with work of its own."""
    source = np.full(len(tree), -1, np.int64)
    source[sampled[executions > 0]] = np.flatnonzero(executions > 0)
    is_sampled = source >= 0
    for node, parent in enumerate(tree.parent.tolist()):
        if source[node] < 0 <= parent:
            source[node] = source[parent]
    known = source >= 0

    def spread(column: Floats, otherwise: float) -> Floats:
        values = np.full(len(tree), otherwise)
        values[known] = column[source[known]]
        return values

    return Proportions(
        proportional=spread(found.proportional, 0.0),
        least=spread(found.least, 0.0),
        most=spread(found.most, 0.0),
        unrecognised=spread(found.unrecognised, 1.0),
        deviation=np.where(is_sampled, spread(found.deviation, np.nan), np.nan),
        stretch=spread(found.stretch, 0.0),
    )
