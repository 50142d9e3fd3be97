"""Software-defined events of a run: what its libraries said that they did."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from . import schema
from .schema import Column, Floats, Ints, Scale

NUM_QUANTILES = 1001
"""Number of quantiles of a recorder: those of 0, 0.001, ..., 1."""
MOST_KEPT_VALUES = 10_000
"""Values kept of a recorder, in the order in which they were recorded, where not all are asked for."""
MOST_SAMPLES = 256
"""At which the values of events are known, while the program ran."""
MOST_KEPT_BYTES = 1 << 30
"""Bytes kept of all recorders of a signature."""
VALUE_DTYPES: dict[str, np.dtype[Any]] = {
    "long long": np.dtype(np.int64), "int": np.dtype(np.int32), "double": np.dtype(np.float64),
    "float": np.dtype(np.float32),
}  # fmt: skip
"""By `RecordedEvent.type`; values of a recorder of any other type are bytes."""
_UNIT = re.compile(r"\[([^\[\]]{1,24})\]\s*$")


class EventKind(StrEnum):
    """Source of an event's value."""

    PLACEHOLDER = "placeholder"  # asked for, but registered by no library
    REGISTERED = "registered"  # a variable of the program
    CALLBACK = "callback"
    CREATED = "created"
    RECORDER = "recorder"
    SET = "set"
    GROUP = "group"


@dataclass(frozen=True, slots=True, eq=False)
class RecordedValues:
    """Values of a recorder: their quantiles, and those that were kept.

    Attributes:
        quantiles: float64 [NUM_QUANTILES] of all values but NaN, by linear interpolation: exact but for rounding. Empty
            if there is no number.
        kept_index: int64 [kept], rising: which values were kept, of 0 to count - 1, evenly spread.
        kept: those values: [kept] of the recorder's type, or uint8 [kept, bytes of a value] if they are no numbers. In
            the order in which each thread recorded them, one thread after the other.
    """

    quantiles: npt.NDArray[np.float64]
    kept_index: npt.NDArray[np.int64]
    kept: npt.NDArray[Any]

    @property
    def are_numbers(self) -> bool:
        """Whether the values are numbers, not bytes of something else."""
        return self.kept.ndim == 1


def thinned(events: Sequence[RecordedEvent], most_bytes: int = MOST_KEPT_BYTES) -> tuple[RecordedEvent, ...]:
    """The events with fewer values of each recorder where they would have more bytes than a signature may have."""
    total = sum(event.values.kept.nbytes for event in events if event.values is not None)
    if total <= most_bytes:
        return tuple(events)
    found = []
    for event in events:
        values = event.values
        if values is not None:
            places = _spread(len(values.kept), int(len(values.kept) * (most_bytes / total)))
            values = replace(values, kept_index=values.kept_index[places], kept=values.kept[places])
        found.append(replace(event, values=values))
    return tuple(found)


def _spread(count: int, most: int) -> npt.NDArray[np.int64]:
    """`most` of the numbers below `count`, evenly spread."""
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).astype(np.int64)


def record_values(values: npt.NDArray[Any], most: int | None = MOST_KEPT_VALUES) -> RecordedValues:
    """Quantiles of all values, and `most` of them (None: all).

    Args:
        values: [values] of one of `VALUE_DTYPES`, or uint8 [values, bytes of a value].
        most: of them, evenly spread, the first and the last among them.
    """
    count = len(values)
    index = _spread(count, count if most is None else most)
    return RecordedValues(_quantiles(values), index, values if len(index) == count else values[index])


def _quantiles(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Quantiles of a recorder's values, float64 [NUM_QUANTILES] or empty. Infinite values count like any other."""
    ordered = np.sort(values) if values.ndim == 1 else np.zeros(0)  # NaN are the last
    if ordered.dtype.kind == "f":
        ordered = ordered[: len(ordered) - np.count_nonzero(np.isnan(ordered))]
    if not len(ordered):
        return np.zeros(0)
    place = np.arange(NUM_QUANTILES) * (len(ordered) - 1) / (NUM_QUANTILES - 1)
    below = place.astype(np.int64)
    low, high = (ordered[at].astype(np.float64) for at in (below, np.minimum(below + 1, len(ordered) - 1)))
    share = place - below
    with np.errstate(invalid="ignore"):
        return np.where((share == 0) | (low == high), low, low * (1 - share) + high * share)


@dataclass(frozen=True, slots=True)
class EventElement:
    """An element of a counting set, and how often it was in it."""

    content: bytes
    type_id: int
    count: Annotated[int, Column(Scale.COUNT, least=1)]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedEvent:
    """An event at the end of a run.

    Attributes:
        process: `ProcessRecord.number` of the process that had it.
        library: what registered it.
        name: without the library.
        kind: what its value comes from.
        type: of the value, or of a recorder's values: "long long", "int", "double" or "float"; "bytes": not known.
        is_instant: whether tools read the value, not its change.
        description: the library's.
        value: the number; of a recorder how many values, of a counting set how many elements; None: `unread` says why.
        unread: "" if it was read.
        values: of a recorder.
        elements: of a counting set, the most frequent first.
    """

    process: int
    library: str
    name: str
    kind: EventKind
    type: str
    is_instant: bool
    description: str
    value: Annotated[int | float | None, Column(Scale.COUNT, least=-math.inf, most=math.inf)]
    unread: str = ""
    values: RecordedValues | None = None
    elements: tuple[EventElement, ...] = ()

    @property
    def full_name(self) -> str:
        """`library::event`."""
        return f"{self.library}::{self.name}"

    @property
    def unit(self) -> str | None:
        """Unit in brackets at the end of the description: "bytes sent [bytes]"."""
        found = _UNIT.search(self.description)
        return found[1] if found else None


def _sampled(kind: str, column: str, *length: str, scale: Scale = Scale.REFERENCE, **more: Any) -> Column:
    return Column(scale, column=column, packed=kind, length=length, **more)


@dataclass(frozen=True, slots=True, eq=False)
class EventSamples:
    """Values of events while the program ran, and how much of each node's work was done by then.

    Samples are taken where a thread's chunk of the stream ends, at most `MOST_SAMPLES` of a process, about evenly
    spread over its run; the last is its end. What happened between two of them is not told apart. The work of the
    thread that takes a sample is exact; that of others may be behind by a chunk.

    Attributes:
        process: `ProcessRecord.number`.
        events: int64 [events]: positions in the signature's events. Callbacks and groups have no samples.
        position: int64 [samples], rising: executions of basic blocks by all threads of the process.
        values: float64 [samples, events]: of a recorder the number of its values.
        nodes: int64 [nodes], rising: nodes of the execution tree with at least 1/10,000 of all executions that are
            their own, and all nodes above them.
        executions: int64 [samples, nodes]: executions of basic blocks that were the node's own by then.
    """

    process: int
    events: Annotated[Ints, _sampled("<u4", "event_id", "events", of="events")]
    position: Annotated[Ints, _sampled("<u8", "position", "samples", scale=Scale.COUNT)]
    values: Annotated[Floats, _sampled("<f8", "sampled", "samples", "events", scale=Scale.COUNT, least=-math.inf)]
    nodes: Annotated[Ints, _sampled("<u4", "node_id", "nodes", of="tree_nodes")]
    executions: Annotated[Ints, _sampled("<u8", "executions", "samples", "nodes", scale=Scale.COUNT)]


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """All events of a run, and the samples of the processes that had any."""

    events: tuple[RecordedEvent, ...] = ()
    samples: tuple[EventSamples, ...] = ()
    lost_bytes: schema.Bytes = 0
    """Bytes of what was counted and recorded, for which there was no memory."""


NO_EVENTS = Events()


def check_events(events: Events, processes: Collection[int]) -> None:
    """Refuse events whose columns, each of them allowed, do not fit together, or processes of other numbers.

    Raises:
        ValueError: says what is wrong.
    """
    for event in events.events:
        _check_event(event, processes)
    for samples in events.samples:
        _check_samples(samples, events.events)


def _check_event(event: RecordedEvent, processes: Collection[int]) -> None:
    if event.process not in processes:
        raise ValueError("an event is of a process that does not exist")
    if event.type != "bytes" and event.type not in VALUE_DTYPES:
        raise ValueError("an event is of an impossible type")
    if (event.value is None) != bool(event.unread):
        raise ValueError("an event has a value and a reason why it has none, or neither")
    is_recorder, is_set = event.kind is EventKind.RECORDER, event.kind is EventKind.SET
    if (event.values is not None) != (is_recorder and event.value is not None) or (event.elements and not is_set):
        raise ValueError("an event has values or elements of another kind of event, or lacks them")
    if (is_recorder or is_set) and (
        type(event.value) not in (int, type(None)) or (event.value or 0) < len(event.elements)
    ):
        raise ValueError("a recorder or a counting set has an impossible number of values")
    counts = [element.count for element in event.elements]
    if sorted(counts, reverse=True) != counts:
        raise ValueError("elements of a counting set are not sorted by how often they were in it")
    if event.values is not None and type(event.value) is int:
        _check_values(event.values, event.type, event.value)


def _check_values(values: RecordedValues, of_type: str, count: int) -> None:
    quantiles, index = values.quantiles, values.kept_index
    if len(quantiles) not in (0, NUM_QUANTILES) or (len(quantiles) and not (values.are_numbers and count)):
        raise ValueError("a recorder has an impossible number of quantiles")
    rounding = 1e-12 * np.max(np.abs(quantiles), initial=0, where=np.isfinite(quantiles))
    if np.any(quantiles[1:] + rounding < quantiles[:-1]):
        raise ValueError("the quantiles of a recorder do not rise")
    expected = VALUE_DTYPES.get(of_type) if values.are_numbers else np.dtype(np.uint8)
    if values.kept.dtype != expected or values.kept.ndim > 2 or (values.kept.ndim == 2 and not values.kept.shape[1]):
        raise ValueError("the values of a recorder are not of its type")
    if len(index) != len(values.kept) or np.any(np.diff(index) < 1):
        raise ValueError("the values of a recorder are not in order")
    if len(index) and not 0 <= index[0] <= index[-1] < count:
        raise ValueError("a recorder has more values than it recorded")


def _check_samples(samples: EventSamples, events: tuple[RecordedEvent, ...]) -> None:
    numbers = samples.events
    if np.any(np.diff(samples.position) < 0):
        raise ValueError("samples of events are not in order")
    if len(set(numbers.tolist())) != len(numbers):
        raise ValueError("samples are of the same event twice")
    if any(events[number].process != samples.process for number in numbers.tolist()):
        raise ValueError("samples are of an event of another process")
    if np.any(np.diff(samples.nodes) < 1):
        raise ValueError("samples of events name the same node twice")
    if np.any(np.diff(samples.executions, axis=0, prepend=0) < 0):
        raise ValueError("a node's executions fall from one sample of events to the next")
