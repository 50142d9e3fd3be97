"""`foretrace simulate`: the cache simulator alone, on a stored stream or another tool's trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from foretrace.api.simulations import simulate
from foretrace.base.terminal import plain
from foretrace.base.units import format_count
from foretrace.command_line.verb import Verb
from foretrace.reports.simulation_reports import simulation_report
from foretrace.tracer.stored.foreign import FORMATS, STORED
from foretrace.tracer.stored.simulate import OUTPUT_FORMATS
from foretrace.tracer.stored.simulate import Progress as Report

from .caches import cache_options
from .output_options import Output, output_options

_STREAM_FORMATS = ("auto", *FORMATS, STORED)


@click.command(
    cls=Verb,
    epilog="\b\nExamples:\n  foretrace simulate app.fts --hierarchy L1=48K/12/64,L2=2M/16/64\n"
    "  foretrace simulate trace.txt.gz --convert trace.fts\n"
    "  valgrind --tool=lackey --trace-mem=yes --log-fd=9 ls 9>&1 >/dev/null | foretrace simulate -",
)
@click.argument("stream")
@cache_options
@click.option(
    "--from", "stream_format", type=click.Choice(_STREAM_FORMATS), default="auto", show_default=True,
    help="What STREAM is; auto looks at its beginning. --format takes these names, too.",
)  # fmt: skip
@click.option(
    "--access-bytes",
    type=click.Choice(["1", "2", "4", "8", "16", "32", "64"]),
    help="Size of an access where the format tells none.  [default: din 4, champsim 8]",
)
@click.option("--partial", is_flag=True, help="Take a damaged or cut-off stream up to there.")
@click.option("--convert", type=click.Path(path_type=Path), metavar="FILE", help="Also write the stream to FILE.")
@click.option(
    "--to",
    "convert_format",
    type=click.Choice(OUTPUT_FORMATS),
    default=STORED,
    show_default=True,
    help="FILE's format.",
)
@click.option("--top", default=10, show_default=True, type=click.IntRange(min=0), help="How many operations to show.")
@output_options(json_help="Print one JSON object, with all loops and the top operations.", also=_STREAM_FORMATS)
def command(
    stream: str,
    machines: tuple[str, ...],
    hierarchies: tuple[str, ...],
    stream_format: str,
    access_bytes: str | None,
    partial: bool,
    convert: Path | None,
    convert_format: str,
    top: int,
    output: Output,
    other_format: str | None,
) -> None:
    """Simulate caches on STREAM, without running a program.

    STREAM is a stored stream (foretrace trace --keep-stream), or a trace of valgrind's lackey, of Dinero (din), of
    DynamoRIO (drmemtrace: a file, or the directory with all threads) or of ChampSim; perhaps compressed (gzip, xz,
    bzip2, zip); - is standard input.
    """
    with _progress(stream) as on_progress:
        simulated = simulate(
            stream,
            hierarchies,
            machines=machines,
            format=other_format or stream_format,
            access_bytes=None if access_bytes is None else int(access_bytes),
            partial=partial,
            convert_to=convert,
            convert_format=convert_format,
            force=output.force,
            on_progress=on_progress,
        )
    output.show(simulation_report(simulated, top))


@contextmanager
def _progress(stream: str) -> Iterator[Callable[[Report], None]]:
    """A bar on the terminal; none elsewhere."""
    if not sys.stderr.isatty():
        yield lambda report: None
        return
    columns = (
        TextColumn("simulating {task.fields[stream]}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[accesses]} accesses"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True, markup=False), transient=True) as progress:
        task = progress.add_task("", total=None, stream=plain(Path(stream).name), accesses="0")

        def show(report: Report) -> None:
            progress.update(
                task, total=report.size_bytes, completed=report.read_bytes, accesses=format_count(report.accesses)
            )

        yield show
