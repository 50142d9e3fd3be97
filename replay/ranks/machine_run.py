"""Replay of a recorded parallel run on nodes of a machine that are joined by a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from foretrace.base.errors import PredictionError
from foretrace.base.units import format_seconds
from foretrace.profiles.interconnect import Interconnect
from foretrace.profiles.profile import MachineKind, Profile
from foretrace.profiles.ranges import Assumption, Assumptions
from foretrace.replay.base.records import Model
from foretrace.replay.engine.network import Network
from foretrace.replay.engine.outcome import Outcome
from foretrace.replay.engine.simulation import MOST_SEGMENTS
from foretrace.replay.memory.shared_cache import last_caches
from foretrace.replay.prediction.conditions import Conditions
from foretrace.replay.prediction.deep_trees import with_room
from foretrace.replay.prediction.predict import predict
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.records import Signature

from .actions import RankActions
from .captured import actions_of, is_timed
from .compute_costs import ComputeCosts, predicted_costs, timed_costs
from .machine_network import network_between
from .placement import nodes_of
from .platform import Platform
from .programs import Hosts
from .records import RankReplay
from .run import simulate_ranks


@dataclass(frozen=True, slots=True)
class Layout:
    """Placement of ranks on nodes, and their communication there.

    Attributes:
        nodes: number of nodes; None: as many as are needed.
        ranks_per_node: that share a node; None: as many as it has cores, or as fill the nodes.
        interconnect: joins the nodes; None is for one node.
        topology: of the network, as in "torus:4x4"; None for the interconnect's.
        library: whose choices of collective algorithms are followed; "" for those of the library that was recorded.
        algorithms: of collectives, by name, instead.
        latency, bandwidth: factors of a what-if on the network's figures.
        io_bytes_per_s: at which each rank reads and writes files; None: these calls are left out, and counted.
    """

    nodes: int | None = None
    ranks_per_node: int | None = None
    interconnect: Interconnect | None = None
    topology: str | None = None
    library: str = ""
    algorithms: Mapping[str, str] = field(default_factory=dict)
    latency: float = 1.0
    bandwidth: float = 1.0
    io_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class TimedOn:
    """Reference for a run whose computation was timed: the machine that it ran on, and a signature like it."""

    machine: Profile
    like: Signature


@with_room
def replay_run(
    signature: Signature,
    profile: Profile,
    layout: Layout | None = None,
    *,
    origin: str = "run",
    timed_on: TimedOn | None = None,
    model: Model = Model.CORE,
    most_segments: int = MOST_SEGMENTS,
) -> RankReplay:
    """Replay a recorded parallel run on nodes of a machine.

    Args:
        signature: of the run.
        profile: of a node.
        layout: where its ranks run; the defaults if not given.
        origin: file of the run, for messages.
        timed_on: of a run whose computation was timed: scales it by the times that are predicted for a signature on
            the machine, and on the one that it was timed on. None: computation takes as long as it was timed.
        model: what gives computation its time.
        most_segments: of the timeline; more are counted and left out.

    Raises:
        PredictionError: it is no parallel run, there is no room for its ranks, ranks deadlock, or signature and profile
            do not tell enough.
    """
    run, layout = signature.ranks, layout or Layout()
    if run is None:
        raise PredictionError("replay: the signature is of no parallel run; record one with foretrace trace --mpi")
    if profile.kind is not MachineKind.HOST:
        raise PredictionError(
            f"machine {profile.name}: is an accelerator, it runs no ranks; name a host with --machine"
        )
    nodes, per_node = places_of(len(run.ranks), profile, layout)
    assumed = Assumptions()
    networks = network_between(
        profile, layout.interconnect, nodes, assumed, topology=layout.topology, overheads=False,
        latency=layout.latency, bandwidth=layout.bandwidth,
    )  # fmt: skip
    node_of = nodes_of("block", len(run.ranks), nodes, per_node)
    hosts = Hosts(node_of, (profile.core.cores if profile.core else None) or per_node, 1.0, networks.typical)
    costs, hosts, of_costs = _computation(signature, hosts, profile, per_node, timed_on, model)
    library = layout.library or library_of(run.library)

    def simulated(factor: float, network: Network, most_segments: int = 0) -> tuple[RankActions, Outcome]:
        before_s = [seconds * factor for seconds in costs.before_s]
        actions = actions_of(run, before_s, origin, costs.demand_of, layout.io_bytes_per_s)
        here = replace(hosts, network=network)
        return actions, simulate_ranks(actions, here, library, layout.algorithms, most_segments=most_segments)

    ends_s = [
        simulated(factor, network)[1].makespan_s
        for factor, network in ((costs.low, networks.fast), (costs.high, networks.slow))
    ]
    actions, outcome = simulated(1.0, networks.typical, most_segments)
    found = RankReplay.of(
        actions, (Platform(profile.name, hosts.cores, 1.0, hosts.network), hosts), library, dict(layout.algorithms),
        outcome,
    )  # fmt: skip
    return replace(
        found,
        title=profile.title,
        recorded_s=max(record.wall_s for record in run.ranks) or None if is_timed(run) else None,
        ends_s=(min(*ends_s, outcome.makespan_s), max(*ends_s, outcome.makespan_s)),
        assumptions=(*of_costs, *assumed.listed),
        warnings=_warnings(signature, timed_on, hosts, costs),
    )


def places_of(ranks: int, profile: Profile, layout: Layout) -> tuple[int, int]:
    """Number of nodes, and of ranks on each.

    Raises:
        PredictionError: a number is not positive, there are too few places, or nothing joins several nodes.
    """
    cores = profile.core.cores if profile.core else None
    per_node, nodes = layout.ranks_per_node, layout.nodes
    for name, number in (("--nodes", nodes), ("--ranks-per-node", per_node)):
        if number is not None and number < 1:
            raise PredictionError(f"replay: {name} is {number}, must be at least 1")
    if per_node is None:
        per_node = -(-ranks // nodes) if nodes else min(ranks, cores or ranks)
    needed = -(-ranks // per_node)
    if nodes is not None and needed > nodes:
        raise PredictionError(f"replay: {ranks} ranks, {per_node} per node, need {needed} nodes, not {nodes}")
    nodes = nodes or needed
    if needed > 1 and layout.interconnect is None:
        raise PredictionError(
            f"replay: {ranks} ranks, {per_node} per node, need {needed} nodes: say with --network what joins them"
        )
    return nodes, per_node


def library_of(version: str) -> str:
    """Name of the choices of algorithms that an MPI library of this version text makes: "openmpi", or else "mpich"."""
    return "openmpi" if "open mpi" in version.lower() else "mpich"


def _computation(
    signature: Signature, hosts: Hosts, profile: Profile, per_node: int, timed_on: TimedOn | None, model: Model
) -> tuple[ComputeCosts, Hosts, tuple[Assumption, ...]]:
    """The costs of computation, the hosts with the memory that it shares, and what was assumed."""
    run = signature.ranks
    assert run is not None
    if is_timed(run):
        ratio = 1.0
        if timed_on is not None:
            there, here = (predict(timed_on.like, machine, model).time_s for machine in (profile, timed_on.machine))
            ratio = there / here if here else 1.0
        return timed_costs(run, ratio), hosts, ()
    workload = Workload.of(signature)
    conditions = Conditions.of(workload, profile, jobs=per_node, cores=hosts.cores, model=model)
    costs = predicted_costs(workload, run, conditions)
    shared = replace(
        hosts,
        memory_bytes_per_s=tuple(conditions.bandwidth.points(conditions.stored_share)),
        caches=last_caches(profile, hosts.cores),
        demands=costs.demands,
    )
    return costs, shared, (*conditions.run.assumptions, *conditions.assumptions)


def _warnings(signature: Signature, timed_on: TimedOn | None, hosts: Hosts, costs: ComputeCosts) -> tuple[str, ...]:
    run, found = signature.ranks, []
    assert run is not None
    if not signature.provenance.complete:
        found.append(f"the run was not recorded whole: {signature.provenance.incomplete_reason}")
    if not is_timed(run) and signature.provenance.threads > len(run.ranks):
        found.append("ranks had threads of their own: what these did counts as the rank's own, one after the other")
    if costs.rest_s > 0:
        found.append(
            f"{format_seconds(costs.rest_s)} of all ranks together are not in it: what ran before MPI was initialised, "
            "and after the last call"
        )
    if is_timed(run) and timed_on is None:
        found.append(
            f"computation takes as long as on the machine that the run was recorded on ({run.processor}); name that "
            "machine with --timed-on and a signature of the program with --like to scale it"
        )
    if hosts.is_crowded:
        found.append(f"ranks of a node share its {hosts.cores} cores: there are more ranks than cores")
    return tuple(found)
