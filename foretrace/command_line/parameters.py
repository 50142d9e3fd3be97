"""Types of options."""

from __future__ import annotations

import math
from typing import Any

import click


class NumberRange(click.FloatRange):
    """A range of numbers that excludes nan, which click accepts in any range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, or an error that says what it must be."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail("nan is no number.", param, ctx)
        return number


class ThreadCounts(click.ParamType):  # type: ignore[type-arg] # generic only in click's newest versions
    """Numbers of threads, "1,2,4", ascending and each once."""

    name = "threads"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """The numbers, or an error that says what they must be."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in value.split(",")]
        if not all(part.isdecimal() and part.isascii() and 1 <= int(part) <= 10_000 for part in parts):
            self.fail(f"{value!r} is no list of numbers of threads, each from 1 to 10,000, such as 1,2,4", param, ctx)
        return tuple(sorted({int(part) for part in parts}))


class EventCount(click.ParamType):  # type: ignore[type-arg] # generic only in click's newest versions
    """An event and a value for it, "solver::iterations=900"."""

    name = "event"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        """The event's name and its value, or an error that says what they must be."""
        if isinstance(value, tuple):
            return value
        name, _, count = value.rpartition("=")
        try:
            number = float(count)
        except ValueError:
            number = math.nan
        if not name or not math.isfinite(number):
            self.fail(f"{value!r} is no event with a number, such as solver::iterations=900", param, ctx)
        return name, number
