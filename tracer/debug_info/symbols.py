"""Functions and source lines of one ELF file, by link-time address.

Everything is read when first asked for, and no more than is needed. A damaged file never stops an analysis: what cannot
be read is left out, and `notes` says so.
"""

from __future__ import annotations

import importlib
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from . import inlined_calls, line_table
from .debug_files import dwarf_of, separate_file, tells_lines
from .elf_file import EM_X86_64, PT_GNU_EH_FRAME, PT_LOAD, SHF_EXECINSTR, SHF_WRITE, SHT_DYNSYM, ElfFile, text_at
from .frame_table import function_ranges, function_starts
from .inlined_calls import InlinedCalls
from .line_table import LineTable

# ELF-64 Object File Format, version 1.5, sections 6 and 7.
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_RELOCATION = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])
_STT_NOTYPE, _STT_OBJECT, _STT_FUNC, _STT_GNU_IFUNC = 0, 1, 2, 10
_STB_LOCAL = 0
_IRELATIVE = frozenset({37, 1032, 58})
"""Types of relocations whose addend is the address of an IFUNC's resolver: R_X86_64_IRELATIVE (System V ABI, AMD64
supplement, table 4.9), R_AARCH64_IRELATIVE (ELF for AArch64, section 5.7.14), R_RISCV_IRELATIVE (RISC-V ELF psABI)."""
_SYSTEM_LIBRARY = re.compile(r"/(usr/)?([a-z0-9_]+-linux-[a-z0-9]+/)?lib(32|64|x32)?/.*\.so(\.|$)")
_PLT_ENTRY_BYTES = 16
_FIRST_STUB = "resolver@plt"
"""Name of the code before the stubs, which jumps to the dynamic linker to resolve the symbol."""
_LAST_ADDRESS = (1 << 64) - 1

if TYPE_CHECKING:
    from elftools.dwarf.dwarfinfo import DWARFInfo

Addresses = npt.NDArray[np.uint64]


class Function(msgspec.Struct, frozen=True):
    """A function, from `start` to `end` (link-time addresses)."""

    name: str
    start: int
    end: int


class Variable(msgspec.Struct, frozen=True):
    """A static variable, from `start` to `end` (link-time addresses)."""

    name: str
    start: int
    end: int


class _Functions(msgspec.Struct, frozen=True):
    """Functions sorted by start; `name` returns the name of the one at a position. `known` caches names."""

    starts: Sequence[int]
    ends: Sequence[int]
    name: Callable[[int], str]
    known: dict[int, Function] = msgspec.field(default_factory=dict)

    def holding(self, address: int) -> Function | None:
        """The last function that starts at or before an address, if it holds it."""
        position = bisect_right(self.starts, address) - 1
        if position < 0 or address >= self.ends[position]:
            return None
        if position not in self.known:
            self.known[position] = Function(self.name(position), self.starts[position], self.ends[position])
        return self.known[position]


_NO_FUNCTIONS = _Functions((), (), str)


def import_for_lines(path: str) -> None:
    """Import the modules that read line tables, if the ELF file has any."""
    with suppress(Exception):  # a damaged file can make the reader raise anything; `Symbols` says so
        if tells_lines(ElfFile(path)):
            importlib.import_module("elftools.dwarf.dwarfinfo")


class Symbols:
    """Functions, variables, lines and addresses of an ELF file; all empty for a file that is no readable ELF file."""

    def __init__(self, path: str, content: bytes | None = None) -> None:
        """Open the file, or take the copy of its `content`, and read its headers."""
        self.path = path
        self.notes: list[str] = []
        self._name = PurePosixPath(path).name
        self._elf: ElfFile | None = None
        self._loaded: list[tuple[int, int, int]] = []
        try:
            self._elf = ElfFile(path, content)
            self._loaded = [(s.begin, s.end, s.address) for s in self._elf.segments if s.kind == PT_LOAD]
        except FileNotFoundError:
            self._note("no names and lines: it was removed while the program ran; have the program keep it")
        except OSError as error:
            self._note("cannot be read", error.strerror or str(error))
        except Exception as error:  # a damaged file can make the reader raise anything
            self._note("is not a whole ELF file", error)

    def _note(self, what: str, error: object = "") -> None:
        reason = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
        self.notes.append(f"{self.path}: {what} ({reason})" if reason else f"{self.path}: {what}")

    def link_address(self, file_offset: int) -> int | None:
        """Link-time virtual address of a byte of the file; None if it is not loaded."""
        for begin, end, address in self._loaded:
            if begin <= file_offset < end:
                return address + file_offset - begin
        return None

    def link_addresses(self, file_offsets: Addresses) -> Addresses:
        """Link-time addresses of many bytes of the file; the offset itself for bytes that are not loaded."""
        addresses = file_offsets.copy()
        for begin, end, address in reversed(self._loaded):
            inside = (file_offsets >= begin) & (file_offsets < end)
            addresses[inside] = file_offsets[inside] - np.uint64(begin) + np.uint64(address)
        return addresses

    def function(self, address: int) -> Function | None:
        """The function that holds a link-time address, or None.

        A function without a name is called by its module and start, such as `gzip+0x4a20`.
        """
        return self._named.holding(address) or self._plt.holding(address) or self._unnamed.holding(address)

    def functions(self) -> list[Function]:
        """Functions named by a symbol table, in order of start address."""
        named = self._named
        return [
            Function(named.name(position), start, end)
            for position, (start, end) in enumerate(zip(named.starts, named.ends, strict=True))
        ]

    def variables(self) -> list[Variable]:
        """Variables named by a symbol table, in order of start address. Of overlapping ones the one that begins first
        is kept, then the longest, then the global one."""
        ranked = []
        for section_name in (".symtab", ".dynsym"):
            try:
                table, strings = self._table(section_name)
                table = table[((table["info"] & 15) == _STT_OBJECT) & (table["size"] > 0) & (table["value"] > 0)]
                for offset, info, _, _, start, size in table.tolist():
                    text = text_at(strings, offset)
                    is_local = info >> 4 == _STB_LOCAL
                    ranked.append((start, -size, is_local, len(text) - len(text.lstrip("_")), len(text), text))
            except Exception as error:  # a damaged file can make the reader raise anything
                self._note(f"variables of {section_name} left out", error)
        found: list[Variable] = []
        for start, negative_size, *_, name in sorted(ranked):
            if name and start - negative_size <= _LAST_ADDRESS and (not found or start >= found[-1].end):
                found.append(Variable(name, start, start - negative_size))
        return found

    def writable(self) -> list[tuple[int, int]]:
        """Link-time ranges of the file that a program may write: its static variables."""
        sections = self._elf.sections if self._elf else ()
        return [(s.address, s.address + s.size_bytes) for s in sections if s.flags & SHF_WRITE and s.address]

    def code(self) -> list[bytes]:
        """The contents of the file's sections of code."""
        elf = self._elf
        return [] if elf is None else [elf.data(s) for s in elf.sections if s.flags & SHF_EXECINSTR]

    def lines(self, addresses: Addresses) -> LineTable:
        """The lines of all compilation units that hold any of these link-time addresses."""
        dwarf = self._dwarf
        if dwarf is None:
            return line_table.EMPTY
        table, problems = line_table.read_line_table(dwarf, np.sort(addresses))
        if problems:
            self._note("lines missing", f"{problems[0]}; {len(problems)} such problems")
        return table

    def inlined(self, addresses: Addresses) -> InlinedCalls:
        """The calls that a compiler expanded in line at these link-time addresses."""
        dwarf = self._dwarf
        if dwarf is None:
            return inlined_calls.NONE
        found, problems = inlined_calls.read_inlined_calls(dwarf, np.unique(addresses))
        if problems:
            self._note("calls expanded in line missing", f"{problems[0]}; {len(problems)} such problems")
        return found

    @cached_property
    def _dwarf(self) -> DWARFInfo | None:
        """DWARF debug information; None where it is missing or unreadable."""
        elf = self._debug_file
        if elf is None or not tells_lines(elf):
            return None
        try:
            return dwarf_of(elf, self.path)
        except Exception as error:  # a damaged file can make the library raise anything
            self._note("debug information left out", error)
            return None

    @cached_property
    def _debug_file(self) -> ElfFile | None:
        """The file with the line tables, and with the names that a stripped file lacks: itself or a separate file.

        What the system's libraries do belongs to the program's lines that call them: no others are looked for.
        """
        if self._elf is None or tells_lines(self._elf) or _SYSTEM_LIBRARY.match(self.path):
            return self._elf
        try:
            found, missing = separate_file(self._elf, self.path)
        except Exception as error:  # a damaged file can make the reader raise anything
            self._note("separate debug information left out", error)
            return self._elf
        if missing:
            self._note(missing)
        return found or self._elf

    @property
    def entry(self) -> int:
        """Link-time address at which a program begins; 0 for other files."""
        return self._elf.entry if self._elf else 0

    def jumps(self, start: int, end: int) -> list[int]:
        """Targets of jumps out of the x86-64 code between two link-time addresses; empty for other architectures."""
        if self._elf is None or self._elf.machine != EM_X86_64:
            return []
        import capstone

        code = self._elf.loaded_at(start, end - start)
        decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        targets = [
            int(operand, 16)
            for _, _, mnemonic, operand in decoder.disasm_lite(code, start)
            if mnemonic.startswith("j") and operand.startswith("0x")
        ]
        return [target for target in targets if not start <= target < end]

    def slot(self, address: int) -> str:
        """Name of the function whose address the dynamic linker stores at a link-time address; empty if none."""
        return self._slots.get(address, "")

    @cached_property
    def ifuncs(self) -> frozenset[str]:
        """The names of functions that choose among variants for the processor."""
        found: set[str] = set()
        for section_name in (".symtab", ".dynsym"):
            with suppress(Exception):  # what is damaged was noted where functions are read
                table, strings = self._symbols(section_name)
                table = table[(table["info"] & 15) == _STT_GNU_IFUNC]
                found.update(text_at(strings, offset) for offset in table["name"].tolist())
        return frozenset(found)

    @cached_property
    def _slots(self) -> dict[int, str]:
        """Slots of the global offset table, and the functions that they lead to."""
        found: dict[int, str] = {}
        for section_name in (".rela.dyn", ".rela.plt", ".rela.iplt"):
            try:
                relocations, names = self._relocated(section_name)
                pairs = zip(relocations["offset"].tolist(), names, strict=True)
                found.update((offset, name) for offset, name in pairs if name)
            except Exception as error:  # a damaged file can make the reader raise anything
                self._note(f"{section_name} left out", error)
        return found

    def _relocated(self, section_name: str) -> tuple[npt.NDArray[np.void], list[str]]:
        """The relocations of a section, and the function or variable that each is about; empty where none has a
        name. An IFUNC goes by the name of its resolver."""
        section = self._elf.section(section_name) if self._elf else None
        if self._elf is None or section is None:
            return np.empty(0, _RELOCATION), []
        data = self._elf.data(section)
        relocations = np.frombuffer(data[: len(data) // _RELOCATION.itemsize * _RELOCATION.itemsize], _RELOCATION)
        names = [""] * len(relocations)
        numbers = relocations["info"] >> np.uint64(32)
        linked = self._elf.sections[section.link]
        if linked.kind == SHT_DYNSYM:
            symbols = np.frombuffer(self._elf.data(linked), _SYMBOL)
            strings = self._elf.data(self._elf.sections[linked.link])
            names = [text_at(strings, offset) for offset in symbols["name"][numbers].tolist()]
        kinds = relocations["info"] & np.uint64(0xFFFFFFFF)
        for row in np.flatnonzero(np.isin(kinds, list(_IRELATIVE))).tolist():
            resolver = self._named.holding(int(relocations["addend"][row]))
            names[row] = resolver.name if resolver else ""
        return relocations, names

    @cached_property
    def _named(self) -> _Functions:
        """Functions in the symbol tables, one for each address."""
        tables, strings = [], []
        for section_name in (".symtab", ".dynsym"):
            try:
                table, names = self._symbols(section_name)
            except Exception as error:  # a damaged file can make the reader raise anything
                self._note(f"{section_name} left out", error)
                continue
            tables.append(table)
            strings.append(names)
        if not tables:
            return _NO_FUNCTIONS
        table = np.concatenate(tables)
        owner = np.repeat(np.arange(len(tables)), [len(part) for part in tables])
        order = np.argsort(table["value"], kind="stable")
        table, owner = table[order], owner[order]
        starts, first = np.unique(table["value"], return_index=True)
        ends = starts + np.maximum.reduceat(table["size"], first) if len(first) else starts
        starts, ends, kept = self._ended(starts, ends)
        aliases = np.append(first, len(table))

        def name(position: int) -> str:
            """Preferred name among aliases: the global one, with the fewest leading underscores, then the shortest."""
            group = range(aliases[kept[position]], aliases[kept[position] + 1])
            ranks = []
            for row in group:
                text = text_at(strings[owner[row]], int(table["name"][row]))
                is_local = int(table["info"][row] >> 4 == _STB_LOCAL)
                ranks.append((is_local, len(text) - len(text.lstrip("_")), len(text), text))
            return min(ranks)[-1]

        return _Functions(starts.tolist(), ends.tolist(), name)

    def _table(self, section_name: str) -> tuple[npt.NDArray[np.void], bytes]:
        """Entries of a symbol table, and its strings; empty where the file has no such table."""
        elf = self._table_file(section_name)
        section = elf.section(section_name) if elf else None
        if elf is None or section is None:
            return np.empty(0, _SYMBOL), b""
        data = elf.data(section)
        table = np.frombuffer(data[: len(data) // _SYMBOL.itemsize * _SYMBOL.itemsize], _SYMBOL)
        return table, elf.data(elf.sections[section.link])

    def _table_file(self, section_name: str) -> ElfFile | None:
        """The file that has a symbol table."""
        stripped = self._elf is not None and section_name == ".symtab" and not self._elf.section(section_name)
        return self._debug_file if stripped else self._elf

    def _symbols(self, section_name: str) -> tuple[npt.NDArray[np.void], bytes]:
        """The named function symbols of a symbol table, and its strings."""
        table, strings = self._table(section_name)
        if not len(table):
            return table, strings
        kind, binding = table["info"] & 15, table["info"] >> 4
        elf = self._table_file(section_name)
        sections = [one.number for one in (elf.sections if elf else ()) if one.flags & SHF_EXECINSTR]
        code = np.isin(table["section"], sections)
        is_label = (kind == _STT_NOTYPE) & (binding != _STB_LOCAL)
        table = table[code & ((kind == _STT_FUNC) | (kind == _STT_GNU_IFUNC) | is_label) & (table["value"] != 0)]
        return table[np.frombuffer(strings, np.uint8)[table["name"]] != 0], strings

    def _ended(self, starts: Addresses, ends: Addresses) -> tuple[Addresses, Addresses, npt.NDArray[np.intp]]:
        """Functions with an end; also the positions of those that were kept.

        What was written in assembler may have no size: it ends where the next one starts, or is no function at all but
        a label in one.
        """
        has_size = ends > starts
        reached = np.maximum.accumulate(np.where(has_size, np.arange(len(starts)), -1)) if len(starts) else has_size
        is_label = ~has_size & (reached >= 0) & (starts < ends[reached])
        following = np.append(starts[1:], np.uint64(_LAST_ADDRESS))
        ends = np.where(has_size, ends, np.minimum(following, self._section_ends(starts)))
        kept = np.flatnonzero(~is_label)
        return starts[kept], ends[kept], kept

    @cached_property
    def _code_sections(self) -> list[tuple[int, int, int]]:
        """Number, start and end of each section with code."""
        code = [s for s in (self._elf.sections if self._elf else ()) if s.flags & SHF_EXECINSTR]
        return [(s.number, s.address, s.address + s.size_bytes) for s in code]

    def _section_ends(self, starts: Addresses) -> Addresses:
        """End of the section of code that holds each address; of the address space, if there are no sections."""
        if not self._code_sections:
            return np.full(len(starts), _LAST_ADDRESS, np.uint64)
        ends = starts.copy()
        for _, begin, end in reversed(self._code_sections):
            ends[(starts >= begin) & (starts < end)] = end
        return ends

    @cached_property
    def _plt(self) -> _Functions:
        """Stubs through which functions of other modules are called, in the order of their relocations."""
        stubs: list[tuple[int, str]] = []
        try:
            if self._elf is None:
                return _NO_FUNCTIONS
            _, names = self._relocated(".rela.plt")
            for section_name in (".plt", ".plt.sec"):
                plt = self._elf.section(section_name)
                if plt is None:
                    continue
                # In .plt, what precedes the stubs is the call of the dynamic linker.
                start = plt.address + plt.size_bytes - _PLT_ENTRY_BYTES * len(names)
                first = range(plt.address, max(start, plt.address), _PLT_ENTRY_BYTES)
                stubs += [(part, _FIRST_STUB) for part in first]
                for position, name in enumerate(names):
                    stub = start + _PLT_ENTRY_BYTES * position
                    if name and stub >= plt.address:
                        stubs.append((stub, f"{name}@plt"))
        except Exception as error:  # a damaged file can make the reader raise anything
            self._note("PLT left out", error)
        stubs.sort()
        starts = [start for start, _ in stubs]
        return _Functions(starts, [start + _PLT_ENTRY_BYTES for start in starts], lambda position: stubs[position][1])

    @cached_property
    def _unnamed(self) -> _Functions:
        """Functions from the unwinding tables, named by module and start."""
        starts: list[int] = []
        ends: list[int] = []
        try:
            header = self._unwinding_header()
            if header is not None:
                following = np.append(header[1:], np.uint64(_LAST_ADDRESS))
                starts, ends = header.tolist(), np.minimum(following, self._section_ends(header)).tolist()
            elif self._elf is not None and (section := self._elf.section(".eh_frame")):
                ranges = function_ranges(self._elf.data(section), section.address)
                starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
        except Exception as error:  # a damaged file can make the reader raise anything
            self._note("unwinding tables left out", error)
        return _Functions(starts, ends, lambda position: f"{self._name}+{starts[position]:#x}")

    def _unwinding_header(self) -> Addresses | None:
        """Function starts from the sorted table that linkers make, if there is one in its usual form."""
        segments = self._elf.segments if self._elf else ()
        segment = next((segment for segment in segments if segment.kind == PT_GNU_EH_FRAME), None)
        if self._elf is None or segment is None:
            return None
        starts = function_starts(self._elf.data(segment), segment.address)
        return None if starts is None else starts.astype(np.uint64)
