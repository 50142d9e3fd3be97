"""Triages as reports: which loops to port, why, what the plan moves, and what the program gains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from foretrace.base.units import counted, format_bytes, format_seconds
from foretrace.replay.base import records
from foretrace.replay.base.records import Instance, ProgramGain
from foretrace.replay.prediction.predict import NOTABLE_SHARE
from foretrace.tracer.signature.verdicts import LoopVerdict
from foretrace.tracer.source.joining import Join, Joined

from .assumed_figures import assumed_figures
from .data_flow_reports import allocation_name
from .join_reports import join_lines, joined_document, never_ran_document, never_ran_lines
from .model import BYTES, INTEGER, RATIO, SECONDS, Column, Report, Section, Table, Text, bound, document_of
from .places import PLACE
from .prediction_documents import hit_rates_document

_MAX_ARRAYS = 8
"""Arrays with a row of their own."""


@dataclass(frozen=True, slots=True, repr=False)
class JoinedTriage(records.Triage):
    """A triage; where source was given it is joined with the run, and idioms of instances are as it has them."""

    source: Join | None = None

    def source_of(self, instance: records.Instance) -> Joined | None:
        """Source of a candidate, joined with the run; None: it has none, or no source was given."""
        place = instance.place
        return self.source.of(place.module, place.function, place.file, place.line) if self.source else None

    def with_source(self, source: Join) -> Self:
        """The triage with idioms as the source has them."""
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
        """Name for a candidate: "gather/scatter loop" of a gather/scatter unit, else "loop" or "array operation"."""
        if self.is_unit:
            return "gather/scatter loop"
        arrays = sum(one.kind == "array" for one in self.instances)
        return "array operation" if arrays and arrays == len(self.instances) else "loop"

    @property
    def whats(self) -> str:
        """Name for several candidates: "loops and array operations" where there are both."""
        mixed = self.what == "loop" and any(one.kind == "array" for one in self.instances)
        return "loops and array operations" if mixed else f"{self.what}s"

    @property
    def ported(self) -> str:
        """Number of ported candidates, of how many: "2 of 3 loops"."""
        program = self.program
        if program.loops == 1:
            return f"the only {self.what}"
        share = "all" if program.loops_offloaded == program.loops else f"{program.loops_offloaded} of"
        return f"{share} {program.loops} {self.whats}"

    @property
    def none_ported(self) -> str:
        """Text saying that no candidate is worth porting."""
        if self.program.loops == 1:
            return f"the only {self.what} is not worth porting"
        return f"none of the {self.program.loops} {self.whats} is worth porting"


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
    """Best time of a program on the host, for people."""
    time = format_seconds(program.best_host_s)
    return (
        f"{time} on {program.host_cores} cores"
        if program.host_cores > 1 and program.best_host_s < program.host_s
        else time
    )


@dataclass(frozen=True, slots=True, repr=False)
class TriageComparison:
    """A program on several accelerators: `triages` in the order asked for, `best` the one that ends first, `rows` by
    loop."""

    triages: tuple[JoinedTriage, ...]
    best: JoinedTriage
    rows: tuple[ComparedLoop, ...]

    @classmethod
    def of(cls, triages: Sequence[JoinedTriage], matrix: Sequence[Sequence[records.Instance | None]]) -> Self:
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


def _time_on(instance: records.Instance | None) -> float | None:
    return None if instance is None else instance.accelerator_s


_PLACE = tuple(Column("caller") if column.key == "caller" else column for column in PLACE)
"""A place with all the calls around it as its caller."""
COLUMNS = (
    *_PLACE,
    Column("port", value=lambda one: one.offload),
    Column("", "port", value=lambda one: "yes" if one.offload else "no", whole=True),
    Column("idiom", "idiom", whole=True),
    Column("range_bytes", "range", BYTES, drop=2),
    Column("moved_bytes"),
    Column("refs"),
    Column("entries"),
    Column("host_s", "host", SECONDS),
    Column("accelerator_s", "accelerator", SECONDS, drop=3),
    Column("gain_s", value=lambda one: one.gain_s),
    Column("", "gain", SECONDS, lambda one: one.gain_s if one.offload else None),
    Column("break_even_bytes"),
    Column(
        "", "pays from",
        value=lambda one: "never" if one.break_even_bytes is None else format_bytes(one.break_even_bytes),
        drop=1, left=False,
    ),
    Column("reason"),
    Column("answer"),
    Column("kind"),
    Column("bound_by"),
    Column("parallel"),
    Column("footprint_bytes"),
)  # fmt: skip
"""Columns of `Instance`, for programs; and for people as of a gather/scatter unit."""
GENERAL = (
    *(replace(column, drop=5) if column.heading == "function" else column for column in PLACE),
    Column("answer", "answer", whole=True),
    Column("", "what", value=lambda one: one.what),
    Column("", "idiom", value=lambda one: None if one.idiom == "none" else one.idiom),
    Column("host_s", "host", SECONDS),
    Column("thread_s", "all cores", SECONDS),
    Column("accelerator_s", "accelerator", SECONDS),
    Column("accelerator_low_s", "from", SECONDS, drop=2),
    Column("accelerator_high_s", "to", SECONDS, drop=3),
    Column("bound_by", "bound by", value=lambda one: one.bound_by or None, drop=6),
    Column("", "transfers", BYTES, lambda one: round(one.to_device_bytes + one.from_device_bytes), drop=4),
    Column("gain_s", "gain", SECONDS, lambda one: one.gain_s or None),
    *(column for column in COLUMNS if column.heading == "pays from"),
)
"""Columns of `Instance`, for people, on an accelerator that runs whole loops."""
POLICIES = (
    Column("policy", "policy"),
    Column("time_s", "time", SECONDS),
    Column("speedup", "times as fast", RATIO),
    Column("kernels", "kernels", INTEGER),
    Column("moved_bytes", "moves", BYTES, lambda one: round(one.moved_bytes)),
)
"""Columns of `PolicyResult`."""
ARRAYS = (
    Column("array", "array", value=lambda row: row[0]),
    Column("to_device_bytes", "there", BYTES, lambda row: round(row[1])),
    Column("from_device_bytes", "back", BYTES, lambda row: round(row[2])),
)


def triage_report(
    found: JoinedTriage | TriageComparison, *, explain: bool = False, top: int | None = 8, assumptions: bool = False
) -> Report:
    """Report of `foretrace triage`.

    Args:
        found: a triage, or those of several accelerators.
        explain: whether to print the arithmetic of the loops that were asked about instead.
        top: rows shown; None: all.
        assumptions: whether to show all that was assumed.
    """
    triages = found.triages if isinstance(found, TriageComparison) else (found,)
    sections: list[Section] = []
    if explain:
        for number, one in enumerate(triages):
            sections += [Text(["", *_explained(one)] if number else _explained(one))]
    elif isinstance(found, TriageComparison):
        sections += _comparison_sections(found, top)
    else:
        sections += _triage_sections(found, top)
    sections += assumed_figures([text for one in triages for text in one.assumptions], in_full=assumptions)
    if isinstance(found, TriageComparison):
        return Report(
            "Which loops to port", sections, comparison_table(found), lambda: comparison_document(found)
        )  # fmt: skip
    return Report("Which loops to port", sections, Table(COLUMNS, found.instances), lambda: document(found))


def comparison_table(found: TriageComparison) -> Table:
    """The loops with their seconds on each accelerator."""
    names = [one.accelerator for one in found.triages]
    columns = (
        *(replace(column, drop=1) if column.heading == "function" else column for column in PLACE),
        Column("host_s", "host", SECONDS),
        Column("", "all cores", SECONDS, lambda row: row.thread_s),
        *(Column(name, name, SECONDS, bound(lambda row, name: row.accelerator_s[name], name)) for name in names),
        Column("best", "best", whole=True),
    )
    return Table(columns, found.rows, headings=("source", "function", "host", *names, "best"))


def document(report: JoinedTriage) -> dict[str, Any]:
    """The JSON face, `foretrace.triage/1`."""
    return {
        "schema": "foretrace.triage/1",
        **document_of(report, "host accelerator complete program"),
        "instances": [_instance_document(report, instance) for instance in report.instances],
        "hit_rates": hit_rates_document(report.hit_rates),
        "assumptions": list(map(str, report.assumptions)),
        "warnings": report.warnings,
        "unseen_s": report.unseen_s,
        "unseen_share": report.unseen_s / report.program.host_s if report.program.host_s else 0.0,
        **document_of(report, "unseen policies arrays"),
        "explained": [_instance_document(report, instance) for instance in report.explained],
        "loops": report.loops,
        "never_ran": [never_ran_document(one) for one in report.source.never_ran] if report.source else None,
    }


def comparison_document(report: TriageComparison) -> dict[str, Any]:
    """JSON of a triage for several accelerators: that of the best one, with all of them and the matrix of loops by
    devices."""
    return document(report.best) | {
        "accelerators": [document(one) for one in report.triages],
        "matrix": [document_of(row, *PLACE, "host_s thread_s accelerator_s best") for row in report.rows],
    }


def _instance_document(report: JoinedTriage, instance: Instance) -> dict[str, Any]:
    there = report.source_of(instance)
    return document_of(instance, *_PLACE, "idiom range_bytes refs moved_bytes entries host_s accelerator_s") | {
        "accelerator_parts": instance.cost,
        **document_of(
            instance,
            "gain_s offload reason break_even_bytes kind answer host_low_s host_high_s accelerator_low_s "
            "accelerator_high_s thread_s best_host_s bound_by parallel threads to_device_bytes from_device_bytes "
            "transfers footprint_bytes break_even_launch_s flip explanation array_operation path would_change",
        ),
        "verdict": _verdict_document(instance.verdict) if instance.verdict else None,
        "source": joined_document(there) if there is not None else None,
    }


def _verdict_document(one: LoopVerdict) -> dict[str, Any]:
    """A verdict, what decided, and what source, run and binary each say."""
    said = {"source": one.source, "run": one.run, "binary": one.binary}
    return document_of(one, "verdict decided_by") | {
        name: None if by is None else document_of(by, "verdict reason assumptions") for name, by in said.items()
    }


def _triage_sections(report: JoinedTriage, top: int | None) -> list[Section]:
    """The `top` loops of most gain or time, of those that matter; None: all."""
    lines = [f"{report.host_title}, with {report.accelerator_title}"]
    lines += [f"warning: {warning}" for warning in report.warnings]
    sections: list[Section] = [Text(lines)]
    if not report.instances:
        sections.append(Text([_nothing_found(report)]))
    else:
        notable = report.instances if top is None else report.notable_instances
        shown = sorted(notable, key=lambda i: max(i.gain_s, i.host_s), reverse=True)[:top]
        shown.sort(key=report.instances.index)
        if shown:
            sections += [Text([""]), _loop_table(report, shown), Text([""])]
        rows_of = Counter(instance.place for instance in report.instances)
        lines = []
        for number, instance in enumerate(shown, 1):
            apart = f"[{instance.path}] " if rows_of[instance.place] > 1 else ""
            text = f"{instance.reason}; {instance.flip}" if instance.flip and not report.is_unit else instance.reason
            lines.append(f"{number:3}  {apart}{text}")
            if instance.would_change:
                lines.append(f"     {instance.would_change}")
            lines += _source_lines(report, instance)
        sections.append(Text([*lines, *_hidden_lines(report, len(notable), len(shown)), ""]))
        if not report.is_unit:
            sections += [Table(POLICIES, report.policies), Text([""])]
        sections += _array_sections(report)
        sections.append(Text(gain_lines(report)))
    never_ran = never_ran_lines(report.source) if report.source is not None else []
    return [*sections, Text([*never_ran, f"Hit rates: {report.hit_rates.source}."])]


def _loop_table(report: JoinedTriage, shown: Sequence[Instance]) -> Table:
    """The loops shown, numbered as the lines below the table are."""
    numbers = {id(one): str(number) for number, one in enumerate(shown, 1)}
    number = Column("", "", value=lambda one: numbers.get(id(one), ""), left=False)
    headings = ["", "port", "source", "function", "idiom", "range", "host", "accelerator", "gain", "pays from"]
    if not report.is_unit:
        headings = ["", "answer", "source", "function", "what", "idiom", "host"]
        headings += ["all cores"] if report.program.host_cores > 1 else []
        headings += ["accelerator", "from", "to", "bound by", "transfers", "gain", "pays from"]
    return Table((number, *(COLUMNS if report.is_unit else GENERAL)), report.instances, headings=headings, shown=shown)


def _source_lines(report: JoinedTriage, instance: Instance) -> list[str]:
    """Lines that compare the source of a loop with the run."""
    there = report.source_of(instance)
    if there is not None:
        return [f"     {line}" for line in join_lines(there)]
    return ["     source: none at its place"] if report.source is not None and not report.source.notes else []


def _hidden_lines(report: JoinedTriage, notable: int, shown: int) -> list[str]:
    lines = []
    if notable > shown:
        lines.append(f"     {counted(notable - shown, 'loop')} of less gain not shown; --top shows more")
    loops = report.loops
    if loops is not None and loops.there > loops.listed:
        left_out = (
            (loops.inside, "inside kernels or threaded loops"),
            (loops.library, "of the loader, or of library calls that need the host"),
            (loops.outside, "before or after main"),
            (loops.once, "of a single iteration"),
            (loops.small, "of less than 0.1 % of the time"),
        )
        told = ", ".join(f"{many:,} {where}" for many, where in left_out if many)
        lines.append(f"     {counted(loops.there, 'loop')} there: {loops.listed:,} with a row, {told}")
    tiny = len(report.instances) - notable
    if tiny:
        lines.append(f"     {counted(tiny, 'loop')} of less than 0.1 % of the time not shown; --all-loops shows them")
    return lines


def _nothing_found(report: JoinedTriage) -> str:
    """Explanation why there is no instance: nothing to offload, or nothing that was seen."""
    host_s = report.program.host_s
    share = report.unseen_s / host_s if host_s else 0.0
    what = report.what
    if share < NOTABLE_SHARE:
        return f"No {what} was found: nothing to offload. The host takes {format_seconds(host_s)}."
    return (
        f"No {what} was found in the {1 - share:.0%} of the time that was seen. The host takes "
        f"{format_seconds(host_s)}, {format_seconds(report.unseen_s)} ({share:.0%}) of it in compiled code that was "
        f"not seen ({', '.join(report.unseen[:3])}): whether that gathers or scatters is not known."
    )


def _array_sections(report: JoinedTriage) -> list[Section]:
    """Table of the bytes that the plan moves of each array."""
    if not report.arrays:
        return []
    rows = [(allocation_name(one), one.to_device_bytes, one.from_device_bytes) for one in report.arrays[:_MAX_ARRAYS]]
    rest = report.arrays[_MAX_ARRAYS:]
    if rest:
        there, back = sum(one.to_device_bytes for one in rest), sum(one.from_device_bytes for one in rest)
        rows.append((f"{len(rest)} more", there, back))
    return [Table(ARRAYS, rows), Text([""])]


def gain_lines(report: JoinedTriage) -> list[str]:
    """Lines on the program's gain."""
    program = report.program
    if not program.loops_offloaded:
        lines = [f"{report.none_ported[0].upper()}{report.none_ported[1:]}."]
        return lines + _threads_line(program)
    interval = ""
    if not report.is_unit:
        interval = f" ({program.speedup_low:.2f} to {program.speedup_high:.2f})"
    lines = [
        f"Porting {report.ported} takes the program from {before(program)} to {format_seconds(program.after_s)}, "
        f"{program.speedup:.2f} times as fast{interval}."
    ]
    if program.host_cores > 1:
        lines.append(
            f"One core of the host takes {format_seconds(program.host_s)}, {program.one_core_speedup:.2f} times as "
            "long as the program once ported."
        )
    if not report.is_unit:
        lines.append(
            f"The plan launches {counted(program.launches, 'kernel')}, moves "
            f"{format_bytes(round(program.to_device_bytes))} there and "
            f"{format_bytes(round(program.from_device_bytes))} back in {counted(program.transfers, 'transfer')}."
            if program.transfers
            else f"The plan launches {counted(program.launches, 'kernel')} and transfers nothing."
        )
    few = program.loops_for_95_percent
    if program.loops_offloaded > 1:
        lines.append(f"The first {f'{few} of them give' if few > 1 else 'of them gives'} 95 % of the gain.")
    return lines


def _threads_line(program: ProgramGain) -> list[str]:
    if program.host_cores <= 1:
        return []
    return [
        f"On {program.host_cores} cores of the host it takes {format_seconds(program.threads_s)} "
        f"({format_seconds(program.threads_low_s)} to {format_seconds(program.threads_high_s)}), "
        f"{program.host_s / max(program.threads_s, 1e-300):.2f} times as fast as on one."
    ]


def _explained(report: JoinedTriage) -> list[str]:
    lines = [f"{report.host_title}, with {report.accelerator_title}"]
    for one in report.explained:
        called = f", in {one.path}" if one.path else ""
        lines += ["", f"{one.answer}: {one.kind} {one.place.text} {one.place.name}{called}"]
        lines += [f"  {line}" for line in one.explanation]
        if one.break_even_launch_s is not None:
            lines.append(f"  pays while a launch takes less than {format_seconds(one.break_even_launch_s)}")
        lines += [f"  {text}" for text in (one.flip, one.would_change) if text]
        lines += _source_lines(report, one)
    return lines


def _comparison_sections(found: TriageComparison, top: int | None) -> list[Section]:
    notable = found.rows if top is None else found.notable_rows
    threads = any(row.thread_s is not None for row in notable)
    names = [one.accelerator for one in found.triages]
    best = found.best
    ends_s = {one.accelerator: one.program.after_s for one in found.triages}
    program = ComparedLoop(
        records.Place("", "", "", 0), best.program.host_s, dict(ends_s), best.accelerator, best.program.threads_s
    )  # fmt: skip
    table = comparison_table(found)
    named = [
        Column("", "source", value=lambda row: "program" if row is program else row.place.text),
        Column("", "function", value=lambda row: "" if row is program else row.place.name, drop=1),
    ]
    headings = ("source", "function", "host", *(["all cores"] if threads else []), *names, "best")
    rows = Table((*named, *table.columns), [*found.rows, program], headings=headings, shown=[*notable[:top], program])
    lines = ["", *(f"warning: {warning}" for warning in (best.source.notes if best.source else ()))]
    lines += [f"{one.accelerator}: {gain_lines(one)[0]}" for one in found.triages]
    lines += [*_threads_line(best.program), f"The best is {best.accelerator}."]
    return [Text([f"{best.host_title}, with {len(names)} accelerators", ""]), rows, Text(lines)]
