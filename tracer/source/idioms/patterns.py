"""Patterns of idioms: their notation, parsed and checked.

A pattern is a few statements in Python's syntax, over names that stand for parts of a program:

- `i j k l`: induction variables, each of another loop.
- names with a capital: arrays. A subscript `A[i]` is an index affine in `i`; `A[i - d]` lies `d` iterations before the
  place that the statement writes, `A[i + 1]` one behind it; `A[I[i]]` is indirect; `A[_(I[i])]` computes the position
  from `I[i]`; `A[...]` does not depend on the innermost loop; `A[p]` is any place, the same one wherever `p` stands.
- `p q`: places of an array. `v w`: values. `d`: a whole number other than 0. `M`, after a dot: a member. They are the
  same wherever they stand.
- other lower-case names: scalars that one iteration hands to the next.
- `_`: any value; `_(X, Y)`: any value computed from X and Y. Neither contains a scalar of the pattern that it does not
  name.

Operands of + and * match in any order, with invariant factors left over; those of other operators as they stand.
`for i in _`, `for i in span(P)` (from `P[j]` to `P[j + 1]`), `while` and `if` ask for loops and guards around a
statement; without them any will do. Several statements must all be found in the same loops.
"""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path

import msgspec

from foretrace.base import toml_text
from foretrace.base.errors import SourceError, quoted, shortened
from foretrace.base.files import read_bounded

INDUCTION = frozenset("ijkl")
PLACES = frozenset("pq")
VALUES = frozenset("vw")
DISTANCE = "d"
MOST_PATTERNS = 200
_MOST_NODES = 400
_MOST_LETTERS = 10_000


@dataclass(frozen=True, slots=True)
class LoopPattern:
    """A loop that must stand around a statement."""

    variable: str
    """"" for a `while`."""
    span: str = ""
    """The array whose neighbouring elements bound it."""
    condition: ast.expr | None = None


@dataclass(frozen=True, slots=True)
class StatementPattern:
    """A store, with the loops and guards it must stand in."""

    target: ast.expr
    value: ast.expr
    loops: tuple[LoopPattern, ...]
    guards: tuple[ast.expr, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """One way to write an idiom."""

    text: str
    statements: tuple[StatementPattern, ...]
    scalars: frozenset[str]


@dataclass(frozen=True, slots=True)
class IdiomDefinition:
    """An idiom: its patterns, and the requirements on their matches."""

    name: str
    summary: str
    patterns: tuple[Pattern, ...]
    where: ast.expr | None = None
    parts: frozenset[str] = field(default_factory=frozenset)
    confidence: float = 0.9


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """An idiom as it stands in a file."""

    summary: str
    patterns: list[str]
    where: str = ""
    parts: list[str] = msgspec.field(default_factory=list)
    confidence: float = 0.9


PREDICATES = {
    "same": 2, "differs": 2, "compares": 1, "updates": 1, "offsets": 0, "carried": 0, "table": 1, "innermost": 1,
    "varies": 1, "computed": 0, "in_step": 0, "behind": 0, "commutes": 0,
    "grows": 0, "indexes": 0, "many": 0, "ragged": 0, "rewritten": 1,
}  # fmt: skip
"""Questions that `where` may ask, and how many names of the pattern each takes. docs/idioms.md describes them."""


def built_in() -> tuple[IdiomDefinition, ...]:
    """The built-in idioms, most specific first."""
    return parsed(resources.files(__package__).joinpath("builtin.toml").read_bytes(), "builtin.toml")


def from_file(path: Path) -> tuple[IdiomDefinition, ...]:
    """A user's idioms.

    Raises:
        SourceError: the file cannot be read, or is not as docs/idioms.md describes.
    """
    return parsed(read_bounded(path, toml_text.MAX_FILE_BYTES, "a file of patterns", SourceError), str(path))


def parsed(content: bytes, origin: str) -> tuple[IdiomDefinition, ...]:
    """Idioms from the bytes of a pattern file; `origin` names it in errors.

    Raises:
        SourceError: the text is not as docs/idioms.md describes.
    """
    try:
        entries = msgspec.convert(toml_text.decode(content), dict[str, _Entry])
    except ValueError as error:
        raise SourceError(f"{origin}: {shortened(str(error))}") from error
    if sum(len(entry.patterns) for entry in entries.values()) > MOST_PATTERNS:
        raise SourceError(f"{origin}: more than {MOST_PATTERNS} patterns")
    made = tuple(definition(name, entry.patterns, entry.summary, where=entry.where, parts=entry.parts,
                            confidence=entry.confidence, origin=origin) for name, entry in entries.items())  # fmt: skip
    for one in made:
        for part in sorted(one.parts - entries.keys()):
            if part not in _built_in_names():
                raise SourceError(f"{origin}: idiom {quoted(one.name)}: parts: there is no idiom {quoted(part)}")
    return made


@lru_cache(maxsize=1)
def _built_in_names() -> frozenset[str]:
    return frozenset(toml_text.decode(resources.files(__package__).joinpath("builtin.toml").read_bytes()))


def definition(
    name: str, patterns: list[str], summary: str, *, where: str = "", parts: list[str] | None = None,
    confidence: float = 0.9, origin: str = "pattern",
) -> IdiomDefinition:  # fmt: skip
    """An idiom from its patterns as text.

    Raises:
        SourceError: a pattern or condition does not parse, or uses something patterns do not have.
    """
    here = f"{origin}: idiom {quoted(name)}"
    allowed = set(string.ascii_lowercase + string.digits + "-")
    if not name or len(name) > 64 or not set(name) <= allowed:
        raise SourceError(f"{here}: a name has 1 to 64 lower-case letters, digits and hyphens")
    if not patterns:
        raise SourceError(f"{here}: it needs at least one pattern")
    if not 0 < confidence <= 1:
        raise SourceError(f"{here}: confidence lies above 0 and at most at 1, not at {confidence}")
    made = tuple(_pattern(text, here) for text in patterns)
    condition = _condition(where, here)
    if condition is not None:
        known = {node.id for text in patterns for node in ast.walk(_parse(text, here)) if isinstance(node, ast.Name)}
        for node in ast.walk(condition):
            if isinstance(node, ast.Name) and node.id not in known | PREDICATES.keys():
                raise SourceError(f"{here}: where {quoted(where)}: no pattern has {quoted(node.id)}")
    return IdiomDefinition(name, summary, made, condition, frozenset(parts or ()), confidence)


def _parse(text: str, here: str) -> ast.Module:
    if len(text) > _MOST_LETTERS:
        raise SourceError(f"{here}: {quoted(text)}: too long")
    try:
        tree = ast.parse(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SourceError(f"{here}: {quoted(text)}: {shortened(str(error))}") from error
    if sum(1 for _ in ast.walk(tree)) > _MOST_NODES:
        raise SourceError(f"{here}: {quoted(text)}: too long")
    return tree


def _pattern(text: str, here: str) -> Pattern:
    tree = _parse(text, here)
    statements = tuple(_statements(tree.body, (), (), f"{here}: {quoted(text)}"))
    if not statements:
        raise SourceError(f"{here}: {quoted(text)}: a pattern needs an assignment")
    for statement in statements:
        if not isinstance(statement.target, ast.Subscript) and not (
            isinstance(statement.target, ast.Name) and is_scalar(statement.target.id)
        ):
            found = quoted(ast.unparse(statement.target))
            raise SourceError(f"{here}: {quoted(text)}: a statement assigns an element or a scalar, not {found}")
        conditions = [loop.condition for loop in statement.loops if loop.condition is not None]
        for part in (statement.target, statement.value, *statement.guards, *conditions):
            _check(part, f"{here}: {quoted(text)}")
    scalars = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name) and is_scalar(one.id)}
    return Pattern(text.strip(), statements, frozenset(scalars))


FUNCTIONS = frozenset({"_", "min", "max", "abs", "sqrt", "exp", "span"})

OPERATORS: dict[type[ast.AST], str] = {
    ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
"""Operators whose operands match in their order, as the source form writes them."""


def _check(node: ast.expr, here: str) -> None:
    """Refuse values that patterns do not have."""
    shown = quoted(ast.unparse(node))
    match node:
        case ast.Name(id=name):
            if name[0].isupper():
                raise SourceError(f"{here}: {shown} is an array: it needs a subscript")
            if name == DISTANCE:
                raise SourceError(f"{here}: {shown} is a distance: it stands in subscripts, as in A[i - d]")
        case ast.Constant(value=value):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise SourceError(f"{here}: constants are numbers, not {shown}")
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS - {"span"}:
            for argument in arguments:
                _check(argument, here)
        case ast.Call():
            known = ", ".join(sorted(FUNCTIONS - {"span"}))
            raise SourceError(f"{here}: {shown}: of functions, values have {known}")
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, ops=[_], comparators=[right]):
            _check(left, here)
            _check(right, here)
        case ast.BoolOp(values=operands):
            for operand in operands:
                _check(operand, here)
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            _check(operand, here)
        case ast.Subscript(value=base, slice=index):
            if not isinstance(base, ast.Name) or not (base.id[0].isupper() or is_scalar(base.id)):
                raise SourceError(f"{here}: {shown}: subscripts follow an array or a scalar")
            for one in index.elts if isinstance(index, ast.Tuple) else [index]:
                _check_index(one, here)
        case ast.Attribute(value=ast.Name() | ast.Subscript() | ast.Attribute() as base):
            if not isinstance(base, ast.Name):
                _check(base, here)
        case _:
            raise SourceError(f"{here}: {shown}: values have no {type(node).__name__.lower()}")


def _check_index(node: ast.expr, here: str) -> None:
    """Refuse subscripts that patterns do not have."""
    match node:
        case ast.Name(id=name) if not name[0].isupper() and name not in VALUES | {DISTANCE}:
            return
        case ast.Constant(value=value) if value is Ellipsis or (type(value) is int and value == 0):
            return
        case ast.BinOp(op=ast.Sub(), left=ast.Name(id=name), right=ast.Name(id=distance)) if name in INDUCTION:
            if distance == DISTANCE:
                return
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=ast.Name(id=name), right=ast.Constant(value=int())):
            if name in INDUCTION:
                return
        case ast.Subscript():
            _check(node, here)
            return
        case ast.Call(func=ast.Name(id="_"), args=arguments, keywords=[]):
            for argument in arguments:
                _check(argument, here)
            return
    known = "i, i - d, i + 1, I[i], _(I[i]), p, s, _ and ..."
    raise SourceError(f"{here}: subscripts are {known}, not {quoted(ast.unparse(node))}")


def is_scalar(name: str) -> bool:
    """A pattern's name for a scalar that iterations hand on."""
    reserved = INDUCTION | PLACES | VALUES | FUNCTIONS | {DISTANCE}
    return name not in reserved and name[0].islower()


def _statements(
    body: list[ast.stmt], loops: tuple[LoopPattern, ...], guards: tuple[ast.expr, ...], here: str
) -> Iterator[StatementPattern]:
    for statement in body:
        match statement:
            case ast.Assign(targets=[target], value=value):
                yield StatementPattern(target, value, loops, guards)
            case ast.For(target=ast.Name(id=variable), iter=over, body=inner, orelse=[]) if variable in INDUCTION:
                yield from _statements(inner, (*loops, LoopPattern(variable, _span(over, here))), guards, here)
            case ast.While(test=test, body=inner, orelse=[]):
                yield from _statements(inner, (*loops, LoopPattern("", condition=test)), guards, here)
            case ast.If(test=test, body=inner, orelse=[]):
                yield from _statements(inner, loops, (*guards, test), here)
            case _:
                found = quoted(ast.unparse(statement))
                raise SourceError(f"{here}: patterns have =, for i in _, while and if; not {found}")


def _span(over: ast.expr, here: str) -> str:
    match over:
        case ast.Name(id="_"):
            return ""
        case ast.Call(func=ast.Name(id="span"), args=[ast.Name(id=array)]):
            return array
    raise SourceError(f"{here}: loops run over _ or span(P), not {quoted(ast.unparse(over))}")


def _condition(text: str, here: str) -> ast.expr | None:
    if not text:
        return None
    tree = _parse(text, here)
    match tree.body:
        case [ast.Expr(value=value)]:
            _check_condition(value, f"{here}: where {quoted(text)}")
            return value
    raise SourceError(f"{here}: where {quoted(text)}: it is one expression")


def _check_condition(node: ast.expr, here: str) -> None:
    match node:
        case ast.BoolOp(values=values):
            for value in values:
                _check_condition(value, here)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            _check_condition(operand, here)
        case ast.Compare(left=left, ops=[_], comparators=[right]):
            _check_condition(left, here)
            _check_condition(right, here)
        case ast.Constant(value=int()):
            pass
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in PREDICATES:
            if len(arguments) != PREDICATES[name] or not all(isinstance(one, ast.Name) for one in arguments):
                raise SourceError(f"{here}: {name} takes {PREDICATES[name]} names of the pattern")
        case _:
            known = ", ".join(sorted(PREDICATES))
            raise SourceError(f"{here}: {quoted(ast.unparse(node))}: conditions are made of {known}")


def as_text(one: IdiomDefinition) -> str:
    """Text of the whole definition, which identifies it."""
    where = "" if one.where is None else ast.unparse(one.where)
    parts = " ".join(sorted(one.parts))
    texts = "\n".join(pattern.text for pattern in one.patterns)
    return f"{one.name} {one.confidence} {one.summary}\n{texts}\nwhere {where}\nparts {parts}"
