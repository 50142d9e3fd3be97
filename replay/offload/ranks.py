"""Ranks that share a host and its accelerators, each a sequence of regions: the replay behind a triage.

All entries of a region are replayed as one activity (folded), in the order in which regions first ran.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.replay.engine.program import Entity, Part, Run, Sharing, System
from foretrace.replay.engine.simulation import simulate
from foretrace.replay.records import Replay

from .decisions import Activity, Decider, Pays, device_names, parts_of_activity, pays_now
from .device_memory import Link

HOST = "host"


def replay(
    ranks: Sequence[Sequence[Activity]],
    *,
    host_cores: int | None = None,
    accelerators: int = 0,
    link: Link | None = None,
    pays: Pays = pays_now,
) -> Replay:
    """Replay one or more ranks that share a host and its accelerators.

    Args:
        ranks: the activities of each rank, in order.
        host_cores: cores that ranks share; None for one each.
        accelerators: how many there are. With none nothing is offloaded.
        link: the way to each; None for a memory shared with the host.
        pays: the policy of decisions.
    """
    way, core = link or Link(), Sharing(HOST)
    decider = Decider(ranks, way, accelerators, pays)
    system = System(
        cores={HOST: host_cores or max(len(ranks), 1)}, devices=dict.fromkeys(device_names(accelerators), 1)
    )
    entities = []
    for rank, activities in enumerate(ranks):
        program: list[Part] = []
        for token, activity in enumerate(activities):
            label = str(activity.region)
            host = Run(label, activity.host_s, core)
            program += parts_of_activity(activity, token, accelerators, label, host, core, way)
        entities.append(Entity(f"rank {rank}", tuple(program)))
    outcome = simulate(system, entities, decide=decider)
    return Replay(outcome.makespan_s, tuple(outcome.end_s.tolist()), tuple(decider.decisions))
