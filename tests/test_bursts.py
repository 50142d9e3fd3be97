"""Traces recorded in bursts: what blocks tell is exact, whatever the program is made of."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from binary_runs import trace_command

from foretrace.cache_sim.hierarchy import Hierarchy
from foretrace.errors import ForetraceError
from foretrace.tracer import tracing
from foretrace.tracer.bursts import Accuracy, Schedule, schedule_of
from foretrace.tracer.signature import Signature
from foretrace.tracer.signature_file import read_signature
from foretrace.tracer.streams.stored_stream import StreamWriter

Compile = Callable[..., Path]

CACHES = (Hierarchy.parse("L1=4K/4/64,LL=64K/8/64", "small"),)

MANY_KINDS = r"""
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
static char text[4096], copy[4096];
static double x[1000], y[1000];
static unsigned table[4096];
static volatile long signals;
static sigjmp_buf back;
static void on_signal(int s) { signals += s != 0; }
static void on_fault(int s) { siglongjmp(back, s); }
static long add(long a) { return a + 1; }
static long odd(long a) { return a % 2 ? a * 3 : a / 2; }
static long (*const functions[])(long) = {add, odd};
static int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
int main(void) {
    unsigned state = 1; long sum = 0;
    signal(SIGUSR1, on_signal);
    signal(SIGSEGV, on_fault);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 1000; i++) { state = state * 1664525 + 1013904223; table[state >> 20] += i; }
        for (int i = 0; i < 1000; i++) y[i] += 2 * x[i];
        for (int i = 0; i < 300; i++) sum = functions[table[i] & 1](sum);
        memcpy(copy, text, 100 + (state >> 22));
        if (round % 16 == 0) raise(SIGUSR1);
        if (round % 64 == 0 && sigsetjmp(back, 1) == 0) *(volatile int *)8 = 1;
        if (round % 100 == 50) { int n[200]; for (int i = 0; i < 200; i++) n[i] = table[i]; qsort(n, 200, 4, compare); }
    }
    printf("%ld %ld %g\n", sum, signals, y[7]); return 0;
}"""

VARYING = r"""
static char text[4096], copy[4096];
int main(void) {
    unsigned state = 1;
    for (int round = 0; round < 30000; round++) {
        state = state * 1664525 + 1013904223;
        void *to = copy, *from = text; long n = state >> 26;
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    }
    return 0;
}"""

THREADS = r"""
#include <pthread.h>
#include <stdio.h>
static long counted[4][512];
__attribute__((noinline)) static void *work(void *own) {
    long *mine = own;
    for (long round = 0; round < 2000; round++)
        for (int i = 0; i < 512; i++) if ((i ^ round) & 3) mine[i] += round; else mine[i]--;
    return 0;
}
int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, counted[i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    printf("%ld\n", counted[3][5]); return 0;
}"""

FORKS = r"""
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long cells[1024];
__attribute__((noinline)) static void work(long rounds) {
    for (long round = 0; round < rounds; round++) for (int i = 0; i < 1024; i++) cells[i] += round;
}
int main(void) {
    work(300);
    for (int child = 0; child < 3; child++) if (fork() == 0) { work(400); _exit(0); }
    while (wait(0) > 0) ;
    work(200);
    printf("%ld\n", cells[9]); return 0;
}"""

ENDLESS = r"""
#include <stdio.h>
static volatile long cells[4096];
int main(void) { puts("runs"); fflush(stdout); for (unsigned long i = 0; ; i++) cells[i * 7 % 4096] += i; }"""


@pytest.fixture
def many_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below high accuracy, bursts come so often that a short program has dozens of them."""

    def often(accuracy: Accuracy, seed: int | None = None) -> Schedule | None:
        return None if accuracy is Accuracy.HIGH else Schedule(4, 8, 4, 4, seed or 0)

    monkeypatch.setattr(tracing, "schedule_of", often)


def _trace(program: Path, accuracy: Accuracy, *, follow_children: bool = False, seed: int = 1) -> Signature:
    traced = tracing.trace_binary([str(program)], CACHES, follow_children=follow_children, accuracy=accuracy, seed=seed)
    assert traced.ending.exit_code == 0
    assert traced.signature.provenance.complete
    return traced.signature


def _exact(signature: Signature, function: str = "") -> tuple[object, ...]:
    """All that is to be the same in every mode, of a function or of all."""
    chosen = {b.block_id for b in signature.blocks if not function or b.function == function}
    place = {b.block_id: (b.module, b.offset, b.function) for b in signature.blocks}
    blocks = sorted(
        (*place[b.block_id], b.executions, b.instructions, b.flops) for b in map(signature.blocks.__getitem__, chosen)
    )
    accesses = sorted(
        (*place[op.block_id], op.offset, op.is_store, op.executions, op.total_bytes, op.size_bytes)
        for op in signature.operations
        if op.block_id in chosen
    )
    edges = sorted((place[s], place[d], n) for s, d, n in signature.edges.tolist() if s in chosen and d in chosen)
    loops = sorted(
        (loop.function, loop.line, loop.entries, loop.iterations)
        for loop in signature.loops
        if not function or loop.function == function
    )
    return blocks, accesses, edges, loops


@pytest.mark.usefixtures("many_bursts")
@pytest.mark.parametrize(("target", "rounds"), [("x86_64", 300), ("aarch64", 200), ("riscv64", 200)])
def test_counts_are_those_of_the_full_trace(target: str, rounds: int, compile_c: Compile) -> None:
    program = compile_c(MANY_KINDS, "-O2", "-fno-builtin", "-static", f"-DROUNDS={rounds}", target=target)
    full, sampled = _trace(program, Accuracy.HIGH), _trace(program, Accuracy.LOW)
    sampling = sampled.provenance.sampling
    assert sampling is not None
    assert sampling.bursts >= 3
    assert 0.1 < sampling.recorded_share < 0.9
    assert _exact(sampled) == _exact(full)
    assert sampled.totals == full.totals


@pytest.mark.usefixtures("many_bursts")
def test_counts_that_vary_are_estimated_and_named(compile_c: Compile) -> None:
    program = compile_c(VARYING, "-O1", "-static")
    full, sampled = _trace(program, Accuracy.HIGH), _trace(program, Accuracy.LOW)
    assert sampled.totals.instructions == full.totals.instructions
    assert sampled.totals.loads == pytest.approx(full.totals.loads, rel=0.01)
    assert any(note.startswith("counts of accesses are estimated for 2 op") for note in sampled.provenance.notes)
    assert full.provenance.notes == ()


@pytest.mark.usefixtures("many_bursts")
def test_counts_of_threads_are_those_of_the_full_trace(compile_c: Compile) -> None:
    program = compile_c(THREADS, "-O1", "-static")
    full, sampled = _trace(program, Accuracy.HIGH), _trace(program, Accuracy.LOW)
    assert sampled.provenance.sampling is not None
    assert sampled.provenance.sampling.bursts >= 5
    assert sampled.provenance.threads == 5
    assert _exact(sampled, "work") == _exact(full, "work")


@pytest.mark.usefixtures("many_bursts")
def test_counts_of_forked_children_are_those_of_the_full_trace(compile_c: Compile) -> None:
    program = compile_c(FORKS, "-O1", "-static")
    full, sampled = (_trace(program, a, follow_children=True) for a in (Accuracy.HIGH, Accuracy.LOW))
    assert sampled.provenance.sampling is not None
    assert len(sampled.provenance.processes) == 4
    assert _exact(sampled, "work") == _exact(full, "work")


@pytest.mark.usefixtures("many_bursts")
def test_the_seed_decides_where_bursts_lie(compile_c: Compile) -> None:
    program = compile_c(MANY_KINDS, "-O2", "-static", "-DROUNDS=300")
    misses = [_trace(program, Accuracy.LOW, seed=seed).hierarchies[0].misses.sum() for seed in (1, 1, 2)]
    assert misses[0] == misses[1] != misses[2]


def test_a_short_run_is_recorded_whole(compile_c: Compile) -> None:
    program = compile_c(FORKS, "-O1", "-static")
    full, sampled = _trace(program, Accuracy.HIGH), _trace(program, Accuracy.LOW)
    assert sampled.provenance.sampling is None
    assert _exact(sampled) == _exact(full)
    assert (sampled.hierarchies[0].misses == full.hierarchies[0].misses).all()
    assert list(sampled.operations) == list(full.operations)


def test_a_killed_program_leaves_a_signature(compile_c: Compile, tmp_path: Path) -> None:
    signature = tmp_path / "killed.sig"
    command = trace_command(signature, compile_c(ENDLESS, "-O1", "-static"), options=("--accuracy", "low"))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        time.sleep(3)  # into the gaps
        engine = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout
        os.kill(int(engine), signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL
    read = read_signature(signature)
    assert read.provenance.incomplete_reason == "the program was killed by SIGKILL"
    assert read.provenance.sampling is not None
    loads = [op for op in read.operations if read.blocks[op.block_id].function == "main" and op.executions > 1]
    assert loads
    assert all(abs(op.executions - read.blocks[op.block_id].executions) <= 1 for op in loads)


def test_what_cannot_be_sampled_is_refused(
    compile_c: Compile, tmp_path: Path, foretrace: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    result = foretrace("trace", "--accuracy", "low", "-o", tmp_path / "x.sig", "script.py")
    assert result.returncode == 2
    assert "--accuracy low is for compiled programs" in result.stderr
    with pytest.raises(ForetraceError, match="needs --accuracy high"):
        tracing.trace_binary(["true"], CACHES, keep=StreamWriter(tmp_path / "s"), accuracy=Accuracy.MEDIUM)


def test_schedules() -> None:
    assert schedule_of(Accuracy.HIGH) is None
    low, medium = schedule_of(Accuracy.LOW, 5), schedule_of(Accuracy.MEDIUM, 5)
    assert low is not None
    assert medium is not None
    assert low.seed == medium.seed == 5
    assert low.share_while_sampling < medium.share_while_sampling < 1
    assert schedule_of(Accuracy.LOW) != schedule_of(Accuracy.LOW)
