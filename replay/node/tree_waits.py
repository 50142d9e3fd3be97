"""Where threads of an execution tree wait for one another, beyond barriers and joins: as semaphores.

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

from foretrace.tracer.signature.tree_records import (
    ExecutionTree,
    Synchronisation,
    SynchronisationKind,
    TreeNodeKind,
)

ONE_FOR_ONE = 0.1
"""Share by which passes and signals may differ, besides one for each thread, to be taken to need each other."""
_C_LIBRARY = re.compile(r"^lib(c|pthread)[.-]")
_LOCKS = re.compile(r"^_*(lll_lock|lll_unlock|lll_mutex|mutex_lock|mutex_unlock)")
_RUNTIME = re.compile(r"^lib(gomp|omp|iomp5)[.-]")


class Role(Enum):
    """What a call of a threading library does."""

    CREATE = auto()
    JOIN = auto()
    BARRIER = auto()
    LOCK = auto()
    UNLOCK = auto()
    WAIT = auto()  # for a condition variable
    SIGNAL = auto()
    TAKE = auto()  # units of a counting semaphore
    GIVE = auto()
    PARALLEL = auto()  # a function made of a parallel region


ROLES = {
    "pthread_create": Role.CREATE,
    "thrd_create": Role.CREATE,
    "pthread_join": Role.JOIN,
    "thrd_join": Role.JOIN,
    "pthread_barrier_wait": Role.BARRIER,
    "pthread_mutex_lock": Role.LOCK,
    "pthread_mutex_unlock": Role.UNLOCK,
    "mtx_lock": Role.LOCK,
    "mtx_unlock": Role.UNLOCK,
    "pthread_spin_lock": Role.LOCK,
    "pthread_spin_unlock": Role.UNLOCK,
    "omp_set_lock": Role.LOCK,
    "omp_unset_lock": Role.UNLOCK,
    "GOMP_critical_start": Role.LOCK,
    "GOMP_critical_end": Role.UNLOCK,
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
PYTHON_ROLES = {
    "Thread.start": Role.CREATE,
    "Thread.join": Role.JOIN,
    "Condition.wait": Role.WAIT,
    "Condition.notify": Role.SIGNAL,
}
"""Functions of Python's `threading`, which events, queues, semaphores and barriers are made of."""


def role_of(tree: ExecutionTree, node: int) -> Role | None:
    """What a call does, by its function's name."""
    key = tree.keys[node]
    if tree.kind[node] != TreeNodeKind.CALL:
        return None
    if key.file.endswith("/threading.py"):
        return PYTHON_ROLES.get(key.function)
    return ROLES.get(key.function.partition("@")[0])


@dataclass(frozen=True, slots=True)
class Stop:
    """What a thread does at a semaphore before (`is_wait`) or behind a node, `total` times in all."""

    semaphore: str
    is_wait: bool
    total: int
    units: int = 1


@dataclass(slots=True)
class Waits:
    """What a tree's edges come to.

    Attributes:
        stops: by node; a node that waits inside of its own body is not among several calls, but waits before it.
        creates: threads that a node's calls create, in order.
        joins: threads whose ends a node's calls waited for.
        same_lock: pairs of calls that take and give back the same lock.
        roles: of nodes that have one, by name or by their edges.
    """

    stops: dict[int, list[Stop]] = field(default_factory=lambda: defaultdict(list))
    creates: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    joins: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    same_lock: list[tuple[int, int]] = field(default_factory=list)
    roles: dict[int, Role] = field(default_factory=dict)


def waits_of(tree: ExecutionTree) -> Waits:
    """Sort a tree's edges by what threads did there."""
    waits = Waits(roles={node: role for node in range(len(tree)) if (role := role_of(tree, node)) is not None})
    wakes: list[tuple[int, int, int]] = []
    for edge in tree.synchronisation:
        source, target = (_place(tree, waits.roles, node) for node in (edge.source_node, edge.target_node))
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
    return waits


def _sort_wake(
    tree: ExecutionTree, waits: Waits, edge: Synchronisation, source: int, target: int,
    wakes: list[tuple[int, int, int]],
) -> None:  # fmt: skip
    before, behind = waits.roles.get(source), waits.roles.get(target)
    if before is Role.UNLOCK and behind in (Role.LOCK, Role.WAIT):
        waits.same_lock.append((source, target))
    elif before in (Role.SIGNAL, Role.GIVE, None) and behind in (Role.WAIT, Role.TAKE, None):
        is_raw = before is None or behind is None
        if not is_raw or not any(_is_internal(tree, node) for node in (edge.source_node, edge.target_node)):
            wakes.append((source, target, edge.count))


def _place(tree: ExecutionTree, roles: dict[int, Role], node: int) -> int:
    """The outermost call with a role around a node; else the innermost call. -1 if there is none."""
    call, found = -1, -1
    while node >= 0:
        if tree.kind[node] == TreeNodeKind.CALL:
            call = node if call < 0 else call
            found = node if node in roles else found
        node = int(tree.parent[node])
    return found if found >= 0 else call


def _is_internal(tree: ExecutionTree, node: int) -> bool:
    """Whether a futex is a library's own, such as the lock of an allocator or of a runtime of parallel regions."""
    last = ""
    while node >= 0:
        key = tree.keys[node]
        module = key.module.rpartition("/")[2]
        if _LOCKS.match(key.function) or _RUNTIME.match(module):
            return True
        if tree.kind[node] == TreeNodeKind.CALL:
            if not _C_LIBRARY.match(module):
                return last not in ("", "syscall")
            last = key.function
        node = int(tree.parent[node])
    return True


@dataclass(slots=True)
class _Component:
    sources: dict[int, int] = field(default_factory=dict)
    targets: dict[int, int] = field(default_factory=dict)


def _components(wakes: list[tuple[int, int, int]]) -> list[_Component]:
    """Places that edges (source, target, count) join, in the order of the edges."""
    leader: dict[int, int] = {}
    for source, target, _ in wakes:
        joined = find(leader, source), find(leader, target)
        leader[joined[1]] = joined[0]
    found: dict[int, _Component] = defaultdict(_Component)
    for source, target, count in wakes:
        component = found[find(leader, source)]
        component.sources[source] = component.sources.get(source, 0) + count
        component.targets[target] = component.targets.get(target, 0) + count
    return list(found.values())


def find(leader: dict[int, int], one: int) -> int:
    """Who stands for the set that a node is in."""
    while (above := leader.setdefault(one, one)) != one:
        leader[one] = leader.setdefault(above, above)
        one = leader[one]
    return one


def _add_semaphore(tree: ExecutionTree, waits: Waits, name: str, component: _Component) -> None:
    units = {
        source: max(-(-woken // max(int(tree.entries[source]), 1)), 1) for source, woken in component.sources.items()
    }
    signals = sum(int(tree.entries[source]) * units[source] for source in component.sources)
    passes = {target: _passes(tree, waits.roles.get(target), target) for target in component.targets}
    total = sum(number for _, number in passes.values())
    if abs(total - signals) <= ONE_FOR_ONE * signals + len(passes) + len(component.sources):
        for node, number in passes.values():
            waits.stops[node].append(Stop(name, True, number))
        for source in component.sources:
            waits.stops[source].append(Stop(name, False, int(tree.entries[source]), units[source]))
        return
    for target, count in component.targets.items():
        waits.stops[target].append(Stop(name, True, count))
    for source, count in component.sources.items():
        times = min(count, max(int(tree.entries[source]), 1))
        waits.stops[source].append(Stop(name, False, times, round(count / times)))


def _passes(tree: ExecutionTree, role: Role | None, target: int) -> tuple[int, int]:
    """Before which node a thread may have to wait, and how often it comes there."""
    if role is not Role.WAIT:
        return target, int(tree.entries[target])
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
    is_loop = tree.kind[above] == TreeNodeKind.LOOP
    return node, int(tree.iterations[above] if is_loop else tree.entries[above] + tree.recursive_entries[above])
