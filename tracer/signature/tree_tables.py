"""The execution tree of a signature on disk. Like the rest of a signature, all of it may come from anyone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from foretrace.base import json_text

from .tree_records import (
    ExecutionTree,
    NodeKey,
    Synchronisation,
    SynchronisationKind,
    TreeNodeKind,
    TreeThread,
    check_tree,
)

SCHEMA = {
    "tree": "CREATE TABLE tree (merged_contexts INTEGER NOT NULL, notes TEXT NOT NULL)",
    "tree_nodes": (
        "CREATE TABLE tree_nodes (node_id INTEGER PRIMARY KEY, parent_id INTEGER, rank INTEGER NOT NULL, "
        "kind TEXT NOT NULL, module TEXT NOT NULL, function TEXT NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL, "
        "site_line INTEGER NOT NULL, position INTEGER NOT NULL, loop_id INTEGER, entries INTEGER NOT NULL, "
        "iterations INTEGER NOT NULL, least INTEGER NOT NULL, most INTEGER NOT NULL, depth INTEGER NOT NULL, "
        "recursive_entries INTEGER NOT NULL, is_estimated INTEGER NOT NULL)"
    ),
    "tree_histograms": (
        "CREATE TABLE tree_histograms (node_id INTEGER NOT NULL, bucket INTEGER NOT NULL, entries INTEGER NOT NULL)"
    ),
    "tree_work": (
        "CREATE TABLE tree_work (node_id INTEGER NOT NULL, block_id INTEGER NOT NULL, executions INTEGER NOT NULL)"
    ),
    "tree_threads": (
        "CREATE TABLE tree_threads (thread_id INTEGER PRIMARY KEY, process INTEGER NOT NULL, root_id INTEGER NOT NULL, "
        "first INTEGER NOT NULL, last INTEGER NOT NULL, parent INTEGER NOT NULL)"
    ),
    "tree_synchronisation": (
        "CREATE TABLE tree_synchronisation (kind TEXT NOT NULL, source INTEGER NOT NULL, target INTEGER NOT NULL, "
        "count INTEGER NOT NULL, source_node_id INTEGER, target_node_id INTEGER, source_line INTEGER NOT NULL, "
        "target_line INTEGER NOT NULL)"
    ),
    "tree_phases": (
        "CREATE TABLE tree_phases (node_id INTEGER NOT NULL, phase INTEGER NOT NULL, entries INTEGER NOT NULL, "
        "iterations INTEGER NOT NULL)"
    ),
    "tree_rounds": (
        "CREATE TABLE tree_rounds (node_id INTEGER NOT NULL, part INTEGER NOT NULL, entries INTEGER NOT NULL, "
        "iterations INTEGER NOT NULL, iterations_around INTEGER NOT NULL)"
    ),
}
"""`tree` has one row, or none where there is no tree; kinds are names in lower case."""


def insert_tree(tree: ExecutionTree | None, insert: Callable[[str, Iterable[tuple[Any, ...]]], None]) -> None:
    """Write the tables: `insert` takes a table and its rows."""
    if tree is None:
        return
    insert("tree", [(tree.merged_contexts, json_text.encode(list(tree.notes)).decode())])
    insert("tree_nodes", _node_rows(tree))
    insert("tree_histograms", _rows(tree.histogram_node, tree.histogram_bucket, tree.histogram_entries))
    insert("tree_work", _rows(tree.work_node, tree.work_block, tree.work_executions))
    insert("tree_threads", ((t.number, t.process, t.root, t.first, t.last, t.parent) for t in tree.threads))
    insert("tree_synchronisation", map(_edge_row, tree.synchronisation))
    phases = np.arange(len(tree.phase_node)) - np.searchsorted(tree.phase_node, tree.phase_node)
    insert("tree_phases", _rows(tree.phase_node, phases, tree.phase_entries, tree.phase_iterations))
    parts = np.arange(len(tree.round_node)) - np.searchsorted(tree.round_node, tree.round_node)
    insert("tree_rounds", _rows(tree.round_node, parts, tree.round_entries, tree.round_iterations, tree.round_around))


def _edge_row(edge: Synchronisation) -> tuple[Any, ...]:
    nodes = (node if node >= 0 else None for node in (edge.source_node, edge.target_node))
    return edge.kind.name.lower(), edge.source, edge.target, edge.count, *nodes, edge.source_line, edge.target_line


def _rows(*columns: npt.NDArray[np.int64]) -> Iterator[tuple[int, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)


def _node_rows(tree: ExecutionTree) -> Iterator[tuple[Any, ...]]:
    names = [kind.name.lower() for kind in TreeNodeKind]
    columns = zip(
        tree.parent.tolist(), tree.rank.tolist(), tree.kind.tolist(), tree.keys, tree.loop_id.tolist(),
        _rows(tree.entries, tree.iterations, tree.least, tree.most, tree.depth, tree.recursive_entries),
        tree.is_estimated.tolist(), strict=True,
    )  # fmt: skip
    for node, (parent, rank, kind, key, loop_id, counts, is_estimated) in enumerate(columns):
        places = (key.module, key.function, key.file, key.line, key.site_line, key.position)
        above, loop = (parent if parent >= 0 else None), (loop_id if loop_id >= 0 else None)
        yield node, above, rank, names[kind], *places, loop, *counts, is_estimated


def read_tree(
    database: sqlite3.Connection, num_blocks: int, num_loops: int, as_text: Callable[[Any], Any]
) -> ExecutionTree | None:
    """Read the tables; None where the signature has no tree. `as_text` restores names that are not UTF-8.

    Raises:
        ValueError: they do not fit together, or the rest of the signature.
        msgspec.ValidationError, TypeError, OverflowError: a value is of the wrong type, or too large.
    """
    heads = database.execute("SELECT * FROM tree").fetchall()
    if not heads:
        if any(database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in list(SCHEMA)[1:]):
            raise ValueError("it has parts of an execution tree, but none")
        return None
    if len(heads) > 1:
        raise ValueError("it has several execution trees")
    merged_contexts = msgspec.convert(heads[0][0], type=int, strict=True)
    rows = database.execute("SELECT * FROM tree_nodes ORDER BY node_id").fetchall()
    columns = list(zip(*rows, strict=True)) or [()] * 18
    if list(columns[0]) != list(range(len(rows))):
        raise ValueError("the nodes of the execution tree are not numbered 0, 1, 2, ...")
    kinds = {kind.name.lower(): int(kind) for kind in TreeNodeKind}
    if not set(columns[3]) <= set(kinds):
        raise ValueError("a node of the execution tree is of an impossible kind")
    texts = [list(map(as_text, column)) for column in columns[4:7]]
    if not all(isinstance(text, str) for column in texts for text in column):
        raise ValueError("a name in the execution tree is no text")
    numbers = [_ints(column).tolist() for column in columns[7:10]]
    histogram, work = (
        list(zip(*database.execute(f"SELECT * FROM {table} ORDER BY node_id, {key}"), strict=True)) or [(), (), ()]
        for table, key in (("tree_histograms", "bucket"), ("tree_work", "block_id"))
    )
    phase_rows = database.execute("SELECT * FROM tree_phases ORDER BY node_id, phase").fetchall()
    phases = [_ints(column) for column in zip(*phase_rows, strict=True)] or [np.zeros(0, np.int64)] * 4
    round_rows = database.execute("SELECT * FROM tree_rounds ORDER BY node_id, part").fetchall()
    rounds = [_ints(column) for column in zip(*round_rows, strict=True)] or [np.zeros(0, np.int64)] * 5
    tree = ExecutionTree(
        kind=_ints([kinds[kind] for kind in columns[3]]),
        parent=_ints([-1 if parent is None else parent for parent in columns[1]]),
        rank=_ints(columns[2]),
        keys=tuple(NodeKey(*values) for values in zip(*texts, *numbers, strict=True)),
        loop_id=_ints([-1 if loop is None else loop for loop in columns[10]]),
        entries=_ints(columns[11]),
        iterations=_ints(columns[12]),
        least=_ints(columns[13]),
        most=_ints(columns[14]),
        depth=_ints(columns[15]),
        recursive_entries=_ints(columns[16]),
        is_estimated=_ints(columns[17]).astype(bool),
        histogram_node=_ints(histogram[0]),
        histogram_bucket=_ints(histogram[1]),
        histogram_entries=_ints(histogram[2]),
        work_node=_ints(work[0]),
        work_block=_ints(work[1]),
        work_executions=_ints(work[2]),
        threads=tuple(
            TreeThread(*msgspec.convert(row, type=tuple[int, int, int, int, int, int], strict=True))
            for row in database.execute("SELECT * FROM tree_threads ORDER BY thread_id")
        ),
        synchronisation=tuple(
            _synchronisation(row) for row in database.execute("SELECT * FROM tree_synchronisation ORDER BY rowid")
        ),
        phase_node=phases[0],
        phase_entries=phases[2],
        phase_iterations=phases[3],
        round_node=rounds[0],
        round_entries=rounds[2],
        round_iterations=rounds[3],
        round_around=rounds[4],
        merged_contexts=merged_contexts,
        notes=json_text.decode(heads[0][1], tuple[str, ...]),
    )
    check_tree(tree, num_blocks, num_loops)
    return tree


def _ints(values: Sequence[Any]) -> npt.NDArray[np.int64]:
    """A column of integers, and of nothing else.

    Raises:
        ValueError: there is something else.
    """
    if not all(type(value) is int for value in values):
        raise ValueError("a count in the execution tree is no integer")
    return np.array(values, np.int64)


def _synchronisation(row: tuple[Any, ...]) -> Synchronisation:
    kind, source, target, count, *nodes, source_line, target_line = msgspec.convert(
        row, type=tuple[str, int, int, int, int | None, int | None, int, int], strict=True
    )
    kinds = {kind.name.lower(): kind for kind in SynchronisationKind}
    if kind not in kinds:
        raise ValueError("threads wait for one another in an impossible way")
    source_node, target_node = (-1 if node is None else node for node in nodes)
    return Synchronisation(kinds[kind], source, target, count, source_node, target_node, source_line, target_line)
