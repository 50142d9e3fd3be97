"""Replays of threads that wait for one another, and of phases: semaphores, shared locks, creation and ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_samples import measured_host, with_changes
from tree_samples import Tree

from foretrace.replay.engine.program import Entity, Post, Repeat, Run, Sharing, System, Wait
from foretrace.replay.engine.simulation import simulate
from foretrace.replay.node.replay import replay_on
from foretrace.replay.node.speedup import predict_threads
from foretrace.replay.prediction.predict import predict
from foretrace.replay.threads.stops import Stops, finished, repeated, units_at_start
from foretrace.tracer.signature.file import check_tables
from foretrace.tracer.signature.tree_records import SynchronisationKind, check_tree
from foretrace.tracer.signature.tree_tables import TREE_TABLES

CREATE, JOIN, WAKE, _ = SynchronisationKind
STEP_S = 1000e-9
"""Of a thousand instructions at one a cycle of 1 GHz."""


def host(cores=4):
    """On which handing over a lock costs nothing."""
    base = measured_host()
    source = {**base.core.source, "cores": "here", "line_transfer_latency_s": "here"}
    return with_changes(base, core=with_changes(base.core, cores=cores, line_transfer_latency_s=0.0, source=source))


class Turns:
    """A thread that in each of `rounds` waits for a condition variable, works, and signals one."""

    def __init__(self, tree, number, rounds, steps, waited, *, work_first=False):
        self.loop = tree.loop(tree.call(tree.thread(number), "worker"), rounds)
        if work_first:
            tree.does(tree.call(self.loop, "work", entries=rounds, site=1), rounds * steps)
        tree.call(self.loop, "pthread_mutex_lock", entries=rounds, site=2)
        test = tree.loop(self.loop, waited, entries=waited)
        self.wait = tree.call(test, "pthread_cond_wait@@GLIBC_2.3.2", entries=waited, site=3)
        tree.call(self.loop, "pthread_mutex_unlock", entries=rounds, site=4)
        if not work_first:
            tree.does(tree.call(self.loop, "work", entries=rounds, site=5), rounds * steps)
        self.signal = tree.call(self.loop, "pthread_cond_signal", entries=rounds, site=6)


@pytest.mark.parametrize("waited", [(39, 40), (12, 30), (1, 1)])
def test_threads_that_take_turns_run_one_after_the_other(waited):
    """However often they had to wait when they were traced."""
    tree = Tree()
    one, other = (Turns(tree, number, 40, 5, waited[number]) for number in range(2))
    tree.waits(WAKE, 0, 1, waited[1], source_node=one.signal, target_node=other.wait)
    tree.waits(WAKE, 1, 0, waited[0], source_node=other.signal, target_node=one.wait)
    replayed = replay_on(tree.signature(), host())
    assert replayed.makespan_s == pytest.approx(2 * 40 * 5 * STEP_S)


@pytest.mark.parametrize(("steps", "expected"), [((5, 2), 40 * 5 + 2), ((2, 5), 2 + 40 * 5), ((3, 3), 41 * 3)])
def test_a_producer_and_a_consumer_overlap(steps, expected):
    """The slower one is never kept waiting but for the first item, or behind the last."""
    tree = Tree()
    producer = Turns(tree, 0, 40, steps[0], 30, work_first=True)
    consumer = Turns(tree, 1, 40, steps[1], 11)
    tree.waits(WAKE, 0, 1, 11, source_node=producer.signal, target_node=consumer.wait)
    tree.waits(WAKE, 1, 0, 30, source_node=consumer.signal, target_node=producer.wait)
    replayed = replay_on(tree.signature(), host())
    assert replayed.makespan_s == pytest.approx(expected * STEP_S)


def test_a_bare_futex_is_waited_for_as_often_as_it_was():
    """One thread works ten rounds of 4 steps, another one 20 of 1, and waits for the first one in every second."""
    tree = Tree()
    loops = []
    for number, (rounds, steps) in enumerate(((10, 4), (20, 1))):
        loop = tree.loop(tree.call(tree.thread(number), "run"), rounds)
        tree.does(tree.call(loop, "work", entries=rounds), rounds * steps)
        loops.append(tree.call(loop, ("wake", "park")[number], entries=10))
    tree.waits(WAKE, 0, 1, 10, source_node=loops[0], target_node=loops[1])
    replayed = replay_on(tree.signature(), host())
    assert replayed.outcome.end_s.tolist() == pytest.approx([40 * STEP_S, 41 * STEP_S])


def test_calls_that_waited_for_each_other_take_the_same_lock():
    """Two functions with a critical section each: 3 steps a round in it, of 4."""

    def made(edges):
        tree = Tree()
        calls = []
        for number in range(2):
            body = tree.loop(tree.call(tree.thread(number), f"worker{number}"), 10)
            tree.does(tree.call(body, "before", entries=10), 10)
            lock = tree.call(body, "pthread_mutex_lock", entries=10, site=10 * number + 1)
            tree.does(tree.call(body, "update", entries=10, site=10 * number + 2), 30)
            calls.append((lock, tree.call(body, "pthread_mutex_unlock", entries=10, site=10 * number + 3)))
        if edges:
            tree.waits(WAKE, 0, 1, 1, source_node=calls[0][1], target_node=calls[1][0])
        return replay_on(tree.signature(), host()).makespan_s

    assert made(edges=False) == pytest.approx(40 * STEP_S)
    assert made(edges=True) == pytest.approx((1 + 2 * 30) * STEP_S)


def test_edges_say_who_creates_a_thread_and_who_waits_for_its_end():
    """The first thread creates the second one, which creates the third one and waits for it."""
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    tree.does(main, 10)
    created = [tree.call(main, "pthread_create")]
    second = tree.call(tree.thread(1), "second")
    tree.does(second, 20)
    created.append(tree.call(second, "pthread_create"))
    joined = tree.call(second, "pthread_join")
    tree.does(tree.call(second, "tail"), 5)
    tree.does(tree.call(tree.thread(2), "third"), 30)
    tree.waits(CREATE, 1, 2, source_node=created[1])
    tree.waits(CREATE, 0, 1, source_node=created[0])
    tree.waits(JOIN, 2, 1, target_node=joined)
    replayed = replay_on(tree.signature(), host())
    assert replayed.outcome.end_s.tolist() == pytest.approx([10 * STEP_S, 65 * STEP_S, 60 * STEP_S])
    assert not any("not known" in warning for warning in replayed.warnings)


def test_phases_are_replayed_in_order():
    """A loop of 3 iterations; an inner loop has 20,000 iterations in the first two of them, and 80,000 in the last."""
    tree = Tree()
    outer = tree.loop(tree.call(tree.thread(), "main"), 3)
    inner = tree.loop(tree.call(outer, "solve", entries=3), 120_000, entries=3)
    tree.phases[inner] = [(2, 40_000), (1, 80_000)]
    tree.does(inner, 120_000)
    tree.does(tree.call(outer, "rest", entries=3), 3000)
    signature = tree.signature()
    check_tables(signature, TREE_TABLES)
    check_tree(signature.tree)
    replayed = replay_on(signature, host())
    assert replayed.makespan_s == pytest.approx(predict(signature, host()).time_s, rel=1e-9)
    table = replayed.timeline_frame
    taken_s = (table["end_s"] - table["start_s"]).tolist()
    assert taken_s == pytest.approx([steps * STEP_S for steps in (20_000, 1000, 20_000, 1000, 80_000, 1000)])


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 30)), min_size=1, max_size=4), st.integers(1, 40))
def test_stops_are_spread_over_the_runs_of_a_body(stops, count):
    """Each body runs as often as it should, and a stop at most once a run happens as often, to within a group."""
    body = [Run("work", 1.0, Sharing())]
    body += [Stops(f"s{number}", is_wait, total, 1, None) for number, (is_wait, total) in enumerate(stops)]
    program = finished(repeated(count, body, 1))

    def found(parts, part_type, name=None):
        return sum(
            part.count * found(part.body, part_type, name)
            if isinstance(part, Repeat)
            else (1 if part_type is Run else part.units)
            if isinstance(part, part_type) and (name is None or part.name == name)
            else 0
            for part in parts
        )

    assert found(program, Run) == count
    most = max(total for _, total in stops)
    for number, (is_wait, total) in enumerate(stops):
        units = found(program, Wait if is_wait else Post, f"s{number}")
        assert units == total if total == most and total <= count else units > 0


def test_semaphores_begin_with_what_the_program_needs():
    turn = (Repeat(10, (Wait("a"), Post("b"))),), (Repeat(10, (Wait("b"), Post("a"))),)
    programs = {"one": (turn[0], True), "other": (turn[1], True)}
    units = units_at_start(programs, {})
    assert sum(units.values()) == 1
    taken = (Repeat(7, (Wait("c"),)),)
    assert units_at_start({"one": (taken, True)}, {}) == {"c": 7}
    outcome = simulate(System(semaphores=units), [Entity(name, program) for name, (program, _) in programs.items()])
    assert outcome.end_s.tolist() == [0.0, 0.0]


def readers_and_writer(tree, number, reads, writes, *, is_merged=False):
    """A thread that reads, or writes, under a lock in each iteration; both end in the same call if `is_merged`."""
    body = tree.loop(tree.call(tree.thread(number), "worker"), reads + writes)

    def locked(take, times, line):
        if times:
            tree.call(body, take, entries=times, site=line)
            tree.does(tree.call(body, "inside", entries=times, site=line + 1), times)

    def give_back(times, line):
        if times:
            tree.call(body, "pthread_rwlock_unlock", entries=times, site=line)

    locked("pthread_rwlock_wrlock", writes, 10)
    give_back(reads + writes if is_merged else writes, 12)
    locked("pthread_rwlock_rdlock", reads, 20)
    give_back(0 if is_merged else reads, 22)


@pytest.mark.parametrize(("work", "steps"), [([(50, 0)] * 3, 50), ([(0, 50)] * 3, 150), ([(50, 0), (0, 50)], 100)])
def test_readers_overlap_and_writers_exclude(work, steps):
    tree = Tree()
    for number, (reads, writes) in enumerate(work):
        readers_and_writer(tree, number, reads, writes)
    replayed = replay_on(tree.signature(), host())
    assert replayed.makespan_s == pytest.approx(steps * STEP_S)
    assert predict_threads(tree.signature(), host(), [len(work)])[0].time_s == pytest.approx(steps * STEP_S)


@pytest.mark.parametrize(("reads", "writes"), [(40, 10), (10, 40)])
def test_branches_that_end_in_the_same_call_hold_the_lock_as_long_as_apart(reads, writes):
    apart, merged = Tree(), Tree()
    for number in range(2):
        readers_and_writer(apart, number, reads, writes)
        readers_and_writer(merged, number, reads, writes, is_merged=True)
    apart_s, merged_s = (replay_on(tree.signature(), host()).makespan_s for tree in (apart, merged))
    assert merged_s == pytest.approx(apart_s)
    assert merged_s > (reads + writes + writes / 2) * STEP_S


LOCKS_OF_RUST = [
    ("<std::sys::sync::mutex::futex::Mutex>::wake", "<std::sys::sync::mutex::futex::Mutex>::lock_contended"),
    ("_ZN3std3sys4sync5mutex5futex5Mutex4wake17hE", "_ZN3std3sys4sync5mutex5futex5Mutex14lock_contended17hE"),
    ("_RNvMNtNt3std5mutex5futexNtB2_5Mutex4wake", "_RNvMNtNt3std5mutex5futexNtB2_5Mutex14lock_contended"),
]


@pytest.mark.parametrize(("wake", "wait"), LOCKS_OF_RUST)
def test_contention_of_a_lock_that_compilers_inline_is_no_order(wake, wait):
    """Rust's mutexes: what waited for them would else be taken for a semaphore."""
    tree, calls = Tree(), []
    for number in range(2):
        loop = tree.loop(tree.call(tree.thread(number), "worker"), 100)
        tree.does(loop, 100)
        taking = tree.call(tree.call(loop, wait, entries=60), "syscall", entries=60, module="/lib/libc.so.6")
        giving = tree.call(tree.call(loop, wake, entries=60), "syscall", entries=60, module="/lib/libc.so.6")
        calls.append((taking, giving))
    for source, target in ((0, 1), (1, 0)):
        tree.waits(WAKE, source, target, 60, source_node=calls[source][1], target_node=calls[target][0])
    replayed = replay_on(tree.signature(), host())
    assert "semaphore" not in replayed.outcome.compiled.object_kinds


def test_a_thread_that_takes_the_units_of_another_one_keeps_nobody_waiting_forever():
    """Idle threads come to their end in the order of their numbers.

    With work the second one is late: the third takes its units, and gives none.
    """
    tree = Tree()
    threads = [tree.call(tree.thread(number), "worker") for number in range(4)]
    tree.does(threads[1], 50)
    first = tree.call(threads[0], "sem_post", site=1)
    second = tree.call(threads[1], "sem_wait", entries=2, site=2), tree.call(threads[1], "sem_post", site=3)
    third = tree.call(threads[2], "sem_wait", site=4)
    fourth = tree.call(threads[3], "sem_wait", site=5), tree.call(threads[3], "sem_post", site=6)
    tree.waits(WAKE, 0, 1, source_node=first, target_node=second[0])
    tree.waits(WAKE, 3, 2, source_node=fourth[1], target_node=third)
    tree.waits(WAKE, 0, 2, source_node=first, target_node=third)
    tree.waits(WAKE, 1, 3, source_node=second[1], target_node=fourth[0])
    replayed = replay_on(tree.signature(), host())
    assert replayed.makespan_s == pytest.approx(50 * STEP_S)
    assert any("threads wait less than they did at 1 places" in warning for warning in replayed.warnings)
