"""Figures that others published of machines, as a CSV file with a heading line.

Columns: `program` (what was run, or a figure's key such as memory.latency_s), `machine` (a profile's name), `metric`,
`value`, `unit`; `instances` (machines measured), `spread_min` and `spread_max` (of these), `actual_processor` and
`source` may be empty. Others are not read.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

from foretrace.base.errors import ProfileError, quoted
from foretrace.base.files import read_bounded

MAX_FILE_BYTES = 16 << 20
_NEEDED = ("program", "machine", "metric", "value", "unit")
_UNITS = {
    "bytes/s": 1.0, "KB/s": 1e3, "KiB/s": 1024.0, "MB/s": 1e6, "MiB/s": 1024.0**2, "GB/s": 1e9, "GiB/s": 1024.0**3,
    "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "Hz": 1.0, "MHz": 1e6, "GHz": 1e9,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """A line of the file; `value` in the base unit of `unit` where that is known, as it stands otherwise."""

    program: str
    machine: str
    metric: str
    value: float
    unit: str
    source: str


def read_published(path: Path) -> tuple[PublishedFigure, ...]:
    """Published figures, in their order.

    Raises:
        ProfileError: the file cannot be read, lacks a column, or has a value that is no positive number.
    """
    text = read_bounded(path, MAX_FILE_BYTES, "a CSV file of published figures", ProfileError).decode(
        "utf-8", "replace"
    )
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        missing = [name for name in _NEEDED if name not in (reader.fieldnames or ())]
        if missing:
            raise ProfileError(f"{path}: the heading lacks the column {quoted(missing[0])}: {', '.join(_NEEDED)}")
        return tuple(_figure(path, reader.line_num, row) for row in reader)
    except csv.Error as error:
        raise ProfileError(f"{path}:{reader.line_num}: {error}") from None


def _figure(path: Path, line: int, row: dict[str, str | None]) -> PublishedFigure:
    text = {name: (row.get(name) or "").strip() for name in (*_NEEDED, "source")}
    try:
        value = float(text["value"])
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ProfileError(f"{path}:{line}: value is {quoted(text['value'])}, must be a positive number")
    factor = _UNITS.get(text["unit"], 1.0)
    return PublishedFigure(
        text["program"], text["machine"], text["metric"], value * factor, text["unit"], text["source"]
    )
