"""The data flow of a signature on disk. There can be very many rows: each column of them is one packed array.

Like the rest of a signature, all of it may come from anyone.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from .data_flow_records import Allocation, DataFlow, MemoryObject, ObjectKind, check_data_flow
from .packed_arrays import packed, unpacked

MAX_ROWS = 1 << 26
SCHEMA = {
    "data_flow": (
        "CREATE TABLE data_flow (sampled_share REAL NOT NULL, relative_error REAL NOT NULL, merged_bytes REAL NOT NULL)"
    ),
    "data_flow_sets": (
        "CREATE TABLE data_flow_sets (sets INTEGER NOT NULL, members INTEGER NOT NULL, lengths BLOB NOT NULL, "
        "nodes BLOB NOT NULL, has_system BLOB NOT NULL)"
    ),
    "data_flow_versions": (
        "CREATE TABLE data_flow_versions (rows INTEGER NOT NULL, writer BLOB NOT NULL, by_system BLOB NOT NULL, "
        "readers BLOB NOT NULL, allocation BLOB NOT NULL, bytes BLOB NOT NULL)"
    ),
    "data_flow_touched": (
        "CREATE TABLE data_flow_touched (rows INTEGER NOT NULL, object BLOB NOT NULL, touched_by BLOB NOT NULL, "
        "bytes BLOB NOT NULL)"
    ),
    "data_flow_nodes": "CREATE TABLE data_flow_nodes (rows INTEGER NOT NULL, place BLOB NOT NULL)",
    "memory_objects": (
        "CREATE TABLE memory_objects (object_id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, "
        "first INTEGER NOT NULL, last_exclusive INTEGER NOT NULL, allocation INTEGER NOT NULL)"
    ),
    "allocations": (
        "CREATE TABLE allocations (allocation_id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, "
        "function TEXT NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL, count INTEGER NOT NULL, "
        "total_bytes INTEGER NOT NULL)"
    ),
}
"""All but `memory_objects` and `allocations` have one row, or none where the data flow was not followed."""
SINCE_16 = ("data_flow_nodes",)
"""Tables that signatures of version 15 do not have."""


def insert_data_flow(flow: DataFlow | None, insert: Callable[[str, Iterable[tuple[Any, ...]]], None]) -> None:
    """Write the tables: `insert` takes a table and its rows."""
    if flow is None:
        return
    lengths = np.diff(flow.set_starts)
    insert("data_flow", [(flow.sampled_share, flow.relative_error, flow.merged_bytes)])
    insert(
        "data_flow_sets",
        [(len(lengths), len(flow.set_nodes), packed(lengths, "<u4"), packed(flow.set_nodes, "<u4"),
          packed(flow.set_has_system, "<u1"))],
    )  # fmt: skip
    columns: tuple[bytes, ...] = (
        packed(flow.flow_writer, "<i4"), packed(flow.flow_by_system, "<u1"), packed(flow.flow_readers, "<u4"),
        packed(flow.flow_allocation, "<i4"), packed(flow.flow_bytes, "<f8"),
    )  # fmt: skip
    insert("data_flow_versions", [(len(flow.flow_bytes), *columns)])
    columns = (packed(flow.touched_object, "<u4"), packed(flow.touched_by, "<u4"), packed(flow.touched_bytes, "<f8"))
    insert("data_flow_touched", [(len(flow.touched_bytes), *columns)])
    insert("data_flow_nodes", [(len(flow.node_place), packed(flow.node_place, "<u4"))])
    insert(
        "memory_objects",
        ((i, o.kind.name.lower(), o.name, o.first, o.last_exclusive, o.allocation) for i, o in enumerate(flow.objects)),
    )
    insert(
        "allocations",
        (
            (i, o.kind.name.lower(), o.name, o.function, o.file, o.line, o.count, o.total_bytes)
            for i, o in enumerate(flow.allocations)
        ),
    )


def read_data_flow(
    database: sqlite3.Connection, num_nodes: int, as_text: Callable[[Any], Any], *, has_nodes: bool
) -> DataFlow | None:
    """Read the tables; None where the data flow was not followed. `as_text` restores names that are not UTF-8;
    `has_nodes` says that the tables `SINCE_16` are there.

    Raises:
        ValueError: they do not fit together, or the execution tree of `num_nodes`.
        msgspec.ValidationError: a value is of the wrong type.
    """
    heads = database.execute("SELECT * FROM data_flow").fetchall()
    if not heads:
        others = [table for table in list(SCHEMA)[1:] if has_nodes or table not in SINCE_16]
        if any(database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in others):
            raise ValueError("it has parts of a data flow, but none")
        return None
    share, error, merged_bytes = msgspec.convert(heads[0], type=tuple[float, float, float], strict=True)
    (num_sets, num_members), (lengths, members, has_system) = _row(database, "data_flow_sets", 2)
    set_starts = np.concatenate(([0], np.cumsum(_column(lengths, "<u4", num_sets))))
    set_nodes = _column(members, "<u4", num_members)
    (num_versions,), (writer, by_system, readers, allocation, version_bytes) = _row(database, "data_flow_versions", 1)
    (num_touched,), (touched_object, touched_by, touched_bytes) = _row(database, "data_flow_touched", 1)
    place = np.zeros(0, np.int64)
    if has_nodes:
        (num_placed,), (places,) = _row(database, "data_flow_nodes", 1)
        place = _column(places, "<u4", num_placed)
    flow = DataFlow(
        set_starts=set_starts,
        set_nodes=set_nodes,
        flow_writer=_column(writer, "<i4", num_versions),
        flow_readers=_column(readers, "<u4", num_versions),
        flow_bytes=unpacked(version_bytes, "<f8", num_versions, "the bytes of the data flow"),
        touched_object=_column(touched_object, "<u4", num_touched),
        touched_by=_column(touched_by, "<u4", num_touched),
        touched_bytes=unpacked(touched_bytes, "<f8", num_touched, "the touched bytes"),
        objects=_objects(database, as_text),
        sampled_share=share,
        relative_error=error,
        merged_bytes=merged_bytes,
        allocations=_allocations(database, as_text),
        flow_allocation=_column(allocation, "<i4", num_versions),
        flow_by_system=_flags(by_system, num_versions),
        set_has_system=_flags(has_system, num_sets),
        node_place=place,
    )
    if len(heads) > 1 or not math.isfinite(share + error + merged_bytes):
        raise ValueError("its data flow has impossible figures")
    check_data_flow(flow, num_nodes)
    return flow


def _row(database: sqlite3.Connection, table: str, num_counts: int) -> tuple[list[int], list[Any]]:
    """The counts and the packed columns of a table of one row."""
    found = database.execute(f"SELECT * FROM {table}").fetchall()
    if len(found) != 1 or not all(type(n) is int and 0 <= n <= MAX_ROWS for n in found[0][:num_counts]):
        raise ValueError(f"{table} has an impossible number of rows")
    return list(found[0][:num_counts]), list(found[0][num_counts:])


def _column(blob: Any, kind: str, length: int) -> npt.NDArray[np.int64]:
    return unpacked(blob, kind, length, "a column of the data flow").astype(np.int64)


def _flags(blob: Any, length: int) -> npt.NDArray[np.bool_]:
    values = unpacked(blob, "<u1", length, "a column of the data flow")
    if np.any(values > 1):
        raise ValueError("a flag of the data flow is neither 0 nor 1")
    return values.astype(np.bool_)


def _allocations(database: sqlite3.Connection, as_text: Callable[[Any], Any]) -> tuple[Allocation, ...]:
    kinds = {kind.name.lower(): kind for kind in ObjectKind}
    found: list[Allocation] = []
    for row in database.execute("SELECT * FROM allocations ORDER BY allocation_id"):
        values = (*row[:2], *map(as_text, row[2:5]), *row[5:])
        number, kind, name, function, file, line, count, size = msgspec.convert(
            values, type=tuple[int, str, str, str, str, int, int, int], strict=True
        )
        if number != len(found) or kind not in kinds:
            raise ValueError("an allocation of the data flow is numbered out of order, or of an impossible kind")
        found.append(Allocation(kinds[kind], name, function, file, line, count, size))
    return tuple(found)


def _objects(database: sqlite3.Connection, as_text: Callable[[Any], Any]) -> tuple[MemoryObject, ...]:
    kinds = {kind.name.lower(): kind for kind in ObjectKind}
    objects: list[MemoryObject] = []
    for row in database.execute("SELECT * FROM memory_objects ORDER BY object_id"):
        values = (*row[:2], as_text(row[2]), *row[3:])
        number, kind, name, first, last, allocation = msgspec.convert(
            values, type=tuple[int, str, str, int, int, int], strict=True
        )
        if number != len(objects) or kind not in kinds:
            raise ValueError("an object of the data flow is numbered out of order, or of an impossible kind")
        objects.append(MemoryObject(kinds[kind], name, first, last, allocation))
    return tuple(objects)
