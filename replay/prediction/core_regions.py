"""The core model's times of a workload's regions, from the times of the blocks in the paths.

A block takes as long as it did on average in the paths; one that is in none of them as long as the others of its
region, by instructions. A region without paths, or with too few of its instructions in them, is left to the
convolution.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from foretrace.replay.base.records import Bound
from foretrace.replay.base.spread import FAST, SLOW, TYPICAL, Floats
from foretrace.replay.core.figures import CAUSES
from foretrace.replay.core.times import BlockTimes, OperationCosts, run_core
from foretrace.replay.figures.machine_figures import MachineFigures
from foretrace.replay.limits.convolution import RegionTimes, access_hits, irregular_shares, nearest_group
from foretrace.replay.memory.figures import MemoryFigures
from foretrace.replay.memory.hit_rates import Misses
from foretrace.replay.workload.workload import Workload

_OF_MEMORY = 0.1
"""Share of a stream's lines that come from main memory, at least, to call it one out of there."""
LEAST_COVERED = 0.5
"""Share of a region's instructions that must be in the paths for the core model to speak for it."""


@dataclass(frozen=True, slots=True, eq=False)
class CoreRegions:
    """Regions' times by the core model. `covered` bool [regions]; of the others all is 0.

    `time_s` [3, regions]; `halves_s` [2, regions], the typical times by the first and by the second half of the paths;
    `ideal_s` [regions], with all data in the nearest cache; `by_cause_s` [regions, causes].
    """

    covered: npt.NDArray[np.bool_]
    time_s: Floats
    halves_s: Floats
    ideal_s: Floats
    by_cause_s: Floats


def core_regions(
    workload: Workload, misses: Misses, figures: MachineFigures, corners: Sequence[int] = (FAST, TYPICAL, SLOW)
) -> CoreRegions | None:
    """Run the paths of a workload on a machine; None if it has no paths.

    Corners left out are as the typical one; where any is, so are the times with all data in the nearest cache. All but
    the typical one are run on the first half of the paths, which tells how much shorter or longer they are.
    """
    if workload.core is None:
        return None
    share, half = _Share(workload), workload.core.first_half
    irregular = irregular_shares(workload.operations, misses, float(figures.memory.line_bytes[0]))
    costs = functools.cache(lambda corner: operation_costs(workload, misses, figures, corner, irregular))

    typical = run_core(workload.core, figures.core, figures.cycle_s, costs(TYPICAL), TYPICAL)
    by_cause = share.regions(typical)
    time = by_cause.sum(axis=1)

    def changed(costs: OperationCosts, corner: int) -> Floats:
        run = run_core(half, figures.core, figures.cycle_s, costs, corner)
        return np.asarray(time * share.ratio(run, typical), np.float64)

    times = [changed(costs(corner), corner) if corner in corners else time for corner in (FAST, SLOW)]
    ideal = changed(costs(TYPICAL).ideal(), TYPICAL) if len(corners) == len((FAST, TYPICAL, SLOW)) else time
    return CoreRegions(
        covered=share.covered,
        time_s=np.stack([np.minimum(times[0], time), time, np.maximum(times[1], time)]),
        halves_s=np.stack([share.regions(typical, number).sum(axis=1) for number in (0, 1)]),
        ideal_s=np.minimum(ideal, time),
        by_cause_s=by_cause,
    )


class _Share:
    """Sums blocks' times into regions' times."""

    def __init__(self, workload: Workload) -> None:
        program = workload.core
        assert program is not None, "callers looked"
        blocks = workload.signature.blocks
        executions = np.array([block.executions for block in blocks], np.float64)
        instructions = executions * np.array([block.instructions for block in blocks], np.float64)
        self._count = len(workload.regions)
        self._region = workload.region_of_block[program.block_ids]
        self._executions = executions[program.block_ids]
        self._instructions = instructions[program.block_ids]
        self._all = np.bincount(workload.region_of_block, weights=instructions, minlength=self._count)
        inside = np.bincount(self._region, weights=self._instructions, minlength=self._count)
        self.covered = (self._all > 0) & (inside >= LEAST_COVERED * self._all)

    def ratio(self, run: BlockTimes, typical: BlockTimes) -> Floats:
        """[regions]: time of the blocks in a run of the first half of the paths, over the typical run's; that
        of all of them for regions without any."""
        times = [np.nan_to_num(one.per_execution(0).sum(axis=1)) * self._executions for one in (run, typical)]
        found, known = (np.bincount(self._region, weights=one, minlength=self._count) for one in times)
        overall = found.sum() / known.sum() if known.sum() > 0 else 1.0
        ratio = np.divide(found, known, out=np.full(self._count, overall), where=known > 0)
        return np.asarray(ratio, np.float64)

    def regions(self, run: BlockTimes, half: int | None = None) -> Floats:
        """[regions, causes]: their times, by a run of the paths or of one half of them.

        A block that is not in that half takes as long as in the other.
        """
        per_execution = run.per_execution(half)
        per_execution = np.where(np.isnan(per_execution), run.per_execution(), per_execution)
        seconds = self._executions[:, None] * per_execution
        sums = np.zeros((self._count, len(CAUSES)))
        np.add.at(sums, self._region, seconds)
        inside = np.bincount(self._region, weights=self._instructions, minlength=self._count)
        scale = np.where(self.covered, self._all / np.maximum(inside, 1), 0)
        return sums * scale[:, None]


def _out_of_memory(hits: Floats) -> npt.NDArray[np.bool_]:
    """[operations]: whose lines come from main memory, or enough of them."""
    return np.asarray(hits[:, -1] >= _OF_MEMORY * hits[:, 1:].sum(axis=1))


def _late_lines(workload: Workload, hits: Floats, irregular: Floats, memory: MemoryFigures, corner: int) -> Floats:
    """Per operation, the share of a stream's lines out of main memory that nobody fetched ahead.

    For each line of such streams in its region, by the lines of streams out of the second cache and of trailing ones.
    """
    region, count = workload.operations.region, len(workload.regions)
    in_streams = (1 - irregular) * hits
    of_memory = np.where(_out_of_memory(hits), in_streams[:, 1:].sum(axis=1), 0)
    streamed = np.bincount(region, weights=of_memory, minlength=count)
    lines = in_streams[:, 1] + _trailing_lines(workload, hits, memory)
    beside = np.bincount(region, weights=lines, minlength=count)
    ratio = np.divide(beside, streamed, out=np.zeros(count), where=streamed > 0)
    return np.asarray(memory.late_lines.share(ratio, corner)[region])


def _trailing_lines(workload: Workload, hits: Floats, memory: MemoryFigures) -> Floats:
    """Per operation, lines that it comes to in the nearest cache because another one left them there, on its way
    through more than that holds: such as the rows of a stencil behind the first one."""
    operations, program = workload.operations, workload.core
    comes_to = np.zeros(len(hits))
    if program is not None:
        comes_to[program.operation_ids] = program.candidates
    goes_through = ~operations.is_store & (operations.range_bytes > memory.sizes_bytes[0])
    found = comes_to * (operations.unit_stride + operations.strided) - hits[:, 1:].sum(axis=1)
    return np.where(goes_through, np.maximum(found, 0), 0)


def operation_costs(
    workload: Workload, misses: Misses, figures: MachineFigures, corner: int, irregular: Floats | None = None
) -> OperationCosts:
    """Costs of each memory operation on a machine, for the core model; `irregular` is that of `irregular_shares`, which
    all corners share."""
    operations, memory = workload.operations, figures.memory
    latency, random = (
        memory.latency_by_range(operations.range_bytes, corner),
        memory.random_by_range(operations.range_bytes, corner),
    )
    stream = memory.line_s[corner][nearest_group(operations.access_bytes, memory.access_bytes)]
    stream[:, :-1] = memory.line_s[corner].min(axis=0)[:-1]  # the widest: the core's own work is counted by itself
    if irregular is None:
        irregular = irregular_shares(operations, misses, float(memory.line_bytes[0]))
    hits = access_hits(misses, corner)
    late = irregular.copy()
    late[:, -1] += (1 - irregular[:, -1]) * _late_lines(workload, hits, irregular, memory, corner)
    stores = operations.is_store[:, None]
    stream = stream + stores * memory.write_back_s[corner]
    write_back = np.broadcast_to(memory.write_back_s[corner], stream.shape)
    return OperationCosts(
        hits=hits,
        latency_s=latency,
        random_s=random,
        stream_s=stream,
        write_back_s=write_back,
        irregular=late,
        access_bytes=operations.access_bytes,
    )


def with_core_model(times: RegionTimes, core: CoreRegions) -> RegionTimes:
    """The convolution's times, those of the core model in their place where it speaks for a region.

    There, computing takes as long as with all data in the nearest cache, memory what the convolution says, and at least
    what is left of the core model's time; what both have too much overlaps.
    """
    covered = core.covered
    time = np.where(covered, core.time_s + times.python_s, times.time_s)
    compute = np.where(covered, core.ideal_s, times.compute_s)
    memory = np.where(covered, np.maximum(times.memory_s, core.time_s[TYPICAL] - compute), times.memory_s)
    largest = core.by_cause_s.argmax(axis=1)
    bounds = [
        CAUSES[largest[region]] if covered[region] and core.time_s[TYPICAL, region] > 0 else times.bound_by[region]
        for region in range(len(covered))
    ]
    arithmetic = core.by_cause_s[:, [CAUSES.index(b) for b in (Bound.COMPUTE, Bound.DIVIDE, Bound.CHAIN)]].sum(axis=1)
    return replace(
        times,
        time_s=time,
        compute_s=compute,
        memory_s=memory,
        overlap_s=np.where(covered, np.maximum(compute + memory - core.time_s[TYPICAL], 0), times.overlap_s),
        arithmetic_s=np.where(covered, np.minimum(arithmetic, times.arithmetic_s), times.arithmetic_s),
        bound_by=tuple(bounds),
    )
