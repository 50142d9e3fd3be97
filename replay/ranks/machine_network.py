"""The network that joins ranks on nodes of a machine: from its profile and an interconnect, with ranges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from foretrace.base.errors import PredictionError
from foretrace.profiles import defaults
from foretrace.profiles.interconnect import Interconnect
from foretrace.profiles.points import MessagePoint
from foretrace.profiles.profile import Network as Figures
from foretrace.profiles.profile import NodeNetwork, Profile
from foretrace.profiles.ranges import (
    MOST_NOISE,
    Assumptions,
    Range,
    assumption_text,
    core_class,
    default_of,
    measured,
    noise_of,
)
from foretrace.replay.engine.network import Crossbar, Network, Regime, Torus

from .topologies import topology_of

MOST_CHARGED = 0.9
"""Share of the shortest message's time that its overheads are at most."""


@dataclass(frozen=True, slots=True)
class MachineNetwork:
    """A network with its range, and what messages cost the processors.

    A message between two ranks takes `send_overhead_s` of the sender's processor before its Send, then what the engine
    makes of the network, then `receive_overhead_s` of the receiver's processor once its Receive is done (of a
    non-blocking one: once it was awaited). Their sum is the time of the profile or the interconnect, which is why the
    network's own times are shorter by the overheads.

    Attributes:
        fast, typical, slow: the network as the engine takes it.
        send_overhead_s, receive_overhead_s: of each message, whatever its size and way.
    """

    fast: Network
    typical: Network
    slow: Network
    send_overhead_s: Range
    receive_overhead_s: Range

    def __iter__(self) -> Iterator[Network]:
        """Fast, typical, slow."""
        return iter((self.fast, self.typical, self.slow))


def network_between(
    profile: Profile,
    interconnect: Interconnect | None,
    nodes: int,
    assumed: Assumptions,
    *,
    topology: str | None = None,
    overheads: bool = True,
    latency: float = 1.0,
    bandwidth: float = 1.0,
) -> MachineNetwork:
    """The network of a machine's nodes.

    Messages between ranks of one node take what the profile's `[[messages]]` say (else its `[network]`, else what is
    assumed), those between nodes what the interconnect says: its measured messages with straight lines between their
    sizes, else latency and bandwidth, with the handshake of a rendezvous above the eager threshold. Links have the
    interconnect's bandwidth in each direction.

    Args:
        profile: the machine, of which all nodes are.
        interconnect: what joins them; None: one is assumed, with the range over those that come with foretrace.
        nodes: number of nodes; the topology may have more.
        assumed: takes up what was assumed where figures are missing.
        topology: as `topologies.topology_of` reads it; None: the interconnect's.
        overheads: whether the overheads are charged to the processors. If not, they are part of the network's latency
            and returned as 0: right for what the engine sends by itself (the steps of collectives), where nothing
            charges them.
        latency, bandwidth: factors of the network between nodes, beside the overheads: what if it were so much better.

    Raises:
        PredictionError: the topology is unknown or too small, or a factor is not positive.
    """
    if not 0 <= latency < math.inf or not 0 < bandwidth < math.inf:
        raise PredictionError(
            f"network: {latency} times the latency and {bandwidth} times the bandwidth, must be positive"
        )
    within = _Way("network", profile, profile.network or Figures(source={}), profile.messages, assumed)
    between: _Way | None = None
    if nodes > 1:
        name = interconnect.name if interconnect else "interconnect"
        figures = interconnect.network if interconnect else NodeNetwork(source={})
        points = interconnect.messages if interconnect else ()
        between = _Way(name, profile, figures, points, assumed)
    most = between or within
    shortest = Range(*(min(way.shortest_s[case] for way in (within, most)) for case in range(3)))
    send_s, receive_s = (_charged(part, shortest) if overheads else Range.exactly(0.0) for part in most.overheads)
    shape = topology_of(_topology(interconnect, topology, nodes, assumed), nodes)
    has_ways = between is not None and not isinstance(shape, Crossbar)
    link_s = (most.figure("hop_latency_s") if has_ways else Range.exactly(0.0)).times(Range.exactly(latency))
    links = 1 if isinstance(shape, Torus) else 2  # of the shortest way
    made = []
    for case in range(3):
        own, far = (way.line(case, send_s[case] + receive_s[case]) for way in (within, most))
        far = far.scaled(latency, bandwidth)
        made.append(
            Network(
                shape,
                link_latency_s=link_s[case],
                link_bytes_per_s=far.bytes_per_s,
                regimes=far.regimes(links * link_s[case]),
                own_latency_s=own.latency_s,
                own_bytes_per_s=own.bytes_per_s,
                own_regimes=own.regimes(own.latency_s),
                eager_below_bytes=most.threshold[case] + 1,
                detached_below_bytes=most.threshold[case] + 1,
            )
        )
    fast, typical, slow = made
    return MachineNetwork(fast, typical, slow, send_s, receive_s)


def _charged(overhead_s: Range, shortest_s: Range) -> Range:
    """An overhead, bounded so that a send and a receive together take no longer than the shortest message."""
    return Range(*(min(part_s, MOST_CHARGED / 2 * all_s) for part_s, all_s in zip(overhead_s, shortest_s, strict=True)))


def _topology(interconnect: Interconnect | None, topology: str | None, nodes: int, assumed: Assumptions) -> str:
    text = topology or (interconnect.topology if interconnect and nodes > 1 else "crossbar")
    if topology is None and text.partition(":")[0] == "dragonfly":
        assumed.note("topology", "dragonfly is replayed as a crossbar: links between its switches are never full")
        return "crossbar"
    return text


class Piece(NamedTuple):
    """Times of messages above a size: a latency, and seconds for each byte."""

    above_bytes: float
    latency_s: float
    byte_s: float


class Line(NamedTuple):
    """Times of messages by size, piece by piece. `bytes_per_s` is the most of their rates."""

    bytes_per_s: float
    pieces: tuple[Piece, ...]

    @property
    def latency_s(self) -> float:
        """Latency of the shortest message."""
        return self.pieces[0].latency_s

    def scaled(self, latency: float, bandwidth: float) -> Line:
        """With latencies and rates times these factors."""
        return Line(
            self.bytes_per_s * bandwidth,
            tuple(Piece(one.above_bytes, one.latency_s * latency, one.byte_s / bandwidth) for one in self.pieces),
        )

    def regimes(self, way_s: float) -> tuple[Regime, ...]:
        """The pieces as the engine takes them, beside a latency of the way."""
        return tuple(
            Regime(piece.above_bytes, 1.0, 1 / (piece.byte_s * self.bytes_per_s), piece.latency_s - way_s)
            for piece in self.pieces
        )


class _Way:
    """Messages on one way, within a node or between nodes: their figures with ranges."""

    def __init__(
        self,
        name: str,
        profile: Profile,
        figures: Figures,
        points: Sequence[MessagePoint],
        assumed: Assumptions,
    ) -> None:
        self._name, self._core, self._figures, self._assumed = name, core_class(profile), figures, assumed
        self._points = [
            (point.message_bytes, measured(point.time_s, min(point.noise or 0.0, MOST_NOISE), more_is_faster=False))
            for point in sorted(points, key=lambda point: point.message_bytes)
        ]
        if points:
            self.shortest_s = Range(*(min(time_s[case] for _, time_s in self._points) for case in range(3)))
        else:
            self.shortest_s = self.figure("latency_s")
        self._bytes_per_s = Range.exactly(0.0)  # what the points show
        if not points or figures.bandwidth_bytes_per_s is not None:
            self._bytes_per_s = self.figure("bandwidth_bytes_per_s")
        self.threshold = self.figure("eager_threshold_bytes")
        self.overheads = self.figure("send_overhead_s"), self.figure("receive_overhead_s")

    def figure(self, name: str) -> Range:
        """A figure as given, else as assumed."""
        more_is_faster = name in ("bandwidth_bytes_per_s", "eager_threshold_bytes")
        given: float | None = getattr(self._figures, name)
        if given is not None:
            return measured(given, noise_of(self._figures.noise, name), more_is_faster=more_is_faster)
        record = type(self._figures)
        default = default_of(record, name, self._core)
        values = Range.of(default)
        if default.of:
            values = values.times(self.shortest_s)
        return self._assumed.figure(f"{self._name} {name}", assumption_text(record, name, default), values)

    def line(self, case: int, overhead_s: float) -> Line:
        """Times of messages, less the overheads of their processors."""
        bytes_per_s = self._bytes_per_s[case]
        if self._points:
            return line_through([(size, time_s[case] - overhead_s) for size, time_s in self._points], bytes_per_s)
        pieces = [Piece(0.0, self.shortest_s[case] - overhead_s, 1 / bytes_per_s)]
        if isinstance(self._figures, NodeNetwork):
            latency_s = self._rendezvous()[case] * self.shortest_s[case] - overhead_s
            pieces.append(Piece(self.threshold[case], latency_s, 1 / bytes_per_s))
        return Line(bytes_per_s, tuple(pieces))

    def _rendezvous(self) -> Range:
        default = defaults.RENDEZVOUS
        text = f"messages above the eager threshold: not measured, {default.range_text} assumed"
        return self._assumed.figure(f"{self._name} rendezvous", text, Range.of(default))


def line_through(points: Sequence[tuple[float, float]], bytes_per_s: float) -> Line:
    """Times with straight lines between points; up to the first point as there, beyond the last as before it.

    Where a line would begin below 0 at size 0 (time grows by more than the size), lines through the origin take its
    place, one for each doubling of the size. Where time grows by less than the rate allows, or falls, the line has that
    rate and ends in the point.

    Args:
        points: sizes in bytes, ascending, and times in seconds above 0.
        bytes_per_s: most of a message's rate; more if a point shows more.
    """
    bytes_per_s = max([bytes_per_s, *(size / time_s for size, time_s in points)])
    least, (size, time_s) = 1 / bytes_per_s, points[0]
    pieces = [Piece(0.0, max(time_s - least * size, 0.0), least)]
    for (size, time_s), (next_size, next_s) in itertools.pairwise(points):
        byte_s = max((next_s - time_s) / (next_size - size), least)
        if (latency_s := next_s - byte_s * next_size) >= 0:
            pieces.append(Piece(size, latency_s, byte_s))
            continue
        begin = size
        while begin < next_size:
            end = min(2 * max(begin, 1.0), next_size)
            end_s = time_s + (next_s - time_s) * (end - size) / (next_size - size)
            pieces.append(Piece(begin, 0.0, end_s / end))
            begin = end
    return Line(bytes_per_s, tuple(pieces))
