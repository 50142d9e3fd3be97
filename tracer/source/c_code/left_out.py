"""Statements that the parser dropped: text between two statements of a block that is itself no statement."""

from __future__ import annotations

import re
from bisect import bisect_left

from foretrace.tracer.source.form.records import Place

from .scope import Source

NOT_UNDERSTOOD = "the parser did not understand it"
_BLANKED = re.compile(
    r'"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n])*\'?|//[^\n]*|/\*.*?(?:\*/|\Z)|^[ \t]*\#(?:[^\n\\]|\\\n|\\.)*',
    re.DOTALL | re.MULTILINE,
)
_LABEL = re.compile(r"\s*(?:case\b[^;{}?]*?:(?!:)|default\s*:|[A-Za-z_]\w*\s*:(?!:))")
_LIKE_A_MACRO = re.compile(r"\s*[A-Za-z_]\w*\s*(?:\(.*\))?\s*;?\s*", re.DOTALL)
_WRITTEN = re.compile(
    r"([A-Za-z_]\w*)(?:\s*(?:\[[^\]]*\]|(?:\.|->)\s*\w+))*\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)"
    r"|(?:\+\+|--|&)\s*\(?\s*\**\s*([A-Za-z_]\w*)"
)


def written_in(text: str) -> list[str]:
    """The variables that a text assigns, or takes the address of."""
    return [one or other for one, other in _WRITTEN.findall(_BLANKED.sub(" ", text))]


def left_out(source: Source, first: tuple[int, int], last: tuple[int, int]) -> list[tuple[Place, str, str]]:
    """The statements from one place to another, each with its text and the reason why it was dropped.

    A macro that expands to nothing leaves text without a statement, too: a name with or without arguments, where the
    parser found no error.
    """
    text = _text(source, first, last)
    if not any(letter.isalnum() for letter in text):
        return []
    blank = _BLANKED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    found = []
    for start, end in _statements(blank):
        label = _LABEL.match(blank, start, end)
        begin = label.end() if label else start
        begin += len(blank[begin:end]) - len(blank[begin:end].lstrip())
        words = text[begin:end].strip()
        if not any(letter.isalnum() for letter in blank[begin:end]):
            continue
        line, column = _place(text, begin, first)
        last_line, last_column = _place(text, end, first)
        reason = _error(source, (line, column), (last_line, last_column))
        if not reason and _LIKE_A_MACRO.fullmatch(blank, begin, end):
            continue
        place = Place(line, column, last_line if last_line > line else 0)
        found.append((place, words, reason or NOT_UNDERSTOOD))
    return found


def _text(source: Source, first: tuple[int, int], last: tuple[int, int]) -> str:
    lines = source.text[first[0] - 1 : last[0]]
    if not lines:
        return ""
    lines = [
        "" if any(start <= number <= end for start, end in source.untaken) else line
        for number, line in enumerate(lines, first[0])
    ]
    lines[-1] = lines[-1][: last[1] - 1]
    lines[0] = lines[0][first[1] - 1 :]
    return "\n".join(lines)


def _place(text: str, position: int, first: tuple[int, int]) -> tuple[int, int]:
    line = text.count("\n", 0, position)
    before = 0 if line else first[1] - 1  # of the first line, whose text begins there
    return first[0] + line, before + position - text.rfind("\n", 0, position)


def _error(source: Source, first: tuple[int, int], last: tuple[int, int]) -> str:
    at = bisect_left(source.errors, (*first, ""))
    if at < len(source.errors) and source.errors[at][:2] <= last:
        return source.errors[at][2]
    return ""


def _statements(text: str) -> list[tuple[int, int]]:
    """Ranges of complete statements: up to a semicolon or a closing brace outside of all brackets."""
    found = []
    start, depth = 0, 0
    for position, letter in enumerate(text):
        if letter in "({[":
            depth += 1
        elif letter in ")}]":
            depth = max(0, depth - 1)
            if letter == "}" and depth == 0:
                found.append((start, position + 1))
                start = position + 1
        elif letter == ";" and depth == 0:
            found.append((start, position + 1))
            start = position + 1
    return found
