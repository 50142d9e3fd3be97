"""The declaration of a signature's records: SQL tables, rows, readers, range checks and documentation follow from it.

A field of a record says by an annotation how its numbers scale and what they refer to:

    executions: Count
    loop_id: LoopId | None

`columns_of` reads these annotations, a `Table` lists the columns of its rows, and `StoredTables` reads the rows back.
A signature may come from anyone: a column refuses every value that its declaration does not allow, and names itself.
"""

from __future__ import annotations

import itertools
import math
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum, IntEnum, StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
import numpy as np
import numpy.typing as npt

from .packed_arrays import packed, unpacked

LARGEST = 2**63 - 1
"""The largest integer that SQLite stores ("Datatypes": integers have 8 bytes at most)."""

Record = TypeVar("Record")
CountRows = Callable[[str], int]
"""Number of rows of a table."""


class Scale(StrEnum):
    """Way in which a value grows with the run; it decides how records of the same thing in several signatures are
    merged."""

    IDENTITY = "identity"  # number of the record: its position in the table
    OWNER = "owner"  # number of the record that this one is a part of
    REFERENCE = "reference"  # number of another record
    NAME = "name"  # tells records apart: texts, kinds, sizes of types; the same in each run
    COUNT = "count"  # grows with the work: summed
    LOWEST = "lowest"  # a lower bound, such as the first address
    HIGHEST = "highest"  # an upper bound
    MEAN = "mean"  # of an execution: averaged by executions
    SHARE = "share"  # from 0 to 1
    FLAG = "flag"  # true if it is so in any run


_SQL: dict[Any, str] = {
    bool: "INTEGER",
    int: "INTEGER",
    float: "REAL",
    bytes: "BLOB",
    str: "TEXT",
    tuple: "TEXT",
    object: "",
}
_STORED: dict[Any, set[type]] = {
    bool: {int}, int: {int}, float: {float}, bytes: {bytes}, str: {str, bytes}, tuple: {str, bytes},
    object: {int, float},
}  # fmt: skip


class Column(msgspec.Struct, frozen=True):
    """A column of a table. What is given in an annotation:

    Attributes:
        scale: how its values scale.
        unit: of its values.
        of: the table whose rows it numbers.
        column: its name in the table; without one, the field's.
        least: the smallest value allowed.
        most: the largest; without it, any that can be stored. `math.inf` also allows infinity.
        null: the value that is stored as NULL.
        kinds: an enumeration whose members are stored by their names in lower case.
        packed: the NumPy type of the numbers of a packed array; without it each value has a row.
        length: of a packed array, its axes: numbers, columns of the same row, or tables as long.
        wraps: stored as a signed integer, though it may be 2^63 and more.
        since: the first version of signatures that has it; in older ones its field has its default.

    What follows from the field: the Python `type` of its values (`object`: any number), the element type
    `array` of a NumPy array, and whether it `is_optional`.
    """

    scale: Scale = Scale.NAME
    unit: str = ""
    of: str = ""
    column: str = ""
    least: float = 0
    most: float | None = None
    null: int | None = None
    kinds: type[IntEnum] | None = None
    packed: str = ""
    length: tuple[int | str, ...] = ()
    wraps: bool = False
    since: int = 0
    type: Any = int
    array: Any = None
    is_optional: bool = False

    @property
    def sql(self) -> str:
        """Its definition in CREATE TABLE."""
        name = '"order"' if self.column == "order" else self.column
        kind = "BLOB" if self.packed else "TEXT" if self.kinds else _SQL[self.base]
        return f"{name} {kind}".rstrip() + ("" if self.is_optional or self.null is not None else " NOT NULL")

    @property
    def base(self) -> Any:
        """The Python type, of an enumeration that of its values."""
        return str if issubclass(self.type, Enum) else self.type

    def stored(self, values: Iterable[Any]) -> Sequence[Any]:
        """The values as SQLite stores them."""
        if self.packed:
            return [packed(array, self.packed) for array in values]
        found = values.tolist() if isinstance(values, np.ndarray) else list(values)
        if self.kinds is not None:
            names = {int(kind): kind.name.lower() for kind in self.kinds}
            found = [names[value] for value in found]
        elif issubclass(self.type, Enum):
            found = [value.value for value in found]
        elif self.type is bool:
            found = list(map(int, found))
        elif self.type is tuple:
            found = [" ".join(words) for words in found]
        elif self.null is not None:
            found = [None if value == self.null else value for value in found]
        elif self.wraps:
            found = [value if value <= LARGEST else value - (1 << 64) for value in found]
        return found

    def loaded(self, values: Sequence[Any], table: str, count: CountRows) -> Any:
        """The values that were `stored` in a table: a list, or an array if the field is one.

        Raises:
            ValueError: a value is not allowed; names the column.
        """
        if not values:
            return [] if self.array is None else np.zeros(0, self.array)
        where, present = f"{table}.{self.column}", values
        found = set(map(type, values))
        if NoneType in found and (self.is_optional or self.null is not None):
            found.remove(NoneType)
            present = [value for value in values if value is not None]
        base = str if self.kinds else self.base
        if not found <= _STORED[base]:
            wrong = min(kind.__name__ for kind in found - _STORED[base])
            raise ValueError(f"{where} has a value of the type {wrong}")
        if base in (str, tuple):
            return self._texts(values, bytes in found, where)
        if base is bytes:
            return values
        if self.wraps:
            present = values = [value if value >= 0 else value + (1 << 64) for value in values]
        elif present:
            self._check(min(present), max(present), where, count)
            if float in found and not all(map(self._is_number, present)):
                raise ValueError(f"{where} has a value that is no number")
        if self.null is not None and len(present) < len(values):
            values = [self.null if value is None else value for value in values]
        if self.array is not None:
            return np.array(values, self.array)
        return list(map(bool, values)) if base is bool else values

    def _texts(self, values: Sequence[Any], has_bytes: bool, where: str) -> Any:
        if has_bytes:
            values = [as_text(value) for value in values]
        if self.type is tuple:
            return [tuple(value.split()) for value in values]
        if self.kinds is None and not issubclass(self.type, Enum):
            return values
        kinds = {kind.name.lower() if self.kinds else kind.value: kind for kind in self.kinds or self.type}
        unknown = set(values) - set(kinds)
        if unknown:
            raise ValueError(f"{where} has the impossible value {min(unknown)[:40]!r}")
        found = [kinds[value] for value in values]
        return found if self.array is None else np.array(found, self.array)

    def unpacked(self, blob: Any, shape: Sequence[int], table: str, count: CountRows) -> npt.NDArray[Any]:
        """The packed array of that shape.

        Raises:
            ValueError: it is no such array, or holds a value that is not allowed; names the column.
        """
        where = f"{table}.{self.column}"
        array = unpacked(blob, self.packed, math.prod(shape), where).reshape(shape)
        self.check(array, table, count)
        return array.astype(self.array, copy=False)

    def check(self, array: npt.NDArray[Any], table: str, count: CountRows) -> None:
        """Refuse a packed array that holds a value which is not allowed.

        Raises:
            ValueError: names the column.
        """
        where = f"{table}.{self.column}"
        if not array.size or self.least == -math.inf:
            return
        if array.dtype.kind == "f":
            if not np.all(np.isfinite(array)):
                raise ValueError(f"{where} has a value that is no number")
        elif int(array.max()) > np.iinfo(self.packed).max:
            raise ValueError(f"{where} has the value {array.max()}, which has no room")
        self._check(array.min().item(), array.max().item(), where, count)

    def _is_number(self, value: float) -> bool:
        return not math.isnan(value) if self.most == math.inf else math.isfinite(value)

    def _check(self, low: float, high: float, where: str, count: CountRows) -> None:
        most = self.most
        if most is None:
            most = 1 if self.type is bool else LARGEST if self.type is int else math.inf
        if low < self.least or high > most:
            bound = f"below {self.least}" if low < self.least else f"above {most}"
            raise ValueError(f"{where} has the value {low if low < self.least else high}, {bound}")
        if self.of and high >= count(self.of):
            raise ValueError(f"{where} has the value {high}, and {self.of} has {count(self.of)} rows")


def as_text(value: Any) -> Any:
    """Text that was stored as bytes, as it is not UTF-8; anything else as it is."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

Identity = Annotated[int, Column(Scale.IDENTITY)]
Count = Annotated[int, Column(Scale.COUNT)]
Bytes = Annotated[int, Column(Scale.COUNT, "bytes")]
Lowest = Annotated[int, Column(Scale.LOWEST)]
Highest = Annotated[int, Column(Scale.HIGHEST)]
Rows = Annotated[int, Column(most=1 << 26)]
"""Number of rows of packed arrays."""
MostBytes = Annotated[int, Column(Scale.HIGHEST, "bytes")]
Lines = Annotated[float, Column(Scale.COUNT, "lines")]
MeanLines = Annotated[float, Column(Scale.MEAN, "lines")]
Faults = Annotated[float, Column(Scale.COUNT, "page faults")]
Share = Annotated[float, Column(Scale.SHARE, most=1 + 1e-9)]
Flag = Annotated[bool, Column(Scale.FLAG)]
Offset = Annotated[int, Column(wraps=True)]
BlockId = Annotated[int, Column(Scale.REFERENCE, of="blocks")]
OfBlock = Annotated[int, Column(Scale.OWNER, of="blocks")]
OperationId = Annotated[int, Column(Scale.REFERENCE, of="memory_operations")]
LoopId = Annotated[int, Column(Scale.REFERENCE, of="loops")]
OfIdiom = Annotated[int, Column(Scale.OWNER, of="idioms")]
OfLoop = Annotated[int, Column(Scale.OWNER, of="loops")]


def no_ints() -> Ints:
    """An empty column, for fields that may be left out."""
    return np.zeros(0, np.int64)


def packed_rows(kind: str, column: str = "", scale: Scale = Scale.NAME, **more: Any) -> Column:
    """A column of packed numbers, as many as its table's row says in `rows`."""
    return Column(scale, column=column, packed=kind, length=("rows",), **more)


def columns_of(record: type, *names: str, skip: Sequence[str] = ()) -> dict[str, Column]:
    """The columns of a record's fields, by field: of those with these names, or of all but some."""
    hints = {
        name: (kind.__module__, hint)
        for kind in reversed(record.__mro__)
        for name, hint in vars(kind).get("__annotations__", {}).items()
    }
    return columns(**{name: _type(*hints[name]) for name in names or field_names(record) if name not in skip})


@cache
def _type(module: str, hint: str) -> Any:
    """The type that an annotation says. (`typing.get_type_hints` takes ten times as long.)"""
    return eval(hint, vars(sys.modules[module]))


def columns(**hints: Any) -> dict[str, Column]:
    """The columns of fields with these types."""
    return {name: _column(name, hint) for name, hint in hints.items()}


def _column(name: str, hint: Any) -> Column:
    given, is_optional, array = Column(), False, None
    while get_origin(hint) in (Annotated, Union, UnionType):
        if get_origin(hint) is Annotated:
            hint, given = get_args(hint)
        else:
            kinds = [kind for kind in get_args(hint) if kind is not NoneType]
            is_optional = len(kinds) < len(get_args(hint))
            hint = kinds[0] if len(kinds) == 1 else object
    if get_origin(hint) is np.ndarray:
        array = get_args(get_args(hint)[1])[0]
        hint = {"f": float, "b": bool}.get(np.dtype(array).kind, int)
    return msgspec.structs.replace(
        given,
        column=given.column or name,
        type=get_origin(hint) or hint,
        array=array,
        is_optional=is_optional,
        kinds=hint if isinstance(hint, type) and issubclass(hint, IntEnum) else given.kinds,
    )


def field_names(record: type) -> tuple[str, ...]:
    """The fields of a record type."""
    if is_dataclass(record):
        return tuple(one.name for one in fields(record))
    return tuple(record.__struct_fields__)  # type: ignore[attr-defined]


def _whole(signature: Any) -> Any:
    return signature


class Table(msgspec.Struct, frozen=True):
    """A table of a signature.

    Attributes:
        name: of the table.
        what: a row of it, for the documentation.
        columns: by field.
        values: the values of each column, of the part of a signature that the table is of; empty without rows.
        part: this part, or None where the table has no rows: the whole signature, its tree, ...
        order: SQL by which rows are read; without it, the first column is the primary key.
        since: the first version of signatures that always has the table.
    """

    name: str
    what: str
    columns: dict[str, Column]
    values: Callable[[Any], Iterable[Iterable[Any]]]
    part: Callable[[Any], Any] = _whole
    order: str = "rowid"
    since: int = 0

    def columns_at(self, version: int) -> dict[str, Column]:
        """Its columns in signatures of a version."""
        return {name: column for name, column in self.columns.items() if column.since <= version}

    def sql(self, version: int) -> str:
        """The statement that creates it in signatures of a version."""
        definitions = ", ".join(column.sql for column in self.columns_at(version).values())
        if not self.order:
            definitions = definitions.replace(" NOT NULL", " PRIMARY KEY", 1)
        return f"CREATE TABLE {self.name} ({definitions})"

    def pairs(self, signature: Any) -> Iterable[tuple[Column, Iterable[Any]]]:
        """Its columns with their values; none where it has no rows."""
        part = self.part(signature)
        return () if part is None else zip(self.columns.values(), self.values(part), strict=False)

    def rows(self, signature: Any) -> Iterable[tuple[Any, ...]]:
        """Its rows, as SQLite stores them."""
        return zip(*(column.stored(values) for column, values in self.pairs(signature)), strict=True)

    def check(self, signature: Any, count: CountRows) -> None:
        """Refuse a signature whose rows could not be read back.

        Raises:
            ValueError: names the column.
        """
        for column, values in self.pairs(signature):
            if column.packed:
                for array in values:
                    column.check(array, self.name, count)
            else:
                column.loaded(column.stored(values), self.name, count)


def table_of(
    name: str, record: type, attribute: str = "", *, skip: Sequence[str] = (), number: str = "", **more: Any
) -> Table:
    """The table of the records that a part of a signature has as an attribute, without some of their fields.

    `number`: a column of their positions.
    """
    of_fields = columns_of(record, skip=skip)

    def values(part: Any) -> Iterable[Sequence[Any]]:
        records = getattr(part, attribute or name)
        return (*([range(len(records))] if number else []), *fields_of(records, of_fields))

    numbers = columns(**{number: Identity}) if number else {}
    return Table(name, summary(record), numbers | of_fields, values, **{"order": ""} | more)


def part_table(name: str, what: str, of_fields: dict[str, Column], part: Callable[[Any], Any], **more: Any) -> Table:
    """The table of one row that has fields of a part of a signature; before packed columns comes their length."""
    is_packed = any(column.packed for column in of_fields.values())

    def values(one: Any) -> Iterable[Sequence[Any]]:
        found = [[getattr(one, name)] for name in of_fields]
        return [[len(found[-1][0])], *found] if is_packed else found

    rows = columns(rows=Rows) if is_packed else {}
    return Table(name, what, rows | of_fields, values, part, **more)


def fields_of(records: Sequence[Any], names: Iterable[str]) -> Iterable[Sequence[Any]]:
    """The values of each of these fields of records."""
    return ([getattr(record, name) for record in records] for name in names)


def transposed(rows: Iterable[Iterable[Any]]) -> Iterable[Sequence[Any]]:
    """The columns of rows."""
    return zip(*rows, strict=True)


def values_of(record: Any) -> tuple[Any, ...]:
    """The values of a record's fields."""
    return tuple(getattr(record, name) for name in field_names(type(record)))


def summary(record: type) -> str:
    """The first sentence of a record's documentation."""
    return " ".join((record.__doc__ or "").split("\n\n")[0].split()).partition(". ")[0].rstrip(".") + "."


class StoredTables:
    """The tables of a signature's file. What they hold is checked against its declaration."""

    def __init__(self, database: sqlite3.Connection, tables: Mapping[str, Table]) -> None:
        """`tables` are all that a signature has."""
        self._database, self._tables = database, tables
        self._present = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        self._version = int(database.execute("PRAGMA user_version").fetchone()[0])
        self._counts: dict[str, int] = {}

    def count(self, name: str) -> int:
        """Number of rows of a table."""
        if name not in self._counts:
            number = self._database.execute(f"SELECT count(*) FROM {name}").fetchone()[0] if self.has(name) else 0
            self._counts[name] = number
        return self._counts[name]

    def has(self, name: str) -> bool:
        """Whether the file has the table; that of an earlier version may not."""
        return name in self._present

    def columns(self, name: str) -> dict[str, Any]:
        """The values of each column of a table, by field; of packed ones a list of arrays.

        Raises:
            ValueError: a value is not allowed.
        """
        table = self._tables[name]
        of_fields = table.columns_at(self._version)
        query = f"SELECT * FROM {name} ORDER BY {table.order or 1}"
        rows = self._database.execute(query).fetchall() if self.has(name) else ()
        self._counts[name] = len(rows)
        by_column = list(zip(*rows, strict=True)) or [()] * len(of_fields)
        found: dict[str, Any] = {}
        lengths: dict[int | str, Sequence[Any]] = {}
        for (of_field, column), values in zip(of_fields.items(), by_column, strict=True):
            if not column.packed:
                found[of_field] = lengths[column.column] = column.loaded(values, name, self.count)
            else:
                axes = [lengths.get(axis) or [self._length(axis)] * len(rows) for axis in column.length]
                found[of_field] = [
                    column.unpacked(blob, shape, name, self.count) for blob, *shape in zip(values, *axes, strict=True)
                ]
        first = next(iter(of_fields.values()))
        if first.scale is Scale.IDENTITY and list(by_column[0]) != list(range(len(rows))):
            raise ValueError(f"{name}.{first.column} is not 0, 1, 2, ...")
        return found

    def _length(self, axis: int | str) -> int:
        return axis if isinstance(axis, int) else self.count(axis)

    def row(self, name: str) -> dict[str, Any] | None:
        """The only row of a table, by field; None where it has none, nor has any table that is part of it.

        Raises:
            ValueError: a value is not allowed, it has several rows, or others have rows without it.
        """
        rows = self.count(name)
        if rows > 1:
            raise ValueError(f"{name} has {rows} rows")
        part = self._tables[name].part
        others = [other.name for other in self._tables.values() if not rows and other.part is part is not _whole]
        if any(map(self.count, others)):
            raise ValueError(f"{name} has no row, and {next(filter(self.count, others))} has some")
        return {of_field: values[0] for of_field, values in self.columns(name).items()} if rows else None

    def part(self, name: str) -> dict[str, Any]:
        """The only row of a table that must have one."""
        found = self.row(name)
        if found is None:
            raise ValueError(f"{name} has no row")
        return found

    def records(self, record: Callable[..., Record], name: str, **more: Iterable[Any]) -> tuple[Record, ...]:
        """The rows of a table as records; `more` are fields that have no column."""
        return made(record, {**self.columns(name), **more})

    def parts(self, record: Callable[..., Record], name: str) -> dict[int, tuple[Record, ...]]:
        """The rows of a table as records, by the number in its first column."""
        found = self.columns(name)
        groups: dict[int, list[Record]] = defaultdict(list)
        for owner, part in zip(next(iter(found.values())), made(record, found), strict=True):
            groups[owner].append(part)
        return {owner: tuple(group) for owner, group in groups.items()}


def made(record: Callable[..., Record], by_field: Mapping[str, Iterable[Any]]) -> tuple[Record, ...]:
    """Records of the values of their fields; others have their defaults."""
    every = field_names(record)  # type: ignore[arg-type]
    names = [name for name in every if name in by_field]
    rows = zip(*(by_field[name] for name in names), strict=True)
    if len(names) == len(every):
        return tuple(itertools.starmap(record, rows))
    return tuple(record(**dict(zip(names, row, strict=True))) for row in rows)
