"""The plan: which nodes of a program to port so that it ends first.

With data that stays where it is, the time of a division is a sum: work on the host, kernels, and each version of data
that crosses. A kernel is paid at a ported node whose parent is not, a version once if its writer is on one side and any
reader on the other. Each of these terms is the cost of cutting an edge, so the best division is a minimum cut of a
graph with a node for each node of the program and one for each set of readers (as in Stone's assignment of modules to
two processors, IEEE Trans. Software Engineering 3(1), 1977). It is exact for the sum with one transfer latency for each
writer at the rate of its outermost candidate.

How often transfers really begin depends on which nodes are kernels. So the cut is where a search begins: kernels are
moved one by one, to the host, to the parent or to the children, while the exact sum falls, hottest first
(`MOST_MOVED`). What does not fit in the device's memory goes back to the host, least gain a byte first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from foretrace.replay.base.spread import TYPICAL
from foretrace.replay.offload.devices.kernels import Candidate, Offers
from foretrace.replay.tree.timed_tree import Ints

from .cut import INFINITE, Network
from .host_threads import HostTimes
from .residency import ARGUMENT_BYTES, Moved, Versions, results_of, rounds_of

MOST_MOVED = 64
"""Candidates that the search moves, those of most time on the host."""
_PER_SECOND = 1e13
"""Whole numbers of the cut in a second."""


class Planner:
    """Divisions of a program between a host and one device, and what they cost."""

    def __init__(self, offers: Offers, host: HostTimes) -> None:
        """For the candidates of a device."""
        self.offers, self.host, self.work = offers, host, offers.work
        self.versions = Versions(offers.work.flow, rounds_of(offers.work), offers.work)
        self.able = {node: one for node, one in offers.candidates.items() if not one.refusal}

    @cached_property
    def host_s(self) -> float:
        """Seconds of the program if nothing goes."""
        return self.time_s([])

    def time_s(self, kernels: Sequence[int], corner: int = TYPICAL) -> float:
        """Seconds of the program with these nodes as kernels, one thread of host work, nothing at the same time."""
        moved, there = self.moved(kernels)
        to_device, from_device = moved.times_s(self.offers.device.way)
        fixed = sum((one.kernel_s + one.launch_s + one.arithmetic_s)[corner] for one in there)
        fixed += sum(self.staged_s(one) for one in there)
        return self.host.time_s(kernels) + float(fixed) + float(to_device[corner] + from_device[corner])

    def staged_s(self, candidate: Candidate) -> float:
        """Seconds of bringing a footprint beyond the device's memory piece by piece."""
        way = self.offers.device.way
        return 0.0 if way.shared_memory else candidate.staged_bytes / way.to_device_bytes_per_s

    def moved(self, kernels: Sequence[int]) -> tuple[Moved, list[Candidate]]:
        """Total traffic of a division, and its candidates."""
        there = [self.able[node] for node in kernels]
        is_there, runs = np.zeros(len(self.work), np.bool_), self.versions.rounds.copy()
        for one in there:
            numbers = list(one.nodes)
            is_there[numbers] = True
            runs[numbers] = one.launches
        results = sum(one.results for one in there)
        return self.versions.moved(is_there, runs) + results_of(results), there

    def plan(self) -> tuple[int, ...]:
        """The kernels of the best division found."""
        begin = self.by_cut()
        best = min((begin, (), self.outermost()), key=lambda kernels: (self.time_s(kernels), len(kernels)))
        return self.fitting(self.improved(best))

    def outermost(self) -> tuple[int, ...]:
        """All candidates that are in no other one: everything that can go."""
        return tuple(sorted(self.work.outermost(self.work.roots, self.able.__contains__)))

    def by_cut(self) -> tuple[int, ...]:
        """The kernels of a minimum cut."""
        work, way = self.work, self.offers.device.way
        stands = self._stands()
        network = Network(len(work))
        own_s = np.bincount(np.maximum(stands, 0), np.where(stands >= 0, self.host.shared_own_s, 0.0), len(work))
        for node, one in self.able.items():
            parent = work.parents[node]
            up = int(stands[parent]) + 2 if parent >= 0 and stands[parent] >= 0 else Network.SINK
            results_s = sum(float(end[TYPICAL]) for end in results_of(one.results).times_s(way))
            network.edge(node + 2, up, _whole(one.fixed_s + self.staged_s(one) + results_s))
            if up != Network.SINK:
                network.edge(up, node + 2, INFINITE)
            network.edge(Network.SOURCE, node + 2, _whole(float(own_s[node])))
        self._cross(network, stands)
        _, side = network.source_side()
        ported = [stands[node] >= 0 and side[int(stands[node]) + 2] for node in range(len(work))]
        return tuple(
            node
            for node in sorted(self.able)
            if ported[node] and not (work.parents[node] >= 0 and ported[work.parents[node]])
        )

    def _stands(self) -> Ints:
        """[nodes]: the candidate that each node goes with, itself or the innermost around it; -1: it stays."""
        found = np.full(len(self.work), -1, np.int64)
        for node in range(len(self.work)):
            parent = self.work.parents[node]
            found[node] = node if node in self.able else found[parent] if parent >= 0 else -1
        return found

    def _cross(self, network: Network, stands: Ints) -> None:
        """Edges of versions: to a device that any reader is on, and back to the host if any reader is there.

        Each set of readers has two nodes, one on the device's side if any of them is, one on the host's side likewise.
        """
        versions, way = self.versions, self.offers.device.way
        in_s, out_s = 1 / way.to_device_bytes_per_s, 1 / way.from_device_bytes_per_s  # 0 for a shared memory
        begin_s, end_s = (float(one[TYPICAL]) for one in (way.transfer_s, way.transfer_s + way.wait_s))
        launches = self._launches()
        begins = versions.begins(launches).tolist()
        runs = launches.tolist()
        any_there, any_here = ([-1] * len(versions.sets) for _ in range(2))
        of_writer: dict[int, dict[int, float]] = {}
        most: dict[int, int] = defaultdict(int)
        for writer, number, size, begun in zip(
            versions.writer.tolist(), versions.readers.tolist(), versions.bytes.tolist(), begins, strict=True
        ):
            members = versions.sets[number]
            at = Network.SINK if writer < 0 or stands[writer] < 0 else int(stands[writer]) + 2
            readers = {int(stands[node]) for node in members}
            if not members or (at == Network.SINK and readers == {-1}):
                continue
            if any_there[number] < 0:
                any_there[number], any_here[number] = network.node(), network.node()
                for node in readers:
                    end = node + 2 if node >= 0 else Network.SINK
                    if node >= 0:
                        network.edge(end, any_there[number], INFINITE)
                    network.edge(any_here[number], end, INFINITE)
            network.edge(any_there[number], at, _whole(size * in_s))
            if at != Network.SINK:
                network.edge(at, any_here[number], _whole(size * out_s))
            sizes = of_writer.setdefault(writer, {})
            sizes[number] = sizes.get(number, 0.0) + size
            most[writer] = max(most[writer], begun)
        for writer, sizes in of_writer.items():
            size, reading = sum(sizes.values()), most[writer]
            written = 1 if writer < 0 else runs[writer]
            there, back = min(written, reading, size // ARGUMENT_BYTES), max(min(written, reading, size // 8), 1)
            at = Network.SINK if writer < 0 or stands[writer] < 0 else int(stands[writer]) + 2
            first, last = network.node(), network.node()
            for number in sizes:
                network.edge(any_there[number], first, INFINITE)
                network.edge(last, any_here[number], INFINITE)
            network.edge(first, at, _whole(there * begin_s))
            if at != Network.SINK:
                network.edge(at, last, _whole(back * end_s))

    def _launches(self) -> Ints:
        """Begins of each node's work: those of the outermost candidate around it, or its own on the host."""
        found = self.versions.rounds.copy()
        for node in self.outermost():
            found[list(self.able[node].nodes)] = self.able[node].launches
        return found

    def improved(self, kernels: Sequence[int]) -> tuple[int, ...]:
        """A division that no move of one kernel shortens."""
        order = sorted(self.able, key=lambda node: -self.able[node].host_s)[:MOST_MOVED]
        best, best_s, changed = frozenset(kernels), self.time_s(kernels), True
        while changed:
            changed = False
            for node in order:
                for other in self._moves(best, node):
                    time_s = self.time_s(sorted(other))
                    if time_s < best_s * (1 - 1e-12):
                        best, best_s, changed = other, time_s, True
        return tuple(sorted(best))

    def _moves(self, kernels: frozenset[int], node: int) -> list[frozenset[int]]:
        """Divisions that differ in whether a node is a kernel."""
        if node in kernels:
            below = frozenset(self.work.outermost(self.work.children[node], self.able.__contains__))
            gone = kernels - {node}
            return [gone, gone | below] if below else [gone]
        around = {one for one in kernels if node in self.able[one].nodes}
        if around:
            return []
        return [frozenset(one for one in kernels if one not in self.able[node].nodes) | {node}]

    def footprint_bytes(self, kernels: Sequence[int]) -> float:
        """Different bytes that a division keeps on the device; what is staged is not kept."""
        inside = np.zeros(len(self.work), np.bool_)
        for node in kernels:
            if not self.able[node].staged_bytes:
                inside[list(self.able[node].nodes)] = True
        return self.work.flow.footprint_bytes(inside)

    def fitting(self, kernels: Sequence[int]) -> tuple[int, ...]:
        """The division without the kernels of least gain a byte, as many as it takes to fit in the device's memory."""
        device = self.offers.device
        if device.way.shared_memory or device.rates is None:
            return tuple(kernels)
        left = list(kernels)
        while left and self.footprint_bytes(left) > device.rates.capacity_bytes:
            gains = {node: self.able[node].host_s - self.able[node].fixed_s for node in left}
            left.remove(min(left, key=lambda node: gains[node] / max(self.able[node].footprint_bytes, 1.0)))
        return tuple(left)


def _whole(seconds: float) -> int:
    return min(round(seconds * _PER_SECOND), INFINITE >> 8)
