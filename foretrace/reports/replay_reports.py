"""A replay on a machine as a report: threads, resources, the critical path, what would shorten it, decisions."""

from __future__ import annotations

from typing import Any

from foretrace.base.units import format_bytes, format_seconds
from foretrace.replay.node.records import NodeReplay, ResourceUse

from .assumed_figures import assumed_figures
from .model import INTEGER, SECONDS, SHARE, Column, Report, Section, Table, Text, document_of
from .replay_groups import groups_of

_MOST_ENTITIES = 16
_MOST_PATH = 8
_LEAST_SHARE = 1e-3


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
    return Report("Replay", sections, entity_table(replay), lambda: document(replay))


def entity_table(replay: NodeReplay) -> Table:
    """Threads by their numbers."""
    outcome, wait_s = replay.outcome, replay.wait_s
    entities = outcome.compiled.entities
    columns = (
        Column("name", "thread", value=lambda number: entities[number].name),
        Column("kind", value=lambda number: entities[number].kind),
        Column("job", value=lambda number: entities[number].job),
        Column("busy_s", "busy", SECONDS, lambda number: float(outcome.busy_s[number])),
        Column("wait_s", "waits", SECONDS, lambda number: float(wait_s[number])),
        Column("end_s", "ends", SECONDS, lambda number: float(outcome.end_s[number])),
    )
    return Table(columns, range(len(entities)))


def _entity_sections(replay: NodeReplay) -> list[Section]:
    """Threads, those that are alike in one row."""
    table = entity_table(replay)
    name, *times = table.headed
    groups = groups_of([name.text(one) for one in table.records], lambda one: tuple(of.text(one) for of in times))
    columns = (
        Column("", "thread", value=lambda group: group.title),
        *(of.within(lambda group: group.members[0]) for of in times),
    )
    left = sum(len(group.members) for group in groups[_MOST_ENTITIES:])
    rest = f"and {left} more: --json has all" if left else ""
    return [Text([""]), Table(columns, groups, shown=_MOST_ENTITIES, rest=rest)]


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
    outcome, table = replay.outcome, entity_table(replay)
    return {
        "schema": "foretrace.replay/1",
        **document_of(
            replay,
            "machine title cores threads copies accelerator accelerators policy model makespan_s low_s high_s alone_s "
            "prediction_s complete",
        ),
        "entities": [document_of(number, *table.columns) for number in table.records],
        **document_of(replay, "resources caches critical_path shorter"),
        "decisions": [
            {
                "entity": outcome.compiled.entities[decision.rank].name,
                "activity": replay.regions[decision.node],
                "time_s": decision.time_s,
                "host_s": decision.host_s,
                "accelerator_s": decision.cost.total_s if decision.cost else None,
                "offload": decision.offload,
                "refusal": decision.refusal,
            }
            for decision in replay.decisions
        ],
        **document_of(outcome, "events events_simulated periods_estimated segments_left_out"),
        "assumptions": list(map(str, replay.assumptions)),
        "warnings": replay.warnings,
    }
