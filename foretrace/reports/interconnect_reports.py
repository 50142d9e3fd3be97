"""Interconnects as reports."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.base.units import format_bytes, format_bytes_per_s, format_seconds
from foretrace.profiles.figure import figures_of_record
from foretrace.profiles.interconnect import Interconnect
from foretrace.profiles.profile_file import profile_data

from .machine_reports import formatted, source_lines
from .model import INTEGER, Column, Kind, Report, Section, Table, Text, document_of


def _latency_s(one: Interconnect) -> float | None:
    given = one.network.latency_s
    return min((point.time_s for point in one.messages), default=given) if given is None else given


_TIME = Kind(lambda seconds: "" if seconds is None else format_seconds(seconds))
_RATE = Kind(lambda rate: "" if rate is None else format_bytes_per_s(rate))
INTERCONNECTS = (
    Column("name", "name", whole=True),
    Column("title", "interconnect"),
    Column("latency_s", "latency", _TIME, _latency_s, left=False),
    Column("bandwidth_bytes_per_s", "bandwidth", _RATE, lambda one: one.network.bandwidth_bytes_per_s, left=False),
    Column("topology", "topology", whole=True),
    Column("messages", "sizes measured", INTEGER, lambda one: len(one.messages), drop=1),
)
"""Columns of `Interconnect`."""


def interconnects_report(interconnects: Sequence[Interconnect]) -> Report:
    """Report of `foretrace machines --networks`: a line for each interconnect."""
    headings = ("name", "latency", "bandwidth", "topology", "sizes measured", "interconnect")
    rows = Table(INTERCONNECTS, interconnects, headings=headings)
    document = {
        "schema": "foretrace.interconnects/1",
        "interconnects": [document_of(one, *INTERCONNECTS) for one in interconnects],
    }
    return Report("Interconnects", [rows], rows, lambda: document)


def interconnect_report(one: Interconnect) -> Report:
    """Report of `foretrace machines show` on an interconnect: every figure with its source, and times of messages."""
    network = one.network
    given = [name for name in figures_of_record(type(network)) if getattr(network, name) is not None]
    figures = Table(
        (
            Column("figure", "figure", value=lambda name: name),
            Column("value", value=lambda name: getattr(network, name)),
            Column("", "value", value=lambda name: formatted(name, getattr(network, name))),
            Column("source", "source", value=lambda name: network.source[name]),
            Column(
                "meaning", "what it is", value=lambda name: figures_of_record(type(network))[name].meaning, wraps=True
            ),
        ),
        given,
        headings=("figure", "value", "source", "what it is"),
    )
    sections: list[Section] = [
        Text([f"{one.name}: {one.title}", f"interconnect of {one.date}, nodes joined by a {one.topology}", ""]),
        figures,
    ]
    if one.messages:
        messages = Table(
            (
                Column("size", "messages, one way", value=lambda point: format_bytes(point.message_bytes)),
                Column("time", "time", value=lambda point: format_seconds(point.time_s), left=False),
            ),
            one.messages,
            headings=("messages, one way", "time"),
        )
        sections += [Text([""]), messages]
    sections.append(Text([*source_lines(one), *(f"note: {note}" for note in one.notes)]))
    document = {"schema": "foretrace.interconnects.show/1", "interconnect": profile_data(one)}
    return Report(one.title, sections, figures, lambda: document)
