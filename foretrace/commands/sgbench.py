"""`foretrace sgbench`: bandwidth of gather and scatter on this machine, against the address range."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from foretrace.base.errors import HierarchyError
from foretrace.base.file_kinds import PICTURE
from foretrace.base.files import check_output, write_atomically
from foretrace.base.terminal import console, plain, print_json, progress_bar
from foretrace.base.units import format_bytes, format_bytes_per_s
from foretrace.benchmarks.calibration.sgbench import (
    ELEMENT_BYTES,
    OFFSET_BYTES,
    OPERATIONS,
    SMALLEST_BYTES,
    Loop,
    curves,
    ranges,
    run_sgbench,
)
from foretrace.benchmarks.harness.machine_facts import core_cpus, cpu_model
from foretrace.benchmarks.harness.sampling import Timing
from foretrace.cache_sim.base.level import parse_size_bytes
from foretrace.command_line.verb import Verb
from foretrace.profiles.charts import gather_scatter_charts
from foretrace.profiles.points import IndexMode
from foretrace.reports.plots import check_picture, draw_charts

_LEAST_BYTES, _MOST_BYTES = 4 * SMALLEST_BYTES, 16 << 30  # an index has 32 bits


class _Size(click.ParamType):  # type: ignore[type-arg] # generic only in click's newest versions
    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            size = value if isinstance(value, int) else parse_size_bytes(value)
        except HierarchyError:
            size = 0
        if not _LEAST_BYTES <= size <= _MOST_BYTES or size & (size - 1):
            self.fail(f"{value!r} is not a power of two from 4K to 16G, such as 256M", param, ctx)
        return size


@click.command(cls=Verb, epilog="Example: foretrace sgbench --quick --largest 16M")
@click.option("--largest", type=_Size(), default="128M", show_default=True, help="The largest address range.")
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice([mode.value for mode in IndexMode]),
    help="Only this index mode (repeatable).",
)
@click.option(
    "--element-bytes", type=click.Choice([str(size) for size in ELEMENT_BYTES]), default="8", show_default=True
)
@click.option(
    "--threads", type=click.IntRange(1, 1024), default=1, show_default=True, help="Each with arrays of its own."
)
@click.option(
    "--offset-bytes", type=click.IntRange(0, 1 << 20), default=OFFSET_BYTES, show_default=True,
    help="B begins so far behind a page's beginning, the index twice as far; a multiple of 64.",
)  # fmt: skip
@click.option("--quick", is_flag=True, help="Fewer ranges and samples: some ten seconds rather than fifty.")
@click.option(
    "-o", "--output", "outputs", multiple=True, type=click.Path(path_type=Path),
    help="Picture to write: .svg, .png or .pdf (repeatable).",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite pictures that foretrace drew.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    largest: int, modes: tuple[str, ...], element_bytes: str, threads: int, offset_bytes: int, quick: bool,
    outputs: tuple[Path, ...], force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Measure gather, scatter and update loops on this machine by address range and index mode (SGBench)."""
    if offset_bytes % 64:
        raise click.UsageError("--offset-bytes must be a multiple of 64")
    cores = len(core_cpus())
    if cores and threads > cores:
        raise click.UsageError(f"--threads is {threads}, this process may use {cores} cores")
    for output in outputs:
        check_picture(output)
        check_output(output, PICTURE, force=force)
    loops = [
        Loop(operation, IndexMode(mode), int(element_bytes), threads, size)
        for operation in OPERATIONS
        for mode in modes or IndexMode
        for size in ranges(largest, fine=not quick)
    ]
    with progress_bar("measuring gather and scatter") as report:
        timings, duration_s = run_sgbench(loops, quick=quick, offset_bytes=offset_bytes, progress=report)
    unstable = sum(not timing.is_stable for timing in timings.values())
    if unstable:
        print(
            f"foretrace: warning: {unstable} of {len(timings)} figures are unstable, see their noise", file=sys.stderr
        )
    for output in outputs:
        title = f"gather and scatter on {cpu_model()}" + (f", {threads} threads" if threads > 1 else "")
        picture = draw_charts(gather_scatter_charts(curves(timings, "here")), title, output.suffix[1:])
        write_atomically(output, picture, PICTURE, force=force)
    if as_json:
        print_json(document(timings, duration_s))
    else:
        _show(timings, console())


def document(timings: Mapping[Loop, Timing], duration_s: float) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "schema": "foretrace.sgbench/1",
        "cpu": cpu_model(),
        "duration_s": duration_s,
        "curves": [msgspec.to_builtins(curve) for curve in curves(timings, "here")],
    }


def _show(timings: Mapping[Loop, Timing], out: Console) -> None:
    kinds = list(dict.fromkeys((loop.operation, loop.index_mode) for loop in timings))
    table = Table(box=None, pad_edge=False)
    table.add_column("address range", justify="right")
    for operation, mode in kinds:
        table.add_column(plain(f"{operation} {mode}"), justify="right")
    by_place = {(loop.range_bytes, loop.operation, loop.index_mode): (loop, t) for loop, t in timings.items()}
    for size in sorted({loop.range_bytes for loop in timings}):
        cells = []
        for kind in kinds:
            loop, timing = by_place[(size, *kind)]
            cells.append(format_bytes_per_s(loop.referenced_bytes / timing.time_s))
        table.add_row(format_bytes(size), *cells)
    out.print(table)
