"""A calibrated machine with the same cores tells of a published one what nobody published.

Both are of one `microarchitecture`. What a core does alone is taken to the published machine's clock, what it shares as
it is; all of it with wider noise, as boards, memory and virtual machines differ. Caches go by level: those of a core's
own tell only of caches as large, the last one of any size; a measured point tells of machines where its working set
lies in the same level.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from msgspec import Struct, structs

from .clock import at_clock
from .figure import figures_of_record
from .library import content, find, names
from .points import ArrayCost, OperationCost, PrefetchPoint, SurfacePoint, Tlb
from .profile import (
    BandwidthPoint,
    CacheLevel,
    Core,
    Frontend,
    GatherScatterCurve,
    MachineKind,
    Memory,
    Pattern,
    Profile,
    Source,
    SourceKind,
)

NOISE_OF_CORE = 0.1
"""Added to the noise of a relative's core and of its own caches: assumed, calibrations of one machine differ by 2 %."""
NOISE_OF_SHARED = 0.25
"""Noise added to what cores share, last cache and memory: assumed, memory differs in channels, speed and neighbours."""
NOISE_OF_PREFETCH = 0.03
"""Noise added to the share of lines that prefetchers fetch ahead: assumed, it is of a core's own design, and near 1."""
NOISE_OF_CLASS = 0.3
"""Noise of array costs taken from other machines whose vectors are as wide: two such differ by up to 1.7."""
_VECTORS = {
    **dict.fromkeys(("haswell", "skylake", "zen2", "zen3"), "AVX2"),
    **dict.fromkeys(("sunny-cove", "golden-cove", "redwood-cove", "zen4", "zen5"), "AVX-512"),
}
"""The vectors that NumPy has code for, by their manufacturers' manuals. Without its own, arithmetic is a library's."""
_OF_THE_MACHINE = {"cores", "clock_hz", "in_order", "line_transfer_latency_s", "thread_wake_latency_s",
                   "thread_wake_call_s"}  # fmt: skip
_OF_THE_SYSTEM = {"size_bytes", "peak_bandwidth_bytes_per_s", "sustained_bandwidth_bytes_per_s", "first_touch_page_s",
                  "first_touch_huge_page_s"}  # fmt: skip
_HELD = 0.75
"""Bound of the working sets that others did not disturb, as a share of what one core of the relative gets of the last
cache. Those larger than all of the cache by the same share lie beyond it."""

_Record = TypeVar("_Record", Core, Frontend, CacheLevel, Memory)
_Point = TypeVar("_Point", BandwidthPoint, SurfacePoint, OperationCost, ArrayCost, PrefetchPoint)


@dataclass(frozen=True, slots=True)
class Informed:
    """A profile with what a relative tells; `keys` are the figures and tables taken over."""

    profile: Profile
    relative: str
    keys: tuple[str, ...]


def is_calibrated(profile: Profile) -> bool:
    """Whether foretrace measured the machine."""
    return bool(profile.surface)


def relative_of(profile: Profile) -> Profile | None:
    """The shipped machine that was calibrated and has the same cores; None where there is none, or no need."""
    if profile.kind is not MachineKind.HOST or profile.microarchitecture is None or is_calibrated(profile):
        return None
    return next((find(name) for name in _calibrated(profile.microarchitecture) if name != profile.name), None)


@functools.cache
def _calibrated(microarchitecture: str) -> tuple[str, ...]:
    """Names of the shipped machines that were calibrated and have such cores."""
    same = f'\nmicroarchitecture = "{microarchitecture}"\n'.encode()
    return tuple(name for name in names() if same in (text := content(name)) and b"\nsurface = [" in text)


def informed(profile: Profile) -> Informed | None:
    """The profile, what it lacks taken from its calibrated relative; None if it has none."""
    relative = relative_of(profile)
    if relative is None or profile.core is None or profile.core.clock_hz is None:
        return None
    relative = at_clock(relative, profile.core.clock_hz)
    name = relative.name.partition("@")[0]
    found = _Taken(profile, relative, name)
    source = Source(SourceKind.DERIVED, f"foretrace's profile {name}, calibrated on the same cores", relative.date)
    changed = structs.replace(
        profile,
        sources=profile.sources | {name: source},
        core=found.core(profile.core),
        caches=tuple(found.cache(number, cache) for number, cache in enumerate(profile.caches)),
        memory=found.memory(),
        **found.points(),
    )
    return Informed(changed, name, tuple(found.keys))


@dataclass(frozen=True, slots=True)
class ArrayCosts:
    """Costs of array operations and their origin: "" the machine itself, None if there are none."""

    costs: tuple[ArrayCost, ...]
    machines: str | None


def array_costs_of(profile: Profile) -> ArrayCosts:
    """A machine's own costs; else the cycles of calibrated machines with vectors as wide, at its clock."""
    if profile.array_costs:
        return ArrayCosts(profile.array_costs, "")
    vectors = _VECTORS.get(profile.microarchitecture or "")
    if vectors is None or profile.core is None or profile.core.clock_hz is None:
        return ArrayCosts((), None)
    cycles, machines = _cycles_of_class(vectors)
    costs = []
    for (operation, kind), found in cycles.items():
        mean = math.exp(sum(map(math.log, found)) / len(found))
        noise = NOISE_OF_CLASS + max(found) / mean - 1
        costs.append(ArrayCost(operation, mean / profile.core.clock_hz, machines, noise, kind))
    return ArrayCosts(tuple(costs), machines if costs else None)


@functools.cache
def _cycles_of_class(vectors: str) -> tuple[dict[tuple[str, str], list[float]], str]:
    """The cycles of each array operation on the shipped machines with such vectors, and their names."""
    cycles: dict[tuple[str, str], list[float]] = {}
    machines = []
    for microarchitecture in (name for name, of_it in _VECTORS.items() if of_it == vectors):
        for profile in map(find, _calibrated(microarchitecture)):
            if profile.array_costs and profile.core is not None and profile.core.clock_hz is not None:
                machines.append(profile.name)
                for cost in profile.array_costs:
                    cycles.setdefault(cost.key, []).append(cost.point_s * profile.core.clock_hz)
    return cycles, " and ".join(machines)


class _Taken:
    """Copies figures from a relative and records their keys."""

    def __init__(self, profile: Profile, relative: Profile, name: str) -> None:
        self._profile = profile
        self._relative = relative
        self._name = name
        self.keys: list[str] = []
        self._own, self._other = ([cache.size_bytes for cache in one.caches] for one in (profile, relative))
        self._same_caches = self._own[:-1] == self._other[:-1] and len(self._own) == len(self._other)
        """Whether all caches but the last are equal; virtual machines show a share of the last."""

    def core(self, own: Core) -> Core:
        assert self._relative.core is not None
        found = self._filled("core", own, self._relative.core, _OF_THE_MACHINE, NOISE_OF_CORE)
        other = self._relative.core.frontend
        if other is None:
            return found
        known = own.frontend or Frontend(source={})
        return structs.replace(found, frontend=self._filled("core.frontend", known, other, set(), NOISE_OF_CORE))

    def cache(self, number: int, own: CacheLevel) -> CacheLevel:
        if not self._same_caches:
            return own
        shared = number == len(self._profile.caches) - 1
        other = self._relative.caches[number]
        wanted = structs.replace(other, source=other.source, noise=other.noise)
        left = set(figures_of_record(CacheLevel)) - {"latency_s", "ways", "line_bytes"}
        return self._filled(own.name, own, wanted, left, NOISE_OF_SHARED if shared else NOISE_OF_CORE)

    def memory(self) -> Memory | None:
        other = self._relative.memory
        if other is None:
            return self._profile.memory
        return self._filled("memory", self._profile.memory or Memory(source={}), other, _OF_THE_SYSTEM, NOISE_OF_SHARED)

    def _filled(self, where: str, own: _Record, other: _Record, left: set[str], noise: float) -> _Record:
        taken = {
            name: value
            for name in figures_of_record(type(own))
            if name not in left and getattr(own, name) is None and (value := getattr(other, name)) is not None
        }
        self.keys += [f"{where} {name}" for name in taken]
        noises = {name: ((other.noise or {}).get(name, 0.0)) + noise for name in taken}
        return structs.replace(
            own,
            **taken,
            source=own.source | dict.fromkeys(taken, self._name),
            noise=(own.noise or {}) | noises or None,
        )

    def points(self) -> dict[str, tuple[Struct, ...]]:
        """Tables that the profile lacks; of operations, those that it lacks."""
        own, other = self._profile, self._relative
        known = {(cost.operation, cost.element_bits, cost.elements) for cost in own.operations}
        lacking = [c for c in other.operations if (c.operation, c.element_bits, c.elements) not in known]
        found: dict[str, tuple[Struct, ...]] = {"operations": (*own.operations, *self._noisy(lacking, NOISE_OF_CORE))}
        if not own.array_costs:
            found["array_costs"] = self._noisy(other.array_costs, NOISE_OF_CORE)
        if self._same_caches:
            if not own.bandwidth:
                found["bandwidth"] = self._noisy([p for p in other.bandwidth if self._applies(p)])
            if not own.surface:
                found["surface"] = self._noisy([p for p in other.surface if self._undisturbed(p.working_set_bytes)])
            if not own.prefetch:
                found["prefetch"] = self._noisy(other.prefetch, NOISE_OF_PREFETCH)
            if not own.gather_scatter:
                curves = (self._curve(curve) for curve in other.gather_scatter)
                found["gather_scatter"] = tuple(curve for curve in curves if len(curve.points) > 1)
        if not own.tlbs:
            found["tlbs"] = tuple(self._tlb(tlb) for tlb in other.tlbs)
        self.keys += [name for name, points in found.items() if len(points) > len(getattr(own, name))]
        return found

    def _noisy(self, points: Sequence[_Point], noise: float = NOISE_OF_SHARED) -> tuple[_Point, ...]:
        return tuple(structs.replace(p, source=self._name, noise=(p.noise or 0.0) + noise) for p in points)

    def _curve(self, curve: GatherScatterCurve) -> GatherScatterCurve:
        same = (p for p in curve.points if self._in_same_level(p.range_bytes))
        points = tuple(structs.replace(p, noise=(p.noise or 0.0) + NOISE_OF_SHARED) for p in same)
        return structs.replace(curve, source=self._name, points=points)

    def _tlb(self, tlb: Tlb) -> Tlb:
        noises = {name: (tlb.noise or {}).get(name, 0.0) + NOISE_OF_SHARED for name in tlb.source}
        return structs.replace(tlb, source=dict.fromkeys(tlb.source, self._name), noise=noises)

    def _applies(self, point: BandwidthPoint) -> bool:
        """Not where the profile has a figure of its own, streams of one core out of main memory."""
        memory = self._profile.memory
        published = memory is not None and memory.core_read_bandwidth_bytes_per_s is not None
        in_memory = point.working_set_bytes > self._profile.caches[-1].size_bytes
        return self._undisturbed(point.working_set_bytes) and not (
            published and in_memory and point.pattern is Pattern.SEQUENTIAL
        )

    def _undisturbed(self, working_set_bytes: int) -> bool:
        """Whether the relative's neighbours on its last cache made no difference at this working set."""
        last = self._relative.caches[-1]
        held = last.effective_size_bytes or last.size_bytes
        alone = held == last.size_bytes or not _HELD * held < working_set_bytes < last.size_bytes / _HELD
        return alone and self._in_same_level(working_set_bytes)

    def _in_same_level(self, working_set_bytes: int) -> bool:
        """Whether a working set lies in the same level of both machines."""
        levels = [sum(working_set_bytes > size for size in sizes) for sizes in (self._own, self._other)]
        return levels[0] == levels[1]
