"""Output for people: consoles, and escaping of untrusted text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console

from . import json_text

if TYPE_CHECKING:
    from rich.table import Table


def plain(text: str) -> str:
    """Text from a file or program with visible escapes for what a terminal could act on, and for bytes that are not
    UTF-8.
    """
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(letter: str) -> str:
    if letter.isprintable():
        return letter
    if "\udc80" <= letter <= "\udcff":  # a byte, as os.fsdecode makes it
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode()


WIDTH = 100
"""Width of a table, in characters, without a terminal."""


def console() -> Console:
    """Console for results on standard output: wraps to a terminal's width, elsewhere prints whole, searchable lines."""
    is_terminal = sys.stdout.isatty()
    width = None if is_terminal else WIDTH
    return _Results(highlight=False, markup=False, emoji=False, width=width, soft_wrap=not is_terminal)


class _Results(Console):
    """Console that crops nothing: a table whose numbers need more than the width is wider."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does, without cropping; tables alone wrap the text in their cells."""
        from rich.table import Table

        options.setdefault("crop", False)
        if any(type(one) is Table for one in objects):  # which wraps the text in its cells
            options.setdefault("soft_wrap", False)
        super().print(*objects, **options)


def table(
    *headings: str,
    title: str | None = None,
    left: Collection[str] = (),
    no_wrap: bool = False,
    drop: Sequence[str] = (),
    whole: Collection[str] = (),
) -> Table:
    """A table without rules that fits the width. Columns with a heading in `left` (default: the first) are flush left.

    Where it is too wide, the columns in `drop` are left out one by one, in that order. Then text in flush-left columns
    is shortened, except in those of `whole`. Numbers are never shortened.
    """
    from .fitting_table import FittingTable

    made = FittingTable(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), drop=drop, whole=whole)
    for heading in headings:
        is_left = heading in (left or headings[:1])
        made.add_column(heading, justify="left" if is_left else "right", no_wrap=no_wrap)
    return made


@contextmanager
def progress_bar(title: str, *, remaining: bool = False) -> Iterator[Callable[[float], None] | None]:
    """A progress bar on standard error, which takes the share done; None where standard error is no terminal.

    With `remaining` it also shows the time that is left, estimated from the shares so far.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    left = (TextColumn("left"), TimeRemainingColumn()) if remaining else ()
    columns = (TextColumn(title), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), *left)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda done: bar.update(task, completed=done)


def print_json(document: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    sys.stdout.buffer.write(json_bytes(document))
    sys.stdout.buffer.flush()


def json_bytes(document: dict[str, Any]) -> bytes:
    """One JSON object, its text as it is in reports (`plain`), but for line breaks and tabs."""
    content = json_text.encode(document)
    if not content.isascii() or b"\x7f" in content or b"\\u" in content:
        content = msgspec.json.encode(_plain_within(msgspec.to_builtins(document)))
    return msgspec.json.format(content, indent=2) + b"\n"


def _plain_within(content: Any) -> Any:
    """A JSON value with all its strings made `plain`, at any depth."""
    if isinstance(content, str):
        return "".join(c if c in "\n\t" else _visible(c) for c in content)
    if isinstance(content, dict):
        return {_plain_within(key): _plain_within(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_plain_within(value) for value in content]
    return content
