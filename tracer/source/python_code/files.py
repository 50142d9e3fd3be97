"""One Python file, read, parsed and lowered; what cannot be is skipped with its reason."""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from pathlib import Path

from foretrace.tracer.source.form import records as form

from .functions import lower_module

MOST_BYTES = 16 << 20
"""Larger files are skipped: they are data, and a syntax tree takes a hundred times their size."""


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
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        return _skipped(str(path), data.count(b"\n"), f"not decodable: {_first_line(error)}")
    return lower_text(text, str(path))


def lower_text(text: str, path: str = "<text>") -> form.Unit:
    """The form of Python source."""
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        return _skipped(path, lines, f"syntax error: {_first_line(error)}", error.lineno or 1)
    except (ValueError, RecursionError, MemoryError) as error:
        return _skipped(path, lines, f"not parsed: {_first_line(error)}")
    functions, skipped = lower_module(tree, text)
    return form.Unit(path, form.Language.PYTHON, (path,), lines, functions, skipped)


def _first_line(error: BaseException) -> str:
    message = str(error).splitlines()
    return message[0][: form.MOST_TEXT] if message else type(error).__name__


def _skipped(path: str, lines: int, reason: str, line: int = 1) -> form.Unit:
    part = form.Skipped(form.Place(line), "file", reason)
    return form.Unit(path, form.Language.PYTHON, (path,), lines, (), (part,))
