"""Predicting a program on machines: the convolution's regions, replayed and summed up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from foretrace.base.errors import PredictionError
from foretrace.base.units import format_bytes, format_count
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.profiles.hierarchies import as_measured, effective_bytes
from foretrace.profiles.profile import MachineKind, Profile
from foretrace.profiles.ranges import Assumption
from foretrace.replay.base.interval import (
    combined,
    convolution_error,
    figure_error,
    model_error,
    path_error,
    relative_error,
)
from foretrace.replay.base.records import Bound, ErrorPart, LoopKind, LoopTime, Model, Prediction
from foretrace.replay.base.spread import FAST, SLOW, TYPICAL, Floats
from foretrace.replay.core.instruction_costs import kind_note
from foretrace.replay.engine.program import Entity, Run, Sharing, System
from foretrace.replay.engine.simulation import simulate
from foretrace.replay.figures.machine_figures import MachineFigures, figures_of, on_another_instruction_set
from foretrace.replay.figures.python_figures import LONG_CALLS
from foretrace.replay.limits.convolution import UNSEEN_CODE, RegionTimes, access_hits, convolve
from foretrace.replay.limits.page_faults import first_touches, in_huge_pages, with_page_faults
from foretrace.replay.limits.set_conflicts import with_set_conflicts
from foretrace.replay.limits.surface import BandwidthSurface, SurfaceTimes
from foretrace.replay.limits.surface_of_profile import surface_of
from foretrace.replay.memory.hit_rates import Misses, misses_on
from foretrace.replay.memory.shared_cache import check_held, held_bytes, jobs_of_levels, most_bytes, others_bytes_per_s
from foretrace.replay.workload.array_costs import ARRAY_POINT
from foretrace.replay.workload.workload import Workload, issue_slots
from foretrace.tracer.signature.records import NATIVE_THREADS, OperationKind, Provenance, Signature

from .core_regions import CoreRegions, core_regions, with_core_model
from .selected_code import selection_error, selection_warning

_NEEDED_FOR = {  # assumptions that only matter to programs which do such a thing: totals that must not be all 0
    "flops": ("scalar_flops", "vector_add_flops", "vector_mul_flops", "vector_fma_flops"),
    "scalar_flops_per_cycle": ("scalar_flops",),
    "peak_flops_per_cycle": ("vector_add_flops", "vector_mul_flops", "vector_fma_flops"),
    "fp_div_interval_cycles": ("fp_divides",),
    "int_div_interval_cycles": ("int_divides",),
    "fp_add_latency_cycles": ("serial_adds",),
    "branch_miss_cycles": ("branch_misses",),
    "issue_width_instructions_per_cycle": ("instructions",),
    "memory core_write_bandwidth_bytes_per_s": ("stores",),
    "python_line": ("python_lines",),
    "python_bytecode": ("python_bytecodes",),
    "python_call": ("python_calls",),
}


@dataclass(frozen=True, slots=True, eq=False)
class HostRun:
    """A workload on a host: what a prediction and a triage both start from."""

    workload: Workload
    profile: Profile
    figures: MachineFigures
    misses: Misses
    times: RegionTimes
    core: CoreRegions | None  # what of the times the core model says
    assumptions: tuple[Assumption, ...]
    model: Model

    @classmethod
    def of(
        cls,
        workload: Workload,
        profile: Profile,
        model: Model = Model.CORE,
        *,
        jobs: int = 1,
        corners: Sequence[int] = (FAST, TYPICAL, SLOW),
        change: Callable[[MachineFigures], MachineFigures] | None = None,
        shared: Misses | None = None,
        settled: Container[str] = (),
    ) -> HostRun:
        """Convolve `workload` with `profile`.

        Args:
            workload: the program.
            profile: the machine.
            model: what gives a region its time.
            jobs: copies of the program that share the last cache, itself included.
            corners: of the core model; those left out are as the typical one, which must be among them.
            change: of the figures, as an ablation makes it; None: none.
            shared: the misses in what the program holds of a cache that others use; None: they are worked out.
            settled: names of assumed figures that are taken to be exactly as typical.

        Raises:
            PredictionError: it is no host, or signature and profile together do not tell enough.
        """
        if profile.kind is not MachineKind.HOST:
            raise PredictionError(
                f"machine {profile.name}: is an accelerator, it runs no program alone; name a host here, and this one "
                "with `foretrace triage --accelerator`"
            )
        misses = misses_on(workload.signature, profile)
        figures = figures_of(profile, as_measured(misses.hierarchy, profile), settled)
        figures = figures if change is None else change(figures)
        guest, runs = workload.signature.provenance.guest, profile.instruction_set
        if guest != "python" and runs is not None and runs != guest:
            figures = on_another_instruction_set(figures, guest, runs)
        pages = first_touches(workload, misses, figures.page_bytes)
        pages = in_huge_pages(workload, pages, profile.memory)
        region_times = _RegionModel.of(workload, profile, figures, misses.hierarchy, model)
        misses = _sharing(region_times, profile, misses, jobs) if shared is None else shared
        times, core = region_times.at(misses, corners)
        if model is Model.CORE:
            times = with_set_conflicts(times, workload, misses, figures.memory)
        times = with_page_faults(times, np.where(times.as_traced, 0.0, pages), figures.page_s)
        assumptions = (*region_times.assumptions(misses), *_assumptions(workload, figures, misses, times))
        return cls(workload, profile, figures, misses, times, core, assumptions, model)

    def least_s(self) -> Floats:
        """[regions]: the time of their instructions at the full issue width, which no core can undercut, but by other
        instructions."""
        of_code = np.array([region.kind is not LoopKind.ARRAY for region in self.workload.regions])  # those use vectors
        chosen = selection_error(self.workload.signature.provenance, self.profile)
        fewer = 1.0 if chosen is None else chosen.low
        return np.asarray(of_code * issue_slots(self.workload) * self.figures.instruction_s[FAST] * fewer, np.float64)

    def errors(self) -> tuple[ErrorPart, ...]:
        """Sources of error of the whole program's time."""
        if self.core is None:
            return self.other_errors()
        typical, spoken = float(self.times.time_s[TYPICAL].sum()), float(self.core.time_s[TYPICAL].sum())
        if not typical:
            return (*self.other_errors(), model_error(0.0))
        return (*self.other_errors(), model_error(spoken / typical, self.outside_paths_s() / typical))

    def outside_paths_s(self) -> float:
        """Seconds of regions in too few paths for the core model, without page faults; 0 without any paths."""
        if self.core is None:
            return 0.0
        return float((self.times.time_s[TYPICAL] - self.times.pages_s)[~self.core.covered].sum())

    def other_errors(self) -> tuple[ErrorPart, ...]:
        """Sources of error but for the core model's own."""
        fast, typical, slow = (float(self.times.time_s[corner].sum()) for corner in (FAST, TYPICAL, SLOW))
        parts = [figure_error(fast, typical, slow)]
        parts += [relative_error()] if self.figures.relative else []
        parts += [convolution_error()] if self.model is Model.CONVOLUTION else []
        chosen = selection_error(self.workload.signature.provenance, self.profile)
        parts += [chosen] if chosen is not None else []
        if self.core is not None:
            spoken = float(self.core.time_s[TYPICAL].sum())
            parts.append(path_error(self.core.halves_s.sum(axis=1).tolist(), max(typical, spoken)))
        return tuple(parts)

    def errors_of_region(self, region: int) -> tuple[ErrorPart, ...]:
        """Sources of error of one region's time."""
        parts = [figure_error(*(float(time) for time in self.times.time_s[:, region]))]
        parts += [relative_error()] if self.figures.relative else []
        parts += [convolution_error()] if self.model is Model.CONVOLUTION else []
        if self.core is not None and self.core.covered[region]:
            time_s = float(self.times.time_s[TYPICAL, region])
            parts.append(path_error(self.core.halves_s[:, region].tolist(), time_s))
            parts.append(model_error(1.0))
        elif self.core is not None:
            parts.append(convolution_error())
        return tuple(parts)


@dataclass(frozen=True, slots=True, eq=False)
class _RegionModel:
    """The times of a workload's regions on a machine, as a function of the misses in its caches."""

    workload: Workload
    figures: MachineFigures
    surface: BandwidthSurface | None  # None: the core model

    @classmethod
    def of(
        cls, workload: Workload, profile: Profile, figures: MachineFigures, hierarchy: Hierarchy, model: Model
    ) -> _RegionModel:
        published = model is Model.CONVOLUTION
        return cls(workload, figures, surface_of(profile, figures.memory, hierarchy) if published else None)

    def at(
        self, misses: Misses, corners: Sequence[int] = (FAST, TYPICAL, SLOW)
    ) -> tuple[RegionTimes, CoreRegions | None]:
        if self.surface is not None:
            return convolve(self.workload, misses, self.figures, self._surface_times(self.surface, misses)), None
        times = convolve(self.workload, misses, self.figures)
        core = core_regions(self.workload, misses, self.figures, corners=corners)
        return (times if core is None else with_core_model(times, core)), core

    def assumptions(self, misses: Misses) -> tuple[Assumption, ...]:
        if self.surface is None:
            return ()
        return self.surface.assumptions(self.figures.machine, self._surface_times(self.surface, misses))

    def _surface_times(self, surface: BandwidthSurface, misses: Misses) -> SurfaceTimes:
        return surface.memory_times(self.workload.operations, lambda corner: access_hits(misses, corner))


def _sharing(region_times: _RegionModel, profile: Profile, whole: Misses, jobs: int) -> Misses:
    """The misses in what the program holds of caches that it shares; `whole` are those if it held all of them."""
    workload, figures = region_times.workload, region_times.figures
    signature = workload.signature
    others = others_bytes_per_s(profile, float(figures.memory.dependent_s[TYPICAL, -2]))
    if jobs == 1 and (not others or signature.reuse is None):
        return whole
    counts = jobs_of_levels(profile, jobs)
    *inner, last = (level.size_bytes / count for level, count in zip(whole.hierarchy.levels, counts, strict=True))

    def lru(held: float) -> Misses:
        return misses_on(signature, profile, (*inner, held))

    def time_s(misses: Misses) -> float:
        times, _ = region_times.at(misses, corners=(TYPICAL,))
        return float(times.time_s[TYPICAL].sum())

    effective = (effective_bytes(profile) or profile.caches[-1].size_bytes) / jobs
    held = held_bytes(whole.hierarchy, others, float(most_bytes(profile)), lru, time_s, jobs)
    check_held(profile, (*inner, held), counts)
    typical = lru(held)
    text = (
        f"{profile.name}: others bring lines into {whole.hierarchy.levels[-1].name} at {others:.2g} bytes/s; "
        f"{_said_of_share(held, min(effective, held), last)}"
    )
    return replace(
        typical,
        fewest=np.minimum((whole if jobs == 1 else lru(last)).misses, typical.misses),
        most=np.maximum(lru(min(effective, held)).misses, typical.misses),
        assumptions=(*typical.assumptions, Assumption("cache_geometry", text)),
    )


def _said_of_share(held: float, least: float, size_bytes: float) -> str:
    """Text on a program's part of a shared cache."""
    if held < 0.001 * size_bytes:
        return "this program brings too few lines to keep a notable part of it"
    kept = f"this program keeps {format_bytes(round(held))} of {format_bytes(round(size_bytes))}"
    return f"{kept} (at least {format_bytes(round(least))}, at most all)" if least < held else f"{kept} (at most all)"


def predict(
    signature: Signature | Workload, profile: Profile, model: Model = Model.CORE, *, loops: bool = True
) -> Prediction:
    """The time of a program on a host, by the detailed core model or by the convolution as published.

    Without `loops` it lists none but compiled code that was not seen.

    Raises:
        PredictionError: signature and profile together do not tell enough.
    """
    workload = signature if isinstance(signature, Workload) else Workload.of(signature)
    return prediction_of(HostRun.of(workload, profile, model), loops=loops)


def prediction_of(run: HostRun, *, loops: bool = True) -> Prediction:
    """The prediction that follows from a workload on a host; without `loops` as `predict` says."""
    workload, profile, times = run.workload, run.profile, run.times
    time_s = _replayed_s(run)
    low_s, high_s = _ends_s(run, time_s)
    by_bound: dict[Bound, float] = defaultdict(float)
    for bound, region_s in zip(times.bound_by, times.time_s[TYPICAL], strict=True):
        by_bound[bound] += float(region_s)
    return Prediction(
        machine=profile.name,
        title=profile.title,
        time_s=time_s,
        low_s=low_s,
        high_s=high_s,
        bound_by=max(by_bound, key=lambda bound: by_bound[bound]),
        complete=workload.signature.provenance.complete,
        hit_rates=run.misses.hit_rates,
        loops=_region_times(run, time_s, loops=loops),
        time_by_bound_s=dict(sorted(by_bound.items(), key=lambda item: -item[1])),
        errors=run.errors(),
        assumptions=run.assumptions,
        warnings=(*warnings_of(workload.signature), *warnings_of_run(run), *_warnings_of_profile(profile)),
        waiting=workload.signature.provenance.waiting,
    )


def interval_of(run: HostRun) -> tuple[float, float]:
    """The ends of the interval of a workload's time on a host, as `prediction_of` has them."""
    return _ends_s(run, _replayed_s(run))


def _ends_s(run: HostRun, time_s: float) -> tuple[float, float]:
    provenance = run.workload.signature.provenance
    unseen_s = 0.0 if run.workload.totals.python_lines.any() else _unseen_s(provenance, run.figures)
    decoded = max(provenance.decoded_share, 1e-3)
    low, high = combined(run.errors())
    low_s = min(max(time_s * low, float(run.least_s().sum())), time_s)
    return low_s, max(time_s * high / decoded + unseen_s, _most_s(provenance, run.figures))


TURNS = "times are those of one core doing all their work"
"""Statement of a prediction for a program with several threads."""


def _replayed_s(run: HostRun) -> float:
    """The time of one thread that goes through all regions on a core of its own."""
    core = Sharing("cores")
    program = tuple(Run("region", float(time_s), core) for time_s in run.times.time_s[TYPICAL])
    return simulate(System(cores={"cores": 1}), [Entity("thread", program)], most_segments=0).makespan_s


NOTABLE_SHARE = 0.01
"""Share of the time, from which on compiled code that was not seen has a line of its own in reports."""
NOTABLE_OUTSIDE_PATHS = 0.05
"""Share of the time, from which on code that is in too few of the sampled paths has a line of its own in reports."""


def unseen_code(run: HostRun) -> tuple[float, tuple[str, ...]]:
    """Seconds of compiled code called from Python whose work was not seen, and the functions, most time first."""
    by_name: dict[str, float] = defaultdict(float)
    for region, time_s in zip(run.workload.regions, run.times.time_s[TYPICAL], strict=True):
        if region.kind is LoopKind.COMPILED:
            by_name[region.place.module] += float(time_s)
    return sum(by_name.values()), tuple(sorted(by_name, key=lambda name: -by_name[name]))


def _unseen_code_of(run: HostRun) -> tuple[str, ...]:
    """A warning on unseen compiled code, if it is a notable share of the time."""
    unseen_s, names = unseen_code(run)
    share = unseen_s / max(float(run.times.time_s[TYPICAL].sum()), 1e-300)
    if share < NOTABLE_SHARE:
        return ()
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    threads = f"; {NATIVE_THREADS} are those that it started: {TURNS}" if NATIVE_THREADS in names else ""
    return (
        f"{share:.0%} of the time is compiled code that was not seen ({', '.join(names[:3])}{more}): its time was "
        f"measured while the program was traced, its loops, gathers and memory accesses are not known{threads}",
    )


def warnings_of_run(run: HostRun) -> tuple[str, ...]:
    """Warnings on unknown parts of the work."""
    chosen = selection_warning(run.workload.signature.provenance, run.profile)
    return (*_unseen_code_of(run), *_outside_paths(run), *([chosen] if chosen else []))


def _outside_paths(run: HostRun) -> tuple[str, ...]:
    """A warning, if a notable share of the time is that of code outside the sampled paths."""
    share = run.outside_paths_s() / max(float(run.times.time_s[TYPICAL].sum()), 1e-300)
    if share < NOTABLE_OUTSIDE_PATHS:
        return ()
    return (
        f"{share:.0%} of the time is of code that is in too few of the sampled paths: what its instructions wait for "
        "is not known, and it may take several times as long",
    )


def _unseen_s(provenance: Provenance, figures: MachineFigures) -> float:
    """Longest time of unseen array operations where nothing was timed: that of a call each."""
    return provenance.unseen_calls * float(figures.python_call_s[SLOW])


def _most_s(provenance: Provenance, figures: MachineFigures) -> float:
    """Longest time of a Python program of which nothing was timed: as much as its traced run, in lines."""
    return (provenance.most_lines or 0.0) * float(figures.python_line_s[SLOW])


def _region_times(run: HostRun, total_s: float, *, loops: bool) -> tuple[LoopTime, ...]:
    workload, times = run.workload, run.times
    typical = times.time_s[TYPICAL]
    first_calls = _first_calls(workload)
    least_s = run.least_s()
    regions = []
    for index in np.argsort(-typical, kind="stable"):
        region = workload.regions[index]
        if not loops and region.kind is not LoopKind.COMPILED:
            continue
        low, high = combined(run.errors_of_region(int(index)))
        regions.append(
            LoopTime(
                place=region.place,
                kind=region.kind,
                loop_id=region.loop_id,
                entries=region.entries,
                iterations=region.iterations,
                time_s=float(typical[index]),
                low_s=float(min(max(typical[index] * low, least_s[index]), typical[index])),
                high_s=float(typical[index]) * high,
                compute_s=float(times.compute_s[index]),
                memory_s=float(times.memory_s[index]),
                overlap_s=float(times.overlap_s[index]),
                python_s=float(times.python_s[index]),
                pages_s=float(times.pages_s[index]),
                share=float(typical[index] / total_s) if total_s else 0.0,
                bound_by=times.bound_by[index],
                is_first_call=int(index) in first_calls,
                as_traced=bool(times.as_traced[index]),
            )
        )
    return tuple(regions)


def _first_calls(workload: Workload) -> set[int]:
    """Regions that called an operation or compiled function once, before others did that call the same."""
    places: dict[tuple[LoopKind, str], list[int]] = defaultdict(list)
    for index, region in enumerate(workload.regions):
        if region.kind in (LoopKind.ARRAY, LoopKind.COMPILED):
            places[region.kind, region.place.module].append(index)
    return {found[0] for found in places.values() if len(found) > 1 and workload.regions[found[0]].entries == 1}


def _assumptions(
    workload: Workload, figures: MachineFigures, misses: Misses, times: RegionTimes
) -> tuple[Assumption, ...]:
    """Assumptions that matter to this program."""
    totals, operations = workload.totals, workload.operations
    needed = [
        assumption
        for assumption in figures.assumptions
        if (
            times.pages_s.sum() >= 0.01 * times.time_s[TYPICAL].sum()
            if assumption.name == "first_touch_page_s"
            else assumption.name not in _NEEDED_FOR
            or any(_is_needed(workload, name) for name in _NEEDED_FOR[assumption.name])
        )
    ]
    if workload.core is not None:
        kinds = {kind for kind, _, _ in workload.core.distinct_kinds[0]}
        named = {assumption.name for assumption in figures.assumptions}
        named |= {kind_note(kind) for kind in OperationKind if kind not in kinds}
        needed += [assumption for assumption in figures.core_assumptions if assumption.name not in named]
    if totals.python_lines.any():
        needed.append(_timed(workload, figures, times))
    linear = workload.linear.assumption(figures.linear, float(times.time_s[TYPICAL].sum()))
    if linear is not None:
        needed.append(Assumption("linear_algebra", linear))
    needed += _of_arrays(workload, figures, times)
    long_share = float(totals.long_lines.sum() / max(totals.python_lines.sum(), 1.0))
    if long_share >= 0.01:
        less, _, more = LONG_CALLS
        needed.append(
            Assumption(
                "python_long",
                f"{long_share:.0%} of the time that was timed is in blocks that take some milliseconds and more; what "
                f"built-in functions do there with much memory is taken to have {less:g} to {more:g} times that time",
            )
        )
    most_lines = workload.signature.provenance.most_lines
    if most_lines is not None:
        needed.append(
            Assumption(
                "python_blind",
                "nothing was timed (--python-core settrace): lists, dictionaries, sorting and whatever else compiled "
                "code does is not in the time; the interval reaches to all that the traced run took, "
                f"{format_count(round(most_lines))} lines of Python",
            )
        )
    measured = figures.memory.measured_range_bytes
    beyond = (misses.misses[:, -1] > 0) & (operations.irregular > 0) & (operations.range_bytes > (measured or np.inf))
    share = float(misses.misses[beyond, -1].sum() / max(misses.misses[:, -1].sum(), 1))
    if share >= 0.01:
        needed.append(
            Assumption(
                "beyond_measurement",
                f"{share:.0%} of the accesses to main memory are in address ranges beyond the largest working set "
                f"measured, {measured:,.0f} bytes; its latency is used",
            )
        )
    return (*misses.assumptions, *needed)


def _is_needed(workload: Workload, name: str) -> bool:
    """Whether a total is not 0, of flops without those of linear algebra, which has rates of its own."""
    total = getattr(workload.totals, name)
    return bool((total[~workload.linear.mask] if name.endswith("_flops") else total).any())


def _timed(workload: Workload, figures: MachineFigures, times: RegionTimes) -> Assumption:
    line_s, all_s = float(figures.python_line_s[TYPICAL]), float(times.time_s[TYPICAL].sum())
    seconds = workload.totals.python_lines * line_s
    unseen = np.array([region.kind is LoopKind.COMPILED for region in workload.regions])
    share, unseen_share = float(seconds[~unseen].sum()) / all_s, float(seconds[unseen].sum()) / all_s
    beside = ""
    if unseen_share >= NOTABLE_SHARE:
        beside = (
            f", and {unseen_share:.0%} that of compiled functions that were not seen (half to twice as much assumed)"
        )
    return Assumption(
        "python_timed",
        f"{min(share, 1.0):.0%} of the time is the interpreter's, with the built-in functions that it calls{beside}: "
        "it was timed while the program was traced, in lines of Python, of which one takes "
        f"{line_s * 1e9:.3g} ns on this machine",
    )


def _warnings_of_profile(profile: Profile) -> tuple[str, ...]:
    if not profile.partial:
        return ()
    return (
        f"the profile of {profile.name} is partial: its measurement was interrupted, so that figures are missing, "
        "which are assumed, or had not settled; measure it again with foretrace calibrate",
    )


def _unseen_warning(provenance: Provenance, *, timed: bool) -> str:
    unseen, calls = provenance.unseen, provenance.unseen_calls
    roughly = sum(operation.one_pass_calls for operation in unseen.operations)
    share = f" ({unseen.calls_share:.1%} of them, {unseen.bytes_share:.1%} of their bytes)" if unseen.operations else ""
    how = f"{roughly:,} count as one pass over each array, the others not at all" if roughly else "are not in the times"
    if timed:
        how = "are not known; what the calls took was timed while the program was traced"
    return f"{calls:,} array operations ran unseen{share}: their memory accesses {how}"


def warnings_of(signature: Signature) -> tuple[str, ...]:
    """Warnings on parts of the run that a prediction leaves out."""
    provenance, timed = signature.provenance, bool(signature.interpreter_times)
    warnings = []
    if not provenance.complete:
        reason = provenance.incomplete_reason or "the run was cut short"
        warnings.append(f"the signature is incomplete ({reason}): times are of the part that was traced")
    if provenance.guest == "python":
        warnings.append(
            "times are of Python's lines and array operations: starting the interpreter and loading modules are not in "
            "them" + ("" if timed else ", nor are other calls into compiled code")
        )
    if provenance.decoded_share < 1:
        warnings.append(
            f"{1 - provenance.decoded_share:.2%} of the instructions could not be decoded; "
            "the interval is widened by as much"
        )
    if provenance.unseen_calls:
        warnings.append(_unseen_warning(provenance, timed=timed))
    if not timed and provenance.unseen.native_threads_share >= NOTABLE_SHARE:
        warnings.append(
            f"{NATIVE_THREADS}, which compiled code started, took {provenance.unseen.native_threads_share:.0%} of the "
            "traced run's processor time: their work was not seen and is not in the times"
        )
    if provenance.untraced_children:
        warnings.append(f"{provenance.untraced_children:,} child processes were not traced and are not in the times")
    if provenance.untraced_threads:
        warnings.append(f"{provenance.untraced_threads:,} threads were not traced and are not in the times")
    if several := _several(provenance):
        warnings.append(f"the program ran {several}; {TURNS}")
    return tuple(warnings)


def _several(provenance: Provenance) -> str:
    """The processes and threads of a program that ran several; else nothing.

    A process that became another program has a record for each, and goes on with one thread.
    """
    ran = [process for process in provenance.processes if process.followed]
    replaced = sum(
        any(other.pid == process.pid for other in ran[:place]) if process.pid else bool(process.command)
        for place, process in enumerate(ran[1:], 1)
    )
    processes, threads = max(len(ran), 1) - replaced, provenance.threads - replaced
    if processes == 1:
        return f"{threads} threads" if threads > 1 else ""
    return f"{processes} processes" if threads == processes else f"{processes} processes with {threads} threads in all"


def _of_arrays(workload: Workload, figures: MachineFigures, times: RegionTimes) -> Iterator[Assumption]:
    """Assumptions on array operations: those that were calibrated, and those that take as long as traced."""
    traced = times.as_traced
    if np.nansum(workload.totals.array_points[~traced]):
        less, more = ARRAY_POINT
        yield Assumption(
            "array_points",
            f"array operations take {less:g} to {more:g} times as long a point as calibrated on "
            f"{figures.array_costs_of or 'this machine'} for their types of elements",
        )
    all_s, by_name = float(times.time_s[TYPICAL].sum()), defaultdict[str, float](float)
    for region in np.flatnonzero(traced & (times.time_s[TYPICAL] > 0)).tolist():
        by_name[workload.regions[region].place.module] += float(times.time_s[TYPICAL, region])
    traced_s = sum(by_name.values())
    if traced_s >= NOTABLE_SHARE * all_s > 0:
        names = sorted(by_name, key=lambda name: -by_name[name])
        more_names = f" and {len(names) - 3} more" if len(names) > 3 else ""
        less, _, more = UNSEEN_CODE
        yield Assumption(
            "array_traced",
            f"{traced_s / all_s:.0%} of the time is array operations that were not calibrated for their types, axes or "
            f"masks ({', '.join(names[:3])}{more_names}): they take as long as they were timed while the program was "
            f"traced, in lines of Python, {less:g} to {more:g} times",
        )
