"""The tables of software-defined events.

`events.value` is NULL where the event could not be read, and where it is not a number (NaN), for which SQLite has no
other value; `unread` is empty then. A recorder has as many parts of `PART_VALUES` values as it needs; `steps` are the
differences of `RecordedValues.kept_index`, the first one from -1. `value_bytes` is NULL for numbers, which are of the
event's type. `sampled` and `executions` have a row for each sample, the latter what a node ran since the one before.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from . import schema
from .event_records import (
    MOST_KEPT_BYTES,
    MOST_SAMPLES,
    NO_EVENTS,
    NUM_QUANTILES,
    VALUE_DTYPES,
    EventElement,
    Events,
    EventSamples,
    RecordedEvent,
    RecordedValues,
    check_events,
)
from .packed_arrays import packed, unpacked
from .records import Signature
from .schema import Column, Scale, StoredTables, Table, columns, columns_of, fields_of, made, transposed, values_of

PART_VALUES = 1 << 20
_EVENT = columns_of(RecordedEvent, skip=("values", "elements"))
_SAMPLES = ("position", "events", "values", "nodes", "executions")
_EventId = Annotated[int, Column(Scale.OWNER, of="events")]


def _any_events(signature: Signature) -> Events | None:
    events = signature.events
    return events if events.events or events.samples or events.lost_bytes else None


def _recorders(events: Events) -> Iterator[tuple[int, RecordedValues]]:
    return ((number, event.values) for number, event in enumerate(events.events) if event.values is not None)


def _recorder(number: int, values: RecordedValues) -> tuple[Any, ...]:
    quantiles = packed(values.quantiles, "<f8") if len(values.quantiles) else None
    return number, quantiles, len(values.kept), None if values.are_numbers else values.kept.shape[1]


def _parts(number: int, values: RecordedValues) -> Iterator[tuple[Any, ...]]:
    steps = np.diff(values.kept_index, prepend=-1)
    kind = values.kept.dtype.newbyteorder("<").str
    for part, first in enumerate(range(0, len(steps), PART_VALUES)):
        rows = slice(first, first + PART_VALUES)
        yield number, part, packed(steps[rows], "<u8"), packed(values.kept[rows], kind)


def _samples(events: Events) -> Iterator[Sequence[Any]]:
    every = events.samples
    yield [samples.process for samples in every]
    for name in ("position", "events", "nodes"):
        yield [len(getattr(samples, name)) for samples in every]
    yield from fields_of(every, _SAMPLES[:-1])
    yield [np.diff(samples.executions, axis=0, prepend=0) for samples in every]


EVENT_TABLES = (
    Table(
        "events",
        "A software-defined event of a process.",
        columns(event_id=schema.Identity) | _EVENT,
        lambda events: (range(len(events.events)), *fields_of(events.events, _EVENT)),
        _any_events,
        order="",
    ),
    Table(
        "event_recorders",
        "What a recorder recorded.",
        columns(
            event_id=_EventId,
            quantiles=bytes | None,
            kept=schema.Count,
            value_bytes=Annotated[int, Column(unit="bytes", least=1, most=MOST_KEPT_BYTES)] | None,
        ),
        lambda events: transposed(_recorder(*one) for one in _recorders(events)),
        _any_events,
        order="",
    ),
    Table(
        "event_values",
        "A part of the values of a recorder.",
        columns(event_id=_EventId, part=int, steps=bytes, content=bytes),
        lambda events: transposed(part for one in _recorders(events) for part in _parts(*one)),
        _any_events,
        order="event_id, part",
    ),
    Table(
        "event_elements",
        "An element of a counting set.",
        columns(event_id=_EventId) | columns_of(EventElement),
        lambda events: transposed((i, *values_of(one)) for i, it in enumerate(events.events) for one in it.elements),
        _any_events,
    ),
    Table(
        "event_samples",
        "Values of a process's events while it ran, and the work that nodes had done by then.",
        columns(
            process=int,
            samples=Annotated[int, Column(most=MOST_SAMPLES)],
            num_events=Annotated[int, Column(column="events")],
            num_nodes=Annotated[int, Column(column="nodes")],
        )
        | columns_of(EventSamples, *_SAMPLES),
        _samples,
        _any_events,
        order="",
    ),
    Table(
        "events_lost",
        "Bytes of events for which there was no memory; no row where there are no events.",
        columns_of(Events, "lost_bytes"),
        lambda events: ([events.lost_bytes],),
        _any_events,
    ),
)


def read_events(stored: StoredTables, processes: Collection[int]) -> Events:
    """The events of a signature with processes of these numbers.

    Raises:
        ValueError: the tables do not fit together.
    """
    head = stored.row("events_lost")
    if head is None:
        return NO_EVENTS
    found = stored.columns("events")
    pairs = zip(found["value"], found["unread"], strict=True)
    found["value"] = [math.nan if value is None and not unread else value for value, unread in pairs]
    values, elements = _read_values(stored, found["type"]), stored.parts(EventElement, "event_elements")
    found["values"] = map(values.get, found["event_id"])
    found["elements"] = [elements.get(number, ()) for number in found["event_id"]]
    samples = stored.columns("event_samples")
    for steps in samples["executions"]:
        if np.any(np.sum(steps, axis=0, dtype=np.float64) >= 1 << 62):
            raise ValueError("event_samples.executions has impossibly many")
    samples["executions"] = [np.cumsum(steps, axis=0) for steps in samples["executions"]]
    events = Events(made(RecordedEvent, found), made(EventSamples, samples), head["lost_bytes"])
    check_events(events, processes)
    return events


def _read_values(stored: StoredTables, types: Sequence[str]) -> dict[int, RecordedValues]:
    """Values of the recorders, by the events' numbers. `types`: of the events."""
    parts: dict[int, list[tuple[Any, ...]]] = {}
    for number, *part in zip(*stored.columns("event_values").values(), strict=True):
        parts.setdefault(number, []).append(tuple(part))
    found = {}
    bytes_left = MOST_KEPT_BYTES
    for number, quantiles, kept, value_bytes in zip(*stored.columns("event_recorders").values(), strict=True):
        if value_bytes is None and types[number] not in VALUE_DTYPES:
            raise ValueError("event_recorders.event_id names an event that is no recorder")
        dtype = VALUE_DTYPES[types[number]] if value_bytes is None else np.dtype(np.uint8)
        width = value_bytes or 1
        bytes_left -= kept * width * dtype.itemsize
        if bytes_left < 0:
            raise ValueError(f"recorders keep more than {MOST_KEPT_BYTES >> 30} GiB")
        steps, content = _joined(parts.pop(number, []), kept, width, dtype)
        if np.any(steps < 1) or np.sum(steps, dtype=np.float64) >= 1 << 62:
            raise ValueError("the values of a recorder are not in order")
        found[number] = RecordedValues(
            np.zeros(0)
            if quantiles is None
            else unpacked(quantiles, "<f8", NUM_QUANTILES, "event_recorders.quantiles"),
            np.cumsum(steps) - 1,
            content if value_bytes is None else content.reshape(kept, width),
        )
    if parts:
        raise ValueError("event_values.event_id names an event that is no recorder")
    return found


def _joined(
    parts: Sequence[tuple[Any, ...]], kept: int, width: int, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """The steps and values of one recorder."""
    steps, content = np.zeros(kept, np.int64), np.zeros(kept * width, dtype)
    if [part[0] for part in parts] != list(range(-(-kept // PART_VALUES))):
        raise ValueError("event_values.part is not 0, 1, 2, ...")
    kind = dtype.newbyteorder("<").str
    for part, its_steps, its_content in parts:
        first, last = part * PART_VALUES, min((part + 1) * PART_VALUES, kept)
        steps[first:last] = unpacked(its_steps, "<u8", last - first, "event_values.steps").astype(np.int64)
        content[first * width : last * width] = unpacked(
            its_content, kind, (last - first) * width, "event_values.content"
        )
    return steps, content
