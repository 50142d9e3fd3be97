"""Tables of measurements, for people."""

from __future__ import annotations

from rich.table import Table

from foretrace.base import terminal


def table(title: str, *headings: str) -> Table:
    """A table whose first heading is on the left, the others on the right."""
    return terminal.table(*headings, title=title, no_wrap=True)


def times(value: float | None) -> str:
    """A ratio."""
    return "-" if value is None else f"{value:.2f}x"


def percent(value: float | None) -> str:
    """A share, or a difference, with its sign."""
    return "-" if value is None else f"{value:+.4%}"
