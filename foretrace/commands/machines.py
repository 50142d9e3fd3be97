"""`foretrace machines`: list, explain, check and compare machine profiles."""

from __future__ import annotations

from pathlib import Path

import click

from foretrace.api.machines import machines
from foretrace.api.predictions import predict_on
from foretrace.base.errors import ProfileError
from foretrace.base.terminal import plain
from foretrace.benchmarks.calibration.agreement import differences
from foretrace.command_line.verb import VerbGroup
from foretrace.profiles import interconnect as interconnects
from foretrace.profiles.charts import charts_of, chosen
from foretrace.profiles.interconnect import interconnect_of
from foretrace.profiles.library import find
from foretrace.profiles.plausibility import doubts
from foretrace.profiles.profile_file import read_profile
from foretrace.profiles.published import read_published
from foretrace.reports.interconnect_reports import interconnect_report, interconnects_report
from foretrace.reports.machine_reports import (
    check_report,
    comparison_report,
    machine_report,
    machines_report,
    published_document,
    published_report,
)
from foretrace.reports.plots import draw_charts

from .output_options import Output, output_options


@click.group(cls=VerbGroup, invoke_without_command=True, epilog="Example: foretrace machines show convey-hc1-fpga")
@click.option("--networks", is_flag=True, help="List the interconnects that join nodes, in place of machines.")
@click.pass_context
@output_options()
def command(context: click.Context, networks: bool, output: Output) -> None:
    """List the machines that come with foretrace."""
    if context.invoked_subcommand is not None:
        if networks:
            raise click.UsageError(f"--networks does not go with {context.invoked_subcommand}", context)
        if output.format is not None:
            raise click.UsageError(f"put --{output.format} behind {context.invoked_subcommand}", context)
        return
    if networks:
        output.show(interconnects_report([interconnect_of(name) for name in interconnects.names()]))
        return
    output.show(machines_report(machines()))


@command.command(epilog="Example: foretrace machines show jaguar-xt4 --json")
@click.argument("machine")
@click.option(
    "--curve", "wanted", multiple=True, metavar="TITLE",
    help="Draw only this curve, named as in the picture's legend (repeatable).",
)  # fmt: skip
@output_options(pictures="its curves", json_help="Print one JSON object, with every figure.")
def show(machine: str, wanted: tuple[str, ...], output: Output) -> None:
    """Explain MACHINE, a known name or a profile's path: every figure and where it comes from, its curves drawn.

    MACHINE may also be the name of an interconnect (machines --networks).
    """
    if wanted and not output.pictures:
        raise click.UsageError("--curve chooses what -o draws: name a picture")
    if machine in interconnects.names():
        if output.pictures:
            raise ProfileError(f"{machine}: is an interconnect, which has no curve to draw")
        output.show(interconnect_report(interconnect_of(machine)))
        return
    profile = find(machine)
    if output.pictures:
        charts = charts_of(profile)
        if not charts:
            raise ProfileError(f"{machine}: has no latency, bandwidth or gather/scatter curve to draw")
        charts = chosen(charts, wanted, machine) if wanted else charts
        output.draw(lambda picture_format: draw_charts(charts, plain(profile.title), picture_format))
    output.show(machine_report(profile), prints=not output.pictures)


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
@output_options()
def check(file: Path | None, published: Path | None, signature: Path | None, output: Output) -> None:
    """Check FILE, a profile of your own: what contradicts, what is missing and what the model assumes for it.

    With --published, compares its bandwidths and figures with those of a CSV file (docs/machine-profiles.md).
    """
    if signature is not None and (published is not None or file is None):
        raise click.UsageError("--signature goes with FILE, and not with --published")
    if published is not None:
        _check_published(str(file) if file is not None else None, published, output)
        return
    if file is None:
        raise click.UsageError("name a profile, or published figures with --published")
    profile = read_profile(file)
    predictions = () if signature is None else predict_on(signature, (profile,), cores=1, costs=True)
    output.show(check_report(file, profile, predictions))
    if contradictions := doubts(profile):
        raise ProfileError(
            f"{file}: {len(contradictions)} of its figures contradict others beyond their noise, see above"
        )


def _check_published(name: str | None, published: Path, output: Output) -> None:
    figures = read_published(published)
    names = [name] if name is not None else list(dict.fromkeys(one.machine for one in figures))
    output.show(published_report([published_document(find(one), figures) for one in names]))


@command.command(epilog="Example: foretrace machines compare epyc-7763 epyc-9654")
@click.argument("before")
@click.argument("after")
@click.option("--all", "show_all", is_flag=True, help="List every figure, also those that agree.")
@output_options(json_help="Print one JSON object, with every figure.")
def compare(before: str, after: str, show_all: bool, output: Output) -> None:
    """Compare BEFORE and AFTER, names or profiles' paths, figure by figure.

    Of two calibrations of a machine it lists what differs by more than 5 %, and whether one of them said so beforehand,
    by its noise.
    """
    profiles = find(before), find(after)
    output.show(comparison_report(profiles, (before, after), differences(*profiles), show_all=show_all))
