"""How fast the simulator is on this machine, fed from memory: `python -m foretrace.benchmarks.peers.simulator_rate`."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from foretrace.cache_sim.base.hierarchy import DEFAULT_HIERARCHY, Hierarchy
from foretrace.cache_sim.simulator import DEFAULT_REUSE_RATE, Simulator

_ACCESSES = 1 << 22
_REPEATS = 8
_MEMORY_SYSTEM = Hierarchy.parse(
    "L1=32K/8/64/plru/write-back,L2=1M/16/64/plru,L3=16M/16/64/plru,DTLB=64/4/4K/tlb/plru,STLB=1536/12/4K/tlb"
)


def _streams(num_accesses: int) -> dict[str, tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]]:
    """Addresses and operations of 8-byte accesses."""
    position = np.arange(num_accesses, dtype=np.uint64)
    operation = (position % np.uint64(4)).astype(np.uint32)
    random = np.random.default_rng(0)
    return {
        "one array of 16 KB": (position % np.uint64(2048) * np.uint64(8), operation * np.uint32(0)),
        "four arrays of 32 MB": (
            (position // np.uint64(4) % np.uint64(1 << 22) + operation * np.uint64(1 << 23)) * np.uint64(8),
            operation,
        ),
        "random in 16 KB": (random.integers(0, 2048, num_accesses, dtype=np.uint64) * np.uint64(8), operation),
        "random in 64 MB": (random.integers(0, 1 << 23, num_accesses, dtype=np.uint64) * np.uint64(8), operation),
    }


def accesses_per_s(
    addresses: npt.NDArray[np.uint64],
    operations: npt.NDArray[np.uint32],
    hierarchy: Hierarchy,
    reuse_rate: float | None,
) -> float:
    """Best of a few runs in steady state, past the checks of `feed`. Every fourth access is a store."""
    sizes = np.full(len(addresses), 8, dtype=np.uint16)
    stores = (np.arange(len(addresses)) % 4 == 3).astype(np.uint8)
    core = Simulator([hierarchy], reuse_rate=reuse_rate)._core
    best_s = float("inf")
    for _ in range(1 + _REPEATS):
        start = time.perf_counter()
        core.feed(addresses, sizes, operations, stores)
        _ = core.num_operations  # known once all is simulated
        best_s = min(best_s, time.perf_counter() - start)
    return len(addresses) / best_s


def main() -> None:
    """Print a table: two LRU levels with and without reuse distances, then three levels of tree-PLRU with TLBs."""
    sampled = f"reuse sampled at 1/{1 / DEFAULT_REUSE_RATE:.0f}"
    print(f"{'M accesses/s':24}  {sampled}   not sampled   memory system")
    for name, stream in _streams(_ACCESSES).items():
        speeds = [
            accesses_per_s(*stream, hierarchy, rate) / 1e6
            for hierarchy, rate in (
                (DEFAULT_HIERARCHY, DEFAULT_REUSE_RATE),
                (DEFAULT_HIERARCHY, None),
                (_MEMORY_SYSTEM, None),
            )
        ]
        print(f"{name:24}  {speeds[0]:{len(sampled)}.0f}   {speeds[1]:11.0f}   {speeds[2]:13.1f}")


if __name__ == "__main__":
    main()
