"""The cache simulator alone, on a stored stream or another tool's trace."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.base.units import format_bytes, format_count
from foretrace.cache_sim.base.results import OperationStatistics
from foretrace.reports.cache_reports import hierarchy_documents
from foretrace.tracer.stored.foreign import STORED
from foretrace.tracer.stored.simulate import Progress, SimulatedStream, simulate_stream
from foretrace.tracer.stored.stored_stream import Place

from .hierarchies import HierarchyLike, wanted_hierarchies
from .machines import MachineLike
from .views import Shown, ShownTable, data_frame, shown_as

if TYPE_CHECKING:
    import pandas

LEVEL_COLUMNS = ("hierarchy", "level", "size_bytes", "ways", "line_bytes", "accesses", "misses", "miss_ratio")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Simulation(Shown, SimulatedStream):
    """A stream, and the caches simulated on it."""

    @property
    def levels(self) -> tuple[dict[str, Any], ...]:
        """Each level of each hierarchy, with its accesses and misses."""
        return tuple(
            {name: level.get(name) for name in LEVEL_COLUMNS}
            | {
                "hierarchy": hierarchy["name"],
                "level": level["name"],
                "miss_ratio": level["misses"] / level["accesses"] if level["accesses"] else 0.0,
            }
            for hierarchy in hierarchy_documents(self.simulator.simulated(), self.loads + self.stores)
            for level in hierarchy["levels"]
        )

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each level of each hierarchy."""
        return data_frame(LEVEL_COLUMNS, self.levels)

    def operations_to_dataframe(self) -> pandas.DataFrame:
        """A row for each memory operation, most misses of the first hierarchy's last level first."""
        levels = [level.name for level in self.simulator.simulated()[0].hierarchy.levels]
        fields = ("module", "function", "file", "line", "offset", "is_store", "executions", "total_bytes")
        misses = [f"{name}_misses" for name in levels]
        rows = (
            {field: getattr(row, field) for field in fields} | dict(zip(misses, row.misses[0], strict=True))
            for row in operation_rows(self)
        )
        return data_frame((*fields, *misses), rows)

    def _line(self) -> str:
        what = f"{self.name} ({self.format}): {format_count(self.loads)} loads, {format_count(self.stores)} stores"
        return what + (", incomplete" if self.problem else "")

    def _table(self) -> ShownTable:
        rows = [
            (
                row["hierarchy"], row["level"], format_bytes(row["size_bytes"]), str(row["ways"]),
                f"{row['line_bytes']} B", format_count(row["accesses"]), format_count(row["misses"]),
                f"{row['miss_ratio']:.2%}",
            )
            for row in self.levels
        ]  # fmt: skip
        headings = ("caches", "level", "size", "ways", "line", "accesses", "misses", "miss ratio")
        notes = (*((f"incomplete: {self.problem}",) if self.problem else ()), *self.notes)
        return ShownTable(self._line(), headings, rows, len(rows), 2, notes)


def simulate(
    stream: str | os.PathLike[str],
    hierarchies: HierarchyLike | Iterable[HierarchyLike] = (),
    *,
    machines: MachineLike | Iterable[MachineLike] = (),
    format: str = "auto",
    access_bytes: int | None = None,
    partial: bool = False,
    convert_to: str | os.PathLike[str] | None = None,
    convert_format: str = STORED,
    force: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Simulation:
    """Simulate caches on a stored stream, or on a trace by valgrind's lackey, Dinero, DynamoRIO or ChampSim.

    Args:
        stream: path of the stream or trace, perhaps compressed; "-" is standard input.
        hierarchies: caches to simulate, e.g. "L1=48K/12/64,L2=2M/16/64".
        machines: also those of these machines. Without either, `DEFAULT_HIERARCHY`.
        format: what the stream is; "auto" looks at its beginning.
        access_bytes: size of an access, where the format does not tell.
        partial: take a damaged or cut-off stream up to there.
        convert_to: also write the stream to this file, in `convert_format`; with `force` a stream there is replaced.
        on_progress: hears how far it is.

    Returns:
        Accesses and misses of each level, and of each memory operation.

    Raises:
        TraceFileError: the stream is missing, damaged, or of no known format.
        HierarchyError: no cache can be like that.
        ProfileError: there is no such machine.
    """
    return shown_as(
        Simulation,
        simulate_stream(
            os.fspath(stream), wanted_hierarchies(hierarchies, machines), name=format, access_bytes=access_bytes,
            partial=partial, convert_to=None if convert_to is None else Path(convert_to),
            convert_format=convert_format, force=force, on_progress=on_progress,
        ),
    )  # fmt: skip


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
    """Those that did something, most misses of the first hierarchy's last level first, then most executions."""
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
