"""The network that ranks send messages over, as the event loop reads it (engine.h, network.c)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import PredictionError

from . import _engine

MOST_DIMENSIONS = 8
_DTYPE = np.dtype(
    [
        (name, "i4")
        for name in ("topology", "nodes", "first_link", "links", "num_regimes", "num_own_regimes", "num_dimensions")
    ]
    + [(name, "i4", MOST_DIMENSIONS) for name in ("dimension", "up", "parallel")]
    + [("has_backbone", "i4")]
    + [
        (name, "f8")
        for name in (
            "link_latency_s", "link_bytes_per_s", "backbone_latency_s", "backbone_bytes_per_s", "own_latency_s",
            "own_bytes_per_s", "eager_below", "detached_below", "envelope_bytes", "window_bytes", "weight_bytes",
            "back_share",
        )
    ]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Crossbar:
    """Nodes with a link each to a switch that all pass at once, or to a backbone that they share.

    Attributes:
        nodes: number of nodes.
        backbone_bytes_per_s: bandwidth of the backbone; None for a switch that never is full.
    """

    nodes: int
    backbone_bytes_per_s: float | None = None
    backbone_latency_s: float = 0.0

    def links(self) -> list[str]:
        """Name of each link: up and down, of each node, then the backbone."""
        names = [f"node {node} {way}" for node in range(self.nodes) for way in ("up", "down")]
        return [*names, "backbone"] if self.backbone_bytes_per_s else names


@dataclass(frozen=True, slots=True)
class Torus:
    """Nodes in a grid of `sizes`, each with links to its neighbours in each dimension; ends of a row are neighbours.

    Messages go dimension by dimension, the shorter way round.
    """

    sizes: tuple[int, ...]

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return math.prod(self.sizes)

    def links(self) -> list[str]:
        """Name of each link: by node, dimension and direction."""
        ways = ("forth", "back")
        return [
            f"node {node} dimension {d} {way}"
            for node in range(self.nodes)
            for d in range(len(self.sizes))
            for way in ways
        ]


@dataclass(frozen=True, slots=True)
class FatTree:
    """Switches in levels: a node of level l has `up[l]` parents, a switch of level l + 1 `down[l]` children.

    Messages go up by the number of their destination (D-mod-k) until a common ancestor, then down.

    Attributes:
        down: children of a switch, level by level from the nodes up. Their product is the number of nodes.
        up: parents of a node or switch below each level.
        parallel: links between a child and a parent of each level.
    """

    down: tuple[int, ...]
    up: tuple[int, ...]
    parallel: tuple[int, ...]

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return math.prod(self.down)

    def links(self) -> list[str]:
        """Name of each link: level by level, by child, parent, parallel one and direction."""
        names, below, copies = [], 1, 1
        for level, (down, up, parallel) in enumerate(zip(self.down, self.up, self.parallel, strict=True)):
            names += [
                f"level {level} child {child} parent {parent} link {lane} {way}"
                for child in range(self.nodes // below * copies)
                for parent in range(up)
                for lane in range(parallel)
                for way in ("up", "down")
            ]
            below, copies = below * down, copies * up
        return names


Topology = Crossbar | Torus | FatTree


@dataclass(frozen=True, slots=True)
class Regime:
    """Factors for messages above a size, on the latency of a way and on the rate of a flow.

    `latency_s` is added to that latency; below 0 it is taken off, down to none.
    """

    above_bytes: float
    latency_factor: float
    bandwidth_factor: float
    latency_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Network:
    """Links, and the figures from which the time of a message follows.

    Attributes:
        topology: the nodes and links.
        link_latency_s: of each link.
        link_bytes_per_s: of each link, in each direction.
        own_latency_s: between ranks of one node; `own_bytes_per_s` is each such message's bandwidth.
        eager_below_bytes: shorter messages are on their way at once, longer ones when they are received.
        detached_below_bytes: a sender of a shorter message goes on at once.
        envelope_bytes: what is sent beside each message.
        window_bytes: a flow has at most window / (2 x latency); 0 for no bound.
        weight_bytes: shares of a full link go with 1 / (latency + weight / bandwidth of each link).
        back_share: share of a flow's rate that its answers take on the way back.
        regimes: factors by size, shortest first.
        own_regimes: those of messages between ranks of one node; None: as between nodes.
    """

    topology: Topology
    link_latency_s: float
    link_bytes_per_s: float
    own_latency_s: float = 0.0
    own_bytes_per_s: float = 1e10
    eager_below_bytes: float = 0.0
    detached_below_bytes: float = 65536.0
    envelope_bytes: float = 0.0
    window_bytes: float = 0.0
    weight_bytes: float = 0.0
    back_share: float = 0.0
    regimes: tuple[Regime, ...] = ()
    own_regimes: tuple[Regime, ...] | None = None

    def __post_init__(self) -> None:
        """Check the figures.

        Raises:
            PredictionError: a size, bandwidth or time is out of range.
        """
        sizes = _sizes(self.topology)
        if len({len(part) for part in sizes}) > 1:
            raise PredictionError("network: each level needs its children, parents and parallel links")
        if not isinstance(self.topology, Crossbar) and not sizes[0]:
            raise PredictionError("network: there are no dimensions or levels")
        if len(sizes[0]) > MOST_DIMENSIONS:
            raise PredictionError(
                f"network: {len(sizes[0])} dimensions or levels, more than the {MOST_DIMENSIONS} there can be"
            )
        if self.topology.nodes < 1 or any(size < 1 for part in sizes for size in part):
            raise PredictionError("network: each dimension and number of links must be at least 1")
        for name in ("link_bytes_per_s", "own_bytes_per_s"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise PredictionError(f"network: {name} is {value}, must be positive")
        for name in (
            "link_latency_s", "own_latency_s", "eager_below_bytes", "detached_below_bytes", "envelope_bytes",
            "window_bytes", "weight_bytes",
        ):  # fmt: skip
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise PredictionError(f"network: {name} is {value}, must not be negative")
        if not 0 <= self.back_share < 1:
            raise PredictionError(f"network: back_share is {self.back_share}, must be below 1")
        self._check_backbone()
        _check_regimes(self.regimes)
        _check_regimes(self.own_regimes or ())

    def _check_backbone(self) -> None:
        if not isinstance(self.topology, Crossbar):
            return
        bandwidth, latency_s = self.topology.backbone_bytes_per_s, self.topology.backbone_latency_s
        if bandwidth is not None and not 0 < bandwidth < math.inf:
            raise PredictionError(f"network: backbone_bytes_per_s is {bandwidth}, must be positive")
        if not 0 <= latency_s < math.inf:
            raise PredictionError(f"network: backbone_latency_s is {latency_s}, must not be negative")

    @property
    def capacities(self) -> npt.NDArray[np.float64]:
        """[links] bytes/s of each link."""
        topology = self.topology
        capacities = np.full(len(topology.links()), self.link_bytes_per_s)
        if isinstance(topology, Crossbar) and topology.backbone_bytes_per_s:
            capacities[-1] = topology.backbone_bytes_per_s
        return capacities

    def packed(self, first_link: int) -> tuple[bytes, bytes]:
        """The record of the network, and its regimes, as the event loop reads them."""
        record = np.zeros((), _DTYPE)
        record["topology"] = _KINDS[type(self.topology)]
        record["nodes"] = self.topology.nodes
        record["first_link"] = first_link
        record["links"] = len(self.capacities)
        record["num_regimes"] = len(self.regimes)
        record["num_own_regimes"] = -1 if self.own_regimes is None else len(self.own_regimes)
        dimension, up, parallel = _sizes(self.topology)
        record["num_dimensions"] = len(dimension)
        for name, values in (("dimension", dimension), ("up", up), ("parallel", parallel)):
            record[name][: len(values)] = values
        if isinstance(self.topology, Crossbar) and self.topology.backbone_bytes_per_s:
            record["has_backbone"] = 1
            record["backbone_latency_s"] = self.topology.backbone_latency_s
            record["backbone_bytes_per_s"] = self.topology.backbone_bytes_per_s
        record["link_latency_s"], record["link_bytes_per_s"] = self.link_latency_s, self.link_bytes_per_s
        record["own_latency_s"], record["own_bytes_per_s"] = self.own_latency_s, self.own_bytes_per_s
        record["eager_below"], record["detached_below"] = self.eager_below_bytes, self.detached_below_bytes
        for name in ("envelope_bytes", "window_bytes", "weight_bytes", "back_share"):
            record[name] = getattr(self, name)
        regimes = [
            (regime.above_bytes, regime.latency_factor, regime.bandwidth_factor, regime.latency_s)
            for regime in (*self.regimes, *(self.own_regimes or ()))
        ]
        return record.tobytes(), np.array(regimes, np.float64).tobytes()


def _check_regimes(regimes: Sequence[Regime]) -> None:
    limits = [regime.above_bytes for regime in regimes]
    if limits != sorted(set(limits)) or any(not 0 <= limit < math.inf for limit in limits):
        raise PredictionError(f"network: regimes begin above {limits} bytes, must ascend from 0")
    for regime in regimes:
        factors = 0 <= regime.latency_factor < math.inf and 0 < regime.bandwidth_factor < math.inf
        if not factors or not math.isfinite(regime.latency_s):
            raise PredictionError(
                f"network: a regime has the factors {regime.latency_factor} and {regime.bandwidth_factor}, "
                f"and a latency of {regime.latency_s} s"
            )


_KINDS = {Crossbar: _engine.CROSSBAR, Torus: _engine.TORUS, FatTree: _engine.FAT_TREE}


def _sizes(topology: Topology) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Dimensions of a topology, parents and parallel links of each."""
    match topology:
        case Torus(sizes):
            return sizes, [1] * len(sizes), [1] * len(sizes)
        case FatTree(down, up, parallel):
            return down, up, parallel
        case _:
            return (), (), ()
