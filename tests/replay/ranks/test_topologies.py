"""Topologies by name: with room for the nodes, and no more than needed."""

import math

import pytest

from foretrace.base.errors import PredictionError
from foretrace.replay.engine.network import Crossbar, FatTree, Torus
from foretrace.replay.ranks.topologies import MOST_NODES, even_sizes, topology_of


@pytest.mark.parametrize(
    ("text", "nodes", "topology"),
    [
        ("crossbar", 5, Crossbar(5)),
        ("torus:4x4x2", 30, Torus((4, 4, 2))),
        ("torus", 8, Torus((2, 2, 2))),
        ("torus", 9, Torus((3, 2, 2))),
        ("torus:2d", 16, Torus((4, 4))),
        ("torus:6d", 64, Torus((2,) * 6)),
        ("fat-tree:4", 3, FatTree((3,), (1,), (1,))),
        ("fat-tree:4", 8, FatTree((2, 4), (1, 2), (1, 1))),
        ("fat-tree:4", 16, FatTree((2, 2, 4), (1, 2, 2), (1, 1, 1))),
        ("fat-tree", 800, FatTree((20, 40), (1, 20), (1, 1))),
        ("fat-tree:4,4;1,2;1,2", 16, FatTree((4, 4), (1, 2), (1, 2))),
    ],
)
def test_a_topology_holds_the_nodes(text, nodes, topology):
    assert topology_of(text, nodes) == topology


@pytest.mark.parametrize("nodes", [1, 2, 3, 7, 31, 32, 33, 1000, 16384, MOST_NODES])
@pytest.mark.parametrize("text", ["crossbar", "torus", "torus:1d", "torus:6d", "fat-tree", "fat-tree:16"])
def test_any_number_of_nodes_fits(text, nodes):
    assert nodes <= topology_of(text, nodes).nodes <= 2 * nodes + 62


def test_sizes_differ_by_little():
    for nodes in range(1, 300):
        for dimensions in (1, 2, 3, 5):
            sizes = even_sizes(nodes, dimensions)
            assert len(sizes) == dimensions
            assert math.prod(sizes) >= nodes
            assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("text", "nodes", "message"),
    [
        ("ring", 4, "there is no topology 'ring'; there are crossbar, torus"),
        ("torus:4x4", 17, "torus:4x4 has 16 nodes, 17 are needed"),
        ("torus:4x0", 2, "must be as in torus:4x4x2"),
        ("torus:9d", 2, "a torus of 9 dimensions, can have 8"),
        ("torus:1x1x1x1x1x1x1x1x1", 1, "must be as in"),
        ("torus:9999999x9999999", 2, "nodes, can have"),
        ("fat-tree:4", 513, "switches with 4 ports has 512 nodes at most, 513 are needed"),
        ("fat-tree:2", 2, "must be at least 4"),
        ("fat-tree:4,4;1,2", 2, "must be children; parents; parallel links"),
        ("fat-tree:x", 2, "must be as in fat-tree:40"),
        ("crossbar:4", 2, "a crossbar has no sizes"),
        ("crossbar", 0, "0 nodes, must be 1 to"),
        ("crossbar", MOST_NODES + 1, "nodes, must be 1 to"),
        ("torus:" + "9" * 5000, 2, "must be as in"),
    ],
)
def test_others_are_refused(text, nodes, message):
    with pytest.raises(PredictionError) as refused:
        topology_of(text, nodes)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 300
