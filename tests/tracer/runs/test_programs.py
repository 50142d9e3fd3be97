"""What programs do besides running from top to bottom: each is traced, behaves as it should, and is counted exactly."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from binary_runs import run_traced

from foretrace.tracer.qemu.binary import QemuEngine
from foretrace.tracer.reader.side_table import INSTRUCTIONS_PER_BLOCK
from foretrace.tracer.session import session
from foretrace.tracer.session.options import TraceOptions
from foretrace.tracer.session.session import Session
from foretrace.tracer.signature.records import OperationKind

Compile = Callable[..., Path]

OPENMP = r"""
#include <omp.h>
#include <stdio.h>
static volatile double a[100000], b[100000];
static double add(void) {
    double sum = 0;
#pragma omp parallel for num_threads(4) reduction(+ : sum)
    for (int i = 0; i < 100000; i++) { double next = a[i] + 1; b[i] = next; sum += next; }
    return sum;
}
int main(void) {
    double sum = 0;
    for (int round = 0; round < 5; round++) sum += add();
    printf("%g %d\n", sum, omp_get_max_threads() > 0); return 0;
}"""

SIGNALS = r"""
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static volatile int counted[16];
static sigjmp_buf back;
__attribute__((noinline)) void count(int s) { for (int i = 0; i < 16; i++) counted[i] += s != 0; }
static void jump(int s) { siglongjmp(back, s); }
int main(void) {
    static char other_stack[65536];
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    sigaltstack(&stack, 0);
    struct sigaction on_count = {.sa_handler = count, .sa_flags = SA_ONSTACK}, on_fault = {.sa_handler = jump};
    sigaction(SIGUSR1, &on_count, 0);
    sigaction(SIGSEGV, &on_fault, 0);
    for (int i = 0; i < 300; i++) raise(SIGUSR1);
    volatile int faults = 0;
    for (volatile int i = 0; i < 50; i++)
        if (sigsetjmp(back, 1) == 0) *(volatile int *)8 = 1; else faults++;
    printf("%d %d\n", counted[15], faults); return 0;
}"""

LIBRARY = r"""
static long table[5000];
long plugin(long n) { long sum = 0; for (long i = 0; i < n; i++) sum += table[i]++; return sum; }"""

OPENS = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    long sum = 0;
    for (int round = 0; round < 4; round++) {
        void *library = dlopen(argv[1], RTLD_NOW);
        if (!library) { puts(dlerror()); return 1; }
        sum += ((long (*)(long))dlsym(library, "plugin"))(5000);
        dlclose(library);
    }
    printf("%ld\n", sum); return argc != 2;
}"""

WRITES_CODE = r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
static long data[1] = {5};
int main(void) {
    unsigned char *code = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const unsigned char loads_and_adds[] = {0x48, 0x8b, 0x07, /* mov rax, [rdi] */
                                            0x48, 0x05, 0, 0, 0, 0, /* add rax, constant */ 0xc3};
    const unsigned char writes_ahead[] = {0x89, 0x3d, 1, 0, 0, 0, /* mov [rip + 1], edi: the next one's constant */
                                          0xb8, 0, 0, 0, 0, /* mov eax, constant */ 0xc3};
    long sum = 0, ahead = 0;
    memcpy(code, loads_and_adds, sizeof loads_and_adds);
    memcpy(code + 4096, writes_ahead, sizeof writes_ahead);
    for (int i = 0; i < 300; i++) {
        memcpy(code + 5, &i, 4);
        sum += ((long (*)(long *))code)(data);
        ahead += ((int (*)(int))(code + 4096))(i);
    }
    printf("%ld %ld\n", sum, ahead); return 0;
}"""

PROTECTS_CODE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static long data[1] = {5};
int main(int argc, char **argv) {
    unsigned char *code = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const unsigned char loads[] = {0x48, 0x8b, 0x07, 0xc3}; /* mov rax, [rdi]; ret */
    long sum = 0;
    for (int i = 0; i < atoi(argv[1]); i++) {
        mprotect(code, 65536, PROT_READ | PROT_WRITE);
        memcpy(code + 16 * i, loads, sizeof loads);
        mprotect(code, 65536, PROT_READ | PROT_EXEC);
        sum += ((long (*)(long *))(code + 16 * i))(data);
    }
    printf("%ld\n", sum); return argc != 2;
}"""

REPLACES_CHILDREN = r"""
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(void) {
    int came_back = 0, status;
    for (int i = 0; i < 10; i++) {
        pid_t child = vfork();
        if (child == 0) { execl("/bin/sh", "sh", "-c", "exit 3", (char *)0); _exit(1); }
        if (waitpid(child, &status, 0) == child && WIFEXITED(status)) came_back += WEXITSTATUS(status) == 3;
    }
    char *arguments[] = {"echo", "spawned", 0};
    pid_t child;
    if (posix_spawn(&child, "/bin/echo", 0, 0, arguments, environ) == 0) waitpid(child, &status, 0);
    printf("%d came back\n", came_back); return 9;
}"""

GATHERS = r"""
#include <immintrin.h>
#include <stdio.h>
static double doubles[1024];
static float floats[1024];
static int places[8] = {3, 900, 17, 45, 512, 6, 800, 1};
__attribute__((noinline)) double gather_doubles(int n) {
    __m256d sum = _mm256_setzero_pd();
    for (int i = 0; i < n; i++) {
        __m128i index = _mm_add_epi32(_mm_loadu_si128((void *)places), _mm_set1_epi32(i & 1));
        sum = _mm256_add_pd(sum, _mm256_i32gather_pd(doubles, index, 8));
    }
    return sum[0] + sum[3];
}
__attribute__((noinline)) float gather_floats(int n) {
    __m256 sum = _mm256_setzero_ps();
    for (int i = 0; i < n; i++) {
        __m256i index = _mm256_add_epi32(_mm256_loadu_si256((void *)places), _mm256_set1_epi32(i & 1));
        sum = _mm256_add_ps(sum, _mm256_i32gather_ps(floats, index, 4));
    }
    return sum[0] + sum[7];
}
__attribute__((noinline)) float gather_some(int n) {
    __m256 sum = _mm256_setzero_ps(), mask = _mm256_castsi256_ps(_mm256_setr_epi32(-1, 0, -1, 0, 0, 0, 0, -1));
    for (int i = 0; i < n; i++) {
        __m256i index = _mm256_set1_epi32(i & 7);
        sum = _mm256_add_ps(sum, _mm256_mask_i32gather_ps(sum, floats, index, mask, 4));
    }
    return sum[0] + sum[7];
}
int main(void) {
    for (int i = 0; i < 1024; i++) doubles[i] = floats[i] = i;
    printf("%g %g %g\n", gather_doubles(100), gather_floats(100), gather_some(100)); return 0;
}"""

STRINGS = r"""
#include <stdio.h>
static char from[4096], to[4096];
__attribute__((noinline)) void copy_bytes(void) {
    void *s = from, *d = to; long n = 1000;
    __asm__ volatile("rep movsb" : "+S"(s), "+D"(d), "+c"(n)::"memory");
}
__attribute__((noinline)) void copy_words(void) {
    void *s = from, *d = to; long n = 100;
    __asm__ volatile("rep movsq" : "+S"(s), "+D"(d), "+c"(n)::"memory");
}
__attribute__((noinline)) void fill(void) {
    void *d = to; long n = 200;
    __asm__ volatile("rep stosl" : "+D"(d), "+c"(n) : "a"(7) : "memory");
}
__attribute__((noinline)) void copy_nothing(void) {
    void *s = from, *d = to; long n = 0;
    __asm__ volatile("rep movsb" : "+S"(s), "+D"(d), "+c"(n)::"memory");
}
int main(void) {
    for (int i = 0; i < 3; i++) { copy_bytes(); copy_words(); fill(); copy_nothing(); }
    puts("copied"); return 0;
}"""

WIDE = r"""
#include <immintrin.h>
#include <stdio.h>
static float a[4096] __attribute__((aligned(64))), b[4096] __attribute__((aligned(64)));
__attribute__((noinline)) void sixteen(void) {
    for (int i = 0; i < 4096; i += 4) _mm_store_ps(b + i, _mm_load_ps(a + i));
}
__attribute__((noinline)) void sixteen_unaligned(void) {
    for (int i = 0; i < 4088; i += 4) _mm_storeu_ps(b + i + 1, _mm_loadu_ps(a + i + 1));
}
__attribute__((noinline, target("avx2"))) void thirty_two(void) {
    for (int i = 0; i < 4096; i += 8) _mm256_storeu_ps(b + i, _mm256_loadu_ps(a + i));
}
__attribute__((noinline)) void same_place(void) {
    for (int i = 0; i < 1000; i++) _mm_store_ps(b + 4 * (i & 1), *(volatile __m128 *)(a + 4 * (i & 1)));
}
int main(void) { sixteen(); sixteen_unaligned(); thirty_two(); same_place(); printf("%g\n", b[5]); return 0; }"""


def test_openmp(compile_c: Compile, tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(OPENMP, "-O1", "-fopenmp"))
    assert (run.returncode, run.stdout) == (0, "500000 1\n")
    assert run.signature.provenance.complete
    assert run.signature.provenance.threads == 4
    assert run.accesses("add._omp_fn.0", is_store=True, at_least=1000) == {8: 500_000}
    assert run.accesses("add._omp_fn.0", is_store=False, at_least=1000) == {8: 500_000}


def test_signal_handlers(compile_c: Compile, tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(SIGNALS, "-O1"))
    assert (run.returncode, run.stdout, run.stderr) == (0, "300 50\n", "")
    assert run.signature.provenance.complete
    assert run.accesses("count", is_store=True, at_least=301) == {4: 300 * 16}
    assert run.accesses("count", is_store=False, at_least=301) == {4: 300 * 16}


def test_libraries_opened_and_closed_while_running(compile_c: Compile, tmp_path: Path) -> None:
    library = tmp_path / "plugin.so"
    (tmp_path / "plugin.c").write_text(LIBRARY)
    subprocess.run(["gcc", "-g", "-O1", "-shared", "-fPIC", "-o", library, tmp_path / "plugin.c"], check=True)
    run = run_traced(tmp_path, compile_c(OPENS, "-ldl"), library)
    assert (run.returncode, run.stdout) == (0, "0\n")  # closed each time: its data begin anew
    assert run.accesses("plugin", is_store=False, at_least=1000) == {8: 4 * 5000}
    assert {run.signature.blocks[op.block_id].module for op in run.operations("plugin")} == {str(library)}
    loops = [loop for loop in run.signature.loops if loop.function == "plugin"]
    assert {(Path(loop.file).name, loop.line) for loop in loops} == {("plugin.c", 3)}
    assert sum(loop.iterations for loop in loops) == 20_000


def test_code_that_is_written_and_rewritten(compile_c: Compile, tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(WRITES_CODE, "-O1"))
    assert (run.returncode, run.stdout) == (0, f"{300 * 5 + 299 * 150} {299 * 150}\n")
    assert run.signature.provenance.complete
    assert run.signature.provenance.decoded_share == 1.0
    written = [b for b in run.signature.blocks if b.module == "[anonymous]"]
    adds = [b for b in written if any(o.kind is OperationKind.INT_ALU for o in b.operations)]
    assert sum(b.executions for b in adds) == 300  # one block for each constant
    stores = [op for op in run.operations("") if op.is_store]
    assert [(op.size_bytes, op.executions) for op in stores] == [(4, 300)]


def test_children_made_by_vfork_and_posix_spawn(compile_c: Compile, tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(REPLACES_CHILDREN))
    assert (run.returncode, run.stderr) == (9, "")
    assert sorted(run.stdout.splitlines()) == ["10 came back", "spawned"]
    assert run.signature.provenance.complete
    assert run.signature.provenance.untraced_children == 11


def test_gathers_count_as_the_loads_of_their_elements(compile_c: Compile, tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(GATHERS, "-O1", "-mavx2"))
    assert (run.returncode, run.stderr) == (0, "")
    assert run.accesses("gather_doubles", is_store=False) == {8: 400}
    assert run.accesses("gather_floats", is_store=False) == {4: 800}
    assert run.accesses("gather_some", is_store=False) == {4: 300}  # masked elements are not loaded


def test_string_instructions_count_each_element(compile_c: Compile, tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(STRINGS, "-O1"))
    assert (run.returncode, run.stdout) == (0, "copied\n")
    for function, size_bytes, count, loads in (
        ("copy_bytes", 1, 1000, True),
        ("copy_words", 8, 100, True),
        ("fill", 4, 200, False),
        ("copy_nothing", 1, 0, True),
    ):
        expected = {size_bytes: 3 * count} if count else {}
        assert run.accesses(function, is_store=True, at_least=4) == expected
        assert run.accesses(function, is_store=False, at_least=4) == (expected if loads else {})
    rep = next(b for b in run.signature.blocks if b.function == "copy_words" and b.executions > 3)
    assert rep.executions == 3 * (100 + 1)  # once more finds the count at 0
    [copied] = [op for op in run.operations("copy_bytes") if not op.is_store and op.size_bytes == 1]
    assert (copied.total_bytes, copied.range_bytes) == (3000, 1000)
    assert copied.unit_stride >= 3 * 998  # the engine begins each copy in another block than it goes on in


@pytest.mark.parametrize("is_store", [False, True])
def test_wide_accesses_are_one_access_each(is_store: bool, compile_c: Compile, tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(WIDE, "-O1"))
    assert run.returncode == 0
    assert run.accesses("sixteen", is_store=is_store) == {16: 1024}
    assert run.accesses("sixteen_unaligned", is_store=is_store) == {16: 1022}
    assert run.accesses("thirty_two", is_store=is_store) == {32: 512}
    assert run.accesses("same_place", is_store=is_store) == {16: 1000}


def test_code_made_time_and_again_takes_no_more_maps(compile_c: Compile) -> None:
    program = str(compile_c(PROTECTS_CODE))
    few, many = (Session(QemuEngine([program, times]), TraceOptions(())).run().raw for times in ("2", "1000"))
    assert len(many.blocks) > len(few.blocks) + 900
    assert len(many.maps) < len(few.maps) + 20  # but for those that the engine itself changed


def test_more_code_than_is_recorded(compile_c: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MAX_BLOCKS", 3000)
    recording = Session(QemuEngine([str(compile_c(PROTECTS_CODE)), "4000"]), TraceOptions(())).run()
    assert recording.ending.exit_code == 0
    instructions = sum(len(block.lengths) for block in recording.raw.blocks)
    if len(recording.raw.blocks) == 3000:
        assert "outgrew the trace's table of 3,000 blocks" in recording.problem
    else:
        assert "outgrew the trace's table of 6,000 different instructions" in recording.problem
        assert 5900 < instructions <= 3000 * INSTRUCTIONS_PER_BLOCK
