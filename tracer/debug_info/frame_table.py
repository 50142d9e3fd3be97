"""Address ranges of functions from the stack-unwinding tables, which stripped programs have as well.

Linux Standard Base Core 5.0, sections 10.5 (DWARF pointer encodings) and 10.6 (.eh_frame, .eh_frame_hdr).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

# .eh_frame_hdr with a table of pairs of 32-bit offsets from its own start, as GNU ld, gold and lld write it: version 1;
# pcrel|sdata4, udata4, datarel|sdata4.
_USUAL_HEADER = b"\x01\x1b\x03\x3b"
_FORMATS = {0x0: "<Q", 0x2: "<H", 0x3: "<I", 0x4: "<Q", 0xA: "<h", 0xB: "<i", 0xC: "<q"}
_ABSOLUTE, _RELATIVE_TO_ITSELF = 0x00, 0x10
_MASK = (1 << 64) - 1


def function_starts(header: bytes, address: int) -> npt.NDArray[np.int64] | None:
    """The sorted starts that an .eh_frame_hdr at `address` lists; None if it has not its usual form."""
    if header[:4] != _USUAL_HEADER:
        return None
    number = int.from_bytes(header[8:12], "little")
    pairs = np.frombuffer(header[12:][: 8 * number], "<i4").reshape(-1, 2)
    starts: npt.NDArray[np.int64] = np.sort(pairs[:, 0].astype(np.int64) + address)
    is_new = np.ones(len(starts), bool)  # np.unique imports all of numpy.ma
    is_new[1:] = starts[1:] != starts[:-1]
    return starts[is_new]


def function_ranges(frames: bytes, address: int) -> list[tuple[int, int]]:
    """Start and end of each function that an .eh_frame at `address` describes, sorted.

    Raises:
        ValueError, KeyError, struct.error, IndexError: it is damaged, or has pointers of an unusual form.
    """
    ranges = []
    encodings: dict[int, int] = {}
    for position, owner, body in _entries(frames):
        if owner == 0:
            encodings[position] = _pointer_encoding(frames, body)
            continue
        encoding = encodings[body - 4 - owner]
        pointer = struct.Struct(_FORMATS[encoding & 0x0F])
        (start,) = pointer.unpack_from(frames, body)
        (size_bytes,) = pointer.unpack_from(frames, body + pointer.size)
        if encoding & 0xF0 == _RELATIVE_TO_ITSELF:
            start += address + body
        elif encoding & 0xF0 != _ABSOLUTE:
            raise ValueError(f"pointers of encoding {encoding:#x}")
        ranges.append((start & _MASK, (start + size_bytes) & _MASK))
    return sorted(ranges)


def _entries(frames: bytes) -> Iterator[tuple[int, int, int]]:
    """Start of each entry, distance to its common entry (0 for a common entry itself), and start of its content."""
    position = 0
    while position + 4 <= len(frames):
        length, body = int.from_bytes(frames[position : position + 4], "little"), position + 4
        if length == 0:
            return
        if length == 0xFFFFFFFF:
            length, body = int.from_bytes(frames[body : body + 8], "little"), body + 8
        yield position, int.from_bytes(frames[body : body + 4], "little"), body + 4
        position = body + length


def _pointer_encoding(frames: bytes, body: int) -> int:
    """Encoding of the functions' pointers, from the augmentation of their common information entry."""
    end = frames.index(0, body + 1)
    augmentation, version, position = frames[body + 1 : end], frames[body], end + 1
    if not augmentation.startswith(b"z"):
        return _ABSOLUTE
    position = _after_leb128(frames, _after_leb128(frames, position))  # the two alignment factors
    position = position + 1 if version == 1 else _after_leb128(frames, position)  # the return address register
    position = _after_leb128(frames, position)  # the length of what follows
    for letter in augmentation[1:].decode("latin-1"):
        if letter == "R":
            return frames[position]
        if letter == "L":
            position += 1
        elif letter == "P":
            position += 1 + struct.calcsize(_FORMATS[frames[position] & 0x0F])
    return _ABSOLUTE


def _after_leb128(data: bytes, position: int) -> int:
    while data[position] & 0x80:
        position += 1
    return position + 1
