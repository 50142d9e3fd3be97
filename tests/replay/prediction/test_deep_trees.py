"""Execution trees that are nested more deeply than the interpreter's recursion limit allows."""

from __future__ import annotations

import sys

import pytest
from offload_samples import gpu, work_of
from replay_samples import measured_host
from tree_samples import Tree

from foretrace.base.errors import PredictionError
from foretrace.replay.node.replay import replay_on
from foretrace.replay.offload.triage import triage
from foretrace.replay.prediction.deep_trees import MOST_LEVELS
from foretrace.replay.tree.timed_tree import NodeTree
from foretrace.tracer.signature.records import Signature


def nested(levels: int) -> Signature:
    """A tree of nested calls around a loop, with work in the loop and in each call."""
    tree = Tree()
    node = tree.thread()
    for number in range(levels - 2):
        node = tree.call(node, f"f{number}")
        tree.does(node, 10)
    tree.does(tree.loop(node, 1 << 20), 1 << 20)
    return tree.signature()


def test_what_is_nested_900_deep_is_replayed_and_triaged() -> None:
    limit = sys.getrecursionlimit()
    signature = nested(900)
    assert signature.tree is not None
    assert max(NodeTree(signature.tree.parent).levels) == 900
    assert replay_on(signature, measured_host()).makespan_s > 0
    assert triage(signature, measured_host(), gpu()).instances
    assert sys.getrecursionlimit() == limit


def test_what_is_nested_too_deeply_is_refused_with_a_line() -> None:
    with pytest.raises(PredictionError, match=f"are nested {MOST_LEVELS + 1} deep, and {MOST_LEVELS} are replayed"):
        replay_on(nested(MOST_LEVELS + 1), measured_host())


def test_nodes_below_take_no_memory_where_they_are_numbered_depth_first() -> None:
    levels = 300
    deep = work_of([node - 1 for node in range(levels)], [1.0] * levels, ())
    assert [deep.below(node) for node in range(levels)] == [range(node, levels) for node in range(levels)]


def test_nodes_below_are_found_in_any_order() -> None:
    mixed = work_of([-1, 0, 0, 1, 2, 1], [1.0] * 6, ())
    assert [list(mixed.below(node)) for node in range(6)] == [[0, 1, 2, 3, 4, 5], [1, 3, 5], [2, 4], [3], [4], [5]]
