"""Reads the events of another process from its board; `board.h` describes the file.

A board may come from anyone who can write to its folder: only one whose owner, name and head agree is read, of no more
bytes than its file has, and a variable is read from the memory of a process only if that made the board.
"""

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

from foretrace.base.errors import EventsError
from foretrace.base.files import is_file_of, open_unfollowed
from foretrace.tracer.signature.event_records import (
    VALUE_DTYPES,
    EventElement,
    EventKind,
    RecordedEvent,
    RecordedValues,
    record_values,
)

VERSION = 3
REPLACED = ".replaced"
"""`BOARD_REPLACED`"""
_MAGIC = b"ftevents"
_COUNTERS_A_BLOCK, _RECORDERS_A_BLOCK, _MOST_BLOCKS = 64, 16, 1024
_LONGEST_TEXT_BYTES = 1 << 20
MOST_EVENTS = 1 << 17
_MOST_LANES = 1 << 14
_MOST_ELEMENTS = 1 << 20
MOST_VALUE_BYTES = 1 << 30
"""Largest size of the recorded values of a board that is shown."""
_MOST_RECORDER_BYTES = 1 << 32
_MOST_CHUNKS = 1 << 20
_READ_AGAIN = 2
"""Reads are bounded by a multiple of the board's size on disk, as no byte of it belongs to two events."""
_LEAST_BYTES = 64 << 20
"""Bytes that may always be read: a board may be small, or on a disk that compresses."""
BOARD_NAME = re.compile(rf"foretrace-events-(\d+)-(\d+)({re.escape(REPLACED)})?")
_KINDS = {
    1: EventKind.PLACEHOLDER, 2: EventKind.REGISTERED, 3: EventKind.CALLBACK, 4: EventKind.CREATED,
    5: EventKind.RECORDER, 7: EventKind.SET, 8: EventKind.GROUP,
}  # fmt: skip
"""Listed kinds of events. Events derived from a recorder (`:CNT`, `:MIN`, ...) are left out."""


class CBoard(ctypes.Structure):
    """`struct board`."""

    _fields_ = (
        ("magic", ctypes.c_char * 8), ("version", ctypes.c_uint32), ("process", ctypes.c_uint32),
        ("size_bytes", ctypes.c_uint64), ("used_bytes", ctypes.c_uint64), ("first_event", ctypes.c_uint64),
        ("last_event", ctypes.c_uint64), ("first_lane", ctypes.c_uint64), ("is_ended", ctypes.c_uint32),
        ("num_private_bytes_lost", ctypes.c_uint32), ("traced_process", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
        ("start_ticks", ctypes.c_uint64),
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
        lost_bytes: memory that did not fit into the file: counts there are missing.
        events: in the order in which they were registered.
    """

    process: int
    is_ended: bool
    lost_bytes: int
    events: tuple[RecordedEvent, ...]


_TYPES = tuple(VALUE_DTYPES)
_Type = type[ctypes.c_longlong] | type[ctypes.c_int] | type[ctypes.c_double] | type[ctypes.c_float]
_C_TYPES: tuple[_Type, ...] = (
    ctypes.c_longlong, ctypes.c_int, ctypes.c_double, ctypes.c_float
)  # fmt: skip
_S = TypeVar("_S", bound=ctypes.Structure)
_Link = TypeVar("_Link", CEvent, CLane, CElement)
_KILLED = "it was in the memory of the process, which was killed"


def directory() -> Path:
    """Folder of the processes' boards."""
    return Path(os.environ.get("FORETRACE_EVENTS_DIRECTORY") or "/dev/shm")


def processes(user: int | None = None) -> dict[int, Path]:
    """The boards of a user's processes, by process; of processes that were killed, too. None: of our own user.

    Raises:
        EventsError: the directory cannot be read.
    """
    return {process: path for path, process in _files(user) if not path.name.endswith(REPLACED)}


def left_behind() -> list[Path]:
    """The files of our user's processes that run no more.

    Raises:
        EventsError: the directory cannot be read.
    """
    return [path for path, process in _files(None) if not is_running(process, start_of(path))]


def _files(user: int | None) -> list[tuple[Path, int]]:
    """Files of boards: regular ones whose name and owner agree, as anyone may give a file any name."""
    wanted = os.geteuid() if user is None else user
    try:
        names = [(path, BOARD_NAME.fullmatch(path.name)) for path in sorted(directory().iterdir())]
    except OSError as error:
        raise EventsError(f"{directory()}: cannot be read: {error.strerror}") from None
    return [(path, int(name[2])) for path, name in names if name and int(name[1]) == wanted and _is_of(path, wanted)]


def _is_of(path: Path, user: int) -> bool:
    try:
        return is_file_of(path.lstat(), user)
    except OSError:
        return False


def start_of(path: Path) -> int:
    """When the process of a board began, in ticks; 0 where that is not known."""
    try:
        descriptor = open_unfollowed(path)
    except OSError:
        return 0
    try:
        head = CBoard.from_buffer_copy(os.pread(descriptor, ctypes.sizeof(CBoard), 0))
    except (OSError, ValueError):
        return 0
    finally:
        os.close(descriptor)
    return int(head.start_ticks) if head.magic == _MAGIC and head.version == VERSION else 0


def is_running(process: int, start_ticks: int = 0) -> bool:
    """Whether there is a process of that number, which began then, if that is known."""
    found = process_start(f"/proc/{process}/stat")
    return found is not None and start_ticks in (0, found)


def process_start(path: str, folder: int | None = None) -> int | None:
    """Start time of a process from its `stat` file (proc(5)), in ticks; None if it does not exist, or has ended."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            fields = os.read(descriptor, 4096).rpartition(b")")[2].split()
            return None if fields[0] in (b"Z", b"X") else int(fields[19])
        finally:
            os.close(descriptor)
    except (OSError, ValueError, IndexError):
        return None


def read_board(path: Path, process: int | None = None) -> Board:
    """The events on a board, with all values of recorders.

    Args:
        path: of the board.
        process: that it must be of; None: that which its name says.

    Raises:
        EventsError: it cannot be read, is none, or its owner, name and head do not agree.
    """
    named = BOARD_NAME.fullmatch(path.name)
    try:
        descriptor = open_unfollowed(path)
    except OSError as error:
        raise EventsError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not is_file_of(found, int(named[1]) if named else found.st_uid):
            raise EventsError(f"{path}: is no board: its owner is not the user in its name")
        reader = _Reader(descriptor, path, most_value_bytes=MOST_VALUE_BYTES)
        wanted = int(named[2]) if named and process is None else process
        if wanted not in (None, reader.header.process):
            raise EventsError(f"{path}: is no board of process {wanted}: it says that it is of {reader.header.process}")
        return reader.board()
    finally:
        os.close(descriptor)


def each_event(
    descriptor: int, path: Path, process: int, most_values: int | None, most_bytes: int
) -> Iterator[tuple[int, RecordedEvent]]:
    """The events on a board that is open, each with its number, as they are read: a recorder's values may be large.

    Args:
        descriptor: of the file.
        path: its name in messages.
        process: `RecordedEvent.process` of its events.
        most_values: most values that are kept of each recorder; None: all.
        most_bytes: most bytes that are kept of all recorders, in order of registration.

    Raises:
        EventsError: it cannot be read, is no board, or is damaged.
    """
    return _Reader(descriptor, path, process, most_values, most_bytes).events()


class _Reader:
    """One board that is read, perhaps while its process writes it."""

    def __init__(
        self, descriptor: int, path: Path, process: int = 0, most_values: int | None = None,
        bytes_left: int | None = None, most_value_bytes: int | None = None,
    ) -> None:  # fmt: skip
        self.descriptor, self.path, self.process = descriptor, path, process
        self.most_values, self.bytes_left = most_values, bytes_left
        status = os.fstat(descriptor)
        self.owner = status.st_uid
        on_disk_bytes = max(status.st_blocks * 512, _LEAST_BYTES)
        self.unread_bytes = _READ_AGAIN * on_disk_bytes
        self.unread_value_bytes = on_disk_bytes if most_value_bytes is None else min(on_disk_bytes, most_value_bytes)
        self.header = self.structure(CBoard, 0)
        if self.header.magic != _MAGIC or self.header.version != VERSION:
            raise EventsError(f"{path}: holds no events of this version of foretrace")
        self.lanes = [lane for _, lane in self.chain(self.header.first_lane, CLane, _MOST_LANES)]
        self.sums: dict[int, npt.NDArray[np.int64]] = {}
        self.elements_left = _MOST_ELEMENTS

    def board(self) -> Board:
        header = self.header
        return Board(
            header.process, bool(header.is_ended), header.num_private_bytes_lost, tuple(e for _, e in self.events())
        )

    def events(self) -> Iterator[tuple[int, RecordedEvent]]:
        for _, event in self.chain(self.header.first_event, CEvent, MOST_EVENTS):
            if event.kind in _KINDS:
                yield event.id, self.event(event)

    def bytes_at(self, offset: int, size: int) -> bytes:
        self.unread_bytes -= size
        if self.unread_bytes < 0:
            raise EventsError(f"{self.path}: is damaged: its events hold more than the file does")
        try:
            found = os.pread(self.descriptor, size, offset)
        except (OSError, OverflowError) as error:
            raise EventsError(f"{self.path}: cannot be read at {offset}: {error}") from None
        if len(found) != size:
            raise EventsError(f"{self.path}: is cut off, or damaged: nothing is at {offset}")
        return found

    def structure(self, kind: type[_S], offset: int) -> _S:
        return kind.from_buffer_copy(self.bytes_at(offset, ctypes.sizeof(kind)))

    def chain(self, offset: int, kind: type[_Link], most: int) -> Iterator[tuple[int, _Link]]:
        """The structures of a list, each with its offset."""
        number = 0
        while offset:
            number += 1
            if number > most:
                raise EventsError(f"{self.path}: is damaged: a list does not end, or has more than {most} entries")
            link = self.structure(kind, offset)
            yield offset, link
            offset = link.next

    def text(self, offset: int) -> str:
        found = b""
        size = 64
        while b"\0" not in found and len(found) < _LONGEST_TEXT_BYTES:
            found += self.bytes_at(offset + len(found), size)
            size *= 2
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
            return ctypes.c_longlong(event.value + int(self.block_sums(block)[place])).value, ""
        if kind in (EventKind.REGISTERED, EventKind.CALLBACK) and self.header.is_ended:
            wide = ctypes.c_double if event.type >= 2 else ctypes.c_longlong
            return wide.from_buffer_copy(ctypes.c_int64(event.last)).value, ""
        if kind is EventKind.REGISTERED:
            return self.variable(event.value & (1 << 64) - 1, of_type)
        if kind is EventKind.CALLBACK:
            return None, "only the process can call its function"
        if kind is EventKind.PLACEHOLDER:
            return None, "no library has registered it"
        return None, "only the process can work it out"

    def variable(self, address: int, of_type: _Type) -> tuple[int | float | None, str]:
        """A variable of the process which made the board: not of a later one of its number, nor of another user's."""
        try:
            folder = os.open(f"/proc/{self.header.process}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return None, _KILLED
        try:
            if process_start("stat", folder) != self.header.start_ticks or os.fstat(folder).st_uid != self.owner:
                return None, _KILLED
            memory = os.open("mem", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
            try:
                found = os.pread(memory, ctypes.sizeof(of_type), address)
            finally:
                os.close(memory)
            return of_type.from_buffer_copy(found).value, ""
        except (OSError, OverflowError, ValueError):
            return None, "the memory of the process cannot be read"
        finally:
            os.close(folder)

    def block_sums(self, block: int) -> npt.NDArray[np.int64]:
        """The counters of a block, summed over the lanes: they wrap around as the program's do."""
        if block not in self.sums:
            total = np.zeros(_COUNTERS_A_BLOCK, np.int64)
            for lane in self.lanes:
                if block < _MOST_BLOCKS and lane.counters[block]:
                    total += np.frombuffer(self.bytes_at(lane.counters[block], 8 * _COUNTERS_A_BLOCK), np.int64)
            self.sums[block] = total
        return self.sums[block]

    def values(self, event: CEvent) -> npt.NDArray[np.uint8]:
        if event.size_bytes > _MOST_RECORDER_BYTES:
            raise EventsError(f"{self.path}: is damaged: a recorder's values have {event.size_bytes} bytes")
        stretches = list(self.stretches(event))
        values = np.empty(sum(size for _, size in stretches), np.uint8)
        position = 0
        for offset, size in stretches:
            self.into(values[position : position + size], offset)
            position += size
        return values.reshape(-1, event.size_bytes) if event.size_bytes else values.reshape(0, 1)

    def into(self, values: npt.NDArray[np.uint8], offset: int) -> None:
        """Read possibly large data without a copy."""
        done = 0
        while done < len(values):
            try:
                got = os.preadv(self.descriptor, [values[done:].data], offset + done)
            except (OSError, OverflowError) as error:
                raise EventsError(f"{self.path}: cannot be read at {offset}: {error}") from None
            if not got:
                raise EventsError(f"{self.path}: is cut off, or damaged: nothing is at {offset + done}")
            done += got

    def stretches(self, event: CEvent) -> Iterator[tuple[int, int]]:
        """Contiguous pieces of a recorder's values: offset and size in bytes of each."""
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
                self.unread_value_bytes -= used
                if self.unread_value_bytes < 0 or total > _MOST_RECORDER_BYTES or number > _MOST_CHUNKS:
                    raise EventsError(
                        f"{self.path}: its recorders hold more than {MOST_VALUE_BYTES >> 30} GiB, or than the file does"
                    )
                yield offset + ctypes.sizeof(CChunk), used
                offset = 0 if offset == recording.current else chunk.next

    def elements(self, event: CEvent) -> tuple[EventElement, ...]:
        found = []
        for offset, element in self.chain(event.value, CElement, self.elements_left):
            self.elements_left -= 1
            if element.count:
                content = self.bytes_at(offset + ctypes.sizeof(CElement), min(element.size_bytes, _LONGEST_TEXT_BYTES))
                found.append(EventElement(content, element.type_id, element.count))
        return tuple(sorted(found, key=lambda element: -element.count))
