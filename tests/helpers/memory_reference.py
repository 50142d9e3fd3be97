"""Memory systems again, slow and obvious: what the C core of `memory_system.c` is compared with.

Each part is written as docs/cache-simulation.md describes it, with nothing remembered to save time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.base.level import Inclusion, Level, Prefetch, Replacement, Tlb, WritePolicy
from foretrace.cache_sim.base.results import Event

PREFETCH_PAGE_BYTES = 4096
STRIDE_ENTRIES = 256
_MAX_PARTS = 11
_WORD = 1 << 64


@dataclass
class Line:
    """A line that is held somewhere."""

    number: int
    dirty: bool = False
    prefetched: bool = False


class Generator:
    """Random ways: Knuth's MMIX linear congruential generator."""

    def __init__(self, seed: int) -> None:
        """Start at a seed."""
        self.state = seed % _WORD

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1."""
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % _WORD
        return (self.state >> 33) % limit


class WaySet:
    """One set: the line in each way, and what decides which goes next."""

    def __init__(self, ways: int, replacement: Replacement, random: Generator) -> None:
        """Start empty."""
        self.ways: list[Line | None] = [None] * ways
        self.replacement = replacement
        self.random = random
        self.queue: list[int] = []  # ways, that which goes first at the front: in order of use (LRU) or arrival (FIFO)
        self.goes_right: dict[tuple[int, int], bool] = {}  # by the tree node's range of ways

    def find(self, number: int) -> Line | None:
        """The line of that number."""
        return next((line for line in self.ways if line is not None and line.number == number), None)

    def use(self, line: Line, *, arrives: bool = False) -> None:
        """Remember that a line was used, or came."""
        way = self.ways.index(line)
        if arrives or self.replacement is Replacement.LRU:
            if way in self.queue:
                self.queue.remove(way)
            self.queue.append(way)
        first, end = 0, len(self.ways)
        while end - first > 1:
            middle = (first + end) // 2
            self.goes_right[first, end] = way < middle
            first, end = (first, middle) if way < middle else (middle, end)

    def _end_of_tree(self) -> int:
        first, end = 0, len(self.ways)
        while end - first > 1:
            middle = (first + end) // 2
            first, end = (middle, end) if self.goes_right.get((first, end), False) else (first, middle)
        return first

    def insert(self, line: Line) -> Line | None:
        """Add a line; return the one that made room."""
        if None in self.ways:
            way = self.ways.index(None)
        elif self.replacement is Replacement.PLRU:
            way = self._end_of_tree()
        elif self.replacement is Replacement.RANDOM:
            way = self.random.below(len(self.ways))
        else:
            way = self.queue[0]
        evicted, self.ways[way] = self.ways[way], line
        self.use(line, arrives=True)
        return evicted

    def remove(self, line: Line) -> None:
        """Leave the line's way empty."""
        way = self.ways.index(line)
        self.ways[way] = None
        self.queue.remove(way)


class Store:
    """Sets of lines."""

    def __init__(self, num_sets: int, ways: int, replacement: Replacement, seed: int) -> None:
        """Start empty."""
        random = Generator(seed)
        self.sets = [WaySet(ways, replacement, random) for _ in range(num_sets)]

    def set_of(self, number: int) -> WaySet:
        """Where a line belongs."""
        return self.sets[number % len(self.sets)]


class Cache:
    """A cache with its victim buffer and prefetcher."""

    def __init__(self, level: Level, seed: int) -> None:
        """Start empty."""
        self.level = level
        self.lines = Store(level.num_sets, level.ways, level.replacement, seed)
        self.victims = WaySet(level.victim_lines, Replacement.LRU, Generator(0))
        self.strides: dict[int, tuple[int, int, int]] = {}  # entry -> operation, last address, stride

    def number(self, address: int) -> int:
        """The line of an address."""
        return address // self.level.line_bytes

    def peek(self, number: int) -> Line | None:
        """The line, wherever it is, and left there."""
        return self.lines.set_of(number).find(number) or self.victims.find(number)

    def take_out(self, number: int) -> Line | None:
        """Remove and return the line."""
        for ways in (self.lines.set_of(number), self.victims):
            line = ways.find(number)
            if line is not None:
                ways.remove(line)
                return line
        return None

    @property
    def writes_through(self) -> bool:
        """Whether stores go on at once."""
        return self.level.write is WritePolicy.THROUGH

    @property
    def is_exclusive(self) -> bool:
        """Whether it is filled by the level inside it."""
        return self.level.inclusion is Inclusion.EXCLUSIVE


Path = list[Cache]


@dataclass
class Core:
    """The caches and TLBs that a core sees."""

    data: Path
    instruction: Path
    tlbs: list[tuple[Tlb, Store]]


@dataclass
class Trigger:
    """What a prefetcher saw of the line at hand."""

    fired_at: int | None = None
    trained_at: int | None = None


@dataclass
class ReferenceMemory:
    """A memory system. `counts[row, part name, event]`, a row being ("operation", id) or ("block", id)."""

    hierarchy: Hierarchy
    counts: Counter[tuple[tuple[str, int], str, Event]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Build the caches of all cores."""
        levels = self.hierarchy.levels
        self.num_private = sum(not level.shared for level in levels)
        shared = [Cache(levels[k], self._seed(0, k)) for k in range(self.num_private, len(levels))]
        self.cores = [self._core(number, shared) for number in range(self.hierarchy.cores)]
        self.core = self.cores[0]
        self.row = ("operation", 0)
        self.counted: set[Hashable] = set()
        self.is_demand = True
        self.triggers: dict[int, Trigger] = {}

    def _seed(self, core: int, part: int) -> int:
        return self.hierarchy.seed + (core * _MAX_PARTS + part + 1) * 0x9E3779B97F4A7C15

    def _core(self, number: int, shared: Path) -> Core:
        h = self.hierarchy
        data = [Cache(level, self._seed(number, k)) for k, level in enumerate(h.levels[: self.num_private])] + shared
        instruction = []
        if h.instruction is not None:
            instruction = [Cache(h.instruction, self._seed(number, len(h.levels))), *data[1:]]
        first_tlb = len(h.parts) - len(h.tlbs)
        tlbs = [
            (tlb, Store(tlb.num_sets, tlb.ways, tlb.replacement, self._seed(number, first_tlb + i)))
            for i, tlb in enumerate(h.tlbs)
        ]
        return Core(data, instruction, tlbs)

    # ---- counting

    def count(self, part: str, event: Event) -> None:
        """Count a line."""
        self.counts[self.row, part, event] += 1

    def count_once(self, part: str, event: Event) -> None:
        """Count the access at hand, if it was not."""
        if (part, event) not in self.counted:
            self.counted.add((part, event))
            self.count(part, event)

    @contextmanager
    def unasked(self) -> Iterator[None]:
        """Fetch what nobody asked for."""
        before, self.is_demand = self.is_demand, False
        yield
        self.is_demand = before

    # ---- making room

    def look_up(self, cache: Cache, number: int) -> Line | None:
        """The line, back from the victim buffer if it was there."""
        line = cache.lines.set_of(number).find(number)
        if line is None and (line := cache.victims.find(number)) is not None:
            self.count(cache.level.name, Event.VICTIM_HITS)
            cache.victims.remove(line)
            evicted = cache.lines.set_of(number).insert(line)
            if evicted is not None:
                cache.victims.insert(evicted)
        return line

    def fill(self, path: Path, k: int, line: Line) -> None:
        """Put a line into a level."""
        cache = path[k]
        evicted = cache.lines.set_of(line.number).insert(line)
        if evicted is not None and cache.level.victim_lines:
            evicted = cache.victims.insert(evicted)
        if evicted is not None:
            self.evict(path, k, evicted)

    def evict(self, path: Path, k: int, line: Line) -> None:
        """A line has left a level."""
        level = path[k].level
        self.count(level.name, Event.EVICTIONS)
        first = line.number * level.line_bytes
        if level.inclusion is Inclusion.INCLUSIVE:
            for core in self.cores if level.shared else [self.core]:
                for inner in [*core.data[:k], *core.instruction[:1]]:
                    for number in range(inner.number(first), inner.number(first + level.line_bytes - 1) + 1):
                        removed = inner.take_out(number)
                        if removed is not None:
                            self.count(inner.level.name, Event.BACK_INVALIDATIONS)
                            line.dirty |= removed.dirty
        if line.dirty:
            self.count(level.name, Event.WRITE_BACKS)
        self.send_out(path, k + 1, first, level.line_bytes, dirty=line.dirty)

    def send_out(self, path: Path, k: int, first: int, line_bytes: int, *, dirty: bool) -> None:
        """A line comes to a level from inside."""
        if k < len(path) and path[k].is_exclusive:
            self.put(path, k, first, dirty=dirty)
        elif dirty:
            self.write_back(path, k, first, line_bytes)

    def write_back(self, path: Path, k: int, first: int, line_bytes: int) -> None:
        """Dirty bytes come to a level from inside."""
        if k == len(path):
            return
        cache, number = path[k], path[k].number(first)
        if cache.is_exclusive:
            self.put(path, k, first, dirty=True)
            return
        line = self.look_up(cache, number)
        if line is None and not cache.level.allocate_on_write:
            self.write_back(path, k + 1, first, line_bytes)
            return
        if line is not None:
            cache.lines.set_of(number).use(line)
            line.dirty |= not cache.writes_through
        else:
            dirty = not cache.writes_through
            if cache.level.line_bytes > line_bytes:
                with self.unasked():
                    dirty |= self.load(path, k + 1, first)
            else:
                for outer in path[k + 1 :]:
                    if not outer.is_exclusive:
                        break
                    outer.take_out(number)
            self.fill(path, k, Line(number, dirty))
        if cache.writes_through:
            self.write_back(path, k + 1, first, line_bytes)

    def put(self, path: Path, k: int, first: int, *, dirty: bool) -> None:
        """A line that left the level inside comes to an exclusive one."""
        cache, number = path[k], path[k].number(first)
        line = cache.lines.set_of(number).find(number)
        if line is not None:
            cache.lines.set_of(number).use(line)
            line.dirty |= dirty and not cache.writes_through
        else:
            self.fill(path, k, Line(number, dirty and not cache.writes_through))
        if dirty and cache.writes_through:
            self.write_back(path, k + 1, first, cache.level.line_bytes)

    # ---- other cores

    def hand_over(self, path: Path, address: int) -> None:
        """What another core had changed goes where all find it."""
        outermost = path[self.num_private - 1].level
        self.count(outermost.name, Event.WRITE_BACKS)
        self.send_out(path, self.num_private, address, outermost.line_bytes, dirty=True)

    def claim(self, path: Path, address: int) -> None:
        """Before a store: no other core keeps the line."""
        for other in self.cores:
            if other is self.core:
                continue
            removed = []
            for cache in other.data[: self.num_private]:
                line = cache.take_out(cache.number(address))
                if line is not None:
                    self.count(cache.level.name, Event.COHERENCE_INVALIDATIONS)
                    removed.append(line)
            if any(line.dirty for line in removed):
                self.hand_over(path, address)

    def collect(self, path: Path, address: int) -> None:
        """Before data are read from outside the private levels: other cores hand over what they changed."""
        for other in self.cores:
            if other is self.core:
                continue
            lines = [cache.peek(cache.number(address)) for cache in other.data[: self.num_private]]
            dirty = [line for line in lines if line is not None and line.dirty]
            for line in dirty:
                line.dirty = False
            if dirty:
                self.hand_over(path, address)

    # ---- requests

    def arrive(self, cache: Cache, k: int, address: int) -> Line | None:
        """Look a line up."""
        name, number = cache.level.name, cache.number(address)
        if self.is_demand:
            if (name, Event.ACCESSES) not in self.counted and self.row[0] == "operation":
                self.triggers.setdefault(k, Trigger()).trained_at = address
            self.count_once(name, Event.ACCESSES)
        line = self.look_up(cache, number)
        if line is not None:
            cache.lines.set_of(number).use(line)
            if line.prefetched and self.is_demand:
                line.prefetched = False
                self.count(name, Event.USEFUL_PREFETCHES)
                self.triggers.setdefault(k, Trigger()).fired_at = address
        elif self.is_demand:
            self.count_once(name, Event.MISSES)
            self.triggers.setdefault(k, Trigger()).fired_at = address
        return line

    def load(self, path: Path, k: int, address: int) -> bool:
        """Get a line from a level for the one inside; True if it is dirty and no longer this level's."""
        if k == self.num_private:
            self.collect(path, address)
        if k == len(path):
            return False
        cache = path[k]
        line = self.arrive(cache, k, address)
        if line is not None:
            if not cache.is_exclusive:
                return False
            cache.lines.set_of(line.number).remove(line)
            return line.dirty
        dirty = self.load(path, k + 1, address)
        if cache.is_exclusive:
            return dirty
        self.fill(path, k, Line(cache.number(address), dirty))
        return False

    def store(self, path: Path, k: int, address: int) -> None:
        """Write data to a level."""
        if k == len(path):
            return
        cache = path[k]
        line = self.arrive(cache, k, address)
        if line is None:
            if cache.is_exclusive or not cache.level.allocate_on_write:
                self.store(path, k + 1, address)
                return
            line = Line(cache.number(address), self.load(path, k + 1, address) or not cache.writes_through)
            self.fill(path, k, line)
        if cache.writes_through:
            self.store(path, k + 1, address)
        else:
            line.dirty = True

    # ---- prefetching

    def targets(self, cache: Cache, trigger: Trigger) -> tuple[int, list[int]]:
        """Where prefetching starts from, and the addresses to prefetch."""
        line_bytes, steps = cache.level.line_bytes, range(1, cache.level.prefetch_degree + 1)
        if cache.level.prefetch is Prefetch.NEXT_LINE and trigger.fired_at is not None:
            return trigger.fired_at, [trigger.fired_at + i * line_bytes for i in steps]
        if cache.level.prefetch is not Prefetch.STRIDE or trigger.trained_at is None:
            return 0, []
        address, operation = trigger.trained_at, self.row[1]
        owner, last, stride = cache.strides.get(operation % STRIDE_ENTRIES, (-1, 0, 0))
        if owner != operation:
            cache.strides[operation % STRIDE_ENTRIES] = (operation, address, 0)
            return 0, []
        if address == last:
            return 0, []
        cache.strides[operation % STRIDE_ENTRIES] = (operation, address, address - last)
        if address - last != stride:
            return 0, []
        if abs(stride) < line_bytes:
            stride = line_bytes if stride > 0 else -line_bytes
        return address, [address + i * stride for i in steps]

    def run_prefetches(self, path: Path) -> None:
        """Level by level, outwards."""
        triggers, self.triggers = self.triggers, {}
        for k, trigger in sorted(triggers.items()):
            cache = path[k]
            start, addresses = self.targets(cache, trigger)
            for address in addresses:
                if address // PREFETCH_PAGE_BYTES != start // PREFETCH_PAGE_BYTES:
                    break
                number = cache.number(address)
                if cache.peek(number) is None:
                    self.count(cache.level.name, Event.PREFETCHES)
                    with self.unasked():
                        dirty = self.load(path, k + 1, address)
                        self.fill(path, k, Line(number, dirty, prefetched=True))

    # ---- accesses

    def translate(self, address: int, size_bytes: int) -> None:
        """Ask the TLBs for each page."""
        if not self.core.tlbs:
            return
        page_bytes = self.core.tlbs[0][0].page_bytes
        for page in range(address // page_bytes, (address + size_bytes - 1) // page_bytes + 1):
            for tlb, store in self.core.tlbs:
                self.count_once(tlb.name, Event.ACCESSES)
                pages = store.set_of(page)
                entry = pages.find(page)
                if entry is not None:
                    pages.use(entry)
                    break
                self.count_once(tlb.name, Event.MISSES)
                pages.insert(Line(page))

    def touch(self, path: Path, address: int, size_bytes: int, *, is_store: bool) -> None:
        """Ask the first level for each line."""
        first = path[0]
        for number in range(first.number(address), first.number(address + size_bytes - 1) + 1):
            at = max(address, number * first.level.line_bytes)
            if is_store:
                self.claim(path, at)
                self.store(path, 0, at)
            else:
                self.load(path, 0, at)
            self.run_prefetches(path)

    def access(self, operation: int, address: int, size_bytes: int, *, is_store: bool = False, thread: int = 0) -> None:
        """A load or a store of the program."""
        self.core, self.row, self.counted = self.cores[thread % len(self.cores)], ("operation", operation), set()
        self.translate(address, size_bytes)
        self.touch(self.core.data, address, size_bytes, is_store=is_store)

    def fetch(self, block: int, address: int, size_bytes: int, *, thread: int = 0) -> None:
        """A block's code is fetched."""
        self.core, self.row, self.counted = self.cores[thread % len(self.cores)], ("block", block), set()
        if self.core.instruction:
            self.touch(self.core.instruction, address, size_bytes, is_store=False)
