"""Execution trees as tests look at them: nodes by name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from foretrace.tracer.signature.file import check_tables
from foretrace.tracer.signature.records import Signature
from foretrace.tracer.signature.tree_records import ExecutionTree, TreeNode, TreeNodeKind, check_tree, own_counts
from foretrace.tracer.signature.tree_tables import TREE_TABLES


def tree_of(signature: Signature) -> ExecutionTree:
    """A signature's tree, which fits the rest of it: the work of its nodes is that of the blocks."""
    tree = signature.tree
    assert tree is not None
    check_tables(signature, TREE_TABLES)
    check_tree(tree)
    executions = np.zeros(len(signature.blocks), np.int64)
    np.add.at(executions, tree.work_block, tree.work_executions)
    assert executions.tolist() == [block.executions for block in signature.blocks]
    return tree


def function_nodes(tree: ExecutionTree, function: str) -> list[TreeNode]:
    """The nodes of a function, in all contexts."""
    return [node for node in tree.nodes() if node.kind is TreeNodeKind.CALL and node.key.function == function]


def loop_nodes(tree: ExecutionTree, function: str) -> list[TreeNode]:
    """The nodes of a function's loops, in all contexts."""
    return [node for node in tree.nodes() if node.kind is TreeNodeKind.LOOP and node.key.function == function]


def path_of(tree: ExecutionTree, node: int) -> list[str]:
    """Names of the functions from the root to a node."""
    names = []
    while node >= 0:
        if tree.kind[node] == TreeNodeKind.CALL:
            names.append(tree.keys[node].function)
        node = int(tree.parent[node])
    return names[::-1]


@dataclass(frozen=True, slots=True)
class Calls:
    """What a tree says of functions, summed over contexts, as `callgrind.Callgrind` does."""

    own: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    below: Counter[tuple[str, str]] = field(default_factory=Counter)
    entries: Counter[tuple[str, str]] = field(default_factory=Counter)


def calls_of(signature: Signature) -> Calls:
    """Sums over contexts."""
    tree = tree_of(signature)
    counts = own_counts(signature, tree)
    inclusive = tree.inclusive(counts.instructions)
    found = Calls()
    names: list[str] = []
    for node in tree.nodes():
        is_call = node.kind is TreeNodeKind.CALL
        names.append(node.key.function if is_call else names[node.parent] if node.parent >= 0 else "")
        found.own[names[-1]] += round(counts.instructions[node.node])
        if is_call:
            pair = names[node.parent], names[-1]
            found.calls[names[-1]] += node.entries + node.recursive_entries
            found.entries[pair] += node.entries
            found.below[pair] += round(inclusive[node.node])
    return found
