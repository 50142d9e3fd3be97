"""The execution tree of a Python program: calls and loops as its agent reported them, and array operations as leaves.

How often an array operation ran is known of its line, not of each context: its executions are shared out by those of
the line, and marked as estimated where the line runs in several contexts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from foretrace.tracer.reader.raw_tree import RawTree
from foretrace.tracer.signature.records import Block, Loop
from foretrace.tracer.signature.tree_records import NodeKey, TreeNodeKind

from .code_tree import CodeTree, EngineBlocks
from .sampled_work import LeafShare


class PythonTree(CodeTree):
    """The tree in the making."""

    def __init__(self, raw: RawTree, number: Mapping[int, int], blocks: Sequence[Block], loops: Sequence[Loop]) -> None:
        """`number` has, by the id of each raw block that has instructions of its own, its block's."""
        size = max(number, default=0) + 1
        has_one = np.zeros(size, np.int64)
        begin = np.full(size, -1, np.int64)
        for raw_id, block in sorted(number.items()):
            has_one[raw_id] = 1
            begin[raw_id] = block
        first = np.concatenate([[0], np.cumsum(has_one)])
        super().__init__(raw, EngineBlocks(first, begin[begin >= 0], begin, begin), blocks, loops)
        self._leaves: dict[tuple[int, int], int] = {}
        """The drafts of array operations, by parent and loop."""
        self._lines: dict[int, int] = {}
        """The block of the line of each array operation, by its loop."""

    def place(self, node: int, block: int) -> int:
        """An array operation's blocks are in its leaf, below the context of its line."""
        loop = self.blocks[block].loop_id
        line = self._lines.get(-1 if loop is None else loop)
        if loop is None or line is None:
            return super().place(node, block)
        parent = super().place(node, line)
        return self._leaves.get((parent, loop), parent)

    def add_leaves(self) -> None:
        """Put array operations, and calls of compiled functions, below the contexts of their lines."""
        leaves = [loop for loop in self.loops if loop.kind != "code"]
        if not leaves:
            return
        kinds = {loop.loop_id for loop in leaves}
        members: dict[int, list[Block]] = {}
        lines: dict[tuple[str, str, int, int], int] = {}
        for block in self.blocks:
            if block.loop_id in kinds:
                members.setdefault(block.loop_id, []).append(block)
            else:
                lines.setdefault((block.file, block.function, block.offset, block.line), block.block_id)
        contexts: dict[int, dict[int, int]] = {}
        for draft_number, draft in enumerate(self.builder.drafts):
            for work_block, executions in draft.work.items():
                contexts.setdefault(work_block, {})[draft_number] = executions
        for loop in leaves:
            own = members.get(loop.loop_id, [])
            if not own:
                continue
            line = lines.get((own[0].file, own[0].function, own[0].offset, own[0].line), -1)
            if line >= 0:
                self._lines[loop.loop_id] = line
            self._add_leaf(loop, own, contexts.get(line) or {0: 1})

    def leaf_shares(self) -> list[LeafShare]:
        """Shares of leaves in the executions of their lines, once the tree is built."""
        drafts = self.builder.drafts
        return [
            LeafShare(self._final(number), (self._final(parent), self._lines[loop]), sum(drafts[number].work.values()))
            for (parent, loop), number in self._leaves.items()
            if loop in self._lines
        ]

    def _add_leaf(self, loop: Loop, members: Sequence[Block], contexts: Mapping[int, int]) -> None:
        total, before = sum(contexts.values()), 0
        for parent, executions in contexts.items():
            key = NodeKey(loop.module, loop.function, loop.file, loop.line, 0, 0)
            number = self.builder.node(parent, ("leaf", loop.loop_id), TreeNodeKind.LEAF, key, loop.loop_id)
            self._leaves[parent, loop.loop_id] = number
            draft = self.builder.drafts[number]
            after = before + executions

            def share(count: int, before: int = before, after: int = after) -> int:
                return count * after // total - count * before // total

            for block in members:
                part = share(block.executions)
                if part:
                    draft.work[block.block_id] = part
            draft.entries, draft.iterations = share(loop.entries), share(loop.iterations)
            mean = draft.iterations // max(draft.entries, 1)
            draft.least, draft.most = mean, -(-draft.iterations // max(draft.entries, 1))
            draft.histogram = {mean.bit_length(): draft.entries} if draft.entries else {}
            draft.is_estimated = len(contexts) > 1
            draft.rank = self.builder.drafts[parent].rank + 0.25
            before = after
