"""What `foretrace info --data-flow` prints: which node of the execution tree uses whose data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from foretrace.terminal import console, plain
from foretrace.tracer.signature.data_flow_records import OUTSIDE, DataFlow
from foretrace.tracer.signature.tree_records import ExecutionTree
from foretrace.units import format_bytes

from .tree_reports import node_names

_MAX_READERS = 4
"""Named in a row; the others are counted."""

_MAX_OBJECTS = 3


@dataclass(frozen=True, slots=True)
class NodeBytes:
    """What a node exchanges with all others, in bytes: `live_in` is what it reads of theirs, or of what was there
    before; `live_out` what others read of its versions, and those nobody has read; `footprint` what it touches."""

    node: int
    live_in: float
    live_out: float
    footprint: float


def nodes_of(flow: DataFlow, num_nodes: int) -> list[NodeBytes]:
    """All nodes that read, write or touch anything."""
    found = []
    for node in sorted({*flow.set_nodes.tolist(), *flow.flow_writer[flow.flow_writer != OUTSIDE].tolist()}):
        one = np.zeros(num_nodes, bool)
        one[node] = True
        live_in, live_out = flow.crossing_bytes(one)
        unread = (flow.flow_writer == node) & (flow.flow_readers == 0)
        live_out += float(flow.flow_bytes[unread].sum())
        found.append(NodeBytes(node, live_in, live_out, flow.footprint_bytes(one)))
    return found


def readers_of(flow: DataFlow, number: int) -> list[int]:
    """The nodes of a set."""
    members: list[int] = flow.set_nodes[flow.set_starts[number] : flow.set_starts[number + 1]].tolist()
    return members


def _hottest(flow: DataFlow) -> list[int]:
    """The rows by bytes, without what a node alone writes and reads."""
    order: list[int] = np.argsort(-flow.flow_bytes, kind="stable").tolist()
    return [row for row in order if readers_of(flow, int(flow.flow_readers[row])) != [int(flow.flow_writer[row])]]


def objects_of(flow: DataFlow, row: int) -> list[str]:
    """The objects of which the writer and all readers of a flow touch the same bytes, by how many: static variables by
    name, others by kind. They are where the flow may be: versions have no addresses."""
    members = {*readers_of(flow, int(flow.flow_readers[row])), int(flow.flow_writer[row])} - {OUTSIDE}
    is_shared = np.ones(len(flow.set_starts) - 1, bool)
    for node in members:
        is_shared &= flow.sets_with(np.arange(max(flow.set_nodes.max(initial=0), node) + 1) == node)
    num_bytes: dict[str, float] = {}
    for touched in np.flatnonzero(is_shared[flow.touched_by]).tolist():
        one = flow.objects[int(flow.touched_object[touched])]
        name = one.name or one.kind.name.lower()
        num_bytes[name] = num_bytes.get(name, 0.0) + float(flow.touched_bytes[touched])
    return sorted(num_bytes, key=lambda name: -num_bytes[name])[:_MAX_OBJECTS]


def show(tree: ExecutionTree, flow: DataFlow, top: int) -> None:
    """Print the hottest flows, and the nodes with the largest live-in and live-out."""
    out, names, total = console(), node_names(tree), float(flow.flow_bytes.sum())
    table = Table(title="Data flow between nodes of the execution tree", box=None, title_justify="left")
    for column, justify in (
        ("bytes", "right"),
        ("share", "right"),
        ("written by", "left"),
        ("read by", "left"),
        ("in", "left"),
    ):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for row in _hottest(flow)[:top]:
        num_bytes = float(flow.flow_bytes[row])
        share = num_bytes / total if total else 0.0
        writer, readers = int(flow.flow_writer[row]), readers_of(flow, int(flow.flow_readers[row]))
        who = "outside" if writer == OUTSIDE else plain(names[writer])
        table.add_row(
            format_bytes(num_bytes),
            f"{share:.1%}",
            who,
            _names(names, readers),
            plain(", ".join(objects_of(flow, row))),
        )
    out.print(table)
    nodes = sorted(nodes_of(flow, len(tree.kind)), key=lambda one: one.live_in + one.live_out, reverse=True)
    table = Table(title="Nodes", box=None, title_justify="left")
    for column, justify in (("live-in", "right"), ("live-out", "right"), ("footprint", "right"), ("node", "left")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for one in nodes[:top]:
        sizes = (format_bytes(size) for size in (one.live_in, one.live_out, one.footprint))
        table.add_row(*sizes, plain(names[one.node]))
    out.print(table)
    if flow.sampled_share < 1:
        out.print(f"sampled: 1 of {1 / flow.sampled_share:.0f} blocks at the end; error {flow.relative_error:.1%}")
    if flow.merged_bytes:
        out.print(f"{format_bytes(flow.merged_bytes)} had too many different sets of readers to tell apart")


def _names(names: Sequence[str], readers: Sequence[int]) -> str:
    if not readers:
        return "nobody"
    listed = ", ".join(plain(names[node]) for node in readers[:_MAX_READERS])
    return listed + (f" and {len(readers) - _MAX_READERS} more" if len(readers) > _MAX_READERS else "")


def document(tree: ExecutionTree, flow: DataFlow) -> dict[str, Any]:
    """The JSON face: all flows, and all nodes that have any. A writer of null is outside of the traced program."""
    names = node_names(tree)
    rows = zip(flow.flow_writer.tolist(), flow.flow_readers.tolist(), flow.flow_bytes.tolist(), strict=True)
    touched = zip(flow.touched_object.tolist(), flow.touched_by.tolist(), flow.touched_bytes.tolist(), strict=True)
    return {
        "schema": "foretrace.info.data_flow/1",
        "sampled_share": flow.sampled_share,
        "relative_error": flow.relative_error,
        "merged_bytes": flow.merged_bytes,
        "flows": [
            {"writer": None if writer == OUTSIDE else writer, "readers": readers_of(flow, readers), "bytes": num_bytes}
            for writer, readers, num_bytes in rows
        ],
        "nodes": [
            {
                "node": one.node,
                "name": names[one.node],
                "live_in_bytes": one.live_in,
                "live_out_bytes": one.live_out,
                "footprint_bytes": one.footprint,
            }
            for one in nodes_of(flow, len(tree.kind))
        ],
        "objects": [
            {"kind": one.kind.name.lower(), "name": one.name, "first": one.first, "last_exclusive": one.last_exclusive}
            for one in flow.objects
        ],
        "touched": [
            {"object": number, "nodes": readers_of(flow, by), "bytes": num_bytes} for number, by, num_bytes in touched
        ],
    }
