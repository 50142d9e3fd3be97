"""Views of results: one line, a text table, an HTML table, a DataFrame.

A result derives from `Shown` and from the record that the library works with, so that reports and the model take it as
that record.
"""

from __future__ import annotations

import html
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from foretrace.base.errors import OutputError
from foretrace.base.names import place_text
from foretrace.base.terminal import plain
from foretrace.reports.model import Column, Table

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from foretrace.replay.base.records import Place
    from foretrace.reports.plots import TimelineSource

_Result = TypeVar("_Result")

MOST_ROWS = 10
"""Rows that are shown; `to_dataframe()` has all."""
MOST_LETTERS = 80
"""Length of one cell, and of a name in a `repr`."""
MOST_WIDTH = 160
"""Columns of a table as text."""


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A small table for people: text in its first `left` columns, numbers with their units in the others.

    `total` is how many rows there are to show, `rows` has the first of them. `notes` stand below.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    total: int = 0
    left: int = 1
    notes: Sequence[str] = ()

    @classmethod
    def of(cls, title: str, table: Table, notes: Sequence[str] = (), total: int | None = None) -> ShownTable:
        """The shown rows of a table, of `total` rows."""
        columns = table.headed
        left = sum(1 for _ in takewhile(lambda column: column.is_left, columns))
        total = len(table.records) if total is None else total
        cells = table.cells(table.shown_records)
        return cls(title, [column.heading or "" for column in columns], cells, total, left, notes)

    @property
    def lines_below(self) -> list[str]:
        """The notes, and how many rows are not shown."""
        hidden = self.total - len(self.rows)
        more = [f"{hidden} more: to_dataframe() has all {self.total}"] if hidden > 0 else []
        return [*more, *self.notes]


class Shown:
    """A result with a short `repr`, a table for `print` and for notebooks, and a DataFrame."""

    __slots__ = ()

    def to_dataframe(self) -> pandas.DataFrame:
        """All rows as a pandas DataFrame; column names end in their units."""
        raise NotImplementedError

    def _line(self) -> str:
        """One line that says what it is."""
        raise NotImplementedError

    def _table(self) -> ShownTable:
        raise NotImplementedError

    def __repr__(self) -> str:
        """One line."""
        return f"<{type(self).__name__} {plain(self._line())}>"

    def __str__(self) -> str:
        """A table as text."""
        return as_text(self._table())

    def _repr_html_(self) -> str:
        return as_html(self._table())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print for IPython in a terminal: the table; within other objects the line."""
        printer.text(repr(self) if cycle or len(printer.stack) > 1 else str(self))


class ShownTimeline(Shown):
    """A replay of threads or ranks, which has a timeline."""

    __slots__ = ()

    def plot(self: TimelineSource, ax: Axes | None = None) -> Axes:
        """Draw the timeline as a Gantt chart, a row for those that did the same.

        Raises:
            OutputError: matplotlib is missing.
        """
        from foretrace.reports.plots import gantt

        return gantt(axes_to_draw(ax, 1.6 + 0.28 * min(len(self.outcome.compiled.entities), MOST_ROWS)), self)

    def save(self: TimelineSource, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the timeline, for ui.perfetto.dev (.json.gz) or as a picture (.svg, .png, .pdf).

        Raises:
            OutputError: the file exists and `force` is not given, has another ending, or cannot be written.
        """
        from foretrace.reports.timelines import check_timeline, write_timeline

        check_timeline(Path(path), force=force)
        write_timeline(self, Path(path), force=force)


def shown_as(kind: type[_Result], record: Any) -> _Result:
    """A library record as the result type that derives from it."""
    names = (
        record.__struct_fields__ if hasattr(record, "__struct_fields__") else [field.name for field in fields(record)]
    )
    return kind(**{name: getattr(record, name) for name in names})


def shortened(text: str, most: int = MOST_LETTERS) -> str:
    """Text from a program or file, harmless and at most `most` letters."""
    text = plain(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def where(file: str, line: int, module: str, caller: str = "", inlined: str = "") -> str:
    """`place_text`, with `In[3]:line` for a cell of this session."""
    return shortened(place_text(cell_name(file) or file, line, module, caller, inlined), 60 if inlined else 40)


def where_of(place: Place) -> str:
    """`where` for a place in a prediction."""
    return where(place.file, place.line, place.module, place.caller, place.inlined)


SOURCE = Column("", "source", value=lambda record: where_of(record.place))
"""In place of the reports' column of this heading: with the names of a notebook's cells."""


def cell_name(file: str) -> str | None:
    """IPython's name of the cell whose code it has given this file's name."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    name = None if shell is None else shell.compile.format_code_name(file)
    return None if name is None else name[1]


def as_text(shown: ShownTable) -> str:
    """The table as text, in the form of the command line's tables."""
    from rich.console import Console

    from foretrace.base.terminal import table

    rows = table(*shown.headings, left=tuple(shown.headings[: shown.left]))
    for row in shown.rows:
        rows.add_row(*map(shortened, row))
    out = io.StringIO()
    console = Console(
        file=out, width=MOST_WIDTH, highlight=False, markup=False, emoji=False, color_system=None, force_terminal=False,
        force_jupyter=False,
    )  # fmt: skip
    if shown.title:
        console.print(plain(shown.title), soft_wrap=True)
    if shown.rows:
        console.print(rows, crop=False)
    for line in shown.lines_below:
        console.print(plain(line), soft_wrap=True)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))


def as_html(shown: ShownTable) -> str:
    """For notebooks. All text is escaped: names come from the traced program."""

    def cell(tag: str, number: int, text: str) -> str:
        side = "left" if number < shown.left else "right"
        return f'<{tag} style="text-align:{side}">{html.escape(shortened(text))}</{tag}>'

    def row(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(cell(tag, number, text) for number, text in enumerate(cells))}</tr>"

    parts = [f"<div><b>{html.escape(plain(shown.title))}</b></div>"] if shown.title else []
    if shown.rows:
        body = "".join(row("td", cells) for cells in shown.rows)
        parts.append(f"<table><thead>{row('th', shown.headings)}</thead><tbody>{body}</tbody></table>")
    parts += [f"<div>{html.escape(plain(line))}</div>" for line in shown.lines_below]
    return "".join(parts)


def axes_to_draw(ax: Axes | None, height_inches: float = 4.2) -> Axes:
    """The given axes, or those of a new figure.

    Raises:
        OutputError: matplotlib is missing.
    """
    return new_figure(height_inches).add_subplot() if ax is None else ax


def new_figure(height_inches: float, width_inches: float = 7) -> Figure:
    """A figure that notebooks show.

    Raises:
        OutputError: matplotlib is missing.
    """
    try:
        from matplotlib import pyplot
    except ImportError:
        raise OutputError("pictures need matplotlib; install it with: pip install 'foretrace[plot]'") from None
    return pyplot.figure(figsize=(width_inches, height_inches), layout="constrained")
