"""Every loop of the text is accounted for: read, or listed with the reason why it was not.

Loops are counted in the text by their keywords (`loop_text`), which needs no parser. Each is then looked for among the
loops that were read, by its place. A loop in a macro's definition is read where the macro is used.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path, PurePath

from .form.records import Language
from .idioms.records import LoopReport, SkippedPart, UnreadLoop
from .languages import HEADER_SUFFIXES, language_of
from .loop_text import c_text, fortran_text, python_text
from .loop_text.branches import options_text, symbols_for
from .loop_text.records import LoopText, TextLoop
from .result_cache import FileResult

_FORTRAN_LINE = re.compile(
    r"^\s*(?:end\s+)?(?:subroutine|module|do\b|implicit\s+none|integer|real|common)", re.I | re.M
)
_C_LINE = re.compile(
    r"^\s*(?:#\s*(?:pragma|define|include)|static|void|int|double|typedef|struct|class|namespace)\b|;\s*$", re.M
)


def text_of(path: Path, data: bytes) -> LoopText:
    """The loops of a source file or header, by its text."""
    text = data.decode("utf-8", "replace")
    language = language_of(path)
    if language is None and path.suffix.lower() in HEADER_SUFFIXES:
        is_fortran = len(_FORTRAN_LINE.findall(text)) > len(_C_LINE.findall(text))
        language = Language.FORTRAN if is_fortran else Language.C
    if language is Language.PYTHON:
        return python_text.loops_in(text)
    if language is Language.FORTRAN:
        from .fortran_code.layout import free_form, is_fixed

        lines = text.splitlines()
        return fortran_text.loops_in(free_form(lines) if is_fixed(path, lines) else lines)
    return c_text.loops_in(text)


def accounted(results: Sequence[tuple[Path, FileResult]], loops: Iterable[LoopReport]) -> tuple[int, list[UnreadLoop]]:
    """The number of loops in the text that were read, and the loops that were not.

    Args:
        results: of all files, headers included.
        loops: that were read, of all files.
    """
    places: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for loop in loops:
        places[_real(loop.file)].add((loop.line, loop.column))
    parts: dict[str, list[SkippedPart]] = defaultdict(list)
    for _, result in results:
        for part in (*result.skipped, *result.opaque):
            parts[_real(part.file)].append(part)
    expanded = _expanded(results, places)
    branches = _included_in_branches(results)
    number = 0
    unread: list[UnreadLoop] = []
    for path, result in results:
        name = _real(str(path))
        missing = _missing(result.text.loops, places[name])
        missing = [one for one in missing if not (one.macro and one.macro in expanded)]
        number += len(result.text.loops) - len(missing)
        around = branches.get(path.name, ())
        unread += [_unread(str(path), one, parts[name], bool(places[name]), around) for one in missing]
    return number, unread


def _missing(loops: Sequence[TextLoop], places: set[tuple[int, int]]) -> list[TextLoop]:
    """Loops of the text without a loop read at their place, which is matched by line and column, then by line."""
    left = sorted(places - {(one.line, one.column) for one in loops})
    by_line: dict[int, int] = defaultdict(int)
    for line, _ in left:
        by_line[line] += 1
    missing = []
    for one in loops:
        if (one.line, one.column) in places:
            continue
        if by_line[one.line] and not one.macro:
            by_line[one.line] -= 1
        else:
            missing.append(one)
    return missing


def _expanded(results: Sequence[tuple[Path, FileResult]], places: dict[str, set[tuple[int, int]]]) -> set[str]:
    """The macros that were used where a loop was read, and those that their definitions use."""
    definitions: dict[str, set[str]] = defaultdict(set)
    for _, result in results:
        for name, words in result.text.macros:
            definitions[name].update(words)
    if not any(one.macro for _, result in results for one in result.text.loops):
        return set()
    used: set[str] = set()
    for path, result in results:
        name = _real(str(path))
        others = places[name] - {(one.line, one.column) for one in result.text.loops}
        lines = _lines_of(name) if others else ()
        for line, column in others:
            text = lines[line - 1] if 0 < line <= len(lines) else ""
            found = re.compile(r"\w+").match(text, column - 1)
            if found:
                used.add(found[0])
    pending = list(used)
    while pending:
        for word in definitions.get(pending.pop(), ()):
            if word in definitions and word not in used:
                used.add(word)
                pending.append(word)
    return used


def _included_in_branches(results: Sequence[tuple[Path, FileResult]]) -> dict[str, tuple[str, ...]]:
    """Names of files that are included in branches of the preprocessor alone, with the conditions of the first one."""
    found: dict[str, tuple[str, ...]] = {}
    for _, result in results:
        for name, branches in result.text.includes:
            conditions = tuple(condition for _, condition in branches)
            base = PurePath(name).name
            found[base] = conditions if base not in found or not conditions else found[base]
    return found


def options_of_includes(text: LoopText, read: Iterable[str]) -> list[str]:
    """Compiler options that would make a file include further headers."""
    known = {PurePath(name).name for name in read}
    found = (options([condition for _, condition in around]) for name, around in text.includes
             if around and PurePath(name).name not in known and "." in name)  # fmt: skip
    return [one for one in dict.fromkeys(found) if one]


def _unread(
    file: str, loop: TextLoop, parts: Sequence[SkippedPart], is_read: bool, included: Sequence[str]
) -> UnreadLoop:
    """Why a loop was not read. `included`: conditions under which alone its file is included."""
    around = [part for part in parts if part.line <= loop.line <= max(part.line, part.last_line)]
    whole = next((part for part in parts if part.what == "file"), None)
    untaken = [part for part in around if part.what == "branch"]
    others = sorted((part for part in around if part.what != "branch"), key=lambda part: part.last_line - part.line)
    if untaken and loop.branches:
        first = min(part.line for part in untaken)
        conditions = [condition for line, condition in loop.branches if line >= first] or [loop.branches[-1][1]]
        conditions = [*included, *conditions]
        return UnreadLoop(file, loop.line, loop.column, f"in a branch of the preprocessor: {_conjunction(conditions)}",
                          options(conditions))  # fmt: skip
    if whole is not None and not is_read:
        reason = whole.reason
    elif loop.once:
        reason = "it runs once: while (0)"
    elif loop.macro:
        reason = f"in the macro {loop.macro}, which no file that was read uses"
    elif others:
        reason = others[0].reason
    elif included and not is_read:
        conditions = [*included, *(condition for _, condition in loop.branches)]
        reason = f"included in a branch of the preprocessor: {_conjunction(conditions)}"
        return UnreadLoop(file, loop.line, loop.column, reason, options(conditions))
    elif Path(file).suffix.lower() in HEADER_SUFFIXES and not is_read:
        reason = "in a header of which no file that was read uses a loop"
    else:
        near = min((part for part in parts if part.what == "statement"), key=lambda part: abs(part.line - loop.line),
                   default=None)  # fmt: skip
        reason = f"what is around it was not understood: line {near.line}: {near.reason}" if near else "not understood"
    return UnreadLoop(file, loop.line, loop.column, reason)


def _conjunction(conditions: Sequence[str]) -> str:
    one = len(conditions) == 1
    return " && ".join(text if one or "||" not in text else f"({text})" for text in conditions)


def options(conditions: Sequence[str]) -> str:
    """Compiler options under which conditions hold; "": not known."""
    wanted: dict[str, str | None] = {}
    for condition in conditions:
        symbols = symbols_for(condition)
        if symbols is None or any(name in wanted and wanted[name] != symbols[name] for name in symbols):
            return ""
        wanted |= symbols
    return options_text(wanted)


@lru_cache(maxsize=4096)
def _real(name: str) -> str:
    return os.path.realpath(name)


@lru_cache(maxsize=64)
def _lines_of(name: str) -> tuple[str, ...]:
    try:
        return tuple(Path(name).read_bytes().decode("utf-8", "replace").split("\n"))
    except OSError:
        return ()
