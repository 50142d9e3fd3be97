"""Triage: which loops of a program are worth porting to an accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, overload

from foretrace.base.errors import PredictionError
from foretrace.base.units import format_bytes, format_seconds
from foretrace.replay.base import records
from foretrace.replay.offload import triage as offload
from foretrace.tracer.source.joining import Join, Joined

from .joins import SourceLike, joined, read_source
from .machines import MachineLike, find_machine
from .predictions import PLACE_COLUMNS, place_row
from .signatures import SignatureLike, signature_of
from .views import MOST_ROWS, Shown, ShownTable, axes_to_draw, data_frame, where_of

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

COLUMNS = (
    *PLACE_COLUMNS, "port", "idiom", "range_bytes", "moved_bytes", "refs", "entries", "host_s", "accelerator_s",
    "gain_s", "break_even_bytes", "reason", "answer", "kind", "bound_by", "parallel", "footprint_bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class Triage(Shown, records.Triage):
    """Which loops to port (`instances`, largest gain first), and what that gains (`program`).

    `source` is the source joined with the run, where it was given: then `idiom` of an instance is what the source says.
    """

    source: Join | None = None

    def source_of(self, instance: records.Instance) -> Joined | None:
        """What the source says of a candidate; None: nothing, or no source was given."""
        place = instance.place
        return self.source.of(place.module, place.function, place.file, place.line) if self.source else None

    def with_source(self, source: Join) -> Triage:
        """The same with idioms as the source has them."""
        known = replace(self, source=source)
        return replace(
            known,
            instances=tuple(map(known._named, self.instances)),
            explained=tuple(map(known._named, self.explained)),
            warnings=(*self.warnings, *source.notes, *filter(None, (source.coverage,))),
        )

    def _named(self, instance: records.Instance) -> records.Instance:
        there = self.source_of(instance)
        return replace(instance, idiom="+".join(there.idioms)) if there is not None and there.idioms else instance

    @property
    def what(self) -> str:
        """What its candidates are: "gather/scatter loop" of a gather/scatter unit, else "loop" or "array operation"."""
        if self.is_unit:
            return "gather/scatter loop"
        arrays = sum(one.kind == "array" for one in self.instances)
        return "array operation" if arrays and arrays == len(self.instances) else "loop"

    @property
    def whats(self) -> str:
        """The same for several of them: "loops and array operations" where there are both."""
        mixed = self.what == "loop" and any(one.kind == "array" for one in self.instances)
        return "loops and array operations" if mixed else f"{self.what}s"

    @property
    def ported(self) -> str:
        """How many candidates are ported, of how many: "2 of 3 loops"."""
        program = self.program
        if program.loops == 1:
            return f"the only {self.what}"
        share = "all" if program.loops_offloaded == program.loops else f"{program.loops_offloaded} of"
        return f"{share} {program.loops} {self.whats}"

    @property
    def none_ported(self) -> str:
        """That nothing is."""
        if self.program.loops == 1:
            return f"the only {self.what} is not worth porting"
        return f"none of the {self.program.loops} {self.whats} is worth porting"

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each candidate, largest gain first; `port` says whether to port it."""
        return data_frame(COLUMNS, map(_row, self.instances))

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
        if not self.is_unit:
            return self._general_table()
        rows = [
            (
                "yes" if one.offload else "no", where_of(one.place),
                one.place.name, one.idiom, format_bytes(one.range_bytes), format_seconds(one.host_s),
                "-" if one.accelerator_s is None else format_seconds(one.accelerator_s),
                format_seconds(one.gain_s) if one.offload else "-",
            )
            for one in self.notable_instances[:MOST_ROWS]
        ]  # fmt: skip
        headings = ("port", "source", "function", "idiom", "range", "host", "accelerator", "gain")
        return ShownTable(self._title(), headings, rows, len(self.instances), 4, self._notes())

    def _general_table(self) -> ShownTable:
        rows = [
            (
                str(one.answer), where_of(one.place),
                one.place.name, one.what, one.idiom, format_seconds(one.host_s),
                "-" if one.accelerator_s is None else format_seconds(one.accelerator_s), one.bound_by or "-",
                format_bytes(round(one.to_device_bytes + one.from_device_bytes)),
                format_seconds(one.gain_s) if one.gain_s else "-",
            )
            for one in self.notable_instances[:MOST_ROWS]
        ]  # fmt: skip
        headings = (
            "answer", "source", "function", "what", "idiom", "host", "accelerator", "bound by", "transfers", "gain",
        )  # fmt: skip
        return ShownTable(self._title(), headings, rows, len(self.instances), 5, self._notes())

    def _title(self) -> str:
        return f"{self.host_title}, with {self.accelerator_title}"

    def _notes(self) -> tuple[str, ...]:
        return (
            self._verdict(),
            *(f"warning: {warning}" for warning in self.warnings),
            *(f"assumed {assumption}" for assumption in self.assumptions if assumption.name == "launch"),
        )


@dataclass(frozen=True, slots=True)
class ComparedLoop:
    """A loop on several accelerators: seconds by accelerator (None: it cannot run there), on all cores of the host that
    may be used (None: they gain nothing), and the best place, which may be the host."""

    place: records.Place
    host_s: float
    accelerator_s: dict[str, float | None]
    best: str
    thread_s: float | None = None


def before(program: records.ProgramGain) -> str:
    """What a program takes on the host at best, for people."""
    time = format_seconds(program.best_host_s)
    return (
        f"{time} on {program.host_cores} cores"
        if program.host_cores > 1 and program.best_host_s < program.host_s
        else time
    )


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Shown):
    """A program on several accelerators: `triages` in the order asked for, `best` the one that ends first, `rows` by
    loop."""

    triages: tuple[Triage, ...]
    best: Triage
    rows: tuple[ComparedLoop, ...]

    @classmethod
    def of(cls, triages: Sequence[Triage], matrix: Sequence[Sequence[records.Instance | None]]) -> Comparison:
        """Compare triages of one program on one host; `matrix` has a row for each loop."""
        best = min(triages, key=lambda one: one.program.after_s)
        rows = []
        for instances in matrix:
            made = [one for one in instances if one is not None]
            host_s = max(one.host_s for one in made)
            times = {one.accelerator: _time_on(instance) for one, instance in zip(triages, instances, strict=True)}
            thread_s = min((one.thread_s for one in made if one.thread_s is not None), default=None)
            here_s = min(host_s, *(one.best_host_s or host_s for one in made))
            known = {name: time_s for name, time_s in times.items() if time_s is not None and time_s < here_s}
            where_best = min(known, key=lambda name: known[name], default=best.host)
            rows.append(ComparedLoop(made[0].place, host_s, times, where_best, thread_s))
        rows.sort(key=lambda row: -row.host_s)
        return cls(tuple(triages), best, tuple(rows))

    @property
    def notable_rows(self) -> tuple[ComparedLoop, ...]:
        """The loops without those of less than a thousandth of the time."""
        least_s = records.LEAST_SHOWN_SHARE * self.best.program.host_s
        return tuple(row for row in self.rows if row.host_s >= least_s)

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each loop, with its seconds on each accelerator."""
        columns = (*PLACE_COLUMNS, "host_s", *(one.accelerator for one in self.triages), "best")
        rows = (
            place_row(row.place) | {"host_s": row.host_s, "best": row.best} | row.accelerator_s for row in self.rows
        )
        return data_frame(columns, rows)

    def _line(self) -> str:
        return f"{len(self.triages)} accelerators, best {self.best._line()}"

    def _table(self) -> ShownTable:
        names = [one.accelerator for one in self.triages]
        rows = [
            (
                where_of(row.place), row.place.name,
                format_seconds(row.host_s),
                *("-" if one is None else format_seconds(one) for one in row.accelerator_s.values()), row.best,
            )
            for row in self.rows[:MOST_ROWS]
        ]  # fmt: skip
        headings = ("source", "function", "host", *names, "best")
        notes = tuple(one._line() for one in self.triages)
        return ShownTable(self.best.host_title, headings, rows, len(self.rows), 2, notes)


def _time_on(instance: records.Instance | None) -> float | None:
    return None if instance is None else instance.accelerator_s


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


def _row(one: records.Instance) -> dict[str, Any]:
    numbers = {name: getattr(one, name, None) for name in COLUMNS if name not in PLACE_COLUMNS}
    return place_row(one.place) | numbers | {"port": one.offload, "caller": one.caller}  # all the calls around it
