"""Tables of measurements, for people."""

from __future__ import annotations

from rich.table import Table


def table(title: str, *headings: str) -> Table:
    """A table whose first heading is on the left, the others on the right."""
    made = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in headings:
        made.add_column(heading, justify="left" if heading == headings[0] else "right", no_wrap=True)
    return made


def times(value: float | None) -> str:
    """A ratio."""
    return "-" if value is None else f"{value:.2f}x"


def percent(value: float | None) -> str:
    """A share, or a difference, with its sign."""
    return "-" if value is None else f"{value:+.4%}"
