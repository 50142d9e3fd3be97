"""An accelerator as the model needs it: its rates with their ranges, its link, and what had to be assumed.

There are two kinds. A gather/scatter unit (the Convey of Carrington et al., ICS'11) reaches the host's memory and moves
references at a bandwidth by address range; arithmetic stays on the host. A general accelerator runs whole kernels. A
profile that gives rates of arithmetic (`[accelerator]`, or `core.peak_flops_per_cycle`) is of the second kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from foretrace.errors import PredictionError
from foretrace.profiles.figure import figures_of_record
from foretrace.profiles.profile import Link as PublishedLink
from foretrace.profiles.profile import MachineKind, Profile
from foretrace.replay.records import Assumption
from foretrace.replay.spread import TYPICAL, Floats, between, exactly
from foretrace.units import format_bytes, format_bytes_per_s, format_seconds


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
    """What a general accelerator does a second, and how much it holds: [fast, typical, slow] where it is an array.

    `granule_bytes` is what an access at random moves. `threads` are all that can be resident.
    """

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
    """An accelerator. `rates` None: a gather/scatter unit."""

    profile: Profile
    way: Way
    rates: Rates | None
    launch_known: bool
    assumptions: tuple[Assumption, ...]

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
        is_general = _given(profile, "fp64_flops_per_s") is not None or (
            profile.core is not None and profile.core.peak_flops_per_cycle is not None
        )
        if not is_general and not profile.gather_scatter:
            raise PredictionError(
                f"profile {profile.name}: gather_scatter is missing, its bandwidth is not known, and there are no rates of "
                "arithmetic (accelerator.fp64_flops_per_s); add either"
            )
        way, launch_known = _way(profile, is_general, notes)
        rates = _Reader(profile, notes).rates() if is_general else None
        return cls(profile, way, rates, launch_known, tuple(notes))


def _given(profile: Profile, name: str) -> Any:
    """A figure of the profile's table of accelerator figures; None where it does not give it."""
    return getattr(getattr(profile, "accelerator", None), name, None)


_DEFAULT = figures_of_record(PublishedLink)["launch_latency_s"].defaults[0]
_LAUNCH = (_DEFAULT.fast, _DEFAULT.typical, _DEFAULT.slow)


def _way(profile: Profile, is_general: bool, notes: list[Assumption]) -> tuple[Way, bool]:
    given = profile.link
    if given is None:
        if is_general:
            raise PredictionError(
                f"profile {profile.name}: [link] is missing: how data gets to it is not known; give link.shared_memory, "
                "and the bandwidths of a memory of its own"
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
    """What each launch takes; what the host waits for a result beyond it; whether that is known."""
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


class _Reader:
    """Reads a general accelerator's rates. What it does not give is assumed from those that it does."""

    def __init__(self, profile: Profile, notes: list[Assumption]) -> None:
        self.profile, self.notes = profile, notes

    def figure(
        self, name: str, instead: tuple[float, float, float] | None, why: str, known: float | None = None
    ) -> Floats:
        """A rate, [fast, typical, slow]; `instead` stands for one that neither the table nor `known` gives."""
        value = _given(self.profile, name)
        value = known if value is None else value
        if value is not None:
            return exactly(float(value))
        if instead is None:
            raise PredictionError(f"profile {self.profile.name}: {name} is missing, {why}; add it to [accelerator]")
        fast, typical, slow = instead
        shown = format_bytes_per_s(typical) if name.endswith("bytes_per_s") else f"{typical:.3g}"
        self.notes.append(Assumption(name, f"not in the profile, {shown} assumed ({slow:.2g} to {fast:.2g}): {why}"))
        return np.array([fast, typical, slow])

    def rates(self) -> Rates:
        profile = self.profile
        core, memory, caches = profile.core, profile.memory, profile.caches
        units = float(self.figure("multiprocessors", (200, 100, 50), _USUAL, core.cores if core else None)[TYPICAL])
        clock_hz = core.clock_hz if core else None
        cycles = core.peak_flops_per_cycle if core else None
        peak = units * clock_hz * cycles if clock_hz and cycles else None
        fp64 = self.figure("fp64_flops_per_s", None, "nor is the clock", peak)
        fp64_rate = float(fp64[TYPICAL])
        fp32 = self.figure("fp32_flops_per_s", (4 * fp64_rate, 2 * fp64_rate, fp64_rate), "twice that of 64 bits")
        fp32_rate = float(fp32[TYPICAL])
        bandwidth = self.bandwidth()
        rate = float(bandwidth[TYPICAL])
        clock = clock_hz or fp32_rate / (2 * 128 * units)
        l2 = caches[-1].size_bytes if len(caches) > 1 else None
        l1 = caches[0].size_bytes if caches else None
        latency = self.figure(
            "memory_latency_s", (400e-9, 700e-9, 1000e-9), "of GPUs", memory.latency_s if memory else None
        )
        l1_rate = units * clock
        threads = self.figure("threads_per_multiprocessor", (2048, 2048, 1024), _USUAL)
        return Rates(
            threads=threads * units,
            block_threads=1024.0,
            fp64_flops_per_s=fp64,
            fp32_flops_per_s=fp32,
            integer_ops_per_s=self.figure("integer_ops_per_s", (fp32_rate / 2, fp32_rate / 4, fp32_rate / 8), _HALF),
            special_ops_per_s=self.figure(
                "special_ops_per_s",
                (fp32_rate / 16, fp32_rate / 32, fp32_rate / 64),
                "an eighth to a half of a warp a cycle",
            ),
            atomics_per_s=self.figure("atomics_per_s", (rate / 8, rate / 32, rate / 128), "a sector of memory each"),
            same_address_atomics_per_s=self.figure(
                "same_address_atomics_per_s", (2 * clock, clock, clock / 4), "one a cycle at the second cache"
            ),
            memory_bytes_per_s=bandwidth,
            memory_latency_s=latency,
            l2_bytes=int(self.figure("l2_bytes", (64e6, 16e6, 4e6), _USUAL, l2)[TYPICAL]),
            l2_bytes_per_s=self.figure("l2_bytes_per_s", (4 * rate, 2.5 * rate, 1.5 * rate), "over memory's, as usual"),
            l2_latency_s=latency * 0.4,
            l1_bytes=int(self.figure("l1_bytes", (256e3, 128e3, 16e3), _USUAL, l1)[TYPICAL]),
            l1_bytes_per_s=self.figure(
                "l1_bytes_per_s", (128 * l1_rate, 64 * l1_rate, 64 * l1_rate), "64 bytes a cycle"
            ),
            warp_threads=self.figure("warp_threads", (32, 32, 64), _USUAL),
            granule_bytes=self.granule_bytes(rate),
            capacity_bytes=self.capacity_bytes(),
            thread_instructions_per_s=self.figure(
                "thread_instructions_per_s",
                (clock / 3, clock / 5, clock / 10),
                "a dependent instruction in 3 to 10 cycles",
            ),
        )

    def bandwidth(self) -> Floats:
        """Of memory, as streams reach it."""
        memory = self.profile.memory
        sustained = memory.sustained_bandwidth_bytes_per_s if memory else None
        peak = memory.peak_bandwidth_bytes_per_s if memory else None
        instead = (0.95 * peak, 0.85 * peak, 0.7 * peak) if peak else None
        return self.figure("memory_bytes_per_s", instead, "70 to 95 % of the peak are usual", sustained)

    def capacity_bytes(self) -> float:
        """Of memory; infinite where it is not known, and that is said."""
        size = _given(self.profile, "memory_capacity_bytes")
        size = size or (self.profile.memory.size_bytes if self.profile.memory else None)
        if size is None:
            self.notes.append(Assumption("memory_capacity_bytes", "not in the profile: everything is taken to fit"))
        return float(size or "inf")

    def granule_bytes(self, memory_bytes_per_s: float) -> int:
        """What an access at random moves, by the gather curve beyond all caches.

        That curve counts an 8-byte element, its 8-byte index and 8 bytes of a dense array (Carrington et al., ICS'11,
        equation 2); the last two stream. A power of two from 32 to 256 bytes.
        """
        curve = self.profile.gather_scatter_curve("gather")
        bandwidth = curve.bandwidth_bytes_per_s(1 << 32) if curve else None
        if bandwidth is None:
            self.notes.append(
                Assumption("granule_bytes", f"no gather curve: {format_bytes(32)} a random access assumed")
            )
            return 32
        moved = max(24 * memory_bytes_per_s / bandwidth - 16, 8.0)
        return int(2 ** np.clip(np.round(np.log2(moved)), 5, 8))


_USUAL = "usual of GPUs"
_HALF = "half of the units of 32 bits, one operation where a multiplication and addition count two"
