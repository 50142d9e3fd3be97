"""Data flow between the nodes of the execution tree, and dependences that loops carry from one iteration to the next.

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
from typing import Annotated

import numpy as np
import numpy.typing as npt

from . import schema
from .schema import Column, Flags, Floats, Ints, Scale, no_ints, packed_rows

OfNode = Annotated[int, Column(Scale.OWNER, of="tree_nodes", column="node_id")]
OperationOrNone = Annotated[int, Column(Scale.REFERENCE, of="memory_operations", null=-1)]

OPERATIONS = frozenset({"", "add", "multiply", "min", "max", "and", "or", "xor"})
"""Operations by which reductions and collisions combine values."""
OUTSIDE = -1
"""The writer of what no node wrote: static data, what the system read from a file, untouched pages."""


class ObjectKind(IntEnum):
    """Kind of memory that an object lies in."""

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
    first: schema.Lowest
    last_exclusive: schema.Highest
    allocation: Annotated[int, Column(Scale.REFERENCE, of="allocations", least=-1)] = -1


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
    count: schema.Count
    total_bytes: schema.Bytes


@dataclass(frozen=True, slots=True, eq=False)
class DataFlow:
    """Flow of data between the nodes of an execution tree: what they read and write of each other's.

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
    set_nodes: Annotated[
        Ints, Column(Scale.REFERENCE, of="tree_nodes", column="nodes", packed="<u4", length=("members",))
    ]
    flow_writer: Annotated[Ints, packed_rows("<i4", "writer", Scale.REFERENCE, of="tree_nodes", least=OUTSIDE)]
    flow_readers: Annotated[Ints, packed_rows("<u4", "readers", Scale.REFERENCE)]
    flow_bytes: Annotated[Floats, packed_rows("<f8", "bytes", Scale.COUNT, unit="bytes")]
    touched_object: Annotated[Ints, packed_rows("<u4", "object", Scale.REFERENCE, of="memory_objects")]
    touched_by: Annotated[Ints, packed_rows("<u4", "touched_by", Scale.REFERENCE)]
    touched_bytes: Annotated[Floats, packed_rows("<f8", "bytes", Scale.COUNT, unit="bytes")]
    objects: tuple[MemoryObject, ...]
    sampled_share: Annotated[float, Column(Scale.SHARE, most=1)] = 1.0
    relative_error: Annotated[float, Column(Scale.SHARE)] = 0.0
    merged_bytes: Annotated[float, Column(Scale.COUNT, "bytes")] = 0.0
    allocations: tuple[Allocation, ...] = ()
    flow_allocation: Annotated[Ints, packed_rows("<i4", "allocation", Scale.REFERENCE, of="allocations", least=-1)] = (
        field(default_factory=no_ints)
    )
    flow_by_system: Annotated[Flags, packed_rows("<u1", "by_system")] = field(
        default_factory=lambda: np.zeros(0, np.bool_)
    )
    set_has_system: Annotated[Flags, Column(column="has_system", packed="<u1", length=("sets",))] = field(
        default_factory=lambda: np.zeros(0, np.bool_)
    )
    node_place: Annotated[Ints, packed_rows("<u4", "place", Scale.REFERENCE, of="tree_nodes")] = field(
        default_factory=lambda: np.zeros(0, np.int64)
    )

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
    """Kind of dependence that a loop was seen to carry from one iteration to a later one."""

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

    node: OfNode
    kind: DependenceKind
    source: OperationOrNone
    sink: OperationOrNone
    count: schema.Count
    least_distance: schema.Lowest
    most_distance: schema.Highest
    operation: str = ""
    where: Annotated[str, Column(column="place")] = ""


@dataclass(frozen=True, slots=True)
class ExaminedLoop:
    """A loop whose dependences were looked for, in `iterations` of its iterations. Where no `Dependence` names the
    node, none was seen. This is evidence of one run with one input.

    `written_bytes` are those its iterations stored, each byte once an iteration; `overwritten_bytes` those of them that
    an earlier iteration of the same entry had stored too. Variables in stack frames and what allocators keep are left
    out.
    """

    node: OfNode
    iterations: schema.Count
    written_bytes: schema.Bytes = 0
    overwritten_bytes: schema.Bytes = 0

    @property
    def overwritten(self) -> float:
        """The share of what is stored that an earlier iteration had stored too; 0 where nothing is."""
        return self.overwritten_bytes / self.written_bytes if self.written_bytes else 0.0


def check_data_flow(flow: DataFlow, num_nodes: int) -> None:
    """Refuse a data flow whose columns, each of them allowed, do not fit together, or the execution tree.

    Raises:
        ValueError: says what is wrong.
    """
    starts, nodes = flow.set_starts, flow.set_nodes
    if len(starts) < 2 or starts[0] != 0 or starts[1] != 0 or starts[-1] != len(nodes) or np.any(np.diff(starts) < 0):
        raise ValueError("the sets of the data flow do not fit together")
    num_sets, versions, touched = len(starts) - 1, len(flow.flow_bytes), len(flow.touched_bytes)
    lengths = (
        (flow.flow_writer, versions), (flow.flow_readers, versions), (flow.flow_allocation, versions),
        (flow.flow_by_system, versions), (flow.touched_object, touched), (flow.touched_by, touched),
        (flow.set_has_system, num_sets), (flow.node_place, len(flow.node_place) and num_nodes),
    )  # fmt: skip
    if any(len(column) != length for column, length in lengths):
        raise ValueError("the columns of the data flow differ in length")
    if any(np.any(sets >= num_sets) for sets in (flow.flow_readers, flow.touched_by)):
        raise ValueError("the data flow names a set that does not exist")
    if flow.set_has_system[0] or np.any(flow.flow_writer[flow.flow_by_system] >= 0):
        raise ValueError("the system's part of the data flow does not fit the rest")
    if len(flow.node_place):
        counts = flow.node_place == np.arange(num_nodes)
        if not all(map(np.all, (counts[flow.node_place], counts[nodes], np.append(counts, True)[flow.flow_writer]))):
            raise ValueError("the data flow names a node that counts for another one")
    if not flow.sampled_share > 0:
        raise ValueError("the data flow's sampling is impossible")
    if any(one.first > one.last_exclusive for one in flow.objects):
        raise ValueError("an object of the data flow ends before it begins")


def check_dependences(dependences: tuple[Dependence, ...], examined: tuple[ExaminedLoop, ...]) -> None:
    """Refuse dependences whose columns, each of them allowed, do not fit together.

    Raises:
        ValueError: says what is wrong.
    """
    if any(one.overwritten_bytes > one.written_bytes for one in examined):
        raise ValueError("a loop overwrites more bytes than it writes")
    nodes = {one.node for one in examined}
    if len(nodes) != len(examined):
        raise ValueError("a loop was examined for dependences twice")
    for one in dependences:
        if one.node not in nodes:
            raise ValueError("a dependence is of a loop that was not examined")
        if one.least_distance > one.most_distance:
            raise ValueError("a dependence has an impossible distance")
        if one.operation not in OPERATIONS:
            raise ValueError("a dependence is by an impossible operation")
