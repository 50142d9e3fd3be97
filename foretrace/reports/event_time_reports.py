"""What an event has to do with a program's time: tables, and JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from foretrace.base.names import demangle
from foretrace.base.terminal import console, plain, table
from foretrace.base.units import format_seconds
from foretrace.replay.base.event_times import EventTimes, NodePace
from foretrace.replay.base.records import Place, Prediction

_PARTS: tuple[tuple[str, Callable[[NodePace], float]], ...] = (
    ("proportional", lambda node: node.proportional_s),
    ("fixed", lambda node: node.fixed_s),
    ("not recognised", lambda node: node.unrecognised_s),
)
_MOST_ZEROS = 1e-9
"""Of the time: a part of a node that is less is none."""


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


def show_event(predictions: Sequence[Prediction], *, per: bool, top: int | None) -> None:
    """Print what an event has to do with predictions, and the `top` places of each part of the first of them.

    Args:
        predictions: with `events`.
        per: whether the time per unit is asked for.
        top: None: all places.
    """
    first = predictions[0].events
    if first is None:
        return
    out = console()
    is_described = first.description not in ("", first.event, first.event.rpartition("::")[2])
    text = f" ({plain(first.description)})" if is_described else ""
    wanted = "" if first.count == first.traced else f", {_number(first.count)} predicted"
    out.print(f"\n{plain(first.event)}{text}: {_number(first.traced)} in the traced run{wanted}", soft_wrap=True)
    if first.parts is None:
        out.print(f"which part of the time is proportional to it is not known: {plain(first.unknown)}", soft_wrap=True)
    if per:
        _show_per_unit(predictions, first)
    if first.parts is None:
        return
    _show_parts(predictions, first)
    if top != 0:
        _show_places(predictions[0], first, top)


def _show_per_unit(predictions: Sequence[Prediction], first: EventTimes) -> None:
    unit = plain(first.what)
    rows = table("machine", f"time per {unit}", "low", "high", "of what is proportional", left=("machine",))
    for one in predictions:
        if one.events is None:
            continue
        part_s = one.events.proportional_per_unit_s
        times = [format_seconds(one.events.per_unit_s(time_s)) for time_s in (one.time_s, one.low_s, one.high_s)]
        rows.add_row(plain(one.machine), *times, "-" if part_s is None else format_seconds(part_s))
    console().print(rows)


def _show_parts(predictions: Sequence[Prediction], first: EventTimes) -> None:
    is_scaled = first.count != first.traced
    columns = ("proportional", "fixed", "not recognised")
    rows = table("machine", "traced run", *columns, *(["ratio", "from", "to"] if is_scaled else []), left=("machine",))
    for one in predictions:
        times = one.events
        if times is None or times.parts is None:
            continue
        seconds = (times.parts.proportional_s, times.parts.fixed_s, times.parts.unrecognised_s)
        shares = [f"{part_s / times.traced_s:.1%}" if times.traced_s else "-" for part_s in seconds]
        ratios = [f"{ratio:.3f}" for ratio in (times.ratio, times.ratio_low, times.ratio_high)] if is_scaled else []
        rows.add_row(plain(one.machine), format_seconds(times.traced_s), *shares, *ratios)
    console().print(rows)
    if is_scaled:
        console().print(
            "ratio: predicted time over that of the traced run, and its range by what the trace leaves open; the "
            "model's error is in low and high alone",
            soft_wrap=True,
        )


def _show_places(prediction: Prediction, times: EventTimes, top: int | None) -> None:
    out = console()
    for name, seconds in _PARTS:
        found = places(times, seconds)
        if not found:
            continue
        rows = table("share", "time", "source", "function", "what", "deviation", left=("source", "function", "what"))
        for one in found[:top]:
            place, deviation = one.place, "-" if one.deviation is None else f"{one.deviation:.1%}"
            where = place.text
            rows.add_row(
                f"{one.time_s / times.traced_s:.1%}", format_seconds(one.time_s), plain(where),
                plain(place.name), plain(one.label), deviation,
            )  # fmt: skip
        out.print(f"\n{plain(prediction.title)}, traced run: {name}")
        out.print(rows)
        if top is not None and len(found) > top:
            rest_s = sum(one.time_s for one in found[top:])
            out.print(f"{len(found) - top} more, {format_seconds(rest_s)} together: --all-loops shows them")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.6g}"


def event_document(prediction: Prediction) -> dict[str, Any]:
    """What an event has to do with a prediction, as JSON; nothing if none was asked about."""
    times = prediction.events
    if times is None:
        return {}
    parts = times.parts
    return {
        "event": {
            "name": plain(times.event),
            "unit": None if times.unit is None else plain(times.unit),
            "description": plain(times.description),
            "start": times.start,
            "traced": times.traced,
            "count": times.count,
            "traced_s": times.traced_s,
            "ratio": times.ratio,
            "ratio_low": times.ratio_low,
            "ratio_high": times.ratio_high,
            "per_unit_s": times.per_unit_s(prediction.time_s),
            "per_unit_low_s": times.per_unit_s(prediction.low_s),
            "per_unit_high_s": times.per_unit_s(prediction.high_s),
            "proportional_per_unit_s": times.proportional_per_unit_s,
            "unknown": plain(times.unknown),
            "traced_parts": None
            if parts is None
            else {
                "proportional_s": parts.proportional_s,
                "fixed_s": parts.fixed_s,
                "unrecognised_s": parts.unrecognised_s,
                "nodes": [_node_document(node) for node in parts.nodes],
            },
        }
    }


def _node_document(node: NodePace) -> dict[str, Any]:
    return {
        "node": node.node,
        "module": plain(node.place.module),
        "function": plain(demangle(node.place.function)),
        "file": plain(node.place.file),
        "line": node.place.line,
        "caller": plain(demangle(node.place.caller)) or None,
        "kind": str(node.kind),
        "time_s": node.time_s,
        "proportional_s": node.proportional_s,
        "fixed_s": node.fixed_s,
        "unrecognised_s": node.unrecognised_s,
        "deviation": node.deviation,
        "stretch": node.stretch,
    }
