"""Report of `foretrace info --data-flow`: which node of the execution tree uses whose data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from foretrace.base.units import format_bytes
from foretrace.tracer.signature.data_flow_records import OUTSIDE, Allocation, DataFlow, ObjectKind
from foretrace.tracer.signature.tree_records import ExecutionTree

from .left_out import rest_line
from .model import BYTES, COUNT, SHARE, Column, Report, Section, Table, Text, document_of
from .tree_reports import node_names

_MAX_READERS = 4
"""Named in a row; the others are counted."""

_MAX_OBJECTS = 3


class Named(Protocol):
    """An allocation, or what moves of one."""

    @property
    def name(self) -> str:
        """Name of the variable, array or file; "" where unknown."""

    @property
    def function(self) -> str:
        """Function that allocated it; "" where unknown."""

    @property
    def file(self) -> str:
        """Likewise."""

    @property
    def line(self) -> int:
        """Likewise; 0 where unknown."""


def allocation_name(one: Named, kind: str = "") -> str:
    """Name of an allocation for a reader of the source: its variable, and where it is allocated; else its `kind`."""
    kind = kind or str(getattr(one, "kind", ""))
    where = f"{PurePath(one.file).name}:{one.line}" if one.file else one.function
    if one.name:
        return f"{one.name} ({where})" if where else one.name
    return f"{kind} at {where}" if where else kind


@dataclass(frozen=True, slots=True)
class NodeBytes:
    """Data that a node exchanges with all others, in bytes: `live_in` is what it reads of theirs, or of what was there
    before; `live_out` what others read of its versions, and those nobody has read; `footprint` what it touches."""

    node: int
    live_in: float
    live_out: float
    footprint: float


def nodes_of(flow: DataFlow, num_nodes: int) -> list[NodeBytes]:
    """All nodes that read, write or touch anything."""
    lengths = np.diff(flow.set_starts)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    is_written = flow.flow_writer != OUTSIDE
    written = flow.flow_writer[is_written]
    own = np.isin(flow.flow_readers * num_nodes + flow.flow_writer, owner * num_nodes + flow.set_nodes) & is_written

    def of_members(of_set: npt.NDArray[np.int64], num_bytes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        by_set = np.bincount(of_set, num_bytes, len(lengths)).astype(np.float64)
        return np.bincount(flow.set_nodes, by_set[owner], num_nodes).astype(np.float64)

    live_in = of_members(flow.flow_readers, flow.flow_bytes)
    live_in -= np.bincount(flow.flow_writer[own], flow.flow_bytes[own], num_nodes)
    live_out = np.bincount(written, (flow.flow_bytes * _is_between(flow))[is_written], num_nodes)
    footprint = of_members(flow.touched_by, flow.touched_bytes)
    return [
        NodeBytes(node, float(live_in[node]), float(live_out[node]), float(footprint[node]))
        for node in sorted({*flow.set_nodes.tolist(), *written.tolist()})
    ]


def readers_of(flow: DataFlow, number: int) -> list[int]:
    """The nodes of a set."""
    members: list[int] = flow.set_nodes[flow.set_starts[number] : flow.set_starts[number + 1]].tolist()
    return members


def _hottest(flow: DataFlow) -> list[int]:
    """The rows by bytes, without what a node alone writes and reads."""
    order = np.argsort(-flow.flow_bytes, kind="stable")
    hottest: list[int] = order[_is_between(flow)[order]].tolist()
    return hottest


def _is_between(flow: DataFlow) -> npt.NDArray[np.bool_]:
    """[rows]: whether a flow is not of what one node alone writes and reads."""
    is_one = (np.diff(flow.set_starts) == 1) & ~flow.set_has_system
    first = np.append(flow.set_nodes, OUTSIDE)[flow.set_starts[:-1]]
    is_own = is_one[flow.flow_readers] & (first[flow.flow_readers] == flow.flow_writer)
    return np.asarray(~is_own, np.bool_)


@dataclass(frozen=True, slots=True)
class AllocationBytes:
    """Data flow through an allocation, in bytes: `touched` counts different bytes, `between` those that flow from one
    node, or from outside, to others. Of these the system wrote `read_in` and read `written_out`."""

    allocation: int
    touched: float
    between: float
    read_in: float
    written_out: float


def by_allocation(flow: DataFlow) -> list[AllocationBytes]:
    """All allocations that anything touched, most bytes between nodes first; -1 is what is not known."""
    between = flow.flow_bytes * _is_between(flow)
    between *= (flow.flow_readers > 0) | flow.set_has_system[flow.flow_readers]
    of_object = np.array([one.allocation for one in flow.objects], np.int64)
    width = len(flow.allocations) + 1

    def summed(number: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> list[float]:
        sums: list[float] = np.bincount(number + 1, values, width).tolist()
        return sums

    columns = zip(
        summed(of_object[flow.touched_object], flow.touched_bytes) if len(of_object) else [0.0] * width,
        summed(flow.flow_allocation, between),
        summed(flow.flow_allocation, flow.flow_bytes * flow.flow_by_system),
        summed(flow.flow_allocation, flow.flow_bytes * flow.set_has_system[flow.flow_readers]),
        strict=True,
    )
    found = [AllocationBytes(number - 1, *values) for number, values in enumerate(columns) if any(values)]
    return sorted(found, key=lambda one: (-one.between, -one.touched))


def _allocation(flow: DataFlow, number: int) -> str:
    one = flow.allocations[number]
    return allocation_name(one, one.kind.name.lower())


def objects_of(flow: DataFlow, row: int) -> list[str]:
    """Names of the objects that a flow belongs to: its allocation. If that is not known, the objects of which the
    writer and all readers touch the same bytes, by how many: static variables by name, others by kind; the flow may be
    of any of them."""
    number = int(flow.flow_allocation[row])
    if number >= 0:
        return [_allocation(flow, number)]
    members = {*readers_of(flow, int(flow.flow_readers[row])), int(flow.flow_writer[row])} - {OUTSIDE}
    hits = np.concatenate(([0], np.cumsum(np.isin(flow.set_nodes, list(members)))))
    is_shared = hits[flow.set_starts[1:]] - hits[flow.set_starts[:-1]] == len(members)
    num_bytes: dict[str, float] = {}
    for touched in np.flatnonzero(is_shared[flow.touched_by]).tolist():
        one = flow.objects[int(flow.touched_object[touched])]
        name = one.name or one.kind.name.lower()
        num_bytes[name] = num_bytes.get(name, 0.0) + float(flow.touched_bytes[touched])
    return sorted(num_bytes, key=lambda name: -num_bytes[name])[:_MAX_OBJECTS]


def data_flow_report(tree: ExecutionTree, flow: DataFlow, top: int) -> Report:
    """Report of `foretrace info --data-flow`: the hottest flows, nodes and allocations, `top` of each."""
    names, total = node_names(tree), float(flow.flow_bytes.sum())

    def writer(row: int) -> str:
        outside = "the system" if flow.flow_by_system[row] else "outside"
        number = int(flow.flow_writer[row])
        return outside if number == OUTSIDE else names[number]

    def readers(row: int) -> str:
        by = int(flow.flow_readers[row])
        return _names(names, readers_of(flow, by), has_system=bool(flow.set_has_system[by]))

    flows = Table(
        (
            Column("bytes", "bytes", BYTES, lambda row: float(flow.flow_bytes[row])),
            Column("share", "share", SHARE, lambda row: float(flow.flow_bytes[row]) / total if total else 0.0),
            Column("written_by", "written by", value=writer),
            Column("read_by", "read by", value=readers),
            Column("in", "in", value=lambda row: ", ".join(objects_of(flow, row))),
        ),
        hottest := _hottest(flow), "Data flow between nodes of the execution tree", shown=top,
        rest=rest_line([float(flow.flow_bytes[row]) for row in hottest], top, "flows", "bytes"),
    )  # fmt: skip
    nodes = _node_table(flow, names)
    live = [one.live_in + one.live_out for one in nodes.records]
    by_node = replace(nodes, shown=top, rest=rest_line(live, top, "nodes", "live bytes"))
    lines = ["not sampled: all memory was followed"]
    if flow.sampled_share < 1:
        lines = [
            f"sampled: 1 of {1 / flow.sampled_share:.0f} blocks at the end; standard error of all flow between nodes "
            f"{flow.relative_error:.1%}, of single flows more"
        ]
    if flow.merged_bytes:
        lines.append(f"{format_bytes(flow.merged_bytes)} had too many different sets of readers to tell apart")
    return Report(
        "Data flow", [flows, by_node, *_allocation_sections(flow, top), Text(lines)], flows,
        lambda: document(tree, flow),
    )  # fmt: skip


def _node_table(flow: DataFlow, names: Sequence[str]) -> Table:
    """Nodes that exchange data, most first."""
    columns = (
        Column("node"),
        Column("name", "node", value=lambda one: names[one.node]),
        Column("live_in_bytes", "live-in", BYTES, lambda one: one.live_in),
        Column("live_out_bytes", "live-out", BYTES, lambda one: one.live_out),
        Column("footprint_bytes", "footprint", BYTES, lambda one: one.footprint),
    )
    nodes = sorted(nodes_of(flow, len(names)), key=lambda one: -one.live_in - one.live_out)
    return Table(columns, nodes, "Nodes", ("live-in", "live-out", "footprint", "node"))


def _allocation_sections(flow: DataFlow, top: int) -> list[Section]:
    rows = by_allocation(flow)
    columns = (
        Column("touched_bytes", "touched", BYTES, lambda one: one.touched),
        Column("between_bytes", "between nodes", BYTES, lambda one: one.between),
        Column("read_in_bytes", "read in", BYTES, lambda one: one.read_in),
        Column("written_out_bytes", "written out", BYTES, lambda one: one.written_out),
        Column(
            "count", "times", COUNT,
            lambda one: None if one.allocation < 0 else flow.allocations[one.allocation].count,
        ),
        Column(
            "allocation", "allocation",
            value=lambda one: "not known" if one.allocation < 0 else _allocation(flow, one.allocation),
        ),
    )  # fmt: skip
    rest = rest_line([one.touched for one in rows], top, "allocations", "touched bytes")
    lines = []
    common = [one for one in rows if one.allocation >= 0 and _is_common(flow.allocations[one.allocation])]
    if common:
        size = format_bytes(sum(one.touched for one in common))
        lines.append(
            f"{size} of the heap are told apart by no allocation: allocators' own records, and all of it in programs "
            "whose allocator has no name in a symbol table (stripped static programs, allocators of their own)"
        )
    return [Table(columns, rows, "Allocations", shown=top, rest=rest), Text(lines)]


def _is_common(one: Allocation) -> bool:
    return one.kind == ObjectKind.HEAP and not one.name and not one.function and not one.file


def _names(names: Sequence[str], readers: Sequence[int], *, has_system: bool = False) -> str:
    if not readers:
        return "the system" if has_system else "nobody"
    listed = ", ".join(names[node] for node in readers[:_MAX_READERS])
    listed += ", the system" if has_system else ""
    return listed + (f" and {len(readers) - _MAX_READERS} more" if len(readers) > _MAX_READERS else "")


MOST_BYTES = {
    "flows": 3_000_000,
    "nodes": 2_000_000,
    "objects": 1_000_000,
    "allocations": 2_000_000,
    "touched": 1_500_000,
}
"""Size of the JSON text of each list, sets included: all together stay below 10 MB, whatever the program."""


class _Lists:
    """The lists of the document, each as long as its bound allows, and the sets that they name."""

    def __init__(self, flow: DataFlow) -> None:
        self._flow = flow
        self._numbers: dict[int, int] = {}
        self.sets: list[dict[str, Any]] = []
        self.left_out: dict[str, int] = {}

    def kept(
        self, name: str, rows: Iterable[dict[str, Any]], total: int, set_of: Callable[[int], int] | None = None
    ) -> list[dict[str, Any]]:
        """The first of `total` rows; `set_of` says which set of the data flow the row at a position is of."""
        found: list[dict[str, Any]] = []
        left = MOST_BYTES[name]
        for position, row in enumerate(rows):
            number = None if set_of is None else set_of(position)
            left -= _text_bytes(row) + (0 if number is None else self._set_bytes(number))
            if left < 0:
                break
            found.append(row if number is None else row | {"set": self._set(number)})
        self.left_out[name] = total - len(found)
        return found

    def _set_bytes(self, number: int) -> int:
        """Size of the text of a set that is not in the list yet, and of its number."""
        first, last = self._flow.set_starts[number : number + 2].tolist()
        return 32 if number in self._numbers else 96 + 20 * (last - first)

    def _set(self, number: int) -> int:
        if number not in self._numbers:
            self._numbers[number] = len(self.sets)
            has_system = bool(self._flow.set_has_system[number])
            self.sets.append({"nodes": readers_of(self._flow, number), "has_system": has_system})
        return self._numbers[number]


def _text_bytes(row: dict[str, Any]) -> int:
    """Size of a row in the printed document, or a little more."""
    return 16 + sum(len(json.dumps(key)) + len(json.dumps(value)) + 12 for key, value in row.items())


def document(tree: ExecutionTree, flow: DataFlow) -> dict[str, Any]:
    """The JSON face: flows, most bytes first, and nodes that have any, as many as have room. A writer of null is
    outside of the traced program. `set` is the place in `sets` of the nodes that read or touch."""
    lists = _Lists(flow)
    hottest: list[int] = np.argsort(-flow.flow_bytes, kind="stable").tolist()
    flows = lists.kept(
        "flows",
        (
            {
                "writer": None if (writer := int(flow.flow_writer[row])) == OUTSIDE else writer,
                "written_by_system": bool(flow.flow_by_system[row]),
                "allocation": None if (allocation := int(flow.flow_allocation[row])) < 0 else allocation,
                "bytes": float(flow.flow_bytes[row]),
            }
            for row in hottest
        ),
        len(hottest),
        lambda position: int(flow.flow_readers[hottest[position]]),
    )
    most: list[int] = np.argsort(-flow.touched_bytes, kind="stable").tolist()
    touched = lists.kept(
        "touched",
        ({"object": int(flow.touched_object[row]), "bytes": float(flow.touched_bytes[row])} for row in most),
        len(most),
        lambda position: int(flow.touched_by[most[position]]),
    )
    nodes = _node_table(flow, node_names(tree))
    return {
        "schema": "foretrace.info.data_flow/3",
        "sampled_share": flow.sampled_share,
        "relative_error": flow.relative_error,
        "merged_bytes": flow.merged_bytes,
        "total_bytes": float(flow.flow_bytes.sum()),
        "sets": lists.sets,
        "flows": flows,
        "nodes": lists.kept("nodes", (document_of(one, *nodes.columns) for one in nodes.records), len(nodes.records)),
        "objects": lists.kept(
            "objects",
            (
                {"kind": one.kind.name.lower()}
                | document_of(one, "name first last_exclusive")
                | {"allocation": None if one.allocation < 0 else one.allocation}
                for one in flow.objects
            ),
            len(flow.objects),
        ),
        "allocations": lists.kept(
            "allocations",
            (
                {"kind": one.kind.name.lower()} | document_of(one, "name function file line count total_bytes")
                for one in flow.allocations
            ),
            len(flow.allocations),
        ),
        "touched": touched,
        "left_out": lists.left_out
        | {
            "flow_bytes": float(flow.flow_bytes.sum()) - sum(row["bytes"] for row in flows),
        },
    }
