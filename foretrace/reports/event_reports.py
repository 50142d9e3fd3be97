"""Reports and exports of `foretrace events`: events of processes and of signatures, as text, JSON and data frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import EventsError, OutputError
from foretrace.base.fitting_table import shorten
from foretrace.base.terminal import plain
from foretrace.tracer.signature.event_records import NUM_QUANTILES, EventKind, Events, EventSamples, RecordedEvent

from .model import INTEGER, Column, Kind, Section, Table, Text, bound

if TYPE_CHECKING:
    import pandas

EXPORTS = (".csv", ".json", ".parquet")
MOST_LETTERS = 48
"""Length of a name in tables; exports have it whole."""
QUARTILES = {"min": 0, "q1": 250, "median": 500, "q3": 750, "max": 1000}
"""Positions of a recorder's quantiles that tables have."""
_SPARKS = "▁▂▃▄▅▆▇█"
_SPARK_COLUMNS = 32
_NAMED_IN_ERRORS = 6
_BEGIN_FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""In spreadsheets, those of full width in East Asian ones."""


@dataclass(frozen=True, slots=True)
class EventSource:
    """A process or a signature with its events.

    Attributes:
        title: to tell it from others.
        events: all of them.
        facts: what else is said of it in JSON.
    """

    title: str
    events: Events
    facts: dict[str, Any] = field(default_factory=dict)


def chosen(sources: Sequence[EventSource], patterns: Sequence[str]) -> list[EventSource]:
    """The sources with those events only whose full name is one of the patterns, or matches it (`*::residuals`).

    Raises:
        EventsError: no event does.
    """
    if not patterns:
        return list(sources)
    found = [replace(source, events=_only(source.events, patterns)) for source in sources]
    for pattern in patterns:
        if not any(_matches(event, [pattern]) for source in found for event in source.events.events):
            names = list(dict.fromkeys(event.full_name for source in sources for event in source.events.events))
            raise EventsError(f"{short(pattern)}: no event is called so; there are {listed(names, near=pattern)}")
    return found


def _matches(event: RecordedEvent, patterns: Sequence[str]) -> bool:
    return any(event.full_name == pattern or fnmatchcase(event.full_name, pattern) for pattern in patterns)


def _only(events: Events, patterns: Sequence[str]) -> Events:
    kept = [number for number, event in enumerate(events.events) if _matches(event, patterns)]
    places = {number: place for place, number in enumerate(kept)}
    samples = []
    for one in events.samples:
        columns = [column for column, number in enumerate(one.events.tolist()) if number in places]
        numbers = np.array([places[number] for number in one.events[columns].tolist()], np.int64)
        samples.append(replace(one, events=numbers, values=one.values[:, columns]))
    return Events(tuple(events.events[number] for number in kept), tuple(samples), events.lost_bytes)


def listed(names: Sequence[str], near: str = "") -> str:
    """Names for a message: the first few, or those most like another one; how many more there are."""
    likely = get_close_matches(near[:MOST_LETTERS], names[:1000], _NAMED_IN_ERRORS) if near else []
    first = (likely or list(names))[:_NAMED_IN_ERRORS]
    more = f" and {len(names) - len(first):,} more" if len(names) > len(first) else ""
    return ", ".join(map(short, first)) + more if names else "none"


def short(name: str) -> str:
    """A name from a program, harmless, its middle left out if it is long."""
    return shorten(plain(name[:10_000]), MOST_LETTERS)


def recorders(sources: Sequence[EventSource]) -> list[tuple[EventSource, RecordedEvent]]:
    """Recorders that recorded anything, with their sources."""
    return [(source, event) for source in sources for event in source.events.events if event.values is not None]


def quartiles(event: RecordedEvent) -> dict[str, float] | None:
    """Least, quartiles and greatest of a recorder's numbers; None: it has none."""
    if event.values is None or not len(event.values.quantiles):
        return None
    return {name: float(event.values.quantiles[at]) for name, at in QUARTILES.items()}


# ---- JSON ------------------------------------------------------------------------------------------------------------


def document(sources: Sequence[EventSource]) -> dict[str, Any]:
    """`foretrace.events/1`: the events at their end."""
    return {
        "schema": "foretrace.events/1",
        "sources": [source.facts for source in sources],
        "events": [event_document(event, number) for number, event in _numbered(sources)],
    }


def _numbered(sources: Sequence[EventSource]) -> Iterator[tuple[int, RecordedEvent]]:
    return ((number, event) for number, source in enumerate(sources) for event in source.events.events)


def event_document(event: RecordedEvent, source: int = 0) -> dict[str, Any]:
    """One event; `source` counts from 0."""
    found: dict[str, Any] = {
        "library": event.library,
        "name": event.name,
        "kind": str(event.kind),
        "type": event.type,
        "value": event.value,
        "unit": event.unit,
        "description": event.description,
        "instant": event.is_instant,
        "process": event.process,
        "source": source,
    }
    if event.unread:
        found["reason"] = event.unread
    if (quantiles := quartiles(event)) is not None:
        found["quantiles"] = quantiles
    if event.values is not None:
        found["kept"] = len(event.values.kept)
    if event.kind is EventKind.SET:
        found["elements"] = [
            {"hex": one.content.hex(), "type_id": one.type_id, "count": one.count} for one in event.elements
        ]
    return found


def values_document(sources: Sequence[EventSource]) -> dict[str, Any]:
    """`foretrace.events.values/1`: what recorders recorded, as far as it was kept."""
    return {
        "schema": "foretrace.events.values/1",
        "sources": [source.facts for source in sources],
        "recorders": [
            event_document(event, number)
            | {"index": event.values.kept_index.tolist(), "values": printable(event.values.kept).tolist()}
            for number, event in _numbered(sources)
            if event.values is not None
        ],
    }


def distributions_document(sources: Sequence[EventSource]) -> dict[str, Any]:
    """`foretrace.events.distributions/1`: quantiles of recorders, in thousandths."""
    return {
        "schema": "foretrace.events.distributions/1",
        "sources": [source.facts for source in sources],
        "recorders": [
            event_document(event, number) | {"quantiles": event.values.quantiles.tolist()}
            for number, event in _numbered(sources)
            if event.values is not None and len(event.values.quantiles)
        ],
    }


def samples_document(sources: Sequence[EventSource]) -> dict[str, Any]:
    """`foretrace.events.samples/1`: values while the program ran."""
    return {
        "schema": "foretrace.events.samples/1",
        "sources": [source.facts for source in sources],
        "samples": [
            {
                "source": number,
                "process": samples.process,
                "position": samples.position.tolist(),
                "events": [
                    {"library": event.library, "name": event.name, "unit": event.unit, "values": values.tolist()}
                    for event, values in sampled(source.events, samples)
                ],
            }
            for number, source in enumerate(sources)
            for samples in source.events.samples
        ],
    }


def printable(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values of a recorder, in hexadecimal digits where they are no numbers."""
    if values.ndim == 1:
        return values
    return np.array([row.tobytes().hex() for row in values], dtype=object)


def sampled(events: Events, samples: EventSamples) -> Iterator[tuple[RecordedEvent, npt.NDArray[np.float64]]]:
    """The events that have samples, with their values."""
    return ((events.events[number], samples.values[:, at]) for at, number in enumerate(samples.events.tolist()))


# ---- data frames -----------------------------------------------------------------------------------------------------


def frame(sources: Sequence[EventSource]) -> pandas.DataFrame:
    """A row for each event."""
    import pandas

    columns = ["library", "name", "kind", "type", "value", "unit", "description", "instant", "reason"]
    columns += [*QUARTILES, "process", "source"]
    rows = []
    for number, event in _numbered(sources):
        one = event_document(event) | {"source": sources[number].title}
        one |= one.get("quantiles") or {}
        rows.append([one.get(column) for column in columns])
    made = pandas.DataFrame(rows, columns=columns, dtype=object)
    types: dict[str, Any] = dict.fromkeys(QUARTILES, float) | {"instant": bool, "process": int}
    return made.astype(types)


def values_frame(sources: Sequence[EventSource]) -> pandas.DataFrame:
    """A row for each value of a recorder that was kept."""
    return _long_frame(
        "index",
        (
            (source, event, event.values.kept_index, printable(event.values.kept))
            for source, event in recorders(sources)
            if event.values is not None
        ),
    )


def distributions_frame(sources: Sequence[EventSource]) -> pandas.DataFrame:
    """A row for each quantile of a recorder."""
    shares = np.arange(NUM_QUANTILES) / (NUM_QUANTILES - 1)
    return _long_frame(
        "quantile",
        (
            (source, event, shares, event.values.quantiles)
            for source, event in recorders(sources)
            if event.values is not None and len(event.values.quantiles)
        ),
    )


def samples_frame(sources: Sequence[EventSource]) -> pandas.DataFrame:
    """A row for each event and moment at which its value is known."""
    return _long_frame(
        "position",
        (
            (source, event, samples.position, values)
            for source in sources
            for samples in source.events.samples
            for event, values in sampled(source.events, samples)
        ),
    )


def _long_frame(
    place: str, parts: Iterator[tuple[EventSource, RecordedEvent, npt.NDArray[Any], npt.NDArray[Any]]]
) -> pandas.DataFrame:
    """Rows with the event's name, a place and a value."""
    import pandas

    columns = ["library", "name", "process", place, "value", "source"]
    frames = [
        pandas.DataFrame(
            {"library": event.library, "name": event.name, "process": event.process, place: places, "value": values,
             "source": source.title}
        )
        for source, event, places, values in parts
        if len(places)
    ]  # fmt: skip
    return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame(columns=columns)


def as_csv(rows: pandas.DataFrame) -> str:
    """Comma-separated, for people's spreadsheets: no text from a program is a formula there."""
    import pandas

    columns = {
        name: column if pandas.api.types.is_numeric_dtype(column) else pandas.Series(map(_cell, column), dtype=object)
        for name, column in rows.items()
    }
    text: str = pandas.DataFrame(columns).to_csv(index=False, lineterminator="\n")
    return text


def _cell(content: Any) -> Any:
    """Text as spreadsheets show it: what begins like a formula gets an apostrophe in front. "nan" is no empty cell."""
    if not isinstance(content, str):
        return "nan" if content != content else content
    text = plain(content)
    return f"'{text}" if text.startswith(_BEGIN_FORMULAS) else text


def check_export(path: Path) -> None:
    """Refuse an export early that could not be made.

    Raises:
        OutputError: its name ends in none of `EXPORTS`, or pyarrow is missing.
    """
    if path.suffix not in EXPORTS:
        raise OutputError(f"{path}: an export's name must end in {', '.join(EXPORTS[:-1])} or {EXPORTS[-1]}")
    if path.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise OutputError(f"{path}: Parquet needs pyarrow; install it with: pip install 'foretrace[parquet]'")


def as_parquet(rows: pandas.DataFrame) -> bytes:
    """Parquet, its values as numbers of one type, or all as text."""
    import pandas

    whole = with_plain_types(rows)
    for name, column in whole.items():
        if not pandas.api.types.is_numeric_dtype(column):
            whole[name] = [None if one is None or one != one else plain(str(one)) for one in column]
    whole.attrs = {"creator": "foretrace.events"}
    found: bytes = whole.to_parquet(None, engine="pyarrow", index=False)
    return found


def with_plain_types(rows: pandas.DataFrame) -> pandas.DataFrame:
    """The rows with values as numbers if all are. Integers beyond 2^53 are rounded where there are fractions."""
    made = rows.copy()
    if made["value"].dtype == object and not any(isinstance(value, str) for value in made["value"]):
        are_whole = all(isinstance(value, int) for value in made["value"])
        made["value"] = made["value"].astype("int64" if are_whole else "float64")
    return made


# ---- text ------------------------------------------------------------------------------------------------------------


MOST_ROWS = 2000
"""Largest number of rows of a table on the screen."""


def listing(sources: Sequence[EventSource]) -> list[Section]:
    """A row for each event."""
    sections: list[Section] = []
    if any(source.events.events for source in sources):
        sections.append(events_table(sources, MOST_ROWS))
    lines = []
    for source in sources:
        if not source.events.events:
            lines.append(f"{source.title} has registered no events.")
        if source.events.lost_bytes:
            lines.append(f"{source.title}: {source.events.lost_bytes:,} bytes of what was counted are missing: {_LOST}")
    return [*sections, Text(lines)]


_LOST = "there was no memory for them"


def events_table(sources: Sequence[EventSource], most: int | None = None, title: str = "") -> Table:
    """All events of all sources, of which a terminal shows `most`."""
    columns = (
        Column("kind", "kind", value=lambda row: row[1].kind, whole=True),
        Column("value", "value", Kind(shown), lambda row: row[1].value),
        Column("note", "", value=lambda row: _note(row[1]), whole=True),
        Column("description", "description", value=lambda row: short(_description(row[1]))),
    )
    return _table(sources, columns, _pairs(sources), most, title)


def _description(event: RecordedEvent) -> str:
    return event.description if event.description != event.full_name else ""


def value_lines(sources: Sequence[EventSource]) -> list[Section]:
    """A line for each value."""
    found = (event.values for _, event in recorders(sources) if event.values is not None)
    return [Text([str(value) for values in found for value in printable(values.kept)])]


def distributions(sources: Sequence[EventSource]) -> list[Section]:
    """A row for each recorder of numbers."""
    found = [(source, event) for source, event in recorders(sources) if quartiles(event) is not None]
    if not found:
        return [Text(["No recorder has numbers."])]
    quantiles = {"min": 0, "5 %": 50, "q1": 250, "median": 500, "q3": 750, "95 %": 950, "max": 1000}
    columns = (
        Column("values", "values", Kind(shown), lambda row: row[1].value),
        *(
            Column(
                heading, heading, Kind("{:.4g}".format), bound(lambda row, at: float(row[1].values.quantiles[at]), at)
            )
            for heading, at in quantiles.items()
        ),
        Column("unit", "unit", value=lambda row: row[1].unit or ""),
    )
    return [_table(sources, columns, found, MOST_ROWS)]


def courses(sources: Sequence[EventSource]) -> list[Section]:
    """A row for each event with its course over the run."""
    found = [
        (source, event, values, samples.position)
        for source in sources
        for samples in source.events.samples
        for event, values in sampled(source.events, samples)
        if len(values)
    ]
    if not found:
        return [Text(["No event was sampled while the program ran."])]
    columns = (
        Column("first", "first", Kind("{:.6g}".format), lambda row: float(row[2][0])),
        Column("last", "last", Kind("{:.6g}".format), lambda row: float(row[2][-1])),
        Column("course", "over the run", value=lambda row: _spark(row[3], row[2])),
        Column("unit", "unit", value=lambda row: row[1].unit or ""),
    )
    return [_table(sources, columns, found)]


def _spark(position: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> str:
    """The course of values over a run as a line of small bars."""
    places = np.linspace(position[0], position[-1], _SPARK_COLUMNS)
    course = values[np.maximum(np.searchsorted(position, places, side="right") - 1, 0)]
    finite = course[np.isfinite(course)]
    if not len(finite):
        return ""
    low, high = float(np.min(finite)), float(np.max(finite))
    heights = [(value / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.0 for value in course.tolist()]
    return "".join(_SPARKS[round(height * (len(_SPARKS) - 1))] if 0 <= height <= 1 else " " for height in heights)


def _pairs(sources: Sequence[EventSource]) -> list[tuple[EventSource, RecordedEvent]]:
    return [(source, event) for source in sources for event in source.events.events]


def _table(
    sources: Sequence[EventSource], columns: Sequence[Column], records: Sequence[Any], most: int | None = None,
    title: str = "",
) -> Table:  # fmt: skip
    """Records that begin with a source and an event: the event, and its source and process where there are several."""
    first = [Column("event", "event", value=lambda row: short(row[1].full_name), whole=True)]
    if any(len({event.process for event in source.events.events}) > 1 for source in sources):
        first.insert(0, Column("process", "process", INTEGER, lambda row: row[1].process))
    if len(sources) > 1:
        first.insert(0, Column("source", "source", value=lambda row: short(row[0].title)))
    left = len(records) - MOST_ROWS
    rest = f"and {left:,} more: --csv and --json have all, --event chooses some" if left > 0 and not title else ""
    return Table((*first, *columns), records, title, shown=most, rest=rest)


def shown(value: float | None) -> str:
    """A value for people."""
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _note(event: RecordedEvent) -> str:
    found = quartiles(event)
    if found is not None:
        return f"values, {found['min']:.4g} to {found['max']:.4g}, median {found['median']:.4g}"
    if event.kind is EventKind.RECORDER:
        return "values"
    if event.kind is EventKind.SET:
        return f"elements, {sum(one.count for one in event.elements):,} in all"
    return short(event.unread)
