"""The tables of the execution tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Annotated, Any

import numpy as np

from foretrace.base import json_text

from . import schema
from .schema import Column, Scale, StoredTables, Table, columns, columns_of, made, table_of
from .tree_records import ExecutionTree, NodeKey, Synchronisation, TreeThread, check_tree

_KEY = columns_of(NodeKey, skip=("caller",))
_NODE = (
    columns_of(ExecutionTree, "parent", "rank", "kind")
    | _KEY
    | columns_of(
        ExecutionTree, "loop_id", "entries", "iterations", "least", "most", "depth", "recursive_entries", "is_estimated"
    )
)
_tree = attrgetter("tree")


def _nodes(tree: ExecutionTree) -> Iterable[Iterable[Any]]:
    yield range(len(tree))
    for name in _NODE:
        yield [getattr(key, name) for key in tree.keys] if name in _KEY else getattr(tree, name)


def _sparse(name: str, what: str, of_fields: str, order: str, part: str = "") -> Table:
    """A table of columns of the tree whose first is a node; `part` numbers the rows of each node."""
    first, *others = of_fields.split()

    def values(tree: ExecutionTree) -> Iterable[Iterable[Any]]:
        nodes = getattr(tree, first)
        numbered = [np.arange(len(nodes)) - np.searchsorted(nodes, nodes)] if part else []
        return [nodes, *numbered, *(getattr(tree, one) for one in others)]

    numbers = columns(**{part: int}) if part else {}
    of_columns = columns_of(ExecutionTree, first) | numbers | columns_of(ExecutionTree, *others)
    return Table(name, what, of_columns, values, _tree, f"node_id, {order}")


TREE_TABLES = (
    Table(
        "tree",
        "The execution tree, if there is one; `notes` is JSON.",
        columns(merged_contexts=schema.Count, notes=str),
        lambda tree: ([tree.merged_contexts], [json_text.encode(list(tree.notes)).decode()]),
        _tree,
    ),
    Table(
        "tree_nodes",
        "A node: a thread, a call or a loop.",
        columns(node=Annotated[int, Column(Scale.IDENTITY, column="node_id")]) | _NODE,
        _nodes,
        _tree,
        order="",
    ),
    _sparse(
        "tree_histograms",
        "Entries of a loop by number of iterations.",
        "histogram_node histogram_bucket histogram_entries",
        "bucket",
    ),
    _sparse("tree_work", "A node's own executions of a block.", "work_node work_block work_executions", "block_id"),
    table_of("tree_threads", TreeThread, "threads", part=_tree),
    table_of("tree_synchronisation", Synchronisation, "synchronisation", part=_tree, order="rowid"),
    _sparse(
        "tree_phases",
        "A phase of a loop whose iterations change over the run.",
        "phase_node phase_entries phase_iterations",
        "phase",
        "phase",
    ),
    _sparse(
        "tree_rounds",
        "A part of the iterations around a loop, and the loop's entries in these.",
        "round_node round_entries round_iterations round_around",
        "part",
        "part",
    ),
)


def read_tree(stored: StoredTables, callers: Mapping[int, str]) -> ExecutionTree | None:
    """The execution tree, if there is one. `callers` are the functions of the program for which nodes ran.

    Raises:
        ValueError: the tables do not fit together.
    """
    head = stored.row("tree")
    if head is None:
        return None
    nodes = stored.columns("tree_nodes")
    nodes["caller"] = [callers.get(node, "") for node in nodes["node"]]
    sparse: dict[str, Any] = {}
    for name in ("tree_histograms", "tree_work", "tree_phases", "tree_rounds"):
        sparse |= stored.columns(name)
    of_fields = nodes | sparse
    for name in ("node", "phase", "part", "caller", *_KEY):
        of_fields.pop(name, None)
    tree = ExecutionTree(
        **of_fields,
        keys=made(NodeKey, nodes),
        threads=stored.records(TreeThread, "tree_threads"),
        synchronisation=stored.records(Synchronisation, "tree_synchronisation"),
        merged_contexts=head["merged_contexts"],
        notes=json_text.decode(head["notes"], tuple[str, ...]),
    )
    check_tree(tree)
    return tree
