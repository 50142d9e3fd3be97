"""How a run can end badly, and what is said of it: nothing hangs, nothing is left behind, the status is the program's."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from binary_runs import run_traced

Compile = Callable[..., Path]

AVX512 = r"""
#include <immintrin.h>
#include <stdio.h>
static double a[64], b[64];
__attribute__((noinline, target("avx512f"))) void add_ones(void) {
    for (int i = 0; i < 64; i += 8)
        _mm512_storeu_pd(b + i, _mm512_add_pd(_mm512_loadu_pd(a + i), _mm512_set1_pd(1)));
}
int main(void) { puts("begins"); fflush(stdout); add_ones(); printf("%g\n", b[3]); return 0; }"""

UNKNOWN_INSTRUCTION = r"""
#include <pthread.h>
#include <unistd.h>
static void *lacking(void *nothing) { __asm__ volatile(".byte 0x0f, 0x38, 0xf9, 0x07"); return nothing; }
int main(void) {
    pthread_t thread; pthread_create(&thread, 0, lacking, 0);
    for (;;) pause();
}"""

ENDS_ITSELF = r"""
#include <signal.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    if (atoi(argv[1])) raise(SIGILL);
    __builtin_trap(); return argc;
}"""

CATCHES = r"""
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
static sigjmp_buf back;
static void caught(int s) { siglongjmp(back, s); }
int main(void) {
    signal(SIGILL, caught);
    if (sigsetjmp(back, 1) == 0) __asm__ volatile(".byte 0x62, 0xf1, 0xfd, 0x48, 0x28, 0xc0"); /* vmovapd zmm0, zmm0 */
    puts("has no AVX-512"); return 0;
}"""


def test_instruction_beyond_the_engine_is_named_with_its_line_and_the_flag_to_use(
    compile_c: Compile, tmp_path: Path
) -> None:
    run = run_traced(tmp_path, compile_c(AVX512, "-O1"))
    assert (run.returncode, run.stdout) == (-signal.SIGILL, "begins\n")
    [line] = run.stderr.splitlines()
    assert line.startswith("foretrace: the program was killed by SIGILL at v")
    assert "zmm" in line
    assert re.search(r" in add_ones \(\S+/program\d+\.c:[567], \S+/program\d+\): ", line)
    assert line.endswith("compile with -mno-avx512f, or for -march=x86-64-v3")
    assert run.signature.provenance.incomplete_reason == line.removeprefix("foretrace: ")


def test_unknown_instruction_of_another_thread(compile_c: Compile, tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(UNKNOWN_INSTRUCTION, "-O1"))
    assert run.returncode == -signal.SIGILL
    [line] = run.stderr.splitlines()
    assert "movdiri dword ptr [rdi], eax in lacking (" in line
    assert ".c:4, " in line
    assert "compile for -march=x86-64-v3" in line


@pytest.mark.parametrize("by_raise", [0, 1])
def test_program_that_means_to_die_by_sigill_is_not_commented(
    by_raise: int, compile_c: Compile, tmp_path: Path
) -> None:
    run = run_traced(tmp_path, compile_c(ENDS_ITSELF, "-O1"), str(by_raise))
    assert (run.returncode, run.stderr) == (-signal.SIGILL, "")
    assert run.signature.provenance.incomplete_reason == "the program was killed by SIGILL"


def test_program_that_asks_by_trying_goes_on(compile_c: Compile, tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(CATCHES, "-O1"))
    assert (run.returncode, run.stdout, run.stderr) == (0, "has no AVX-512\n", "")
    assert run.signature.provenance.complete


def test_what_the_engine_says_of_an_end_is_passed_on(compile_c: Compile, tmp_path: Path) -> None:
    program = compile_c("int main(void) { return 0; }", "-Wl,--dynamic-linker=/no/such/\x1bloader")
    result = subprocess.run(
        [sys.executable, "-P", "-m", "foretrace", "trace", "-o", str(tmp_path / "x.sig"), "--", str(program)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert result.returncode != 0
    [line] = result.stderr.splitlines()
    assert line.startswith("foretrace: qemu-x86_64")
    assert "/no/such/\\x1bloader" in line
