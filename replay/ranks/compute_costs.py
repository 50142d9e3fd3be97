"""Computation between the calls of ranks: its seconds on a machine, and what it demands of the node's memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import PredictionError
from foretrace.replay.prediction.conditions import Conditions
from foretrace.replay.prediction.predict import interval_of
from foretrace.replay.tree.timed_tree import divided_among_rows
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.rank_records import RankRun

from .captured import timed_s
from .programs import Conditions as Demand

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
LEAST_DEMAND_SHARE = 1e-3
"""Share of all computation from which on a call's computation has a demand of its own; others share the mean."""


@dataclass(frozen=True, slots=True, eq=False)
class ComputeCosts:
    """Computation of all ranks.

    Attributes:
        before_s: of each rank, [calls] seconds before each call, every time that it happens, alone on a core.
        demand_of: of each rank, [calls] numbers in `demands`.
        demands: see `Hosts.demands`.
        low, high: the ends of the interval of its seconds, relative to them.
        rest_s: seconds that come before no call, the program's start and end, summed over the ranks.
    """

    before_s: tuple[Floats, ...]
    demand_of: tuple[npt.NDArray[np.int32], ...]
    demands: tuple[Demand, ...]
    low: float = 1.0
    high: float = 1.0
    rest_s: float = 0.0


_NO_DEMAND: tuple[Demand, ...] = (((1.0, 0.0),),)


def timed_costs(run: RankRun, ratio: float = 1.0) -> ComputeCosts:
    """Computation as it was timed while the run was recorded, times a ratio of two machines' times."""
    seconds = tuple(timed_s(record) * ratio for record in run.ranks)
    return ComputeCosts(seconds, tuple(np.zeros(len(one), np.int32) for one in seconds), _NO_DEMAND)


def predicted_costs(workload: Workload, run: RankRun, conditions: Conditions) -> ComputeCosts:
    """Computation as it is predicted: each call has the share of a node's time that it has of the node's executions.

    Raises:
        PredictionError: the signature has no execution tree.
    """
    tree = workload.signature.tree
    if tree is None:
        raise PredictionError("replay: the signature has no execution tree, which says what ran before each call")
    alone_s = conditions.time_s[0]
    regions, seconds, _ = divided_among_rows(workload, tree, alone_s)
    order = np.argsort(tree.work_node, kind="stable")
    nodes, regions, seconds = tree.work_node[order], regions[order], seconds[order]
    executions = np.bincount(tree.work_node, weights=tree.work_executions, minlength=len(tree)).astype(np.float64)
    firsts = np.searchsorted(nodes, np.arange(len(tree) + 1))
    share = np.divide(seconds, alone_s[regions], out=np.zeros_like(seconds), where=alone_s[regions] > 0)
    before, of_regions = [], []
    for record in run.ranks:
        shares = _region_shares(record.work, len(record.calls), executions, firsts, (regions, share, len(alone_s)))
        times = np.maximum(record.calls["times"], 1).astype(np.float64)
        of_regions.append(shares / times[:, None])
        before.append(of_regions[-1] @ alone_s)
    demands, demand_of = _demands(conditions, before, of_regions, [record.calls["times"] for record in run.ranks])
    time_s = float(alone_s.sum())
    low_s, high_s = interval_of(conditions.run)
    done = sum(float(one @ record.calls["times"]) for one, record in zip(before, run.ranks, strict=True))
    return ComputeCosts(
        before_s=tuple(before),
        demand_of=tuple(demand_of),
        demands=demands,
        low=min(low_s / time_s, 1.0) if time_s else 1.0,
        high=max(high_s / time_s, 1.0) if time_s else 1.0,
        rest_s=max(time_s - done, 0.0),
    )


def _region_shares(
    work: Ints, num_calls: int, executions: Floats, firsts: Ints, rows: tuple[Ints, Floats, int]
) -> Floats:
    """[calls, regions]: the share of each region's time that comes before each call, all its times together.

    `rows` are the regions and shares of the rows of the tree's work, by node from `firsts` on, and the number of
    regions.
    """
    regions, share, num_regions = rows
    node = work[:, 1]
    of_node = np.divide(work[:, 2], executions[node], out=np.zeros(len(work)), where=executions[node] > 0)
    widths = firsts[node + 1] - firsts[node]
    row = np.repeat(np.arange(len(work)), widths)
    at = np.repeat(firsts[node], widths) + np.arange(len(row)) - np.repeat(np.cumsum(widths) - widths, widths)
    keys = work[row, 0] * num_regions + regions[at]
    sums = np.bincount(keys, weights=of_node[row] * share[at], minlength=num_calls * num_regions)
    return np.asarray(sums.reshape(num_calls, num_regions), np.float64)


def _demands(
    conditions: Conditions, before: list[Floats], of_regions: list[Floats], times: list[Ints]
) -> tuple[tuple[Demand, ...], list[npt.NDArray[np.int32]]]:
    """The demands of the computations, and their numbers: those of notable ones apart, of all others together."""
    whole = sum(float(one @ count) for one, count in zip(before, times, strict=True))
    found: list[Demand] = [((1.0, 0.0),)]
    numbers = []
    rest = np.zeros(conditions.time_s.shape[1])
    for seconds, shares, count in zip(before, of_regions, times, strict=True):
        number = np.zeros(len(seconds), np.int32)
        notable = seconds * count > LEAST_DEMAND_SHARE * whole
        for call in np.flatnonzero(notable).tolist():
            number[call] = len(found)
            found.append(_demand(conditions, shares[call]))
        number[~notable & (seconds > 0)] = -1
        rest += shares[~notable].T @ count[~notable]
        numbers.append(number)
    for number in numbers:
        number[number < 0] = len(found)
    return (*found, _demand(conditions, rest)), numbers


def _demand(conditions: Conditions, shares: Floats) -> Demand:
    """The mean demand of shares of the regions, [regions]: by time, with 1, 2, ... ranks in the cache."""
    times = conditions.time_s @ shares
    moved = (conditions.time_s * conditions.demand_bytes_per_s) @ shares
    if times[0] <= 0:
        return ((1.0, 0.0),)
    return tuple(
        (float(times[0] / time), float(data / time)) for time, data in zip(times.tolist(), moved.tolist(), strict=True)
    )
