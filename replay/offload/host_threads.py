"""The host's side: one core, or several that divide a loop's iterations and share caches and the memory's bandwidth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from foretrace.profiles.ranges import Assumption
from foretrace.replay.base.spread import FAST, SLOW, TYPICAL, Floats
from foretrace.replay.memory.team_cache import TeamCaches
from foretrace.replay.offload.devices.evidence import Evidence, trip_counts
from foretrace.replay.offload.devices.work import NodeKind, Work
from foretrace.replay.prediction.conditions import Conditions, line_s
from foretrace.replay.prediction.predict import HostRun

from .team_costs import TeamCosts


@dataclass(frozen=True, eq=False)
class HostTimes:
    """Times of nodes on the host when kernels are elsewhere.

    Attributes:
        work: the program.
        cores: that its loops may use.
        own_s: [nodes], on one core.
        threaded_s: {loop: seconds of all below it on all cores, fork and join included}, where that is less.
        bounds_s: {loop: the same, [fast, typical, slow]}.
        speedups: {loop: how many times as fast its work is, by caches, bandwidth and iterations}.
        start_s: [fast, typical, slow], of the team, once if any loop is threaded.
    """

    work: Work
    cores: int
    own_s: Floats
    threaded_s: dict[int, float]
    speedups: dict[int, float]
    assumptions: tuple[Assumption, ...] = ()
    bounds_s: dict[int, Floats] = field(default_factory=dict)
    start_s: Floats = field(default_factory=lambda: np.zeros(3))

    @classmethod
    def of(
        cls,
        work: Work,
        cores: int,
        evidence: Evidence | None,
        conditions: Conditions | None,
        footprints: Mapping[int, float] | None = None,
    ) -> HostTimes:
        """On one core, or on several if what is known of loops and of the memory's bandwidth is given.

        Args:
            work: the program.
            cores: that its loops may use.
            evidence: which loops are parallel.
            conditions: the program on the host.
            footprints: {loop: different bytes that it touches}; of others what they access counts.
        """
        own_s = work.own_total_s
        if cores <= 1 or evidence is None or conditions is None:
            return cls(work, 1, own_s, {}, {})
        costs = TeamCosts.of(conditions.run.profile, cores)
        team = _Team(work, cores, conditions, footprints or {})
        bounds_s: dict[int, Floats] = {}
        speedups: dict[int, float] = {}
        for node, time_s in team.loops(evidence, costs.fork_s).items():
            alone_s = float(team.alone_s[node])
            if time_s[TYPICAL] < alone_s:
                bounds_s[node] = time_s
                speedups[node] = float(alone_s / time_s[TYPICAL])
        typical = {node: float(time_s[TYPICAL]) for node, time_s in bounds_s.items()}
        told = (*costs.assumptions, *team.assumptions)
        return cls(work, cores, own_s, typical, speedups, told, bounds_s, costs.start_s)

    @cached_property
    def best_s(self) -> Floats:
        """[nodes]: of each node and all below it, with the best choice of loops to thread; the team is there."""
        best_s = self.own_s.astype(np.float64)
        for node in range(len(self.work) - 1, -1, -1):
            best_s[node] = min(best_s[node], self.threaded_s.get(node, np.inf))
            parent = self.work.parents[node]
            if parent >= 0:
                best_s[parent] += best_s[node]
        return best_s

    @property
    def shared_own_s(self) -> Floats:
        """[nodes]: seconds of their own, divided among cores where the whole program on the host would be."""
        own_s = self.own_s.copy()
        for loop in self.choice(())[1]:
            own_s[self.work.below(loop)] /= self.speedups[loop]
        return own_s

    def choice(self, kernels: Sequence[int], corner: int = TYPICAL) -> tuple[float, tuple[int, ...]]:
        """Seconds on the host with these nodes elsewhere, and the loops to thread for it, if that pays for the team."""
        alone_s, _ = self._chosen(kernels, {})
        times_s = {node: float(self.bounds_s[node][corner]) for node in self.threaded_s} if self.bounds_s else {}
        total_s, loops = self._chosen(kernels, times_s or self.threaded_s)
        total_s += float(self.start_s[corner]) if loops else 0.0
        return (total_s, loops) if total_s < alone_s else (alone_s, ())

    def _chosen(self, kernels: Sequence[int], threaded: Mapping[int, float]) -> tuple[float, tuple[int, ...]]:
        work, inclusive_s = self.work, self.work.inclusive_s
        away = set(kernels)
        concerned = {one for node in (*away, *threaded) for one in work.around(int(node))}
        saved_s = dict.fromkeys(concerned, 0.0)
        chosen: dict[int, list[int]] = {node: [] for node in concerned}
        has_kernel: set[int] = set()
        total_s, loops = float(inclusive_s[work.parent < 0].sum() + work.pages_s.sum()), list[int]()
        for node in sorted(concerned, reverse=True):
            here_s = float(inclusive_s[node])
            if node in away:
                saved_s[node], chosen[node] = here_s, []
                has_kernel.add(node)
            elif node not in has_kernel and threaded.get(node, np.inf) < here_s - saved_s[node]:
                saved_s[node], chosen[node] = here_s - threaded[node], [node]
            parent = work.parents[node]
            if parent >= 0:
                saved_s[parent] += saved_s[node]
                chosen[parent] += chosen[node]
                if node in has_kernel:
                    has_kernel.add(parent)
            else:
                total_s -= saved_s[node]
                loops += chosen[node]
        return total_s, tuple(sorted(loops))

    def time_s(self, kernels: Sequence[int]) -> float:
        """Seconds on the host with these nodes elsewhere; the first touch of pages is always there."""
        return self.choice(kernels)[0]


class _Team:
    """A program's loops on several cores.

    A region's time by its misses lies between those with the fewest and with the most that the team can have, by what
    its misses cost (`_miss_cost`).
    """

    def __init__(self, work: Work, cores: int, conditions: Conditions, footprints: Mapping[int, float]) -> None:
        self.work, self.cores, self.conditions, self.run = work, cores, conditions, conditions.run
        self.alone_s = work.inclusive_s
        rows = [(node, region, time_s) for node, own in enumerate(work.own_s) for region, time_s in own.items()]
        self.nodes, self.regions = (np.array([row[part] for row in rows], np.int64) for part in (0, 1))
        self.own_s = np.array([row[2] for row in rows], np.float64)
        self.last = np.array(work.last_below, np.int64)
        self.points = np.array(conditions.bandwidth.points(conditions.stored_share))
        signature = self.run.workload.signature
        self.caches = TeamCaches.of(signature, self.run.profile, self.run.misses, cores)
        accessed = np.array([one.total_bytes for one in signature.operations], np.float64)
        accessed_bytes = work.inclusive(work.of_operations(accessed)) / work.entries if len(accessed) else self.alone_s
        self.footprints = {
            node: min(footprints.get(node, np.inf), float(accessed_bytes[node])) for node in range(len(work))
        }
        self._ends: tuple[tuple[Floats, Floats], tuple[Floats, Floats]] | None = None

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Assumptions on what the caches of a team hold."""
        profile = self.run.profile
        last = profile.caches[-1]
        if self.caches is None:
            text = "the signature holds no reuse distances: all cores together are taken to hold what one holds alone"
            return (Assumption("team_caches", text),)
        count = self.caches.caches[-1]
        text = (
            f"threads of a loop get the same part of its data each time: what comes again from one entry to the next "
            f"is spread over {count} x {last.name}, what comes again within an entry shares one with the others there "
            "(to: in one cache; all data spread)"
        )
        return (Assumption("team_caches", text),)

    def loops(self, evidence: Evidence, fork_s: Floats) -> dict[int, Floats]:
        """{loop: seconds of all below it, [fast, typical, slow]} of those that may be divided."""
        trips = trip_counts(self.work)
        groups: dict[tuple[float, ...], list[int]] = defaultdict(list)
        for node, kind in enumerate(self.work.kinds):
            if kind is not NodeKind.LOOP or evidence.parallel[node].is_serial or evidence.refused_below[node]:
                continue
            if self.alone_s[node]:
                groups[self._kept(self.footprints[node])].append(node)
        found: dict[int, Floats] = {}
        for (footprint, *_), nodes in groups.items():
            sums = self._sums(footprint)
            for node in nodes:
                team = min(float(self.cores), float(trips[node]))
                several = max(int(team), 1)
                narrow = (
                    self.points[-1 if self.cores > len(self.points) else self.cores - 1]
                    / self.points[min(several, len(self.points)) - 1]
                )
                time_s = np.array([
                    max(both, alone / team, memory * narrow) for both, alone, memory in sums[:, :, node].tolist()
                ])  # fmt: skip
                found[node] = np.maximum.accumulate(time_s) + fork_s * int(self.work.entries[node])
        return found

    def _kept(self, footprint_bytes: float) -> tuple[float, ...]:
        """Key of the data that a loop keeps: its footprint to a power of the root of two."""
        if self.caches is None or footprint_bytes < 1:
            return (0.0,)
        return (float(2 ** (round(2 * np.log2(footprint_bytes)) / 2)),)

    def _sums(self, footprint_bytes: float) -> Floats:
        """[corners, 3, nodes]: seconds of each node and all below it: divided among all cores and the memory, by work
        alone on one core, and at the memory's bandwidth alone."""
        found = []
        for corner in (FAST, TYPICAL, SLOW):
            factor, memory = self._of_regions(footprint_bytes, corner)
            together = np.maximum(factor / self.cores, memory)
            found.append([self._below(self.own_s * part[self.regions]) for part in (together, factor, memory)])
        return np.array(found)

    def _below(self, seconds: Floats) -> Floats:
        """[nodes]: of rows, summed over each node and all below it: those are numbered depth first."""
        own = np.bincount(self.nodes, seconds, len(self.work))
        sums = np.concatenate([[0.0], np.cumsum(own)])
        return np.asarray(sums[self.last + 1] - sums[:-1], np.float64)

    def _of_regions(self, footprint_bytes: float, corner: int) -> tuple[Floats, Floats]:
        """[regions]: time of its work on one core with the team's misses, over its time alone; and its time at the
        bandwidth that all cores get of memory, over the same."""
        alone_s = self.run.times.time_s[TYPICAL] - self.run.times.pages_s
        misses = self.run.misses.misses
        time_s = alone_s
        if self.caches is not None:
            misses = self.caches.misses(footprint_bytes)[corner]
            (fewest, least_s), (most, most_s) = self._between()
            cost, low, high = (self._miss_cost(one) for one in (misses, fewest, most))
            part = np.divide(cost - low, high - low, out=np.zeros_like(cost), where=high > low)
            time_s = least_s + np.clip(part, 0, 1) * (most_s - least_s)
        memory, bandwidth = self.run.figures.memory, self.conditions.bandwidth
        busy_s = sum(
            line_s(self.run.workload, misses[:, -1], float(memory.line_bytes[-1]), bandwidth, stores)
            for stores in (False, True)
        )
        together = float(self.points[min(self.cores, len(self.points)) - 1])
        memory_s = np.minimum(busy_s, time_s) * bandwidth.alone_bytes_per_s / together
        over = np.where(alone_s > 0, alone_s, np.inf)
        return np.where(alone_s > 0, time_s / over, 1.0), np.asarray(memory_s / over, np.float64)

    def _between(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """The fewest and the most misses of the team, and the regions' times with them on one core."""
        if self._ends is None:
            assert self.caches is not None
            few, many = self.caches.misses(0.0)[FAST], self.caches.misses(np.inf)[SLOW]
            self._ends = (few, self._times_s(few)), (many, self._times_s(many))
        return self._ends

    def _times_s(self, misses: Floats) -> Floats:
        given = replace(self.run.misses, misses=misses, fewest=None, most=None)
        run = HostRun.of(self.run.workload, self.run.profile, self.run.model, corners=(TYPICAL,), shared=given)
        return np.asarray(run.times.time_s[TYPICAL] - run.times.pages_s, np.float64)

    def _miss_cost(self, misses: Floats) -> Floats:
        """[regions]: seconds that lines of streams take, by the level that they come from."""
        memory, operations = self.run.figures.memory, self.run.workload.operations
        level_s = memory.line_s[TYPICAL].min(axis=0)
        cost = misses @ np.maximum(np.diff(level_s), 1e-15)
        sums = np.bincount(operations.region, weights=cost, minlength=len(self.run.workload.regions))
        return np.asarray(sums, np.float64)
