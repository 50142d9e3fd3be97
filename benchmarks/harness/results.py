"""The results of measurements: tables, predictions beside what was measured, and labels that were found or missed.

Each has one form for people, one in JSON and one in Markdown; `python -m foretrace.benchmarks` shows them.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from foretrace.base import terminal
from foretrace.base.units import format_seconds

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A table as it is shown, and in JSON as `key` with `data`: numbers with their units in the names."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    data: Any = None
    key: str = "rows"
    left: Sequence[str] = ()
    """Headings of text columns; by default the first."""

    def show(self) -> None:
        """Print it."""
        shown = terminal.table(*self.headings, title=self.title, no_wrap=True, left=self.left)
        for row in self.rows:
            shown.add_row(*map(terminal.plain, row))
        terminal.console().print(shown)

    def as_json(self) -> dict[str, Any]:
        """Its title and data; the cells where there is no data."""
        return {"title": self.title, self.key: self.data if self.data is not None else [list(row) for row in self.rows]}

    def as_markdown(self) -> str:
        """Its headings and rows; the title above them."""
        rows = [[cell.replace("|", "\\|") for cell in row] for row in self.rows]
        lines = [f"| {' | '.join(row)} |" for row in (self.headings, ["---"] * len(self.headings), *rows)]
        return "\n".join([self.title, "", *lines])


Part = ResultTable | str
"""A table, or a line of text: a summary, or what was left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPrediction:
    """A predicted value with its interval beside the measured or published one.

    Attributes:
        name: what was predicted.
        machine: where; "" for this machine.
        unit: s, cycles, bytes/s, or x: a ratio of times.
        predicted: the typical value; None where nothing was predicted.
        low: the lower end of its interval; None where it has none.
        high: the upper end.
        measured: None where nothing was measured.
        problem: why a value is missing.
        notes: further columns, by heading.
    """

    name: str
    predicted: float | None
    measured: float | None
    machine: str = ""
    unit: str = "s"
    low: float | None = None
    high: float | None = None
    problem: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Predicted over measured value."""
        return None if self.predicted is None or not self.measured else self.predicted / self.measured

    @property
    def error(self) -> float | None:
        """The ratio less 1."""
        return None if self.ratio is None else self.ratio - 1

    @property
    def is_inside(self) -> bool | None:
        """Whether the interval holds the measured value; None where one of them is missing."""
        if self.low is None or self.high is None or self.measured is None:
            return None
        return self.low <= self.measured <= self.high

    def is_within(self, factor: float) -> bool:
        """Whether predicted and measured value differ by at most a factor."""
        return self.ratio is not None and 1 / factor <= self.ratio <= factor

    def as_json(self) -> dict[str, Any]:
        """All fields, and what follows from them."""
        values = {name: getattr(self, name) for name in ("name", "machine", "unit", "predicted", "low", "high")}
        return values | {
            "measured": self.measured, "ratio": self.ratio, "is_inside": self.is_inside, "problem": self.problem,
            **self.notes,
        }  # fmt: skip


def prediction_table(title: str, rows: Sequence[MeasuredPrediction]) -> ResultTable:
    """A table of predictions and measurements, without columns that would be empty."""
    notes = list(dict.fromkeys(heading for row in rows for heading in row.notes))
    optional = {
        "machine": any(row.machine for row in rows),
        "interval": any(row.low is not None for row in rows),
        "": any(row.is_inside is not None or row.problem for row in rows),
    }
    headings = ("name", "machine", "predicted", "interval", "measured", "ratio", *notes, "")
    shown = [heading for heading in headings if optional.get(heading, True)]
    cells = []
    for row in rows:
        ends = [formatted(end, row.unit) for end in (row.low, row.high)]
        values = dict(row.notes) | {
            "name": row.name,
            "machine": row.machine,
            "predicted": formatted(row.predicted, row.unit),
            "interval": "-" if row.low is None else " to ".join(ends),
            "measured": formatted(row.measured, row.unit),
            "ratio": "-" if row.ratio is None else f"{row.ratio:.2f}",
            "": row.problem or ("outside" if row.is_inside is False else ""),
        }
        cells.append([values.get(heading, "") for heading in shown])
    return ResultTable(title, shown, cells, [row.as_json() for row in rows], "predictions")


def summary(rows: Sequence[MeasuredPrediction], factor: float | None = None) -> str:
    """Summary of predictions: mean and median error, and how many are within a factor and in their intervals."""
    errors = [abs(row.error) for row in rows if row.error is not None]
    if not errors:
        return f"{len(rows)} rows, none of them compared"
    middle = math.exp(statistics.median(math.log(max(row.ratio, 1e-9)) for row in rows if row.ratio is not None))
    known = [row.is_inside for row in rows if row.is_inside is not None]
    parts = [
        f"{len(errors)} of {len(rows)} compared: mean absolute error {statistics.fmean(errors):.1%}, "
        f"median ratio {middle:.2f}"
    ]
    parts += [] if factor is None else [f"{sum(row.is_within(factor) for row in rows)} within a factor of {factor:g}"]
    parts += [f"{sum(known)} of {len(known)} inside their interval"] if known else []
    return ", ".join(parts)


@dataclass(slots=True)
class LabelCount:
    """Number of places where a label was given, found, and both."""

    labelled: int = 0
    found: int = 0
    both: int = 0

    def add(self, labelled: bool, found: bool) -> None:
        """Count one place."""
        self.labelled += labelled
        self.found += found
        self.both += labelled and found

    @property
    def precision(self) -> float | None:
        """The share of what was found that is labelled so."""
        return self.both / self.found if self.found else None

    @property
    def recall(self) -> float | None:
        """The share of what is labelled that was found."""
        return self.both / self.labelled if self.labelled else None


def label_table(title: str, counts: Mapping[str, LabelCount]) -> ResultTable:
    """Precision and recall of each label."""
    rows, data = [], {}
    for name, one in counts.items():
        shares = ["-" if share is None else f"{share:.3f}" for share in (one.precision, one.recall)]
        rows.append([name, str(one.labelled), str(one.found), str(one.both), *shares])
        values = ("labelled", "found", "both", "precision", "recall")
        data[name] = {value: getattr(one, value) for value in values}
    return ResultTable(title, ("label", "labelled", "found", "both", "precision", "recall"), rows, data, "labels")


def total(counts: Iterable[LabelCount]) -> LabelCount:
    """The counts of several labels together."""
    every = list(counts)
    return LabelCount(*(sum(getattr(one, name) for one in every) for name in ("labelled", "found", "both")))


def formatted(value: float | None, unit: str) -> str:
    """A value with its unit."""
    if value is None:
        return "-"
    if unit == "s":
        return format_seconds(value)
    return f"{value:.2f}x" if unit == "x" else f"{value:.4g} {unit}"


def times(value: float | None) -> str:
    """A ratio."""
    return formatted(value, "x")


def growing(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows so far, each time that there is one more: tables made of them survive an interrupt."""
    found: list[Row] = []
    for row in rows:
        found.append(row)
        yield found


def say(text: str) -> None:
    """Progress, for whoever waits at a terminal."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
