"""The profile of a machine that was measured."""

from __future__ import annotations

import datetime
import itertools
import mmap
import platform
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TypeVar

from msgspec import structs

from foretrace.base.units import format_bytes, format_seconds
from foretrace.base.version import __version__
from foretrace.benchmarks.harness.buffers import Pages, allocate, huge_page_bytes, page_bytes_of
from foretrace.benchmarks.harness.machine_facts import CacheFacts, microarchitecture
from foretrace.benchmarks.harness.sampling import Timing, rounded
from foretrace.benchmarks.kernels import _kernels
from foretrace.profiles.figure import figures_of_record
from foretrace.profiles.hierarchies import as_measured, hierarchy_of
from foretrace.profiles.points import Movement
from foretrace.profiles.profile import (
    SCHEMA,
    CacheLevel,
    Core,
    Frontend,
    LatencyPoint,
    MachineKind,
    Memory,
    Profile,
    Source,
    SourceKind,
)

from .array_suite import array_costs
from .cache_sizes import cache_ends, effective_size, streamed_size
from .core_suite import core_figures, operation_costs
from .latency_suite import Chain, latency_points, tlbs
from .line_lifetime import line_lifetime
from .linear_suite import Linear, linear_costs
from .memory_suite import LOAD_BYTES, RANDOM, Point, bandwidth_points
from .multimaps import Sweep, surface_points
from .ping_pong import Messages, network_of
from .prefetch_suite import Mix, lookahead, stream_points
from .sgbench import Loop, curves
from .thread_suite import Team, thread_points
from .window_suite import Window, in_flight

_MEASURED, _SYSTEM, _DERIVED = "calibrate", "system", "derived"
_LARGE_ARRAY_BYTES = 16 << 20


@dataclass(slots=True)
class Measured:
    """Everything that was measured, by suite."""

    core: dict[str, Timing] = field(default_factory=dict)
    arrays: dict[str, Timing] = field(default_factory=dict)
    linear: dict[Linear, Timing] = field(default_factory=dict)
    chains: dict[Chain, Timing] = field(default_factory=dict)
    windows: dict[Window, Timing] = field(default_factory=dict)
    first_touch: dict[int, Timing] = field(default_factory=dict)
    memory: dict[Point, Timing] = field(default_factory=dict)
    mixes: dict[Mix, Timing] = field(default_factory=dict)
    sweeps: dict[Sweep, Timing] = field(default_factory=dict)
    loops: dict[Loop, Timing] = field(default_factory=dict)
    teams: dict[Team, Timing] = field(default_factory=dict)
    lifetimes: dict[float, Timing] = field(default_factory=dict)
    wakes: dict[str, Timing] = field(default_factory=dict)

    def by_kind(self) -> dict[str, dict[str, Timing]]:
        """The timings of each suite, by a name for people."""
        return {
            "the core": dict(self.core),
            "array operations": dict(self.arrays),
            "linear algebra": {str(key): timing for key, timing in self.linear.items()},
            "dependent loads": {f"{format_bytes(c.size_bytes)} ({c.kind})": t for c, t in self.chains.items()},
            "instructions in flight": {f"{w.between} between two loads ({w.kind})": t for w, t in self.windows.items()},
            "new pages": {format_bytes(size): t for size, t in self.first_touch.items()},
            "loads": {f"{p.kernel} at {format_bytes(p.size_bytes)}": t for p, t in self.memory.items()},
            "streams beside streams": {
                f"{x.far} of {format_bytes(x.size_bytes)} beside {x.near} near ones{', busy' if x.busy else ''}": t
                for x, t in self.mixes.items()
            },
            "MultiMAPS": {
                f"{s.movement} at {format_bytes(s.working_set_bytes)}, stride {s.stride_bytes}": t
                for s, t in self.sweeps.items()
            },
            "SGBench": {
                f"{x.operation} {x.index_mode} at {format_bytes(x.range_bytes)}, {x.element_bytes} bytes, "
                f"threads: {x.threads}": t
                for x, t in self.loops.items()
            },
            "lines left alone": {f"for {format_seconds(idle_s)}": t for idle_s, t in self.lifetimes.items()},
            "threads that wake each other": dict(self.wakes),
            "threads": {
                f"{x.movement} at {format_bytes(x.working_set_bytes)}, threads: {x.threads}": t
                for x, t in self.teams.items()
            },
        }

    def timings(self) -> Iterator[Timing]:
        """All of them."""
        return itertools.chain.from_iterable(getattr(self, part.name).values() for part in fields(self))


def measured_profile(
    name: str,
    levels: Sequence[CacheFacts],
    measured: Measured,
    facts: dict[str, str],
    *,
    memory_bytes: int | None,
    num_cores: int | None,
    partial: bool = False,
) -> Profile:
    """The profile, as far as the measurements go.

    Args:
        name: of the profile.
        levels: caches as the system reports them.
        measured: the timings; those of the core must be there.
        facts: for the metadata; `cpu` and `kernel` must be there.
        memory_bytes: size of main memory; None where it is not known.
        num_cores: that this process may use; None where it is not known.
        partial: whether the measurement was interrupted.
    """
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    latency = latency_points(measured.chains, _MEASURED)
    pure = _without_translation(latency)
    core = _core(measured, num_cores)
    caches = _with_lifetime(_with_streams(_caches(levels, pure), measured.memory), measured.lifetimes)
    memory = _memory(caches, pure, measured, memory_bytes)
    usual_latency_s, alone = _in_usual_pages(latency), _stream_alone(memory, core)
    ahead = None if alone is None else lookahead(measured.mixes, usual_latency_s, *alone)
    late_lines = () if alone is None else stream_points(measured.mixes, usual_latency_s, *alone, ahead, _MEASURED)
    profile = Profile(
        schema=SCHEMA,
        name=name,
        title=facts["cpu"],
        kind=MachineKind.HOST,
        date=today,
        instruction_set=platform.machine(),
        microarchitecture=microarchitecture(),
        sources={
            _MEASURED: Source(
                SourceKind.MEASURED, f"foretrace calibrate, version {__version__}, on this machine", today
            ),
            _SYSTEM: Source(
                SourceKind.VENDOR, f"Reported by {facts['kernel']} about the {facts['cpu']}", today, read_on=today
            ),
            _DERIVED: Source(
                SourceKind.DERIVED,
                "Loads in flight by Little's law: latency of a dependent load over time of a random one",
                today,
                read_on=today,
            ),
        },
        core=core,
        caches=caches,
        memory=memory,
        bandwidth=bandwidth_points(measured.memory, _MEASURED),
        latency=latency,
        gather_scatter=curves(measured.loops, _MEASURED),
        operations=operation_costs(measured.core, _MEASURED),
        array_costs=array_costs(measured.arrays, _MEASURED),
        linear_algebra=linear_costs(measured.linear, _MEASURED),
        tlbs=tlbs(measured.chains, _MEASURED),
        prefetch=late_lines,
        thread_bandwidth=thread_points(measured.teams, _MEASURED),
        partial=True if partial else None,
        notes=_notes(caches, num_cores, partial=partial),
        metadata=facts,
    )
    hierarchy = hierarchy_of(profile).hierarchy
    hierarchy = None if hierarchy is None else as_measured(hierarchy, profile)
    return structs.replace(profile, surface=surface_points(measured.sweeps, hierarchy, _MEASURED))


def with_network(profile: Profile, measured: Messages) -> Profile:
    """The profile with the times of messages between two processes on the machine."""
    network, messages = network_of(measured, _MEASURED)
    notes = (*profile.notes, "The network's figures are those of two processes on this machine.")
    facts = (profile.metadata or {}) | {name: measured.facts[name] for name in ("mpi",) if name in measured.facts}
    return structs.replace(profile, network=network, messages=messages, notes=notes, metadata=facts)


def _core(measured: Measured, num_cores: int | None) -> Core:
    figures, noise = core_figures(measured.core)
    source = dict.fromkeys(figures, _MEASURED)
    chains = {c.size_bytes: t for c, t in measured.chains.items() if c.kind == "all" and c.page_bytes == mmap.PAGESIZE}
    both = [p.size_bytes for p in measured.memory if p.kernel == RANDOM and p.size_bytes in chains]
    if both:
        chase, random = chains[max(both)], measured.memory[Point(RANDOM, max(both))]
        figures["outstanding_misses"] = rounded(max(1.0, chase.time_s / random.time_s))
        noise["outstanding_misses"] = max(chase.noise, random.noise)
        source["outstanding_misses"] = _DERIVED
    for name, edge in in_flight(measured.windows).items():
        figures[name], noise[name], source[name] = edge.figure, edge.uncertain, _MEASURED
    for name, timing in measured.wakes.items():
        figures[name], noise[name], source[name] = rounded(timing.time_s), rounded(timing.noise), _MEASURED
    if num_cores is not None:
        source["cores"] = _SYSTEM
    names = sorted(figures_of_record(Frontend).keys() & figures.keys())
    given, uncertain = ({name: table.pop(name) for name in names} for table in (figures, noise))
    sources = {name: source.pop(name) for name in names}
    frontend = Frontend(source=sources, noise=uncertain, **given) if names else None
    return Core(source=source, cores=num_cores, noise=noise, frontend=frontend, **figures)  # type: ignore[arg-type]


# ---- caches and memory -----------------------------------------------------------------------------------------------


def _without_translation(latency: Sequence[LatencyPoint]) -> list[LatencyPoint]:
    """The points in the largest pages: there translation adds least."""
    largest = max((p.page_bytes or 0 for p in latency), default=0)
    return sorted((p for p in latency if (p.page_bytes or 0) == largest), key=lambda p: p.working_set_bytes)


def _caches(levels: Sequence[CacheFacts], latency: Sequence[LatencyPoint]) -> tuple[CacheLevel, ...]:
    """The caches as the system reports them, or as the measurement shows them where it does not."""
    source = _SYSTEM
    effective: list[int | None]
    effective_noise = 0.0
    if levels:
        size_bytes, effective_noise = _effective_size(levels, latency)
        effective = [*[None] * (len(levels) - 1), size_bytes]
    else:
        source = _MEASURED
        levels = [
            CacheFacts(f"L{i}", size, None, None, None)
            for i, size in enumerate(cache_ends([(p.working_set_bytes, p.latency_s) for p in latency]), 1)
        ]
        effective = [None] * len(levels)
    sizes = [float(size or level.size_bytes) for level, size in zip(levels, effective, strict=True)]
    found: list[CacheLevel] = []
    for level, size, timed in zip(levels, effective, _latencies(sizes, latency), strict=False):
        figures = {
            "size_bytes": level.size_bytes,
            "ways": level.ways,
            "line_bytes": level.line_bytes,
            "shared_by_cores": level.shared_by_cores,
        }
        sources = {name: source for name, value in figures.items() if value is not None}
        if found and size is not None and size <= (found[-1].effective_size_bytes or found[-1].size_bytes):
            size = None
        noise: dict[str, float] = {}
        if size is not None:
            sources["effective_size_bytes"] = _MEASURED
            noise["effective_size_bytes"] = rounded(effective_noise)
        if timed is not None:
            sources["latency_s"] = _MEASURED
            noise["latency_s"] = timed.noise or 0.0
        found.append(
            CacheLevel(
                name=level.name,
                size_bytes=level.size_bytes,
                source=sources,
                ways=level.ways,
                line_bytes=level.line_bytes,
                shared_by_cores=level.shared_by_cores,
                latency_s=None if timed is None else timed.latency_s,
                effective_size_bytes=size,
                noise=noise or None,
            )
        )
    return tuple(found)


def _in_usual_pages(latency: Sequence[LatencyPoint]) -> dict[int, float]:
    """Times of dependent loads by working set."""
    return {p.working_set_bytes: p.latency_s for p in latency if p.page_bytes == mmap.PAGESIZE}


_Part = TypeVar("_Part", CacheLevel, Memory)
_SizeOf = Callable[[Sequence[tuple[int, float]], Sequence[int]], int | None]


def _effective_size(levels: Sequence[CacheFacts], latency: Sequence[LatencyPoint]) -> tuple[int | None, float]:
    """Size of the last cache for loads, in whole ways, at least one, and its noise: that of the loads' times.

    None where that is all of it, or cannot be told.
    """
    points = [(p.working_set_bytes, p.latency_s, p.noise or 0.0) for p in latency]
    last = levels[-1]
    return _in_whole_ways(effective_size, points, [level.size_bytes for level in levels], last.ways)


def _in_whole_ways(
    size_of: _SizeOf, points: Sequence[tuple[int, float, float]], reported_bytes: Sequence[int], ways: int | None
) -> tuple[int | None, float]:
    """A size read off times by working set, each with its noise, and how far off that leaves the size.

    As far as if the times of the sets that fit it were all too long and those of the others too short, or the opposite.
    """
    way = reported_bytes[-1] // (ways or 16)

    def of(times: Sequence[tuple[int, float]]) -> int | None:
        size_bytes = size_of(times, reported_bytes)
        return None if size_bytes is None else max(1, round(size_bytes / way)) * way

    size_bytes = of([(size, time_s) for size, time_s, _ in points])
    edge = size_bytes or reported_bytes[-1]
    tilted = [
        of([(size, time_s * (1 + noise) ** (sign if size <= edge else -sign)) for size, time_s, noise in points])
        for sign in (-1, 1)
    ]
    sizes = [size or reported_bytes[-1] for size in (size_bytes, *tilted)]
    return size_bytes, max(sizes) / min(sizes) - 1


def _with_streams(caches: tuple[CacheLevel, ...], measured: Mapping[Point, Timing]) -> tuple[CacheLevel, ...]:
    """The caches with what streams get of the last one, the median over the widths of loads that tell it.

    That is no less than what dependent loads get.
    """
    if not caches:
        return caches
    last = caches[-1]
    found: list[tuple[int, float]] = []
    for kernel in LOAD_BYTES:
        points = [(p.size_bytes, t.time_s, t.noise) for p, t in measured.items() if p.kernel == kernel]
        size, error = _in_whole_ways(streamed_size, points, [cache.size_bytes for cache in caches], last.ways)
        if size is not None:
            found.append((size, error))
    if not found:
        return caches
    size_bytes, noise = statistics.median_low(found)
    least, least_noise = last.effective_size_bytes or 0, (last.noise or {}).get("effective_size_bytes", 0.0)
    noise = rounded(max(noise, least_noise))
    return (*caches[:-1], _with_figure(last, "effective_stream_size_bytes", max(size_bytes, least), noise))


def _with_lifetime(caches: tuple[CacheLevel, ...], measured: Mapping[float, Timing]) -> tuple[CacheLevel, ...]:
    """The caches with how long lines stay in the last one, where others use it."""
    found = line_lifetime(measured)
    if not caches or found is None:
        return caches
    return (*caches[:-1], _with_figure(caches[-1], "line_lifetime_s", *found))


def _with_figure(part: _Part, name: str, value: float, noise: float) -> _Part:
    sources, noises = part.source | {name: _MEASURED}, (part.noise or {}) | {name: noise}
    return structs.replace(part, source=sources, noise=noises, **{name: value})


def _latencies(sizes: Sequence[float], latency: Sequence[LatencyPoint]) -> list[LatencyPoint | None]:
    """A point well inside each level, and one in main memory, where there is one; never falling outwards.

    Noise only ever adds time: of a cache the fastest of its larger working sets counts."""
    edges = [0.0, *sizes, float("inf")]
    found: list[LatencyPoint | None] = []
    floor: LatencyPoint | None = None
    for below, above in itertools.pairwise(edges):
        inside = [p for p in latency if 1.5 * below <= p.working_set_bytes <= 0.75 * above]
        if not inside:
            found.append(None)
            continue
        larger = inside[-1:] if above == float("inf") else inside[len(inside) // 2 :]
        point = min(larger, key=lambda p: p.latency_s)
        if floor is None or point.latency_s > floor.latency_s:
            floor = point
        found.append(floor)
    return found


def _memory(
    caches: Sequence[CacheLevel], latency: Sequence[LatencyPoint], measured: Measured, size_bytes: int | None
) -> Memory:
    sizes = [float(cache.effective_size_bytes or cache.size_bytes) for cache in caches]
    last = caches[-1].size_bytes if caches else 0
    figures: dict[str, float] = {}
    noise: dict[str, float] = {}
    timed = _latencies(sizes, latency)[-1]
    if timed is not None:
        figures["latency_s"], noise["latency_s"] = timed.latency_s, timed.noise or 0.0
    for movement, name in (
        (Movement.LOAD, "core_read_bandwidth_bytes_per_s"),
        (Movement.STORE, "core_write_bandwidth_bytes_per_s"),
        (Movement.COPY, "core_copy_bandwidth_bytes_per_s"),
    ):
        rates = _in_main_memory(measured.sweeps, movement, last)
        if rates:
            figures[name], noise[name] = max(rates)
    for page_bytes, timing in measured.first_touch.items():
        name = "first_touch_page_s" if page_bytes == mmap.PAGESIZE else "first_touch_huge_page_s"
        figures[name], noise[name] = rounded(timing.time_s), rounded(timing.noise)
    source = dict.fromkeys(figures, _MEASURED)
    whole: dict[str, int] = {"page_bytes": mmap.PAGESIZE, "default_page_bytes": _default_page_bytes()}
    if size_bytes is not None:
        whole["size_bytes"] = size_bytes
    huge = huge_page_bytes()
    if huge is not None:
        whole["huge_page_bytes"] = huge
    source |= dict.fromkeys(whole, _SYSTEM)
    return Memory(source=source, noise=noise or None, **figures, **whole)  # type: ignore[arg-type]


def _stream_alone(memory: Memory, core: Core) -> tuple[float, float] | None:
    """Seconds of a line of a stream out of main memory, and instructions that a core has in flight; None if unknown."""
    bytes_per_s, in_flight = memory.core_read_bandwidth_bytes_per_s, core.window_instructions
    return None if bytes_per_s is None or in_flight is None else (_kernels.LINE_BYTES / bytes_per_s, in_flight)


def _in_main_memory(sweeps: Mapping[Sweep, Timing], movement: Movement, last_bytes: int) -> list[tuple[float, float]]:
    """Rates of the largest sweeps of a kind that touch every byte, and their noise; none where they fit a cache."""
    sequential = [s for s in sweeps if s.movement is movement and s.stride_bytes == s.access_bytes]
    largest = max((s.working_set_bytes for s in sequential), default=0)
    if largest < 1.5 * last_bytes:
        return []
    return [
        (rounded(s.access_bytes / sweeps[s].time_s), rounded(sweeps[s].noise))
        for s in sequential
        if s.working_set_bytes == largest
    ]


def _default_page_bytes() -> int:
    """The page that a large array lies in whose program does not ask."""
    return page_bytes_of(allocate(_LARGE_ARRAY_BYTES, Pages.DEFAULT))


def _notes(caches: Sequence[CacheLevel], num_cores: int | None, *, partial: bool) -> tuple[str, ...]:
    notes = [
        "Measured with other programs as they were: at the least disturbed moments, and what others have a part in "
        "(caches that cores share, memory, new pages) at the lower quartile.",
        "Latencies of caches and of main memory are those in the largest pages, where translation adds least.",
        "Gather/scatter bandwidth counts all references of the loop: element, dense array and index (4 bytes).",
    ]
    notes += [
        f"{cache.name} is reported as {format_bytes(cache.size_bytes)}, "
        f"but loads are slower from about {format_bytes(cache.effective_size_bytes)} on."
        for cache in caches
        if cache.effective_size_bytes is not None
    ]
    if num_cores == 1:
        notes.append("Only one core could be used: what several share was not measured.")
    if partial:
        notes.insert(0, "Partial: the measurement was interrupted, and what is missing was not measured.")
    return tuple(notes)
