"""Work of each node completed by each sample of software-defined events, or before each call of a rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.tracer.reader.raw_events import RawEventSamples
from foretrace.tracer.signature.tree_records import ExecutionTree

from .code_tree import CodeTree, expanded

Ints = npt.NDArray[np.int64]
LEAST_SHARE = 1e-4
"""Least share of a process's executions that a node must have itself to be listed."""


@dataclass(frozen=True, slots=True, eq=False)
class SampledWork:
    """Work completed by each sample of a process.

    Attributes:
        position: int64 [samples], rising: executions of basic blocks.
        nodes: int64 [nodes], rising: nodes with at least `LEAST_SHARE` of all executions, and all above them.
        executions: int64 [samples, nodes], rising: the node's own.
    """

    position: Ints
    nodes: Ints
    executions: Ints


@dataclass(frozen=True, slots=True)
class LeafShare:
    """An array operation, whose executions are distributed in proportion to those of its line.

    Attributes:
        node: of the leaf in the tree.
        line: the node that the line runs in, and its basic block.
        executions: of the leaf's own blocks.
    """

    node: int
    line: tuple[int, int]
    executions: int


def sampled_work(
    maker: CodeTree, tree: ExecutionTree, samples: RawEventSamples, leaves: Sequence[LeafShare] = ()
) -> SampledWork:
    """The work by each sample, in the tree that `maker` has made."""
    num_samples = len(samples.position)
    num_pairs, pair_of_row, source, node, block = _places(maker, samples.node, samples.block)
    begins = np.searchsorted(samples.sample, np.arange(num_samples + 1))

    def counts(rows: slice) -> npt.NDArray[np.float64]:
        """Executions of each basic block in each node, of `source`, in these rows."""
        weights = samples.executions[rows].astype(np.float64)
        of_pairs = np.bincount(pair_of_row[rows], weights=weights, minlength=num_pairs)
        return of_pairs[source].astype(np.float64)

    own = np.bincount(node, weights=counts(slice(None)), minlength=len(tree)).astype(np.float64)
    its_leaves = _of_process(leaves, node, block)
    for leaf, _ in its_leaves:
        own[leaf.node] += leaf.executions
    nodes = np.flatnonzero(_with_those_above(own >= max(LEAST_SHARE * own.sum(), 1), tree.parent))
    column = np.full(len(tree), -1, np.int64)
    column[nodes] = np.arange(len(nodes))
    is_kept = column[node] >= 0
    executions = np.zeros((num_samples, len(nodes)), np.int64)
    position = np.zeros(num_samples, np.int64)
    of_lines = np.zeros((num_samples, len(its_leaves)))
    for number in range(num_samples):
        done = counts(slice(begins[number], begins[number + 1]))
        position[number] = done.sum()
        executions[number] = np.bincount(column[node[is_kept]], weights=done[is_kept], minlength=len(nodes))
        of_lines[number] = [done[at].sum() for _, at in its_leaves]
    executions, position = executions.cumsum(axis=0), position.cumsum()
    for (leaf, _), line in zip(its_leaves, of_lines.cumsum(axis=0).T, strict=True):
        share = (leaf.executions * (line / line[-1])).astype(np.int64)
        position += share
        if column[leaf.node] >= 0:
            executions[:, column[leaf.node]] += share
    return SampledWork(position, nodes, executions)


def rank_work(maker: CodeTree, rows: Ints) -> Ints:
    """`RankRecord.work` of rows (call, node of the raw tree, block, executions), in the tree that `maker` has made."""
    num_pairs, pair_of_row, source, node, _ = _places(maker, rows[:, 1], rows[:, 2])
    widths = np.bincount(source, minlength=num_pairs)
    firsts = np.cumsum(widths) - widths
    of_rows = widths[pair_of_row]
    row = np.repeat(np.arange(len(rows)), of_rows)
    within = np.arange(len(row)) - np.repeat(np.cumsum(of_rows) - of_rows, of_rows)
    nodes = node[firsts[pair_of_row[row]] + within]
    pairs, at = np.unique(rows[row, 0] << 32 | nodes, return_inverse=True)
    sums = np.zeros(len(pairs), np.int64)
    np.add.at(sums, at, rows[row, 3])
    return np.stack([pairs >> 32, pairs & 0xFFFFFFFF, sums], axis=1)


def _places(maker: CodeTree, raw_node: Ints, raw_block: Ints) -> tuple[int, Ints, Ints, Ints, Ints]:
    """Distinct pairs of a node and a block of the engine, and the nodes and basic blocks that these are.

    Returns their number; of each row its pair; and of each basic block of each pair: the pair, the node of the tree,
    the block.
    """
    pairs, pair_of_row = np.unique(raw_node << 32 | raw_block, return_inverse=True)
    source, block = expanded(maker.engine, pairs & 0xFFFFFFFF)
    node = maker.nodes_of(zip((pairs >> 32)[source].tolist(), block.tolist(), strict=True))
    return len(pairs), pair_of_row.reshape(-1), source, node, block


def _of_process(leaves: Sequence[LeafShare], node: Ints, block: Ints) -> list[tuple[LeafShare, list[int]]]:
    """Leaves whose lines have run, and the positions of these lines."""
    places: dict[tuple[int, int], list[int]] = defaultdict(list)
    wanted = {leaf.line for leaf in leaves}
    for at, place in enumerate(zip(node.tolist(), block.tolist(), strict=True)):
        if place in wanted:
            places[place].append(at)
    return [(leaf, places[leaf.line]) for leaf in leaves if leaf.line in places]


def _with_those_above(chosen: npt.NDArray[np.bool_], parent: Ints) -> npt.NDArray[np.bool_]:
    """A parent's number is below its children's."""
    found = chosen.copy()
    for node in range(len(found) - 1, -1, -1):
        if found[node] and parent[node] >= 0:
            found[parent[node]] = True
    return found
