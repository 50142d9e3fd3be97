"""Machine profiles as reports."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from foretrace.base.errors import ForetraceError, ProfileError
from foretrace.base.units import format_bytes, format_bytes_per_s, format_count, format_hz, format_seconds
from foretrace.benchmarks.calibration.agreement import Difference
from foretrace.benchmarks.calibration.agreement import summary as agreement
from foretrace.profiles.accelerator import DeviceKind
from foretrace.profiles.charts import charts_of, curve_title
from foretrace.profiles.checks import Cited
from foretrace.profiles.device_figures import device_figures
from foretrace.profiles.figure import figures_of_record
from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.plausibility import doubts
from foretrace.profiles.profile import GatherScatterCurve, LatencyPoint, MachineKind, Memory, Pattern, Profile
from foretrace.profiles.published import PublishedFigure
from foretrace.profiles.ranges import Assumption
from foretrace.profiles.relatives import informed
from foretrace.replay.base.records import Prediction
from foretrace.replay.figures.machine_figures import figures_of
from foretrace.replay.limits.published import compare_published
from foretrace.replay.offload.devices.device import Device

from .assumption_costs import assumption_cost_sections, costs_document
from .model import (
    BYTES,
    INTEGER,
    RATIO,
    SHARE,
    Column,
    Kind,
    Report,
    Section,
    Table,
    Text,
    bound,
    document_of,
    for_programs,
)


def _figure(part: str, key: str, prefix: str = "") -> Column:
    """A figure of a part of a profile; None where there is no such part."""
    return Column(prefix + key, value=lambda one: getattr(getattr(one, part), key, None))


MACHINES = (
    Column("name", "name", whole=True),
    Column("title", "machine"),
    Column("kind", "kind", value=lambda one: one.kind.value, drop=3, whole=True),
    _figure("product", "year"),
    Column("", "year", value=lambda one: str(one.product.year) if one.product and one.product.year else "", drop=2,
           whole=True),
    _figure("product", "power_w"),
    *for_programs("instruction_set", "date"),
    _figure("core", "cores"),
    Column("", "cores", INTEGER, lambda one: one.core.cores if one.core and one.core.cores else ""),
    _figure("core", "clock_hz"),
    Column("", "clock", value=lambda one: format_hz(one.core.clock_hz) if one.core and one.core.clock_hz else "",
           left=False),
    Column("caches", kind=Kind(lambda caches: ", ".join("{name} {size_bytes}".format_map(cache) for cache in caches)),
           value=lambda one: [document_of(cache, "name size_bytes") for cache in one.caches]),
    Column("", "caches", value=lambda one: " / ".join(format_bytes(cache.size_bytes) for cache in one.caches),
           whole=True),
    _figure("memory", "size_bytes", "memory_"),
    _figure("memory", "peak_bandwidth_bytes_per_s", "memory_"),
    _figure("memory", "sustained_bandwidth_bytes_per_s", "memory_"),
    _figure("memory", "core_read_bandwidth_bytes_per_s", "memory_"),
    _figure("memory", "latency_s", "memory_"),
    Column("", "memory", value=lambda one: _bandwidth(one.memory) if one.memory else "", drop=1, whole=True),
    Column(
        "gather_scatter_minimum_range_bytes",
        value=lambda one: next(
            (c.minimum_range_bytes for c in one.gather_scatter if c.minimum_range_bytes is not None), None
        ),
    ),
)  # fmt: skip
"""Columns of `Profile`. A figure that nobody published is None."""


def machines_report(profiles: Sequence[Profile]) -> Report:
    """Report of `foretrace machines`: a line for each machine."""
    rows = Table(MACHINES, profiles, headings=("name", "year", "kind", "cores", "clock", "caches", "memory", "machine"))
    document = {"schema": "foretrace.machines/1", "machines": [document_of(one, *MACHINES) for one in profiles]}
    return Report("Machines", [rows], rows, lambda: document)


def _bandwidth(memory: Memory) -> str:
    if memory.sustained_bandwidth_bytes_per_s is not None:
        return f"{format_bytes_per_s(memory.sustained_bandwidth_bytes_per_s)} sustained"
    if memory.core_read_bandwidth_bytes_per_s is not None:
        return f"{format_bytes_per_s(memory.core_read_bandwidth_bytes_per_s)} a core"
    if memory.peak_bandwidth_bytes_per_s is not None:
        return f"{format_bytes_per_s(memory.peak_bandwidth_bytes_per_s)} peak"
    return ""


_FIGURES = (
    Column("", "figure", value=lambda row: f"{row[0]} {row[1]}"),
    Column("part", value=lambda row: row[0]),
    Column("figure", value=lambda row: row[1]),
    Column("value", value=lambda row: row[2]),
    Column("", "value", value=lambda row: formatted(row[1], row[2])),
    Column("source", value=lambda row: row[3]),
    Column("meaning", "what it is", value=lambda row: row[4], wraps=True),
)
"""Columns of what `figures` yields."""


def figure_table(profile: Profile) -> Table:
    """Every figure of a machine."""
    cited = Column("", "source", value=lambda row: _cited(profile, row[3]))
    return Table((cited, *_FIGURES), list(figures(profile)), headings=("figure", "value", "source", "what it is"))


def machine_report(profile: Profile) -> Report:
    """Report of `foretrace machines show`: every figure with its source, curves, what it cites, and assumptions."""
    runs = f", runs {profile.instruction_set}" if profile.instruction_set else ""
    runs += f" on {profile.microarchitecture} cores" if profile.microarchitecture else ""
    table = figure_table(profile)
    sections: list[Section] = [
        Text([f"{profile.name}: {profile.title}", f"kind {profile.kind}{runs}, profile of {profile.date}", ""]), table
    ]  # fmt: skip
    sections += [Text(_curve_lines(curve)) for curve in profile.gather_scatter]
    sections += [*_point_sections(profile), *_table_sections(profile)]
    for chart in charts_of(profile):
        sections += [Text([""]), chart]
    lines = source_lines(profile)
    lines += [f"note: {note}" for note in profile.notes]
    if profile.unstable:
        lines.append(
            f"unstable: {len(profile.unstable)} of the measured figures, `foretrace machines check` names them"
        )
    lines += [f"assumed: {assumption}" for assumption in hierarchy_of(profile).assumptions]
    if (
        profile.kind is MachineKind.ACCELERATOR
        and (device := device_figures(profile)).device_kind is DeviceKind.GENERAL
    ):
        lines += [f"assumed: {assumed}" for assumed in device.assumptions]
    if related := informed(profile):
        lines.append(f"not given, predictions take them from {related.relative}: {', '.join(related.keys)}")
    lines += [f"{name}: {text}" for name, text in (profile.metadata or {}).items()]
    return Report(profile.title, [*sections, Text(lines)], table, lambda: machine_document(profile))


def check_report(file: Path, profile: Profile, predictions: Iterable[Prediction] = ()) -> Report:
    """Report of `foretrace machines check` on a readable profile, and the assumptions of predictions with it."""
    predictions, found = tuple(predictions), check_document(profile)
    costs = [section for one in predictions for section in assumption_cost_sections(one)]
    for one in predictions:
        found |= costs_document(one)
    lines = []
    lines.append(f"{file}: is a valid profile: {profile.title} ({profile.kind})")
    for doubt in found["doubts"]:
        lines.append(f"contradiction: {doubt}")
    if profile.partial:
        lines.append("partial: the measurement was interrupted, what is missing was not measured")
    if profile.unstable:
        lines.append(f"unstable, another run need not agree: {'; '.join(profile.unstable)}")
    for assumption in found["assumptions"]:
        lines.append(f"missing: {assumption}")
    wide = {name: factor for name, factor in found["assumed_factors"].items() if factor is None or factor > 1}
    if wide:
        ranks = sorted(wide, key=lambda name: -(wide[name] or float("inf")))
        said = (
            f"{name} (no limit at one end)" if wide[name] is None else f"{name} x{wide[name]:.3g}" for name in ranks
        )
        lines.append(f"ranges of what is assumed, widest first: {', '.join(said)}")
    if found["unpredictable"] is not None:
        lines.append(f"no prediction can be made with it: {found['unpredictable']}")
    if found["unopened_sources"]:
        lines.append(
            f"cited but not opened by the author: {', '.join(found['unopened_sources'])} "
            '(say read_on = "YYYY-MM-DD" once the figures were found there)'
        )
    rows = [(what, text) for what in ("doubts", "assumptions", "unopened_sources") for text in found[what]]
    columns = (Column("what", value=lambda row: row[0]), Column("text", value=lambda row: row[1]))
    return Report(f"Check of {profile.name}", [Text(lines), *costs], Table(columns, rows), lambda: found)


def published_report(machines: Sequence[dict[str, Any]]) -> Report:
    """Published figures beside those of profiles; `machines` are those of the JSON document."""
    four = Kind("{:.4g}".format)
    numbers = [Column(key, key, four) for key in ("published", "profile", "low", "high")]
    outside = Column("", "", value=lambda one: "" if one["inside"] else "outside")
    sections: list[Section] = []
    for machine in machines:
        name, figures, lines = machine["machine"], machine["figures"], []
        what = Column("", name, value=lambda one: f"{one['program']} ({one['metric']})")
        if figures:
            sections.append(Table((what, *numbers, Column("ratio", "ratio", RATIO), outside), figures))
            inside = sum(one["inside"] for one in figures)
            error = statistics.median(abs(one["ratio"] - 1) for one in figures)
            lines.append(f"{inside} of {len(figures)} inside their interval, median error {error:.0%}")
        left = len(machine["need_a_program"])
        if left:
            lines.append(f"{name}: {left} figures need a program's signature (`make published`)")
        if not figures and not left:
            lines.append(f"{name}: the file has no figure of it")
        sections.append(Text(lines))
    rows = [one | {"machine": machine["machine"]} for machine in machines for one in machine["figures"]]
    columns = for_programs("machine", "program", "metric", "published", "profile", "low", "high", "ratio", "inside")
    document = {"schema": "foretrace.machines.check-published/1", "machines": machines}
    return Report("Published figures", sections, Table(columns, rows), lambda: document)


def comparison_report(
    profiles: tuple[Profile, Profile], names: tuple[str, str], found: Sequence[Difference], *, show_all: bool
) -> Report:
    """Report of `foretrace machines compare`: figures that differ, those that nobody expected to first; or all."""
    shown = sorted((d for d in found if show_all or not d.agrees), key=lambda d: (not d.surprising, -d.relative))
    short = tuple(Path(name).name for name in names)
    before, after = short if len(set(short)) == len(names) else names
    four = Kind("{:.4g}".format)
    columns = (
        Column("figure", "figure", whole=True),
        Column("before", before, four),
        Column("after", after, four),
        Column("relative", "differs", SHARE),
        Column("noise", "noise", value=lambda d: "" if d.noise is None else f"{d.noise:.1%}", left=False),
        *for_programs("unstable", "agrees", "surprising"),
        Column("", "", value=lambda d: "named as unstable" if d.unstable else "", whole=True),
    )
    table: list[Section] = [Table(columns, shown)] if shown else []
    return Report(
        "Comparison of machines", [Text([agreement(found)]), *table], Table(columns, found),
        lambda: comparison(profiles, found),
    )  # fmt: skip


def source_lines(profile: Cited) -> list[str]:
    """Citations of a profile or an interconnect, a line each."""
    lines = ["", "sources"]
    for key, source in profile.sources.items():
        opened = f", read on {source.read_on}" if source.read_on else ""
        place = f" {source.url}" if source.url else ""
        mark = "" if source.is_opened else "*"
        lines.append(f"  {key}{mark}: {source.citation} ({source.kind}, {source.date}{opened}){place}")
    if not all(source.is_opened for source in profile.sources.values()):
        lines.append("  *: cited from memory or from others; nobody has compared the figures with it")
    return lines


def figures(profile: Profile) -> Iterator[tuple[str, str, object, str, str]]:
    """Every single figure: place, field, value, source, meaning."""
    places: list[tuple[str, Struct | None]] = [("product", profile.product), ("core", profile.core)]
    places += [("core.frontend", profile.core.frontend)] if profile.core else []
    places += [(cache.name, cache) for cache in profile.caches]
    places += [(f"{tlb.name} of {format_bytes(tlb.page_bytes)} pages", tlb) for tlb in profile.tlbs]
    places += [
        ("memory", profile.memory),
        ("accelerator", profile.accelerator),
        ("link", profile.link),
        ("network", profile.network),
    ]
    for place, record in places:
        if record is None:
            continue
        sources: dict[str, str] = getattr(record, "source")  # noqa: B009 - they share the field, not a base class
        for field, figure in figures_of_record(type(record)).items():
            value = getattr(record, field)
            if field in sources and value is not None:
                yield place, field, value, sources[field], figure.meaning


def formatted(field: str, value: object) -> str:
    """A figure for people, by the unit in its field's name."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    if field.endswith("_bytes_per_s"):
        return format_bytes_per_s(value)
    if field.endswith("_per_s"):
        return f"{format_count(value)}/s"
    for suffix, format_value in (("_bytes", format_bytes), ("_hz", format_hz), ("_s", format_seconds)):
        if field.endswith(suffix):
            return format_value(value)
    return f"{value:g}"


def _curve_lines(curve: GatherScatterCurve) -> list[str]:
    lines = ["", f"{curve_title(curve)}: bandwidth by address range ({curve.source})"]
    if curve.minimum_range_bytes is not None:
        lines.append(f"  below {format_bytes(curve.minimum_range_bytes)}: not offloaded")
    for piece in curve.segments:
        begin = format_bytes_per_s(piece.bandwidth_bytes_per_s(piece.from_bytes))
        if piece.to_bytes is None:
            span, end = f"from {format_bytes(piece.from_bytes)}", None
        else:
            span = f"{format_bytes(piece.from_bytes)} to {format_bytes(piece.to_bytes)}"
            end = format_bytes_per_s(piece.bandwidth_bytes_per_s(piece.to_bytes - 1))
        lines.append(f"  {span}: {begin}" + (f" to {end}" if end and end != begin else ""))
    return lines


def _point_sections(profile: Profile) -> list[Section]:
    groups = sorted({(p.pattern, p.access_bytes) for p in profile.bandwidth})
    rows: dict[int, dict[str, str]] = {}
    for point in profile.bandwidth:
        heading = _heading(point.pattern, point.access_bytes)
        rows.setdefault(point.working_set_bytes, {})[heading] = _noisy(
            format_bytes_per_s(point.bandwidth_bytes_per_s), point.noise
        )
    for latency in profile.latency:
        rows.setdefault(latency.working_set_bytes, {})[_latency_heading(latency)] = _noisy(
            format_seconds(latency.latency_s), latency.noise
        )
    if not rows:
        return []
    headings = [_heading(*group) for group in groups]
    headings += dict.fromkeys(_latency_heading(point) for point in profile.latency)
    columns = [
        Column("", "working set", BYTES, lambda row: row[0]),
        *(Column("", one, value=bound(lambda row, one: row[1].get(one, ""), one), left=False) for one in headings),
    ]
    title = "measured points by working set (bandwidth by bytes an access; noise in brackets)"
    return [Text(["", title]), Table(columns, sorted(rows.items()))]


def _table_sections(profile: Profile) -> Iterator[Section]:
    for title, headings, rows in _tables(profile):
        columns = [
            Column("", heading, value=bound(lambda row, number: row[number], number), left=number == 0)
            for number, heading in enumerate(headings)
        ]
        columns.append(Column("", "source", value=lambda row: _cited(profile, row[-1])))
        if rows:
            yield from (Text(["", title]), Table(columns, rows))


def _tables(profile: Profile) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Points that are no curves: what they are, headings, rows with their source's key at the end."""
    yield (
        "instructions: cycles until a dependent one, and between independent ones",
        ("operation", "elements", "bits", "latency", "interval"),
        [
            (
                *(str(c.operation), str(c.elements), str(c.element_bits)),
                *(_cycles(c.latency_cycles), _cycles(c.interval_cycles), c.source),
            )
            for c in profile.operations
        ],
    )
    yield (
        "array operations of Python, by the point (noise in brackets)",
        ("operation", "time"),
        [(c.name, _noisy(format_seconds(c.point_s), c.noise), c.source) for c in profile.array_costs],
    )
    yield (
        "linear algebra of square matrices, one thread (noise in brackets)",
        ("routine", "type", "rows", "time"),
        [
            (*(c.routine, c.element_type, f"{c.size}"), _noisy(format_seconds(c.time_s), c.noise), c.source)
            for c in profile.linear_algebra
        ],
    )
    yield (
        "streams from main memory, by lines of near streams beside each of theirs (noise in brackets)",
        ("near lines", "lines fetched ahead"),
        [(f"{p.misses_per_line:g}", _noisy(f"{p.fetched_ahead:.1%}", p.noise), p.source) for p in profile.prefetch],
    )
    yield (
        "the whole accelerator, over arrays that do not fit its caches (noise in brackets)",
        ("idiom", "bandwidth"),
        [
            (r.idiom, _noisy(format_bytes_per_s(r.bandwidth_bytes_per_s), r.noise), r.source)
            for r in profile.idiom_rates
        ],
    )
    yield (
        "messages, one way (noise in brackets)",
        ("size", "time"),
        [
            (format_bytes(m.message_bytes), _noisy(format_seconds(m.time_s), m.noise), m.source)
            for m in profile.messages
        ],
    )


def _cited(profile: Profile, source: str) -> str:
    return source + ("" if profile.sources[source].is_opened else "*")


def _cycles(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _latency_heading(point: LatencyPoint) -> str:
    return "latency" if point.page_bytes is None else f"latency, {format_bytes(point.page_bytes)} pages"


def _heading(pattern: Pattern, access_bytes: int) -> str:
    return f"{pattern} {access_bytes}"


def _noisy(text: str, noise: float | None) -> str:
    return text if noise is None else f"{text} ({noise:.0%})"


def published_document(profile: Profile, published: Sequence[PublishedFigure]) -> dict[str, Any]:
    """A machine as `machines check --published --json` prints it: values in the base unit of `unit`.

    Raises:
        ProfileError: it is no host.
    """
    made = hierarchy_of(profile)
    if profile.kind is not MachineKind.HOST or made.hierarchy is None:
        raise ProfileError(f"{profile.name}: published figures are compared with hosts that have caches")
    cores = (profile.core and profile.core.cores) or 1
    found, left = compare_published(profile, figures_of(profile, made.hierarchy), published, cores)
    return {
        "machine": profile.name,
        "figures": [asdict(one) | {"ratio": one.ratio, "inside": one.is_inside} for one in found],
        "need_a_program": [f"{one.program}: {one.metric}" for one in left],
    }


def comparison(profiles: tuple[Profile, Profile], found: Sequence[Difference]) -> dict[str, Any]:
    """JSON of `machines compare`. A figure that agrees or is named as unstable is not surprising."""
    return {
        "schema": "foretrace.machines.compare/1",
        "machines": [profile.name for profile in profiles],
        "figures": len(found),
        "agreeing": sum(d.agrees for d in found),
        "unstable": sum(d.unstable and not d.agrees for d in found),
        "surprising": sum(d.surprising for d in found),
        "differences": [difference.to_json() for difference in found],
    }


def machine_document(profile: Profile) -> dict[str, Any]:
    """A machine as `machines show --json` prints it: its whole profile, and the cache hierarchy made of it."""
    made = hierarchy_of(profile)
    return {
        "schema": "foretrace.machines.show/1",
        "profile": msgspec.to_builtins(profile),
        "hierarchy": made.hierarchy.spec if made.hierarchy else None,
        "assumptions": list(made.assumptions),
    }


def check_document(profile: Profile) -> dict[str, Any]:
    """JSON of `machines check` for a valid profile.

    `unpredictable` says why no prediction can be made with it at all, or is null. `assumed_factors` has, by name, the
    larger end of each assumed figure's range over the smaller one, null where one end is no limit.
    """
    assumptions, factors, unpredictable = list(hierarchy_of(profile).assumptions), dict[str, float | None](), None
    try:
        for one in _assumptions(profile):
            assumptions.append(str(one))
            if one.range is not None:
                factors[one.name] = float(f"{one.range.factor:.6g}") if math.isfinite(one.range.factor) else None
    except ForetraceError as error:
        unpredictable = str(error)
    return {
        "schema": "foretrace.machines.check/1",
        "name": profile.name,
        "kind": profile.kind.value,
        "doubts": list(doubts(profile)),
        "assumptions": assumptions,
        "assumed_factors": factors,
        "unpredictable": unpredictable,
        "unopened_sources": sorted(key for key, source in profile.sources.items() if not source.is_opened),
    }


def _assumptions(profile: Profile) -> tuple[Assumption, ...]:
    """Assumptions of the model in the place of missing figures.

    Raises:
        PredictionError: it cannot do without one of them.
    """
    if profile.kind is MachineKind.ACCELERATOR:
        return Device.of(profile).assumptions
    hierarchy = hierarchy_of(profile).hierarchy
    if hierarchy is None:
        raise ProfileError(f"profile {profile.name}: caches are missing, without them no time can be predicted")
    figures = figures_of(profile, hierarchy)
    return figures.assumptions + figures.core_assumptions
