"""`foretrace predict`: run time of a signature's program on other machines."""

from __future__ import annotations

from pathlib import Path

import click

from foretrace.api.machines import find_machine
from foretrace.api.machines import machines as known_machines
from foretrace.api.predictions import predict_on, question_of
from foretrace.api.signatures import read_signature
from foretrace.command_line.parameters import EventCount, NumberRange, ThreadCounts
from foretrace.command_line.verb import Verb
from foretrace.replay.base.records import Model
from foretrace.replay.base.totals import By
from foretrace.reports.prediction_documents import Measured
from foretrace.reports.prediction_reports import prediction_report
from foretrace.reports.speedup_reports import speedup_picture
from foretrace.tracer.native.timing_file import read_timing

from .output_options import Output, output_options


@click.command(
    cls=Verb,
    epilog="\b\nExamples:\n  foretrace predict app.sig --machine jaguar-xt4 --machine here.toml\n"
    "  foretrace predict app.sig --all --set solver::iterations=900 --per solver::iterations",
)
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
@click.option(
    "--model",
    type=click.Choice([str(model) for model in Model]),
    default=str(Model.CORE),
    show_default=True,
    help="The detailed core model, or the convolution of memory references with the MultiMAPS surface as published.",
)
@click.option(
    "--threads", "counts", type=ThreadCounts(), metavar="N,...",
    help="Predict with these numbers of threads: times, speed-up and its limits. As many as were traced if not given.",
)  # fmt: skip
@click.option(
    "--cores", type=int, metavar="N",
    help="Of the machine, for the threads to run on; all if not given. 1 without --threads: one core does all work.",
)  # fmt: skip
@click.option("--per", metavar="EVENT", help="Also the time per unit of a software-defined event.")
@click.option(
    "--set", "wanted", metavar="EVENT=N", type=EventCount(),
    help="Predict the run in which that event counts up to N, by the work that keeps pace with it.",
)  # fmt: skip
@click.option("--top", default=5, show_default=True, type=click.IntRange(min=0), help="Rows shown per machine.")
@click.option(
    "--by",
    type=click.Choice(["loop", "line", "function"]),
    default="loop",
    show_default=True,
    help="Sum up the time by loop or array operation, by source line, or by function.",
)
@click.option("--all-loops", is_flag=True, help="Show all of these rows, those below 0.1 % of the time, too.")
@click.option("--assumptions", is_flag=True, help="Say in full what was assumed where a profile is silent.")
@output_options(pictures="the speed-up", json_help="Print one JSON object, with all loops.")
def command(
    signature: Path,
    machines: tuple[str, ...],
    every: bool,
    timing_file: Path | None,
    anchor_machine: str | None,
    clock_ghz: float | None,
    model: str,
    counts: tuple[int, ...] | None,
    cores: int | None,
    per: str | None,
    wanted: tuple[str, float] | None,
    top: int,
    by: str,
    all_loops: bool,
    assumptions: bool,
    output: Output,
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
    if counts is None and output.pictures:
        raise click.UsageError("a picture shows the speed-up by threads: give --threads, too")
    if timing_file is not None and (counts is not None or cores not in (None, 1)):
        raise click.UsageError(
            "--timing is about the processor time of all threads: it goes with neither --threads nor --cores but 1"
        )
    if timing_file is not None and (per is not None or wanted is not None):
        raise click.UsageError("--timing is about the traced run: it goes with neither --per nor --set")
    question = question_of(dict([wanted] if wanted is not None else []), per)
    profiles = [*(known_machines().hosts if every else ()), *map(find_machine, machines)]
    read = read_signature(signature)
    found = predict_on(
        read, {profile.name: profile for profile in profiles}.values(), clock_ghz, model, counts,
        1 if timing_file is not None else cores, question, costs=assumptions and not every,
    )  # fmt: skip
    predictions, refused = tuple(found), found.refused
    for name, error in refused.items():
        if not predictions or not every or name in machines:
            raise error
    measured = None if timing_file is None else Measured.of(read, read_timing(timing_file), anchor_machine)
    output.draw(lambda picture_format: speedup_picture(predictions, picture_format))
    output.show(
        prediction_report(
            predictions, refused, measured, By(by), by_threads=counts is not None, top=None if all_loops else top,
            assumptions=assumptions, per=per is not None,
        )
    )  # fmt: skip
