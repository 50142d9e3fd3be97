"""`foretrace triage`: which loops are worth porting to an accelerator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from foretrace.api.triages import Comparison, Triage, before, cores_asked, triage
from foretrace.replay.predict import NOTABLE_SHARE
from foretrace.replay.records import Instance, ProgramGain
from foretrace.reports.data_flow_reports import allocation_name
from foretrace.reports.join_reports import join_lines, joined_document, never_ran_document, never_ran_lines
from foretrace.reports.prediction_documents import hit_rates_document, place_document
from foretrace.terminal import console, plain, print_json, table
from foretrace.tracer.signature.verdicts import LoopVerdict, Said
from foretrace.units import counted, format_bytes, format_seconds
from foretrace.verb import Verb

from foretrace.reports.model import Report, Table
from foretrace.reports.prediction_reports import assumed_figures
from foretrace.reports.renderers import print_report

def short_place(place):
    return plain(place.text)

_MAX_ARRAYS = 8
"""Arrays with a row of their own."""


@click.command(cls=Verb, epilog="Example: foretrace triage cg.sig --host epyc-9654 --accelerator h200-sxm-141gb")
@click.argument("signature", type=click.Path(path_type=Path))
@click.option("--host", required=True, metavar="H", help="The host: a machine's name or TOML file.")
@click.option(
    "--accelerator", "accelerators", required=True, multiple=True, metavar="A",
    help="The accelerator: a machine's name or TOML file (repeatable: the best one for each loop).",
)  # fmt: skip
@click.option(
    "--host-cores", default="1", metavar="N|all", show_default=True, help="Cores that loops on the host may use."
)
@click.option(
    "--source", "source", type=click.Path(path_type=Path), metavar="DIR",
    help="The program's source: what it proves of a loop decides; name idioms as it has them.",
)  # fmt: skip
@click.option(
    "-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="A symbol of --source's preprocessor (repeatable)."
)
@click.option("--branches", is_flag=True, help="Read branches of --source's preprocessor that are not taken, too.")
@click.option("--explain", metavar="LOOP", help="Print the arithmetic of one loop: file:line or function.")
@click.option("--top", default=8, show_default=True, type=click.IntRange(min=1), help="How many loops to show.")
@click.option("--all-loops", is_flag=True, help="Show all of them, those below 0.1 % of the time, too.")
@click.option("--assumptions", is_flag=True, help="Say in full what was assumed where a profile is silent.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with all loops.")
def command(
    signature: Path, host: str, accelerators: tuple[str, ...], host_cores: str, source: Path | None,
    defines: tuple[str, ...], branches: bool, explain: str | None, top: int, all_loops: bool, assumptions: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Tell which loops of SIGNATURE's program to port to an accelerator, or to thread, largest gain first."""
    if (defines or branches) and source is None:
        raise click.UsageError("-D and --branches go with --source")
    if explain is not None and not explain.strip():
        raise click.UsageError("--explain names no loop; give it one as the table does, file:line or a function")
    report = triage(
        signature, host, *accelerators, host_cores=cores_asked(host_cores), explain=explain or "", source=source,
        defines=defines, branches=branches,
    )  # fmt: skip
    if as_json:
        print_json(comparison_document(report) if isinstance(report, Comparison) else document(report))
        return
    if explain:
        for number, one in enumerate(report.triages if isinstance(report, Comparison) else (report,)):
            if number:
                console().print()
            _show_explained(one)
    elif isinstance(report, Comparison):
        _show_comparison(report, top, all_loops=all_loops)
    else:
        _show(report, None if all_loops else top)
    made = report.triages if isinstance(report, Comparison) else (report,)
    print_report(Report("", assumed_figures([text for one in made for text in one.assumptions], in_full=assumptions), Table((), ())))


def document(report: Triage) -> dict[str, Any]:
    """The JSON face, `foretrace.triage/1`."""
    return {
        "schema": "foretrace.triage/1",
        "host": report.host,
        "accelerator": report.accelerator,
        "complete": report.complete,
        "program": asdict(report.program),
        "instances": [_instance_document(report, instance) for instance in report.instances],
        "hit_rates": hit_rates_document(report.hit_rates),
        "assumptions": [plain(str(assumption)) for assumption in report.assumptions],
        "warnings": [plain(warning) for warning in report.warnings],
        "unseen_s": report.unseen_s,
        "unseen_share": report.unseen_s / report.program.host_s if report.program.host_s else 0.0,
        "unseen": [plain(name) for name in report.unseen],
        "policies": [asdict(policy) for policy in report.policies],
        "arrays": [asdict(one) for one in report.arrays],
        "explained": [_instance_document(report, instance) for instance in report.explained],
        "loops": asdict(report.loops) if report.loops else None,
        "never_ran": [never_ran_document(one) for one in report.source.never_ran] if report.source else None,
    }


def comparison_document(report: Comparison) -> dict[str, Any]:
    """The same for several accelerators: that of the best one, with all of them and the matrix of loops by devices."""
    return document(report.best) | {
        "accelerators": [document(one) for one in report.triages],
        "matrix": [
            place_document(row.place)
            | {"host_s": row.host_s, "thread_s": row.thread_s, "accelerator_s": row.accelerator_s, "best": row.best}
            for row in report.rows
        ],
    }


def _instance_document(report: Triage, instance: Instance) -> dict[str, Any]:
    there = report.source_of(instance)
    return place_document(instance.place) | {
        "idiom": instance.idiom,
        "range_bytes": instance.range_bytes,
        "refs": instance.refs,
        "moved_bytes": instance.moved_bytes,
        "entries": instance.entries,
        "host_s": instance.host_s,
        "accelerator_s": instance.accelerator_s,
        "accelerator_parts": asdict(instance.cost) if instance.cost else None,
        "gain_s": instance.gain_s,
        "offload": instance.offload,
        "reason": plain(instance.reason),
        "break_even_bytes": instance.break_even_bytes,
        "kind": instance.kind,
        "answer": str(instance.answer),
        "host_low_s": instance.host_low_s,
        "host_high_s": instance.host_high_s,
        "accelerator_low_s": instance.accelerator_low_s,
        "accelerator_high_s": instance.accelerator_high_s,
        "thread_s": instance.thread_s,
        "best_host_s": instance.best_host_s,
        "bound_by": instance.bound_by,
        "parallel": instance.parallel,
        "threads": instance.threads,
        "to_device_bytes": instance.to_device_bytes,
        "from_device_bytes": instance.from_device_bytes,
        "transfers": instance.transfers,
        "footprint_bytes": instance.footprint_bytes,
        "break_even_launch_s": instance.break_even_launch_s,
        "flip": plain(instance.flip),
        "explanation": [plain(line) for line in instance.explanation],
        "caller": plain(instance.caller),
        "array_operation": plain(instance.array_operation),
        "path": plain(instance.path),
        "would_change": plain(instance.would_change),
        "verdict": _verdict_document(instance.verdict) if instance.verdict else None,
        "source": joined_document(there) if there is not None else None,
    }


def _verdict_document(one: LoopVerdict) -> dict[str, Any]:
    """A verdict, what decided, and what source, run and binary each say."""

    def said(by: Said | None) -> dict[str, Any] | None:
        if by is None:
            return None
        return {
            "verdict": str(by.verdict),
            "reason": plain(by.reason),
            "assumptions": [plain(text) for text in by.assumptions],
        }

    return {
        "verdict": str(one.verdict),
        "decided_by": str(one.decided_by),
        "source": said(one.source),
        "run": said(one.run),
        "binary": said(one.binary),
    }


def _show(report: Triage, top: int | None) -> None:
    """The `top` loops of most gain or time, of those that matter; None: all."""
    out = console()
    out.print(f"{plain(report.host_title)}, with {plain(report.accelerator_title)}")
    for warning in report.warnings:
        out.print(f"warning: {plain(warning)}")
    if not report.instances:
        out.print(_nothing_found(report))
    else:
        notable = report.instances if top is None else report.notable_instances
        shown = sorted(notable, key=lambda i: max(i.gain_s, i.host_s), reverse=True)[:top]
        shown.sort(key=report.instances.index)
        if shown:
            out.print()
            out.print(_unit_table(shown) if report.is_unit else _table(shown, report.program.host_cores > 1))
            out.print()
        rows_of = Counter(instance.place for instance in report.instances)
        for number, instance in enumerate(shown, 1):
            apart = f"[{instance.path}] " if rows_of[instance.place] > 1 else ""
            text = f"{instance.reason}; {instance.flip}" if instance.flip and not report.is_unit else instance.reason
            out.print(f"{number:3}  {plain(apart + text)}")
            if instance.would_change:
                out.print(f"     {plain(instance.would_change)}")
            _show_source(report, instance)
        _say_hidden(report, len(notable), len(shown))
        out.print()
        if not report.is_unit:
            _show_policies(report)
        _show_arrays(report)
        for line in gain_lines(report):
            out.print(plain(line))
    _show_never_ran(report)
    out.print(f"Hit rates: {report.hit_rates.source}.")


def _show_source(report: Triage, instance: Instance) -> None:
    """What the source says of a loop, beside the run."""
    there = report.source_of(instance)
    if there is not None:
        for line in join_lines(there):
            console().print(f"     {line}")
    elif report.source is not None and not report.source.notes:
        console().print("     source: none at its place")


def _show_never_ran(report: Triage) -> None:
    if report.source is not None:
        for line in never_ran_lines(report.source):
            console().print(line)


def _say_hidden(report: Triage, notable: int, shown: int) -> None:
    out = console()
    if notable > shown:
        out.print(f"     {counted(notable - shown, 'loop')} of less gain not shown; --top shows more")
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
        out.print(f"     {counted(loops.there, 'loop')} there: {loops.listed:,} with a row, {told}")
    tiny = len(report.instances) - notable
    if tiny:
        out.print(f"     {counted(tiny, 'loop')} of less than 0.1 % of the time not shown; --all-loops shows them")


def _nothing_found(report: Triage) -> str:
    """What it means that there is no instance: nothing to offload, or nothing that was seen."""
    host_s = report.program.host_s
    share = report.unseen_s / host_s if host_s else 0.0
    what = report.what
    if share < NOTABLE_SHARE:
        return f"No {what} was found: nothing to offload. The host takes {format_seconds(host_s)}."
    return (
        f"No {what} was found in the {1 - share:.0%} of the time that was seen. The host takes "
        f"{format_seconds(host_s)}, {format_seconds(report.unseen_s)} ({share:.0%}) of it in compiled code that was "
        f"not seen ({plain(', '.join(report.unseen[:3]))}): whether that gathers or scatters is not known."
    )


def _unit_table(instances: Sequence[Instance]) -> Table:
    rows = table(
        "", "port", "source", "function", "idiom", "range", "host", "accelerator", "gain", "pays from",
        left=("port", "source", "function", "idiom"), drop=("pays from", "range", "accelerator"),
        whole=("port", "idiom"),
    )  # fmt: skip
    for number, instance in enumerate(instances, 1):
        rows.add_row(
            str(number), "yes" if instance.offload else "no", short_place(instance.place),
            plain(instance.place.name), instance.idiom, format_bytes(instance.range_bytes),
            format_seconds(instance.host_s),
            "-" if instance.accelerator_s is None else format_seconds(instance.accelerator_s),
            format_seconds(instance.gain_s) if instance.offload else "-",
            "never" if instance.break_even_bytes is None else format_bytes(instance.break_even_bytes),
        )  # fmt: skip
    return rows


def _table(instances: Sequence[Instance], threads: bool) -> Table:
    columns = ["", "answer", "source", "function", "what", "idiom", "host"]
    columns += ["all cores"] if threads else []
    columns += ["accelerator", "from", "to", "bound by", "transfers", "gain", "pays from"]
    rows = table(
        *columns, left=("answer", "source", "function", "what", "idiom", "bound by"),
        drop=("pays from", "from", "to", "transfers", "function", "bound by"), whole=("answer",),
    )  # fmt: skip
    for number, one in enumerate(instances, 1):
        low, high = one.accelerator_low_s, one.accelerator_high_s
        cells = [
            str(number), str(one.answer), short_place(one.place), plain(one.place.name), one.what,
            "-" if one.idiom == "none" else one.idiom, format_seconds(one.host_s),
        ]  # fmt: skip
        if threads:
            cells.append(format_seconds(one.thread_s) if one.thread_s is not None else "-")
        cells += [
            "-" if one.accelerator_s is None else format_seconds(one.accelerator_s),
            "-" if low is None else format_seconds(low),
            "-" if high is None else format_seconds(high),
            one.bound_by or "-",
            format_bytes(round(one.to_device_bytes + one.from_device_bytes)),
            format_seconds(one.gain_s) if one.gain_s else "-",
            "never" if one.break_even_bytes is None else format_bytes(one.break_even_bytes),
        ]
        rows.add_row(*cells)
    return rows


def _show_policies(report: Triage) -> None:
    rows = table("policy", "time", "times as fast", "kernels", "moves", left=("policy",))
    for one in report.policies:
        rows.add_row(
            one.policy, format_seconds(one.time_s), f"{one.speedup:.2f}", str(one.kernels),
            format_bytes(round(one.moved_bytes)),
        )  # fmt: skip
    out = console()
    out.print(rows)
    out.print()


def _show_arrays(report: Triage) -> None:
    """What the plan moves of each array."""
    if not report.arrays:
        return
    rows = table("array", "there", "back", left=("array",))
    for one in report.arrays[:_MAX_ARRAYS]:
        sizes = (format_bytes(round(size)) for size in (one.to_device_bytes, one.from_device_bytes))
        rows.add_row(plain(allocation_name(one)), *sizes)
    rest = report.arrays[_MAX_ARRAYS:]
    if rest:
        there, back = sum(one.to_device_bytes for one in rest), sum(one.from_device_bytes for one in rest)
        rows.add_row(f"{len(rest)} more", format_bytes(round(there)), format_bytes(round(back)))
    out = console()
    out.print(rows)
    out.print()


def gain_lines(report: Triage) -> list[str]:
    """What the program gains, in a few lines."""
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


def _show_explained(report: Triage) -> None:
    out = console()
    out.print(f"{plain(report.host_title)}, with {plain(report.accelerator_title)}")
    for one in report.explained:
        out.print()
        called = f", in {plain(one.path)}" if one.path else ""
        out.print(f"{one.answer}: {one.kind} {short_place(one.place)} {plain(one.place.name)}{called}")
        for line in one.explanation:
            out.print(f"  {plain(line)}")
        if one.break_even_launch_s is not None:
            out.print(f"  pays while a launch takes less than {format_seconds(one.break_even_launch_s)}")
        if one.flip:
            out.print(f"  {plain(one.flip)}")
        if one.would_change:
            out.print(f"  {plain(one.would_change)}")
        _show_source(report, one)


def _show_comparison(report: Comparison, top: int, *, all_loops: bool) -> None:
    out = console()
    notable = report.rows if all_loops else report.notable_rows
    threads = any(row.thread_s is not None for row in notable)
    names = [one.accelerator for one in report.triages]
    out.print(f"{plain(report.best.host_title)}, with {len(names)} accelerators")
    out.print()
    columns = ["source", "function", "host", *(["all cores"] if threads else []), *names, "best"]
    rows = table(*columns, left=("source", "function", "best"), drop=("function",), whole=("best",))
    for row in notable if all_loops else notable[:top]:
        times = [*([row.thread_s] if threads else []), *row.accelerator_s.values()]
        cells = [format_seconds(one) if one is not None else "-" for one in times]
        rows.add_row(short_place(row.place), plain(row.place.name), format_seconds(row.host_s), *cells, row.best)
    ends_s = [*([report.best.program.threads_s] if threads else []), *(one.program.after_s for one in report.triages)]
    program = [format_seconds(one) for one in ends_s]
    rows.add_row("program", "", format_seconds(report.best.program.host_s), *program, report.best.accelerator)
    out.print(rows)
    out.print()
    for warning in report.best.source.notes if report.best.source else ():
        out.print(f"warning: {plain(warning)}")
    for one in report.triages:
        out.print(f"{plain(one.accelerator)}: {plain(gain_lines(one)[0])}")
    for line in _threads_line(report.best.program):
        out.print(line)
    out.print(f"The best is {plain(report.best.accelerator)}.")
