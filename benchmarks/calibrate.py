"""Measures this machine and makes its profile."""

from __future__ import annotations

import datetime
import itertools
import mmap
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foretrace import __version__
from foretrace.errors import CalibrationError
from foretrace.profiles.checks import check
from foretrace.profiles.profile import (
    SCHEMA,
    CacheLevel,
    Core,
    LatencyPoint,
    MachineKind,
    Memory,
    Profile,
    Source,
    SourceKind,
)
from foretrace.units import format_bytes

from . import _kernels
from .core_suite import core_figures, core_measurements
from .machine_facts import CacheFacts, caches, environment, memory_bytes, num_cores, pinned
from .memory_suite import (
    ELEMENT_BYTES,
    Point,
    bandwidth_points,
    gather_scatter_curves,
    latency_points,
    memory_measurements,
    rounded,
)
from .sampling import Measurement, Progress, measure

UNSTABLE_NOISE = 0.10
"""Above this spread the user is told."""

_LARGEST_BYTES = 1 << 30
_LEAST_BYTES = 1 << 20
_UNKNOWN_CACHE_BYTES = 32 << 20
_PARTS_OF_MEMORY = 8  # the measurements take about five times the largest working set

_MEASURED, _SYSTEM, _DERIVED = "calibrate", "system", "derived"
_KINDS = {
    "load8": "sequential loads of 8 bytes",
    "load16": "sequential loads of 16 bytes",
    "load32": "sequential loads of 32 bytes",
    "random8": "random loads",
    "chase": "dependent loads",
    "gather": "gather",
    "scatter": "scatter",
}


@dataclass(frozen=True, slots=True)
class Calibration:
    """A machine as measured. `warnings` say which figures are uncertain."""

    profile: Profile
    warnings: tuple[str, ...]
    duration_s: float


def calibrate(*, name: str = "here", quick: bool = False, progress: Progress | None = None) -> Calibration:
    """Measure this machine, on one core: some 60 seconds, or 15 if `quick`, with fewer working sets and repetitions.

    Args:
        name: name of the profile.
        quick: coarser and faster.
        progress: is told the done part, from 0 to 1.

    Raises:
        CalibrationError: there is too little memory to measure with.
        ProfileError: the name is none a profile can have.
    """
    begin = time.monotonic()
    total_bytes, available_bytes = memory_bytes()
    with pinned() as cpu:
        levels = caches(cpu or 0)
        largest = _largest_working_set(levels, available_bytes, quick=quick)
        core = core_measurements()
        memory = memory_measurements(largest, fine=not quick)
        measure(
            [*core.values(), *memory.values()],
            sample_s=0.001 if quick else 0.003,
            rounds=5 if quick else 12,
            budget_s=9.0 if quick else 45.0,
            progress=progress,
        )
        facts = environment(cpu, _kernels.COMPILER)
    duration = time.monotonic() - begin
    facts |= {
        "statistic": "the shortest time of the samples; noise: how far their median lies above it",
        "samples": f"{min(len(m.samples_s) for m in core.values())} or more of each",
        "duration_s": f"{duration:.0f}",
        "foretrace": __version__,
    }
    profile = _profile(name, levels, total_bytes, core, memory, facts)
    check(profile)
    return Calibration(profile, _warnings(levels, largest, core, memory), duration)


def _largest_working_set(levels: Sequence[CacheFacts], available_bytes: int | None, *, quick: bool) -> int:
    """A power of two well beyond the last cache, as far as memory allows."""
    last = levels[-1].size_bytes if levels else _UNKNOWN_CACHE_BYTES
    wanted = min((2 if quick else 4) * last, _LARGEST_BYTES)
    if available_bytes is not None:
        wanted = min(wanted, available_bytes // _PARTS_OF_MEMORY)
    if wanted < _LEAST_BYTES:
        raise CalibrationError(
            f"only {format_bytes(available_bytes or 0)} of memory are free, "
            f"at least {format_bytes(_LEAST_BYTES * _PARTS_OF_MEMORY)} are needed to measure with"
        )
    return 1 << (wanted.bit_length() - 1)


def _profile(
    name: str,
    levels: Sequence[CacheFacts],
    total_bytes: int | None,
    core: Mapping[str, Measurement],
    memory: Mapping[Point, Measurement],
    facts: dict[str, str],
) -> Profile:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    latency = latency_points(memory, _MEASURED)
    return Profile(
        schema=SCHEMA,
        name=name,
        title=facts["cpu"],
        kind=MachineKind.HOST,
        date=today,
        instruction_set=platform.machine(),
        sources={
            _MEASURED: Source(
                SourceKind.MEASURED, f"foretrace calibrate, version {__version__}, on this machine", today
            ),
            _SYSTEM: Source(SourceKind.VENDOR, f"Reported by {facts['kernel']} about the {facts['cpu']}", today),
            _DERIVED: Source(
                SourceKind.DERIVED,
                "Loads in flight by Little's law: latency of a dependent load over time of a random one",
                today,
            ),
        },
        core=_core(core, memory),
        caches=_cache_levels(levels, latency),
        memory=_memory(levels, total_bytes, latency, memory),
        bandwidth=bandwidth_points(memory, _MEASURED),
        latency=latency,
        gather_scatter=gather_scatter_curves(memory, _MEASURED),
        notes=(
            "Measured on one core, with the others as they were: the figures are those of the least disturbed moments.",
            "Gather/scatter bandwidth counts all references: element (8 bytes), dense array (8) and index (4).",
            *_effective_sizes(levels, latency),
        ),
        metadata=facts,
    )


def _core(core: Mapping[str, Measurement], memory: Mapping[Point, Measurement]) -> Core:
    figures = {field: rounded(value) for field, value in core_figures(core).items()}
    source = dict.fromkeys(figures, _MEASURED)
    largest = max(p.size_bytes for p in memory if p.kernel == "random8")
    chase, random = memory[Point("chase", largest)], memory[Point("random8", largest)]
    figures["outstanding_misses"] = rounded(max(1.0, chase.best_s / random.best_s))
    source |= {"outstanding_misses": _DERIVED, "cores": _SYSTEM}
    return Core(source=source, cores=num_cores(), noise=None, **figures)


def _inside(latency: Sequence[LatencyPoint], below_bytes: float, above_bytes: float) -> list[LatencyPoint]:
    """Points that lie well inside a level: little of their working set fits the level before."""
    return [p for p in latency if 1.5 * below_bytes <= p.working_set_bytes <= 0.75 * above_bytes]


def _latencies(levels: Sequence[CacheFacts], latency: Sequence[LatencyPoint]) -> list[float | None]:
    """Latency of each level and of main memory, where a working set lay in it; never falling outwards."""
    edges = [0.0, *(float(level.size_bytes) for level in levels), float("inf")]
    found: list[float | None] = []
    floor = 0.0
    for below, above in itertools.pairwise(edges):
        points = _inside(latency, below, above)
        if points:
            middle = points[-1] if above == float("inf") else points[len(points) // 2]
            floor = max(floor, middle.latency_s)
        found.append(floor if points else None)
    return found


def _cache_levels(levels: Sequence[CacheFacts], latency: Sequence[LatencyPoint]) -> tuple[CacheLevel, ...]:
    found = []
    for level, latency_s in zip(levels, _latencies(levels, latency), strict=False):
        figures = {
            "size_bytes": level.size_bytes,
            "ways": level.ways,
            "line_bytes": level.line_bytes,
            "shared_by_cores": level.shared_by_cores,
        }
        source = {field: _SYSTEM for field, value in figures.items() if value is not None}
        if latency_s is not None:
            source["latency_s"] = _MEASURED
        found.append(
            CacheLevel(
                name=level.name,
                size_bytes=level.size_bytes,
                source=source,
                ways=level.ways,
                line_bytes=level.line_bytes,
                shared_by_cores=level.shared_by_cores,
                latency_s=latency_s,
            )
        )
    return tuple(found)


def _memory(
    levels: Sequence[CacheFacts],
    total_bytes: int | None,
    latency: Sequence[LatencyPoint],
    memory: Mapping[Point, Measurement],
) -> Memory:
    latency_s = _latencies(levels, latency)[-1]
    source = {"page_bytes": _SYSTEM}
    if total_bytes is not None:
        source["size_bytes"] = _SYSTEM
    bandwidth = None
    if latency_s is not None:
        largest = max(p.size_bytes for p in memory)
        bandwidth = rounded(2 * ELEMENT_BYTES / memory[Point("load16", largest)].best_s)
        source |= {"latency_s": _MEASURED, "core_read_bandwidth_bytes_per_s": _MEASURED}
    return Memory(
        source=source,
        size_bytes=total_bytes,
        latency_s=latency_s,
        core_read_bandwidth_bytes_per_s=bandwidth,
        page_bytes=mmap.PAGESIZE,
    )


def _effective_sizes(levels: Sequence[CacheFacts], latency: Sequence[LatencyPoint]) -> list[str]:
    """How much of each cache loads get to use, where that is less than half of what the system reports.

    Pages scattered over sets, and neighbours on the machine, take their share.
    """
    found = _latencies(levels, latency)
    notes = []
    for level, inner, outer in zip(levels, found, found[1:], strict=False):
        if inner is None or outer is None or outer < 1.5 * inner:
            continue
        fast = [p.working_set_bytes for p in latency if p.latency_s < (inner * outer) ** 0.5]
        if fast and max(fast) < level.size_bytes / 2:
            notes.append(
                f"{level.name} is reported as {format_bytes(level.size_bytes)}, "
                f"but loads are slower from {format_bytes(max(fast))} on."
            )
    return notes


def _warnings(
    levels: Sequence[CacheFacts],
    largest: int,
    core: Mapping[str, Measurement],
    memory: Mapping[Point, Measurement],
) -> tuple[str, ...]:
    warnings = []
    if not levels:
        warnings.append("the system does not tell the caches: the profile has none")
    elif largest < 1.5 * levels[-1].size_bytes:
        warnings.append(
            f"main memory could not be measured: the largest working set is {format_bytes(largest)}, "
            f"{levels[-1].name} has {format_bytes(levels[-1].size_bytes)}"
        )
    names = [f"{name} ({m.noise:.0%})" for name, m in core.items() if m.noise > UNSTABLE_NOISE]
    if names:
        warnings.append(f"unstable, the median above the shortest time by: {', '.join(names)}")
    for kernel, title in _KINDS.items():
        points = [(m.noise, p.size_bytes) for p, m in memory.items() if p.kernel == kernel]
        unstable = [point for point in points if point[0] > UNSTABLE_NOISE]
        if unstable:
            noise, size = max(unstable)
            warnings.append(
                f"unstable: {title}, at {len(unstable)} of {len(points)} working sets, most at {format_bytes(size)} "
                f"(median {noise:.0%} above the shortest time)"
            )
    return tuple(warnings)
