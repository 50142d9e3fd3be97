"""Untrusted TOML: text that would cost the parser too much memory or time is refused before it is parsed."""

from __future__ import annotations

import re
import tomllib
from typing import Any

MAX_FILE_BYTES = 1 << 20
"""Largest file that users may name; the parser takes at most 450 MB for it."""
MAX_LINE_BYTES = 4096
MAX_KEY_PARTS = 16
"""The parser takes time and memory by the square of a dotted key's parts."""

_KEY_PART = rb"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_LONG_KEY = re.compile(rb"(?<![A-Za-z0-9_-])(?:%b){%d}" % (_KEY_PART, MAX_KEY_PARTS))


def decode(content: bytes) -> dict[str, Any]:
    """The table of a TOML file.

    Raises:
        ValueError: the text is no TOML, or exceeds a limit; says what, and where.
    """
    for number, line in enumerate(content.split(b"\n"), 1):
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"longer than {MAX_LINE_BYTES} bytes (at line {number}, column 1)")
    if found := _LONG_KEY.search(content):
        number = content.count(b"\n", 0, found.start()) + 1
        raise ValueError(f"a key of more than {MAX_KEY_PARTS} parts (at line {number}, column 1)")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        row = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise ValueError(f"it is not text in UTF-8 (at line {row}, column {column})") from None
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"it is not TOML: {' '.join(str(error).split())}") from None
