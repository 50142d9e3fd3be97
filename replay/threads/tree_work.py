"""An execution tree with times, and the roles of its nodes where threads create, lock and wait for one another.

A region's time belongs to a node by the node's share of the instructions that ran in the region's blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from foretrace.base.names import short_name
from foretrace.replay.base.spread import Floats
from foretrace.replay.tree.timed_tree import Flags, Ints, NodeTree, TimedTree, add_seconds, divided_among_rows
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.tree_records import ExecutionTree, TreeNodeKind

from .line_locks import LineLock, body_of, line_in_body
from .nested_regions import unfolded
from .runtimes import is_loader, is_region, is_runtime, module_name
from .tree_waits import SPINNING_LOCK, TAKES, TEAM_LOCKS, Role, Waits, find, runs_of, waits_of


@dataclass(frozen=True, slots=True)
class Section:
    """A critical section in a body: its lock's name, the places of both calls among the children, its own seconds.

    `takes` says what its lock is: one that a thread has alone, or one that it reads or writes under; `sleeps`
    whether threads sleep for it, None where they wait for it as a team's threads do.
    """

    name: str
    first: int
    last: int
    own_s: dict[int, float]
    takes: Role = Role.LOCK
    sleeps: bool | None = False


@dataclass(slots=True)
class Locked:
    """Work under a lock: how often it was taken, and {region: seconds} while a thread had it."""

    times: int = 0
    seconds: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class TreeWork(TimedTree):
    """The timed tree of a program's threads. Runtimes of parallel regions have no seconds of their own: what they do
    there is wait, as long as it takes.

    Attributes:
        tree: of the signature.
        waits: where its threads wait for one another.
        special: of nodes that are special, their roles.
        is_special_below: bool [nodes], whether a special node is among those below, or the node itself.
        waited_s: seconds that runtimes spun while the program was traced; none of a thread that was alone.
        predicted_s: seconds of all regions.
        elsewhere_s: {region: seconds} of regions that the tree has no node for.
        row_region, row_line, row_s: [rows] of the tree's work, its region, source line and seconds.
        units: of semaphores at the start, by number of threads, once they have been found.
    """

    tree: ExecutionTree
    waits: Waits
    special: dict[int, Role]
    is_special_below: Flags
    waited_s: float
    predicted_s: float
    elsewhere_s: dict[int, float]
    row_region: Ints
    row_line: Ints
    row_s: Floats
    units: dict[int | None, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, workload: Workload, tree: ExecutionTree, time_s: Floats) -> TreeWork:
        """Divide the regions' times, [regions], among the nodes of a tree."""
        tree = unfolded(tree)
        regions, seconds, elsewhere_s = divided_among_rows(workload, tree, time_s)
        stops = waits_of(tree)
        special = stops.roles | {node: Role.PARALLEL for node in range(len(tree)) if is_region(tree, node)}
        waits = _waits(tree, special)
        own: list[dict[int, float]] = [{} for _ in range(len(tree))]
        waited_s = 0.0
        for node, region, time in zip(tree.work_node.tolist(), regions.tolist(), seconds.tolist(), strict=True):
            if waits[node]:
                waited_s += time
            elif time > 0:
                own[node][region] = own[node].get(region, 0.0) + time
        with_locks = {n for n in range(len(tree)) if body_of(tree, n) in stops.line_locks.of_body}
        matters = _without_idle(special, stops) | set(stops.stops) | set(stops.inside) | with_locks
        nodes = NodeTree(tree.parent)
        return cls(
            parent=tree.parent,
            children=_in_order(tree, stops),
            own_s=own,
            tree=tree,
            waits=stops,
            special=special,
            is_special_below=nodes.any_below(nodes.flags(matters)),
            waited_s=waited_s,
            predicted_s=float(time_s.sum()),
            elsewhere_s=elsewhere_s,
            row_region=regions,
            row_line=np.array([block.line for block in workload.signature.blocks], np.int64)[tree.work_block],
            row_s=np.where(waits[tree.work_node], 0.0, seconds),
        )

    def sections(self, node: int) -> list[Section]:
        """Critical sections of a body: from a call that takes a lock to the next one that gives one back.

        A node's own work is in a section if its source lines lie between those of the two calls. Each pair of places
        is a lock of its own, unless one waited for another.
        """
        return [replace(one, name=self.lock_names.get(one.name, one.name)) for one in self._pairs(node)]

    def _pairs(self, node: int) -> list[Section]:
        found: list[Section] = []
        first: int | None = None
        takes = Role.LOCK
        for place, child in enumerate(self.children[node]):
            special = self.special.get(child)
            if special in TAKES and first is None:
                first, takes = place, special
            elif special is Role.UNLOCK and first is not None:
                lines = [self.tree.keys[self.children[node][at]].site_line for at in (first, place)]
                key = self.tree.keys[node]
                name = f"lock {short_name(key.function)}:{lines[0] or key.line}"
                sleeps = self._sleeps(self.children[node][first])
                found.append(Section(name, first, place, self._between(node, lines[0], lines[1]), takes, sleeps))
                first = None
        if first is not None:
            self._add_merged(node, first, takes, found)
        return found

    def _add_merged(self, node: int, first: int, takes: Role, found: list[Section]) -> None:
        """Add the section of a lock that no later call gives back, if an earlier one does so, too.

        Where branches end in the same call that gives their locks back, a compiler makes one of them, which stands
        behind the branch that ran first. What ran for the first time later is of the other one.
        """
        children, entries = self.children[node], self.tree.entries
        for section in found:
            if entries[children[section.last]] >= entries[children[section.first]] + entries[children[first]]:
                lines = [self.tree.keys[children[at]].site_line for at in (first, section.last)]
                key = self.tree.keys[node]
                name = f"lock {short_name(key.function)}:{lines[0] or key.line}"
                sleeps = self._sleeps(children[first])
                found.append(
                    Section(name, first, len(children) - 1, self._between(node, lines[0], lines[1]), takes, sleeps)
                )
                return

    def _sleeps(self, call: int) -> bool | None:
        """Whether threads sleep for the lock that a call takes; None: as they do in the runtime of parallel regions."""
        function = self.tree.keys[call].function.partition("@")[0]
        return None if function in TEAM_LOCKS else function != SPINNING_LOCK

    def line_sections(self, node: int) -> list[tuple[LineLock, dict[int, float]]]:
        """Critical sections of a Python program's body, with its own seconds by region in each.

        What runs in several sections is in the innermost of them.
        """
        sections = self.waits.line_locks.of_body.get(body_of(self.tree, node), ())
        found: list[tuple[LineLock, dict[int, float]]] = []
        for section in sections:
            begin = section.first - (section.first == section.last)
            inner = {
                line
                for other in sections
                if other is not section and section.is_around(other)
                for line in range(other.first, other.last + 1)
                if other.holds(line)
            }
            found.append((section, self._between(node, begin, section.last + 1, inner)))
        return found

    def locked_below(self, node: int) -> tuple[dict[int, float], dict[str, Locked]]:
        """Seconds by region of a node and all below it: outside of critical sections, and under each lock.

        In nested sections only the outermost lock counts.
        """
        free: dict[int, float] = {}
        locked: dict[str, Locked] = {}
        pending: list[tuple[int, str | None]] = [(node, None)]
        while pending:
            one, held = pending.pop()
            own_s = dict(self.own_s[one])
            sections = [] if held else self.line_sections(one)
            for section, seconds in sections:
                outermost = next(around for around, _ in sections if around.is_around(section))
                under = locked.setdefault(outermost.name, Locked())
                under.times += runs_of(self.tree, one) if outermost is section else 0
                for region, time_s in seconds.items():
                    own_s[region] -= time_s
                    under.seconds[region] = under.seconds.get(region, 0.0) + time_s
            add_seconds(locked[held].seconds if held else free, own_s)
            for child in self.children[one]:
                line = line_in_body(self.tree, child)
                inside = next((section.name for section, _ in sections if section.holds(line)), held)
                pending.append((child, inside))
        return free, locked

    @cached_property
    def lock_names(self) -> dict[str, str]:
        """The name that stands for each lock that has several.

        Where all that write hold the same reader-writer lock, those who read hold that one, too: a lock that nobody
        writes under keeps nobody waiting.
        """
        names: dict[int, str] = {}
        readers: dict[str, None] = {}
        writers: dict[str, None] = {}
        for node in sorted({int(self.tree.parent[call]) for call, role in self.special.items() if role in TAKES}):
            for section in self._pairs(node):
                if section.takes is not Role.LOCK:
                    (readers if section.takes is Role.READ_LOCK else writers)[section.name] = None
                for child in self.children[node][section.first : section.last + 1]:
                    names[child] = section.name
        number: dict[str, int] = {}
        leader: dict[int, int] = {}
        for source, target in self.waits.same_lock:
            pair = [names.get(self._child_with_section(node, names), "") for node in (source, target)]
            if all(pair):
                one, other = (find(leader, number.setdefault(name, len(number))) for name in pair)
                leader[max(one, other)] = min(one, other)
        written = [number.setdefault(name, len(number)) for name in writers]
        if written and len({find(leader, one) for one in written}) == 1:
            for name in readers:
                one, other = find(leader, written[0]), find(leader, number.setdefault(name, len(number)))
                leader[max(one, other)] = min(one, other)
        of_number = list(number)
        return {name: of_number[find(leader, one)] for name, one in number.items()}

    def _child_with_section(self, node: int, names: dict[int, str]) -> int:
        """The node, or the loop around it that tests a condition, which lies in a critical section."""
        while node >= 0 and node not in names and self.tree.kind[self.tree.parent[node]] == TreeNodeKind.LOOP:
            node = int(self.tree.parent[node])
        return node

    def _between(self, node: int, after: int, before: int, without: Collection[int] = ()) -> dict[int, float]:
        low, high = np.searchsorted(self.tree.work_node, [node, node + 1])
        rows = slice(int(low), int(high))
        inside = (self.row_line[rows] > after) & (self.row_line[rows] < before)
        if without:
            inside &= ~np.isin(self.row_line[rows], list(without))
        sums: dict[int, float] = {}
        for region, seconds in zip(self.row_region[rows][inside], self.row_s[rows][inside], strict=True):
            if seconds > 0:
                sums[int(region)] = sums.get(int(region), 0.0) + float(seconds)
        return sums

    def parallel_below(self, node: int) -> list[int]:
        """The functions of parallel regions that a call leads to through the runtime (and the loader) alone.

        In trees of earlier releases the runtime's call may lie below that which created its threads.
        """
        found, pending = [], [node]
        while pending:
            one = pending.pop()
            role = self.special.get(one)
            if role is Role.PARALLEL:
                found.append(one)
            elif self.is_special_below[one] and (
                role is Role.CREATE or is_runtime(self.tree, one) or is_loader(self.tree, one)
            ):
                pending += reversed(self.children[one])
        return found

    def all_parallel(self, root: int) -> list[int]:
        """All functions of parallel regions below a node that are in no other one."""
        return list(self.outermost([root], lambda node: self.special.get(node) is Role.PARALLEL))


def _in_order(tree: ExecutionTree, waits: Waits) -> list[list[int]]:
    """Children of each node in order; by source line those that wait, and ran for the first time late, and leaves.

    A thread that finds what it waits for ready in a loop's first iterations comes to the call that waits later. The
    order of array operations among calls and loops is not recorded.
    """
    below = [_leaves_by_line(tree, siblings) for siblings in tree.children()]
    for node, stops in waits.stops.items():
        siblings = below[tree.parent[node]]
        if not any(stop.is_wait and stop.total > tree.entries[node] for stop in stops) or not line_in_body(tree, node):
            continue
        at = siblings.index(node)
        later = [place for place in range(at) if line_in_body(tree, siblings[place]) > line_in_body(tree, node)]
        if later:
            siblings.insert(later[0], siblings.pop(at))
    return below


def _leaves_by_line(tree: ExecutionTree, siblings: list[int]) -> list[int]:
    """Siblings, each leaf before the first call or loop on a later line."""
    leaves = [node for node in siblings if tree.kind[node] == TreeNodeKind.LEAF]
    if not leaves:
        return siblings
    ordered = [node for node in siblings if tree.kind[node] != TreeNodeKind.LEAF]
    places: dict[int, list[int]] = {}
    for leaf in sorted(leaves, key=lambda leaf: line_in_body(tree, leaf)):
        line = line_in_body(tree, leaf)
        later = [place for place, node in enumerate(ordered) if line_in_body(tree, node) > line]
        places.setdefault(later[0] if later else len(ordered), []).append(leaf)
    found: list[int] = []
    for place in range(len(ordered) + 1):
        found += places.get(place, [])
        found += ordered[place : place + 1]
    return found


def _without_idle(special: dict[int, Role], waits: Waits) -> set[int]:
    """Nodes that threads have something to do with one another at: signals that nobody waited for are none."""
    idle = (Role.WAIT, Role.SIGNAL, Role.TAKE, Role.GIVE)
    return {node for node, role in special.items() if role not in idle or node in waits.stops}


def _waits(tree: ExecutionTree, special: dict[int, Role]) -> Flags:
    """bool [nodes]: runtimes, where there are parallel regions; all that a barrier or a join does.

    A thread that was alone in its process waited for nobody.
    """
    waits = np.zeros(len(tree), np.bool_)
    threads = Counter(thread.process for thread in tree.threads)
    alone = {thread.root for thread in tree.threads if threads[thread.process] == 1}
    nodes = NodeTree(tree.parent)
    is_alone = nodes.any_around(nodes.flags(alone))
    is_parallel = Role.PARALLEL in special.values()
    for node in range(len(tree)):
        parent = int(tree.parent[node])
        if is_alone[node]:
            continue
        inside = parent >= 0 and bool(waits[parent]) and special.get(node) is not Role.PARALLEL
        below_runtime = inside and not (is_parallel and _is_user_code(tree, node))
        waits[node] = (
            below_runtime or special.get(node) in (Role.BARRIER, Role.JOIN) or (is_parallel and is_runtime(tree, node))
        )
    return waits


def _is_user_code(tree: ExecutionTree, node: int) -> bool:
    """Whether a call from a runtime leads out of it: into neither itself, nor the loader, nor the C library."""
    return not (is_runtime(tree, node) or is_loader(tree, node) or module_name(tree, node).startswith("libc."))
