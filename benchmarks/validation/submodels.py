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

from foretrace.profiles.profile import Profile
from foretrace.replay.core.figures import FP_ADD, CoreFigures
from foretrace.replay.core.program import CoreProgram
from foretrace.replay.core.wrong_path import ALL_DEPEND
from foretrace.replay.machine_figures import MachineFigures
from foretrace.replay.memory.figures import LateLines, MemoryFigures
from foretrace.replay.spread import exactly
from foretrace.replay.workload import Workload
from foretrace.tracer.signature.records import OperationKind

_MISSED, _SEVERAL = 1, 16
"""Flags of an execution: core_model.h."""
_NO_LIMIT = exactly(1024.0)
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


def _all_rates_reached(profile: Profile) -> Profile:
    core = profile.core
    if core is None:
        return profile
    most = 1e3
    rates = ("mixed_instructions_per_cycle", "chained_int_adds_per_cycle", "chained_fp_adds_per_cycle")
    return structs.replace(profile, core=structs.replace(core, **dict.fromkeys(rates, most)))


def _alone(profile: Profile) -> Profile:
    if not profile.caches:
        return profile
    own = {"effective_size_bytes": None, "effective_stream_size_bytes": None, "line_lifetime_s": None}
    return structs.replace(profile, caches=(*profile.caches[:-1], structs.replace(profile.caches[-1], **own)))


def _none(program: CoreProgram) -> Any:
    return np.zeros(len(program.kinds), bool)


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


def _foreseen(program: CoreProgram, flags: int) -> Any:
    """Branch flags without missed ones, of the executions that have any of `flags` (0: of all)."""
    chosen = np.ones(len(program.branches), bool) if not flags else program.branches & flags != 0
    return np.where(chosen, program.branches & ~np.uint8(_MISSED), program.branches).astype(np.uint8)


SUBMODELS = (
    # front end
    Submodel("decoders", "instructions outside the micro-op cache wait for the decoders",
             core=lambda c: {"decode": _NOTHING, "decode_switch": _NOTHING}),
    Submodel("decode switch", "penalty of switching from the micro-op cache to the decoders",
             core=lambda c: {"decode_switch": _NOTHING}),
    Submodel("branch pairs", "two taken branches followed at once",
             core=lambda c: {"pairs": False}),
    Submodel("calls", "a call or a return takes longer than a branch",
             core=lambda c: {"call": c.taken_branch}),
    Submodel("several targets", "a predicted indirect jump to several places takes longer",
             core=lambda c: {"several_targets": c.taken_branch}),
    # branch prediction
    Submodel("mispredictions", "branches are mispredicted",
             program=lambda p: {"branches": _foreseen(p, 0)}),
    Submodel("mispredicted targets", "targets of indirect jumps are mispredicted",
             program=lambda p: {"branches": _foreseen(p, _SEVERAL)}),
    Submodel("wrong path", "lines are fetched on the wrong path of a mispredicted branch",
             program=lambda p: {"depends": np.full_like(p.depends, ALL_DEPEND)}),
    # issue and units
    Submodel("reached rates", "waiting instructions reach a part of the issue width and of units' rates",
             of_profile=_all_rates_reached),
    Submodel("macro fusion", "a comparison and its branch are one operation",
             program=lambda p: {"fused": _none(p)}),
    Submodel("early adds", "a sum is ready sooner for another sum",
             core=_early_adds_off),
    Submodel("shuffle rate", "shuffles have a rate of their own",
             core=lambda c: {"shuffle_cycles": c.unit_cycles[FP_ADD]}),
    Submodel("integer vector rate", "additions of integer vectors have a rate of their own",
             core=lambda c: {"vector_int_cycles": c.unit_cycles[FP_ADD]}),
    Submodel("crossing latency", "values cross between register files with a latency",
             core=lambda c: {"crossing": _NOTHING}),
    # room for instructions
    Submodel("window", "a limited number of instructions is in flight",
             core=lambda c: {"window": _NO_LIMIT}),
    Submodel("integer queue", "limited instructions wait for integer operands",
             core=lambda c: {"int_waiting": _NO_LIMIT}),
    Submodel("vector queue", "limited instructions wait for vector operands",
             core=lambda c: {"vector_waiting": _NO_LIMIT, "scheduled": np.minimum(c.scheduled, c.vector_waiting)}),
    Submodel("vector scheduler", "only some of those that wait for vector operands can start",
             core=lambda c: {"scheduled": c.vector_waiting}),
    Submodel("address queue", "limited loads and stores wait for their address",
             core=lambda c: {"addresses": _NO_LIMIT}),
    Submodel("integer registers", "limited integer registers for results",
             core=lambda c: {"int_results": _NO_LIMIT}),
    Submodel("vector registers", "limited vector registers for results",
             core=lambda c: {"vector_results": _NO_LIMIT}),
    Submodel("store queue", "limited stores in flight",
             core=lambda c: {"stores": _NO_LIMIT}),
    # loads and stores
    Submodel("vector access rates", "loads and stores of vectors have rates of their own",
             core=lambda c: {"vector_load_cycles": c.load, "vector_store_cycles": c.store,
                             "wide_load_cycles": c.load, "wide_store_cycles": c.store}),
    Submodel("wide access rates", "loads and stores of 64 bytes have rates of their own",
             core=lambda c: {"wide_load_cycles": c.vector_load_cycles, "wide_store_cycles": c.vector_store_cycles}),
    Submodel("vector load latency", "loads to vector registers take longer",
             core=lambda c: {"vector_load": _NOTHING}),
    Submodel("scaled loads", "loads whose address has a multiple of a register take longer",
             core=lambda c: {"scaled": _NOTHING}),
    Submodel("store forwarding", "a load that reads a recent store's data waits for it",
             program=lambda p: {"store_distances": np.zeros_like(p.store_distances)}),
    Submodel("blocked forwarding", "a load that reads more than the last store wrote waits for the cache",
             core=lambda c: {"blocked": _NOTHING}),
    # memory
    Submodel("latency spread", "loads from main memory take unequal times",
             memory=lambda m: {"latency_spread": np.zeros(0)}),
    Submodel("prefetch distance", "prefetchers run a limited number of lines ahead, of all streams together",
             memory=lambda m: {"lines_ahead": _NOTHING}),
    Submodel("near lines", "lines from nearer caches count for other places of the prefetchers'",
             memory=lambda m: {"near_places": exactly(1.0)}),
    Submodel("late lines", "streams beside other misses or streams lose their prefetchers",
             memory=lambda m: {"beside_misses": LateLines.of(()), "beside_streams": LateLines.of(())}),
    Submodel("lines beside misses", "streams beside misses at random lose their prefetchers",
             memory=lambda m: {"beside_misses": LateLines.of(())}),
    Submodel("lines beside streams", "streams from memory beside near streams lose their prefetchers",
             memory=lambda m: {"beside_streams": LateLines.of(())}),
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
        ValueError: there is none of a name.
    """
    by_name = {one.name: one for one in SUBMODELS}
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no sub-model; these are: {', '.join(by_name)}")
    return tuple(by_name[name] for name in wanted)
