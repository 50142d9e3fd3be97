"""An accelerator as the model needs it: its rates with their ranges, its link, and what had to be assumed.

There are two kinds. A gather/scatter unit (the Convey of Carrington et al., ICS'11) reaches the host's memory and moves
references at a bandwidth by address range; arithmetic stays on the host. A general accelerator runs whole kernels. The
profile says which (`accelerator.device_kind`); one that gives gather/scatter curves and neither `[core]` nor
`[accelerator]` is of the first kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretrace.base.errors import PredictionError
from foretrace.base.units import format_bytes, format_seconds
from foretrace.profiles.accelerator import DeviceKind
from foretrace.profiles.device_figures import device_figures
from foretrace.profiles.figure import CoreClass
from foretrace.profiles.profile import Link as PublishedLink
from foretrace.profiles.profile import MachineKind, Profile
from foretrace.profiles.ranges import Assumption, Range, default_of
from foretrace.replay.base.spread import Floats, between, exactly

L2_LATENCY = 0.4
"""Latency of a load from the second cache over that of one from memory, where the profile does not tell: as of the
H100."""


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """The link to an accelerator's memory and what a launch costs: seconds, and bytes/s, [fast, typical, slow].

    `launch_s` is paid for each kernel, `wait_s` where the host waits for a result. With `shared_memory` nothing moves.
    """

    shared_memory: bool
    launch_s: Floats
    wait_s: Floats
    transfer_s: Floats
    to_device_bytes_per_s: float = float("inf")
    from_device_bytes_per_s: float = float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Rates and capacities of a general accelerator: [fast, typical, slow] where it is an array.

    `granule_bytes` is what an access at random moves. `threads` are all that can be resident. `last_bytes` is a third
    cache's size, None where there is none or its speed is not known.
    """

    multiprocessors: Floats
    threads: Floats
    block_threads: float
    fp64_flops_per_s: Floats
    fp32_flops_per_s: Floats
    integer_ops_per_s: Floats
    special_ops_per_s: Floats
    atomics_per_s: Floats
    same_address_atomics_per_s: Floats
    memory_bytes_per_s: Floats
    memory_latency_s: Floats
    last_bytes: int | None
    last_bytes_per_s: Floats | None
    l2_bytes: int
    l2_bytes_per_s: Floats
    l2_latency_s: Floats
    l1_bytes: int
    l1_bytes_per_s: Floats
    warp_threads: Floats
    granule_bytes: int
    capacity_bytes: float
    thread_instructions_per_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """An accelerator. `rates` None: a gather/scatter unit. `warnings`: what its profile lacks."""

    profile: Profile
    way: Way
    rates: Rates | None
    launch_known: bool
    assumptions: tuple[Assumption, ...]
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, profile: Profile) -> Device:
        """Read an accelerator's profile.

        Raises:
            PredictionError: it is no accelerator, tells neither rates nor a gather/scatter bandwidth, or has a memory
                of its own and does not tell how fast data gets there.
        """
        if profile.kind is not MachineKind.ACCELERATOR:
            raise PredictionError(
                f"machine {profile.name}: is a host, not an accelerator; name an accelerator with --accelerator"
            )
        notes: list[Assumption] = []
        is_general = _is_general(profile)
        way, launch_known = _way(profile, is_general, notes)
        rates = _rates(profile, notes) if is_general else None
        if is_general or profile.accelerator is not None:
            return cls(profile, way, rates, launch_known, tuple(notes))
        notes.append(Assumption("device_kind", _CURVES_ALONE))
        return cls(profile, way, rates, launch_known, tuple(notes), (f"profile {profile.name}: {_CURVES_ALONE}",))


_CURVES_ALONE = (
    "gives gather/scatter curves and neither [core] nor [accelerator]: taken for a gather/scatter unit, so loops "
    "without gathers or scatters are not considered; add core.cores, core.clock_hz and core.peak_flops_per_cycle for a "
    'device that runs whole loops, or accelerator.device_kind = "gather_scatter_unit"'
)


def _is_general(profile: Profile) -> bool:
    """Whether it runs whole loops.

    Raises:
        PredictionError: the profile does not tell what it takes to know.
    """
    table, core = profile.accelerator, profile.core
    kind = table.device_kind if table is not None else None
    if kind is DeviceKind.GATHER_SCATTER_UNIT and not profile.gather_scatter:
        raise PredictionError(f"profile {profile.name}: gather_scatter is missing, its bandwidth is not known")
    if kind is None and table is None and core is None:
        if not profile.gather_scatter:
            raise PredictionError(
                f"profile {profile.name}: gather_scatter is missing, and rates of arithmetic are missing too; add "
                "core.cores, core.clock_hz and core.peak_flops_per_cycle, or accelerator.fp64_flops_per_s"
            )
        return False
    return kind is not DeviceKind.GATHER_SCATTER_UNIT


_LAUNCH = Range.of(default_of(PublishedLink, "launch_latency_s", CoreClass()))


def _way(profile: Profile, is_general: bool, notes: list[Assumption]) -> tuple[Way, bool]:
    given = profile.link
    if given is None:
        if is_general:
            raise PredictionError(
                f"profile {profile.name}: [link] is missing: how data gets to it is not known; give "
                "link.shared_memory, and the bandwidths of a memory of its own"
            )
        notes.append(Assumption("link", "not in the profile, transfers and launches are counted as free"))
        return Way(True, np.zeros(3), np.zeros(3), np.zeros(3)), False
    launch_s, wait_s, known = _launch(given, is_general, notes)
    if given.shared_memory:
        return Way(True, launch_s, wait_s, np.zeros(3)), known
    for key in ("to_device_bytes_per_s", "from_device_bytes_per_s"):
        if getattr(given, key) is None:
            raise PredictionError(f"profile {profile.name}: link.{key} is missing, and it shares no memory")
    transfer_s = exactly(given.transfer_latency_s or 0.0)
    if given.transfer_latency_s is None:
        if is_general:
            transfer_s = between(*_LAUNCH)
            low, typical, high = (format_seconds(time_s) for time_s in _LAUNCH)
            text = f"not in the profile, {typical} assumed ({low} to {high}), as a launch takes"
        else:
            text = "not in the profile, counted as free"
        notes.append(Assumption("transfer_latency", text))
    to_device, from_device = given.to_device_bytes_per_s or 1.0, given.from_device_bytes_per_s or 1.0
    return Way(False, launch_s, wait_s, transfer_s, to_device, from_device), known


def _launch(given: PublishedLink, is_general: bool, notes: list[Assumption]) -> tuple[Floats, Floats, bool]:
    """Time of a launch; the host's wait for a result beyond it; whether both are known."""
    latency_s, interval_s = given.launch_latency_s, given.launch_interval_s
    if latency_s is not None:
        each_s = latency_s if interval_s is None or not is_general else interval_s
        return exactly(each_s), exactly(max(latency_s - each_s, 0.0)), True
    if not is_general and interval_s is None:
        text = "not in the profile, launches counted as free: gains are the most there can be"
        notes.append(Assumption("launch", text))
        return np.zeros(3), np.zeros(3), False
    least = interval_s or 0.0
    lone_s = between(*(max(time_s, least) for time_s in _LAUNCH))
    low, typical, high = (format_seconds(float(time_s)) for time_s in lone_s)
    if interval_s is None:
        notes.append(Assumption("launch_latency_s", f"not in the profile, {typical} assumed ({low} to {high})"))
        return lone_s, np.zeros(3), False
    notes.append(
        Assumption(
            "launch_latency_s",
            f"not in the profile, {typical} assumed ({low} to {high}) where the host waits for a result; queued "
            f"launches follow each other every {format_seconds(interval_s)}",
        )
    )
    return (exactly(interval_s), lone_s - interval_s, True) if is_general else (lone_s, np.zeros(3), True)


def _rates(profile: Profile, notes: list[Assumption]) -> Rates:
    """A general accelerator's rates. What its profile does not give is assumed, and noted."""
    found = device_figures(profile)
    notes += found.assumptions
    if found.memory_capacity_bytes is None:
        notes.append(Assumption("memory_capacity_bytes", "not in the profile: everything is taken to fit"))
    as_given = {name: np.array(getattr(found, name)) for name in _AS_GIVEN}
    second_s = profile.caches[1].latency_s if len(profile.caches) > 1 else None
    last = found.last_cache_bytes_per_s
    return Rates(
        **as_given,
        threads=np.array(found.threads_per_multiprocessor.times(found.multiprocessors)),
        block_threads=1024.0,
        last_bytes=found.last_cache_bytes if last else None,
        last_bytes_per_s=np.array(last) if last else None,
        l2_bytes=round(found.l2_bytes.typical),
        l2_latency_s=exactly(second_s) if second_s else as_given["memory_latency_s"] * L2_LATENCY,
        l1_bytes=round(found.l1_bytes.typical),
        granule_bytes=_granule_bytes(profile, found.memory_bytes_per_s.typical, notes),
        capacity_bytes=float(found.memory_capacity_bytes or "inf"),
    )


_AS_GIVEN = (
    *("multiprocessors", "warp_threads", "fp64_flops_per_s", "fp32_flops_per_s", "integer_ops_per_s"),
    *("special_ops_per_s", "atomics_per_s", "same_address_atomics_per_s", "thread_instructions_per_s"),
    *("memory_bytes_per_s", "memory_latency_s", "l2_bytes_per_s", "l1_bytes_per_s"),
)
"""Rates that are figures of the device, under the same name."""
_WIDEST_BYTES = 1 << 32
"""An address range beyond all caches."""


def _granule_bytes(profile: Profile, memory_bytes_per_s: float, notes: list[Assumption]) -> int:
    """Bytes that a random access moves, by the gather curve beyond all caches.

    That curve counts an 8-byte element, its index (of 8 bytes where published, of 4 as calibrated) and 8 bytes of a
    dense array (Carrington et al., ICS'11, equation 2); the last two stream. A power of two from 32 to 256 bytes.
    """
    curve = profile.gather_scatter_curve("gather")
    bandwidth = None
    if curve is not None:
        last = curve.largest_range_bytes
        widest = _WIDEST_BYTES if last is None else min(last, _WIDEST_BYTES)
        if widest >= 2 * max((level.size_bytes for level in profile.caches), default=0):
            bandwidth = curve.bandwidth_bytes_per_s(widest)
    if curve is None or bandwidth is None:
        text = f"no gather curve beyond its caches: {format_bytes(32)} a random access assumed"
        notes.append(Assumption("granule_bytes", text))
        return 32
    streamed = 8 + (4 if curve.points else 8)
    moved = max((8 + streamed) * memory_bytes_per_s / bandwidth - streamed, 8.0)
    return int(2 ** np.clip(np.round(np.log2(moved)), 5, 8))
