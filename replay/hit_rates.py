"""The misses of each memory operation in a machine's caches, simulated or estimated from reuse distances."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from foretrace.cache_sim.hierarchy import Hierarchy
from foretrace.cache_sim.reuse_model import miss_count_error, misses_from_reuse
from foretrace.errors import PredictionError
from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.profile import Profile
from foretrace.tracer.signature import ReuseHistograms, Signature, SimulatedHierarchy

from .records import Assumption, HitRates, HitSource, LevelHits


@dataclass(frozen=True, slots=True, eq=False)
class Misses:
    """`misses`: float64 [operations, levels], never growing outwards. `relative_error`: standard error of their sum."""

    hierarchy: Hierarchy
    source: HitSource
    executions: npt.NDArray[np.float64]
    misses: npt.NDArray[np.float64]
    relative_error: float
    assumptions: tuple[Assumption, ...]

    @property
    def hit_rates(self) -> HitRates:
        """Summed over the program."""
        arriving = [float(self.executions.sum()), *(float(column) for column in self.misses.sum(axis=0))]
        levels = tuple(
            LevelHits(level.name, arriving[index], arriving[index + 1])
            for index, level in enumerate(self.hierarchy.levels)
        )
        return HitRates(self.source, self.hierarchy.spec, levels, self.relative_error)


def misses_on(signature: Signature, profile: Profile) -> Misses:
    """The misses of each operation of `signature` in the caches of `profile`.

    Exact if a hierarchy of the same geometry was simulated when the program was traced, otherwise estimated from the
    reuse distances.

    Raises:
        PredictionError: the profile has no caches, or the signature has neither that hierarchy nor reuse distances.
    """
    described = hierarchy_of(profile)
    if described.hierarchy is None:
        raise PredictionError(f"profile {profile.name}: has no data caches, so hits cannot be told from misses")
    hierarchy, shrunk = _as_measured(described.hierarchy, profile)
    assumptions = tuple(Assumption("cache_geometry", text) for text in (*described.assumptions, *shrunk))
    executions = np.array([op.executions for op in signature.operations], dtype=np.float64)
    for simulated in signature.hierarchies:
        if simulated.hierarchy.geometry == hierarchy.geometry:
            misses, source, error = simulated.misses.astype(np.float64), HitSource.SIMULATED, 0.0
            break
    else:
        if signature.reuse is None:
            raise PredictionError(
                f"machine {profile.name}: its caches ({hierarchy.spec}) were not simulated when the program was "
                f"traced, and the signature holds no reuse distances; trace again with --machine {profile.name}"
            )
        unit = np.array([op.unit_stride for op in signature.operations]) / np.maximum(executions, 1)
        misses, source = misses_from_reuse(signature.reuse, hierarchy, executions, unit), HitSource.ESTIMATED
        error = _sampling_error(signature.reuse, hierarchy, misses)
        assumptions += tuple(
            Assumption(
                "cache_geometry", f"{profile.name}: {level.name} was not simulated, and is estimated as plain LRU"
            )
            for level in hierarchy.levels
            if not level.is_plain
        )
    shape = (len(executions), len(hierarchy.levels))
    if misses.shape != shape:
        raise PredictionError(f"signature: misses are {misses.shape}, must be {shape} (operations, levels)")
    error = math.hypot(error, _error_of_bursts(signature, simulated if source is HitSource.SIMULATED else None))
    misses = np.minimum.accumulate(np.column_stack([executions, np.maximum(misses, 0)]), axis=1)[:, 1:]
    return Misses(hierarchy, source, executions, misses, error, assumptions)


def _as_measured(hierarchy: Hierarchy, profile: Profile) -> tuple[Hierarchy, list[str]]:
    """The outermost level as large as one core was measured to find it, if that is less; and so said.

    Of a level that others use as well, or another virtual machine, a program has what they leave. The inner ones are
    its own: what measures smaller there is what their replacement loses, which a program with other habits does not.
    """
    cache, level = profile.caches[-1], hierarchy.levels[-1]
    way_bytes = level.ways * level.line_bytes
    size_bytes = (cache.effective_size_bytes or level.size_bytes) // way_bytes * way_bytes
    inner = max((one.size_bytes for one in hierarchy.levels[:-1]), default=0)
    if not inner < size_bytes < level.size_bytes:
        return hierarchy, []
    text = f"{profile.name}: {level.name} counts with the {size_bytes:,} bytes that one core was measured to have of it"
    return replace(hierarchy, levels=(*hierarchy.levels[:-1], replace(level, size_bytes=size_bytes))), [text]


def _error_of_bursts(signature: Signature, simulated: SimulatedHierarchy | None) -> float:
    """The same as `_sampling_error` for accesses that were recorded in bursts: of a hierarchy, or of the worst one."""
    sampling = signature.provenance.sampling
    if sampling is None:
        return 0.0
    least = 1e-3 * sum(op.executions for op in signature.operations)
    return max(
        (level.standard_error / max(level.misses, least, 1.0)
         for level in sampling.misses if simulated is None or level.hierarchy == simulated.hierarchy.name),
        default=0.0,
    )  # fmt: skip


def _sampling_error(reuse: ReuseHistograms, hierarchy: Hierarchy, misses: npt.NDArray[np.float64]) -> float:
    """The largest relative standard error of the misses of a level, among those where one access in a thousand misses.

    Fewer misses than that matter little, however badly they are known.
    """
    least = 1e-3 * reuse.accesses
    return max(
        (miss_count_error(reuse, level) / max(total, least, 1.0)
         for level, total in zip(hierarchy.levels, misses.sum(axis=0).tolist(), strict=True)),
        default=0.0,
    )  # fmt: skip
