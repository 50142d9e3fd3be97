"""Which node of the execution tree uses whose data, and what loops carry from one iteration to the next.

Both follow single bytes of memory: of all of it, or of a sample of its blocks (`DataFlow.sampled_share`). All bytes
here are scaled up to the whole.

A *version* of a byte is what a node stored there, until another one stores there, or the same one after some node has
read it. A division of the tree between a host and a device moves each version over the link at most once: if the node
that wrote it is on one side, and any node that reads it on the other. That is why readers are kept as sets, not as
pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

OPERATIONS = frozenset({"", "add", "multiply", "min", "max", "and", "or", "xor"})
"""Operations by which reductions and collisions combine values."""
LARGEST = 2**63 - 1
"""The largest number that a signature's file has room for (SQLite, "Datatypes": integers have 8 bytes at most)."""
OUTSIDE = -1
"""The writer of what no node wrote: static data, what the system read from a file, untouched pages."""


class ObjectKind(IntEnum):
    """Where a piece of memory lies."""

    STATIC = 0  # a variable of an executable or library
    HEAP = 1  # from the allocator
    MAPPED = 2  # mapped on its own (mmap)
    STACK = 3
    ARRAY = 4  # the memory of a Python array
    UNKNOWN = 5


@dataclass(frozen=True, slots=True)
class MemoryObject:
    """A piece of memory that a program allocated or declared: [first, last_exclusive) in bytes. `name` is the
    variable's, "" where unknown. `allocation` is the number of its `Allocation`, -1 where unknown. What belongs to
    another allocation by now has no bytes."""

    kind: ObjectKind
    name: str
    first: int
    last_exclusive: int
    allocation: int = -1


@dataclass(frozen=True, slots=True)
class Allocation:
    """All memory that one place of a program allocated, or one variable that it declares.

    `name` is that of the variable, of a Python array, or of the file that was mapped; `function`, `file` and `line` are
    where it was allocated; "" and 0 where unknown. There were `count` allocations, of `total_bytes` in all.
    """

    kind: ObjectKind
    name: str
    function: str
    file: str
    line: int
    count: int
    total_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class DataFlow:
    """What nodes of an execution tree read and write of each other's.

    Sets of nodes: set `s` is `set_nodes[set_starts[s]:set_starts[s + 1]]`, ascending, int64. Set 0 is empty.

    Versions, one row for each writer and set of readers: `flow_writer` int64 [rows], a node or `OUTSIDE`;
    `flow_readers` int64 [rows], the set of the nodes that read the version; `flow_bytes` float64 [rows].

    Footprints, one row for each object and set of the nodes that touch the same bytes of it: `touched_object` int64
    [rows]; `touched_by` int64 [rows], a set; `touched_bytes` float64 [rows]. Bytes touched, not spans.

    Of which allocation each version is: `flow_allocation` int64 [rows], -1 where unknown. What the system reads and
    writes for the program (`write`, `read`): `set_has_system` bool [sets] says whether it is among the readers, who are
    nodes otherwise, `flow_by_system` bool [rows] that it wrote what has the writer `OUTSIDE`. It does so on the host.
    Columns that are left out say that nothing is known.

    `node_place` int64 [nodes] is the node that each node's accesses count for: itself, or of library code the call into
    libraries or its main loop, of what runs outside `main` the thread's root
    (`tracer/analysis/data_flow/library_code.py`). Left out, all count for themselves.

    `sampled_share` of memory was followed at the end; `relative_error` is the standard error of all flow between
    different nodes in the sum that comes of it, 0 where all was followed. `merged_bytes` of versions had more different
    sets of readers than were kept apart; they count as read by all nodes that read any of them.
    """

    set_starts: Ints
    set_nodes: Ints
    flow_writer: Ints
    flow_readers: Ints
    flow_bytes: Floats
    touched_object: Ints
    touched_by: Ints
    touched_bytes: Floats
    objects: tuple[MemoryObject, ...]
    sampled_share: float = 1.0
    relative_error: float = 0.0
    merged_bytes: float = 0.0
    allocations: tuple[Allocation, ...] = ()
    flow_allocation: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    flow_by_system: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))
    set_has_system: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))
    node_place: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        """Fill in columns that were left out."""
        rows, sets = len(self.flow_bytes), len(self.set_starts) - 1
        for name, column in (
            ("flow_allocation", np.full(rows, -1, np.int64)),
            ("flow_by_system", np.zeros(rows, np.bool_)),
            ("set_has_system", np.zeros(sets, np.bool_)),
        ):
            if not len(getattr(self, name)):
                object.__setattr__(self, name, column)

    def sets_with(self, nodes: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Whether any node of each set is among `nodes`, bool [nodes]: bool [sets]."""
        hits = np.concatenate(([0], np.cumsum(nodes[self.set_nodes])))
        return np.asarray(hits[self.set_starts[1:]] > hits[self.set_starts[:-1]])

    def crossing_bytes(self, device: npt.NDArray[np.bool_]) -> tuple[float, float]:
        """Bytes that must move to a device, and back from it, in the whole run, when it runs the nodes `device`, bool
        [nodes], and keeps what it has."""
        is_written_there = np.append(device, False)[self.flow_writer]  # OUTSIDE is the last
        to_device = ~is_written_there & self.sets_with(device)[self.flow_readers]
        from_device = is_written_there & (self.sets_with(~device) | self.set_has_system)[self.flow_readers]
        return float(self.flow_bytes[to_device].sum()), float(self.flow_bytes[from_device].sum())

    def written_bytes(self, nodes: npt.NDArray[np.bool_]) -> float:
        """Bytes of the versions that `nodes`, bool [nodes], stored. What a node stores over and over again counts once
        until something reads it: far less than the stores' bytes means that most results were overwritten unread."""
        return float(self.flow_bytes[np.append(nodes, False)[self.flow_writer]].sum())

    def footprint_bytes(self, nodes: npt.NDArray[np.bool_]) -> float:
        """Different bytes that any of `nodes`, bool [nodes], touch."""
        return float(self.touched_bytes[self.sets_with(nodes)[self.touched_by]].sum())


class DependenceKind(IntEnum):
    """What a loop was seen to carry from one iteration to a later one."""

    REDUCTION = 0  # read, combined by one associative operation, written back; nothing else uses it
    PRIVATISABLE = 1  # written before it is read in each iteration: only the place is used again
    RECURRENCE = 2  # written in one iteration, read in a later one
    COLLISION = 3  # indirect updates (y[index[i]] += ...) of which several iterations hit the same place


@dataclass(frozen=True, slots=True)
class Dependence:
    """One thing that a loop carries.

    `node` is the loop's. `source` and `sink` are the operations (`MemoryOperation.operation_id`) that write and read
    it, -1 for a register or a Python variable; `where` names that one. Of PRIVATISABLE, the sink is a store that
    overwrites the place in a later iteration, and the source a store (output dependence) or a load (anti dependence).
    `count` is how often it occurred in what was examined; `least_distance` and `most_distance` are in iterations.
    `operation` of a reduction or collision is "add", "multiply", "min", "max", "and", "or", "xor", or "" where unknown.
    """

    node: int
    kind: DependenceKind
    source: int
    sink: int
    count: int
    least_distance: int
    most_distance: int
    operation: str = ""
    where: str = ""


@dataclass(frozen=True, slots=True)
class ExaminedLoop:
    """A loop whose dependences were looked for, in `iterations` of its iterations. Where no `Dependence` names the
    node, none was seen. This is evidence of one run with one input.

    `written_bytes` are those its iterations stored, each byte once an iteration; `overwritten_bytes` those of them that
    an earlier iteration of the same entry had stored too. Variables in stack frames and what allocators keep are left
    out.
    """

    node: int
    iterations: int
    written_bytes: int = 0
    overwritten_bytes: int = 0

    @property
    def overwritten(self) -> float:
        """The share of what is stored that an earlier iteration had stored too; 0 where nothing is."""
        return self.overwritten_bytes / self.written_bytes if self.written_bytes else 0.0


def check_data_flow(flow: DataFlow, num_nodes: int) -> None:
    """Refuse a data flow whose parts do not fit together, or the execution tree.

    Raises:
        ValueError: says what is wrong.
    """
    starts, nodes = flow.set_starts, flow.set_nodes
    if len(starts) < 2 or starts[0] != 0 or starts[1] != 0 or starts[-1] != len(nodes) or np.any(np.diff(starts) < 0):
        raise ValueError("the sets of the data flow do not fit together")
    if np.any(nodes < 0) or np.any(nodes >= num_nodes):
        raise ValueError("the data flow names a node that does not exist")
    num_sets = len(starts) - 1
    rows = (
        (flow.flow_writer, OUTSIDE, num_nodes, flow.flow_readers, flow.flow_bytes),
        (flow.touched_object, 0, len(flow.objects), flow.touched_by, flow.touched_bytes),
    )
    for of_one, least, bound, of_set, values in rows:
        if not len(of_one) == len(of_set) == len(values):
            raise ValueError("the columns of the data flow differ in length")
        if np.any(of_one < least) or np.any(of_one >= bound) or np.any(of_set < 0) or np.any(of_set >= num_sets):
            raise ValueError("the data flow names a node, an object or a set that does not exist")
        if not np.all(np.isfinite(values)) or np.any(values < 0):
            raise ValueError("bytes of the data flow are negative or no number")
    if not len(flow.flow_allocation) == len(flow.flow_by_system) == len(flow.flow_bytes):
        raise ValueError("the columns of the data flow differ in length")
    by_nodes_too = np.any(flow.flow_writer[flow.flow_by_system] >= 0)
    if len(flow.set_has_system) != num_sets or flow.set_has_system[0] or by_nodes_too:
        raise ValueError("the system's part of the data flow does not fit the rest")
    of_allocations = (flow.flow_allocation, np.array([one.allocation for one in flow.objects], np.int64))
    if any(np.any(column < -1) or np.any(column >= len(flow.allocations)) for column in of_allocations):
        raise ValueError("the data flow names an allocation that does not exist")
    if any(not 0 <= number <= LARGEST for one in flow.allocations for number in (one.count, one.total_bytes, one.line)):
        raise ValueError("an allocation of the data flow has impossible figures")
    if len(flow.node_place):
        if len(flow.node_place) != num_nodes or np.any(flow.node_place < 0) or np.any(flow.node_place >= num_nodes):
            raise ValueError("the data flow counts nodes for ones that do not exist")
        counts = flow.node_place == np.arange(num_nodes)
        if not np.all(counts[flow.node_place]) or not np.all(counts[nodes]):
            raise ValueError("the data flow names a node that counts for another one")
        if not np.all(np.append(counts, True)[flow.flow_writer]):
            raise ValueError("the data flow names a node that counts for another one")
    if not 0 < flow.sampled_share <= 1 or not 0 <= flow.relative_error < np.inf or not 0 <= flow.merged_bytes < np.inf:
        raise ValueError("the data flow's sampling is impossible")
    if any(not 0 <= one.first <= one.last_exclusive <= LARGEST for one in flow.objects):
        raise ValueError("an object of the data flow ends before it begins, or after all memory")


def check_dependences(
    dependences: tuple[Dependence, ...], examined: tuple[ExaminedLoop, ...], num_nodes: int, num_operations: int
) -> None:
    """Refuse dependences of loops or operations that do not exist.

    Raises:
        ValueError: says what is wrong.
    """
    if any(not 0 <= one.node < num_nodes or not 0 <= one.iterations <= LARGEST for one in examined):
        raise ValueError("a loop whose dependences were examined does not exist")
    if any(not 0 <= one.overwritten_bytes <= one.written_bytes <= LARGEST for one in examined):
        raise ValueError("a loop overwrites more bytes than it writes")
    nodes = {one.node for one in examined}
    if len(nodes) != len(examined):
        raise ValueError("a loop was examined for dependences twice")
    for one in dependences:
        operations_exist = all(-1 <= number < num_operations for number in (one.source, one.sink))
        if not 0 <= one.node < num_nodes or not operations_exist:
            raise ValueError("a dependence is of a loop or an operation that does not exist")
        if one.node not in nodes:
            raise ValueError("a dependence is of a loop that was not examined")
        if not 0 <= one.count <= LARGEST or not 0 <= one.least_distance <= one.most_distance <= LARGEST:
            raise ValueError("a dependence has an impossible count or distance")
        if one.operation not in OPERATIONS:
            raise ValueError("a dependence is by an impossible operation")
