"""`foretrace validate`: predictions beside measured run times, and reference figures beside foretrace's own."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

from foretrace.base.errors import ProfileError
from foretrace.base.terminal import plain
from foretrace.command_line.verb import Verb
from foretrace.reports.plots import draw_predictions

from .output_options import Output, output_options

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
@output_options(pictures="predicted relative to measured times")
def command(
    machine: str, only: str, quick: bool, runs: int, under: str, directory: Path | None, documents: tuple[str, ...],
    output: Output,
) -> None:  # fmt: skip
    """Compare predictions for this machine with measured run times, and foretrace with published figures.

    The profile is measured beforehand: nothing is fitted to the programs. Needs compilers and QEMU, and takes minutes.
    With --compare, say whether predictions rank several machines as measured times do.
    """
    from foretrace.benchmarks.harness.suite import QUICK, choose
    from foretrace.benchmarks.validation.run_times import Machine
    from foretrace.benchmarks.validation.validate import validate
    from foretrace.reports.validation_reports import validation_report

    if documents:
        _compare(documents, directory, output)
        return
    if machine.endswith(".toml") and not Path(machine).exists():
        raise ProfileError(f"{machine}: no such profile; measure this machine first: foretrace calibrate -o {machine}")
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
    points = [
        (row.program, row.measured.time_s, row.predicted_s, row.low_s, row.high_s) for row in validation.run_times.rows
    ]
    output.draw(lambda picture_format: draw_predictions(points, picture_format))
    output.show(validation_report(validation))


def _compare(documents: tuple[str, ...], directory: Path | None, output: Output) -> None:
    """Whether predictions rank the machines of these documents as measured times do."""
    from foretrace.benchmarks.validation.machine_ranking import rank
    from foretrace.benchmarks.validation.validation_file import find_validation
    from foretrace.reports.ranking_reports import ranking_report

    if len(documents) < 2 or directory is None:
        raise click.UsageError("--compare is given twice or more, and --directory, where the programs' signatures are")
    if output.pictures:
        raise click.UsageError("a picture shows times measured on one machine: give -o or --compare")
    machines = [find_validation(document) for document in documents]
    with _progress() as progress:
        ranking = rank(machines, directory, progress)
    output.show(ranking_report(ranking))


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
