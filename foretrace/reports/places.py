"""Columns that tables of places in a program share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foretrace.base.names import demangle, mangled_name
from foretrace.replay.base.records import Place

from .model import Column


def place_columns(place_of: Callable[[Any], Place] = lambda record: record.place) -> tuple[Column, ...]:
    """Columns of a record's place: seven for programs, "source" and "function" for people."""
    return (
        Column("module", value=lambda record: place_of(record).module),
        Column("function", value=lambda record: demangle(place_of(record).function)),
        Column("mangled", value=lambda record: mangled_name(place_of(record).function)),
        Column("file", value=lambda record: place_of(record).file),
        Column("line", value=lambda record: place_of(record).line),
        Column("caller", value=lambda record: place_of(record).caller or None),
        Column("inlined", value=lambda record: place_of(record).inlined or None),
        Column("", "source", value=lambda record: place_of(record).text),
        Column("", "function", value=lambda record: place_of(record).name),
    )


PLACE = place_columns()
