"""The cache simulator alone, fed from memory, beside pycachesim.

Both simulate the same two levels. foretrace also keeps statistics of each memory operation, which cannot be turned off;
reuse distances can. pycachesim is given Python lists, the fastest of the ways it offers for single accesses.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.harness.results import ResultTable
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.simulator import DEFAULT_REUSE_RATE, Simulator

ACCESS_BYTES = 8
_PIECES = 4
_REPETITIONS = 3

Addresses = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Speed:
    """Accesses simulated per second, by wall clock: the best of several runs. None: not installed."""

    stream: str
    misses_share: float
    foretrace: float
    with_reuse: float
    pycachesim: float | None


def _streams(num_accesses: int) -> dict[str, Addresses]:
    """One that mostly hits, one that reads on and on, and a random one."""
    every = np.arange(num_accesses, dtype=np.uint64) * np.uint64(ACCESS_BYTES)
    random = np.random.default_rng(1).integers(0, (64 << 20) // ACCESS_BYTES, num_accesses, np.uint64)
    return {
        "16 KiB again and again": every % np.uint64(16 << 10),
        "64 MiB in order": every % np.uint64(64 << 20),
        "64 MiB at random": random * np.uint64(ACCESS_BYTES),
    }


def measure(num_accesses: int) -> list[Speed]:
    """Simulate each stream, `num_accesses` long."""
    speeds = []
    for name, addresses in _streams(num_accesses).items():
        simulator = Simulator([Hierarchy.parse(tools.HIERARCHY)], reuse_rate=None)
        simulator.feed(addresses, ACCESS_BYTES, 0)
        misses_share = float(simulator.simulated()[0].misses[:, 0].sum()) / num_accesses
        speeds.append(
            Speed(
                name,
                misses_share,
                num_accesses / _best_s(lambda a=addresses: _foretrace(a, None)),  # type: ignore[misc]
                num_accesses / _best_s(lambda a=addresses: _foretrace(a, DEFAULT_REUSE_RATE)),  # type: ignore[misc]
                _pycachesim(addresses),
            )
        )
    return speeds


def _best_s(run: Callable[[], float]) -> float:
    return min(run() for _ in range(_REPETITIONS))


def _foretrace(addresses: Addresses, reuse_rate: float | None) -> float:
    simulator = Simulator([Hierarchy.parse(tools.HIERARCHY)], reuse_rate=reuse_rate)
    pieces = np.array_split(addresses, _PIECES)
    start = time.perf_counter()
    for piece in pieces:
        simulator.feed(piece, ACCESS_BYTES, 0)
    simulator.statistics()
    return time.perf_counter() - start


def _pycachesim(addresses: Addresses) -> float | None:
    if importlib.util.find_spec("cachesim") is None:
        return None
    cachesim = importlib.import_module("cachesim")
    numbers = addresses.tolist()

    def run() -> float:
        simulator = _simulator(cachesim)
        start = time.perf_counter()
        simulator.load(numbers)
        return time.perf_counter() - start

    return len(numbers) / _best_s(run)


def _simulator(cachesim: Any) -> Any:
    """The levels of `tools.HIERARCHY`, as pycachesim has them."""
    last, first = reversed(Hierarchy.parse(tools.HIERARCHY).levels)
    memory = cachesim.MainMemory()
    outer = cachesim.Cache(last.name, last.num_sets, last.ways, last.line_bytes, "LRU")
    inner = cachesim.Cache(
        first.name, first.num_sets, first.ways, first.line_bytes, "LRU", load_from=outer, store_to=outer
    )
    memory.load_to(outer)
    memory.store_from(outer)
    return cachesim.CacheSimulator(inner, memory)


def speed_table(speeds: list[Speed]) -> ResultTable:
    """Millions of accesses per second."""
    rows = []
    for speed in speeds:
        peer = "-" if speed.pycachesim is None else f"{speed.pycachesim / 1e6:.1f}"
        own = (f"{value / 1e6:.1f}" for value in (speed.foretrace, speed.with_reuse))
        rows.append([speed.stream, f"{speed.misses_share:.1%}", *own, peer])
    title = f"The simulator alone, million accesses per second ({tools.HIERARCHY})"
    headings = ("stream", "L1 misses", "foretrace", "with reuse distances", "pycachesim")
    return ResultTable(title, headings, rows, [asdict(speed) for speed in speeds])
