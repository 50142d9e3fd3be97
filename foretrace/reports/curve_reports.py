"""Miss ratios over cache size as a report: bars on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from foretrace.replay.memory.miss_curves import Curve, MissRatio, Part
from foretrace.tracer.signature.records import Signature

from .model import BYTES, INTEGER, Column, Kind, Report, Section, Table, Text, for_programs

_BAR_WIDTH = 40

POINTS = (
    Column("ways", value=lambda pair: pair[0].ways or "full"),
    *(
        column.within(lambda pair: pair[1])
        for column in for_programs("size_bytes", "line_bytes", "misses", "miss_ratio", "standard_error")
    ),
)
"""Columns of a curve and a point of it."""


def curve_table(curves: Sequence[Curve]) -> Table:
    """All points of all curves. `ways` is "full" for fully associative caches."""
    return Table(POINTS, [(curve, point) for curve in curves for point in curve.points])


def curve_report(
    signature: Signature, part: Part, line_bytes: int, curves: list[Curve], ratios: list[MissRatio]
) -> Report:
    """Report of `foretrace curve`: curves, or single caches."""
    if ratios:
        columns = (
            Column("size_bytes", "size", BYTES),
            Column("ways", "ways", INTEGER),
            Column("line_bytes", "line", Kind("{} B".format)),
            *for_programs("miss_ratio", "standard_error"),
            Column("", "%", value=_percent, left=False),
        )
        data = Table(columns, ratios, f"accesses of {part.name} that miss")
        sections: list[Section] = [data]
    else:
        data, sections = curve_table(curves), []
        for curve in curves:
            title = f"accesses of {part.name} that miss, {curve.title}, {line_bytes}-byte lines"
            sections += [Table(_bars(curve), curve.points, title), Text([""])]
        if part.is_all:
            sections.append(Text(["±: twice the standard error from sampling"]))
    return Report(
        "Miss ratios", sections, data, lambda: document(signature, part, line_bytes, curves, ratios)
    )  # fmt: skip


def _bars(curve: Curve) -> tuple[Column, ...]:
    """A bar for each size: what a terminal can draw."""
    highest = max((point.miss_ratio for point in curve.points), default=0.0) or 1.0
    return (
        Column("size_bytes", "size", BYTES),
        Column("", "%", value=_percent, left=False),
        Column("", "", value=lambda point: "█" * round(_BAR_WIDTH * point.miss_ratio / highest)),
    )


def _percent(ratio: MissRatio) -> str:
    error = "" if ratio.standard_error is None else f" ± {200 * ratio.standard_error:.2f}"
    return f"{100 * ratio.miss_ratio:.2f}{error}"


def document(
    signature: Signature, part: Part, line_bytes: int, curves: list[Curve], ratios: list[MissRatio]
) -> dict[str, Any]:
    """The JSON face."""
    return {
        "schema": "foretrace.curve/1",
        "command": list(signature.provenance.command),
        "part": part.name,
        "line_bytes": line_bytes,
        "reuse": None if signature.reuse is None else signature.reuse.document,
        "curves": [
            {"ways": curve.ways or None, "title": curve.title, "points": [asdict(point) for point in curve.points]}
            for curve in curves
        ],
        "caches": [asdict(ratio) for ratio in ratios],
    }
