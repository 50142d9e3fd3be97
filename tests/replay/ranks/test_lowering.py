"""Runs of ranks as programs: loops, communicators, lists of requests, and what is refused."""

from functools import partial

import pytest
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from message_reference import MessageReference
from rank_runs import SPEED, action, compute, entities_of, rank_runs, receive, repeat, run_of, send

from foretrace.base.errors import PredictionError
from foretrace.replay.engine.network import Crossbar, Network
from foretrace.replay.engine.program import System
from foretrace.replay.engine.simulation import DeadlockError, run_compiled, simulate
from foretrace.replay.ranks.actions import Kind
from foretrace.replay.ranks.collectives import recipes
from foretrace.replay.ranks.programs import Hosts, compile_ranks

LATENCY, BANDWIDTH = 0.25, 128.0
HOP_S = 2 * LATENCY


def replayed(run, *, library="simgrid", named=None, folding=True, **network):
    """The outcome of a run, each rank on a node of its own."""
    figures = {"detached_below_bytes": 0.0} | network
    ranks = run.num_ranks
    hosts = Hosts(tuple(range(ranks)), 1, SPEED, Network(Crossbar(ranks), LATENCY, BANDWIDTH, **figures))
    return run_compiled(compile_ranks(run, hosts, partial(recipes, library, named=named)), folding=folding)


# ---- loops ----


@pytest.mark.parametrize("folding", [True, False])
def test_a_loop_runs_its_body_as_often_as_it_says(folding):
    run = run_of(
        repeat(100, compute(2.0), repeat(3, send(1)), repeat(0, send(1))),
        repeat(300, receive(0)),
    )
    outcome = replayed(run, folding=folding)
    assert outcome.makespan_s == pytest.approx(100 * (2.0 + 3 * (HOP_S + 1.0)))
    assert outcome.messages == 300


def test_a_billion_iterations_are_not_unrolled():
    run = run_of(repeat(10**9, compute(1.0), send(1)), repeat(10**9, receive(0)))
    outcome = replayed(run)
    assert len(outcome.compiled.operations) == 9
    assert outcome.makespan_s == pytest.approx(10**9 * (1.0 + HOP_S + 1.0))
    assert outcome.messages == 10**9


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([[action(Kind.REPEAT, amount=2)], [action(Kind.END_REPEAT)]], "run:1: rank 1: a loop ends that did not begin"),
        ([[action(Kind.REPEAT, amount=2)], []], "run:1: rank 0: a loop does not end"),
        ([repeat(-1)], "a loop's number of times"),
        ([repeat(float("nan"))], "a loop's number of times"),
        ([repeat(1e300)], "a loop's number of times"),
        ([[action(Kind.REPEAT, amount=2)] * 65 + [action(Kind.END_REPEAT)] * 65], "loops nest more than 64 deep"),
        ([[action(Kind.END_REPEAT), action(Kind.REPEAT, amount=2)]], "a loop ends that did not begin"),
    ],
)
def test_loops_that_do_not_fit_are_refused(ranks, message):
    with pytest.raises(PredictionError, match=message):
        replayed(run_of(*ranks))


# ---- communicators ----

WORLD, ODD, PAIR = (0, 1, 2, 3, 4), (3, 1, 4), (1, 0)


def test_collectives_are_among_the_members_of_their_communicator():
    """The root, number 1 of three members, is rank 1: its tree has two steps, and no rank outside takes part."""
    bcast = action(Kind.BCAST, peer=1, size_bytes=128.0, communicator=1)
    run = run_of([], [bcast], [], [bcast], [bcast], communicators=(WORLD, ODD))
    outcome = replayed(run)
    assert outcome.messages == 2
    assert outcome.end_s[[0, 2]].tolist() == [0.0, 0.0]
    assert outcome.end_s[1] == pytest.approx(2 * (HOP_S + 1))
    assert sorted(outcome.end_s[[3, 4]]) == pytest.approx([HOP_S + 1, 2 * (HOP_S + 1)])


def test_algorithms_follow_the_number_of_members():
    """MPICH broadcasts 20,000 bytes by a tree among fewer than 8 ranks, by a scatter and an allgather among more."""
    everybody = tuple(range(16))
    long = [action(Kind.BCAST, size_bytes=20_000.0, communicator=number) for number in (0, 1)]
    run = run_of(*[long[:2] if rank < 3 else long[:1] for rank in range(16)], communicators=(everybody, (0, 1, 2)))
    assert replayed(run, library="mpich").messages == (15 + 16 * 4) + 2


def test_messages_of_communicators_are_kept_apart():
    run = run_of(
        [send(1, 128.0, communicator=1), send(1, 256.0)],
        [receive(0), receive(0, communicator=1)],
        communicators=((0, 1), PAIR),
    )
    with pytest.raises(DeadlockError):
        replayed(run)
    assert replayed(run, detached_below_bytes=1e6).makespan_s == pytest.approx(2 * HOP_S + 3.0)


def test_sizes_by_rank_are_as_many_as_members():
    """A reduce-scatter of 10, 20 and 30 bytes sends 60 bytes to the root, and their mean back."""
    scatter = action(Kind.REDUCE_SCATTER, first_count=1, communicator=1)
    run = run_of([], [scatter], [], [scatter], [scatter], communicators=(WORLD, ODD), counts=(99, 10, 20, 30, 99))
    assert replayed(run).sent_bytes == pytest.approx(2 * 60 + 2 * 20)


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([[send(0, communicator=2)]], "run:1: rank 0: there is no communicator 2"),
        ([[send(2, communicator=1)]], "send: its communicator has no rank 2 of the run"),
        ([[receive(9)]], "receive: its communicator has no rank 9 of the run"),
        ([[send(-1)]], "send: its communicator has no rank -1"),
        ([[], [], [send(0, communicator=1)]], "rank 2: send is on a communicator of which the rank is no member"),
        ([[], [], [action(Kind.BARRIER, communicator=1)]], "rank 2: barrier is on a communicator"),
        ([[action(Kind.BCAST, peer=2, communicator=1)]], "bcast has root 2, but its communicator has 2 ranks"),
        ([[action(Kind.BCAST, peer=-1)]], "bcast has root -1, but its communicator has 3 ranks"),
        ([[action(Kind.PUT)]], "put is not replayed"),
    ],
)
def test_what_is_not_in_a_communicator_is_refused(ranks, message):
    ranks += [[]] * (3 - len(ranks))
    with pytest.raises(PredictionError, match=message):
        replayed(run_of(*ranks, communicators=((0, 1, 2), (1, 0))))


@pytest.mark.parametrize("members", [((0, 1), ()), ((0, 1), (1, 1)), ((0, 1), (2,)), ((0, -1),)])
def test_communicators_with_other_members_than_ranks_are_refused(members):
    with pytest.raises(PredictionError, match=r"run: communicator . has no members, or such as are no ranks"):
        replayed(run_of([], [], communicators=members))


# ---- what goes wrong while ranks run ----


def test_a_deadlock_says_where_each_rank_is():
    """Above the limit both senders wait for each other; each is named with its call and the call's place."""
    run = run_of([compute(1.0), send(1, tag=3), receive(1)], [send(0, tag=3), receive(0)], [])
    with pytest.raises(DeadlockError) as caught:
        replayed(run)
    assert caught.value.waits == (
        "rank 0 waits to send 128 bytes to rank 1 (tag 3) at run:2",
        "rank 1 waits to send 128 bytes to rank 0 (tag 3) at run:1",
    )


def test_a_deadlock_of_many_ranks_names_some_and_counts_the_others():
    with pytest.raises(DeadlockError, match=r"rank 7 waits to receive from rank 8 .*; and 92 more$") as caught:
        replayed(run_of(*[[receive((rank + 1) % 100)] for rank in range(100)]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("receives_first", [True, False])
def test_a_message_longer_than_its_receive_has_room_for_is_refused(receives_first):
    late = [compute(1.0)]
    run = run_of(
        [*(late if receives_first else []), send(1, 200.0)],
        [*([] if receives_first else late), receive(0, size_bytes=100.0)],
    )
    lines = (2, 1) if receives_first else (1, 2)
    with pytest.raises(PredictionError) as caught:
        replayed(run)
    assert str(caught.value) == (
        f"replay: rank 1 has room for 100 bytes at run:{lines[1]}, but rank 0 sends 200 at run:{lines[0]}: "
        "message truncated"
    )
    assert replayed(run_of([send(1, 100.0)], [receive(0, size_bytes=100.0)])).messages == 1
    exact = [receive(0, Kind.IRECEIVE, size_bytes=0.0, request=1), action(Kind.WAIT_ALL)]
    assert replayed(run_of([send(1, 0.0)], exact)).messages == 1


def test_members_that_disagree_about_a_collective_are_named_with_their_places():
    bcast, reduce = (action(kind, size_bytes=8.0) for kind in (Kind.BCAST, Kind.REDUCE))
    with pytest.raises(PredictionError) as caught:
        replayed(run_of([bcast], [compute(1.0), reduce]))
    assert (
        str(caught.value)
        == "replay: rank 1 calls reduce of 8 bytes at run:2, but rank 0 calls bcast of 8 bytes at run:1"
    )


def test_sizes_of_members_may_differ_where_each_has_its_own():
    run = run_of(*[[action(Kind.GATHERV, size_bytes=8.0 * rank)] for rank in range(3)])
    assert replayed(run).sent_bytes == 24.0
    with pytest.raises(PredictionError, match="rank 1 calls gather of 8 bytes at run:1, but rank 0 calls gather of 0"):
        replayed(run_of(*[[action(Kind.GATHER, size_bytes=8.0 * rank)] for rank in range(3)]))


def test_a_request_that_is_open_already_is_named_with_its_place():
    again = [receive(1, Kind.IRECEIVE, request=1)] * 2
    with pytest.raises(PredictionError, match="rank 0: ireceive at run:2 is given request 1, which is not awaited yet"):
        replayed(run_of([one.copy() for one in again], []))


def test_what_is_left_at_the_end_is_counted():
    run = run_of(
        [send(1, tag=1), send(1, tag=2), send(1, Kind.ISEND, tag=3, request=1)],
        [receive(0, tag=2), receive(0, Kind.IRECEIVE, tag=9, request=1), compute(1.0)],
    )
    outcome = replayed(run, eager_below_bytes=1e6)
    assert (outcome.unreceived, outcome.open_requests) == (2, 2)
    whole = replayed(run_of([send(1)], [receive(0)]))
    assert (whole.unreceived, whole.open_requests) == (0, 0)


# ---- requests ----


def test_a_wait_for_a_list_of_requests_leaves_others_open():
    first = [receive(1, Kind.IRECEIVE, tag=n, request=n) for n in (1, 2, 3)]
    first += [action(Kind.WAIT, first_count=1, peer=2), compute(1.0), action(Kind.WAIT_ALL, first_count=0, peer=1)]
    second = [send(0, tag=3), send(0, tag=1), compute(100.0), send(0, tag=2)]
    outcome = replayed(run_of(first, second, slots=(2, 3, 1)))
    assert outcome.seconds("run")[0] == 1.0
    assert outcome.end_s == pytest.approx([100 + 3 * (HOP_S + 1)] * 2)
    starts = outcome.segments[(outcome.segments["entity"] == 0) & (outcome.segments["kind"] == 1)]["start_s"]
    assert len(starts) == 0 or starts[0] == pytest.approx(2 * (HOP_S + 1))


def test_a_wait_for_no_requests_waits_for_nothing():
    run = run_of(
        [receive(1, Kind.IRECEIVE, request=1), action(Kind.WAIT, first_count=0, peer=0), compute(1.0)],
        [compute(2.0), send(0)],
    )
    assert replayed(run).end_s[0] == 1.0


@pytest.mark.parametrize(("first", "many"), [(0, 2), (1, 1), (0, -1)])
def test_lists_of_requests_that_do_not_exist_are_refused(first, many):
    with pytest.raises(PredictionError, match="run:1: rank 0: a wait has no such requests"):
        replayed(run_of([action(Kind.WAIT, first_count=first, peer=many)], slots=(1,), requests=[1]))
    with pytest.raises(PredictionError, match="names request 0; they are numbered from 1"):
        replayed(run_of([], slots=(0,)))


def test_both_halves_of_an_exchange_have_a_tag():
    exchanges = [
        [action(Kind.EXCHANGE, peer=1, request=2, tag=5, second_tag=6, size_bytes=128.0)],
        [action(Kind.EXCHANGE, peer=0, request=1, tag=6, second_tag=-1, size_bytes=128.0)],
    ]
    assert replayed(run_of(*exchanges, requests=[0, 0])).makespan_s == pytest.approx(HOP_S + 1)
    exchanges[1][0]["tag"] = 5
    with pytest.raises(DeadlockError):
        replayed(run_of(*exchanges, requests=[0, 0]))


@pytest.mark.parametrize(("kind", "ends_s"), [(Kind.SEND, 0.0), (Kind.SSEND, 10 + HOP_S + 1)])
def test_synchronous_sends_wait_for_their_receiver(kind, ends_s):
    run = run_of([send(1, kind=kind)], [compute(10.0), receive(0)])
    assert replayed(run, detached_below_bytes=1e6).end_s[0] == pytest.approx(ends_s)
    waits = [send(1, kind=Kind.ISSEND, request=1), action(Kind.WAIT, request=1)]
    run = run_of(waits, [compute(10.0), receive(0)])
    assert replayed(run, detached_below_bytes=1e6).end_s[0] == pytest.approx(10 + HOP_S + 1)


def test_collectives_with_a_request_proceed_beside_their_rank():
    start = action(Kind.ALLREDUCE, size_bytes=128.0, request=1)
    wait = action(Kind.WAIT, first_count=0, peer=1)
    run = run_of(*[[start, compute(10.0), wait]] * 4, slots=(1,))
    assert replayed(run).makespan_s == pytest.approx(10.0)
    alone = replayed(run_of(*[[start, wait]] * 4, slots=(1,)))
    assert alone.makespan_s == pytest.approx(
        replayed(run_of(*[[action(Kind.ALLREDUCE, size_bytes=128.0)]] * 4)).makespan_s
    )
    assert alone.messages == 3 + 3  # a linear gather, and a tree back


# ---- against the slow translation ----

DETACHED_BYTES = 100.0


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
@given(rank_runs(), st.sampled_from(["mpich", "openmpi", "simgrid"]), st.sampled_from([0.0, DETACHED_BYTES, 1e6]))
def test_runs_are_programs_as_the_slow_translation_has_them(run, library, detached_below):
    choose = partial(recipes, library)
    nodes = tuple(range(run.num_ranks))
    network = Network(Crossbar(run.num_ranks), LATENCY, BANDWIDTH, detached_below_bytes=detached_below)
    entities, communicators = entities_of(run, SPEED, choose, nodes)
    system = System(network=network, communicators=communicators)
    outcomes = []
    for simulated in (
        lambda: run_compiled(compile_ranks(run, Hosts(nodes, 1, SPEED, network), choose), folding=False),
        lambda: simulate(system, entities, folding=False),
        lambda: run_compiled(compile_ranks(run, Hosts(nodes, 1, SPEED, network), choose)),
    ):
        try:
            outcomes.append(simulated())
        except DeadlockError as error:
            outcomes.append([line.partition(" waits ")[0] for line in error.waits])
    expected = MessageReference(system, entities)
    if isinstance(outcomes[0], list):
        assert outcomes == [expected.stuck] * 3
        return
    for outcome in outcomes:
        assert outcome.end_s == pytest.approx(list(expected.end_s.values()), rel=1e-9, abs=1e-9)
        assert outcome.messages == expected.messages
        assert outcome.path_s == pytest.approx(outcomes[0].path_s, rel=1e-9, abs=1e-9)


def test_the_end_of_mpi_takes_no_time():
    assert replayed(run_of([action(Kind.FINALIZE)], [compute(1.0), action(Kind.FINALIZE)])).end_s.tolist() == [0, 1]
