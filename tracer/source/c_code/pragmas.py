"""Pragmas that promise properties of the following statement.

libclang drops OpenMP's pragmas unless OpenMP is enabled, and then it hides the loops below them. So they are read from
the text, by the line of the following statement."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PRAGMA = re.compile(rb"^[ \t]*#[ \t]*pragma[ \t]+((?:[^\n\\]|\\\r?\n|\\.)*)", re.MULTILINE)
_PIECE = re.compile(
    rb"[ \t\r\n]+|//[^\n]*|/\*.*?(?:\*/|\Z)|#[ \t]*pragma(?P<words>(?:[^\n\\]|\\\r?\n|\\.)*)", re.DOTALL
)
"""Text that may stand between a pragma and its statement."""
_WORDS = re.compile(r"[a-z_]+")
_COLLAPSE = re.compile(r"collapse\s*\(\s*(\d{1,4})\s*\)")
_ORDERED_LENGTH = re.compile(r"safelen\s*\(")


@dataclass(frozen=True, slots=True)
class Promise:
    """Properties that pragmas promise of the following statement."""

    unordered_loops: int = 0
    """Number of nested loops that may run their iterations in any order."""
    atomic: bool = False


def promises(text: bytes) -> dict[int, Promise]:
    """Promises of a file's pragmas, by the line of the following statement."""
    found: dict[int, Promise] = {}
    line, counted, at = 1, 0, 0
    while pragma := _PRAGMA.search(text, at):
        made, at = [_promise(pragma.group(1).decode("ascii", "replace"))], pragma.end()
        while piece := _PIECE.match(text, at):  # each byte once: there may be thousands of pragmas in a row
            at = piece.end()
            if piece["words"] is not None:
                made.append(_promise(piece["words"].decode("ascii", "replace")))
        line += text.count(b"\n", counted, at)
        counted = at
        kept = [one for one in made if one is not None]
        if kept:
            found[line] = kept[-1]
    return found


def _promise(words: str) -> Promise | None:
    named = _WORDS.findall(words)
    first = named[0] if named else ""
    if first == "omp":
        directive = set(named[1:8])
        if "atomic" in directive:
            return Promise(atomic=True)
        loops = {"for", "simd", "loop", "taskloop", "distribute"} & directive and "declare" not in directive
        if loops and "ordered" not in named and not _ORDERED_LENGTH.search(words):
            collapsed = _COLLAPSE.search(words)
            return Promise(min(int(collapsed.group(1)), 16) if collapsed else 1)
        return None
    if first == "acc" and "loop" in named and "seq" not in named:
        collapsed = _COLLAPSE.search(words)
        return Promise(min(int(collapsed.group(1)), 16) if collapsed else 1)
    if "ivdep" in named or "assume_safety" in named or first == "simd":
        return Promise(1)
    return None
