"""Types and shapes of a function's names, inferred from their uses before its statements are lowered."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.records import Kind
from foretrace.tracer.source.form.types import UNKNOWN, Variables, type_of

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_SCALARS = {
    "int": form.ScalarType(Kind.INTEGER, 8), "float": form.ScalarType(Kind.FLOAT, 8),
    "bool": form.ScalarType(Kind.BOOLEAN, 1), "complex": form.ScalarType(Kind.COMPLEX, 16),
    "float64": form.ScalarType(Kind.FLOAT, 8), "float32": form.ScalarType(Kind.FLOAT, 4),
    "int64": form.ScalarType(Kind.INTEGER, 8), "int32": form.ScalarType(Kind.INTEGER, 4),
    "int16": form.ScalarType(Kind.INTEGER, 2), "int8": form.ScalarType(Kind.INTEGER, 1),
    "uint8": form.ScalarType(Kind.INTEGER, 1), "uint32": form.ScalarType(Kind.INTEGER, 4),
    "uint64": form.ScalarType(Kind.INTEGER, 8), "intp": form.ScalarType(Kind.INTEGER, 8),
    "bool_": form.ScalarType(Kind.BOOLEAN, 1), "complex128": form.ScalarType(Kind.COMPLEX, 16),
    "complex64": form.ScalarType(Kind.COMPLEX, 8), "str": form.ScalarType(Kind.CHARACTER),
}  # fmt: skip

_ARRAY_ATTRIBUTES = frozenset({"shape", "T", "dtype", "ndim", "nbytes", "strides", "flat"})
_ARRAY_METHODS = frozenset(
    {"sum", "dot", "cumsum", "mean", "astype", "reshape", "ravel", "argsort", "argmax", "argmin"}
)
_ARRAY_ARGUMENTS = frozenset(
    [
        "sum",
        "dot",
        "cumsum",
        "bincount",
        "argsort",
        "argmax",
        "argmin",
        "prod",
        "min",
        "max",
        "amin",
        "amax",
        "mean",
        "any",
        "all",
        "count_nonzero",
        "take",
        "matmul",
        "vdot",
        "inner",
        "convolve",
        "diff",
        "zeros_like",
        "ones_like",
        "empty_like",
        "full_like",
        "accumulate",
    ]
)


MUTATING = frozenset({"append", "extend", "insert", "pop", "popleft", "appendleft", "remove", "clear", "sort", "fill"})
"""Methods that change a list, a deque or an array."""


@dataclass(frozen=True)
class Sequence:
    """An iterable whose elements are a function of a counter from 0."""

    extent: form.Expression
    element: Callable[[form.Expression], Any]
    """An expression, or a (nested) list of them for an iterable of tuples."""


def as_scalar_type(name: str) -> form.ScalarType:
    """Python's or NumPy's scalar type of this name."""
    return _SCALARS.get(name.rpartition(".")[2], UNKNOWN)


def add(left: form.Expression, right: form.Expression) -> form.Expression:
    """A sum, with constants folded."""
    return _sum(left, right, 1)


def subtract(left: form.Expression, right: form.Expression) -> form.Expression:
    """A difference, with constants folded."""
    return _sum(left, right, -1)


def _sum(left: form.Expression, right: form.Expression, sign: int) -> form.Expression:
    if isinstance(right, form.Operation) and right.operator == "neg":
        return _sum(left, right.operands[0], -sign)
    if not isinstance(right, form.Constant) or not isinstance(right.value, int):
        if left == right and sign < 0:
            return form.Constant(0)
        if left == form.Constant(0) and sign > 0:
            return right
        return form.Operation("+" if sign > 0 else "-", (left, right))
    amount = sign * right.value
    if isinstance(left, form.Constant) and isinstance(left.value, int):
        return form.Constant(left.value + amount)
    if isinstance(left, form.Operation) and left.operator in ("+", "-") and isinstance(left.operands[1], form.Constant):
        inner = left.operands[1].value
        if isinstance(inner, int):
            amount += inner if left.operator == "+" else -inner
            left = left.operands[0]
    if amount == 0:
        return left
    return form.Operation("+" if amount > 0 else "-", (left, form.Constant(abs(amount))))


def scalar(expression: form.Expression, variables: Variables) -> bool:
    """Whether nothing is known of the expression's type: it may be an array."""
    return type_of(expression, variables) == UNKNOWN


class Shape:
    """Names assigned in a function, and the properties inferred from their uses."""

    def __init__(self, node: ast.AST, body: list[ast.stmt]) -> None:
        """Reads the uses of names in a function's (or a module's) body."""
        self.assigned: set[str] = set()
        self.foreign: set[str] = set()
        """Declared `global` or `nonlocal`."""
        self.captured: set[str] = set()
        """Assigned by a function inside this one."""
        self.mappings: set[str] = set()
        self.appended: set[str] = set()
        """Lists that `append` is called on."""
        self.resized: set[str] = set()
        """Lists whose length changes other than by `append`."""
        self.arrays: dict[str, int] = {}
        """Names used as arrays, with their number of dimensions."""
        self.scalars: dict[str, form.Type] = {}
        self._reads: dict[str, int] = {}
        self._loop_reads: dict[str, int] = {}
        self._links: list[tuple[str, str, ast.expr | None]] = []
        """The first name is bound to the second one as the expression has it; None: to one of its elements."""
        for part in own_nodes(body):
            self._visit(part)
        for part in own_nodes(body):
            if isinstance(part, ast.For) and isinstance(part.target, ast.Name):
                inside = [each for each in ast.walk(part) if isinstance(each, ast.Name) and each.id == part.target.id]
                self._loop_reads[part.target.id] = self._loop_reads.get(part.target.id, 0) + sum(
                    isinstance(each.ctx, ast.Load) for each in inside
                )
        if isinstance(node, FunctionNode):
            for argument in parameters(node):
                if argument.annotation is not None:
                    self._annotate(argument.arg, argument.annotation)
        for _ in range(3):
            for element, array, indices in self._links:
                if element in self.arrays:
                    self._array(array, self._scalar_indices(indices) + self.arrays[element])
        for name in self.mappings:
            self.arrays.pop(name, None)

    def type_of(self, name: str) -> form.Type:
        """A name's type, as far as its uses show it."""
        if name in self.scalars:
            return self.scalars[name]
        if name in self.arrays:
            return form.ArrayType(UNKNOWN, (None,) * self.arrays[name], strided=True)
        return UNKNOWN

    @property
    def read(self) -> set[str]:
        """Names that are read."""
        return set(self._reads)

    def read_after_loops(self, name: str) -> bool:
        """Whether a loop variable is read outside the loops over it."""
        return self._reads.get(name, 0) > self._loop_reads.get(name, 0)

    def _array(self, name: str, dimensions: int) -> None:
        self.arrays[name] = max(self.arrays.get(name, 0), min(dimensions, 8))

    def _annotate(self, name: str, annotation: ast.expr) -> None:
        text = ast.unparse(annotation).strip("'\"") if _shallow(annotation) else ""
        if text in _SCALARS:
            self.scalars[name] = _SCALARS[text]
        elif "ndarray" in text or text.startswith(("list[", "List[", "Sequence[", "NDArray", "npt.NDArray")):
            self._array(name, max(1, text.count("list[") + text.count("List[") + text.count("Sequence[")))
        elif text.startswith(("dict", "Dict", "Mapping", "set", "Counter")):
            self.mappings.add(name)

    def _visit(self, part: ast.AST) -> None:
        match part:
            case ast.Name(id=name, ctx=context):
                if isinstance(context, ast.Load):
                    self._reads[name] = self._reads.get(name, 0) + 1
                else:
                    self.assigned.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                self.foreign.update(names)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                self._annotate(name, annotation)
            case ast.Subscript():
                self._subscript(part)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append")):
                self.appended.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if (
                method in MUTATING and method not in ("append", "sort", "fill")
            ):
                self.resized.add(name)
            case ast.Delete(targets=targets):
                self.resized.update(
                    part.value.id
                    for part in targets
                    if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name)
                )
            case ast.AugAssign(target=ast.Name(id=name)):
                self.resized.add(name)
            case ast.Call(func=ast.Attribute(attr="at"), args=[ast.Name(id=array), ast.Name(id=index), *_]):
                self._array(array, 1)
                self._array(index, 1)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if attribute in _ARRAY_ATTRIBUTES:
                self._array(name, 1)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)) if attribute in _ARRAY_METHODS:
                self._array(name, 1)
                self._arguments(part, attribute)
            case ast.Call(func=ast.Attribute(attr=attribute)) if attribute in _ARRAY_ARGUMENTS:
                self._arguments(part, attribute)
            case ast.Call(func=ast.Name(id="len" | "sum" | "min" | "max" | "any" | "all"), args=[ast.Name(id=name)]):
                self._array(name, 1)
            case ast.Call(func=ast.Attribute(attr="reduce") | ast.Name(id="reduce"), args=[_, ast.Name(id=name), *_]):
                self._array(name, 1)
            case ast.Call(func=ast.Name(id="accumulate"), args=[ast.Name(id=name), *_]):
                self._array(name, 1)
            case ast.Call(func=ast.Name(id="range" | "prange"), args=arguments):
                for argument in arguments:
                    self._integers(argument)
            case ast.BinOp(op=ast.MatMult(), left=left, right=right):
                for operand in (left, right):
                    if isinstance(operand, ast.Name):
                        self._array(operand.id, 1)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._value(name, value)
            case ast.Assign(
                targets=[ast.Tuple(elts=elements)], value=ast.Attribute(value=ast.Name(id=name), attr="shape")
            ):
                self._array(name, len(elements))
            case ast.Assign(targets=[ast.Subscript(slice=ast.Slice())], value=value):
                self._fancy(value)
            case ast.For(target=ast.Name(id=element), iter=ast.Name(id=array)):
                self._links.append((element, array, None))
                self._array(array, 1)
            case ast.ExceptHandler(name=str(name)):
                self.assigned.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                self.assigned.add(name)
                for inner in ast.walk(part):
                    if isinstance(inner, ast.Nonlocal):
                        self.captured.update(inner.names)

    def _scalar_indices(self, node: ast.expr | None) -> int:
        """Number of dimensions that the subscripts of an expression remove."""
        if node is None:
            return 1
        taken = 0
        while isinstance(node, ast.Subscript):
            for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
                array = isinstance(part, ast.Name) and part.id in self.arrays
                taken += not (array or isinstance(part, (ast.Slice, ast.Compare, ast.BoolOp, ast.List)))
            node = node.value
        return taken

    def _integers(self, node: ast.expr) -> None:
        """Names that a range counts to are integers."""
        pending = [node]
        while pending:
            part = pending.pop()
            match part:
                case ast.Name(id=name):
                    self.scalars.setdefault(name, _SCALARS["int"])
                case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv(), left=left, right=right):
                    pending += [left, right]
                case ast.UnaryOp(operand=operand):
                    pending.append(operand)

    def _fancy(self, value: ast.expr) -> None:
        """Bare parameters as indices of a value that goes to a slice are arrays of indices."""
        for part in ast.walk(value):
            match part:
                case ast.Subscript(slice=ast.Name(id=name)) if name not in self.assigned:
                    self._array(name, 1)

    def _value(self, name: str, value: ast.expr) -> None:
        match value:
            case ast.Dict() | ast.Set() | ast.DictComp() | ast.SetComp():
                self.mappings.add(name)
            case ast.Call(func=ast.Name(id="dict" | "set" | "defaultdict" | "Counter" | "OrderedDict")):
                self.mappings.add(name)
            case ast.Name(id=array):
                self._links.append((name, array, value))
            case ast.Subscript():
                array, _, _ = _chain(value)
                if array:
                    self._links.append((name, array, value))

    def _arguments(self, call: ast.Call, function: str) -> None:
        if function in ("min", "max") and len(call.args) > 1:
            return
        for argument in call.args[: 2 if function in ("dot", "take", "bincount", "matmul", "vdot", "inner") else 1]:
            if isinstance(argument, ast.Name):
                self._array(argument.id, 1)

    def _subscript(self, node: ast.Subscript) -> None:
        name, indices, textual = _chain(node)
        if not name:
            match node:
                case ast.Subscript(
                    value=ast.Attribute(value=ast.Name(id=array), attr="shape"),
                    slice=ast.Constant(value=int(dimension)),
                ):
                    self._array(array, dimension + 1)
            return
        if textual:
            self.mappings.add(name)
        elif indices:
            self._array(name, indices)


def _chain(node: ast.expr) -> tuple[str, int, bool]:
    """The name below a chain of subscripts, the number of indices, and whether one is a string."""
    indices, textual = 0, False
    while isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        indices += sum(not (isinstance(part, ast.Constant) and part.value in (None, Ellipsis)) for part in parts)
        textual |= any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts)
        node = node.value
    return (node.id, indices, textual) if isinstance(node, ast.Name) else ("", 0, False)


def _shallow(node: ast.AST) -> bool:
    return sum(1 for _ in ast.walk(node)) < 100


def parameters(node: FunctionNode) -> list[ast.arg]:
    """A function's parameters, in order."""
    arguments = node.args
    extra = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *extra]


def own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """All nodes of a body but those inside functions and classes it defines."""
    pending: list[ast.AST] = list(reversed(body))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))
