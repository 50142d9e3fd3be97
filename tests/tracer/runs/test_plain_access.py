"""Which accesses the QEMU plugin knows before they happen, against what the analysis knows of the same instructions."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import capstone
import pytest
from hypothesis import given
from hypothesis import strategies as st

UNKNOWN, NONE, PLAIN = range(3)
SOURCE = Path(__file__).parents[3] / "tracer" / "qemu" / "plain_access.c"
PROGRAM = Path("/bin/bash")


class PlainAccess(ctypes.Structure):
    _fields_ = (("is_store", ctypes.c_bool), ("size_shift", ctypes.c_uint))


class Decoder:
    """plain_access.c, called through ctypes."""

    def __init__(self, library: Path, target: str) -> None:
        loaded = ctypes.CDLL(str(library))
        function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(PlainAccess))
        loaded.ft_accesses_on.restype = function
        self._accesses = loaded.ft_accesses_on(target.encode())

    def __call__(self, code: bytes) -> tuple[int, bool, int]:
        access = PlainAccess()
        kind = self._accesses(code, len(code), access)
        return kind, access.is_store, 1 << access.size_shift


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "plain_access.so"
    subprocess.run(["gcc", "-std=c11", "-O1", "-shared", "-fPIC", "-o", path, SOURCE], check=True)
    return path


def test_x86_64_agrees_with_capstone_on_a_whole_program(library: Path) -> None:
    decode = Decoder(library, "x86_64")
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.detail = True
    engine.skipdata = True
    plain = 0
    for instruction in engine.disasm(PROGRAM.read_bytes()[0x40000:0x60000], 0x40000):
        if instruction.id == 0:
            continue
        kind, is_store, size_bytes = decode(bytes(instruction.bytes))
        if kind == UNKNOWN:
            continue
        operands = [o for o in instruction.operands if o.type == capstone.x86.X86_OP_MEM]
        name = instruction.mnemonic
        if name in ("push", "call", "pop", "ret"):
            assert kind == PLAIN, instruction
            assert (is_store, size_bytes) == (name in ("push", "call"), 8), instruction
        elif kind == NONE:
            assert not operands or name in ("lea", "nop"), instruction
        else:
            plain += 1
            (operand,) = operands
            assert operand.size == size_bytes, instruction
            writes = bool(operand.access & capstone.CS_AC_WRITE)
            assert writes == is_store, instruction
            assert not (is_store and operand.access & capstone.CS_AC_READ), instruction
    assert plain > 1000


@pytest.mark.parametrize(
    ("target", "code", "expected"),
    [
        ("x86_64", "8b07", (PLAIN, False, 4)),  # mov eax, [rdi]
        ("x86_64", "66890f", (PLAIN, True, 2)),  # mov [rdi], cx
        ("x86_64", "f20f1007", (PLAIN, False, 8)),  # movsd xmm0, [rdi]
        ("x86_64", "f30f1107", (PLAIN, True, 4)),  # movss [rdi], xmm0
        ("x86_64", "0f1007", (UNKNOWN,)),  # movups: QEMU makes two accesses
        ("x86_64", "8307 01".replace(" ", ""), (UNKNOWN,)),  # add [rdi], 1: two accesses
        ("x86_64", "f3a4", (UNKNOWN,)),  # rep movsb
        ("x86_64", "ff17", (UNKNOWN,)),  # call [rdi]
        ("x86_64", "8d07", (NONE,)),  # lea
        ("x86_64", "f30f1efa", (NONE,)),  # endbr64
        ("aarch64", "000040f9", (PLAIN, False, 8)),  # ldr x0, [x0]
        ("aarch64", "000000b9", (PLAIN, True, 4)),  # str w0, [x0]
        ("aarch64", "0000c03d", (UNKNOWN,)),  # ldr q0, [x0]
        ("aarch64", "000440a9", (UNKNOWN,)),  # ldp x0, x1, [x0]
        ("aarch64", "000080f9", (UNKNOWN,)),  # prfm
        ("aarch64", "0000018b", (NONE,)),  # add x0, x0, x1
        ("aarch64", "20740bd5", (UNKNOWN,)),  # dc zva, x0
        ("riscv64", "03350500", (PLAIN, False, 8)),  # ld a0, 0(a0)
        ("riscv64", "2330b500", (PLAIN, True, 8)),  # sd a1, 0(a0)
        ("riscv64", "0841", (PLAIN, False, 4)),  # c.lw a0, 0(a0)
        ("riscv64", "2f25b500", (UNKNOWN,)),  # an atomic
        ("riscv64", "3305b500", (NONE,)),  # add a0, a0, a1
        ("mips", "0000008c", (UNKNOWN,)),
    ],
)
def test_chosen_instructions(library: Path, target: str, code: str, expected: tuple[int, ...]) -> None:
    assert Decoder(library, target)(bytes.fromhex(code))[: len(expected)] == expected


@given(target=st.sampled_from(["x86_64", "aarch64", "riscv64"]), code=st.binary(max_size=15))
def test_any_bytes_are_taken(library: Path, target: str, code: bytes) -> None:
    assert Decoder(library, target)(code)[0] in (UNKNOWN, NONE, PLAIN)
