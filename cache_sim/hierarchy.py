"""What a cache hierarchy is: levels with a size, a number of ways and a line size, and how users write one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from foretrace.errors import HierarchyError

_SUFFIXES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE = re.compile(r"^(\d+)\s*([kmg]?)(?:i?b)?$", re.IGNORECASE)
MAX_LEVELS = 8
MAX_WAYS = 1 << 16
MAX_LINE_BYTES = 1 << 16
MAX_CACHE_BYTES = 1 << 36


def parse_size_bytes(text: str) -> int:
    """Read a size such as `32K`, `6M`, `65536` or `1 MiB` (powers of 1024).

    Raises:
        HierarchyError: it is not a size.
    """
    match = _SIZE.match(text.strip())
    if not match:
        raise HierarchyError(f"{text!r} is not a size: write bytes, or a number with K, M or G (powers of 1024)")
    return int(match[1]) * _SUFFIXES[match[2].lower()]


@dataclass(frozen=True, slots=True)
class Level:
    """One cache level: `size_bytes` of lines of `line_bytes`, in sets of `ways`, replaced least recently used first.

    Raises:
        HierarchyError: no cache can have these figures.
    """

    name: str
    size_bytes: int
    ways: int
    line_bytes: int

    def __post_init__(self) -> None:
        """Refuse what no cache can be."""
        for field in ("size_bytes", "ways", "line_bytes"):
            value = getattr(self, field)
            if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
                raise HierarchyError(f"cache level {self.name}: {field} is {value!r}, must be a positive whole number")
        if self.line_bytes & (self.line_bytes - 1) or self.line_bytes > MAX_LINE_BYTES:
            raise HierarchyError(
                f"cache level {self.name}: line_bytes is {self.line_bytes}, "
                f"must be a power of two up to {MAX_LINE_BYTES}"
            )
        if self.ways > MAX_WAYS:
            raise HierarchyError(f"cache level {self.name}: ways is {self.ways}, at most {MAX_WAYS} can be simulated")
        if self.size_bytes > MAX_CACHE_BYTES:
            raise HierarchyError(
                f"cache level {self.name}: size_bytes is {self.size_bytes}, at most {MAX_CACHE_BYTES} can be simulated"
            )
        if self.size_bytes % (self.ways * self.line_bytes):
            raise HierarchyError(
                f"cache level {self.name}: size_bytes is {self.size_bytes}, "
                f"must be a multiple of ways x line_bytes = {self.ways * self.line_bytes}"
            )

    @property
    def num_sets(self) -> int:
        """Number of sets; not necessarily a power of two."""
        return self.size_bytes // (self.ways * self.line_bytes)


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Cache levels, nearest to the core first. An access missing one level goes to the next; all allocate on a miss.

    Raises:
        HierarchyError: no level, too many, two with one name, or lines that shrink outwards.
    """

    name: str
    levels: tuple[Level, ...]

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated."""
        if not 1 <= len(self.levels) <= MAX_LEVELS:
            raise HierarchyError(f"hierarchy {self.name}: has {len(self.levels)} levels, must have 1 to {MAX_LEVELS}")
        if len({level.name for level in self.levels}) != len(self.levels):
            raise HierarchyError(f"hierarchy {self.name}: two levels have the same name")
        for inner, outer in zip(self.levels, self.levels[1:], strict=False):
            if outer.line_bytes < inner.line_bytes:
                raise HierarchyError(
                    f"hierarchy {self.name}: line_bytes of {outer.name} is {outer.line_bytes}, "
                    f"must be at least that of {inner.name}, {inner.line_bytes}"
                )

    @property
    def spec(self) -> str:
        """The hierarchy in the notation `parse` reads."""
        return ",".join(f"{v.name}={v.size_bytes}/{v.ways}/{v.line_bytes}" for v in self.levels)

    @classmethod
    def parse(cls, text: str, name: str | None = None) -> Hierarchy:
        """Read `L1=32K/8/64,LL=1M/16/64`: name=size/ways/line bytes, nearest level first.

        Raises:
            HierarchyError: it does not have that form, or a figure is impossible.
        """
        levels = []
        for part in text.split(","):
            match = re.match(r"^\s*([A-Za-z][\w.+-]{0,31})\s*=\s*([^/]+)/\s*(\d+)\s*/\s*([^/]+)$", part)
            if not match:
                raise HierarchyError(f"{part!r} is not a cache level: write NAME=SIZE/WAYS/LINE, e.g. L1=32K/8/64")
            levels.append(Level(match[1], parse_size_bytes(match[2]), int(match[3]), parse_size_bytes(match[4])))
        return cls(name or text, tuple(levels))


DEFAULT_HIERARCHY = Hierarchy.parse("L1=32K/8/64,LL=1M/16/64", name="default")
"""What is simulated when nobody names a machine: a common first level, and a last level small enough to matter."""
