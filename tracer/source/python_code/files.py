"""Reads, parses and lowers one Python file; parts that cannot be lowered are skipped with a reason."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from pathlib import Path

from foretrace.tracer.source.form import records as form

from .functions import lower_module

MOST_BYTES = 16 << 20
"""Larger files are skipped: they are data, and a syntax tree takes a hundred times their size."""


MOST_ERRORS = 20
"""Statements of a module that may fail to parse; with more the file is skipped."""
_STARTS = re.compile(r"[^\s#)\]}]")


def lower_file(path: Path) -> form.Unit:
    """A file's form. A file that cannot be read or parsed has one `Skipped` and no functions."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        return _skipped(str(path), 0, error.strerror or str(error))
    if len(data) > MOST_BYTES:
        return _skipped(str(path), 0, f"larger than {MOST_BYTES >> 20} MiB")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError):
        text = data.decode("utf-8", "replace")  # of another encoding than it says: a comment or a string, as a rule
    return lower_text(text, str(path))


def lower_text(text: str, path: str = "<text>") -> form.Unit:
    """The form of Python source."""
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    left_out: list[form.Skipped] = []
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
            break
        except SyntaxError as error:
            reason, line = f"syntax error: {_first_line(error)}", error.lineno or 1
            shorter = _without_statement(text, line) if len(left_out) < MOST_ERRORS else ""
            if not shorter.strip():
                return _skipped(path, lines, reason, line)
            left_out.append(form.Skipped(form.Place(line), "statement", reason))
            text = shorter
        except (ValueError, RecursionError, MemoryError) as error:
            return _skipped(path, lines, f"not parsed: {_first_line(error)}")
    functions, skipped = lower_module(tree, text)
    return form.Unit(path, form.Language.PYTHON, (path,), lines, functions, (*left_out, *skipped))


def _without_statement(text: str, line: int) -> str:
    """Source without the top-level statement, such as a function, that a line belongs to; other lines stay in place."""
    lines = text.splitlines(keepends=True)
    starts = [number for number, one in enumerate(lines) if _STARTS.match(one)]
    first = max((number for number in starts if number < line), default=0)
    last = next((number for number in starts if number >= line), len(lines))
    blank = ["\n" for _ in lines[first:last]]
    return "".join([*lines[:first], *blank, *lines[last:]]) if any(map(str.strip, lines[first:last])) else ""


def _first_line(error: BaseException) -> str:
    message = (error.msg if isinstance(error, SyntaxError) else str(error)).splitlines()
    return message[0][: form.MOST_TEXT] if message else type(error).__name__


def _skipped(path: str, lines: int, reason: str, line: int = 1) -> form.Unit:
    part = form.Skipped(form.Place(line), "file", reason)
    return form.Unit(path, form.Language.PYTHON, (path,), lines, (), (part,))
