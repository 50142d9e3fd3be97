"""What is printed for people: consoles, and text from outside made harmless."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from rich.console import Console


def plain(text: str) -> str:
    """Text from a file or program with everything a terminal could act on replaced by visible escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def console() -> Console:
    """For results, on standard output. Not wrapped when it is no terminal, so that it can be searched and cut."""
    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 200)


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[float], None] | None]:
    """A bar on standard error, told the done part; None where that is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn(title), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda done: bar.update(task, completed=done)


def print_json(document: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    sys.stdout.buffer.flush()
