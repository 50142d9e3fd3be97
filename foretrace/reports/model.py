"""Reports: sections of raw values that renderers write for terminals, notebooks, spreadsheets and documents.

A column declares once what a quantity is called by programs (its key, which ends in the unit) and by people (its
heading), and how its values are written. Nothing here is escaped: each renderer does that for its own format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeAlias

from foretrace.base.units import format_bytes, format_bytes_per_s, format_count, format_hz, format_seconds
from foretrace.profiles.charts import Chart

NONE = "-"
"""A value that is not known, or that there is none of, for people."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value and how people read it. Text is flush left and may be shortened, numbers are neither."""

    text: Callable[[Any], str]
    is_text: bool = False


TEXT = Kind(str, is_text=True)
INTEGER = Kind(str)
COUNT = Kind(format_count)
BYTES = Kind(format_bytes)
BYTES_PER_S = Kind(format_bytes_per_s)
HERTZ = Kind(format_hz)
SECONDS = Kind(format_seconds)
SHARE = Kind("{:.1%}".format)
WHOLE_SHARE = Kind("{:.0%}".format)
FINE_SHARE = Kind("{:.2%}".format)
RATIO = Kind("{:.2f}".format)
FINE_RATIO = Kind("{:.3f}".format)
SIGNED_SHARE = Kind("{:+.0%}".format)
YES_NO = Kind(lambda value: "yes" if value else "no")


@dataclass(frozen=True, slots=True)
class Column:
    """A quantity of each record of a table.

    Attributes:
        key: its name for programs; "" if it is for people only.
        heading: its name for people; None if it is for programs only.
        kind: of its values.
        value: takes it from a record; the attribute `key` if not given.
        drop: where a table is too wide for a terminal, columns are left out: 1 first, then 2, ...; 0 never.
        whole: its text is never shortened.
        left: whether it is flush left; as its kind if not given.
        wraps: its text goes on in the next line where the terminal ends; tables with such a column are never shortened.
        type: of its values, for Parquet; None: as they are.
    """

    key: str
    heading: str | None = None
    kind: Kind = TEXT
    value: Callable[[Any], Any] | None = None
    drop: int = 0
    whole: bool = False
    left: bool | None = None
    wraps: bool = False
    type: type[str] | type[int] | type[float] | type[bool] | None = None

    def of(self, record: Any) -> Any:
        """The value in a record, an enumeration's as text."""
        if self.value is not None:
            value = self.value(record)
        else:
            value = record[self.key] if isinstance(record, Mapping) else getattr(record, self.key)
        return str(value) if isinstance(value, Enum) and isinstance(value, str) else value

    def within(self, part: Callable[[Any], Any]) -> Column:
        """Column with the same quantity, taken from a part of a record."""
        return replace(self, value=lambda record: self.of(part(record)))

    def text(self, record: Any) -> str:
        """The value for people."""
        value = self.of(record)
        return NONE if value is None else self.kind.text(value)

    @property
    def is_left(self) -> bool:
        """Whether it is flush left."""
        return self.kind.is_text if self.left is None else self.left


def bound(function: Callable[[Any, Any], Any], second: Any) -> Callable[[Any], Any]:
    """The function of a record with its second argument given."""
    return lambda record: function(record, second)


def for_programs(*keys: str) -> tuple[Column, ...]:
    """Columns of attributes that only programs are given."""
    return tuple(Column(key) for key in keys)


def document_of(record: Any, *columns: Column | str) -> dict[str, Any]:
    """A record in a JSON document: its values by the columns' keys. Text names attributes, a space between two."""
    found: dict[str, Any] = {}
    for one in columns:
        if isinstance(one, str):
            found |= {key: getattr(record, key) for key in one.split()}
        elif one.key:
            found[one.key] = one.of(record)
    return found


@dataclass(frozen=True, slots=True)
class Text:
    """Lines for people; an empty one separates."""

    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Table:
    """Records in columns. Programs and documents get all records, a terminal those `shown`.

    Attributes:
        headings: of the columns that people see, in this order; of all that have one if not given.
        shown: how many of the records, or which; None: all.
        rest: a line on those that are not shown.
    """

    columns: Sequence[Column]
    records: Sequence[Any]
    title: str = ""
    headings: Sequence[str] | None = None
    shown: int | Sequence[Any] | None = None
    rest: str = ""

    @property
    def keyed(self) -> tuple[Column, ...]:
        """The columns for programs."""
        return tuple(column for column in self.columns if column.key)

    @property
    def headed(self) -> tuple[Column, ...]:
        """The columns for people."""
        if self.headings is None:
            return tuple(column for column in self.columns if column.heading is not None)
        by_heading = {column.heading: column for column in reversed(self.columns)}
        return tuple(by_heading[heading] for heading in self.headings)

    @property
    def shown_records(self) -> Sequence[Any]:
        """The records that a terminal shows."""
        if self.shown is None or isinstance(self.shown, int):
            return self.records[: self.shown]
        return self.shown

    def rows(self) -> list[list[Any]]:
        """All raw values of the columns for programs."""
        columns = self.keyed
        return [[column.of(record) for column in columns] for record in self.records]

    def cells(self, records: Sequence[Any]) -> list[list[str]]:
        """The values for people of some of the records."""
        columns = self.headed
        return [[column.text(record) for column in columns] for record in records]


@dataclass(frozen=True, slots=True)
class Tree:
    """Nodes in depth-first order: depth, text of the node, and what stands in front of it, flush with the others."""

    heading: str
    nodes: Sequence[tuple[int, str, str]]


Section: TypeAlias = Text | Table | Chart | Tree


@dataclass(frozen=True, slots=True)
class Report:
    """A verb's result.

    Attributes:
        title: what it is, for documents.
        sections: for people.
        data: all rows of what it is about, for programs.
        document: makes its JSON document.
    """

    title: str
    sections: Sequence[Section]
    data: Table
    document: Callable[[], Mapping[str, Any]] = field(default=dict)
