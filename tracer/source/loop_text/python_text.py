"""Loops in the text of Python, by its tokens; comprehensions are expressions, and not counted."""

from __future__ import annotations

import io
import re
import tokenize

from .records import LoopText, TextLoop

_LINE = re.compile(r"^([ \t]*)(?:async[ \t]+)?(?:for[ \t].*\bin\b|while\b)")
_BLANK = frozenset({tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT})


def loops_in(text: str) -> LoopText:
    """The loops of a Python file. A file that cannot be tokenised is read line by line."""
    found: list[TextLoop] = []
    starts = True
    asynchronous: tuple[int, int] | None = None
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in _BLANK:
                starts = starts or token.type == tokenize.NEWLINE
                continue
            if starts and token.string == "async":
                asynchronous = token.start
                continue
            if starts and token.string in ("for", "while"):
                line, column = asynchronous or token.start
                found.append(TextLoop(line, column + 1))
            starts, asynchronous = False, None
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return LoopText(tuple(
            TextLoop(number, len(match[1]) + 1)
            for number, line in enumerate(text.splitlines(), 1) if (match := _LINE.match(line))
        ))  # fmt: skip
    return LoopText(tuple(found))
