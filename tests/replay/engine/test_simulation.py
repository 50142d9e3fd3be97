"""The event loop: closed forms, its slow twin on random programs, folding, deadlocks."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
import simpy
from effort import examples
from engine_reference import Reference, exact_filling, progressive_filling
from hypothesis import example, given, settings
from hypothesis import strategies as st

from foretrace.base.errors import PredictionError
from foretrace.replay.engine import _engine
from foretrace.replay.engine.program import (
    Barrier,
    Broadcast,
    Entity,
    Join,
    Lock,
    Offer,
    Post,
    Repeat,
    Run,
    Sharing,
    Sleep,
    Spawn,
    System,
    Timed,
    Unlock,
    Use,
    Wait,
    Waking,
)
from foretrace.replay.engine.simulation import Choice, DeadlockError, simulate

CPU = Sharing("cores")
ALL_MEMORY = Sharing("cores", None, ("memory",), ((1.0, 10.0),))


def work(time_s, label="work", sharing=CPU):
    return Run(label, time_s, sharing)


def threads(*programs):
    return [Entity(f"thread {number}", tuple(program)) for number, program in enumerate(programs)]


def cores(count, **other):
    return System(cores={"cores": count}, **other)


# ---- closed forms ----


@given(st.lists(st.floats(0, 1e6), max_size=40))
def test_one_thread_is_the_sum_to_the_last_digit(times_s):
    total_s = 0.0
    for time_s in times_s:
        total_s += time_s
    assert simulate(cores(1), threads([work(time_s) for time_s in times_s])).makespan_s == total_s


@pytest.mark.parametrize(("count", "expected_s"), [(1, 6.0), (2, 3.0), (4, 3.0)])
def test_two_compute_bound_threads_share_cores(count, expected_s):
    outcome = simulate(cores(count), threads([work(3.0)], [work(3.0)]))
    assert outcome.makespan_s == expected_s
    assert outcome.core_s.tolist() == [6.0]


def test_bandwidth_bound_threads_take_the_curve():
    curve = (10.0, 18.0, 24.0, 26.0)
    for count in range(1, 7):
        outcome = simulate(cores(8, bandwidths={"memory": curve}), threads(*[[work(2.0, sharing=ALL_MEMORY)]] * count))
        given_each = curve[min(count, 4) - 1] / count
        assert outcome.makespan_s == pytest.approx(2.0 * 10.0 / given_each, rel=1e-12)
        assert outcome.bandwidth_bytes[0] == pytest.approx(20.0 * count)
        assert outcome.bandwidth_full_s[0] == pytest.approx(outcome.makespan_s)


def test_who_asks_for_little_bandwidth_is_not_slowed_down():
    """Demands 10, 10 and 2 share 12: 5, 5 and 2."""
    little = Sharing("cores", None, ("memory",), ((1.0, 2.0),))
    programs = [[work(1.0, sharing=share)] for share in (ALL_MEMORY, ALL_MEMORY, little)]
    outcome = simulate(cores(3, bandwidths={"memory": (12.0,)}), threads(*programs))
    assert outcome.end_s[2] == pytest.approx(1.0)
    assert outcome.end_s[0] == pytest.approx(1 + (1 - 0.5) / min(1, 6 / 10))


def test_jobs_divide_a_shared_cache_while_both_run():
    """A job alone runs at speed 1, two at half of it, until the shorter one ends."""
    shared = Sharing("cores", "L3", (), ((1.0, 0.0), (0.5, 0.0)))
    entities = [Entity(str(job), (work(time_s, sharing=shared),), job=job) for job, time_s in enumerate((1.0, 2.0))]
    outcome = simulate(System(cores={"cores": 2}, caches=("L3",)), entities)
    assert outcome.end_s.tolist() == [2.0, 3.0]
    alike = [Entity(str(number), (work(1.0, sharing=shared),)) for number in range(2)]
    assert simulate(System(cores={"cores": 2}, caches=("L3",)), alike).makespan_s == 1.0


def test_a_barrier_takes_the_slowest():
    times_s = (1.0, 3.0, 2.0)
    programs = [[work(time_s), Barrier("all"), work(1.0)] for time_s in times_s]
    outcome = simulate(cores(3, barriers={"all": 3}), threads(*programs))
    assert outcome.end_s.tolist() == [4.0] * 3
    assert outcome.seconds("barrier").tolist() == [2.0, 0.0, 1.0]
    assert outcome.path_s == {"work": 4.0}


def test_a_critical_section_serialises():
    programs = [[Lock("l"), work(1.0, "inside"), Unlock("l")]] * 4
    outcome = simulate(cores(4), threads(*programs))
    assert outcome.end_s.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert outcome.seconds("lock").tolist() == [0.0, 1.0, 2.0, 3.0]
    assert outcome.path_s == {"inside": 4.0}


def test_a_barrier_whose_threads_sleep_takes_the_slowest_and_a_wake_up():
    """The slowest calls the system twice; the others go on one after the other, a wake-up after the call for each."""
    waking = Waking(latency_s=4.0, call_s=0.5)
    times_s = (1.0, 3.0, 2.0)
    programs = [[work(time_s), Barrier("all", sleeps=True), work(1.0)] for time_s in times_s]
    outcome = simulate(cores(3, barriers={"all": 3}, waking=waking), threads(*programs))
    assert outcome.end_s.tolist() == [3 + 4 + 1, 3 + 2 * 0.5 + 1, 3 + 0.5 + 4 + 1]
    steps = [[Repeat(1000, (work(1.0), Barrier("all", sleeps=True)))]] * 2
    outcome = simulate(cores(2, barriers={"all": 2}, waking=waking), threads(*steps))
    assert outcome.makespan_s == pytest.approx(1000 * 1 + 999 * 4 + 4)


def test_a_barrier_whose_threads_spin_takes_the_slowest_and_a_transfer():
    programs = [[work(time_s), Barrier("all"), work(1.0)] for time_s in (1.0, 3.0)]
    outcome = simulate(cores(2, barriers={"all": 2}, waking=Waking(0.25, 4.0, 0.5)), threads(*programs))
    assert outcome.end_s.tolist() == [4.25, 4.0]


def test_a_contended_lock_of_spinning_threads_serialises_with_transfers():
    programs = [[Lock("l"), work(1.0), Unlock("l")]] * 4
    outcome = simulate(cores(4, waking=Waking(0.25, 4.0, 0.5)), threads(*programs))
    assert outcome.end_s.tolist() == [1.0, 2.25, 3.5, 4.75]


def test_a_contended_lock_of_sleeping_threads_serialises_with_wake_ups():
    """Who gives it back is busy calling; who is woken goes on a wake-up after that."""
    programs = [[Lock("l", sleeps=True), work(1.0), Unlock("l")]] * 4
    outcome = simulate(cores(4, waking=Waking(0.25, 4.0, 0.5)), threads(*programs))
    assert outcome.end_s.tolist() == [1.5, 6.5, 11.5, 16.0]  # nobody sleeps any more


def test_a_running_thread_takes_a_free_lock_before_the_woken_one():
    """One thread takes the lock again three times while the other one wakes up, which then finds it free."""
    often = [Repeat(4, (Lock("l", sleeps=True), work(1.0), Unlock("l"), work(0.5)))]
    once = [work(0.5), Lock("l", sleeps=True), work(1.0, "late"), Unlock("l")]
    outcome = simulate(cores(2, waking=Waking(0.0, 4.25, 0.5)), threads(often, once))
    # taken from 0 to 1, call to 1.5, then 2 to 3, 3.5 to 4.5, 5 to 6; woken at 1 + 4.25 while taken; again at 6
    assert outcome.end_s.tolist() == [6 + 0.5 + 0.5, 6 + 4.25 + 1]
    assert outcome.object_waits.tolist() == [2]


def test_a_thread_that_others_create_begins_a_wake_up_later():
    main = Entity("main", (work(1.0), Spawn("child", asleep=True), Join("child", sleeps=True)))
    child = Entity("child", (work(2.0, "child"),), born=False)
    outcome = simulate(cores(2, waking=Waking(0.0, 4.0, 0.5)), [main, child])
    assert outcome.makespan_s == 1 + 4 + 2 + 4


def test_the_critical_path_goes_through_who_is_waited_for():
    producer = [work(2.0, "produce"), Post("item"), work(0.5, "tidy")]
    consumer = [work(1.0, "prepare"), Wait("item"), work(3.0, "consume")]
    outcome = simulate(cores(2), threads(producer, consumer))
    assert outcome.makespan_s == 5.0
    assert outcome.path_s == {"consume": 3.0, "produce": 2.0}


def test_threads_begin_and_are_joined():
    main = Entity("main", (work(1.0), Spawn("child"), work(0.5), Join("child"), work(1.0)))
    child = Entity("child", (work(2.0, "child"),), born=False)
    outcome = simulate(cores(2), [main, child])
    assert outcome.makespan_s == 4.0
    assert outcome.path_s == {"work": 2.0, "child": 2.0}


def test_copies_run_one_program_with_names_of_their_own():
    """Each of two jobs has a barrier, a lock and a cache; the threads of one do not wait for those of the other."""
    sharing = Sharing("cores", "cache", ("memory",), ((1.0, 1.0), (0.5, 1.0)))
    program = (Repeat(3, (work(1.0, sharing=sharing), Barrier("meet"))), Lock("lock"), work(2.0), Unlock("lock"))
    late = (work(10.0), *program)
    names = [
        {"meet": f"meet {job}", "lock": f"lock {job}", "cache": f"cache {job}", "other": f"thread {2 * job + 1}"}
        for job in (0, 1)
    ]
    entities = [
        Entity(f"thread {2 * job + which}", (*part, Join("other")) if not which else part, job=job, names=names[job])
        for job, parts in enumerate(((program, program), (program, late)))
        for which, part in enumerate(parts)
    ]
    system = cores(4, caches=("cache 0", "cache 1"), bandwidths={"memory": (4.0,)}, barriers={"meet 0": 2, "meet 1": 2})
    outcome, twin = simulate(system, entities), Reference(system, entities)
    assert outcome.end_s.tolist() == pytest.approx([7.0, 5.0, 17.0, 15.0])  # the lock goes from one to the other
    assert list(twin.end_s.values()) == pytest.approx(outcome.end_s.tolist())


def test_what_waking_costs_has_a_name_among_any_number_of_activities():
    """The critical path names 256 activities, those that take longest; waking takes less than each of 300."""
    first = [work(1.0, f"activity {number}") for number in range(300)]
    entities = threads([*first, Barrier("meet", sleeps=True)], [Barrier("meet", sleeps=True), work(1.0)])
    outcome = simulate(cores(2, barriers={"meet": 2}, waking=Waking(latency_s=1e-3)), entities)
    assert outcome.path_s["waking a thread"] == pytest.approx(1e-3)


def test_a_broadcast_wakes_those_that_wait_and_no_others():
    early, late = [Wait("c"), work(1.0)], [work(2.0), Wait("c")]
    with pytest.raises(DeadlockError, match="thread 1 waits for c, which nobody posts"):
        simulate(cores(3), threads(early, late, [work(1.0), Broadcast("c")]))


def test_double_buffered_copies_overlap_kernels():
    """Copies of 1 s and kernels of 3 s: the first copy, then the kernels alone."""
    chunks, copy_s, kernel_s = 10, 1.0, 3.0
    stream = [Repeat(chunks, (Wait("free"), Use("copy engine", "copy", copy_s), Post("there")))]
    kernels = [Repeat(chunks, (Wait("there"), Use("accelerator", "kernel", kernel_s), Post("free")))]
    system = System(devices={"copy engine": 1, "accelerator": 1}, semaphores={"free": 2})
    assert simulate(system, threads(stream, kernels)).makespan_s == copy_s + chunks * kernel_s


def test_a_queue_with_one_server_is_m_d_1():
    """Poisson arrivals, constant service: waits of rho / (2 mu (1 - rho)) on average (Pollaczek and Khinchine)."""
    generator, jobs, service_s, load = random.Random(1), 10_000, 1.0, 0.6
    now, entities = 0.0, []
    for number in range(jobs):
        now += generator.expovariate(load / service_s)
        entities.append(Entity(f"job {number}", (Sleep("arrival", now), Use("accelerator", "kernel", service_s))))
    outcome = simulate(System(devices={"accelerator": 1}), entities, most_segments=0)
    mean_s = outcome.seconds("queue").mean()
    batches = outcome.seconds("queue").reshape(40, -1).mean(axis=1)
    error_s = batches.std(ddof=1) / math.sqrt(len(batches))
    assert abs(mean_s - load * service_s / (2 * (1 - load))) < 4 * error_s
    assert error_s < 0.05 * mean_s
    assert outcome.device_s.tolist() == [jobs * service_s]


def test_a_device_serves_as_many_as_it_has_units():
    outcome = simulate(System(devices={"accelerators": 2}), threads(*[[Use("accelerators", "kernel", 1.0)]] * 5))
    assert outcome.makespan_s == 3.0


def test_copies_share_a_link_fairly():
    copy = Sharing(None, None, ("link",), ((1.0, 10.0),))
    outcome = simulate(System(bandwidths={"link": (10.0,)}), threads([work(1.0, "a", copy)], [work(3.0, "b", copy)]))
    assert outcome.end_s.tolist() == [2.0, 4.0]


# ---- decisions, and SimPy ----


def test_an_offer_is_decided_when_an_entity_gets_there():
    offer = Offer(7, ((work(5.0, "host"),), (Timed("accelerator", "kernel", 1), Timed("accelerator", "back", 0))))
    asked = []

    def decide(token, entity, now_s):
        asked.append((token, entity, now_s))
        return Choice(0) if entity else Choice(1, (0.25, 1.0))

    outcome = simulate(
        cores(2, devices={"accelerator": 1}), threads([work(1.0), offer], [work(2.0), offer]), decide=decide
    )
    assert asked == [(7, 0, 1.0), (7, 1, 2.0)]
    assert outcome.end_s.tolist() == [2.25, 7.0]
    with pytest.raises(PredictionError, match="nobody decides"):
        simulate(cores(2, devices={"accelerator": 1}), threads([offer]))


def test_other_processes_of_simpy_take_part():
    """A SimPy process sees the clock of the simulation at its own times, and decisions at theirs."""
    environment, seen = simpy.Environment(), []

    def watch():
        for _ in range(4):
            yield environment.timeout(0.75)
            seen.append(environment.now)

    def decide(token, entity, now_s):
        seen.append(("asked", environment.now))
        return Choice(0)

    environment.process(watch())
    program = [work(1.0), Offer(0, ((work(1.5),),))]
    assert simulate(cores(1), threads(program), decide=decide, environment=environment).makespan_s == 2.5
    environment.run()
    assert seen == [0.75, ("asked", 1.0), 1.5, 2.25, 3.0]


# ---- ties ----

SLOWER = Sharing("cores", None, (), ((0.5, 0.0),))


@pytest.mark.parametrize("sharing", [CPU, SLOWER, None])
def test_what_ends_at_one_instant_goes_on_in_order_of_number(sharing):
    """A broadcast wakes only a thread that waits already: one with a lower number, whatever both did before."""
    before = Sleep("sleep", 1.0) if sharing is None else work(1.0 if sharing is CPU else 0.5, "before", sharing)
    waiter, caller = [work(1.0), Wait("a")], [before, Broadcast("a")]
    assert simulate(cores(2), threads(waiter, caller)).end_s.tolist() == [1.0, 1.0]
    with pytest.raises(DeadlockError):
        simulate(cores(2), threads(caller, waiter))


# ---- against the twin ----

NAMES = ("a", "b")
SHARINGS = (
    CPU,
    ALL_MEMORY,
    Sharing("cores", "L3", ("memory",), ((1.0, 3.0), (0.7, 5.0))),
    Sharing(None, None, ("memory", "link"), ((1.0, 8.0),)),
    Sharing("cores", "L3", ("link",), ((0.9, 1.0),)),
)
SYSTEM = System(
    cores={"cores": 3},
    caches=("L3",),
    bandwidths={"memory": (10.0, 14.0, 15.0), "link": (6.0,)},
    devices={"device": 2},
)
WAKINGS = (Waking(), Waking(0.25, 1.0, 0.5), Waking(0.0, 0.25, 1.0))
runs = st.builds(Run, st.sampled_from(NAMES), st.integers(0, 40).map(lambda n: n / 8), st.sampled_from(SHARINGS))
simple = st.one_of(
    runs,
    st.builds(Sleep, st.just("sleep"), st.integers(0, 8).map(lambda n: n / 4)),
    st.builds(Use, st.just("device"), st.just("kernel"), st.integers(0, 8).map(lambda n: n / 4)),
    st.builds(Post, st.sampled_from(NAMES), st.integers(1, 2)),
    st.builds(Wait, st.sampled_from(NAMES), st.integers(1, 2), st.booleans()),
    st.builds(Broadcast, st.sampled_from(NAMES)),
)
critical = st.builds(lambda name, part: (Lock(name, name == "a"), part, Unlock(name)), st.sampled_from(NAMES), runs)
parts = st.recursive(
    st.one_of(simple.map(lambda part: (part,)), critical),
    lambda inner: st.builds(
        lambda count, bodies: (Repeat(count, tuple(part for body in bodies for part in body)),),
        st.integers(0, 4),
        st.lists(inner, max_size=3),
    ),
    max_leaves=8,
)
programs = st.lists(parts, max_size=5).map(lambda bodies: tuple(part for body in bodies for part in body))


@st.composite
def entity_lists(draw):
    made = draw(st.lists(programs, min_size=1, max_size=5))
    entities = [Entity(str(n), program, job=draw(st.integers(0, 2))) for n, program in enumerate(made)]
    if draw(st.booleans()):
        own = Entity("child", draw(programs), born=False)
        first, sleeps = entities[0], draw(st.booleans())
        entities[0] = Entity(first.name, (Spawn("child", sleeps), *first.program, Join("child", sleeps)), job=first.job)
        entities.append(own)
    return entities


@settings(max_examples=examples(300))
@given(entity_lists(), st.booleans(), st.sampled_from(WAKINGS))
@example(threads([Sleep("sleep", 1.0), Broadcast("a")], [work(1.0, "a"), Wait("a")]), False, Waking())
@example(threads([work(1.0, "a"), Wait("a")], [Sleep("sleep", 1.0), Broadcast("a")]), True, Waking())
def test_the_event_loop_agrees_with_its_twin(entities, folding, waking):
    system = replace(SYSTEM, waking=waking)
    expected = Reference(system, entities)
    try:
        outcome = simulate(system, entities, folding=folding)
    except DeadlockError as error:
        assert [line.partition(" waits for ")[0] for line in error.waits] == expected.stuck
        return
    assert not expected.stuck
    assert outcome.end_s == pytest.approx(list(expected.end_s.values()), rel=1e-9, abs=1e-9)
    for kind in ("run", "device", "sleep", "lock", "wait", "join", "queue"):
        spent = [expected.spent_s[entity.name].get(kind, 0.0) for entity in entities]
        assert outcome.seconds(kind) == pytest.approx(spent, rel=1e-9, abs=1e-9), kind


@settings(max_examples=examples(200))
@given(entity_lists())
def test_work_is_conserved_and_runs_are_deterministic(entities):
    try:
        first, second = (simulate(SYSTEM, entities) for _ in range(2))
    except DeadlockError:
        return
    assert first.work_done_s == pytest.approx(first.work_s, rel=1e-9, abs=1e-9)
    assert first.makespan_s == second.makespan_s
    assert np.array_equal(first.segments, second.segments)
    assert np.array_equal(first.entity_s, second.entity_s)
    assert first.core_s[0] <= SYSTEM.cores["cores"] * first.makespan_s * (1 + 1e-9)
    elapsed = first.entity_s.sum(axis=1)
    assert np.all(elapsed <= first.end_s * (1 + 1e-9) + 1e-9)


@settings(max_examples=examples(200))
@given(entity_lists())
def test_segments_of_an_entity_follow_each_other(entities):
    try:
        outcome = simulate(SYSTEM, entities, folding=False)
    except DeadlockError:
        return
    for number in range(len(entities)):
        own = outcome.segments[outcome.segments["entity"] == number]
        assert np.all(own["end_s"] > own["start_s"])
        assert np.all(own["start_s"][1:] >= own["end_s"][:-1])
        assert (own["end_s"] - own["start_s"]).sum() == pytest.approx(outcome.entity_s[number].sum(), abs=1e-9)


# ---- fairness ----


@st.composite
def flows(draw):
    resources = draw(st.integers(1, 4))
    capacities = draw(st.lists(st.floats(0.1, 20), min_size=resources, max_size=resources))
    asked = draw(st.lists(st.floats(0.01, 10), min_size=1, max_size=8))
    ways = [draw(st.sets(st.integers(0, resources - 1), max_size=2)) for _ in asked]
    return asked, ways, capacities


def shared(asked, ways, capacities, counts=None, penalties=None):
    ties = [(i, r) for i, way in enumerate(ways) for r in sorted(way)]
    return np.frombuffer(
        _engine.max_min(
            np.array(counts or [1] * len(asked), np.int32), np.array(asked, np.float64),
            np.array(penalties or [1.0] * len(asked)), np.array(ties, np.int32).reshape(-1, 2), np.ones(len(ties)),
            np.array(capacities, np.float64),
        )
    )  # fmt: skip


@given(flows())
def test_rates_are_max_min_fair(case):
    """Each flow has what it asked for, or a full resource on its way on which nobody has more."""
    asked, ways, capacities = case
    given_ = shared(asked, ways, capacities)
    used = [sum(g for g, way in zip(given_, ways, strict=True) if r in way) for r in range(len(capacities))]
    assert all(total <= most * (1 + 1e-9) for total, most in zip(used, capacities, strict=True))
    for got, want, way in zip(given_, asked, ways, strict=True):
        most_on = {r: max(g for g, other in zip(given_, ways, strict=True) if r in other) for r in way}
        assert got == want or any(used[r] >= capacities[r] * (1 - 1e-9) and got >= most_on[r] * (1 - 1e-9) for r in way)
    assert given_ == pytest.approx(exact_filling(asked, ways, capacities), rel=1e-9)


@settings(max_examples=examples(15))
@given(flows())
def test_rates_are_those_of_filling_in_small_steps(case):
    asked, ways, capacities = case
    slow = progressive_filling(asked, ways, capacities, steps=500)
    assert shared(asked, ways, capacities) == pytest.approx(slow, abs=len(asked) * max(asked) / 100)


def test_an_activity_uses_any_number_of_resources():
    """The narrowest of 300 decides, and who uses others alone does not notice."""
    bandwidths = {str(n): (10.0 + n,) for n in range(300)}
    through_all = Run("all", 1.0, Sharing(resources=tuple(bandwidths), conditions=((1.0, 40.0),)))
    alone = Run("last", 1.0, Sharing(resources=("299",), conditions=((1.0, 100.0),)))
    outcome = simulate(System(bandwidths=bandwidths), threads([through_all], [alone]))
    assert outcome.end_s == pytest.approx([4.0, 1.0])
    assert outcome.bandwidth_bytes == pytest.approx([40.0] * 299 + [140.0])


@given(flows(), st.lists(st.floats(0.1, 10), min_size=8, max_size=8))
def test_shares_go_with_the_inverse_of_the_penalty(case, penalties):
    """Each flow has what it asked for, or a full resource on which nobody has more rate times penalty."""
    asked, ways, capacities = case
    given_ = shared(asked, ways, capacities, penalties=penalties[: len(asked)])
    used = [sum(g for g, way in zip(given_, ways, strict=True) if r in way) for r in range(len(capacities))]
    assert all(total <= most * (1 + 1e-9) for total, most in zip(used, capacities, strict=True))
    levels = [g * penalty for g, penalty in zip(given_, penalties, strict=False)]
    for i, way in enumerate(ways):
        most_on = {r: max(level for level, other in zip(levels, ways, strict=True) if r in other) for r in way}
        full = any(used[r] >= capacities[r] * (1 - 1e-9) and levels[i] >= most_on[r] * (1 - 1e-9) for r in way)
        assert given_[i] == asked[i] or full


@given(flows(), st.integers(2, 4))
def test_alike_flows_get_what_each_would(case, times):
    asked, ways, capacities = case
    together = shared(asked, ways, capacities, [times] * len(asked))
    apart = shared(asked * times, ways * times, capacities)
    assert together == pytest.approx(apart[: len(asked)], rel=1e-9)


# ---- folding ----


def solver(count):
    """Two threads that meet at a barrier, take turns in a lock, and loop inside."""
    first = [Repeat(count, (Repeat(3, (work(1.0, "inner"),)), Lock("l"), work(0.5, "l"), Unlock("l"), Barrier("b")))]
    second = [Repeat(count, (work(2.0, "other"), Lock("l"), work(2.0, "l"), Unlock("l"), Barrier("b")))]
    return cores(2, barriers={"b": 2}), threads(first, second)


def test_a_billion_iterations_are_folded():
    few, many = (simulate(*solver(count)) for count in (100, 10**9))
    assert many.makespan_s == pytest.approx(few.makespan_s * 1e7, rel=1e-9)
    assert many.entity_s == pytest.approx(few.entity_s * 1e7, rel=1e-9)
    assert list(many.path_s) == list(few.path_s)
    assert list(many.path_s.values()) == pytest.approx([1e7 * time_s for time_s in few.path_s.values()], rel=1e-6)
    assert many.events_simulated <= 2 * few.events_simulated
    assert many.events == pytest.approx(1e7 * few.events, rel=1e-9)
    assert many.periods_estimated == 0
    assert len(many.segments) <= 2 * len(few.segments)


def test_folding_changes_no_result():
    folded, whole = (simulate(*solver(1000), folding=folding) for folding in (True, False))
    assert folded.makespan_s == pytest.approx(whole.makespan_s, rel=1e-12)
    assert folded.entity_s == pytest.approx(whole.entity_s, rel=1e-12)
    assert folded.events_simulated < 0.1 * whole.events_simulated
    assert folded.label_s == pytest.approx(whole.label_s, rel=1e-12)
    assert folded.path_s == pytest.approx(whole.path_s, rel=1e-12)


def test_folding_stops_where_somebody_else_changes_the_rate():
    """A long activity ends while others loop: they run faster from then on."""
    loop = [Repeat(1_000_000, (work(1e-3, "loop"), Barrier("b")))]
    entities = threads(loop, loop, [work(100.0, "long")])
    outcome = simulate(cores(2, barriers={"b": 2}), entities)
    assert outcome.end_s[2] == pytest.approx(150.0, rel=1e-9)
    assert outcome.makespan_s == pytest.approx(150 + 1000 - 100, rel=1e-6)


def test_folding_counts_a_wait_once_that_began_before_the_first_period():
    """The first wait lasts 0.35 s, the others 0.25 s; it still goes on at the end of the pilot's first iteration."""
    pilot = [Repeat(100, (Sleep("pilot", 0.25),))]
    late = [work(0.1), Repeat(100, (Sleep("sleep", 0.25), Post("a")))]
    entities = threads(pilot, late, [Repeat(100, (Wait("a"),))])
    folded, whole = (simulate(cores(1), entities, folding=folding) for folding in (True, False))
    assert folded.seconds("wait")[2] == pytest.approx(whole.seconds("wait")[2]) == pytest.approx(25.1)
    assert folded.events_simulated < whole.events_simulated


def test_nested_loops_of_a_billion_billion_iterations():
    body = (Repeat(10**9, (work(1e-9, "inner"),)), work(1.0, "outer"))
    outcome = simulate(cores(1), threads([Repeat(10**9, body)]))
    assert outcome.makespan_s == pytest.approx(2e9, rel=1e-6)
    assert outcome.path_s["inner"] == pytest.approx(1e9, rel=1e-6)


def test_loops_without_a_common_period_are_estimated_and_counted():
    entities = threads([Repeat(10**9, (work(1e-3),))], [Repeat(10**9, (work(math.sqrt(2) * 1e-3),))])
    outcome = simulate(cores(1), entities)
    assert outcome.makespan_s == pytest.approx(1e6 * (1 + math.sqrt(2)), rel=1e-3)
    assert outcome.periods_folded + outcome.periods_estimated > 10**8
    assert 0 < outcome.estimated_s < outcome.makespan_s


@settings(max_examples=examples(100))
@given(entity_lists(), st.integers(20, 60))
def test_folding_random_programs_changes_no_result(entities, count):
    repeated = [
        Entity(e.name, (Repeat(count, e.program),), job=e.job) for e in entities if e.name != "child"
    ]  # fmt: skip
    repeated = [e for e in repeated if not any(isinstance(p, Spawn | Join) for p in e.program[0].body)]
    if not repeated:
        return
    outcomes = []
    for folding in (True, False):
        try:
            outcomes.append(simulate(SYSTEM, repeated, folding=folding))
        except DeadlockError as error:
            outcomes.append(error)
    if isinstance(outcomes[1], DeadlockError):
        assert isinstance(outcomes[0], DeadlockError)
        assert outcomes[0].waits == outcomes[1].waits
        return
    assert outcomes[0].end_s == pytest.approx(outcomes[1].end_s, rel=1e-6, abs=1e-9)
    assert outcomes[0].entity_s == pytest.approx(outcomes[1].entity_s, rel=1e-6, abs=1e-6)


# ---- what is wrong ----


def test_a_deadlock_says_what_each_entity_waits_for():
    first = [Lock("a"), work(1.0), Lock("b")]
    second = [Lock("b"), work(1.0), Lock("a")]
    entities = [*threads(first, second, [Barrier("all")], [Join("thread 2")]), Entity("never", (), born=False)]
    with pytest.raises(DeadlockError) as caught:
        simulate(cores(4, barriers={"all": 2}), entities)
    assert caught.value.waits == (
        "thread 0 waits for lock b, held by thread 1",
        "thread 1 waits for lock a, held by thread 0",
        "thread 2 waits at barrier all, to which 1 of 2 came",
        "thread 3 waits for the end of thread 2",
        "never was never started",
    )
    assert str(caught.value).startswith("replay: deadlock after 1 s: thread 0 waits for lock b")
    assert "\n" not in str(caught.value)


def test_a_deadlock_of_many_names_the_first_ones():
    with pytest.raises(DeadlockError, match=r"; and 92 more$") as caught:
        simulate(cores(1), threads(*[[Wait("nothing")]] * 100))
    assert len(caught.value.waits) == 100


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ([Unlock("a")], "thread 0 gives back lock a, which it does not hold"),
        ([work(-1.0)], "work takes -1.0 s, must be a time"),
        ([work(float("nan"))], "must be a time"),
        ([Repeat(-1, ())], "a loop runs -1 times"),
        ([Barrier("none")], "no barrier none"),
        ([Use("none", "kernel", 1.0)], "no device none"),
        ([work(1.0, sharing=Sharing("other"))], "no cores other"),
        ([work(1.0, sharing=Sharing("cores", "L9"))], "no cache L9"),
        ([work(1.0, sharing=Sharing("cores", None, ("bus",)))], "no bandwidth bus"),
        ([Join("nobody")], "no entity nobody"),
    ],
)
def test_wrong_programs_are_refused_in_one_line(program, message):
    with pytest.raises(PredictionError, match=message):
        simulate(cores(1), threads(program))


def test_wrong_systems_are_refused_in_one_line():
    for system in (
        {"cores": {"cores": 0}},
        {"bandwidths": {"m": (1.0, -1.0)}},
        {"devices": {"d": 0}},
        {"barriers": {"b": 0}},
    ):
        with pytest.raises(PredictionError, match="must be"):
            System(**system)
    with pytest.raises(PredictionError, match="no entity"):
        simulate(cores(1), [])
    with pytest.raises(PredictionError, match="same name"):
        simulate(cores(1), [Entity("a", ()), Entity("a", ())])


def test_too_deep_nests_and_too_many_events_are_refused():
    nest = [work(1.0)]
    for _ in range(_engine.MAX_NESTING + 1):
        nest = [Repeat(2, tuple(nest))]
    with pytest.raises(PredictionError, match="nests more than"):
        simulate(cores(1), threads(nest))
    with pytest.raises(PredictionError, match="too many events"):
        simulate(cores(1), threads([Repeat(1000, (work(1.0),))]), folding=False, most_events=100)


def test_a_long_timeline_is_cut_and_counted():
    outcome = simulate(cores(1), threads([work(1.0)] * 100), most_segments=10)
    assert (len(outcome.segments), outcome.segments_left_out) == (10, 90)
    assert outcome.makespan_s == 100.0


def test_arrays_that_do_not_fit_are_refused():
    """The C core trusts no array."""
    from foretrace.replay.engine.compiler import compile_programs

    compiled = compile_programs(cores(1), threads([work(1.0)]))
    for field, value in (("a", 5), ("code", 99), ("x", math.inf), ("label", 7)):
        operations = compiled.operations.copy()
        operations[0][field] = value
        changed = compile_programs(cores(1), threads([work(1.0)]))
        changed.operations = operations
        with pytest.raises(ValueError, match=r"operation|time"):
            changed.engine(most_segments=1, most_events=1, folding=True)
