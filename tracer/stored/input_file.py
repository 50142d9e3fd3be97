"""Trace files as streams of bytes, decompressed: memory is bounded, and standard input works.

gzip, xz, bzip2 and zip are read here. All members of a zip archive are concatenated, as DynamoRIO intends; they are
read in sequence, without the directory at the end, so that an archive may come through a pipe.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from foretrace.base.errors import TraceFileError

BLOCK_BYTES = 1 << 20
_LZMA_MEMORY_BYTES = 256 << 20
_ZIP_MEMBER = struct.Struct("<4sHHHHHIIIHH")
_ZIP_END_BYTES = 22  # of the record at the end, which a comment of up to 65535 bytes follows
_ZIP_STORED, _ZIP_DEFLATED = 0, 8
_ZIP_HAS_DESCRIPTOR, _ZIP_ENCRYPTED = 0x8, 0x1
_UNSUPPORTED = {
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -dc"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -dc"),
    b"\xff\x06\x00\x00": ("snappy", "snzip -dc"),
}


class InputFile:
    """A file or standard input ("-"), read from its beginning to its end.

    `offset` is the number of bytes taken from it, `size_bytes` the total, None if unknown.

    Raises:
        TraceFileError: it cannot be opened or read.
    """

    def __init__(self, path: str | Path) -> None:
        """Open it."""
        self.name = "standard input" if str(path) == "-" else str(path)
        self._ahead = b""
        self.offset = 0
        self.size_bytes: int | None = None
        try:
            self._file: BinaryIO = sys.stdin.buffer if str(path) == "-" else Path(path).open("rb", buffering=0)  # noqa: SIM115
            if str(path) != "-" and Path(path).is_file():
                self.size_bytes = Path(path).stat().st_size
        except OSError as error:
            raise TraceFileError(f"{self.name}: cannot be read: {error.strerror}") from error

    def read(self, length: int) -> bytes:
        """Up to `length` bytes; none at the end."""
        data = self._ahead[:length]
        self._ahead = self._ahead[length:]
        if not data:
            try:
                data = self._file.read(length) or b""
            except OSError as error:
                raise TraceFileError(f"{self.name}: cannot be read: {error.strerror}") from error
        self.offset += len(data)
        return data

    def read_exactly(self, length: int) -> bytes:
        """`length` bytes, fewer only at the end."""
        parts, missing = [], length
        while missing and (part := self.read(missing)):
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def unread(self, data: bytes) -> None:
        """Put back the bytes read last."""
        self._ahead = data + self._ahead
        self.offset -= len(data)

    def close(self) -> None:
        """Close the file, not standard input."""
        if self._file is not sys.stdin.buffer:
            self._file.close()

    def damaged(self, what: str) -> TraceFileError:
        """An error at where it has been read to."""
        return TraceFileError(f"{self.name}: {what} at byte {self.offset}")


class Bytes:
    """Decompressed content of an input file.

    Raises:
        TraceFileError: it is damaged, or compressed in a way that cannot be read here.
    """

    def __init__(self, file: InputFile) -> None:
        """Determine the file's compression from its first bytes."""
        head = file.read_exactly(6)
        file.unread(head)
        self.file = file
        self._rest = b""
        self._blocks = _blocks(file, head)

    def __iter__(self) -> Iterator[bytes]:
        """Non-empty blocks of up to 1 MiB."""
        if self._rest:
            yield self._rest
            self._rest = b""
        yield from self._blocks

    def peek(self, length: int) -> bytes:
        """The first bytes, without consuming them; fewer than `length` at the end of the file."""
        self._fill(length)
        return self._rest[:length]

    def read(self, length: int) -> bytes:
        """The next bytes, fewer only at the end."""
        self._fill(length)
        data, self._rest = self._rest[:length], self._rest[length:]
        return data

    def _fill(self, length: int) -> None:
        parts, have = [self._rest], len(self._rest)
        while have < length and (block := next(self._blocks, b"")):
            parts.append(block)
            have += len(block)
        if len(parts) > 1:
            self._rest = b"".join(parts)


def _blocks(file: InputFile, head: bytes) -> Iterator[bytes]:
    for magic, (name, tool) in _UNSUPPORTED.items():
        if head.startswith(magic):
            raise TraceFileError(
                f"{file.name}: is compressed with {name}; run {tool} FILE | foretrace simulate - instead"
            )
    if head.startswith(b"\x1f\x8b"):
        return _members(file, "gzip", head[:2])
    if head.startswith(b"\xfd7zXZ\0"):
        return _members(file, "xz", head)
    if head.startswith(b"BZh"):
        return _members(file, "bzip2", head[:3])
    if head.startswith(b"PK\x03\x04"):
        return _zip_members(file)
    return iter(lambda: file.read(BLOCK_BYTES), b"")


# ---- one compressed stream after the other --------------------------------------------------------------------------


class _Inflate:
    """zlib's decompressor with the interface of the others."""

    def __init__(self, window_bits: int) -> None:
        self._core = zlib.decompressobj(window_bits)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._core.decompress(self._core.unconsumed_tail + data, max_length)

    @property
    def needs_input(self) -> bool:
        return not self._core.unconsumed_tail

    @property
    def eof(self) -> bool:
        return self._core.eof

    @property
    def unused_data(self) -> bytes:
        return self._core.unused_data


_Decompressor = _Inflate | lzma.LZMADecompressor | bz2.BZ2Decompressor


def _decompressor(kind: str) -> _Decompressor:
    if kind == "gzip":
        return _Inflate(31)
    if kind == "xz":
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_LZMA_MEMORY_BYTES)
    return bz2.BZ2Decompressor()


def _one_stream(file: InputFile, core: _Decompressor, kind: str) -> Iterator[bytes]:
    """Decompress up to the end of one stream; the bytes after it are put back."""
    data = b""
    try:
        while not core.eof:
            if core.needs_input:
                data = file.read(BLOCK_BYTES // 4)
                if not data:
                    raise file.damaged(f"its {kind} data breaks off; it is cut short")
            block = core.decompress(data if core.needs_input else b"", BLOCK_BYTES)
            data = b""
            if block:
                yield block
    except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
        raise file.damaged(f"its {kind} data is damaged ({error}), somewhere before or") from error
    file.unread(core.unused_data)


def _members(file: InputFile, kind: str, magic: bytes) -> Iterator[bytes]:
    while True:
        yield from _one_stream(file, _decompressor(kind), kind)
        head = file.read_exactly(len(magic))
        while head and not head.strip(b"\0"):  # padding
            head = file.read_exactly(len(magic))
        if not head:
            return
        file.unread(head)
        if head != magic:
            raise file.damaged(f"has something else after its {kind} data")


# ---- zip ------------------------------------------------------------------------------------------------------------


def _zip_members(file: InputFile) -> Iterator[bytes]:
    while True:
        head = file.read_exactly(4)
        file.unread(head)
        if head == b"PK\x01\x02":
            _skip_zip_directory(file)
            return
        if head != b"PK\x03\x04":
            raise file.damaged("its zip archive breaks off, or has something that is no member,")
        yield from _zip_member(file)


def _skip_zip_directory(file: InputFile) -> None:
    """Skip the directory after the last member; a complete archive has a record at its end."""
    tail = b""
    while block := file.read(BLOCK_BYTES):
        tail = (tail + block)[-_ZIP_END_BYTES - 0xFFFF :]
    if not 0 <= tail.rfind(b"PK\x05\x06") <= len(tail) - _ZIP_END_BYTES:
        raise file.damaged("its zip archive breaks off")


def _zip_member(file: InputFile) -> Iterator[bytes]:
    header = file.read_exactly(_ZIP_MEMBER.size)
    if len(header) < _ZIP_MEMBER.size:
        raise file.damaged("its zip archive breaks off")
    _, _, flags, method, _, _, crc, stored, _, name_bytes, extra_bytes = _ZIP_MEMBER.unpack(header)
    file.read_exactly(name_bytes + extra_bytes)
    if flags & _ZIP_ENCRYPTED or method not in (_ZIP_STORED, _ZIP_DEFLATED):
        raise file.damaged("has a zip member that is encrypted, or compressed by another method than deflate,")
    if method == _ZIP_STORED and (flags & _ZIP_HAS_DESCRIPTOR or stored == 0xFFFFFFFF):
        raise file.damaged("has a zip member of unknown length")
    blocks = _one_stream(file, _Inflate(-15), "zip") if method == _ZIP_DEFLATED else _stored(file, stored)
    found = 0
    for block in blocks:
        found = zlib.crc32(block, found)
        yield block
    if flags & _ZIP_HAS_DESCRIPTOR:
        crc = _zip_descriptor(file)
    if found != crc:
        raise file.damaged("has a zip member whose checksum is wrong, which ends")


def _stored(file: InputFile, length: int) -> Iterator[bytes]:
    while length:
        block = file.read(min(length, BLOCK_BYTES))
        if not block:
            raise file.damaged("its zip archive breaks off")
        length -= len(block)
        yield block


def _zip_descriptor(file: InputFile) -> int:
    """The checksum after a member: 12 or 20 bytes, with or without a signature before."""
    data = file.read_exactly(24 + 4)
    body = data[4:] if data.startswith(b"PK\x07\x08") else data
    for sizes_bytes in (8, 16):
        end = 4 + sizes_bytes
        if body[end : end + 4] in (b"PK\x03\x04", b"PK\x01\x02"):
            file.unread(body[end:])
            return int.from_bytes(body[:4], "little")
    raise file.damaged("has a zip member without its checksum")
