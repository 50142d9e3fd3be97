"""Fortran's text before it is parsed: fixed form made free, and preprocessor branches chosen. Lines keep their numbers.

Fixed form (Fortran 2018, section 6.3.3): a comment starts with C, c, * or ! in column 1, a label stands in columns 1
to 5, a character in column 6 other than blank and 0 continues the statement before, and text from column 73 on is left
out.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

FIXED_SUFFIXES = {".f", ".for", ".ftn", ".f77"}
LAST_COLUMN = 72
_COMMENTS = "Cc*!dD"


def is_fixed(path: Path, lines: list[str]) -> bool:
    """Whether a file is in fixed form: by its name, unless a line could only be free."""
    if path.suffix.lower() not in FIXED_SUFFIXES:
        return False
    free = sum(1 for line in lines if _is_free(line))
    return free * 20 <= len(lines)


def _is_free(line: str) -> bool:
    """A line that starts in columns 1 to 5 with something other than a label or comment, or ends with "&"."""
    if not line.strip() or line[0] in _COMMENTS + "#":
        return False
    if line.rstrip().endswith("&") and len(line.rstrip()) <= LAST_COLUMN:
        return True
    start = line[:5].strip()
    return bool(start) and not start.isdecimal() and "\t" not in line[:6]


def free_form(lines: list[str]) -> list[str]:
    """Lines of fixed form as free form, one for one."""
    free: list[str] = []
    statement = -1
    for line in lines:
        if not line.strip():
            free.append("")
        elif line[0] == "#":
            free.append(line)
            statement = -1
        elif line[0] in _COMMENTS:
            free.append("!" + line[1:])
        elif line.lstrip().startswith("!"):
            free.append(line)
        else:
            label, mark, text = _fields(line)
            if mark and statement >= 0:
                free[statement] += " &"
                free.append(f"     &{text}")
            else:
                free.append(f"{label:<5} {_spaced(text)}")
            statement = len(free) - 1
    return free


def _fields(line: str) -> tuple[str, str, str]:
    """Label, continuation mark and text of a line."""
    if "\t" in line[:6]:  # a tab ends the label field; a digit behind it continues
        label, _, rest = line.partition("\t")
        if rest[:1].isdecimal() and rest[0] != "0":
            return "", rest[0], _cut(rest[1:])
        return label, "", _cut(rest)
    mark = line[5:6].strip().replace("0", "")
    return line[:5].strip(), mark, _cut(line[6:LAST_COLUMN])


def _cut(text: str) -> str:
    """Text without a trailing comment."""
    quote = ""
    for position, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "!":
            return text[:position].rstrip()
    return text.rstrip()


_DO = re.compile(r"^do\s*(\d*)\s*([a-z]\w*\s*=[^=(].*,.*)$", re.IGNORECASE)


def _spaced(text: str) -> str:
    """A statement with blanks where fixed form may leave them out: `DO10I=1,N`, `GOTO30`."""
    stripped = text.lstrip()
    if stripped[:2].lower() == "do":
        found = _DO.match(stripped)
        if found:
            label = f" {found[1]}" if found[1] else ""
            return f"do{label} {found[2]}"
    if stripped[:4].lower() == "goto" and stripped[4:].strip().isdecimal():
        return f"goto {stripped[4:].strip()}"
    return text


# Preprocessor branches


@dataclass(frozen=True, slots=True)
class Dropped:
    """Lines of a branch that was not taken."""

    first: int
    last: int
    condition: str


_DIRECTIVE = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|else|endif|define|undef)\b(.*)$")


def branches_taken(lines: list[str], defined: Mapping[str, str]) -> tuple[list[str], list[Dropped]]:
    """The lines, with directives and the lines of untaken branches blanked.

    Undefined symbols count as undefined, as for a compiler. `#include` stays.
    """
    symbols = dict(defined)
    macros: dict[str, str] = {}
    kept: list[str] = []
    dropped: list[Dropped] = []
    open_branches: list[list[bool]] = []  # for each #if: whether this branch is taken, and whether one was
    start = 0
    reason = ""
    for number, line in enumerate(lines, 1):
        found = _DIRECTIVE.match(line) if "#" in line else None
        active = all(taken for taken, _ in open_branches)
        if found is None:
            kept.append(_expanded(line, macros) if active else "")
            continue
        kept.append("")
        word, rest = found[1], re.sub(r"/\*.*?(\*/|$)", "", found[2]).strip()
        if word in ("if", "ifdef", "ifndef"):
            taken = active and _holds(word, rest, symbols)
            open_branches.append([taken, taken or not active])
        elif word in ("elif", "else") and open_branches:
            outer = all(taken for taken, _ in open_branches[:-1])
            before = open_branches[-1][1]
            taken = outer and not before and (word == "else" or _holds("if", rest, symbols))
            open_branches[-1] = [taken, before or taken]
        elif word == "endif" and open_branches:
            open_branches.pop()
        elif active and word == "define":
            name, _, value = rest.partition(" ")
            symbols[name] = value.strip() or "1"
            if name.isidentifier() and value.strip():
                macros[name] = value.strip()
        elif active and word == "undef":
            symbols.pop(rest, None)
            macros.pop(rest, None)
        now = all(taken for taken, _ in open_branches)
        if active and not now:
            start, reason = number, f"{word} {rest}"
        elif not active and now and start:
            dropped.append(Dropped(start, number, reason.strip()))
            start = 0
    return kept, dropped


_MOST_EXPANDED = 10_000
"""Characters of a line with its macros replaced."""


def _expanded(line: str, macros: Mapping[str, str]) -> str:
    """A line with macros without arguments replaced once; the replacements are not expanded again."""
    if not macros or not any(name in line for name in macros):
        return line
    names = "|".join(map(re.escape, macros))
    made = re.sub(rf"\b({names})\b", lambda found: macros[found[0]], line)
    return made if len(made) <= _MOST_EXPANDED else line


def _holds(word: str, text: str, symbols: Mapping[str, str]) -> bool:
    if word != "if":
        return (text.split()[:1] != [] and text.split()[0] in symbols) == (word == "ifdef")
    text = re.sub(r"\bdefined\s*\(?\s*(\w+)\s*\)?", lambda found: str(int(found[1] in symbols)), text)
    text = re.sub(r"\b[A-Za-z_]\w*", lambda found: _number(symbols.get(found[0], "0")), text)
    text = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or "))
    try:
        return bool(_value(ast.parse(text.strip(), mode="eval").body))
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError):
        return False


def _number(text: str) -> str:
    return text.strip() if text.strip().lstrip("-").isdecimal() else "0"


_OPERATORS: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


def _value(node: ast.expr) -> int:
    """An `#if` expression of integers, written in Python's syntax.

    Raises:
        ValueError: it has something else.
    """
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.BoolOp(op=ast.And(), values=values):
            return int(all(map(_value, values)))
        case ast.BoolOp(values=values):
            return int(any(map(_value, values)))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return int(not _value(operand))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left), _value(right))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left), _value(right))
    raise ValueError(ast.dump(node))
