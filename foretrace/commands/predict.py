"""`foretrace predict`: run time of a signature's program on other machines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from foretrace.cli import NumberRange
from foretrace.errors import ForetraceError, ProfileError
from foretrace.profiles.clock import at_clock
from foretrace.profiles.library import find, names
from foretrace.profiles.profile import MachineKind, Profile
from foretrace.replay.anchor import Anchored, RegionSamples, anchor, region_samples
from foretrace.replay.predict import predict, predict_each
from foretrace.replay.ranking import ranks
from foretrace.replay.records import HitRates, Place, Prediction, RegionTime
from foretrace.terminal import console, plain, print_json, table
from foretrace.tracer.native.timing import Timing
from foretrace.tracer.native.timing_file import read_timing
from foretrace.tracer.signature import Signature
from foretrace.tracer.signature_file import read_signature
from foretrace.units import format_count, format_hz, format_seconds
from foretrace.verb import Verb

from .time import said_of_neighbours, said_of_segments

_LEAST_WAITING_S = 1e-3


@click.command(cls=Verb, epilog="Example: foretrace predict app.sig --machine jaguar-xt4 --machine here.toml")
@click.argument("signature", type=click.Path(path_type=Path))
@click.option("--machine", "machines", multiple=True, metavar="M", help="A host's name or TOML file (repeatable).")
@click.option("--all", "every", is_flag=True, help="All hosts that come with foretrace.")
@click.option(
    "--timing",
    "timing_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Show where the time went in a native run, as foretrace time wrote it.",
)
@click.option(
    "--anchor",
    "anchor_machine",
    metavar="M",
    help="The machine of --timing: also scale its measured time by the model's ratio.",
)
@click.option(
    "--clock",
    "clock_ghz",
    metavar="GHZ",
    type=NumberRange(0.01, 100),
    help="Predict with the machines' cores at this clock, not that of their profiles.",
)
@click.option("--top", default=5, show_default=True, type=click.IntRange(min=0), help="Hot loops shown per machine.")
@click.option("--assumptions", is_flag=True, help="Say in full what was assumed where a profile is silent.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with all loops.")
def command(
    signature: Path,
    machines: tuple[str, ...],
    every: bool,
    timing_file: Path | None,
    anchor_machine: str | None,
    clock_ghz: float | None,
    top: int,
    assumptions: bool,
    as_json: bool,
) -> None:
    """Predict the run time of SIGNATURE's program on other machines, by hot loop and by what bounds it."""
    if not machines and not every:
        raise click.UsageError(
            "name a machine with --machine, or take --all; `foretrace machines` lists those that come with foretrace"
        )
    if anchor_machine is not None and timing_file is None:
        raise click.UsageError(
            "--anchor needs a time to scale: measure it with foretrace time, and name it by --timing"
        )
    profiles, without_clock = _at_clock(_profiles(machines, every), clock_ghz)
    read = read_signature(signature)
    predictions, unpredicted = predict_each(read, profiles)
    refused: dict[str, ForetraceError] = {**without_clock, **unpredicted}
    for name, error in refused.items():
        if not predictions or not every or name in machines:
            raise error
    measured = None if timing_file is None else _Measured.of(read, read_timing(timing_file), anchor_machine)
    if as_json:
        print_json(document(predictions, refused, measured))
    else:
        _show(predictions, refused, top, measured)
        if assumptions or len(predictions) == 1:
            _show_assumptions(predictions)
        else:
            _name_assumptions(predictions)


@dataclass(frozen=True, slots=True)
class _Measured:
    """A native run beside the predictions. `here` is the prediction for its machine, if that is to be scaled from."""

    timing: Timing
    samples: RegionSamples
    here: Prediction | None

    @classmethod
    def of(cls, signature: Signature, timing: Timing, anchor_machine: str | None) -> _Measured:
        here = None if anchor_machine is None else predict(signature, _as_timed(find(anchor_machine), timing))
        return cls(timing, region_samples(signature, timing), here)

    def anchored(self, predictions: tuple[Prediction, ...]) -> list[Anchored]:
        if self.here is None:
            return []
        return [anchor(there, self.here, self.timing, self.samples) for there in predictions]


def _as_timed(profile: Profile, timing: Timing) -> Profile:
    """The machine at the clock that a program was timed at, if that is known."""
    return profile if timing.clock_hz is None else at_clock(profile, timing.clock_hz)


def _at_clock(profiles: list[Profile], clock_ghz: float | None) -> tuple[list[Profile], dict[str, ProfileError]]:
    """The machines at the clock that was asked for, if one was; and by name, why it cannot be told of others."""
    if clock_ghz is None:
        return profiles, {}
    found: list[Profile] = []
    refused: dict[str, ProfileError] = {}
    for profile in profiles:
        try:
            found.append(at_clock(profile, clock_ghz * 1e9))
        except ProfileError as error:
            refused[profile.name] = error
    return found, refused


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


def document(
    predictions: tuple[Prediction, ...], refused: Mapping[str, ForetraceError], measured: _Measured | None = None
) -> dict[str, Any]:
    """The JSON face, `foretrace.predict/1`."""
    return (_measured_document(measured, predictions) if measured else {}) | {
        "schema": "foretrace.predict/1",
        "predictions": [
            {
                "machine": prediction.machine,
                "title": prediction.title,
                "time_s": prediction.time_s,
                "low_s": prediction.low_s,
                "high_s": prediction.high_s,
                "best_rank": rank.best,
                "worst_rank": rank.worst,
                "waiting_s": None if prediction.waiting is None else prediction.waiting.waited_s,
                "children_s": None if prediction.waiting is None else prediction.waiting.children_s,
                "bound_by": str(prediction.bound_by),
                "time_by_bound_s": {str(bound): s for bound, s in prediction.time_by_bound_s.items()},
                "complete": prediction.complete,
                "errors": [{"source": e.source, "low": e.low, "high": e.high} for e in prediction.errors],
                "hit_rates": hit_rates_document(prediction.hit_rates),
                "assumptions": [plain(str(assumption)) for assumption in prediction.assumptions],
                "warnings": [plain(warning) for warning in prediction.warnings],
                "loops": [_region_document(region, measured) for region in prediction.regions],
            }
            for prediction, rank in zip(predictions, ranks(predictions), strict=True)
        ],
        "refused": [{"machine": name, "reason": plain(str(error))} for name, error in refused.items()],
    }


def _measured_document(measured: _Measured, predictions: tuple[Prediction, ...]) -> dict[str, Any]:
    timing = measured.timing
    return {
        "measured": {
            "shortest_cpu_s": timing.shortest.cpu_s,
            "shortest_wall_s": min(run.wall_s for run in timing.runs),
            "kernel_s": timing.shortest.system_s,
            "spread": timing.spread,
            "runs": len(timing.runs),
            "undisturbed_runs": timing.undisturbed_runs,
            "reference_slowdown": timing.shortest.slowdown,
            "least_alone_s": timing.least_alone_s,
            "time_s": timing.time_s,
            "segments": None if timing.segments is None else asdict(timing.segments),
            "undivided": plain(timing.undivided),
            "clock_hz": timing.clock_hz,
            "samples": timing.num_samples,
            "sampled_by": timing.method,
        },
        "anchored": [
            {
                "machine": one.machine,
                "anchor": one.anchor,
                "measured_s": one.measured_s,
                "time_s": one.time_s,
                "low_s": one.low_s,
                "high_s": one.high_s,
                "ratio": one.ratio,
                "by_region": one.by_region,
            }
            for one in measured.anchored(predictions)
        ],
    }


def _region_document(region: RegionTime, measured: _Measured | None = None) -> dict[str, Any]:
    share = {} if measured is None else {"measured_share": measured.samples.share(region)}
    return (
        share
        | place_document(region.place)
        | {
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
            "pages_s": region.pages_s,
        }
    )


def short_place(place: Place) -> str:
    """`file:line` without directories, safe to print."""
    name = Path(place.file or place.module).name
    return plain(f"{name}:{place.line}" if place.file else name)


def _show(
    predictions: tuple[Prediction, ...], refused: Mapping[str, ForetraceError], top: int, measured: _Measured | None
) -> None:
    out = console()
    ranked = len(predictions) > 1
    rows = table(
        *(["rank"] if ranked else []), "machine", "time", "low", "high", "bound by", "hits", "hit rates are",
        left=("rank", "machine", "bound by", "hits", "hit rates are"),
    )  # fmt: skip
    for prediction, rank in zip(predictions, ranks(predictions), strict=True):
        levels = ", ".join(f"{plain(v.name)} {v.hit_rate:.1%}" for v in prediction.hit_rates.levels)
        rows.add_row(
            *([str(rank)] if ranked else []),
            plain(prediction.machine), format_seconds(prediction.time_s), format_seconds(prediction.low_s),
            format_seconds(prediction.high_s), str(prediction.bound_by), levels, str(prediction.hit_rates.source),
        )  # fmt: skip
    out.print(rows)
    _show_waiting(predictions)
    if measured is not None:
        _show_measured(measured, predictions)
    for name, error in refused.items():
        out.print(f"not predicted: {plain(name)}: {plain(str(error))}")
    for warning in dict.fromkeys(warning for prediction in predictions for warning in prediction.warnings):
        out.print(f"warning: {plain(warning)}")
    for prediction in predictions:
        _show_regions(prediction, top, measured)


def _show_waiting(predictions: tuple[Prediction, ...]) -> None:
    """What the program waited for when it was traced, where that is worth a word beside the times."""
    waiting = predictions[0].waiting if predictions else None
    if waiting is None:
        return
    least_s = max(_LEAST_WAITING_S, 0.01 * min(prediction.time_s for prediction in predictions))
    if waiting.waited_s < least_s:
        return
    ran_s = min(waiting.children_s, waiting.waited_s)
    but = f" but for {format_seconds(ran_s)} that child processes ran" if ran_s >= least_s else ""
    console().print(
        f"and {format_seconds(waiting.waited_s)} of waiting (sleep, I/O, locks), which no machine shortens{but}",
        soft_wrap=True,
    )


def _show_measured(measured: _Measured, predictions: tuple[Prediction, ...]) -> None:
    out = console()
    timing = measured.timing
    runs = "1 run" if len(timing.runs) == 1 else f"{len(timing.runs)} runs, median {timing.spread:+.1%}"
    at = "" if timing.clock_hz is None else f" at {format_hz(timing.clock_hz)}"
    out.print(
        f"\nmeasured: {format_seconds(timing.shortest.cpu_s)} of a processor ({runs}; {timing.num_samples} samples by "
        f"{plain(timing.method)}{said_of_segments(timing)}){at}",
        soft_wrap=True,
    )
    if timing.segments is None and timing.least_alone_s < timing.shortest.cpu_s:
        out.print(f"{said_of_neighbours(timing)}: alone it may take {format_seconds(timing.least_alone_s)}")
    anchored = measured.anchored(predictions)
    if anchored:
        out.print(f"anchored: that time, scaled from {plain(anchored[0].anchor)} by the model's ratio")
        rows = table("machine", "time", "low", "high", "ratio")
        for one in sorted(anchored, key=lambda one: one.time_s):
            times = (format_seconds(value) for value in (one.time_s, one.low_s, one.high_s))
            rows.add_row(plain(one.machine), *times, f"{one.ratio:.3f}")
        out.print(rows)


def _show_regions(prediction: Prediction, top: int, measured: _Measured | None) -> None:
    out = console()
    shown = [region for region in prediction.regions[:top] if region.time_s > 0]
    if shown:
        rows = table(
            *([] if measured is None else ["measured"]),
            "share", "time", "source", "function", "kind", "iterations", "bound by",
            left=("source", "function", "kind", "bound by"),
        )  # fmt: skip
        for region in shown:
            share = None if measured is None else measured.samples.share(region)
            shown_share = () if measured is None else ("-" if share is None else f"{share:.1%}",)
            rows.add_row(
                *shown_share, f"{region.share:.1%}", format_seconds(region.time_s), short_place(region.place),
                plain(region.place.function), str(region.kind), format_count(region.iterations), str(region.bound_by),
            )  # fmt: skip
        out.print(f"\n{plain(prediction.title)}: where the time goes", soft_wrap=True)
        out.print(rows)


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
