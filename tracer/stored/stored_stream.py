"""Stored streams: an address stream in a file of its own, compressed (docs/stored-streams.md describes the format).

The core in C puts accesses into frames, and takes frames apart; here they are compressed, checked and kept in the file.

Version history (the last digit of the magic bytes): 1 is the first; no other is read.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

import msgspec
import numpy as np

from foretrace.base import json_text
from foretrace.base.errors import OutputError, TraceFileError
from foretrace.base.file_kinds import DIN, STREAM, STREAM_MAGIC
from foretrace.base.files import open_atomically
from foretrace.base.version import __version__

from . import _streams
from .input_file import Bytes

MAGIC = STREAM_MAGIC
FORMAT = "foretrace.stream/1"
_FRAME = struct.Struct("<4sIII")
_HEAD, _ACCESSES, _OPERATIONS, _LOOPS, _DONE = b"HEAD", b"ACCS", b"OPER", b"LOOP", b"DONE"
_MAX_FRAME_BYTES = 64 << 20
_MAX_TABLE_BYTES = 256 << 20
"""Limit of all tables together: memory that a reader may need for them."""
_OPERATIONS_A_FRAME = 16384
_COUNTS = struct.Struct("<III")
_KIND_BYTES = 20
_RANDOM_BITS = 7.0
"""Entropy of a byte, in bits, from which compression costs much and gains little."""
_ENTROPY_STEP = 8
"""Sampling step, in bytes, of the entropy estimate."""
_WAIT_MS = 100
_ACCESSES_A_STEP = 1 << 20
_Json = TypeVar("_Json")


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Place of a memory operation in the program. Unknown fields are empty, 0 or None.

    `offset` is the instruction's address within `module` (in the program, if that is not known). `operation` is the
    operation's id in the signature that was traced with the stream: several operations of a stream may share one.
    """

    is_store: bool
    offset: int = 0
    module: str = ""
    function: str = ""
    file: str = ""
    line: int = 0
    loop: int | None = None
    operation: int | None = None


class LoopPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A loop of the program, by its id in the signature that was traced with the stream."""

    loop: int
    module: str = ""
    function: str = ""
    file: str = ""
    line: int = 0


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """First record of a stored stream: its format, and the program and source that made it."""

    format: str = FORMAT
    foretrace_version: str = __version__
    source: str
    command: tuple[str, ...] = ()


class Done(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Last record of a stored stream.

    `accesses` counts loads, stores and fetches; `instructions` is None where they were not counted.
    """

    accesses: int
    complete: bool
    incomplete_reason: str = ""
    instructions: int | None = None
    notes: tuple[str, ...] = ()


# ---- writing --------------------------------------------------------------------------------------------------------


def _entropy_bits(plane: Any) -> float:
    """Shannon entropy of a byte of the plane, in bits, from the frequencies of its values."""
    counts = np.bincount(plane, minlength=256)
    shares = counts[counts > 0] / len(plane)
    return float(-(shares * np.log2(shares)).sum())


def _deflate_frame(frame: bytes) -> bytes:
    """A frame of accesses as one deflate stream, in which planes of high entropy are stored uncompressed."""
    num_kinds, num_records, _ = _COUNTS.unpack_from(frame)
    begin = _COUNTS.size + _KIND_BYTES * num_kinds
    planes = np.frombuffer(frame, np.uint8, offset=begin).reshape(-1, num_records)
    parts: list[tuple[bool, int]] = [(False, begin)]  # is random, where it ends
    for number, plane in enumerate(planes, 1):
        random = _entropy_bits(plane[::_ENTROPY_STEP]) > _RANDOM_BITS
        end = begin + number * num_records
        if random == parts[-1][0]:
            parts.pop()
        parts.append((random, end))
    pieces, start = [], 0
    for random, end in parts:
        core = zlib.compressobj(0 if random else 1, zlib.DEFLATED, -15)
        last = end == len(frame)
        pieces += [core.compress(frame[start:end]), core.flush(zlib.Z_FINISH if last else zlib.Z_SYNC_FLUSH)]
        start = end
    return b"".join(pieces)


def _deflate(data: bytes) -> bytes:
    core = zlib.compressobj(6, zlib.DEFLATED, -15)
    return core.compress(data) + core.flush()


class StreamWriter:
    """Writes the accesses fed to its sink to a file, on a thread of its own. The file appears whole, or not at all.

    An error of the file does not disturb the producer that feeds the sink: `commit` raises it.

    Args:
        path: the file.
        din: write din, not our own format.
        force: overwrite the file if it exists.
        fetches: ask for instruction fetches as well.

    Raises:
        OutputError: the file cannot be made.
    """

    def __init__(self, path: Path, *, din: bool = False, force: bool = False, fetches: bool = False) -> None:
        """Open the file."""
        self._path = path
        self._din = din
        self._fetches = fetches
        self._writer: _streams.Writer | None = None
        self._thread: threading.Thread | None = None
        self._failure: OSError | None = None
        self._stack = ExitStack()
        self._file: BinaryIO = self._stack.enter_context(open_atomically(path, DIN if din else STREAM, force=force))
        self.written_bytes = 0

    def __enter__(self) -> Self:
        """Return the writer, which is ready for use."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Remove the written file, unless it is committed."""
        if self._thread is not None:
            assert self._writer is not None
            self._writer.refuse()
            with suppress(MemoryError):
                self._writer.finish()
            self._thread.join()
            self._thread = None
        self._stack.__exit__(_DiscardError, _DiscardError(), None)

    def sink(self, following: object, head: Head) -> object:
        """A sink that writes, and passes everything on to the sink `following`, if any.

        `head` says what made the stream.
        """
        self._writer = _streams.Writer(self._din, following, self._fetches)
        try:
            if not self._din:
                self._write(MAGIC)
                self._write_json(_HEAD, head)
        except OSError as error:
            self._failure = error
            self._writer.refuse()
        self._thread = threading.Thread(target=self._drain, name="foretrace-stream", daemon=True)
        self._thread.start()
        return self._writer.sink

    def commit(
        self,
        places: Sequence[Place] = (),
        loops: Sequence[LoopPlace] = (),
        *,
        incomplete_reason: str = "",
        instructions: int | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        """Write the rest and let the file appear. The sink must not be fed any more.

        Args:
            places: of the stream's memory operations, by their ids.
            loops: that `places` refer to.
            incomplete_reason: why the stream is not whole; empty if it is.
            instructions: executed, None if they were not counted.
            notes: for readers of the stream.

        Raises:
            OutputError: the file cannot be written, or memory ran out for it.
        """
        assert self._writer is not None
        assert self._thread is not None
        try:
            accesses = self._writer.finish()
        except MemoryError:
            raise OutputError(f"{self._path}: not written, memory ran out or there are too many operations") from None
        finally:
            self._thread.join()
            self._thread = None
        if self._failure is not None:
            raise OutputError(f"{self._path}: cannot be written: {self._failure.strerror}") from self._failure
        try:
            if not self._din:
                for first in range(0, len(places), _OPERATIONS_A_FRAME):
                    part = places[first : first + _OPERATIONS_A_FRAME]
                    self._write_json(_OPERATIONS, {"first": first, "operations": part})
                self._write_json(_LOOPS, {"loops": loops})
                self._write_json(
                    _DONE,
                    Done(
                        accesses=accesses,
                        complete=not incomplete_reason,
                        incomplete_reason=incomplete_reason,
                        instructions=instructions,
                        notes=notes,
                    ),
                )
        except OSError as error:
            raise OutputError(f"{self._path}: cannot be written: {error.strerror}") from error
        self._stack.close()

    def _drain(self) -> None:
        assert self._writer is not None
        try:
            while (block := self._writer.take(_WAIT_MS)) != b"":
                if block is None:
                    continue
                if self._din:
                    self._write(block)
                else:
                    self._write_frame(_ACCESSES, _deflate_frame(block), len(block))
        except OSError as error:
            self._failure = error
            self._writer.refuse()

    def _write_json(self, tag: bytes, content: Any) -> None:
        data = json_text.encode(content)
        self._write_frame(tag, _deflate(data), len(data))

    def _write_frame(self, tag: bytes, stored: bytes, raw_bytes: int) -> None:
        self._write(_FRAME.pack(tag, len(stored), raw_bytes, zlib.crc32(stored)))
        self._write(stored)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self.written_bytes += len(data)


class _DiscardError(Exception):
    """Makes `open_atomically` throw the file away."""


# ---- reading --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class StreamContents:
    """Contents of a stored stream other than its accesses, as far as it has been read.

    `places` are by operation id; `done` is None for a stream without its end.
    """

    head: Head
    loads: int
    stores: int
    fetches: int
    num_operations: int
    places: list[Place]
    loops: list[LoopPlace]
    done: Done | None


class StreamReader:
    """Reads a stored stream and feeds its accesses to a sink.

    Raises:
        TraceFileError: it is damaged or cut short; the message says at which byte. `contents` has the part before.
    """

    def __init__(self, data: Bytes, sink: object) -> None:
        """Read the beginning."""
        self._data = data
        self._name = data.file.name
        self._offset = 0
        self._table_bytes = 0
        self._core = _streams.FrameReader(sink)
        if self._take(len(MAGIC)) != MAGIC:
            raise TraceFileError(f"{self._name}: is not a stored stream of a version that this release reads")
        tag, frame = self._frame()
        if tag != _HEAD:
            raise self._damaged("has no head")
        head = self._decode(frame, Head)
        if head.format != FORMAT:
            raise TraceFileError(f"{self._name}: is of format {head.format!r}; this release reads {FORMAT}")
        self.contents = StreamContents(head, 0, 0, 0, 0, [], [], None)

    def steps(self) -> Iterator[int]:
        """Read the stream in steps; yields the number of accesses after each, until the stream is read."""
        contents = self.contents
        while contents.done is None:
            start = self._offset
            tag, frame = self._frame()
            if tag == _ACCESSES:
                yield from self._accesses(frame, start)
            elif tag == _OPERATIONS:
                table = self._decode(frame, _OperationTable)
                if table.first != len(contents.places):
                    raise self._damaged("has its operations out of order", start)
                contents.places += table.operations
            elif tag == _LOOPS:
                contents.loops += self._decode(frame, _LoopTable).loops
            elif tag == _DONE:
                contents.done = self._decode(frame, Done)
            else:
                raise self._damaged("has a frame of an unknown kind", start)
        if contents.done.accesses != contents.loads + contents.stores + contents.fetches:
            raise self._damaged("does not hold as many accesses as its end says")
        if self._data.read(1):
            raise self._damaged("goes on after its end")

    def _accesses(self, frame: bytes, start: int) -> Iterator[int]:
        contents, core = self.contents, self._core
        try:
            core.begin(frame)
            more = True
            while more:
                more = core.step(_ACCESSES_A_STEP)
                contents.loads, contents.stores, contents.fetches, contents.num_operations = core.counts()
                yield contents.loads + contents.stores + contents.fetches
        except ValueError as error:
            contents.loads, contents.stores, contents.fetches, contents.num_operations = core.counts()
            raise self._damaged(str(error), start) from error
        except MemoryError:
            raise TraceFileError("memory ran out while simulating: simulate fewer or smaller caches") from None

    def _frame(self) -> tuple[bytes, bytes]:
        """The next frame's tag and its content, inflated and checked."""
        start = self._offset
        head = self._take(_FRAME.size)
        if len(head) < _FRAME.size:
            raise self._cut_short(start)
        tag, stored_bytes, raw_bytes, checksum = _FRAME.unpack(head)
        if stored_bytes > _MAX_FRAME_BYTES or raw_bytes > _MAX_FRAME_BYTES:
            raise self._damaged("has a frame of impossible length", start)
        stored = self._take(stored_bytes)
        if len(stored) < stored_bytes:
            raise self._cut_short(start)
        if zlib.crc32(stored) != checksum:
            raise self._damaged("has a frame whose checksum is wrong", start)
        core = zlib.decompressobj(-15)
        try:
            frame = core.decompress(stored, raw_bytes + 1)
        except zlib.error as error:
            raise self._damaged("has a frame that cannot be inflated", start) from error
        if len(frame) != raw_bytes or not core.eof or core.unused_data:
            raise self._damaged("has a frame that is not as long as it says", start)
        return tag, frame

    def _decode(self, frame: bytes, kind: type[_Json]) -> _Json:
        self._table_bytes += len(frame)
        if self._table_bytes > _MAX_TABLE_BYTES:
            raise self._damaged("has larger tables than a stream can have, which end")
        try:
            return json_text.decode(frame, kind)
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise self._damaged(f"has a table that is not as it should be ({error}), which ends") from error

    def _take(self, length: int) -> bytes:
        data = self._data.read(length)
        self._offset += len(data)
        return data

    def _damaged(self, what: str, offset: int | None = None) -> TraceFileError:
        where = self._offset if offset is None else offset
        return TraceFileError(f"{self._name}: {what} at byte {where}; the stream is damaged")

    def _cut_short(self, frame: int) -> TraceFileError:
        return TraceFileError(
            f"{self._name}: breaks off at byte {self._offset}, in the frame that begins at byte {frame}"
        )


class _OperationTable(msgspec.Struct, forbid_unknown_fields=True):
    first: int
    operations: list[Place]


class _LoopTable(msgspec.Struct, forbid_unknown_fields=True):
    loops: list[LoopPlace]
