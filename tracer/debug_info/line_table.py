"""Source lines of machine code, from an ELF file's DWARF line programs (DWARF 2 to 5, section 6.2 of version 5).

Only the line programs of compilation units that hold one of the addresses asked for are run. pyelftools finds and reads
their headers; the programs themselves are run here, as its own runner takes some ten times as long.
"""

from __future__ import annotations

import posixpath
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.dwarfinfo import DWARFInfo

_ADDRESS_MASK = (1 << 64) - 1
_MAX_LINE = (1 << 31) - 1


class LineTable(msgspec.Struct, frozen=True, eq=False):
    """Rows sorted by address; each holds up to the next one's address.

    `addresses`: uint64 [rows]. `files`: int32 [rows], positions in `paths`, -1 for none. `lines`: int32
    [rows], 0 for none. `starts_statement`: bool [rows], recommended for a breakpoint; the others are of instructions
    that the compiler moved.
    """

    paths: tuple[str, ...]
    addresses: npt.NDArray[np.uint64]
    files: npt.NDArray[np.int32]
    lines: npt.NDArray[np.int32]
    starts_statement: npt.NDArray[np.bool_]

    def find(self, addresses: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """File (position in `paths`, or -1) and line (or 0) of each address."""
        rows = np.searchsorted(self.addresses, addresses, side="right") - 1
        known = rows >= 0
        if not len(self.addresses):
            return np.full(len(addresses), -1, np.int32), np.zeros(len(addresses), np.int32)
        files = np.where(known, self.files[rows], -1).astype(np.int32)
        return files, np.where(files >= 0, self.lines[rows], 0).astype(np.int32)

    def find_first(self, address: int) -> tuple[int, int]:
        """The first of the rows at exactly this address: where a function starts, its own line. (-1, 0) if none."""
        row = int(np.searchsorted(self.addresses, np.uint64(address)))
        while row < len(self.addresses) and int(self.addresses[row]) == address:
            if self.files[row] >= 0:
                return int(self.files[row]), int(self.lines[row])
            row += 1
        return -1, 0

    def statements(self, begin: int, end: int, *, from_code: bool = False) -> list[tuple[int, int, int]]:
        """File, line and address of each statement that starts at an address in [begin, end).

        Statements without code are included, but with `from_code` not those ahead of the first instruction.
        """
        if from_code:
            first = max(0, int(np.searchsorted(self.addresses, np.uint64(begin), side="right")) - 1)
        else:
            first = int(np.searchsorted(self.addresses, np.uint64(begin)))
        last = int(np.searchsorted(self.addresses, np.uint64(end)))
        rows = range(first, last)
        return [
            (int(self.files[row]), int(self.lines[row]), int(self.addresses[row]))
            for row in rows
            if self.starts_statement[row]
        ]


EMPTY = LineTable((), np.empty(0, np.uint64), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.bool_))


def read_line_table(dwarf: DWARFInfo, addresses: npt.NDArray[np.uint64]) -> tuple[LineTable, list[str]]:
    """Lines of all compilation units that hold any of the (sorted) addresses, and notes on unreadable units.

    pyelftools raises many kinds of exception on damaged input, so each unit is read on its own and a failure costs
    no more than that unit.
    """
    paths: dict[str, int] = {}
    rows = _Rows()
    problems: list[str] = []
    done: set[int] = set()
    for unit in units_at(dwarf, addresses, problems):
        try:
            program = line_program(dwarf, unit)
            if program is None or program.program_start_offset in done:
                continue
            done.add(program.program_start_offset)
            names = _file_names(program.header, _attribute(unit, "DW_AT_comp_dir"))
            numbers = {index: paths.setdefault(path, len(paths)) for index, path in names.items()}
            _run(program, numbers, unit.header["address_size"], dwarf.config.little_endian, rows)
        except Exception as error:  # a damaged file can make the library raise anything
            problems.append(f"line program of unit {unit.cu_offset:#x}: {type(error).__name__}: {error}")
    return rows.table(tuple(paths)), problems


class _Rows:
    """Rows as the line programs give them."""

    def __init__(self) -> None:
        self.addresses = array("Q")
        self.files = array("i")
        self.lines = array("i")
        self.statements = array("b")

    def cut(self, length: int) -> None:
        """Forget all rows but the first `length`."""
        del self.addresses[length:], self.files[length:], self.lines[length:], self.statements[length:]

    def table(self, paths: tuple[str, ...]) -> LineTable:
        """Sort by address. The end of one sequence precedes another's start at the same address."""
        addresses = np.array(self.addresses, np.uint64)
        files = np.array(self.files, np.int32)
        lines = np.array(self.lines, np.int32)
        order = np.lexsort((files >= 0, addresses))
        statements = np.array(self.statements, np.bool_)
        return LineTable(paths, addresses[order], files[order], lines[order], statements[order])


def _run(program: Any, numbers: dict[int, int], address_bytes: int, little: bool, rows: _Rows) -> None:
    """Run one line program (DWARF 5, section 6.2.5) and append its rows; the end of a sequence is a row of file -1."""
    header = program.header
    stream = program.stream
    begin, end = program.program_start_offset, program.program_end_offset
    stream.seek(begin)
    data = stream.read(end - begin)
    order: Literal["little", "big"] = "little" if little else "big"
    opcode_base, line_base, line_range = header["opcode_base"], header["line_base"], header["line_range"]
    unit_bytes = header["minimum_instruction_length"]
    advance = [(op - opcode_base) // line_range * unit_bytes for op in range(256)]
    step = [line_base + (op - opcode_base) % line_range for op in range(256)]
    lengths = header["standard_opcode_lengths"]
    start = len(rows.addresses)
    default = header["default_is_stmt"] != 0
    address, number, line, is_statement = 0, numbers.get(1, -1), 1, default
    position = 0

    def uleb() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte: int = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def append(file_number: int) -> None:
        rows.addresses.append(address & _ADDRESS_MASK)
        rows.files.append(file_number)
        rows.lines.append(min(max(line, 0), _MAX_LINE))
        rows.statements.append(is_statement)

    while position < len(data):
        op = data[position]
        position += 1
        if op >= opcode_base:
            address += advance[op]
            line += step[op]
            append(number)
        elif op == 0:
            length = uleb()
            following = position + length
            code = data[position] if length else 0
            if code == 1:  # DW_LNE_end_sequence
                while len(rows.addresses) > start and rows.addresses[-1] == address & _ADDRESS_MASK:  # empty rows
                    rows.cut(len(rows.addresses) - 1)
                append(-1)
                if rows.addresses[start] == 0:  # of a function that the linker dropped
                    rows.cut(start)
                start = len(rows.addresses)
                address, number, line, is_statement = 0, numbers.get(1, -1), 1, default
            elif code == 2:  # DW_LNE_set_address
                address = int.from_bytes(data[position + 1 : position + 1 + address_bytes], order)
            position = following
        elif op == 1:  # DW_LNS_copy
            append(number)
        elif op == 2:  # DW_LNS_advance_pc
            address += uleb() * unit_bytes
        elif op == 3:  # DW_LNS_advance_line: a signed LEB128
            first = position
            value = uleb()
            bits = 7 * (position - first)
            line += value - (1 << bits) if value >> (bits - 1) else value
        elif op == 4:  # DW_LNS_set_file
            number = numbers.get(uleb(), -1)
        elif op == 6:  # DW_LNS_negate_stmt
            is_statement = not is_statement
        elif op == 8:  # DW_LNS_const_add_pc
            address += advance[255]
        elif op == 9:  # DW_LNS_fixed_advance_pc
            address += int.from_bytes(data[position : position + 2], order)
            position += 2
        else:  # columns, block marks, and what later versions add
            for _ in range(lengths[op - 1]):
                uleb()


def line_program(dwarf: DWARFInfo, unit: CompileUnit) -> Any:
    """The line program of a unit, None if it has none.

    It says of itself whether it has 32-bit or 64-bit offsets (DWARF 5, section 7.4), which may differ from its unit:
    assemblers write lines in one form, whatever that of the compiler's units.
    """
    from elftools.dwarf.structs import DWARFStructs

    at = unit.get_top_DIE().attributes.get("DW_AT_stmt_list")
    section = dwarf.debug_line_sec
    if at is None or section is None:
        return None
    section.stream.seek(at.value)
    dwarf_format = 64 if section.stream.read(4) == b"\xff" * 4 else 32
    structs = unit.structs
    if dwarf_format != structs.dwarf_format:
        structs = DWARFStructs(
            little_endian=structs.little_endian, dwarf_format=dwarf_format, address_size=structs.address_size,
            dwarf_version=structs.dwarf_version,
        )  # fmt: skip
    return dwarf._parse_line_program_at_offset(at.value, structs)


def paths_of(dwarf: DWARFInfo, unit: CompileUnit) -> dict[int, str]:
    """Path of each file number of a unit."""
    program = line_program(dwarf, unit)
    return {} if program is None else _file_names(program.header, _attribute(unit, "DW_AT_comp_dir"))


def _file_names(header: Any, directory: str) -> dict[int, str]:
    """Path of each file number of a line program. Numbers count from 0 in DWARF 5, from 1 before."""
    version5 = header["version"] >= 5
    folders = [_text(folder) for folder in header["include_directory"]]
    if not version5:
        folders.insert(0, directory)
    names = {}
    for number, entry in enumerate(header["file_entry"], 0 if version5 else 1):
        folder = folders[entry.dir_index] if entry.dir_index < len(folders) else ""
        names[number] = posixpath.normpath(posixpath.join(directory, folder, _text(entry.name)))
    return names


def _text(value: Any) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _attribute(unit: CompileUnit, name: str) -> str:
    attribute = unit.get_top_DIE().attributes.get(name)
    return _text(attribute.value) if attribute else ""


def units_at(dwarf: DWARFInfo, addresses: npt.NDArray[np.uint64], problems: list[str]) -> Iterator[CompileUnit]:
    """Compilation units that hold any of the addresses, from .debug_aranges, or else from the units themselves."""
    listed: dict[int, bool] = {}
    try:
        for entry in getattr(dwarf.get_aranges(), "entries", ()):
            covers = _any_within(addresses, entry.begin_addr, entry.begin_addr + entry.length)
            listed[entry.info_offset] = listed.get(entry.info_offset, False) or covers
    except Exception:  # a damaged file can make the library raise anything; the units tell themselves
        listed = {}
    try:
        for unit in dwarf.iter_CUs():
            if listed[unit.cu_offset] if unit.cu_offset in listed else _covers(dwarf, unit, addresses):
                yield unit
    except Exception as error:
        problems.append(f".debug_info: {type(error).__name__}: {error}")


def _covers(dwarf: DWARFInfo, unit: CompileUnit, addresses: npt.NDArray[np.uint64]) -> bool:
    """Whether a unit holds any of the addresses; True if it gives no addresses."""
    try:
        attributes = unit.get_top_DIE().attributes
        low = attributes["DW_AT_low_pc"].value if "DW_AT_low_pc" in attributes else 0
        if "DW_AT_ranges" in attributes:
            offset = attributes["DW_AT_ranges"].value
            base = low
            lists: Any = dwarf.range_lists()
            for entry in lists.get_range_list_at_offset(offset, unit):
                if hasattr(entry, "base_address"):
                    base = entry.base_address
                    continue
                shift = 0 if entry.is_absolute else base
                if _any_within(addresses, entry.begin_offset + shift, entry.end_offset + shift):
                    return True
            return False
        if "DW_AT_high_pc" in attributes:
            high = attributes["DW_AT_high_pc"]
            end = high.value if high.form == "DW_FORM_addr" else low + high.value
            return _any_within(addresses, low, end)
        return "DW_AT_stmt_list" in attributes
    except Exception:  # a damaged file can make the library raise anything; running the line program shows the damage
        return True


def _any_within(addresses: npt.NDArray[np.uint64], begin: int, end: int) -> bool:
    """Whether any of the (sorted) addresses is in [begin, end)."""
    if not 0 <= begin < end:
        return False
    first = int(np.searchsorted(addresses, np.uint64(min(begin, _ADDRESS_MASK))))
    return first < len(addresses) and int(addresses[first]) < end
