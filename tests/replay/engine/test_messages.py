"""Messages between ranks: closed forms, the slow twin on random programs, folding, deadlocks, wrong programs."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from effort import IS_FULL, examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from message_reference import MessageReference, rounds_of, route

from foretrace.base.errors import PredictionError
from foretrace.replay.engine import _engine
from foretrace.replay.engine.compiler import compile_programs
from foretrace.replay.engine.network import Crossbar, FatTree, Network, Regime, Torus
from foretrace.replay.engine.program import (
    ALGORITHMS,
    Await,
    Barrier,
    Collective,
    Entity,
    Receive,
    Repeat,
    Run,
    Send,
    Sharing,
    Sleep,
    Started,
    System,
    Use,
)
from foretrace.replay.engine.simulation import DeadlockError, simulate

LATENCY, BANDWIDTH = 0.25, 128.0
HOP_S = 2 * LATENCY
"""Latency between two nodes of a crossbar: a link up and a link down."""


def crossbar(nodes, **other):
    return Network(
        Crossbar(nodes), LATENCY, BANDWIDTH, detached_below_bytes=other.pop("detached_below_bytes", 0.0), **other
    )


def ranks(*programs, nodes=None):
    return [
        Entity(f"rank {n}", tuple(program), "rank", node=n if nodes is None else nodes[n])
        for n, program in enumerate(programs)
    ]


def system(network, count, **other):
    return System(network=network, communicators={"world": tuple(f"rank {n}" for n in range(count))}, **other)


def replay(network, *programs, nodes=None, folding=True, **other):
    return simulate(system(network, len(programs), **other), ranks(*programs, nodes=nodes), folding=folding)


def sleep(time_s):
    return Sleep("sleep", time_s)


# ---- closed forms ----


@pytest.mark.parametrize("eager_below", [0.0, 1e6])
@pytest.mark.parametrize("size_bytes", [0.0, 1.0, 640.0])
def test_a_ping_pong_takes_latency_and_transfer_of_each_message(size_bytes, eager_below):
    count = 100
    ping = Repeat(count, (Send("rank 1", size_bytes), Receive("rank 1")))
    pong = Repeat(count, (Receive("rank 0"), Send("rank 0", size_bytes)))
    outcome = replay(crossbar(2, eager_below_bytes=eager_below), [ping], [pong])
    assert outcome.makespan_s == pytest.approx(2 * count * (HOP_S + size_bytes / BANDWIDTH), rel=1e-12)
    assert outcome.messages == 2 * count
    assert outcome.sent_bytes == pytest.approx(2 * count * size_bytes)
    assert outcome.moved_bytes == pytest.approx(outcome.sent_bytes)


def test_two_flows_on_one_link_share_it():
    """Both come down to node 2: half each, until the shorter one has arrived."""
    outcome = replay(
        crossbar(3), [Send("rank 2", 128.0)], [Send("rank 2", 256.0)], [Receive("rank 0"), Receive("rank 1")]
    )
    assert outcome.end_s[0] == pytest.approx(HOP_S + 1.0)  # alone: rank 2 receives from rank 1 only afterwards
    both = [Receive("rank 0", request=1), Receive("rank 1", request=2), Await()]
    outcome = replay(crossbar(3), [Send("rank 2", 128.0)], [Send("rank 2", 256.0)], both)
    assert outcome.end_s == pytest.approx([HOP_S + 2.0, HOP_S + 3.0, HOP_S + 3.0])


def test_three_flows_on_two_links_are_max_min_fair():
    """0 to 2 and 1 to 2 share the link down to 2; 0 to 3 has what is left of the link up from 0."""
    sends = [Send("rank 2", 64.0, request=1), Send("rank 3", 64.0, request=2), Await()]
    down = [Receive("rank 0", request=1), Receive("rank 1", request=2), Receive("rank 1", tag=1, request=3), Await()]
    more = [Send("rank 2", 64.0, request=1), Send("rank 2", 64.0, tag=1, request=2), Await()]
    outcome = replay(crossbar(4), sends, more, down, [Receive("rank 0")])
    # the link down has three flows at 1/3 each; 0 to 3 has the other 2/3 of its link
    assert outcome.end_s[3] == pytest.approx(HOP_S + 64 / (BANDWIDTH * 2 / 3))
    assert outcome.end_s[2] == pytest.approx(HOP_S + 3 * 64 / BANDWIDTH)


def test_the_backbone_is_shared_by_all():
    pairs = [[Send("rank 1", 128.0)], [Receive("rank 0")], [Send("rank 3", 128.0)], [Receive("rank 2")]]
    network = Network(Crossbar(4, 128.0, 0.5), LATENCY, BANDWIDTH)
    assert replay(network, *pairs).makespan_s == pytest.approx(HOP_S + 0.5 + 2.0)
    assert replay(crossbar(4), *pairs).makespan_s == pytest.approx(HOP_S + 1.0)


def test_a_window_bounds_a_flow_and_factors_change_it():
    pair = [[Send("rank 1", 128.0)], [Receive("rank 0")]]
    assert replay(crossbar(2, window_bytes=64.0), *pair).makespan_s == pytest.approx(HOP_S + 128 / (64 / (2 * HOP_S)))
    regimes = (Regime(0, 2.0, 0.5), Regime(100, 4.0, 0.25))
    assert replay(crossbar(2, regimes=regimes), *pair).makespan_s == pytest.approx(4 * HOP_S + 4.0)
    assert replay(crossbar(2, envelope_bytes=128.0), *pair).makespan_s == pytest.approx(HOP_S + 2.0)


def test_messages_within_a_node_have_regimes_of_their_own():
    pair = [[Send("rank 1", 64.0)], [Receive("rank 0")]]
    own = {"regimes": (Regime(0, 2.0, 0.5),), "own_latency_s": 1.0, "own_bytes_per_s": 64.0}
    assert replay(crossbar(2, **own), *pair, nodes=(0, 0)).makespan_s == pytest.approx(2.0 + 2.0)
    assert replay(crossbar(2, **own, own_regimes=()), *pair, nodes=(0, 0)).makespan_s == pytest.approx(1.0 + 1.0)
    own["own_regimes"] = (Regime(0, 7.0, 4.0), Regime(63, 0.5, 0.25))
    assert replay(crossbar(2, **own), *pair, nodes=(0, 0)).makespan_s == pytest.approx(0.5 + 4.0)
    assert replay(crossbar(2, **own), *pair).makespan_s == pytest.approx(2 * HOP_S + 1.0)


def test_the_latency_of_a_regime_comes_once_to_that_of_the_links():
    regimes = (Regime(0, 1.0, 1.0, 3.0), Regime(200, 1.0, 1.0, -100.0))
    network = Network(Torus((8,)), 0.5, BANDWIDTH, regimes=regimes, own_latency_s=0.25, own_regimes=())
    pair = [[Send("rank 1", 128.0)], [Receive("rank 0")]]
    assert replay(network, *pair, nodes=(0, 3)).makespan_s == pytest.approx(3.0 + 3 * 0.5 + 1.0)
    assert replay(network, *pair, nodes=(0, 0)).makespan_s == pytest.approx(0.25, abs=1e-6)
    longer = [[Send("rank 1", 256.0)], [Receive("rank 0")]]
    assert replay(network, *longer, nodes=(0, 3)).makespan_s == pytest.approx(2.0)


def test_messages_below_the_first_regime_have_no_factors():
    pair = [[Send("rank 1", 64.0)], [Receive("rank 0")]]
    assert replay(crossbar(2, regimes=(Regime(100, 4.0, 0.25),)), *pair).makespan_s == pytest.approx(HOP_S + 0.5)


def test_a_flow_over_a_longer_way_gets_less():
    """Penalties 0.5 and 1.0 s on one full link: twice the rate for the shorter way."""
    network = Network(Torus((8,)), 0.5, BANDWIDTH, detached_below_bytes=0.0)
    programs = [
        [Send("rank 2", 256.0)],
        [Send("rank 2", 256.0)],
        [Receive("rank 0", request=1), Receive("rank 1", request=2), Await()],
    ]
    outcome = replay(network, *programs, nodes=(0, 1, 2))
    # rank 1 begins after 0.5 s alone, is joined after 1 s, has 2/3 from there on
    assert outcome.end_s[1] == pytest.approx(1.0 + (256 - 64) / (BANDWIDTH * 2 / 3))


@pytest.mark.parametrize(
    ("network", "sender_goes_on_s", "arrives_s"),
    [
        (crossbar(2, eager_below_bytes=200.0), 0.0, 10.0),
        (crossbar(2, detached_below_bytes=200.0), 0.0, 10.0 + HOP_S + 1.0),
        (crossbar(2), 10.0 + HOP_S + 1.0, 10.0 + HOP_S + 1.0),
    ],
)
def test_a_late_receiver(network, sender_goes_on_s, arrives_s):
    """Eager: the message is there already; detached: it starts at the match; rendezvous: its sender waits, too."""
    outcome = replay(network, [Send("rank 1", 128.0)], [sleep(10.0), Receive("rank 0")])
    assert outcome.end_s == pytest.approx([sender_goes_on_s, arrives_s])
    assert outcome.seconds("partner") == pytest.approx([10.0 if sender_goes_on_s else 0.0, 0.0])
    assert outcome.seconds("transfer").sum() == pytest.approx(sender_goes_on_s - 10 if sender_goes_on_s else 0, abs=2.0)


@pytest.mark.parametrize(
    "network", [crossbar(2, eager_below_bytes=200.0), crossbar(2, detached_below_bytes=200.0), crossbar(2)]
)
def test_a_late_sender(network):
    outcome = replay(network, [sleep(10.0), Send("rank 1", 128.0)], [Receive("rank 0")])
    assert outcome.makespan_s == pytest.approx(10.0 + HOP_S + 1.0)
    assert outcome.seconds("partner")[1] == pytest.approx(10.0)
    assert outcome.seconds("transfer")[1] == pytest.approx(HOP_S + 1.0)
    assert sorted(outcome.path_s.values()) == pytest.approx([HOP_S + 1.0, 10.0])


@pytest.mark.parametrize("limits", [{}, {"eager_below_bytes": 200.0}, {"detached_below_bytes": 200.0}])
def test_a_synchronous_send_waits_for_its_receiver_whatever_its_size(limits):
    sends = [Send("rank 1", 128.0, synchronous=True)]
    outcome = replay(crossbar(2, **limits), sends, [sleep(10.0), Receive("rank 0")])
    assert outcome.end_s == pytest.approx([10 + HOP_S + 1.0] * 2)
    sends = [Send("rank 1", 128.0, request=1, synchronous=True), sleep(1.0), Await()]
    assert replay(crossbar(2, **limits), sends, [sleep(10.0), Receive("rank 0")]).end_s[0] == outcome.end_s[0]


def test_an_eager_message_on_its_way_is_received_when_it_arrives():
    outcome = replay(crossbar(2, eager_below_bytes=200.0), [Send("rank 1", 128.0)], [sleep(1.0), Receive("rank 0")])
    assert outcome.end_s == pytest.approx([0.0, HOP_S + 1.0])
    assert outcome.seconds("partner")[1] == 0.0


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8, 9, 16, 17])
def test_a_binomial_broadcast_takes_the_logarithm_of_the_ranks(count):
    outcome = replay(crossbar(count), *[[Collective("binomial-bcast", 128.0, "bcast")]] * count)
    assert outcome.makespan_s == pytest.approx(math.ceil(math.log2(count)) * (HOP_S + 1.0))


@pytest.mark.parametrize("count", [2, 3, 8, 13])
def test_a_ring_takes_a_step_for_each_other_rank(count):
    outcome = replay(crossbar(count), *[[Collective("ring", 128.0)]] * count)
    assert outcome.makespan_s == pytest.approx((count - 1) * (HOP_S + 1.0))


@pytest.mark.parametrize("count", [2, 5, 8, 16])
def test_dissemination_takes_the_logarithm_of_the_ranks(count):
    outcome = replay(crossbar(count), *[[sleep(float(n)), Collective("dissemination", 0.0)] for n in range(count)])
    assert outcome.makespan_s == pytest.approx(count - 1 + math.ceil(math.log2(count)) * HOP_S)
    assert min(outcome.end_s) >= count - 1


def test_a_chain_passes_from_rank_to_rank():
    outcome = replay(crossbar(5), *[[Collective("chain", 128.0)]] * 5)
    assert outcome.end_s == pytest.approx([min(n + 1, 4) * (HOP_S + 1.0) for n in range(5)])


def test_who_takes_any_sender_gets_what_was_sent_first():
    late, early = [sleep(2.0), Send("rank 2", 128.0)], [sleep(1.0), Send("rank 2", 256.0)]
    outcome = replay(crossbar(3), late, early, [sleep(3.0), Receive(None), Receive(None)])
    assert outcome.end_s == pytest.approx([3 + 2 * HOP_S + 3.0, 3 + HOP_S + 2.0, 3 + 2 * HOP_S + 3.0])


def test_wildcards_match_in_the_order_in_which_they_were_posted():
    """The receive of any tag was posted first, so it takes the message that the second one names."""
    programs = [
        [sleep(1.0), Send("rank 1", 256.0, tag=7)],
        [Receive(None, tag=None, request=1), Receive("rank 0", tag=7, request=2), Await((1,))],
    ]
    assert replay(crossbar(2), *programs).end_s == pytest.approx([1 + HOP_S + 2.0] * 2)
    programs[1][-1] = Await((2,))
    with pytest.raises(DeadlockError, match=r"rank 1 waits to receive from rank 0 \(tag 7\)$"):
        replay(crossbar(2), *programs)


def test_messages_of_a_pair_do_not_overtake():
    """The long one was sent first: receives get them in that order, though the short one arrives first."""
    network = crossbar(2, eager_below_bytes=1e6)
    sends = [Send("rank 1", 1280.0), Send("rank 1", 1.0)]
    outcome = replay(network, sends, [Receive("rank 0"), sleep(100.0), Receive("rank 0")])
    assert outcome.seconds("transfer")[1] == pytest.approx(HOP_S + (1280 + 1) / BANDWIDTH)
    by_tag = [Receive("rank 0", tag=1), Receive("rank 0", tag=0)]
    outcome = replay(network, [Send("rank 1", 1280.0), Send("rank 1", 1.0, tag=1)], by_tag)
    assert outcome.end_s[1] == pytest.approx(HOP_S + (1280 + 1) / BANDWIDTH)


def test_communicators_keep_messages_apart():
    programs = [
        [Send("rank 1", 128.0, communicator="other"), Send("rank 1", 256.0)],
        [Receive("rank 0"), Receive("rank 0", communicator="other")],
    ]
    world = {"world": ("rank 0", "rank 1"), "other": ("rank 1", "rank 0")}
    with pytest.raises(
        DeadlockError, match=r"rank 0 waits to send 128 bytes to rank 1 \(tag 0\); rank 1 waits to receive from rank 0"
    ):
        simulate(System(network=crossbar(2), communicators=world), ranks(*programs))
    detached = System(network=crossbar(2, detached_below_bytes=1e6), communicators=world)
    assert simulate(detached, ranks(*programs)).makespan_s == pytest.approx(2 * HOP_S + 3.0)


def test_ranks_of_one_node_need_no_link():
    network = crossbar(1, own_latency_s=0.5, own_bytes_per_s=64.0)
    three = [
        [Send("rank 1", 128.0)],
        [Receive("rank 0")],
        [Send("rank 2", 64.0, request=1), Receive("rank 2"), Await()],
    ]
    outcome = replay(network, *three, nodes=(0, 0, 0))
    assert outcome.end_s == pytest.approx([2.5, 2.5, 1.5])
    assert not outcome.bandwidth_bytes.any()


def test_ranks_of_one_node_share_its_cores_and_its_accelerator():
    compute = Run("compute", 4.0, Sharing("cores"))
    exchange = [Send("rank 1", 128.0), Send("rank 0", 128.0)]
    programs = [
        [compute, exchange[0], Use("accelerator", "kernel", 3.0)],
        [compute, Receive("rank 0"), Use("accelerator", "kernel", 3.0)],
    ]
    outcome = replay(
        crossbar(1, own_bytes_per_s=128.0), *programs, nodes=(0, 0), cores={"cores": 1}, devices={"accelerator": 1}
    )
    assert sorted(outcome.end_s) == pytest.approx([8 + 1 + 3, 8 + 1 + 6])
    assert outcome.seconds("queue").sum() == pytest.approx(3.0)


def test_ranks_that_share_an_accelerator_are_m_d_1():
    """Ranks that ask at random times: waits of rho / (2 mu (1 - rho)) on average (Pollaczek and Khinchine)."""
    generator, count, load, now, programs = random.Random(2), 20_000, 0.6, 0.0, []
    for _ in range(count):
        now += generator.expovariate(load)
        programs.append([sleep(now), Use("accelerator", "kernel", 1.0), Send("rank 0", 1.0)])
    programs[0] = [*programs[0][:2], *[Receive(None)] * (count - 1)]
    network = crossbar(1, eager_below_bytes=2.0)
    outcome = simulate(
        system(network, count, devices={"accelerator": 1}), ranks(*programs, nodes=[0] * count), most_segments=0
    )
    waits = outcome.seconds("queue")
    error_s = waits.reshape(40, -1).mean(axis=1).std(ddof=1) / math.sqrt(40)
    assert abs(waits.mean() - load / (2 * (1 - load))) < 4 * error_s < 0.4 * waits.mean()
    assert outcome.messages == count - 1


def test_any_one_request_ends_a_wait():
    """The shorter of two messages ends it; the other one is awaited later."""
    both = [
        Receive("rank 0", request=1),
        Receive("rank 1", request=2),
        Await((1, 2), any_one=True),
        sleep(0.0),
        Await(),
    ]
    outcome = replay(crossbar(3), [sleep(5.0), Send("rank 2", 128.0)], [Send("rank 2", 128.0)], both)
    own = outcome.segments[outcome.segments["entity"] == 2]
    assert own["end_s"].tolist() == pytest.approx([HOP_S, HOP_S + 1, 5.0, 5 + HOP_S + 1][-len(own) :], abs=5.0)
    assert outcome.seconds("partner")[2] == pytest.approx(5 - HOP_S - 1)
    assert outcome.end_s[2] == pytest.approx(5 + HOP_S + 1)


def test_a_detached_send_is_done_when_any_one_is_awaited():
    network = crossbar(2, detached_below_bytes=1e6)
    first = [
        Receive("rank 1", request=1),
        Send("rank 1", 128.0, request=2),
        Await((1, 2), any_one=True),
        sleep(1.0),
        Await(),
    ]
    outcome = replay(network, first, [Receive("rank 0"), sleep(20.0), Send("rank 0", 128.0)])
    assert outcome.seconds("sleep")[0] == 1.0
    assert outcome.end_s[0] == pytest.approx(HOP_S + 1 + 20 + HOP_S + 1)


def test_nobody_waits_for_any_one_of_none():
    assert replay(crossbar(1), [Await(any_one=True), Await(), Await((3,), any_one=True)]).makespan_s == 0.0


@pytest.mark.parametrize("topology", [Crossbar(6), Crossbar(6, 100.0), Torus((6,)), Torus((4, 3)), Torus((2, 3, 4)),
                                      FatTree((4, 2), (1, 2), (1, 1)),
                                      FatTree((2, 3, 2), (1, 2, 3), (2, 1, 2))])  # fmt: skip
def test_routes_are_those_of_the_topology(topology):
    """One byte from each node to each other one, alone, goes over the links that the definition names."""
    network = Network(topology, LATENCY, BANDWIDTH)
    generator = random.Random(3)
    pairs = [(a, b) for a in range(topology.nodes) for b in range(topology.nodes)]
    for source, target in pairs if IS_FULL else generator.sample(pairs, min(len(pairs), 60)):
        outcome = replay(network, [Send("rank 1", 1.0)], [Receive("rank 0")], nodes=(source, target))
        links = np.array(outcome.compiled.bandwidths)[outcome.bandwidth_bytes > 0]
        assert sorted(links) == sorted(route(topology, source, target)), (source, target)
        hops = len([link for link in links if link != "backbone"])
        narrowest = min([BANDWIDTH, *([100.0] if "backbone" in links else [])]) if source != target else 1e10
        assert outcome.makespan_s == pytest.approx(hops * LATENCY + 1 / narrowest)


def test_answers_take_a_share_on_the_way_back():
    """Both directions are full: each flow has what 1.05 of them leave."""
    pair = [
        [Send("rank 1", 128.0, request=1), Receive("rank 1"), Await()],
        [Send("rank 0", 128.0, request=1), Receive("rank 0"), Await()],
    ]
    assert replay(crossbar(2, back_share=0.05), *pair).makespan_s == pytest.approx(HOP_S + 1.05)


# ---- collectives ----


def _folds(count):
    """(ranks of the power of two, those beyond it)."""
    power = 1 << (count.bit_length() - 1)
    return power, count - power


def _logarithm(count):
    return math.ceil(math.log2(count))


MESSAGES = {
    "linear-gather": lambda p: p - 1,
    "linear-scatter": lambda p: p - 1,
    "linear-exchange": lambda p: p * (p - 1),
    "linear-scan": lambda p: p * (p - 1) // 2,
    "binomial-bcast": lambda p: p - 1,
    "binomial-reduce": lambda p: p - 1,
    "binomial-scatter": lambda p: p - 1,
    "binomial-gather": lambda p: p - 1,
    "recursive-doubling": lambda p: _folds(p)[0] * int(math.log2(_folds(p)[0])) + 2 * _folds(p)[1],
    "doubling-gather": lambda p: _folds(p)[0] * int(math.log2(_folds(p)[0])) + 2 * _folds(p)[1],
    "halving-scatter": lambda p: _folds(p)[0] * int(math.log2(_folds(p)[0])) + 2 * _folds(p)[1],
    "rabenseifner": lambda p: 2 * _folds(p)[0] * int(math.log2(_folds(p)[0])) + 2 * _folds(p)[1],
    "ring": lambda p: p * (p - 1),
    "pairwise": lambda p: p * (p - 1),
    "exclusive-or": lambda p: p * (p - 1),
    "bruck": lambda p: p * _logarithm(p),
    "bruck-gather": lambda p: p * _logarithm(p),
    "dissemination": lambda p: p * _logarithm(p),
    "chain": lambda p: p - 1,
}
"""Messages of p ranks (Thakur, Rabenseifner and Gropp 2005)."""


def _scattered(p):
    """Blocks moved along a binomial tree: each as often as its rank is deep."""
    return sum(bin(n).count("1") for n in range(p))


BYTES = {
    "binomial-scatter": _scattered,
    "binomial-gather": _scattered,
    "doubling-gather": lambda p: _folds(p)[1] * (1 + p) + p * (_folds(p)[0] - 1),
    "halving-scatter": lambda p: _folds(p)[1] * (1 + 1 / p) + _folds(p)[0] - 1,
    "rabenseifner": lambda p: 2 * _folds(p)[1] + 2 * (_folds(p)[0] - 1),
    "bruck": lambda p: p * sum(bin(n).count("1") for n in range(p)),
    "bruck-gather": lambda p: p * (p - 1),
}
"""Bytes, in sizes of the operation, where messages differ in length."""


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_collectives_send_as_many_bytes_and_messages_as_their_formula(algorithm):
    for count in range(1, 18):
        if algorithm == "exclusive-or" and count & (count - 1):
            continue
        roots = (
            {0, count - 1, count // 2} if algorithm.startswith(("binomial", "linear-gather", "linear-scatter")) else {0}
        )
        for root in roots:
            size_bytes = 60.0
            outcome = replay(crossbar(count), *[[Collective(algorithm, size_bytes, root=root)]] * count)
            assert outcome.messages == MESSAGES[algorithm](count), count
            sizes = BYTES.get(algorithm, MESSAGES[algorithm])(count)
            assert outcome.sent_bytes == pytest.approx(size_bytes * sizes), count
            assert outcome.moved_bytes == pytest.approx(outcome.sent_bytes)
            assert outcome.makespan_s > 0 or count == 1
    assert set(MESSAGES) == set(ALGORITHMS)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_who_sends_in_a_collective_is_received_from(algorithm):
    """The twin's rounds themselves: every message sent is one that its receiver expects, in the same order."""
    for count in range(1, 18):
        if algorithm == "exclusive-or" and count & (count - 1):
            continue
        rounds = [rounds_of(Collective(algorithm, 1.0, root=count - 1), rank, count) for rank in range(count)]
        sent = sorted((rank, to) for rank, own in enumerate(rounds) for sends, _ in own for to, _ in sends)
        received = sorted(
            (sender, rank) for rank, own in enumerate(rounds) for _, receives in own for sender in receives
        )
        assert sent == received


def test_collectives_with_sizes_by_rank():
    counts = (128.0, 0.0, 256.0)
    gathered = replay(crossbar(3), *[[Collective("linear-gather", 0.0, counts=counts)]] * 3)
    assert gathered.sent_bytes == 256.0
    assert gathered.makespan_s == pytest.approx(HOP_S + 2.0)
    scattered = replay(crossbar(3), *[[Collective("linear-scatter", 0.0, root=1, counts=counts)]] * 3)
    assert scattered.sent_bytes == 128.0 + 256.0
    pairs = tuple(float(10 * i + j) for i in range(3) for j in range(3))
    exchanged = replay(crossbar(3), *[[Collective("pairwise", 0.0, counts=pairs)]] * 3)
    assert exchanged.sent_bytes == sum(10 * i + j for i in range(3) for j in range(3) if i != j)
    from_root = replay(crossbar(3), *[[Collective("linear-scatter", 0.0, root=1, counts=pairs)]] * 3)
    assert from_root.sent_bytes == 10 + 12
    ring = replay(crossbar(3), *[[Collective("ring", 0.0, counts=counts)]] * 3)
    assert ring.sent_bytes == 2 * sum(counts)


def test_a_collective_proceeds_beside_its_rank():
    """The tree of four ranks takes two messages of 1.5 s, which those compute through who wait for nothing."""
    programs = [
        [Started((Collective("binomial-bcast", 128.0, "bcast"),), 1), sleep(10.0), Await((1,))] for _ in range(4)
    ]
    outcome = replay(crossbar(4), *programs)
    assert outcome.end_s.tolist() == [10.0] * 4
    assert outcome.messages == 3
    for program in programs:
        del program[1]
    late = [sleep(5.0), *programs[0]]
    outcome = replay(crossbar(4), late, *programs[1:])
    assert outcome.makespan_s == pytest.approx(5 + 2 * (HOP_S + 1))
    assert outcome.path_s == pytest.approx({"sleep": 5.0, "bcast": 2 * (HOP_S + 1)} | dict(outcome.path_s), abs=3.1)
    assert sum(outcome.path_s.values()) == pytest.approx(outcome.makespan_s)


def test_collectives_of_a_communicator_match_in_the_order_of_their_calls():
    """Two roots send to all; a rank that awaits the second one first gets its bytes, and the first one's later."""
    bcasts = [Started((Collective("linear-scatter", 128.0 * (n + 1), root=n),), n + 1) for n in range(2)]
    programs = [[*bcasts, Await((2,)), sleep(1.0), Await((1,))] for _ in range(3)]
    programs[0].insert(0, sleep(20.0))
    outcome = replay(crossbar(3), *programs)
    assert outcome.end_s[2] == pytest.approx(20 + HOP_S + 2.0, abs=1.0)
    barrier = Started((Collective("dissemination", 0.0),), 3)
    programs = [[*bcasts, barrier, Collective("ring", 64.0), Await()] for _ in range(3)]
    assert replay(crossbar(3), *programs).messages == 2 + 2 + 6 + 6


def test_several_algorithms_in_a_row_are_one_request():
    steps = (Collective("binomial-reduce", 128.0), Collective("binomial-bcast", 128.0))
    outcome = replay(crossbar(4), *[[Started(steps, 1), Await()]] * 4)
    whole = replay(crossbar(4), *[list(steps)] * 4)
    assert outcome.end_s == pytest.approx(whole.end_s)
    assert outcome.messages == whole.messages == 6


def test_a_billion_iterations_with_collectives_beside_them_are_folded():
    """The request of an iteration is awaited in the next one, so that one is always on its way."""
    body = (
        Run("compute", 1.0, CPU),
        Await((1,)),
        Started((Collective("recursive-doubling", 8.0, "allreduce"),), 1),
        Started((Collective("ring", 8.0, "allgather"),), 2),
        Run("compute", 2.0, CPU),
        Await((2,)),
    )
    few, many = (
        replay(crossbar(3), *[[Repeat(count, body), Await()]] * 3, cores={"cores": 3}, folding=count > 200)
        for count in (100, 10**9)
    )
    assert many.makespan_s == pytest.approx(1e7 * few.makespan_s, rel=1e-6)
    assert many.events_simulated < few.events_simulated
    assert many.messages == 1e7 * few.messages
    assert sum(many.path_s.values()) == pytest.approx(many.makespan_s, rel=1e-9)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Collective("ring", 8.0, "allgather"), "rank 1 calls allgather of 8 bytes, but rank 0 calls bcast of 8 bytes"),
        (Collective("binomial-bcast", 8.0, "bcast", root=1), "8 bytes with root 1, but .* of 8 bytes with root 0"),
        (Collective("binomial-bcast", 9.0, "bcast"), "rank 1 calls bcast of 9 bytes, but rank 0 calls bcast of 8"),
        (Started((Collective("binomial-bcast", 9.0, "bcast"),), 1), "rank 1 calls bcast of 9 bytes, but rank 0"),
    ],
)
def test_members_that_disagree_about_a_collective_are_refused(other, message):
    for first in ([], [Collective("ring", 8.0)] * 3):
        with pytest.raises(PredictionError, match=message):
            replay(crossbar(2), [*first, Collective("binomial-bcast", 8.0, "bcast")], [*first, other])


def test_a_deadlock_names_the_messages_of_a_collective_beside_its_rank():
    with pytest.raises(DeadlockError) as caught:
        replay(crossbar(2), [Started((Collective("ring", 8.0, "allgather"),), 1), Await()], [])
    assert caught.value.waits == (
        "rank 0 waits to receive from rank 1 (allgather) and to send 8 bytes to rank 1 (allgather)",
    )


def test_collectives_of_sub_communicators_in_any_order():
    """Ranks of a communicator are its members in their order, whatever the numbers of the entities."""
    world = {"world": tuple(f"rank {n}" for n in range(5)), "odd": ("rank 3", "rank 1", "rank 4")}
    bcast = Collective("binomial-bcast", 128.0, communicator="odd")
    programs = [[bcast] if n in (1, 3, 4) else [] for n in range(5)]
    outcome = simulate(System(network=crossbar(5), communicators=world), ranks(*programs))
    assert outcome.end_s == pytest.approx([0, 2 * (HOP_S + 1), 0, 2 * (HOP_S + 1), HOP_S + 1], abs=2 * (HOP_S + 1))
    assert outcome.end_s[3] == pytest.approx(2 * (HOP_S + 1))
    assert sorted(outcome.end_s)[:3] == pytest.approx([0, 0, HOP_S + 1])


# ---- deadlocks ----


@pytest.mark.parametrize(("size_bytes", "is_stuck"), [(99.0, False), (100.0, True)])
def test_head_to_head_sends_deadlock_above_the_limit_only(size_bytes, is_stuck):
    programs = [
        [Send("rank 1", size_bytes, tag=7), Receive("rank 1", tag=7)],
        [Send("rank 0", size_bytes, tag=7), Receive("rank 0", tag=7)],
    ]
    for limits in ({"eager_below_bytes": 100.0}, {"detached_below_bytes": 100.0}):
        if not is_stuck:
            assert replay(crossbar(2, **limits), *programs).makespan_s == pytest.approx(HOP_S + size_bytes / BANDWIDTH)
            continue
        with pytest.raises(DeadlockError) as caught:
            replay(crossbar(2, **limits), *programs)
        assert caught.value.waits == (
            "rank 0 waits to send 100 bytes to rank 1 (tag 7)",
            "rank 1 waits to send 100 bytes to rank 0 (tag 7)",
        )
        assert "\n" not in str(caught.value)


def test_a_deadlock_says_what_each_rank_calls():
    requests = [Receive("rank 0", tag=n, request=n + 1) for n in range(5)]
    programs = [
        [sleep(1.0), Receive(None, tag=None)],
        [Collective("binomial-reduce", 8.0, "reduce")],
        [*requests, Send("rank 0", 8.0, communicator="pair", request=9), Await((1, 9))],
        [*requests[:2], Await(any_one=True)],
        [*requests, Await()],
        [],
    ]
    world = {"world": tuple(f"rank {n}" for n in range(6)), "pair": ("rank 0", "rank 2")}
    with pytest.raises(DeadlockError) as caught:
        simulate(System(network=crossbar(6), communicators=world), ranks(*programs))
    assert caught.value.waits == (
        "rank 0 waits to receive from anybody (any tag)",
        "rank 1 waits to send 8 bytes to rank 0 (reduce)",
        "rank 2 waits to receive from rank 0 (tag 0) and to send 8 bytes to rank 0 (tag 0)",
        "rank 3 waits to receive from rank 0 (tag 0) and to receive from rank 0 (tag 1)",
        "rank 4 waits to receive from rank 0 (tag 0) and to receive from rank 0 (tag 1)"
        " and to receive from rank 0 (tag 2) and 2 more messages",
    )


def test_a_barrier_and_messages_deadlock_together():
    with pytest.raises(DeadlockError) as caught:
        replay(crossbar(2), [Barrier("all")], [Receive("rank 0"), Barrier("all")], barriers={"all": 2})
    assert caught.value.waits == (
        "rank 0 waits at barrier all, to which 1 of 2 came",
        "rank 1 waits to receive from rank 0 (tag 0)",
    )


# ---- against the twin ----

CPU = Sharing("cores")
MEMORY = Sharing("cores", None, ("memory",), ((1.0, 4.0),))
SIZES = (0.0, 1.0, 16.0, 64.0, 100.0, 128.0)
networks = st.builds(
    Network,
    st.sampled_from(
        [Crossbar(5), Crossbar(5, 32.0), Crossbar(5, 64.0, 0.5), Torus((5,)), Torus((2, 3)), Torus((4, 2)),
         FatTree((2, 3), (1, 2), (1, 1)), FatTree((3, 2), (2, 1), (1, 2))]
    ),
    st.sampled_from([0.0, 0.25, 1.0]),
    st.just(64.0),
    own_latency_s=st.sampled_from([0.0, 0.5]),
    own_bytes_per_s=st.sampled_from([64.0, 1e10]),
    eager_below_bytes=st.sampled_from([0.0, 50.0]),
    detached_below_bytes=st.sampled_from([0.0, 110.0]),
    envelope_bytes=st.sampled_from([0.0, 4.0]),
    window_bytes=st.sampled_from([0.0, 16.0]),
    weight_bytes=st.sampled_from([0.0, 32.0]),
    back_share=st.sampled_from([0.0, 0.0625]),
    regimes=st.sampled_from([(), (Regime(0, 2.0, 0.5),), (Regime(10, 2.0, 0.75, 0.25), Regime(70, 3.0, 0.5, -0.5))]),
    own_regimes=st.sampled_from([None, (), (Regime(20, 3.0, 0.25, 0.5), Regime(90, 0.0, 0.5))]),
)  # fmt: skip

runs = st.one_of(
    st.builds(Run, st.just("run"), st.integers(0, 24).map(lambda n: n / 8), st.sampled_from([CPU, MEMORY])),
    st.builds(Sleep, st.just("sleep"), st.integers(0, 16).map(lambda n: n / 4)),
    st.just(Use("device", "kernel", 0.75)),
)


@st.composite
def rank_programs(draw):
    """Programs of 2 to 5 ranks: pieces in which some ranks take part, each a pattern that mostly fits together."""
    count = draw(st.integers(2, 5))
    programs = [[] for _ in range(count)]
    open_ = [1] * count
    who = st.integers(0, count - 1)
    tag = st.integers(0, 1)

    def request(rank):
        open_[rank] += 1
        return open_[rank] - 1

    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from("mmmmmnnnncrrraas"))
        rank, other = draw(who), draw(who)
        if kind == "m":  # a message, waited for or not on either side
            size, its = draw(st.sampled_from(SIZES)), draw(tag)
            sender, label = (
                draw(st.sampled_from([f"rank {rank}", f"rank {rank}", None])),
                draw(st.sampled_from([its, its, None])),
            )
            is_open = draw(st.tuples(st.booleans(), st.booleans()))
            number = request(rank) if is_open[0] or rank == other else 0
            sends = Send(f"rank {other}", size, tag=its, request=number, synchronous=draw(st.integers(0, 3)) == 0)
            receives = Receive(sender, tag=label, request=request(other) if is_open[1] else 0)
            programs[rank].append(sends)
            programs[other].append(receives)
        elif kind == "n":  # computation
            programs[rank].append(draw(runs))
        elif kind == "c":
            algorithm = draw(st.sampled_from([a for a in ALGORITHMS if a != "exclusive-or" or count in (2, 4)]))
            collective = Collective(algorithm, draw(st.sampled_from(SIZES)), root=draw(who))
            steps = (collective,) * draw(st.integers(1, 2))
            started = draw(st.sampled_from([0, 0, 1]))
            for number, own in enumerate(programs):
                own += [Started(steps, request(number))] if started else steps
        elif kind == "r":
            programs[rank].append(Await((), any_one=False))
        elif kind == "a":
            programs[rank].append(Await((), any_one=True))
        elif draw(st.integers(0, 3)) == 0:  # one that nobody expects
            programs[rank].append(draw(st.sampled_from([Send(f"rank {other}", 64.0), Receive(f"rank {other}")])))
    for own in programs:
        own.append(Await())
    nodes = [draw(st.integers(0, 4)) for _ in range(count)]
    return ranks(*programs, nodes=nodes)


def shared_system(network, count):
    return system(network, count, cores={"cores": 2}, bandwidths={"memory": (6.0, 7.0)}, devices={"device": 1})


KINDS = ("run", "device", "sleep", "queue", "partner", "transfer")


@settings(max_examples=examples(600), suppress_health_check=[HealthCheck.too_slow])
@given(rank_programs(), networks)
def test_the_event_loop_agrees_with_its_twin(entities, network):
    shared = shared_system(network, len(entities))
    expected = MessageReference(shared, entities)
    try:
        outcome = simulate(shared, entities)
    except DeadlockError as error:
        assert [line.partition(" waits ")[0] for line in error.waits] == expected.stuck
        return
    assert not expected.stuck
    assert outcome.end_s == pytest.approx(list(expected.end_s.values()), rel=1e-9, abs=1e-9)
    for kind in KINDS:
        spent = [expected.spent_s[entity.name].get(kind, 0.0) for entity in entities]
        assert outcome.seconds(kind) == pytest.approx(spent, rel=1e-9, abs=1e-9), kind
    assert outcome.messages == expected.messages
    assert outcome.sent_bytes == pytest.approx(expected.sent_bytes)


@settings(max_examples=examples(60))
@given(st.sampled_from(ALGORITHMS), st.integers(1, 17), st.integers(0, 16), networks, st.data())
def test_collectives_agree_with_the_twin(algorithm, count, root, network, data):
    """Ranks come at different times, on nodes of any topology."""
    if algorithm == "exclusive-or":
        count = 1 << (count.bit_length() - 1)
    sizes = data.draw(
        st.sampled_from([(), tuple(float(8 * n) for n in range(count)), tuple(float(n % 7) for n in range(count**2))])
    )
    if (
        not algorithm.startswith(("linear-g", "linear-sca", "linear-e", "pairwise", "exclusive"))
        or count == 1
        or algorithm == "linear-scan"
    ):
        sizes = ()
    collective = Collective(algorithm, 64.0, root=root % count, counts=sizes)
    programs = [[sleep(data.draw(st.integers(0, 3)) / 2), collective, collective] for _ in range(count)]
    entities = ranks(*programs, nodes=[n % network.topology.nodes for n in range(count)])
    expected = MessageReference(system(network, count), entities)
    outcome = simulate(system(network, count), entities)
    assert outcome.end_s == pytest.approx(list(expected.end_s.values()), rel=1e-9, abs=1e-9)
    assert outcome.messages == expected.messages


# ---- folding ----


def halo(count, iterations, *, any_one=False):
    """Ranks in a ring that compute, exchange with both neighbours, and take part in a sum."""
    programs = []
    for rank in range(count):
        left, right = (f"rank {(rank + step) % count}" for step in (-1, 1))
        waits = [Await((1, 2, 3, 4), any_one=True)] * 4 if any_one else [Await()]
        body = [
            Run("compute", 1.0 + rank / 16, CPU), Receive(left, request=1), Receive(right, tag=1, request=2),
            Send(right, 96.0, request=3), Send(left, 96.0, tag=1, request=4), *waits,
            Collective("recursive-doubling", 8.0, "allreduce"),
        ]  # fmt: skip
        programs.append([Repeat(iterations, tuple(body))])
    return programs


@pytest.mark.parametrize("any_one", [False, True])
@pytest.mark.parametrize("limits", [{}, {"detached_below_bytes": 200.0}, {"eager_below_bytes": 200.0}])
def test_a_billion_iterations_of_a_halo_exchange_are_folded(limits, any_one):
    network = Network(Torus((3, 2)), LATENCY, BANDWIDTH, back_share=0.0625, **({"detached_below_bytes": 0.0} | limits))
    few, more, many = (
        replay(
            network, *halo(5, count, any_one=any_one), cores={"cores": 3}, nodes=(0, 1, 2, 3, 5), folding=count > 200
        )
        for count in (100, 200, 10**9)
    )
    times = (10**9 - 100) / 100  # of what 100 iterations take once the first ones are over
    assert many.makespan_s - few.makespan_s == pytest.approx(times * (more.makespan_s - few.makespan_s), rel=1e-9)
    assert many.events_simulated <= few.events_simulated
    assert many.events == pytest.approx(1e7 * few.events, rel=1e-7)
    assert many.messages == 1e7 * few.messages
    assert many.sent_bytes == pytest.approx(1e7 * few.sent_bytes)
    assert many.moved_bytes == pytest.approx(1e7 * few.moved_bytes)
    assert many.entity_s - few.entity_s == pytest.approx(times * (more.entity_s - few.entity_s), rel=1e-8, abs=1e-3)
    assert sum(many.path_s.values()) == pytest.approx(many.makespan_s, rel=1e-9)
    path_s = {name: time_s + times * (more.path_s[name] - time_s) for name, time_s in few.path_s.items()}
    assert many.path_s == pytest.approx(path_s, rel=1e-9)
    assert many.periods_estimated == 0


def compared(network, programs, **other):
    folded, whole = (replay(network, *programs, folding=folding, **other) for folding in (True, False))
    assert folded.end_s == pytest.approx(whole.end_s, rel=1e-9)
    assert folded.entity_s == pytest.approx(whole.entity_s, rel=1e-9, abs=1e-6)
    assert folded.messages == whole.messages
    assert folded.events == pytest.approx(whole.events)
    assert folded.sent_bytes == pytest.approx(whole.sent_bytes)
    assert folded.moved_bytes == pytest.approx(whole.moved_bytes)
    assert folded.bandwidth_bytes == pytest.approx(whole.bandwidth_bytes)
    assert folded.path_s == pytest.approx(whole.path_s, rel=1e-6, abs=1e-6)
    return folded, whole


def test_folding_a_pipeline_of_messages_in_flight():
    """Eager messages every second over a way of 20 s: many are on their way at the end of each iteration."""
    network = Network(Crossbar(2), 10.0, BANDWIDTH, eager_below_bytes=1e6)
    programs = [[Repeat(2000, (sleep(1.0), Send("rank 1", 64.0)))], [Repeat(2000, (Receive("rank 0"), sleep(0.5)))]]
    folded, whole = compared(network, programs)
    assert folded.makespan_s == pytest.approx(2000 + 20 + 0.5 + 0.5)
    assert folded.events_simulated < 0.5 * whole.events_simulated


@pytest.mark.parametrize("count", [600, 5000])
def test_folding_where_a_rank_runs_ahead(count):
    """The sender is faster, so that its messages queue up until it is done: no period may be made up or lost."""
    network = Network(Crossbar(2), LATENCY, BANDWIDTH, eager_below_bytes=1e6)
    programs = [[Repeat(count, (sleep(0.25), Send("rank 1", 16.0)))], [Repeat(count, (Receive("rank 0"), sleep(1.0)))]]
    folded, _ = compared(network, programs)
    assert folded.makespan_s == pytest.approx(0.25 + HOP_S + 16 / BANDWIDTH + count)


def test_folding_where_two_senders_drift_apart():
    """Periods of 1 and sqrt(2) s have no common multiple, so that no state repeats; the receiver takes any sender."""
    count = 3000
    network = Network(Crossbar(3), LATENCY, BANDWIDTH, eager_below_bytes=1e6)
    first, second = (Repeat(count, (sleep(time_s), Send("rank 2", 16.0))) for time_s in (1.0, math.sqrt(2)))
    folded, whole = (
        replay(network, [first], [second], [Repeat(2 * count, (Receive(None),))], folding=folding)
        for folding in (True, False)
    )
    assert folded.messages == whole.messages == 2 * count
    assert folded.makespan_s == pytest.approx(whole.makespan_s, rel=1e-3)  # windows are estimates, counted as such


def test_folding_around_a_long_message():
    """A message of 1,000 s is on its way while two others exchange short ones; afterwards they are faster."""
    network = Network(Crossbar(4, 64.0), LATENCY, BANDWIDTH)
    ping = Repeat(3000, (Send("rank 1", 16.0), Receive("rank 1")))
    pong = Repeat(3000, (Receive("rank 0"), Send("rank 0", 16.0)))
    folded, whole = compared(network, [[ping], [pong], [Send("rank 3", 32_000.0)], [Receive("rank 2")]])
    assert folded.events_simulated < 0.5 * whole.events_simulated


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
@given(rank_programs(), networks, st.integers(20, 60))
def test_folding_random_loops_of_messages_changes_no_result(entities, network, count):
    repeated = [replace(entity, program=(Repeat(count, entity.program),)) for entity in entities]
    shared = shared_system(network, len(entities))
    outcomes = []
    for folding in (True, False):
        try:
            outcomes.append(simulate(shared, repeated, folding=folding, most_events=200_000))
        except DeadlockError as error:
            outcomes.append(error.waits)
    if isinstance(outcomes[1], tuple):
        assert outcomes[0] == outcomes[1]
        return
    folded, whole = outcomes
    assert folded.end_s == pytest.approx(whole.end_s, rel=1e-6, abs=1e-9)
    assert folded.entity_s == pytest.approx(whole.entity_s, rel=1e-6, abs=1e-6)
    assert folded.messages == whole.messages


@settings(max_examples=examples(200))
@given(rank_programs(), networks)
def test_messages_are_conserved_and_runs_are_deterministic(entities, network):
    shared = shared_system(network, len(entities))
    try:
        first, second = (simulate(shared, entities) for _ in range(2))
    except DeadlockError:
        return
    assert first.moved_bytes <= first.sent_bytes * (1 + 1e-9) + 1e-6
    assert first.work_done_s == pytest.approx(first.work_s, rel=1e-9, abs=1e-9)
    assert np.array_equal(first.segments, second.segments)
    assert np.array_equal(first.entity_s, second.entity_s)
    assert sum(first.path_s.values()) == pytest.approx(first.makespan_s, rel=1e-9, abs=1e-9)
    assert np.allclose(first.entity_s.sum(axis=1), first.end_s, rtol=1e-9, atol=1e-9)


# ---- what is wrong ----


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ([Send("rank 9", 1.0)], "no entity rank 9"),
        ([Send("rank 1", -1.0)], "send: a message of -1.0 bytes, must be a size"),
        ([Send("rank 1", math.nan)], "must be a size"),
        ([Send("rank 1", math.inf)], "must be a size"),
        ([Send("rank 1", 1.0, tag=-1)], "send: tag -1, must be 0 to 2147483647"),
        ([Send("rank 1", 1.0, tag=2**31)], "must be 0 to 2147483647"),
        ([Send("rank 1", 1.0, tag=None)], "send: tag None, must be"),
        ([Receive("rank 1", tag=-1)], "receive: tag -1"),
        ([Send("rank 1", 1.0, communicator="none")], "no communicator none"),
        ([Send("rank 1", 1.0, communicator="own")], "communicator own has no member rank 1"),
        ([Send("rank 1", 1.0, request=-1)], "request -1, must be 0 to"),
        ([Send("rank 1", 1.0, request=10**9)], "request 1000000000, must be 0 to"),
        ([Await((0,))], "wait: requests are numbered from 1, not 0"),
        ([Await((10**9,))], "request 1000000000"),
        ([Receive("rank 1", request=1)] * 2, "rank 0: receive is given request 1, which is not awaited yet"),
        ([Send("rank 1", 1.0, request=1)] * 2, "rank 0: send is given request 1, which is not"),
        ([Collective("magic", 1.0)], "no algorithm magic; there are linear-gather, "),
        ([Collective("ring", 1.0, communicator="none")], "no communicator none"),
        ([Collective("ring", 1.0, "gather", communicator="other")], "rank 0 takes part in gather, but is no member"),
        ([Collective("ring", 1.0, root=2)], "communicator world has no rank 2"),
        ([Collective("ring", 1.0, root=-1)], "communicator world has no rank -1"),
        ([Collective("ring", 1.0, counts=(1.0,))], "1 counts for 2 ranks"),
        ([Collective("ring", 1.0, counts=(1.0, -2.0))], "a message of -2.0 bytes"),
        ([Collective("ring", -1.0)], "a message of -1.0 bytes"),
        ([Started((Collective("ring", 1.0),), 0)], "need a request, and one communicator"),
        ([Started((), 1)], "need a request, and one communicator"),
        ([Started((Collective("ring", 1.0), Collective("ring", 1.0, communicator="three")), 1)], "one communicator"),
        ([Started((Collective("ring", 1.0),), 1)] * 2, "rank 0: collective is given request 1, which is not awaited"),
        ([Collective("exclusive-or", 1.0, communicator="three")], "3 ranks are no power of two"),
    ],
)  # fmt: skip
def test_wrong_messages_are_refused_in_one_line(program, message):
    names = tuple(f"rank {n}" for n in range(3))
    world = {"world": names[:2], "own": names[:1], "other": names[1:2], "three": names}
    for limits in ({"detached_below_bytes": 1e6}, {}):
        with pytest.raises(PredictionError, match=message) as caught:
            simulate(System(network=crossbar(3, **limits), communicators=world), ranks(program, [], []))
        assert "\n" not in str(caught.value)


def test_messages_need_a_network():
    with pytest.raises(PredictionError, match="no network for messages"):
        simulate(system(None, 1), ranks([Send("rank 0", 1.0)]))
    with pytest.raises(PredictionError, match="no network for collectives"):
        simulate(system(None, 1), ranks([Collective("ring", 1.0)]))
    with pytest.raises(PredictionError, match="rank 1 is on node 1 of a network of 1"):
        simulate(system(crossbar(1), 2), ranks([], []))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ((), "communicator c has no members"),
        (("rank 0", "rank 0"), "communicator c has rank 0 twice"),
        (("x",), "no entity x"),
    ],
)
def test_wrong_communicators_are_refused_in_one_line(members, message):
    with pytest.raises(PredictionError, match=message):
        simulate(System(network=crossbar(1), communicators={"c": members}), ranks([]))


@pytest.mark.parametrize(
    ("topology", "figures", "message"),
    [
        (Crossbar(0), {}, "must be at least 1"),
        (Crossbar(2, -1.0), {}, "backbone_bytes_per_s is -1.0, must be positive"),
        (Crossbar(2, 1.0, -1.0), {}, "backbone_latency_s is -1.0"),
        (Torus(()), {}, "no dimensions or levels"),
        (Torus((2, 0)), {}, "must be at least 1"),
        (Torus((1,) * 9), {}, "9 dimensions or levels, more than the 8"),
        (FatTree((2, 2), (1,), (1, 1)), {}, "each level needs its children, parents and parallel links"),
        (Crossbar(2), {"link_bytes_per_s": 0.0}, "link_bytes_per_s is 0.0, must be positive"),
        (Crossbar(2), {"link_latency_s": -1.0}, "link_latency_s is -1.0, must not be negative"),
        (Crossbar(2), {"own_bytes_per_s": math.inf}, "own_bytes_per_s is inf"),
        (Crossbar(2), {"eager_below_bytes": math.nan}, "eager_below_bytes is nan"),
        (Crossbar(2), {"detached_below_bytes": -5.0}, "detached_below_bytes is -5.0"),
        (Crossbar(2), {"back_share": 1.0}, "back_share is 1.0, must be below 1"),
        (Crossbar(2), {"regimes": (Regime(5, 1, 1), Regime(1, 1, 1))}, "must ascend from 0"),
        (Crossbar(2), {"regimes": (Regime(-1, 1, 1),)}, "must ascend from 0"),
        (Crossbar(2), {"regimes": (Regime(0, 1, 0),)}, "a regime has the factors 1 and 0"),
        (Crossbar(2), {"regimes": (Regime(0, 1, 1, math.inf),)}, "and a latency of inf s"),
        (Crossbar(2), {"own_regimes": (Regime(0, 1, 0),)}, "a regime has the factors 1 and 0"),
    ],
)
def test_wrong_networks_are_refused_in_one_line(topology, figures, message):
    with pytest.raises(PredictionError, match=message) as caught:
        Network(topology, **({"link_latency_s": 1.0, "link_bytes_per_s": 1.0} | figures))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "field", "value"),
    [
        ("messages", "peer", 7), ("messages", "peer", -1), ("messages", "peer", -2), ("messages", "communicator", -1),
        ("communicators", "members", 0), ("communicators", "members", 99), ("communicators", "first_member", -1),
        ("collectives", "algorithm", 99), ("collectives", "communicator", 3), ("collectives", "root", 2),
        ("collectives", "first_count", 1),
    ],
)  # fmt: skip
def test_arrays_of_messages_that_do_not_fit_are_refused(table, field, value):
    """The C core trusts no array."""
    program = [Send("rank 1", 1.0, request=1), Await((1,)), Collective("pairwise", 1.0, counts=(1.0, 2.0))]
    compiled = compile_programs(system(crossbar(2), 2), ranks(program, program))
    rows = getattr(compiled.traffic, table).copy()
    rows[0][field] = value
    setattr(compiled.traffic, table, rows)
    with pytest.raises(ValueError, match=r"message|communicator|collective"):
        compiled.engine(most_segments=1, most_events=1, folding=True)


@pytest.mark.parametrize(
    ("table", "value", "message"), [("members", 9, "member"), ("slot_lists", -1, "request"), ("counts", -1, "size")]
)
def test_lists_of_messages_that_do_not_fit_are_refused(table, value, message):
    program = [Send("rank 1", 1.0, request=1), Await((1,)), Collective("pairwise", 1.0, counts=(1.0, 2.0))]
    compiled = compile_programs(system(crossbar(2), 2), ranks(program, program))
    rows = getattr(compiled.traffic, table).copy()
    rows[0] = value
    setattr(compiled.traffic, table, rows)
    with pytest.raises(ValueError, match=message):
        compiled.engine(most_segments=1, most_events=1, folding=True)


@pytest.mark.parametrize("field", ["slots", "list"])
def test_requests_that_an_entity_does_not_have_are_refused(field):
    program = [Send("rank 0", 1.0, request=2), Receive("rank 0"), Await((2,))]
    compiled = compile_programs(system(crossbar(1), 1), ranks(program))
    if field == "slots":
        compiled.starts["slots"] = 1
    else:
        compiled.traffic.slot_lists[0] = 5
    engine = compiled.engine(most_segments=1, most_events=100, folding=True)
    assert engine.advance(math.inf) == _engine.NO_REQUEST


def test_networks_that_do_not_fit_their_links_are_refused():
    for topology in (Crossbar(4), Torus((2, 2)), FatTree((2, 2), (1, 2), (1, 1))):
        compiled = compile_programs(system(Network(topology, 1.0, 1.0), 1), ranks([]))
        compiled.resources = compiled.resources[:-1]
        with pytest.raises(ValueError, match="links that are no resources"):
            compiled.engine(most_segments=1, most_events=1, folding=True)
