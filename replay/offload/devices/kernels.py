"""Time of a node on an accelerator, all its entries together: a kernel, its launches, its memory.

On a general accelerator a kernel takes the greatest of: its operations by kind at the device's rates; its instructions
at the rate of issue; its bytes by level; its atomics; and the time of its threads one after the other over how many
there are at a time (Little's law), or that of the longest one if all are there at once. Iterations of parallel loops
are threads, of nested ones all together. But where the outer loop has threads enough, what lies in a function that it
calls, or goes through the same data for one result of each iteration, stays within a thread, as in the CUDA versions
of mini-nbody, XSBench and RSBench. How well a port does that is not known: the fast end divides all of it, the slow
end has the threads of the widest loop alone, or a warp on each multiprocessor if nested loops give as many. Below a
serial loop only the threads of one block are left, and a warp takes as long as the longest of its threads
(`divergence`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foretrace.replay.base.spread import FAST, SLOW, TYPICAL, Floats

from . import algorithms, gather_scatter
from .array_calls import array_operation
from .demand import Demand, Traffic
from .device import Device, Rates
from .divergence import TripCounts
from .evidence import Evidence, Parallel, Sources, trip_counts
from .gather_scatter import GatherScatter
from .work import NodeKind, Work

_IN_WARPS = ("fp64_flops", "fp32_flops", "integer", "special", "instructions", "diverged")
"""Counts that a warp issues for all of its threads, as long as the longest of them runs."""
MOST_CANDIDATES = 1000
"""Candidates of a program that are costed."""
LOADS_IN_FLIGHT = (8.0, 4.0, 2.0)
"""Loads that one thread has under way: compilers place several before the first use. Assumed."""
_SHARED_REREADS = 8.0
"""Threads share the data of a loop that reads it at least so many times in an entry of the kernel. Assumed."""
INDEPENDENT = (4.0, 1.5, 1.0)
"""Instructions of a thread that run in the time of one that waits for the one before: compilers interleave independent
ones. One a clock at the fast end. Assumed."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The limits of a kernel, seconds [fast, typical, slow] each; the greatest is its time.

    `threads` are the most that its loops give at a time, `least_threads` those if its widest loop is divided and what
    else it takes for a warp on each multiprocessor,
    `counts` what the terms are made of, for people.
    """

    limits: dict[str, tuple[float, float, float]]
    threads: float
    least_threads: float
    counts: dict[str, float]

    @property
    def time_s(self) -> Floats:
        """[fast, typical, slow]."""
        return np.asarray(np.max(np.array(list(self.limits.values())), axis=0), np.float64)

    @property
    def bound_by(self) -> str:
        """The limit that is the time."""
        return max(self.limits, key=lambda name: self.limits[name][TYPICAL])


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A node that may run on a device, or the reason why not.

    Attributes:
        node: of the program. `nodes`: it and all below it.
        host_s: on one core, without the first touch of pages.
        launches: kernels that it takes.
        terms: of its kernel; None where it is refused.
        kernel_s, launch_s, arithmetic_s: [fast, typical, slow]; arithmetic stays on the host (gather/scatter unit).
        footprint_bytes: different bytes that it touches.
        results: values that it returns in registers, which the host waits for: of reductions, one an entry.
        staged_bytes: that must be brought piece by piece at each entry, as the footprint is beyond the memory.
        loop: what it gathers and scatters.
        refusal: why it cannot run there, or empty.
    """

    node: int
    nodes: Sequence[int]
    host_s: float
    launches: int
    terms: Terms | None
    kernel_s: Floats
    launch_s: Floats
    arithmetic_s: Floats
    footprint_bytes: float
    results: int = 0
    staged_bytes: float = 0.0
    loop: GatherScatter | None = None
    refusal: str = ""

    @property
    def fixed_s(self) -> float:
        """Kernel, launches and arithmetic: all but transfers and queues."""
        return float((self.kernel_s + self.launch_s + self.arithmetic_s)[TYPICAL])


@dataclass(frozen=True, slots=True, eq=False)
class Offers:
    """All candidates of a program for a device, by node; and what they were judged by."""

    work: Work
    device: Device
    candidates: dict[int, Candidate]
    evidence: Evidence | None
    demand: Demand | None
    traffic: Traffic | None

    @classmethod
    def of(cls, work: Work, device: Device, sources: Sources | None = None) -> Offers:
        """Cost every candidate. For a gather/scatter unit, `work` is that of regions."""
        if device.rates is None:
            return cls(work, device, _of_unit(work, device), None, None, None)
        demand = Demand.of(work)
        evidence, traffic = Evidence.of(work, demand, sources), Traffic.of(work, device.rates)
        return cls(work, device, _General(work, device, device.rates, evidence, demand, traffic).candidates(), evidence,
                   demand, traffic)  # fmt: skip


def _of_unit(work: Work, device: Device) -> dict[int, Candidate]:
    """The gather/scatter loops of a program, by equation 2."""
    run, found = work.run, {}
    for node, own_s in enumerate(work.own_s):
        (region,) = own_s
        loop = GatherScatter.of(run.workload.signature, run.workload.regions[region])
        if loop is None:
            continue
        refusal = gather_scatter.LOADERS_CODE if gather_scatter.is_loader(work.places[node].module) else ""
        refusal = refusal or gather_scatter.refusal(device.profile, loop.kinds, loop.range_bytes)
        bandwidth = gather_scatter.bandwidth_bytes_per_s(device.profile, loop.kinds, loop.range_bytes)
        kernel_s = 0.0 if refusal or not bandwidth else loop.moved_bytes / bandwidth
        entries = int(work.entries[node])
        found[node] = Candidate(
            node=node,
            nodes=(node,),
            host_s=own_s[region],
            launches=entries,
            terms=None,
            kernel_s=np.full(3, kernel_s),
            launch_s=(device.way.launch_s + device.way.wait_s) * entries,
            arithmetic_s=np.full(3, float(run.times.arithmetic_s[region])),
            footprint_bytes=float(loop.range_bytes),
            loop=loop,
            refusal=refusal,
        )
    return found


class _General:
    """Costs the candidates of a general accelerator."""

    def __init__(
        self, work: Work, device: Device, rates: Rates, evidence: Evidence, demand: Demand, traffic: Traffic
    ) -> None:
        self.work, self.device, self.rates, self.evidence = work, device, rates, evidence
        self.demand, self.traffic = demand, traffic
        self.trips = trip_counts(work)
        self.trip_counts = TripCounts(work)
        self._rereads: dict[int, float] = {}
        stores = [one.executions if one.is_store else 0 for one in work.run.workload.signature.operations]
        self.stores = work.inclusive(work.of_operations(np.array(stores, np.float64)))
        self.host_s = work.inclusive_s
        self.counts = {
            name: getattr(demand, name)
            for name in ("fp64_flops", "fp32_flops", "integer", "special", "instructions", "diverged", "atomics",
                         "array_bytes")
        } | {name: getattr(traffic, name) for name in ("l2_bytes", "last_bytes", "memory_bytes")}  # fmt: skip
        rate = rates.thread_instructions_per_s[:, None] * np.array(INDEPENDENT)[:, None]
        waits_s = (
            traffic.l2_waits * rates.l2_latency_s[:, None] + traffic.memory_waits * rates.memory_latency_s[:, None]
        )
        self._waits_s = waits_s
        chased = np.divide(demand.chased, np.maximum(demand.accesses, 1.0))
        flight = np.array(LOADS_IN_FLIGHT)[:, None]
        diverged = np.stack([demand.instructions, demand.diverged, demand.diverged])
        self.thread_s = diverged / rate + waits_s * (chased + (1 - chased) / flight)

    def candidates(self) -> dict[int, Candidate]:
        """By node; of programs with many, those of most time on the host."""
        nodes = np.flatnonzero(self.evidence.is_candidate)
        hottest = nodes[np.argsort(-self.host_s[nodes], kind="stable")[:MOST_CANDIDATES]]
        return {node: self.candidate(node) for node in np.sort(hottest).tolist()}

    def candidate(self, node: int) -> Candidate:
        work, way = self.work, self.device.way
        nodes = work.below(node)
        terms = self.terms(node, nodes)
        launches = int(work.entries[node])
        if work.kinds[node] is NodeKind.ARRAY:
            terms, each = self._of_algorithm(node, terms)
            launches *= each
        footprint = work.flow.footprint_bytes(work.flags(nodes))
        entries = int(work.entries[node])
        beyond = not way.shared_memory and footprint > self.rates.capacity_bytes
        return Candidate(
            node=node,
            nodes=nodes,
            host_s=float(self.host_s[node]),
            launches=launches,
            terms=terms,
            kernel_s=terms.time_s,
            launch_s=way.launch_s * launches,
            arithmetic_s=np.zeros(3),
            footprint_bytes=footprint,
            results=entries if self.returns_value(node) else 0,
            staged_bytes=footprint * entries if beyond else 0.0,
        )

    def _of_algorithm(self, node: int, terms: Terms) -> tuple[Terms, int]:
        """An array operation's terms, and the kernels of a call: sorts take several passes, searches wait."""
        calls = int(self.work.entries[node])
        if (sort := algorithms.sort_of(self.work, node)) is not None:
            seconds = algorithms.sort_s(sort, self.rates) * calls
            counts = terms.counts | {"sorted_bytes": sort.moved_bytes * calls, "passes": float(sort.passes)}
            limits = {"passes of a sort": (float(seconds[0]), float(seconds[1]), float(seconds[2]))}
            return Terms(limits, sort.elements, terms.least_threads, counts), sort.launches
        if not algorithms.is_search(array_operation(self.work, node)):
            return terms, 1
        threads = max(algorithms.searched(self.work, node) / calls, 1.0)
        waits_s = self.thread_s[:, node] + self._waits_s[:, node] * (1 - 1 / np.array(LOADS_IN_FLIGHT))
        latency_s = waits_s / np.minimum(threads, self.rates.threads)
        limits = terms.limits | {"latency": (float(latency_s[0]), float(latency_s[1]), float(latency_s[2]))}
        return Terms(limits, threads, threads, terms.counts), 1

    def returns_value(self, node: int) -> bool:
        """Whether a result leaves a kernel in a register: the data flow in memory does not show it."""
        if self.work.kinds[node] is not NodeKind.LOOP:
            return False
        return self.evidence.parallel[node] is Parallel.REDUCTION or not self.stores[node]

    def terms(self, node: int, nodes: Sequence[int]) -> Terms:
        rates = self.rates
        threads, share, longer, longest = self.threads_of(node, nodes)
        sums = {name: float((values[nodes] / share).sum()) for name, values in self.counts.items()}
        lanes = {name: (self.counts[name][nodes] / share) @ longer for name in _IN_WARPS}  # [3] each
        sums |= {name: float(values[TYPICAL]) for name, values in lanes.items()}
        places = max((float(self.demand.atomic_places[one]) for one in nodes), default=0.0)
        at_a_time = np.minimum(threads, rates.threads[None, :])  # [nodes, 3]
        one_after_the_other = (self.thread_s[:, nodes].T * longest / at_a_time).sum(axis=0)
        issued = np.array([lanes["instructions"][FAST], lanes["diverged"][TYPICAL], lanes["diverged"][SLOW]])
        limits = {
            "64-bit arithmetic": lanes["fp64_flops"] / rates.fp64_flops_per_s,
            "32-bit arithmetic": lanes["fp32_flops"] / rates.fp32_flops_per_s,
            "integer arithmetic": lanes["integer"] / rates.integer_ops_per_s,
            "divisions and square roots": lanes["special"] / rates.special_ops_per_s,
            "instruction issue": issued / (rates.fp32_flops_per_s / 2),
            "first cache": sums["array_bytes"] / rates.l1_bytes_per_s,
            "second cache": sums["l2_bytes"] / rates.l2_bytes_per_s,
            "memory bandwidth": sums["memory_bytes"] / rates.memory_bytes_per_s,
            "latency": one_after_the_other,
        }
        if rates.last_bytes_per_s is not None:
            limits["last cache"] = sums["last_bytes"] / rates.last_bytes_per_s
        if sums["atomics"]:
            updated_bytes = max((float(self.demand.atomic_bytes[one]) for one in nodes), default=0.0)
            limits["atomics"] = _atomics_s(rates, sums["atomics"], max(places, 1.0), updated_bytes)
        return Terms(
            {name: (float(s[0]), float(s[1]), float(s[2])) for name, s in limits.items()},
            float(threads[:, TYPICAL].max()),
            float(threads[:, SLOW].max()),
            sums | {"places": places, "longest": float(longer[:, TYPICAL].max())},
        )

    def threads_of(self, root: int, nodes: Sequence[int]) -> tuple[Floats, Floats, Floats, Floats]:
        """The division of each node below `root` among threads, in one entry of the root.

        Returns:
            Threads at a time, [nodes, 3]; the share of the device that they can use, [nodes] (a block of threads is on
            one multiprocessor); the time of the longest thread of a warp over the mean, [nodes, 3]; and that of the
            longest thread that the kernel waits for, [nodes, 3].
        """
        evidence, work = self.evidence, self.work
        wide: dict[int, tuple[Floats, float, bool]] = {}
        alone: dict[int, bool] = {}  # whether a thread runs it, and all inside it, alone
        longer: dict[int, Floats] = {}
        longest: dict[int, Floats] = {}
        for node in nodes:
            around = work.parents[node]
            outer, block, is_serial = wide[around] if node != root else (np.ones(3), 1.0, False)
            alone[node] = node != root and alone[around]
            longer[node], longest[node] = (
                (longer[around], longest[around]) if node != root else (np.ones(3), np.ones(3))
            )
            if work.kinds[node] is NodeKind.ARRAY:
                points = self.demand.accesses[node] / max(int(work.entries[node]), 1) / 3
                outer = outer * max(float(points), 1.0)
            elif work.kinds[node] is NodeKind.LOOP:
                trips, threads = float(self.trips[node]), float(outer[TYPICAL] * block)
                has_result = outer[FAST] > 1 and self._has_result(root, node)
                if not evidence.parallel[node].is_serial:
                    alone[node] = alone[node] or self._is_function_of_threads(root, node, outer)
                is_own = alone[node] or (has_result and self._is_sum_of_threads(root, node, outer))
                if evidence.parallel[node].is_serial or is_own:
                    longer[node] = longer[node] * self._longest(root, node, threads, in_warp=True)
                    longest[node] = longest[node] * self._longest(root, node, threads, in_warp=False)
                if evidence.parallel[node].is_serial:
                    is_serial = True
                elif is_serial:
                    block = min(block * trips, self.rates.block_threads)
                else:
                    outer = self._nested(outer, trips, is_own=is_own, has_result=has_result)
            wide[node] = outer, block, is_serial
        threads_at_a_time = np.array([wide[node][0] * wide[node][1] for node in nodes])
        most = float(self.rates.multiprocessors[TYPICAL])
        blocks = [float(wide[node][0][TYPICAL]) if wide[node][2] else most for node in nodes]
        share = np.minimum(np.array(blocks) / most, 1.0)
        return (
            threads_at_a_time,
            share,
            np.array([longer[node] for node in nodes]),
            np.array([longest[node] for node in nodes]),
        )

    def _has_result(self, root: int, node: int) -> bool:
        """Whether a loop ends in a result that is not part of one of the loop around it."""
        return self.returns_value(node) and not self._is_in_reduction(root, node)

    def _is_sum_of_threads(self, root: int, node: int, outer: Floats) -> bool:
        """Whether a plain port leaves a loop that ends in a result to each thread of the loops around it.

        There must be a thread for each multiprocessor, and all must read the same data. Where each has its own, as the
        rows of a matrix, threads of a warp share a result to read it side by side.
        """
        if node not in self._rereads:
            nodes = self.work.below(node)
            footprint = max(self.work.flow.footprint_bytes(self.work.flags(nodes)), 1.0)
            self._rereads[node] = float(self.demand.array_bytes[nodes].sum()) / footprint
        rereads = self._rereads[node] / max(int(self.work.entries[root]), 1)
        return float(outer[TYPICAL]) >= self.rates.multiprocessors[TYPICAL] and rereads >= _SHARED_REREADS

    def _is_function_of_threads(self, root: int, node: int, outer: Floats) -> bool:
        """Whether a plain port leaves a parallel loop in a function to each thread that calls it: there are enough, a
        warp for each multiprocessor, or one thread where the loop ends in a result."""
        enough = float(self.rates.multiprocessors[TYPICAL])
        if not self.returns_value(node):
            enough *= float(self.rates.warp_threads[TYPICAL])
        return outer[FAST] > 1 and self._is_called(root, node) and float(outer[TYPICAL]) >= enough

    def _is_called(self, root: int, node: int) -> bool:
        """Whether a loop is in a function that the loop around it calls, expanded in line or not."""
        work, around = self.work, self._loop_around(root, node)
        between = work.parents[node] != around
        return between or work.places[node].inlined != work.places[around].inlined

    def _loop_around(self, root: int, node: int) -> int:
        """The nearest loop around one below `root`, which may be `root`."""
        return max(self.work.loop_around(self.work.parents[node]), root)

    def _is_in_reduction(self, root: int, node: int) -> bool:
        """Whether a loop below `root` is part of a reduction of the loop around it: both are divided, as one is."""
        around = self._loop_around(root, node)
        return self.evidence.parallel[around] is Parallel.REDUCTION and not self._is_called(root, node)

    def _longest(self, root: int, node: int, threads: float, *, in_warp: bool) -> Floats:
        """The longest entry of a loop over their mean, each thread with entries of its own: [3]. Of those of a warp, or
        of all threads if the device holds them at once.

        Where launches differ in size, their inner loops may differ with them, and be alike within each: only the slow
        end has threads that differ.
        """
        lanes = min(threads, float(self.rates.warp_threads[TYPICAL]))
        if not in_warp and threads <= float(self.rates.threads[TYPICAL]):
            lanes = threads
        factor = self.trip_counts.imbalance(node, lanes)
        return np.array([1.0, 1.0 if self.trip_counts.varies(root) else factor, factor])

    def _nested(self, outer: Floats, trips: float, *, is_own: bool, has_result: bool) -> Floats:
        """Threads of a parallel loop inside others, [fast, typical, slow].

        Args:
            outer: those of the loops around it, [3].
            trips: its iterations.
            is_own: each thread runs it alone, but at the fast end.
            has_result: its iterations have one result, for which at most a warp shares them.
        """
        typical = 1.0 if is_own else min(trips, float(self.rates.warp_threads[TYPICAL])) if has_result else trips
        enough = float(self.rates.multiprocessors[TYPICAL] * self.rates.warp_threads[TYPICAL])
        both = max(float(outer[SLOW]), trips, min(float(outer[SLOW]) * trips, enough))
        slow = float(outer[SLOW]) if is_own or has_result else both
        return np.array([outer[FAST] * trips, outer[TYPICAL] * typical, slow])


def _atomics_s(rates: Rates, updates: float, places: float, updated_bytes: float) -> Floats:
    """Seconds of updates by atomics in the second cache, [fast, typical, slow].

    Where all places fit in a first cache (shared memory), each multiprocessor may update a copy of its own: as many
    more updates as it moves bytes, and at as many copies of a place. All copies are added up in the end. At the slow
    end nobody has written that.
    """
    direct_s = np.maximum(updates / rates.atomics_per_s, updates / places / rates.same_address_atomics_per_s)
    if updated_bytes > rates.l1_bytes:
        return np.asarray(direct_s)
    copies = rates.multiprocessors
    private_s = np.maximum(
        updates / rates.atomics_per_s * rates.l2_bytes_per_s / np.maximum(rates.l1_bytes_per_s, rates.l2_bytes_per_s),
        updates / places / (rates.same_address_atomics_per_s * copies),
    )
    private_s += places * copies / rates.atomics_per_s
    return np.array([*np.minimum(private_s, direct_s)[:SLOW], direct_s[SLOW]])
