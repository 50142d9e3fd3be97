"""Triage: which loops of a program are worth porting to an accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, overload

from foretrace.base.errors import PredictionError
from foretrace.base.units import format_seconds
from foretrace.replay.base import records
from foretrace.replay.offload import triage as offload
from foretrace.reports.model import Column, Table
from foretrace.reports.renderers import data_frame
from foretrace.reports.triage_reports import (
    COLUMNS,
    GENERAL,
    JoinedTriage,
    TriageComparison,
    before,
    comparison_table,
)
from foretrace.tracer.source.joining import Join

from .joins import SourceLike, joined, read_source
from .machines import MachineLike, find_machine
from .signatures import SignatureLike, signature_of
from .views import MOST_ROWS, SOURCE, Shown, ShownTable, axes_to_draw

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

IDIOM = Column("", "idiom", value=lambda one: one.idiom)
"""Also where it is none."""


@dataclass(frozen=True, slots=True, repr=False)
class Triage(Shown, JoinedTriage):
    """Loops to port (`instances`, largest gain first), and what that gains (`program`).

    `source` is the source joined with the run, where it was given: then `idiom` of an instance is what the source says.
    """

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each candidate, largest gain first; `port` says whether to port it."""
        return data_frame(Table(COLUMNS, self.instances))

    def plot(self, ax: Axes | None = None, top: int = MOST_ROWS) -> Axes:
        """Draw what the `top` loops take on the host and on the accelerator.

        Raises:
            OutputError: matplotlib is missing.
        """
        from foretrace.reports.result_plots import draw_triage

        return draw_triage(axes_to_draw(ax, 1.4 + 0.4 * min(top, len(self.instances))), self, top)

    def _line(self) -> str:
        return f"{self.host} with {self.accelerator}: {self._verdict()}"

    def _verdict(self) -> str:
        program = self.program
        if not self.instances:
            return f"no {self.what} was found"
        if not program.loops_offloaded:
            return self.none_ported
        after = format_seconds(program.after_s)
        return (
            f"porting {self.ported} takes the program from {before(program)} to {after}, "
            f"{program.speedup:.2f} times as fast"
        )

    def _table(self) -> ShownTable:
        headings = ["answer", "source", "function", "what", "idiom", "host", "accelerator", "bound by"]
        columns, headings = (GENERAL, [*headings, "transfers", "gain"])
        if self.is_unit:
            columns = COLUMNS
            headings = ["port", "source", "function", "idiom", "range", "host", "accelerator", "gain"]
        rows = Table((SOURCE, IDIOM, *columns), self.notable_instances, headings=headings, shown=MOST_ROWS)
        return ShownTable.of(self._title(), rows, self._notes(), len(self.instances))

    def _title(self) -> str:
        return f"{self.host_title}, with {self.accelerator_title}"

    def _notes(self) -> tuple[str, ...]:
        return (
            self._verdict(),
            *(f"warning: {warning}" for warning in self.warnings),
            *(f"assumed {assumption}" for assumption in self.assumptions if assumption.name == "launch"),
        )


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Shown, TriageComparison):
    """A program on several accelerators: `triages` in the order asked for, `best` the one that ends first, `rows` by
    loop."""

    triages: tuple[Triage, ...]
    best: Triage

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each loop, with its seconds on each accelerator."""
        return data_frame(comparison_table(self))

    def _line(self) -> str:
        return f"{len(self.triages)} accelerators, best {self.best._line()}"

    def _table(self) -> ShownTable:
        table = comparison_table(self)
        rows = replace(table, columns=(SOURCE, *table.columns), shown=MOST_ROWS)
        return ShownTable.of(self.best.host_title, rows, tuple(one._line() for one in self.triages))


def cores_asked(text: str) -> int | None:
    """Cores of a host as users write them: a number, or `all` (None).

    Raises:
        PredictionError: it is neither.
    """
    if text == "all":
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise PredictionError(f"--host-cores is {text!r}, must be a number from 1, or all")
    return int(text)


@overload
def triage(
    signature: SignatureLike,
    host: MachineLike,
    accelerator: MachineLike,
    *,
    host_cores: int | None = 1,
    explain: str = "",
    source: SourceLike | None = None,
    defines: Sequence[str] = (),
    branches: bool = False,
) -> Triage: ...
@overload
def triage(
    signature: SignatureLike,
    host: MachineLike,
    *accelerators: MachineLike,
    host_cores: int | None = 1,
    explain: str = "",
    source: SourceLike | None = None,
    defines: Sequence[str] = (),
    branches: bool = False,
) -> Triage | Comparison: ...
def triage(
    signature: SignatureLike,
    host: MachineLike,
    *accelerators: MachineLike,
    host_cores: int | None = 1,
    explain: str = "",
    source: SourceLike | None = None,
    defines: Sequence[str] = (),
    branches: bool = False,
    **named: MachineLike,
) -> Triage | Comparison:
    """Decide for each loop, call and array operation of a traced program whether to port it to an accelerator.

    Args:
        signature: a signature, a traced run, or the path of a signature file.
        host: the machine that runs the rest: a name, a profile, or the path of one.
        accelerators: likewise, one or several.
        host_cores: cores that loops left on the host may be divided among; None: all of it.
        explain: a place (`file.c:12`) or a function whose arithmetic is wanted, in `explained`.
        source: the program's source, files or folders: what it proves of a loop decides, and
            idioms are named as it has them.
        defines: symbols of the source's preprocessor, `NAME` or `NAME=value`.
        branches: whether branches of the preprocessor that are not taken are read as well.
        named: `accelerator`, one of them by name.

    Returns:
        The candidates, largest gain first, each with its times in seconds on both and the reason; and the program's
        gain. Of several accelerators a `Comparison`.

    Raises:
        SignatureError: a path names no signature file.
        ProfileError: there is no such machine.
        PredictionError: host or accelerator is not one, or signature and profiles do not tell enough.
        SourceError: there is no source, or a package that reads it is missing.
        TypeError: no accelerator is given.
    """
    if unknown := set(named) - {"accelerator"}:
        raise TypeError(f"triage() got an unexpected keyword argument {min(unknown)!r}")
    asked = (*accelerators, *named.values())
    if not asked:
        raise TypeError("triage() needs an accelerator")
    given, machine = signature_of(signature), find_machine(host)
    profiles = [find_machine(one) for one in asked]
    cores = offload.checked_cores(machine, host_cores) if host_cores != 1 else 1
    read = None if source is None else joined(given, *read_source(source, defines=defines, branches=branches))
    sources = read.verdicts() if read is not None else None
    if len(profiles) == 1:
        return _shown(
            offload.triage(given, machine, profiles[0], host_cores=cores, explain=explain, sources=sources), read
        )
    found, matrix = offload.triages(given, machine, profiles, host_cores=cores, explain=explain, sources=sources)
    return Comparison.of([_shown(one, read) for one in found], matrix)


def _shown(found: records.Triage, source: Join | None) -> Triage:
    made = Triage(**{one.name: getattr(found, one.name) for one in fields(found)})
    return made if source is None else made.with_source(source)
