"""What loops carry, in a signature on disk. Like the rest of a signature, all of it may come from anyone."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from .data_flow_records import Dependence, DependenceKind, ExaminedLoop, check_dependences

SCHEMA = {
    "examined_loops": (
        "CREATE TABLE examined_loops (node_id INTEGER PRIMARY KEY, iterations INTEGER NOT NULL, "
        "written_bytes INTEGER NOT NULL, overwritten_bytes INTEGER NOT NULL)"
    ),
    "dependences": (
        "CREATE TABLE dependences (node_id INTEGER NOT NULL, kind TEXT NOT NULL, source INTEGER, sink INTEGER, "
        "count INTEGER NOT NULL, least_distance INTEGER NOT NULL, most_distance INTEGER NOT NULL, "
        "operation TEXT NOT NULL, place TEXT NOT NULL)"
    ),
}
"""Kinds are names in lower case; `source` and `sink` are memory operations, or NULL."""


def insert_dependences(
    dependences: Iterable[Dependence],
    examined: Iterable[ExaminedLoop],
    insert: Callable[[str, Iterable[tuple[Any, ...]]], None],
) -> None:
    """Write the tables: `insert` takes a table and its rows."""
    insert("examined_loops", map(dataclasses.astuple, examined))
    insert("dependences", map(_row, dependences))


def _row(one: Dependence) -> tuple[Any, ...]:
    source, sink = (number if number >= 0 else None for number in (one.source, one.sink))
    distances = (one.least_distance, one.most_distance)
    return one.node, one.kind.name.lower(), source, sink, one.count, *distances, one.operation, one.where


def read_dependences(
    database: sqlite3.Connection, num_nodes: int, num_operations: int, as_text: Callable[[Any], Any]
) -> tuple[tuple[Dependence, ...], tuple[ExaminedLoop, ...]]:
    """Read the tables. `as_text` restores names that are not UTF-8.

    Raises:
        ValueError: they do not fit together, or the rest of the signature.
        msgspec.ValidationError: a value is of the wrong type.
    """
    loops = database.execute("SELECT * FROM examined_loops ORDER BY node_id").fetchall()
    rows_of_loops = msgspec.convert(loops, type=list[tuple[int, int, int, int]], strict=True)
    examined = tuple(ExaminedLoop(*row) for row in rows_of_loops)
    rows = database.execute("SELECT * FROM dependences").fetchall()
    found = tuple(_dependence((*row[:-1], as_text(row[-1]))) for row in rows)
    check_dependences(found, examined, num_nodes, num_operations)
    return found, examined


def _dependence(row: tuple[Any, ...]) -> Dependence:
    types = tuple[int, str, int | None, int | None, int, int, int, str, str]
    node, kind, source, sink, count, least, most, operation, where = msgspec.convert(row, type=types, strict=True)
    kinds = {kind.name.lower(): kind for kind in DependenceKind}
    if kind not in kinds:
        raise ValueError("a dependence is of an impossible kind")
    begin, end = (-1 if number is None else number for number in (source, sink))
    return Dependence(node, kinds[kind], begin, end, count, least, most, operation, where)
