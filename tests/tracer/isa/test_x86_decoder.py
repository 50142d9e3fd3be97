"""The decoder's own binding of capstone's library, against that of capstone's package."""

from __future__ import annotations

import random
from pathlib import Path

import capstone
import pytest
from capstone import x86
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from foretrace.base.errors import EngineError
from foretrace.tracer.isa import x86_decoder
from foretrace.tracer.isa.x86_decoder import Detail, DetailedOperand, X86Decoder

LIBRARY = Path("/lib/x86_64-linux-gnu/libm.so.6")  # has AVX-512, too
SOME_CODE = bytes.fromhex("62f17c48580ac5f058c1f30f5e050010000048c7c0fffffffff3a4d9c90f0b06")


def packages(*, detailed: bool) -> capstone.Cs:
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = detailed
    return decoder


def operand_of(operand: x86.X86Op) -> DetailedOperand:
    kind, size_bytes, access = operand.type, operand.size, operand.access
    if kind == x86.X86_OP_REG:
        return DetailedOperand(kind, size_bytes, access, register=operand.reg)
    if kind == x86.X86_OP_IMM:
        return DetailedOperand(kind, size_bytes, access, number=operand.imm)
    memory = operand.mem
    return DetailedOperand(
        kind, size_bytes, access,
        segment=memory.segment, base=memory.base, index=memory.index, scale=memory.scale, displacement=memory.disp,
    )  # fmt: skip


def compare(code: bytes, ours: X86Decoder, theirs: capstone.Cs) -> bool:
    """Whether the first instruction of some code is known; its text and detail must be the same."""
    found = ours.detail(code)
    other = next(theirs.disasm(code, 0, 1), None)
    if other is None:
        assert found is None
        assert ours.texts(code, 1) == []
        return False
    assert ours.texts(code, 1) == [(other.size, other.mnemonic, other.op_str)]
    assert found == Detail(
        other.mnemonic,
        tuple(operand_of(one) for one in other.operands),
        tuple(other.regs_read),
        tuple(other.regs_write),
    )
    return True


def test_texts_are_those_of_capstones_package() -> None:
    if not LIBRARY.exists():
        pytest.skip("needs an x86-64 C library")
    with LIBRARY.open("rb") as file:
        code = ELFFile(file).get_section_by_name(".text").data()[:200_000]
    expected = [
        (size, mnemonic, operands) for _, size, mnemonic, operands in packages(detailed=False).disasm_lite(code, 0)
    ]
    assert len(expected) > 20_000
    assert X86Decoder().texts(code) == expected
    ours, theirs = X86Decoder(detailed=True), packages(detailed=True)
    starts = [0]
    for size, _, _ in expected:
        starts.append(starts[-1] + size)
    chosen = random.Random(0).sample(starts[:-1], 4000)
    assert all(compare(code[start : start + 16], ours, theirs) for start in chosen)


@given(st.binary(max_size=20))
def test_any_bytes_are_decoded_as_by_capstones_package(code: bytes) -> None:
    compare(code, X86Decoder(detailed=True), packages(detailed=True))


def test_decoding_ends_at_an_unknown_instruction() -> None:
    assert X86Decoder().texts(SOME_CODE) == [
        (6, "vaddps", "zmm1, zmm0, zmmword ptr [rdx]"), (4, "vaddps", "xmm0, xmm1, xmm1"),
        (8, "divss", "xmm0, dword ptr [rip + 0x1000]"), (7, "mov", "rax, 0xffffffffffffffff"),
        (2, "rep movsb", "byte ptr [rdi], byte ptr [rsi]"), (2, "fxch", "st(1)"), (2, "ud2", ""),
    ]  # fmt: skip
    assert len(X86Decoder().texts(SOME_CODE, 2)) == 2


def test_numbers_and_names_are_capstones() -> None:
    assert (x86_decoder.READS, x86_decoder.WRITES) == (capstone.CS_AC_READ, capstone.CS_AC_WRITE)
    assert (x86_decoder.REGISTER, x86_decoder.NUMBER, x86_decoder.MEMORY) == (
        x86.X86_OP_REG, x86.X86_OP_IMM, x86.X86_OP_MEM,
    )  # fmt: skip
    assert (x86_decoder.FLAGS_REGISTER, x86_decoder.INSTRUCTION_POINTER) == (x86.X86_REG_EFLAGS, x86.X86_REG_RIP)
    names = [X86Decoder().register_name(number) for number in range(x86.X86_REG_ENDING)]
    theirs = packages(detailed=False)
    assert names == [theirs.reg_name(number) or "" for number in range(x86.X86_REG_ENDING)]


def test_another_version_of_the_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(x86_decoder, "_VERSION", 6)
    with pytest.raises(EngineError, match="version 5, not 6"):
        X86Decoder()


def test_a_library_that_is_elsewhere_is_found_by_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert X86Decoder().texts(b"\x90") == [(1, "nop", "")]
