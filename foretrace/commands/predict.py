"""`foretrace predict`: run time of a signature's program on other machines."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from foretrace.errors import PredictionError
from foretrace.profiles.library import find, names
from foretrace.profiles.profile import MachineKind, Profile
from foretrace.replay.predict import predict_each
from foretrace.replay.records import HitRates, Place, Prediction, RegionTime
from foretrace.terminal import console, plain, print_json
from foretrace.tracer.signature_file import read_signature
from foretrace.units import format_count, format_seconds


@click.command(epilog="Example: foretrace predict app.sig --machine jaguar-xt4 --machine here.toml")
@click.argument("signature", type=click.Path(path_type=Path))
@click.option("--machine", "machines", multiple=True, metavar="M", help="A host's name or TOML file (repeatable).")
@click.option("--all", "every", is_flag=True, help="All hosts that come with foretrace.")
@click.option("--top", default=5, show_default=True, type=click.IntRange(min=0), help="Hot loops shown per machine.")
@click.option("--assumptions", is_flag=True, help="Say in full what was assumed where a profile is silent.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with all loops.")
def command(
    signature: Path, machines: tuple[str, ...], every: bool, top: int, assumptions: bool, as_json: bool
) -> None:
    """Predict the run time of SIGNATURE's program on other machines, by hot loop and by what bounds it."""
    if not machines and not every:
        raise click.UsageError(
            "name a machine with --machine, or take --all; `foretrace machines` lists those that come with foretrace"
        )
    profiles = _profiles(machines, every)
    predictions, refused = predict_each(read_signature(signature), profiles)
    for name, error in refused.items():
        if not predictions or not every or name in machines:
            raise error
    if as_json:
        print_json(document(predictions, refused))
    else:
        _show(predictions, refused, top)
        if assumptions or len(predictions) == 1:
            _show_assumptions(predictions)
        else:
            _name_assumptions(predictions)


def _profiles(machines: tuple[str, ...], every: bool) -> list[Profile]:
    """The machines asked for, each once."""
    profiles = {profile.name: profile for profile in (find(machine) for machine in machines)}
    if every:
        shipped = (find(name) for name in names())
        profiles = {p.name: p for p in shipped if p.kind is MachineKind.HOST} | profiles
    return list(profiles.values())


def place_document(place: Place) -> dict[str, Any]:
    """Where something is, as JSON."""
    return {
        "module": plain(place.module),
        "function": plain(place.function),
        "file": plain(place.file),
        "line": place.line,
    }


def hit_rates_document(rates: HitRates) -> dict[str, Any]:
    """Hit rates and their origin, as JSON."""
    return {
        "source": str(rates.source),
        "hierarchy": rates.hierarchy,
        "relative_error": rates.relative_error,
        "levels": [
            {"name": v.name, "accesses": v.accesses, "misses": v.misses, "hit_rate": v.hit_rate} for v in rates.levels
        ],
    }


def document(predictions: tuple[Prediction, ...], refused: dict[str, PredictionError]) -> dict[str, Any]:
    """The JSON face, `foretrace.predict/1`."""
    return {
        "schema": "foretrace.predict/1",
        "predictions": [
            {
                "machine": prediction.machine,
                "title": prediction.title,
                "time_s": prediction.time_s,
                "low_s": prediction.low_s,
                "high_s": prediction.high_s,
                "bound_by": str(prediction.bound_by),
                "time_by_bound_s": {str(bound): s for bound, s in prediction.time_by_bound_s.items()},
                "complete": prediction.complete,
                "hit_rates": hit_rates_document(prediction.hit_rates),
                "assumptions": [plain(str(assumption)) for assumption in prediction.assumptions],
                "warnings": [plain(warning) for warning in prediction.warnings],
                "loops": [_region_document(region) for region in prediction.regions],
            }
            for prediction in predictions
        ],
        "refused": [{"machine": name, "reason": plain(str(error))} for name, error in refused.items()],
    }


def _region_document(region: RegionTime) -> dict[str, Any]:
    return place_document(region.place) | {
        "kind": str(region.kind),
        "entries": region.entries,
        "iterations": region.iterations,
        "time_s": region.time_s,
        "low_s": region.low_s,
        "high_s": region.high_s,
        "share": region.share,
        "bound_by": str(region.bound_by),
        "compute_s": region.compute_s,
        "memory_s": region.memory_s,
        "overlap_s": region.overlap_s,
        "python_s": region.python_s,
    }


def short_place(place: Place) -> str:
    """`file:line` without directories, safe to print."""
    name = Path(place.file or place.module).name
    return plain(f"{name}:{place.line}" if place.file else name)


def _show(predictions: tuple[Prediction, ...], refused: dict[str, PredictionError], top: int) -> None:
    out = console()
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("machine", "time", "low", "high", "bound by", "hits", "hit rates are"):
        table.add_column(heading, justify="right" if heading in ("time", "low", "high") else "left")
    for prediction in predictions:
        levels = ", ".join(f"{plain(v.name)} {v.hit_rate:.1%}" for v in prediction.hit_rates.levels)
        table.add_row(
            plain(prediction.machine), format_seconds(prediction.time_s), format_seconds(prediction.low_s),
            format_seconds(prediction.high_s), str(prediction.bound_by), levels, str(prediction.hit_rates.source),
        )  # fmt: skip
    out.print(table)
    for name, error in refused.items():
        out.print(f"not predicted: {plain(name)}: {plain(str(error))}")
    for warning in predictions[0].warnings:
        out.print(f"warning: {plain(warning)}")
    for prediction in predictions:
        _show_regions(prediction, top)


def _show_regions(prediction: Prediction, top: int) -> None:
    out = console()
    shown = [region for region in prediction.regions[:top] if region.time_s > 0]
    if shown:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading in ("share", "time", "source", "function", "kind", "iterations", "bound by"):
            table.add_column(heading, justify="right" if heading in ("share", "time", "iterations") else "left")
        for region in shown:
            table.add_row(
                f"{region.share:.1%}", format_seconds(region.time_s), short_place(region.place),
                plain(region.place.function), str(region.kind), format_count(region.iterations), str(region.bound_by),
            )  # fmt: skip
        out.print(f"\n{plain(prediction.title)}: where the time goes", soft_wrap=True)
        out.print(table)


def _name_assumptions(predictions: tuple[Prediction, ...]) -> None:
    """For each machine the names of what was assumed."""
    out = console()
    out.print("\nassumed where a profile is silent (--assumptions tells what)")
    for prediction in predictions:
        assumed = dict.fromkeys(assumption.name for assumption in prediction.assumptions)
        out.print(f"  {plain(prediction.machine)}: {plain(', '.join(assumed)) or 'nothing'}", soft_wrap=True)


def _show_assumptions(predictions: tuple[Prediction, ...]) -> None:
    """Each assumption once, with the machines that it was made for."""
    machines: defaultdict[str, list[str]] = defaultdict(list)
    for prediction in predictions:
        for assumption in prediction.assumptions:
            machines[str(assumption)].append(prediction.machine)
    if machines:
        console().print("\nassumed")
    for text, made_on in machines.items():
        made_for = f" ({', '.join(made_on)})" if len(predictions) > 1 else ""
        console().print(f"  {plain(text + made_for)}", soft_wrap=True)
