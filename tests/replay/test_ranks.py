"""Ranks that share accelerators: closed-form limits, contention, and decisions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrace.replay.offload.decisions import Activity, Offload
from foretrace.replay.offload.device_memory import Link, Transfer, missing_bytes, without
from foretrace.replay.offload.ranks import replay
from foretrace.tracer.signature.records import AddressRange, merge_ranges

times = st.floats(0, 1e6)


@given(st.lists(times, max_size=30))
def test_one_rank_without_accelerator_is_the_sum(host_s):
    """Exactly so: the same additions in the same order."""
    result = replay([[Activity(index, seconds) for index, seconds in enumerate(host_s)]])
    assert result.makespan_s == sum(host_s)


@given(st.lists(st.lists(times, max_size=5), min_size=1, max_size=4))
def test_ranks_with_a_core_each_do_not_wait(ranks):
    result = replay([[Activity(0, seconds) for seconds in rank] for rank in ranks])
    assert list(result.rank_end_s) == pytest.approx([sum(rank) for rank in ranks], rel=1e-12)
    assert result.makespan_s == max(result.rank_end_s)


def test_ranks_on_one_core_take_turns():
    assert replay([[Activity(0, 1.0)], [Activity(0, 2.0)]], host_cores=1).makespan_s == 3.0


def offloaded(host_s, **terms):
    return Activity(0, host_s, offload=Offload(**terms))


def test_accelerator_is_used_where_all_its_taxes_together_are_less_than_the_host():
    pays = offloaded(10.0, launch_s=1.0, kernel_s=2.0, arithmetic_s=0.5)
    result = replay([[pays]], accelerators=1)
    assert result.makespan_s == 3.5
    loses = offloaded(3.5, launch_s=1.0, kernel_s=2.0, arithmetic_s=0.5)
    result = replay([[loses]], accelerators=1)
    assert result.makespan_s == 3.5
    (decision,) = result.decisions
    assert not decision.offload
    assert decision.cost.total_s == 3.5


def test_without_accelerators_nothing_is_decided():
    result = replay([[offloaded(10.0, kernel_s=1.0)]])
    assert result.makespan_s == 10.0
    assert result.decisions == ()


def test_refused_loop_stays_with_its_reason():
    (decision,) = replay([[offloaded(10.0, refusal="too small")]], accelerators=1).decisions
    assert (decision.offload, decision.cost, decision.refusal) == (False, None, "too small")


def test_free_accelerator_leaves_only_the_rest():
    """Zero latency, infinite bandwidth."""
    activities = [Activity(0, 2.0), offloaded(10.0), Activity(2, 3.0)]
    assert replay([activities], accelerators=1).makespan_s == 5.0


def test_link_of_infinite_bandwidth_and_no_latency_is_a_shared_memory():
    loop = offloaded(10.0, kernel_s=1.0, transfers=(Transfer(AddressRange(0, 1 << 30), written=True),))
    private = Link(shared_memory=False)
    assert replay([[loop]], accelerators=1, link=private).makespan_s == 1.0
    assert replay([[loop]], accelerators=1).makespan_s == 1.0


LINK = Link(shared_memory=False, to_device_bytes_per_s=100.0, from_device_bytes_per_s=50.0, latency_s=0.25)


def test_transfers_are_latency_and_bytes_both_ways():
    loop = offloaded(100.0, transfers=(Transfer(AddressRange(0, 100), written=True),))
    assert replay([[loop]], accelerators=1, link=LINK).makespan_s == (0.25 + 1) + (0.25 + 2)


def test_what_is_there_already_is_not_transferred_again():
    read = offloaded(100.0, transfers=(Transfer(AddressRange(0, 100), written=False),))
    partly = offloaded(100.0, transfers=(Transfer(AddressRange(50, 150), written=False),))
    assert replay([[read, read]], accelerators=1, link=LINK).makespan_s == 1.25
    assert replay([[read, partly]], accelerators=1, link=LINK).makespan_s == 1.25 + 0.75


def test_what_the_host_has_written_since_is_transferred_again():
    read = offloaded(100.0, transfers=(Transfer(AddressRange(0, 100), written=False),))
    first = 0.25 + 1
    for written, again in (((0, 100), first), ((90, 200), 0.25 + 0.1), ((40, 60), 0.25 + 0.2), ((100, 200), 0.0)):
        host = Activity(1, 7.0, writes=(AddressRange(*written),))
        assert replay([[read, host, read]], accelerators=1, link=LINK).makespan_s == first + 7 + again, written


def test_what_another_accelerator_has_written_since_is_transferred_again():
    """The first accelerator reads; the second one, while the first is busy, writes or reads; then the first again."""
    memory = AddressRange(0, 100)
    read, write = (offloaded(100.0, transfers=(Transfer(memory, written=written),)) for written in (False, True))
    busy_first = [Activity(9, 1.5), offloaded(1000.0, kernel_s=50.0)]
    busy_second = [Activity(9, 6.0), offloaded(1000.0, kernel_s=100.0)]
    for between, costs in ((read, [1.25, 1.25, 0.0]), (write, [1.25, 3.5, 1.25])):
        rank = [read, Activity(9, 1.0), between, Activity(9, 60.0), read]
        result = replay([rank, busy_first, busy_second], accelerators=2, link=LINK)
        assert [d.cost.transfer_s for d in result.decisions if d.rank == 0] == costs


def test_of_idle_accelerators_the_one_that_holds_the_data_is_used():
    read = offloaded(100.0, transfers=(Transfer(AddressRange(0, 100), written=False),))
    result = replay([[read, Activity(9, 1.0), read]], accelerators=2, link=LINK)
    assert [decision.cost.transfer_s for decision in result.decisions] == [1.25, 0.0]


def test_ranks_have_memories_of_their_own():
    read = offloaded(100.0, transfers=(Transfer(AddressRange(0, 100), written=False),))
    writer = [Activity(1, 1.5, writes=(AddressRange(0, 100),))]
    reader = [read, Activity(2, 1.0), read]
    assert replay([reader, writer], accelerators=1, link=LINK).rank_end_s[0] == 1.25 + 1


def test_what_the_host_changes_in_between_is_transferred_each_time():
    changed = offloaded(100.0, transfers=(Transfer(AddressRange(0, 100), written=False, times=4),))
    assert replay([[changed, changed]], accelerators=1, link=LINK).makespan_s == 2 * 4 * 1.25


def test_two_ranks_wait_for_one_accelerator_but_not_for_two():
    loop = offloaded(10.0, kernel_s=4.0)
    one = replay([[loop], [loop]], accelerators=1)
    assert one.rank_end_s == (4.0, 8.0)
    assert [decision.cost.queue_s for decision in one.decisions] == [0.0, 4.0]
    assert replay([[loop], [loop]], accelerators=2).makespan_s == 4.0


def test_rank_that_would_queue_too_long_stays_on_its_host():
    """Three ranks, kernel 4, host 10: the third would end at 12."""
    loop = offloaded(10.0, kernel_s=4.0)
    result = replay([[loop]] * 3, accelerators=1)
    assert [decision.offload for decision in result.decisions] == [True, True, False]
    assert result.makespan_s == 10.0


def test_queue_is_what_is_left_of_it():
    result = replay(
        [[offloaded(10.0, kernel_s=4.0)], [Activity(0, 3.0), offloaded(10.0, kernel_s=4.0)]], accelerators=1
    )
    assert result.decisions[1].cost.queue_s == 1.0
    assert result.makespan_s == 8.0


ranges = st.builds(lambda first, size: AddressRange(first, first + size), st.integers(0, 60), st.integers(1, 20))


@given(st.lists(ranges, max_size=6), st.lists(ranges, max_size=6))
def test_what_is_left_are_bytes_in_none_of_what_is_taken_out(held, written):
    def covered(parts):
        return {byte for part in parts for byte in range(part.first, part.last_exclusive)}

    assert covered(without(merge_ranges(held), written)) == covered(held) - covered(written)


@given(ranges, st.lists(ranges, max_size=6))
def test_missing_bytes_are_those_in_no_range(memory, held):
    covered = {byte for other in held for byte in range(other.first, other.last_exclusive)}
    expected = sum(byte not in covered for byte in range(memory.first, memory.last_exclusive))
    assert missing_bytes(memory, merge_ranges(held)) == expected
