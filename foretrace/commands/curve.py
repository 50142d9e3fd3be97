"""`foretrace curve`: miss ratio over cache size, from one trace."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from foretrace.api.curves import part_of
from foretrace.api.signatures import read_signature
from foretrace.base.errors import HierarchyError
from foretrace.base.file_kinds import PICTURE
from foretrace.base.files import check_output, write_atomically
from foretrace.base.terminal import console, plain, print_json
from foretrace.base.units import format_bytes
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.base.level import MAX_WAYS
from foretrace.command_line.verb import Verb
from foretrace.replay.memory.miss_curves import (
    FULLY_ASSOCIATIVE,
    Curve,
    MissRatio,
    Part,
    miss_curve,
    miss_ratio,
)
from foretrace.reports.plots import check_picture, draw_curves
from foretrace.tracer.signature.records import Signature

_BAR_WIDTH = 40


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
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Picture to write: .svg, .png or .pdf.")
@click.option("--force", is_flag=True, help="Overwrite pictures that foretrace drew.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    signature: Path, function: str | None, line: str | None, all_ways: tuple[int, ...], line_bytes: str,
    caches: tuple[str, ...], output: Path | None, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Show how often SIGNATURE's program would miss caches of 4 KiB to 64 MiB, each as if it were the first level."""
    if function is not None and line is not None:
        raise click.UsageError("give --function or --line, not both")
    if output is not None and caches:
        raise click.UsageError("a picture shows curves, not single caches: give -o or --cache")
    if output is not None:
        check_picture(output)
        check_output(output, PICTURE, force=force)
    levels = [_cache(text) for text in caches]
    read = read_signature(signature)
    part = part_of(read, function, line)
    curves = [] if caches else [miss_curve(read, part, ways, int(line_bytes)) for ways in dict.fromkeys(all_ways)]
    ratios = [miss_ratio(read, part, hierarchy.levels[0]) for hierarchy in levels]
    if output is not None:
        title = f"{shlex.join(read.provenance.command)[:60]}: {part.name}, {line_bytes}-byte lines"
        write_atomically(output, draw_curves(curves, plain(title), output.suffix[1:]), PICTURE, force=force)
    if as_json:
        print_json(document(read, part, int(line_bytes), curves, ratios))
    elif caches:
        _show_caches(part, ratios)
    elif output is None:
        _show_curves(part, int(line_bytes), curves)


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


def document(
    signature: Signature, part: Part, line_bytes: int, curves: list[Curve], ratios: list[MissRatio]
) -> dict[str, Any]:
    """The JSON face."""
    return {
        "schema": "foretrace.curve/1",
        "command": list(signature.provenance.command),
        "part": part.name,
        "line_bytes": line_bytes,
        "reuse": None if signature.reuse is None else signature.reuse.document,
        "curves": [
            {"ways": curve.ways or None, "title": curve.title, "points": [asdict(point) for point in curve.points]}
            for curve in curves
        ],
        "caches": [asdict(ratio) for ratio in ratios],
    }


def _percent(ratio: MissRatio) -> str:
    error = "" if ratio.standard_error is None else f" ± {200 * ratio.standard_error:.2f}"
    return f"{100 * ratio.miss_ratio:.2f}{error}"


def _show_caches(part: Part, ratios: list[MissRatio]) -> None:
    table = Table(title=f"accesses of {plain(part.name)} that miss", title_justify="left", box=None)
    for heading in ("size", "ways", "line", "%"):
        table.add_column(heading, justify="right")
    for ratio in ratios:
        table.add_row(format_bytes(ratio.size_bytes), str(ratio.ways), f"{ratio.line_bytes} B", _percent(ratio))
    console().print(table)


def _show_curves(part: Part, line_bytes: int, curves: list[Curve]) -> None:
    """A bar for each size and curve: what a terminal can draw."""
    out = console()
    for curve in curves:
        highest = max((point.miss_ratio for point in curve.points), default=0.0) or 1.0
        title = f"accesses of {plain(part.name)} that miss, {curve.title}, {line_bytes}-byte lines"
        table = Table(title=title, title_justify="left", box=None)
        for heading in ("size", "%", ""):
            table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
        for point in curve.points:
            bar = "█" * round(_BAR_WIDTH * point.miss_ratio / highest)
            table.add_row(format_bytes(point.size_bytes), _percent(point), bar)
        out.print(table)
        out.print()
    if part.is_all:
        out.print("±: twice the standard error from sampling")
