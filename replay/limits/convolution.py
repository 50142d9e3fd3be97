"""The convolution: a workload on a machine's figures gives the time of each region.

Memory time follows equation 1 of Carrington et al., ICS'11: references times size over the bandwidth that the machine
gives references of their kind. As published, that bandwidth is read off the MultiMAPS surface (surface.py); otherwise
it comes from figures by level and pattern, random accesses and latencies included. Compute time is the tightest of the
core's limits. The two overlap as in SKOPE (Guo et al., "Analytically Modeling Application Execution for
Software-Hardware Co-Design", IPDPS 2014, section V-A): T = Tc + Tm - To, To = min(Tc, Tm) x (1 - 1/n).
docs/model.md says what n is and bounds each approximation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.replay.base.records import Bound, LoopKind
from foretrace.replay.base.spread import FAST, SLOW, TYPICAL, Floats
from foretrace.replay.figures.machine_figures import MachineFigures
from foretrace.replay.figures.python_figures import LONG_CALLS, RECORDING_ERROR
from foretrace.replay.memory.figures import MemoryFigures
from foretrace.replay.memory.hit_rates import Misses
from foretrace.replay.workload.array_costs import array_times, of_accesses
from foretrace.replay.workload.workload import OperationArrays, Workload

from .surface import SurfaceTimes

MEMORY_BOUNDS = (
    Bound.PORTS,
    Bound.CACHE_BANDWIDTH,
    Bound.MEMORY_BANDWIDTH,
    Bound.CACHE_LATENCY,
    Bound.MEMORY_LATENCY,
)
UNSEEN_CODE = (0.5, 1.0, 2.0)
"""Time of compiled code that was not seen, over that of as many lines of Python: fast, typical, slow. Assumed: vectors,
caches and memory can make it differ from the interpreter's own code."""
COMPUTE_BOUNDS = (Bound.ISSUE, Bound.COMPUTE, Bound.DIVIDE, Bound.CHAIN, Bound.PORTS, Bound.BRANCH)


@dataclass(frozen=True, slots=True, eq=False)
class RegionTimes:
    """Times of all regions: `time_s` is [3, regions] (fast, typical, slow), the others typical, [regions].

    `arithmetic_s` is the part of the compute time that no change of memory can save: flops, divides, chains.
    `as_traced` bool [regions]: array operations that take as long as they were traced, whatever they do.
    """

    time_s: Floats
    compute_s: Floats
    memory_s: Floats
    overlap_s: Floats
    python_s: Floats
    pages_s: Floats
    arithmetic_s: Floats
    bound_by: tuple[Bound, ...]
    as_traced: npt.NDArray[np.bool_]
    bound_without_pages: tuple[Bound, ...] = ()
    """Limits that bound them but for the first touch of pages; empty where that was not added."""


def convolve(
    workload: Workload, misses: Misses, figures: MachineFigures, surface: SurfaceTimes | None = None
) -> RegionTimes:
    """The time of each region of `workload` on a machine, with `misses` in that machine's caches.

    With `surface`, memory time is what equation 1 reads off the MultiMAPS surface, and compute time that of issue and
    arithmetic alone: dependency chains and mispredicted branches are no part of the published model.
    """
    totals = workload.totals
    regions = len(workload.regions)
    compute_parts = _compute_parts(workload, figures)
    if surface is None:
        memory_parts = memory_times(workload.operations, misses, figures.memory, regions)  # [3, regions, bounds]
    else:
        memory_parts = _surface_parts(workload.operations, surface, regions)
        compute_parts[:, :, [COMPUTE_BOUNDS.index(b) for b in (Bound.CHAIN, Bound.PORTS, Bound.BRANCH)]] = 0
    is_linear = workload.linear.mask  # what it computes is known by formula, and its accesses as one pass over operands
    compute_parts[:, is_linear] = 0
    of_linear, hiding = workload.linear.times(figures.linear)
    compute_parts[:, :, COMPUTE_BOUNDS.index(Bound.COMPUTE)] += of_linear
    limits, branch = compute_parts[:, :, :-1], compute_parts[:, :, -1]
    compute = limits.max(axis=2) + branch
    arrays = array_times(figures.array_point_s, totals.array_points)
    traced = _as_traced(workload, figures)
    measured = ~np.isnan(arrays[TYPICAL]) & ~is_linear & ~traced  # with their data in the nearest cache
    memory_parts[:, measured | is_linear, MEMORY_BOUNDS.index(Bound.PORTS)] = 0
    memory = memory_parts.sum(axis=2)
    compute = np.where(measured, arrays + branch, compute)
    python = _per_corner(figures.python_bytecode_s, totals.python_bytecodes) + _per_corner(
        figures.python_call_s, np.where(traced, 0.0, totals.python_calls)
    )
    off = RECORDING_ERROR * np.array([-1.0, 0.0, 1.0])
    timed_lines = np.maximum(totals.python_lines + _per_corner(off, totals.recording_lines), 0)
    timed_lines += _per_corner(np.array(LONG_CALLS) - 1, np.minimum(totals.long_lines, timed_lines[FAST]))
    unseen = np.array([region.kind is LoopKind.COMPILED for region in workload.regions])
    timed_lines += np.where(traced, totals.array_lines, 0.0)
    spread = np.where(unseen | traced, np.array(UNSEEN_CODE)[:, None], 1.0)
    timed = figures.python_line_s[:, None] * timed_lines * spread
    degree = 1 - 1 / np.maximum(totals.arithmetic_per_iteration, 1)
    shorter = np.minimum(compute, memory)
    overlap = np.stack([shorter[FAST], shorter[TYPICAL] * degree, np.zeros(regions)])
    overlap[TYPICAL] = np.where(is_linear, np.minimum(hiding, memory[TYPICAL]), overlap[TYPICAL])
    overlap[TYPICAL] = np.where(measured, _overlap_of_arrays(workload, figures, compute, memory), overlap[TYPICAL])
    # What was timed holds what its accesses took, and so does their line's time for calls that are in it.
    overlap = np.where(traced | totals.array_kept, compute + memory, overlap)
    overlap += np.minimum(timed, compute + memory - overlap)
    python += timed
    time = compute + memory - overlap + python
    arithmetic = limits[TYPICAL][:, [COMPUTE_BOUNDS.index(b) for b in (Bound.COMPUTE, Bound.DIVIDE, Bound.CHAIN)]]
    return RegionTimes(
        time_s=time,
        compute_s=compute[TYPICAL],
        memory_s=memory[TYPICAL],
        overlap_s=overlap[TYPICAL],
        python_s=python[TYPICAL],
        pages_s=np.zeros(regions),
        arithmetic_s=arithmetic.max(axis=1),
        bound_by=_bounds(
            compute[TYPICAL],
            memory[TYPICAL],
            python[TYPICAL],
            compute_parts[TYPICAL],
            memory_parts[TYPICAL],
            unseen,
            traced,
        ),
        as_traced=traced,
    )


def _overlap_of_arrays(workload: Workload, figures: MachineFigures, compute: Floats, memory: Floats) -> Floats:
    """[regions], typical: what memory takes beside arithmetic. Loads and stores themselves are in line with it: as much
    of each point's time as an addition's."""
    accesses = array_times(of_accesses(figures.array_point_s), workload.totals.array_points)[TYPICAL]
    rest = np.maximum(compute[TYPICAL] - accesses, 0)
    overlap: Floats = np.minimum(rest, memory[TYPICAL])
    return overlap


def _per_corner(figure: Floats, amount: Floats) -> Floats:
    """[3] times [regions] gives [3, regions]."""
    return figure[:, None] * amount[None, :]


def _surface_parts(operations: OperationArrays, surface: SurfaceTimes, regions: int) -> Floats:
    """Memory time [3, regions, MEMORY_BOUNDS] by equation 1, put down to the bandwidth of the level that serves it."""
    parts = np.zeros((3, regions, len(MEMORY_BOUNDS)))
    of_level = {
        Bound.PORTS: surface.seconds[:, :, 0],
        Bound.CACHE_BANDWIDTH: surface.seconds[:, :, 1:-1].sum(axis=2),
        Bound.MEMORY_BANDWIDTH: surface.seconds[:, :, -1],
    }
    for bound, seconds in of_level.items():
        for corner in (FAST, TYPICAL, SLOW):
            parts[corner, :, MEMORY_BOUNDS.index(bound)] = np.bincount(
                operations.region, weights=seconds[corner], minlength=regions
            )
    return parts


def memory_times(operations: OperationArrays, misses: Misses, figures: MemoryFigures, regions: int) -> Floats:
    """Memory time [3, regions, MEMORY_BOUNDS]."""
    parts = np.zeros((3, regions, len(MEMORY_BOUNDS)))
    if not len(operations.executions):
        return parts
    group = nearest_group(operations.access_bytes, figures.access_bytes)
    irregular = irregular_shares(operations, misses, float(figures.line_bytes[0]))
    lines = np.maximum(operations.access_bytes / figures.line_bytes[0], 1)
    slots = operations.executions * np.maximum(operations.access_bytes / figures.access_bytes[group], 1)
    free = ~operations.self_dependent
    for corner in (FAST, TYPICAL, SLOW):
        hits = access_hits(misses, corner)
        random, dependent = _random_costs(operations, figures, corner)
        stream = figures.stream_s[corner][group]
        streamed = hits * stream * lines[:, None] * (1 - irregular)
        scattered = hits * np.maximum(random, stream) * lines[:, None] * irregular
        written = np.where(operations.is_store, hits[:, -1] * lines * figures.write_back_s[corner, -1], 0)
        costs = (
            np.where(free, slots * figures.slot_s[corner][group], 0),
            np.where(free, streamed[:, :-1].sum(axis=1), 0),
            np.where(free, streamed[:, -1], 0) + written,
            np.where(free, scattered[:, :-1].sum(axis=1), (hits * dependent)[:, :-1].sum(axis=1)),
            np.where(free, scattered[:, -1], hits[:, -1] * dependent[:, -1]),
        )
        for index, cost in enumerate(costs):
            parts[corner, :, index] = np.bincount(operations.region, weights=cost, minlength=regions)
    return parts


def nearest_group(access_bytes: Floats, groups: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """For each operation the stream measurement whose access size is nearest to its own (as a ratio)."""
    distance = np.abs(np.log2(np.maximum(access_bytes, 1))[:, None] - np.log2(groups)[None, :])
    return np.asarray(distance.argmin(axis=1), dtype=np.int64)


def irregular_shares(operations: OperationArrays, misses: Misses, line_bytes: float) -> Floats:
    """[operations, levels + 1]: share of each operation's misses that come at random, by the level that has the line.

    Regular accesses need a new line each line (unit stride) or each time (other strides), if nothing of it is cached.
    Misses beyond that come at random. Where it is known how many lines are wanted alone (`operations.sparse`), that
    tells it; there are no more of them than irregular accesses, which are counted, not sampled. Strides are foreseen by
    some accesses, so that the caches' lines are there in time; main memory's are not.
    """
    classed = operations.repeated + operations.unit_stride + operations.strided + operations.irregular
    scale = operations.executions / np.maximum(classed, 1)  # the first access has no class; it is as the others
    unit_stride = operations.unit_stride * np.minimum(operations.access_bytes / line_bytes, 1)
    regular = scale * (unit_stride + operations.strided)
    missed = misses.misses[:, 0]
    beyond = np.maximum(missed - regular, 0)
    share = np.divide(beyond, missed, out=np.zeros_like(beyond), where=missed > 0)
    strided, irregular = scale * operations.strided, scale * operations.irregular
    most = np.stack([np.clip(missed - strided, 0, irregular), np.minimum(missed, strided + irregular)], axis=1)
    most = np.divide(most, missed[:, None], out=np.zeros_like(most), where=missed[:, None] > 0)
    memory = misses.misses.shape[1]
    levels = np.arange(memory + 1)
    sparse = operations.sparse[:, ((levels > 1) | (levels == memory)).astype(int)]
    alone = np.minimum(sparse, most[:, (levels == memory).astype(int)])
    return np.where(np.isnan(alone), share[:, None], alone)


def access_hits(misses: Misses, corner: int) -> Floats:
    """Accesses by the level that held the data [operations, levels + 1]."""
    arriving = np.column_stack([misses.executions, misses.at(corner)])
    return np.column_stack([arriving[:, :-1] - arriving[:, 1:], arriving[:, -1]])


def _random_costs(operations: OperationArrays, figures: MemoryFigures, corner: int) -> tuple[Floats, Floats]:
    """Costs [operations, levels + 1] of irregular and of dependent accesses; main memory's at the operation's range."""
    shape = (len(operations.executions), figures.random_s.shape[1])
    random = np.broadcast_to(figures.random_s[corner], shape).copy()
    dependent = np.broadcast_to(figures.dependent_s[corner], shape).copy()
    ranges = np.log(np.maximum(operations.range_bytes, 1))
    random[:, -1] = np.interp(ranges, np.log(figures.random_range_bytes), figures.random_memory_s[corner])
    dependent[:, -1] = figures.dependent_in_memory(operations.range_bytes, corner)
    return random, dependent


def _compute_parts(workload: Workload, figures: MachineFigures) -> Floats:
    """The core's limits [3, regions, COMPUTE_BOUNDS]; branch misses, the last, come on top of the tightest."""
    totals = workload.totals
    fused = totals.vector_fma_flops
    if figures.fused:  # a fused unit does one add or multiply in place of two flops
        vector = 2 * (totals.vector_add_flops + totals.vector_mul_flops) + fused
    else:  # a unit for each: the busier one decides
        vector = 2 * np.maximum(totals.vector_add_flops + fused / 2, totals.vector_mul_flops + fused / 2)
    flops = _per_corner(figures.scalar_flop_s, totals.scalar_flops) + _per_corner(figures.vector_flop_s, vector)
    divides = _per_corner(figures.fp_divide_s, totals.fp_divides) + _per_corner(
        figures.int_divide_s, totals.int_divides
    )
    chains = _per_corner(figures.fp_add_latency_s, totals.serial_adds)
    branches = _per_corner(figures.branch_miss_s, totals.branch_misses)
    chains[FAST], branches[FAST] = 0, 0  # sums kept in several registers; a perfect predictor
    ports = np.maximum(_per_corner(figures.load_s, totals.loads), _per_corner(figures.store_s, totals.stores))
    return np.stack(
        [_per_corner(figures.instruction_s, totals.instructions), flops, divides, chains, ports, branches], axis=2
    )


def _bounds(
    compute: Floats,
    memory: Floats,
    python: Floats,
    compute_parts: Floats,
    memory_parts: Floats,
    unseen: npt.NDArray[np.bool_],
    traced: npt.NDArray[np.bool_],
) -> tuple[Bound, ...]:
    """The bound of each region: the largest part of the largest of its three times.

    One that takes as long as it was traced is bound by what it does most, of what is known.
    """
    largest_compute, largest_memory = compute_parts.argmax(axis=1), memory_parts.argmax(axis=1)
    bounds = []
    for region in range(len(compute)):
        times = (compute[region], memory[region], python[region])
        if max(times) == 0:
            bounds.append(Bound.NOTHING)
        elif python[region] == max(times) and not (traced[region] and max(times[:2])):
            bounds.append(Bound.UNSEEN if unseen[region] else Bound.PYTHON)
        elif memory[region] == max(times[:2]):
            bounds.append(MEMORY_BOUNDS[largest_memory[region]])
        else:
            bounds.append(COMPUTE_BOUNDS[largest_compute[region]])
    return tuple(bounds)


def _as_traced(workload: Workload, figures: MachineFigures) -> npt.NDArray[np.bool_]:
    """[regions]: those that take as long as they were traced: not all that they do was calibrated for the machine."""
    known = ~np.isnan(array_times(figures.array_point_s, workload.totals.array_points)[1])
    known = np.where(workload.linear.mask, workload.linear.measured(figures.linear), known)
    found: npt.NDArray[np.bool_] = ~np.isnan(workload.totals.array_lines) & (~known | workload.totals.array_kept)
    return found
