"""Replay of the ranks of a traced run on hosts joined by a network."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from foretrace.replay.engine.outcome import Outcome
from foretrace.replay.engine.simulation import MOST_SEGMENTS, run_compiled

from .actions import RankActions
from .collectives import recipes
from .placement import nodes_of
from .platform import Platform
from .programs import Hosts, compile_ranks
from .records import RankReplay


def replay_ranks(
    run: RankActions,
    platform: Platform,
    *,
    ranks_per_node: int = 1,
    placement: str = "block",
    library: str = "mpich",
    algorithms: Mapping[str, str] | None = None,
    most_segments: int = MOST_SEGMENTS,
    folding: bool = True,
) -> RankReplay:
    """Replay a run on the nodes of a platform.

    Args:
        run: what its ranks do.
        platform: where they do it.
        ranks_per_node: that share the cores of a node.
        placement: "block", "round-robin", or a file: see `placement.nodes_of`.
        library: MPI library whose choices of algorithms collectives follow; `algorithms` names others, by collective.
        most_segments: of the timeline; more are counted and left out.
        folding: whether repeated periods are added up at once.

    Raises:
        PredictionError: there are too few nodes, ranks deadlock, or a choice does not exist.
    """
    nodes = nodes_of(placement, run.num_ranks, platform.nodes, ranks_per_node)
    hosts = Hosts(nodes, platform.cores, platform.flops_per_s, platform.network)
    outcome = simulate_ranks(run, hosts, library, algorithms, most_segments=most_segments, folding=folding)
    return RankReplay.of(run, (platform, hosts), library, dict(algorithms or {}), outcome)


def simulate_ranks(
    run: RankActions,
    hosts: Hosts,
    library: str,
    algorithms: Mapping[str, str] | None,
    *,
    most_segments: int,
    folding: bool = True,
) -> Outcome:
    """Simulate a run on hosts; the arguments are those of `replay_ranks`.

    Raises:
        PredictionError: ranks deadlock, or a choice does not exist.
    """
    choose = partial(recipes, library, named=algorithms)
    choose(run.num_ranks)  # refuses names that do not exist, whether or not they are used
    return run_compiled(compile_ranks(run, hosts, choose), most_segments=most_segments, folding=folding)
