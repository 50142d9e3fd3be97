"""`foretrace machines`: list, explain and check machine profiles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.library import find, names
from foretrace.profiles.profile import GatherScatterCurve, Memory, Pattern, Profile
from foretrace.profiles.profile_file import read_profile
from foretrace.terminal import console, plain, print_json
from foretrace.units import format_bytes, format_bytes_per_s, format_hz, format_seconds

_NOT_FIGURES = {"name", "source", "noise"}


@click.group(invoke_without_command=True, epilog="Example: foretrace machines show convey-hc1-fpga")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """List the machines that come with foretrace."""
    if context.invoked_subcommand is not None:
        if as_json:
            raise click.UsageError(f"put --json behind {context.invoked_subcommand}", context)
        return
    profiles = [find(name) for name in names()]
    if as_json:
        print_json({"schema": "foretrace.machines/1", "machines": [summary(profile) for profile in profiles]})
    else:
        _list(profiles, console())


@command.command(epilog="Example: foretrace machines show jaguar-xt4 --json")
@click.argument("machine")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with every figure.")
def show(machine: str, as_json: bool) -> None:
    """Explain MACHINE, a known name or a profile's path: every figure and where it comes from."""
    profile = find(machine)
    if as_json:
        print_json(document(profile))
    else:
        _show(profile, console())


@command.command(epilog="Example: foretrace machines check here.toml")
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Check FILE, a profile of your own."""
    profile = read_profile(file)
    out = console()
    out.print(plain(f"{file}: is a valid profile: {profile.title} ({profile.kind})"))
    for assumption in hierarchy_of(profile).assumptions:
        out.print(plain(f"  {assumption}"))


def summary(profile: Profile) -> dict[str, Any]:
    """A machine as `machines --json` lists it. A figure that nobody published is null."""
    core, memory = profile.core, profile.memory
    return {
        "name": profile.name,
        "title": profile.title,
        "kind": profile.kind.value,
        "instruction_set": profile.instruction_set,
        "date": profile.date,
        "cores": core.cores if core else None,
        "clock_hz": core.clock_hz if core else None,
        "caches": [{"name": cache.name, "size_bytes": cache.size_bytes} for cache in profile.caches],
        "memory_peak_bandwidth_bytes_per_s": memory.peak_bandwidth_bytes_per_s if memory else None,
        "memory_core_read_bandwidth_bytes_per_s": memory.core_read_bandwidth_bytes_per_s if memory else None,
        "memory_latency_s": memory.latency_s if memory else None,
        "gather_scatter_minimum_range_bytes": _minimum_range(profile),
    }


def document(profile: Profile) -> dict[str, Any]:
    """A machine as `machines show --json` prints it: its whole profile, and the cache hierarchy made of it."""
    made = hierarchy_of(profile)
    return {
        "schema": "foretrace.machines.show/1",
        "profile": msgspec.to_builtins(profile),
        "hierarchy": made.hierarchy.spec if made.hierarchy else None,
        "assumptions": list(made.assumptions),
    }


def _minimum_range(profile: Profile) -> int | None:
    return next((c.minimum_range_bytes for c in profile.gather_scatter if c.minimum_range_bytes is not None), None)


def _list(profiles: list[Profile], out: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "kind", "cores", "clock", "caches", "memory", "machine"):
        table.add_column(heading, justify="right" if heading in ("cores", "clock") else "left")
    for profile in profiles:
        core, memory = profile.core, profile.memory
        table.add_row(
            profile.name,
            profile.kind.value,
            str(core.cores) if core and core.cores else "",
            format_hz(core.clock_hz) if core and core.clock_hz else "",
            " / ".join(format_bytes(cache.size_bytes) for cache in profile.caches),
            _bandwidth(memory) if memory else "",
            profile.title,
        )
    out.print(table)


def _bandwidth(memory: Memory) -> str:
    if memory.core_read_bandwidth_bytes_per_s is not None:
        return f"{format_bytes_per_s(memory.core_read_bandwidth_bytes_per_s)} a core"
    if memory.peak_bandwidth_bytes_per_s is not None:
        return f"{format_bytes_per_s(memory.peak_bandwidth_bytes_per_s)} peak"
    return ""


def _show(profile: Profile, out: Console) -> None:
    out.print(plain(f"{profile.name}: {profile.title}"))
    runs = f", runs {profile.instruction_set}" if profile.instruction_set else ""
    out.print(f"kind {profile.kind}{runs}, profile of {profile.date}")
    table = Table(box=None, pad_edge=False, title_justify="left")
    for heading in ("figure", "value", "source"):
        table.add_column(heading)
    for place, field, value, source in _figures(profile):
        table.add_row(plain(f"{place} {field}"), formatted(field, value), plain(source))
    out.print()
    out.print(table)
    for curve in profile.gather_scatter:
        _show_curve(curve, out)
    _show_points(profile, out)
    out.print("\nsources")
    for key, origin in profile.sources.items():
        out.print(plain(f"  {key}: {origin.citation} ({origin.kind}, {origin.date})"))
    for note in profile.notes:
        out.print(plain(f"note: {note}"))
    for assumption in hierarchy_of(profile).assumptions:
        out.print(plain(f"assumed: {assumption}"))
    for name, text in (profile.metadata or {}).items():
        out.print(plain(f"{name}: {text}"))


def _figures(profile: Profile) -> Iterator[tuple[str, str, object, str]]:
    """Every single figure: place, field, value, source."""
    places: list[tuple[str, Struct | None]] = [("core", profile.core)]
    places += [(cache.name, cache) for cache in profile.caches]
    places += [("memory", profile.memory), ("link", profile.link)]
    for place, record in places:
        if record is None:
            continue
        sources: dict[str, str] = getattr(record, "source")  # noqa: B009 - they share the field, not a base class
        for field in record.__struct_fields__:
            value = getattr(record, field)
            if field not in _NOT_FIGURES and value is not None:
                yield place, field, value, sources.get(field, "")


def formatted(field: str, value: object) -> str:
    """A figure for people, by the unit in its field's name."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    if field.endswith("_bytes_per_s"):
        return format_bytes_per_s(value)
    for suffix, format_value in (("_bytes", format_bytes), ("_hz", format_hz), ("_s", format_seconds)):
        if field.endswith(suffix):
            return format_value(value)
    return f"{value:g}"


def _show_curve(curve: GatherScatterCurve, out: Console) -> None:
    out.print(f"\n{' and '.join(curve.operations)} bandwidth by address range ({plain(curve.source)})")
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
        rows.setdefault(latency.working_set_bytes, {})["latency"] = _noisy(
            format_seconds(latency.latency_s), latency.noise
        )
    if not rows:
        return
    headings = [_heading(*group) for group in groups] + (["latency"] if profile.latency else [])
    table = Table(box=None, pad_edge=False)
    for heading in ("working set", *headings):
        table.add_column(heading, justify="right")
    for size, cells in sorted(rows.items()):
        table.add_row(format_bytes(size), *(cells.get(heading, "") for heading in headings))
    out.print(table)


def _heading(pattern: Pattern, access_bytes: int) -> str:
    return f"{pattern} {access_bytes}"


def _noisy(text: str, noise: float | None) -> str:
    return text if noise is None else f"{text} ({noise:.0%})"
