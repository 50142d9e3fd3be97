"""Simulations of caches alone as reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foretrace.base.units import format_bytes, format_count, format_seconds
from foretrace.cache_sim.base.results import OperationStatistics
from foretrace.tracer.stored.simulate import SimulatedStream
from foretrace.tracer.stored.stored_stream import Place

from .cache_reports import hierarchy_documents, hierarchy_tables
from .model import (
    BYTES,
    COUNT,
    FINE_SHARE,
    INTEGER,
    Column,
    Kind,
    Report,
    Section,
    Table,
    Text,
    bound,
    document_of,
    for_programs,
)

_PATTERNS = ("repeated", "unit_stride", "strided", "irregular")

LEVELS = (
    Column("hierarchy", "caches"),
    Column("level", "level"),
    Column("size_bytes", "size", BYTES),
    Column("ways", "ways", INTEGER),
    Column("line_bytes", "line", Kind("{} B".format)),
    Column("accesses", "accesses", COUNT),
    Column("misses", "misses", COUNT),
    Column("miss_ratio", "miss ratio", FINE_SHARE),
)
"""Columns of what `levels_of` returns."""


def levels_of(simulated: SimulatedStream) -> tuple[dict[str, Any], ...]:
    """Each level of each hierarchy, with its accesses and misses."""
    return tuple(
        {column.key: level.get(column.key) for column in LEVELS}
        | {
            "hierarchy": hierarchy["name"],
            "level": level["name"],
            "miss_ratio": level["misses"] / level["accesses"] if level["accesses"] else 0.0,
        }
        for hierarchy in hierarchy_documents(simulated.simulator.simulated(), simulated.loads + simulated.stores)
        for level in hierarchy["levels"]
    )


def simulation_report(simulated: SimulatedStream, top: int) -> Report:
    """Report of `foretrace simulate`: totals, caches, and the `top` loops and operations."""
    sections: list[Section] = [Text(_facts(simulated))]
    for table in hierarchy_tables(simulated.simulator.simulated(), simulated.loads + simulated.stores):
        sections += [Text([""]), table]
    operations = operation_table(simulated)
    for what, rows in (("loops", loop_rows(simulated)), ("operations", operations.records)):
        if rows and top:
            level = simulated.simulator.simulated()[0].hierarchy.levels[-1].name
            headings = [one.heading or "" for one in operations.headed if what == "operations" or one.heading != "kind"]
            title = f"{what} by misses of {level}, {min(top, len(rows))} of {len(rows)}"
            sections += [Text([""]), Table(operations.columns, rows, title, headings, top)]
    return Report("Simulated caches", sections, operations, lambda: document(simulated, top))


def operation_table(simulated: SimulatedStream) -> Table:
    """All operations that did something, with the misses of the first hierarchy."""
    levels = simulated.simulator.simulated()[0].hierarchy.levels
    columns = (
        *for_programs("module", "function", "file", "line", "offset", "is_store"),
        Column("", "where", value=_where),
        Column("", "kind", value=lambda row: "store" if row.is_store else "load"),
        Column("executions", "executions", COUNT),
        Column("total_bytes", "bytes", BYTES),
        *(
            Column(
                f"{level.name}_misses", f"{level.name} misses", COUNT, bound(lambda row, n: row.misses[0][n], number)
            )
            for number, level in enumerate(levels)
        ),
    )
    return Table(columns, operation_rows(simulated))


def document(simulated: SimulatedStream, top: int) -> dict[str, Any]:
    """The JSON face."""
    statistics = simulated.simulator.statistics()
    names = [(h.hierarchy.name, [v.name for v in h.hierarchy.levels]) for h in simulated.simulator.simulated()]
    reuse = simulated.simulator.reuse()
    is_store = np.zeros(statistics.num_operations, bool)
    is_store[[i for i, place in enumerate(simulated.places) if place.is_store]] = True

    def row(row: Row) -> dict[str, Any]:
        known = document_of(row, "module function file line" + ("" if row.offset is None else " offset is_store"))
        return known | {
            "executions": row.executions,
            "bytes": row.total_bytes,
            "misses": [
                {"name": name, "levels": dict(zip(levels, counts, strict=True))}
                for (name, levels), counts in zip(names, row.misses, strict=True)
            ],
        }

    return {
        "schema": "foretrace.simulate/1",
        "stream": simulated.name,
        "format": simulated.format,
        "complete": not simulated.problem,
        "incomplete_reason": simulated.problem,
        "command": list(simulated.command),
        "notes": list(simulated.notes),
        "totals": {
            "instructions": simulated.instructions,
            "loads": simulated.loads,
            "stores": simulated.stores,
            "load_bytes": total(statistics.total_bytes[~is_store]),
            "store_bytes": total(statistics.total_bytes[is_store]),
        },
        "patterns": {name: total(getattr(statistics, name)) for name in _PATTERNS},
        "hierarchies": list(hierarchy_documents(simulated.simulator.simulated(), simulated.loads + simulated.stores)),
        "reuse": None if reuse is None else reuse.document,
        "loops": [row(loop) for loop in loop_rows(simulated)],
        "operations": [row(operation) for operation in operation_rows(simulated)[:top]],
        "wall_s": simulated.wall_s,
    }


def _facts(simulated: SimulatedStream) -> list[str]:
    statistics = simulated.simulator.statistics()
    lines = []
    accesses = simulated.loads + simulated.stores
    rate = f", {format_count(accesses / simulated.wall_s)} accesses/s" if simulated.wall_s else ""
    lines.append(f"stream        {simulated.name}, {simulated.format}, {format_seconds(simulated.wall_s)}{rate}")
    if simulated.command:
        lines.append(f"command       {' '.join(simulated.command)}")
    lines.append(f"complete      {'yes' if not simulated.problem else 'no: ' + simulated.problem}")
    for note in simulated.notes:
        lines.append(f"note          {note}")
    if simulated.instructions is not None:
        lines.append(f"instructions  {format_count(simulated.instructions)}")
    lines.append(f"loads         {format_count(simulated.loads)}")
    lines.append(f"stores        {format_count(simulated.stores)}")
    lines.append(f"bytes         {format_bytes(total(statistics.total_bytes))}")
    classed = max(1, sum(total(getattr(statistics, name)) for name in _PATTERNS))
    shares = ", ".join(
        f"{name.replace('_', ' ')} {total(getattr(statistics, name)) / classed:.1%}" for name in _PATTERNS
    )
    lines.append(f"patterns      {shares}")
    return lines


def _where(row: Row) -> str:
    source = f"{Path(row.file).name}:{row.line}" if row.file else ""
    if row.function or source:
        return " ".join(filter(None, (row.function, source)))
    if row.module or row.offset:
        return f"{Path(row.module).name}{'+' if row.module else ''}{row.offset or 0:#x}"
    return "unknown"


@dataclass(frozen=True, slots=True)
class Row:
    """A memory operation or a loop with what it did: `misses` are those of each hierarchy's levels."""

    module: str
    function: str
    file: str
    line: int
    offset: int | None
    is_store: bool | None
    executions: int
    total_bytes: int
    misses: tuple[tuple[int, ...], ...]


def total(values: Any) -> int:
    """A sum of counts, without overflow."""
    return int(values.sum(dtype=np.uint64))


def operation_rows(simulated: SimulatedStream) -> Sequence[Row]:
    """Rows of the operations that did something, most misses of the first hierarchy's last level first, then most
    executions."""
    statistics: OperationStatistics = simulated.simulator.statistics()
    misses = [hierarchy.misses for hierarchy in simulated.simulator.simulated()]
    order = np.lexsort((np.arange(statistics.num_operations), -statistics.executions.astype(np.int64),
                        -misses[0][:, -1].astype(np.int64)))  # fmt: skip
    rows = []
    for i in order[statistics.executions[order] > 0].tolist():
        place = simulated.places[i] if i < len(simulated.places) else Place(is_store=False)
        rows.append(
            Row(
                place.module, place.function, place.file, place.line, place.offset, place.is_store,
                int(statistics.executions[i]), int(statistics.total_bytes[i]),
                tuple(tuple(table[i].tolist()) for table in misses),
            )
        )  # fmt: skip
    return rows


def loop_rows(simulated: SimulatedStream) -> Sequence[Row]:
    """The loops that accesses were made in, in the order of `operation_rows`."""
    statistics = simulated.simulator.statistics()
    misses = [hierarchy.misses for hierarchy in simulated.simulator.simulated()]
    members: dict[int, list[int]] = {}
    for operation, place in enumerate(simulated.places):
        if place.loop is not None:
            members.setdefault(place.loop, []).append(operation)
    rows = []
    for loop in simulated.loops:
        own = members.get(loop.loop, [])
        executions = total(statistics.executions[own])
        if executions:
            rows.append(
                Row(
                    loop.module, loop.function, loop.file, loop.line, None, None, executions,
                    total(statistics.total_bytes[own]),
                    tuple(tuple(table[own].sum(axis=0).tolist()) for table in misses),
                )
            )  # fmt: skip
    return sorted(rows, key=lambda row: (-row.misses[0][-1], -row.executions))
