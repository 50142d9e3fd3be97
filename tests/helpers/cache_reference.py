"""The simulator again, slow and obvious: what the C core is compared with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from foretrace.cache_sim.base.hierarchy import Hierarchy, Level


@dataclass(frozen=True, slots=True)
class Access:
    """One data access."""

    address: int
    size_bytes: int
    operation: int

    def lines(self, line_bytes: int) -> range:
        """Numbers of the lines it touches."""
        return range(self.address // line_bytes, (self.address + self.size_bytes - 1) // line_bytes + 1)


class ReferenceLevel:
    """One cache level: a list of addresses for each set, most recently used first."""

    def __init__(self, level: Level) -> None:
        """Start empty."""
        self.level = level
        self.sets: dict[int, list[int]] = {}

    def missing(self, addresses: Iterable[int]) -> list[int]:
        """Look up the lines of these addresses, one after the other. Return those addresses that missed."""
        missed = []
        for address in addresses:
            line = address // self.level.line_bytes
            lines = self.sets.setdefault(line % self.level.num_sets, [])
            if line in lines:
                lines.remove(line)
            else:
                missed.append(address)
            lines.insert(0, line)
            del lines[self.level.ways :]
        return missed


def simulate(hierarchy: Hierarchy, accesses: Iterable[Access]) -> list[Counter[int]]:
    """Misses of each operation, for each level."""
    levels = [ReferenceLevel(level) for level in hierarchy.levels]
    misses: list[Counter[int]] = [Counter() for _ in levels]
    line_bytes = hierarchy.levels[0].line_bytes
    for access in accesses:
        addresses = [line * line_bytes for line in access.lines(line_bytes)]
        for level, level_misses in zip(levels, misses, strict=True):
            addresses = level.missing(addresses)
            level_misses[access.operation] += bool(addresses)
    return misses


@dataclass(slots=True)
class ReferenceStatistics:
    """Totals of one operation, named as in `OperationStatistics`."""

    accesses: list[Access] = field(default_factory=list)

    def totals(self) -> dict[str, int]:
        """Count what `accesses` hold."""
        patterns = Counter[str]()
        distance_before = None
        for before, access in zip(self.accesses, self.accesses[1:], strict=False):
            distance = access.address - before.address
            if distance == 0:
                patterns["repeated"] += 1
            elif distance == before.size_bytes or distance == -access.size_bytes:
                patterns["unit_stride"] += 1
            elif distance == distance_before:
                patterns["strided"] += 1
            else:
                patterns["irregular"] += 1
            distance_before = distance
        return {
            "executions": len(self.accesses),
            "total_bytes": sum(access.size_bytes for access in self.accesses),
            "size_bytes": max((access.size_bytes for access in self.accesses), default=0),
            "first": min((access.address for access in self.accesses), default=0),
            "last_exclusive": max((access.address + access.size_bytes for access in self.accesses), default=0),
            **{name: patterns[name] for name in ("repeated", "unit_stride", "strided", "irregular")},
        }


def statistics(accesses: Iterable[Access], num_operations: int) -> list[dict[str, int]]:
    """Totals of each operation."""
    operations = [ReferenceStatistics() for _ in range(num_operations)]
    for access in accesses:
        operations[access.operation].accesses.append(access)
    return [operation.totals() for operation in operations]


def set_distances(accesses: Sequence[Access], line_bytes: int, num_sets: int) -> list[int | None]:
    """Distinct lines of its set touched since the line of each access was touched last; None for a first touch.

    An access of several lines touches them in ascending order, and has the largest of the distances of those in its
    last 256 bytes.
    """
    distances: list[int | None] = []
    recent: dict[int, list[int]] = {}
    for access in accesses:
        last_block = (access.address + access.size_bytes - 1) // 256
        largest: float = 0
        for line in access.lines(line_bytes):
            lines = recent.setdefault(line % num_sets, [])
            distance = lines.index(line) if line in lines else math.inf
            if line in lines:
                lines.remove(line)
            lines.insert(0, line)
            if line * line_bytes // 256 == last_block:
                largest = max(largest, distance)
        distances.append(None if largest == math.inf else int(largest))
    return distances
