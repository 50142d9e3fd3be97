"""Execution trees made by hand, for the tests of what is replayed from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from replay_samples import Program

from foretrace.tracer.signature.tree_records import (
    ExecutionTree,
    NodeKey,
    Synchronisation,
    TreeNodeKind,
    TreeThread,
)


class Tree:
    """Builds a tree node by node, depth first, and the signature's blocks with it: one loop of a region per work."""

    def __init__(self) -> None:
        self.program = Program()
        self.nodes: list[tuple[TreeNodeKind, int, NodeKey, int, int]] = []
        self.work: list[tuple[int, int, int]] = []
        self.threads: list[TreeThread] = []
        self.edges: list[Synchronisation] = []
        self.phases: dict[int, list[tuple[int, int]]] = {}
        self.rounds: dict[int, list[tuple[int, int, int]]] = {}
        self.most: dict[int, int] = {}
        self.folded: dict[int, int] = {}
        """By node, calls of a recursion that are folded into it."""

    def node(self, kind, parent, function="", *, entries=1, iterations=0, module="program", line=1, site=0):
        key = NodeKey(module, function, "program.c", line, site, 0)
        self.nodes.append((kind, parent, key, entries, iterations))
        return len(self.nodes) - 1

    def thread(self, number=0, process=0, parent=-1):
        root = self.node(TreeNodeKind.THREAD, -1)
        self.threads.append(TreeThread(number, process, root, 0, 1, parent))
        return root

    def call(self, parent, function, **options):
        return self.node(TreeNodeKind.CALL, parent, function, **options)

    def loop(self, parent, iterations, entries=1):
        return self.node(TreeNodeKind.LOOP, parent, "loop", entries=entries, iterations=iterations)

    def waits(self, kind, source, target, count=1, *, source_node=-1, target_node=-1, lines=(0, 0)):
        """An edge: a target thread waited for a source. `lines` are those of both."""
        self.edges.append(Synchronisation(kind, source, target, count, source_node, target_node, *lines))

    def does(self, node, executions, block=None, instructions=1000):
        """Own work of a node: executions of a block of its own, or of one made before."""
        if block is None:
            block = self.program.loop(executions, instructions=instructions, function=f"work {len(self.work)}")
        else:
            made = self.program.blocks[block]
            self.program.blocks[block] = type(made)(
                **{name: getattr(made, name) for name in made.__struct_fields__}
                | {"executions": made.executions + executions}
            )
        self.work.append((node, block, executions))
        return block

    def signature(self, **provenance):
        zeros = np.zeros(len(self.nodes), np.int64)
        none = np.zeros(0, np.int64)
        rows = [(node, *phase) for node, found in sorted(self.phases.items()) for phase in found]
        phases = np.array(rows, np.int64).reshape(-1, 3)
        parts = [(node, *part) for node, found in sorted(self.rounds.items()) for part in found]
        rounds = np.array(parts, np.int64).reshape(-1, 4)
        work = np.array(sorted(self.work), np.int64).reshape(-1, 3)
        tree = ExecutionTree(
            kind=np.array([node[0] for node in self.nodes], np.int64),
            parent=np.array([node[1] for node in self.nodes], np.int64),
            rank=zeros,
            keys=tuple(node[2] for node in self.nodes),
            loop_id=zeros - 1,
            entries=np.array([node[3] for node in self.nodes], np.int64),
            iterations=np.array([node[4] for node in self.nodes], np.int64),
            least=zeros,
            most=np.array([self.most.get(node, 0) for node in range(len(self.nodes))], np.int64),
            depth=zeros,
            recursive_entries=np.array([self.folded.get(node, 0) for node in range(len(self.nodes))], np.int64),
            is_estimated=np.zeros(len(self.nodes), np.bool_),
            histogram_node=none,
            histogram_bucket=none,
            histogram_entries=none,
            work_node=work[:, 0],
            work_block=work[:, 1],
            work_executions=work[:, 2],
            threads=tuple(self.threads),
            synchronisation=tuple(self.edges),
            phase_node=phases[:, 0],
            phase_entries=phases[:, 1],
            phase_iterations=phases[:, 2],
            round_node=rounds[:, 0],
            round_entries=rounds[:, 1],
            round_iterations=rounds[:, 2],
            round_around=rounds[:, 3],
        )
        return replace(self.program.signature(threads=len(self.threads), **provenance), tree=tree)
