"""`foretrace curve`: miss ratio over cache size, from one trace."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from foretrace.api.curves import part_of
from foretrace.api.signatures import read_signature
from foretrace.base.errors import HierarchyError
from foretrace.base.terminal import plain
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.base.level import MAX_WAYS
from foretrace.command_line.verb import Verb
from foretrace.replay.memory.miss_curves import FULLY_ASSOCIATIVE, miss_curve, miss_ratio
from foretrace.reports.curve_reports import curve_report
from foretrace.reports.plots import draw_curves

from .output_options import Output, output_options


class _Ways(click.ParamType):  # type: ignore[type-arg] # generic only in click's newest versions
    name = "ways"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value == "full":
            return FULLY_ASSOCIATIVE
        if isinstance(value, int):
            return value
        if not value.isdecimal() or not 1 <= int(value) <= 1024:
            self.fail(f"{value!r} is not a number of ways from 1 to 1024, nor 'full'", param, ctx)
        return int(value)


@click.command(cls=Verb, epilog="Example: foretrace curve app.sig --function main -o curve.svg")
@click.argument("signature", type=click.Path(path_type=Path))
@click.option("--function", metavar="F", help="Of the accesses of this function only.")
@click.option("--line", metavar="FILE:LINE", help="Of the accesses of this source line only.")
@click.option(
    "--ways", "all_ways", multiple=True, type=_Ways(), default=(1, 8, FULLY_ASSOCIATIVE), metavar="N|full",
    help="A curve for each number of ways (repeatable; 1, 8 and full if none is given).",
)  # fmt: skip
@click.option(
    "--line-bytes", type=click.Choice(["32", "64", "128", "256"]), default="64", show_default=True,
    help="Line size of the caches.",
)  # fmt: skip
@click.option(
    "--cache", "caches", multiple=True, metavar="SIZE/WAYS/LINE",
    help="Instead of curves: this cache, e.g. 48K/12/64; WAYS may be full (repeatable).",
)  # fmt: skip
@output_options(pictures="the curves")
def command(
    signature: Path, function: str | None, line: str | None, all_ways: tuple[int, ...], line_bytes: str,
    caches: tuple[str, ...], output: Output,
) -> None:  # fmt: skip
    """Show how often SIGNATURE's program would miss caches of 4 KiB to 64 MiB, each as if it were the first level."""
    if function is not None and line is not None:
        raise click.UsageError("give --function or --line, not both")
    if output.pictures and caches:
        raise click.UsageError("a picture shows curves, not single caches: give -o or --cache")
    levels = [_cache(text) for text in caches]
    read = read_signature(signature)
    part = part_of(read, function, line)
    curves = [] if caches else [miss_curve(read, part, ways, int(line_bytes)) for ways in dict.fromkeys(all_ways)]
    ratios = [miss_ratio(read, part, hierarchy.levels[0]) for hierarchy in levels]
    title = f"{shlex.join(read.provenance.command)[:60]}: {part.name}, {line_bytes}-byte lines"
    output.draw(lambda picture_format: draw_curves(curves, plain(title), picture_format))
    output.show(curve_report(read, part, int(line_bytes), curves, ratios), prints=not output.pictures)


def _cache(text: str) -> Hierarchy:
    """One plain cache; `full` ways are as many as it has lines.

    Raises:
        HierarchyError: it is none.
    """
    parts = text.split("/")
    if len(parts) != 3:
        raise HierarchyError(f"{text!r} is not one cache with LRU replacement: write SIZE/WAYS/LINE, e.g. 48K/12/64")
    if parts[1] == "full":
        lines = Hierarchy.parse(f"cache={parts[0]}/1/{parts[2]}").levels[0].num_sets
        parts[1] = str(min(lines, MAX_WAYS))
    return Hierarchy.parse(f"cache={'/'.join(parts)}")
