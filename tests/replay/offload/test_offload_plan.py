"""Plans against every division of small programs; minimum cuts against networkx."""

import networkx
import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from offload_samples import divisions, planner_of, random_planner, work_of

from foretrace.replay.base.spread import exactly
from foretrace.replay.offload.cut import Network
from foretrace.replay.offload.decisions import decided_beforehand
from foretrace.replay.offload.devices.device import Way
from foretrace.replay.offload.policies import kernels_of
from foretrace.replay.offload.policy import Policy
from foretrace.replay.offload.ranks import activities, replay
from foretrace.tracer.signature.data_flow_records import OUTSIDE

LINK = Way(False, np.zeros(3), np.zeros(3), np.zeros(3), 1e6, 1e6)
FREE = Way(True, np.zeros(3), np.zeros(3), np.zeros(3))
MB = 1e6


def best_s(planner):
    return min(planner.time_s(division) for division in divisions(planner))


@pytest.mark.parametrize("seed", range(60))
def test_the_cut_is_exact_where_transfers_have_no_latency(seed):
    planner = random_planner(seed, latency_s=0.0)
    assert planner.time_s(planner.by_cut()) == pytest.approx(best_s(planner), rel=1e-9)


def test_the_plan_is_near_the_best_division_where_they_have():
    """On 300 random programs of up to nine nodes: the best in all but one, which is 2.5 % from it."""
    ratios = []
    for seed in range(0, 300, 3):
        planner = random_planner(seed, latency_s=1e-2)
        ratios.append(planner.time_s(planner.plan()) / best_s(planner))
    assert max(ratios) < 1.05
    assert sum(ratio > 1 + 1e-9 for ratio in ratios) <= 2


@pytest.mark.parametrize("seed", range(20))
def test_a_plans_replay_takes_the_sum(seed):
    planner = random_planner(seed, latency_s=0.0)
    kernels = planner.plan()
    names = [str(node) for node in range(len(planner.work))]
    way = planner.offers.device.way
    found = replay(
        [activities(planner, kernels)],
        planner.versions,
        names,
        way=way,
        accelerators=1,
        pays=decided_beforehand(frozenset(kernels)),
    )
    assert found.makespan_s == pytest.approx(planner.time_s(kernels))


def test_two_loops_that_share_data_pay_together_where_none_pays_alone():
    """Each moves 1 MB, a second, and gains 0.7."""
    work = work_of([-1, 0, 0], [0.0, 0.7, 0.7], [(OUTSIDE, [1, 2], MB)])
    planner = planner_of(work, {1: 0.0, 2: 0.0}, LINK)
    assert planner.plan() == (1, 2)
    assert planner.time_s((1, 2)) == pytest.approx(1.0)


def test_what_would_go_to_and_fro_stays_together():
    """The middle loop is slower there, but its data would cross twice."""
    work = work_of([-1, 0, 0, 0], [0.0, 10.0, 1.0, 10.0], [(1, [2], MB), (2, [3], MB)])
    planner = planner_of(work, {1: 0.1, 2: 2.5, 3: 0.1}, LINK)
    assert planner.plan() == (1, 2, 3)


def test_the_parent_is_one_launch_and_its_child_a_launch_an_iteration():
    work = work_of([-1, 0, 1], [0.0, 1.0, 1.0], [], entries=[1, 1, 1000])
    way = Way(True, exactly(1e-3), np.zeros(3), np.zeros(3))
    assert planner_of(work, {1: 0.5, 2: 0.1}, way).plan() == (1,)
    cheap = Way(True, exactly(1e-6), np.zeros(3), np.zeros(3))
    assert planner_of(work, {1: 1.5, 2: 0.1}, cheap).plan() == (2,)


def test_policies_differ():
    work = work_of([-1, 0, 0], [0.0, 10.0, 0.1], [(OUTSIDE, [2], MB)])
    planner = planner_of(work, {1: 1.0, 2: 0.05}, LINK)
    assert kernels_of(Policy.ALWAYS, planner) == (1, 2)
    assert kernels_of(Policy.PLAN, planner) == (1,)
    assert planner.time_s(()) == pytest.approx(10.1)


edges = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(0, 50)), max_size=30)


@settings(max_examples=examples(100))
@given(edges)
def test_minimum_cuts_are_those_of_networkx(chosen):
    network, oracle = Network(6), networkx.DiGraph()
    oracle.add_nodes_from((Network.SOURCE, Network.SINK))
    for source, target, capacity in chosen:
        network.edge(source, target, capacity)
        if source != target and capacity:
            known = oracle.get_edge_data(source, target, {"capacity": 0})["capacity"]
            oracle.add_edge(source, target, capacity=known + capacity)
    expected, _ = networkx.minimum_cut(oracle, Network.SOURCE, Network.SINK)
    cost, side = network.source_side()
    assert cost == expected
    assert sum(c for s, t, c in chosen if side[s] and not side[t]) == cost
