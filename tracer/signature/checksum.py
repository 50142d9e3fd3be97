"""The checksum of a signature's file: CRC-32 of all its bytes but the checksum's own four.

It is the only row of the table `checksum`, the first that is made. SQLite keeps the first table on page 2, and the only
row of a page at the page's end (sqlite.org/fileformat2.html, sections 1.3.2 and 1.6). So it is the last four bytes of
page 2, and is checked before SQLite reads the file.
"""

from __future__ import annotations

import zlib
from typing import BinaryIO

SCHEMA = "CREATE TABLE checksum (crc32 BLOB NOT NULL)"
SIZE_BYTES = 4
PLACEHOLDER = b"\xff\x00\xff\x00"
_CHUNK_BYTES = 1 << 20


def sealed(data: bytes) -> bytes:
    """The content of a file with its checksum."""
    at = _position(data)
    checksum = zlib.crc32(data[at + SIZE_BYTES :], zlib.crc32(data[:at]))
    return b"".join((data[:at], checksum.to_bytes(SIZE_BYTES, "big"), data[at + SIZE_BYTES :]))


def is_whole(file: BinaryIO, header: bytes) -> bool:
    """Whether a file, open at its beginning, has the content it was written with. `header`: its first 100 bytes."""
    at = _position(header)
    checksum, left = 0, at
    while left and (chunk := file.read(min(left, _CHUNK_BYTES))):
        checksum = zlib.crc32(chunk, checksum)
        left -= len(chunk)
    written = file.read(SIZE_BYTES)
    while chunk := file.read(_CHUNK_BYTES):
        checksum = zlib.crc32(chunk, checksum)
    return written == checksum.to_bytes(SIZE_BYTES, "big")


def _position(header: bytes) -> int:
    """Offset of the checksum in the file, in bytes. 65,536 bytes a page are written as 1 (section 1.3.2)."""
    page_bytes = int.from_bytes(header[16:18], "big")
    return 2 * (65536 if page_bytes == 1 else page_bytes) - SIZE_BYTES
