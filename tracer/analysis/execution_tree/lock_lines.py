"""Source lines on which Python programs release locks, read from their source.

The interpreter reports that a `with` statement releases its lock on its own first line, so an edge has that line. The
last line of its block marks the end of the critical section. On a line with neither a `with` statement nor a call of
`release`, a library released a lock of its own.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from pathlib import Path

from foretrace.tracer.signature.tree_records import ExecutionTree, Synchronisation, SynchronisationKind

MOST_SOURCE_BYTES = 4 << 20
"""Largest source file that is read for the lines of locks, in bytes."""


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines of a file that release locks: the last line of each `with`, by its first line, and calls of `release`."""

    last_of_with: dict[int, int] = field(default_factory=dict)
    releases: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, file: str) -> _Lines | None:
        """Read the lines of a file; None if it cannot be read as Python."""
        try:
            if Path(file).stat().st_size > MOST_SOURCE_BYTES:
                return None
            module = ast.parse(Path(file).read_bytes())
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            return None
        found = cls()
        for node in ast.walk(module):
            if isinstance(node, ast.With):
                for line in {node.lineno, *(item.context_expr.lineno for item in node.items)}:
                    found.last_of_with[line] = max(node.end_lineno or line, found.last_of_with.get(line, 0))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "release":
                found.releases.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return found


def with_lines_of_release(tree: ExecutionTree) -> ExecutionTree:
    """Sets the source line of each lock edge in a Python program's tree to the line that released the lock.

    The source line of an edge becomes the last one of the `with` block, and 0 where a library gave the lock back. Other
    edges change only where one line waits for itself: there a `with` statement takes a semaphore and gives it back.
    Edges of files that cannot be read stay as they are.
    """
    files: dict[str, _Lines | None] = {}

    def given_back(edge: Synchronisation) -> Synchronisation:
        is_lock = edge.kind is SynchronisationKind.LOCK
        is_around = edge.kind is SynchronisationKind.WAKE and edge.source_line == edge.target_line
        if not (is_lock or is_around) or edge.source_node < 0 or not edge.source_line:
            return edge
        file = tree.keys[edge.source_node].file
        if file not in files:
            files[file] = _Lines.of(file)
        lines = files[file]
        if lines is None:
            return edge
        last = lines.last_of_with.get(edge.source_line)
        if last is None and is_lock and edge.source_line not in lines.releases:
            last = 0
        return edge if last is None else replace(edge, source_line=last)

    return replace(tree, synchronisation=tuple(given_back(edge) for edge in tree.synchronisation))
