"""Decoding of AArch64 and RISC-V: classes, access sizes and data flow of instructions as the assembler writes them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrace.tracer.isa import registry as isa
from foretrace.tracer.isa.instruction_set import AddressSum, DataFlow, Flow, Isa
from foretrace.tracer.signature.records import OperationKind

ISAS = {name: isa.load(name) for name in ("aarch64", "riscv64")}
DIRECTIVES = {
    "aarch64": ".arch armv8.6-a+fp16+bf16+crc+crypto+dotprod+i8mm",
    "riscv64": ".attribute arch, \"rv64gc\"\n.option arch, +c, +zba, +zbb, +zbs\n.option norelax",
}  # fmt: skip
Assemble = Callable[[str, str], bytes]

# Instruction; kind, element bits, lanes; bytes of its loads or stores (-: none).
INSTRUCTIONS = {
    "aarch64": """
mov x0, x1                       | move 64 1       | -
mov w0, #5                       | move 32 1       | -
movk x0, #1, lsl #16             | move 64 1       | -
mov v0.16b, v1.16b               | move 8 16       | -
dup v0.4s, w1                    | move 32 4       | -
fmov d0, x0                      | move 64 1       | -
fmov v0.2d, #1.0                 | move 64 2       | -
movi v0.2d, #0                   | move 64 2       | -
umov w0, v1.b[1]                 | move 32 1       | -
ldr x0, [x1, w2, sxtw #3]        | move 64 1       | 8
ldr w0, [x1], #4                 | move 32 1       | 4
ldrsw x0, [x1]                   | move 64 1       | 4
ldrb w0, [x1]                    | move 32 1       | 1
ldrsh x0, [x1]                   | move 64 1       | 2
ldr q0, [x1]                     | move 64 2       | 16
ldr s0, [x1]                     | move 32 1       | 4
ldr h0, [x1]                     | move 16 1       | 2
ldur d0, [x1, #-8]               | move 64 1       | 8
strb w0, [x1]                    | move 8 1        | 1
str wzr, [x1]                    | move 32 1       | 4
ldp x29, x30, [sp], #32          | move 64 2       | 16
ldp w0, w1, [x2]                 | move 32 2       | 8
ldpsw x0, x1, [x2]               | move 64 2       | 8
stp q0, q1, [x2, #-32]!          | move 64 4       | 32
stp d8, d9, [sp, #16]            | move 64 2       | 16
ld1 {v0.4s}, [x0], #16           | move 32 4       | 16
ld1 {v0.16b-v3.16b}, [x0]        | move 8 64       | 64
ld3 {v0.8b-v2.8b}, [x0]          | move 8 24       | 24
st4 {v0.2d-v3.2d}, [x0]          | move 64 8       | 64
ld1 {v0.s}[1], [x0]              | move 32 1       | 4
st2 {v0.h, v1.h}[1], [x0]        | move 16 2       | 4
ld1r {v0.4s}, [x0]               | move 32 4       | 4
ld2r {v0.2d, v1.2d}, [x0]        | move 64 4       | 16
ldxr x0, [x1]                    | move 64 1       | 8
stlxrb w2, w0, [x1]              | atomic 8 1      | 1
ldaxp x0, x1, [x2]               | move 64 2       | 16
stxp w3, x0, x1, [x2]            | atomic 64 2     | 16
ldapr x0, [x1]                   | move 64 1       | 8
ldaddal w0, w1, [x2]             | atomic 32 1     | 4
stadd x0, [x1]                   | atomic 64 1     | 8
swph w0, w1, [x2]                | atomic 32 1     | 2
casal x0, x1, [x2]               | atomic 64 1     | 8
casp x0, x1, x2, x3, [x4]        | atomic 64 2     | 16
prfm pldl1keep, [x0]             | other 0 1       | -
add x0, x1, w2, sxtw #3          | int_shift_add 64 1 | -
add x0, x1, x2                   | int_alu 64 1    | -
cmp x0, x1, lsl #2               | int_shift_add 64 1 | -
lsl x0, x1, #3                   | int_shift 64 1  | -
ror w0, w1, w2                   | int_shift 32 1  | -
csel x0, x1, x2, ne              | int_select 64 1 | -
clz x0, x1                       | int_bit_count 64 1 | -
cfinv                            | int_alu 64 1    | -
subs w0, w1, #1                  | int_alu 32 1    | -
cmp x0, #1                       | int_alu 64 1    | -
ccmp x0, x1, #0, ne              | int_alu 64 1    | -
cset w0, ne                      | int_select 32 1   | -
sbfiz x0, x1, #3, #32            | int_shift 64 1   | -
adrp x0, .                       | int_alu 64 1    | -
crc32x w0, w1, x2                | crc32 32 1      | -
aese v0.16b, v1.16b              | aes 8 16        | -
aesmc v0.16b, v0.16b             | aes_mix 8 16    | -
sha256h q0, q1, v2.4s            | sha_round 64 2  | -
sha256su1 v0.4s, v1.4s, v2.4s    | sha_schedule 32 4 | -
pmull v0.1q, v1.1d, v2.1d        | carryless_mul 128 1 | -
mul v0.4s, v1.4s, v2.4s          | vector_mul 32 4 | -
umlal v0.2d, v1.2s, v2.2s        | vector_mul 64 2 | -
mul x0, x1, x2                   | int_mul 64 1    | -
dmb ish                          | fence 64 1      | -
mrs x0, cntvct_el0               | timer 64 1      | -
madd x0, x1, x2, x3              | int_mul 64 1    | -
smaddl x0, w1, w2, x3            | int_mul 64 1    | -
udiv w0, w1, w2                  | int_div 32 1    | -
fadd d0, d1, d2                  | fp_add 64 1     | -
fsub v0.4s, v1.4s, v2.4s         | fp_add 32 4     | -
fadd h0, h1, h2                  | fp_add 16 1     | -
fadd v0.8h, v1.8h, v2.8h         | fp_add 16 8     | -
faddp d0, v1.2d                  | fp_add 64 1     | -
faddp v0.4s, v1.4s, v2.4s        | fp_add 32 4     | -
fabd s0, s1, s2                  | fp_add 32 1     | -
fmul v0.2d, v1.2d, v2.d[1]       | fp_mul 64 2     | -
fnmul d0, d1, d2                 | fp_mul 64 1     | -
fmadd d0, d1, d2, d3             | fp_fma 64 1     | -
fnmsub s0, s1, s2, s3            | fp_fma 32 1     | -
fmla v0.4s, v1.4s, v2.4s         | fp_fma 32 4     | -
fmls d0, d1, v2.d[1]             | fp_fma 64 1     | -
fmlal v0.4s, v1.4h, v2.4h        | fp_fma 32 4     | -
bfdot v0.4s, v1.8h, v2.8h        | fp_fma 32 8     | -
bfmmla v0.4s, v1.8h, v2.8h       | fp_fma 32 16    | -
fdiv v0.2d, v1.2d, v2.2d         | fp_div 64 2     | -
fsqrt s0, s1                     | fp_sqrt 32 1    | -
scvtf d0, w0                     | fp_convert 64 1  | -
fcvtzs x0, d0                    | fp_convert 64 1  | -
fcvtl v0.2d, v1.2s               | fp_convert 64 2 | -
frintm d0, d1                    | fp_convert 64 1  | -
fcmp d0, #0.0                    | fp_compare 64 1  | -
fcsel d0, d1, d2, ne             | fp_other 64 1   | -
fmaxnm v0.4s, v1.4s, v2.4s       | fp_other 32 4   | -
fneg d0, d1                      | fp_other 64 1   | -
add v0.4s, v1.4s, v2.4s          | vector_int 32 4 | -
add d0, d1, d2                   | vector_int 64 1 | -
eor v0.16b, v1.16b, v2.16b       | vector_int 8 16 | -
mul v0.8h, v1.8h, v2.8h          | vector_mul 16 8 | -
sdot v0.4s, v1.16b, v2.16b       | vector_int 32 4 | -
cmhi v0.2d, v1.2d, v2.2d         | vector_int 64 2 | -
uzp1 v0.4s, v1.4s, v2.4s         | vector_int 32 4 | -
nop                              | other 0 1       | -
mrs x0, tpidr_el0                | other 0 1       | -
mrs x0, fpcr                     | fp_control 64 1 | -
paciasp                          | other 0 1       | -
dc zva, x0                       | move 0 1        | -
""",
    "riscv64": """
mv a0, a1                        | move 64 1       | -
li a0, 5                         | move 64 1       | -
lui a0, 5                        | move 64 1       | -
ld a0, 8(a1)                     | move 64 1       | 8
c.ld a0, 8(a1)                   | move 64 1       | 8
c.lwsp a0, 4(sp)                 | move 64 1       | 4
lw a0, -4(t1)                    | move 64 1       | 4
lbu a0, (a1)                     | move 64 1       | 1
lhu a0, (a1)                     | move 64 1       | 2
lwu a0, (a1)                     | move 64 1       | 4
sb a0, (a1)                      | move 8 1        | 1
c.sw a0, 4(a1)                   | move 32 1       | 4
c.sdsp a0, 8(sp)                 | move 64 1       | 8
flw fa0, (a1)                    | move 32 1       | 4
c.fldsp fa0, 8(sp)               | move 64 1       | 8
fsd fa0, 8(a0)                   | move 64 1       | 8
lr.d a0, (a1)                    | move 64 1       | 8
sc.w.rl a0, a1, (a2)             | atomic 32 1     | 4
amoadd.d a0, a1, (a2)            | atomic 64 1     | 8
amoswap.w.aqrl a0, a1, (a2)      | atomic 32 1     | 4
amomaxu.w a0, a1, (a2)           | atomic 32 1     | 4
addi a0, a1, 1                   | int_alu 64 1    | -
c.addi a0, 1                     | int_alu 64 1    | -
c.addiw a0, 1                    | int_alu 32 1    | -
c.addi4spn a0, sp, 16            | int_alu 64 1    | -
c.addi16sp sp, -32               | int_alu 64 1    | -
c.nop                            | other 0 1       | -
addw a0, a1, a2                  | int_alu 32 1    | -
sext.w a0, a1                    | int_alu 32 1    | -
slli a0, a1, 3                   | int_shift 64 1    | -
srliw a0, a1, 3                  | int_shift 32 1    | -
seqz a0, a1                      | int_alu 64 1    | -
sltiu a0, a1, 4                  | int_alu 64 1    | -
not a0, a1                       | int_alu 64 1    | -
auipc a0, 1                      | int_alu 64 1    | -
sh3add a0, a1, a2                | int_shift_add 64 1    | -
add.uw a0, a1, a2                | int_alu 64 1    | -
slli.uw a0, a1, 3                | int_shift 64 1    | -
andn a0, a1, a2                  | int_alu 64 1    | -
clz a0, a1                       | int_bit_count 64 1    | -
cpopw a0, a1                     | int_bit_count 32 1    | -
maxu a0, a1, a2                  | int_alu 64 1    | -
rorw a0, a1, a2                  | int_shift 32 1    | -
roriw a0, a1, 3                  | int_shift 32 1    | -
zext.h a0, a1                    | int_alu 64 1    | -
rev8 a0, a1                      | int_alu 64 1    | -
orc.b a0, a1                     | int_alu 64 1    | -
bseti a0, a1, 3                  | int_alu 64 1    | -
bext a0, a1, a2                  | int_alu 64 1    | -
mul a0, a1, a2                   | int_mul 64 1    | -
mulhsu a0, a1, a2                | int_mul 64 1    | -
mulw a0, a1, a2                  | int_mul 32 1    | -
div a0, a1, a2                   | int_div 64 1    | -
remuw a0, a1, a2                 | int_div 32 1    | -
fadd.d fa0, fa1, fa2             | fp_add 64 1     | -
fsub.s fa0, fa1, fa2             | fp_add 32 1     | -
fmul.d fa0, fa1, fa2, rtz        | fp_mul 64 1     | -
fmadd.d fa0, fa1, fa2, fa3       | fp_fma 64 1     | -
fnmsub.s fa0, fa1, fa2, fa3      | fp_fma 32 1     | -
fdiv.d fa0, fa1, fa2             | fp_div 64 1     | -
fsqrt.s fa0, fa1                 | fp_sqrt 32 1    | -
fmv.d fa0, fa1                   | move 64 1       | -
fmv.x.d a0, fa1                  | move 64 1       | -
fmv.w.x fa0, a1                  | move 32 1       | -
fneg.d fa0, fa1                  | fp_other 64 1   | -
fabs.s fa0, fa1                  | fp_other 32 1   | -
fcvt.d.w fa0, a1                 | fp_convert 64 1   | -
fcvt.w.s a0, fa1, rtz            | fp_convert 32 1   | -
feq.d a0, fa1, fa2               | fp_compare 64 1   | -
fmin.d fa0, fa1, fa2             | fp_other 64 1   | -
fclass.d a0, fa1                 | fp_other 64 1   | -
csrr a0, fcsr                    | fp_control 64 1      | -
fsflags a0                       | fp_control 64 1      | -
fence                            | fence 64 1      | -
""",
}
FLOWS = {
    "aarch64": {
        "b .": Flow.JUMP, "br x0": Flow.INDIRECT_JUMP, "b.ne .": Flow.BRANCH, "cbz x0, .": Flow.BRANCH,
        "tbnz w0, #3, .": Flow.BRANCH, "bl .": Flow.CALL, "blr x1": Flow.CALL, "blraa x0, x1": Flow.CALL,
        "ret": Flow.RETURN, "ret x1": Flow.RETURN, "retaa": Flow.RETURN, "svc #0": Flow.SYSCALL,
        "bti c": Flow.FALLTHROUGH, "bic x0, x1, x2": Flow.FALLTHROUGH, "tst x0, #1": Flow.FALLTHROUGH,
    },
    "riscv64": {
        "j .": Flow.JUMP, "c.j .": Flow.JUMP, "jr a0": Flow.INDIRECT_JUMP, "jalr x0, 8(a0)": Flow.INDIRECT_JUMP,
        "beq a0, a1, .": Flow.BRANCH, "c.bnez a0, .": Flow.BRANCH, "bgtz a0, .": Flow.BRANCH, "jal .": Flow.CALL,
        "jal t0, .": Flow.CALL, "c.jalr a0": Flow.CALL, "jalr ra, 16(a0)": Flow.CALL, "jalr t1, a0": Flow.INDIRECT_JUMP,
        "ret": Flow.RETURN, "jr t0": Flow.RETURN, "jalr x0, 0(ra)": Flow.RETURN, "ecall": Flow.SYSCALL,
        "ebreak": Flow.SYSCALL, "nop": Flow.FALLTHROUGH,
    },
}  # fmt: skip


def rows(table: str) -> list[tuple[str, ...]]:
    return [tuple(field.strip() for field in line.split("|")) for line in table.strip().splitlines()]


@pytest.fixture(scope="session")
def assemble(tmp_path_factory: pytest.TempPathFactory) -> Assemble:
    """A function that assembles text for an architecture and returns the bytes of its code."""
    directory: Path = tmp_path_factory.mktemp("assembled")

    def run(name: str, text: str) -> bytes:
        tool = f"{name}-linux-gnu-"
        if shutil.which(tool + "as") is None:
            pytest.skip(f"{tool}as is not installed (Debian: binutils-{name}-linux-gnu)")
        source = directory / "one.s"
        source.write_text(f"{DIRECTIVES[name]}\n{text}\n")
        subprocess.run([tool + "as", "-o", directory / "one.o", source], check=True)
        command = [tool + "objcopy", "-O", "binary", "-j", ".text", directory / "one.o", directory / "one.bin"]
        subprocess.run(command, check=True)
        return (directory / "one.bin").read_bytes()

    return run


@pytest.fixture(scope="session")
def assembled(assemble: Assemble) -> Callable[[str], dict[str, bytes]]:
    """A function that assembles all instructions of an architecture's tables in one go."""
    found: dict[str, dict[str, bytes]] = {}

    def all_of(name: str) -> dict[str, bytes]:
        if name not in found:
            texts = [row[0] for row in rows(INSTRUCTIONS[name])] + list(FLOWS[name])
            code = assemble(name, "\n".join(texts))
            found[name] = {}
            at = 0
            for text in texts:
                length = 4 if name == "aarch64" or code[at] & 3 == 3 else 2  # RISC-V manual, section 1.5
                found[name][text] = code[at : at + length]
                at += length
            assert at == len(code)
        return found[name]

    return all_of


Assembled = Callable[[str], dict[str, bytes]]


@pytest.mark.parametrize("name", ISAS)
def test_classes_and_sizes(assembled: Assembled, name: str) -> None:
    wrong = []
    for text, expected, size in rows(INSTRUCTIONS[name]):
        code = assembled(name)[text]
        (found,) = ISAS[name].classify([code])
        kind = f"{found.kind.value} {found.element_bits} {found.lanes}"
        access_bytes = ISAS[name].access_bytes(code, 0x1000, False) or "-"
        if (kind, str(access_bytes), found.flow) != (expected, size, Flow.FALLTHROUGH):
            wrong.append(f"{text}: {kind} | {access_bytes} {found.flow.name}")
    assert wrong == []


@pytest.mark.parametrize("name", ISAS)
def test_flows(assembled: Assembled, name: str) -> None:
    found = {}
    for text in FLOWS[name]:
        code = assembled(name)[text]
        found[text] = ISAS[name].classify([code])[0].flow
    assert found == FLOWS[name]


def test_memory_that_is_zeroed_unseen_is_told(assembled: Assembled) -> None:
    code = assembled("aarch64")
    hidden = {text for text in code if ISAS["aarch64"].classify([code[text]])[0].hides_access}
    assert hidden == {"dc zva, x0"}


@pytest.mark.parametrize("name", ISAS)
def test_what_cannot_be_decoded_is_unknown_and_stops_nothing(assembled: Assembled, name: str) -> None:
    nop, code = assembled(name)["nop"], ISAS[name]
    found = code.classify([nop, b"\xff\xff\xff\xff", nop])
    assert [one.kind for one in found] == [OperationKind.OTHER, OperationKind.UNKNOWN, OperationKind.OTHER]
    assert code.access_bytes(b"\xff\xff\xff\xff", 0, False) == 0
    assert code.data_flow(b"\xff\xff\xff\xff", 0, True, False) == DataFlow()


@given(st.sampled_from(list(ISAS)), st.binary(max_size=64), st.sampled_from([2, 4]))
def test_any_bytes_can_be_classified(name: str, code: bytes, length: int) -> None:
    codes = [code[at : at + length] for at in range(0, len(code), length)]
    assert len(ISAS[name].classify(codes)) == len(codes)
    for at in range(0, len(code), length):
        one = code[at : at + length]
        ISAS[name].access_bytes(one, 0, True)
        for loads, stores in ((False, False), (True, False), (False, True), (True, True)):
            ISAS[name].data_flow(one, 0x1000, loads, stores)


def sums(*registers: str | tuple[str, int], displacement: int = 0) -> AddressSum:
    return AddressSum(tuple((r, 1) if isinstance(r, str) else r for r in registers), displacement)


def chain(*steps: DataFlow) -> DataFlow:
    flow = steps[-1]
    for step in reversed(steps[:-1]):
        flow = step.followed_by(flow)
    return flow


# Instruction, whether it loads and stores, data flow.
DATA_FLOWS = {
    "aarch64": {
        "mov x0, x1": ("--", DataFlow(reads=("x1",), writes=("x0",), sum=sums("x1"))),
        "mov x0, #7": ("--", DataFlow(writes=("x0",), sum=sums(displacement=7))),
        "mov w0, wzr": ("--", DataFlow(writes=("x0",), sum=sums())),
        "add x0, x1, x2": ("--", DataFlow(reads=("x1", "x2"), writes=("x0",), sum=sums("x1", "x2"))),
        "add x0, x1, w2, sxtw #3": ("--", DataFlow(reads=("x1", "x2"), writes=("x0",), sum=sums("x1", ("x2", 8)))),
        "add x0, sp, #16": ("--", DataFlow(reads=("sp",), writes=("x0",), sum=sums("sp", displacement=16))),
        "sub sp, sp, #1, lsl #12": ("--", DataFlow(reads=("sp",), writes=("sp",), sum=sums("sp", displacement=-4096))),
        "sub x0, x1, x2": ("--", DataFlow(reads=("x1", "x2"), writes=("x0",))),
        "add x0, x1, x2, lsr #3": ("--", DataFlow(reads=("x1", "x2"), writes=("x0",))),
        "lsl x0, x1, #3": ("--", DataFlow(reads=("x1",), writes=("x0",), sum=sums(("x1", 8)))),
        "sbfiz x0, x1, #3, #32": ("--", DataFlow(reads=("x1",), writes=("x0",), sum=sums(("x1", 8)))),
        "lsl x0, x1, x2": ("--", DataFlow(reads=("x1", "x2"), writes=("x0",))),
        "smaddl x0, w1, w2, x3": ("--", DataFlow(reads=("x1", "x2", "x3"), writes=("x0",), adds=True)),
        "adrp x0, .": ("--", DataFlow(writes=("x0",), sum=sums(displacement=0x1000))),
        "movk x0, #1, lsl #16": ("--", DataFlow(reads=("x0",), writes=("x0",))),
        "bfi x0, x1, #3, #5": ("--", DataFlow(reads=("x1", "x0"), writes=("x0",))),
        "csel x0, x1, x2, ne": ("--", DataFlow(reads=("x1", "x2"), writes=("x0",), varies=True)),
        "cset w0, ne": ("--", DataFlow(writes=("x0",), varies=True)),
        "mrs x0, tpidr_el0": ("--", DataFlow(writes=("x0",), varies=True)),
        "cmp x0, x1": ("--", DataFlow(reads=("x0", "x1"))),
        "fmov d0, x1": ("--", DataFlow(reads=("x1",), writes=("v0",), sum=sums("x1"))),
        "fmla v0.4s, v1.4s, v2.4s": ("--", DataFlow(reads=("v1", "v2", "v0"), writes=("v0",))),
        "mov v0.s[1], w1": ("--", DataFlow(reads=("x1", "v0"), writes=("v0",))),
        "movi v0.2d, #0": ("--", DataFlow(writes=("v0",), sum=sums())),
        "tbl v0.16b, {v1.16b, v2.16b}, v3.16b": ("--", DataFlow(reads=("v1", "v2", "v3"), writes=("v0",))),
        "ldr x0, [x1, w2, sxtw #3]": (
            "l-", DataFlow(loads=(sums("x1", ("x2", 8)),), writes=("x0",), copies=True)),
        "ldr x0, [x1, x2]": ("l-", DataFlow(loads=(sums("x1", "x2"),), writes=("x0",), copies=True)),
        "ldrsw x0, [x1, #4]": ("l-", DataFlow(loads=(sums("x1", displacement=4),), writes=("x0",))),
        "ldrb w0, [x1]": ("l-", DataFlow(loads=(sums("x1"),), writes=("x0",))),
        "ldr d0, [x1]": ("l-", DataFlow(loads=(sums("x1"),), writes=("v0",), copies=True)),
        "ldr x0, [x1], #8": (
            "l-",
            chain(
                DataFlow(loads=(sums("x1"),), writes=("x0",), copies=True),
                DataFlow(reads=("x1",), writes=("x1",), sum=sums("x1", displacement=8)),
            ),
        ),
        "ldr x0, [x1, #-8]!": (
            "l-",
            chain(
                DataFlow(loads=(sums("x1", displacement=-8),), writes=("x0",), copies=True),
                DataFlow(reads=("x1",), writes=("x1",), sum=sums("x1", displacement=-8)),
            ),
        ),
        "ldp x0, x1, [x2, #16]": (
            "l-",
            chain(
                DataFlow(loads=(sums("x2", displacement=16),), writes=("x0",), copies=True),
                DataFlow(loads=(sums("x2", displacement=24),), writes=("x1",), copies=True),
            ),
        ),
        "ldp x0, x1, [x0]": (
            "l-",
            chain(
                DataFlow(loads=(sums("x0", displacement=8),), writes=("x1",), copies=True),
                DataFlow(loads=(sums("x0"),), writes=("x0",), copies=True),
            ),
        ),
        "stp x29, xzr, [sp, #-32]!": (
            "-s",
            chain(
                DataFlow(stores=(sums("sp", displacement=-32),), reads=("x29",), sum=sums("x29")),
                DataFlow(stores=(sums("sp", displacement=-24),), sum=sums()),
                DataFlow(reads=("sp",), writes=("sp",), sum=sums("sp", displacement=-32)),
            ),
        ),
        "str w0, [x1, x2, lsl #2]": ("-s", DataFlow(stores=(sums("x1", ("x2", 4)),), reads=("x0",), sum=sums("x0"))),
        "stxr w0, x1, [x2]": (
            "-s",
            chain(
                DataFlow(stores=(sums("x2"),), reads=("x1",), sum=sums("x1")),
                DataFlow(writes=("x0",), varies=True),
            ),
        ),
        "ldaddal w0, w1, [x2]": (
            "ls", DataFlow((sums("x2"),), (sums("x2"),), reads=("x0",), writes=("x1",), adds=True)),
        "cas x0, x1, [x2]": (
            "ls", DataFlow((sums("x2"),), (sums("x2"),), reads=("x0", "x1"), writes=("x0",), varies=True)),
        "ld2 {v0.4s, v1.4s}, [x0], #32": (
            "l-",
            chain(
                DataFlow(loads=(sums("x0"),), writes=("v0", "v1")),
                DataFlow(reads=("x0",), writes=("x0",), sum=sums("x0", displacement=32)),
            ),
        ),
        "ld1 {v0.s}[1], [x0]": ("l-", DataFlow(loads=(sums("x0"),), reads=("v0",), writes=("v0",))),
        "prfm pldl1keep, [x0, x1]": ("--", DataFlow()),
        "bl .": ("--", DataFlow()),
        "blr x1": ("--", DataFlow(reads=("x1",), target=("x1",))),
        "br x1": ("--", DataFlow(reads=("x1",), target=("x1",))),
        "cbz x1, .": ("--", DataFlow(reads=("x1",))),
    },
    "riscv64": {
        "mv a0, a1": ("--", DataFlow(reads=("a1",), writes=("a0",), sum=sums("a1"))),
        "li a0, 7": ("--", DataFlow(writes=("a0",), sum=sums(displacement=7))),
        "lui a0, 0x80000": ("--", DataFlow(writes=("a0",), sum=sums(displacement=-(1 << 31)))),
        "auipc a0, 1": ("--", DataFlow(writes=("a0",), sum=sums(displacement=0x2000))),
        "addi a0, a1, -4": ("--", DataFlow(reads=("a1",), writes=("a0",), sum=sums("a1", displacement=-4))),
        "c.addi a0, 4": ("--", DataFlow(reads=("a0",), writes=("a0",), sum=sums("a0", displacement=4))),
        "c.addi4spn a0, sp, 16": ("--", DataFlow(reads=("sp",), writes=("a0",), sum=sums("sp", displacement=16))),
        "c.addi16sp sp, -32": ("--", DataFlow(reads=("sp",), writes=("sp",), sum=sums("sp", displacement=-32))),
        "add a0, a1, a2": ("--", DataFlow(reads=("a1", "a2"), writes=("a0",), sum=sums("a1", "a2"))),
        "c.add a0, a1": ("--", DataFlow(reads=("a0", "a1"), writes=("a0",), sum=sums("a0", "a1"))),
        "sub a0, a1, a2": ("--", DataFlow(reads=("a1", "a2"), writes=("a0",))),
        "slli a0, a1, 3": ("--", DataFlow(reads=("a1",), writes=("a0",), sum=sums(("a1", 8)))),
        "sh3add a0, a1, a2": ("--", DataFlow(reads=("a1", "a2"), writes=("a0",), sum=sums(("a1", 8), "a2"))),
        "ld a0, 8(a1)": ("l-", DataFlow(loads=(sums("a1", displacement=8),), writes=("a0",), copies=True)),
        "lb a0, (a1)": ("l-", DataFlow(loads=(sums("a1"),), writes=("a0",))),
        "c.fldsp fa0, 8(sp)": ("l-", DataFlow(loads=(sums("sp", displacement=8),), writes=("fa0",), copies=True)),
        "sd a0, -8(a1)": ("-s", DataFlow(stores=(sums("a1", displacement=-8),), reads=("a0",), sum=sums("a0"))),
        "sw zero, (a1)": ("-s", DataFlow(stores=(sums("a1"),), sum=sums())),
        "lr.d a0, (a1)": ("l-", DataFlow(loads=(sums("a1"),), writes=("a0",), copies=True)),
        "sc.d a0, a1, (a2)": (
            "-s",
            chain(
                DataFlow(stores=(sums("a2"),), reads=("a1",), sum=sums("a1")),
                DataFlow(writes=("a0",), varies=True),
            ),
        ),
        "amoadd.w a0, a1, (a2)": (
            "ls", DataFlow((sums("a2"),), (sums("a2"),), reads=("a1",), writes=("a0",), adds=True)),
        "fadd.d fa0, fa1, fa2": ("--", DataFlow(reads=("fa1", "fa2"), writes=("fa0",))),
        "feq.d a0, fa1, fa2": ("--", DataFlow(reads=("fa1", "fa2"), writes=("a0",))),
        "beq a0, a1, .": ("--", DataFlow(reads=("a0", "a1"))),
        "csrr a0, fcsr": ("--", DataFlow(writes=("a0",), varies=True)),
        "jal .": ("--", DataFlow(writes=("ra",), varies=True)),
        "c.jalr a0": ("--", DataFlow(reads=("a0",), writes=("ra",), varies=True, target=("a0",))),
        "jr a0": ("--", DataFlow(reads=("a0",), target=("a0",))),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ISAS)
def test_data_flow(assemble: Assemble, name: str) -> None:
    texts = list(DATA_FLOWS[name])
    code = assemble(name, "\n".join(texts))
    wrong = []
    at = 0
    for text in texts:
        length = 4 if name == "aarch64" or code[at] & 3 == 3 else 2
        accesses, expected = DATA_FLOWS[name][text]
        found = ISAS[name].data_flow(code[at : at + length], 0x1000, "l" in accesses, "s" in accesses)
        if found != expected:
            wrong.append(f"{text}: {found}")
        at += length
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "changed", "kept"),
    [
        ("aarch64", {"x0", "x17", "x30", "v0", "v31"}, {"x19", "x29", "sp", "v8"}),
        ("riscv64", {"ra", "a0", "t6", "fa7", "ft11"}, {"s0", "s11", "sp", "fs0", "tp"}),
    ],
)
def test_calling_convention(name: str, changed: set[str], kept: set[str]) -> None:
    found: Isa = ISAS[name]
    assert changed <= found.call_clobbered
    assert not kept & found.call_clobbered
    assert found.stack_pointer == "sp"


def test_what_is_multiplied_and_what_is_atomic() -> None:
    """Encodings as the assemblers make them."""
    arm, risc = ISAS["aarch64"], ISAS["riscv64"]
    words = {
        "fmadd d0, d1, d2, d3": 0x1F420C20,
        "fmul d0, d1, d2": 0x1E620820,
        "ldadd w1, w2, [x0]": 0xB8210002,
        "fmadd.d fa0, fa1, fa2, fa3": 0x6AC5F543,
        "amoadd.w a2, a1, (a0)": 0x00B5262F,
        "fadd.d fa0, fa1, fa2": 0x02C5F553,
    }
    code = {text: word.to_bytes(4, "little") for text, word in words.items()}
    assert arm.multiplied(code["fmadd d0, d1, d2, d3"]) == {"v1", "v2"}
    assert arm.multiplied(code["fmul d0, d1, d2"]) == frozenset()
    assert arm.is_atomic(code["ldadd w1, w2, [x0]"])
    assert not arm.is_atomic(code["fmul d0, d1, d2"])
    assert risc.multiplied(code["fmadd.d fa0, fa1, fa2, fa3"]) == {"fa1", "fa2"}
    assert risc.multiplied(code["fadd.d fa0, fa1, fa2"]) == frozenset()
    assert risc.is_atomic(code["amoadd.w a2, a1, (a0)"])
    assert not risc.is_atomic(code["fadd.d fa0, fa1, fa2"])
    x86 = isa.load("x86_64")
    assert x86.multiplied(bytes.fromhex("c4e2f1b8c2")) == {"xmm1", "xmm2"}  # vfmadd231sd xmm0, xmm1, xmm2
    assert x86.multiplied(bytes.fromhex("c4e2f1a8c2")) == {"xmm0", "xmm1"}  # vfmadd213sd xmm0, xmm1, xmm2
    assert x86.multiplied(bytes.fromhex("f20f58c1")) == frozenset()  # addsd xmm0, xmm1
    assert x86.is_atomic(bytes.fromhex("f0830001"))  # lock add dword ptr [rax], 1
    assert not x86.is_atomic(bytes.fromhex("830001"))


@pytest.mark.parametrize(
    ("name", "code", "expected"),
    [
        ("aarch64", "12001c41", 0),  # and w1, w2, #0xff
        ("aarch64", "121c0c41", None),  # and w1, w2, #0xf0
        ("aarch64", "53001c41", 0),  # uxtb w1, w2
        ("aarch64", "93407c41", 0),  # sxtw x1, w2
        ("aarch64", "d3402c41", 0),  # ubfx x1, x2, #0, #12
        ("aarch64", "d3433841", None),  # ubfx x1, x2, #3, #12
        ("aarch64", "d37be841", 5),  # lsl x1, x2, #5
        ("aarch64", "13107c41", -16),  # asr w1, w2, #16
        ("aarch64", "9ac32041", None),  # lsl x1, x2, x3
        ("riscv64", "0005851b", 0),  # sext.w a0, a1
        ("riscv64", "0ff5f513", 0),  # andi a0, a1, 255
        ("riscv64", "0fe5f513", None),  # andi a0, a1, 254
        ("riscv64", "03059513", 48),  # slli a0, a1, 48
        ("riscv64", "0305d513", -48),  # srli a0, a1, 48
        ("riscv64", "0105951b", 16),  # slliw a0, a1, 16
        ("riscv64", "00c59533", None),  # sll a0, a1, a2
        ("riscv64", "0542", 16),  # c.slli a0, 16
        ("riscv64", "897d", 0),  # c.andi a0, 31
        ("riscv64", "850d", -3),  # c.srai a0, 3
        ("riscv64", "0805c53b", 0),  # zext.h a0, a1
        ("x86_64", "000003ff25", 0),  # and eax, 1023
        ("x86_64", "000003fe25", None),  # and eax, 1022
        ("x86_64", "c3b60f", 0),  # movzx eax, bl
        ("x86_64", "9848", 0),  # cdqe
        ("x86_64", "05e0c148", 5),  # shl rax, 5
        ("x86_64", "03f8c1", -3),  # sar eax, 3
        ("x86_64", "e0d348", None),  # shl rax, cl
        ("x86_64", "c821", None),  # and eax, ecx
    ],
)
def test_by_how_much_bits_are_moved(name: str, code: str, expected: int | None) -> None:
    """Encodings as the assemblers make them, most significant byte first."""
    assert isa.load(name).shifts(bytes.fromhex(code)[::-1]) == expected
