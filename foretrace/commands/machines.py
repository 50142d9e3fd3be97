"""`foretrace machines`: list, explain, check and compare machine profiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import msgspec

from foretrace.api.machines import machines, summary
from foretrace.api.predictions import predict_on
from foretrace.base.errors import ForetraceError, ProfileError
from foretrace.base.file_kinds import PICTURE
from foretrace.base.files import check_output, write_atomically
from foretrace.base.terminal import console, plain, print_json
from foretrace.benchmarks.calibration.agreement import Difference, differences
from foretrace.command_line.verb import VerbGroup
from foretrace.profiles.charts import charts_of, chosen
from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.library import find
from foretrace.profiles.plausibility import doubts
from foretrace.profiles.profile import MachineKind, Profile
from foretrace.profiles.profile_file import read_profile
from foretrace.profiles.published import PublishedFigure, read_published
from foretrace.profiles.ranges import Assumption
from foretrace.replay.figures.machine_figures import figures_of
from foretrace.replay.limits.published import compare_published
from foretrace.replay.offload.devices.device import Device
from foretrace.reports.assumption_costs import costs_document, show_assumption_costs
from foretrace.reports.machine_reports import list_machines, show_check, show_comparison, show_machine, show_published
from foretrace.reports.plots import check_picture, draw_charts


@click.group(cls=VerbGroup, invoke_without_command=True, epilog="Example: foretrace machines show convey-hc1-fpga")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """List the machines that come with foretrace."""
    if context.invoked_subcommand is not None:
        if as_json:
            raise click.UsageError(f"put --json behind {context.invoked_subcommand}", context)
        return
    profiles = machines()
    if as_json:
        print_json({"schema": "foretrace.machines/1", "machines": [summary(profile) for profile in profiles]})
    else:
        list_machines(profiles, console())


@command.command(epilog="Example: foretrace machines show jaguar-xt4 --json")
@click.argument("machine")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Draw its curves into a .svg, .png or .pdf.")
@click.option(
    "--curve", "wanted", multiple=True, metavar="TITLE",
    help="Draw only this curve, named as in the picture's legend (repeatable).",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite pictures that foretrace drew.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with every figure.")
def show(machine: str, output: Path | None, wanted: tuple[str, ...], force: bool, as_json: bool) -> None:
    """Explain MACHINE, a known name or a profile's path: every figure and where it comes from, its curves drawn."""
    if output is not None:
        check_picture(output)
        check_output(output, PICTURE, force=force)
    elif wanted:
        raise click.UsageError("--curve chooses what -o draws: name a picture")
    profile = find(machine)
    if output is not None:
        charts = charts_of(profile)
        if not charts:
            raise ProfileError(f"{machine}: has no latency, bandwidth or gather/scatter curve to draw")
        charts = chosen(charts, wanted, machine) if wanted else charts
        write_atomically(output, draw_charts(charts, plain(profile.title), output.suffix[1:]), PICTURE, force=force)
    if as_json:
        print_json(document(profile))
    elif output is None:
        show_machine(profile, console())


@command.command(epilog="Examples: foretrace machines check here.toml; foretrace machines check --published speeds.csv")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option(
    "--published", type=click.Path(path_type=Path), metavar="CSV",
    help="Compare with published figures: of FILE, a profile or a known machine, or of all that the CSV file names.",
)  # fmt: skip
@click.option(
    "--signature", type=click.Path(path_type=Path), metavar="SIG",
    help="Say what each assumption costs of the width of the interval of that program's prediction.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(file: Path | None, published: Path | None, signature: Path | None, as_json: bool) -> None:
    """Check FILE, a profile of your own: what contradicts, what is missing and what the model assumes for it.

    With --published, compares its bandwidths and figures with those of a CSV file (docs/machine-profiles.md).
    """
    if signature is not None and (published is not None or file is None):
        raise click.UsageError("--signature goes with FILE, and not with --published")
    if published is not None:
        _check_published(str(file) if file is not None else None, published, as_json=as_json)
        return
    if file is None:
        raise click.UsageError("name a profile, or published figures with --published")
    profile = read_profile(file)
    found = check_document(profile)
    predictions = () if signature is None else predict_on(signature, (profile,), cores=1, costs=True)
    if as_json:
        print_json(found | {key: value for one in predictions for key, value in costs_document(one).items()})
    else:
        show_check(file, profile, found, console())
        for one in predictions:
            show_assumption_costs(one)
    if found["doubts"]:
        raise ProfileError(
            f"{file}: {len(found['doubts'])} of its figures contradict others beyond their noise, see above"
        )


def _check_published(name: str | None, published: Path, *, as_json: bool) -> None:
    figures = read_published(published)
    names = [name] if name is not None else list(dict.fromkeys(one.machine for one in figures))
    found = [published_document(find(one), figures) for one in names]
    if as_json:
        print_json({"schema": "foretrace.machines.check-published/1", "machines": found})
    else:
        show_published(found, console())


def published_document(profile: Profile, published: Sequence[PublishedFigure]) -> dict[str, Any]:
    """A machine as `machines check --published --json` prints it: values in the base unit of `unit`.

    Raises:
        ProfileError: it is no host.
    """
    made = hierarchy_of(profile)
    if profile.kind is not MachineKind.HOST or made.hierarchy is None:
        raise ProfileError(f"{profile.name}: published figures are compared with hosts that have caches")
    cores = (profile.core and profile.core.cores) or 1
    found, left = compare_published(profile, figures_of(profile, made.hierarchy), published, cores)
    return {
        "machine": profile.name,
        "figures": [asdict(one) | {"ratio": one.ratio, "inside": one.is_inside} for one in found],
        "need_a_program": [f"{one.program}: {one.metric}" for one in left],
    }


@command.command(epilog="Example: foretrace machines compare epyc-7763 epyc-9654")
@click.argument("before")
@click.argument("after")
@click.option("--all", "show_all", is_flag=True, help="List every figure, also those that agree.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with every figure.")
def compare(before: str, after: str, show_all: bool, as_json: bool) -> None:
    """Compare BEFORE and AFTER, names or profiles' paths, figure by figure.

    Of two calibrations of a machine it lists what differs by more than 5 %, and whether one of them said so beforehand,
    by its noise.
    """
    profiles = find(before), find(after)
    found = differences(*profiles)
    if as_json:
        print_json(comparison(profiles, found))
    else:
        show_comparison((before, after), found, console(), show_all=show_all)


def comparison(profiles: tuple[Profile, Profile], found: Sequence[Difference]) -> dict[str, Any]:
    """What `machines compare --json` prints. A figure that agrees or is named as unstable is not surprising."""
    return {
        "schema": "foretrace.machines.compare/1",
        "machines": [profile.name for profile in profiles],
        "figures": len(found),
        "agreeing": sum(d.agrees for d in found),
        "unstable": sum(d.unstable and not d.agrees for d in found),
        "surprising": sum(d.surprising for d in found),
        "differences": [difference.to_json() for difference in found],
    }


def document(profile: Profile) -> dict[str, Any]:
    """A machine as `machines show --json` prints it: its whole profile, and the cache hierarchy made of it."""
    made = hierarchy_of(profile)
    return {
        "schema": "foretrace.machines.show/1",
        "profile": msgspec.to_builtins(profile),
        "hierarchy": made.hierarchy.spec if made.hierarchy else None,
        "assumptions": list(made.assumptions),
    }


def check_document(profile: Profile) -> dict[str, Any]:
    """What `machines check --json` prints of a valid profile.

    `unpredictable` says why no prediction can be made with it at all, or is null. `assumed_factors` has, by name, the
    larger end of each assumed figure's range over the smaller one, null where one end is no limit.
    """
    assumptions, factors, unpredictable = list(hierarchy_of(profile).assumptions), dict[str, float | None](), None
    try:
        for one in _assumptions(profile):
            assumptions.append(str(one))
            if one.range is not None:
                factors[one.name] = float(f"{one.range.factor:.6g}") if math.isfinite(one.range.factor) else None
    except ForetraceError as error:
        unpredictable = str(error)
    return {
        "schema": "foretrace.machines.check/1",
        "name": profile.name,
        "kind": profile.kind.value,
        "doubts": list(doubts(profile)),
        "assumptions": assumptions,
        "assumed_factors": factors,
        "unpredictable": unpredictable,
        "unopened_sources": sorted(key for key, source in profile.sources.items() if not source.is_opened),
    }


def _assumptions(profile: Profile) -> tuple[Assumption, ...]:
    """What the model puts in the place of figures that are not there.

    Raises:
        PredictionError: it cannot do without one of them.
    """
    if profile.kind is MachineKind.ACCELERATOR:
        return Device.of(profile).assumptions
    hierarchy = hierarchy_of(profile).hierarchy
    if hierarchy is None:
        raise ProfileError(f"profile {profile.name}: caches are missing, without them no time can be predicted")
    figures = figures_of(profile, hierarchy)
    return figures.assumptions + figures.core_assumptions
