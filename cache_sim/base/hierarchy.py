"""Description of a memory hierarchy: cache levels, TLBs and instruction cache, and the notation users write."""

from __future__ import annotations

import re
from dataclasses import dataclass

from foretrace.base.errors import HierarchyError, quoted, shortened

from .level import Inclusion, Prefetch, Replacement, Tlb, WritePolicy, parse_level, refuse_unless_whole
from .level import Level as Level
from .level import parse_size_bytes as parse_size_bytes

MAX_LEVELS = 8
MAX_TLBS = 2
MAX_CORES = 1024
_NUMBER = re.compile(r"^\s*(cores|seed)\s*=\s*(\d{1,20})\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Cache levels, nearest to the core first. An access missing one level goes to the next; all allocate on a miss.

    Args:
        name: for reports; it has no meaning.
        levels: of data caches. The first may be split: see `instruction`.
        tlbs: that every data access is translated by, nearest first.
        instruction: a first-level instruction cache. What it misses goes to the second level. None: instructions are
            not simulated.
        cores: thread n runs on core n modulo this, which has levels and TLBs of its own, but for the `shared` levels.
        seed: of random replacement.

    Raises:
        HierarchyError: no such hierarchy can be simulated; names the level, the field and the value.
    """

    name: str
    levels: tuple[Level, ...]
    tlbs: tuple[Tlb, ...] = ()
    instruction: Level | None = None
    cores: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated."""
        where = self._label
        if not 1 <= len(self.levels) <= MAX_LEVELS:
            raise HierarchyError(f"{where}: has {len(self.levels)} levels, must have 1 to {MAX_LEVELS}")
        names = [part.name for part in self.parts]
        if len(set(names)) != len(names):
            raise HierarchyError(f"{where}: two levels have the same name")
        refuse_unless_whole(where, "cores", self.cores, 1, MAX_CORES)
        refuse_unless_whole(where, "seed", self.seed, 0, (1 << 64) - 1)
        for inner, outer in zip(self.levels, self.levels[1:], strict=False):
            self._refuse_neighbours(inner, outer)
        self._refuse_first_level()
        self._refuse_instruction_level()
        self._refuse_private_levels()
        self._refuse_tlbs()

    @property
    def _instruction_levels(self) -> tuple[Level, ...]:
        return () if self.instruction is None else (self.instruction,)

    @property
    def parts(self) -> tuple[Level | Tlb, ...]:
        """Levels, then the instruction cache if there is one, then TLBs."""
        return (*self.levels, *self._instruction_levels, *self.tlbs)

    @property
    def _label(self) -> str:
        """Label of the hierarchy in messages."""
        return f"hierarchy {shortened(self.name)}"

    def _refuse(self, level: Level | Tlb, field: str, why: str) -> None:
        raise HierarchyError(f"{self._label}: {field} of {level.name} is {getattr(level, field)}, {why}")

    def _refuse_neighbours(self, inner: Level, outer: Level) -> None:
        if outer.line_bytes < inner.line_bytes:
            self._refuse(outer, "line_bytes", f"must be at least that of {inner.name}, {inner.line_bytes}")
        if outer.inclusion is Inclusion.EXCLUSIVE:
            if outer.line_bytes != inner.line_bytes:
                why = f"must be that of {inner.name}, {inner.line_bytes}, as it is exclusive"
                self._refuse(outer, "line_bytes", why)
            if inner.write is WritePolicy.THROUGH:
                self._refuse(inner, "write", f"but {outer.name} outside it is exclusive and would hand it dirty lines")
        if inner.shared and not outer.shared:
            self._refuse(outer, "shared", f"but {inner.name} inside it is shared")

    def _refuse_first_level(self) -> None:
        first = self.levels[0]
        if first.inclusion is not Inclusion.NON_INCLUSIVE:
            self._refuse(first, "inclusion", "but no level is inside it")

    def _refuse_instruction_level(self) -> None:
        level = self.instruction
        if level is None:
            return
        for field, plain in (("write", None), ("allocate_on_write", True), ("shared", False)):
            if getattr(level, field) != plain:
                self._refuse(level, field, "but an instruction cache is read only, by its own core")
        if level.inclusion is not Inclusion.NON_INCLUSIVE:
            self._refuse(level, "inclusion", "but no level is inside it")
        if level.prefetch is Prefetch.STRIDE:
            self._refuse(level, "prefetch", "but instructions have no stride: use next-line")
        if len(self.levels) > 1:
            outer = self.levels[1]
            if level.line_bytes > outer.line_bytes:
                self._refuse(level, "line_bytes", f"must be at most that of {outer.name}, {outer.line_bytes}")
            if outer.inclusion is Inclusion.EXCLUSIVE and level.line_bytes != outer.line_bytes:
                self._refuse(level, "line_bytes", f"must be that of {outer.name}, {outer.line_bytes}: it is exclusive")

    def _refuse_private_levels(self) -> None:
        for level in self.levels:
            if level.shared and self.cores == 1:
                self._refuse(level, "shared", "but the hierarchy has one core: write cores=N")
            if self.cores > 1 and not level.shared and level.line_bytes != self.levels[0].line_bytes:
                why = (
                    f"must be that of {self.levels[0].name}, {self.levels[0].line_bytes}, as both are private to a core"
                )
                self._refuse(level, "line_bytes", why)

    def _refuse_tlbs(self) -> None:
        if len(self.tlbs) > MAX_TLBS:
            raise HierarchyError(f"{self._label}: has {len(self.tlbs)} TLBs, must have at most {MAX_TLBS}")
        for tlb in self.tlbs:
            if tlb.page_bytes != self.tlbs[0].page_bytes:
                self._refuse(tlb, "page_bytes", f"must be that of {self.tlbs[0].name}, {self.tlbs[0].page_bytes}")

    @property
    def is_plain(self) -> bool:
        """Whether it is data caches with LRU replacement and nothing else, as `cache.c` simulates them."""
        bare = self.cores == 1 and not self.tlbs and self.instruction is None
        return bare and all(level.is_plain for level in self.levels)

    @property
    def geometry(self) -> str:
        """`spec` without the names: hierarchies of one geometry are simulated alike."""
        return re.sub(r"(^|,)(?!cores=|seed=)[^=,]+=", r"\1", self.spec)

    @property
    def spec(self) -> str:
        """The hierarchy in the notation `parse` reads."""
        parts = [level.spec for level in self.levels]
        parts += [f"{level.spec}/instructions" for level in self._instruction_levels]
        parts += [tlb.spec for tlb in self.tlbs]
        parts += [f"cores={self.cores}"] if self.cores != 1 else []
        is_random = any(part.replacement is Replacement.RANDOM for part in self.parts)
        parts += [f"seed={self.seed}"] if self.seed and is_random else []
        return ",".join(parts)

    @classmethod
    def parse(cls, text: str, name: str | None = None) -> Hierarchy:
        """Read `L1=32K/8/64,LL=1M/16/64`: name=size/ways/line bytes, nearest level first.

        A level may be followed by options, each after a further slash, and a hierarchy may have TLBs, an instruction
        cache, cores and a seed: `L1=32K/8/64/plru/write-back,LL=8M/16/64/shared,TLB=64/4/4K/tlb,cores=4`. See
        docs/cache-simulation.md.

        Raises:
            HierarchyError: it does not have that form, or a figure is impossible.
        """
        numbers: dict[str, int] = {}
        levels: list[Level] = []
        instruction: list[Level] = []
        tlbs: list[Tlb] = []
        for part in text.split(","):
            if match := _NUMBER.match(part):
                numbers[match[1].lower()] = int(match[2])
                continue
            kind, level = parse_level(part)
            if isinstance(level, Tlb):
                tlbs.append(level)
            else:
                (instruction if kind == "instructions" else levels).append(level)
        if len(instruction) > 1:
            raise HierarchyError(f"{quoted(text)} has {len(instruction)} instruction caches, must have at most one")
        return cls(name or text, tuple(levels), tuple(tlbs), instruction[0] if instruction else None, **numbers)


DEFAULT_HIERARCHY = Hierarchy.parse("L1=32K/8/64,LL=1M/16/64", name="default")
"""Hierarchy simulated when nobody names a machine: a common first level, and a last level small enough to matter."""
