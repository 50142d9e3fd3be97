"""One level of a memory hierarchy, a cache or a TLB: its parameters, their valid values, and the users' notation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from foretrace.base.errors import HierarchyError, quoted

_SUFFIXES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE = re.compile(r"^(\d{1,19})\s*([kmg]?)(?:i?b)?$", re.IGNORECASE)
MAX_WAYS = 1 << 16
MAX_LINE_BYTES = 1 << 16
MAX_CACHE_BYTES = 1 << 36
MAX_TREE_WAYS = 64
MAX_VICTIM_LINES = 1 << 10
MAX_PREFETCH_DEGREE = 16
MAX_TLB_ENTRIES = 1 << 16
MIN_PAGE_BYTES, MAX_PAGE_BYTES = 1 << 12, 1 << 30


class Replacement(StrEnum):
    """Replacement policy: how a set chooses the line to evict."""

    LRU = "lru"  # the least recently used
    PLRU = "plru"  # the one a binary tree of "used last" bits points away from
    FIFO = "fifo"  # the one that came first
    RANDOM = "random"


class WritePolicy(StrEnum):
    """Write policy: how a level treats a store that hits."""

    BACK = "write-back"  # the line is dirty, and written to the next level when it leaves
    THROUGH = "write-through"  # the store goes on to the next level at once


class Inclusion(StrEnum):
    """Inclusion policy: whether a level also holds the lines of the levels inside it."""

    NON_INCLUSIVE = "non-inclusive"  # whatever it happens to
    INCLUSIVE = "inclusive"  # everything: a line that leaves it leaves those inside, too
    EXCLUSIVE = "exclusive"  # nothing: it is filled with what leaves the level inside it


class Prefetch(StrEnum):
    """Prefetcher: the lines that a level fetches ahead of demand."""

    NEXT_LINE = "next-line"  # the lines after one that missed, or that a prefetch was right about
    STRIDE = "stride"  # where a memory operation goes next if it keeps the distance it had twice


def parse_size_bytes(text: str) -> int:
    """Read a size such as `32K`, `6M`, `65536` or `1 MiB` (powers of 1024).

    Raises:
        HierarchyError: it is not a size.
    """
    match = _SIZE.match(text.strip())
    if not match:
        raise HierarchyError(f"{quoted(text)} is not a size: write bytes, or a number with K, M or G (powers of 1024)")
    return int(match[1]) * _SUFFIXES[match[2].lower()]


def refuse_unless_whole(where: str, field: str, value: object, lowest: int, highest: int | None = None) -> None:
    """Refuse what is not a whole number in a range.

    Raises:
        HierarchyError: names the place, the field and the value.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= lowest:
        if highest is None or value <= highest:
            return
        raise HierarchyError(f"{where}: {field} is {value}, at most {highest} can be simulated")
    what = "a positive whole number" if lowest == 1 else f"a whole number from {lowest}"
    raise HierarchyError(f"{where}: {field} is {value!r}, must be {what}")


@dataclass(frozen=True, slots=True)
class Level:
    """One cache level: `size_bytes` of lines of `line_bytes`, in sets of `ways`.

    Args:
        replacement: which line of a set makes room.
        write: what becomes of stores. None: a store is simulated as a load is; where anything else of the hierarchy
            asks for more than that, as `WritePolicy.BACK`.
        allocate_on_write: whether a store that misses brings its line in.
        inclusion: relation to the levels inside; a first level has none.
        victim_lines: size of a fully associative LRU buffer for the lines that leave (Jouppi, ISCA'90); 0: none.
        prefetch: the level's prefetcher; None: it has none.
        prefetch_degree: how many lines it fetches at a time.
        shared: one for all cores, not one for each.

    Raises:
        HierarchyError: no cache can have these figures.
    """

    name: str
    size_bytes: int
    ways: int
    line_bytes: int
    replacement: Replacement = Replacement.LRU
    write: WritePolicy | None = None
    allocate_on_write: bool = True
    inclusion: Inclusion = Inclusion.NON_INCLUSIVE
    victim_lines: int = 0
    prefetch: Prefetch | None = None
    prefetch_degree: int = 1
    shared: bool = False

    def __post_init__(self) -> None:
        """Refuse what no cache can be."""
        where = f"cache level {self.name}"
        for field in ("size_bytes", "ways", "line_bytes"):
            refuse_unless_whole(where, field, getattr(self, field), 1)
        if self.line_bytes & (self.line_bytes - 1) or self.line_bytes > MAX_LINE_BYTES:
            raise HierarchyError(
                f"{where}: line_bytes is {self.line_bytes}, must be a power of two up to {MAX_LINE_BYTES}"
            )
        refuse_unless_whole(where, "ways", self.ways, 1, MAX_WAYS)
        refuse_unless_whole(where, "size_bytes", self.size_bytes, 1, MAX_CACHE_BYTES)
        if self.size_bytes % (self.ways * self.line_bytes):
            raise HierarchyError(
                f"{where}: size_bytes is {self.size_bytes}, "
                f"must be a multiple of ways x line_bytes = {self.ways * self.line_bytes}"
            )
        refuse_replacement(where, self.replacement, self.ways)
        refuse_unless_whole(where, "victim_lines", self.victim_lines, 0, MAX_VICTIM_LINES)
        refuse_unless_whole(where, "prefetch_degree", self.prefetch_degree, 1, MAX_PREFETCH_DEGREE)
        if self.prefetch is None and self.prefetch_degree != 1:
            raise HierarchyError(f"{where}: prefetch_degree is {self.prefetch_degree}, but it has no prefetch")
        if self.inclusion is Inclusion.EXCLUSIVE:
            for field in ("prefetch", "victim_lines"):
                if getattr(self, field):
                    raise HierarchyError(
                        f"{where}: {field} is {getattr(self, field)}, but an exclusive level holds what leaves the "
                        f"level inside it, and nothing else: give {field} to that level"
                    )

    @property
    def num_sets(self) -> int:
        """Number of sets; not necessarily a power of two."""
        return self.size_bytes // (self.ways * self.line_bytes)

    @property
    def is_plain(self) -> bool:
        """Whether the level is described by its geometry alone, all policies at their defaults."""
        return self == Level(self.name, self.size_bytes, self.ways, self.line_bytes)

    @property
    def spec(self) -> str:
        """The level in the notation of `docs/cache-simulation.md`."""
        options: list[str] = [self.replacement] if self.replacement is not Replacement.LRU else []
        if self.write is not None:
            options.append(self.write)
        if not self.allocate_on_write:
            options.append("no-allocate")
        if self.inclusion is not Inclusion.NON_INCLUSIVE:
            options.append(self.inclusion)
        if self.victim_lines:
            options.append(f"victim={self.victim_lines}")
        if self.prefetch is not None:
            options.append(f"prefetch={self.prefetch}")
        if self.prefetch_degree != 1:
            options.append(f"degree={self.prefetch_degree}")
        if self.shared:
            options.append("shared")
        return "/".join((f"{self.name}={self.size_bytes}/{self.ways}/{self.line_bytes}", *options))


@dataclass(frozen=True, slots=True)
class Tlb:
    """One level of a translation look-aside buffer: `entries` for pages of `page_bytes`, in sets of `ways`.

    Raises:
        HierarchyError: no TLB can have these figures.
    """

    name: str
    entries: int
    ways: int
    page_bytes: int
    replacement: Replacement = Replacement.LRU

    def __post_init__(self) -> None:
        """Refuse what no TLB can be."""
        where = f"TLB {self.name}"
        refuse_unless_whole(where, "entries", self.entries, 1, MAX_TLB_ENTRIES)
        refuse_unless_whole(where, "ways", self.ways, 1)
        refuse_unless_whole(where, "page_bytes", self.page_bytes, 1)
        if self.page_bytes & (self.page_bytes - 1) or not MIN_PAGE_BYTES <= self.page_bytes <= MAX_PAGE_BYTES:
            raise HierarchyError(
                f"{where}: page_bytes is {self.page_bytes}, "
                f"must be a power of two from {MIN_PAGE_BYTES} to {MAX_PAGE_BYTES}"
            )
        if self.entries % self.ways:
            raise HierarchyError(f"{where}: entries is {self.entries}, must be a multiple of ways = {self.ways}")
        refuse_replacement(where, self.replacement, self.ways)

    @property
    def num_sets(self) -> int:
        """Number of sets; not necessarily a power of two."""
        return self.entries // self.ways

    @property
    def spec(self) -> str:
        """The TLB in the notation of `docs/cache-simulation.md`."""
        options = ("tlb", self.replacement) if self.replacement is not Replacement.LRU else ("tlb",)
        return "/".join((f"{self.name}={self.entries}/{self.ways}/{self.page_bytes}", *options))


def refuse_replacement(where: str, replacement: Replacement, ways: int) -> None:
    """Refuse tree replacement for a number of ways that no tree has.

    Raises:
        HierarchyError: tree-PLRU over a number of ways that no binary tree has.
    """
    if replacement is Replacement.PLRU and (ways & (ways - 1) or ways > MAX_TREE_WAYS):
        raise HierarchyError(f"{where}: ways is {ways}, must be a power of two up to {MAX_TREE_WAYS} for plru")


# ---- notation -------------------------------------------------------------------------------------------------------

FORM = "NAME=SIZE/WAYS/LINE, e.g. L1=32K/8/64"
_PART = re.compile(r"^\s*([A-Za-z][\w.+-]{0,31})\s*=\s*([^/]+)/\s*(\d{1,9})\s*/\s*([^/]+)((?:/[^/]+)*)$")
_WORDS: dict[str, tuple[str, Any]] = {
    **{str(v): ("replacement", v) for v in Replacement},
    **{str(v): ("write", v) for v in WritePolicy},
    **{str(v): ("inclusion", v) for v in Inclusion},
    "allocate": ("allocate_on_write", True),
    "no-allocate": ("allocate_on_write", False),
    "shared": ("shared", True),
    "private": ("shared", False),
    "instructions": ("kind", "instructions"),
    "tlb": ("kind", "tlb"),
}
_NUMBERS = {"victim": "victim_lines", "degree": "prefetch_degree"}
_KNOWN = (*_WORDS, "victim=N", "prefetch=next-line", "prefetch=stride", "degree=N")


def parse_level(text: str) -> tuple[str, Level | Tlb]:
    """Read one part of a hierarchy: its kind ("data", "instructions" or "tlb"), and the level.

    Raises:
        HierarchyError: it does not have that form, or a figure is impossible.
    """
    match = _PART.match(text)
    if not match:
        raise HierarchyError(f"{quoted(text)} is not a cache level: write {FORM}")
    name, size, ways = match[1], parse_size_bytes(match[2]), int(match[3])
    granule_bytes = parse_size_bytes(match[4])
    fields: dict[str, Any] = {}
    for word in match[5].split("/")[1:]:
        field, value = _option(name, word.strip().lower())
        if fields.setdefault(field, value) != value:
            raise HierarchyError(f"level {name}: {quoted(word)} contradicts an earlier option for {field}")
    kind = fields.pop("kind", "data")
    if kind != "tlb":
        return kind, Level(name, size, ways, granule_bytes, **fields)
    for field, value in fields.items():
        if field != "replacement":
            raise HierarchyError(f"TLB {name}: {field} is {value}, but a TLB has no such thing")
    return kind, Tlb(name, size, ways, granule_bytes, **fields)


def _option(name: str, word: str) -> tuple[str, Any]:
    """Field and value of an option."""
    key, _, value = word.partition("=")
    if word in _WORDS:
        return _WORDS[word]
    if key in _NUMBERS and re.fullmatch(r"\d{1,18}", value):
        return _NUMBERS[key], int(value)
    if key == "prefetch" and value in tuple(Prefetch):
        return "prefetch", Prefetch(value)
    close = get_close_matches(word, _KNOWN, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(_KNOWN)}"
    raise HierarchyError(f"level {name}: {quoted(word)} is not an option; {hint}")
