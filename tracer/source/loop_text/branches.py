"""Branches of the preprocessor, as conditions in the syntax of `#if`, and which symbols would choose one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MOST_CONDITION = 400
"""Characters of a condition that are looked at."""

_COMMENT = re.compile(r"/\*.*?(?:\*/|$)|//.*", re.DOTALL)
_DEFINED = re.compile(r"defined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass
class Branches:
    """The open branches while a file's lines are read."""

    includes: list[tuple[str, tuple[tuple[int, str], ...]]] = field(default_factory=list)
    """Files that are included, with the branches around."""
    _open: list[tuple[int, str, list[str]]] = field(default_factory=list)
    """For each open `#if`: line and condition of the current branch, and the conditions of the earlier ones."""

    def directive(self, word: str, rest: str, line: int) -> None:
        """Takes a directive: a branch's own, or an include or definition inside branches."""
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
                self.includes.append((condition.strip('"<> '), self.around()))
            case "define" if self._open:  # `#ifndef NAME`, `#define NAME`: a header that is read once, or a default
                opened, around, before = self._open[-1]
                if around == f"!defined({re.split(r'[ (]', condition)[0]})":
                    self._open[-1] = (opened, "", before)

    def around(self) -> tuple[tuple[int, str], ...]:
        """The enclosing branches, outermost first."""
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


Symbols = dict[str, str | None]


def symbols_for(condition: str) -> Symbols | None:
    """Symbols with which a condition holds, None for one that must not be defined; None: they are not known.

    Of alternatives the first one that can be met is taken.
    """
    tokens, position = [], 0
    while position < len(condition.rstrip()):
        found = _TOKEN.match(condition, position)
        if not found:
            return None
        tokens.append(found[1])
        position = found.end()
    parser = _Parser(tokens)
    try:
        wanted, _ = parser.either()
    except (IndexError, ValueError, RecursionError):
        return None
    return wanted if parser.at == len(tokens) else None


_TOKEN = re.compile(r"\s*(defined\s*\(\s*\w+\s*\)|defined\s+\w+|\w+|&&|\|\||[!<>=]=|[!<>()])")
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_Met = tuple[Symbols | None, Symbols | None]
"""Symbols with which a part of a condition holds, and with which it does not."""


class _Parser:
    """Parses conditions of `#if` that fix the values of symbols: no arithmetic, no calls of macros."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.at = 0

    def either(self) -> _Met:
        yes, no = self.both()
        while self.next_is("||"):
            other, not_other = self.both()
            yes, no = (yes if yes is not None else other), _merged(no, not_other)
        return yes, no

    def both(self) -> _Met:
        yes, no = self.single()
        while self.next_is("&&"):
            other, not_other = self.single()
            yes, no = _merged(yes, other), (no if no is not None else not_other)
        return yes, no

    def single(self) -> _Met:
        if self.next_is("!"):
            yes, no = self.single()
            return no, yes
        if self.next_is("("):
            made = self.either()
            if not self.next_is(")"):
                raise ValueError("a parenthesis that does not close")
            return made
        token = self.next_token()
        if not re.match(r"\w", token):
            raise ValueError(token)
        if self.at < len(self.tokens) and self.tokens[self.at] in _OPPOSITE:
            operator, right = self.next_token(), self.next_token()
            return _compared(token, operator, right), _compared(token, _OPPOSITE[operator], right)
        found = _DEFINED.match(token)
        if found:
            return {found[1] or found[2]: "1"}, {found[1] or found[2]: None}
        if token.isdecimal():
            return ({}, None) if int(token) else (None, {})
        return {token: "1"}, {token: None}

    def next_token(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def next_is(self, token: str) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at] == token:
            self.at += 1
            return True
        return False


def _merged(one: Symbols | None, other: Symbols | None) -> Symbols | None:
    if one is None or other is None or any(name in one and one[name] != other[name] for name in other):
        return None
    return one | other


def _compared(left: str, operator: str, right: str) -> Symbols | None:
    if left.isdecimal():
        left, right, operator = right, left, _TURNED.get(operator, operator)
    if left.isdecimal():
        return None
    if not right.isdecimal():
        return {left: right} if operator == "==" else None
    value = int(right) + {"==": 0, ">=": 0, "<=": 0, ">": 1, "<": -1, "!=": 1}[operator]
    return {left: str(value)} if value >= 0 else None


def options_text(symbols: dict[str, str | None]) -> str:
    """Symbols as options of a compiler: "-DUSE_MPI -DDIMENSION=3 -UDEBUG"."""
    words = []
    for name, value in sorted(symbols.items()):
        words.append(f"-U{name}" if value is None else f"-D{name}" if value == "1" else f"-D{name}={value}")
    return " ".join(words)
