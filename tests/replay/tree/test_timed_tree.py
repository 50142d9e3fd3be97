"""The timed tree against plain definitions, and trees deeper than the interpreter recurses."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_samples import measured_host
from tree_samples import Tree

from foretrace.replay.base.spread import TYPICAL
from foretrace.replay.prediction.predict import HostRun
from foretrace.replay.threads.tree_work import TreeWork
from foretrace.replay.tree.timed_tree import TimedTree, children_of, divided_among_rows
from foretrace.replay.workload.workload import Workload


def timed(parents: list[int], own_s: list[dict[int, float]]) -> TimedTree:
    parent = np.array(parents, np.int64)
    return TimedTree(parent, children_of(parent), own_s)


@st.composite
def trees(draw: st.DrawFn) -> TimedTree:
    """Forests of up to 12 nodes in any order that has parents first, with whole seconds by region."""
    count = draw(st.integers(1, 12))
    parents = [draw(st.integers(-1, node - 1)) for node in range(count)]
    seconds = st.dictionaries(st.integers(0, 3), st.integers(0, 100).map(float), max_size=3)
    return timed(parents, [draw(seconds) for _ in range(count)])


def is_below(tree: TimedTree, node: int, above: int) -> bool:
    """By the definition, with recursion."""
    return node == above or (node >= 0 and is_below(tree, int(tree.parent[node]), above))


@given(trees())
def test_inclusive_is_own_and_that_of_the_children(tree):
    for node in range(len(tree)):
        children_s = sum(tree.inclusive_s[child] for child in tree.children[node])
        assert tree.inclusive_s[node] == tree.own_total_s[node] + children_s
    assert sum(tree.inclusive_s[tree.roots]) == tree.own_total_s.sum()


@given(trees())
def test_every_node_is_in_one_root_and_below_what_holds_it(tree):
    assert Counter(node for root in tree.roots for node in tree.below(root)) == Counter(range(len(tree)))
    for above in range(len(tree)):
        expected = [node for node in range(len(tree)) if is_below(tree, node, above)]
        assert list(tree.below(above)) == expected
        assert tree.last_below[above] == expected[-1]
        assert tree.levels[above] == len(list(tree.around(above)))


@given(trees(), st.sets(st.integers(0, 11)))
def test_seconds_below_are_those_of_all_nodes_below_but_the_ones_left_out(tree, left_out):
    for above in range(len(tree)):
        expected: Counter[int] = Counter()
        for node in tree.below(above):
            if not any(is_below(tree, node, one) and is_below(tree, one, above) for one in left_out):
                expected.update(tree.own_s[node])
        assert tree.seconds_below(above, left_out) == expected


@given(trees(), st.sets(st.integers(0, 11)))
def test_flags_spread_up_and_down(tree, chosen):
    nodes = range(len(tree))
    chosen = {node for node in chosen if node < len(tree)}
    flags = tree.flags(chosen)
    assert tree.any_below(flags).tolist() == [any(is_below(tree, one, node) for one in chosen) for node in nodes]
    assert tree.any_around(flags).tolist() == [any(is_below(tree, node, one) for one in chosen) for node in nodes]
    outermost = [node for node in chosen if not any(is_below(tree, node, one) for one in chosen - {node})]
    assert sorted(tree.outermost(tree.roots, chosen.__contains__)) == sorted(outermost)


@given(trees(), st.data())
def test_common_ancestor_is_the_innermost_node_that_holds_both(tree, data):
    one, other = (data.draw(st.integers(0, len(tree) - 1)) for _ in range(2))
    holding = [node for node in range(len(tree)) if is_below(tree, one, node) and is_below(tree, other, node)]
    innermost = max(holding, key=lambda node: tree.levels[node], default=-1)
    assert tree.common_ancestors(np.array([one]), np.array([other])).tolist() == [innermost]
    sides = tree.siblings_around(one, other)
    if innermost in (one, other):
        assert sides is None
    else:
        assert sides is not None
        assert [int(tree.parent[side]) for side in sides] == [innermost, innermost]
        assert all(is_below(tree, node, side) for node, side in zip((one, other), sides, strict=True))


def test_outermost_keeps_the_order_in_which_nodes_run():
    tree = TimedTree(np.array([-1, 0, 0, 1]), [[2, 1], [3], [], []], [{}] * 4)
    assert list(tree.outermost([0], {2, 3}.__contains__)) == [2, 3]


def test_a_chain_of_100000_nodes_needs_no_recursion():
    count = 100_000
    tree = timed([*range(-1, count - 1)], [{0: 1.0}] * count)
    assert sys.getrecursionlimit() < count
    assert tree.inclusive_s.tolist() == [*range(count, 0, -1)]
    assert tree.below(1) == range(1, count)
    assert tree.seconds_below(0) == {0: count}
    assert tree.seconds_below(0, {count - 1}) == {0: count - 1}
    assert tree.levels[count - 1] == count
    assert tree.any_below(tree.flags([count - 1])).all()
    assert tree.any_around(tree.flags([0])).all()
    assert list(tree.outermost([0], lambda node: node == count - 1)) == [count - 1]
    assert tree.common_ancestors(np.array([5]), np.array([count - 1])).tolist() == [5]
    assert tree.siblings_around(5, count - 1) is None


def test_regions_times_are_divided_without_rest():
    """Each region's time is divided by instructions; what no node ran is told apart."""
    made = Tree()
    root = made.thread()
    call = made.call(root, "f")
    made.does(call, 30)
    loop = made.loop(call, 100)
    made.does(loop, 100)
    signature = made.signature()
    workload = Workload.of(signature)
    run = HostRun.of(workload, measured_host())
    time_s = run.times.time_s[TYPICAL]
    regions, row_s, missing = divided_among_rows(workload, signature.tree, time_s)
    sums = np.bincount(regions, row_s, len(time_s))
    for region in missing:
        sums[region] += missing[region]
    assert sums == pytest.approx(time_s)
    work = TreeWork.of(workload, signature.tree, time_s)
    whole_s = work.own_total_s.sum() + work.waited_s + sum(work.elsewhere_s.values())
    assert whole_s == pytest.approx(work.predicted_s, rel=1e-12)
