"""The declaration of a signature's columns: what they store they load, and what they must not hold they refuse."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from types import SimpleNamespace
from typing import Annotated, Any

import msgspec
import numpy as np
import pytest
import signature_page
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.tracer.signature import schema
from foretrace.tracer.signature.file import TABLES
from foretrace.tracer.signature.schema import LARGEST, Column, Scale, StoredTables

ROWS = 10
"""Rows of every table."""
COLUMNS = {
    f"{table.name}.{column.column}": (table.name, column)
    for table in TABLES.values()
    for column in table.columns.values()
}
TEXTS, WORDS = st.text(max_size=9), st.text("axm0", min_size=1, max_size=4)


def count(name: str) -> int:
    assert name in TABLES
    return ROWS


def bounds(column: Column) -> tuple[float, float]:
    """The smallest and largest value that a column may have."""
    most = ROWS - 1 if column.of else column.most
    if most is None:
        most = 1 if column.type is bool else 2**64 - 1 if column.wraps else LARGEST
    if column.packed and column.packed[-2] != "f":
        most = min(most, int(np.iinfo(column.packed).max))
    return max(column.least, -LARGEST), most


def values(column: Column) -> st.SearchStrategy[Any]:
    """Values that a column may have."""
    least, most = bounds(column)
    if column.kinds or (issubclass(column.type, str) and column.type is not str):
        found: st.SearchStrategy[Any] = st.sampled_from(list(column.kinds or column.type))
    elif column.type is float:
        ends = (least if math.isfinite(column.least) else None, most if column.most is not None else None)
        found = st.floats(*ends, allow_nan=False, allow_infinity=column.most == math.inf)
    else:
        found = {
            bool: st.booleans(), str: TEXTS, bytes: st.binary(max_size=9), tuple: st.lists(WORDS).map(tuple),
            object: st.integers(-LARGEST, LARGEST) | st.floats(allow_nan=False),
        }.get(column.type, st.integers(int(least), int(min(most, 2**64))))  # fmt: skip
    if column.null is not None:
        found |= st.just(column.null)
    return found | st.none() if column.is_optional else found


def refused(column: Column) -> st.SearchStrategy[Any]:
    """Values of SQLite that a column must not have."""
    numbers: list[Any] = [] if column.wraps else [int(bounds(column)[0]) - 1] if math.isfinite(column.least) else []
    if math.isfinite(bounds(column)[1]) and bounds(column)[1] < LARGEST:
        numbers.append(int(bounds(column)[1]) + 1)
    wrong = {
        float: ["text", b"x", math.nan, *map(float, numbers)], bytes: ["text", 1], object: ["text", b"x"],
        str: [1, 0.5], tuple: [1, 0.5],
    }.get(column.base, ["text", b"x", 0.5, *numbers])  # fmt: skip
    if column.kinds or (column.base is str and column.type is not str):
        wrong = ["magic", 1]
    is_nullable = column.is_optional or column.null is not None
    return st.sampled_from(wrong if is_nullable else [*wrong, None])


@settings(max_examples=10)
@given(data=st.data())
def test_columns_load_what_they_stored(data: st.DataObject) -> None:
    for table, column in COLUMNS.values():
        given_values = data.draw(st.lists(values(column), min_size=1, max_size=3))
        if column.packed:
            array = np.array(given_values, column.array)
            (stored,) = column.stored([array])
            found = column.unpacked(stored, [len(array)], table, count)
        else:
            found = column.loaded(column.stored(given_values), table, count)
        assert list(found) == list(given_values)


@settings(max_examples=10)
@given(data=st.data())
def test_columns_refuse_other_values_by_their_name(data: st.DataObject) -> None:
    for name, (table, column) in COLUMNS.items():
        if not column.packed:
            right = list(column.stored(data.draw(st.lists(values(column), max_size=2))))
            with pytest.raises(ValueError, match=name):
                column.loaded([*right, data.draw(refused(column)), *right], table, count)


@pytest.mark.parametrize("name", [name for name, (_, column) in COLUMNS.items() if column.packed])
def test_a_packed_column_refuses_other_values_by_its_name(name: str) -> None:
    table, column = COLUMNS[name]
    least, most = bounds(column)
    numbers: list[float] = [math.nan, -1.0] if column.packed[-2] == "f" else [least - 1, most + 1]
    for number in numbers if math.isfinite(column.least) else []:
        if column.packed[-2] != "f" and not np.iinfo(column.packed).min <= number <= np.iinfo(column.packed).max:
            continue
        blob = column.stored([np.array([0, number], column.packed)])[0]
        with pytest.raises(ValueError, match=name):
            column.unpacked(blob, [2], table, count)
    with pytest.raises(ValueError, match=name):
        column.unpacked(b"text", [2], table, count)


def test_every_reference_is_to_a_table() -> None:
    assert {column.of for _, column in COLUMNS.values()} - {""} <= set(TABLES)


def test_the_page_lists_every_table() -> None:
    assert signature_page.PAGE.read_text() == signature_page.page(), "run: python tests/helpers/signature_page.py"


class Counted(msgspec.Struct, frozen=True):
    """A record that has got a count."""

    number: schema.Identity
    entries: schema.Count
    exits: Annotated[int, Column(Scale.COUNT, since=2)] = 0


def test_a_new_count_is_one_line() -> None:
    """Old files are read without it; tables of new ones have it, and merging sums it."""
    table = schema.table_of("counted", Counted, "records")
    assert table.sql(2).endswith("(number INTEGER PRIMARY KEY, entries INTEGER NOT NULL, exits INTEGER NOT NULL)")
    for version, read in ((1, (Counted(0, 5), Counted(1, 6))), (2, (Counted(0, 5, 3), Counted(1, 6, 4)))):
        with closing(sqlite3.connect(":memory:")) as database:
            database.execute(f"PRAGMA user_version = {version}")
            database.execute(table.sql(version))
            for row in table.rows(SimpleNamespace(records=[Counted(0, 5, 3), Counted(1, 6, 4)])):
                database.execute(f"INSERT INTO counted VALUES (?, ?{', ?' * (version - 1)})", row[: 1 + version])
            assert StoredTables(database, {"counted": table}).records(Counted, "counted") == read
