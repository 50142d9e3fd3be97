"""`foretrace idioms`: patterns of computation in source code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import click

from foretrace.api.joins import joined
from foretrace.api.signatures import read_signature
from foretrace.api.sources import Idioms, check_names, idioms, selected
from foretrace.api.views import shown_as
from foretrace.base.terminal import print_json, progress_bar
from foretrace.command_line.verb import Verb
from foretrace.reports.idiom_reports import definition_report, idiom_report, loop_report
from foretrace.reports.sarif import sarif
from foretrace.tracer.source.idioms.patterns import built_in, from_file
from foretrace.tracer.source.idioms.records import Finding
from foretrace.tracer.source.scanning import source_files

from .output_options import Output, output_options


@click.command(cls=Verb, epilog="Example: foretrace idioms --idiom gather --idiom scatter src/")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--idiom", "names", multiple=True, metavar="NAME", help="Only this idiom (repeatable).")
@click.option("--depth", type=click.IntRange(min=1), help="Only inside at least so many loops.")
@click.option("--file", "files", multiple=True, metavar="GLOB", help="Only files of this name or pattern (repeatable).")
@click.option("--patterns", type=click.Path(path_type=Path), metavar="TOML", help="Look for your own idioms first.")
@click.option(
    "--signature", type=click.Path(path_type=Path), metavar="SIG",
    help="Join with a traced run: what ran of each finding, and where source and run disagree.",
)  # fmt: skip
@click.option("--list", "as_list", is_flag=True, help="List the idioms with their patterns, and read nothing.")
@click.option("--loops", is_flag=True, help="Show the loops instead: parallel, reduction, recurrence or unknown.")
@click.option("--top", default=20, show_default=True, type=click.IntRange(min=1), help="How many rows to show.")
@click.option("--all", "show_all", is_flag=True, help="Show all rows.")
@click.option(
    "-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="Define a symbol of the preprocessor (repeatable)."
)
@click.option(
    "--branches", is_flag=True, help="Read branches of the preprocessor that are not taken, too: each file again."
)
@click.option("--no-cache", is_flag=True, help="Read every file again, and keep no results.")
@output_options(synonyms=("json", "csv"))
@click.option("--sarif", "as_sarif", is_flag=True, help="Print SARIF 2.1.0, for editors and code hosts.")
def command(
    paths: tuple[Path, ...], names: tuple[str, ...], depth: int | None, files: tuple[str, ...], patterns: Path | None,
    signature: Path | None, as_list: bool, loops: bool, top: int, show_all: bool, defines: tuple[str, ...],
    branches: bool, no_cache: bool, as_sarif: bool, output: Output,
) -> None:  # fmt: skip
    """Find idioms (gather, scatter, stencil, reduction and more) in PATHS: C, C++, Fortran and Python."""
    if as_list:
        if paths or depth or files or loops or output.format or as_sarif:
            raise click.UsageError("--list takes only --idiom and --patterns")
        _list(patterns, names, output)
        return
    if not paths:
        raise click.UsageError("name at least one file or folder")
    if as_sarif and output.format:
        raise click.UsageError(f"--{output.format} and --sarif exclude one another")
    if loops and as_sarif:
        raise click.UsageError("--sarif shows idioms, not --loops: use --json or --csv")
    if loops and (names or depth):
        raise click.UsageError("--idiom and --depth choose idioms, not --loops: use --file")
    if signature is not None and (output.format == "csv" or as_sarif or loops):
        raise click.UsageError("--signature goes with the table and with --json, not with --csv, --sarif or --loops")
    traced = None if signature is None else read_signature(signature)
    with progress_bar("Reading") as bar:
        found = idioms(
            *paths, patterns=patterns, only=names, cache=not no_cache, defines=defines, branches=branches,
            progress=(lambda done, total: bar(done / total if total else 1.0)) if bar else lambda done, total: None,
        )  # fmt: skip
    known = None if traced is None else joined(traced, found, source_files(paths)[0])
    chosen = selected(found, _wanted(depth, files))
    found = shown_as(Idioms, replace(chosen, loops=tuple(one for one in chosen.loops if _named(one.file, files))))
    show = None if show_all else top
    if as_sarif:
        own = from_file(patterns) if patterns is not None else ()
        print_json(sarif(found, (*own, *built_in())))
    elif loops and known is None:
        output.show(loop_report(found, show))
    else:
        output.show(idiom_report(found, known, show))


def _wanted(depth: int | None, files: tuple[str, ...]) -> Callable[[Finding], bool]:
    def wanted(one: Finding) -> bool:
        return _named(one.file, files) and one.depth >= (depth or 1)

    return wanted


def _named(file: str, globs: tuple[str, ...]) -> bool:
    return not globs or any(fnmatch(file, glob) or fnmatch(Path(file).name, glob) for glob in globs)


def _list(patterns: Path | None, names: tuple[str, ...], output: Output) -> None:
    known = (*(from_file(patterns) if patterns is not None else ()), *built_in())
    check_names(names, known)
    output.show(definition_report(one for one in known if not names or one.name in names))
