"""Software-defined events of a signature on disk. Like the rest of a signature, all of it may come from anyone."""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from .event_records import (
    MOST_KEPT_BYTES,
    MOST_SAMPLES,
    NO_EVENTS,
    NUM_QUANTILES,
    VALUE_DTYPES,
    EventElement,
    EventKind,
    Events,
    EventSamples,
    RecordedEvent,
    RecordedValues,
    check_events,
)
from .packed_arrays import packed, unpacked

SCHEMA = {
    "events": (
        "CREATE TABLE events (event_id INTEGER PRIMARY KEY, process INTEGER NOT NULL, library TEXT NOT NULL, "
        "name TEXT NOT NULL, kind TEXT NOT NULL, type TEXT NOT NULL, is_instant INTEGER NOT NULL, "
        "description TEXT NOT NULL, value, unread TEXT NOT NULL)"
    ),
    "event_recorders": (
        "CREATE TABLE event_recorders (event_id INTEGER PRIMARY KEY, quantiles BLOB, kept INTEGER NOT NULL, "
        "value_bytes INTEGER)"
    ),
    "event_values": (
        "CREATE TABLE event_values (event_id INTEGER NOT NULL, part INTEGER NOT NULL, steps BLOB NOT NULL, "
        "content BLOB NOT NULL)"
    ),
    "event_elements": (
        "CREATE TABLE event_elements (event_id INTEGER NOT NULL, content BLOB NOT NULL, type_id INTEGER NOT NULL, "
        "count INTEGER NOT NULL)"
    ),
    "event_samples": (
        "CREATE TABLE event_samples (process INTEGER PRIMARY KEY, samples INTEGER NOT NULL, events INTEGER NOT NULL, "
        "nodes INTEGER NOT NULL, position BLOB NOT NULL, event_id BLOB NOT NULL, sampled BLOB NOT NULL, "
        "node_id BLOB NOT NULL, executions BLOB NOT NULL)"
    ),
    "events_lost": "CREATE TABLE events_lost (lost_bytes INTEGER NOT NULL)",
}
"""`events.value` is NULL where the event could not be read, and where it is not a number (NaN), for which SQLite has no
other value; `unread` is empty then. A recorder has as many parts of `PART_VALUES` values as it needs; `steps` are the
differences of `RecordedValues.kept_index`, the first one from -1. `value_bytes` is NULL for numbers, which are of the
event's type. `sampled` and `executions` have a row for each sample, the latter what a node ran since the one before.
`events_lost` has one row, or none where there are no events."""

PART_VALUES = 1 << 20


def insert_events(events: Events, insert: Callable[[str, Iterable[tuple[Any, ...]]], None]) -> None:
    """Write the tables: `insert` takes a table and its rows."""
    if not events.events and not events.samples and not events.lost_bytes:
        return
    insert("events_lost", [(events.lost_bytes,)])
    insert(
        "events",
        (
            (i, e.process, e.library, e.name, str(e.kind), e.type, e.is_instant, e.description, e.value, e.unread)
            for i, e in enumerate(events.events)
        ),
    )
    recorders = [(number, event.values) for number, event in enumerate(events.events) if event.values is not None]
    insert("event_recorders", (_recorder_row(number, values) for number, values in recorders))
    for number, values in recorders:
        insert("event_values", _value_rows(number, values))
    insert(
        "event_elements",
        ((i, one.content, one.type_id, one.count) for i, event in enumerate(events.events) for one in event.elements),
    )
    insert("event_samples", map(_sample_row, events.samples))


def _recorder_row(number: int, values: RecordedValues) -> tuple[Any, ...]:
    quantiles = packed(values.quantiles, "<f8") if len(values.quantiles) else None
    return number, quantiles, len(values.kept), None if values.are_numbers else values.kept.shape[1]


def _value_rows(number: int, values: RecordedValues) -> Iterator[tuple[Any, ...]]:
    steps = np.diff(values.kept_index, prepend=-1)
    kind = values.kept.dtype.newbyteorder("<").str
    for part, first in enumerate(range(0, len(steps), PART_VALUES)):
        rows = slice(first, first + PART_VALUES)
        yield number, part, packed(steps[rows], "<u8"), packed(values.kept[rows], kind)


def _sample_row(samples: EventSamples) -> tuple[Any, ...]:
    return (
        samples.process, len(samples.position), len(samples.events), len(samples.nodes),
        packed(samples.position, "<u8"), packed(samples.events, "<u4"), packed(samples.values, "<f8"),
        packed(samples.nodes, "<u4"), packed(np.diff(samples.executions, axis=0, prepend=0), "<u8"),
    )  # fmt: skip


def read_events(
    database: sqlite3.Connection, processes: Collection[int], num_nodes: int, as_text: Callable[[Any], Any]
) -> Events:
    """Read the tables. `as_text` restores names that are not UTF-8.

    Raises:
        ValueError: they do not fit together, or the rest of the signature: its processes, or its tree of `num_nodes`.
        msgspec.ValidationError: a value is of the wrong type.
    """
    heads = database.execute("SELECT * FROM events_lost").fetchall()
    if not heads:
        if any(database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in SCHEMA):
            raise ValueError("it has parts of events, but none")
        return NO_EVENTS
    if len(heads) > 1:
        raise ValueError("it has several sets of events")
    rows = [
        msgspec.convert(
            (number, process, as_text(library), as_text(name), *others, as_text(description), value, as_text(unread)),
            type=tuple[int, int, str, str, str, str, int, str, int | float | None, str], strict=True,
        )
        for number, process, library, name, *others, description, value, unread in database.execute(
            "SELECT * FROM events ORDER BY event_id"
        )
    ]  # fmt: skip
    kinds = set(EventKind)
    if any(number != row[0] or row[4] not in kinds or row[6] not in (0, 1) for number, row in enumerate(rows)):
        raise ValueError("events are not numbered 0, 1, 2, ..., or of an impossible kind")
    values = _read_values(database, [row[5] for row in rows])
    elements = _read_elements(database, len(rows))
    events = Events(
        events=tuple(
            RecordedEvent(
                process, library, name, EventKind(kind), of_type, bool(is_instant), description,
                math.nan if value is None and not unread else value, unread, values.get(number),
                tuple(elements[number]),
            )
            for number, process, library, name, kind, of_type, is_instant, description, value, unread in rows
        ),
        samples=tuple(
            _samples(row, len(rows), num_nodes)
            for row in database.execute("SELECT * FROM event_samples ORDER BY process")
        ),
        lost_bytes=msgspec.convert(heads[0][0], type=int, strict=True),
    )  # fmt: skip
    check_events(events, processes, num_nodes)
    return events


def _read_elements(database: sqlite3.Connection, num_events: int) -> dict[int, list[EventElement]]:
    found: dict[int, list[EventElement]] = defaultdict(list)
    for number, content, type_id, count in database.execute("SELECT * FROM event_elements ORDER BY rowid"):
        if not isinstance(content, bytes) or not all(type(one) is int for one in (number, type_id, count)):
            raise ValueError("an element of a counting set is of an impossible type")
        if not 0 <= number < num_events:
            raise ValueError("elements are of an event that does not exist")
        found[number].append(EventElement(content, type_id, count))
    return found


def _read_values(database: sqlite3.Connection, types: list[str]) -> dict[int, RecordedValues]:
    """What recorders recorded, by the events' numbers. `types`: of the events."""
    found = {}
    bytes_left = MOST_KEPT_BYTES
    num_parts = 0
    for row in database.execute("SELECT event_id, kept, value_bytes, quantiles FROM event_recorders ORDER BY event_id"):
        number, kept, value_bytes = msgspec.convert(row[:3], type=tuple[int, int, int | None], strict=True)
        if not 0 <= number < len(types) or (value_bytes is None and types[number] not in VALUE_DTYPES):
            raise ValueError("values are of an event that does not exist, or is no recorder")
        dtype = VALUE_DTYPES[types[number]] if value_bytes is None else np.dtype(np.uint8)
        width = 1 if value_bytes is None else value_bytes
        bytes_left -= kept * width * dtype.itemsize
        if kept < 0 or not 0 < width <= MOST_KEPT_BYTES or bytes_left < 0:
            raise ValueError(f"recorders keep more than {MOST_KEPT_BYTES >> 30} GiB, or an impossible number of values")
        steps, content = _parts(database, number, kept, width, dtype)
        num_parts += -(-kept // PART_VALUES)
        if np.any(steps < 1) or np.sum(steps, dtype=np.float64) >= 1 << 62:
            raise ValueError("the values of a recorder are not in order")
        found[number] = RecordedValues(
            np.zeros(0) if row[3] is None else unpacked(row[3], "<f8", NUM_QUANTILES, "the quantiles of a recorder"),
            np.cumsum(steps) - 1, content if value_bytes is None else content.reshape(kept, width),
        )  # fmt: skip
    if database.execute("SELECT count(*) FROM event_values").fetchone()[0] != num_parts:
        raise ValueError("there are values of no recorder")
    return found


def _parts(
    database: sqlite3.Connection, number: int, kept: int, width: int, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """The steps and values of one recorder."""
    steps, content = np.zeros(kept, np.int64), np.zeros(kept * width, dtype)
    rows = database.execute(
        "SELECT part, steps, content FROM event_values WHERE event_id = ? ORDER BY part", (number,)
    ).fetchall()
    if [row[0] for row in rows] != list(range(-(-kept // PART_VALUES))):
        raise ValueError("parts of a recorder's values are missing")
    what = "a part of a recorder's values"
    for part, its_steps, its_content in rows:
        first, last = part * PART_VALUES, min((part + 1) * PART_VALUES, kept)
        steps[first:last] = unpacked(its_steps, "<u8", last - first, what).astype(np.int64)
        content[first * width : last * width] = unpacked(
            its_content, dtype.newbyteorder("<").str, (last - first) * width, what
        )
    return steps, content


def _samples(row: tuple[Any, ...], num_events: int, num_nodes: int) -> EventSamples:
    process, num_samples, events, nodes = msgspec.convert(row[:4], type=tuple[int, int, int, int], strict=True)
    if not (0 <= num_samples <= MOST_SAMPLES and 0 <= events <= num_events and 0 <= nodes <= num_nodes):
        raise ValueError("samples are of more events, nodes or moments than there can be")

    def column(number: int, kind: str, length: int) -> npt.NDArray[Any]:
        return unpacked(row[number], kind, length, "a column of the samples of events")

    steps = column(8, "<u8", num_samples * nodes).astype(np.int64).reshape(num_samples, nodes)
    if np.any(steps < 0) or np.any(np.sum(steps, axis=0, dtype=np.float64) >= 1 << 62):
        raise ValueError("a node's executions are impossible in samples of events")
    return EventSamples(
        process=process,
        events=column(5, "<u4", events).astype(np.int64),
        position=column(4, "<u8", num_samples).astype(np.int64),
        values=column(6, "<f8", num_samples * events).reshape(num_samples, events),
        nodes=column(7, "<u4", nodes).astype(np.int64),
        executions=np.cumsum(steps, axis=0),
    )
