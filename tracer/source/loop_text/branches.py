"""Branches of the preprocessor, as conditions in the syntax of `#if`, and which symbols would choose one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MOST_CONDITION = 400
"""Characters of a condition that are looked at."""

_COMMENT = re.compile(r"/\*.*?(?:\*/|$)|//.*", re.DOTALL)
_DEFINED = re.compile(r"defined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_COMPARED = re.compile(r"(\w+)\s*(==|!=|>=|<=|>|<)\s*(\w+)")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass
class Branches:
    """The branches that are open while a file's lines are read."""

    includes: list[tuple[str, tuple[tuple[int, str], ...]]] = field(default_factory=list)
    """Files that are included, with the branches around."""
    _open: list[tuple[int, str, list[str]]] = field(default_factory=list)
    """For each `#if`: line and condition of the branch at hand, and the conditions of those before it."""

    def directive(self, word: str, rest: str, line: int) -> None:
        """Takes a directive: those of branches and of what stands in them."""
        condition = " ".join(_COMMENT.sub(" ", rest).replace("\\\n", " ").split())[:MOST_CONDITION]
        match word:
            case "if" | "ifdef" | "ifndef":
                if word != "if":
                    condition = f"{'!' if word == 'ifndef' else ''}defined({condition.split()[0] if condition else ''})"
                self._open.append((line, condition, [condition]))
            case "elif" | "else" | "elifdef" | "elifndef" if self._open:
                before = self._open[-1][2]
                own = [] if word == "else" else [condition]
                if word in ("elifdef", "elifndef"):
                    own = [f"{'!' if word == 'elifndef' else ''}defined({condition})"]
                text = " && ".join([*(negated(one) for one in before), *map(_enclosed, own)])
                self._open[-1] = (line, text, [*before, *own])
            case "endif" if self._open:
                self._open.pop()
            case "include":
                self.includes.append((condition.strip("\"<> "), self.around()))
            case "define" if self._open:  # `#ifndef NAME`, `#define NAME`: a header that is read once, or a default
                opened, around, before = self._open[-1]
                if around == f"!defined({re.split(r'[ (]', condition)[0]})":
                    self._open[-1] = (opened, "", before)

    def around(self) -> tuple[tuple[int, str], ...]:
        """The branches at hand, outermost first."""
        return tuple((line, condition) for line, condition, _ in self._open if condition)


def negated(condition: str) -> str:
    """The condition that holds where this one does not."""
    if condition.startswith("!") and _NAME.fullmatch(condition[1:]):
        return condition[1:]
    if re.fullmatch(r"!defined\(\w*\)", condition):
        return condition[1:]
    if _NAME.fullmatch(condition) or re.fullmatch(r"defined\(\w*\)", condition):
        return f"!{condition}"
    return f"!({condition})"


def _enclosed(condition: str) -> str:
    return f"({condition})" if "||" in condition else condition


def symbols_for(condition: str) -> dict[str, str | None] | None:
    """Symbols with which a condition holds, None for one that must not be defined; None: they are not known.

    Of alternatives the first one that can be met is taken.
    """
    parsed = _parse(condition)
    return None if parsed is None else _met(parsed, True)


_TOKEN = re.compile(r"\s*(defined\s*\(\s*\w+\s*\)|defined\s+\w+|\w+|&&|\|\||[!<>=]=|[!<>()])")
_Tree = tuple[str, ...] | tuple[str, "_Tree"] | tuple[str, "_Tree", "_Tree"]


def _parse(condition: str):  # type: ignore[no-untyped-def]
    tokens, position = [], 0
    while position < len(condition.rstrip()):
        found = _TOKEN.match(condition, position)
        if not found:
            return None
        tokens.append(found[1])
        position = found.end()
    try:
        tree, rest = _either(tokens, 0)
    except (IndexError, ValueError, RecursionError):
        return None
    return tree if rest == len(tokens) else None


def _either(tokens, at):  # type: ignore[no-untyped-def]
    left, at = _both(tokens, at)
    while at < len(tokens) and tokens[at] == "||":
        right, at = _both(tokens, at + 1)
        left = ("or", left, right)
    return left, at


def _both(tokens, at):  # type: ignore[no-untyped-def]
    left, at = _single(tokens, at)
    while at < len(tokens) and tokens[at] == "&&":
        right, at = _single(tokens, at + 1)
        left = ("and", left, right)
    return left, at


def _single(tokens, at):  # type: ignore[no-untyped-def]
    token = tokens[at]
    if token == "!":
        inner, at = _single(tokens, at + 1)
        return ("not", inner), at
    if token == "(":
        inner, at = _either(tokens, at + 1)
        if tokens[at] != ")":
            raise ValueError(token)
        return inner, at + 1
    if not re.match(r"\w", token):
        raise ValueError(token)
    if at + 1 < len(tokens) and tokens[at + 1] in ("==", "!=", "<", ">", "<=", ">="):
        return ("compare", token, tokens[at + 1], tokens[at + 2]), at + 3
    if token.startswith("defined") and token != "defined":
        found = _DEFINED.match(token)
        if not found:
            raise ValueError(token)
        return ("defined", found[1] or found[2]), at + 1
    return ("value", token), at + 1


def _met(tree, wanted: bool) -> dict[str, str | None] | None:  # type: ignore[no-untyped-def]
    match tree:
        case ("not", inner):
            return _met(inner, not wanted)
        case ("and" | "or" as operator, left, right):
            if (operator == "and") == wanted:
                one, other = _met(left, wanted), _met(right, wanted)
                if one is None or other is None or any(name in one and one[name] != other[name] for name in other):
                    return None
                return one | other
            one = _met(left, wanted)
            return one if one is not None else _met(right, wanted)
        case ("defined", name):
            return {name: "1" if wanted else None}
        case ("value", text):
            if text.isdecimal():
                return {} if bool(int(text)) == wanted else None
            return {text: "1" if wanted else None}
        case ("compare", left, operator, right):
            return _compared(left, operator, right, wanted)
    return None


def _compared(left: str, operator: str, right: str, wanted: bool) -> dict[str, str | None] | None:
    if not wanted:
        operator = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}[operator]
    if left.isdecimal() and not right.isdecimal():
        left, right = right, left
        operator = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(operator, operator)
    if left.isdecimal():
        return None
    if not right.isdecimal():
        return {left: right} if operator == "==" else None
    value = int(right) + {"==": 0, ">=": 0, "<=": 0, ">": 1, "<": -1, "!=": 1}[operator]
    return {left: str(max(value, 0))} if value >= 0 else None


def options_text(symbols: dict[str, str | None]) -> str:
    """Symbols as options of a compiler: "-DUSE_MPI -DDIMENSION=3 -UDEBUG"."""
    words = []
    for name, value in sorted(symbols.items()):
        words.append(f"-U{name}" if value is None else f"-D{name}" if value == "1" else f"-D{name}={value}")
    return " ".join(words)
