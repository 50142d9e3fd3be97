"""Parallel regions that are entered at several places: each place replays its own part, and all time is there once."""

from dataclasses import replace

import pytest
from binary_runs import run_traced
from effort import examples, sweep
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_samples import measured_host, with_changes
from tree_samples import Tree

from foretrace.base.errors import PredictionError
from foretrace.profiles.library import find
from foretrace.replay.engine.program import Repeat
from foretrace.replay.node.machine_run import Node
from foretrace.replay.node.replay import replay_on
from foretrace.replay.prediction.predict import predict
from foretrace.replay.threads.job_programs import ThreadProgram, check_conserved
from foretrace.replay.workload.workload import Workload

STEP_S = 1000e-9
GOMP = "/lib/libgomp.so.1"


def host(cores=8):
    base = measured_host()
    given_here = {"cores": cores, "line_transfer_latency_s": 0.0}
    source = dict.fromkeys((*base.core.source, *given_here), "here")
    return with_changes(base, core=with_changes(base.core, **given_here, source=source))


def sites(of_sites, other_threads=(), *, is_inlined=False, entries=1):
    """A function with a region, called from a place for each of `of_sites`, the first thread's steps there.

    `other_threads` are the steps of each other thread at all places.
    """
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    block = None
    for number, steps in enumerate(of_sites, 1):
        above = main if is_inlined else tree.call(main, "sweep", site=10 * number, entries=entries)
        site = 10 * number if is_inlined else 3
        fork = tree.call(above, "GOMP_parallel", module=GOMP, site=site, entries=entries)
        block = tree.does(tree.call(fork, "sweep._omp_fn.0", entries=entries), steps, block)
        tree.does(tree.call(main, "between", site=10 * number + 5), 7)
    for number, steps in enumerate(other_threads, 1):
        start = tree.call(tree.thread(number), "start", module=GOMP)
        tree.does(tree.call(start, "sweep._omp_fn.0", entries=entries * len(of_sites)), steps, block)
    return tree.signature()


def busy_s(replayed):
    return float(replayed.outcome.busy_s.sum())


@pytest.mark.parametrize("is_inlined", [False, True])
@pytest.mark.parametrize("num_sites", [1, 2, 4, 9])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_region_of_several_places_runs_once_at_each(num_sites, threads, is_inlined):
    for traced in (sites([120] * num_sites, is_inlined=is_inlined),
                   sites([60] * num_sites, [60 * num_sites], is_inlined=is_inlined)):  # fmt: skip
        replayed = replay_on(traced, host(), threads=threads)
        assert busy_s(replayed) == pytest.approx(num_sites * (120 + 7) * STEP_S)
        assert replayed.makespan_s == pytest.approx(num_sites * (120 / threads + 7) * STEP_S)
        if threads == 1:
            assert replayed.makespan_s == pytest.approx(predict(traced, host()).time_s)


def test_other_threads_work_is_divided_among_places_as_the_first_ones_is():
    """As it does 1000 steps at one place and 10 at the other, they do, however often each is entered."""
    replayed = replay_on(sites([1000, 10], [1010, 1010]), host())
    assert replayed.makespan_s == pytest.approx((1010 + 2 * 7) * STEP_S)


def test_where_the_first_thread_does_nothing_entries_divide_the_work():
    replayed = replay_on(sites([0, 0], [300]), host())
    assert busy_s(replayed) == pytest.approx((300 + 2 * 7) * STEP_S)
    bodies = [part for part in replayed.outcome.compiled.entities[1].program if getattr(part, "time_s", 0)]
    assert [part.time_s for part in bodies] == pytest.approx([150 * STEP_S] * 2)


def test_places_are_replayed_in_their_order():
    replayed = replay_on(sites([100, 100], [200], is_inlined=True), host())
    frame = replayed.timeline_frame
    names = list(frame[(frame["entity"] == "job 0 thread 0") & (frame["kind"] == "run")]["activity"])
    assert [name.split()[1] for name in names] == ["0", "1", "0", "3"]


def test_programs_grow_with_the_places_not_with_their_square():
    def parts(num_sites):
        replayed = replay_on(sites([100] * num_sites, [100 * num_sites] * 3), host())
        return len(replayed.outcome.compiled.operations)

    assert parts(40) < 2.2 * parts(20)


def test_alike_members_share_one_program():
    signature = sites([100, 100], [200])
    replayed = replay_on(signature, host(), threads=64)
    assert len({id(entity.program) for entity in replayed.outcome.compiled.entities}) == 2
    copies = replay_on(signature, host(), copies=4)
    assert len({id(entity.program) for entity in copies.outcome.compiled.entities}) == 2
    assert busy_s(copies) == pytest.approx(4 * busy_s(replay_on(signature, host())), rel=1e-6)


@pytest.mark.parametrize("threads", [None, 1, 2, 5])
def test_threads_that_share_a_root_do_its_work_once(threads):
    """Two threads have one root, where there were too many to tell apart."""
    tree = Tree()
    fork = tree.call(tree.call(tree.thread(), "main"), "GOMP_parallel", module=GOMP)
    block = tree.does(tree.call(fork, "main._omp_fn.0"), 100)
    root = tree.thread(1)
    tree.does(tree.call(tree.call(root, "start", module=GOMP), "main._omp_fn.0", entries=2), 200, block)
    tree.threads.append(type(tree.threads[-1])(2, 0, root, 0, 1))
    replayed = replay_on(tree.signature(), host(), threads=threads)
    assert busy_s(replayed) == pytest.approx(300 * STEP_S)
    assert replayed.makespan_s == pytest.approx(300 / (threads or 3) * STEP_S, rel=1e-6)


def test_a_region_below_the_call_that_creates_its_threads_is_one():
    """As in trees of earlier releases."""
    tree = Tree()
    above = tree.call(tree.thread(), "main")
    for name, module in (("_dl_allocate_tls_init", "/lib/ld.so"), ("pthread_create", "/lib/libc.so.6"),
                         ("gomp_team_start", GOMP), ("GOMP_parallel", GOMP)):  # fmt: skip
        above = tree.call(above, name, module=module)
    block = tree.does(tree.call(above, "main._omp_fn.0"), 100)
    for number in (1, 2):
        tree.does(tree.call(tree.call(tree.thread(number), "start", module=GOMP), "main._omp_fn.0"), 100, block)
    replayed = replay_on(tree.signature(), host())
    assert replayed.outcome.busy_s.tolist() == pytest.approx([100 * STEP_S] * 3)
    assert replayed.makespan_s == pytest.approx(100 * STEP_S)


@pytest.mark.parametrize("barrier", ["GOMP_barrier", "GOMP_loop_end", "__kmpc_barrier"])
def test_a_team_meets_inside_of_a_region(barrier):
    """Before the barrier one thread works longer, behind it the other one; so in each of ten iterations."""
    tree, blocks = Tree(), [None, None]
    for number, works in enumerate(((100, 300), (300, 100))):
        above = tree.call(tree.thread(number), "main" if not number else "start")
        above = tree.call(above, "GOMP_parallel", module=GOMP) if not number else above
        loop = tree.loop(tree.call(above, "main._omp_fn.0"), 10)
        blocks[0] = tree.does(tree.call(loop, "before", entries=10, site=1), 10 * works[0], blocks[0])
        tree.call(loop, barrier, entries=10, site=2, module=GOMP)
        blocks[1] = tree.does(tree.call(loop, "behind", entries=10, site=3), 10 * works[1], blocks[1])
        tree.call(loop, barrier, entries=10, site=4, module=GOMP)
    replayed = replay_on(tree.signature(), host())
    assert replayed.makespan_s == pytest.approx(10 * 600 * STEP_S)
    assert replay_on(tree.signature(), host(), threads=1).makespan_s == pytest.approx(10 * 800 * STEP_S)


def test_the_runtime_of_one_thread_alone_works():
    """Where nobody else is, nobody waits."""
    tree = Tree()
    fork = tree.call(tree.call(tree.thread(), "main"), "GOMP_parallel", module=GOMP)
    tree.does(fork, 30)
    tree.does(tree.call(fork, "main._omp_fn.0"), 100)
    replayed = replay_on(tree.signature(), host())
    assert replayed.makespan_s == pytest.approx(130 * STEP_S) == predict(tree.signature(), host()).time_s


def test_programs_that_hold_more_or_less_than_was_predicted_are_refused():
    made = [ThreadProgram("thread 0", (Repeat(3, ()),), True)]
    check_conserved(made, 0.0)
    with pytest.raises(PredictionError, match=r"hold 0 s of work where 1 s were predicted; this is a bug"):
        check_conserved(made, 1.0)


@st.composite
def programs(draw):
    """Trees with regions at random places, in loops and functions, with locks and barriers in them."""
    tree = Tree()
    blocks, entries_of = {}, {}

    def fill(node, entries, depth, region, names):
        for number in range(draw(st.integers(0, 3))):
            what = draw(st.sampled_from(names))
            site = 10 * number + 1
            often = max(1, draw(st.sampled_from([entries, 2 * entries, entries // 3])))
            if what == "work":
                one = tree.call(node, "work", entries=often, site=site)
                blocks[depth] = tree.does(one, draw(st.integers(1, 50_000)), blocks.get(depth))
            elif what == "loop" and depth < 4:
                fill(
                    tree.loop(node, often * draw(st.integers(1, 50)), entries=entries), often, depth + 1, region, names
                )
            elif what == "call" and depth < 4:
                fill(tree.call(node, f"f{depth}", entries=often, site=site), often, depth + 1, region, names)
            elif what == "lock":
                tree.call(node, "omp_set_lock", entries=entries, site=site, module=GOMP)
                blocks[depth] = tree.does(
                    tree.call(node, "in lock", entries=entries, site=site + 1), 9, blocks.get(depth)
                )
                tree.call(node, "omp_unset_lock", entries=entries, site=site + 2, module=GOMP)
            elif what == "barrier":
                tree.call(node, "GOMP_barrier", entries=often, site=site, module=GOMP)
            elif what == "region":
                name = f"main._omp_fn.{draw(st.integers(0, 2))}"
                fork = tree.call(node, "GOMP_parallel", entries=often, site=site, module=GOMP)
                entries_of[name] = entries_of.get(name, 0) + often
                fill(tree.call(fork, name, entries=often), often, depth + 1, True, inner)

    inner = ["work", "loop", "call", "lock", "barrier"]
    fill(tree.call(tree.thread(), "main"), 1, 0, False, ["work", "loop", "call", "region", "region"])
    for number in range(1, draw(st.integers(1, 3))):
        start = tree.call(tree.thread(number), "start", module=GOMP)
        for name in [*entries_of, *draw(st.sampled_from([[], ["main._omp_fn.9"]]))]:
            fill(tree.call(start, name, entries=max(entries_of.get(name, 1), 1)), 1, 1, True, inner)
    if not tree.work:
        tree.does(0, 1)
    return tree.signature()


@settings(max_examples=examples(40), deadline=None)
@given(programs(), st.sampled_from([1, 2, 3, 8]))
def test_all_time_that_was_predicted_is_replayed_once(signature, threads):
    node = Node.of(Workload.of(signature), host(), 8, 1, None, None)
    work = node.work
    has_team = bool(work.all_parallel(work.tree.threads[0].root))
    for asked in (None, threads) if has_team else (None,):
        outcome, _ = replace(node, threads=asked).simulate(0)
        assert outcome.work_s == pytest.approx(work.predicted_s - work.waited_s, rel=1e-6)


SITES = r"""
#include <stdio.h>
static double a[4096];
static void __attribute__((noinline)) sweep(void) {
    #pragma omp parallel for schedule(static)
    for (int i = 0; i < 4096; i++) {
        double x = a[i];
        for (int k = 0; k < 200; k++) x = x * 1.0000001 + 1e-9;
        a[i] = x;
    }
}
int main(void) {
    sweep();
#if K > 1
    sweep();
#endif
#if K > 2
    sweep();
    sweep();
#endif
    printf("%g\n", a[5]);
    return 0;
}
"""


@sweep("traced_threads", ["1", "2", "4"], ["4"])
def test_traced_call_sites_take_as_long_as_predicted(compile_c, tmp_path, monkeypatch, traced_threads):
    monkeypatch.setenv("OMP_NUM_THREADS", traced_threads)
    run = run_traced(tmp_path, compile_c(SITES, "-O2", "-g", "-fopenmp", "-DK=4"))
    assert run.signature.provenance.thread_settings == {}
    machine = find("epyc-9654")
    loops = predict(run.signature, machine).loops
    # How long the runtime spun while the program was traced hangs on other work; replays leave it out.
    alone_s = sum(loop.time_s for loop in loops if not loop.place.module.startswith("libgomp"))
    assert replay_on(run.signature, machine, threads=1).makespan_s == pytest.approx(alone_s, rel=0.02)
    assert replay_on(run.signature, machine, threads=4).makespan_s == pytest.approx(alone_s / 4, rel=0.05)
