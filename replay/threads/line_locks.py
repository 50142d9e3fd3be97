"""Locks of Python programs, `threading`'s and `multiprocessing`'s: critical sections, as ranges of source lines.

Edges say on which line a thread waited for a lock, and on which line another one gave it back. In a body that has both,
the lines between them are a section. Sections that edges join have the same lock. Places at which nobody waited are not
known; what is known and cannot be placed is counted in notes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from foretrace.base.names import short_name
from foretrace.replay.engine.program import Lock, Part, Sharing, Unlock
from foretrace.tracer.signature.tree_records import ExecutionTree, Synchronisation, SynchronisationKind, TreeNodeKind

INTERPRETER = "interpreter"
"""Prefix of the names of Python's own locks."""
_MOST_NAMED = 3

Body = tuple[int, str, str, str, int]
"""A function's body, or a loop's, in whatever context it ran: kind, module, function, file, line."""


@dataclass(frozen=True, slots=True)
class LineLock:
    """A critical section: the line that takes its lock, and the last one that runs under it."""

    name: str
    first: int
    last: int

    def holds(self, line: int) -> bool:
        """Whether a line of the body runs under the lock. What is on the line that takes it does not."""
        return self.first < line <= self.last or self.first == line == self.last

    def is_around(self, other: LineLock) -> bool:
        """Whether it holds all of another section, which may be itself."""
        return self.first <= other.first and other.last <= self.last


@dataclass(frozen=True, slots=True)
class LineLocks:
    """Critical sections by body, from the outermost to the innermost, and what is left out."""

    of_body: Mapping[Body, tuple[LineLock, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def body_of(tree: ExecutionTree, node: int) -> Body:
    """Whose body a node runs."""
    key = tree.keys[node]
    return int(tree.kind[node]), key.module, key.function, key.file, key.line


def is_in_interpreter(sharing: Sharing) -> bool:
    """Whether threads do such work one at a time in any case: they hold Python's own lock."""
    return any(name.startswith(INTERPRETER) for name in sharing.resources)


_Site = tuple[str, Body, int]


def line_locks_of(tree: ExecutionTree, find: Callable[[dict[_Site, _Site], _Site], _Site]) -> LineLocks:
    """The critical sections that a tree's edges tell of; `find` finds who stands for a site in a set of sites."""
    edges = [edge for edge in tree.synchronisation if edge.kind is SynchronisationKind.LOCK]
    if not edges:
        return LineLocks()
    semaphores = _semaphores(tree)
    leader: dict[_Site, _Site] = {}
    counts: Counter[_Site] = Counter()
    inside = 0
    for edge in edges:
        if not _is_placed(edge):
            inside += edge.count
            continue
        taken = _site(tree, "take", edge.target_node, edge.target_line)
        if taken in semaphores:  # the lock inside of a semaphore
            continue
        counts[taken] += edge.count
        leader[find(leader, _site(tree, "give", edge.source_node, edge.source_line))] = find(leader, taken)
    pairs = _pairs(leader, find, _lines_of_children(tree))
    for (body, first), last in pairs.items():
        leader[find(leader, ("give", body, last))] = find(leader, ("take", body, first))
    names: dict[_Site, str] = {}
    of_body: dict[Body, list[LineLock]] = defaultdict(list)
    for (body, first), last in sorted(pairs.items()):
        name = names.setdefault(find(leader, ("take", body, first)), f"lock {short_name(body[2])}:{first}")
        of_body[body].append(LineLock(name, first, last))
    ordered = {
        body: tuple(sorted(found, key=lambda one: (one.first, -one.last, one.name))) for body, found in of_body.items()
    }
    unpaired = {site: count for site, count in counts.items() if (site[1], site[2]) not in pairs}
    return LineLocks(ordered, tuple(_notes(inside, unpaired)))


def _semaphores(tree: ExecutionTree) -> set[_Site]:
    """Places at which threads waited for a semaphore more often than for a lock: that one is inside of it."""
    balance: Counter[_Site] = Counter()
    for edge in tree.synchronisation:
        sign = {SynchronisationKind.WAKE: 1, SynchronisationKind.LOCK: -1}.get(edge.kind, 0)
        if sign and edge.target_node >= 0:
            balance[_site(tree, "take", edge.target_node, edge.target_line)] += sign * edge.count
    return {site for site, more in balance.items() if more > 0}


def _is_placed(edge: Synchronisation) -> bool:
    return edge.source_node >= 0 and edge.target_node >= 0 and edge.source_line > 0 and edge.target_line > 0


def _site(tree: ExecutionTree, what: str, node: int, line: int) -> _Site:
    return what, body_of(tree, node), line


def _lines_of_children(tree: ExecutionTree) -> set[tuple[Body, int]]:
    return {
        (body_of(tree, parent), line_in_body(tree, node))
        for node, parent in enumerate(tree.parent.tolist())
        if parent >= 0
    }


def line_in_body(tree: ExecutionTree, node: int) -> int:
    """Line of a node in its parent's body."""
    key = tree.keys[node]
    return key.site_line if tree.kind[node] == TreeNodeKind.CALL else key.line


def _pairs(
    leader: dict[_Site, _Site], find: Callable[[dict[_Site, _Site], _Site], _Site], lines: set[tuple[Body, int]]
) -> dict[tuple[Body, int], int]:
    """The last line of each section, by body and the line that takes its lock.

    It is the next line on which the same lock is given back; else the next one of any, if no lock is taken before it.
    Where that is the same line, something has to run there: else it is a `with` statement whose end is not known.
    """
    taken, given = (
        {body: sorted(line for found, one, line in leader if (found, one) == (what, body)) for _, body, _ in leader}
        for what in ("take", "give")
    )
    pairs: dict[tuple[Body, int], int] = {}
    for body, firsts in taken.items():
        for first in firsts:
            behind = [line for line in given[body] if line >= first]
            own = find(leader, ("take", body, first))
            same = [line for line in behind if find(leader, ("give", body, line)) == own]
            free = [line for line in behind[:1] if not any(first < other <= line for other in firsts)]
            for last in (same or free)[:1]:
                if last > first or (body, first) in lines:
                    pairs[body, first] = last
    return pairs


def _notes(inside: int, unpaired: Mapping[_Site, int]) -> list[str]:
    found = []
    if inside:
        found.append(f"{inside:,} waits for locks inside of library calls are left out")
    if unpaired:
        places = [f"{body[3].rpartition('/')[2]}:{line}" for _, body, line in sorted(unpaired)]
        more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
        found.append(
            f"{sum(unpaired.values()):,} waits for locks are left out, at {', '.join(places[:_MOST_NAMED])}{more}: "
            "what runs until these are given back is not known"
        )
    return found


@dataclass(slots=True)
class Held:
    """The sections of a body that a thread is in, as it goes through the body's children.

    Attributes:
        sections: with the activities of the body itself that run in each.
        taken: names of locks that the thread has, those around the body too: its holder does not wait.
    """

    sections: Sequence[tuple[LineLock, Sequence[Part]]]
    taken: set[str]
    _active: list[tuple[LineLock, bool]] = field(default_factory=list)
    _done: set[LineLock] = field(default_factory=set)

    @property
    def innermost(self) -> str | None:
        """The lock taken last in this body."""
        return next((one.name for one, is_own in reversed(self._active) if is_own), None)

    def at(self, line: int) -> list[Part]:
        """Locks released and taken before a child on a line, sections without any child among them."""
        passed = [one for one, _ in self.sections if one not in self._done and one.last < line]
        parts = self._through(passed)
        return parts + self._to([one for one, _ in self.sections if one.holds(line)])

    def end(self) -> list[Part]:
        """Locks released and taken behind all children."""
        parts = self._through([one for one, _ in self.sections if one not in self._done])
        return parts + self._to([])

    def _through(self, passed: Sequence[LineLock]) -> list[Part]:
        parts: list[Part] = []
        for one in passed:
            if one not in self._done:
                parts += self._to([around for around, _ in self.sections if around.is_around(one)])
        return parts

    def _to(self, wanted: Sequence[LineLock]) -> list[Part]:
        parts: list[Part] = []
        while self._active and self._active[-1][0] not in wanted:
            one, is_own = self._active.pop()
            if is_own:
                self.taken.discard(one.name)
                parts.append(Unlock(one.name))
        active = [one for one, _ in self._active]
        for one, runs in self.sections:
            if one not in wanted or one in active:
                continue
            is_own = one.name not in self.taken
            self._active.append((one, is_own))
            if is_own:
                self.taken.add(one.name)
                parts.append(Lock(one.name, sleeps=True))
            if one not in self._done:
                self._done.add(one)
                parts += runs
        return parts
