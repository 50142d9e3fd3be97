"""Segments and sections of a 64-bit little-endian ELF file, read straight from its headers.

System V ABI, chapter 4, with the sizes of ELF-64 (ELF-64 Object File Format, version 1.5, sections 2, 3 and 5). A
library that parses headers field by field takes longer for one C library than the rest of an analysis.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct

import msgspec

EM_X86_64 = 62
PT_LOAD, PT_GNU_EH_FRAME = 1, 0x6474E550
SHT_DYNSYM = 11
SHF_WRITE, SHF_EXECINSTR = 1, 4
SHT_NOBITS = 8
_IDENT = b"\x7fELF\x02\x01"  # 64-bit, little-endian
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")


class Segment(msgspec.Struct, frozen=True):
    """A program header: bytes [begin, end) of the file are loaded at `address`."""

    kind: int
    begin: int
    end: int
    address: int


class Section(msgspec.Struct, frozen=True):
    """A section header. `link` is the number of another section, whose meaning depends on the kind of this one."""

    number: int
    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size_bytes: int
    link: int


class ElfFile:
    """An ELF file, mapped read-only. `entry` is the link-time address that it begins at, `machine` the
    architecture (e_machine).

    Raises:
        OSError: it cannot be read.
        ValueError, struct.error, UnicodeDecodeError: it is no ELF file, or damaged.
    """

    def __init__(self, path: str, content: bytes | None = None) -> None:
        """Map the file, or take its `content`, and read its headers."""
        self.mapping = _map(path) if content is None else content
        if self.mapping[: len(_IDENT)] != _IDENT:
            raise ValueError("it does not begin as a 64-bit little-endian one")
        self.machine: int
        self.entry: int
        _, self.machine, _, self.entry, segments_at, sections_at, _, _, *sizes = _HEADER.unpack_from(self.mapping)
        segment_bytes, segments, section_bytes, sections, names = sizes
        rows = [_SEGMENT.unpack_from(self.mapping, segments_at + n * segment_bytes) for n in range(segments)]
        self.segments = [Segment(row[0], row[2], row[2] + row[5], row[3]) for row in rows]
        rows = [_SECTION.unpack_from(self.mapping, sections_at + n * section_bytes) for n in range(sections)]
        strings = self.mapping[rows[names][4] : rows[names][4] + rows[names][5]] if names else b""
        self.sections = [
            Section(number, text_at(strings, row[0]), row[1], row[2], row[3], row[4], row[5], row[6])
            for number, row in enumerate(rows)
        ]

    def section(self, name: str) -> Section | None:
        """The first section of this name."""
        return next((section for section in self.sections if section.name == name), None)

    def loaded_at(self, address: int, size_bytes: int) -> bytes:
        """Bytes loaded from the file at a link-time address, up to `size_bytes`; empty where nothing is loaded."""
        for segment in self.segments:
            at = segment.begin + address - segment.address
            if segment.kind == PT_LOAD and segment.begin <= at < segment.end:
                return self.mapping[at : min(at + size_bytes, segment.end)]
        return b""

    def data(self, part: Section | Segment) -> bytes:
        """Content of a section or segment in the file."""
        if isinstance(part, Segment):
            return self.mapping[part.begin : part.end]
        return b"" if part.kind == SHT_NOBITS else self.mapping[part.offset : part.offset + part.size_bytes]


def text_at(strings: bytes, offset: int) -> str:
    """A string of a string table."""
    end = strings.find(b"\0", offset)
    return strings[offset : end if end >= 0 else len(strings)].decode("utf-8", "surrogateescape")


def _map(path: str) -> mmap.mmap:
    """The file, mapped read-only. Nothing but a regular file is opened: others may block.

    Raises:
        OSError: it cannot be.
        ValueError: it is empty.
    """
    name = path.encode("utf-8", "surrogateescape")  # as it was recorded, whatever this process's locale is
    if not stat.S_ISREG(os.stat(name).st_mode):  # noqa: PTH116
        raise OSError(0, "not a regular file")
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
    finally:
        os.close(descriptor)
