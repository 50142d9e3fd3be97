"""The host's side: one core, or several that divide a loop's iterations and share the memory's bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foretrace.replay.conditions import Conditions
from foretrace.replay.offload.devices.evidence import Evidence, trip_counts
from foretrace.replay.offload.devices.work import NodeKind, Work
from foretrace.replay.records import Assumption
from foretrace.replay.spread import Floats

FORK_S = 5e-6
"""Of a parallel loop: its threads are woken, and wait for each other at its end. 2 to 20 us are usual from 8 to 200
threads (Bull, O'Neill: A Microbenchmark Suite for OpenMP 2.0, 2001, and what followed it; cited from memory)."""


@dataclass(frozen=True, eq=False)
class HostTimes:
    """What nodes take on the host when kernels are elsewhere.

    Attributes:
        work: the program.
        cores: that its loops may use.
        own_s: [nodes], on one core.
        threaded_s: {loop: seconds of all below it on all cores, its threads' start included}, where that is less.
        tree_s: [nodes], of each node and all below it, with the best choice of loops to thread.
        threaded: the loops of that choice.
        speedups: {loop: how many times as fast its work is, by bandwidth and iterations}.
    """

    work: Work
    cores: int
    own_s: Floats
    threaded_s: dict[int, float]
    speedups: dict[int, float]
    assumptions: tuple[Assumption, ...] = ()

    @classmethod
    def of(cls, work: Work, cores: int, evidence: Evidence | None, conditions: Conditions | None) -> HostTimes:
        """On one core, or on several if what is known of loops and of the memory's bandwidth is given."""
        own_s = work.own_host_s
        if cores <= 1 or evidence is None or conditions is None:
            return cls(work, 1, own_s, {}, {})
        threaded, speedups = _threaded(work, cores, evidence, conditions)
        text = f"each parallel loop takes {FORK_S * 1e6:g} us to start and end its threads (2 to 20 us)"
        return cls(work, cores, own_s, threaded, speedups, (Assumption("fork", text),))

    @cached_property
    def _inclusive_s(self) -> Floats:
        return self.work.inclusive(self.own_s)

    @property
    def shared_own_s(self) -> Floats:
        """[nodes]: seconds of their own, divided among cores where the whole program on the host would be."""
        own_s = self.own_s.copy()
        for loop in self.choice(())[1]:
            own_s[self.work.below(loop)] /= self.speedups[loop]
        return own_s

    def choice(self, kernels: Sequence[int]) -> tuple[float, tuple[int, ...]]:
        """Seconds on the host with these nodes elsewhere, and the loops to thread for it."""
        work, inclusive_s = self.work, self._inclusive_s
        away, threaded = set(kernels), self.threaded_s
        concerned = {int(node) for node in (*away, *threaded)}
        pending = list(concerned)
        while pending:
            parent = int(work.parent[pending.pop()])
            if parent >= 0 and parent not in concerned:
                concerned.add(parent)
                pending.append(parent)
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
            parent = int(work.parent[node])
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


def _threaded(
    work: Work, cores: int, evidence: Evidence, conditions: Conditions
) -> tuple[dict[int, float], dict[int, float]]:
    trips = trip_counts(work)
    speed = _region_speedups(cores, conditions)
    seconds = [sum(time_s / speed[region] for region, time_s in own.items()) for own in work.own_s]
    fast_s, slow_s = work.inclusive(np.array(seconds)), work.inclusive(work.own_host_s)
    threaded: dict[int, float] = {}
    speedups: dict[int, float] = {}
    for node, kind in enumerate(work.kinds):
        if kind is not NodeKind.LOOP or evidence.parallel[node].is_serial or evidence.refused_below[node]:
            continue
        if not slow_s[node]:
            continue
        team = min(float(cores), float(trips[node]))
        time_s = max(fast_s[node], slow_s[node] / team) + FORK_S * int(work.entries[node])
        if time_s < slow_s[node]:
            threaded[node] = float(time_s)
            speedups[node] = float(slow_s[node] / time_s)
    return threaded, speedups


def _region_speedups(cores: int, conditions: Conditions) -> Floats:
    """[regions]: how many times as fast cores are that divide a region and share memory's bandwidth."""
    points = np.array(conditions.bandwidth.points(conditions.stored_share))
    most = float(points[min(cores, len(points)) - 1])
    demand = conditions.demand_bytes_per_s[0]
    limit = np.divide(most, demand, out=np.full(len(demand), np.inf), where=demand > 0)
    return np.asarray(np.maximum(np.minimum(float(cores), limit), 1.0), np.float64)
