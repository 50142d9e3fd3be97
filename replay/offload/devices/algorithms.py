"""Sorts and searches on a device: library algorithms that are not one pass over their arrays.

A device sorts by least significant digits of 8 bits: one pass that counts them, and one for each digit of the key,
which reads and writes keys and what goes with them. Adinets and Merrill (Onesweep, arXiv:2206.01784, 2022) sort 256 M
keys of 32 bits at 29.4 G/s on an A100 with 80 GB, which moves 36 bytes for each at 55 % of its 1,935 GB/s (NVIDIA's
data sheet), and 1.5 times as fast as CUB did before, with 3n operations for each digit. A partition is a sort at most;
a selection by digits reads the keys alone, some three times. A search is one thread for each value that is sought, with
loads that follow on one another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretrace.replay.base.spread import Floats

from .array_calls import array_operation
from .device import Rates
from .work import Work

BANDWIDTH_SHARE = (0.75, 0.6, 0.4)
"""Share of a level's measured bandwidth in a pass of a sort: fast, typical, slow. 55 % of the peak are about 0.6 of
what streams get there; 0.4 is what CUB did before; nobody has published more than the typical one."""
PASS_FLOOR_S = (2e-6, 4e-6, 8e-6)
"""The least that a pass takes, whatever its size: tiles wait for the counts of those before them. Assumed."""
_SELECTIONS = 3
"""Reads of all keys in a selection by digits of 8 bits, until few are left."""


@dataclass(frozen=True, slots=True)
class SortWork:
    """Mean work of one sort: elements, bytes of a key, bytes that go with it, passes, kernels.

    `least_passes` may do for a selection.
    """

    elements: float
    key_bytes: float
    value_bytes: float
    passes: int
    least_passes: int

    @property
    def launches(self) -> int:
        """A count of the digits, a scan of the counts, and a pass for each digit."""
        return self.passes + 2

    @property
    def moved_bytes(self) -> float:
        """By all passes."""
        return self.elements * (self.key_bytes + 2 * self.passes * (self.key_bytes + self.value_bytes))


_SORTS = {
    "sort": 0, "argsort": 8, "partition": 0, "argpartition": 8, "_unique_hash": 0, "unique": 0,
    "median": 0,
}  # fmt: skip
"""By the last part of the name: bytes of what goes with a key."""
_SELECTING = ("partition", "argpartition", "median")
_SEARCHES = ("searchsorted",)


def is_known(name: str) -> bool:
    """Whether it is known how a device does this operation, whose time does not follow from what it touches."""
    return _last(name) in _SORTS or _last(name) in _SEARCHES


def is_search(name: str) -> bool:
    """Whether each of its results takes loads that follow on one another."""
    return _last(name) in _SEARCHES


def sort_of(work: Work, node: int) -> SortWork | None:
    """The sort that an array operation is; None: another one."""
    name = _last(array_operation(work, node))
    if name not in _SORTS:
        return None
    calls = max(int(work.entries[node]), 1)
    operations = work.operations_of(node)
    if not operations:
        return None
    loaded = [one for one in operations if not one.is_store] or operations
    elements = max(max(one.executions for one in operations) / calls, 1.0)
    key_bytes = sum(one.total_bytes for one in loaded) / calls / elements
    passes = max(round(key_bytes), 1)
    least = min(_SELECTIONS, passes) if name in _SELECTING else passes
    return SortWork(elements, key_bytes, float(_SORTS[name]), passes, least)


def sort_s(sort: SortWork, rates: Rates) -> Floats:
    """Seconds of one call, [fast, typical, slow]: at the bandwidth of the level that holds both copies of the array."""
    held_bytes = 2 * sort.elements * (sort.key_bytes + sort.value_bytes)
    per_s = rates.l2_bytes_per_s if held_bytes <= rates.l2_bytes else rates.memory_bytes_per_s
    moved = np.full(3, sort.moved_bytes)
    if sort.least_passes < sort.passes:
        moved[0] = sort.least_passes * sort.elements * sort.key_bytes
    floor = np.array(PASS_FLOOR_S) * np.array([sort.least_passes, sort.passes, sort.passes])
    seconds: Floats = np.maximum(moved / (per_s * np.array(BANDWIDTH_SHARE)), floor)
    return seconds


def searched(work: Work, node: int) -> float:
    """Values that all calls of a search look for."""
    operations = work.operations_of(node)
    stored = [one.executions for one in operations if one.is_store]
    return float(max(stored, default=max((one.executions for one in operations), default=1)))


def _last(name: str) -> str:
    return name.rpartition(".")[2]
