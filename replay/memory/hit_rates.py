"""The misses of each memory operation in a machine's caches, simulated or estimated from reuse distances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import PredictionError
from foretrace.cache_sim.base.hierarchy import Hierarchy, Level
from foretrace.cache_sim.base.level import Inclusion
from foretrace.cache_sim.reuse.model import miss_count_error, misses_from_reuse
from foretrace.profiles.hierarchies import hierarchy_of, shrunk
from foretrace.profiles.profile import Profile
from foretrace.profiles.ranges import Assumption
from foretrace.replay.base.records import HitRates, HitSource, LevelHits
from foretrace.replay.base.spread import FAST, SLOW, TYPICAL
from foretrace.tracer.signature.records import ReuseHistograms, Signature, SimulatedHierarchy


@dataclass(frozen=True, slots=True, eq=False)
class Misses:
    """`misses`: float64 [operations, levels], never growing outwards. `relative_error`: standard error of their sum.

    `fewest` and `most`: as `misses`, where others leave more or less of the last cache than they are taken to; None
    where it is the program's own.
    """

    hierarchy: Hierarchy
    source: HitSource
    executions: npt.NDArray[np.float64]
    misses: npt.NDArray[np.float64]
    relative_error: float
    assumptions: tuple[Assumption, ...]
    fewest: npt.NDArray[np.float64] | None = None
    most: npt.NDArray[np.float64] | None = None

    def at(self, corner: int) -> npt.NDArray[np.float64]:
        """Misses [operations, levels]: typical, or moved by twice their error and by what others leave of a cache."""
        between = {FAST: self.fewest, SLOW: self.most}.get(corner)
        factor = max(1 + 2 * self.relative_error * (corner - TYPICAL), 0.0)
        return np.minimum((self.misses if between is None else between) * factor, self.executions[:, None])

    @property
    def hit_rates(self) -> HitRates:
        """Summed over the program."""
        arriving = [float(self.executions.sum()), *(float(column) for column in self.misses.sum(axis=0))]
        levels = tuple(
            LevelHits(level.name, arriving[index], arriving[index + 1])
            for index, level in enumerate(self.hierarchy.levels)
        )
        return HitRates(self.source, self.hierarchy.spec, levels, self.relative_error)


def misses_on(signature: Signature, profile: Profile, held_bytes: Sequence[float] | None = None) -> Misses:
    """The misses of each operation of `signature` in the caches of `profile`.

    Exact if a hierarchy of the same geometry was simulated when the program was traced, otherwise estimated from the
    reuse distances. Of a part of simulated caches, without reuse distances, they are between those of the caches.

    Args:
        signature: of the program.
        profile: of the machine.
        held_bytes: what the program holds of each level; None: all of it.

    Raises:
        PredictionError: the profile has no caches, or the signature has neither that hierarchy nor reuse distances.
    """
    described = hierarchy_of(profile)
    if described.hierarchy is None:
        raise PredictionError(f"profile {profile.name}: has no data caches, so hits cannot be told from misses")
    hierarchy = described.hierarchy if held_bytes is None else shrunk(described.hierarchy, held_bytes)
    assumptions = tuple(Assumption("cache_geometry", text) for text in described.assumptions)
    executions = np.array([op.executions for op in signature.operations], dtype=np.float64)
    known = _simulated(signature, hierarchy)
    if signature.reuse is None and held_bytes is not None:
        known = _parts_of_simulated(signature, described.hierarchy, hierarchy, executions)
    num_known = 0 if known is None else known.misses.shape[1]
    misses = np.zeros((len(executions), 0)) if known is None else known.misses.astype(np.float64)
    source, error = HitSource.SIMULATED, 0.0
    if num_known < len(hierarchy.levels):
        if signature.reuse is None:
            raise PredictionError(
                f"machine {profile.name}: its caches ({hierarchy.spec}) were not simulated when the program was "
                f"traced, and the signature holds no reuse distances; trace again with --machine {profile.name}"
            )
        unit = np.array([op.unit_stride for op in signature.operations]) / np.maximum(executions, 1)
        estimated, source = misses_from_reuse(signature.reuse, hierarchy, executions, unit), HitSource.ESTIMATED
        misses = np.column_stack([misses, estimated[:, num_known:]])
        error = _sampling_error(signature.reuse, hierarchy.levels[num_known:], estimated[:, num_known:])
        assumptions += tuple(
            Assumption(
                "cache_geometry", f"{profile.name}: {level.name} was not simulated, and is estimated as plain LRU"
            )
            for level in hierarchy.levels[num_known:]
            if not level.is_plain
        )
    shape = (len(executions), len(hierarchy.levels))
    if misses.shape != shape:
        raise PredictionError(f"signature: misses are {misses.shape}, must be {shape} (operations, levels)")
    error = math.hypot(error, _error_of_bursts(signature, known if source is HitSource.SIMULATED else None))
    misses = np.minimum.accumulate(np.column_stack([executions, np.maximum(misses, 0)]), axis=1)[:, 1:]
    return Misses(hierarchy, source, executions, misses, error, assumptions)


def _simulated(signature: Signature, hierarchy: Hierarchy) -> SimulatedHierarchy | None:
    """The simulated hierarchy of the same geometry; None where there is none.

    One that differs in its last cache alone stands for the caches inside, with as many columns.
    """
    inner: SimulatedHierarchy | None = None
    for one in signature.hierarchies:
        if one.hierarchy.geometry == hierarchy.geometry:
            return one
        if inner is None and _inside(one.hierarchy) == _inside(hierarchy) is not None:
            inner = replace(one, misses=one.misses[:, :-1])
    return inner


def _parts_of_simulated(
    signature: Signature, whole: Hierarchy, part: Hierarchy, executions: npt.NDArray[np.float64]
) -> SimulatedHierarchy | None:
    """Misses of parts of simulated caches, interpolated between the caches by the logarithm of their sizes.

    Of a cache of one line, all accesses are taken to miss.
    """
    known = _simulated(signature, whole)
    if known is None or known.misses.shape[1] < len(whole.levels) or part == whole:
        return known
    columns = np.column_stack([executions, known.misses])
    sizes = [float(whole.levels[0].line_bytes), *(float(level.size_bytes) for level in whole.levels)]
    at = np.log(np.maximum.accumulate(sizes))
    place = np.interp(np.log([float(level.size_bytes) for level in part.levels]), at, np.arange(len(at)))
    below = np.minimum(place.astype(np.int64), len(at) - 2)
    misses = columns[:, below] * (1 - (place - below)) + columns[:, below + 1] * (place - below)
    return SimulatedHierarchy(part, np.rint(misses).astype(np.uint64))


def _inside(hierarchy: Hierarchy) -> str | None:
    """The geometry inside of the outermost cache; None if that decides what they hold."""
    if hierarchy.levels[-1].inclusion is not Inclusion.NON_INCLUSIVE or len(hierarchy.levels) < 2:
        return None
    return replace(hierarchy, levels=hierarchy.levels[:-1]).geometry


def _error_of_bursts(signature: Signature, simulated: SimulatedHierarchy | None) -> float:
    """Sampling error of hit rates for accesses that were recorded in bursts: of a hierarchy, or of the worst one."""
    sampling = signature.provenance.sampling
    if sampling is None:
        return 0.0
    least = 1e-3 * sum(op.executions for op in signature.operations)
    return max(
        (level.standard_error / max(level.misses, least, 1.0)
         for level in sampling.misses if simulated is None or level.hierarchy == simulated.hierarchy.name),
        default=0.0,
    )  # fmt: skip


def _sampling_error(reuse: ReuseHistograms, levels: Sequence[Level], misses: npt.NDArray[np.float64]) -> float:
    """The largest relative standard error of the misses of a level, among those where one access in a thousand misses.

    Fewer misses than that matter little, however badly they are known.
    """
    least = 1e-3 * reuse.accesses
    return max(
        (miss_count_error(reuse, level) / max(total, least, 1.0)
         for level, total in zip(levels, misses.sum(axis=0).tolist(), strict=True)),
        default=0.0,
    )  # fmt: skip
