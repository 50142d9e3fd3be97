"""A slow twin of tracer/reader/data_flow/dependences.c: random programs with accesses, and what their loops carry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from structured_programs import Path, Program, Running
from word_streams import ENTRY, LAYOUT, Stream

from foretrace.tracer.reader.raw_dependences import RawKind

Operation = tuple[int, bool]  # block, whether it stores
Loop = tuple[Path, int]  # calls above, header
Row = tuple[RawKind, Operation, Operation, Loop | None]  # updates have no loop
PLACES = 0x7000
SHADOW_BYTES = 1 << 30


@dataclass(frozen=True)
class Moment:
    """A point in time, and the iterations of the loops that ran then."""

    time: int
    loops: tuple[tuple[Path, int, int, int], ...]  # path, header, entry, iteration


@dataclass
class Byte:
    """What happened to a byte last."""

    written: Moment | None = None
    writer: Operation | None = None
    first_read: Moment | None = None
    first_reader: Operation | None = None
    last_reader: Operation | None = None

    def state(self) -> tuple[object, ...]:
        return (self.written, self.writer, self.first_read, self.first_reader)


@dataclass
class Count:
    """How often, and how far apart."""

    count: int = 0
    distances: set[int] = field(default_factory=set)


class AccessProgram(Program):
    """A program whose blocks load and store, and what follows from that."""

    def __init__(self, seed: int, *, only_words: bool, has_branches: bool = True) -> None:
        self._has_branches = has_branches
        super().__init__(seed, max_blocks=4000)
        self._shifts = (2, 3) if only_words else (0, 1, 2, 3)
        self._unit = 4 if only_words else 1
        self._num_places = self.random.choice([3, 12, 60])
        self._words: list[list[int]] = []
        self._trail: list[tuple[Path, int]] = []
        self._bytes: dict[int, Byte] = {}
        self._range: dict[Operation, tuple[int, int]] = {}
        self.rows: dict[Row, Count] = {}
        self.stores: dict[Operation, int] = {}
        self.nests: dict[Loop, list[Loop]] = {}  # the loops around each, and itself, from outside
        self.known_late: set[Loop] = set()  # not known at a store that loops around and inside were known at
        self.written: dict[tuple[Operation, Loop], int] = {}  # bytes
        self.overwritten: dict[tuple[Operation, Loop], int] = {}
        self.iterations: dict[Loop, int] = {}
        self._counted_entries: set[int] = set()
        self._first_runs: dict[int, int] = {}
        self._perhaps_left: dict[int, tuple[Running, int]] = {}  # by entry, with the time at which it was left
        self._running: list[Running] = []

    def _body(self, function: int, functions: int, nesting: int) -> list[tuple]:  # type: ignore[type-arg]
        body = super()._body(function, functions, nesting)
        return [one if self._has_branches or one[0] != "if" else ("straight",) for one in body]

    def _step(self, path: Path, block: int) -> None:
        super()._step(path, block)
        self._trail.append((path, block))
        self._follow_loops(path, block)
        words = [ENTRY | block]
        kind = self.random.random()
        address = self._address_at_random()
        if kind < 0.5:
            words.append(self._access(block, address, is_store=False))
        if kind > 0.3:
            other = address if self.random.random() < 0.4 else self._address_at_random()
            words.append(self._access(block, other, is_store=True))
        self._words.append(words)

    def _follow_loops(self, path: Path, block: int) -> None:
        """Counts iterations, and remembers loops that may still run as far as blocks tell.

        Nothing but a return tells that a loop was left, or else a block of its function that ran before it was left.
        """
        now = len(self.ran)
        first = self._first_runs.setdefault(block, now)
        known = self._known()
        for loop in self._running:
            if loop not in known:
                self._perhaps_left[loop.entry] = loop, now
        for loop, left in list(self._perhaps_left.values()):
            if path[: len(loop.path)] != loop.path or (path == loop.path and first < left):
                del self._perhaps_left[loop.entry]
        self._running = known
        if known and (known[-1].path, known[-1].header) == (path, block):
            loop = known[-1]
            new = 1 if loop.entry in self._counted_entries else loop.iteration + 1
            self._counted_entries.add(loop.entry)
            self.iterations[path, block] = self.iterations.get((path, block), 0) + new

    def _latest_entry(self) -> int:
        """When the last loop began of those that may run, as far as blocks tell."""
        entries = [loop.entry for loop in self._running] + list(self._perhaps_left)
        return max(entries, default=-1) + 1

    def _address_at_random(self) -> int:
        return PLACES + self._unit * self.random.randrange(self._num_places)

    def _known(self) -> list[Running]:
        return [loop for loop in self.active if loop.header in self.known]

    def _access(self, block: int, address: int, *, is_store: bool) -> int:
        shift = self.random.choice(self._shifts)
        operation = (block, is_store)
        loops = self._known()
        now = Moment(len(self.ran), tuple((of.path, of.header, of.entry, of.iteration) for of in loops))
        self._range[operation] = (address, address + (1 << shift))
        if is_store:
            self.stores[operation] = self.stores.get(operation, 0) + 1
        before: tuple[object, ...] | None = None
        for place in range(address, address + (1 << shift)):
            byte = self._bytes.setdefault(place, Byte())
            state = byte.state() if is_store else byte.state()[:2]
            if state != before:
                self._depend(byte, place, operation, now)
            before = state
            if is_store:
                self._count_byte(byte.written, operation, now)
                self._bytes[place] = Byte(now, operation)
                continue
            byte.last_reader = operation
            if byte.first_read is None or byte.first_read.time < self._latest_entry():
                byte.first_read, byte.first_reader = now, operation
        return (1 + is_store) << 51 | shift << 48 | address

    def _count_byte(self, then: Moment | None, operation: Operation, now: Moment) -> None:
        """Count a byte that is stored: the loops whose iteration had not stored it, and whether one before it had."""
        again: list[Loop] = []
        new: list[Loop] = []
        for path, header, entry, iteration in now.loops:
            is_common = then is not None and entry < then.time
            begun = self._iteration_at(path, header, entry, then.time) if then is not None and is_common else -1
            if begun < iteration:
                new.append((path, header))
            if is_common and begun < iteration:
                again.append((path, header))
        for loop in new:
            self.written[operation, loop] = self.written.get((operation, loop), 0) + 1
        running = [(one.path, one.header) for one in self.active]
        for number, loop in enumerate(running, 1):
            self.nests.setdefault(loop, running[:number])
        if new:
            nest = running[running.index(new[0]) : running.index(new[-1])]
            self.known_late.update(loop for loop in nest if loop not in new)
        assert len(again) <= 1
        for loop in again:
            self.overwritten[operation, loop] = self.overwritten.get((operation, loop), 0) + 1

    def _depend(self, byte: Byte, place: int, operation: Operation, now: Moment) -> None:
        if not operation[1]:
            self._enter(RawKind.FLOW, byte.written, byte.writer, operation, now)
            return
        if byte.first_read is not None and byte.last_reader is not None:
            first, last = self._range[byte.last_reader]
            if first <= place < last:
                self._add(RawKind.UPDATE, byte.last_reader, operation, None, 0)
        self._enter(RawKind.OUTPUT, byte.written, byte.writer, operation, now)
        self._enter(RawKind.ANTI, byte.first_read, byte.first_reader, operation, now)

    def _enter(
        self, kind: RawKind, then: Moment | None, source: Operation | None, operation: Operation, now: Moment
    ) -> None:
        """The innermost loop that both are in the same entry of carries it, or they are in one iteration of that."""
        if then is None or source is None:
            return
        common = [loop for loop in now.loops if loop[2] < then.time]
        if not common:
            return
        path, header, entry, iteration = common[-1]
        started = self._iteration_at(path, header, entry, then.time)
        if started < iteration:
            self._add(kind, source, operation, (path, header), iteration - started)
        elif kind is RawKind.FLOW:
            self._add(RawKind.FLOW_WITHIN, source, operation, (path, header), 0)

    def _iteration_at(self, path: Path, header: int, entry: int, time: int) -> int:
        """Iterations of an entry that had begun at a time, less one: its header ran that often in its context."""
        return sum(1 for position in range(entry, time) if self._trail[position] == (path, header)) - 1

    def _add(self, kind: RawKind, source: Operation, sink: Operation, loop: Loop | None, distance: int) -> None:
        count = self.rows.setdefault((kind, source, sink, loop), Count())
        count.count += 1
        count.distances.add(distance)

    def _prepare(self, stream: Stream) -> None:
        stream.reader.find_dependences(SHADOW_BYTES)

    def _chunks(self) -> Iterator[list[int]]:
        size = LAYOUT["chunk_words"]
        chunk: list[int] = []
        for words in self._words:
            if len(chunk) + len(words) > size:
                yield chunk
                chunk = []
            chunk += words
        yield chunk
