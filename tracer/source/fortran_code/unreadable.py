"""Replaces statements that the grammar does not know by known ones, so that the other statements still parse.

The grammar's recovery from an error may drop whole blocks. So where a file has an error, its statements are parsed one
by one. A statement that does not parse becomes a call of `PREFIX` and a number, or keeps its keyword with that name as
its condition; lowering makes it an opaque statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

PREFIX = "ft_unread_"

_TEXTS = re.compile(r"""'(?:[^']|'')*'?|"(?:[^"]|"")*"?""")
_COMMENT = re.compile(r"""^((?:'(?:[^']|'')*'|"(?:[^"]|"")*"|[^!'"])*)!.*$""", re.DOTALL)
_HEAD = re.compile(r"^\s*(?P<label>\d+\s+)?(?P<name>[a-z]\w*\s*:(?!:)\s*)?", re.IGNORECASE)
_FREE = re.compile(
    r"(?:end|else|contains|interface|abstract|type(?!\s*\()|enum|block|associate|critical|procedure|generic|module|submodule"
    r"|program|use|implicit|include|import|final|private|public|sequence|entry|elsewhere|case\s+default|class\s+default"
    r"|type\s+is|class\s+is|select\s+type"
    r"|(?:(?:recursive|pure|elemental|impure|integer|real|double\s*precision|logical|complex|character|type)\b[^:=]*)?"
    r"(?:subroutine|function)\s+\w+\s*(?:\(|$))",
    re.IGNORECASE,
)
"""Statements that are not looked at: they open and close parts of a program unit."""
_DECLARES = re.compile(
    r"(?:integer|real|double\s*precision|logical|complex|character|type\s*\(|class\s*\(|dimension|parameter|common|data"
    r"|save|external|intrinsic|equivalence|namelist|allocatable|pointer|target|intent|optional)\b",
    re.IGNORECASE,
)
_SHAPES: tuple[tuple[re.Pattern[str], str, str, str], ...] = (
    (re.compile(r"if\s*\(.*\)\s*then\s*(?:\w+\s*)?$", re.I | re.S), "", "end if", "if ({}) then"),
    (
        re.compile(r"else\s*if\s*\(.*\)\s*then\s*(?:\w+\s*)?$", re.I | re.S),
        "if (x) then",
        "end if",
        "else if ({}) then",
    ),
    (re.compile(r"do\s+(\d+)\b.*$", re.I | re.S), "", "{} continue", "do {} while ({})"),
    (re.compile(r"do\b.*$", re.I | re.S), "", "end do", "do while ({})"),
    (re.compile(r"select\s*case\s*\(.*\)\s*$", re.I | re.S), "", "end select", "select case ({})"),
    (re.compile(r"case\s*\(.*\)\s*(?:\w+\s*)?$", re.I | re.S), "select case (x)", "end select", "case ({})"),
    (re.compile(r"where\b", re.I), "", "end where", "where ({})"),
    (re.compile(r"forall\b", re.I), "", "end forall", "forall ({0} = {0}:{0})"),
)
_OF_ONE = re.compile(r"where\b|forall\b", re.IGNORECASE)
"""Statements that open a block, unless one that they rule follows on the same line."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A statement that does not parse."""

    line: int
    last_line: int
    text: str


def replaced(lines: Sequence[str], parser: Parser, first: int) -> tuple[list[str], dict[int, Unread]]:
    """Lines of free form with replacements of unparsable statements, and these statements by number.

    Args:
        lines: of a file, without preprocessor branches.
        parser: of Fortran.
        first: the first number that is free.
    """
    made = list(lines)
    unread: dict[int, Unread] = {}
    for start, last, text in _statements(lines):
        head = _HEAD.match(text)
        assert head is not None
        words = text[head.end() :]
        if not words.strip() or (_FREE.match(words) and not re.match(r"else\s*if", words, re.IGNORECASE)):
            continue
        plain = _TEXTS.sub("''", words)
        shape = None if _OF_ONE.match(plain) and not _ends_with_header(plain) else _shape_of(plain)
        if _parses(parser, text, shape):
            continue
        number = first + len(unread)
        unread[number] = Unread(start, last, " ".join(text.split()))
        made[start - 1 : last] = [_instead(head, words, shape, number), *("" for _ in range(last - start))]
    return made, unread


def _shape_of(plain: str) -> tuple[re.Pattern[str], str, str, str] | None:
    return next((one for one in _SHAPES if one[0].match(plain)), None)


def _ends_with_header(plain: str) -> bool:
    """Whether nothing follows the parentheses after a statement's keyword."""
    depth = 0
    for position, letter in enumerate(plain):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == ")" and depth == 0:
            return not plain[position + 1 :].strip()
    return True


def _parses(parser: Parser, text: str, shape: tuple[re.Pattern[str], str, str, str] | None) -> bool:
    before, behind = ("", "") if shape is None else shape[1:3]
    label = re.search(r"do\s+(\d+)", text, re.IGNORECASE)
    behind = behind.format(label[1] if label else "")
    whole = f"subroutine s\n{before}\n{text}\n{behind}\nend subroutine\n"
    return not _has_error(parser.parse(whole.encode()).root_node)


def _has_error(node: Node) -> bool:
    """Whether a tree has an error, but for masks of FORALL: the lowering reads them, though the grammar does not."""
    if not node.has_error:
        return False
    if node.is_error or node.is_missing:
        return not (node.parent is not None and node.parent.type == "forall_statement" and node.named_children)
    return any(_has_error(child) for child in node.children)


def _instead(head: re.Match[str], words: str, shape: tuple[re.Pattern[str], str, str, str] | None, number: int) -> str:
    name = f"{PREFIX}{number}"
    if shape is None:
        return "" if _DECLARES.match(words) else f"{head['label'] or ''} call {name}()"
    label = re.match(r"do\s+(\d+)", words, re.IGNORECASE)
    parts = (label[1], name) if shape[3].count("{}") > 1 and label else (name,)
    return f"{head[0]}{shape[3].format(*parts)}"


def _statements(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """First and last line and text of each statement; statements on one line are one."""
    text, start = "", 0
    for number, line in enumerate(lines, 1):
        found = _COMMENT.match(line)
        code = (found[1] if found else line).rstrip()
        if not code.strip() or code.lstrip().startswith("#"):
            continue
        if text:
            code = re.sub(r"^\s*&", "", code)
        else:
            start = number
        goes_on = code.endswith("&")
        text += code[:-1] if goes_on else code
        if not goes_on:
            yield start, number, text
            text = ""
    if text:
        yield start, len(lines), text
