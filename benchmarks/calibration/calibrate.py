"""Measures this machine: one suite after the other, on one core but for those with threads, and makes its profile."""

from __future__ import annotations

import errno
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs
from threadpoolctl import threadpool_limits

from foretrace.base.errors import CalibrationError
from foretrace.base.units import format_bytes
from foretrace.base.version import __version__
from foretrace.benchmarks.harness import sampling
from foretrace.benchmarks.harness.buffers import Pages
from foretrace.benchmarks.harness.machine_facts import (
    CacheFacts,
    Limits,
    Load,
    caches,
    core_cpus,
    environment,
    limits,
    load,
    memory_bytes,
    pinned,
)
from foretrace.benchmarks.harness.reference_loop import ReferenceLoop
from foretrace.benchmarks.harness.sampling import STABLE_NOISE, STATISTIC, Measurement, Progress, Room, Samples
from foretrace.benchmarks.kernels import _kernels
from foretrace.profiles.checks import check
from foretrace.profiles.plausibility import with_contradictions_as_noise
from foretrace.profiles.points import IndexMode
from foretrace.profiles.profile import Profile

from .agreement import unstable_figures
from .array_suite import array_measurements
from .calibrated_profile import Measured, measured_profile, with_network
from .core_suite import CYCLE, core_measurements
from .latency_suite import latency_measurements, tlb_measurements
from .line_lifetime import lifetime_measurements
from .linear_suite import linear_measurements
from .memory_suite import first_touch_measurements, memory_measurements
from .multimaps import surface_measurements
from .ping_pong import network_measurement
from .prefetch_suite import mix_measurements
from .sgbench import ELEMENT_BYTES, OPERATIONS, Loop, loop_measurements, ranges
from .thread_suite import numbers_of_threads, thread_measurements
from .wake_suite import wake_measurements
from .window_suite import window_measurements

BUSY_PART = 0.05
"""The user is told if others took more than this part of the processors."""

_LARGEST_BYTES = 1 << 30
_LEAST_BYTES = 1 << 20
_UNKNOWN_CACHE_BYTES = 32 << 20
_USUAL_NEAREST_BYTES = 32 << 10
_PARTS_OF_MEMORY = 8  # no suite takes more than five times the largest working set
_SMALL_SET_BYTES = 128 << 10
_BUDGET_S, _QUICK_BUDGET_S = 240.0, 24.0
_PASSES, _QUICK_PASSES = 6, 2
_SAMPLE_S = 0.0001
"""Or longer, where a kernel's round over much memory takes longer. Neighbours leave a core for hardly more."""
_PATIENCE_S, _QUICK_PATIENCE_S = 0.03, 0.008
"""So long is waited, for each figure in each pass, until a neighbour leaves the core."""
LEAST_PASSES = 2
"""These are made on the slowest machine: fewer would not tell what is unstable."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A machine as measured. `warnings` say which figures are uncertain."""

    profile: Profile
    warnings: tuple[str, ...]
    duration_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Extent of a calibration: what to measure, and with how much effort. Sizes are those of one thread."""

    quick: bool
    levels: tuple[CacheFacts, ...]
    largest_bytes: int
    largest_of_threads_bytes: int
    available_bytes: int | None
    cpus: tuple[int, ...]

    @property
    def fine(self) -> bool:
        """Whether to measure at all points."""
        return not self.quick

    @property
    def room(self) -> Room:
        """Amount of data that stays in caches."""
        return Room.of([level.size_bytes for level in self.levels])


@dataclass(frozen=True, slots=True)
class Suite:
    """Measurements over memory of their own. Their results belong into `field` of Measured."""

    title: str
    field: str
    measurements: Callable[[Plan], Mapping[Any, Measurement]]


SUITES = (
    Suite("arithmetic and branches", "core", lambda plan: core_measurements()),
    Suite("array operations", "arrays", lambda plan: array_measurements()),
    Suite(
        "dependent loads, usual pages",
        "chains",
        lambda p: latency_measurements(p.largest_bytes, Pages.USUAL, fine=p.fine, room=p.room),
    ),
    Suite(
        "dependent loads, huge pages",
        "chains",
        lambda p: latency_measurements(p.largest_bytes, Pages.HUGE, fine=p.fine, room=p.room),
    ),
    Suite(
        "address translation, usual pages",
        "chains",
        lambda p: tlb_measurements(p.largest_bytes, Pages.USUAL, fine=p.fine, room=p.room),
    ),
    Suite(
        "address translation, huge pages",
        "chains",
        lambda p: tlb_measurements(2 * p.largest_bytes, Pages.HUGE, fine=p.fine, room=p.room),
    ),
    Suite("instructions in flight", "windows", lambda p: window_measurements(p.largest_bytes, fine=p.fine)),
    Suite("linear algebra", "linear", lambda plan: linear_measurements(fine=plan.fine)),
    Suite("new pages", "first_touch", lambda p: first_touch_measurements(p.available_bytes)),
    Suite(
        "loads",
        "memory",
        lambda p: memory_measurements(
            p.largest_bytes,
            fine=p.fine,
            room=p.room,
            nearest_bytes=p.levels[0].size_bytes if p.levels else _USUAL_NEAREST_BYTES,
        ),
    ),
    Suite("lines left alone", "lifetimes", lambda p: lifetime_measurements([level.size_bytes for level in p.levels])),
    Suite(
        "streams beside streams",
        "mixes",
        lambda p: mix_measurements([level.size_bytes for level in p.levels], p.largest_bytes, room=p.room),
    ),
    Suite("threads that wake each other", "wakes", lambda p: wake_measurements(p.cpus)),
    Suite("MultiMAPS", "sweeps", lambda p: surface_measurements(p.largest_bytes, fine=p.fine, room=p.room)),
    Suite("SGBench", "loops", lambda p: loop_measurements(_loops(p), room=p.room)),
    Suite("SGBench, threads", "loops", lambda p: _loops_of_threads(p)),
    Suite("threads", "teams", lambda p: thread_measurements(_sizes_of_threads(p), p.cpus, p.room) if p.cpus else {}),
)


def calibrate(
    *, name: str = "here", quick: bool = False, keep_partial: bool = False, progress: Progress | None = None
) -> Calibration:
    """Measure this machine: some four minutes, or half a minute if `quick`, with fewer points and samples.

    Two passes are made at least. With a last cache of 480 MiB these take 95 to 120 s even if `quick`.

    Args:
        name: name of the profile.
        quick: coarser and faster.
        keep_partial: if interrupted, return what was measured, marked as partial, instead of raising.
        progress: is told the done part, from 0 to 1.

    Raises:
        CalibrationError: there is too little memory to measure with, or it ran out.
        ProfileError: the name is none a profile can have.
        KeyboardInterrupt: interrupted, and not `keep_partial`, or before anything could be kept.
    """
    begin, load_before = time.monotonic(), load()
    group = limits()
    total_bytes, available_bytes = memory_bytes(group)
    cpus = core_cpus()
    with pinned() as cpu, threadpool_limits(1):
        plan = _plan(caches(cpu or 0), available_bytes, cpus, quick=quick)
        measured, partial = _measure(plan, keep_partial=keep_partial, progress=progress)
        facts = environment(cpu, _kernels.COMPILER, _kernels.COMPILER_FLAGS)
    network = "the measurement was interrupted" if partial else network_measurement(len(cpus))
    duration = time.monotonic() - begin
    warnings = (
        *_warnings_of_limits(group, plan, cpu),
        *_warnings_of_load(load_before, load(), time.process_time()),
        *_warnings_of_neighbour(measured),
        *_warnings_of_noise(measured),
    )
    facts |= {
        "statistic": STATISTIC,
        "samples": f"{min(t.num_samples for t in measured.timings())} or more of each",
        "noise": _noise(measured),
        "neighbour": _neighbour(measured),
        "duration_s": f"{duration:.0f}",
        "foretrace": __version__,
    }
    if isinstance(network, str):
        facts["network"] = f"not measured: {network}"
    profile = measured_profile(
        name, plan.levels, measured, facts, memory_bytes=total_bytes, num_cores=len(cpus) or None, partial=partial
    )
    if not isinstance(network, str):
        profile = with_network(profile, network)
    profile = with_contradictions_as_noise(profile)
    profile = structs.replace(profile, unstable=unstable_figures(profile))
    check(profile)
    return Calibration(profile, warnings, duration)


def _plan(levels: Sequence[CacheFacts], available_bytes: int | None, cpus: tuple[int, ...], *, quick: bool) -> Plan:
    """Working sets go well beyond the last cache, as far as memory allows; all are powers of two."""
    last = levels[-1].size_bytes if levels else _UNKNOWN_CACHE_BYTES
    wanted = min((2 if quick else 4) * last, _LARGEST_BYTES)
    most = wanted if available_bytes is None else min(wanted, available_bytes // _PARTS_OF_MEMORY)
    if most < _LEAST_BYTES:
        raise CalibrationError(
            f"only {format_bytes(available_bytes or 0)} of memory are free, "
            f"at least {format_bytes(_LEAST_BYTES * _PARTS_OF_MEMORY)} are needed to measure with"
        )
    of_threads = wanted if available_bytes is None else min(most, available_bytes // 4 // max(len(cpus), 1))
    return Plan(
        quick,
        tuple(levels),
        1 << (most.bit_length() - 1),
        1 << (max(of_threads, _LEAST_BYTES // 4).bit_length() - 1),
        available_bytes,
        cpus,
    )


def _loops(plan: Plan) -> list[Loop]:
    return [
        Loop(operation, mode, element, 1, size)
        for operation in OPERATIONS
        for mode in IndexMode
        for element in (ELEMENT_BYTES if plan.fine else (8,))
        for size in ranges(plan.largest_bytes, fine=plan.fine)
    ]


def _loops_of_threads(plan: Plan) -> dict[Loop, Measurement]:
    numbers = numbers_of_threads(len(plan.cpus))[1:]
    loops = [
        Loop(operation, mode, 8, threads, size)
        for operation in OPERATIONS
        for mode in ((IndexMode.STRIDE_1, IndexMode.RANDOM) if plan.fine else (IndexMode.RANDOM,))
        for threads in (numbers if plan.fine else numbers[-1:])
        for size in ranges(plan.largest_of_threads_bytes, fine=False)
    ]
    return loop_measurements(loops, room=plan.room, cpus=plan.cpus) if loops else {}


def _sizes_of_threads(plan: Plan) -> tuple[int, ...]:
    """A small working set that each core has room for, and the largest."""
    return tuple(sorted({min(_SMALL_SET_BYTES, plan.largest_of_threads_bytes), plan.largest_of_threads_bytes}))


def _measure(plan: Plan, *, keep_partial: bool, progress: Progress | None) -> tuple[Measured, bool]:
    """All suites in turns, again and again; or what was before an interruption, and whether there was one.

    Each pass has memory of its own: in which pages data lies makes a difference too. Once all was measured often
    enough, what is unstable is measured further.
    """
    kept: dict[str, dict[Any, Samples]] = {}
    budget_s = _QUICK_BUDGET_S if plan.quick else _BUDGET_S
    passes = _QUICK_PASSES if plan.quick else _PASSES
    start = time.monotonic()
    loop = ReferenceLoop()
    loop.learn()
    try:
        for number, suite in ((number, suite) for number in itertools.count() for suite in SUITES):
            spent = (time.monotonic() - start) / budget_s
            if (number >= LEAST_PASSES and spent >= 1) or (number >= passes and _all_stable(kept)):
                break
            if progress is not None:
                progress(min(spent, 1.0))
            _measure_suite(suite, plan, kept, loop, only_unstable=number >= passes)
    except KeyboardInterrupt:
        measured = _measured(kept)
        if not keep_partial or CYCLE not in measured.core:
            raise
        return measured, True
    if progress is not None:
        progress(1.0)
    return _measured(kept), False


def _measure_suite(
    suite: Suite, plan: Plan, kept: dict[str, dict[Any, Samples]], loop: ReferenceLoop, *, only_unstable: bool
) -> None:
    """A group of samples of all measurements of a suite, or of those that are unstable, added to what is kept.

    If it is interrupted, what was begun is left out: figures of the core are divided by each other, so all or none
    count.
    """
    try:
        _add_samples(suite, plan, kept.setdefault(suite.field, {}), loop, only_unstable=only_unstable)
    except (MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:
            raise
        seemed = "" if plan.available_bytes is None else f"; {format_bytes(plan.available_bytes)} seemed to be free"
        raise CalibrationError(
            f"memory ran out while {suite.title} were measured{seemed}: free some, or raise what limits it "
            "(ulimit -v, a control group)"
        ) from None


def _add_samples(
    suite: Suite, plan: Plan, earlier: dict[Any, Samples], loop: ReferenceLoop, *, only_unstable: bool
) -> None:
    if only_unstable and all(samples.timing.is_stable for samples in earlier.values()):
        return
    measurements = dict(suite.measurements(plan))
    wanted = {
        key: m
        for key, m in measurements.items()
        if not only_unstable or m.reference or key not in earlier or not earlier[key].timing.is_stable
    }
    for key, measurement in wanted.items():
        if key in earlier:
            measurement.samples = replace(earlier[key], groups=list(earlier[key].groups))
    patience_s = _QUICK_PATIENCE_S if plan.quick else _PATIENCE_S
    sampling.measure_once(list(wanted.values()), sample_s=_SAMPLE_S, loop=loop, patience_s=patience_s)
    earlier.update({key: m.samples for key, m in wanted.items()})


def _all_stable(kept: Mapping[str, Mapping[Any, Samples]]) -> bool:
    return all(samples.timing.is_stable for part in kept.values() for samples in part.values())


def _measured(kept: Mapping[str, Mapping[Any, Samples]]) -> Measured:
    timings = {name: {key: samples.timing for key, samples in part.items()} for name, part in kept.items()}
    return Measured(**timings)


# ---- what the user is told -------------------------------------------------------------------------------------------


def _warnings_of_limits(group: Limits, plan: Plan, cpu: int | None) -> list[str]:
    warnings = []
    if cpu is None:
        warnings.append("the system does not let this process stay on one core: it may move while it measures")
    if not plan.levels:
        warnings.append("the system does not tell the caches: the profile has those that the measurement shows")
    elif plan.largest_bytes < 1.5 * plan.levels[-1].size_bytes:
        because = ""
        if group.memory_bytes is not None:
            because = f" (a control group or ulimit limits memory to {format_bytes(group.memory_bytes)})"
        warnings.append(
            f"main memory could not be measured: the largest working set is {format_bytes(plan.largest_bytes)}"
            f"{because}, {plan.levels[-1].name} has {format_bytes(plan.levels[-1].size_bytes)}"
        )
    if group.cpus is not None and group.cpus < max(len(plan.cpus), 1):
        warnings.append(
            f"a control group limits this process to {group.cpus:g} processors' time, of {max(len(plan.cpus), 1)}: "
            "figures of several threads are what that leaves"
        )
    return warnings


def _warnings_of_load(before: Load, after: Load, own_cpu_s: float, ticks_per_s: float = 100.0) -> list[str]:
    total = after.total - before.total
    if total <= 0:
        return []
    warnings = []
    others = (total - (after.idle - before.idle) - own_cpu_s * ticks_per_s) / total
    stolen = (after.stolen - before.stolen) / total
    if others > BUSY_PART:
        warnings.append(
            f"the machine was busy: other processes took {others:.0%} of its processors while it was measured"
        )
    if stolen > BUSY_PART:
        warnings.append(f"the hypervisor gave {stolen:.0%} of the processors' time to others")
    return warnings


def _warnings_of_neighbour(measured: Measured) -> list[str]:
    disturbed = any(timing.disturbed for timing in measured.timings())
    return [f"a neighbour used the core: {_neighbour(measured)}"] if disturbed else []


def _neighbour(measured: Measured) -> str:
    timings = list(measured.timings())
    disturbed = sum(timing.disturbed for timing in timings)
    return f"{disturbed} of {len(timings)} measurements were never undisturbed on the core"


def _warnings_of_noise(measured: Measured) -> list[str]:
    """For each kind of figure how many are unstable, and the worst."""
    warnings = []
    for title, timings in measured.by_kind().items():
        unstable = {key: t for key, t in timings.items() if not t.is_stable}
        if unstable:
            worst = max(unstable, key=lambda key: unstable[key].noise)
            warnings.append(
                f"unstable: {title}, {len(unstable)} of {len(timings)} figures, most {worst} "
                f"(passes disagree by {unstable[worst].noise:.0%})"
            )
    return warnings


def _noise(measured: Measured) -> str:
    timings = sorted(measured.timings(), key=lambda t: t.noise)
    unstable = sum(not t.is_stable for t in timings)
    return (
        f"{timings[len(timings) // 2].noise:.1%} (median of {len(timings)} measurements); "
        f"{unstable} are unstable (above {STABLE_NOISE:.0%})"
    )
