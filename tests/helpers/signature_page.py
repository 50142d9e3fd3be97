"""The tables of a signature, as docs/signature-format.md lists them: read off their declaration.

`python tests/helpers/signature_page.py` writes the list there anew.
"""

from __future__ import annotations

from pathlib import Path

from foretrace.tracer.signature.file import TABLES
from foretrace.tracer.signature.schema import Column, Scale

PAGE = Path(__file__).parents[2] / "docs" / "signature-format.md"
BEGIN, END = "<!-- tables: begin -->\n", "<!-- tables: end -->\n"


def column_text(column: Column) -> str:
    """A column's name, scale, unit and the table that it refers to."""
    scale = "" if column.scale in (Scale.NAME, Scale.OWNER, Scale.REFERENCE) else str(column.scale)
    packed = f"packed `{column.packed}`" if column.packed else ""
    parts = [f"→ `{column.of}`" if column.of else "", scale, column.unit, packed]
    details = ", ".join(filter(None, parts))
    return f"`{column.column}`" + (f" ({details})" if details else "")


def listing() -> str:
    """The tables as a Markdown table."""
    rows = ["| table | a row | columns |", "| --- | --- | --- |"]
    for table in TABLES.values():
        rows.append(f"| `{table.name}` | {table.what} | {', '.join(map(column_text, table.columns.values()))} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """The page with its list as it should be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + BEGIN + listing() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page())
