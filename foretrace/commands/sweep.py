"""`foretrace sweep`: many runs on many machines, under many changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from foretrace.base.errors import SweepError
from foretrace.base.terminal import progress_bar
from foretrace.command_line.verb import Verb
from foretrace.replay.sweep.axes import AXES
from foretrace.replay.sweep.plan import Plan
from foretrace.replay.sweep.sweep import SweepResult, run_sweep
from foretrace.reports.sweep_reports import sweep_report

from .output_options import Output, output_options


def _axis_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option for each axis."""
    for axis in reversed(AXES):
        command = click.option(axis.option, axis.name, multiple=True, metavar=axis.metavar, help=axis.help)(command)
    return command


@click.command(
    cls=Verb,
    epilog="\b\nExamples:\n  foretrace sweep app.sig --machine all --threads 1,2,4 -o results.parquet\n"
    "  foretrace sweep *.sig --machine machines/ --clock 2,3 --jobs 8 -o results.csv\n"
    "  foretrace sweep trace.txt --platform cluster.xml --latency 0.5x,1x,2x",
)
@click.argument("runs", nargs=-1, metavar="RUN...")
@_axis_options
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Worker processes; one a core if not given.")
@click.option("--dask", metavar="ADDRESS", help="Use the workers of this Dask scheduler, such as tcp://host:8786.")
@click.option(
    "--journal", "journal_file", type=click.Path(path_type=Path), metavar="FILE",
    help="Keep finished points here, for later sweeps; beside the first output, until it is written, if not given.",
)  # fmt: skip
@click.option("--top", default=10, show_default=True, type=click.IntRange(min=0), help="Fastest points shown.")
@output_options(json_help="Print one JSON object, with all points.", parquet=True)
def command(
    runs: tuple[str, ...], jobs: int | None, dask: str | None, journal_file: Path | None, top: int, output: Output,
    **axes: tuple[str, ...],
) -> None:  # fmt: skip
    """Predict or replay every RUN on every machine, with every combination of the values given.

    RUN is a signature, or the time-independent trace of a parallel run. Options of the grid take several values, with
    commas or repeated. A point that fails has an error in its row, and the others go on. A sweep that was killed goes
    on where it was when the same command is given again.
    """
    if jobs is not None and dask is not None:
        raise click.UsageError("--jobs is about this machine, --dask about others: they exclude one another")
    try:
        plan = Plan.of(runs, axes)
    except SweepError as error:
        raise click.UsageError(str(error)) from None
    journal = journal_file
    if journal is None and output.files:
        journal = output.files[0].with_name(f"{output.files[0].name}.journal")
    try:
        with progress_bar(f"Sweeping {len(plan):,} points", remaining=True) as bar:
            result = run_sweep(
                plan, jobs=jobs, dask=dask, journal=journal,
                progress=(lambda done, total: bar(done / total if total else 1.0)) if bar else lambda done, total: None,
            )  # fmt: skip
    except KeyboardInterrupt:
        if journal is not None:
            click.echo(f"foretrace: finished points are in {journal}: the same command goes on from there", err=True)
        raise
    output.show(sweep_report(result, top))
    failed = len(result.failed)
    if journal is not None and journal_file is None and not failed:
        journal.unlink(missing_ok=True)
    if failed:
        raise SweepError(_said_of_failed(result, journal))


def _said_of_failed(result: SweepResult, journal: Path | None) -> str:
    kept = "" if journal is None else f"; {journal} keeps the others for another sweep"
    first = next(str(row["error"]) for row in result.failed)
    of_all = f"{len(result.failed):,} of {len(result.rows):,} points failed"
    return f"{of_all}: the column `error` says why{kept}; first: {first}"
