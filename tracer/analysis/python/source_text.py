"""The source text of traced code."""

from __future__ import annotations

import linecache
from pathlib import Path

_MOST_BYTES = 4 << 20


def source_text(file: str) -> str | None:
    """Text of a source file, or the text that the interpreter has cached under that name (a notebook's cell); None if
    it has neither."""
    try:
        path = Path(file)
        if path.is_file():
            return path.read_text("utf-8") if path.stat().st_size <= _MOST_BYTES else None
    except (OSError, ValueError):
        return None
    return "".join(linecache.getlines(file)) or None
