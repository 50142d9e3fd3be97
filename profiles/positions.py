"""Line numbers of complaints about a profile's file. TOML's reader forgets the lines, so they are
looked up in the text.

Complaints begin with the place they are about, in one of these forms, and name the key somewhere behind it:

    core: clock_hz ...          core.clock_hz ...         sources.NAME.date ...
    caches entry 2 (L2): ...    latency entry 3, noise ... gather_scatter entry 1, piece 2: ...
    title ...                   unknown key 'clock' ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]#]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')\s*(?=[=.])")
_PLACE = re.compile(r"([A-Za-z_]+) entry (\d+)(?: \([^)]*\))?(?:[:,] (piece|point) (\d+))?")
_WORD = re.compile(r"[A-Za-z0-9_-]+")
_LIST = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=\s*(?=\[)")
_TEXT_OR_COMMENT = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|#.*")
_MEMBERS = {"piece": "pieces", "point": "points"}

Lines = dict[str, int]


def line_of(text: str, complaint: str) -> int | None:
    """The line, from 1, of what a complaint about this text is about; None where it cannot be told."""
    tables = dict(_tables(text))
    table, rest = _place(complaint, tables)
    keys = tables.get(table)
    if keys is None:
        return None
    named = next((keys[word] for word in _WORD.findall(rest) if word in keys), None)
    return named or keys.get("") or None


def _place(complaint: str, tables: dict[str, Lines]) -> tuple[str, str]:
    """The table a complaint is about, and the part of its text that may name a key."""
    if found := _PLACE.match(complaint):
        table = f"{found[1]}#{found[2]}"
        if found[3]:
            table += f".{_MEMBERS[found[3]]}#{found[4]}"
        if table not in tables:
            return "", found[1]
        return table, complaint[found.end() :]
    place = re.match(r"[^\s:,]+", complaint)
    parts = place[0].split(".") if place else []
    for end in range(len(parts), 0, -1):
        if (table := ".".join(parts[:end])) in tables and table:
            return table, ".".join(parts[end:]) + " " + complaint[len(place[0]) if place else 0 :]
    return "", complaint


def _tables(text: str) -> Iterator[tuple[str, Lines]]:
    """Each table's name, entries of lists counted (`caches#2`), with the lines of its keys; "" is its own line."""
    counts: dict[str, int] = {}
    names: dict[str, str] = {}  # of a list, its last entry
    keys: Lines = {}
    full = ""
    inline: _InlineTables | None = None
    yield "", keys
    for number, line in enumerate(text.splitlines(), 1):
        if inline is None and (found := _LIST.match(line)):
            inline = _InlineTables(f"{full}.{found[1]}" if full else found[1])
        if inline is not None:
            yield from inline.begun_on(line, number)
            inline = None if inline.ended else inline
        if header := _HEADER.match(line):
            parts = [part.strip().strip("\"'") for part in header[2].split(".")]
            parent = ".".join(parts[:-1])
            full = ".".join(part for part in (names.get(parent, parent), parts[-1]) if part)
            if header[1] == "[[":
                counts[full] = counts.get(full, 0) + 1
                full = f"{full}#{counts[full]}"
                names[".".join(parts)] = full
            keys = {"": number}
            yield full, keys
        elif key := _KEY.match(line):
            keys.setdefault(key[1].strip("\"'"), number)


class _InlineTables:
    """The inline tables of a list, counted while its lines are read: `points#2` begins on such a line."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._number = 0
        self._depth = {"[": 0, "{": 0}

    def begun_on(self, line: str, number: int) -> Iterator[tuple[str, Lines]]:
        """The tables that begin on the line of this number."""
        for character in _TEXT_OR_COMMENT.sub("", line):
            if character == "{" and self._depth == {"[": 1, "{": 0}:
                self._number += 1
                yield f"{self._name}#{self._number}", {"": number}
            if character in "[{":
                self._depth[character] += 1
            elif character in "]}":
                self._depth["[" if character == "]" else "{"] -= 1

    @property
    def ended(self) -> bool:
        """Whether the list has ended."""
        return self._depth["["] <= 0
