"""`foretrace idioms`: patterns of computation in source code."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click

from foretrace.api.joins import joined
from foretrace.api.signatures import read_signature
from foretrace.api.sources import COLUMNS, Idioms, check_names, finding_document, idioms, selected
from foretrace.api.views import shown_as
from foretrace.base.terminal import console, plain, print_json, progress_bar, table
from foretrace.base.units import format_count
from foretrace.command_line.verb import Verb
from foretrace.reports.join_reports import never_ran_document, never_ran_lines
from foretrace.reports.sarif import sarif
from foretrace.tracer.source.idioms.patterns import built_in, from_file
from foretrace.tracer.source.idioms.records import Finding, LoopReport
from foretrace.tracer.source.joining import Join
from foretrace.tracer.source.scanning import source_files

MOST_SKIPPED = 8
LOOP_COLUMNS = ("file", "first_line", "last_line", "function", "lowered", "verdict", "reason", "assumptions")
_COUNTED = {
    "branch": ("preprocessor branch not taken", "preprocessor branches not taken"),
    "declaration": ("name without a declaration", "names without a declaration"),
}
"""What is only counted, not listed, and how one and several of it are called."""


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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a row for each finding, comma-separated.")
@click.option("--sarif", "as_sarif", is_flag=True, help="Print SARIF 2.1.0, for editors and code hosts.")
def command(
    paths: tuple[Path, ...], names: tuple[str, ...], depth: int | None, files: tuple[str, ...], patterns: Path | None,
    signature: Path | None, as_list: bool, loops: bool, top: int, show_all: bool, defines: tuple[str, ...],
    branches: bool, no_cache: bool, as_json: bool, as_csv: bool, as_sarif: bool,
) -> None:  # fmt: skip
    """Find idioms (gather, scatter, stencil, reduction and more) in PATHS: C, C++, Fortran and Python."""
    if as_list:
        if paths or depth or files or loops or as_json or as_csv or as_sarif:
            raise click.UsageError("--list takes only --idiom and --patterns")
        _list(patterns, names)
        return
    if not paths:
        raise click.UsageError("name at least one file or folder")
    if as_json + as_csv + as_sarif > 1:
        raise click.UsageError("--json, --csv and --sarif exclude one another")
    if loops and as_sarif:
        raise click.UsageError("--sarif shows idioms, not --loops: use --json or --csv")
    if loops and (names or depth):
        raise click.UsageError("--idiom and --depth choose idioms, not --loops: use --file")
    if signature is not None and (as_csv or as_sarif or loops):
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
    if as_json:
        print_json(document(found, known))
    elif known is not None:
        _show_joined(found, known, None if show_all else top)
    elif as_csv and loops:
        _print_loops_csv(found)
    elif as_csv:
        _print_csv(found)
    elif as_sarif:
        own = from_file(patterns) if patterns is not None else ()
        print_json(sarif(found, (*own, *built_in())))
    elif loops:
        _show_loops(found, None if show_all else top)
    else:
        _show(found, None if show_all else top)


def _wanted(depth: int | None, files: tuple[str, ...]) -> Callable[[Finding], bool]:
    def wanted(one: Finding) -> bool:
        return _named(one.file, files) and one.depth >= (depth or 1)

    return wanted


def _named(file: str, globs: tuple[str, ...]) -> bool:
    return not globs or any(fnmatch(file, glob) or fnmatch(Path(file).name, glob) for glob in globs)


def document(found: Idioms, known: Join | None = None) -> dict[str, Any]:
    """The JSON face, `foretrace.idioms/1`; `known` is the source joined with a run."""
    made = _document(found)
    if known is None:
        return made
    for row, one in zip(made["findings"], map(_whole(found), found.findings), strict=True):
        runs = known.runs_of(one)
        row["ran"] = None if known.is_never_run(one) or not runs else {
            "iterations": sum(each.ran.iterations for each in runs),
            "binary_loops": len(runs),
            "verdict": next((each.ran.judged for each in runs if each.ran.judged), None),
            "idioms": sorted({name for each in runs for name in each.ran.idioms}),
        }  # fmt: skip
    return made | {
        "disagreements": [
            {"file": plain(file), "line": line, "what": plain(text.what), "why": plain(text.why)}
            for file, line, text in known.disagreements()
        ],
        "never_ran": [never_ran_document(one) for one in known.never_ran],
        "notes": [plain(note) for note in known.notes],
    }


def _whole(found: Idioms) -> Callable[[Finding], Finding]:
    """What a finding is part of, or itself."""
    return lambda one: one if one.parent is None else found.findings[one.parent].with_parent(None)


def _document(found: Idioms) -> dict[str, Any]:
    return {
        "schema": "foretrace.idioms/1",
        "files": found.files,
        "lines": found.lines,
        "findings": [finding_document(one) for one in found.findings],
        "loops": [_loop_document(loop) for loop in found.loops],
        "skipped": [
            {"file": part.file, "line": part.line, "what": part.what, "reason": part.reason} for part in found.skipped
        ],
        "loops_in_text": found.loops_in_text,
        "loops_read": found.loops_read,
        "unread": [
            {
                "file": plain(one.file),
                "line": one.line,
                "column": one.column,
                "reason": plain(one.reason),
                "options": plain(one.options),
            }
            for one in found.unread
        ],
        "options_for_more": [
            {"options": plain(options), "loops": number} for options, number in found.options_for_more().items()
        ],
    }


def _print_csv(found: Idioms) -> None:
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(COLUMNS)
    for one in found.findings:
        values = finding_document(one)
        values["induction"] = " ".join(one.induction)
        values["arrays"] = "; ".join(f"{use.role}: {use.name}[{use.index}]" for use in one.arrays)
        rows.writerow([_harmless(values[name]) for name in COLUMNS])
    sys.stdout.write(text.getvalue())


def _loop_document(loop: LoopReport) -> dict[str, Any]:
    return {
        "file": loop.file,
        "first_line": loop.line,
        "last_line": loop.last_line,
        "column": loop.column,
        "options": loop.options,
        "function": loop.function,
        "lowered": loop.lowered,
        "verdict": str(loop.verdict),
        "reason": loop.reason,
        "assumptions": list(loop.assumptions),
    }


def _print_loops_csv(found: Idioms) -> None:
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(LOOP_COLUMNS)
    for one in found.loops:
        values = _loop_document(one) | {"assumptions": "; ".join(one.assumptions)}
        rows.writerow([_harmless(values[name]) for name in LOOP_COLUMNS])
    sys.stdout.write(text.getvalue())


def _harmless(value: Any) -> Any:
    """Text that no spreadsheet takes for a formula (OWASP, CSV injection) and no terminal for a command."""
    if not isinstance(value, str):
        return "" if value is None else value
    value = plain(value)
    return f"'{value}" if value[:1] in ("=", "+", "-", "@") else value


def _show(found: Idioms, top: int | None) -> None:
    """The paper's table 1: file, line, function, idiom, code; then counts."""
    out = console()
    if not found.findings:
        out.print(f"No idiom found in {_amount(found.files, 'file')}, {found.lines:,} lines.")
    else:
        rows = table(
            "file", "line", "function", "idiom", "code", left=("file", "function", "idiom", "code"), whole=("idiom",)
        )
        for one in found.findings[:top]:
            name = one.idiom if one.parent is None else f"  {one.idiom}"
            rows.add_row(plain(one.file), str(one.first_line), plain(one.function), name, plain(one.text))
        out.print(rows)
        hidden = len(found.findings) - len(found.findings[:top])
        if hidden:
            out.print(f"{hidden} more: --all shows them, --idiom, --file and --depth choose.")
        counts = ", ".join(f"{count} {name}" for name, count in found.counts().items())
        out.print(f"{counts} in {_amount(found.files, 'file')}, {found.lines:,} lines.")
    _show_skipped(found)


def _show_joined(found: Idioms, known: Join, top: int | None) -> None:
    """The findings with what ran of them, those of most iterations first."""
    out = console()
    for note in known.notes:
        out.print(f"warning: {plain(note)}")
    rows = table(
        "file", "line", "function", "idiom", "ran", "run", "code", left=("file", "function", "idiom", "run", "code"),
        drop=("function",), whole=("idiom", "run"),
    )  # fmt: skip
    listed = []
    for one in (finding for finding in found.findings if finding.parent is None):
        runs = () if known.is_never_run(one) else known.runs_of(one)
        listed.append((sum(each.ran.iterations for each in runs), one, runs))
    listed.sort(key=lambda row: -row[0])
    for iterations, one, runs in listed[:top]:
        verdict = next((each.ran.judged for each in runs if each.ran.judged), "-" if runs else "ranges unknown")
        rows.add_row(
            plain(one.file), str(one.first_line), plain(one.function), one.idiom,
            format_count(iterations) if runs else "never", verdict, plain(one.text),
        )  # fmt: skip
    if listed:
        out.print(rows)
    if len(listed) > len(listed[:top]):
        out.print(f"{len(listed) - len(listed[:top])} more: --all shows them.")
    for file, line, text in known.disagreements():
        out.print(f"disagree: {plain(Path(file).name)}:{line}: {plain(str(text))}")
    for line_text in never_ran_lines(known):
        out.print(line_text)
    _show_skipped(found)


def _show_loops(found: Idioms, top: int | None) -> None:
    out = console()
    rows = table("file", "lines", "function", "verdict", "why", left=("file", "function", "verdict", "why"))
    for loop in found.loops[:top]:
        why = "; ".join(one for one in (loop.reason, *(f"if {text}" for text in loop.assumptions)) if one)
        place = f"{loop.line}-{loop.last_line}" if loop.last_line > loop.line else str(loop.line)
        rows.add_row(plain(loop.file), place, plain(loop.function), str(loop.verdict), plain(why))
    out.print(rows)
    hidden = len(found.loops) - len(found.loops[:top])
    if hidden:
        out.print(f"{hidden} more: --all shows them.")
    counts = Counter(str(loop.verdict) for loop in found.loops)
    lowered = sum(loop.lowered for loop in found.loops)
    listed = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    out.print(f"{_amount(len(found.loops), 'loop')}, {lowered} of them read in full: {listed or 'none'}.")
    _show_skipped(found)


def _show_skipped(found: Idioms) -> None:
    """What was not read. Preprocessor branches that are not taken, and names assumed, are only counted."""
    out = console()
    if found.loops_in_text:
        branches = "; --branches reads them all" if found.options_for_more() else ""
        text = found.coverage()
        out.print(plain(f"{text[0].upper()}{text[1:]} of the text{branches}." if not branches else
                        f"{text[0].upper()}{text[1:]}{branches}."))  # fmt: skip
        others = [one for one in found.unread if not one.options]
        for one in others[:MOST_SKIPPED]:
            out.print(f"not read: {plain(one.file)}:{one.line}: {plain(one.reason)}")
        if len(others) > MOST_SKIPPED:
            out.print(f"{len(others) - MOST_SKIPPED} more loops were not read: --json lists them.")
    counted = Counter(part.what for part in found.skipped if part.what in _COUNTED)
    listed = [part for part in found.skipped if part.what not in _COUNTED]
    for part in listed[:MOST_SKIPPED]:
        place = f"{part.file}:{part.line}" if part.line else part.file
        out.print(f"skipped: {plain(place)}: {part.what}: {plain(part.reason)}")
    if len(listed) > MOST_SKIPPED:
        out.print(f"{len(listed) - MOST_SKIPPED} more parts were skipped: --json lists them.")
    if counted:
        amounts = [f"{number:,} {_COUNTED[what][number > 1]}" for what, number in counted.items()]
        out.print(f"Not read, or assumed: {', '.join(amounts)}; --json lists them.")


def _list(patterns: Path | None, names: tuple[str, ...]) -> None:
    out = console()
    known = (*(from_file(patterns) if patterns is not None else ()), *built_in())
    check_names(names, known)
    for one in known:
        if names and one.name not in names:
            continue
        out.print(f"{one.name}: {plain(one.summary)}")
        for pattern in one.patterns:
            for line in pattern.text.splitlines():
                out.print(f"    {plain(line)}")


def _amount(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
