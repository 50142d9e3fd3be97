"""`foretrace validate`: predictions beside measured run times, and reference figures beside foretrace's own."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from foretrace.base import terminal
from foretrace.base.errors import ProfileError
from foretrace.base.file_kinds import PICTURE, RANKING, VALIDATION, FileKind
from foretrace.base.files import check_output, is_standard_output, write_atomically, write_output
from foretrace.base.terminal import console, plain, print_json
from foretrace.base.units import format_bytes, format_bytes_per_s, format_hz, format_seconds
from foretrace.command_line.verb import Verb
from foretrace.reports.plots import check_picture, draw_predictions

if TYPE_CHECKING:
    from foretrace.benchmarks.validation.run_times import Row, RunTimes
    from foretrace.benchmarks.validation.validate import Validation

HERE = "here.toml"


@click.command(cls=Verb, epilog="Example: foretrace validate --machine here.toml --only fft,bfs")
@click.option(
    "--machine", metavar="M", default=HERE, show_default=True,
    help="Profile of this machine: a TOML file, as foretrace calibrate wrote it some time before, or a name.",
)  # fmt: skip
@click.option("--only", metavar="NAMES", default="", help="These programs of the suite, separated by commas.")
@click.option("--quick", is_flag=True, help="Six programs, three runs each, no published tables.")
@click.option("--runs", default=5, show_default=True, type=click.IntRange(1, 100), help="Native runs of each program.")
@click.option(
    "--under", metavar="COMMAND", default="",
    help="Run the programs by this command, such as qemu-x86_64, under which the profile was measured as well.",
)  # fmt: skip
@click.option(
    "--directory", type=click.Path(path_type=Path, file_okay=False),
    help="Keep executables, signatures and timings there; signatures found there are used again.",
)  # fmt: skip
@click.option(
    "--compare", "documents", multiple=True, metavar="FILE|NAME",
    help="Measure nothing: take what -o wrote on several machines, or comes with foretrace of one, and rank these "
    "(repeatable; needs --directory).",
)  # fmt: skip
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Also write all figures as JSON; - is standard output, in place of the report.",
)
@click.option("--picture", type=click.Path(path_type=Path), help="Also draw predicted relative to measured times.")
@click.option("--force", is_flag=True, help="Overwrite these files if foretrace wrote them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    machine: str,
    only: str,
    quick: bool,
    runs: int,
    under: str,
    directory: Path | None,
    documents: tuple[str, ...],
    output: Path | None,
    picture: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Compare predictions for this machine with measured run times, and foretrace with published figures.

    The profile is measured beforehand: nothing is fitted to the programs. Needs compilers and QEMU, and takes minutes.
    With --compare, say whether predictions rank several machines as measured times do.
    """
    from foretrace.benchmarks.harness.suite import QUICK, choose
    from foretrace.benchmarks.validation.run_times import Machine
    from foretrace.benchmarks.validation.validate import validate

    if documents:
        _compare(documents, directory, output, force=force, as_json=as_json)
        return
    if machine.endswith(".toml") and not Path(machine).exists():
        raise ProfileError(f"{machine}: no such profile; measure this machine first: foretrace calibrate -o {machine}")
    if output is not None:
        _check_document(output, VALIDATION, force=force, as_json=as_json)
    if picture is not None:
        check_output(picture, PICTURE, force=force)
        check_picture(picture)
    chosen = choose(only or (",".join(QUICK) if quick else ""))
    with _directory(directory) as work, _progress() as progress:
        validation = validate(
            work,
            Machine.of(machine),
            chosen,
            progress,
            runs=min(runs, 3) if quick else runs,
            tables=not (only or quick or under),
            under=shlex.split(under),
        )
    document = validation.as_json()
    if output is not None:
        write_output(output, json.dumps(document, indent=1).encode() + b"\n", VALIDATION, force=force)
    if picture is not None:
        points = [
            (row.program, row.measured.time_s, row.predicted_s, row.low_s, row.high_s)
            for row in validation.run_times.rows
        ]
        write_atomically(picture, draw_predictions(points, picture.suffix.removeprefix(".")), PICTURE, force=force)
    if as_json:
        print_json(document)
    elif output is None or not is_standard_output(output):
        _show(validation)


def _check_document(output: Path, kind: FileKind, *, force: bool, as_json: bool) -> None:
    """Refuse an output early that could not be written."""
    if not is_standard_output(output):
        check_output(output, kind, force=force)
    elif as_json:
        raise click.UsageError("-o - and --json both write to standard output: leave out one")


def _compare(
    documents: tuple[str, ...], directory: Path | None, output: Path | None, *, force: bool, as_json: bool
) -> None:
    """Whether predictions rank the machines of these documents as measured times do."""
    from foretrace.benchmarks.validation.machine_ranking import rank
    from foretrace.benchmarks.validation.validation_file import find_validation
    from foretrace.reports.ranking_reports import show_ranking

    if len(documents) < 2 or directory is None:
        raise click.UsageError("--compare is given twice or more, and --directory, where the programs' signatures are")
    if output is not None:
        _check_document(output, RANKING, force=force, as_json=as_json)
    machines = [find_validation(document) for document in documents]
    with _progress() as progress:
        ranking = rank(machines, directory, progress)
    if output is not None:
        write_output(output, json.dumps(ranking.as_json(), indent=1).encode() + b"\n", RANKING, force=force)
    if as_json:
        print_json(ranking.as_json())
    elif output is None or not is_standard_output(output):
        show_ranking(ranking, console())


@contextmanager
def _directory(wanted: Path | None) -> Iterator[Path]:
    if wanted is not None:
        wanted.mkdir(parents=True, exist_ok=True)
        yield wanted.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="foretrace-validate-") as name:
        yield Path(name)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Says what is being done, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    with Console(stderr=True).status("validating") as status:
        yield lambda text: status.update(plain(text))


def _show(validation: Validation) -> None:
    from foretrace.benchmarks.validation.speedup import remarks, speedup_table

    out = console()
    if validation.ranges:
        for table in (_ranges(validation), _bandwidths(validation)):
            out.print(table)
            out.print()
    times = validation.run_times
    for table in (_run_times(times), _loops(times)):
        out.print(table)
        out.print()
    if validation.speedups:
        speedup_table(validation.speedups).show()
        for line in remarks(validation.speedups):
            out.print(plain(line))
        out.print()
    elif validation.no_speedups:
        out.print(f"no speed-ups: {validation.no_speedups}")
    _show_summary(times)


def _table(title: str, *headings: str, left: int = 1) -> Table:
    """A table whose first headings are on the left, the others on the right."""
    return terminal.table(*headings, title=title, left=headings[:left])


def _ranges(validation: Validation) -> Table:
    table = _table(
        "Address ranges, bytes; paper: Carrington et al., ICS'11, table 2",
        "loop", "array", "actual", "foretrace", "error", "paper", "error",
    )  # fmt: skip
    for row in validation.ranges:
        paper = (
            [f"{row.paper_bytes:,}", f"{row.paper_bytes / row.actual_bytes - 1:+.2%}"]
            if row.paper_bytes
            else ["-", "-"]
        )
        error = row.measured_bytes / row.actual_bytes - 1
        table.add_row(row.loop, row.array, f"{row.actual_bytes:,}", f"{row.measured_bytes:,}", f"{error:+.2%}", *paper)
    return table


def _bandwidths(validation: Validation) -> Table:
    table = _table(
        "Gathering on the Convey HC-1; paper: ICS'11, equations 2 to 4",
        "address range", "equation", "paper", "foretrace",
    )  # fmt: skip
    for row in validation.bandwidths:
        values = (row.paper_bytes_per_s, row.triage_bytes_per_s)
        shown = [format_bytes_per_s(value) if value else "on the host" for value in values]
        table.add_row(f"{format_bytes(row.range_bytes)} ({row.range_bytes:,})", row.equation, *shown)
    return table


def _run_times(times: RunTimes) -> Table:
    table = _table(
        f"Processor time here, not anchored; profile {plain(times.machine.path)} of {times.machine.profile.date}",
        "program", "measured", "by", "clock", "neighbour", "alone", "predicted", "error", "convolution", "at clock",
        "interval",
        "inside",
    )  # fmt: skip
    table.add_column("bound by")
    for row in times.rows:
        table.add_row(
            row.program, format_seconds(row.measured.time_s), f"runs {row.measured.spread:+.0%}", _clock(row),
            f"{row.measured.reference_slowdown:.2f}x" if row.beside_a_neighbour else "none", _alone(row),
            format_seconds(row.predicted_s), f"{row.error:+.0%}",
            "-" if row.error_of_convolution is None else f"{row.error_of_convolution:+.0%}",
            "-" if row.error_at_clock is None else f"{row.error_at_clock:+.0%}",
            f"{format_seconds(row.low_s)} to {format_seconds(row.high_s)}", "yes" if row.inside else "no", row.bound_by,
        )  # fmt: skip
    return table


def _clock(row: Row) -> str:
    """Clock frequency of the core while the program took its time."""
    clock_hz = row.measured.time_clock_hz
    return "-" if clock_hz is None else format_hz(clock_hz)


def _alone(row: Row) -> str:
    alone = row.measured.alone
    return "-" if alone is None else f"{format_seconds(alone.time_s)} ±{alone.error_s / alone.time_s:.0%}"


def _loops(times: RunTimes) -> Table:
    """The loop of each program whose share is furthest off."""
    table = _table("Loops: the worst of each program's top five, shares of the time", "program", "loop", left=2)
    for heading in ("measured", "predicted", "points"):
        table.add_column(heading, justify="right")
    for row in times.rows:
        if row.loops:
            worst = max(row.loops, key=lambda loop: abs(loop.difference))
            table.add_row(
                row.program, plain(f"{worst.file}:{worst.line} {worst.function}"), f"{worst.measured_share:.0%}",
                f"{worst.predicted_share:.0%}", f"{100 * worst.difference:+.0f}",
            )  # fmt: skip
    return table


def _show_summary(times: RunTimes) -> None:
    out = console()
    for row in sorted(times.rows, key=lambda row: -abs(row.error)):
        if row.cause:
            out.print(f"{row.program} {row.error:+.0%}: {plain(row.cause)}", soft_wrap=True)
    for name, reason in times.skipped:
        out.print(f"left out: {name}: {plain(reason)}", soft_wrap=True)
    disturbed = [row.program for row in times.rows if row.disturbed]
    if disturbed:
        out.print(f"the machine was busy with something else beside: {', '.join(disturbed)}", soft_wrap=True)
    beside = [row.program for row in times.rows if row.beside_a_neighbour]
    if beside:
        out.print(
            f"measured beside a neighbour on the same core: {len(beside)} of {len(times.rows)} (the table has how many "
            "times longer a loop took beside them than undisturbed, and what that tells of a run alone)",
            soft_wrap=True,
        )
    apart = {
        "held out, no loop of which was looked at when the model was made": times.held_out,
        "programs of the system, as they came": times.installed,
        "textbook kernels, never looked at": times.textbook,
        "held back, all of these": times.held_back,
    }
    for what, some in apart.items():
        if some is not None:
            out.print(f"{what}: {_summary(some)}", soft_wrap=True)
    loops = times.share_of_loops_within_5_points
    out.print(
        _summary(times) + ("" if loops is None else f", {loops:.0%} of the top loops' shares within 5 points"),
        soft_wrap=True,
    )


def _summary(times: RunTimes) -> str:
    worst, alone, at_clock = times.worst, times.mean_absolute_error_alone, times.mean_absolute_error_at_clock
    published = times.mean_absolute_error_of_convolution
    beside = "" if published is None else f"; {published:.1%} by the convolution as published"
    beside += "" if alone is None else f"; {alone:.1%} of the times alone"
    beside += "" if at_clock is None else f"; {at_clock:.1%} at the clocks beside the runs"
    return (
        f"{len(times.rows)} programs: mean absolute error {times.mean_absolute_error:.1%}, worst {worst.error:+.0%} "
        f"({worst.program}), {times.share_inside:.0%} inside their interval{beside}"
    )
