"""Networks of machines: times of messages as measured, whatever the topology; figures that are missing."""

import pytest

from foretrace.base.errors import PredictionError
from foretrace.profiles import interconnect as interconnects
from foretrace.profiles.interconnect import interconnect_of
from foretrace.profiles.library import find
from foretrace.profiles.points import MessagePoint
from foretrace.profiles.profile import Network as Figures
from foretrace.profiles.profile import Profile
from foretrace.profiles.ranges import Assumptions
from foretrace.replay.engine.network import Crossbar, FatTree, Torus
from foretrace.replay.engine.program import Entity, Receive, Send, Sleep, System
from foretrace.replay.engine.simulation import simulate
from foretrace.replay.ranks.machine_network import line_through, network_between

US = 1e-6
SIZES = (8, 64, 512, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20)
TIMES = {
    "rising": (0.5, 0.55, 0.7, 1.5, 4.0, 12.0, 40.0, 150.0, 600.0),
    "falls and jumps": (0.6, 0.5, 0.5, 2.0, 30.0, 31.0, 29.0, 160.0, 640.0),
    "more than in proportion": (0.5, 0.51, 0.6, 1.0, 3.0, 20.0, 200.0, 1600.0, 9000.0),
}


def profile_with(times_us=None, network=None):
    host = find("epyc-7763")
    points = tuple(MessagePoint(s, t * US, "x", 0.05) for s, t in zip(SIZES, times_us or (), strict=False))
    return Profile(
        schema=host.schema, name="host", title="Host", kind=host.kind, date="2026", sources={}, core=host.core,
        network=network, messages=points,
    )  # fmt: skip


def one_way_s(made, case, size_bytes, nodes):
    """From the begin of a send until its receiver goes on, with the overheads of both."""
    network = [*made][case]
    system = System(network=network, communicators={"world": ("rank 0", "rank 1")})
    first = (Sleep("send", made.send_overhead_s[case]), Send("rank 1", size_bytes))
    second = (Receive("rank 0"), Sleep("receive", made.receive_overhead_s[case]))
    entities = [
        Entity(f"rank {rank}", program, "rank", node=node)
        for rank, (program, node) in enumerate(zip((first, second), nodes, strict=True))
    ]
    return simulate(system, entities).end_s[1]


@pytest.mark.parametrize("overheads", [True, False])
@pytest.mark.parametrize("times_us", TIMES.values(), ids=TIMES)
def test_a_message_within_a_node_takes_what_the_profile_says_at_each_measured_size(times_us, overheads):
    made = network_between(profile_with(times_us), None, 1, Assumptions(), overheads=overheads)
    for size, time_us in zip(SIZES, times_us, strict=True):
        for case, factor in enumerate((1 / 1.05, 1.0, 1.05)):
            assert one_way_s(made, case, size, (0, 0)) == pytest.approx(time_us * US * factor, rel=1e-3)


@pytest.mark.parametrize("name", interconnects.names())
@pytest.mark.parametrize("topology", ["crossbar", "torus", "fat-tree:4"])
def test_a_message_between_neighbours_takes_what_the_interconnect_says(name, topology):
    interconnect = interconnect_of(name)
    made = network_between(find("epyc-7763"), interconnect, 6, Assumptions(), topology=topology)
    for point in interconnect.messages:
        assert one_way_s(made, 1, point.message_bytes, (0, 1)) == pytest.approx(point.time_s, rel=0.01)
    assert bool(interconnect.messages) or one_way_s(made, 1, 0, (0, 1)) == pytest.approx(interconnect.network.latency_s)


def test_latency_bandwidth_and_the_handshake_of_long_messages():
    figures = Figures(source={}, eager_threshold_bytes=1000, send_overhead_s=0.1 * US, receive_overhead_s=0.2 * US)
    profile = profile_with(network=figures)
    far = interconnect_of("2us,10GB/s")
    made = network_between(profile, far, 2, Assumptions(("given eager_threshold_bytes",)))
    assert isinstance(made.typical.topology, Crossbar)
    assert one_way_s(made, 1, 10_000, (0, 1)) == pytest.approx(3 * US)
    assert one_way_s(made, 1, 100_000, (0, 1)) == pytest.approx(2 * 2 * US + 10 * US)
    assert one_way_s(made, 1, 10_000, (0, 0)) == pytest.approx(0.5 * US + 10_000 / 7e9, rel=1e-6)


def test_each_further_switch_adds_its_latency():
    far = interconnect_of("2us,10GB/s")
    hop_s = 0.15 * US
    torus = network_between(find("epyc-7763"), far, 8, Assumptions(), topology="torus:8")
    tree = network_between(find("epyc-7763"), far, 8, Assumptions(), topology="fat-tree:4")
    assert isinstance(torus.typical.topology, Torus)
    assert isinstance(tree.typical.topology, FatTree)
    for size in (0, 100_000):
        assert one_way_s(torus, 1, size, (0, 4)) - one_way_s(torus, 1, size, (0, 1)) == pytest.approx(3 * hop_s)
        assert one_way_s(tree, 1, size, (0, 7)) - one_way_s(tree, 1, size, (0, 1)) == pytest.approx(2 * hop_s)


def test_times_between_two_points_lie_between_theirs():
    for times_us in TIMES.values():
        made = network_between(profile_with(times_us), None, 1, Assumptions())
        for (size, time_us), (more, longer_us) in zip(
            zip(SIZES, times_us, strict=True), zip(SIZES[1:], times_us[1:], strict=True), strict=False
        ):
            between = one_way_s(made, 1, (size + more) // 2, (0, 0)) / US
            assert 0.5 * min(time_us, longer_us) < between < 1.05 * max(time_us, longer_us)


def test_longer_messages_than_measured_go_on_as_before():
    made = network_between(profile_with(TIMES["rising"]), None, 1, Assumptions())
    assert one_way_s(made, 1, 8 << 20, (0, 0)) == pytest.approx(1200 * US, rel=1e-3)


def test_what_is_missing_is_assumed_with_a_range_and_noted():
    assumed = Assumptions()
    made = network_between(find("epyc-7763"), None, 4, assumed)
    times_s = [one_way_s(made, case, 1000, (0, 1)) for case in range(3)]
    assert times_s == sorted(times_s)
    assert times_s[0] < times_s[1] < times_s[2]
    names = [one.name for one in assumed.listed]
    assert {"network latency_s", "interconnect latency_s", "interconnect bandwidth_bytes_per_s"} <= set(names)
    assert not any("hop" in name for name in names)
    assert all(one.text for one in assumed.listed)


def test_a_settled_figure_has_no_range():
    assumed = Assumptions(("network latency_s", "network send_overhead_s", "network receive_overhead_s"))
    made = network_between(find("epyc-7763"), None, 1, assumed)
    assert made.fast.own_latency_s == made.slow.own_latency_s


def test_one_node_needs_no_interconnect():
    assumed = Assumptions()
    made = network_between(profile_with(TIMES["rising"]), interconnect_of("2us,10GB/s"), 1, assumed)
    assert made.typical.topology == Crossbar(1)
    assert not [one for one in assumed.listed if one.name.startswith("given")]


def test_a_better_network_is_better_by_these_factors():
    far = interconnect_of("2us,10GB/s")
    made = network_between(find("epyc-7763"), far, 2, Assumptions(), overheads=False, latency=0.5, bandwidth=2.0)
    assert one_way_s(made, 1, 10_000, (0, 1)) == pytest.approx(1.5 * US)
    within = network_between(find("epyc-7763"), far, 2, Assumptions(), overheads=False)
    assert one_way_s(made, 1, 10_000, (0, 0)) == one_way_s(within, 1, 10_000, (0, 0))
    with pytest.raises(PredictionError, match="must be positive"):
        network_between(find("epyc-7763"), far, 2, Assumptions(), bandwidth=0.0)


def test_an_eager_send_returns_at_once_and_a_long_one_waits():
    profile = profile_with(TIMES["rising"], Figures(source={}, eager_threshold_bytes=4096))
    made = network_between(profile, None, 1, Assumptions())
    system = System(network=made.typical, communicators={"world": ("rank 0", "rank 1")})
    for size, ends_s in ((4096, 0.0), (4097, 1.0)):
        first, second = (Send("rank 1", size),), (Sleep("late", 1.0), Receive("rank 0"))
        entities = [Entity("rank 0", first, "rank"), Entity("rank 1", second, "rank")]
        assert simulate(system, entities).end_s[0] == pytest.approx(ends_s, abs=1e-3)


def test_one_point_is_a_rate():
    line = line_through([(1000, 1e-6)], 0.0)
    assert line.pieces[0].latency_s + 1000 * line.pieces[0].byte_s == pytest.approx(1e-6)
