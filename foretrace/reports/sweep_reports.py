"""A sweep as a report: the fastest points, and why others failed. Programs get all points."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from foretrace.base.units import counted
from foretrace.replay.sweep.axes import AXES
from foretrace.replay.sweep.fields import ERROR, TIMES, Field, Row
from foretrace.replay.sweep.sweep import SweepResult

from .model import INTEGER, SECONDS, TEXT, Column, Kind, Report, Section, Table, Text, document_of

_MOST_REASONS = 5
_NUMBER = Kind("{:g}".format)
_TIMES = {field.name: field.name.removesuffix("_s") for field in TIMES}
_ALWAYS = ("machine", "platform", *_TIMES.values(), "bound by")


def sweep_report(result: SweepResult, top: int) -> Report:
    """Report of `foretrace sweep`, with the `top` fastest points."""
    ranked = fastest(result)
    shown = ranked[:top]
    more = len(ranked) - len(shown)
    rest = f"and {counted(more, 'slower point')}: --top {len(ranked)} shows all" if more else ""
    table = replace(point_table(result, result.rows), headings=_headings(result), shown=shown, rest=rest)
    sections: list[Section] = [Text(_lines(result))]
    sections += [Text(["", "fastest first"] if len(ranked) > 1 else [""])] if ranked else []
    sections.append(table)
    reasons = Counter(str(row[ERROR.name]) for row in result.failed)
    if reasons:
        lines = [f"  {counted(count, 'point')}: {text}" for text, count in reasons.most_common(_MOST_REASONS)]
        left = len(reasons) - _MOST_REASONS
        lines += [f"  and {counted(left, 'other reason')}"] if left > 0 else []
        sections.append(Text(["", "failed", *lines]))
    return Report("Sweep", sections, point_table(result, result.rows), lambda: document(result))


def fastest(result: SweepResult) -> list[Row]:
    """The points that have a time, fastest first."""

    def time_s(row: Row) -> float:
        found = row["time_s"]
        assert isinstance(found, float)
        return found

    return sorted((row for row in result.rows if row.get("time_s") is not None), key=time_s)


def point_table(result: SweepResult, rows: tuple[Row, ...]) -> Table:
    """Points of a sweep, a row each."""
    return Table([_column(field) for field in result.fields], rows)


def _column(field: Field) -> Column:
    kind = TEXT if field.type is str else SECONDS if field.name in _TIMES else INTEGER if field.type is int else _NUMBER
    name = field.name
    return Column(
        name, _TIMES.get(name, name.replace("_", " ")), kind, lambda row: row.get(name), whole=name == "machine",
        type=field.type,
    )  # fmt: skip


def _headings(result: SweepResult) -> list[str]:
    """Columns for people: what differs from point to point, and the times."""
    axes = {"run", "method", *(axis.name for axis in AXES)}
    found = []
    for field in result.fields:
        heading = _column(field).heading or ""
        differs = len({row.get(field.name) for row in result.rows}) > 1
        has_any = any(row.get(field.name) is not None for row in result.rows)
        if (heading in _ALWAYS and has_any) or (field.name in axes and differs):
            found.append(heading)
    return found


def _lines(result: SweepResult) -> list[str]:
    failed = len(result.failed)
    parts = [counted(len(result.rows), "point"), *([f"{failed:,} failed"] if failed else [])]
    parts += [f"{result.from_journal:,} taken from the journal"] if result.from_journal else []
    warned = sum(1 for row in result.rows if row.get("warnings"))
    notes = list(result.notes)
    if warned:
        notes.append(f"{counted(warned, 'point')} with warnings: the column `warnings` has them")
    return [", ".join(parts), *notes]


def document(result: SweepResult) -> dict[str, Any]:
    """The JSON face. Units are in the key names."""
    table = point_table(result, result.rows)
    return {
        "schema": "foretrace.sweep/1",
        "failed": len(result.failed),
        "from_journal": result.from_journal,
        "notes": list(result.notes),
        "points": [document_of(row, *table.keyed) for row in result.rows],
    }
