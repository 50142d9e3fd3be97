"""Execution trees that are nested more deeply than the interpreter's recursion limit allows."""

from __future__ import annotations

import sys

import pytest
from offload_samples import gpu
from replay_samples import measured_host
from tree_samples import Tree

from foretrace.errors import PredictionError
from foretrace.replay.deep_trees import MOST_LEVELS, levels_of
from foretrace.replay.node.replay import replay_on
from foretrace.replay.offload.triage import triage
from foretrace.tracer.signature.records import Signature


def nested(levels: int) -> Signature:
    """So many calls and a loop within one another, and work in the loop and in each call."""
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
    assert levels_of(signature.tree) == 900
    assert replay_on(signature, measured_host()).makespan_s > 0
    assert triage(signature, measured_host(), gpu()).instances
    assert sys.getrecursionlimit() == limit


def test_what_is_nested_too_deeply_is_refused_with_a_line() -> None:
    with pytest.raises(PredictionError, match=f"are nested {MOST_LEVELS + 1} deep, and {MOST_LEVELS} are replayed"):
        replay_on(nested(MOST_LEVELS + 1), measured_host())
