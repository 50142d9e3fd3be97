"""Decoding of x86-64: classes, access sizes and data flow of instructions as the assembler writes them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import capstone
import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st
from numpy._core import _multiarray_umath

from foretrace.base.errors import ProgramError
from foretrace.tracer.analysis.machine_code.paths import Registers
from foretrace.tracer.isa import registry as isa
from foretrace.tracer.isa.instruction_set import AddressSum, DataFlow, Flow, Isa
from foretrace.tracer.signature.records import FLOPS_PER_LANE, OperationKind

X86 = isa.load("x86_64")
Assemble = Callable[[str], bytes]

# Instruction; kind, element bits, lanes; bytes loaded, bytes stored (None: makes no such access).
INSTRUCTIONS = """
mov eax, ebx                        | move 32 1      | -  -
mov rax, qword ptr [rbx+rcx*8+16]   | move 64 1      | 8  -
mov byte ptr [rdi], al              | move 8 1       | -  1
movzx eax, word ptr [rdi]           | move 32 1      | 2  -
movsxd rax, dword ptr [rdi]         | move 64 1      | 4  -
add dword ptr [rax], 1              | int_alu 32 1   | 4  4
lock xadd qword ptr [rax], rcx      | atomic 64 1    | 8  8
xchg qword ptr [rax], rcx           | atomic 64 1    | 8  8
xchg rax, rcx                       | move 64 1      | -  -
lea rax, [rbx+rcx*4]                | int_alu 64 1   | -  -
lea rax, [rbx+rcx*4+8]              | int_shift_add 64 1 | -  -
lea eax, [rbx+rcx-12]               | int_shift_add 32 1 | -  -
lea rax, [rbx*8+16]                 | int_alu 64 1   | -  -
lea rax, [rip+16]                   | int_alu 64 1   | -  -
xor eax, eax                        | move 32 1      | -  -
xor eax, ebx                        | int_alu 32 1   | -  -
movzx eax, bl                       | int_alu 32 1   | -  -
movsxd rax, eax                     | int_alu 64 1   | -  -
shr dword ptr [rax], 3              | int_shift 32 1 | 4  4
ror eax, 7                          | int_shift 32 1 | -  -
shlx rax, rbx, rcx                  | int_shift 64 1 | -  -
tzcnt eax, ebx                      | int_bit_count 32 1 | -  -
cmp rax, qword ptr [rbx]            | int_alu 64 1   | 8  -
sete al                             | int_select 8 1   | -  -
cmovne rax, rbx                     | int_select 64 1  | -  -
imul eax, dword ptr [rbx], 3        | int_mul 32 1   | 4  -
mul rbx                             | int_mul 64 1   | -  -
idiv ecx                            | int_div 32 1   | -  -
push rax                            | move 64 1      | -  8
push qword ptr [rax]                | move 64 1      | 8  8
pop rbx                             | move 64 1      | 8  -
leave                               | move 64 1      | 8  -
movsd xmm0, qword ptr [rax]         | move 64 1      | 8  -
movaps xmm0, xmmword ptr [rax]      | move 32 4      | 16 -
vmovupd ymmword ptr [rax], ymm0     | move 64 4      | -  32
movdqu xmm0, xmmword ptr [rax]      | move 64 2      | 16 -
movd xmm0, dword ptr [rax]          | move 32 1      | 4  -
vmovq xmm0, rax                     | move 64 1      | -  -
movhpd xmm0, qword ptr [rax]        | move 64 2      | 8  -
addsd xmm0, qword ptr [rax]         | fp_add 64 1    | 8  -
subps xmm0, xmm1                    | fp_add 32 4    | -  -
vaddpd ymm0, ymm1, ymmword ptr [rax] | fp_add 64 4   | 32 -
haddpd xmm0, xmm1                   | fp_add 64 2    | -  -
mulss xmm0, xmm1                    | fp_mul 32 1    | -  -
vmulps ymm0, ymm1, ymm2             | fp_mul 32 8    | -  -
vfmadd231sd xmm0, xmm1, qword ptr [rax] | fp_fma 64 1 | 8 -
vfnmsub132ps ymm0, ymm1, ymm2       | fp_fma 32 8    | -  -
divsd xmm0, xmm1                    | fp_div 64 1    | -  -
vdivpd ymm0, ymm1, ymm2             | fp_div 64 4    | -  -
sqrtsd xmm0, xmm1                   | fp_sqrt 64 1   | -  -
cvtsi2sd xmm0, eax                  | fp_convert 64 1| -  -
cvttsd2si eax, xmm0                 | fp_convert 64 1 | - -
cvtps2pd xmm0, xmm1                 | fp_convert 64 2 | - -
roundsd xmm0, xmm1, 1               | fp_convert 64 1 | - -
ucomisd xmm0, qword ptr [rax]       | fp_compare 64 1 | 8  -
maxpd xmm0, xmm1                    | fp_other 64 2  | -  -
andps xmm0, xmm1                    | fp_other 32 4  | -  -
paddd xmm0, xmm1                    | vector_int 32 4 | - -
vpaddq ymm0, ymm1, ymm2             | vector_int 64 4 | - -
pxor xmm0, xmm1                     | vector_int 64 2 | - -
pxor xmm0, xmm0                     | move 64 2      | -  -
vxorps ymm0, ymm1, ymm1             | move 32 8      | -  -
vpcmpeqb ymm0, ymm1, ymmword ptr [rax] | vector_int 8 32 | 32 -
vgatherdpd ymm0, qword ptr [rax+xmm1*8], ymm2 | gather 64 4 | 8 -
vpgatherdd ymm0, dword ptr [rax+ymm1*4], ymm2 | gather 32 8 | 4 -
vmaskmovps ymm0, ymm1, ymmword ptr [rax] | move 32 8  | 32 -
vbroadcastsd ymm0, qword ptr [rax]  | move 64 1      | 8  -
vinsertf128 ymm0, ymm0, xmmword ptr [rax], 1 | move 64 4 | 16 -
vextractf128 xmmword ptr [rax], ymm0, 1 | move 64 4  | -  16
vextractf128 xmm1, ymm0, 1           | fp_other 64 4  | -  -
vinsertf128 ymm0, ymm0, xmm1, 1      | fp_other 64 4  | -  -
vbroadcastsd ymm0, xmm1              | fp_other 64 1  | -  -
movddup xmm0, xmm1                   | fp_other 64 2  | -  -
movddup xmm0, qword ptr [rax]        | move 64 2      | 8  -
fld tbyte ptr [rax]                 | move 80 1      | 10 -
fstp qword ptr [rax]                | move 80 1      | -  8
fadd qword ptr [rax]                | fp_add 80 1    | 8  -
fmulp                               | fp_mul 80 1    | -  -
fdivr qword ptr [rax]               | fp_div 80 1    | 8  -
fsqrt                               | fp_sqrt 80 1   | -  -
fild dword ptr [rax]                | fp_convert 80 1 | 4  -
rep movsq                           | move 64 1      | 8  8
stosb                               | move 8 1       | -  1
repne scasb                         | int_alu 8 1    | 1  -
cmpsd                               | int_alu 32 1   | 4  -
cmpltsd xmm0, xmm1                  | fp_compare 64 1 | -  -
lock cmpxchg16b xmmword ptr [rax]   | atomic 128 1   | 16 16
stmxcsr dword ptr [rax]             | fp_control 32 1 | -  4
fxsave [rax]                        | other 0 1      | -  512
prefetcht0 byte ptr [rax]           | other 0 1      | -  -
nop dword ptr [rax+rax]             | other 0 1      | -  -
popcnt rax, rbx                     | int_bit_count 64 1  | -  -
aesenc xmm0, xmm1                   | aes 64 2       | -  -
vaesdeclast ymm0, ymm1, ymm2        | aes 64 4       | -  -
aeskeygenassist xmm0, xmm1, 1       | aes 64 2       | -  -
sha256rnds2 xmm1, xmm2              | sha_round 64 2 | -  -
sha1rnds4 xmm1, xmm2, 0             | sha_round 64 2 | -  -
sha256msg1 xmm1, xmm2               | sha_schedule 64 2 | - -
sha1nexte xmm1, xmm2                | sha_schedule 64 2 | - -
crc32 rax, qword ptr [rbx]          | crc32 64 1     | 8  -
crc32 eax, bl                       | crc32 32 1     | -  -
pclmulqdq xmm0, xmm1, 0             | carryless_mul 64 2 | - -
vpclmulqdq ymm0, ymm1, ymm2, 0      | carryless_mul 64 4 | - -
gf2p8affineqb xmm0, xmm1, 1         | galois 8 16    | -  -
gf2p8mulb xmm0, xmm1                | galois 8 16    | -  -
pdep rax, rbx, rcx                  | bit_deposit 64 1 | - -
pext eax, ebx, ecx                  | bit_deposit 32 1 | - -
pmuludq xmm0, xmm1                  | vector_mul 64 2 | - -
vpmulld ymm0, ymm1, ymm2            | vector_mul 32 8 | - -
pmaddwd xmm0, xmm1                  | vector_mul 32 4 | - -
mfence                              | fence 64 1     | -  -
rdtsc                               | timer 64 1     | -  -
fsin                                | x87_function 80 1 | - -
fyl2x                               | x87_function 80 1 | - -
fabs                                | fp_other 80 1  | -  -
pause                               | other 0 1      | -  -
cpuid                               | other 0 1      | -  -
"""
FLOWS = {
    "jmp .": Flow.JUMP,
    "jmp rax": Flow.INDIRECT_JUMP,
    "notrack jmp qword ptr [rax*8+0x1000]": Flow.INDIRECT_JUMP,
    "jne .": Flow.BRANCH,
    "jrcxz .": Flow.BRANCH,
    "loop .": Flow.BRANCH,
    "call .": Flow.CALL,
    "call qword ptr [rax]": Flow.CALL,
    "ret": Flow.RETURN,
    "syscall": Flow.SYSCALL,
    "nop": Flow.FALLTHROUGH,
    "cmp eax, ebx": Flow.FALLTHROUGH,
}


@pytest.fixture(scope="session")
def assemble(tmp_path_factory: pytest.TempPathFactory) -> Assemble:
    """A function that assembles one instruction and returns its bytes."""
    directory: Path = tmp_path_factory.mktemp("assembled")

    def run(text: str) -> bytes:
        source = directory / "one.s"
        source.write_text(f".intel_syntax noprefix\n{text}\n")
        subprocess.run(["gcc", "-c", "-o", directory / "one.o", source], check=True)
        command = ["objcopy", "-O", "binary", "-j", ".text", directory / "one.o", directory / "one.bin"]
        subprocess.run(command, check=True)
        return (directory / "one.bin").read_bytes()

    return run


@pytest.fixture(scope="session")
def assembled(assemble: Assemble) -> dict[str, bytes]:
    """All instructions of the tables, assembled in one go."""
    texts = [line.split("|")[0].strip() for line in INSTRUCTIONS.strip().splitlines()] + list(FLOWS)
    code = assemble("\n.balign 32, 0x90\n".join(texts) + "\n.balign 32, 0x90")
    sizes = {}
    import capstone

    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    for number, text in enumerate(texts):
        chunk = code[32 * number : 32 * number + 32]
        sizes[text] = chunk[: next(decoder.disasm_lite(chunk, 0))[1]]
    return sizes


@pytest.mark.parametrize("row", INSTRUCTIONS.strip().splitlines(), ids=lambda row: row.split("|")[0].strip())
def test_classes_and_sizes(assembled: dict[str, bytes], row: str) -> None:
    text, kind, sizes = (field.strip() for field in row.split("|"))
    code = assembled[text]
    (found,) = X86.classify([code])
    name, bits, lanes = kind.split()
    assert (found.kind.value, found.element_bits, found.lanes) == (name, int(bits), int(lanes))
    assert found.flow is Flow.FALLTHROUGH
    for is_store, size in enumerate(sizes.split()):
        if size != "-":
            assert X86.access_bytes(code, 0x1000, bool(is_store)) == int(size)


@pytest.mark.parametrize("text", FLOWS)
def test_flows(assembled: dict[str, bytes], text: str) -> None:
    code = assembled[text]
    (found,) = X86.classify([code])
    assert found.flow is FLOWS[text]


def test_flops_are_per_lane(assembled: dict[str, bytes]) -> None:
    code = assembled["vfnmsub132ps ymm0, ymm1, ymm2"]
    (found,) = X86.classify([code])
    assert FLOPS_PER_LANE[found.kind] * found.lanes == 16


def test_what_cannot_be_decoded_is_unknown_and_stops_nothing() -> None:
    found = X86.classify([b"\x90", b"\x06\x06", b"\xc3"])
    assert [one.kind for one in found] == [OperationKind.OTHER, OperationKind.UNKNOWN, OperationKind.RETURN]
    assert X86.access_bytes(b"\x06\x06", 0, False) == 0
    assert X86.data_flow(b"\x06\x06", 0, True, False) == DataFlow()


@given(st.binary(max_size=64), st.integers(1, 15))
def test_any_bytes_can_be_classified(code: bytes, length: int) -> None:
    codes = [code[at : at + length] for at in range(0, len(code), length)]
    assert len(X86.classify(codes)) == len(codes)
    X86.access_bytes(code, 0, True)
    X86.data_flow(code, 0, True, True)


def test_another_architecture_is_refused() -> None:
    with pytest.raises(ProgramError, match="mips64"):
        isa.load("mips64")


def sums(*registers: tuple[str, int], displacement: int = 0) -> AddressSum:
    return AddressSum(registers, displacement)


RAX, RBX, RSP = ("rax", 1), ("rbx", 1), ("rsp", 1)
# Instruction, whether it loads and stores, data flow.
FLOWS_OF_DATA = {
    "mov rax, rbx": ("--", DataFlow(reads=("rbx",), writes=("rax",), sum=sums(RBX))),
    "mov eax, dword ptr [rbx+rcx*4+8]": (
        "l-",
        DataFlow(loads=(sums(RBX, ("rcx", 4), displacement=8),), writes=("rax",), copies=True),
    ),
    "mov dword ptr [rbx], eax": ("-s", DataFlow(stores=(sums(RBX),), reads=("rax",), sum=sums(RAX))),
    "mov qword ptr fs:[40], rax": (
        "-s",
        DataFlow(stores=(sums(("fs", 1), displacement=40),), reads=("rax",), sum=sums(RAX)),
    ),
    "mov rax, qword ptr [rip+16]": ("l-", DataFlow(loads=(sums(displacement=0x1017),), writes=("rax",), copies=True)),
    "mov eax, 7": ("--", DataFlow(writes=("rax",), sum=sums(displacement=7))),
    "lea rax, [rbx+rcx*8-4]": ("--", DataFlow(writes=("rax",), sum=sums(RBX, ("rcx", 8), displacement=-4))),
    "add rax, rbx": ("--", DataFlow(reads=("rax", "rbx"), writes=("rax",), sum=sums(RAX, RBX), adds=True)),
    "sub rsp, 16": ("--", DataFlow(reads=("rsp",), writes=("rsp",), sum=sums(RSP, displacement=-16))),
    "shl rax, 3": ("--", DataFlow(reads=("rax",), writes=("rax",), sum=sums(("rax", 8)))),
    "inc ebx": ("--", DataFlow(reads=("rbx",), writes=("rbx",), sum=sums(RBX, displacement=1))),
    "xor eax, eax": ("--", DataFlow(writes=("rax",), sum=sums())),
    "pxor xmm1, xmm1": ("--", DataFlow(writes=("xmm1",), sum=sums())),
    "xor eax, ebx": ("--", DataFlow(reads=("rax", "rbx"), writes=("rax",))),
    "movsxd rax, dword ptr [rbx]": ("l-", DataFlow(loads=(sums(RBX),), writes=("rax",))),
    "add rax, qword ptr [rbx]": ("l-", DataFlow(loads=(sums(RBX),), reads=("rax",), writes=("rax",), adds=True)),
    "add qword ptr [rbx], rax": ("ls", DataFlow(loads=(sums(RBX),), stores=(sums(RBX),), reads=("rax",), adds=True)),
    "cmp rax, qword ptr [rbx]": ("l-", DataFlow(loads=(sums(RBX),), reads=("rax",))),
    "cmovne rax, rbx": ("--", DataFlow(reads=("rbx", "rax"), writes=("rax",), varies=True)),
    "sete al": ("--", DataFlow(writes=("rax",), varies=True)),
    "movzx eax, bl": ("--", DataFlow(reads=("rbx",), writes=("rax",))),
    "movss xmm0, dword ptr [rbx]": ("l-", DataFlow(loads=(sums(RBX),), writes=("xmm0",))),
    "movss xmm0, xmm1": ("--", DataFlow(reads=("xmm0", "xmm1"), writes=("xmm0",))),
    "vmovq xmm0, rax": ("--", DataFlow(reads=("rax",), writes=("xmm0",), sum=sums(RAX))),
    "vextractf128 xmmword ptr [rax], ymm3, 1": ("-s", DataFlow(stores=(sums(RAX),), reads=("xmm3",))),
    "movhpd xmm0, qword ptr [rax]": ("l-", DataFlow(loads=(sums(RAX),), reads=("xmm0",), writes=("xmm0",))),
    "vgatherqpd ymm0, qword ptr [rax+ymm1*8], ymm2": (
        "l-",
        DataFlow(loads=(sums(RAX, ("xmm1", 8)),), reads=("xmm2",), writes=("xmm0",), is_gather=True),
    ),
    "nop dword ptr [rax]": ("--", DataFlow()),
    "push rax": ("-s", DataFlow(stores=(sums(RSP, displacement=-8),), reads=("rax",), sum=sums(RAX), stack_bytes=-8)),
    "pop rbx": ("l-", DataFlow(loads=(sums(RSP),), writes=("rbx",), copies=True, stack_bytes=8)),
    "push qword ptr [rbx]": (
        "ls",
        DataFlow(loads=(sums(RBX),), stores=(sums(RSP, displacement=-8),), copies=True, stack_bytes=-8),
    ),
    "call rax": (
        "-s",
        DataFlow(stores=(sums(RSP, displacement=-8),), sum=sums(), target=("rax",), loads_target=True),
    ),
    "jmp qword ptr [rbx+rax*8]": ("l-", DataFlow(loads=(sums(RBX, ("rax", 8)),), loads_target=True)),
    "jmp rax": ("--", DataFlow(reads=("rax",), target=("rax",), loads_target=True)),
    "movsq": ("ls", DataFlow((sums(("rsi", 1)),), (sums(("rdi", 1)),), copies=True, steps=("rdi", "rsi"))),
    "rep stosd": (
        "-s",
        DataFlow(stores=(sums(("rdi", 1)),), reads=("rax",), sum=sums(RAX), steps=("rdi", "rcx")),
    ),
    "lodsb": ("l-", DataFlow(loads=(sums(("rsi", 1)),), writes=("rax",), steps=("rsi",))),
    "mul rbx": ("--", DataFlow(reads=("rbx", "rax"), writes=("rax", "rdx"))),
    "fild dword ptr [rbx]": ("l-", DataFlow(loads=(sums(RBX),), reads=("st",), writes=("st",))),
    "fistp dword ptr [rbx]": ("-s", DataFlow(stores=(sums(RBX),), reads=("st",))),
}


@pytest.mark.parametrize("text", FLOWS_OF_DATA)
def test_data_flow(assemble: Assemble, text: str) -> None:
    accesses, expected = FLOWS_OF_DATA[text]
    assert X86.data_flow(assemble(text), 0x1000, "l" in accesses, "s" in accesses) == expected


def test_the_instruction_set_is_an_isa() -> None:
    found: Isa = X86
    assert found.stack_pointer not in found.call_clobbered
    assert {"rax", "rdi", "r11", "xmm15"} <= found.call_clobbered
    assert not {"rbx", "rbp", "r12", "r15"} & found.call_clobbered


def test_instructions_alike_have_the_same_class_and_registers() -> None:
    """Of those of a large library: what is found for one stands for all that are alike."""
    library = Path(_multiarray_umath.__file__)
    with library.open("rb") as file:
        elf = ELFFile(file)
        if elf.get_machine_arch() != "x64":
            pytest.skip("NumPy is not one for x86-64")
        code = elf.get_section_by_name(".text").data()[1_000_000:1_150_000]
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.skipdata = True
    known = Registers(X86)
    codes = {bytes(code[at : at + length]) for at, length, _, _ in decoder.disasm_lite(code, 0)}
    assert len({X86.likeness(one) for one in codes}) < len(codes) / 2
    first, last = X86.classify(sorted(codes)), isa.load("x86_64").classify(sorted(codes, reverse=True))
    assert first == last[::-1]
    for one in sorted(codes):
        for loads, stores in ((False, False), (True, False), (True, True)):
            found = known.of(one, loads=loads, stores=stores)
            assert found == known.find(one, loads=loads, stores=stores), one.hex()


EXTENSIONS = """
addps xmm0, xmm1 | sse2
add rax, rbx |
tzcnt eax, ebx |
haddpd xmm0, xmm1 | sse3
pshufb xmm0, xmm1 | ssse3
pmulld xmm0, xmm1 | sse4_1
pblendw xmm0, xmm1, 3 | sse4_1
pinsrw xmm0, eax, 3 | sse2
pcmpistri xmm0, xmm1, 3 | sse4_2
crc32 eax, cl | sse4_2
popcnt eax, ebx | popcnt
lzcnt eax, ebx | abm
movbe eax, dword ptr [rdi] | movbe
andn eax, ebx, ecx | bmi1
shlx eax, ebx, ecx | bmi2
adcx eax, ebx | adx
aesenc xmm0, xmm1 | aes
pclmulqdq xmm0, xmm1, 1 | pclmulqdq
sha256rnds2 xmm0, xmm1 | sha_ni
gf2p8mulb xmm0, xmm1 | gfni
vaddps ymm0, ymm1, ymm2 | avx
vpaddd xmm0, xmm1, xmm2 | avx
vptest ymm0, ymm1 | avx
vpermilps ymm0, ymm1, 3 | avx
vbroadcastss ymm0, dword ptr [rax] | avx
vbroadcastss ymm0, xmm1 | avx2
vpaddd ymm0, ymm1, ymm2 | avx2
vpbroadcastd xmm0, xmm1 | avx2
vpsllvd xmm0, xmm1, xmm2 | avx2
vpermq ymm0, ymm1, 3 | avx2
vinserti128 ymm0, ymm1, xmm2, 1 | avx2
vgatherdps xmm0, dword ptr [rax + xmm1*4], xmm2 | avx2
vfmadd231ps xmm0, xmm1, xmm2 | fma
vcvtph2ps xmm0, xmm1 | f16c
vaesenc xmm0, xmm1, xmm2 | aes
vaesenc ymm0, ymm1, ymm2 | vaes
vpclmulqdq xmm0, xmm1, xmm2, 1 | pclmulqdq
vpclmulqdq ymm0, ymm1, ymm2, 1 | vpclmulqdq
vaddps zmm0, zmm1, zmm2 | avx512f
verr ax |
"""


def test_extensions_that_instructions_belong_to(assemble: Assemble) -> None:
    for line in EXTENSIONS.strip().splitlines():
        text, _, extension = (part.strip() for part in line.partition("|"))
        assert X86.extension(assemble(text)) == extension, text
    assert isa.load("aarch64").extension(bytes.fromhex("1f2003d5")) == ""
