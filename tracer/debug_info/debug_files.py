"""Separate debug files of ELF files: where they are, and how their sections are read.

Debuggers look in the same places: "Debugging Information in Separate Files" in the GDB manual. Compressed sections:
System V ABI, chapter 4, "Compressed Sections" (zlib, Zstandard), and GNU's older `.zdebug_` form.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import io
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .elf_file import SHT_NOBITS, ElfFile, Section

if TYPE_CHECKING:
    from elftools.dwarf.dwarfinfo import DWARFInfo

SYSTEM_FOLDERS = (Path("/usr/lib/debug"),)
"""Folders in which distributions install debug information."""
_MOST_BYTES = 1 << 30
"""Largest size of a decompressed section."""
_SHF_COMPRESSED = 0x800
_ZLIB, _ZSTD = 1, 2
_COMPRESSION = struct.Struct("<IIQQ")  # Elf64_Chdr
_GNU_COMPRESSED = b"ZLIB"
_SECTIONS = {
    "debug_info_sec": "info", "debug_aranges_sec": "aranges", "debug_abbrev_sec": "abbrev", "debug_str_sec": "str",
    "debug_line_sec": "line", "debug_ranges_sec": "ranges", "debug_addr_sec": "addr", "debug_sup_sec": "sup",
    "debug_str_offsets_sec": "str_offsets", "debug_line_str_sec": "line_str", "debug_rnglists_sec": "rnglists",
}  # fmt: skip
_UNUSED = ("debug_frame_sec", "eh_frame_sec", "debug_loc_sec", "debug_pubtypes_sec", "debug_pubnames_sec",
           "debug_loclists_sec", "gnu_debugaltlink_sec", "debug_types_sec")  # fmt: skip


def tells_lines(elf: ElfFile) -> bool:
    """Whether an ELF file has source lines itself."""
    return any(
        section.size_bytes and section.kind != SHT_NOBITS for section in map(elf.section, _names("line")) if section
    )


def separate_file(elf: ElfFile, path: str) -> tuple[ElfFile | None, str]:
    """The separate debug file of the file at `path`, by its build-id or its .gnu_debuglink; or a note on a missing one.
    Neither, if it names none."""
    link, identity = _debug_link(elf), build_id(elf)
    rejected = ""
    for candidate in _candidates(path, link[0] if link else "", identity):
        with suppress(OSError, ValueError, struct.error):
            if candidate.resolve() == Path(path).resolve():
                continue
            found = ElfFile(str(candidate))
            its_own = build_id(found)
            if its_own == identity if identity and its_own else link and zlib.crc32(found.mapping) == link[1]:
                return found, ""
            rejected = f"{candidate} is of another build"
    if not link:
        return None, ""
    what = rejected or f"{link[0]} is not where it is looked for"
    return None, f"no names and lines: {what}; put it beside the file, or install the package with its debug symbols"


def build_id(elf: ElfFile) -> bytes:
    """The file's NT_GNU_BUILD_ID; empty if it has none."""
    section = elf.section(".note.gnu.build-id")
    note = elf.data(section) if section else b""
    if len(note) < 16:
        return b""
    name_bytes, bytes_, kind = struct.unpack_from("<III", note)
    begin = 12 + (name_bytes + 3) // 4 * 4
    return note[begin : begin + bytes_] if kind == 3 else b""


def _debug_link(elf: ElfFile) -> tuple[str, int] | None:
    section = elf.section(".gnu_debuglink")
    link = elf.data(section) if section else b""
    name, _, _ = link.partition(b"\0")
    if not name or len(link) < 4 or b"/" in name:
        return None
    return os.fsdecode(name), int.from_bytes(link[-4:], "little")


def _candidates(path: str, name: str, identity: bytes) -> Iterator[Path]:
    folder = Path(path).parent
    if len(identity) > 1:
        for system in SYSTEM_FOLDERS:
            yield system / ".build-id" / identity[:1].hex() / f"{identity[1:].hex()}.debug"
    if name:
        yield folder / name
        yield folder / ".debug" / name
        for system in SYSTEM_FOLDERS:
            yield system / folder.resolve().relative_to("/") / name


def _names(what: str) -> tuple[str, str]:
    return f".debug_{what}", f".zdebug_{what}"


def dwarf_of(elf: ElfFile, path: str) -> DWARFInfo:
    """The debug information of the file at `path`.

    Raises:
        ValueError, zlib.error, struct.error: a section is damaged, or compressed in a way that cannot be read here.
    """
    from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo  # takes long to import

    def read(what: str) -> DebugSectionDescriptor | None:
        for name in _names(what):
            section = elf.section(name)
            if section is not None and section.kind != SHT_NOBITS:
                content = section_content(elf, section)
                return DebugSectionDescriptor(io.BytesIO(content), name, section.offset, len(content), section.address)
        return None

    config = DwarfConfig(little_endian=True, default_address_size=8, machine_arch="")
    sections = {argument: read(what) for argument, what in _SECTIONS.items()}
    dwarf = DWARFInfo(config=config, **sections, **dict.fromkeys(_UNUSED))
    shared = _shared_file(elf, path)
    if shared is not None:
        dwarf.supplementary_dwarfinfo = dwarf_of(shared, path)
    return dwarf


def _shared_file(elf: ElfFile, path: str) -> ElfFile | None:
    """The file of debug information that dwz found in several files (.gnu_debugaltlink); None if it names none.

    Raises:
        ValueError: it is not there.
    """
    section = elf.section(".gnu_debugaltlink")
    name, _, identity = (elf.data(section) if section else b"").partition(b"\0")
    if not name:
        return None
    named = Path(os.fsdecode(name))
    candidates = [Path(path).parent / named]
    for system in SYSTEM_FOLDERS:
        candidates += [
            system / ".build-id" / identity[:1].hex() / f"{identity[1:].hex()}.debug",
            system / ".dwz" / named.name,
        ]
    for candidate in candidates:
        with suppress(OSError, ValueError, struct.error):
            found = ElfFile(str(candidate))
            if build_id(found) == identity:
                return found
    raise ValueError(f"{named}, which it refers to by .gnu_debugaltlink, is not there: install its debug symbols")


def section_content(elf: ElfFile, section: Section) -> bytes:
    """The decompressed content of a section.

    Raises:
        ValueError, zlib.error, struct.error: it is damaged, or compressed in a way that cannot be read here.
    """
    content = elf.data(section)
    if section.name.startswith(".zdebug_") and content.startswith(_GNU_COMPRESSED):
        return _inflated(content[12:], int.from_bytes(content[4:12], "big"))
    if not section.flags & _SHF_COMPRESSED:
        return content
    kind, _, size_bytes, _ = _COMPRESSION.unpack_from(content)
    content = content[_COMPRESSION.size :]
    if kind == _ZLIB:
        return _inflated(content, size_bytes)
    if kind == _ZSTD:
        return _unpacked(content, size_bytes)
    raise ValueError(f"{section.name} is compressed in form {kind}; decompress it with objcopy")


def _inflated(content: bytes, size_bytes: int) -> bytes:
    if size_bytes > _MOST_BYTES:
        raise ValueError(f"{size_bytes} bytes are more than is read of a section")
    unpacker = zlib.decompressobj()
    unpacked = unpacker.decompress(content, max(size_bytes, 1))
    if len(unpacked) != size_bytes:
        raise ValueError("a compressed section is damaged")
    return unpacked


def _unpacked(content: bytes, size_bytes: int) -> bytes:
    """Decompress by the system's Zstandard library (RFC 8878), which most distributions' package managers need."""
    if size_bytes > _MOST_BYTES:
        raise ValueError(f"{size_bytes} bytes are more than is read of a section")
    name = ctypes.util.find_library("zstd") or "libzstd.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise ValueError(
            "it is compressed by Zstandard: install libzstd, or run objcopy --decompress-debug-sections"
        ) from error
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t
    buffer = ctypes.create_string_buffer(max(size_bytes, 1))
    if library.ZSTD_decompress(buffer, size_bytes, content, len(content)) != size_bytes:
        raise ValueError("a compressed section is damaged")
    return buffer.raw[:size_bytes]
