"""Report of `foretrace info --tree`: the execution tree as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foretrace.base.names import brief_name, demangle, place_text, short_name
from foretrace.base.units import format_count, format_seconds
from foretrace.tracer.signature.records import Signature
from foretrace.tracer.signature.tree_records import (
    ExecutionTree,
    SynchronisationKind,
    TreeCounts,
    TreeNode,
    TreeNodeKind,
    own_counts,
)

from .model import Column, Report, Table, Text, Tree, bound, document_of, for_programs

if TYPE_CHECKING:
    from foretrace.profiles.profile import Profile

Weights = npt.NDArray[np.float64]

TIME = "time"
LEAST_SHARE = 0.005
"""Share of the whole program that a node must have to be printed."""


@dataclass(frozen=True, slots=True, eq=False)
class WeighedTree:
    """A tree with its nodes' counts, and a weight to sort by: `own` and `inclusive` float64 [nodes], in `unit`.

    `unit` is "instructions", "bytes" or "time" (in seconds).
    """

    tree: ExecutionTree
    counts: TreeCounts
    own: Weights
    inclusive: Weights
    unit: str

    @property
    def total(self) -> float:
        """Weight of the whole program."""
        return float(self.own.sum())

    @property
    def of_stacks(self) -> Weights:
        """`own` in whole units for folded stacks: time in nanoseconds."""
        return self.own * 1e9 if self.unit == TIME else self.own

    @property
    def key(self) -> str:
        """Key of a column of weights."""
        return "s" if self.unit == TIME else self.unit

    def shown(self, weight: float) -> str:
        """A weight with its unit."""
        return format_seconds(weight) if self.unit == TIME else f"{format_count(weight)} {self.unit}"


def weigh(signature: Signature, tree: ExecutionTree, by: str, time_s: Weights | None = None) -> WeighedTree:
    """The tree by `instructions` or `bytes`; or by `time`: `time_s` are the seconds of each node's own."""
    counts = own_counts(signature, tree)
    own: Weights = getattr(counts, by) if time_s is None else time_s
    return WeighedTree(tree, counts, own, tree.inclusive(own), by)


def node_names(tree: ExecutionTree) -> list[str]:
    """Names of the nodes in a picture or a stack."""
    threads: dict[int, list[int]] = {}
    for thread in tree.threads:
        threads.setdefault(thread.root, []).append(thread.number)
    return [
        _thread_name(threads.get(node, [])) if kind == TreeNodeKind.THREAD else _name(tree, node)
        for node, kind in enumerate(tree.kind.tolist())
    ]


def _thread_name(numbers: Sequence[int]) -> str:
    return f"thread {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} threads"


def _name(tree: ExecutionTree, node: int) -> str:
    key, kind = tree.keys[node], TreeNodeKind(int(tree.kind[node]))
    place = place_text(key.file, key.line, key.module, key.caller)
    if key.caller:
        parent = int(tree.parent[node])
        name = brief_name(key.function)
        if kind is TreeNodeKind.LOOP:
            return f"loop in {name}"
        return name if parent >= 0 and tree.keys[parent].caller else f"{name} {place}"
    if kind is TreeNodeKind.LOOP:
        return f"loop {place}" if key.file else f"loop in {short_name(key.function)}"
    return short_name(key.function) or place or "?"


def tree_report(
    signature: Signature, weighed: WeighedTree, profile: Profile | None = None, time_s: Weights | None = None
) -> Report:
    """Report of `foretrace info --tree`: the hottest nodes first, the many small ones as a count."""
    tree = weighed.tree
    names, phases = node_names(tree), tree.phases()
    nodes = list(tree.nodes())
    pending: list[tuple[int, int]] = [(node.node, 0) for node in nodes if node.parent < 0]
    pending.sort(key=lambda entry: weighed.inclusive[entry[0]])
    shown: list[tuple[int, str, str]] = []
    hidden = 0
    while pending:
        node, depth = pending.pop()
        share = weighed.inclusive[node] / weighed.total if weighed.total else 0.0
        if share < LEAST_SHARE:
            hidden += 1
            continue
        text = f"{_times(nodes, node)}{names[node]}{_place(nodes[node], phases.get(node, []))}"
        shown.append((depth, f"{share:>12.1%} {weighed.own[node] / weighed.total:>5.1%}  ", text))
        children = ((child, depth + 1) for child in nodes[node].children)
        pending.extend(sorted(children, key=lambda entry: weighed.inclusive[entry[0]]))
    title = [] if profile is None else [f"{profile.title}: {weighed.shown(weighed.total)}, one core doing all work"]
    lines = []
    if hidden:
        lines.append(f"{hidden} subtrees below {LEAST_SHARE:.1%} not shown; --json and --flame have them")
    if tree.merged_contexts:
        lines.append(f"{tree.merged_contexts} contexts with the least work were merged")
    lines += [*_waits(tree), *(f"note: {note}" for note in tree.notes)]
    made = Tree(f"{weighed.unit:>12}   own  what", shown)
    machine = None if profile is None else profile.name
    columns = (
        Column("node"),
        Column("parent", value=lambda node: node.parent if node.parent >= 0 else None),
        *for_programs("entries", "iterations"),
        Column("kind", value=lambda node: node.kind.name.lower()),
        *(
            Column(name, value=bound(lambda node, name: getattr(node.key, name), name))
            for name in ("module", "file", "line")
        ),
        Column("function", value=lambda node: demangle(node.key.function)),
        Column("name", value=lambda node: names[node.node]),
        Column(f"own_{weighed.key}", value=lambda node: float(weighed.own[node.node])),
        Column(f"inclusive_{weighed.key}", value=lambda node: float(weighed.inclusive[node.node])),
    )
    return Report(
        "Execution tree", [Text(title), made, Text(lines)], Table(columns, nodes),
        lambda: document(signature, tree, machine, time_s),
    )  # fmt: skip


def _waits(tree: ExecutionTree) -> list[str]:
    """Lines on how threads waited for one another, one for each kind of waiting."""
    what = {
        SynchronisationKind.CREATE: "threads were created by others",
        SynchronisationKind.JOIN: "waits for a thread's end",
        SynchronisationKind.WAKE: "waits until another thread woke it",
        SynchronisationKind.LOCK: "waits for a lock",
    }
    counts = {kind: sum(edge.count for edge in tree.synchronisation if edge.kind is kind) for kind in what}
    process = {thread.number: thread.process for thread in tree.threads}
    between = sum(edge.count for edge in tree.synchronisation if process[edge.source] != process[edge.target])
    lines = [f"{counts[kind]} {text}" for kind, text in what.items() if counts[kind]]
    return [*lines, f"{between} of these between processes"] if between else lines


def _times(nodes: Sequence[TreeNode], number: int) -> str:
    """Prefix with the number of runs of a node for each run of its parent: "400 x ", or nothing for once."""
    node = nodes[number]
    if node.parent < 0:
        return ""
    above = nodes[node.parent]
    runs = above.iterations if above.kind is TreeNodeKind.LOOP else above.entries + above.recursive_entries
    entries = node.entries / runs if runs else 0.0
    text = "" if entries == 1 else f"{_number(entries)} x "
    if node.kind is TreeNodeKind.LOOP:
        text += f"{_number(node.mean_iterations)} x "
    return text


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) or value >= 1000 else f"{value:.3g}"


def _place(node: TreeNode, phases: Sequence[tuple[int, int]]) -> str:
    """Text with a node's further facts, such as its place, iterations and phases."""
    parts = []
    if node.kind is TreeNodeKind.CALL and node.key.file and not node.key.caller:
        parts.append(f"{Path(node.key.file).name}:{node.key.line}")
    if node.kind is TreeNodeKind.LOOP and node.least != node.most:
        parts.append(f"{node.least} to {node.most} iterations")
    if phases:
        parts.append("phases: " + ", ".join(f"{count} x {_number(total / count)}" for count, total in phases))
    if node.recursive_entries:
        parts.append(f"{node.recursive_entries} recursive calls, {node.depth} deep")
    if node.kind is TreeNodeKind.MERGED:
        parts.append("merged contexts")
    if node.is_estimated:
        parts.append("estimated")
    return f"  ({', '.join(parts)})" if parts else ""


def document(
    signature: Signature, tree: ExecutionTree, machine: str | None = None, time_s: Weights | None = None
) -> dict[str, Any]:
    """The tree's JSON face; with the seconds of each node's own, [nodes], on a machine if they are given."""
    counts = own_counts(signature, tree)
    seconds = [{} if time_s is None else {"time_s": float(of_node)} for of_node in _each(time_s, tree)]
    below_s = [{} if time_s is None else {"time_s": float(of_node)} for of_node in _each(time_s, tree, inclusive=True)]
    columns = {
        name: (getattr(counts, name), tree.inclusive(getattr(counts, name)))
        for name in ("instructions", "flops", "loads", "stores", "load_bytes", "store_bytes")
    }
    phases = tree.phases()
    histograms: list[dict[str, int]] = [{} for _ in range(len(tree))]
    rows = zip(
        tree.histogram_node.tolist(), tree.histogram_bucket.tolist(), tree.histogram_entries.tolist(), strict=True
    )
    for node, bucket, entries in rows:
        histograms[node][str(1 << (bucket - 1) if bucket else 0)] = entries
    return {
        "schema": "foretrace.tree/1",
        "command": list(signature.provenance.command),
        **({} if machine is None else {"machine": machine}),
        "merged_contexts": tree.merged_contexts,
        "notes": list(tree.notes),
        "threads": [
            {
                "thread": thread.number, "process": thread.process, "root": thread.root,
                "first_execution": thread.first, "last_execution": thread.last,
                "parent": thread.parent if thread.parent >= 0 else None,
            }
            for thread in tree.threads
        ],
        "synchronisation": [
            {
                "kind": edge.kind.name.lower(), "source": edge.source, "target": edge.target, "count": edge.count,
                "source_node": edge.source_node if edge.source_node >= 0 else None,
                "target_node": edge.target_node if edge.target_node >= 0 else None,
                "source_line": edge.source_line or None,
                "target_line": edge.target_line or None,
            }
            for edge in tree.synchronisation
        ],
        "nodes": [
            {
                "node": node.node,
                "parent": node.parent if node.parent >= 0 else None,
                "rank": node.rank,
                "kind": node.kind.name.lower(),
                "module": node.key.module,
                "function": demangle(node.key.function),
                "file": node.key.file,
                "line": node.key.line,
                "caller": demangle(node.key.caller) or None,
                **document_of(node.key, "site_line position"),
                **document_of(node, "loop_id entries recursive_entries depth iterations"),
                "least_iterations": node.least,
                "most_iterations": node.most,
                "entries_by_iterations": histograms[node.node],
                "phases": [{"entries": count, "iterations": total} for count, total in phases.get(node.node, [])],
                "estimated": node.is_estimated,
                "own": {name: round(float(own[node.node])) for name, (own, _) in columns.items()} | seconds[node.node],
                "inclusive": {name: round(float(below[node.node])) for name, (_, below) in columns.items()}
                | below_s[node.node],
            }
            for node in tree.nodes()
        ],
    }  # fmt: skip


def _each(values: Weights | None, tree: ExecutionTree, *, inclusive: bool = False) -> Weights:
    if values is None:
        return np.zeros(len(tree))
    return tree.inclusive(values) if inclusive else values
