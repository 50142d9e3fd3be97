"""Tables that fit the terminal: columns that can be missed are left out, long text is shortened, numbers stay whole."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Column, Table
from rich.text import Text

ENOUGH_TEXT, LEAST_TEXT = 24, 12
"""Characters that a text keeps before columns are left out, and after."""


class FittingTable(Table):
    """A table of plain text that fits the width it is printed in."""

    def __init__(self, *, drop: Sequence[str] = (), whole: Collection[str] = (), **options: Any) -> None:
        """`drop`: headings of columns that may be left out, in that order; `whole`: those whose text is kept whole."""
        super().__init__(**options)
        self.drop = tuple(drop)
        self.whole = frozenset(whole)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render what fits, and name what was left out."""
        width = options.max_width
        columns, dropped = list(self.columns), []
        for heading in self.drop:
            if _width(_shortened(columns, width, ENOUGH_TEXT, self.whole)) <= width:
                break
            if any(column.header == heading for column in columns):
                columns = [column for column in columns if column.header != heading]
                dropped.append(heading)
        fitted = copy(self)
        fitted.columns = _shortened(_shortened(columns, width, ENOUGH_TEXT, self.whole), width, LEAST_TEXT, self.whole)
        needed = max(width, _width(fitted.columns))
        yield from super(FittingTable, fitted).__rich_console__(console, options.update(max_width=needed))
        if dropped:
            names = ", ".join(reversed(dropped))
            yield Text(f"(left out to fit {width} columns: {names}; --json has all)")


def shorten(text: str, length: int) -> str:
    """`text` with its middle replaced by an ellipsis where it is longer: both ends tell more than the middle, but for
    what ends in parentheses."""
    if len(text) <= length:
        return text
    before = text.find(" (")
    if 0 < before <= length and text.endswith((")", "\N{HORIZONTAL ELLIPSIS}")):  # what is in parentheses matters less
        return f"{text[: length - 1]}\N{HORIZONTAL ELLIPSIS}" if length > before + 6 else text[:before]
    head = (length - 1) // 2
    return f"{text[:head]}\N{HORIZONTAL ELLIPSIS}{text[len(text) - (length - 1 - head) :]}"


def _cells(column: Column) -> Iterable[str]:
    return (str(cell) for cell in (column.header, *column.cells))


def _text_width(column: Column) -> int:
    return max((len(line) for cell in _cells(column) for line in cell.split("\n")), default=0)


def _width(columns: Sequence[Column]) -> int:
    """Width of a table in characters, with two spaces after each column."""
    return sum(_text_width(column) + 2 for column in columns)


def _shortened(columns: Sequence[Column], width: int, least: int, whole: Collection[str]) -> list[Column]:
    """The columns with their text cut so that they fit, the widest first, but to no less than `least` characters."""
    lengths = [_text_width(column) for column in columns]
    texts = [index for index, column in enumerate(columns) if column.justify == "left" and column.header not in whole]
    surplus = sum(lengths) + 2 * len(columns) - width
    while surplus > 0 and texts:
        widest = max(texts, key=lambda index: lengths[index])
        if lengths[widest] <= least:
            break
        lengths[widest] -= 1
        surplus -= 1
    made = []
    for index, column in enumerate(columns):
        shown = copy(column)
        shown._index = index
        shown.no_wrap = True
        shown._cells = [shorten(str(cell), lengths[index]) if index in texts else cell for cell in column.cells]
        made.append(shown)
    return made
