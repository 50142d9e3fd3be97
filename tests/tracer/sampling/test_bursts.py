"""Traces recorded in bursts: what blocks tell is exact, whatever the program is made of."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from binary_runs import trace_command
from burst_schedule_reference import share_in_bursts
from effort import sweep
from hypothesis import given
from hypothesis import strategies as st
from traces import trace_binary, trace_python

from foretrace.base.errors import ForetraceError
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.base.results import OperationStatistics, SimulatedHierarchy
from foretrace.profiles.library import find
from foretrace.replay.memory.hit_rates import misses_on
from foretrace.tracer.sampling.burst_schedule import Accuracy, Schedule, schedule_of
from foretrace.tracer.sampling.bursts import NUM_GROUPS, BurstCounts
from foretrace.tracer.sampling.estimate import estimated_misses, scaled_to_run
from foretrace.tracer.session import options
from foretrace.tracer.signature.file import read_signature, write_signature
from foretrace.tracer.signature.records import EstimatedMisses, Signature
from foretrace.tracer.stored.stored_stream import StreamWriter

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
int main(void) {
    for (unsigned long i = 0; ; i++) {
        if (i == 50000000) { puts("runs in the gaps"); fflush(stdout); }
        cells[i * 7 % 4096] += i;
    }
}"""


@pytest.fixture
def many_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below high accuracy, bursts come so often that a short program has dozens of them."""

    def often(accuracy: Accuracy, seed: int | None = None) -> Schedule | None:
        return None if accuracy is Accuracy.HIGH else Schedule(4, 8, 4, 4, seed or 0)

    monkeypatch.setattr(options, "schedule_of", often)


def _trace(program: Path, accuracy: Accuracy, *, follow_children: bool = False, seed: int = 1) -> Signature:
    traced = trace_binary([str(program)], CACHES, follow_children=follow_children, accuracy=accuracy, seed=seed)
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
@pytest.mark.parametrize(("target", "rounds"), [("x86_64", 250), ("aarch64", 170), ("riscv64", 170)])
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
        assert process.stdout.readline() == "runs in the gaps\n"
        engine = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout
        os.kill(int(engine), signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    read = read_signature(signature)
    assert read.provenance.incomplete_reason == "the program was killed by SIGKILL"
    assert read.provenance.sampling is not None
    loads = [op for op in read.operations if read.blocks[op.block_id].function == "main" and op.executions > 1]
    assert loads
    assert all(abs(op.executions - read.blocks[op.block_id].executions) <= 1 for op in loads)


def test_what_cannot_be_sampled_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ForetraceError, match="--accuracy high goes with it"):
        trace_binary(["true"], CACHES, keep=StreamWriter(tmp_path / "s"), accuracy=Accuracy.MEDIUM)
    with pytest.raises(ForetraceError, match="--accuracy high goes with it"):
        trace_python(__file__, [], CACHES, keep=StreamWriter(tmp_path / "s"), accuracy=Accuracy.LOW)


def test_schedules() -> None:
    assert schedule_of(Accuracy.HIGH) is None
    low, medium = schedule_of(Accuracy.LOW, 5), schedule_of(Accuracy.MEDIUM, 5)
    assert low is not None
    assert medium is not None
    assert low.seed == medium.seed == 5
    assert share_in_bursts(low) < share_in_bursts(medium) < 1
    assert schedule_of(Accuracy.LOW) != schedule_of(Accuracy.LOW)


SWEEPS = r"""
#include <stdlib.h>
static double cells[65536]; /* 512 KiB */
static int order[4096];
int main(void) {
    unsigned state = 1; double sum = 0;
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < 65536; i += 4) sum += cells[i];
        for (int i = 0; i < 20000; i++) { state = state * 1664525 + 1013904223; cells[state >> 16] += 1; }
        for (int i = 0; i < 4096; i++) order[i] += round;
    }
    return sum < 0;
}"""


@pytest.mark.usefixtures("many_bursts")
@sweep("seed", [1, 2, 3], [1])
def test_estimates_are_as_near_as_they_say_to_the_misses_of_the_full_trace(seed: int, compile_c: Compile) -> None:
    program = compile_c(SWEEPS, "-O1", "-static")
    full, sampled = _trace(program, Accuracy.HIGH), _trace(program, Accuracy.LOW, seed=seed)
    sampling = sampled.provenance.sampling
    assert sampling is not None
    exact = full.hierarchies[0].misses.sum(axis=0).tolist()
    assert [level.level for level in sampling.misses] == ["L1", "LL"]
    for level, known in zip(sampling.misses, exact, strict=True):
        assert (
            abs(level.misses - known) <= 3 * 1.96 * level.standard_error + 0.001 * known
        )  # 95 % would fail now and then
        assert level.misses == pytest.approx(known, rel=0.1)
        assert level.high - level.low < 0.2 * known  # and they say something
    first = sampling.misses[0]
    assert int(sampled.hierarchies[0].misses[:, 0].sum()) == pytest.approx(first.misses, rel=1e-3)


def _counts(first: list[int], groups: list[list[int]], other: list[int], *, doubt: float = 0.0) -> BurstCounts:
    """Of one operation and one level: accesses and misses."""
    measured = np.zeros((1, NUM_GROUPS, 2), np.uint64)
    measured[0, : len(groups)] = np.array(groups, np.uint64).reshape(-1, 2)
    return BurstCounts(
        first=np.array([first], np.uint64), measured=measured, other=np.array([other], np.uint64),
        in_parts=np.array([2], np.uint64), perhaps_fewer=np.array([doubt]), perhaps_more=np.array([2 * doubt]),
        bursts=np.ones(NUM_GROUPS, np.int64), early_bursts=0, gaps=3, seed=0,
    )  # fmt: skip


def _estimated(counts: BurstCounts, executions: int) -> EstimatedMisses:
    hierarchy = Hierarchy.parse("L1=4K/4/64")
    simulated = SimulatedHierarchy(hierarchy, np.zeros((1, 1), np.uint64))
    (result,), (level,) = estimated_misses(counts, [simulated], np.array([executions], np.uint64))
    assert int(result.misses[0, 0]) == level.misses
    return level


def test_estimates_worked_by_hand() -> None:
    # 100 accesses known with 20 misses; of the other 1000, 2 bursts of 10 tell: 4 of 20 miss.
    alike = _estimated(_counts([100, 20], [[10, 2], [10, 2]], [7, 7]), 1100)
    assert (alike.misses, alike.low, alike.high) == (220, 220, 220)
    # With 50 misses in the first part, that and the bursts together have 54 in 120: 450 of 1000.
    changed = _estimated(_counts([100, 50], [[10, 2], [10, 2]], [7, 7]), 1100)
    assert (changed.misses, changed.low, changed.high) == (250, 250, 500)
    # Without each of two groups: 50 + 1000 x 0.1 or 0.3; their jackknife variance is 1/2 x 2 x 100^2.
    apart = _estimated(_counts([100, 50], [[10, 1], [10, 3]], [7, 7]), 1100)
    assert (apart.misses, apart.low, apart.high) == (250, 50, 1050)  # 12.7 x 100 to each side, within what is possible
    # 2 misses in doubt of the 20 accesses measured are 100 of the 1000; and twice as many upwards.
    doubtful = _estimated(_counts([100, 20], [[10, 2], [10, 2]], [7, 7], doubt=2.0), 1100)
    assert (doubtful.misses, doubtful.low, doubtful.high) == (220, 120, 420)
    # One burst says nothing of how sure it is; an operation in none has the rate of its other accesses.
    assert _estimated(_counts([100, 50], [[10, 2]], [0, 0]), 1100) == EstimatedMisses("L1=4K/4/64", "L1", 250, 50, 1050)
    assert _estimated(_counts([0, 0], [], [10, 1]), 1100).misses == 110


def test_operations_that_few_bursts_have_measured_widen_the_interval() -> None:
    """One in every group, without spread, and another in one group or none: 900 accesses after the first 100."""
    often, once = _counts([0, 0], [[10, 1], [10, 1]], [0, 0]), _counts([100, 0], [[10, 2]], [0, 0])
    never = _counts([100, 50], [], [0, 0])
    hierarchy = Hierarchy.parse("L1=4K/4/64")

    def interval(other: BurstCounts) -> tuple[int, int, int]:
        counts = replace(
            often,
            first=np.concatenate([often.first, other.first]),
            measured=np.concatenate([often.measured, other.measured]),
            other=np.concatenate([often.other, other.other]),
        )
        simulated = SimulatedHierarchy(hierarchy, np.zeros((2, 1), np.uint64))
        _, (level,) = estimated_misses(counts, [simulated], np.array([1000, 1000], np.uint64))
        return level.misses, level.low, level.high

    assert interval(_counts([100, 20], [[10, 2], [10, 2]], [0, 0])) == (300, 300, 300)
    # Without the group that has it the rate is that of the first part, 0: the jackknife's deviations are 90 and 90.
    misses, low, high = interval(once)
    assert (misses, low) == (280, 0)
    assert high >= 280 + 180
    # Of none: half of the first part missed, all or none of the rest may.
    assert interval(never) == (600, 150, 1050)


@given(each=st.integers(0, 4), recorded=st.integers(1, 10**6), gaps=st.integers(0, 10**9), lacking=st.integers(0, 2))
def test_counts_scale_exactly(each: int, recorded: int, gaps: int, lacking: int) -> None:
    """Where an instruction makes the same number of accesses each time, but for a block that was interrupted."""
    lacking = min(lacking, each * recorded, recorded // 1001)
    count = each * recorded - lacking
    columns = {name: np.array([0], np.uint64) for name in OperationStatistics.__slots__}
    columns |= {"executions": np.array([count], np.uint64), "total_bytes": np.array([8 * count], np.uint64)}
    columns |= {"strided": np.array([max(count - 1, 0)], np.uint64)}
    scaled = scaled_to_run(
        OperationStatistics(**columns),
        recorded=np.array([recorded], np.uint64),
        executions=np.array([recorded + gaps], np.uint64),
        in_parts=np.array([1], np.uint64),
    )
    total = each * (recorded + gaps) - lacking
    assert int(scaled.executions[0]) == total
    assert int(scaled.total_bytes[0]) == 8 * total
    patterns = scaled.repeated + scaled.unit_stride + scaled.strided + scaled.irregular
    assert int(patterns[0]) == max(total - 1, 0)


@pytest.mark.usefixtures("many_bursts")
def test_info_and_predictions_tell_of_bursts(
    compile_c: Compile, tmp_path: Path, foretrace: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    program = compile_c(SWEEPS, "-O1", "-static")
    full, sampled = _trace(program, Accuracy.HIGH), _trace(program, Accuracy.LOW)
    write_signature(sampled, tmp_path / "x.sig")
    sampling = sampled.provenance.sampling
    assert sampling is not None
    assert read_signature(tmp_path / "x.sig").provenance.sampling == sampling
    shown = foretrace("info", tmp_path / "x.sig").stdout
    assert "accuracy      low: " in shown
    assert "with 95 % confidence" in shown
    host = find("xeon-e5-2420")
    assert misses_on(sampled, host).relative_error > misses_on(full, host).relative_error


def test_the_cost_is_told_before_the_run(
    tmp_path: Path, foretrace: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    result = foretrace("trace", "--accuracy", "low", "-o", tmp_path / "x.sig", "--", "sh", "-c", "echo runs >&2")
    told, runs = result.stderr.splitlines()
    assert told.startswith("foretrace: accuracy low: expect about ")
    assert runs == "runs"
    assert "accuracy" not in foretrace("trace", "-o", tmp_path / "y.sig", "--", "true").stderr
