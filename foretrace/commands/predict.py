"""`foretrace predict`: run time of a signature's program on other machines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from foretrace.api.machines import find_machine
from foretrace.api.machines import machines as known_machines
from foretrace.api.predictions import predict_on, question_of, warnings_once
from foretrace.api.signatures import read_signature
from foretrace.base.errors import ForetraceError
from foretrace.base.terminal import console, plain, print_json, table
from foretrace.base.units import format_count, format_hz, format_seconds
from foretrace.command_line.parameters import EventCount, NumberRange, ThreadCounts
from foretrace.command_line.verb import Verb
from foretrace.profiles.ranges import Assumption
from foretrace.replay.base.ranking import ranks
from foretrace.replay.base.records import LEAST_SHOWN_SHARE, LoopTime, Model, Place, Prediction
from foretrace.replay.base.totals import By, totals
from foretrace.reports.assumption_costs import show_assumption_costs
from foretrace.reports.event_time_reports import show_event
from foretrace.reports.prediction_documents import Measured, document
from foretrace.reports.speedup_reports import check_curve, show_threads, write_curve
from foretrace.tracer.native.timing_file import read_timing

from .time import said_of_neighbours, said_of_segments

_LEAST_WAITING_S = 1e-3


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
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Picture of the speed-up: .svg, .png or .pdf.")
@click.option("--force", is_flag=True, help="Overwrite pictures that foretrace drew.")
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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with all loops.")
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
    output: Path | None,
    force: bool,
    top: int,
    by: str,
    all_loops: bool,
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
    if counts is None and output is not None:
        raise click.UsageError("a picture shows the speed-up by threads: give --threads, too")
    if timing_file is not None and (counts is not None or cores not in (None, 1)):
        raise click.UsageError(
            "--timing is about the processor time of all threads: it goes with neither --threads nor --cores but 1"
        )
    if timing_file is not None and (per is not None or wanted is not None):
        raise click.UsageError("--timing is about the traced run: it goes with neither --per nor --set")
    question = question_of(dict([wanted] if wanted is not None else []), per)
    if output is not None:
        check_curve(output, force=force)
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
    if output is not None:
        write_curve(predictions, output, force=force)
    if as_json:
        print_json(document(predictions, refused, measured, By(by)))
    elif counts is not None:
        show_threads(predictions, refused)
    else:
        _show(predictions, refused, measured)
        if question is not None and predictions:
            show_event(predictions, per=per is not None, top=None if all_loops else top)
        for prediction in predictions:
            _show_loops(prediction, By(by), None if all_loops else top, measured)
        if assumptions or len(predictions) == 1:
            _show_assumptions(predictions)
            for prediction in predictions:
                show_assumption_costs(prediction)
        else:
            _count_assumptions(predictions)


def short_place(place: Place) -> str:
    """`Place.text`, safe to print."""
    return plain(place.text)


def _show(
    predictions: tuple[Prediction, ...], refused: Mapping[str, ForetraceError], measured: Measured | None
) -> None:
    out = console()
    sources = {str(prediction.hit_rates.source) for prediction in predictions}
    several = len(predictions) > 1
    threads = max((prediction.threads for prediction in predictions), default=1)
    rows = table(
        *(["rank"] if several else []), "machine", "time", "low", "high",
        *(["cores", "speed-up", "limited by"] if threads > 1 else []), "bound by", "hits",
        *(["hit rates are"] if len(sources) > 1 else []), *(["assumed"] if several else []),
        left=("rank", "machine", "limited by", "bound by", "hits", "hit rates are"),
        drop=("hit rates are", "hits", "limited by", "bound by"),
        whole=("rank", "machine", "limited by", "bound by", "hits"),
    )  # fmt: skip
    for prediction, rank in zip(predictions, ranks(predictions), strict=True):
        levels = ", ".join(f"{plain(v.name)} {v.hit_rate:.1%}" for v in prediction.hit_rates.levels)
        assumed = len({assumption.name for assumption in prediction.assumptions})
        rows.add_row(
            *([str(rank)] if several else []),
            plain(prediction.machine), format_seconds(prediction.time_s), format_seconds(prediction.low_s),
            format_seconds(prediction.high_s), *(_scaled(prediction) if threads > 1 else []), str(prediction.bound_by),
            levels,
            *([str(prediction.hit_rates.source)] if len(sources) > 1 else []), *([str(assumed)] if several else []),
        )  # fmt: skip
    out.print(rows)
    if threads > 1:
        out.print(
            f"times are of {threads} threads, as traced, on as many cores as there are for them; --threads 1,2,4 "
            "predicts other numbers, --cores 1 one core that does all work",
            soft_wrap=True,
        )
    if len(sources) == 1:
        out.print(f"hit rates: {sources.pop()}")
    _show_waiting(predictions)
    if measured is not None:
        _show_measured(measured, predictions)
    for name, error in refused.items():
        out.print(f"not predicted: {plain(name)}: {plain(str(error))}")
    for warning in warnings_once(predictions):
        out.print(f"warning: {plain(warning)}")


def _scaled(prediction: Prediction) -> list[str]:
    """Cores, speed-up, and what limits it."""
    scaling = prediction.scaling
    if scaling is None:
        return [str(prediction.cores), "-", "-"]
    return [str(prediction.cores), f"{scaling.speedup:.2f}", str(scaling.limit)]


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


def _show_measured(measured: Measured, predictions: tuple[Prediction, ...]) -> None:
    out = console()
    timing = measured.timing
    runs = "1 run" if len(timing.runs) == 1 else f"{len(timing.runs)} runs, median {timing.spread:+.1%}"
    at = "" if timing.clock_hz is None else f" at {format_hz(timing.clock_hz)}"
    out.print(
        f"\nmeasured: {format_seconds(timing.shortest.cpu_s)} of a processor ({runs}; {timing.num_samples} samples by "
        f"{plain(timing.method)}{said_of_segments(timing)}){at}"
    )
    elsewhere = measured.samples.elsewhere
    if timing.num_samples and elsewhere:
        out.print(
            f"{elsewhere} of the {timing.num_samples} samples ({elsewhere / timing.num_samples:.0%}) were in no loop "
            "or function that was traced, but in the kernel or in code that is not in the signature: the measured "
            "shares of the loops are of all samples"
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


def _show_loops(prediction: Prediction, by: By, top: int | None, measured: Measured | None) -> None:
    """The `top` rows of most time, of those with a share that shows; None: all that took time."""
    if top == 0:
        return
    shares = measured is not None and by is By.LOOP
    columns = ["source", "function", "what", *(["iterations"] if by is By.LOOP else []), "bound by"]
    rows = table(
        *(["measured"] if shares else []), "share", "time", *columns,
        left=("source", "function", "what", "bound by"), drop=("iterations",), whole=("bound by",),
    )  # fmt: skip
    parts = prediction.loops if by is By.LOOP else totals(prediction, by)
    shown = [part for part in parts if part.time_s > 0 and (top is None or part.share >= LEAST_SHOWN_SHARE)][:top]
    for part in shown:
        share = measured.samples.share(part) if measured is not None and isinstance(part, LoopTime) else None
        count = [format_count(part.iterations)] if isinstance(part, LoopTime) else []
        rows.add_row(
            *(["-" if share is None else f"{share:.1%}"] if shares else []), f"{part.share:.1%}",
            format_seconds(part.time_s), short_place(part.place), plain(part.place.name),
            plain(part.label), *count, str(part.bound_by),
        )  # fmt: skip
    if not shown:
        return
    out = console()
    of_all = "" if prediction.threads == 1 else ", in core seconds of all threads"
    out.print(f"\n{plain(prediction.title)}: where the time goes{of_all}")
    out.print(rows)
    hidden = [part for part in parts if part.time_s > 0 and part not in shown]
    if hidden and top is not None and len(shown) < top:
        hidden_s = sum(part.time_s for part in hidden)
        out.print(
            f"{len(hidden)} that take less than 0.1 % each, {format_seconds(hidden_s)} together: --all-loops shows them"
        )


def show_assumptions(assumptions: Sequence[Assumption], *, in_full: bool) -> None:
    """Each assumption once, or how many figures they are about."""
    texts = dict.fromkeys(str(assumption) for assumption in assumptions)
    if not texts:
        return
    out = console()
    if in_full:
        out.print("\nassumed")
        for text in texts:
            out.print(f"  {plain(text)}")
    else:
        figures = "1 figure is" if len(texts) == 1 else f"{len(texts)} figures are"
        out.print(f"\n{figures} in no profile and assumed; --assumptions lists them")


def _count_assumptions(predictions: tuple[Prediction, ...]) -> None:
    if any(prediction.assumptions for prediction in predictions):
        console().print(
            "\nassumed: how many figures a machine's profile lacks that this program needs; --assumptions lists them"
        )


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
        console().print(f"  {plain(text + made_for)}")
