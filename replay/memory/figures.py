"""Access costs by the level that holds the data: from a profile's measured surface, or derived from published figures.

Each figure is a time of one access or one line, as (fast, typical, slow).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from foretrace.base.errors import PredictionError
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.profiles.points import Movement, PrefetchPoint, SurfacePoint
from foretrace.profiles.profile import BandwidthPoint, CacheLevel, Core, LatencyPoint, Memory, Pattern, Profile
from foretrace.profiles.ranges import Assumptions, Range, assumption_text, core_class, default_of, not_given
from foretrace.replay.base.known import KnownCore
from foretrace.replay.base.spread import TYPICAL, Floats, assumed_as, between, cycles, exactly

_Point = TypeVar("_Point", BandwidthPoint, LatencyPoint, SurfacePoint)

WORD_BYTES = 8
_WELL_INSIDE = 0.75
"""Share of a cache's size: the largest working set that is taken to lie in it."""


@dataclass(frozen=True, slots=True, eq=False)
class LateLines:
    """Lines of streams out of main memory that nobody fetched ahead, by how many lines of streams out of nearer caches
    come for each of them.

    `others` [points], ascending; `shares` [3, points] of the stream's lines, [3, 0] where none was measured.
    """

    others: Floats
    shares: Floats

    @classmethod
    def of(cls, points: Iterable[PrefetchPoint]) -> LateLines:
        """Late lines as measured at `points`."""
        ordered = sorted(points, key=lambda point: point.misses_per_line)
        others = np.array([point.misses_per_line for point in ordered])
        return cls(others, np.array([_late(point) for point in ordered]).reshape(-1, 3).T)

    def share(self, others: Floats, corner: int) -> Floats:
        """[...]: of the stream's lines; 0 where there are no others."""
        found = np.interp(others, np.append(0.0, self.others), np.append(0.0, self.shares[corner]))
        return np.asarray(found, np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class MemoryFigures:
    """Costs by the level that holds the data; level index 0 is the nearest cache, the last one main memory.

    An access that is not dependent costs its slot, plus what fetching its line adds: `stream_s` in a regular pattern,
    `random_s` in an irregular one. One that waits for its own last value costs `dependent_s` alone. In main memory the
    last two depend on the address range, by `range_bytes` and the `..._memory_s` beside it.
    """

    access_bytes: Floats  # [groups] sizes of the accesses that streams were measured with
    slot_s: Floats  # [3, groups] time of an access that hits the first level
    stream_s: Floats  # [3, groups, levels + 1] what a line from there adds
    line_s: Floats  # [3, groups, levels + 1] between two lines of a regular stream from there
    random_s: Floats  # [3, levels + 1]
    random_range_bytes: Floats  # [points], ascending
    random_memory_s: Floats  # [3, points]
    dependent_s: Floats  # [3, levels + 1]
    dependent_range_bytes: Floats
    dependent_memory_s: Floats
    write_back_s: Floats  # [3, levels + 1] what a line takes longer where it is stored to, and so leaves again
    late_lines: LateLines
    line_bytes: Floats  # [levels] of the caches
    measured_range_bytes: float | None  # the largest working set that was measured; None where none was
    sizes_bytes: Floats  # [levels] of the caches

    def latency_by_range(self, range_bytes: Floats, corner: int) -> Floats:
        """[operations, levels + 1]: latency of an access somewhere in an address range of so many bytes.

        Main memory answers later over a larger range.
        """
        result = np.broadcast_to(self.dependent_s[corner], (len(range_bytes), len(self.sizes_bytes) + 1)).copy()
        result[:, -1] = self.dependent_in_memory(range_bytes, corner)
        return result

    def dependent_in_memory(self, range_bytes: Floats, corner: int) -> Floats:
        """Latency of a load from main memory, anywhere in a range."""
        points = np.log(self.dependent_range_bytes)
        ranges = np.log(np.maximum(range_bytes, 1))
        return np.asarray(np.interp(ranges, points, self.dependent_memory_s[corner]), np.float64)

    def random_by_range(self, range_bytes: Floats, corner: int) -> Floats:
        """[operations, levels + 1]: time between independent accesses at random in an address range."""
        slot = float(self.slot_s[corner].min())
        result = np.broadcast_to(self.random_s[corner], (len(range_bytes), len(self.sizes_bytes) + 1)).copy()
        ranges = np.log(np.maximum(range_bytes, 1))
        result[:, -1] = np.interp(ranges, np.log(self.random_range_bytes), self.random_memory_s[corner])
        return result + slot


def memory_figures(
    profile: Profile, core: Core, clock_hz: float, hierarchy: Hierarchy, notes: Assumptions
) -> MemoryFigures:
    """Memory costs on a profile, whose caches are those of `hierarchy`.

    Raises:
        PredictionError: the profile tells neither bandwidth nor latency of main memory.
    """
    source = _Source(profile, core, clock_hz, hierarchy, notes)
    latency = source.latencies()
    line_time = source.default_byte_times(latency)
    groups = source.stream_groups()
    byte_times = np.stack([source.byte_times(group, line_time) for group in groups], axis=1)  # [3, groups, levels + 1]
    lines = np.array([level.line_bytes for level in hierarchy.levels], dtype=np.float64)
    access = np.array([float(group or WORD_BYTES) for group in groups])
    random = source.random_times(latency, byte_times.min(axis=1))
    slot = byte_times[:, :, 0] * access
    added = np.maximum(random - slot.min(axis=1)[:, None], 0)
    random_range, random_memory = source.random_memory(random)
    dependent_range, dependent_memory = source.dependent_memory(latency)
    memory_byte = byte_times[:, :, -1].min(axis=1)
    sets = [point.working_set_bytes for point in profile.bandwidth]
    sets += [point.working_set_bytes for point in profile.latencies()]
    return MemoryFigures(
        access_bytes=access,
        slot_s=slot,
        stream_s=_added_by_lines(byte_times, lines),
        line_s=byte_times * np.array([lines[0], *lines]),
        random_s=added,
        random_range_bytes=random_range,
        random_memory_s=np.maximum(random_memory - slot.min(axis=1)[:, None], added[:, -2:-1]),
        dependent_s=latency,
        dependent_range_bytes=dependent_range,
        dependent_memory_s=np.maximum(dependent_memory, latency[:, -2:-1]),
        write_back_s=source.write_backs(memory_byte * lines[-1]),
        late_lines=LateLines.of(profile.prefetch),
        line_bytes=lines,
        measured_range_bytes=float(max(sets)) if sets else None,
        sizes_bytes=np.array([float(level.size_bytes) for level in hierarchy.levels]),
    )


def _added_by_lines(byte_times: Floats, lines: Floats) -> Floats:
    """Extra time of a line from each level in a regular stream that already pays a slot for each access.

    A stream out of level l was measured to take byte_times[l] for each byte. Of a line of the level below it pays
    the slots, and, where lines of levels nearer to the core are shorter, the further lines it finds there.
    """
    added = np.zeros_like(byte_times)
    for level in range(1, byte_times.shape[2]):
        line = lines[level - 1]
        cost = line * (byte_times[:, :, level] - byte_times[:, :, 0])
        for nearer in range(1, level):
            found = line / lines[nearer - 1] - line / lines[nearer]
            cost = cost - found * added[:, :, nearer]
        added[:, :, level] = np.maximum(cost, 0)
    return np.maximum.accumulate(np.maximum.accumulate(added, axis=2), axis=0)


@dataclass(frozen=True, slots=True)
class _Source:
    """Memory figures of a profile: from its points first, then its published figures, then assumptions."""

    profile: Profile
    core: Core
    clock_hz: float
    hierarchy: Hierarchy
    notes: Assumptions

    @property
    def known(self) -> KnownCore:
        return KnownCore(self.core, core_class(self.profile), self.notes)

    @property
    def memory(self) -> Memory | None:
        return self.profile.memory

    @property
    def num_caches(self) -> int:
        return len(self.hierarchy.levels)

    def name(self, level: int) -> str:
        return self.hierarchy.levels[level].name if level < self.num_caches else "main memory"

    def kind_of(self, level: int) -> str:
        """The position of a cache: "first", "middle" or "last"."""
        return "first" if level == 0 else "last" if level > 1 and level == self.num_caches - 1 else "middle"

    def size_bytes(self, level: int) -> float:
        """Capacity up to and including a level; 0 below the first, no end in main memory."""
        if level < 0:
            return 0.0
        return float(self.hierarchy.levels[level].size_bytes) if level < self.num_caches else float("inf")

    def inside(self, points: Sequence[_Point], level: int) -> list[_Point]:
        """Points whose working set lies in a level: well inside it where there are such."""
        below, above = self.size_bytes(level - 1), self.size_bytes(level)
        well = [p for p in points if 1.5 * below <= p.working_set_bytes <= _WELL_INSIDE * above]
        return well or [p for p in points if below < p.working_set_bytes <= above]

    # ---- dependent loads

    def latencies(self) -> Floats:
        """[3, levels + 1]: time of a dependent load by the level it hits."""
        figures = [self.latency(level) for level in range(self.num_caches + 1)]
        return np.maximum.accumulate(np.stack(figures, axis=1), axis=1)

    def latency(self, level: int) -> Floats:
        part = self.memory if level == self.num_caches else self.profile.caches[level]
        if part is not None and part.latency_s is not None:
            return _measured([(part.latency_s, (part.noise or {}).get("latency_s"))])
        points = self.inside(self.profile.latencies(), level)
        if points:
            return _measured([(p.latency_s, p.noise) for p in points])
        if level == self.num_caches:
            return self.memory_latency()
        default = default_of(CacheLevel, "latency_s", self.known.of, self.kind_of(level))
        time_s = cycles(default.fast, default.typical, default.slow, self.clock_hz)
        return assumed_as(self.notes, f"{self.name(level)} latency_s", not_given(default.range_text), time_s)

    def memory_latency(self) -> Floats:
        if not self.knows_memory_bandwidth():
            raise PredictionError(
                f"profile {self.profile.name}: tells neither bandwidth nor latency of main memory; give one of "
                "memory.core_read_bandwidth_bytes_per_s, memory.peak_bandwidth_bytes_per_s, memory.latency_s, or "
                "measured points"
            )
        default = default_of(Memory, "latency_s", self.known.of)
        time_s = between(default.fast, default.typical, default.slow)
        return assumed_as(self.notes, "memory latency_s", assumption_text(Memory, "latency_s", default), time_s)

    def knows_memory_bandwidth(self) -> bool:
        memory = self.memory
        published = memory is not None and (
            memory.core_read_bandwidth_bytes_per_s is not None or memory.peak_bandwidth_bytes_per_s is not None
        )
        return published or bool(self.inside(self.profile.bandwidth, self.num_caches))

    # ---- streams

    def sequential(self) -> list[BandwidthPoint]:
        return [p for p in self.profile.bandwidth if p.pattern is Pattern.SEQUENTIAL]

    def stream_groups(self) -> list[int | None]:
        """The access sizes that streams were measured with; [None] where none was."""
        sizes: list[int | None] = []
        sizes.extend(sorted({p.access_bytes for p in self.sequential()}))
        return sizes or [None]

    def byte_times(self, group: int | None, default: Callable[[int], Floats]) -> Floats:
        """[3, levels + 1]: time of a byte of a regular stream by the level it comes from."""
        points = [p for p in self.sequential() if p.access_bytes == group]
        figures = []
        for level in range(self.num_caches + 1):
            found = self.inside(points, level)
            measured = [(1 / p.bandwidth_bytes_per_s, p.noise) for p in found]
            figures.append(_measured(measured) if measured else default(level))
        return np.maximum.accumulate(np.stack(figures, axis=1), axis=1)

    def default_byte_times(self, latency: Floats) -> Callable[[int], Floats]:
        """Rules for a level that no stream was measured in."""

        def first() -> Floats:
            return 1 / (self.known.figure("loads_per_cycle") * WORD_BYTES * self.clock_hz)

        def default(level: int) -> Floats:
            if level == 0:
                return first()
            if level == self.num_caches:
                return self.memory_byte_time(latency[:, -1])
            given = self.profile.caches[level].core_bandwidth_bytes_per_s
            if given is not None:
                return exactly(1 / given)
            rate = default_of(CacheLevel, "core_bandwidth_bytes_per_s", self.known.of, self.kind_of(level))
            amount = f"{rate.typical:g} ({rate.slow:g} to {rate.fast:g}) {rate.of}"
            byte = cycles(1 / rate.fast, 1 / rate.typical, 1 / rate.slow, self.clock_hz)
            text = f"{not_given(amount, rate)}; no less than of main memory"
            byte = assumed_as(self.notes, f"bandwidth_{self.name(level)}", text, byte)
            return np.minimum(byte, self.memory_byte_time(latency[:, -1]))

        return default

    def memory_byte_time(self, latency: Floats) -> Floats:
        memory, line = self.memory, self.hierarchy.levels[-1].line_bytes
        points = self.inside(self.sequential(), self.num_caches)
        if points:
            return _measured([(1 / p.bandwidth_bytes_per_s, p.noise) for p in points])
        if memory is not None and memory.core_read_bandwidth_bytes_per_s is not None:
            return exactly(1 / memory.core_read_bandwidth_bytes_per_s)
        if memory is not None and memory.peak_bandwidth_bytes_per_s is not None:
            share = default_of(Memory, "core_read_bandwidth_bytes_per_s", self.known.of)
            lines = default_of(Memory, "stream_lines_in_flight", self.known.of)
            given = memory.stream_lines_in_flight
            in_flight = np.array(Range.of(lines)) if given is None else exactly(given)
            most = lines.range_text if given is None else f"{given:g}"
            amount = f"{share.range_text} assumed, but no more than {most} lines a latency"
            text = f"not in the profile, {amount}" + (f", as of {lines.cores}" if lines.cores and given is None else "")
            of_peak = 1 / (np.array(Range.of(share)) * memory.peak_bandwidth_bytes_per_s)
            byte_s = np.maximum(of_peak, latency / (line * in_flight))
            return assumed_as(self.notes, "memory core_read_bandwidth_bytes_per_s", text, byte_s)
        self.notes.note(
            "memory_bandwidth",
            "not in the profile, derived from latency and misses in flight (Little's law)",
        )
        return latency / (line * self.parallel_misses())

    def write_backs(self, memory_line_s: Floats) -> Floats:
        """[3, levels + 1]: what a line takes longer that is stored to than one that is loaded.

        As measured, for the two in turn; where that was not, by the bandwidths of one core, published or assumed.
        """
        result = np.zeros((3, self.num_caches + 1))
        result[:, -1] = self.published_write_back(memory_line_s)
        for level in range(1, self.num_caches + 1):
            line = self.hierarchy.levels[level - 1].line_bytes
            loads, stores = (
                {p.working_set_bytes: p for p in self.line_by_line(movement, line)}
                for movement in (Movement.LOAD, Movement.STORE)
            )
            both = self.inside([loads[size] for size in sorted(loads.keys() & stores.keys())], level)
            if both:
                more = [_line_time(stores[p.working_set_bytes]) - _line_time(p) for p in both]
                result[:, level] = np.maximum(0, [min(more), float(np.median(more)), max(more)])
        return result

    def published_write_back(self, memory_line_s: Floats) -> Floats:
        """[3]: of a line to main memory."""
        line, memory = self.hierarchy.levels[-1].line_bytes, self.memory
        stored = memory.core_write_bandwidth_bytes_per_s if memory else None
        if stored is not None:
            return np.maximum(line / stored - memory_line_s, 0.0)
        name = "core_write_bandwidth_bytes_per_s"
        default = default_of(Memory, name, self.known.of)
        ratio = np.array(Range.of(default))
        if not self.line_by_line(Movement.STORE, line):
            ratio = assumed_as(self.notes, f"memory {name}", assumption_text(Memory, name, default), ratio)
        return np.asarray(memory_line_s * np.maximum(1 / ratio - 1, 0.0), np.float64)

    def line_by_line(self, movement: Movement, line_bytes: int) -> list[SurfacePoint]:
        """Points of the surface that use each line once."""
        return [
            p
            for p in self.profile.surface
            if p.movement is movement and p.stride_bytes == line_bytes and p.access_bytes <= line_bytes
        ]

    # ---- independent loads at random

    def parallel_misses(self) -> Floats:
        """[fast, typical, slow] numbers of misses in flight."""
        name = "outstanding_misses"
        most = self.known.given(name)
        if most is None:
            return self.known.assumed(name)
        text = f"code is taken to keep the core's {most:g} misses in flight (half to all)"
        return assumed_as(self.notes, name, text, np.array([most, most, max(most / 2, 1.0)]))

    def random_points(self) -> list[BandwidthPoint]:
        return [p for p in self.profile.bandwidth if p.pattern is Pattern.RANDOM]

    def random_times(self, latency: Floats, byte_times: Floats) -> Floats:
        """[3, levels + 1]: time of an independent load at random by the level it hits."""
        times = np.zeros_like(latency)
        for level in range(self.num_caches + 1):
            points = self.inside(self.random_points(), level)
            if points:
                times[:, level] = _measured([(self.unmixed(p, level, times), p.noise) for p in points])
            elif level == 0:
                times[:, 0] = byte_times[:, 0] * WORD_BYTES
            else:
                line = self.hierarchy.levels[level - 1].line_bytes
                times[:, level] = np.maximum(latency[:, level] / self.parallel_misses(), line * byte_times[:, level])
        return np.maximum.accumulate(times, axis=1)

    def unmixed(self, point: BandwidthPoint, level: int, times: Floats) -> float:
        """Time of a load that hits `level`, out of a point where those nearer to the core hold their share."""
        time = point.access_bytes / point.bandwidth_bytes_per_s
        rest = 1.0
        for nearer in range(level):
            share = max(self.size_bytes(nearer) - self.size_bytes(nearer - 1), 0) / point.working_set_bytes
            time -= share * times[TYPICAL, nearer]
            rest -= share
        return max(time / max(rest, 0.05), times[TYPICAL, level - 1] if level else 0.0)

    def random_memory(self, times: Floats) -> tuple[Floats, Floats]:
        """The last column of `times` as a function of the address range, where it was measured over several."""
        points = sorted(self.inside(self.random_points(), self.num_caches), key=lambda p: p.working_set_bytes)
        if not points:
            return np.ones(1), times[:, -1:]
        values = [_measured([(self.unmixed(p, self.num_caches, times), p.noise)]) for p in points]
        return np.array([float(p.working_set_bytes) for p in points]), np.stack(values, axis=1)

    def dependent_memory(self, latency: Floats) -> tuple[Floats, Floats]:
        points = sorted(self.inside(self.profile.latencies(), self.num_caches), key=lambda p: p.working_set_bytes)
        if not points:
            return np.ones(1), latency[:, -1:]
        values = [_measured([(p.latency_s, p.noise)]) for p in points]
        return np.array([float(p.working_set_bytes) for p in points]), np.stack(values, axis=1)


def _late(point: PrefetchPoint) -> tuple[float, float, float]:
    """The share of lines that nobody fetched ahead: fast, typical, slow."""
    late, error = 1 - point.fetched_ahead, point.fetched_ahead * (point.noise or 0.0)
    return max(late - error, 0.0), late, min(late + error, 1.0)


def _line_time(point: SurfacePoint) -> float:
    """Time of one access."""
    return point.access_bytes / point.bandwidth_bytes_per_s


def _measured(times: Sequence[tuple[float, float | None]]) -> Floats:
    """The median of measured times; the range is theirs, each widened by its noise."""
    noise = [1 + (spread or 0.0) for _, spread in times]
    typical = float(np.median([time for time, _ in times]))
    fast = min(time / factor for (time, _), factor in zip(times, noise, strict=True))
    slow = max(time * factor for (time, _), factor in zip(times, noise, strict=True))
    return between(fast, typical, slow)
