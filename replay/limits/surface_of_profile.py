"""The MultiMAPS surface of a profile: as measured, or derived from its other figures where nobody measured it."""

from __future__ import annotations

import numpy as np

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.profiles.points import SurfacePoint
from foretrace.profiles.profile import Profile
from foretrace.profiles.relatives import informed
from foretrace.replay.base.records import HitSource
from foretrace.replay.base.spread import TYPICAL, Floats
from foretrace.replay.memory.figures import MemoryFigures
from foretrace.replay.memory.hit_rates import Misses
from foretrace.replay.workload.workload import OperationArrays

from .convolution import memory_times
from .surface import BandwidthSurface, synthetic_points


def surface_of(profile: Profile, figures: MemoryFigures, hierarchy: Hierarchy) -> BandwidthSurface:
    """The surface of a host. A calibrated relative's surface counts as measured.

    Args:
        profile: of the host.
        figures: its memory figures.
        hierarchy: its caches.
    """
    related = informed(profile)
    measured = BandwidthSurface.of((related.profile if related else profile).surface)
    if measured.planes:
        return measured
    return BandwidthSurface.of(_sweeps(figures, hierarchy), synthetic=True)


def _sweeps(figures: MemoryFigures, hierarchy: Hierarchy) -> tuple[SurfacePoint, ...]:
    def times_s(operations: OperationArrays, served: Floats) -> Floats:
        misses = operations.executions[:, None] - np.cumsum(served, axis=1)[:, :-1]
        known = Misses(hierarchy, HitSource.SIMULATED, operations.executions, misses, 0.0, ())
        times: Floats = memory_times(operations, known, figures, len(served))[TYPICAL].sum(axis=1)
        return times

    return synthetic_points(figures.sizes_bytes.tolist(), float(figures.line_bytes[0]), times_s)
