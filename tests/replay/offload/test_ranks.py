"""Ranks that share accelerators: closed-form limits, contention, residency and decisions."""

from dataclasses import replace

import numpy as np
import pytest
from flow_samples import flow_of
from hypothesis import given
from hypothesis import strategies as st

from foretrace.replay.base.spread import exactly
from foretrace.replay.engine.program import Run, Sharing
from foretrace.replay.offload.decisions import Activity, Offload, decided_beforehand
from foretrace.replay.offload.devices.device import Way
from foretrace.replay.offload.ranks import replay
from foretrace.replay.offload.residency import Residency, Versions, moved_by_allocation
from foretrace.replay.prediction.conditions import CORES
from foretrace.replay.tree.timed_tree import NodeTree
from foretrace.tracer.signature.data_flow_records import OUTSIDE

times = st.floats(0, 1e6)
NODES = 6
NAMES = [f"node {number}" for number in range(NODES)]
FREE = Way(True, np.zeros(3), np.zeros(3), np.zeros(3))
LINK = Way(False, np.zeros(3), np.zeros(3), exactly(0.25), to_device_bytes_per_s=1e6, from_device_bytes_per_s=5e5)
ROUNDS = np.ones(NODES, np.int64)
MB = 1e6


def on_host(node, host_s):
    return Activity(node, (node,), host_s, own_nodes=(node,), runs=(Run(str(node), host_s, Sharing(CORES)),))


def offloaded(node, host_s, **terms):
    run = (Run(str(node), host_s, Sharing(CORES)),)
    return Activity(node, (node,), host_s, Offload(**terms), (node,), run)


def replayed(ranks, versions=(), way=FREE, **options):
    return replay(ranks, Versions(flow_of(versions), ROUNDS), NAMES, way=way, **options)


@given(st.lists(times, max_size=30))
def test_one_rank_without_accelerator_is_the_sum(host_s):
    """Exactly so: the same additions in the same order."""
    assert replayed([[on_host(0, seconds) for seconds in host_s]]).makespan_s == sum(host_s)


@given(st.lists(st.lists(times, max_size=5), min_size=1, max_size=4))
def test_ranks_with_a_core_each_do_not_wait(ranks):
    result = replayed([[on_host(0, seconds) for seconds in rank] for rank in ranks])
    assert list(result.rank_end_s) == pytest.approx([sum(rank) for rank in ranks], rel=1e-12)
    assert result.makespan_s == max(result.rank_end_s)


def test_ranks_on_one_core_take_turns():
    assert replayed([[on_host(0, 1.0)], [on_host(0, 2.0)]], host_cores=1).makespan_s == 3.0


def test_accelerator_is_used_where_all_its_taxes_together_are_less_than_the_host():
    pays = offloaded(0, 10.0, launch_s=1.0, kernel_s=2.0, arithmetic_s=0.5)
    assert replayed([[pays]], accelerators=1).makespan_s == 3.5
    result = replayed([[offloaded(0, 3.5, launch_s=1.0, kernel_s=2.0, arithmetic_s=0.5)]], accelerators=1)
    (decision,) = result.decisions
    assert (result.makespan_s, decision.offload, decision.cost.total_s) == (3.5, False, 3.5)


def test_without_accelerators_nothing_is_decided():
    result = replayed([[offloaded(0, 10.0, kernel_s=1.0)]])
    assert (result.makespan_s, result.decisions) == (10.0, ())


def test_refused_loop_stays_with_its_reason():
    (decision,) = replayed([[offloaded(0, 10.0, refusal="too small")]], accelerators=1).decisions
    assert (decision.offload, decision.cost, decision.refusal) == (False, None, "too small")


def test_free_accelerator_leaves_only_the_rest():
    """Zero latency, infinite bandwidth."""
    activities = [on_host(0, 2.0), offloaded(1, 10.0), on_host(2, 3.0)]
    assert replayed([activities], accelerators=1).makespan_s == 5.0


def test_what_is_there_already_is_not_transferred_again():
    rank = [offloaded(0, 100.0), offloaded(1, 100.0)]
    assert replayed([rank], [(OUTSIDE, [0, 1], MB)], LINK, accelerators=1).makespan_s == pytest.approx(1 + 0.25)


def test_a_result_stays_where_the_next_kernel_needs_it():
    rank = [offloaded(0, 100.0), offloaded(1, 100.0)]
    assert replayed([rank], [(0, [1], MB)], LINK, accelerators=1).makespan_s == 0.0


def test_a_result_comes_back_when_the_host_reads_it_not_before():
    rank = [offloaded(0, 100.0), offloaded(1, 100.0), on_host(2, 7.0)]
    result = replayed([rank], [(0, [1, 2], MB), (1, [], MB)], LINK, accelerators=1)
    assert result.makespan_s == pytest.approx(0.25 + 2 + 7)
    assert (result.to_device_bytes, result.from_device_bytes, result.transfers) == (0, MB, 1)


def test_what_nobody_reads_stays():
    """Values that were gathered and are used by a later kernel alone, or by none."""
    assert replayed([[offloaded(0, 100.0)]], [(0, [], 32 * MB)], LINK, accelerators=1).makespan_s == 0.0


def test_what_the_host_wrote_goes_to_kernels_that_ran_before_in_the_order_of_nodes():
    """A loop around both: the host's results of one iteration are the kernel's data of the next."""
    rank = [offloaded(0, 100.0), on_host(1, 7.0)]
    result = replayed([rank], [(1, [0], MB)], LINK, accelerators=1)
    assert result.makespan_s == pytest.approx(7 + 1.25)


def test_two_accelerators_exchange_through_the_host():
    busy = [offloaded(3, 1000.0, kernel_s=50.0)]
    rank = [offloaded(0, 100.0), on_host(4, 1.0), offloaded(1, 100.0)]
    flow = [(0, [1], MB)]
    alone = replayed([rank], flow, LINK, accelerators=2)
    assert alone.makespan_s == 1.0
    both = replayed([rank, busy], flow, LINK, accelerators=2, pays=decided_beforehand(frozenset({0, 1, 3})))
    assert both.makespan_s == 50.0


def test_arguments_of_a_few_bytes_go_with_the_launch():
    result = replayed([[on_host(0, 0.0), offloaded(1, 100.0)]], [(0, [1], 64)], LINK, accelerators=1)
    assert result.transfers == 0
    assert result.makespan_s == pytest.approx(64e-6)


def test_a_value_in_a_register_is_waited_for_at_each_launch():
    way = Way(False, np.zeros(3), exactly(2.0), exactly(0.25), 1e6, 1e6)
    result = replayed([[offloaded(0, 1000.0, launches=10, results=10)]], (), way, accelerators=1)
    assert result.makespan_s == pytest.approx(10 * 2.25 + 80e-6)


def test_ranks_have_memories_of_their_own():
    rank = [offloaded(0, 100.0)]
    result = replayed([rank, rank], [(OUTSIDE, [0], MB)], LINK, accelerators=1)
    assert result.to_device_bytes == 2 * MB
    assert result.makespan_s == pytest.approx(2.5)  # one copy engine


def test_copies_of_one_rank_go_on_while_another_ranks_kernel_runs():
    rank = [offloaded(0, 100.0, kernel_s=4.0)]
    result = replayed([rank, rank], [(OUTSIDE, [0], MB)], LINK, accelerators=1)
    assert result.makespan_s == pytest.approx(1.25 + 4 + 4)


def test_two_ranks_wait_for_one_accelerator_but_not_for_two():
    loop = offloaded(0, 10.0, kernel_s=4.0)
    one = replayed([[loop], [loop]], accelerators=1)
    assert one.rank_end_s == (4.0, 8.0)
    assert [decision.cost.queue_s for decision in one.decisions] == [0.0, 4.0]
    assert replayed([[loop], [loop]], accelerators=2).makespan_s == 4.0


def test_rank_that_would_queue_too_long_stays_on_its_host():
    """Three ranks, kernel 4, host 10: the third would end at 12."""
    loop = offloaded(0, 10.0, kernel_s=4.0)
    result = replayed([[loop]] * 3, accelerators=1)
    assert [decision.offload for decision in result.decisions] == [True, True, False]
    assert result.makespan_s == 10.0


def test_queue_is_what_is_left_of_it():
    loop = offloaded(1, 10.0, kernel_s=4.0)
    result = replayed([[loop], [on_host(0, 3.0), loop]], accelerators=1)
    assert result.decisions[1].cost.queue_s == 1.0
    assert result.makespan_s == 8.0


def test_where_a_parent_stays_its_children_are_asked():
    inner = offloaded(1, 9.0, kernel_s=1.0)
    outer = Activity(0, (0, 1), 10.0, Offload(kernel_s=20.0), (0,), (Run("0", 1.0, Sharing(CORES)),), (inner,))
    result = replayed([[outer]], accelerators=1)
    assert [(decision.node, decision.offload) for decision in result.decisions] == [(0, False), (1, True)]
    assert result.makespan_s == 2.0


rows = st.lists(
    st.tuples(st.integers(-1, NODES - 1), st.sets(st.integers(0, NODES - 1), max_size=4), st.integers(1, 10**6)),
    max_size=12,
)


@given(
    rows, st.lists(st.booleans(), min_size=NODES, max_size=NODES), st.permutations(range(NODES)),
    st.lists(st.booleans(), min_size=13, max_size=13),
)  # fmt: skip
def test_what_moves_is_that_of_the_division_in_whatever_order_nodes_are_placed(versions, there, order, has_system):
    """The same bytes as the data flow's own account of the cut; the system may read what some sets of nodes do."""
    flow = flow_of([(writer, sorted(readers), float(size)) for writer, readers, size in versions])
    sets = len(flow.set_starts) - 1
    flow = replace(
        flow,
        set_has_system=np.array([False, *has_system][:sets]),
        flow_allocation=np.arange(len(flow.flow_bytes)) % 3 - 1,
    )
    known = Versions(flow, ROUNDS)
    residency = Residency(known)
    moved = [residency.put([node], 0 if there[node] else -1, 1) for node in order]
    to_device, from_device = flow.crossing_bytes(np.array(there))
    assert sum(one.to_device_bytes for one in moved) == pytest.approx(to_device)
    assert sum(one.from_device_bytes for one in moved) == pytest.approx(from_device)
    whole = known.moved(np.array(there), ROUNDS)
    assert (whole.to_device_bytes, whole.from_device_bytes) == pytest.approx((to_device, from_device))
    arrays = moved_by_allocation(known, np.array(there)).values()
    assert (sum(to for to, _ in arrays), sum(back for _, back in arrays)) == pytest.approx((to_device, from_device))


@pytest.mark.parametrize(("rounds", "transfers"), [(1, 1), (7, 7), (1000, 40)])
def test_what_is_written_before_a_loop_begins_moves_once(rounds, transfers):
    """A version's writer runs 100 times, its reader 40 times; both are in one node, whose rounds differ."""
    flow = flow_of([(1, [2], 1e6)])
    known = Versions(flow, np.array([rounds, 100, 40]), NodeTree(np.array([-1, 0, 0])))
    there, runs = np.array([False, False, True]), np.array([rounds, 100, 40])
    assert known.moved(there, runs).to_device == transfers
    residency = Residency(known)
    residency.put([0, 1], -1)
    assert residency.put([2], 0, 40).to_device == transfers
