"""Results of a replay of ranks: messages by pair, late partners, the critical path, imbalance."""

from dataclasses import replace

import numpy as np
import pytest
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rank_runs import SPEED, action, compute, rank_runs, receive, repeat, run_of, send

from foretrace.replay.engine.network import Crossbar, Network
from foretrace.replay.engine.simulation import DeadlockError
from foretrace.replay.ranks.actions import Kind
from foretrace.replay.ranks.captured import actions_of
from foretrace.replay.ranks.platform import Platform
from foretrace.replay.ranks.run import replay_ranks
from foretrace.tracer.signature.rank_records import CALL, STEP, CallSite, RankRecord, RankRun

LATENCY, BANDWIDTH = 0.25, 128.0
HOP_S = 2 * LATENCY


def replayed(run, *, folding=True, places=(), **network):
    figures = {"detached_below_bytes": 0.0} | network
    platform = Platform("p", 1, SPEED, Network(Crossbar(run.num_ranks), LATENCY, BANDWIDTH, **figures))
    return replay_ranks(replace(run, places=places), platform, library="simgrid", folding=folding)


# ---- the communication matrix ----


def test_pairs_have_the_messages_and_bytes_of_each():
    run = run_of([repeat(10, send(1), send(2, 64.0))], [repeat(10, receive(0))], [repeat(10, receive(0))])
    found = replayed(run)
    assert [(one.sender, one.receiver, one.messages, one.size_bytes) for one in found.pairs] == [
        (0, 1, 10, 1280.0), (0, 2, 10, 640.0),
    ]  # fmt: skip
    assert found.left_out_pairs is None


@pytest.mark.parametrize("folding", [True, False])
def test_the_matrix_sums_to_what_was_sent_however_often_a_loop_runs(folding):
    times = 100_000 if folding else 300
    body = [compute(1.0), action(Kind.ALLREDUCE, size_bytes=8.0), action(Kind.ALLTOALL, size_bytes=16.0)]
    found = replayed(run_of(*[[repeat(times, *body)]] * 5), folding=folding)
    outcome = found.outcome
    assert sum(one.size_bytes for one in found.pairs) == pytest.approx(outcome.sent_bytes)
    assert sum(one.messages for one in found.pairs) == outcome.messages
    assert {(one.sender, one.receiver) for one in found.pairs} == {(a, b) for a in range(5) for b in range(5) if a != b}
    assert {one.action: one.times for one in found.by_action} == dict.fromkeys(
        ("compute", "allreduce", "alltoall"), 5 * times
    )


# ---- late senders and receivers ----


def test_a_receiver_that_waits_has_a_late_sender():
    found = replayed(run_of([compute(10.0), send(1)], [receive(0)]))
    assert found.outcome.late_s.tolist() == [[0, 0, 10, 0], [10, 0, 0, 0]]
    (waits,) = [one for one in found.by_action if one.action == "receive"]
    assert (waits.late_sender_s, waits.late_receiver_s) == (10.0, 0.0)
    assert waits.transfer_s == pytest.approx(HOP_S + 1)


def test_a_sender_that_waits_has_a_late_receiver():
    found = replayed(run_of([send(1)], [compute(10.0), receive(0)]))
    assert found.outcome.late_s.tolist() == [[0, 10, 0, 0], [0, 0, 0, 10]]


def test_lateness_is_scaled_with_the_loops_that_repeat_it():
    one, many = (
        replayed(run_of([repeat(n, compute(2.0), send(1))], [repeat(n, compute(1.0), receive(0))])) for n in (1, 10**6)
    )
    assert many.outcome.periods_folded > 0
    assert one.outcome.late_s[1, 0] == pytest.approx(1.0)
    assert many.outcome.late_s[1, 0] == pytest.approx(1e6)
    assert many.outcome.late_s[0, 2] == pytest.approx(1e6)


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
@given(rank_runs(), st.sampled_from([0.0, 100.0, 1e6]), st.booleans())
def test_waits_are_lateness_and_transfer_and_the_path_is_the_makespan(run, limit, has_places):
    """On any run: nothing of a wait is lost, and labels by place sum to those by kind."""
    places = tuple(f"main.c:{line}" for line in range(int(run.actions["line"].max(initial=0)) + 1))
    try:
        found = replayed(run, places=places if has_places else (), detached_below_bytes=limit)
    except DeadlockError:
        return
    outcome = found.outcome
    assert found.partner_s == pytest.approx(outcome.late_s[:, :2].sum(axis=1), abs=1e-9)
    assert outcome.late_s[:, 0].sum() == pytest.approx(outcome.late_s[:, 2].sum(), abs=1e-9)
    assert outcome.late_s[:, 1].sum() == pytest.approx(outcome.late_s[:, 3].sum(), abs=1e-9)
    by_label = outcome.label_waits_s.sum(axis=0)
    assert by_label == pytest.approx([*outcome.late_s[:, :2].sum(axis=0), found.transfer_s.sum()], abs=1e-9)
    assert sum(one.time_s for one in found.path) == pytest.approx(found.makespan_s, abs=1e-9)
    assert sum(outcome.path_s.values()) == pytest.approx(found.makespan_s, abs=1e-9)
    assert sum(one.size_bytes for one in found.pairs) == pytest.approx(outcome.sent_bytes)
    assert sum(one.messages for one in found.pairs) == outcome.messages
    if has_places and found.by_place:
        for name in ("time_s", "path_s", "late_sender_s", "late_receiver_s", "transfer_s"):
            sums = [sum(getattr(one, name) for one in rows) for rows in (found.by_place, found.by_action)]
            assert sums[0] == pytest.approx(sums[1], abs=1e-9)


# ---- critical path and imbalance ----

PLACES = ("", "main.c:10", "main.c:20", "main.c:30")


def of_lines(run, *lines):
    """The run with these lines of each rank."""
    run.actions["line"] = np.concatenate(lines)
    return run


def test_the_critical_path_goes_through_the_ranks_that_are_waited_for():
    """Rank 1 waits 5 s for rank 0, computes 7 s; rank 2 waits for it."""
    run = run_of([compute(5.0), send(1)], [receive(0), compute(7.0), send(2)], [receive(1), compute(1.0)])
    found = replayed(of_lines(run, [1, 1], [2, 2, 2], [3, 3]), places=PLACES)
    assert [(one.first_rank, one.last_rank) for one in found.path] == [(1, 1), (0, 0), (2, 2)]
    assert [one.time_s for one in found.path] == pytest.approx([7 + HOP_S + 1, 5.0, HOP_S + 1 + 1.0])
    assert found.outcome.path_hops == 2
    assert {(one.action, one.place): one.path_s for one in found.by_place} == pytest.approx({
        ("compute", "main.c:20"): 7.0, ("compute", "main.c:10"): 5.0, ("receive", "main.c:20"): HOP_S + 1,
        ("receive", "main.c:30"): HOP_S + 1, ("send", "main.c:10"): 0.0, ("send", "main.c:20"): 0.0,
        ("compute", "main.c:30"): 1.0,
    })  # fmt: skip


def test_the_path_of_many_ranks_is_told_by_ranges_of_them():
    found = replayed(run_of(*[[compute(float(rank == 130))] for rank in range(256)]))
    assert [(one.first_rank, one.last_rank, one.time_s) for one in found.path] == [(128, 131, 1.0)]


def test_hops_and_ranks_of_the_path_are_scaled_with_loops():
    ping, pong = [compute(1.0), send(1), receive(1)], [receive(0), compute(1.0), send(0)]
    found = replayed(run_of([repeat(10**6, *ping)], [repeat(10**6, *pong)]))
    assert found.outcome.path_hops == pytest.approx(2e6, rel=1e-5)
    assert sum(one.time_s for one in found.path) == pytest.approx(found.makespan_s)


def test_imbalance_is_told_by_place():
    run = run_of(
        [repeat(3, compute(1.0)), compute(4.0)], [repeat(3, compute(3.0)), compute(4.0)], [action(Kind.BARRIER)] * 0
    )
    run = of_lines(run, [0, 1, 0, 2], [0, 1, 0, 2], [])
    first, second = replayed(run, places=PLACES).imbalances
    assert (first.place, first.time_s, first.rank, first.most_s) == ("main.c:10", 12.0, 1, 9.0)
    assert first.over_mean == pytest.approx(9.0 / 4.0)
    assert (second.place, second.time_s, second.over_mean) == ("main.c:20", 8.0, pytest.approx(1.5))


def test_places_of_a_recorded_run_are_its_call_sites():
    calls = np.zeros(2, CALL)
    calls["kind"] = Kind.BARRIER
    calls["site"], calls["first_count"], calls["times"] = [0, 1], -1, 1
    steps = np.array([(0, 1), (1, 1)], STEP)
    none = np.zeros(0, np.int64)
    record = RankRecord(calls, steps, none, none, ((0,),), 1.0, is_complete=False, left_out={"MPI_Pcontrol": 2})
    sites = (CallSite("/bin/app", 4096, "main", "/src/main.c", 7), CallSite("/lib/libx.so", 64))
    run = actions_of(RankRun("", "", (record,), sites), [np.array([1.0, 2.0])], "app.sig")
    assert [run.place(n) for n in range(4)] == ["main.c:7", "main.c:7", "libx.so+0x40", "libx.so+0x40"]
    assert (run.left_out, run.unfinished) == ({"MPI_Pcontrol": 2}, (0,))
    found = replayed(run, places=run.places)
    assert [(one.action, one.place) for one in found.by_place] == [
        ("compute", "libx.so+0x40"), ("compute", "main.c:7"),
    ]  # fmt: skip


def test_too_many_places_are_told_by_kind_only():
    rows = [compute(1.0) for _ in range(300)]
    run = of_lines(run_of(rows), range(300))
    found = replayed(run, places=tuple(f"a.c:{n}" for n in range(300)))
    assert not found.by_place
    assert [(one.action, one.times) for one in found.by_action] == [("compute", 300)]
