"""The simulated caches alone, for callers that feed an address stream at once and ask for results later.

Needed before a traced program starts, so what takes long to import has no place here.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.base.errors import ForetraceError, HierarchyError
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.memory.memory_plan import plan_of
from foretrace.cache_sim.simulation import _core

DEFAULT_REUSE_RATE = 1 / 64
"""Share of the blocks of 256 bytes that are sampled. See reuse.c for the rates of the other samples."""

_MAX_RATE_SHIFT = 9
_EXACT_ACCESSES, _BURST_ACCESSES, _WARM_ACCESSES = 1 << 15, 1 << 10, 1 << 11


class SimulatorCore:
    """The C core that a `Simulator` wraps: same arguments and errors, but it only offers the sink."""

    def __init__(self, hierarchies: Sequence[Hierarchy], reuse_rate: float | None = DEFAULT_REUSE_RATE) -> None:
        """Allocate the simulated caches."""
        self.hierarchies = tuple(hierarchies)
        levels, self.level_indices = _tree([h for h in self.hierarchies if h.is_plain])
        systems = [plan_of(h) for h in self.hierarchies if not h.is_plain]
        options = None if reuse_rate is None else _reuse_options(reuse_rate)
        try:
            self.core = _core.Simulator(levels, systems, options)
        except MemoryError:
            wanted = "; ".join(hierarchy.spec for hierarchy in self.hierarchies)
            raise HierarchyError(f"memory cannot hold the state of the simulated caches {wanted}") from None

    @property
    def sink(self) -> object:
        """See `Simulator.sink`."""
        return self.core.sink


def _tree(hierarchies: Sequence[Hierarchy]) -> tuple[list[tuple[int, int, int, int]], list[list[int]]]:
    """The levels as (num_sets, ways, line_shift, parent), shared prefixes once; and each hierarchy's level indices."""
    levels: list[tuple[int, int, int, int]] = []
    index_of: dict[tuple[int, int, int, int], int] = {}
    paths = []
    for hierarchy in hierarchies:
        path: list[int] = []
        for level in hierarchy.levels:
            node = (level.num_sets, level.ways, level.line_bytes.bit_length() - 1, path[-1] if path else -1)
            if node not in index_of:
                index_of[node] = len(levels)
                levels.append(node)
            path.append(index_of[node])
        paths.append(path)
    return levels, paths


def _reuse_options(rate: float) -> tuple[int, int, int, int, int, int]:
    """The fields of `struct ft_reuse_options`: classes at first and in the end, bursts, and their lengths."""
    for shift in range(_MAX_RATE_SHIFT + 1):
        if rate == 2.0**-shift:
            exact_accesses = _EXACT_ACCESSES if shift else 1 << 62
            burst_shift = min(shift + 2, _MAX_RATE_SHIFT) if shift else 0
            return min(shift, 2), shift, burst_shift, _BURST_ACCESSES, _WARM_ACCESSES, exact_accesses
    raise ForetraceError(f"reuse_rate is {rate!r}, must be None, 1, 1/2, 1/4, ... down to 2**-{_MAX_RATE_SHIFT}")
