"""A profile as the figures the model computes with, each as (fast, typical, slow), and what had to be assumed for them.

A measured figure is as uncertain as its noise. Where nobody published a figure, it is derived from what is there, or
taken from the range that machines of the kind lie in; either is an assumption with a name, and its range is the
figure's. docs/model.md lists the rules with their sources.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import PredictionError
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.profiles.profile import Core, Profile
from foretrace.profiles.ranges import Assumption, Assumptions, core_class
from foretrace.profiles.relatives import Informed, array_costs_of, informed
from foretrace.replay.base.known import KnownCore
from foretrace.replay.base.spread import TYPICAL, assumed_as, between, cycles, exactly
from foretrace.replay.core.figures import CoreFigures, core_figures
from foretrace.replay.memory.figures import MemoryFigures, memory_figures
from foretrace.replay.workload.array_costs import point_times
from foretrace.replay.workload.linear_algebra import LinearFigures

from .page_figures import page_times
from .python_figures import python_figures

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class MachineFigures:
    """A host core and its memory. Each `_s` is the time of one: [fast, typical, slow]."""

    machine: str
    cycle_s: float
    instruction_s: Floats
    load_s: Floats
    store_s: Floats
    scalar_flop_s: Floats
    vector_flop_s: Floats  # at the peak rate
    fused: bool  # adds and multiplies share fused units, rather than having one unit each
    fp_divide_s: Floats
    int_divide_s: Floats
    fp_add_latency_s: Floats
    branch_miss_s: Floats
    python_line_s: Floats
    python_bytecode_s: Floats
    python_call_s: Floats
    array_point_s: Floats  # [3, ARRAY_KEYS], see array_costs.py
    array_costs_of: str | None  # other machines that these were calibrated on
    linear: LinearFigures
    core: CoreFigures
    page_bytes: int
    page_s: Floats  # of its first touch
    memory: MemoryFigures
    relative: str | None  # the calibrated machine that told what this one's profile lacks
    assumptions: tuple[Assumption, ...]
    core_assumptions: tuple[Assumption, ...]  # those of `core`, which matter to programs of machine code


def figures_of(profile: Profile, hierarchy: Hierarchy, settled: Container[str] = ()) -> MachineFigures:
    """The figures of a host profile; `hierarchy` is that of its caches. What it lacks a calibrated relative tells.

    Assumed figures that are named in `settled` are taken to be exactly as typical.

    Raises:
        PredictionError: the profile has no clock, or tells nothing of its main memory's speed.
    """
    notes, core_notes = Assumptions(settled), Assumptions(settled)
    related = informed(profile)
    if related is not None:
        profile = related.profile
        notes.note("relative", relative_text(related))
    core = profile.core
    if core is None or core.clock_hz is None:
        raise PredictionError(f"profile {profile.name}: core.clock_hz is missing, without it no time can be predicted")
    clock = core.clock_hz
    known = KnownCore(core, core_class(profile), notes)
    memory = memory_figures(profile, core, clock, hierarchy, notes)
    page_bytes, page_s = page_times(profile.memory, notes)
    scalar, vector = _flop_times(core, clock, notes)
    latency_cycles = float(memory.dependent_s[TYPICAL, 0]) * clock
    python = python_figures(profile, core, clock, latency_cycles, notes)
    arrays = array_costs_of(profile)
    return MachineFigures(
        machine=profile.name,
        cycle_s=1 / clock,
        instruction_s=_instruction_time(known, clock),
        load_s=1 / (known.figure("loads_per_cycle") * clock),
        store_s=1 / (known.figure("stores_per_cycle") * clock),
        scalar_flop_s=scalar,
        vector_flop_s=vector,
        fused=core.fp_fma_latency_cycles is not None,
        fp_divide_s=known.figure("fp_div_interval_cycles") / clock,
        int_divide_s=known.figure("int_div_interval_cycles") / clock,
        fp_add_latency_s=known.figure("fp_add_latency_cycles") / clock,
        branch_miss_s=known.figure("branch_miss_cycles") / clock,
        python_line_s=python.line_s,
        python_bytecode_s=python.bytecode_s,
        python_call_s=python.call_s,
        array_point_s=point_times(arrays.costs),
        array_costs_of=arrays.machines or None,
        linear=LinearFigures.of(profile.linear_algebra, vector, 1 / clock),
        core=core_figures(profile, core, latency_cycles, core_notes),
        page_bytes=page_bytes,
        page_s=page_s,
        memory=memory,
        relative=related.relative if related else None,
        assumptions=notes.listed,
        core_assumptions=core_notes.listed,
    )


def relative_text(related: Informed) -> str:
    """The sentence on figures taken from a relative."""
    counts = Counter(key.partition(" ")[0] for key in related.keys)
    tables = [f"{count} figures of {name}" if count > 1 else name for name, count in counts.items()]
    return (
        f"{related.profile.name} does not tell {', '.join(tables)}: those of {related.relative}, which was calibrated "
        "on the same cores, are used at this clock, with a wider interval (`foretrace machines show` lists them)"
    )


FOREIGN_INSTRUCTIONS = (0.78, 1.28)
"""Instructions of a program compiled for one instruction set, in terms of those for another: the range over six
programs and three sets (docs/instruction-sets.md)."""


def on_another_instruction_set(figures: MachineFigures, guest: str, instruction_set: str) -> MachineFigures:
    """The figures for instructions that stand for those of another instruction set: as many, give or take."""
    fewest, most = FOREIGN_INSTRUCTIONS
    assumption = Assumption(
        "instruction_set",
        f"the program was traced as compiled for {guest}, the machine runs {instruction_set}: as many instructions "
        f"assumed ({fewest:g} to {most:g} times as many), and the same loads, stores and vector widths",
    )
    return replace(
        figures,
        instruction_s=figures.instruction_s * between(fewest, 1.0, most),
        assumptions=(*figures.assumptions, assumption),
    )


def _instruction_time(known: KnownCore, clock: float) -> Floats:
    name = "issue_width_instructions_per_cycle"
    width = known.given(name)
    if width is None:
        return 1 / (known.assumed(name) * clock)
    # The width is a ceiling that real code seldom reaches.
    return cycles(1 / width, 1 / width, 2 / width, clock)


def _flop_times(core: Core, clock: float, notes: Assumptions) -> tuple[Floats, Floats]:
    """Times of a scalar flop and of a flop at the peak rate."""
    peak, scalar = core.peak_flops_per_cycle, core.scalar_flops_per_cycle
    if scalar is None:
        if peak is None:
            text = "no rate in the profile, 1 flop a cycle assumed (0.5 to 4)"
            time_s = assumed_as(notes, "flops", text, cycles(0.25, 1.0, 2.0, clock))
            return time_s, time_s
        lowest, highest = min(1.0, peak), min(4.0, peak)
        typical = math.sqrt(lowest * highest)
        text = f"not in the profile, {typical:g} a cycle assumed for scalar code ({lowest:g} to {highest:g})"
        time_s = cycles(1 / highest, 1 / typical, 1 / lowest, clock)
        return assumed_as(notes, "scalar_flops_per_cycle", text, time_s), exactly(1 / (peak * clock))
    if peak is None:
        text = f"not in the profile, vector code is taken to run at the scalar rate, {scalar:g} a cycle"
        time_s = cycles(0.25 / scalar, 1 / scalar, 1 / scalar, clock)
        return exactly(1 / (scalar * clock)), assumed_as(notes, "peak_flops_per_cycle", text, time_s)
    return exactly(1 / (scalar * clock)), exactly(1 / (peak * clock))
