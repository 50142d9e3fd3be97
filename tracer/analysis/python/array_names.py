"""Names of arrays: the variable that an allocating expression of the source is assigned to.

An expression has the name that its value is assigned to, directly or in a container, a view or a comprehension. An
operand or an argument has none: it is in no variable, or in one of the called function.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from foretrace.tracer.analysis.data_flow.node_flow import Site
from foretrace.tracer.reader.raw_trace import RawPythonBlock

from .source_text import source_text

_VIEWS = frozenset({"reshape", "ravel", "view", "transpose", "swapaxes", "squeeze", "T", "real", "imag", "flat"})


class Extent(NamedTuple):
    """Extent of an expression in its file, as Python counts: lines from 1, columns in bytes from 0."""

    line: int
    column: int
    end_line: int
    end_column: int


def names_in(text: str) -> dict[Extent, str]:
    """The names of a source file's expressions.

    Raises:
        SyntaxError, ValueError: it is not in this interpreter's Python.
    """
    found: dict[Extent, str] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                _enter(found, target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            _enter(found, node.target, node.value)
    return found


def _enter(found: dict[Extent, str], target: ast.expr, value: ast.expr) -> None:
    """Enter an expression that is assigned to a target, and those inside that are."""
    pending = [(target, value)]
    while pending:
        target, value = pending.pop()
        if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
            if len(target.elts) == len(value.elts) and not any(isinstance(one, ast.Starred) for one in target.elts):
                pending.extend(zip(target.elts, value.elts, strict=True))
            continue
        name = _name(target)
        if name:
            extent = Extent(value.lineno, value.col_offset, value.end_lineno or 0, value.end_col_offset or 0)
            found.setdefault(extent, name)
            pending.extend((target, part) for part in _parts(value))


def _name(target: ast.expr) -> str:
    """Name of a variable, an attribute, or a dictionary's entry with a constant key; "" for other subscripts, which
    copy into an array."""
    match target:
        case ast.Name() | ast.Attribute() | ast.Subscript(slice=ast.Constant(value=str())):
            return ast.unparse(target)
    return ""


def _parts(value: ast.expr) -> Iterable[ast.expr]:
    """Expressions whose value an expression's value is, or holds."""
    match value:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return parts
        case ast.Dict(values=parts):
            return parts
        case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part) | ast.DictComp(value=part):
            return [part]
        case ast.IfExp(body=one, orelse=other):
            return [one, other]
        case ast.BoolOp(values=parts):
            return parts
        case ast.Call(func=ast.Attribute() as method):
            return _parts(method)
        case ast.Attribute(value=part, attr=name) if name in _VIEWS:
            return [part]
        case ast.NamedExpr(value=part) | ast.Starred(value=part) | ast.Await(value=part):
            return [part]
    return []


def sites_of_arrays(blocks: Sequence[RawPythonBlock]) -> Callable[[Sequence[int]], list[Site]]:
    """A function that resolves sites of arrays (struct ft_side_object of tracer/transport/stream.h)."""
    by_id = {block.block_id: block for block in blocks}
    names: dict[str, dict[Extent, str]] = {}

    def site_of(site: int) -> Site:
        block = by_id.get(site >> 32)
        if block is None:
            return Site("", "", 0)
        if block.file not in names:
            names[block.file] = _names_of(block.file)
        extent = Extent(block.line, site >> 12 & 0xFFF, block.line + (site >> 24 & 0xFF), site & 0xFFF)
        return Site(block.function, block.file, block.line, names[block.file].get(extent, ""))

    return lambda sites: [site_of(site) for site in sites]


def _names_of(file: str) -> dict[Extent, str]:
    text = source_text(file)
    try:
        return {} if text is None else names_in(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
