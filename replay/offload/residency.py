"""Data movement between host and accelerators for a division of a program's nodes: versions of data, each at most once.

A version goes to a device if a node there reads it and its writer is elsewhere, and to the host if a node there reads
it that was written on a device. Nodes are placed one by one, in any order, and what a placement makes necessary is
counted when it does; the sum is that of the division.

A transfer begins as often as its writer and its reader run, and at most once in each round of the innermost node
around both: what a loop wrote before another one begins moves once, however often the second one reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from foretrace.replay.base.spread import Floats
from foretrace.replay.offload.devices.device import Way
from foretrace.replay.offload.devices.work import NodeKind, Work
from foretrace.replay.tree.timed_tree import Ints, NodeTree
from foretrace.tracer.signature.data_flow_records import DataFlow

ARGUMENT_BYTES = 4096
"""Size of a kernel's arguments, which go to it with its launch (CUDA C++ Programming Guide, "Function Parameters")."""
UNDECIDED, HOST = -2, -1


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes and transfers, to devices and back."""

    to_device_bytes: float = 0.0
    from_device_bytes: float = 0.0
    to_device: int = 0
    from_device: int = 0

    def __add__(self, other: Moved) -> Moved:
        """Both together."""
        return Moved(
            self.to_device_bytes + other.to_device_bytes,
            self.from_device_bytes + other.from_device_bytes,
            self.to_device + other.to_device,
            self.from_device + other.from_device,
        )

    def times_s(self, way: Way) -> tuple[Floats, Floats]:
        """Seconds to the device and back, [fast, typical, slow] each. Waiting for results is in the second."""
        waits_s = way.wait_s * self.from_device
        if way.shared_memory:
            return np.zeros(3), waits_s
        there = way.transfer_s * self.to_device + self.to_device_bytes / way.to_device_bytes_per_s
        back = way.transfer_s * self.from_device + self.from_device_bytes / way.from_device_bytes_per_s
        return there, back + waits_s


def rounds_of(work: Work) -> Ints:
    """Begins of each node's own work: of loops, each iteration."""
    is_loop = [kind is NodeKind.LOOP for kind in work.kinds]
    return np.where(is_loop, np.maximum(work.iterations, work.entries), work.entries)


RESULT_BYTES = 8
"""Size of a value that a kernel returns."""


def results_of(values: int) -> Moved:
    """Transfers of values that kernels return in registers, one by one."""
    return Moved(from_device_bytes=RESULT_BYTES * values, from_device=values)


class Versions:
    """The versions of a program's data: who wrote each, and the set of nodes that read it. Many have the same set."""

    def __init__(self, flow: DataFlow, rounds: Ints, tree: NodeTree | None = None) -> None:
        """Take the versions and sets of a data flow.

        `rounds` int64 [nodes] is how often each node's own work begins on the host; `tree` has the nodes. None: all are
        side by side, in a loop of as many rounds as any.
        """
        self.num_nodes = len(rounds)
        self.rounds: Ints = rounds
        self._tree = tree
        self.writer: Ints = np.asarray(flow.flow_writer, np.int64)
        self.readers: Ints = np.asarray(flow.flow_readers, np.int64)
        self.bytes: Floats = flow.flow_bytes
        self.allocation: Ints = flow.flow_allocation
        self.has_system: npt.NDArray[np.bool_] = flow.set_has_system
        """Whether the system is among the readers of each set: on the host."""
        self.set_starts: Ints = flow.set_starts
        self.set_nodes: Ints = flow.set_nodes
        nodes: list[int] = flow.set_nodes.tolist()
        starts: list[int] = flow.set_starts.tolist()
        self.sets: list[list[int]] = [nodes[first:last] for first, last in pairwise(starts)]
        self.sets_of_node: list[list[int]] = [[] for _ in range(self.num_nodes)]
        for number, members in enumerate(self.sets):
            for node in members:
                self.sets_of_node[node].append(number)
        self.rows_of_set: list[list[int]] = [[] for _ in self.sets]
        self.rows_of_writer: list[list[int]] = [[] for _ in range(self.num_nodes)]
        for row, (writer, number) in enumerate(zip(self.writer.tolist(), self.readers.tolist(), strict=True)):
            self.rows_of_set[number].append(row)
            if writer >= 0:
                self.rows_of_writer[writer].append(row)
        counts = np.diff(self.set_starts)[self.readers]
        self._pair_row: Ints = np.repeat(np.arange(len(self.writer)), counts)
        within = np.arange(len(self._pair_row)) - np.repeat(np.cumsum(counts) - counts, counts)
        self._pair_reader: Ints = self.set_nodes[self.set_starts[self.readers][self._pair_row] + within]
        self._pair_rounds: Ints = self._shared_rounds(self.writer[self._pair_row], self._pair_reader)
        self._rounds_of_pair: dict[tuple[int, int], int] = {}

    def _shared_rounds(self, writers: Ints, readers: Ints) -> Ints:
        """[pairs]: rounds of the innermost node around both; of all roots together 1."""
        if self._tree is None:
            return np.full(len(writers), np.iinfo(np.int64).max)
        return np.asarray(np.append(self.rounds, 1)[self._tree.common_ancestors(writers, readers)], np.int64)

    def rounds_around(self, writer: int, reader: int) -> int:
        """Begins of the innermost node around a writer and a reader."""
        pair = (writer, reader)
        if pair not in self._rounds_of_pair:
            ends = (np.array([one], np.int64) for one in pair)
            self._rounds_of_pair[pair] = int(self._shared_rounds(*ends)[0])
        return self._rounds_of_pair[pair]

    def begins(self, runs: Ints) -> Ints:
        """[versions]: how often readers begin to read each, if theirs is how often each begins, int64 [nodes]."""
        most = np.zeros(len(self), np.int64)
        np.maximum.at(most, self._pair_row, np.minimum(runs[self._pair_reader], self._pair_rounds))
        return most

    def __len__(self) -> int:
        """Number of versions."""
        return len(self.writer)

    def most_of_sets(self, values: Ints) -> Ints:
        """The greatest of the members' values, [nodes], of each set; 0 for the empty one."""
        most = np.zeros(len(self.sets), np.int64)
        number = np.repeat(np.arange(len(self.sets)), np.diff(self.set_starts))
        np.maximum.at(most, number, values[self.set_nodes])
        return most

    def moved(self, is_there: npt.NDArray[np.bool_], runs: Ints) -> Moved:
        """Total movement if one device runs the nodes `is_there`, bool [nodes].

        Args:
            is_there: the nodes of all kernels.
            runs: int64 [nodes], how often the kernel around a node, or its own work on the host, begins.
        """
        if not len(self):
            return Moved()
        written_there = np.append(is_there, False)[self.writer]
        written = np.append(runs, 1)[self.writer]
        most_there = self.begins(np.where(is_there, runs, 0))
        most_here = np.maximum(self.begins(np.where(is_there, 0, runs)), self.has_system[self.readers])
        goes, returns = ~written_there & (most_there > 0), written_there & (most_here > 0)
        begun = np.minimum(np.minimum(most_there, written), (self.bytes // ARGUMENT_BYTES).astype(np.int64))
        ended = np.maximum(np.minimum(np.minimum(most_here, written), (self.bytes // 8).astype(np.int64)), 1)
        of_writer = np.zeros((2, self.num_nodes + 1), np.int64)
        np.maximum.at(of_writer[0], self.writer[goes], begun[goes])
        np.maximum.at(of_writer[1], self.writer[returns], ended[returns])
        return Moved(
            float(self.bytes[goes].sum()), float(self.bytes[returns].sum()), int(of_writer[0].sum()),
            int(of_writer[1].sum()),
        )  # fmt: skip


def moved_by_allocation(versions: Versions, is_there: npt.NDArray[np.bool_]) -> dict[int, tuple[float, float]]:
    """Bytes that move to a device that runs the nodes `is_there`, bool [nodes], and back, of each allocation; -1 is
    where that is not known."""
    written_there = np.append(is_there, False)[versions.writer]
    ones: Ints = is_there.astype(np.int64)
    read_there = versions.most_of_sets(ones)[versions.readers] > 0
    read_here = ((versions.most_of_sets(1 - ones) > 0) | versions.has_system)[versions.readers]
    number = versions.allocation + 1
    width = int(number.max(initial=0)) + 1
    goes = np.bincount(number, versions.bytes * (~written_there & read_there), width)
    returns = np.bincount(number, versions.bytes * (written_there & read_here), width)
    pairs = zip(goes.tolist(), returns.tolist(), strict=True)
    return {one - 1: (to, back) for one, (to, back) in enumerate(pairs) if to or back}


class Residency:
    """Places where a rank's nodes ran so far, and the data moved for them."""

    def __init__(self, versions: Versions) -> None:
        """Nothing is placed."""
        self.versions = versions
        self._place = [UNDECIDED] * versions.num_nodes
        self._runs: list[int] = versions.rounds.tolist()  # how often the kernel, or the host's work, begins
        by_system: list[bool] = versions.has_system.tolist()
        # most runs of a set's members, by place
        self._reading: list[dict[int, int]] = [{HOST: 1} if one else {} for one in by_system]
        self._set: list[int] = versions.readers.tolist()
        self._writer: list[int] = versions.writer.tolist()
        self._bytes: list[float] = versions.bytes.tolist()
        self._sent: set[tuple[int, int]] = set()
        self._returned: set[int] = set()
        self._devices: set[int] = set()

    @property
    def devices(self) -> set[int]:
        """Devices that any node was placed on."""
        return self._devices

    def would_move(self, nodes: Sequence[int], place: int, entries: int = 0) -> Moved:
        """Movement that placing nodes somewhere would cause. `entries` are a kernel's."""
        before = [(node, self._place[node], self._runs[node]) for node in nodes]
        rows, sets = self._placed(nodes, place, entries, keep=False)
        moved = self._moves(rows, keep=False)
        for node, old_place, old_runs in before:
            self._place[node], self._runs[node] = old_place, old_runs
        for number in sets:
            del self._reading[number][place]
        return moved

    def put(self, nodes: Sequence[int], place: int, entries: int = 0) -> Moved:
        """Place nodes, and say what moves."""
        rows, _ = self._placed(nodes, place, entries, keep=True)
        if place >= 0:
            self._devices.add(place)
        return self._moves(rows, keep=True) if self._devices else Moved()

    def _placed(self, nodes: Sequence[int], place: int, entries: int, *, keep: bool) -> tuple[set[int], list[int]]:
        """Place nodes; returns the versions that this may concern, and the sets that had no member there before."""
        versions, rows = self.versions, set[int]()
        new: list[int] = []
        for node in nodes:
            self._place[node] = place
            if place >= 0:
                self._runs[node] = entries
            rows.update(versions.rows_of_writer[node])
            for number in versions.sets_of_node[node]:
                reading = self._reading[number]
                if place not in reading:
                    reading[place] = self._runs[node]
                    new.append(number)
                    rows.update(versions.rows_of_set[number])
                elif keep and self._runs[node] > reading[place]:
                    reading[place] = self._runs[node]
        return rows, new

    def _moves(self, rows: Iterable[int], *, keep: bool) -> Moved:
        """Movement of versions that the nodes' places require and that is not made yet; with `keep` it is from now."""
        sent_bytes = returned_bytes = 0.0
        sent: dict[tuple[int, int], int] = {}
        returned: dict[int, int] = {}
        for row in rows:
            writer = self._writer[row]
            at = HOST if writer < 0 else self._place[writer]
            if at == UNDECIDED:
                continue
            away = [one for one in self._reading[self._set[row]].items() if one[0] != at]
            if not away:
                continue
            size, written = self._bytes[row], 1 if writer < 0 else self._runs[writer]
            for device, _ in away:
                if device < 0 or (row, device) in self._sent:
                    continue
                if keep:
                    self._sent.add((row, device))
                sent_bytes += size
                times = int(min(self._begins(row, device), written, size // ARGUMENT_BYTES))
                sent[writer, device] = max(sent.get((writer, device), 0), times)
            if at >= 0 and row not in self._returned:
                if keep:
                    self._returned.add(row)
                returned_bytes += size
                most = max(self._begins(row, place) for place, _ in away)
                times = int(max(min(most, written, size // 8), 1))
                returned[writer] = max(returned.get(writer, 0), times)
        return Moved(sent_bytes, returned_bytes, sum(sent.values()), sum(returned.values()))

    def _begins(self, row: int, place: int) -> int:
        """Begins of reads of a version by the nodes at a place."""
        number, writer = self._set[row], self._writer[row]
        by_system = 1 if place == HOST and self.versions.has_system[number] else 0
        return (
            max(
                (
                    min(self._runs[node], self.versions.rounds_around(writer, node))
                    for node in self.versions.sets[number]
                    if self._place[node] == place
                ),
                default=0,
            )
            or by_system
        )
