"""Relation of an event to a program's time: tables, and JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from foretrace.base.units import format_seconds
from foretrace.replay.base.event_times import EventTimes, NodePace
from foretrace.replay.base.records import Place, Prediction

from .model import FINE_RATIO, SECONDS, SHARE, Column, Section, Table, Text, document_of
from .places import PLACE

_PARTS: tuple[tuple[str, Callable[[NodePace], float]], ...] = (
    ("proportional", lambda node: node.proportional_s),
    ("fixed", lambda node: node.fixed_s),
    ("not recognised", lambda node: node.unrecognised_s),
)
_PARTS_S = "proportional_s fixed_s unrecognised_s"
_NODES: tuple[Column | str, ...] = (
    "node",
    *(column for column in PLACE if column.key not in ("mangled", "inlined")),
    f"kind time_s {_PARTS_S} deviation stretch",
)
_MOST_ZEROS = 1e-9
"""Share of the time: a part of a node that is less is none."""


@dataclass(frozen=True, slots=True)
class PlaceTime:
    """The part of the traced run's time in one place of the source that an event has the same to do with."""

    place: Place
    label: str
    time_s: float
    deviation: float | None


def places(times: EventTimes, seconds: Callable[[NodePace], float]) -> list[PlaceTime]:
    """The places of a part of the time, longest first; the deviation is the largest of their nodes."""
    if times.parts is None:
        return []
    found: dict[tuple[Place, str], PlaceTime] = {}
    for node in times.parts.nodes:
        time_s = seconds(node)
        if time_s <= _MOST_ZEROS * times.traced_s:
            continue
        before = found.get((node.place, node.label))
        deviation = node.deviation
        if before is not None:
            time_s += before.time_s
            if deviation is None or (before.deviation or 0.0) > deviation:
                deviation = before.deviation
        found[node.place, node.label] = PlaceTime(node.place, node.label, time_s, deviation)
    return sorted(found.values(), key=lambda one: -one.time_s)


def event_sections(predictions: Sequence[Prediction], *, per: bool, top: int | None) -> list[Section]:
    """Sections on an event's relation to predictions, with the `top` places of each part of the first of them.

    Args:
        predictions: with `events`, if an event is asked about.
        per: whether the time per unit is asked for.
        top: None: all places.
    """
    first = predictions[0].events
    if first is None:
        return []
    is_described = first.description not in ("", first.event, first.event.rpartition("::")[2])
    text = f" ({first.description})" if is_described else ""
    wanted = "" if first.count == first.traced else f", {_number(first.count)} predicted"
    lines = ["", f"{first.event}{text}: {_number(first.traced)} in the traced run{wanted}"]
    if first.parts is None:
        lines.append(f"which part of the time is proportional to it is not known: {first.unknown}")
    sections: list[Section] = [Text(lines)]
    if per:
        sections.append(_per_unit(predictions, first))
    if first.parts is not None:
        sections += _part_sections(predictions, first)
        if top != 0:
            sections += _place_sections(predictions[0], first, top)
    return sections


def _per_unit(predictions: Sequence[Prediction], first: EventTimes) -> Table:
    def of(name: str) -> Callable[[Prediction], float | None]:
        return lambda one: None if one.events is None else one.events.per_unit_s(getattr(one, name))

    columns = (
        Column("machine", "machine"),
        Column("per_unit_s", f"time per {first.what}", SECONDS, of("time_s")),
        Column("per_unit_low_s", "low", SECONDS, of("low_s")),
        Column("per_unit_high_s", "high", SECONDS, of("high_s")),
        Column(
            "proportional_per_unit_s", "of what is proportional", SECONDS,
            lambda one: one.events.proportional_per_unit_s,
        ),
    )  # fmt: skip
    return Table(columns, [one for one in predictions if one.events is not None])


def _part_sections(predictions: Sequence[Prediction], first: EventTimes) -> list[Section]:
    def share(name: str) -> Callable[[tuple[str, EventTimes]], float | None]:
        return lambda pair: getattr(pair[1].parts, name) / pair[1].traced_s if pair[1].traced_s else None

    def of(name: str) -> Callable[[tuple[str, EventTimes]], float]:
        return lambda pair: getattr(pair[1], name)

    is_scaled = first.count != first.traced
    columns = [
        Column("machine", "machine", value=lambda pair: pair[0]),
        Column("traced_s", "traced run", SECONDS, of("traced_s")),
        Column("proportional_share", "proportional", SHARE, share("proportional_s")),
        Column("fixed_share", "fixed", SHARE, share("fixed_s")),
        Column("unrecognised_share", "not recognised", SHARE, share("unrecognised_s")),
    ]
    lines = []
    if is_scaled:
        columns += [
            Column("ratio", "ratio", FINE_RATIO, of("ratio")),
            Column("ratio_low", "from", FINE_RATIO, of("ratio_low")),
            Column("ratio_high", "to", FINE_RATIO, of("ratio_high")),
        ]
        lines.append(
            "ratio: predicted time over that of the traced run, and its range by what the trace leaves open; the "
            "model's error is in low and high alone"
        )
    known = [(one.machine, one.events) for one in predictions if one.events is not None and one.events.parts]
    return [Table(columns, known), Text(lines)]


def _place_sections(prediction: Prediction, times: EventTimes, top: int | None) -> list[Section]:
    columns = (
        Column("share", "share", SHARE, lambda one: one.time_s / times.traced_s),
        Column("time_s", "time", SECONDS),
        *PLACE,
        Column("label", "what"),
        Column("deviation", "deviation", SHARE),
    )
    sections: list[Section] = []
    for name, seconds in _PARTS:
        found = places(times, seconds)
        if not found:
            continue
        rest = ""
        if top is not None and len(found) > top:
            rest_s = sum(one.time_s for one in found[top:])
            rest = f"{len(found) - top} more, {format_seconds(rest_s)} together: --all-loops shows them"
        sections += [
            Text(["", f"{prediction.title}, traced run: {name}"]), Table(columns, found, shown=top, rest=rest)
        ]  # fmt: skip
    return sections


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.6g}"


def event_document(prediction: Prediction) -> dict[str, Any]:
    """Relation of an event to a prediction, as JSON; empty if none was asked about."""
    times = prediction.events
    if times is None:
        return {}
    parts = times.parts
    return {
        "event": {
            "name": times.event,
            **document_of(times, "unit description start traced count traced_s ratio ratio_low ratio_high"),
            "per_unit_s": times.per_unit_s(prediction.time_s),
            "per_unit_low_s": times.per_unit_s(prediction.low_s),
            "per_unit_high_s": times.per_unit_s(prediction.high_s),
            "proportional_per_unit_s": times.proportional_per_unit_s,
            "unknown": times.unknown,
            "traced_parts": None
            if parts is None
            else document_of(parts, _PARTS_S) | {"nodes": [document_of(node, *_NODES) for node in parts.nodes]},
        }
    }
