"""Replays of execution trees: order and repetitions, teams of parallel regions, threads that are created and joined."""

import pytest
from replay_samples import measured_host, with_changes
from tree_samples import Tree

from foretrace.base.errors import PredictionError
from foretrace.replay.node.machine_run import Offloading
from foretrace.replay.node.replay import replay_on
from foretrace.replay.prediction.predict import predict
from foretrace.tracer.signature.tree_records import SynchronisationKind, TreeNodeKind


def host(cores=4, **waking):
    """Threads that wait go on at once, unless said otherwise."""
    base = measured_host()
    source = {name: "here" for name in (*base.core.source, "cores") if waking.get(name, 0) is not None}
    return with_changes(base, core=with_changes(base.core, cores=cores, **waking, source=source))


STEP_S = 1000e-9
"""Of a thousand instructions at one a cycle of 1 GHz."""


def test_a_tree_of_one_thread_takes_the_predicted_time():
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    tree.does(main, 7)
    outer = tree.loop(main, 13)
    tree.does(outer, 13)
    for entries in (13, 5, 40):  # as often as the loop runs, more seldom, and more often than that
        tree.does(tree.loop(outer, entries * 6, entries=entries), entries * 6)
    signature = tree.signature()
    replayed = replay_on(signature, host())
    assert replayed.makespan_s == pytest.approx(predict(signature, host()).time_s, rel=1e-9)
    assert replayed.threads == 1
    assert sum(part.time_s for part in replayed.critical_path) == pytest.approx(replayed.makespan_s)


def test_the_order_of_the_timeline_is_that_of_the_tree():
    tree = Tree()
    loop = tree.loop(tree.call(tree.thread(), "main"), 2)
    for name in ("product", "dot", "update"):
        tree.does(tree.call(loop, name, entries=2), 2)
    activities = list(replay_on(tree.signature(), host()).timeline_frame["activity"])
    assert [name.split()[1] for name in activities] == ["0", "1", "2"] * 2


def test_loops_of_many_iterations_cost_few_events():
    tree = Tree()
    loop = tree.loop(tree.call(tree.thread(), "main"), 10**9)
    tree.does(loop, 10**9, instructions=10)
    tree.does(tree.call(loop, "inner", entries=10**9), 10**9, instructions=10)
    replayed = replay_on(tree.signature(), host())
    assert replayed.makespan_s == pytest.approx(20.0)
    assert replayed.outcome.events_simulated < 1000


def openmp(works, entries=10, serial=5, wakes=0):
    """A loop around a parallel region; `works` are the executions of each thread in all. The runtime spins, or threads
    wake each other there."""
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    loop = tree.loop(main, entries)
    tree.does(loop, entries * serial)
    runtime = tree.call(loop, "GOMP_parallel", entries=entries, module="/lib/libgomp.so.1")
    body = tree.call(runtime, "main._omp_fn.0", entries=entries)
    block = tree.does(body, works[0])
    spin = tree.call(runtime, "spin", entries=entries, module="/lib/libgomp.so.1")
    spins = tree.does(spin, 10_000)
    for number, work in enumerate(works[1:], 1):
        start = tree.call(tree.thread(number), "start", module="/lib/libgomp.so.1")
        tree.does(start, 50_000, spins)
        tree.does(tree.call(start, "main._omp_fn.0", entries=entries), work, block)
        if wakes:
            tree.waits(SynchronisationKind.WAKE, 0, number, wakes, source_node=spin, target_node=start)
    return tree.signature()


@pytest.mark.parametrize("threads", [None, 2])
def test_a_region_below_a_call_that_creates_threads_runs_once(threads):
    """Trees that were recorded wrongly have such; the program's work stays what it was."""
    tree = Tree()
    create = tree.call(tree.call(tree.thread(), "main"), "pthread_create", entries=2, module="/lib/libc.so.6")
    tree.does(create, 2)
    block = tree.does(tree.call(create, "main._omp_fn.0"), 30)
    for number in (1, 2):
        start = tree.call(tree.thread(number), "start", module="/lib/libgomp.so.1")
        tree.does(tree.call(start, "main._omp_fn.0"), 30, block)
    signature = tree.signature()
    replayed = replay_on(signature, host(), threads=threads)
    assert replayed.outcome.busy_s.sum() == pytest.approx((2 + 90) * STEP_S)


@pytest.mark.parametrize("wakes", [0, 3, 20])
def test_how_threads_waited_when_they_were_traced_does_not_matter(wakes):
    """Ten entries have twenty waits; the other thread works longer, and the first one waits for it."""
    machine = host(line_transfer_latency_s=1e-6, thread_wake_latency_s=5e-6)
    replayed = replay_on(openmp((40, 100), wakes=wakes), machine)
    assert replayed.makespan_s == pytest.approx((50 + 100) * STEP_S + 20 * 1e-6)


def test_a_team_takes_its_slowest_thread():
    """Each entry is as long as the longest share; what the runtime spun is waiting."""
    replayed = replay_on(openmp((40, 100, 60)), host())
    assert replayed.makespan_s == pytest.approx((50 + 100) * STEP_S)
    busy_s = replayed.outcome.busy_s.tolist()
    assert busy_s == pytest.approx([90 * STEP_S, 100 * STEP_S, 60 * STEP_S])
    path = {part.activity.split()[1]: part.time_s for part in replayed.critical_path if part.share > 1e-9}
    assert path == pytest.approx({"0": 50 * STEP_S, "1": 100 * STEP_S})
    assert any("spun in the runtime" in warning for warning in replayed.warnings)
    assert not any("one core doing all" in warning for warning in replayed.warnings)


@pytest.mark.parametrize(("threads", "parallel"), [(1, 200), (2, 100), (4, 50)])
def test_a_team_of_another_size_divides_the_work_evenly(threads, parallel):
    replayed = replay_on(openmp((100, 100)), host(), threads=threads)
    assert replayed.makespan_s == pytest.approx((50 + parallel) * STEP_S)
    assert replayed.threads == threads


def test_a_team_of_another_size_keeps_its_imbalance():
    """Blocks of iterations that take 100 and 300: of four threads, two take 50 and two 150; of one, 400."""
    for threads, busiest in ((4, 150), (3, 200), (1, 400)):
        replayed = replay_on(openmp((100, 300)), host(), threads=threads)
        assert replayed.makespan_s == pytest.approx((50 + busiest) * STEP_S), threads


def test_a_team_shares_fewer_cores():
    assert replay_on(openmp((100, 100)), host(), cores=1).makespan_s == pytest.approx((50 + 200) * STEP_S)


def test_copies_of_a_team():
    replayed = replay_on(openmp((100, 100)), host(), copies=2)
    assert replayed.makespan_s == pytest.approx(150 * STEP_S)
    assert len(replayed.entities_frame) == 4
    replayed = replay_on(openmp((100, 100)), host(), copies=4)
    assert replayed.makespan_s > 150 * STEP_S
    assert any("8 threads share 4 cores" in warning for warning in replayed.warnings)


def pthreads(works, *, joined=True, rounds=1):
    """Rounds in which a thread for each work is created and joined, between 10 steps before and 20 behind."""
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    tree.does(main, 10)
    body = main if rounds == 1 else tree.loop(main, rounds)
    for _ in works:
        tree.call(body, "pthread_create", entries=rounds)
    if joined:
        for _ in works:
            tree.call(body, "pthread_join@@GLIBC_2.34", entries=rounds)
    tree.does(tree.call(body, "tail", entries=rounds), 20)
    for number in range(rounds):
        for offset, work in enumerate(works):
            tree.does(tree.call(tree.thread(1 + number * len(works) + offset), "worker"), work)
    return tree.signature()


def test_threads_are_created_and_joined():
    replayed = replay_on(pthreads((100, 300)), host())
    assert replayed.makespan_s == pytest.approx((10 + 300 + 20) * STEP_S)
    assert replay_on(pthreads((100, 300)), host(), cores=1).makespan_s == pytest.approx((10 + 400 + 20) * STEP_S)


def test_threads_that_nobody_joins_run_on():
    assert replay_on(pthreads((100, 300), joined=False), host()).makespan_s == pytest.approx((10 + 300) * STEP_S)


def test_loops_that_create_threads_are_unrolled():
    replayed = replay_on(pthreads((100, 300), rounds=3), host())
    assert replayed.makespan_s == pytest.approx((10 + 3 * 300 + 20) * STEP_S)
    assert len(replayed.entities_frame) == 7


@pytest.mark.parametrize("waited_for", [(), (3, 4), (4, 5), (1, 4), (3, 4, 5, 6), (6,)])
def test_a_join_without_an_edge_waits_for_a_thread_that_is_there(waited_for):
    """A join of a thread that had ended has no edge."""
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    body = tree.loop(main, 3)
    creates = [tree.call(body, "pthread_create", entries=3) for _ in range(2)]
    joins = [tree.call(body, "pthread_join", entries=3) for _ in range(2)]
    for number in range(1, 7):
        root = tree.thread(number, parent=0)
        tree.does(tree.call(root, "worker"), 100 * number)
        place = (number - 1) % 2
        tree.waits(SynchronisationKind.CREATE, 0, number, source_node=creates[place], target_node=root)
        if number in waited_for:
            tree.waits(SynchronisationKind.JOIN, number, 0, source_node=root, target_node=joins[place])
    replayed = replay_on(tree.signature(), host())
    assert replayed.makespan_s == pytest.approx((200 + 400 + 600) * STEP_S)


def test_threads_that_no_call_created_begin_with_the_program():
    tree = Tree()
    tree.does(tree.call(tree.thread(), "main"), 10)
    tree.does(tree.call(tree.thread(1), "worker"), 30)
    replayed = replay_on(tree.signature(), host())
    assert replayed.makespan_s == pytest.approx(30 * STEP_S)
    assert any("who began 1 threads is not known" in warning for warning in replayed.warnings)


def barriers(first, second):
    """Two threads in a loop of ten steps each and a barrier."""
    tree = Tree()
    for number, (entries, work) in enumerate((first, second)):
        loop = tree.loop(tree.call(tree.thread(number), "worker"), entries)
        tree.does(loop, work)
        tree.call(loop, "pthread_barrier_wait", entries=entries)
    return tree.signature()


def test_barriers_of_threads():
    replayed = replay_on(barriers((10, 100), (10, 50)), host())
    assert replayed.outcome.seconds("barrier").tolist() == pytest.approx([0, 50 * STEP_S])
    assert replayed.outcome.end_s.tolist() == pytest.approx([100 * STEP_S] * 2)


def test_barriers_that_contradict_each_other_are_left_out_and_said():
    replayed = replay_on(barriers((10, 100), (9, 45)), host())
    assert replayed.outcome.end_s.tolist() == pytest.approx([100 * STEP_S, 45 * STEP_S])
    assert any("differently often" in warning for warning in replayed.warnings)


def locked(threads, inside):
    """Threads in a loop of ten iterations: one step, and `inside` steps on line 2, between lock and unlock."""
    tree = Tree()
    blocks = [None, None]
    for number in range(threads):
        body = tree.loop(tree.call(tree.thread(number), "worker"), 10)
        blocks[0] = tree.does(tree.call(body, "before", entries=10), 10, blocks[0])
        tree.call(body, "pthread_mutex_lock", entries=10, site=1)
        blocks[1] = tree.does(body, 10 * inside, blocks[1])
        tree.call(body, "pthread_mutex_unlock", entries=10, site=3)
    return tree.signature()


@pytest.mark.parametrize(("inside", "steps"), [(1, 3 + 9 * 2), (3, 1 + 20 * 3)])
def test_critical_sections_serialise(inside, steps):
    """With one step inside only the first iteration waits; with three the lock is never free."""
    replayed = replay_on(locked(2, inside), host())
    assert replayed.makespan_s == pytest.approx(steps * STEP_S)
    assert replay_on(locked(1, inside), host()).makespan_s == pytest.approx(10 * (1 + inside) * STEP_S)
    assert any(use.kind == "lock" and use.waits for use in replayed.resources)


def test_threads_of_python_share_the_interpreter():
    tree = Tree()
    for number in range(2):
        body = tree.call(tree.thread(number), "work")
        block = tree.program.block(1, function=f"work {number}", instructions=10_000)
        tree.work.append((body, block, 1))
    signature = tree.signature(guest="python")
    replayed = replay_on(signature, host())
    alone_s = sum(loop.time_s for loop in predict(signature, host()).loops)
    assert replayed.makespan_s == pytest.approx(alone_s)
    assert next(use for use in replayed.resources if use.kind == "interpreter").utilisation == pytest.approx(1.0)
    assert replay_on(signature, host(), copies=2).makespan_s == pytest.approx(alone_s)


def test_other_numbers_of_threads_are_refused_where_nobody_knows_how_to_divide():
    with pytest.raises(PredictionError, match="4 threads of a program traced with 3: the signature does not say"):
        replay_on(pthreads((100, 300)), host(), threads=4)
    assert replay_on(pthreads((100, 300)), host(), threads=3).threads == 3


def test_offloading_is_replayed_for_one_thread():
    from replay_samples import accelerator

    with pytest.raises(PredictionError, match="offloading is replayed for one thread"):
        replay_on(openmp((100, 100)), host(), threads=2, offloading=Offloading(accelerator()))
    replayed = replay_on(openmp((100, 100)), host(), offloading=Offloading(accelerator()))
    assert any("one core doing all" in warning for warning in replayed.warnings)


def handed_out(works, chunks, entries=10):
    """A loop around a parallel region whose threads ask for `chunks` chunks in all, as often as they work."""
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    runtime = tree.call(tree.loop(main, entries), "GOMP_parallel", entries=entries, module="/lib/libgomp.so.1")
    block = None
    for number, work in enumerate(works):
        above = runtime if number == 0 else tree.call(tree.thread(number), "start", module="/lib/libgomp.so.1")
        body = tree.call(above, "main._omp_fn.0", entries=entries)
        block = tree.does(body, work, block)
        asks = chunks * work // sum(works) + entries  # the last time of each entry in vain
        asked = tree.call(body, "GOMP_loop_dynamic_next", entries=asks, module="/lib/libgomp.so.1")
        tree.call(asked, "GOMP_loop_nonmonotonic_dynamic_next@plt", entries=asks)
    return tree.signature()


@pytest.mark.parametrize("works", [(400,), (300, 100), (100, 300)])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_dynamic_schedule_has_no_imbalance_beyond_a_chunk(works, threads):
    """Which thread took how many chunks while it was traced does not matter."""
    replayed = replay_on(handed_out(works, chunks=400), host(), threads=threads)
    assert replayed.makespan_s == pytest.approx(400 / threads * STEP_S)
    assert not any("one thread was traced" in warning for warning in replayed.warnings)


def test_a_dynamic_schedule_is_divided_anew_as_traced_as_well():
    assert replay_on(handed_out((300, 100), chunks=400), host()).makespan_s == pytest.approx(200 * STEP_S)


def test_few_chunks_leave_threads_idle():
    """Three chunks an entry, of which one of two threads takes two; and no more than three of four threads take any."""
    for threads, most in ((2, 2 / 3), (4, 1 / 3)):
        replayed = replay_on(handed_out((300, 60), chunks=30), host(), threads=threads)
        assert replayed.makespan_s == pytest.approx(360 * most * STEP_S), threads


def test_tasks_are_divided_by_who_is_free():
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    runtime = tree.call(main, "GOMP_parallel", module="/lib/libgomp.so.1")
    region = tree.call(runtime, "main._omp_fn.0")
    barrier = tree.call(region, "GOMP_barrier", module="/lib/libgomp.so.1")
    block = tree.does(tree.call(barrier, "main._omp_fn.1", entries=48), 480)
    region = tree.call(tree.call(tree.thread(1), "start", module="/lib/libgomp.so.1"), "main._omp_fn.0")
    barrier = tree.call(region, "GOMP_barrier", module="/lib/libgomp.so.1")
    tree.does(tree.call(barrier, "main._omp_fn.1", entries=16), 160, block)
    for threads in (1, 2, 4):
        assert replay_on(tree.signature(), host(), threads=threads).makespan_s == pytest.approx(640 / threads * STEP_S)


def test_tasks_that_a_team_runs_where_it_meets_are_divided():
    """libgomp runs what is left of them in the fork, behind the region's function."""
    tree = Tree()
    runtime = tree.call(tree.call(tree.thread(), "main"), "GOMP_parallel", module="/lib/libgomp.so.1")
    tree.call(runtime, "main._omp_fn.0")
    end = tree.call(runtime, "gomp_team_end", module="/lib/libgomp.so.1")
    meets = tree.node(TreeNodeKind.LOOP, end, "loop", iterations=48, module="/lib/libgomp.so.1")
    block = tree.does(tree.call(meets, "main._omp_fn.1", entries=48), 480)
    region = tree.call(tree.call(tree.thread(1), "start", module="/lib/libgomp.so.1"), "main._omp_fn.0")
    tree.does(
        tree.call(tree.call(region, "GOMP_taskwait", module="/lib/libgomp.so.1"), "main._omp_fn.1", entries=16),
        160,
        block,
    )
    assert replay_on(tree.signature(), host()).makespan_s == pytest.approx((80 + 240) * STEP_S)


@pytest.mark.parametrize("first", [0, 16])
def test_tasks_that_waiting_threads_run_are_divided_among_all(first):
    """Below a thread's start, where the first thread runs some in a call of the region, or none."""
    tree = Tree()
    library = "/lib/libgomp.so.1"
    runtime = tree.call(tree.call(tree.thread(), "main"), "GOMP_parallel", module=library)
    wait = tree.call(tree.call(runtime, "main._omp_fn.0"), "GOMP_taskwait", module=library)
    block = tree.does(tree.call(wait, "main._omp_fn.1", entries=first), 10 * first) if first else None
    start = tree.call(tree.thread(1), "libgomp.so.1+0x10", module=library)
    tree.call(start, "main._omp_fn.0")
    handle = tree.call(tree.call(start, "libgomp.so.1+0x20", module=library), "libgomp.so.1+0x30", module=library)
    tree.does(tree.call(handle, "main._omp_fn.1", entries=48), 480, block)
    assert replay_on(tree.signature(), host()).makespan_s == pytest.approx((5 * first + 240) * STEP_S)


def test_that_goroutines_stay_where_they_ran_is_said():
    tree = Tree()
    for number in range(2):
        tree.does(tree.call(tree.call(tree.thread(number), "runtime.mstart"), "main.work"), 100)
    assert any("a Go program" in warning for warning in replay_on(tree.signature(), host()).warnings)


def test_nested_regions_are_no_tasks():
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    runtime = tree.call(main, "GOMP_parallel", module="/lib/libgomp.so.1")
    block = None
    for number, work in enumerate((300, 100)):
        above = runtime if not number else tree.call(tree.thread(number), "start", module="/lib/libgomp.so.1")
        nested = tree.call(tree.call(above, "main._omp_fn.0"), "GOMP_parallel", module="/lib/libgomp.so.1")
        block = tree.does(tree.call(nested, "main._omp_fn.1"), work, block)
    assert replay_on(tree.signature(), host()).makespan_s == pytest.approx(300 * STEP_S)


def test_tasks_that_the_first_thread_never_ran_are_not_lost():
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    runtime = tree.call(main, "GOMP_parallel", module="/lib/libgomp.so.1")
    block = tree.does(tree.call(runtime, "main._omp_fn.0"), 100)
    start = tree.call(tree.thread(1), "start", module="/lib/libgomp.so.1")
    tree.does(tree.call(start, "main._omp_fn.0"), 100, block)
    tree.does(tree.call(start, "main._omp_fn.1", entries=7), 70)
    assert sum(replay_on(tree.signature(), host()).outcome.busy_s) == pytest.approx(270 * STEP_S)
    assert replay_on(tree.signature(), host()).makespan_s == pytest.approx(170 * STEP_S)


def spinning_and_sleeping(take, give):
    """Two threads hold a lock ten times each."""
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    for name in ("pthread_create", "pthread_create", "pthread_join", "pthread_join"):
        tree.call(main, name)
    block = None
    for number in (1, 2):
        body = tree.loop(tree.call(tree.thread(number), "worker"), 10)
        tree.call(body, take, entries=10, site=1)
        block = tree.does(tree.call(body, "update", entries=10, site=2), 100, block)
        tree.call(body, give, entries=10, site=3)
    return tree.signature()


def test_a_lock_that_somebody_spins_for_takes_time_to_be_handed_over():
    """All times but the first, the other one waits for it."""
    signature = spinning_and_sleeping("pthread_spin_lock", "pthread_spin_unlock")
    machines = {
        1e-6: host(line_transfer_latency_s=1e-6),
        60e-9: host(line_transfer_latency_s=None),
    }
    found = {latency_s: replay_on(signature, machine) for latency_s, machine in machines.items()}
    for latency_s, replayed in found.items():
        assert replayed.makespan_s == pytest.approx(200 * STEP_S + 19 * latency_s)
        path = {part.activity: part.time_s for part in replayed.critical_path}
        assert path["transfer of a cache line"] == pytest.approx(19 * latency_s)
    assumed = [any("line_transfer" in str(text) for text in replayed.assumptions) for replayed in found.values()]
    assert assumed == [False, True]


def test_a_mutex_is_slept_for():
    """Each of two threads wakes the other one, takes the lock again meanwhile, and is woken in the end."""
    signature = spinning_and_sleeping("pthread_mutex_lock", "pthread_mutex_unlock")
    found = {wake_s: replay_on(signature, host(thread_wake_latency_s=wake_s)) for wake_s in (1e-12, 5e-6, 1.0)}
    path = {part.activity for part in found[5e-6].critical_path}
    assert "waking a thread" in path
    assert "transfer of a cache line" not in path
    assert found[1e-12].makespan_s == pytest.approx(200 * STEP_S)
    # begun, woken by the first of ten updates of the other one, which go on without it, and awaited
    assert found[1.0].makespan_s == pytest.approx(3 * 1.0 + (10 + 100) * STEP_S)


def test_that_one_thread_tells_no_imbalance_is_said():
    replayed = replay_on(openmp((100,)), host(), threads=2)
    assert any("one thread was traced: loops divided beforehand" in warning for warning in replayed.warnings)
    for threads in (None, 1):
        assert not any(
            "one thread was traced" in warning
            for warning in replay_on(openmp((100,)), host(), threads=threads).warnings
        )


def triangular(rounds, iterations=8, even=0):
    """One thread's parallel region, entered `rounds` times: iteration i of its loop does 2 i + 1 steps in a loop."""
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    runtime = tree.call(main, "GOMP_parallel", entries=rounds, module="/lib/libgomp.so.1")
    region = tree.call(runtime, "main._omp_fn.0", entries=rounds)
    shared = tree.node(TreeNodeKind.LOOP, region, "loop", entries=rounds, iterations=rounds * iterations)
    inner = tree.node(TreeNodeKind.LOOP, shared, "loop", entries=rounds * iterations, iterations=rounds * iterations**2)
    block = tree.does(inner, rounds * iterations**2)
    if even:
        tree.does(shared, even, block)
    tree.rounds[inner] = [(rounds, rounds * (2 * i + 1), 1) for i in range(iterations)]
    tree.most[shared] = iterations
    return tree.signature()


@pytest.mark.parametrize("rounds", [1, 3, 100])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_triangular_loop_traced_with_one_thread_is_as_uneven_as_it_is(rounds, threads):
    """The last of N blocks has 1 - (1 - 1/N)^2 of the work; what is the same in each iteration is divided evenly."""
    last = 1 - (1 - 1 / threads) ** 2
    for even in (0, 640):
        replayed = replay_on(triangular(rounds, even=even), host(), threads=threads)
        assert replayed.makespan_s == pytest.approx((64 * rounds * last + even / threads) * STEP_S)


def test_loops_of_changing_length_are_divided_evenly():
    tree_of_rounds = triangular(2)
    most = tree_of_rounds.tree.most
    most[most > 0] += 1  # one of the two rounds is shorter
    assert replay_on(tree_of_rounds, host(), threads=2).makespan_s == pytest.approx(64 * STEP_S)
