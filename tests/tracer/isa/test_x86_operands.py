"""Operands as the text of an instruction tells them, against capstone's own detail, over the C library's code."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import capstone
import pytest
from elftools.elf.elffile import ELFFile

from foretrace.tracer.isa.x86_operands import Decoded, OperandKind, OperandReader

LIBRARIES = [Path("/lib/x86_64-linux-gnu") / name for name in ("libc.so.6", "libm.so.6")]
TESTED = 12_000  # of some 100,000 distinct instructions


def instructions(path: Path) -> Iterator[tuple[bytes, str, str]]:
    with path.open("rb") as file:
        code = ELFFile(file).get_section_by_name(".text").data()
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    for address, length, mnemonic, operands in decoder.disasm_lite(code, 0):
        # A branch's target is told as an address: here, as if the instruction stood at 0.
        if not operands[:1].isdigit():
            yield code[address : address + length], mnemonic, operands


@pytest.fixture(scope="module")
def distinct() -> list[tuple[bytes, str, str]]:
    if not all(path.exists() for path in LIBRARIES):
        pytest.skip("needs an x86-64 C library")
    found = sorted({one for path in LIBRARIES for one in instructions(path)})
    return random.Random(0).sample(found, TESTED)


def comparable(decoded: Decoded) -> tuple[object, ...]:
    """All but how the form was come by, and in how many bytes a number is encoded."""
    form, operands = decoded
    sizes = [
        0 if one.kind == OperandKind.NUMBER else size for one, size in zip(operands, form.sizes_bytes, strict=True)
    ]
    return form.accesses, sizes, form.reads, form.writes, form.reads_flags, form.writes_flags, operands


def test_the_text_of_an_instruction_tells_its_operands(distinct: list[tuple[bytes, str, str]]) -> None:
    reader = OperandReader()
    detailed = OperandReader()
    wrong = []
    for code, mnemonic, text in distinct:
        told, found = comparable(reader.read(code, mnemonic, text)), comparable(detailed.read_in_detail(code))
        if told != found:
            wrong.append((mnemonic, text, told, found))
    assert wrong[:5] == []


def test_few_instructions_need_the_detail(distinct: list[tuple[bytes, str, str]]) -> None:
    reader = OperandReader()
    asked = 0

    class Counting(OperandReader):
        def read_in_detail(self, code: bytes) -> Decoded:
            nonlocal asked
            asked += 1
            return super().read_in_detail(code)

    reader = Counting()
    for code, mnemonic, text in distinct:
        reader.read(code, mnemonic, text)
    assert asked < TESTED // 5


def test_what_the_text_tells_otherwise_is_read_in_detail() -> None:
    """The x87 exchange has two operands where its text has one."""
    code = bytes.fromhex("d9c9")
    reader = OperandReader()
    assert comparable(reader.read(code, "fxch", "st(1)")) == comparable(OperandReader().read_in_detail(code))
    assert reader.read(code, "fxch", "st(1)")[0].is_learned is False


def test_numbers_have_their_sign() -> None:
    _, operands = OperandReader().read(bytes.fromhex("48c7c0ffffffff"), "mov", "rax, 0xffffffffffffffff")
    assert [(one.kind, one.number) for one in operands] == [(OperandKind.REGISTER, 0), (OperandKind.NUMBER, -1)]
