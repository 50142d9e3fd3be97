"""The figures of an accelerator as a model needs them: given by its profile, or assumed with a range.

Sizes, latency and bandwidth of memory stand where every machine has them (`[core]`, `[[caches]]`, `[memory]`), rates of
arithmetic in `[accelerator]`. Here they are together, each under one name.
"""

from __future__ import annotations

from dataclasses import dataclass

from foretrace.base.units import format_bytes, format_bytes_per_s, format_count, format_seconds

from . import defaults
from .accelerator import AcceleratorTable, DeviceKind
from .figure import CoreClass, Default
from .profile import CacheLevel, Profile
from .ranges import Assumption, Assumptions, Range, default_of, measured, noise_of, not_given


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """An accelerator. Rates are of the whole device but for one thread's; `assumptions` say what the profile lacks.

    `l1_bytes` is of one multiprocessor, `l2_bytes` of all second caches together. None: a third cache that it does not
    have or whose speed nobody published, or a capacity that is not known.
    """

    device_kind: DeviceKind
    multiprocessors: Range
    threads_per_multiprocessor: Range
    warp_threads: Range
    clock_hz: Range
    fp64_flops_per_s: Range
    fp32_flops_per_s: Range
    integer_ops_per_s: Range
    special_ops_per_s: Range
    atomics_per_s: Range
    same_address_atomics_per_s: Range
    thread_instructions_per_s: Range
    memory_bytes_per_s: Range
    memory_latency_s: Range
    memory_capacity_bytes: int | None
    l1_bytes: Range
    l1_bytes_per_s: Range
    l2_bytes: Range
    l2_bytes_per_s: Range
    last_cache_bytes: int | None
    last_cache_bytes_per_s: Range | None
    assumptions: tuple[Assumption, ...]


def device_figures(profile: Profile) -> DeviceFigures:
    """The figures of an accelerator's profile. A figure it lacks is assumed, by the design of its cores if known."""
    found = _Found(profile)
    core, memory, table = profile.core, profile.memory, profile.accelerator
    multiprocessors = found.placed("multiprocessors", core.cores if core else None, defaults.MULTIPROCESSORS)
    clock = found.placed("clock_hz", core.clock_hz if core else None, defaults.DEVICE_CLOCK)
    bases = {"clock_hz": clock, "cores x clock_hz": multiprocessors.times(clock)}
    if core and core.peak_flops_per_cycle is not None:
        peak = core.peak_flops_per_cycle
        bases["cores x clock_hz x peak_flops_per_cycle"] = bases["cores x clock_hz"].times(Range.exactly(peak))
    if memory and memory.peak_bandwidth_bytes_per_s is not None:
        peak = memory.peak_bandwidth_bytes_per_s
        bases["peak_bandwidth_bytes_per_s"] = Range.exactly(peak)
    bandwidth = found.placed(
        "memory_bytes_per_s",
        memory.sustained_bandwidth_bytes_per_s if memory else None,
        defaults.DEVICE_BANDWIDTH,
        defaults.UNKNOWN_BANDWIDTH,
        bases=bases,
    )
    bases["memory_bytes_per_s"] = bandwidth
    for name in ("l1_peak_bytes_per_s", "l2_peak_bytes_per_s", "last_cache_peak_bytes_per_s"):
        if (peak_rate := found.given(name)) is not None:
            bases[name] = peak_rate
    has_last = "last_cache_peak_bytes_per_s" in bases or found.given("last_cache_bytes_per_s") is not None
    rates = {name: found.rate(name, bases) for name in _ORDER}
    first, second, last = _levels(profile)
    return DeviceFigures(
        device_kind=(table and table.device_kind) or DeviceKind.GENERAL,
        multiprocessors=multiprocessors,
        clock_hz=clock,
        memory_bytes_per_s=bandwidth,
        memory_latency_s=found.placed(
            "memory_latency_s", memory.latency_s if memory else None, defaults.DEVICE_LATENCY
        ),
        memory_capacity_bytes=memory.size_bytes if memory else None,
        l1_bytes=found.placed("l1_bytes", first.size_bytes if first else None, defaults.DEVICE_L1),
        l2_bytes=found.placed("l2_bytes", _all_of(second, profile) if second else None, defaults.DEVICE_L2),
        last_cache_bytes=_all_of(last, profile) if last else None,
        last_cache_bytes_per_s=found.rate("last_cache_bytes_per_s", bases) if has_last else None,
        assumptions=found.assumed.listed,
        **rates,
    )


_ORDER = (
    "threads_per_multiprocessor",
    "warp_threads",
    "fp64_flops_per_s",
    "fp32_flops_per_s",
    "integer_ops_per_s",
    "special_ops_per_s",
    "l2_bytes_per_s",
    "l1_bytes_per_s",
    "atomics_per_s",
    "same_address_atomics_per_s",
    "thread_instructions_per_s",
)
"""Figures of the table, each after those that its default is a multiple of."""


class _Found:
    """Figures as given or assumed, and the sentences on what was assumed."""

    def __init__(self, profile: Profile) -> None:
        year = profile.product.year if profile.product else None
        self._class = CoreClass(microarchitecture=profile.microarchitecture, year=year)
        self._name = profile.name
        self._table = profile.accelerator or AcceleratorTable(source={})
        self.assumed = Assumptions()

    def given(self, name: str) -> Range | None:
        """A figure of the table with its noise, if it is there."""
        value: float | None = getattr(self._table, name)
        if value is None:
            return None
        return measured(value, noise_of(self._table.noise, name), more_is_faster=True)

    def rate(self, name: str, bases: dict[str, Range]) -> Range:
        """A figure of the table, which may be the base of others from then on."""
        value = self.given(name)
        if value is None:
            value = self._assume(name, default_of(AcceleratorTable, name, self._class, bases=bases), bases)
        bases[name] = value
        return value

    def placed(self, name: str, value: float | None, *ranges: Default, bases: dict[str, Range] | None = None) -> Range:
        """A figure of another table; the first of `ranges` counts whose base is known."""
        if value is not None:
            return Range.exactly(value)
        bases = bases or {}
        return self._assume(name, next(one for one in ranges if not one.of or one.of in bases), bases)

    def _assume(self, name: str, default: Default, bases: dict[str, Range]) -> Range:
        value = Range.of(default)
        if default.of:
            value = value.times(bases[default.of])
        low, high = sorted((value.fast, value.slow))
        shown = _shown(name, value.typical)
        span = f" ({_shown(name, low)} to {_shown(name, high)})" if low != high else ""
        return self.assumed.figure(name, not_given(f"{shown}{span}", default), value)


def _shown(name: str, value: float) -> str:
    if name.endswith("bytes_per_s"):
        return format_bytes_per_s(value)
    if name.endswith("_per_s"):
        return f"{format_count(value)}/s"
    if name.endswith("_s"):
        return format_seconds(value)
    return format_bytes(value) if name.endswith("_bytes") else format_count(value)


def _levels(profile: Profile) -> tuple[CacheLevel | None, CacheLevel | None, CacheLevel | None]:
    """First, second and third cache."""
    first, second, third, *_ = (*profile.caches, None, None, None)
    return first, second, third


def _all_of(cache: CacheLevel, profile: Profile) -> int:
    """Bytes of all instances of a cache together."""
    cores = profile.core.cores if profile.core else None
    instances = max(cores // cache.shared_by_cores, 1) if cores and cache.shared_by_cores else 1
    return cache.size_bytes * instances
