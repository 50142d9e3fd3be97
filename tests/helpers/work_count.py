"""Counts the work of a function: lines of the project's code that it runs. Neither load nor chance changes it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import foretrace

_PROJECT = str(Path(foretrace.__file__).parent)


def work_of(run: Callable[[], object]) -> int:
    """The number of lines that `run` executes, loops in one line counted by their rounds."""
    lines = 0

    def within(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return within

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        return within if frame.f_code.co_filename.startswith(_PROJECT) else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        run()
    finally:
        sys.settrace(before)
    return lines
