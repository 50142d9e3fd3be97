"""The sub-models of the core and memory model, each with the change that switches it off.

A sub-model is switched off by neutral parameters: a figure that has no effect, a property that no instruction has.
Nothing of the model is copied here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from msgspec import structs

from foretrace.base.errors import EngineError
from foretrace.profiles.profile import Profile
from foretrace.replay.base.spread import exactly
from foretrace.replay.core.figures import CoreFigures
from foretrace.replay.core.program import INDIRECT, CoreProgram, branch_kind
from foretrace.replay.core.wrong_path import ALL_DEPEND
from foretrace.replay.figures.machine_figures import MachineFigures
from foretrace.replay.memory.figures import LateLines, MemoryFigures
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.records import OperationKind

_MISSED = 1
"""Flag of an execution: core_model.h."""
_NO_LIMIT = 1024.0
_NOTHING = exactly(0.0)

OfCore = Callable[[CoreFigures], Mapping[str, Any]]
OfMemory = Callable[[MemoryFigures], Mapping[str, Any]]
OfProgram = Callable[[CoreProgram], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Submodel:
    """A part of the model that can be switched off alone.

    `title` is the effect it models. What switches it off: new fields of the core's or the memory's figures, of the
    program as the core model runs it, of the whole figures or the profile.
    `of_sharing`: it decides what a program holds of a shared cache.
    """

    name: str
    title: str
    core: OfCore | None = None
    memory: OfMemory | None = None
    program: OfProgram | None = None
    machine: Callable[[MachineFigures], Mapping[str, Any]] | None = None
    workload: Callable[[Workload], Mapping[str, Any]] | None = None
    of_profile: Callable[[Profile], Profile] | None = None
    of_sharing: bool = False

    def without_figures(self, figures: MachineFigures) -> MachineFigures:
        """The figures of a machine with this sub-model switched off."""
        if self.core is not None:
            figures = replace(figures, core=replace(figures.core, **self.core(figures.core)))
        if self.memory is not None:
            figures = replace(figures, memory=replace(figures.memory, **self.memory(figures.memory)))
        return figures if self.machine is None else replace(figures, **self.machine(figures))

    def without_workload(self, workload: Workload) -> Workload:
        """A workload with this sub-model switched off."""
        if self.workload is not None:
            workload = replace(workload, **self.workload(workload))
        if self.program is None or workload.core is None:
            return workload
        return replace(workload, core=replace(workload.core, **self.program(workload.core)))

    def without_profile(self, profile: Profile) -> Profile:
        """A profile with this sub-model switched off."""
        return profile if self.of_profile is None else self.of_profile(profile)


def _alone(profile: Profile) -> Profile:
    if not profile.caches:
        return profile
    own = {"effective_size_bytes": None, "effective_stream_size_bytes": None, "line_lifetime_s": None}
    return structs.replace(profile, caches=(*profile.caches[:-1], structs.replace(profile.caches[-1], **own)))


def _members(**values: float) -> OfCore:
    """With these members of the C core."""
    return lambda core: {"members": {**core.members, **{name: exactly(value) for name, value in values.items()}}}


def _early_adds_off(core: CoreFigures) -> Mapping[str, Any]:
    latency = core.latency | {OperationKind.FP_ADD: core.latency[OperationKind.FP_ADD] - core.add_sooner}
    return {"add_sooner": _NOTHING, "latency": latency}


def _one_range(memory: MemoryFigures) -> Mapping[str, Any]:
    """Main memory's latencies those of the smallest range."""
    return {
        "random_range_bytes": memory.random_range_bytes[:1],
        "random_memory_s": memory.random_memory_s[:, :1],
        "dependent_range_bytes": memory.dependent_range_bytes[:1],
        "dependent_memory_s": memory.dependent_memory_s[:, :1],
    }


def _without_lone_lines(workload: Workload) -> Mapping[str, Any]:
    unknown = np.full_like(workload.operations.sparse, np.nan)
    return {"operations": replace(workload.operations, sparse=unknown)}


def _foreseen(workload: Workload, *, indirect_only: bool) -> Mapping[str, Any]:
    """Without missed branches, or without missed targets of indirect ones."""
    program = workload.core
    if program is None:
        return {}
    lasts = [workload.signature.paths.instructions[block][-1] for block in program.block_ids.tolist()]
    chosen = np.array([not indirect_only or branch_kind(last) == INDIRECT for last in lasts])[program.path]
    branches = np.where(chosen, program.branches & ~np.uint8(_MISSED), program.branches).astype(np.uint8)
    return {"core": replace(program, branches=branches)}


SUBMODELS = (
    # front end
    Submodel("decoders", "instructions outside the micro-op cache wait for the decoders",
             core=_members(decode=0.0, decode_switch_cycles=0.0)),
    Submodel("decode switch", "penalty of switching from the micro-op cache to the decoders",
             core=_members(decode_switch_cycles=0.0)),
    Submodel("branch pairs", "two taken branches followed at once",
             core=_members(pairs=0.0)),
    # branch prediction
    Submodel("mispredictions", "branches are mispredicted",
             workload=lambda w: _foreseen(w, indirect_only=False)),
    Submodel("mispredicted targets", "targets of indirect jumps are mispredicted",
             workload=lambda w: _foreseen(w, indirect_only=True)),
    Submodel("wrong path", "lines are fetched on the wrong path of a mispredicted branch",
             program=lambda p: {"depends": np.full_like(p.depends, ALL_DEPEND)}),
    # units
    Submodel("early adds", "a sum is ready sooner for another sum",
             core=_early_adds_off),
    Submodel("crossing latency", "values cross between register files with a latency",
             core=lambda c: {"crossing": _NOTHING}),
    # room for instructions
    Submodel("window", "a limited number of instructions is in flight",
             core=_members(window_instructions=_NO_LIMIT)),
    Submodel("vector scheduler", "limited vector instructions can start, the others stand in a line behind them",
             core=_members(vector_scheduled_instructions=_NO_LIMIT)),
    Submodel("store queue", "limited stores in flight",
             core=_members(storing_instructions=_NO_LIMIT)),
    # loads and stores
    Submodel("store forwarding", "a load that reads a recent store's data waits for it",
             program=lambda p: {"store_distances": np.zeros_like(p.store_distances)}),
    # memory
    Submodel("late lines", "streams from memory beside near streams lose their prefetchers",
             memory=lambda m: {"late_lines": LateLines.of(())}),
    Submodel("write-backs", "lines that are stored to are written back, as measured",
             memory=lambda m: {"write_back_s": np.zeros_like(m.write_back_s)}),
    Submodel("memory by range", "latency of main memory depends on the address range",
             memory=_one_range),
    Submodel("lone lines", "lines wanted alone tell irregular misses from regular ones",
             workload=_without_lone_lines),
    Submodel("shared cache", "others hold a part of the last cache",
             of_profile=_alone, of_sharing=True),
    Submodel("page faults", "first touches of pages take time",
             machine=lambda m: {"page_s": _NOTHING}),
)  # fmt: skip
"""In the order of the pipeline."""


def named(names: str) -> tuple[Submodel, ...]:
    """The sub-models of a list of names, separated by commas.

    Raises:
        EngineError: there is none of a name.
    """
    by_name = {one.name: one for one in SUBMODELS}
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        raise EngineError(f"{unknown[0]!r} is no sub-model; these are: {', '.join(by_name)}")
    return tuple(by_name[name] for name in wanted)
