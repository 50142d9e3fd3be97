"""Software-defined events of a run: what its libraries said that they did."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

NUM_QUANTILES = 1001
"""Of a recorder: those of 0, 0.001, ..., 1."""
MOST_KEPT_VALUES = 10_000
"""Of a recorder, in the order in which they were recorded, where not all are asked for."""
MOST_SAMPLES = 256
"""At which the values of events are known, while the program ran."""
_UNIT = re.compile(r"\[([^\[\]]{1,24})\]\s*$")


class EventKind(StrEnum):
    """What an event's value comes from."""

    PLACEHOLDER = "placeholder"  # asked for, but registered by no library
    REGISTERED = "registered"  # a variable of the program
    CALLBACK = "callback"
    CREATED = "created"
    RECORDER = "recorder"
    SET = "set"
    GROUP = "group"


@dataclass(frozen=True, slots=True, eq=False)
class RecordedValues:
    """What a recorder recorded.

    Attributes:
        quantiles: float64 [NUM_QUANTILES] of all values, by linear interpolation: exact but for rounding. Empty if the
            values are no numbers.
        kept_index: int64 [kept], rising: which values were kept, of 0 to count - 1, evenly spread.
        kept: those values: [kept] of the recorder's type, or uint8 [kept, bytes of a value] if they are no numbers. In
            the order in which each thread recorded them, one thread after the other.
    """

    quantiles: npt.NDArray[np.float64]
    kept_index: npt.NDArray[np.int64]
    kept: npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class EventElement:
    """An element of a counting set, and how often it was in it."""

    content: bytes
    type_id: int
    count: int


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
    value: int | float | None
    unread: str = ""
    values: RecordedValues | None = None
    elements: tuple[EventElement, ...] = ()

    @property
    def full_name(self) -> str:
        """`library::event`."""
        return f"{self.library}::{self.name}"

    @property
    def unit(self) -> str | None:
        """What stands in brackets at the end of the description: "bytes sent [bytes]"."""
        found = _UNIT.search(self.description)
        return found[1] if found else None


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
    events: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    nodes: npt.NDArray[np.int64]
    executions: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """All events of a run, and the samples of the processes that had any."""

    events: tuple[RecordedEvent, ...] = ()
    samples: tuple[EventSamples, ...] = ()
    lost_bytes: int = 0
    """Of what was counted and recorded, for which there was no memory."""


NO_EVENTS = Events()
