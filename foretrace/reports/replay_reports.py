"""A replay on a machine as a report: threads, resources, the critical path, what would shorten it, decisions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from foretrace.base.terminal import plain
from foretrace.base.units import format_bytes, format_seconds
from foretrace.replay.node.records import NodeReplay, ResourceUse

from .model import INTEGER, SECONDS, SHARE, Column, Report, Section, Table, Text, for_programs
from .prediction_reports import assumed_figures
from .replay_groups import groups_of

_MOST_ENTITIES = 16
_MOST_PATH = 8
_LEAST_SHARE = 1e-3

_ENTITIES = (
    Column("", "thread", value=lambda one: one.title),
    Column("", "busy", SECONDS, lambda one: one.busy_s),
    Column("", "waits", SECONDS, lambda one: one.wait_s),
    Column("", "ends", SECONDS, lambda one: one.end_s),
)


@dataclass(frozen=True, slots=True)
class _Threads:
    """Threads that are alike, with the times of each, in seconds."""

    title: str
    count: int
    busy_s: float
    wait_s: float
    end_s: float


def _amount(use: ResourceUse) -> str:
    return format_bytes(use.amount) if use.unit == "bytes" else format_seconds(use.amount)


_RESOURCES = (
    Column("name", "resource"),
    Column("utilisation", "used", SHARE),
    Column("", "amount", value=_amount, left=False),
    Column("full_s", "full for", SECONDS, lambda use: use.full_s if use.kind == "memory" else None),
    Column("waits", "waits", INTEGER, lambda use: use.waits or None),
)
_PATH = (
    Column("share", "share", SHARE),
    Column("time_s", "time", SECONDS),
    Column("activity", "critical path"),
)
_THREADS = for_programs("name", "kind", "job", "busy_s", "wait_s", "end_s")


def replay_report(replay: NodeReplay, *, assumptions: bool = False) -> Report:
    """Report of `foretrace replay`, with all assumptions or only their number."""
    sections: list[Section] = [Text(_title_lines(replay)), *_entity_sections(replay)]
    uses = [use for use in replay.resources if use.kind != "lock" or use.waits]
    sections += [Text([""]), Table(_RESOURCES, replay.resources, shown=uses)]
    path = [part for part in replay.critical_path if part.share >= _LEAST_SHARE][:_MOST_PATH]
    if path:
        sections += [Text([""]), Table(_PATH, replay.critical_path, shown=path)]
    lines = ["", "what would shorten it"]
    lines += [
        f"  {one.change}: {format_seconds(one.makespan_s)}, {one.speedup:.2f} times as fast" for one in replay.shorter
    ]
    lines += [*_decision_lines(replay), *(f"warning: {warning}" for warning in replay.warnings)]
    sections += [Text(lines), *assumed_figures(replay.assumptions, in_full=assumptions)]
    found = document(replay)
    return Report("Replay", sections, Table(_THREADS, found["entities"]), lambda: found)


def _entity_sections(replay: NodeReplay) -> list[Section]:
    """Threads, those that are alike in one row."""
    outcome = replay.outcome

    def times(number: int) -> tuple[float, float, float]:
        return float(outcome.busy_s[number]), float(replay.wait_s[number]), float(outcome.end_s[number])

    def shown(number: int) -> tuple[str, ...]:
        return tuple(map(format_seconds, times(number)))

    groups = groups_of([entity.name for entity in outcome.compiled.entities], shown)
    rows = [_Threads(group.title, len(group.members), *times(group.members[0])) for group in groups]
    left = sum(row.count for row in rows[_MOST_ENTITIES:])
    rest = f"and {left} more: --json has all" if left else ""
    return [Text([""]), Table(_ENTITIES, rows, shown=_MOST_ENTITIES, rest=rest)]


def _decision_lines(replay: NodeReplay) -> list[str]:
    if replay.accelerator is None:
        return []
    going = [decision for decision in replay.decisions if decision.offload]
    return [
        "",
        f"{len(going)} of {len(replay.decisions)} decisions sent a loop to {replay.accelerator} "
        f"({replay.policy}): they took {format_seconds(sum(d.host_s for d in going))} on the host, and were to take "
        f"{format_seconds(sum(d.cost.total_s for d in going if d.cost))} there",
    ]


def _title_lines(replay: NodeReplay) -> list[str]:
    jobs = "1 copy" if replay.copies == 1 else f"{replay.copies} copies"
    cores = "1 core" if replay.cores == 1 else f"{replay.cores} cores"
    lines = [
        f"{replay.title}, {jobs} on {cores}: {format_seconds(replay.makespan_s)} "
        f"({format_seconds(replay.low_s)} to {format_seconds(replay.high_s)})"
    ]
    if replay.copies > 1 and replay.alone_s > 0:
        slowdown = replay.makespan_s / replay.alone_s
        lines.append(
            f"one copy alone takes {format_seconds(replay.alone_s)}: {slowdown:.2f} times as long with the others"
        )
    for level in replay.caches:
        if level.jobs > 1:
            lines.append(
                f"{level.name}: {level.jobs} copies share {format_bytes(level.size_bytes)}, each holds "
                f"{format_bytes(level.held_bytes)}"
            )
    return lines


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
