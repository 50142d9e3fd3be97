"""What moves between host and accelerators for a division of a program's nodes: versions of data, each at most once.

A version goes to a device if a node there reads it and its writer is elsewhere, and to the host if a node there reads
it that was written on a device. Nodes are placed one by one, in any order, and what a placement makes necessary is
counted when it does; the sum is that of the division.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
        order = np.argsort(self.reader, kind="stable")
        self._by_reader = order, np.searchsorted(self.reader[order], np.arange(self.num_nodes + 1))
        by_writer = np.argsort(self.writer, kind="stable")
        self._by_writer = by_writer, np.searchsorted(self.writer[by_writer], np.arange(self.num_nodes + 1))

    def __len__(self) -> int:
        """How many rows."""
        return len(self.writer)

    def touched_by(self, nodes: npt.ArrayLike) -> Ints:
        """Rows that any of some nodes writes or reads."""
        found = [np.zeros(0, np.int64)]
        for node in np.asarray(nodes, np.int64).tolist():
            order, starts = self._by_reader
            found.append(self.row[order[starts[node] : starts[node + 1]]])
            order, starts = self._by_writer
            found.append(order[starts[node] : starts[node + 1]])
        return np.unique(np.concatenate(found))

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

    def readers_of(self, row: int) -> Ints:
        """The nodes that read a version."""
        first, last = np.searchsorted(self.row, [row, row + 1])
        return self.reader[first:last]


@dataclass(slots=True)
class Residency:
    """Where a rank's nodes ran so far, and what moved because of it.

    Attributes:
        versions: of the program.
        shared_memory: whether nothing but the waiting for results counts.
        place: int64 [nodes]: a device's number, `HOST`, or `UNDECIDED`.
        runs: int64 [nodes]: how often the kernel, or the host's work, of a node's place begins.
    """

    versions: Versions
    place: Ints = field(init=False)
    runs: Ints = field(init=False)
    _sent: set[tuple[int, int]] = field(default_factory=set)
    _returned: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Nothing is placed."""
        self.place = np.full(self.versions.num_nodes, UNDECIDED, np.int64)
        self.runs = self.versions.rounds.copy()

    def would_move(self, nodes: npt.ArrayLike, place: int, entries: int = 0) -> Moved:
        """What placing nodes somewhere makes move. `entries` are a kernel's."""
        return self._placed(nodes, place, entries, keep=False)

    def put(self, nodes: npt.ArrayLike, place: int, entries: int = 0) -> Moved:
        """Place nodes, and say what moves."""
        return self._placed(nodes, place, entries, keep=True)

    def _placed(self, nodes: npt.ArrayLike, place: int, entries: int, *, keep: bool) -> Moved:
        numbers = np.asarray(nodes, np.int64)
        before, runs_before = self.place[numbers].copy(), self.runs[numbers].copy()
        self.place[numbers] = place
        if place >= 0:
            self.runs[numbers] = entries
        moved = self.moves(self.versions.touched_by(numbers), keep=keep)
        if not keep:
            self.place[numbers], self.runs[numbers] = before, runs_before
        return moved

    def moves(self, rows: Ints, *, keep: bool = True) -> Moved:
        """What versions must move as nodes are placed now, and did not yet; with `keep` they have, from now on."""
        sent_bytes = returned_bytes = 0.0
        sent: dict[tuple[int, int], int] = {}
        returned: dict[int, int] = {}
        versions = self.versions
        for row in rows.tolist():
            writer = int(versions.writer[row])
            at = HOST if writer < 0 else int(self.place[writer])
            if at == UNDECIDED:
                continue
            readers = versions.readers_of(row)
            places = self.place[readers]
            size = float(versions.bytes[row])
            elsewhere = [int(one) for one in np.unique(places) if one >= 0 and one != at]
            for device in elsewhere:
                if (row, device) in self._sent:
                    continue
                if keep:
                    self._sent.add((row, device))
                sent_bytes += size
                reading = int(self.runs[readers[places == device]].max())
                written = 1 if writer < 0 else int(self.runs[writer])
                times = int(min(reading, written, size // ARGUMENT_BYTES))
                sent[writer, device] = max(sent.get((writer, device), 0), times)
            if at >= 0 and row not in self._returned and (elsewhere or bool((places == HOST).any())):
                if keep:
                    self._returned.add(row)
                returned_bytes += size
                away = readers[(places != at) & (places != UNDECIDED)]
                times = int(max(min(int(self.runs[away].max()), int(self.runs[writer]), size // 8), 1))
                returned[writer] = max(returned.get(writer, 0), times)
        return Moved(sent_bytes, returned_bytes, sum(sent.values()), sum(returned.values()))
