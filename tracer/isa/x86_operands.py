"""Operands of x86-64 instructions: the registers and addresses they name, and which of these are read and written.

capstone gives the role of an operand only in its full detail, which takes some twenty times as long as the text of an
instruction. Roles are the same for all instructions of one form (a mnemonic with operands of certain kinds and sizes),
so the detail is read once for each form, and the operands are read off the text. Where the two disagree on an
instruction, its form is not learned, and each of its instructions is decoded in detail.
"""

from __future__ import annotations

import re
from enum import IntEnum

import msgspec

from . import x86_decoder
from .instruction_set import AddressSum
from .x86_decoder import DetailedOperand, X86Decoder


def _register_names() -> tuple[dict[str, str], dict[str, int]]:
    """Name -> name of the register it is part of; name -> width in bits."""
    parents: dict[str, str] = {}
    bits: dict[str, int] = {}

    def add(parent: str, names: dict[str, int]) -> None:
        for name, width in names.items():
            parents[name] = parent
            bits[name] = width

    for letter in "abcd":
        add(f"r{letter}x", {f"r{letter}x": 64, f"e{letter}x": 32, f"{letter}x": 16, f"{letter}l": 8, f"{letter}h": 8})
    for name in ("si", "di", "bp", "sp"):
        add(f"r{name}", {f"r{name}": 64, f"e{name}": 32, name: 16, f"{name}l": 8})
    for number in range(8, 16):
        add(f"r{number}", {f"r{number}": 64, f"r{number}d": 32, f"r{number}w": 16, f"r{number}b": 8})
    for number in range(32):
        add(f"xmm{number}", {f"xmm{number}": 128, f"ymm{number}": 256, f"zmm{number}": 512})
    for number in range(8):
        add(f"mm{number}", {f"mm{number}": 64})
        add(f"k{number}", {f"k{number}": 64})
        add("st", {f"st({number})": 80})
    add("st", {"st": 80})
    add("fs", {"fs": 64})
    add("gs", {"gs": 64})
    return parents, bits


PARENT, REGISTER_BITS = _register_names()
_NUMBERS = re.compile(r"\d+")


def _shape(register: str) -> str:
    """Shape of a register, kind and width: instructions treat registers of one shape alike."""
    kind = _NUMBERS.sub("", PARENT[register]) if PARENT[register][0] in "xmks" else "r"
    return f"{kind}{REGISTER_BITS[register]}"


_SHAPES = {name: _shape(name) for name in PARENT}
_MEMORY = re.compile(r"(?:(\w+) ptr )?(?:([a-z]s):)?\[([^\]]*)\]")
_TERM = re.compile(r"([+-]?) ?(?:([a-z]\w*)(?:\*(\d))?|(0x[0-9a-f]+|\d+))")
_NUMBER = re.compile(r"-?(?:0x[0-9a-f]+|\d+)")
_INSTRUCTION_POINTER = "rip"


class OperandKind(IntEnum):
    """Kind of an operand; values as capstone's."""

    REGISTER = x86_decoder.REGISTER
    NUMBER = x86_decoder.NUMBER
    MEMORY = x86_decoder.MEMORY


class Operand(msgspec.Struct, frozen=True):
    """An operand: a register, a number or a memory address.

    `name` is a register as written, `register` the widest that it is part of ("" for those that hold no values).
    An address that is relative to the next instruction does not include that instruction's address.
    """

    kind: OperandKind
    name: str = ""
    register: str = ""
    number: int = 0
    address: AddressSum = AddressSum()
    is_relative: bool = False


class Form(msgspec.Struct, frozen=True):
    """Operand roles shared by all instructions of a form.

    For each operand: `accesses` as capstone gives them (0: unknown), `sizes_bytes`. Registers that are read and
    written without being named, and condition flags. It `is_learned` if an instruction's text gave its operands.
    """

    accesses: tuple[int, ...] = ()
    sizes_bytes: tuple[int, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    reads_flags: bool = False
    writes_flags: bool = False
    is_learned: bool = False


_NO_FORM = Form()
Decoded = tuple[Form, tuple[Operand, ...]]


class OperandReader:
    """Reads operands, learning forms as it goes."""

    def __init__(self) -> None:
        """Start without learned forms."""
        self._detailed = X86Decoder(detailed=True)
        self._names: dict[int, str] = {}
        self._forms: dict[tuple[str, ...], Form] = {}
        self._read: dict[bytes, Decoded] = {}
        self._told: dict[str, tuple[str, Operand] | None] = {}

    def read(self, code: bytes, mnemonic: str, text: str) -> Decoded:
        """Form and operands of an instruction, given the mnemonic and the text of its operands."""
        if code not in self._read:
            self._read[code] = self._from_text(code, mnemonic, text)
        return self._read[code]

    def _from_text(self, code: bytes, mnemonic: str, text: str) -> Decoded:
        told = [self._operand(part) for part in text.split(", ")] if text else []
        known = [one for one in told if one is not None]
        if len(known) < len(told):
            return self.read_in_detail(code)
        key = (mnemonic, *(shape for shape, _ in known))
        operands = tuple(operand for _, operand in known)
        form = self._forms.get(key)
        if form is None:
            form, found = self.read_in_detail(code)
            if _agree(found, operands):
                form = msgspec.structs.replace(form, is_learned=True)
            self._forms[key] = form
        return (form, operands) if form.is_learned else self.read_in_detail(code)

    def read_in_detail(self, code: bytes) -> Decoded:
        """Form and operands of an instruction, from capstone's detail alone."""
        instruction = self._detailed.detail(code)
        if instruction is None:
            return _NO_FORM, ()
        detailed = instruction.operands
        reads, writes = instruction.reads, instruction.writes
        # Of one encoding of `test`, capstone 5 says that it writes its register.
        only_reads = instruction.mnemonic == "test"
        allowed = x86_decoder.READS if only_reads else x86_decoder.READS | x86_decoder.WRITES
        form = Form(
            accesses=tuple(operand.access & allowed for operand in detailed),
            sizes_bytes=tuple(operand.size_bytes for operand in detailed),
            reads=tuple(name for number in reads if (name := self._register(number))),
            writes=tuple(name for number in writes if (name := self._register(number))),
            reads_flags=x86_decoder.FLAGS_REGISTER in reads,
            writes_flags=x86_decoder.FLAGS_REGISTER in writes,
        )
        return form, tuple(self._in_detail(operand) for operand in detailed)

    def _in_detail(self, operand: DetailedOperand) -> Operand:
        if operand.kind == OperandKind.REGISTER:
            name = self._detailed.register_name(operand.register)
            return Operand(OperandKind.REGISTER, name, register=self._register(operand.register))
        if operand.kind != OperandKind.MEMORY:
            return Operand(OperandKind.NUMBER, number=operand.number)
        parts = ((operand.base, 1), (operand.index, operand.scale), (operand.segment, 1))
        named = [(self._register(number), scale) for number, scale in parts if number]
        total = AddressSum(tuple((name, scale) for name, scale in named if name), operand.displacement)
        is_relative = operand.base == x86_decoder.INSTRUCTION_POINTER
        return Operand(OperandKind.MEMORY, address=total, is_relative=is_relative)

    def _register(self, number: int) -> str:
        """The widest register that this one is part of; empty for flags, the instruction pointer and the like."""
        name = self._names.get(number)
        if name is None:
            name = self._names[number] = PARENT.get(self._detailed.register_name(number), "")
        return name

    def _operand(self, text: str) -> tuple[str, Operand] | None:
        """Shape and operand of a piece of text; None for text of any other form."""
        if text not in self._told:
            self._told[text] = _from_text(text)
        return self._told[text]


def _from_text(text: str) -> tuple[str, Operand] | None:
    if text in PARENT:
        return _SHAPES[text], Operand(OperandKind.REGISTER, text, PARENT[text])
    if _NUMBER.fullmatch(text):
        number = int(text, 0)
        return "number", Operand(OperandKind.NUMBER, number=number - (1 << 64) if number >> 63 == 1 else number)
    memory = _MEMORY.fullmatch(text)
    if memory is None:
        return None
    size, segment, terms = memory.groups()
    registers: list[tuple[str, int]] = []
    displacement = 0
    is_relative = False
    for sign, name, scale, number in _TERM.findall(terms):
        if number:
            displacement += -int(number, 0) if sign == "-" else int(number, 0)
        elif name == _INSTRUCTION_POINTER:
            is_relative = True
        elif name in PARENT:
            registers.append((PARENT[name], int(scale or 1)))
        else:
            return None
    if segment in PARENT:
        registers.append((PARENT[segment], 1))
    address = AddressSum(tuple(registers), displacement - (1 << 64) if displacement >> 63 == 1 else displacement)
    return f"memory {size}", Operand(OperandKind.MEMORY, address=address, is_relative=is_relative)


def _agree(found: tuple[Operand, ...], told: tuple[Operand, ...]) -> bool:
    """Whether detail and text have the same operands; the sign of a number, which the text leaves open, is ignored."""
    return len(found) == len(told) and all(
        one == other or one.kind == other.kind == OperandKind.NUMBER for one, other in zip(found, told, strict=True)
    )
