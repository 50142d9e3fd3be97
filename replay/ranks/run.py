"""Replay of the ranks of a traced run on hosts joined by a network."""

from __future__ import annotations

from collections.abc import Mapping

from foretrace.replay.engine.outcome import Outcome
from foretrace.replay.engine.simulation import MOST_SEGMENTS, run_compiled

from .actions import RankActions
from .collectives import recipes
from .programs import Hosts, compile_ranks


def replay_ranks(
    run: RankActions,
    hosts: Hosts,
    *,
    library: str = "mpich",
    algorithms: Mapping[str, str] | None = None,
    most_segments: int = MOST_SEGMENTS,
    folding: bool = True,
) -> Outcome:
    """Replay a run.

    Args:
        run: what its ranks do.
        hosts: where they do it.
        library: MPI library whose choices of algorithms collectives follow; `algorithms` names others, by collective.
        most_segments: of the timeline; more are counted and left out.
        folding: whether repeated periods are added up at once.

    Raises:
        PredictionError: ranks deadlock, or a choice does not exist.
    """
    compiled = compile_ranks(run, hosts, recipes(library, run.num_ranks, algorithms))
    return run_compiled(compiled, most_segments=most_segments, folding=folding)
