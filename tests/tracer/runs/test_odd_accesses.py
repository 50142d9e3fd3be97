"""Instructions that access some of what they name: lanes of vectors that a mask has on, the processor's state."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from compilers import compiler_for
from traces import trace_binary

from foretrace.tracer.signature.records import IdiomKind, Signature

MASKED_LOOPS = r"""
#include <immintrin.h>
static int on[4096];
static double a[4096], b[4096];
static float f[4096], g[4096];
__attribute__((noinline, target("avx2"))) void doubles(int n) {
    for (int i = 0; i < n; i += 4) {
        __m256i mask = _mm256_cvtepi32_epi64(
            _mm_cmpgt_epi32(_mm_loadu_si128((__m128i *)(on + i)), _mm_setzero_si128()));
        _mm256_maskstore_pd(b + i, mask, _mm256_add_pd(_mm256_maskload_pd(a + i, mask), _mm256_set1_pd(1)));
    }
}
__attribute__((noinline, target("avx2"))) void floats(int n) {
    for (int i = 0; i < n; i += 8) {
        __m256i mask = _mm256_cmpgt_epi32(_mm256_loadu_si256((__m256i *)(on + i)), _mm256_setzero_si256());
        _mm256_maskstore_ps(g + i, mask, _mm256_add_ps(_mm256_maskload_ps(f + i, mask), _mm256_set1_ps(1)));
    }
}
int main(void) {
    for (int i = 0; i < 4096; i++) { on[i] = ON; a[i] = f[i] = i; }
    for (int r = 0; r < 5; r++) { doubles(4096); floats(4096); }
    return 0;
}
"""

ASSEMBLER = r"""
    .globl main
    .bss
    .balign 4096
buf: .skip 65536
    .data
    .balign 32
three: .long -1, -1, -1, 0, 0, 0, 0, 0
ends: .long 0, -1, -1, 0, 0, 0, 0, -1
    .text
.macro repeated name
    .globl \name
    .type \name, @function
\name: mov $100, %r15d
1:
.endm
.macro end
    dec %r15d
    jnz 1b
    ret
.endm
repeated none_on
    vpxor %ymm1, %ymm1, %ymm1
    vmaskmovps buf(%rip), %ymm1, %ymm0
    end
repeated three_on
    vmovdqu three(%rip), %ymm1
    vmaskmovps buf(%rip), %ymm1, %ymm0
    vmaskmovps %ymm0, %ymm1, buf+64(%rip)
    end
repeated ends_on
    vmovdqu ends(%rip), %ymm1
    vpmaskmovq buf(%rip), %ymm1, %ymm1
    vmovdqu ends(%rip), %ymm1
    vpmaskmovq %ymm0, %ymm1, buf+8(%rip)
    end
repeated bytes_on
    pcmpeqb %xmm1, %xmm1
    psrldq $3, %xmm1
    lea buf(%rip), %rdi
    maskmovdqu %xmm1, %xmm0
    end
repeated saves
    fxsave buf(%rip)
    fxrstor buf(%rip)
    end
repeated saves_extended
    mov $7, %eax
    xor %edx, %edx
    xsave buf+4096(%rip)
    xrstor buf+4096(%rip)
    end
repeated saves_fpu
    fnsave buf+8192(%rip)
    frstor buf+8192(%rip)
    fnstenv buf+8192(%rip)
    fldenv buf+8192(%rip)
    end
repeated decimal
    fld1
    fbstp buf+128(%rip)
    fbld buf+128(%rip)
    fstp %st(0)
    end
main:
    push %r15
    call none_on
    call three_on
    call ends_on
    vzeroupper
    call bytes_on
    call saves
    call saves_extended
    call saves_fpu
    call decimal
    pop %r15
    xor %eax, %eax
    ret
    .section .note.GNU-stack, "", @progbits
"""


def accesses(signature: Signature, function: str) -> list[tuple[str, int, int]]:
    """Kind, executions and bytes in all of the function's operations that ran in its loop, in order."""
    found = [
        (operation.offset, operation.is_store, operation.executions, operation.total_bytes)
        for operation in signature.operations
        if signature.blocks[operation.block_id].function == function and operation.executions >= 100
    ]
    return [("store" if is_store else "load", times, total) for _, is_store, times, total in sorted(found)]


@pytest.fixture(scope="module")
def assembled(tmp_path_factory: pytest.TempPathFactory) -> Signature:
    folder = tmp_path_factory.mktemp("odd")
    (folder / "odd.S").write_text(ASSEMBLER)
    subprocess.run([compiler_for("x86_64"), "-o", folder / "odd", folder / "odd.S"], check=True)
    return trace_binary([str(folder / "odd")]).signature


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("none_on", []),
        ("three_on", [("load", 100, 3200), ("load", 100, 1200), ("store", 100, 1200)]),
        ("ends_on", [("load", 100, 3200), ("load", 100, 1600), ("load", 100, 3200), ("store", 100, 1600)]),
        ("bytes_on", [("store", 100, 1300)]),
        ("saves", [("store", 100, 51200), ("load", 100, 51200)]),
        ("saves_fpu", [("store", 100, 10800), ("load", 100, 10800), ("store", 100, 2800), ("load", 100, 2800)]),
        ("decimal", [("store", 100, 1000), ("load", 100, 1000)]),
    ],
)
def test_an_instruction_makes_one_access_of_what_it_touches(
    function: str, expected: list[tuple[str, int, int]], assembled: Signature
) -> None:
    assert accesses(assembled, function) == expected


def test_extended_state_is_one_access_up_to_what_is_in_use(assembled: Signature) -> None:
    """XSAVE also reads which parts there are."""
    found = accesses(assembled, "saves_extended")
    assert [(kind, times) for kind, times, _ in found] == [("load", 100), ("store", 100), ("load", 100)]
    assert found[0][2] == 800
    assert all(total == pytest.approx(83200, rel=0.001) for _, _, total in found[1:])


@pytest.mark.parametrize("lanes", ["i % 4 == 0", "(i * 2654435761u >> 7 & 3) != 0"], ids=["every-fourth", "scattered"])
def test_masked_loads_and_stores_count_alike_and_are_streams(lanes: str, compile_c: Callable[..., Path]) -> None:
    signature = trace_binary([str(compile_c(MASKED_LOOPS, "-O2", f"-DON=({lanes})"))]).signature
    chosen = [i for i in range(4096) if (i % 4 == 0 if "%" in lanes else (i * 2654435761 % 2**32 >> 7 & 3) != 0)]
    for function, element, lanes_of_vector in (("doubles", 8, 4), ("floats", 4, 8)):
        vectors = len({i // lanes_of_vector for i in chosen})
        masked = ("load", 5 * vectors, 5 * element * len(chosen)), ("store", 5 * vectors, 5 * element * len(chosen))
        assert accesses(signature, function) == [("load", 5 * 4096 // lanes_of_vector, 5 * 4 * 4096), *masked]
        [loop] = [one.loop_id for one in signature.loops if one.function == function]
        assert {idiom.kind for idiom in signature.idioms if idiom.loop_id == loop} == {IdiomKind.STREAM}
    assert not any("masked" in note for note in signature.provenance.notes)
