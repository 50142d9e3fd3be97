"""`foretrace triage`: which gather/scatter loops are worth porting to an accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from foretrace.api.triages import triage
from foretrace.names import short_name
from foretrace.replay.predict import NOTABLE_SHARE
from foretrace.replay.records import Instance, Triage
from foretrace.reports.prediction_documents import hit_rates_document, place_document
from foretrace.terminal import console, plain, print_json, table
from foretrace.units import format_bytes, format_seconds
from foretrace.verb import Verb

from .predict import short_place


@click.command(cls=Verb, epilog="Example: foretrace triage cg.sig --host jaguar-xt4 --accelerator convey-hc1-fpga")
@click.argument("signature", type=click.Path(path_type=Path))
@click.option("--host", required=True, metavar="H", help="The host: a machine's name or TOML file.")
@click.option("--accelerator", required=True, metavar="A", help="The accelerator: a machine's name or TOML file.")
@click.option("--top", default=8, show_default=True, type=click.IntRange(min=1), help="How many loops to show.")
@click.option("--all-loops", is_flag=True, help="Show all of them, those below 0.1 % of the time, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with all loops.")
def command(signature: Path, host: str, accelerator: str, top: int, all_loops: bool, as_json: bool) -> None:
    """Tell which gather/scatter loops of SIGNATURE's program to port to an accelerator, largest gain first."""
    report = triage(signature, host, accelerator)
    if as_json:
        print_json(document(report))
    else:
        _show(report, None if all_loops else top)


def document(report: Triage) -> dict[str, Any]:
    """The JSON face, `foretrace.triage/1`."""
    return {
        "schema": "foretrace.triage/1",
        "host": report.host,
        "accelerator": report.accelerator,
        "complete": report.complete,
        "program": asdict(report.program),
        "instances": [_instance_document(instance) for instance in report.instances],
        "hit_rates": hit_rates_document(report.hit_rates),
        "assumptions": [plain(str(assumption)) for assumption in report.assumptions],
        "warnings": [plain(warning) for warning in report.warnings],
        "unseen_s": report.unseen_s,
        "unseen_share": report.unseen_s / report.program.host_s if report.program.host_s else 0.0,
        "unseen": [plain(name) for name in report.unseen],
    }


def _instance_document(instance: Instance) -> dict[str, Any]:
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
            out.print(_table(shown))
            out.print()
        for number, instance in enumerate(shown, 1):
            out.print(f"{number:3}  {plain(instance.reason)}")
        _say_hidden(report, len(notable), len(shown))
        out.print()
        _show_gain(report)
    out.print(f"Hit rates: {report.hit_rates.source}.")
    for assumption in report.assumptions:
        out.print(f"  assumed  {plain(str(assumption))}")


def _say_hidden(report: Triage, notable: int, shown: int) -> None:
    out = console()
    if notable > shown:
        out.print(f"     {_loops(notable - shown)} of less gain not shown; --top shows more")
    tiny = len(report.instances) - notable
    if tiny:
        out.print(f"     {_loops(tiny)} of less than 0.1 % of the time not shown; --all-loops shows them")


def _loops(count: int) -> str:
    return "1 loop" if count == 1 else f"{count} loops"


def _nothing_found(report: Triage) -> str:
    """What it means that there is no instance: nothing to offload, or nothing that was seen."""
    host_s = report.program.host_s
    share = report.unseen_s / host_s if host_s else 0.0
    if share < NOTABLE_SHARE:
        return f"No gather/scatter loop was found: nothing to offload. The host takes {format_seconds(host_s)}."
    return (
        f"No gather/scatter loop was found in the {1 - share:.0%} of the time that was seen. The host takes "
        f"{format_seconds(host_s)}, {format_seconds(report.unseen_s)} ({share:.0%}) of it in compiled code that was "
        f"not seen ({plain(', '.join(report.unseen[:3]))}): whether that gathers or scatters is not known."
    )


def _table(instances: Sequence[Instance]) -> Table:
    rows = table(
        "", "port", "source", "function", "idiom", "range", "host", "accelerator", "gain", "pays from",
        left=("port", "source", "function", "idiom"), drop=("pays from", "range", "accelerator"),
        whole=("port", "idiom"),
    )  # fmt: skip
    for number, instance in enumerate(instances, 1):
        rows.add_row(
            str(number), "yes" if instance.offload else "no", short_place(instance.place),
            plain(short_name(instance.place.function)), instance.idiom, format_bytes(instance.range_bytes),
            format_seconds(instance.host_s),
            "-" if instance.accelerator_s is None else format_seconds(instance.accelerator_s),
            format_seconds(instance.gain_s) if instance.offload else "-",
            "never" if instance.break_even_bytes is None else format_bytes(instance.break_even_bytes),
        )  # fmt: skip
    return rows


def _show_gain(report: Triage) -> None:
    out, program = console(), report.program
    if not program.loops_offloaded:
        out.print(f"None of the {program.loops} gather/scatter loops is worth porting.")
        return
    out.print(
        f"Porting {program.loops_offloaded} of {program.loops} gather/scatter loops takes the program from "
        f"{format_seconds(program.host_s)} to {format_seconds(program.after_s)}, {program.speedup:.2f} times as fast."
    )
    few = program.loops_for_95_percent
    out.print(f"The first {f'{few} of them give' if few > 1 else 'of them gives'} 95 % of the gain.")
