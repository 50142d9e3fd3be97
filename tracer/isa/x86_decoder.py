"""capstone's decoder of x86-64, called in its C library.

capstone's package imports all architectures that it knows, and makes an object of each instruction's every part: that
takes longer than all the rest that is done with the code of a small program. What the library hands over is laid out
in capstone.h and x86.h of version 5, the only one that foretrace is installed with.
"""

from __future__ import annotations

import ctypes
import importlib.util
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from foretrace.base.errors import EngineError

READS, WRITES = 1, 2  # cs_ac_type
REGISTER, NUMBER, MEMORY = 1, 2, 3  # x86_op_type
FLAGS_REGISTER, INSTRUCTION_POINTER = 25, 41  # x86_reg
_ARCH_X86, _MODE_64, _OPTION_DETAIL, _ON = 3, 8, 2, 3
_VERSION = 5

_INSTRUCTION = struct.Struct("@I Q H 24s 32s 160s P")  # cs_insn: id, address, size, bytes, mnemonic, operands, detail
_REGISTERS = struct.Struct("@20H B 20H B")  # the beginning of cs_detail: read, their number, written, their number
_NUM_OPERANDS_AT, _OPERANDS_AT = 96 + 64, 96 + 72  # in cs_detail, whose cs_x86 begins at byte 96
_OPERAND = struct.Struct("@I 4x 24s B B 14x")  # cs_x86_op: type, value, size, access, and what AVX-512 adds
_NUMBER = struct.Struct("@q")
_ADDRESS = struct.Struct("@I I I i q")  # x86_op_mem


class DetailedOperand(msgspec.Struct, frozen=True):
    """An operand: its kind, and the fields that this kind has. Registers are numbered as in x86.h, 0 for none."""

    kind: int
    size_bytes: int
    access: int
    register: int = 0
    number: int = 0
    segment: int = 0
    base: int = 0
    index: int = 0
    scale: int = 1
    displacement: int = 0


class Detail(msgspec.Struct, frozen=True):
    """capstone's detail of an instruction: operands, and the registers that it reads and writes implicitly."""

    mnemonic: str
    operands: tuple[DetailedOperand, ...]
    reads: Sequence[int]
    writes: Sequence[int]


class X86Decoder:
    """Decodes instructions, in full detail if `detailed`.

    Raises:
        EngineError: capstone's library is missing or cannot decode x86-64.
    """

    def __init__(self, *, detailed: bool = False) -> None:
        """Open the decoder."""
        self._library = _library()
        self._handle = ctypes.c_size_t()
        if self._library.cs_open(_ARCH_X86, _MODE_64, ctypes.byref(self._handle)):
            raise EngineError("the capstone library cannot decode x86-64; install capstone again")
        if detailed:
            self._library.cs_option(self._handle, _OPTION_DETAIL, _ON)

    def texts(self, code: bytes, limit: int = 0) -> list[tuple[int, str, str]]:
        """Length, mnemonic and operands of the instructions, as if at address 0: until one is unknown, or all is read.

        A `limit` other than 0 is that of their number.
        """
        found = ctypes.c_void_p()
        number = self._library.cs_disasm(self._handle, code, len(code), 0, limit, ctypes.byref(found))
        if not number:
            return []
        rows = _INSTRUCTION.iter_unpack(ctypes.string_at(found, number * _INSTRUCTION.size))
        texts = [(row[2], _text(row[4]), _text(row[5])) for row in rows]
        self._library.cs_free(found, number)
        return texts

    def detail(self, code: bytes) -> Detail | None:
        """The detail of the first instruction, for a decoder that is `detailed`; None if it is unknown."""
        found = ctypes.c_void_p()
        if not self._library.cs_disasm(self._handle, code, len(code), 0, 1, ctypes.byref(found)):
            return None
        row = _INSTRUCTION.unpack(ctypes.string_at(found, _INSTRUCTION.size))
        head = ctypes.string_at(row[6], _OPERANDS_AT)
        registers = _REGISTERS.unpack_from(head)
        size_bytes = head[_NUM_OPERANDS_AT] * _OPERAND.size
        operands = _OPERAND.iter_unpack(ctypes.string_at(row[6] + _OPERANDS_AT, size_bytes))
        result = Detail(
            mnemonic=_text(row[4]),
            operands=tuple(_operand(*operand) for operand in operands),
            reads=registers[: registers[20]],
            writes=registers[21 : 21 + registers[41]],
        )
        self._library.cs_free(found, 1)
        return result

    def register_name(self, number: int) -> str:
        """Name of a register; empty for none."""
        name = self._library.cs_reg_name(self._handle, number)
        return name.decode() if name else ""


def _text(field: bytes) -> str:
    return field[: field.index(0)].decode()


def _operand(kind: int, value: bytes, size_bytes: int, access: int) -> DetailedOperand:
    if kind == MEMORY:
        segment, base, index, scale, displacement = _ADDRESS.unpack(value)
        return DetailedOperand(
            kind, size_bytes, access,
            segment=segment, base=base, index=index, scale=scale, displacement=displacement,
        )  # fmt: skip
    number = _NUMBER.unpack_from(value)[0]
    if kind == REGISTER:
        return DetailedOperand(kind, size_bytes, access, register=number & 0xFFFFFFFF)
    return DetailedOperand(kind, size_bytes, access, number=number)


def _library() -> Any:
    """The library that capstone's package brings along; where a distribution has it elsewhere, the package knows."""
    package = importlib.util.find_spec("capstone")
    path = Path(package.origin or "").with_name("lib") / "libcapstone.so" if package else Path()
    if path.is_file():
        library = ctypes.CDLL(str(path))
    else:
        import capstone

        library = ctypes.CDLL(capstone._cs._name)  # of its own, with declarations of its own
    library.cs_version.restype = ctypes.c_uint
    major = library.cs_version(None, None) >> 8
    if major != _VERSION:
        raise EngineError(f"the capstone library has version {major}, not {_VERSION}; install capstone again")
    library.cs_open.argtypes = ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p
    library.cs_option.argtypes = ctypes.c_size_t, ctypes.c_uint, ctypes.c_size_t
    library.cs_disasm.restype = ctypes.c_size_t
    library.cs_disasm.argtypes = (
        ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p,
    )  # fmt: skip
    library.cs_free.restype = None
    library.cs_free.argtypes = ctypes.c_void_p, ctypes.c_size_t
    library.cs_reg_name.restype = ctypes.c_char_p
    library.cs_reg_name.argtypes = ctypes.c_size_t, ctypes.c_uint
    return library
