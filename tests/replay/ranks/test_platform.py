"""Platforms as SimGrid describes them, and their errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrace.base.errors import PredictionError, TraceFileError
from foretrace.replay.engine.network import Crossbar, FatTree, Torus
from foretrace.replay.ranks.placement import nodes_of
from foretrace.replay.ranks.platform import MODELS, changed, read_platform
from foretrace.replay.ranks.run import replay_ranks
from foretrace.replay.ranks.time_independent import read_time_independent

PLAIN = {"id": "c", "prefix": "n", "suffix": "", "radical": "0-3", "speed": "2Gf", "bw": "10Gbps", "lat": "5us"}


def written(path, attributes):
    given_ = " ".join(f'{name}="{value}"' for name, value in attributes.items())
    path.write_text(f'<?xml version="1.0"?>\n<platform version="4.1"><cluster {given_}/></platform>\n')
    return path


def test_a_cluster_has_the_figures_that_it_names(tmp_path):
    found = read_platform(written(tmp_path / "p.xml", PLAIN | {"core": "8", "bb_bw": "5GBps", "bb_lat": "1us"}), "LV08")
    assert (found.name, found.nodes, found.cores, found.flops_per_s) == ("c", 4, 8, 2e9)
    assert found.network.topology == Crossbar(4, 5e9, 1e-6)
    assert found.network.link_bytes_per_s == 1.25e9
    assert found.network.link_latency_s == pytest.approx(5e-6)
    assert found.network.weight_bytes == 20537


@pytest.mark.parametrize(
    ("attributes", "topology"),
    [
        ({"radical": "0-11", "topology": "TORUS", "topo_parameters": "3,2,2"}, Torus((3, 2, 2))),
        (
            {"radical": "0-7", "topology": "FAT_TREE", "topo_parameters": "2;4,2;1,2;1,2"},
            FatTree((4, 2), (1, 2), (1, 2)),
        ),
        ({"radical": "0,2-3,9"}, Crossbar(4)),
    ],
)
def test_topologies(tmp_path, attributes, topology):
    assert read_platform(written(tmp_path / "p.xml", PLAIN | attributes)).network.topology == topology


def test_factors_of_smpi_are_those_of_the_largest_size_below():
    regimes = MODELS["SMPI"].regimes
    assert [regime.above_bytes for regime in regimes] == sorted(regime.above_bytes for regime in regimes)
    assert (regimes[0].latency_factor, regimes[-1].latency_factor) == (2.01467, 11.6436)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"speed": None}, "the cluster has no speed"),
        ({"speed": "-1Gf"}, "speed '-1Gf' is no positive amount in f"),
        ({"speed": "1Gx"}, "speed '1Gx' is no positive amount in f"),
        ({"bw": "0Bps"}, "bw '0Bps' is no positive amount in Bps"),
        ({"lat": "5 parsecs"}, "lat '5 parsecs' is no time"),
        ({"radical": "a-b"}, "radical 'a-b' is no list of numbers"),
        ({"radical": "0-99999999"}, "100000000 nodes, must be 1 to 1048576"),
        ({"radical": "5-1"}, "-3 nodes, must be 1 to"),
        ({"limiter_link": "1Gbps"}, "limiter_link of a cluster: not supported"),
        ({"sharing_policy": "SHARED"}, "only SPLITDUPLEX is supported"),
        ({"bb_sharing_policy": "FATPIPE"}, "only SHARED is supported"),
        ({"topology": "DRAGONFLY"}, "topology DRAGONFLY: only FLAT, TORUS and FAT_TREE are supported"),
        ({"topology": "TORUS", "topo_parameters": "2,3"}, "the topology has 6 nodes, the cluster 4"),
        ({"topology": "TORUS", "topo_parameters": "2,x"}, "is no list of positive numbers"),
        ({"topology": "FAT_TREE", "topo_parameters": "2;4;1"}, "of a fat tree: LEVELS;DOWN;UP;PARALLEL"),
        ({"core": "0"}, "core '0' is no list of positive numbers"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, attributes, message):
    given_ = {name: value for name, value in (PLAIN | attributes).items() if value is not None}
    with pytest.raises(TraceFileError) as raised:
        read_platform(written(tmp_path / "p.xml", given_))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "p.xml"
    for text, message in (
        ("", "no XML"),
        ("<platform/>", "this file has 0 of nothing of that kind"),
        ('<platform><host id="a" speed="1f"/><link id="l"/></platform>', "this file has 2 of <host>, <link>"),
        ('<!DOCTYPE p [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><p>&c;</p>', "defines entities"),
    ):
        path.write_text(text)
        with pytest.raises(TraceFileError, match=message):
            read_platform(path)
    with pytest.raises(TraceFileError, match="No such file"):
        read_platform(tmp_path / "none.xml")
    with pytest.raises(TraceFileError, match="there is no model X; there are CM02, LV08, SMPI"):
        read_platform(written(path, PLAIN), "X")


@given(st.binary(max_size=200))
def test_rubbish_is_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("platform") / "p.xml"
    path.write_bytes(content)
    with pytest.raises(TraceFileError):
        read_platform(path)


def test_too_many_ranks_are_refused(tmp_path):
    where = read_platform(written(tmp_path / "p.xml", PLAIN))
    (tmp_path / "t").write_text("".join(f"{rank} compute 1\n" for rank in range(9)))
    run = read_time_independent(tmp_path / "t")
    with pytest.raises(PredictionError, match="9 ranks, 2 per node, need 5 nodes; there are 4"):
        replay_ranks(run, where, ranks_per_node=2)
    with pytest.raises(PredictionError, match="0 ranks per node"):
        replay_ranks(run, where, ranks_per_node=0)


def test_ranks_of_a_node_share_its_cores(tmp_path):
    where = read_platform(written(tmp_path / "p.xml", PLAIN | {"core": "2"}))
    (tmp_path / "t").write_text("".join(f"{rank} compute 2e9\n" for rank in range(4)))
    run = read_time_independent(tmp_path / "t")
    ends_s = [replay_ranks(run, where, ranks_per_node=count).makespan_s for count in (1, 2, 4)]
    assert ends_s == pytest.approx([1.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("placement", "per_node", "nodes"),
    [("block", 2, (0, 0, 1, 1, 2)), ("round-robin", 2, (0, 1, 2, 0, 1)), ("block", 1, (0, 1, 2, 3, 4)),
     ("round-robin", 5, (0,) * 5)],
)  # fmt: skip
def test_ranks_are_placed_in_blocks_or_in_turn(placement, per_node, nodes):
    assert nodes_of(placement, 5, 5, per_node) == nodes


def test_a_file_says_where_each_rank_is(tmp_path):
    where = read_platform(written(tmp_path / "p.xml", PLAIN))
    (tmp_path / "t").write_text("".join(f"{rank} compute 2e9\n" for rank in range(3)))
    (tmp_path / "nodes").write_text("3\n0\n3\n")
    found = replay_ranks(read_time_independent(tmp_path / "t"), where, placement=str(tmp_path / "nodes"))
    assert found.hosts.node_of == (3, 0, 3)
    assert found.outcome.end_s == pytest.approx([2.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\n1\n", "nodes: 2 nodes for 3 ranks"),
        ("0 1 4", "rank 2: there is no node '4'; there are 4, from 0"),
        ("0 -1 1", "rank 1: there is no node '-1'"),
        ("0 x 1", "rank 1: there is no node 'x'"),
        (None, "neither block nor round-robin, and No such file or directory"),
    ],
)
def test_placements_that_do_not_fit_are_refused_in_one_line(tmp_path, text, message):
    if text is not None:
        (tmp_path / "nodes").write_text(text)
    with pytest.raises((PredictionError, TraceFileError), match=message) as raised:
        nodes_of(str(tmp_path / "nodes"), 3, 4, 1)
    assert "\n" not in str(raised.value)


def test_links_change_by_factors(tmp_path):
    where = read_platform(written(tmp_path / "p.xml", PLAIN | {"bb_bw": "5GBps", "bb_lat": "1us"}))
    other = changed(where, latency=0.5, bandwidth=2.0).network
    assert other.link_latency_s == pytest.approx(where.network.link_latency_s / 2)
    assert other.link_bytes_per_s == pytest.approx(where.network.link_bytes_per_s * 2)
    assert other.topology == Crossbar(4, 1e10, 5e-7)
