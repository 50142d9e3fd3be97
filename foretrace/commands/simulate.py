"""`foretrace simulate`: the cache simulator alone, on a stored stream or another tool's trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from foretrace.api.simulations import Row, loop_rows, operation_rows, simulate, total
from foretrace.base.terminal import console, plain, print_json, table
from foretrace.base.units import format_bytes, format_count, format_seconds
from foretrace.command_line.verb import Verb
from foretrace.reports.cache_reports import hierarchy_documents, show_hierarchies
from foretrace.tracer.stored.foreign import FORMATS, STORED
from foretrace.tracer.stored.simulate import OUTPUT_FORMATS, SimulatedStream
from foretrace.tracer.stored.simulate import Progress as Report

from .caches import cache_options

_PATTERNS = ("repeated", "unit_stride", "strided", "irregular")


@click.command(
    cls=Verb,
    epilog="\b\nExamples:\n  foretrace simulate app.fts --hierarchy L1=48K/12/64,L2=2M/16/64\n"
    "  foretrace simulate trace.txt.gz --convert trace.fts\n"
    "  valgrind --tool=lackey --trace-mem=yes --log-fd=9 ls 9>&1 >/dev/null | foretrace simulate -",
)
@click.argument("stream")
@cache_options
@click.option(
    "--format",
    "name",
    type=click.Choice(["auto", *FORMATS, STORED]),
    default="auto",
    show_default=True,
    help="What STREAM is; auto looks at its beginning.",
)
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
@click.option("--force", is_flag=True, help="Overwrite FILE if it is a stored stream.")
@click.option("--top", default=10, show_default=True, type=click.IntRange(min=0), help="How many operations to show.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with all loops and the top operations.")
def command(
    stream: str,
    machines: tuple[str, ...],
    hierarchies: tuple[str, ...],
    name: str,
    access_bytes: str | None,
    partial: bool,
    convert: Path | None,
    convert_format: str,
    force: bool,
    top: int,
    as_json: bool,
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
            format=name,
            access_bytes=None if access_bytes is None else int(access_bytes),
            partial=partial,
            convert_to=convert,
            convert_format=convert_format,
            force=force,
            on_progress=on_progress,
        )
    if as_json:
        print_json(document(simulated, top))
    else:
        _show(simulated, top)


def document(simulated: SimulatedStream, top: int) -> dict[str, Any]:
    """The JSON face."""
    statistics = simulated.simulator.statistics()
    names = [(h.hierarchy.name, [v.name for v in h.hierarchy.levels]) for h in simulated.simulator.simulated()]
    reuse = simulated.simulator.reuse()
    is_store = np.zeros(statistics.num_operations, bool)
    is_store[[i for i, place in enumerate(simulated.places) if place.is_store]] = True

    def row(row: Row) -> dict[str, Any]:
        known = {"module": row.module, "function": row.function, "file": row.file, "line": row.line}
        if row.offset is not None:
            known |= {"offset": row.offset, "is_store": row.is_store}
        return known | {
            "executions": row.executions,
            "bytes": row.total_bytes,
            "misses": [
                {"name": name, "levels": dict(zip(levels, counts, strict=True))}
                for (name, levels), counts in zip(names, row.misses, strict=True)
            ],
        }

    return {
        "schema": "foretrace.simulate/1",
        "stream": simulated.name,
        "format": simulated.format,
        "complete": not simulated.problem,
        "incomplete_reason": simulated.problem,
        "command": list(simulated.command),
        "notes": list(simulated.notes),
        "totals": {
            "instructions": simulated.instructions,
            "loads": simulated.loads,
            "stores": simulated.stores,
            "load_bytes": total(statistics.total_bytes[~is_store]),
            "store_bytes": total(statistics.total_bytes[is_store]),
        },
        "patterns": {name: total(getattr(statistics, name)) for name in _PATTERNS},
        "hierarchies": list(hierarchy_documents(simulated.simulator.simulated(), simulated.loads + simulated.stores)),
        "reuse": None if reuse is None else reuse.document,
        "loops": [row(loop) for loop in loop_rows(simulated)],
        "operations": [row(operation) for operation in operation_rows(simulated)[:top]],
        "wall_s": simulated.wall_s,
    }


def _show(simulated: SimulatedStream, top: int) -> None:
    out, statistics = console(), simulated.simulator.statistics()
    accesses = simulated.loads + simulated.stores
    rate = f", {format_count(accesses / simulated.wall_s)} accesses/s" if simulated.wall_s else ""
    out.print(f"stream        {plain(simulated.name)}, {simulated.format}, {format_seconds(simulated.wall_s)}{rate}")
    if simulated.command:
        out.print(f"command       {plain(' '.join(simulated.command))}")
    out.print(f"complete      {'yes' if not simulated.problem else 'no: ' + plain(simulated.problem)}")
    for note in simulated.notes:
        out.print(f"note          {plain(note)}")
    if simulated.instructions is not None:
        out.print(f"instructions  {format_count(simulated.instructions)}")
    out.print(f"loads         {format_count(simulated.loads)}")
    out.print(f"stores        {format_count(simulated.stores)}")
    out.print(f"bytes         {format_bytes(total(statistics.total_bytes))}")
    classed = max(1, sum(total(getattr(statistics, name)) for name in _PATTERNS))
    shares = ", ".join(
        f"{name.replace('_', ' ')} {total(getattr(statistics, name)) / classed:.1%}" for name in _PATTERNS
    )
    out.print(f"patterns      {shares}")
    show_hierarchies(simulated.simulator.simulated(), accesses)
    _show_rows("loops", loop_rows(simulated), simulated, top)
    _show_rows("operations", operation_rows(simulated), simulated, top)


def _show_rows(what: str, rows: Sequence[Row], simulated: SimulatedStream, top: int) -> None:
    if not rows or not top:
        return
    levels = simulated.simulator.simulated()[0].hierarchy.levels
    headings = ["where", *(["kind"] if what == "operations" else []), "executions", "bytes"]
    shown = table(
        *headings, *(f"{plain(level.name)} misses" for level in levels),
        title=f"{what} by misses of {plain(levels[-1].name)}, {min(top, len(rows))} of {len(rows)}",
        left=("where", "kind"),
    )  # fmt: skip
    for row in rows[:top]:
        kind = [] if row.is_store is None else ["store" if row.is_store else "load"]
        shown.add_row(
            plain(_where(row)), *kind, format_count(row.executions), format_bytes(row.total_bytes),
            *(format_count(misses) for misses in row.misses[0]),
        )  # fmt: skip
    out = console()
    out.print()
    out.print(shown)


def _where(row: Row) -> str:
    source = f"{Path(row.file).name}:{row.line}" if row.file else ""
    if row.function or source:
        return " ".join(filter(None, (row.function, source)))
    if row.module or row.offset:
        return f"{Path(row.module).name}{'+' if row.module else ''}{row.offset or 0:#x}"
    return "unknown"


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
