"""Machine profiles as reports."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from foretrace.base.terminal import plain
from foretrace.base.terminal import table as fitting
from foretrace.base.units import format_bytes, format_bytes_per_s, format_count, format_hz, format_seconds
from foretrace.benchmarks.calibration.agreement import Difference, summary
from foretrace.profiles.accelerator import DeviceKind
from foretrace.profiles.charts import charts_of, curve_title
from foretrace.profiles.device_figures import device_figures
from foretrace.profiles.figure import figures_of_record
from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.profile import GatherScatterCurve, LatencyPoint, MachineKind, Memory, Pattern, Profile
from foretrace.profiles.relatives import informed

from .terminal_charts import draw


def list_machines(profiles: Sequence[Profile], out: Console) -> None:
    """A line for each machine."""
    rows = fitting(
        "name", "year", "kind", "cores", "clock", "caches", "memory", "machine",
        left=("name", "year", "kind", "caches", "memory", "machine"), drop=("memory", "year", "kind"),
        whole=("name", "year", "kind", "caches", "memory"),
    )  # fmt: skip
    for profile in profiles:
        core, memory, product = profile.core, profile.memory, profile.product
        rows.add_row(
            profile.name,
            str(product.year) if product and product.year else "",
            profile.kind.value,
            str(core.cores) if core and core.cores else "",
            format_hz(core.clock_hz) if core and core.clock_hz else "",
            " / ".join(format_bytes(cache.size_bytes) for cache in profile.caches),
            _bandwidth(memory) if memory else "",
            profile.title,
        )
    out.print(rows)


def _bandwidth(memory: Memory) -> str:
    if memory.sustained_bandwidth_bytes_per_s is not None:
        return f"{format_bytes_per_s(memory.sustained_bandwidth_bytes_per_s)} sustained"
    if memory.core_read_bandwidth_bytes_per_s is not None:
        return f"{format_bytes_per_s(memory.core_read_bandwidth_bytes_per_s)} a core"
    if memory.peak_bandwidth_bytes_per_s is not None:
        return f"{format_bytes_per_s(memory.peak_bandwidth_bytes_per_s)} peak"
    return ""


def show_machine(profile: Profile, out: Console) -> None:
    """Every figure of a machine with its source, its curves, what it cites, and what is assumed of its caches."""
    out.print(plain(f"{profile.name}: {profile.title}"))
    runs = f", runs {profile.instruction_set}" if profile.instruction_set else ""
    runs += f" on {profile.microarchitecture} cores" if profile.microarchitecture else ""
    out.print(f"kind {profile.kind}{runs}, profile of {profile.date}")
    table = Table(box=None, pad_edge=False, title_justify="left")
    for heading in ("figure", "value", "source", "what it is"):
        table.add_column(heading)
    for place, field, value, source, meaning in figures(profile):
        table.add_row(plain(f"{place} {field}"), formatted(field, value), _cited(profile, source), meaning)
    out.print()
    out.print(table)
    for curve in profile.gather_scatter:
        _show_curve(curve, out)
    _show_points(profile, out)
    _show_tables(profile, out)
    for chart in charts_of(profile):
        out.print()
        for line in draw(chart):
            out.print(plain(line), overflow="ignore", no_wrap=True, crop=False)
    _show_sources(profile, out)
    for note in profile.notes:
        out.print(plain(f"note: {note}"))
    if profile.unstable:
        out.print(f"unstable: {len(profile.unstable)} of the measured figures, `foretrace machines check` names them")
    for assumption in hierarchy_of(profile).assumptions:
        out.print(plain(f"assumed: {assumption}"))
    if (
        profile.kind is MachineKind.ACCELERATOR
        and (device := device_figures(profile)).device_kind is DeviceKind.GENERAL
    ):
        for assumed in device.assumptions:
            out.print(plain(f"assumed: {assumed}"))
    if related := informed(profile):
        out.print(plain(f"not given, predictions take them from {related.relative}: {', '.join(related.keys)}"))
    for name, text in (profile.metadata or {}).items():
        out.print(plain(f"{name}: {text}"))


def show_check(file: Path, profile: Profile, found: dict[str, Any], out: Console) -> None:
    """What `machines check` found, of a profile that can be read; `found` is its JSON face."""
    out.print(plain(f"{file}: is a valid profile: {profile.title} ({profile.kind})"))
    for doubt in found["doubts"]:
        out.print(plain(f"contradiction: {doubt}"))
    if profile.partial:
        out.print("partial: the measurement was interrupted, what is missing was not measured")
    if profile.unstable:
        out.print(plain(f"unstable, another run need not agree: {'; '.join(profile.unstable)}"))
    for assumption in found["assumptions"]:
        out.print(plain(f"missing: {assumption}"))
    wide = {name: factor for name, factor in found["assumed_factors"].items() if factor is None or factor > 1}
    if wide:
        ranks = sorted(wide, key=lambda name: -(wide[name] or float("inf")))
        said = (
            f"{name} (no limit at one end)" if wide[name] is None else f"{name} x{wide[name]:.3g}" for name in ranks
        )
        out.print(plain(f"ranges of what is assumed, widest first: {', '.join(said)}"))
    if found["unpredictable"] is not None:
        out.print(plain(f"no prediction can be made with it: {found['unpredictable']}"))
    if found["unopened_sources"]:
        out.print(
            plain(
                f"cited but not opened by the author: {', '.join(found['unopened_sources'])} "
                '(say read_on = "YYYY-MM-DD" once the figures were found there)'
            )
        )


def show_published(machines: Sequence[dict[str, Any]], out: Console) -> None:
    """Published figures beside those of profiles; `machines` are the JSON face of `machines check --published`."""
    for machine in machines:
        figures = machine["figures"]
        table = Table(box=None, pad_edge=False)
        for heading in (machine["machine"], "published", "profile", "low", "high", "ratio", ""):
            table.add_column(heading, justify="left" if heading in (machine["machine"], "") else "right")
        for one in figures:
            values = (f"{one[key]:.4g}" for key in ("published", "profile", "low", "high"))
            name = f"{one['program']} ({one['metric']})"
            table.add_row(plain(name), *values, f"{one['ratio']:.2f}", "" if one["inside"] else "outside")
        if figures:
            out.print(table)
            inside = sum(one["inside"] for one in figures)
            error = statistics.median(abs(one["ratio"] - 1) for one in figures)
            out.print(f"{inside} of {len(figures)} inside their interval, median error {error:.0%}")
        left = len(machine["need_a_program"])
        if left:
            out.print(f"{machine['machine']}: {left} figures need a program's signature (`make published`)")
        if not figures and not left:
            out.print(plain(f"{machine['machine']}: the file has no figure of it"))


def show_comparison(names: tuple[str, str], found: Sequence[Difference], out: Console, *, show_all: bool) -> None:
    """A line for each figure that differs, those that nobody expected to first, or for all."""
    shown = sorted((d for d in found if show_all or not d.agrees), key=lambda d: (not d.surprising, -d.relative))
    out.print(plain(summary(found)))
    if not shown:
        return
    table = Table(box=None, pad_edge=False)
    short = tuple(Path(name).name for name in names)
    for heading in ("figure", *(short if len(set(short)) == len(names) else names), "differs", "noise", ""):
        left = heading in ("figure", "")
        table.add_column(plain(heading), justify="left" if left else "right", no_wrap=left)
    for d in shown:
        said = "named as unstable" if d.unstable else ""
        noise = "" if d.noise is None else f"{d.noise:.1%}"
        table.add_row(plain(d.figure), f"{d.before:.4g}", f"{d.after:.4g}", f"{d.relative:.1%}", noise, said)
    out.print(table)


def _show_sources(profile: Profile, out: Console) -> None:
    out.print("\nsources")
    for key, source in profile.sources.items():
        opened = f", read on {source.read_on}" if source.read_on else ""
        place = f" {source.url}" if source.url else ""
        mark = "" if source.is_opened else "*"
        out.print(plain(f"  {key}{mark}: {source.citation} ({source.kind}, {source.date}{opened}){place}"))
    if not all(source.is_opened for source in profile.sources.values()):
        out.print("  *: cited from memory or from others; nobody has compared the figures with it")


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


def _show_curve(curve: GatherScatterCurve, out: Console) -> None:
    out.print(f"\n{curve_title(curve)}: bandwidth by address range ({plain(curve.source)})")
    if curve.minimum_range_bytes is not None:
        out.print(f"  below {format_bytes(curve.minimum_range_bytes)}: not offloaded")
    for piece in curve.segments:
        begin = format_bytes_per_s(piece.bandwidth_bytes_per_s(piece.from_bytes))
        if piece.to_bytes is None:
            span, end = f"from {format_bytes(piece.from_bytes)}", None
        else:
            span = f"{format_bytes(piece.from_bytes)} to {format_bytes(piece.to_bytes)}"
            end = format_bytes_per_s(piece.bandwidth_bytes_per_s(piece.to_bytes - 1))
        out.print(f"  {span}: {begin}" + (f" to {end}" if end and end != begin else ""))


def _show_points(profile: Profile, out: Console) -> None:
    if profile.bandwidth or profile.latency:
        out.print("\nmeasured points by working set (bandwidth by bytes an access; noise in brackets)")
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
        return
    headings = [_heading(*group) for group in groups]
    headings += dict.fromkeys(_latency_heading(point) for point in profile.latency)
    table = fitting("working set", *headings, left=("",))
    for size, cells in sorted(rows.items()):
        table.add_row(format_bytes(size), *(cells.get(heading, "") for heading in headings))
    out.print(table)


def _show_tables(profile: Profile, out: Console) -> None:
    for title, headings, rows in _tables(profile):
        if not rows:
            continue
        out.print(f"\n{title}")
        table = Table(box=None, pad_edge=False)
        for heading in (*headings, "source"):
            table.add_column(heading, justify="left" if heading in (headings[0], "source") else "right")
        for *row, source in rows:
            table.add_row(*row, _cited(profile, source))
        out.print(table)


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
        [(plain(c.name), _noisy(format_seconds(c.point_s), c.noise), c.source) for c in profile.array_costs],
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
            (plain(r.idiom), _noisy(format_bytes_per_s(r.bandwidth_bytes_per_s), r.noise), r.source)
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
    return plain(source + ("" if profile.sources[source].is_opened else "*"))


def _cycles(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _latency_heading(point: LatencyPoint) -> str:
    return "latency" if point.page_bytes is None else f"latency, {format_bytes(point.page_bytes)} pages"


def _heading(pattern: Pattern, access_bytes: int) -> str:
    return f"{pattern} {access_bytes}"


def _noisy(text: str, noise: float | None) -> str:
    return text if noise is None else f"{text} ({noise:.0%})"
