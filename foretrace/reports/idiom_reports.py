"""Idioms and loops of source code as reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from foretrace.base.units import format_count
from foretrace.tracer.source.idioms.patterns import IdiomDefinition
from foretrace.tracer.source.idioms.records import Finding, Findings, LoopReport
from foretrace.tracer.source.joining import Join

from .join_reports import never_ran_document, never_ran_lines
from .model import INTEGER, Column, Kind, Report, Section, Table, Text, document_of, for_programs

MOST_SKIPPED = 8
_COUNTED = {
    "branch": ("preprocessor branch not taken", "preprocessor branches not taken"),
    "declaration": ("name without a declaration", "names without a declaration"),
}
"""Skipped parts that are only counted, not listed, and the names of one and of several."""

FINDINGS = (
    *for_programs("file", "first_line", "last_line", "loop_line", "function"),
    Column("language"),
    Column("idiom"),
    Column("depth"),
    Column("induction", kind=Kind(" ".join), value=lambda one: list(one.induction)),
    Column(
        "arrays", kind=Kind(lambda uses: "; ".join("{role}: {name}[{index}]".format_map(use) for use in uses)),
        value=lambda one: [document_of(use, "role name element index") for use in one.arrays],
    ),
    *for_programs("text", "confidence", "reason", "shape", "parent"),
    Column("", "file", value=lambda one: one.file),
    Column("", "line", INTEGER, lambda one: one.first_line),
    Column("", "function", value=lambda one: one.function),
    Column("", "idiom", value=lambda one: one.idiom if one.parent is None else f"  {one.idiom}", whole=True),
    Column("", "code", value=lambda one: one.text),
)  # fmt: skip
"""Columns of `Finding`."""


def _why(loop: LoopReport) -> str:
    return "; ".join(one for one in (loop.reason, *(f"if {text}" for text in loop.assumptions)) if one)


_LINES = (Column("file", "file"), Column("first_line", value=lambda loop: loop.line), Column("last_line"))
LOOPS = (
    *_LINES,
    Column(
        "", "lines", left=False,
        value=lambda loop: f"{loop.line}-{loop.last_line}" if loop.last_line > loop.line else str(loop.line),
    ),
    Column("function", "function"),
    Column("lowered"),
    Column("verdict", "verdict"),
    Column("", "why", value=_why),
    Column("reason"),
    Column("assumptions", kind=Kind("; ".join), value=lambda loop: list(loop.assumptions)),
)  # fmt: skip
"""Columns of `LoopReport`."""


def idiom_report(found: Findings, known: Join | None = None, top: int | None = None) -> Report:
    """Report of `foretrace idioms`: findings; `known` is the source joined with a run."""
    sections = _finding_sections(found, top) if known is None else _joined_sections(found, known, top)
    sections.append(Text(_skipped_lines(found)))
    return Report("Idioms", sections, Table(FINDINGS, found.findings), lambda: document(found, known))


def loop_report(found: Findings, top: int | None = None) -> Report:
    """Report of `foretrace idioms --loops`."""
    hidden = len(found.loops) - len(found.loops[:top])
    rest = f"{hidden} more: --all shows them." if hidden else ""
    counts = Counter(str(loop.verdict) for loop in found.loops)
    lowered = sum(loop.lowered for loop in found.loops)
    listed = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    total = f"{_amount(len(found.loops), 'loop')}, {lowered} of them read in full: {listed or 'none'}."
    rows = Table(LOOPS, found.loops, shown=top, rest=rest)
    return Report("Loops", [rows, Text([total, *_skipped_lines(found)])], rows, lambda: document(found))


def definition_report(known: Iterable[IdiomDefinition]) -> Report:
    """Report of `foretrace idioms --list`."""
    definitions = list(known)
    lines = []
    for one in definitions:
        lines.append(f"{one.name}: {one.summary}")
        lines += [f"    {line}" for pattern in one.patterns for line in pattern.text.splitlines()]
    return Report("Idioms", [Text(lines)], Table(for_programs("name", "summary"), definitions))


def idiom_counts(found: Findings) -> dict[str, int]:
    """Number of findings of each idiom, most first; parts of other findings are not counted."""
    counts = Counter(one.idiom for one in found.findings if one.parent is None)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _finding_sections(found: Findings, top: int | None) -> list[Section]:
    """The paper's table 1: file, line, function, idiom, code; then counts."""
    if not found.findings:
        return [Text([f"No idiom found in {_amount(found.files, 'file')}, {found.lines:,} lines."])]
    hidden = len(found.findings) - len(found.findings[:top])
    rest = f"{hidden} more: --all shows them, --idiom, --file and --depth choose." if hidden else ""
    counts = ", ".join(f"{count} {name}" for name, count in idiom_counts(found).items())
    return [
        Table(FINDINGS, found.findings, shown=top, rest=rest),
        Text([f"{counts} in {_amount(found.files, 'file')}, {found.lines:,} lines."]),
    ]


_JOINED = (
    Column("file", "file", value=lambda row: row[1].file),
    Column("first_line", "line", INTEGER, lambda row: row[1].first_line),
    Column("function", "function", value=lambda row: row[1].function, drop=1),
    Column("idiom", "idiom", value=lambda row: row[1].idiom, whole=True),
    Column("iterations", "ran", value=lambda row: format_count(row[0]) if row[2] else "never", left=False),
    Column(
        "verdict", "run", whole=True,
        value=lambda row: next(
            (one.ran.judged for one in row[2] if one.ran.judged), "-" if row[2] else "ranges unknown"
        ),
    ),
    Column("text", "code", value=lambda row: row[1].text),
)  # fmt: skip
"""Columns of iterations, a finding, and the loops that ran of it."""


def _joined_sections(found: Findings, known: Join, top: int | None) -> list[Section]:
    """The findings with what ran of them, those of most iterations first."""
    listed = []
    for one in (finding for finding in found.findings if finding.parent is None):
        runs = () if known.is_never_run(one) else known.runs_of(one)
        listed.append((sum(each.ran.iterations for each in runs), one, runs))
    listed.sort(key=lambda row: -row[0])
    hidden = len(listed) - len(listed[:top])
    rest = f"{hidden} more: --all shows them." if hidden else ""
    rows: list[Section] = [Table(_JOINED, listed, shown=top, rest=rest)] if listed else []
    lines = [f"disagree: {Path(file).name}:{line}: {text}" for file, line, text in known.disagreements()]
    return [Text([f"warning: {note}" for note in known.notes]), *rows, Text([*lines, *never_ran_lines(known)])]


def document(found: Findings, known: Join | None = None) -> dict[str, Any]:
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
            {"file": file, "line": line} | document_of(text, "what why") for file, line, text in known.disagreements()
        ],
        "never_ran": [never_ran_document(one) for one in known.never_ran],
        "notes": known.notes,
    }


def _whole(found: Findings) -> Callable[[Finding], Finding]:
    """Function that returns the finding that a finding is part of, or itself."""
    return lambda one: one if one.parent is None else found.findings[one.parent].with_parent(None)


def _document(found: Findings) -> dict[str, Any]:
    return {
        "schema": "foretrace.idioms/1",
        "files": found.files,
        "lines": found.lines,
        "findings": [document_of(one, *FINDINGS) for one in found.findings],
        "loops": [document_of(loop, *_LINES, "column options", *LOOPS[len(_LINES) :]) for loop in found.loops],
        "skipped": [document_of(part, "file line what reason") for part in found.skipped],
        "loops_in_text": found.loops_in_text,
        "loops_read": found.loops_read,
        "unread": [document_of(one, "file line column reason options") for one in found.unread],
        "options_for_more": [
            {"options": options, "loops": number} for options, number in found.options_for_more().items()
        ],
    }


def _skipped_lines(found: Findings) -> list[str]:
    """Lines about source that was not read. Preprocessor branches that are not taken, and names assumed, are only
    counted."""
    lines = []
    if found.loops_in_text:
        branches = "; --branches reads them all" if found.options_for_more() else ""
        text = found.coverage()
        lines.append(f"{text[0].upper()}{text[1:]}{branches or ' of the text'}.")
        others = [one for one in found.unread if not one.options]
        for one in others[:MOST_SKIPPED]:
            lines.append(f"not read: {one.file}:{one.line}: {one.reason}")
        if len(others) > MOST_SKIPPED:
            lines.append(f"{len(others) - MOST_SKIPPED} more loops were not read: --json lists them.")
    counted = Counter(part.what for part in found.skipped if part.what in _COUNTED)
    listed = [part for part in found.skipped if part.what not in _COUNTED]
    for part in listed[:MOST_SKIPPED]:
        place = f"{part.file}:{part.line}" if part.line else part.file
        lines.append(f"skipped: {place}: {part.what}: {part.reason}")
    if len(listed) > MOST_SKIPPED:
        lines.append(f"{len(listed) - MOST_SKIPPED} more parts were skipped: --json lists them.")
    if counted:
        amounts = [f"{number:,} {_COUNTED[what][number > 1]}" for what, number in counted.items()]
        lines.append(f"Not read, or assumed: {', '.join(amounts)}; --json lists them.")
    return lines


def _amount(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
