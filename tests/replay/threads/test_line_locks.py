"""Locks of Python programs: critical sections by source line, in threads, processes and the calls of pools."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_samples import measured_host, with_changes
from tree_samples import Tree

from foretrace.replay.engine.program import Lock, Run, Sharing, Unlock
from foretrace.replay.node.predictions import predict_on
from foretrace.replay.node.replay import replay_on
from foretrace.replay.threads.line_locks import Held, LineLock, line_locks_of
from foretrace.replay.threads.tree_waits import find
from foretrace.tracer.signature.tree_records import SynchronisationKind

LOCK, WAKE = SynchronisationKind.LOCK, SynchronisationKind.WAKE
STEP_S = 1000e-9
"""Of a thousand instructions at one a cycle of 1 GHz."""


def host(cores=8):
    base = measured_host()
    return with_changes(base, core=with_changes(base.core, cores=cores, source={**base.core.source, "cores": "here"}))


def workers(own, shared, *, tasks=10, number=2, processes=True, calls=False, lines=(5, 3), kind=LOCK, inside=None):
    """Workers that do `own` steps on line 2, and `shared` ones on line 4 between the lock's lines, `tasks` times each.

    With `calls` each task is a call, else an iteration. `inside` adds to the tree what a shared step does.
    """
    tree = Tree()
    tree.call(tree.thread(), "<module>")
    blocks = [None, None]
    bodies = []
    for worker in range(1, number + 1):
        root = tree.thread(worker, worker if processes else 0)
        above = tree.call(root, "work", entries=tasks if calls else 1)
        bodies.append(above if calls else tree.loop(above, tasks))
        blocks[0] = tree.does(tree.call(bodies[-1], "own", entries=tasks, site=2), tasks * own, blocks[0])
        node = tree.call(bodies[-1], "update", entries=tasks, site=4)
        blocks[1] = tree.does(node, tasks * shared, blocks[1])
        if inside is not None:
            inside(tree, node, worker)
    for source, target in ((0, 1), (1, 0)):
        tree.waits(kind, source + 1, target + 1, 3, source_node=bodies[source], target_node=bodies[target], lines=lines)
    return tree.signature(guest="python")


@pytest.mark.parametrize(("own", "shared"), [(10, 30), (20, 20), (30, 10), (100, 1)])
def test_a_lock_of_processes_serialises(own, shared):
    """Where more is done under the lock it is never free; else the second process is one section behind."""
    tasks = 10
    makespan_s = replay_on(workers(own, shared, tasks=tasks), host()).makespan_s
    busy = own + 2 * tasks * shared
    behind = tasks * (own + shared) + shared
    assert makespan_s == pytest.approx(max(busy, behind) * STEP_S, rel=1e-6)


def test_what_is_not_between_the_lines_is_not_under_the_lock():
    for lines in ((2, 1), (9, 8)):
        assert replay_on(workers(10, 30, lines=lines), host()).makespan_s >= 10 * 40 * STEP_S
    replayed = replay_on(workers(10, 30, lines=(9, 6)), host())
    assert replayed.makespan_s == pytest.approx(10 * 40 * STEP_S), "nothing is under it"


@pytest.mark.parametrize("size", [2, 4])
def test_the_calls_of_a_pool_take_the_lock(size):
    own, shared, calls = 10, 30, 20
    (one,) = predict_on(workers(own, shared, tasks=calls // 2, calls=True), host(), [size])
    assert one.time_s == pytest.approx((own + calls * shared) * STEP_S, rel=1e-6)


def test_the_interpreters_lock_is_enough_for_what_the_interpreter_does():
    replayed = replay_on(workers(10, 30, processes=False), host())
    assert replayed.makespan_s == pytest.approx(2 * 10 * 40 * STEP_S)
    assert not any(resource.kind == "lock" for resource in replayed.resources)


def test_who_has_a_lock_does_not_wait_for_it():
    nodes = {}

    def again(tree, node, worker):
        """The function that updates takes the same lock, on a line of its own."""
        nodes[worker] = node
        tree.call(node, "add", entries=10, site=7)
        if worker == 2:
            for source, target in ((1, 2), (2, 1)):
                tree.waits(LOCK, source, target, source_node=nodes[source], target_node=nodes[target], lines=(8, 6))
            tree.waits(LOCK, 1, 2, source_node=nodes[1], target_node=node - 2, lines=(8, 3))

    replayed = replay_on(workers(10, 30, inside=again), host())
    assert replayed.makespan_s == pytest.approx((10 + 20 * 30) * STEP_S, rel=1e-6)
    assert len([resource for resource in replayed.resources if resource.kind == "lock"]) == 1


def test_what_is_left_out_is_said():
    def warnings(**changes):
        replayed = replay_on(workers(10, 30, **changes), host())
        assert replayed.makespan_s == pytest.approx(10 * 40 * STEP_S)
        return [text for text in replayed.warnings if "lock" in text]

    assert warnings(lines=(3, 3)) == [
        "6 waits for locks are left out, at program.c:3: what runs until these are given back is not known"
    ]
    assert warnings(lines=(0, 3)) == ["6 waits for locks inside of library calls are left out"]


def test_a_lock_on_one_line_has_what_is_on_that_line():
    makespan_s = replay_on(workers(10, 30, lines=(4, 4)), host()).makespan_s
    assert makespan_s == pytest.approx((10 + 20 * 30) * STEP_S, rel=1e-6)


def test_a_lock_inside_of_a_semaphore_is_none():
    tree = Tree()
    bodies = [tree.call(tree.thread(number, number), "work") for number in (0, 1)]
    for kind, count in ((LOCK, 2), (WAKE, 9)):
        tree.waits(kind, 0, 1, count, source_node=bodies[0], target_node=bodies[1], lines=(5, 3))
    made = tree.signature(guest="python").tree
    assert not line_locks_of(made, find).of_body
    tree.waits(LOCK, 1, 0, 20, source_node=bodies[1], target_node=bodies[0], lines=(5, 3))
    (sections,) = line_locks_of(tree.signature(guest="python").tree, find).of_body.values()
    assert [(one.first, one.last) for one in sections] == [(3, 5)]


def test_sections_of_the_same_lock_have_one_name():
    """The lock is taken in two functions; each waits for the other one."""
    tree = Tree()
    first, second = (tree.call(tree.thread(number, number), f"work {number}") for number in (0, 1))
    tree.waits(LOCK, 0, 1, source_node=first, target_node=second, lines=(5, 12))
    tree.waits(LOCK, 1, 0, source_node=second, target_node=first, lines=(14, 3))
    found = line_locks_of(tree.signature(guest="python").tree, find).of_body
    assert sorted((one.first, one.last) for sections in found.values() for one in sections) == [(3, 5), (12, 14)]
    assert len({one.name for sections in found.values() for one in sections}) == 1


@st.composite
def nested(draw):
    """Sections, each within or beside the others, and lines of children."""
    found = []

    def fill(first, last, depth):
        line = first
        while line < last and draw(st.booleans()):
            begin = draw(st.integers(line, last - 1))
            end = draw(st.integers(begin + 1, last))
            found.append(LineLock(f"lock {len(found)}", begin, end))
            if depth:
                fill(begin + 1, end, depth - 1)
            line = end + 1

    fill(1, 20, 2)
    found.sort(key=lambda one: (one.first, -one.last))
    return found, draw(st.lists(st.integers(1, 21), max_size=8))


@given(nested())
def test_each_child_has_the_locks_of_its_line(drawn):
    sections, lines = drawn
    taken = []
    held = Held([(one, [Run(one.name, 1.0, Sharing())]) for one in sections], set())
    ran = []

    def go(parts):
        for part in parts:
            if isinstance(part, Lock):
                assert part.name not in taken
                taken.append(part.name)
            elif isinstance(part, Unlock):
                assert taken.pop() == part.name
            else:
                around = [one for one in sections if one.is_around(next(s for s in sections if s.name == part.label))]
                assert taken == [one.name for one in around]
                ran.append(part.label)

    for line in lines:
        go(held.at(line))
        assert taken == [one.name for one in sections if one.holds(line)]
        assert held.innermost == (taken[-1] if taken else None)
    go(held.end())
    assert not taken
    assert sorted(ran) == sorted(one.name for one in sections)
