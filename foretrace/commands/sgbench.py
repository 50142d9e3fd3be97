"""`foretrace sgbench`: bandwidth of gather and scatter on this machine, against the address range."""

from __future__ import annotations

import sys
from typing import Any

import click

from foretrace.base.errors import HierarchyError
from foretrace.base.processor import cpu_model
from foretrace.base.terminal import progress_bar
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
from foretrace.benchmarks.harness.machine_facts import core_cpus
from foretrace.cache_sim.base.level import parse_size_bytes
from foretrace.command_line.verb import Verb
from foretrace.profiles.charts import gather_scatter_charts
from foretrace.profiles.points import IndexMode
from foretrace.reports.plots import draw_charts
from foretrace.reports.sgbench_reports import sgbench_report

from .output_options import Output, output_options

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
@output_options(pictures="the curves")
def command(
    largest: int, modes: tuple[str, ...], element_bytes: str, threads: int, offset_bytes: int, quick: bool,
    output: Output,
) -> None:  # fmt: skip
    """Measure gather, scatter and update loops on this machine by address range and index mode (SGBench)."""
    if offset_bytes % 64:
        raise click.UsageError("--offset-bytes must be a multiple of 64")
    cores = len(core_cpus())
    if cores and threads > cores:
        raise click.UsageError(f"--threads is {threads}, this process may use {cores} cores")
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
    title = f"gather and scatter on {cpu_model()}" + (f", {threads} threads" if threads > 1 else "")
    output.draw(lambda name: draw_charts(gather_scatter_charts(curves(timings, "here")), title, name))
    output.show(sgbench_report(timings, duration_s))
