"""The cache simulator alone, on a stored stream or another tool's trace."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretrace.base.units import format_count
from foretrace.reports.model import Table
from foretrace.reports.renderers import data_frame
from foretrace.reports.simulation_reports import LEVELS, levels_of, operation_table
from foretrace.tracer.stored.foreign import STORED
from foretrace.tracer.stored.simulate import Progress, SimulatedStream, simulate_stream

from .hierarchies import HierarchyLike, wanted_hierarchies
from .machines import MachineLike
from .views import Shown, ShownTable, shown_as

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Simulation(Shown, SimulatedStream):
    """A stream, and the caches simulated on it."""

    @property
    def levels(self) -> tuple[dict[str, Any], ...]:
        """Each level of each hierarchy, with its accesses and misses."""
        return levels_of(self)

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each level of each hierarchy."""
        return data_frame(Table(LEVELS, self.levels))

    def operations_to_dataframe(self) -> pandas.DataFrame:
        """A row for each memory operation, most misses of the first hierarchy's last level first."""
        return data_frame(operation_table(self))

    def _line(self) -> str:
        what = f"{self.name} ({self.format}): {format_count(self.loads)} loads, {format_count(self.stores)} stores"
        return what + (", incomplete" if self.problem else "")

    def _table(self) -> ShownTable:
        notes = (*((f"incomplete: {self.problem}",) if self.problem else ()), *self.notes)
        return ShownTable.of(self._line(), Table(LEVELS, self.levels), notes)


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
