"""Functions and source lines of one ELF file, by link-time address.

Everything is read when first asked for, and no more than is needed. A damaged file never stops an analysis: what cannot
be read is left out, and `notes` says so.
"""

from __future__ import annotations

import mmap
import os
import stat
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import IO, cast

import numpy as np
import numpy.typing as npt
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from . import line_table
from .line_table import LineTable

# ELF-64 Object File Format, version 1.5, section 7; the 32-bit form has the fields in another order.
_SYMBOL_64 = [("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2"), ("value", "u8"), ("size", "u8")]
_SYMBOL_32 = [("name", "u4"), ("value", "u4"), ("size", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2")]
_STT_NOTYPE, _STT_FUNC, _STT_GNU_IFUNC = 0, 2, 10
_STB_LOCAL = 0
_SHF_EXECINSTR = 4
_PLT_ENTRY_BYTES = 16
# .eh_frame_hdr with a table of pairs of 32-bit offsets from its own start, as GNU ld, gold and lld write it (Linux
# Standard Base Core, section 10.6.2): version 1; pcrel|sdata4, udata4, datarel|sdata4.
_EH_FRAME_HDR = b"\x01\x1b\x03\x3b"
_MAX_EH_FRAME_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Function:
    """A function, from `start` to `end` (link-time addresses)."""

    name: str
    start: int
    end: int


class Symbols:
    """What an ELF file tells about its code. For what is no readable ELF file, nothing."""

    def __init__(self, path: str) -> None:
        """Open the file and read its program headers."""
        self.path = path
        self.notes: list[str] = []
        self._name = PurePosixPath(path).name
        self._elf: ELFFile | None = None
        self._segments: list[tuple[int, int, int]] = []
        try:
            elf = ELFFile(cast(IO[bytes], _map(path)))
            self._segments = [
                (s["p_offset"], s["p_offset"] + s["p_filesz"], s["p_vaddr"]) for s in elf.iter_segments("PT_LOAD")
            ]
            self._elf = elf
        except OSError as error:
            self._note("cannot be read", error.strerror or str(error))
        except Exception as error:  # a damaged file can make the library raise anything
            self._note("is not a whole ELF file", error)

    def _note(self, what: str, error: object) -> None:
        reason = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
        self.notes.append(f"{self.path}: {what} ({reason})")

    def link_address(self, file_offset: int) -> int | None:
        """Link-time virtual address of a byte of the file; None if it is not loaded."""
        for begin, end, address in self._segments:
            if begin <= file_offset < end:
                return address + file_offset - begin
        return None

    def function(self, address: int) -> Function | None:
        """The function that holds a link-time address, or None.

        A function without a name is called by its module and start, such as `gzip+0x4a20`.
        """
        named = _holding(self._named, address) or _holding(self._plt, address)
        return named or _holding(self._unnamed, address)

    def lines(self, addresses: npt.NDArray[np.uint64]) -> LineTable:
        """The lines of all compilation units that hold any of these link-time addresses."""
        if self._elf is None:
            return line_table.EMPTY
        try:
            if not any(self._elf.get_section_by_name(name) for name in (".debug_line", ".zdebug_line")):
                return line_table.EMPTY
            dwarf = self._elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
        except Exception as error:  # a damaged file can make the library raise anything
            self._note("debug information left out", error)
            return line_table.EMPTY
        table, problems = line_table.read_line_table(dwarf, np.unique(addresses))
        if problems:
            self._note("lines missing", f"{problems[0]}; {len(problems)} such problems")
        return table

    @cached_property
    def _named(self) -> list[Function]:
        """Functions in the symbol tables, sorted, one for each address."""
        best: dict[int, tuple[tuple[int, int, int, str], int]] = {}
        for section_name in (".symtab", ".dynsym"):
            try:
                for address, end, rank in self._symbols(section_name):
                    if address not in best or rank < best[address][0]:
                        best[address] = (rank, max(end, best[address][1] if address in best else 0))
            except Exception as error:  # a damaged file can make the library raise anything
                self._note(f"{section_name} left out", error)
        functions: list[Function] = []
        starts = sorted(best)
        for start, following in zip_longest(starts, starts[1:], fillvalue=1 << 64):
            rank, end = best[start]
            if end == start:  # written in assembler, without a size
                if functions and start < functions[-1].end:
                    continue
                end = min(following, self._section_end(start))
            functions.append(Function(rank[-1], start, end))
        return functions

    def _symbols(self, section_name: str) -> list[tuple[int, int, tuple[int, int, int, str]]]:
        """Start, end and rank (name last) of each function symbol of a symbol table."""
        elf = self._elf
        section = elf.get_section_by_name(section_name) if elf else None
        if elf is None or section is None:
            return []
        order = "<" if elf.little_endian else ">"
        layout = np.dtype([(name, order + kind) for name, kind in (_SYMBOL_64 if elf.elfclass == 64 else _SYMBOL_32)])
        data = section.data()
        table = np.frombuffer(data[: len(data) // layout.itemsize * layout.itemsize], layout)
        kind, binding = table["info"] & 15, table["info"] >> 4
        code = np.isin(table["section"], [number for number, _, _ in self._code_sections])
        is_label = (kind == _STT_NOTYPE) & (binding != _STB_LOCAL)
        table = table[code & ((kind == _STT_FUNC) | (kind == _STT_GNU_IFUNC) | is_label) & (table["value"] != 0)]
        names = elf.get_section(section["sh_link"]).data()
        found = []
        for row in table:
            begin = int(row["name"])
            name = names[begin : names.index(b"\0", begin)].decode("utf-8", "replace")
            if name:
                local = int(row["info"] >> 4 == _STB_LOCAL)
                rank = (local, len(name) - len(name.lstrip("_")), len(name), name)
                start = int(row["value"])
                found.append((start, start + int(row["size"]), rank))
        return found

    @cached_property
    def _code_sections(self) -> list[tuple[int, int, int]]:
        """Number, start and end of each section with code."""
        sections = enumerate(self._elf.iter_sections() if self._elf else ())
        code = [(number, section) for number, section in sections if section["sh_flags"] & _SHF_EXECINSTR]
        return [(number, int(s["sh_addr"]), int(s["sh_addr"] + s["sh_size"])) for number, s in code]

    def _section_end(self, address: int) -> int:
        """End of the section of code that holds an address; without sections, of all addresses."""
        ends = [end for _, start, end in self._code_sections if start <= address < end]
        return ends[0] if ends else (1 << 64 if not self._code_sections else address)

    @cached_property
    def _plt(self) -> list[Function]:
        """Stubs through which functions of other modules are called, in the order of their relocations."""
        functions: list[Function] = []
        try:
            relocations = self._elf.get_section_by_name(".rela.plt") if self._elf else None
            if self._elf is None or not isinstance(relocations, RelocationSection):
                return functions
            symbols = self._elf.get_section(relocations["sh_link"])
            if not isinstance(symbols, SymbolTableSection):
                return functions
            names = [symbols.get_symbol(r["r_info_sym"]).name for r in relocations.iter_relocations()]
            for section_name in (".plt", ".plt.sec"):
                section = self._elf.get_section_by_name(section_name)
                if section is None:
                    continue
                # In .plt, what precedes the stubs is the call of the dynamic linker.
                start = section["sh_addr"] + section["sh_size"] - _PLT_ENTRY_BYTES * len(names)
                for name in names:
                    if name and start >= section["sh_addr"]:
                        functions.append(Function(f"{name}@plt", start, start + _PLT_ENTRY_BYTES))
                    start += _PLT_ENTRY_BYTES
        except Exception as error:  # a damaged file can make the library raise anything
            self._note("PLT left out", error)
        return sorted(functions, key=lambda function: function.start)

    @cached_property
    def _unnamed(self) -> list[Function]:
        """Functions as the unwinding tables tell them, named by module and start."""
        if self._elf is None:
            return []
        try:
            ranges = self._eh_frame_hdr()
            if ranges is None:
                ranges = self._eh_frame()
        except Exception as error:  # a damaged file can make the library raise anything
            self._note("unwinding tables left out", error)
            return []
        return [Function(f"{self._name}+{start:#x}", start, end) for start, end in ranges]

    def _eh_frame_hdr(self) -> list[tuple[int, int]] | None:
        """Function starts from the sorted table that the linker makes; None if there is none in its usual form."""
        assert self._elf is not None
        segment = next(iter(self._elf.iter_segments("PT_GNU_EH_FRAME")), None)
        if segment is None:
            return None
        data = segment.data()
        if data[:4] != _EH_FRAME_HDR or not self._elf.little_endian:
            return None
        number = int.from_bytes(data[8:12], "little")
        pairs = np.frombuffer(data[12:][: 8 * number], "<i4").reshape(-1, 2)
        starts = np.unique(pairs[:, 0].astype(np.int64) + segment["p_vaddr"]).tolist()
        return [
            (start, min(following, self._section_end(start)))
            for start, following in zip_longest(starts, starts[1:], fillvalue=1 << 64)
        ]

    def _eh_frame(self) -> list[tuple[int, int]]:
        """Function ranges from .eh_frame itself, which takes its time."""
        assert self._elf is not None
        section = self._elf.get_section_by_name(".eh_frame")
        if section is None:
            return []
        if section["sh_size"] > _MAX_EH_FRAME_BYTES:
            self._note("functions without a name are not told apart", f".eh_frame of {section['sh_size']} bytes")
            return []
        entries = self._elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False).EH_CFI_entries()
        fdes = [entry.header for entry in entries if isinstance(entry, FDE)]
        return sorted((h["initial_location"], h["initial_location"] + h["address_range"]) for h in fdes)


def _holding(functions: list[Function], address: int) -> Function | None:
    """The last of the sorted functions that starts at or before an address, if it holds it."""
    position = bisect_right(functions, address, key=lambda function: function.start) - 1
    if position >= 0 and address < functions[position].end:
        return functions[position]
    return None


def _map(path: str) -> mmap.mmap:
    """The file, mapped read-only. Nothing but a regular file is opened: others may block.

    Raises:
        OSError: it cannot be.
        ValueError: it is empty.
    """
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise OSError(0, "not a regular file")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
    finally:
        os.close(descriptor)
