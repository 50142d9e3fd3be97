"""Programs for AArch64 and RISC-V, traced on any host: counts against closed forms, and against x86-64's."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from compilers import compiler_for
from effort import sweep

from foretrace.benchmarks.harness.programs import SOURCES
from foretrace.benchmarks.validation import instruction_sets
from foretrace.tracer.analysis.machine_code import binary_analysis
from foretrace.tracer.analysis.result import Analysis
from foretrace.tracer.isa import registry as isa
from foretrace.tracer.qemu.binary import QemuEngine
from foretrace.tracer.session.session import Session
from foretrace.tracer.signature.records import FLOPS_PER_LANE, OperationKind

TARGETS = ("x86_64", "aarch64", "riscv64")
CROSS = TARGETS[1:]
N = 1000
# Each function is called once; its loop runs n times, and does what its comment says in each iteration.
LOOPS = r"""
#include <stdlib.h>
#include <string.h>
#define KERNEL __attribute__((noinline))
KERNEL void copy(long *b, const long *a, int n)
{
    for (int i = 0; i < n; i++)
        b[i] = a[i]; /* loads 8, stores 8 */
}
KERNEL void triad(double *c, const double *a, const double *b, double s, int n)
{
    for (int i = 0; i < n; i++)
        c[i] = a[i] + s * b[i]; /* loads 8 8, stores 8, flops 2 */
}
KERNEL float sum(const float *a, int n)
{
    float s = 0;
    for (int i = 0; i < n; i++)
        s += a[i]; /* loads 4, flops 1 */
    return s;
}
KERNEL void halve(short *b, const unsigned char *a, int n)
{
    for (int i = 0; i < n; i++)
        b[i] = a[i] / 2; /* loads 1, stores 2 */
}
KERNEL double divide(double *b, const double *a, const int *idx, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++)
        s += b[i] / a[idx[i]]; /* loads 8 8 4, flops 2 */
    return s;
}
int main(void)
{
    double *a = calloc(N, 8), *b = calloc(N, 8), *c = calloc(N, 8);
    int *idx = calloc(N, 4);
    for (int i = 0; i < N; i++)
        a[i] = i + 1, idx[i] = i * 7 % N;
    copy((long *)b, (long *)a, N);
    triad(c, a, b, 2, N);
    float s = sum((float *)c, N);
    halve((short *)b, (unsigned char *)a, N);
    return divide(b, a, idx, N) == s;
}
"""


def analyse(program: Path, target: str) -> Analysis:
    recording = Session(QemuEngine([str(program)])).run()
    assert recording.problem == ""
    return binary_analysis.analyse(recording.raw, recording.statistics, target)


def flops_of(analysis: Analysis, function: str) -> int:
    return sum(
        block.executions * FLOPS_PER_LANE.get(operation.kind, 0) * operation.lanes * operation.count
        for block in analysis.blocks
        if block.function == function
        for operation in block.operations
    )


def source_loops() -> dict[str, tuple[int, list[int], list[int], int]]:
    """Of each function: line of its loop; sizes of loads and stores and number of flops in an iteration."""
    found = {}
    lines = LOOPS.splitlines()
    for number, line in enumerate(lines, 1):
        comment = re.search(r"/\* (.*) \*/", line)
        if comment:
            words = dict(re.findall(r"(loads|stores|flops) ([\d ]+)", comment[1]))
            sizes = [[int(size) for size in words.get(kind, "").split()] for kind in ("loads", "stores")]
            start = max(at for at in range(number) if lines[at].startswith("KERNEL"))
            function = re.search(r"(\w+)\(", lines[start].removeprefix("KERNEL"))
            assert function
            found[function[1]] = (number - 1, *sizes, int(words.get("flops", 0)))
    return found


@sweep("link", ["-static", "-no-pie"], ["-static"])
@pytest.mark.parametrize("target", CROSS)
def test_loops_have_the_counts_of_the_source(compile_c: Callable[..., Path], target: str, link: str) -> None:
    flags = ("-O1", "-ffp-contract=off", f"-DN={N}", link)
    analysis = analyse(compile_c(LOOPS, *flags, target=target), target)
    assert analysis.decoded_share == 1.0
    # The shared C library clears memory for itself in a way that QEMU does not show: that is told, and nothing else.
    hides = target == "aarch64" and link != "-static"
    assert [note for note in analysis.notes if not (hides and "DC ZVA" in note)] == []
    loops = {loop.function: loop for loop in analysis.loops}
    for function, (line, *sizes, flops) in source_loops().items():
        loop = loops[function]
        assert (loop.line, loop.entries, loop.iterations) == (line, 1, N), function
        for is_store, expected in enumerate(sizes):
            operations = [
                operation
                for operation in analysis.operations
                if operation.is_store == bool(is_store) and analysis.blocks[operation.block_id].loop_id == loop.loop_id
            ]
            assert sorted(operation.size_bytes for operation in operations) == sorted(expected), function
            for operation in operations:
                assert operation.executions == N
                assert operation.total_bytes == operation.range_bytes == N * operation.size_bytes
                assert operation.line == line + 1
                is_gather = operation.index_operation is not None
                # The first iteration may be another of QEMU's blocks than the rest, which leaves one step unknown.
                assert operation.unit_stride in ((0,) if is_gather else (N - 2, N - 1)), function
        assert flops_of(analysis, function) == flops * N, function


@pytest.mark.parametrize("target", CROSS)
def test_fused_operations_count_as_two(compile_c: Callable[..., Path], target: str) -> None:
    flags = ("-O2", "-fno-tree-vectorize", "-ffp-contract=fast", f"-DN={N}", "-static")
    analysis = analyse(compile_c(LOOPS, *flags, target=target), target)
    kinds: Counter[OperationKind] = Counter()
    for block in analysis.blocks:
        if block.function == "triad":
            for operation in block.operations:
                kinds[operation.kind] += block.executions * operation.count
    assert kinds[OperationKind.FP_FMA] == N
    assert kinds[OperationKind.FP_ADD] == kinds[OperationKind.FP_MUL] == 0
    assert flops_of(analysis, "triad") == 2 * N


def test_vector_operations_count_by_lane(compile_c: Callable[..., Path]) -> None:
    """NEON: two doubles at a time, so half the accesses, of 16 bytes each, and as many flops as ever."""
    analysis = analyse(compile_c(LOOPS, "-O3", f"-DN={N}", "-static", target="aarch64"), "aarch64")
    operations = [op for op in analysis.operations if analysis.blocks[op.block_id].function == "triad"]
    vectors = [op for op in operations if op.executions > 1]
    assert sorted((op.is_store, op.size_bytes, op.executions) for op in vectors) == [
        (False, 16, N // 2), (False, 16, N // 2), (True, 16, N // 2)
    ]  # fmt: skip
    assert all(op.range_bytes == 8 * N for op in vectors)
    assert flops_of(analysis, "triad") == 2 * N


ZERO = r"""
int main(void)
{
    static char lines[4096] __attribute__((aligned(512)));
    for (int i = 0; i < 8; i++)
        __asm__ volatile("dc zva, %0" :: "r"(lines + 512 * i) : "memory");
    return lines[1];
}
"""


def test_memory_cleared_unseen_is_told(compile_c: Callable[..., Path]) -> None:
    """QEMU 7.2 clears 512 bytes by each DC ZVA, and shows its plugins nothing of it."""
    analysis = analyse(compile_c(ZERO, "-O1", "-static", target="aarch64"), "aarch64")
    (note,) = analysis.notes
    assert "not among the stores: 8 executions" in note


ATOMICS = r"""
#include <stdatomic.h>
static atomic_long counter;
static atomic_int flag;
int main(void)
{
    for (int i = 0; i < 100; i++) {
        atomic_fetch_add(&counter, 3);
        int old = i;
        atomic_compare_exchange_strong(&flag, &old, i + 1);
    }
    return counter != 300 || flag != 100;
}
"""


@pytest.mark.parametrize(
    ("target", "flags"),
    [
        ("aarch64", ("-march=armv8-a", "-mno-outline-atomics")),  # load and store exclusive
        ("aarch64", ("-march=armv8.1-a",)),  # one instruction each
        ("riscv64", ()),  # one, and load reserved and store conditional
    ],
)
def test_atomic_updates_load_once_and_store_once(
    compile_c: Callable[..., Path], target: str, flags: tuple[str, ...]
) -> None:
    analysis = analyse(compile_c(ATOMICS, "-O1", *flags, target=target), target)
    loop = next(loop for loop in analysis.loops if loop.function == "main" and loop.depth == 1)
    inside = [op for op in analysis.operations if analysis.blocks[op.block_id].function == "main"
              and analysis.blocks[op.block_id].loop_id is not None]  # fmt: skip
    assert loop.entries == 1
    for size_bytes in (4, 8):
        for is_store in (False, True):
            accesses = [op for op in inside if (op.size_bytes, op.is_store) == (size_bytes, is_store)]
            assert sum(op.executions for op in accesses) == 100, (size_bytes, is_store)


# A function without branches, whose instructions are those of its disassembly.
STRAIGHT = r"""
#define KERNEL __attribute__((noinline))
struct all { double d[4]; float f[4]; long l[4]; int i[4]; short s; char c; };
KERNEL void straight(struct all *to, const struct all *from)
{
    to->d[0] = from->d[0] * from->d[1] + from->d[2];
    to->d[1] = from->d[3] / from->d[0] - from->f[0];
    to->d[2] = __builtin_sqrt(from->d[1]);
    to->f[1] = from->f[2] * from->f[3] - from->i[0];
    to->l[0] = from->l[1] * from->l[2] + from->l[3];
    to->l[1] = from->l[1] / from->i[1] + (from->s << 3);
    to->i[2] = from->i[2] % 7u + from->c;
    to->s = from->c ^ from->s;
    to->c = from->s;
}
int main(void)
{
    struct all from = {{1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}, 5, 6}, to;
    straight(&to, &from);
    return to.c != 5;
}
"""
# What binutils' disassembler calls the instructions of each kind.
BINUTILS = {
    "aarch64": {
        "loads": r"ld\w+", "stores": r"st\w+", OperationKind.FP_ADD: r"fadd|fsub", OperationKind.FP_MUL: r"fn?mul",
        OperationKind.FP_FMA: r"fn?m(add|sub)", OperationKind.FP_DIV: "fdiv", OperationKind.FP_SQRT: "fsqrt",
        OperationKind.INT_MUL: r"mul|madd|msub|[us]m(ull|ulh|addl|subl)", OperationKind.INT_DIV: "[su]div",
        OperationKind.RETURN: "ret",
    },
    "riscv64": {
        "loads": r"(c\.)?f?l[bhwd]u?(sp)?", "stores": r"(c\.)?f?s[bhwd](sp)?", OperationKind.FP_ADD: r"f(add|sub)\..*",
        OperationKind.FP_MUL: r"fmul\..*", OperationKind.FP_FMA: r"fn?m(add|sub)\..*",
        OperationKind.FP_DIV: r"fdiv\..*", OperationKind.FP_SQRT: r"fsqrt\..*", OperationKind.INT_MUL: r"mul.*",
        OperationKind.INT_DIV: "(div|rem).*", OperationKind.RETURN: r"c\.jr|jalr",
    },
}  # fmt: skip


@sweep("flags", [("-O0",), ("-O2", "-ffp-contract=off"), ("-O3",)], [("-O0",), ("-O3",)], ids=" ".join)
@pytest.mark.parametrize("target", CROSS)
def test_a_straight_line_is_what_binutils_says_it_is(
    compile_c: Callable[..., Path], target: str, flags: tuple[str, ...]
) -> None:
    program = compile_c(STRAIGHT, *flags, "-fno-math-errno", "-static", target=target)
    command = [f"{target}-linux-gnu-objdump", "-d", "-M", "no-aliases", "--disassemble=straight", str(program)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    mnemonics = re.findall(r"^ +[0-9a-f]+:\t[0-9a-f ]+\t(\S+)", text, re.MULTILINE)
    analysis = analyse(program, target)
    blocks = [block for block in analysis.blocks if block.function == "straight"]
    assert [block.executions for block in blocks] == [1] * len(blocks)
    assert sum(block.instructions for block in blocks) == len(mnemonics) > 30
    counts: Counter[OperationKind | str] = Counter()
    for block in blocks:
        for operation in block.operations:
            counts[operation.kind] += operation.count
    for operation in analysis.operations:
        if analysis.blocks[operation.block_id].function == "straight":
            counts["stores" if operation.is_store else "loads"] += operation.executions
    expected = {kind: sum(bool(re.fullmatch(pattern, name)) for name in mnemonics)
                for kind, pattern in BINUTILS[target].items()}  # fmt: skip
    assert {kind: counts[kind] for kind in expected} == expected
    assert expected["loads"] > 10
    assert expected["stores"] >= 8


ARGUMENTS = {"spmv": (500, 16, 2), "triad": (1000, 3), "cg": (20, 3)}


@sweep("name", ARGUMENTS, ["cg"])
def test_an_algorithm_has_the_same_flops_on_every_architecture(compile_c: Callable[..., Path], name: str) -> None:
    """One fuses multiplications with additions, one has vectors, one neither: the operations are the same."""
    source = (SOURCES / f"{name}.c").read_text()
    flops: dict[str, Counter[str]] = {}
    for target in TARGETS:
        program = compile_c(source, "-O2", "-static", f"-I{SOURCES}", target=target)
        recording = Session(QemuEngine([str(program), *map(str, ARGUMENTS[name])])).run()
        assert recording.ending.exit_code == 0
        analysis = binary_analysis.analyse(recording.raw, recording.statistics, target)
        functions = {block.function for block in analysis.blocks if block.file == str(program.with_suffix(".c"))}
        flops[target] = Counter({function: flops_of(analysis, function) for function in functions if function})
    assert +flops["aarch64"] == +flops["x86_64"]
    assert +flops["riscv64"] == +flops["x86_64"]
    assert sum(flops["x86_64"].values()) > 5000


# Loads, stores and atomics of each form, on a zeroed buffer whose address is in x9 or s1; each runs once.
ACCESSES = {
    "aarch64": """
ldr x1, [x9]; ldr w1, [x9, #4]!; ldrb w1, [x9], #12; ldrsh x1, [x9]; ldr q1, [x9]; str q1, [x9, #16]; ldr s1, [x9]
ldp x1, x2, [x9]; ldp w1, w2, [x9]; ldpsw x1, x2, [x9]; stp x1, x2, [x9], #16; ldp q0, q1, [x9]; stp q0, q1, [x9]
ldp d0, d1, [x9]; stp s0, s1, [x9]; ldnp x1, x2, [x9]; ldur x1, [x9, #1]; strh w1, [x9]; stur b1, [x9]
ld1 {v0.4s}, [x9]; ld1 {v0.16b-v3.16b}, [x9]; ld2 {v0.4s, v1.4s}, [x9]; ld3 {v0.8b-v2.8b}, [x9]; st4 {v0.2d-v3.2d}, [x9]
st1 {v0.4h, v1.4h}, [x9]; ld1 {v0.s}[1], [x9]; ld2 {v0.s, v1.s}[1], [x9]; st3 {v0.b-v2.b}[3], [x9]; ld1r {v0.4s}, [x9]
ld4r {v0.8h-v3.8h}, [x9]; ldar x1, [x9]; stlr w1, [x9]; ldapr x1, [x9]; ldxr x1, [x9]; stxr w2, x1, [x9]
ldaxp x1, x2, [x9]; stlxp w3, x1, x2, [x9]; ldaxrb w1, [x9]; stlxrb w2, w1, [x9]; ldadd x1, x2, [x9]; stadd w1, [x9]
swpalh w1, w2, [x9]; cas x1, x2, [x9]; casp x2, x3, x4, x5, [x9]; casb w1, w2, [x9]; prfm pldl1keep, [x9]; dmb ish
""",
    "riscv64": """
ld a0, 8(s1); c.ld a0, 8(s1); lw a0, 4(s1); c.lw a0, 4(s1); lwu a0, (s1); lh a0, 2(s1); lhu a0, (s1); lb a0, 1(s1)
lbu a0, (s1); sd a0, 8(s1); c.sd a0, 8(s1); c.sw a0, 4(s1); sh a0, 2(s1); sb a0, 1(s1); flw fa0, 4(s1); fld fa0, 8(s1)
c.fld fa0, 8(s1); fsw fa0, 4(s1); c.fsd fa0, 8(s1); c.fldsp fa0, 8(sp); c.sdsp a0, 8(sp); ld a0, 1(s1); lr.d a0, (s1)
sc.d a1, a0, (s1); lr.w.aq a0, (s1); sc.w.rl a1, a0, (s1); amoadd.d a0, a1, (s1); amoswap.w a0, a1, (s1)
amomaxu.w.aqrl a0, a1, (s1); fence
""",
}
START = {
    "aarch64": (".arch armv8.3-a+lse", "adrp x9, buffer; add x9, x9, :lo12:buffer", "mov x8, #93; mov x0, #0; svc #0"),
    "riscv64": (".option arch, +c, +a, +d", "la s1, buffer; addi sp, sp, -64", "li a7, 93; li a0, 0; ecall"),
}


@pytest.mark.parametrize("target", CROSS)
def test_every_form_of_access_has_the_size_that_its_text_tells(compile_c: Callable[..., Path], target: str) -> None:
    """What QEMU shows in parts is put together to what the instruction accesses, all in one."""
    forms = [text.strip() for line in ACCESSES[target].strip().splitlines() for text in line.split(";")]
    directive, before, after = START[target]
    lines = [
        directive,
        ".global _start",
        "_start:",
        before,
        "first:",
        *forms,
        "last:",
        after,
        ".bss",
        ".balign 64",
        "buffer: .zero 4096",
    ]
    source = "__asm__(" + "".join(f'"{line}\\n"' for line in lines) + ");"
    program = compile_c(source, "-nostdlib", "-static", target=target)
    recording = Session(QemuEngine([str(program)])).run()
    assert recording.ending.exit_code == 0
    blocks = sorted(recording.raw.blocks, key=lambda block: block.address)  # straight on, cut where it is long
    lengths, code = [length for block in blocks for length in block.lengths], b"".join(block.code for block in blocks)
    starts = itertools.accumulate((len(block.lengths) for block in blocks), initial=0)
    start_of = {block.block_id: start for block, start in zip(blocks, starts, strict=False)}
    skipped = len(lengths) - len(forms) - 3  # what follows are three
    statistics = recording.statistics
    decoder = isa.load(target)
    seen: dict[int, list[tuple[bool, int]]] = {}
    of_operations = zip(recording.raw.operation_block.tolist(), recording.raw.operation_slot.tolist(), strict=True)
    for number, (block_id, slot) in enumerate(of_operations):
        assert statistics.executions[number] == 1
        access = (bool(slot % 2), int(statistics.total_bytes[number]))
        seen.setdefault(start_of[block_id] + slot // 2 - skipped, []).append(access)
    wrong = []
    for position, form in enumerate(forms):
        begin = sum(lengths[: skipped + position])
        instruction = code[begin : begin + lengths[skipped + position]]
        size_bytes = decoder.access_bytes(instruction, 0x1000, False)
        is_update = re.match(r"amo|cas|swp|(ld|st)add", form) is not None
        kinds = [False, True] if is_update else [re.match(r"c?\.?f?s[tbhwdc]", form) is not None]
        expected = [(kind, size_bytes) for kind in kinds if size_bytes]
        if sorted(seen.get(position, [])) != expected:
            wrong.append(f"{form}: {seen.get(position)}, not {expected}")
    assert wrong == []


def test_libraries_are_looked_for_and_their_lack_is_told(
    compile_c: Callable[..., Path], foretrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    program = compile_c("int main(void) { return 3; }", target="aarch64")
    (tmp_path / "empty").mkdir()
    arguments = ("trace", "-o", tmp_path / "x.sig", "--", program)
    assert foretrace(*arguments).returncode == 3
    (tmp_path / "x.sig").unlink()
    result = foretrace(*arguments, env=os.environ | {"QEMU_LD_PREFIX": str(tmp_path / "empty")})
    assert result.returncode == 71
    assert len(result.stderr.splitlines()) == 1
    assert "needs /lib/ld-linux-aarch64.so.1, which QEMU_LD_PREFIX" in result.stderr
    moved = tmp_path / "moved"
    data = program.read_bytes()
    moved.write_bytes(data.replace(b"/lib/ld-linux-aarch64.so.1", b"/lib/ld-linux-nowhere.so.1"))
    moved.chmod(0o755)
    result = foretrace("trace", "-o", tmp_path / "x.sig", "--", moved)
    assert result.returncode == 71
    assert "which is not on this machine; on Debian or Ubuntu: apt install libc6-arm64-cross" in result.stderr
    assert "QEMU_LD_PREFIX" in result.stderr


@pytest.mark.parametrize("at", [32, 54])
def test_damaged_headers_are_refused(
    at: int, compile_c: Callable[..., Path], foretrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    data = bytearray(compile_c("int main(void) { return 3; }", target="aarch64").read_bytes())
    data[at : at + 2] = b"\xff\xff"
    damaged = tmp_path / "damaged"
    damaged.write_bytes(data)
    damaged.chmod(0o755)
    result = foretrace("trace", "-o", tmp_path / "x.sig", "--", damaged)
    assert result.returncode == 71
    assert len(result.stderr.splitlines()) == 1


def test_a_program_for_sve_ends_with_the_reason(
    compile_c: Callable[..., Path], foretrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    program = compile_c(LOOPS, "-O3", f"-DN={N}", "-static", "-march=armv8.2-a+sve", target="aarch64")
    result = foretrace("trace", "-o", tmp_path / "x.sig", "--", program)
    assert result.returncode == -signal.SIGILL
    line = result.stderr.splitlines()[-1]
    assert "SVE and SME are off" in line
    assert "-march=armv8.6-a" in line
    assert re.search(r"in (copy|main|triad) \(\S+\.c:\d+, ", line)


def test_the_comparison_of_instruction_sets_measures_them(tmp_path: Path) -> None:
    for target in TARGETS:
        compiler_for(target)
    relative = {row[2]: row for row in instruction_sets.rows(["-O2"], tmp_path, ["triad"])}
    assert list(relative) == list(TARGETS)
    assert relative["x86_64"][4:] == ("1.00",) * 8
    for target in CROSS:
        assert relative[target][9] == "1.00"  # flops
        assert 0.7 < float(relative[target][4]) < 1.5


# Four doubles by the vector extension: loaded, added to themselves, stored.
VECTORS = (
    '__asm__(".option arch, +v\\n.global _start\\n_start: la a0, buffer\\nli a1, 4\\nvsetvli a2, a1, e64, m2, ta, ma\\n'
    "vle64.v v0, (a0)\\nvfadd.vv v2, v0, v0\\nvse64.v v2, (a0)\\nli a7, 93\\nli a0, 0\\necall\\n"
    '.bss\\n.balign 64\\nbuffer: .zero 64\\n");'
)


def test_what_the_vector_extension_of_riscv_computes_is_told_to_be_unknown(compile_c: Callable[..., Path]) -> None:
    analysis = analyse(compile_c(VECTORS, "-nostdlib", "-static", target="riscv64"), "riscv64")
    instructions = sum(block.executions * block.instructions for block in analysis.blocks)
    assert analysis.decoded_share == pytest.approx(1 - 4 / instructions)
    data = [op for op in analysis.operations if op.total_bytes == 32]
    assert [(op.is_store, op.executions, op.size_bytes) for op in data] == [(False, 4, 8), (True, 4, 8)]


# A loop of 1000 iterations with an instruction that lies across a page's end, and a jump into the middle of a block.
ACROSS_PAGES = r"""
__asm__(".option norelax\n"
        ".global _start\n"
        "_start: li t0, 1000\n"
        "j middle\n"
        ".balign 4096\n"
        ".zero 4096 - 14\n"
        ".option norvc\n"
        "again: addi a1, a1, 1\n"
        "middle: addi a2, a2, 2\n"
        "ori a3, a3, 1\n"
        "addi t0, t0, -1\n"
        "bnez t0, again\n"
        "li a7, 93\n"
        "li a0, 0\n"
        "ecall\n");
"""


def test_counts_to_the_instruction_across_a_page(compile_c: Callable[..., Path]) -> None:
    analysis = analyse(compile_c(ACROSS_PAGES, "-nostdlib", "-static", target="riscv64"), "riscv64")
    assert [(b.executions, b.instructions) for b in analysis.blocks] == [(1, 2), (1000, 4), (999, 1), (1, 3)]
    assert [(loop.entries, loop.iterations) for loop in analysis.loops] == [(1, 1000)]
    assert analysis.blocks[1].offset % 4096 == 4096 - 10
