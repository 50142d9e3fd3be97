"""Whether the threads of a team spin or sleep, by their number, the machine's cores and the runtime's settings."""

import pytest
from replay_samples import measured_host, with_changes
from tree_samples import Tree

from foretrace.replay.node.replay import SPINNING, WAKING_AT_ONCE, replay_on
from foretrace.replay.node.speedup import predict_threads
from foretrace.replay.threads.team_waits import Waits, team_waits

STEP_S = 1000e-9
TRANSFER_S, WAKE_S = 1e-6, 5e-6
ENTRIES = 10


def host(cores):
    base = measured_host()
    given = {"line_transfer_latency_s": TRANSFER_S, "thread_wake_latency_s": WAKE_S, "thread_wake_call_s": 0.0}
    known = {**given, "cores": cores} if cores else given
    source = dict.fromkeys((*base.core.source, *known), "here")
    source = source if cores else {name: what for name, what in source.items() if name != "cores"}
    return with_changes(base, core=with_changes(base.core, **{"cores": cores, **known}, source=source))


def team(works, runtime="/lib/libgomp.so.1", settings=None):
    """A region that is entered ten times; `works` are the steps of each thread in all."""
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    loop = tree.loop(main, ENTRIES)
    region = tree.call(
        tree.call(loop, "GOMP_parallel", entries=ENTRIES, module=runtime), "main._omp_fn.0", entries=ENTRIES
    )
    block = tree.does(region, works[0])
    for number, work in enumerate(works[1:], 1):
        start = tree.call(tree.thread(number), "start", module=runtime)
        tree.does(tree.call(start, "main._omp_fn.0", entries=ENTRIES), work, block)
    return tree.signature(thread_settings=settings)


@pytest.mark.parametrize(
    ("settings", "threads", "cores", "how", "is_open"),
    [
        ({}, 64, 96, Waits.SPIN, False),
        ({}, 96, 96, Waits.SPIN, False),
        ({}, 97, 96, Waits.SLEEP, False),
        (None, 64, 96, Waits.SPIN, False),
        ({"OMP_WAIT_POLICY": "passive"}, 2, 96, Waits.SLEEP, False),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, 2, 96, Waits.SPIN, False),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, 4, 2, Waits.SPIN, True),
        ({"GOMP_SPINCOUNT": "0"}, 2, 96, Waits.SLEEP, False),
        ({"GOMP_SPINCOUNT": "infinity"}, 2, 96, Waits.SPIN, False),
        ({"GOMP_SPINCOUNT": "30G"}, 2, 96, Waits.SPIN, False),
        ({"GOMP_SPINCOUNT": "10k"}, 2, 96, Waits.SPIN, True),
        ({"GOMP_SPINCOUNT": "no number", "OMP_WAIT_POLICY": "passive"}, 2, 96, Waits.SLEEP, False),
        ({"GOMP_SPINCOUNT": "-1"}, 2, 96, Waits.SPIN, False),
        ({"GOMP_SPINCOUNT": "30G"}, 4, 2, Waits.SLEEP, False),
        ({"GOMP_SPINCOUNT": "30G", "OMP_WAIT_POLICY": "passive"}, 4, 2, Waits.SLEEP, False),
        ({"GOMP_SPINCOUNT": "30G", "OMP_WAIT_POLICY": "passive"}, 2, 2, Waits.SPIN, False),
        ({"GOMP_SPINCOUNT": "10", "OMP_WAIT_POLICY": "active"}, 4, 2, Waits.SLEEP, False),
        ({"OMP_WAIT_POLICY": "no policy"}, 2, 96, Waits.SPIN, False),
        ({"KMP_BLOCKTIME": "0", "KMP_LIBRARY": "throughput"}, 2, 96, Waits.SPIN, False),
        ({}, 4, None, Waits.SPIN, True),
        ({"OMP_WAIT_POLICY": "passive"}, 4, None, Waits.SLEEP, False),
    ],
)
def test_libgomp_spins_as_its_settings_say_and_sleeps_where_threads_outnumber_cores(
    settings, threads, cores, how, is_open
):
    found = team_waits(team((1, 1)).tree, settings, threads, cores)
    assert (found.how, found.is_open) == (how, is_open)


@pytest.mark.parametrize(
    ("settings", "threads", "how", "is_open"),
    [
        ({}, 8, Waits.SPIN, False),
        ({}, 9, Waits.SPIN, True),
        ({"KMP_BLOCKTIME": "0"}, 8, Waits.SLEEP, False),
        ({"KMP_BLOCKTIME": "infinite"}, 8, Waits.SPIN, False),
        ({"KMP_BLOCKTIME": "100us"}, 8, Waits.SPIN, True),
        ({"OMP_WAIT_POLICY": "passive"}, 8, Waits.SLEEP, False),
        ({"OMP_WAIT_POLICY": "P"}, 8, Waits.SLEEP, False),
        ({"OMP_WAIT_POLICY": "active", "KMP_BLOCKTIME": "0"}, 8, Waits.SLEEP, False),
        ({"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "200ms"}, 8, Waits.SPIN, False),
        ({"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "no time"}, 8, Waits.SPIN, False),
        ({"KMP_BLOCKTIME": "5 parsecs"}, 8, Waits.SPIN, False),
        ({"KMP_LIBRARY": "throughput"}, 8, Waits.SLEEP, False),
        ({"KMP_LIBRARY": "multiuser", "OMP_WAIT_POLICY": "active"}, 8, Waits.SLEEP, False),
        ({"KMP_LIBRARY": "turnaround", "OMP_WAIT_POLICY": "passive"}, 8, Waits.SPIN, False),
        ({"KMP_LIBRARY": "throughput", "KMP_BLOCKTIME": "infinity"}, 8, Waits.SPIN, False),
        ({"GOMP_SPINCOUNT": "0"}, 8, Waits.SPIN, False),
    ],
)
def test_libomp_spins_for_its_block_time(settings, threads, how, is_open):
    found = team_waits(team((1, 1), "/lib/libomp.so.5").tree, settings, threads, 8)
    assert (found.how, found.is_open) == (how, is_open)


@pytest.mark.parametrize(("cores", "waits_s"), [(4, 20 * TRANSFER_S), (2, 20 * TRANSFER_S), (1, 10 * WAKE_S)])
def test_the_target_decides_how_threads_wait(cores, waits_s):
    """Two threads work for 10 steps an entry and meet twice. On one core, one works on while the other is woken."""
    busy_s = 100 * STEP_S * (2 if cores == 1 else 1)
    replayed = replay_on(team((100, 100)), host(cores))
    assert replayed.makespan_s == pytest.approx(busy_s + waits_s, abs=TRANSFER_S)
    (predicted,) = predict_threads(team((100, 100)), host(cores), [2])
    assert predicted.time_s == pytest.approx(replayed.makespan_s)


def test_what_waking_costs_is_on_the_critical_path_and_a_what_if():
    """The first thread does less: it sleeps at each end, and the other one, which has more to do, at each beginning but
    the first, to which it comes last."""
    signature = team((20, 100), settings={"OMP_WAIT_POLICY": "PASSIVE"})
    replayed = replay_on(signature, host(4))
    wakes = 2 * ENTRIES - 1
    woken_s = wakes * WAKE_S
    assert replayed.makespan_s == pytest.approx(100 * STEP_S + woken_s)
    path = {part.activity: part.time_s for part in replayed.critical_path}
    assert path["waking a thread"] == pytest.approx(woken_s)
    shorter = {one.change: one.makespan_s for one in replayed.shorter}
    assert shorter[WAKING_AT_ONCE] == pytest.approx(100 * STEP_S)
    assert shorter[SPINNING] == pytest.approx(100 * STEP_S + wakes * TRANSFER_S)
    assert any("sleep while they wait" in str(one) for one in replayed.assumptions)


def test_where_it_is_open_the_interval_covers_both_and_says_so():
    """The ends of the interval are as far off as those of a thread alone, from the shorter and the longer time."""
    closed, unknown = (replay_on(team((100, 100)), host(cores)) for cores in (4, None))
    assert not any("is open" in text for text in closed.warnings)
    assert any("spin or sleep is open" in text for text in unknown.warnings)
    assert unknown.makespan_s == pytest.approx(closed.makespan_s)
    more_s = 2 * ENTRIES * (WAKE_S - TRANSFER_S)
    assert unknown.high_s / unknown.makespan_s == pytest.approx(
        closed.high_s / closed.makespan_s * (closed.makespan_s + more_s) / closed.makespan_s
    )
    (predicted,) = predict_threads(team((100, 100)), host(None), [2])
    assert predicted.high_s == pytest.approx(unknown.high_s)
    assert any("is open" in text for text in predicted.warnings)


def test_copies_that_spin_on_too_few_cores_are_said():
    replayed = replay_on(team((100, 100)), host(2), copies=2)
    assert any("4 threads of 2 copies spin on 2 cores" in text for text in replayed.warnings)
