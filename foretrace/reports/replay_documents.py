"""A replay on a machine as JSON, `foretrace.replay/1`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from foretrace.base.terminal import plain
from foretrace.replay.node.records import NodeReplay


def document(replay: NodeReplay) -> dict[str, Any]:
    """The JSON face. Units are in the key names."""
    outcome = replay.outcome
    entities = zip(
        outcome.compiled.entities, outcome.busy_s.tolist(), replay.wait_s.tolist(), outcome.end_s.tolist(), strict=True
    )
    return {
        "schema": "foretrace.replay/1",
        "machine": replay.machine,
        "title": replay.title,
        "cores": replay.cores,
        "threads": replay.threads,
        "copies": replay.copies,
        "accelerator": replay.accelerator,
        "accelerators": replay.accelerators,
        "policy": replay.policy,
        "model": str(replay.model),
        "makespan_s": replay.makespan_s,
        "low_s": replay.low_s,
        "high_s": replay.high_s,
        "alone_s": replay.alone_s,
        "prediction_s": replay.prediction_s,
        "complete": replay.complete,
        "entities": [
            {
                "name": plain(entity.name),
                "kind": entity.kind,
                "job": entity.job,
                "busy_s": busy_s,
                "wait_s": wait_s,
                "end_s": end_s,
            }
            for entity, busy_s, wait_s, end_s in entities
        ],
        "resources": [asdict(use) for use in replay.resources],
        "caches": [asdict(level) for level in replay.caches],
        "critical_path": [
            {"activity": plain(part.activity), "time_s": part.time_s, "share": part.share}
            for part in replay.critical_path
        ],
        "shorter": [asdict(one) for one in replay.shorter],
        "decisions": [
            {
                "entity": plain(outcome.compiled.entities[decision.rank].name),
                "activity": plain(replay.regions[decision.node]),
                "time_s": decision.time_s,
                "host_s": decision.host_s,
                "accelerator_s": decision.cost.total_s if decision.cost else None,
                "offload": decision.offload,
                "refusal": plain(decision.refusal),
            }
            for decision in replay.decisions
        ],
        "events": outcome.events,
        "events_simulated": outcome.events_simulated,
        "periods_estimated": outcome.periods_estimated,
        "segments_left_out": outcome.segments_left_out,
        "assumptions": [plain(str(assumption)) for assumption in replay.assumptions],
        "warnings": [plain(warning) for warning in replay.warnings],
    }
