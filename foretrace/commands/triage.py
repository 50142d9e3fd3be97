"""`foretrace triage`: which gather/scatter loops are worth porting to an accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from foretrace.profiles.library import find
from foretrace.replay.records import Instance, Triage
from foretrace.replay.triage import triage
from foretrace.terminal import console, plain, print_json, table
from foretrace.tracer.signature_file import read_signature
from foretrace.units import format_bytes, format_seconds
from foretrace.verb import Verb

from .predict import hit_rates_document, place_document, short_place


@click.command(cls=Verb, epilog="Example: foretrace triage cg.sig --host jaguar-xt4 --accelerator convey-hc1-fpga")
@click.argument("signature", type=click.Path(path_type=Path))
@click.option("--host", required=True, metavar="H", help="The host: a machine's name or TOML file.")
@click.option("--accelerator", required=True, metavar="A", help="The accelerator: a machine's name or TOML file.")
@click.option("--top", default=8, show_default=True, type=click.IntRange(min=1), help="How many loops to show.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with all loops.")
def command(signature: Path, host: str, accelerator: str, top: int, as_json: bool) -> None:
    """Tell which gather/scatter loops of SIGNATURE's program to port to an accelerator, largest gain first."""
    report = triage(read_signature(signature), find(host), find(accelerator))
    if as_json:
        print_json(document(report))
    else:
        _show(report, top)


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


def _show(report: Triage, top: int) -> None:
    out, program = console(), report.program
    out.print(f"{plain(report.host_title)}, with {plain(report.accelerator_title)}", soft_wrap=True)
    for warning in report.warnings:
        out.print(f"warning: {plain(warning)}", soft_wrap=True)
    if not report.instances:
        out.print(
            f"No gather/scatter loop was found: nothing to offload. The host takes {format_seconds(program.host_s)}."
        )
    else:
        shown = sorted(report.instances, key=lambda i: max(i.gain_s, i.host_s), reverse=True)[:top]
        shown.sort(key=report.instances.index)
        out.print()
        out.print(_table(shown))
        out.print()
        for number, instance in enumerate(shown, 1):
            out.print(f"{number:3}  {plain(instance.reason)}", soft_wrap=True)
        if len(shown) < len(report.instances):
            out.print(f"     {len(report.instances) - len(shown)} loops that take less are not shown; --top shows more")
        out.print()
        _show_gain(report)
    out.print(f"Hit rates: {report.hit_rates.source}.")
    for assumption in report.assumptions:
        out.print(f"  assumed  {plain(str(assumption))}", soft_wrap=True)


def _table(instances: Sequence[Instance]) -> Table:
    rows = table(
        "", "port", "source", "function", "idiom", "range", "host", "accelerator", "gain", "pays from",
        left=("port", "source", "function", "idiom"),
    )  # fmt: skip
    for number, instance in enumerate(instances, 1):
        rows.add_row(
            str(number), "yes" if instance.offload else "no", short_place(instance.place),
            plain(instance.place.function), instance.idiom, format_bytes(instance.range_bytes),
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
