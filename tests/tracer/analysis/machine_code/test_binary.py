"""Whole programs: counts known to the instruction, code without a file, libraries."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from foretrace.tracer.analysis.machine_code import binary_analysis
from foretrace.tracer.analysis.modules import ANONYMOUS
from foretrace.tracer.analysis.result import Analysis
from foretrace.tracer.qemu.binary import QemuEngine
from foretrace.tracer.session.session import Session
from foretrace.tracer.signature.records import OperationKind

# A loop of 1000 iterations with an instruction that lies across a page's end, a jump into the middle of a block, and a
# repeated string instruction. Every instruction's executions are known.
COUNTED = r"""
__asm__(".intel_syntax noprefix\n"
        ".globl _start\n"
        "_start: mov ecx, 1000\n"
        "jmp middle\n"
        ".balign 4096\n"
        ".space 4096 - 13, 0x90\n"
        "again: add rax, 1\n"
        "middle: add rax, 2\n"
        "movabs rdx, 0x1122334455667788\n"
        "dec ecx\n"
        "jnz again\n"
        "lea rdi, [rip + buffer]\n"
        "mov ecx, 100\n"
        "rep stosb\n"
        "mov eax, 60\n"
        "xor edi, edi\n"
        "syscall\n"
        ".lcomm buffer, 128\n"
        ".att_syntax\n");
"""
GENERATED = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
int main(void)
{
    /* add edi, 1; cmp edi, 1000; jl to the start; mov eax, edi; ret */
    static const unsigned char code[] = {0x83, 0xc7, 0x01, 0x81, 0xff, 0xe8, 0x03, 0, 0, 0x7c, 0xf5, 0x89, 0xf8, 0xc3};
    int (*run)(int) = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy((void *)run, code, sizeof code);
    mprotect((void *)run, 4096, PROT_READ | PROT_EXEC);
    int a[] = {3, 1, 2};
    qsort(a, 3, sizeof *a, compare);
    return run(0) != 1000 || a[0] != 1;
}
"""


def analyse(program: Path) -> Analysis:
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("qemu-user is not installed")
    recording = Session(QemuEngine([str(program)])).run()
    assert recording.problem == ""
    assert recording.ending.exit_code == 0
    return binary_analysis.analyse(recording.raw, recording.statistics, "x86_64")


def test_counts_to_the_instruction(compile_c: Callable[..., Path]) -> None:
    analysis = analyse(compile_c(COUNTED, "-nostdlib", "-static"))
    blocks = [(block.executions, block.instructions) for block in analysis.blocks]
    # The string instruction runs once for each byte, and QEMU may take one more step to see that none is left.
    assert blocks[:4] == [(1, 2), (1000, 4), (999, 1), (1, 2)]
    assert blocks[4][0] in (100, 101)
    assert blocks[4:] == [(blocks[4][0], 1), (1, 3)]
    kinds = {(op.kind, op.element_bits): op.count for op in analysis.blocks[1].operations}
    assert kinds == {
        (OperationKind.INT_ALU, 64): 1,
        (OperationKind.INT_ALU, 32): 1,
        (OperationKind.MOVE, 64): 1,
        (OperationKind.BRANCH, 0): 1,
    }
    assert [(loop.entries, loop.iterations) for loop in analysis.loops] == [(1, 1000), (1, blocks[4][0])]
    (store,) = analysis.operations
    assert (store.is_store, store.executions, store.total_bytes, store.range_bytes) == (True, 100, 100, 100)
    assert analysis.decoded_share == 1.0


def test_edges_and_executions_agree(compile_c: Callable[..., Path]) -> None:
    """What enters a block is what runs it, but for the first block; what leaves it likewise, but for the last."""
    analysis = analyse(compile_c(GENERATED, "-O2"))
    entered = [0] * len(analysis.blocks)
    left = [0] * len(analysis.blocks)
    for source, target, count in analysis.edges.tolist():
        left[source] += count
        entered[target] += count
    executions = [block.executions for block in analysis.blocks]
    assert [ran - came for ran, came in zip(executions, entered, strict=True)] == [1] + [0] * (len(executions) - 1)
    assert sorted(ran - went for ran, went in zip(executions, left, strict=True))[-2:] == [0, 1]


def test_generated_code_and_libraries(compile_c: Callable[..., Path]) -> None:
    program = compile_c(GENERATED, "-O2", loaded=True)
    analysis = analyse(program)
    (loop,) = (loop for loop in analysis.loops if loop.module == ANONYMOUS)
    assert (loop.entries, loop.iterations, loop.function, loop.file, loop.line) == (1, 1000, "", "", 0)
    assert {block.offset for block in analysis.blocks if block.module == ANONYMOUS} == {0, 11}
    names = {block.function: block.module for block in analysis.blocks}
    assert names["compare"] == names["main"] == str(program)
    assert names["qsort@plt"] == str(program)
    assert "libc" in names["qsort"]
    compare = next(block for block in analysis.blocks if block.function == "compare")
    assert compare.file == str(program.with_suffix(".c"))
    assert "static int compare" in GENERATED.splitlines()[compare.line - 1]
    for block in analysis.blocks:
        assert block.loop_id is None or analysis.loops[block.loop_id].iterations >= 1
    for operation in analysis.operations:
        patterns = operation.repeated + operation.unit_stride + operation.strided + operation.irregular
        assert patterns == operation.executions - 1
        assert operation.first + operation.size_bytes <= operation.last_exclusive


TWICE = """
static volatile long a[100000], b[100000];
__attribute__((noinline)) static long value_at(volatile long *p) { return *p; }
int main(void)
{
    long sum = 0;
    for (int i = 0; i < 100000; i++) {
        sum += value_at(&a[i]);
        sum ^= value_at(&b[i]);
    }
    return sum != 0;
}
"""


def test_patterns_are_those_of_the_order_where_a_loop_runs_a_block_twice(compile_c: Callable[..., Path]) -> None:
    analysis = analyse(compile_c(TWICE, "-O1", "-fno-inline"))
    (block,) = (block for block in analysis.blocks if block.function == "value_at")
    (load,) = (one for one in analysis.operations if one.block_id == block.block_id and one.executions == 200_000
               and one.last_exclusive - one.first >= 800_000)  # fmt: skip
    assert (load.repeated, load.unit_stride, load.strided, load.irregular) == (0, 0, 0, 199_999)
