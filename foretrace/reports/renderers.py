"""Renderers of reports: for terminals, as JSON, CSV and Markdown. Each escapes what comes from outside."""

from __future__ import annotations

import csv
import io
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretrace.base.errors import OutputError
from foretrace.base.terminal import json_bytes, plain
from foretrace.profiles.charts import Chart

from .model import Column, Report, Section, Table, Text, Tree

if TYPE_CHECKING:
    import pandas
    from rich.console import Console

FORMATS = ("json", "csv", "md")
"""Formats of reports for other programs and for documents."""
PARQUET = "parquet"
"""Format of files alone."""


def rendered(report: Report, name: str) -> bytes:
    """A report in one of `FORMATS`, or as Parquet."""
    if name == PARQUET:
        return parquet(report.data)
    if name == "json":
        return json_bytes(dict(report.document()))
    text = csv_text(report.data) if name == "csv" else markdown(report)
    return text.encode("utf-8", "backslashreplace")


def print_report(report: Report, out: Console | None = None) -> None:
    """Print a report for people."""
    from foretrace.base.terminal import console

    out = out or console()
    for section in report.sections:
        _print_section(section, out)


def _print_section(section: Section, out: Console) -> None:
    if isinstance(section, Text):
        if out.is_terminal:
            for line in section.lines:
                out.print(plain(line))
        else:
            out.file.writelines(f"{plain(line)}\n" for line in section.lines)
    elif isinstance(section, Table):
        _print_table(section, out)
    elif isinstance(section, Tree):
        out.print(plain(section.heading))
        for depth, before, text in section.nodes:
            out.print(plain(f"{before}{'  ' * depth}{text}"), soft_wrap=True)
    else:
        from .terminal_charts import draw

        for line in draw(section):
            out.print(plain(line), soft_wrap=True)


def _print_table(section: Table, out: Console) -> None:
    from rich.table import Table as Wrapping

    from foretrace.base.fitting_table import FittingTable

    columns, records = section.headed, section.shown_records
    if records or not section.records:
        headings = {column: plain(column.heading or "") for column in columns}
        droppable = sorted((column for column in columns if column.drop), key=lambda column: column.drop)
        rows: Wrapping
        if any(column.wraps for column in columns):
            rows = Wrapping(box=None, pad_edge=False)
        else:
            rows = FittingTable(
                title=plain(section.title) or None, title_justify="left", box=None, padding=(0, 2, 0, 0),
                drop=[headings[column] for column in droppable],
                whole=[headings[column] for column in columns if column.whole],
            )  # fmt: skip
        for column in columns:
            rows.add_column(headings[column], justify="left" if column.is_left else "right")
        for cells in section.cells(records):
            rows.add_row(*map(plain, cells))
        out.print(rows)
    if section.rest:
        out.print(plain(section.rest))


def csv_text(data: Table) -> str:
    """A table as CSV (RFC 4180): keys as its first line, then raw values; None is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(column.key for column in data.keyed)
    writer.writerows([_field(column, column.of(record)) for column in data.keyed] for record in data.records)
    return out.getvalue()


def _field(column: Column, value: Any) -> Any:
    """A value as a field. Text that a spreadsheet would take for a formula is made text by an apostrophe."""
    if isinstance(value, (list, tuple)):
        value = column.kind.text(value)
    if not isinstance(value, str):
        return value
    value = plain(value)
    return f"'{value}" if value[:1] in ("=", "+", "-", "@") else value


_MARKDOWN = re.compile(r"([\\`*_\[\]<>|#~&])")


def _escaped(text: str) -> str:
    """Text without a meaning in Markdown or HTML, also in a cell."""
    return _MARKDOWN.sub(r"\\\1", plain(text))


def markdown(report: Report) -> str:
    """A report as Markdown (GitHub's, for its tables), with all records of its tables."""
    parts = [f"<!-- foretrace report -->\n# {_escaped(report.title)}"]
    for section in report.sections:
        if isinstance(section, Text):
            lines = "\n".join(section.lines).split("\n\n")
            parts += ["  \n".join(map(_escaped, part.strip("\n").split("\n"))) for part in lines if part.strip()]
        elif isinstance(section, Table):
            parts += [f"**{_escaped(section.title)}**"] if section.title else []
            parts += [markdown_table(section)] if section.records else []
        elif isinstance(section, Tree):
            lines = [section.heading, *(f"{before}{'  ' * depth}{text}" for depth, before, text in section.nodes)]
            parts.append("\n".join(f"    {plain(line)}" for line in lines))
        else:
            parts.append(_markdown_chart(section))
    return "\n\n".join(parts) + "\n"


def markdown_table(section: Table) -> str:
    """A table as Markdown, with all records."""
    columns = section.headed
    lines = [
        [_escaped(column.heading or "") for column in columns],
        ["---" if column.is_left else "---:" for column in columns],
        *([_escaped(cell) for cell in cells] for cells in section.cells(section.records)),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _markdown_chart(chart: Chart) -> str:
    from .terminal_charts import draw

    return "\n".join(f"    {plain(line)}" for line in draw(chart))


def check_parquet(path: Path) -> None:
    """Refuse a Parquet file early that could not be made.

    Raises:
        OutputError: pyarrow is missing.
    """
    if find_spec("pyarrow") is None:
        raise OutputError(f"{path}: Parquet needs pyarrow; install it with: pip install 'foretrace[parquet]'")


def parquet(data: Table) -> bytes:
    """A table as Parquet: a column for each key, of its declared type."""
    import pyarrow
    from pyarrow import parquet

    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}
    columns = {}
    for column in data.keyed:
        values = (column.of(record) for record in data.records)
        plain_values = [plain(value) if isinstance(value, str) else value for value in values]
        columns[column.key] = pyarrow.array(plain_values, types[column.type] if column.type is not None else None)
    table = pyarrow.table(columns).replace_schema_metadata({"creator": "foretrace.report"})
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()


def data_frame(data: Table) -> pandas.DataFrame:
    """A table as a pandas DataFrame: a column for each key."""
    import pandas

    return pandas.DataFrame(data.rows(), columns=[column.key for column in data.keyed])
