"""Library code of a signature on disk: whose calls it ran for, and what was expanded in line.

Signatures of earlier releases have no such tables: nothing is known then.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import msgspec

from .records import Frame, LibraryCall, Signature

SCHEMA = {
    "called_code": "CREATE TABLE called_code (kind TEXT NOT NULL, id INTEGER NOT NULL, caller TEXT NOT NULL)",
    "library_calls": (
        "CREATE TABLE library_calls (loop_id INTEGER NOT NULL, rank INTEGER NOT NULL, called TEXT NOT NULL, "
        "function TEXT NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL, share REAL NOT NULL)"
    ),
    "frames": (
        "CREATE TABLE frames (loop_id INTEGER NOT NULL, depth INTEGER NOT NULL, function TEXT NOT NULL, "
        "file TEXT NOT NULL, line INTEGER NOT NULL)"
    ),
}
"""`called_code` lists what has the place of a call by the program: kind "block" or "node" (of the execution tree). The
calls of loops by `rank`, most instructions first; frames by `depth`, innermost first."""


def insert_library_code(signature: Signature, insert: Callable[[str, Iterable[tuple[Any, ...]]], None]) -> None:
    """Write the tables: `insert` takes a table and its rows."""
    insert("called_code", (("block", one.block_id, one.caller) for one in signature.blocks if one.caller))
    if signature.tree is not None:
        insert(
            "called_code", (("node", node, key.caller) for node, key in enumerate(signature.tree.keys) if key.caller)
        )
    insert("library_calls", (
        (loop.loop_id, rank, call.called, call.function, call.file, call.line, call.share)
        for loop in signature.loops for rank, call in enumerate(loop.calls)
    ))  # fmt: skip
    insert("frames", (
        (loop.loop_id, depth, frame.function, frame.file, frame.line)
        for loop in signature.loops for depth, frame in enumerate(loop.frames)
    ))  # fmt: skip


def with_library_code(signature: Signature, database: sqlite3.Connection, as_text: Callable[[Any], Any]) -> Signature:
    """A signature with what the tables tell.

    Raises:
        ValueError: they do not fit the rest of the signature.
        msgspec.ValidationError: a value is of the wrong type.
    """
    present = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    if not present.issuperset(SCHEMA):
        return signature
    called: dict[str, dict[int, str]] = {"block": {}, "node": {}}
    for kind, number, caller in database.execute("SELECT * FROM called_code"):
        text = as_text(caller)
        if kind not in called or not isinstance(text, str):
            raise ValueError("library code is of an impossible kind")
        called[kind][number] = text
    calls: dict[int, list[LibraryCall]] = defaultdict(list)
    for loop_id, _, *values in database.execute("SELECT * FROM library_calls ORDER BY loop_id, rank"):
        calls[loop_id].append(_record(LibraryCall, values, as_text))
    frames: dict[int, list[Frame]] = defaultdict(list)
    for loop_id, _, *values in database.execute("SELECT * FROM frames ORDER BY loop_id, depth"):
        frames[loop_id].append(_record(Frame, values, as_text))
    nodes = 0 if signature.tree is None else len(signature.tree)
    known = (
        (called["block"], len(signature.blocks)), (called["node"], nodes), ({*calls, *frames}, len(signature.loops)),
    )  # fmt: skip
    if not all(type(number) is int and 0 <= number < bound for numbers, bound in known for number in numbers):
        raise ValueError("library code is of a block, node or loop that does not exist")
    if not all(0 <= call.share <= 1 + 1e-9 and call.line >= 0 for of_loop in calls.values() for call in of_loop):
        raise ValueError("the share of a call is impossible")
    tree = signature.tree
    if tree is not None:
        keys = (replace(key, caller=called["node"].get(node, "")) for node, key in enumerate(tree.keys))
        tree = replace(tree, keys=tuple(keys))
    return replace(
        signature,
        blocks=tuple(
            msgspec.structs.replace(block, caller=called["block"].get(block.block_id, ""))
            if block.block_id in called["block"]
            else block
            for block in signature.blocks
        ),
        loops=tuple(
            msgspec.structs.replace(loop, calls=tuple(calls[loop.loop_id]), frames=tuple(frames[loop.loop_id]))
            if loop.loop_id in calls or loop.loop_id in frames
            else loop
            for loop in signature.loops
        ),
        tree=tree,
    )


def _record(kind: type[Any], values: list[Any], as_text: Callable[[Any], Any]) -> Any:
    texts = map(as_text, values)
    return msgspec.convert(dict(zip(kind.__struct_fields__, texts, strict=True)), type=kind, strict=True)
