"""Waits between threads of an execution tree, beyond barriers and joins, as semaphores.

The signature's wake edges say which thread waited at which node until another one, at a node of its own, woke it.
Places that edges join are one semaphore: a condition variable, a queue, a counting semaphore. It can be read in two
ways:

- A place that is passed as often as its event is signalled needs one signal each time, whether it had to wait when the
  program was traced or not: the consumer of a queue, or turns that threads take.
- Else a place waits as often as it did when the program was traced.

Contended locks leave such edges, too: they tell which calls take and give back the same lock.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeVar

from foretrace.tracer.signature.tree_records import (
    ExecutionTree,
    Synchronisation,
    SynchronisationKind,
    TreeNodeKind,
)

from .line_locks import LineLocks, line_locks_of
from .runtimes import caller, is_runtime

ONE_FOR_ONE = 0.1
"""Share by which passes and signals may differ, besides one for each thread, to be taken to need each other."""
_C_LIBRARY = re.compile(r"^lib(c|pthread)[.-]")
_LOCKS = re.compile(r"^_*(lll_lock|lll_unlock|lll_mutex|mutex_lock|mutex_unlock)")
_RUST_LOCK = re.compile(r"(futex.*|::)(Mutex|RwLock)\W*\d*(lock_contended|wake|read_contended|write_contended)")
"""Waits of Rust's `Mutex` and `RwLock`, whose uncontended cases are inlined; plain and mangled names."""
_One = TypeVar("_One")


class Role(Enum):
    """Role of a threading library's call."""

    CREATE = auto()
    JOIN = auto()
    BARRIER = auto()
    MEETING = auto()  # of a team inside a parallel region
    LOCK = auto()
    UNLOCK = auto()
    READ_LOCK = auto()  # of a reader-writer lock: readers hold it together
    WRITE_LOCK = auto()
    WAIT = auto()  # for a condition variable
    SIGNAL = auto()
    TAKE = auto()  # units of a counting semaphore
    GIVE = auto()
    PARALLEL = auto()  # a function made of a parallel region
    SINGLE = auto()  # begins what one member of a team does for all
    SINGLE_END = auto()


ROLES = {
    "pthread_create": Role.CREATE,
    "thrd_create": Role.CREATE,
    "pthread_join": Role.JOIN,
    "thrd_join": Role.JOIN,
    "pthread_barrier_wait": Role.BARRIER,
    "GOMP_barrier": Role.MEETING,
    "GOMP_barrier_cancel": Role.MEETING,
    "GOMP_loop_end": Role.MEETING,
    "GOMP_loop_end_cancel": Role.MEETING,
    "GOMP_sections_end": Role.MEETING,
    "GOMP_sections_end_cancel": Role.MEETING,
    "__kmpc_barrier": Role.MEETING,
    "__kmpc_cancel_barrier": Role.MEETING,
    "GOMP_single_start": Role.SINGLE,
    "__kmpc_single": Role.SINGLE,
    "__kmpc_end_single": Role.SINGLE_END,
    "__kmpc_master": Role.SINGLE,
    "__kmpc_end_master": Role.SINGLE_END,
    "__kmpc_masked": Role.SINGLE,
    "__kmpc_end_masked": Role.SINGLE_END,
    "pthread_mutex_lock": Role.LOCK,
    "pthread_mutex_unlock": Role.UNLOCK,
    "mtx_lock": Role.LOCK,
    "mtx_unlock": Role.UNLOCK,
    "pthread_rwlock_rdlock": Role.READ_LOCK,
    "pthread_rwlock_timedrdlock": Role.READ_LOCK,
    "pthread_rwlock_clockrdlock": Role.READ_LOCK,
    "pthread_rwlock_wrlock": Role.WRITE_LOCK,
    "pthread_rwlock_timedwrlock": Role.WRITE_LOCK,
    "pthread_rwlock_clockwrlock": Role.WRITE_LOCK,
    "pthread_rwlock_unlock": Role.UNLOCK,
    "pthread_spin_lock": Role.LOCK,
    "pthread_spin_unlock": Role.UNLOCK,
    "omp_set_lock": Role.LOCK,
    "omp_unset_lock": Role.UNLOCK,
    "GOMP_critical_start": Role.LOCK,
    "GOMP_critical_end": Role.UNLOCK,
    "GOMP_critical_name_start": Role.LOCK,
    "GOMP_critical_name_end": Role.UNLOCK,
    "__kmpc_critical": Role.LOCK,
    "__kmpc_critical_with_hint": Role.LOCK,
    "__kmpc_end_critical": Role.UNLOCK,
    "pthread_cond_wait": Role.WAIT,
    "pthread_cond_timedwait": Role.WAIT,
    "pthread_cond_clockwait": Role.WAIT,
    "cnd_wait": Role.WAIT,
    "cnd_timedwait": Role.WAIT,
    "pthread_cond_signal": Role.SIGNAL,
    "pthread_cond_broadcast": Role.SIGNAL,
    "cnd_signal": Role.SIGNAL,
    "cnd_broadcast": Role.SIGNAL,
    "sem_wait": Role.TAKE,
    "sem_timedwait": Role.TAKE,
    "sem_post": Role.GIVE,
}
TAKES = (Role.LOCK, Role.READ_LOCK, Role.WRITE_LOCK)
"""Roles that begin a critical section."""
SPINNING_LOCK = "pthread_spin_lock"
"""Threads spin for it. For other locks of the C library they sleep at once if they are taken."""
TEAM_LOCKS = (
    "omp_set_lock",
    "GOMP_critical_start",
    "GOMP_critical_name_start",
    "__kmpc_critical",
    "__kmpc_critical_with_hint",
)
"""Locks of the runtime of parallel regions: threads wait for them as they do between regions."""
PYTHON_ROLES = {
    "Thread.start": Role.CREATE,
    "Thread.join": Role.JOIN,
    "Condition.wait": Role.WAIT,
    "Condition.notify": Role.SIGNAL,
}
"""Functions of Python's `threading`, which events, queues, semaphores and barriers are made of."""


def role_of(tree: ExecutionTree, node: int) -> Role | None:
    """Role of a call, by its function's name."""
    key = tree.keys[node]
    if tree.kind[node] != TreeNodeKind.CALL:
        return None
    if key.file.endswith("/threading.py"):
        return PYTHON_ROLES.get(key.function)
    return ROLES.get(key.function.partition("@")[0])


@dataclass(frozen=True, slots=True)
class Stop:
    """A wait or post at a semaphore before (`is_wait`) or behind a node, `total` times in all."""

    semaphore: str
    is_wait: bool
    total: int
    units: int = 1


@dataclass(slots=True)
class Inside:
    """An act on a line of a node itself: a stop, or the creation or join of `threads`."""

    line: int
    what: Stop | Role
    threads: list[int] = field(default_factory=list)

    @property
    def comes_first(self) -> bool:
        """Whether it comes before what else is on the same line: a wait."""
        return isinstance(self.what, Stop) and self.what.is_wait


@dataclass(slots=True)
class Waits:
    """Roles, waits and locks that a tree's edges imply.

    Attributes:
        stops: around nodes that are calls.
        inside: of nodes that are the program's own functions and loops, in which libraries do what is not traced
            (Python), by line.
        creates: threads that a node's calls create, in order.
        joins: threads whose ends a node's calls waited for.
        same_lock: pairs of calls that take and give back the same lock.
        line_locks: critical sections of Python programs.
        roles: of nodes that have one, by name or by their edges.
    """

    stops: dict[int, list[Stop]] = field(default_factory=lambda: defaultdict(list))
    inside: dict[int, list[Inside]] = field(default_factory=lambda: defaultdict(list))
    creates: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    joins: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    same_lock: list[tuple[int, int]] = field(default_factory=list)
    line_locks: LineLocks = field(default_factory=LineLocks)
    roles: dict[int, Role] = field(default_factory=dict)


def waits_of(tree: ExecutionTree) -> Waits:
    """Sort a tree's edges by what threads did there."""
    roles = {node: role for node in range(len(tree)) if (role := role_of(tree, node)) is not None}
    waits = Waits(roles={node: role for node, role in roles.items() if not _is_of_runtime(tree, node, role)})
    wakes: list[_Wake] = []
    for edge in sorted(tree.synchronisation, key=lambda edge: (edge.source, edge.target)):
        source, target = (_place(tree, waits.roles, node) for node in (edge.source_node, edge.target_node))
        if edge.kind in (SynchronisationKind.CREATE, SynchronisationKind.JOIN):
            is_create = edge.kind is SynchronisationKind.CREATE
            node, line = (edge.source_node, edge.source_line) if is_create else (edge.target_node, edge.target_line)
            role, thread = (Role.CREATE, edge.target) if is_create else (Role.JOIN, edge.source)
            if node >= 0 and _is_python(tree, node) and (source if is_create else target) not in waits.roles:
                _inside_of(waits, node, line, role).threads.append(thread)
                continue
        if edge.kind is SynchronisationKind.CREATE and source >= 0:
            waits.roles.setdefault(source, Role.CREATE)
            waits.creates[source].append(edge.target)
        elif edge.kind is SynchronisationKind.JOIN and target >= 0:
            waits.roles.setdefault(target, Role.JOIN)
            waits.joins[target].append(edge.source)
        elif edge.kind is SynchronisationKind.WAKE and source >= 0 and target >= 0:
            _sort_wake(tree, waits, edge, source, target, wakes)
    for number, component in enumerate(_components(wakes)):
        _add_semaphore(tree, waits, f"semaphore {number}", component)
    waits.line_locks = line_locks_of(tree, find)
    for node in waits.inside:
        waits.inside[node].sort(key=lambda one: (one.line, not one.comes_first))
    return waits


def _is_of_runtime(tree: ExecutionTree, node: int, role: Role) -> bool:
    """Whether a runtime of parallel regions calls a function for a purpose of its own, such as its locks.

    What one of its entry points calls has the entry point's name. Threads that it creates are seen.
    """
    if role in (Role.CREATE, Role.JOIN):
        return False
    above = caller(tree, node)
    return above >= 0 and is_runtime(tree, above)


def _inside_of(waits: Waits, node: int, line: int, role: Role) -> Inside:
    for found in waits.inside[node]:
        if (found.line, found.what) == (line, role):
            return found
    waits.inside[node].append(Inside(line, role))
    return waits.inside[node][-1]


def _is_python(tree: ExecutionTree, node: int) -> bool:
    """Whether a node is a Python program's."""
    return tree.keys[node].file.endswith(".py") or tree.keys[node].function.startswith("<")


def _sort_wake(
    tree: ExecutionTree, waits: Waits, edge: Synchronisation, source: int, target: int, wakes: list[_Wake]
) -> None:
    before, behind = waits.roles.get(source), waits.roles.get(target)
    if before is Role.UNLOCK and behind in (*TAKES, Role.WAIT):
        waits.same_lock.append((source, target))
    elif before in (Role.SIGNAL, Role.GIVE, None) and behind in (Role.WAIT, Role.TAKE, None):
        if before is None and _is_python(tree, edge.source_node):
            source = edge.source_node
        if behind is None and _is_python(tree, edge.target_node):
            target = edge.target_node
        is_raw = before is None or behind is None
        if not is_raw or not any(_is_internal(tree, node) for node in (edge.source_node, edge.target_node)):
            wakes.append(_Wake(source, target, edge.count, edge.source_line, edge.target_line))


def _place(tree: ExecutionTree, roles: dict[int, Role], node: int) -> int:
    """The outermost call with a role around a node; else the innermost call. -1 if there is none.

    A team's threads run tasks where they meet: what these do is their own.
    """
    call, found = -1, -1
    while node >= 0:
        if tree.kind[node] == TreeNodeKind.CALL:
            call = node if call < 0 else call
            found = node if roles.get(node, Role.MEETING) is not Role.MEETING else found
        node = int(tree.parent[node])
    return found if found >= 0 else call


def _is_internal(tree: ExecutionTree, node: int) -> bool:
    """Whether a futex is a library's own, such as the lock of an allocator or of a runtime of parallel regions."""
    last = ""
    while node >= 0:
        key = tree.keys[node]
        module = key.module.rpartition("/")[2]
        if _LOCKS.match(key.function) or _RUST_LOCK.search(key.function) or is_runtime(tree, node):
            return True
        if tree.kind[node] == TreeNodeKind.CALL:
            if not _C_LIBRARY.match(module):
                return last not in ("", "syscall")
            last = key.function
        node = int(tree.parent[node])
    return True


@dataclass(frozen=True, slots=True)
class _Wake:
    source: int
    target: int
    count: int
    source_line: int
    target_line: int


@dataclass(slots=True)
class _Component:
    """Places, and how often one of them woke another; `lines` of both."""

    sources: dict[int, int] = field(default_factory=dict)
    targets: dict[int, int] = field(default_factory=dict)
    source_lines: dict[int, int] = field(default_factory=dict)
    target_lines: dict[int, int] = field(default_factory=dict)


def _components(wakes: list[_Wake]) -> list[_Component]:
    """Places that wakes join, in their order. A node that wakes and one that is woken are two, even if they are one."""
    leader: dict[int, int] = {}
    for wake in wakes:
        joined = find(leader, 2 * wake.source), find(leader, 2 * wake.target + 1)
        leader[joined[1]] = joined[0]
    found: dict[int, _Component] = defaultdict(_Component)
    for wake in wakes:
        component = found[find(leader, 2 * wake.source)]
        component.sources[wake.source] = component.sources.get(wake.source, 0) + wake.count
        component.targets[wake.target] = component.targets.get(wake.target, 0) + wake.count
        component.source_lines.setdefault(wake.source, wake.source_line)
        component.target_lines.setdefault(wake.target, wake.target_line)
    return list(found.values())


def find(leader: dict[_One, _One], one: _One) -> _One:
    """Who stands for the set that a node is in."""
    while (above := leader.setdefault(one, one)) != one:
        leader[one] = leader.setdefault(above, above)
        one = leader[one]
    return one


def runs_of(tree: ExecutionTree, node: int) -> int:
    """Runs of a node's body."""
    is_loop = tree.kind[node] == TreeNodeKind.LOOP
    return max(int(tree.iterations[node] if is_loop else tree.entries[node] + tree.recursive_entries[node]), 1)


def _add_semaphore(tree: ExecutionTree, waits: Waits, name: str, component: _Component) -> None:
    runs = {
        source: runs_of(tree, source) if _is_inside(tree, waits, source) else max(int(tree.entries[source]), 1)
        for source in component.sources
    }
    units = {source: -(-woken // runs[source]) for source, woken in component.sources.items()}
    signals = sum(runs[source] * units[source] for source in component.sources)
    passes = {target: _passes(tree, waits, target) for target in component.targets}
    total = sum(number for _, number in passes.values())
    is_one_for_one = abs(total - signals) <= ONE_FOR_ONE * signals + len(passes) + len(component.sources)
    for target, count in component.targets.items():
        node, number = passes[target] if is_one_for_one else (target, count)
        _add_stop(tree, waits, node, component.target_lines[target], Stop(name, True, number))
    for source, count in component.sources.items():
        times = runs[source] if is_one_for_one else min(count, runs[source])
        each = units[source] if is_one_for_one else round(count / times)
        _add_stop(tree, waits, source, component.source_lines[source], Stop(name, False, times, each))


def _is_inside(tree: ExecutionTree, waits: Waits, node: int) -> bool:
    return node not in waits.roles and _is_python(tree, node)


def _add_stop(tree: ExecutionTree, waits: Waits, node: int, line: int, stop: Stop) -> None:
    if _is_inside(tree, waits, node):
        waits.inside[node].append(Inside(line, stop))
    else:
        waits.stops[node].append(stop)


def _passes(tree: ExecutionTree, waits: Waits, target: int) -> tuple[int, int]:
    """Before or in which node a thread may have to wait, and how often it comes there."""
    if waits.roles.get(target) is not Role.WAIT:
        return target, runs_of(tree, target) if _is_inside(tree, waits, target) else int(tree.entries[target])
    node = target
    while True:
        above = int(tree.parent[node])
        if above < 0 or tree.kind[above] != TreeNodeKind.LOOP:
            break
        if int(tree.iterations[above]) > int(tree.entries[above]) + int(tree.entries[target]):
            break
        node = above  # the loop that tests the condition again after each wait
    if above < 0:
        return target, int(tree.entries[target])
    return node, runs_of(tree, above)
