"""Columns that tables of places in a program share."""

from __future__ import annotations

from foretrace.base.names import demangle, mangled_name

from .model import Column

PLACE = (
    Column("module", value=lambda record: record.place.module),
    Column("function", value=lambda record: demangle(record.place.function)),
    Column("mangled", value=lambda record: mangled_name(record.place.function)),
    Column("file", value=lambda record: record.place.file),
    Column("line", value=lambda record: record.place.line),
    Column("caller", value=lambda record: demangle(record.place.caller) or None),
    Column("inlined", value=lambda record: record.place.inlined or None),
    Column("", "source", value=lambda record: record.place.text),
    Column("", "function", value=lambda record: record.place.name),
)
"""A record's place: seven columns for programs, "source" and "function" for people."""
