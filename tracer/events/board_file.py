"""Reads the events of another process from its board; `board.h` describes the file."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from foretrace.errors import EventsError
from foretrace.tracer.signature.event_records import (
    VALUE_DTYPES,
    EventElement,
    EventKind,
    RecordedEvent,
    RecordedValues,
    record_values,
)

VERSION = 2
REPLACED = ".replaced"
"""`BOARD_REPLACED`"""
_MAGIC = b"ftevents"
_COUNTERS_A_BLOCK, _RECORDERS_A_BLOCK, _MOST_BLOCKS = 64, 16, 1024
_LONGEST_TEXT_BYTES = 1 << 20
_MOST_LINKS = 1 << 24
_MOST_VALUE_BYTES = 1 << 32
_NAME = re.compile(rf"foretrace-events-(\d+)-(\d+)({re.escape(REPLACED)})?")
_KINDS = {
    1: EventKind.PLACEHOLDER, 2: EventKind.REGISTERED, 3: EventKind.CALLBACK, 4: EventKind.CREATED,
    5: EventKind.RECORDER, 7: EventKind.SET, 8: EventKind.GROUP,
}  # fmt: skip
"""What is told of a recorder (`:CNT`, `:MIN`, ...) is not listed: it follows."""


class CBoard(ctypes.Structure):
    """`struct board`."""

    _fields_ = (
        ("magic", ctypes.c_char * 8), ("version", ctypes.c_uint32), ("process", ctypes.c_uint32),
        ("size_bytes", ctypes.c_uint64), ("used_bytes", ctypes.c_uint64), ("first_event", ctypes.c_uint64),
        ("last_event", ctypes.c_uint64), ("first_lane", ctypes.c_uint64), ("is_ended", ctypes.c_uint32),
        ("num_private_bytes_lost", ctypes.c_uint32), ("traced_process", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
    )  # fmt: skip


class CEvent(ctypes.Structure):
    """`struct board_event`."""

    _fields_ = (
        ("next", ctypes.c_uint64), ("name", ctypes.c_uint64), ("description", ctypes.c_uint64),
        ("kind", ctypes.c_uint32), ("id", ctypes.c_uint32), ("mode", ctypes.c_int32), ("type", ctypes.c_int32),
        ("slot", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("size_bytes", ctypes.c_uint64),
        ("value", ctypes.c_int64), ("last", ctypes.c_int64),
    )  # fmt: skip


class CChunk(ctypes.Structure):
    """`struct board_chunk`, without its values."""

    _fields_ = (
        ("next", ctypes.c_uint64), ("size_bytes", ctypes.c_uint64), ("used_bytes", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64),
    )  # fmt: skip


class CRecording(ctypes.Structure):
    """`struct board_recording`."""

    _fields_ = (
        ("epoch", ctypes.c_int64), ("first", ctypes.c_uint64), ("current", ctypes.c_uint64),
        ("prepared_bytes", ctypes.c_uint64),
    )  # fmt: skip


class CLane(ctypes.Structure):
    """`struct board_lane`."""

    _fields_ = (
        ("next", ctypes.c_uint64), ("is_taken", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
        ("counters", ctypes.c_uint64 * _MOST_BLOCKS), ("recordings", ctypes.c_uint64 * _MOST_BLOCKS),
    )  # fmt: skip


class CElement(ctypes.Structure):
    """`struct board_element`, without its bytes."""

    _fields_ = (
        ("next", ctypes.c_uint64), ("count", ctypes.c_uint32), ("type_id", ctypes.c_uint32),
        ("size_bytes", ctypes.c_uint64), ("hashable_bytes", ctypes.c_uint64),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Board:
    """The events of a process at one moment.

    Attributes:
        process: its number.
        is_ended: whether it ended by itself.
        lost_bytes: memory that did not fit into the file: what was counted there is missing.
        events: in the order in which they were registered.
    """

    process: int
    is_ended: bool
    lost_bytes: int
    events: tuple[RecordedEvent, ...]


_TYPES = tuple(VALUE_DTYPES)
_C_TYPES: tuple[type[ctypes.c_longlong] | type[ctypes.c_int] | type[ctypes.c_double] | type[ctypes.c_float], ...] = (
    ctypes.c_longlong, ctypes.c_int, ctypes.c_double, ctypes.c_float
)  # fmt: skip
_S = TypeVar("_S", bound=ctypes.Structure)


def directory() -> Path:
    """Where processes keep their boards."""
    return Path(os.environ.get("FORETRACE_EVENTS_DIRECTORY") or "/dev/shm")


def processes() -> dict[int, Path]:
    """The boards of this user's processes, by process; of processes that were killed, too.

    Raises:
        EventsError: the directory cannot be read.
    """
    return {process: path for path, process in _files() if not path.name.endswith(REPLACED)}


def left_behind() -> list[Path]:
    """The files of this user's processes that run no more.

    Raises:
        EventsError: the directory cannot be read.
    """
    return [path for path, process in _files() if not is_running(process)]


def _files() -> list[tuple[Path, int]]:
    try:
        names = [(path, _NAME.fullmatch(path.name)) for path in sorted(directory().iterdir())]
    except OSError as error:
        raise EventsError(f"{directory()}: cannot be read: {error.strerror}") from None
    return [(path, int(name[2])) for path, name in names if name and int(name[1]) == os.geteuid()]


def is_running(process: int) -> bool:
    """Whether there is a process of that number."""
    return Path(f"/proc/{process}").exists()


def read_board(path: Path) -> Board:
    """The events on a board, with all values of recorders.

    Raises:
        EventsError: it cannot be read, or is none.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise EventsError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        return _Reader(descriptor, path).board()
    finally:
        os.close(descriptor)


def each_event(
    descriptor: int, path: Path, process: int, most_values: int | None, most_bytes: int
) -> Iterator[tuple[int, RecordedEvent]]:
    """The events on a board that is open, each with its number, as they are read: a recorder's values may be large.

    Args:
        descriptor: of the file.
        path: what messages call it.
        process: `RecordedEvent.process` of its events.
        most_values: that are kept of each recorder; None: all.
        most_bytes: that are kept of all recorders, those registered first having the first.

    Raises:
        EventsError: it cannot be read, is none, or is damaged.
    """
    return _Reader(descriptor, path, process, most_values, most_bytes).events()


class _Reader:
    """One board that is read, perhaps while its process writes it."""

    def __init__(
        self, descriptor: int, path: Path, process: int = 0, most_values: int | None = None,
        bytes_left: int | None = None,
    ) -> None:  # fmt: skip
        self.descriptor, self.path, self.process = descriptor, path, process
        self.most_values, self.bytes_left = most_values, bytes_left
        self.header = self.structure(CBoard, 0)
        if self.header.magic != _MAGIC or self.header.version != VERSION:
            raise EventsError(f"{path}: holds no events of this version of foretrace")
        self.lanes = [self.structure(CLane, at) for at in self.chain(self.header.first_lane, CLane)]
        self.names: dict[int, str] = {}

    def board(self) -> Board:
        header = self.header
        return Board(
            header.process, bool(header.is_ended), header.num_private_bytes_lost, tuple(e for _, e in self.events())
        )

    def events(self) -> Iterator[tuple[int, RecordedEvent]]:
        for offset in self.chain(self.header.first_event, CEvent):
            event = self.structure(CEvent, offset)
            if event.kind in _KINDS:
                yield event.id, self.event(event)

    def bytes_at(self, offset: int, size: int) -> bytes:
        try:
            found = os.pread(self.descriptor, size, offset)
        except (OSError, OverflowError) as error:
            raise EventsError(f"{self.path}: cannot be read at {offset}: {error}") from None
        if len(found) != size:
            raise EventsError(f"{self.path}: is cut off, or damaged: nothing is at {offset}")
        return found

    def structure(self, kind: type[_S], offset: int) -> _S:
        return kind.from_buffer_copy(self.bytes_at(offset, ctypes.sizeof(kind)))

    def chain(self, offset: int, kind: type[CEvent | CLane | CElement]) -> Iterator[int]:
        seen: set[int] = set()
        while offset:
            if offset in seen or len(seen) == _MOST_LINKS:
                raise EventsError(f"{self.path}: is damaged: a list does not end")
            seen.add(offset)
            yield offset
            offset = self.structure(kind, offset).next

    def text(self, offset: int) -> str:
        found = b""
        while b"\0" not in found and len(found) < _LONGEST_TEXT_BYTES:
            found += self.bytes_at(offset + len(found), 256)
        return found.partition(b"\0")[0].decode(errors="replace")

    def event(self, event: CEvent) -> RecordedEvent:
        kind = _KINDS[event.kind]
        full_name = self.text(event.name)
        library, _, name = full_name.partition("::")
        values: RecordedValues | None = None
        elements: tuple[EventElement, ...] = ()
        value: int | float | None
        unread = ""
        of_type = _TYPES[event.type] if 0 <= event.type < len(_TYPES) else "bytes"
        if kind is EventKind.RECORDER:
            recorded = self.values(event)
            value = len(recorded)
            dtype = VALUE_DTYPES.get(of_type)
            if dtype is None or event.size_bytes != dtype.itemsize:
                of_type, values = "bytes", self.kept(recorded)
            else:
                values = self.kept(recorded.view(dtype).ravel())
        elif kind is EventKind.SET:
            elements = self.elements(event)
            value = len(elements)
        else:
            value, unread = self.number(event, kind)
        return RecordedEvent(
            self.process, library, name, kind, of_type, bool(event.mode & 0x10), self.text(event.description), value,
            unread, values, elements,
        )  # fmt: skip

    def kept(self, recorded: npt.NDArray[Any]) -> RecordedValues:
        most = len(recorded) if self.most_values is None else min(len(recorded), self.most_values)
        if self.bytes_left is not None and most:
            most = min(most, self.bytes_left // recorded[:1].nbytes)
            self.bytes_left -= most * recorded[:1].nbytes
        return record_values(recorded, most)

    def number(self, event: CEvent, kind: EventKind) -> tuple[int | float | None, str]:
        of_type = _C_TYPES[event.type & 3]
        if kind is EventKind.CREATED:
            block, place = divmod(event.slot, _COUNTERS_A_BLOCK)
            total = event.value + sum(self.counts(lane, block, place) for lane in self.lanes)
            return ctypes.c_longlong(total).value, ""
        if kind in (EventKind.REGISTERED, EventKind.CALLBACK) and self.header.is_ended:
            wide = ctypes.c_double if event.type >= 2 else ctypes.c_longlong
            return wide.from_buffer_copy(ctypes.c_int64(event.last)).value, ""
        if kind is EventKind.REGISTERED:
            try:
                with Path(f"/proc/{self.header.process}/mem").open("rb", buffering=0) as memory:
                    found = os.pread(memory.fileno(), ctypes.sizeof(of_type), event.value & (1 << 64) - 1)
                return of_type.from_buffer_copy(found).value, ""
            except FileNotFoundError:
                return None, "it was in the memory of the process, which was killed"
            except (OSError, OverflowError, ValueError):
                return None, "the memory of the process cannot be read"
        if kind is EventKind.CALLBACK:
            return None, "only the process can call its function"
        if kind is EventKind.PLACEHOLDER:
            return None, "no library has registered it"
        return None, "only the process can work it out"

    def counts(self, lane: CLane, block: int, place: int) -> int:
        if block >= _MOST_BLOCKS or not lane.counters[block]:
            return 0
        return int.from_bytes(self.bytes_at(lane.counters[block] + 8 * place, 8), "little", signed=True)

    def values(self, event: CEvent) -> npt.NDArray[np.uint8]:
        if event.size_bytes > _MOST_VALUE_BYTES:
            raise EventsError(f"{self.path}: is damaged: a recorder's values have {event.size_bytes} bytes")
        stretches = list(self.stretches(event))
        values = np.empty(sum(size for _, size in stretches), np.uint8)
        position = 0
        for offset, size in stretches:
            values[position : position + size] = np.frombuffer(self.bytes_at(offset, size), np.uint8)
            position += size
        return values.reshape(-1, event.size_bytes) if event.size_bytes else values.reshape(0, 1)

    def stretches(self, event: CEvent) -> Iterator[tuple[int, int]]:
        """Where a recorder's values lie one after the other: offset and bytes."""
        block, place = divmod(event.slot, _RECORDERS_A_BLOCK)
        total = number = 0
        for lane in self.lanes:
            if block >= _MOST_BLOCKS or not lane.recordings[block] or not event.size_bytes:
                continue
            at = lane.recordings[block] + place * ctypes.sizeof(CRecording)
            recording = self.structure(CRecording, at)
            offset = recording.first if recording.epoch == event.value and recording.current else 0
            while offset:
                chunk = self.structure(CChunk, offset)
                used = chunk.used_bytes - chunk.used_bytes % event.size_bytes
                total, number = total + used, number + 1
                if total > min(_MOST_VALUE_BYTES, self.header.size_bytes) or number == _MOST_LINKS:
                    raise EventsError(f"{self.path}: more than {_MOST_VALUE_BYTES >> 30} GiB were recorded")
                yield offset + ctypes.sizeof(CChunk), used
                offset = 0 if offset == recording.current else chunk.next

    def elements(self, event: CEvent) -> tuple[EventElement, ...]:
        found = []
        for offset in self.chain(event.value, CElement):
            element = self.structure(CElement, offset)
            if element.count:
                content = self.bytes_at(offset + ctypes.sizeof(CElement), min(element.size_bytes, _LONGEST_TEXT_BYTES))
                found.append(EventElement(content, element.type_id, element.count))
        return tuple(sorted(found, key=lambda element: -element.count))
