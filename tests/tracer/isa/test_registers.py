"""Classes of registers: where a core keeps what instructions write."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from foretrace.tracer.analysis.machine_code.paths import Registers
from foretrace.tracer.isa import registry as isa
from foretrace.tracer.isa.aarch64 import AArch64
from foretrace.tracer.isa.registers import RegisterClass, register_class
from foretrace.tracer.isa.riscv64 import RiscV64
from foretrace.tracer.isa.x86_operands import PARENT

INTEGER, VECTOR, MASK, FLAGS, SEGMENT = RegisterClass

# Instruction; classes of what it reads, uses in an address, and writes.
X86 = {
    "add rax, rbx": ({INTEGER}, set(), {INTEGER, FLAGS}),
    "addpd xmm1, xmm2": ({VECTOR}, set(), {VECTOR}),
    "vaddpd zmm1, zmm2, zmm3": ({VECTOR}, set(), {VECTOR}),
    "fadd st, st(1)": ({VECTOR}, set(), {VECTOR}),
    "fld qword ptr [rbx]": ({VECTOR}, {INTEGER}, {VECTOR}),
    "fcomip st, st(1)": ({VECTOR}, set(), {VECTOR, FLAGS}),
    "paddd mm0, mm1": ({VECTOR}, set(), {VECTOR}),
    "movq rax, mm1": ({VECTOR}, set(), {INTEGER}),
    "kmovq rax, k1": ({MASK}, set(), {INTEGER}),
    "kortestw k1, k2": ({MASK}, set(), {FLAGS}),
    "vpcmpeqd k1, zmm1, zmm2": ({VECTOR}, set(), {MASK}),
    "mov rax, qword ptr fs:[40]": (set(), {SEGMENT}, {INTEGER}),
}


@pytest.mark.parametrize("text", X86)
def test_decoded_registers_have_their_class(text: str, tmp_path: Path) -> None:
    if shutil.which("as") is None or shutil.which("objcopy") is None:
        pytest.skip("needs binutils")
    (tmp_path / "a.s").write_text(f".intel_syntax noprefix\n{text}\n")
    assembled = subprocess.run(["as", "--64", "-o", "a.o", "a.s"], cwd=tmp_path, capture_output=True, text=True)
    if assembled.returncode:
        pytest.skip(f"the assembler is not one for x86-64: {assembled.stderr.splitlines()[-1]}")
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", "a.o", "a.bin"], cwd=tmp_path, check=True)
    found = Registers(isa.load("x86_64")).of((tmp_path / "a.bin").read_bytes(), loads="ptr" in text, stores=False)
    reads, addresses, writes = ({register_class("x86_64", name) for name in names} for names in found[:3])
    assert (reads, addresses, writes) == X86[text]


def test_every_register_that_the_decoders_name_has_a_class() -> None:
    """Those that hold no integers are named by the class they are in."""
    expected = {"x": VECTOR, "m": VECTOR, "k": MASK, "f": SEGMENT, "g": SEGMENT}
    for name in set(PARENT.values()):
        of_name = VECTOR if name == "st" else expected.get(name[0], INTEGER)
        assert register_class("x86_64", name) is of_name, name
    for name in AArch64.call_clobbered:
        assert register_class("aarch64", name) is (VECTOR if name[0] == "v" else INTEGER), name
    for name in RiscV64.call_clobbered:
        assert register_class("riscv64", name) is (VECTOR if name[0] == "f" else INTEGER), name


@pytest.mark.parametrize(
    ("instruction_set", "name", "expected"),
    [
        ("riscv64", "fs1", VECTOR),
        ("x86_64", "fs", SEGMENT),
        ("riscv64", "s1", INTEGER),
        ("aarch64", "x1", INTEGER),
        ("x86_64", "v1", INTEGER),
        ("python", "xmm1", INTEGER),
        ("aarch64", "flags", FLAGS),
    ],
)
def test_a_name_means_what_its_instruction_set_says(instruction_set: str, name: str, expected: RegisterClass) -> None:
    assert register_class(instruction_set, name) is expected
