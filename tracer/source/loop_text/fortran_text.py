"""Loops in the text of Fortran, line by line: DO in all its forms, and FORALL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .branches import Branches
from .records import LoopText, TextLoop

_DIRECTIVE = re.compile(r"^\s*#\s*(\w+)(.*)$", re.DOTALL)
_LOOP = re.compile(
    r"^(?P<head>\s*(?:\d+\s+)?(?:[a-z]\w*\s*:\s*)?)"
    r"(?:do\s*(?:$|,?\s*(?:\d+\s*,?\s*)?(?:while\s*\(|concurrent\s*\(|[a-z]\w*\s*=[^=]))|do\s+\d+\s*$|forall\s*\()",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(r"^\s*(?:\d+\s+)?do\w*\s*=", re.IGNORECASE)


def loops_in(lines: Sequence[str]) -> LoopText:
    """The loops of a Fortran file in free form; `layout.free_form` makes it from fixed form, line by line."""
    branches = Branches()
    found = []
    for line, column, text in _statements(lines, branches):
        loop = _LOOP.match(text)
        if loop and not _ASSIGNED.match(text):
            found.append(TextLoop(line, column + len(loop["head"]), branches.around()))
    return LoopText(tuple(found), tuple(branches.includes))


def _statements(lines: Sequence[str], branches: Branches) -> Iterator[tuple[int, int, str]]:
    """Statements with the line and column where they start, strings blank and comments gone."""
    text, start, column, goes_on = "", 0, 1, False
    for number, line in enumerate(lines, 1):
        directive = _DIRECTIVE.match(line)
        if directive:
            branches.directive(directive[1], directive[2], number)
            continue
        code = _code(line)
        if not code.strip():
            continue
        if goes_on:
            code = re.sub(r"^\s*&", "", code)
        else:
            text, start, column = "", number, 1
        goes_on = code.rstrip().endswith("&")
        text += code.rstrip()[:-1] if goes_on else code
        if not goes_on:
            for part in text.split(";"):
                yield start, column, part
                column += len(part) + 1
            text = ""
    if text:
        yield start, column, text


_PARTS = re.compile(r"""'(?:[^']|'')*'?|"(?:[^"]|"")*"?|!.*""")


def _code(line: str) -> str:
    """A line without its comment, with quoted text blanked. The quotes stay, as a text can be the whole line."""
    return _PARTS.sub(lambda found: "" if found[0][0] == "!" else _blanked(found[0]), line)


def _blanked(text: str) -> str:
    closed = len(text) > 1 and text[-1] == text[0]
    return text[0] + " " * (len(text) - 1 - closed) + text[0] * closed
