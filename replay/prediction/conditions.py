"""Times and bandwidth demands of a program's regions by the number of jobs that divide the last cache.

The times are the model's (`HostRun`), worked out for 1, 2, 4, ... jobs in the cache and interpolated between. What a
region demands of main memory are the lines that its accesses miss in the last cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretrace.profiles.profile import Profile
from foretrace.profiles.ranges import Assumption, Assumptions, core_figure
from foretrace.replay.base.records import LoopKind, Model
from foretrace.replay.base.spread import TYPICAL, Floats
from foretrace.replay.engine.program import Sharing, Waking
from foretrace.replay.memory.bandwidth import MemoryBandwidth
from foretrace.replay.memory.shared_cache import check_held, jobs_of_levels, last_caches
from foretrace.replay.workload.workload import Workload

from .predict import HostRun

CORES, MEMORY, CACHE = "cores", "memory", "last cache"


@dataclass(frozen=True, slots=True)
class LevelShare:
    """A cache level that `jobs` jobs share, and what each of them holds of its `size_bytes`."""

    name: str
    size_bytes: int
    jobs: int
    held_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Conditions:
    """The regions of a program by the number of jobs in the cache.

    Attributes:
        run: the program alone on a core.
        time_s: [jobs, regions] seconds with 1, 2, ... jobs, as many as may come to share a cache.
        demand_bytes_per_s: [jobs, regions] of main memory while a region runs, counted as loads.
        stored_share: of the time that the program's lines take at the bandwidth, that of lines stored to.
        bandwidth: of main memory.
        waking: until threads that wait go on.
        levels: of the caches, what each job holds where as many share the last one as may.
        assumptions: of sharing alone.
    """

    run: HostRun
    time_s: Floats
    demand_bytes_per_s: Floats
    stored_share: float
    bandwidth: MemoryBandwidth
    waking: Waking
    levels: tuple[LevelShare, ...]
    assumptions: tuple[Assumption, ...]

    @classmethod
    def of(
        cls, workload: Workload, profile: Profile, *, jobs: int, cores: int, model: Model = Model.CORE
    ) -> Conditions:
        """Work out the regions for `jobs` jobs that are spread over the last caches of so many cores.

        Raises:
            PredictionError: as `HostRun.of`.
        """
        alone = HostRun.of(workload, profile, model)
        sharing = -(-jobs // last_caches(profile, cores))
        counts = sorted({1, *(2**power for power in range(1, sharing.bit_length()) if 2**power <= sharing), sharing})
        runs = [alone, *(HostRun.of(workload, profile, model, jobs=count) for count in counts[1:])]
        memory = alone.figures.memory
        line_bytes = float(memory.line_bytes[-1])
        line_s = float(memory.line_s[TYPICAL, :, -1].min())
        bandwidth = MemoryBandwidth.of(profile, line_bytes / max(line_s, 1e-30), cores)
        times = np.stack([run.times.time_s[TYPICAL] for run in runs])
        loaded, stored = (np.stack([_line_s(run, bandwidth, stores) for run in runs]) for stores in (False, True))
        busy = np.minimum(loaded + stored, times)  # seconds at the bandwidth of one thread
        demand = bandwidth.alone_bytes_per_s * np.divide(busy, times, out=np.zeros_like(busy), where=times > 0)
        at = np.arange(1, sharing + 1)
        total = float((loaded[0] + stored[0]).sum())
        return cls(
            run=alone,
            time_s=_between(at, counts, np.maximum.accumulate(times)),
            demand_bytes_per_s=_between(at, counts, demand),
            stored_share=float(stored[0].sum()) / total if total else 0.0,
            bandwidth=bandwidth,
            waking=waking_of(profile)[0],
            levels=_levels(profile, runs[-1], sharing),
            assumptions=(*bandwidth.assumptions, *_unknown_sharing(workload, profile, jobs), *_unknown_cores(profile)),
        )

    def sharing(self, region: int, cache: str, interpreter: str | None = None) -> Sharing:
        """Resource use of a region beside what else runs on the machine.

        Args:
            region: of the workload.
            cache: the last cache of the region's core.
            interpreter: whose lock the threads of a Python program share; None for one thread, or no Python.
        """
        alone_s = float(self.time_s[0, region])
        if alone_s <= 0:
            return Sharing(CORES)
        rows = zip(self.time_s[:, region].tolist(), self.demand_bytes_per_s[:, region].tolist(), strict=True)
        conditions = tuple((alone_s / time_s, demand) for time_s, demand in rows)
        if interpreter is not None and self.run.workload.regions[region].kind is not LoopKind.ARRAY:
            return Sharing(CORES, cache, (interpreter,), tuple((speed, 1.0) for speed, _ in conditions))
        if not any(demand for _, demand in conditions):
            return Sharing(CORES, cache, (), conditions)
        return Sharing(CORES, cache, (MEMORY,), conditions)


WAKING_FIGURES = ("line_transfer_latency_s", "thread_wake_latency_s", "thread_wake_call_s")


def waking_of(profile: Profile) -> tuple[Waking, tuple[Assumption, ...]]:
    """Wake-up latencies of threads, with what was assumed."""
    assumed = Assumptions()
    figures = (core_figure(profile, name, assumed).typical for name in WAKING_FIGURES)
    return Waking(*figures), assumed.listed


def _between(at: np.typing.NDArray[np.int64], counts: list[int], values: Floats) -> Floats:
    """[at, regions]: between the counts of jobs that were worked out on lines."""
    return np.stack([np.interp(at, counts, column) for column in values.T], axis=1)


def _line_s(run: HostRun, bandwidth: MemoryBandwidth, stores: bool) -> Floats:
    """[regions]: seconds that one thread takes at full bandwidth for the lines that loads, or stores, miss."""
    return line_s(run.workload, run.misses.misses[:, -1], float(run.figures.memory.line_bytes[-1]), bandwidth, stores)


def line_s(workload: Workload, misses: Floats, line_bytes: float, bandwidth: MemoryBandwidth, stores: bool) -> Floats:
    """Seconds at full bandwidth for some misses of the last cache, [operations]."""
    lines = misses * (workload.operations.is_store == stores)
    of_regions = np.bincount(workload.operations.region, weights=lines, minlength=len(workload.regions))
    rate = bandwidth.store_bytes_per_s if stores else bandwidth.alone_bytes_per_s
    return np.asarray(of_regions * line_bytes / rate, np.float64)


def _levels(profile: Profile, run: HostRun, jobs: int) -> tuple[LevelShare, ...]:
    """Each job's part of the caches; all parts together are no more than the caches hold."""
    counts, levels = jobs_of_levels(profile, jobs), run.misses.hierarchy.levels
    check_held(profile, [level.size_bytes for level in levels], counts)
    return tuple(
        LevelShare(cache.name, cache.size_bytes, count, level.size_bytes)
        for cache, count, level in zip(profile.caches, counts, levels, strict=True)
    )


def _unknown_sharing(workload: Workload, profile: Profile, jobs: int) -> tuple[Assumption, ...]:
    found = []
    if jobs > 1 and profile.caches[-1].shared_by_cores is None:
        text = f"how many cores share {profile.caches[-1].name} is not in the profile: all are taken to"
        found.append(Assumption("shared_by_cores", text))
    if jobs > 1 and workload.signature.reuse is None:
        text = (
            "the signature holds no reuse distances: misses of each copy in its part of a cache are taken to lie "
            "between those of the caches simulated"
        )
        found.append(Assumption("shared_cache", text))
    return tuple(found)


def _unknown_cores(profile: Profile) -> tuple[Assumption, ...]:
    if profile.core is not None and profile.core.cores is not None:
        return ()
    return (Assumption("cores", "not in the profile: each thread is taken to have a core of its own"),)
