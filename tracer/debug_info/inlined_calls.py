"""Calls that a compiler expanded in line, from an ELF file's debug information (DWARF 2 to 5).

DW_TAG_inlined_subroutine (DWARF 5, section 3.3.8) says where the code of an expanded call lies, whose it is, and which
line called it. pyelftools finds units and abbreviations; the entries are read here, as its own reader takes some thirty
times as long. Only units that hold one of the addresses asked for are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from .line_table import paths_of, units_at

if TYPE_CHECKING:
    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.dwarfinfo import DWARFInfo

Addresses = npt.NDArray[np.uint64]

MOST_BYTES = 48 << 20
"""Most bytes of debug information that are read for one file; some 5 s. Further units are left out, with a note."""
_MOST_INSTRUCTION_BYTES = 16
_SUBPROGRAM, _INLINED = "DW_TAG_subprogram", "DW_TAG_inlined_subroutine"
_TYPES = frozenset(
    f"DW_TAG_{name}"
    for name in ("structure_type", "class_type", "union_type", "enumeration_type", "subroutine_type", "array_type")
)
"""Entries that hold no code: with DW_AT_sibling they are skipped whole."""
_FIXED = {
    "DW_FORM_data1": 1, "DW_FORM_data2": 2, "DW_FORM_data4": 4, "DW_FORM_data8": 8, "DW_FORM_data16": 16,
    "DW_FORM_flag": 1, "DW_FORM_flag_present": 0, "DW_FORM_implicit_const": 0, "DW_FORM_ref1": 1, "DW_FORM_ref2": 2,
    "DW_FORM_ref4": 4, "DW_FORM_ref8": 8, "DW_FORM_ref_sig8": 8, "DW_FORM_ref_sup4": 4, "DW_FORM_ref_sup8": 8,
    "DW_FORM_strx1": 1, "DW_FORM_strx2": 2, "DW_FORM_strx3": 3, "DW_FORM_strx4": 4, "DW_FORM_addrx1": 1,
    "DW_FORM_addrx2": 2, "DW_FORM_addrx3": 3, "DW_FORM_addrx4": 4,
}  # fmt: skip
_OFFSETS = frozenset(
    f"DW_FORM_{name}"
    for name in ("strp", "line_strp", "sec_offset", "strp_sup", "ref_addr", "GNU_ref_alt", "GNU_strp_alt")
)
_LEB128 = frozenset(
    f"DW_FORM_{name}" for name in ("udata", "sdata", "ref_udata", "strx", "addrx", "rnglistx", "loclistx")
)
_BLOCKS = {"DW_FORM_block1": 1, "DW_FORM_block2": 2, "DW_FORM_block4": 4}
_WANTED = frozenset(
    f"DW_AT_{name}"
    for name in ("low_pc", "high_pc", "ranges", "abstract_origin", "call_file", "call_line", "sibling", "name",
                 "linkage_name", "MIPS_linkage_name", "specification")
)  # fmt: skip


class InlinedCalls(msgspec.Struct, frozen=True, eq=False):
    """The expanded calls at some addresses (link-time).

    `addresses`: uint64, sorted. `innermost`: int64, the innermost call at each, -1 for none. Of each call: `functions`
    (names as the linker has them), `files` and `lines` of the place that calls, and `around`, the call that it is
    expanded in (-1: none).
    """

    addresses: Addresses
    innermost: npt.NDArray[np.int64]
    functions: Sequence[str]
    files: Sequence[str]
    lines: Sequence[int]
    around: Sequence[int]

    def at(self, address: int) -> int:
        """Innermost inlined call at an instruction's address, one of those asked for; -1 if there is none."""
        row = int(np.searchsorted(self.addresses, np.uint64(address), side="right")) - 1
        found = row >= 0 and address - int(self.addresses[row]) < _MOST_INSTRUCTION_BYTES
        return int(self.innermost[row]) if found else -1

    def around_all(self, call: int) -> list[int]:
        """A call and all that it is expanded in, innermost first."""
        found = []
        while call >= 0:
            found.append(call)
            call = self.around[call]
        return found

    def outermost_files(self) -> list[str]:
        """Source file, for each call, of the outermost function that its code was expanded into."""
        found: list[str] = []
        for call, around in enumerate(self.around):
            found.append(found[around] if around >= 0 else self.files[call])
        return found

    def chain(self, call: int, file: str, line: int, function: str) -> list[tuple[str, str, int]]:
        """Function, file and line of each function at a place, innermost first; `function` has all of the code."""
        found = []
        while call >= 0:
            found.append((self.functions[call], file, line))
            file, line, call = self.files[call], self.lines[call], self.around[call]
        return [*found, (function, file, line)]


NONE = InlinedCalls(np.empty(0, np.uint64), np.empty(0, np.int64), (), (), (), ())


def read_inlined_calls(dwarf: DWARFInfo, addresses: Addresses) -> tuple[InlinedCalls, list[str]]:
    """Inlined calls at the (sorted) link-time addresses, and notes on unreadable parts."""
    found = _Calls(dwarf, addresses)
    problems: list[str] = []
    left = MOST_BYTES
    for unit in units_at(dwarf, addresses, problems):
        if unit.size > left:
            problems.append(f"unit {unit.cu_offset:#x} is beyond the first {MOST_BYTES >> 20} MiB")
            continue
        left -= unit.size
        try:
            found.add(unit, paths_of(dwarf, unit))
        except Exception as error:  # a damaged file can make the library raise anything
            problems.append(f"unit {unit.cu_offset:#x}: {type(error).__name__}: {error}")
    return found.result(), problems


class _Calls:
    """Calls found so far."""

    def __init__(self, dwarf: DWARFInfo, addresses: Addresses) -> None:
        self._dwarf, self._addresses = dwarf, addresses
        self._innermost = np.full(len(addresses), -1, np.int64)
        self._origins: list[int] = []
        self._files: list[str] = []
        self._lines: list[int] = []
        self._around: list[int] = []
        self._names: dict[int, str] = {}
        self._info = _content(dwarf.debug_info_sec)

    def add(self, unit: CompileUnit, paths: dict[int, str]) -> None:
        """Read a unit."""
        around: list[int] = []
        current = -1
        for is_end, entry in _Entries(unit, self._info).walk(self._is_of_interest):
            if is_end:
                current = around.pop()
                continue
            assert entry is not None
            tag, values, has_children = entry
            own = current
            if tag == _INLINED:
                rows = self._rows(_ranges(self._dwarf, unit, values))
                if rows:
                    own = len(self._origins)
                    self._origins.append(values.get("DW_AT_abstract_origin", -1))
                    self._files.append(paths.get(values.get("DW_AT_call_file", -1), ""))
                    self._lines.append(values.get("DW_AT_call_line", 0))
                    self._around.append(current)
                    for first, last in rows:
                        self._innermost[first:last] = own
            if has_children:
                around.append(current)
                current = own if tag == _INLINED else -1 if tag == _SUBPROGRAM else current

    def _is_of_interest(self, unit: CompileUnit, values: dict[str, Any]) -> bool:
        """Whether a function's code is at any of the addresses."""
        return bool(self._rows(_ranges(self._dwarf, unit, values)))

    def _rows(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The positions of the addresses within ranges."""
        found = []
        for begin, end in ranges:
            if 0 < begin < end < 1 << 64:
                first, last = np.searchsorted(self._addresses, np.array([begin, end], np.uint64)).tolist()
                if first < last:
                    found.append((first, last))
        return found

    def result(self) -> InlinedCalls:
        """All that was found."""
        functions = [self._name(origin) for origin in self._origins]
        return InlinedCalls(self._addresses, self._innermost, functions, self._files, self._lines, self._around)

    def _name(self, offset: int) -> str:
        """Name of the function whose abstract entry is at an offset."""
        if offset not in self._names:
            self._names[offset] = self._read_name(offset)
        return self._names[offset]

    def _read_name(self, offset: int) -> str:
        name = ""
        for _ in range(8):  # from the origin to what it specifies
            if offset < 0:
                break
            try:
                attributes = self._dwarf.get_DIE_from_refaddr(offset).attributes
            except Exception:  # a damaged file can make the library raise anything
                break
            for key in ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name"):
                if key in attributes:
                    return _text(attributes[key].value)
            if "DW_AT_name" in attributes:
                name = name or _text(attributes["DW_AT_name"].value)
            link = attributes.get("DW_AT_specification") or attributes.get("DW_AT_abstract_origin")
            if link is None:
                break
            is_local = link.form not in ("DW_FORM_ref_addr", "DW_FORM_GNU_ref_alt")
            offset = link.value + (self._dwarf.get_CU_containing(offset).cu_offset if is_local else 0)
        return name


def _content(section: Any) -> bytes:
    """Content of a section; empty where the file lacks it."""
    if section is None:
        return b""
    section.stream.seek(0)
    content: bytes = section.stream.read()
    return content


def _text(value: Any) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


_Entry = tuple[str, dict[str, Any], bool]


class _Plan(msgspec.Struct, frozen=True):
    """Reading plan for entries of an abbreviation: `skips` are byte lengths, or forms of variable length."""

    tag: str
    has_children: bool
    is_read: bool
    skips: tuple[int | str, ...]
    attributes: tuple[tuple[str, str, Any], ...]
    has_sibling: bool


class _Entries:
    """The entries of one unit."""

    def __init__(self, unit: CompileUnit, info: bytes) -> None:
        self._unit, self._info = unit, info
        self._offset_bytes = 4 if unit.structs.dwarf_format == 32 else 8
        self._address_bytes: int = unit.header["address_size"]
        self._table = unit.get_abbrev_table()
        self._plans: dict[int, _Plan] = {}

    def walk(
        self, is_of_interest: Callable[[CompileUnit, dict[str, Any]], bool]
    ) -> Iterator[tuple[bool, _Entry | None]]:
        """Functions and expanded calls (and their ends), in order; those of functions of no interest are skipped."""
        data, plans = self._info, self._plans
        position = self._unit.cu_die_offset
        end = self._unit.cu_offset + self._unit.size
        depth = 0
        shown: list[int] = []  # depths of the entries that were given, and have children
        while position < end:
            code = data[position]
            position += 1
            if code >= 0x80:
                code, position = _uleb(data, position - 1)
            if code == 0:
                depth -= 1
                if shown and shown[-1] == depth:
                    shown.pop()
                    yield True, None
                if depth <= 0:
                    return
                continue
            plan = plans.get(code) or self._plan(code)
            if not plan.is_read:
                for skip in plan.skips:
                    position = position + skip if isinstance(skip, int) else self._skipped(skip, position)
                depth += plan.has_children
                continue
            values, position = self._values(plan, position)
            if plan.has_children and "DW_AT_sibling" in values and (
                plan.tag in _TYPES or (plan.tag == _SUBPROGRAM and not is_of_interest(self._unit, values))
            ):  # fmt: skip
                if not position < values["DW_AT_sibling"] <= end:
                    raise ValueError(f"the entry after {position:#x} lies before it")
                position = values["DW_AT_sibling"]
                continue
            if plan.tag not in _TYPES:
                yield False, (plan.tag, values, plan.has_children)
                if plan.has_children:
                    shown.append(depth)
            depth += plan.has_children

    def _plan(self, code: int) -> _Plan:
        declared = self._table.get_abbrev(code)
        attributes = tuple((one.name, one.form, getattr(one, "value", None)) for one in declared["attr_spec"])
        tag, has_sibling = declared["tag"], any(name == "DW_AT_sibling" for name, _, _ in attributes)
        skips: list[int | str] = []
        for _, form, _ in attributes:
            size = self._size(form)
            if size is None:
                skips.append(form)
            elif skips and isinstance(skips[-1], int):
                skips[-1] += size
            else:
                skips.append(size)
        is_read = tag in (_SUBPROGRAM, _INLINED) or (tag in _TYPES and has_sibling)
        plan = _Plan(tag, declared.has_children(), is_read, tuple(skips), attributes, has_sibling)
        self._plans[code] = plan
        return plan

    def _size(self, form: str) -> int | None:
        """Bytes of a form; None where each value has a length of its own."""
        if form in _FIXED:
            return _FIXED[form]
        if form == "DW_FORM_addr" or (form == "DW_FORM_ref_addr" and self._unit.header["version"] < 3):
            return self._address_bytes
        return self._offset_bytes if form in _OFFSETS else None

    def _skipped(self, form: str, position: int) -> int:
        """The position after a value."""
        data = self._info
        if form in _LEB128:
            while data[position] >= 0x80:
                position += 1
            return position + 1
        if form == "DW_FORM_string":
            return data.index(b"\0", position) + 1
        if form in _BLOCKS:
            size = _BLOCKS[form]
            return position + size + int.from_bytes(data[position : position + size], "little")
        if form in ("DW_FORM_exprloc", "DW_FORM_block"):
            size, position = _uleb(data, position)
            return position + size
        raise ValueError(f"values of the form {form} are not known")

    def _values(self, plan: _Plan, position: int) -> tuple[dict[str, Any], int]:
        """The wanted attributes of an entry; references as offsets in the section. The position after it."""
        data, values = self._info, {}
        for name, form, constant in plan.attributes:
            size = self._size(form)
            after = position + size if size is not None else self._skipped(form, position)
            if name in _WANTED:
                value: Any
                if form == "DW_FORM_implicit_const":
                    value = constant
                elif form in _LEB128:
                    value = _uleb(data, position)[0]
                elif size is not None:
                    value = int.from_bytes(data[position:after], "little")
                else:
                    value = None
                if form.startswith("DW_FORM_ref") and form != "DW_FORM_ref_addr":
                    value += self._unit.cu_offset
                values[name] = value
                values[f"{name} form"] = form
            position = after
        return values, position


def _uleb(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _ranges(dwarf: DWARFInfo, unit: CompileUnit, values: dict[str, Any]) -> list[tuple[int, int]]:
    """Address ranges of an entry's code."""
    if "DW_AT_ranges" in values:
        return _listed_ranges(dwarf, unit, values)
    if "DW_AT_low_pc" not in values or "DW_AT_high_pc" not in values:
        return []
    low = _address(dwarf, unit, values, "DW_AT_low_pc")
    is_address = values["DW_AT_high_pc form"].startswith("DW_FORM_addr")
    high = _address(dwarf, unit, values, "DW_AT_high_pc") if is_address else low + values["DW_AT_high_pc"]
    return [(low, high)]


def _address(dwarf: DWARFInfo, unit: CompileUnit, values: dict[str, Any], name: str) -> int:
    value, form = values[name], values[f"{name} form"]
    if form == "DW_FORM_addr":
        return int(value)
    return int(dwarf.get_addr(unit, value))


def _listed_ranges(dwarf: DWARFInfo, unit: CompileUnit, values: dict[str, Any]) -> list[tuple[int, int]]:
    top = unit.get_top_DIE().attributes
    base = top["DW_AT_low_pc"].value if "DW_AT_low_pc" in top else 0
    lists: Any = dwarf.range_lists()
    offset = values["DW_AT_ranges"]
    if values["DW_AT_ranges form"] == "DW_FORM_rnglistx":
        offset = _indexed_list(dwarf, unit, top, offset)
    found = []
    for entry in lists.get_range_list_at_offset(offset, unit):
        if hasattr(entry, "base_address"):
            base = entry.base_address
            continue
        shift = 0 if entry.is_absolute else base
        found.append((entry.begin_offset + shift, entry.end_offset + shift))
    return found


def _indexed_list(dwarf: DWARFInfo, unit: CompileUnit, top: Any, index: int) -> int:
    """Offset of a range list by its number (DWARF 5, section 7.28)."""
    first = int(top["DW_AT_rnglists_base"].value)
    size = 4 if unit.structs.dwarf_format == 32 else 8
    at = first + index * size
    return first + int.from_bytes(_content(dwarf.debug_rnglists_sec)[at : at + size], "little")
