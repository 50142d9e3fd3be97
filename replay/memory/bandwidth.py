"""Bandwidth of main memory that 1, 2, ... threads get together: a profile's thread curves, or its published peak."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from foretrace.base.units import format_bytes_per_s
from foretrace.profiles.points import Movement, ThreadPoint
from foretrace.profiles.profile import Profile
from foretrace.profiles.ranges import Assumption
from foretrace.replay.base.spread import Floats


@dataclass(frozen=True, slots=True, eq=False)
class MemoryBandwidth:
    """Bandwidth of main memory by the number of threads.

    Attributes:
        alone_bytes_per_s: to one thread that loads.
        store_bytes_per_s: to one thread that stores.
        load_shares: [threads] what 1, 2, ... threads get together, over what one gets. The last one holds for more.
        store_shares: the same of stores.
        is_measured: whether the profile has curves of several threads.
        assumptions: what the profile does not give.
    """

    alone_bytes_per_s: float
    store_bytes_per_s: float
    load_shares: Floats
    store_shares: Floats
    assumptions: tuple[Assumption, ...]
    is_measured: bool = False

    @classmethod
    def of(cls, profile: Profile, line_bytes_per_s: float, cores: int) -> MemoryBandwidth:
        """Read a profile.

        Args:
            profile: of a host.
            line_bytes_per_s: bandwidth of one core's stream by the model, where the profile does not give it.
            cores: of the machine, where it gives neither curve nor peak.
        """
        loads, stores = (_curve(profile.thread_bandwidth, movement) for movement in (Movement.LOAD, Movement.STORE))
        memory = profile.memory
        if loads is not None:
            others = loads if stores is None else stores
            beyond = _beyond(len(loads), cores)
            return cls(loads[0], others[0], loads / loads[0], others / others[0], beyond, is_measured=True)
        alone = (memory.core_read_bandwidth_bytes_per_s if memory else None) or line_bytes_per_s
        store = (memory.core_write_bandwidth_bytes_per_s if memory else None) or alone
        total = (memory.sustained_bandwidth_bytes_per_s or memory.peak_bandwidth_bytes_per_s) if memory else None
        if total is None:
            shares = np.arange(1.0, cores + 1)
            text = "not in the profile, nor a peak: memory is taken to serve each core as if it were alone"
            return cls(alone, store, shares, shares, (Assumption("thread_bandwidth", text),))
        most = max(total / alone, 1.0)
        shares = np.minimum(np.arange(1.0, math.ceil(most) + 1), most)
        sustained = "sustained" if memory is not None and memory.sustained_bandwidth_bytes_per_s else "peak"
        text = (
            f"not in the profile: threads are taken to share the {sustained} bandwidth, {format_bytes_per_s(total)}, "
            f"each up to {format_bytes_per_s(alone)}"
        )
        return cls(alone, store, shares, shares, (Assumption("thread_bandwidth", text),))

    def points(self, stored_share: float) -> tuple[float, ...]:
        """Bytes/s that 1, 2, ... threads get together, counted as loads.

        Args:
            stored_share: of the time at the bandwidth, the part that is of lines that are stored to.
        """
        size = max(len(self.load_shares), len(self.store_shares))
        loads, stores = (
            np.concatenate([shares, np.full(size - len(shares), shares[-1])])
            for shares in (self.load_shares, self.store_shares)
        )
        mixed = 1 / ((1 - stored_share) / loads + stored_share / stores)
        return tuple((self.alone_bytes_per_s * np.maximum(mixed, 1.0)).tolist())

    def scaled(self, factor: float) -> MemoryBandwidth:
        """A memory of `factor` times the bandwidth for several threads; one gets no more than before."""
        size = math.ceil(factor * max(len(self.load_shares), len(self.store_shares)))
        users = np.arange(1.0, size + 1)

        def more(shares: Floats) -> Floats:
            at = np.interp(users / factor, np.arange(1.0, len(shares) + 1), shares)
            return np.asarray(np.minimum(np.maximum(factor * at, 1.0), users), np.float64)

        return MemoryBandwidth(
            self.alone_bytes_per_s, self.store_bytes_per_s, more(self.load_shares), more(self.store_shares),
            self.assumptions, self.is_measured,
        )  # fmt: skip


def _curve(points: Iterable[ThreadPoint], movement: Movement) -> Floats | None:
    """Bandwidth of 1, 2, ... threads in the largest working set measured; None if one thread was not."""
    found = [point for point in points if point.movement is movement]
    largest = max((point.working_set_bytes for point in found), default=0)
    by_threads = {p.threads: p.bandwidth_bytes_per_s for p in found if p.working_set_bytes == largest}
    if 1 not in by_threads:
        return None
    threads = sorted(by_threads)
    found_for_all = np.interp(np.arange(1.0, threads[-1] + 1), threads, [by_threads[n] for n in threads])
    return np.asarray(found_for_all, np.float64)


def _beyond(measured: int, cores: int) -> tuple[Assumption, ...]:
    if measured >= cores:
        return ()
    text = f"measured for {measured} threads at most: more of them are taken to get no more together"
    return (Assumption("thread_bandwidth", text),)
