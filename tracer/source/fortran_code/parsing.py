"""Fortran files and the files that they include, as syntax trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from foretrace.base.errors import SourceError
from foretrace.tracer.source.form import records as form

from .expressions import text_of
from .layout import branches_taken, free_form
from .scope import Scope
from .unreadable import Unread, replaced

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MOST_BYTES = 16 << 20
MOST_INCLUDES = 16
"""Files included one inside the other."""

INCLUDES = frozenset({"include_statement", "preproc_include"})

NOT_PARSED = "does not parse"


@dataclass
class SourceFile:
    """State shared by the program units of a file."""

    path: Path
    parser: Parser
    defined: Mapping[str, str]
    files: list[str] = field(default_factory=list)
    skipped: list[form.Skipped] = field(default_factory=list)
    modules: dict[str, Scope | None] = field(default_factory=dict)
    functions: list[form.Function] = field(default_factory=list)
    including: list[Path] = field(default_factory=list)
    fixed: bool = False
    unread: dict[int, Unread] = field(default_factory=dict)
    """Statements that do not parse, by the number of their replacement."""

    def skip(self, place: form.Place, what: str, reason: str) -> None:
        """Note a part that is not lowered, once."""
        part = form.Skipped(place, what, reason)
        if part not in self.skipped[-8:]:
            self.skipped.append(part)


def lines_of(path: Path) -> list[str]:
    """Lines of a file.

    Raises:
        SourceError: it is too large or cannot be read.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SourceError(f"{path}: larger than {MOST_BYTES >> 20} MiB")
        return path.read_bytes().decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from error


def parsed(file: SourceFile, lines: list[str], number: int, wrapped: bool = False) -> Node:
    """The syntax tree of a file's lines. `wrapped`: they are part of a program unit."""
    lines, dropped = branches_taken(lines, file.defined)
    for one in dropped:
        file.skip(form.Place(one.first, 1, one.last, number), "branch", f"not taken: {one.condition}")
    if file.fixed:
        lines = free_form(lines)
    root = _root(file, lines, wrapped)
    if root.has_error:
        lines, unread = replaced(lines, file.parser, len(file.unread))
        file.unread |= unread
        for statement in unread.values():
            place = form.Place(statement.line, 1, statement.last_line, number)
            file.skip(place, "statement", NOT_PARSED)
        root = _root(file, lines, wrapped)
    return root


def _root(file: SourceFile, lines: Sequence[str], wrapped: bool) -> Node:
    text = "\n".join(lines) + "\n"
    if wrapped:
        text = f"subroutine included; {text}end subroutine\n"
    return file.parser.parse(text.encode()).root_node


def parsed_include(file: SourceFile, node: Node, number: int, *, wrapped: bool = True) -> tuple[Node, int] | None:
    """The syntax tree and number of an included file, which the caller takes from `file.including` again.

    `wrapped`: it is part of a program unit, not some of its own.
    """
    name = next((text_of(child) for child in node.named_children), "").strip("'\"<>")
    place = place_of(node, number)
    target = Path(file.files[number]).parent / name
    if name in ("mpif.h", "omp_lib.h"):
        return None
    if len(file.including) >= MOST_INCLUDES or target in file.including:
        file.skip(place, "include", f"{name}: included too deeply")
        return None
    try:
        lines = lines_of(target)
    except (SourceError, ValueError):
        file.skip(place, "include", f"{name}: not found")
        return None
    file.including.append(target)
    if str(target) not in file.files:
        file.files.append(str(target))
    inner = file.files.index(str(target))
    root = parsed(file, lines, inner, wrapped=wrapped)
    if not wrapped:
        return root, inner
    return next((child for child in root.named_children if child.type == "subroutine"), root), inner


def place_of(node: Node, number: int) -> form.Place:
    """Place of a node in the file of this number."""
    first, last = node.start_point, node.end_point
    last_line = last[0] + 1 if last[1] or last[0] == first[0] else last[0]
    return form.Place(first[0] + 1, first[1] + 1, 0 if last_line == first[0] + 1 else last_line, number)
