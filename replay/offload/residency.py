"""What moves between host and accelerators for a division of a program's nodes: versions of data, each at most once.

A version goes to a device if a node there reads it and its writer is elsewhere, and to the host if a node there reads
it that was written on a device. Nodes are placed one by one, in any order, and what a placement makes necessary is
counted when it does; the sum is that of the division.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.replay.spread import Floats
from foretrace.tracer.signature.data_flow_records import DataFlow

from .device import Way
from .work import Ints, NodeKind, Work

ARGUMENT_BYTES = 4096
"""That go to a kernel with its launch: its arguments (CUDA C++ Programming Guide, "Function Parameters")."""
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
    """How often each node's own work begins: of loops, each iteration."""
    is_loop = [kind is NodeKind.LOOP for kind in work.kinds]
    return np.where(is_loop, np.maximum(work.iterations, work.entries), work.entries)


RESULT_BYTES = 8
"""Of a value that a kernel returns."""


def results_of(values: int) -> Moved:
    """What values move that kernels return in registers, one by one."""
    return Moved(from_device_bytes=RESULT_BYTES * values, from_device=values)


class Versions:
    """The versions of a program's data: who wrote each, and who reads it."""

    def __init__(self, flow: DataFlow, rounds: Ints) -> None:
        """Of a data flow. `rounds` int64 [nodes] is how often each node's own work begins on the host."""
        self.num_nodes = len(rounds)
        self.rounds: Ints = rounds
        self.writer: Ints = np.asarray(flow.flow_writer, np.int64)
        counts = np.diff(flow.set_starts)[flow.flow_readers]
        self.row: Ints = np.repeat(np.arange(len(counts)), counts)
        starts = np.repeat(flow.set_starts[flow.flow_readers], counts)
        before = np.repeat(np.cumsum(counts) - counts, counts)
        self.reader: Ints = np.asarray(flow.set_nodes[starts + np.arange(len(self.row)) - before], np.int64)
        self.bytes: Floats = flow.flow_bytes
        ends = np.cumsum(counts)
        readers: list[int] = self.reader.tolist()
        self._readers: list[list[int]] = [
            readers[end - count : end] for end, count in zip(ends.tolist(), counts.tolist(), strict=True)
        ]
        self._rows: list[list[int]] = [[] for _ in range(self.num_nodes)]
        for row, (writer, reading) in enumerate(zip(self.writer.tolist(), self._readers, strict=True)):
            for node in {writer, *reading}:
                if node >= 0:
                    self._rows[node].append(row)

    def __len__(self) -> int:
        """How many rows."""
        return len(self.writer)

    def touched_by(self, nodes: Sequence[int]) -> list[int]:
        """Rows that any of some nodes writes or reads."""
        if len(nodes) == 1:
            return self._rows[nodes[0]]
        return sorted({row for node in nodes for row in self._rows[node]})

    def moved(self, is_there: npt.NDArray[np.bool_], runs: Ints) -> Moved:
        """What moves in all if one device runs the nodes `is_there`, bool [nodes].

        Args:
            is_there: the nodes of all kernels.
            runs: int64 [nodes], how often the kernel around a node, or its own work on the host, begins.
        """
        if not len(self):
            return Moved()
        written_there = np.append(is_there, False)[self.writer]
        written = np.append(runs, 1)[self.writer]
        reads_there = is_there[self.reader]
        most_there, most_here = np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        np.maximum.at(most_there, self.row[reads_there], runs[self.reader[reads_there]])
        np.maximum.at(most_here, self.row[~reads_there], runs[self.reader[~reads_there]])
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

    def readers_of(self, row: int) -> list[int]:
        """The nodes that read a version."""
        return self._readers[row]


class Residency:
    """Where a rank's nodes ran so far, and what moved because of it."""

    def __init__(self, versions: Versions) -> None:
        """Nothing is placed."""
        self.versions = versions
        self._place = [UNDECIDED] * versions.num_nodes
        self._runs: list[int] = versions.rounds.tolist()  # how often the kernel, or the host's work, begins
        self._writer: list[int] = versions.writer.tolist()
        self._bytes: list[float] = versions.bytes.tolist()
        self._sent: set[tuple[int, int]] = set()
        self._returned: set[int] = set()
        self._devices: set[int] = set()

    @property
    def devices(self) -> set[int]:
        """Those that any node was placed on."""
        return self._devices

    def would_move(self, nodes: Sequence[int], place: int, entries: int = 0) -> Moved:
        """What placing nodes somewhere makes move. `entries` are a kernel's."""
        before = [(node, self._place[node], self._runs[node]) for node in nodes]
        self._set(nodes, place, entries)
        moved = self._moves(self.versions.touched_by(nodes), keep=False)
        for node, old_place, old_runs in before:
            self._place[node], self._runs[node] = old_place, old_runs
        return moved

    def put(self, nodes: Sequence[int], place: int, entries: int = 0) -> Moved:
        """Place nodes, and say what moves."""
        self._set(nodes, place, entries)
        if place >= 0:
            self._devices.add(place)
        return self._moves(self.versions.touched_by(nodes), keep=True) if self._devices else Moved()

    def _set(self, nodes: Sequence[int], place: int, entries: int) -> None:
        for node in nodes:
            self._place[node] = place
            if place >= 0:
                self._runs[node] = entries

    def _moves(self, rows: Iterable[int], *, keep: bool) -> Moved:
        """What versions must move as nodes are placed now, and did not yet; with `keep` they have, from now on."""
        sent_bytes = returned_bytes = 0.0
        sent: dict[tuple[int, int], int] = {}
        returned: dict[int, int] = {}
        for row in rows:
            writer = self._writer[row]
            at = HOST if writer < 0 else self._place[writer]
            if at == UNDECIDED:
                continue
            away: dict[int, int] = {}  # runs of readers elsewhere, by place
            for reader in self.versions.readers_of(row):
                there = self._place[reader]
                if there not in (UNDECIDED, at):
                    away[there] = max(away.get(there, 0), self._runs[reader])
            if not away:
                continue
            size, written = self._bytes[row], 1 if writer < 0 else self._runs[writer]
            for device, reading in away.items():
                if device < 0 or (row, device) in self._sent:
                    continue
                if keep:
                    self._sent.add((row, device))
                sent_bytes += size
                times = int(min(reading, written, size // ARGUMENT_BYTES))
                sent[writer, device] = max(sent.get((writer, device), 0), times)
            if at >= 0 and row not in self._returned:
                if keep:
                    self._returned.add(row)
                returned_bytes += size
                times = int(max(min(max(away.values()), written, size // 8), 1))
                returned[writer] = max(returned.get(writer, 0), times)
        return Moved(sent_bytes, returned_bytes, sum(sent.values()), sum(returned.values()))
