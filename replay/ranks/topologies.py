"""Topologies by name: one that holds a number of nodes, from text as in "torus:4x4x2".

Another kind of topology is one more function in `_MAKERS`, and its name in `profiles.interconnect.TOPOLOGIES`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from foretrace.base.errors import PredictionError, quoted
from foretrace.replay.engine.network import MOST_DIMENSIONS, Crossbar, FatTree, Topology, Torus

MOST_NODES = 1 << 20
DEFAULT_PORTS = 40
"""Ports of a switch of InfiniBand HDR (NVIDIA: Quantum switches; m)."""
DEFAULT_DIMENSIONS = 3
FORMS = "crossbar, torus, torus:3d, torus:4x4x2, fat-tree, fat-tree:PORTS, fat-tree:DOWN;UP;PARALLEL"


def topology_of(text: str, nodes: int) -> Topology:
    """A topology with room for `nodes` nodes; it may have more.

    Args:
        text: one of
            `crossbar`: each node has a link to a switch that is never full.
            `torus`, `torus:3d`: a grid of that many dimensions, three if none are given, as even as can be;
            `torus:4x4x2`: with these sizes.
            `fat-tree`, `fat-tree:40`: as few levels of switches with that many ports as hold the nodes, half of the
            ports of each up; `fat-tree:4,4;1,2;1,2`: children, parents and parallel links, level by level from the
            nodes up (SimGrid's `topo_parameters` without their number).
        nodes: to hold.

    Raises:
        PredictionError: the text is none of these, or the topology is too small.
    """
    if not 1 <= nodes <= MOST_NODES:
        raise PredictionError(f"network: {nodes} nodes, must be 1 to {MOST_NODES}")
    kind, _, sizes = text.strip().partition(":")
    if kind not in _MAKERS:
        raise PredictionError(f"network: there is no topology {quoted(text)}; there are {FORMS}")
    topology = _MAKERS[kind](sizes, nodes)
    if topology.nodes < nodes:
        raise PredictionError(f"network: {text} has {topology.nodes} nodes, {nodes} are needed")
    if topology.nodes > 2 * MOST_NODES:
        raise PredictionError(f"network: {text} has {topology.nodes} nodes, can have {2 * MOST_NODES}")
    return topology


def _crossbar(sizes: str, nodes: int) -> Topology:
    if sizes:
        raise PredictionError(f"network: a crossbar has no sizes; {quoted(sizes)} given")
    return Crossbar(nodes)


def _torus(sizes: str, nodes: int) -> Topology:
    if found := re.fullmatch(r"([1-9])d", sizes or f"{DEFAULT_DIMENSIONS}d"):
        dimensions = int(found[1])
        if dimensions > MOST_DIMENSIONS:
            raise PredictionError(f"network: a torus of {dimensions} dimensions, can have {MOST_DIMENSIONS}")
        return Torus(even_sizes(nodes, dimensions))
    return Torus(_integers(sizes, "x", "torus:4x4x2"))


def even_sizes(nodes: int, dimensions: int) -> tuple[int, ...]:
    """Sizes of a grid for that many nodes, largest first, that differ by little."""
    found = []
    for left in range(dimensions, 0, -1):
        size = next(n for n in range(1, nodes + 1) if n**left >= nodes)
        found.append(size)
        nodes = -(-nodes // size)
    return tuple(found)


def _fat_tree(sizes: str, nodes: int) -> Topology:
    if ";" in sizes:
        parts = [_integers(part, ",", "fat-tree:4,4;1,2;1,2") for part in sizes.split(";")]
        if len(parts) != 3 or len({len(part) for part in parts}) > 1:
            raise PredictionError(
                f"network: fat-tree:{sizes}: must be children; parents; parallel links, as many of each as levels"
            )
        return FatTree(*parts)
    ports = _integers(sizes, ",", "fat-tree:40")[0] if sizes else DEFAULT_PORTS
    half = ports // 2
    if half < 2:
        raise PredictionError(f"network: switches of a fat tree with {ports} ports, must be at least 4")
    levels = next((n for n in range(1, MOST_DIMENSIONS + 1) if 2 * half**n >= nodes), None)
    if levels is None:
        raise PredictionError(
            f"network: a fat tree of switches with {ports} ports has {2 * half**MOST_DIMENSIONS} nodes at most, "
            f"{nodes} are needed"
        )
    if levels == 1:
        return FatTree((nodes,), (1,), (1,))
    down = [half] * (levels - 1)
    return FatTree((*down, -(-nodes // math.prod(down))), (1, *[half] * (levels - 1)), (1,) * levels)


def _dragonfly(sizes: str, nodes: int) -> Topology:
    raise PredictionError(f"network: dragonfly cannot be replayed yet; there are {FORMS}")


_MAKERS: dict[str, Callable[[str, int], Topology]] = {
    "crossbar": _crossbar,
    "torus": _torus,
    "fat-tree": _fat_tree,
    "dragonfly": _dragonfly,
}


def _integers(text: str, separator: str, example: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(separator)]
    if len(parts) > MOST_DIMENSIONS or not all(re.fullmatch(r"[1-9]\d{0,6}", part) for part in parts):
        raise PredictionError(f"network: sizes {quoted(text)} of a topology, must be as in {example}")
    return tuple(map(int, parts))
