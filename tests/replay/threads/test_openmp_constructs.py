"""OpenMP constructs, traced with 1, 2 and 4 threads: replays agree with the prediction and with one another."""

import pytest
from binary_runs import run_traced
from effort import IS_FULL
from replay_samples import measured_host, with_changes
from tree_samples import Tree

from foretrace.profiles.library import find
from foretrace.replay.engine.program import Barrier, Lock, Repeat, Run, Sharing, Unlock
from foretrace.replay.node.machine_run import Node
from foretrace.replay.node.replay import replay_on
from foretrace.replay.threads.job_programs import run_time_s
from foretrace.replay.threads.stops import Rare, finished, one_of_many, repeated
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.tree_records import TreeNodeKind

STEP_S = 1000e-9
GOMP, OMP = "/lib/libgomp.so.1", "/lib/libomp.so.5"
CORES = Sharing("cores")


def host(cores=8):
    base = measured_host()
    given_here = {"cores": cores, "line_transfer_latency_s": 0.0}
    source = dict.fromkeys((*base.core.source, *given_here), "here")
    return with_changes(base, core=with_changes(base.core, **given_here, source=source))


def replayed_steps(signature, threads):
    return replay_on(signature, host(), threads=threads).makespan_s / STEP_S


def count(program, kind):
    return sum(
        part.count * count(part.body, kind) if isinstance(part, Repeat) else isinstance(part, kind) for part in program
    )


PREFIX = r"""
#include <stdio.h>
#include <pthread.h>
#define N 40000
static double a[8][N];
static double sum;
static void __attribute__((noinline)) work(double *p, int from, int to) {
    for (int i = from; i < to; i++) {
        double x = p[i] + i;
        for (int k = 0; k < 20; k++) x = x * 0.5 + 1;
        p[i] = x;
    }
}
"""
SUFFIX = '\nint main(void) { program(); printf("%g\\n", a[1][7] + sum); return 0; }\n'
CONSTRUCTS = {
    "nested": """static void program(void) {
    #pragma omp parallel for schedule(static)
    for (int b = 0; b < 8; b++) {
        #pragma omp parallel for schedule(static)
        for (int i = 0; i < 100; i++) work(a[b], 400 * i, 400 * i + 400);
    }
}""",
    "orphaned": """static void __attribute__((noinline)) loop(void) {
    #pragma omp for schedule(static)
    for (int b = 0; b < 8; b++) work(a[b], 0, N);
}
static void program(void) {
    #pragma omp parallel
    { loop(); loop(); }
}""",
    "sections": """static void program(void) {
    #pragma omp parallel sections
    {
        #pragma omp section
        work(a[0], 0, N);
        #pragma omp section
        work(a[1], 0, N);
        #pragma omp section
        work(a[2], 0, N);
        #pragma omp section
        work(a[3], 0, N);
    }
}""",
    "nowait": """static void program(void) {
    #pragma omp parallel
    {
        #pragma omp for nowait schedule(static)
        for (int b = 0; b < 8; b++) work(a[b], 0, N);
        #pragma omp for nowait schedule(dynamic)
        for (int b = 0; b < 8; b++) work(a[b], 0, N);
    }
}""",
    "tasks": """static void program(void) {
    #pragma omp parallel
    #pragma omp single
    {
        for (int b = 0; b < 64; b++) {
            #pragma omp task firstprivate(b)
            work(a[b / 8], b % 8 * (N / 8), b % 8 * (N / 8) + N / 8);
        }
        #pragma omp taskwait
    }
}""",
    "reduction": """static void program(void) {
    double s = 0;
    #pragma omp parallel for schedule(static) reduction(+:s)
    for (int i = 0; i < 800; i++) {
        work(a[i % 8], i / 8 * 400, i / 8 * 400 + 400);
        s += a[i % 8][i / 8 * 400];
    }
    sum = s;
}""",
    "critical": """static void program(void) {
    int found = 0;
    #pragma omp parallel for schedule(static)
    for (int i = 0; i < 8 * N; i++) {
        double x = i;
        for (int k = 0; k < 20; k++) x = x * 0.5 + 1;
        a[0][i % N] = x;
        if (i % 2000 == 0) {
            #pragma omp critical
            found++;
        }
    }
    sum = found;
}""",
    "two teams": """static void team(double *p) {
    #pragma omp parallel for schedule(static)
    for (int i = 0; i < 400; i++) work(p, 100 * i, 100 * i + 100);
}
static void *other(void *p) { team(p); return 0; }
static void program(void) {
    pthread_t thread;
    pthread_create(&thread, 0, other, a[1]);
    team(a[0]);
    pthread_join(thread, 0);
}""",
}


BY_BOTH = ("nested", "tasks", "critical", "two teams")
"""Constructs of which a short run compares traces with one and with four threads; it traces the others with four."""


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_replays_of_a_construct_agree_whatever_it_was_traced_with(compile_c, tmp_path, monkeypatch, construct):
    """By hand: a share of 1 of the region's work with one thread, 1/2 with two, 1/4 with four."""
    program = compile_c(PREFIX + CONSTRUCTS[construct] + SUFFIX, "-O2", "-g", "-fopenmp", "-pthread")
    found = {}
    for traced in (1, 4) if IS_FULL or construct in BY_BOTH else (4,):
        monkeypatch.setenv("OMP_NUM_THREADS", str(traced))
        folder = tmp_path / str(traced)
        folder.mkdir()
        workload = Workload.of(run_traced(folder, program).signature)
        node = Node.of(workload, find("epyc-9654"), 96, 1, None, None)
        predicted_s = node.work.predicted_s - node.work.waited_s
        assert sum(run_time_s(thread.program) for thread in node.job.threads) == pytest.approx(predicted_s)
        replayed = {n: replay_on(workload.signature, find("epyc-9654"), threads=n).makespan_s for n in (1, 2, 4)}
        assert replayed[1] == pytest.approx(predicted_s, rel=0.02)
        found[traced] = replayed
    first = found[min(found)]
    alone_s = first[1]
    serial_s = alone_s - (alone_s - first[2]) * 2  # the program's start and end
    assert 0 <= serial_s < 0.25 * alone_s
    for replayed in found.values():
        for threads in (2, 4):
            assert replayed[threads] == pytest.approx(serial_s + (alone_s - serial_s) / threads, rel=0.12)


def nested(threads, *, levels=1, has_call=True):
    """Eight entries of an inner region, 100 steps each, by an outer region of `threads`; with two levels, each inner
    one is entered by a thread of its own as well."""
    tree = Tree()
    block = None
    for number in range(threads):
        root = tree.thread(number)
        each = 8 // threads
        fork = fork_of(tree, root, number, GOMP, line=5)
        outer = tree.call(fork, "main._omp_fn.0", line=6)
        loop = tree.loop(outer, each)
        if number:
            inner = tree.call(
                tree.call(loop, "GOMP_parallel", module=GOMP, entries=each), "main._omp_fn.1", entries=each
            )
        else:
            tree.folded[fork] = each
            if has_call:
                tree.call(loop, "GOMP_parallel", entries=each, site=9)
            inner = tree.call(fork, "main._omp_fn.1", entries=each, line=9)
        block = tree.does(inner, 100 * each // levels, block)
    for number in range(threads, threads * levels):
        inner = tree.call(tree.call(tree.thread(number), "start", module=GOMP), "main._omp_fn.1", entries=8 // threads)
        tree.does(inner, 100 * 8 // threads // levels, block)
    return tree.signature()


@pytest.mark.parametrize("has_call", [True, False])
@pytest.mark.parametrize("traced", [1, 2, 4])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_nested_region_runs_inside_the_outer_one(traced, threads, has_call):
    """A runtime's team inside of a team has one member, unless more active levels are asked for."""
    assert replayed_steps(nested(traced, has_call=has_call), threads) == pytest.approx(800 / threads)


@pytest.mark.parametrize("threads", [None, 1, 2, 4])
def test_teams_inside_of_teams_do_all_work_and_are_said(threads):
    """Their order is not replayed: between what all members take together and one after the other."""
    replayed = replay_on(nested(2, levels=2), host(), threads=threads)
    assert replayed.outcome.busy_s.sum() / STEP_S == pytest.approx(800)
    assert 800 / (threads or 4) <= replayed.makespan_s / STEP_S * (1 + 1e-9)
    assert any("400 µs are of parallel regions that the first thread was in no team of" in one
               for one in replayed.warnings)  # fmt: skip


def line_loop(tree, parent, line, entries):
    return tree.node(TreeNodeKind.LOOP, parent, "main._omp_fn.0", entries=entries, iterations=100, line=line)


def fork_of(tree, root, number, runtime, begin="GOMP_parallel", **options):
    """The call from which a member of a team runs a region: below `main` for the first one, else in its own thread."""
    if number:
        return tree.call(root, "start", module=runtime)
    return tree.call(tree.call(root, "main"), begin, module=runtime, **options)


def single(*of_threads, runtime=GOMP):
    """A region with a loop of 400 steps in all, divided, and 100 that one member does for all, four times over.

    `of_threads` are the times that each thread was the one.
    """
    tree = Tree()
    blocks = [None, None]
    for number, times in enumerate(of_threads):
        root = tree.thread(number)
        fork = fork_of(tree, root, number, runtime)
        region = tree.call(fork, "main._omp_fn.0")
        loop = tree.loop(region, 4)
        blocks[0] = tree.does(line_loop(tree, loop, 7, 4), 400 // len(of_threads), blocks[0])
        tree.call(loop, "GOMP_barrier", module=runtime, entries=4, site=8)
        tree.call(loop, "GOMP_single_start", module=runtime, entries=4, site=9)
        if times:
            blocks[1] = tree.does(line_loop(tree, loop, 9, times), 25 * times, blocks[1])
        tree.call(loop, "GOMP_barrier", module=runtime, entries=4, site=10)
    return tree.signature()


@pytest.mark.parametrize("of_threads", [(4,), (4, 0), (1, 3), (1, 2, 0, 1)])
@pytest.mark.parametrize("threads", [1, 2, 4, 8])
def test_what_one_member_does_for_all_is_not_divided(of_threads, threads):
    assert replayed_steps(single(*of_threads), threads) == pytest.approx(400 / threads + 100)


def rare_lock(entries, iterations=1000):
    """Each of two threads runs a loop of a step an iteration, and takes a lock in some, for 2 steps each time."""
    tree = Tree()
    work, locked = None, None
    for number in range(2):
        root = tree.thread(number)
        fork = fork_of(tree, root, number, GOMP)
        loop = tree.loop(tree.call(fork, "main._omp_fn.0"), iterations)
        work = tree.does(loop, iterations, work)
        tree.call(loop, "GOMP_critical_start", module=GOMP, entries=entries, site=9)
        locked = tree.does(tree.call(loop, "shared", entries=entries, site=10), 2 * entries, locked)
        tree.call(loop, "GOMP_critical_end", module=GOMP, entries=entries, site=11)
    return tree.signature()


@pytest.mark.parametrize("entries", [1, 7, 10, 300, 999, 1000])
def test_a_lock_in_a_branch_is_taken_as_often_as_the_branch(entries):
    node = Node.of(Workload.of(rare_lock(entries)), host(), 8, 1, None, None)
    for thread in node.job.threads:
        assert count(thread.program, Lock) == count(thread.program, Unlock) == entries
        assert run_time_s(thread.program) == pytest.approx((1000 + 2 * entries) * STEP_S)


@pytest.mark.parametrize("is_joint", [False, True])
@pytest.mark.parametrize(("iterations", "entries", "total"), [(100, 1, 7), (100, 3, 100), (10, 4, 1), (5, 2, 0.5)])
def test_branches_keep_their_time(iterations, entries, total, is_joint):
    """Whatever a body is repeated in, what it and its branch take stays the same."""
    taken = Rare((Lock("lock"), Run("branch", 2.0, CORES), Unlock("lock")), total, is_joint)
    body = [Run("plain", 1.0, CORES), taken]
    around = finished(repeated(entries, repeated(iterations, body, entries), 1))
    assert run_time_s(around) == pytest.approx(entries * iterations + 2.0 * total)
    unrolled = finished(part for run in range(4) for part in one_of_many(body, run, 4))
    assert run_time_s(unrolled) == pytest.approx(4 + 2.0 * total)


def test_a_region_in_a_branch_of_a_loop_is_entered_as_often_as_the_branch():
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    steps = tree.loop(main, 100)
    tree.does(steps, 100)
    fork = tree.call(steps, "GOMP_parallel", module=GOMP, entries=10)
    tree.does(tree.call(fork, "main._omp_fn.0", entries=10), 1000)
    node = Node.of(Workload.of(tree.signature()), host(), 8, 1, None, 4)
    assert [count(thread.program, Barrier) for thread in node.job.threads] == [20] * 4
    assert replayed_steps(tree.signature(), 4) == pytest.approx(100 + 250)


def test_locks_that_a_runtime_takes_for_itself_are_its_own():
    """libomp takes locks of the C library where its threads meet: a team that waits there must not wait for them."""
    tree = Tree()
    block = None
    for number in range(2):
        root = tree.thread(number)
        fork = fork_of(tree, root, number, OMP, begin="__kmpc_fork_call")
        region = tree.call(fork, ".omp_outlined.")
        block = tree.does(region, 50, block)
        barrier = tree.call(region, "__kmpc_barrier", module=OMP)
        tree.call(barrier, "pthread_mutex_lock", module="/lib/libc.so.6")
        tree.call(barrier, "__kmpc_barrier", module=OMP)  # one that the entry point calls has its name
        tree.call(barrier, "pthread_mutex_unlock", module="/lib/libc.so.6")
    node = Node.of(Workload.of(tree.signature()), host(), 8, 1, None, None)
    for thread in node.job.threads:
        assert count(thread.program, Lock) == 0
        assert count(thread.program, Barrier) == 3  # fork, barrier, join
    assert replayed_steps(tree.signature(), None) == pytest.approx(50)


def test_tasks_of_libomp_go_to_who_is_free():
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    region = tree.call(tree.call(main, "__kmpc_fork_call", module=OMP), ".omp_outlined.")
    barrier = tree.call(region, "__kmpc_barrier", module=OMP)
    tree.does(tree.call(barrier, ".omp_task_entry.", entries=8), 800)
    tree.call(tree.call(tree.thread(1), "start", module=OMP), ".omp_outlined.")
    assert replayed_steps(tree.signature(), None) == pytest.approx(400)
    assert replayed_steps(tree.signature(), 4) == pytest.approx(200)
