"""From accesses recorded in bursts to those of the whole run.

How often each instruction ran is known exactly, and so is how many accesses most instructions make each time. What the
addresses decide is estimated: an operation's accesses miss as often as those that were measured in bursts, except for
the first part of the run, of which the misses are known. (The ratio estimator of Cochran, "Sampling Techniques",
section 6.2, for each operation by itself.) How sure that is comes from leaving out one group of bursts at a time (the
delete-a-group jackknife; Kott, "The Delete-a-Group Jackknife", Journal of Official Statistics 17, 2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from foretrace.cache_sim.base.results import Counts, OperationStatistics, SimulatedHierarchy
from foretrace.cache_sim.reuse.results import ReuseHistograms
from foretrace.tracer.signature.records import EstimatedMisses

from .bursts import BurstCounts

Floats = npt.NDArray[np.float64]

_FEW = 1000
"""Bound of the accesses that lack where a block was interrupted: fewer than one in so many of those its executions
should have."""

# Student's t, two-sided 95 %, for 1 to 15 degrees of freedom (NIST/SEMATECH e-Handbook, table 1.3.6.7.2).
_T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


def _scaled(count: int, recorded: int, executions: int) -> int:
    """Accesses in `executions` of an instruction that made `count` in `recorded` ones.

    Exact if it makes the same number each time.
    """
    each = (2 * count + recorded) // (2 * recorded)
    apart = count - each * recorded
    if abs(apart) * _FEW > recorded:
        apart = round(apart * executions / recorded)
    return max(0, each * executions + apart)


def varying(count: Counts, recorded: Counts, executions: Counts) -> npt.NDArray[np.bool_]:
    """Mask of operations whose accesses per execution vary, so that their accesses in gaps are estimated: bool
    [operations]."""
    each = np.rint(count / np.maximum(recorded, 1))
    apart = np.abs(count - each * recorded)
    return np.asarray((apart * _FEW > recorded) & (recorded != executions))


def scaled_to_run(
    recorded_statistics: OperationStatistics,
    *,
    recorded: Counts,
    executions: Counts,
    in_parts: Counts,
) -> OperationStatistics:
    """Statistics of all accesses from those that were recorded.

    Of an operation's instruction, `recorded` of its `executions` are in `recorded_statistics`. Patterns are scaled:
    those of accesses that follow a gap are left out, of which there is one in each of `in_parts` but the first.
    """
    was = {name: getattr(recorded_statistics, name).tolist() for name in OperationStatistics.__slots__}
    rows = []
    columns = zip(
        recorded.tolist(), executions.tolist(), in_parts.tolist(),
        *(was[name] for name in OperationStatistics.__slots__), strict=True,
    )  # fmt: skip
    for seen, runs, parts, count, total_bytes, size_bytes, first, last, *patterns in columns:
        total = _scaled(count, seen, runs) if seen and runs != seen else count
        patterns[-1] -= min(patterns[-1], max(parts - 1, 0))
        scaled = _shared_out(patterns, max(total - 1, 0))
        rows.append((total, _scaled(total_bytes, count, total) if count else 0, size_bytes, first, last, *scaled))
    table = np.array(rows, np.uint64).reshape(-1, len(OperationStatistics.__slots__))
    return OperationStatistics(*(np.ascontiguousarray(column) for column in table.T))


def _shared_out(parts: Sequence[int], total: int) -> list[int]:
    """`total` in the proportions of `parts`; the largest has what rounding leaves. Without any, all is the last's."""
    known = sum(parts)
    if not known:
        return [*(0 for _ in parts[1:]), total]
    shares = [part * total // known for part in parts]
    shares[max(range(len(parts)), key=parts.__getitem__)] += total - sum(shares)
    return shares


@dataclass(frozen=True, slots=True, eq=False)
class _Estimate:
    """`misses`: float64 [operations, levels]; `pooled`: float64 [levels], their sums if the first part is taken for one
    more burst. `standard_error`: float64 [levels] of their sums, NaN if unknown, and `freedom` its degrees of freedom.
    """

    misses: Floats
    pooled: Floats
    standard_error: Floats
    freedom: Floats


def _estimate(counts: BurstCounts, executions: Floats) -> _Estimate:
    groups = counts.measured.astype(np.float64)
    first, other = counts.first.astype(np.float64), counts.other.astype(np.float64)
    used = np.flatnonzero(groups[:, :, 0].sum(axis=0) > 0)
    measured = groups.sum(axis=1)
    misses = _extrapolated(first, measured, other, executions)
    pooled = _extrapolated(first, first + measured, other, executions).sum(axis=0)
    if len(used) < 2:
        return _Estimate(misses, pooled, np.full(misses.shape[1], np.nan), np.ones(misses.shape[1]))
    without = np.stack(
        [_extrapolated(first, measured - groups[:, group], other, executions).sum(axis=0) for group in used]
    )
    apart = (without - without.mean(axis=0)) ** 2
    variance = (len(used) - 1) / len(used) * apart.sum(axis=0)
    return _Estimate(misses, pooled, np.sqrt(variance), _degrees_of_freedom(apart))


def _degrees_of_freedom(apart: Floats) -> Floats:
    """Degrees of freedom of a jackknife with squared differences `apart` [groups, levels]: few where few groups make
    most of it.

    Johnson and Rust, "Population variances and degrees of freedom for NAEP" (Proceedings of the ASA Section on Survey
    Research Methods, 1992).
    """
    groups = len(apart)
    fourth = (apart**2).sum(axis=0)
    effective = (3.16 - 2.77 / np.sqrt(groups)) * apart.sum(axis=0) ** 2 / np.where(fourth > 0, fourth, 1)
    return np.asarray(np.where(fourth > 0, np.clip(effective, 1, groups - 1), groups - 1))


def _extrapolated(first: Floats, measured: Floats, other: Floats, executions: Floats) -> Floats:
    """Misses [operations, levels]: those of the first part, and for the rest the rate of the measured part of bursts.

    The rate of an operation that no burst has measured is that of all its recorded accesses.
    """
    best = np.where(measured[:, :1] > 0, measured, first + other)
    rate = best[:, 1:] / np.maximum(best[:, :1], 1)
    rest = np.maximum(executions - first[:, 0], 0)
    return np.asarray(first[:, 1:] + rate * rest[:, None])


def _interval(counts: BurstCounts, estimate: _Estimate, executions: Counts, column: int) -> tuple[int, int]:
    """95 % confidence interval of the misses of a level.

    From the spread of bursts, how the first part differs from them, what their beginnings leave in doubt, and after the
    first part all or none of the accesses of operations that no burst has measured, and none or twice the misses of
    those that one group alone has.
    """
    known = int(counts.first[:, 1 + column].sum())
    rest = int(executions.sum()) - int(counts.first[:, 0].sum())
    measured = int(counts.measured[:, :, 0].sum())
    groups = int((counts.measured[:, :, 0].sum(axis=0) > 0).sum())
    if groups < 2:
        return known, known + rest
    least, most = sorted((float(estimate.misses[:, column].sum()), float(estimate.pooled[column])))
    spread = _T_95[int(estimate.freedom[column]) - 1] * float(estimate.standard_error[column])
    fewer, more = (doubt[column] * rest / measured for doubt in (counts.perhaps_fewer, counts.perhaps_more))
    in_groups = (counts.measured[:, :, 0] > 0).sum(axis=1)
    accesses = (executions - np.minimum(counts.first[:, 0], executions)).astype(np.float64)
    misses = estimate.misses[:, column] - counts.first[:, 1 + column]
    guessed = np.where(in_groups == 0, accesses, np.where(in_groups == 1, np.minimum(2 * misses, accesses), misses))
    low = least - spread - fewer - float(misses[in_groups < 2].sum())
    high = most + spread + more + float((guessed - misses).sum())
    return round(max(known, low)), round(min(known + rest, high))


def estimated_misses(
    counts: BurstCounts, simulated: Sequence[SimulatedHierarchy], executions: Counts
) -> tuple[list[SimulatedHierarchy], tuple[EstimatedMisses, ...]]:
    """The simulated hierarchies, scaled to the `executions` of all operations, and the confidence intervals, level by
    level."""
    estimate = _estimate(counts, executions.astype(np.float64))
    factors = executions / np.maximum(counts.recorded, 1)
    results, certain = [], []
    column = 0
    for hierarchy in simulated:
        levels = len(hierarchy.hierarchy.levels)
        misses = estimate.misses[:, column : column + levels]
        arriving = int(executions.sum())
        for level in range(levels):
            low, high = _interval(counts, estimate, executions, column + level)
            high = arriving = min(high, arriving)
            name = hierarchy.hierarchy.levels[level].name
            certain.append(
                EstimatedMisses(hierarchy.hierarchy.name, name, round(float(misses[:, level].sum())), low, high)
            )
        column += levels
        events = hierarchy.events
        if events is not None:
            scaled = np.rint(events.by_operation * factors[:, None, None]).astype(np.uint64)
            events = replace(events, by_operation=scaled)
        results.append(replace(hierarchy, misses=np.rint(misses).astype(np.uint64), events=events))
    return results, tuple(certain)


def scaled_reuse(reuse: ReuseHistograms, recorded: Counts, executions: Counts) -> ReuseHistograms:
    """Histograms of what was recorded as those of all `executions` of each operation."""
    factors = executions / np.maximum(recorded, 1)
    total, seen = int(executions.sum()), int(recorded.sum())
    return replace(
        reuse,
        accesses=total,
        count=np.rint(reuse.count * factors[reuse.operation]).astype(np.int64),
        errors=reuse.errors * (total / max(seen, 1)),
    )
