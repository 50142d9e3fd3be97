"""Python's expressions in the form: pure ones stay expressions, the rest becomes statements before them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.records import Kind
from foretrace.tracer.source.form.types import ELEMENTWISE, UNKNOWN, is_mask, rank, type_of

from . import library
from .scope import Shape, add, parameters, subtract

MOST_DEPTH = 100
"""Expressions and statements nested deeper are opaque."""

ZERO, ONE = form.Constant(0), form.Constant(1)


class TooDeepError(Exception):
    """An expression is nested deeper than `MOST_DEPTH`."""


class Expressions:
    """Lowers expressions; statements needed before them go to `out`."""

    def __init__(self, imports: library.Imports, functions: frozenset[str], shape: Shape) -> None:
        """Starts a function whose names have this shape, in a file with these imports and functions."""
        self.imports = imports
        self.functions = functions
        self.shape = shape
        self.variables: dict[str, form.Variable] = {}
        self.lists: set[str] = set()
        self.slices: dict[str, tuple[ast.expr | None, ast.expr | None, ast.expr | None]] = {}
        """Names that are bound to a slice, and the names or constants that hold its parts."""
        self.renamed: dict[str, str] = {}
        self.out: list[form.Statement] = []
        self.place = form.Place(1)
        self.depth = 0
        self._temporaries = 0

    def truth(self, value: form.Expression) -> form.Expression:
        """A value as a condition: a list holds if it has elements, an array must have one, and holds as that does."""
        if not self.rank(value):
            return value
        match value:
            case form.Operation(operator="and" | "or" | "not" as operator, operands=operands):
                return form.Operation(operator, tuple(map(self.truth, operands)))
            case form.Name() | form.Member() | form.Subscript():
                return form.Operation("!=", (self.extent(value, 0), ZERO))
        return self._element(value, ZERO)

    # Names and temporaries

    def temporary(self, kind: form.Type = UNKNOWN) -> form.Name:
        """A new temporary."""
        self._temporaries += 1
        name = f"%{self._temporaries}"
        self.variables[name] = form.Variable(kind)
        return form.Name(name)

    def assign(self, target: form.Expression, value: form.Expression) -> None:
        """Emits an assignment."""
        self.out.append(form.Assign(self.place, target, value))

    def held(self, value: form.Expression) -> form.Expression:
        """The value in a temporary of its own, unless it is a constant."""
        if isinstance(value, form.Constant):
            return value
        kind = type_of(value, self.variables)
        name = self.temporary(kind)
        view = isinstance(kind, form.ArrayType) and isinstance(value, (form.Name, form.Member))
        self.assign(name, form.AddressOf(value) if view else value)
        return name

    def materialised(self, value: form.Expression) -> form.Expression:
        """The value, in a temporary if it is an array that an expression makes."""
        if not self.rank(value):
            return value
        made = isinstance(value, (form.Operation, form.Call)) or (
            isinstance(value, form.Subscript) and any(map(self.rank, value.indices))
        )
        return self.held(value) if made else value

    @contextmanager
    def block(self) -> Iterator[list[form.Statement]]:
        """Statements emitted inside go to a list of their own."""
        outer, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = outer

    def rank(self, expression: form.Expression) -> int:
        """The expression's dimensions."""
        return rank(expression, self.variables)

    # Expressions

    def expression(self, node: ast.expr) -> form.Expression:
        """An expression's form."""
        self.depth += 1
        try:
            if self.depth > MOST_DEPTH:
                raise TooDeepError
            method: Callable[[ast.expr], form.Expression] | None = getattr(
                self, f"_on_{type(node).__name__.lower()}", None
            )
            return self.unknown(node) if method is None else method(node)
        finally:
            self.depth -= 1

    def unknown(self, node: ast.expr, *reads: form.Expression) -> form.Expression:
        """An expression that has no form: its text and the names it reads."""
        names = dict.fromkeys(part.id for part in ast.walk(node) if isinstance(part, ast.Name))
        return form.Unknown(self.text(node), reads or tuple(self.name(name) for name in names))

    def text(self, node: ast.AST) -> str:
        """The source text of a node, on one line and cut."""
        try:
            return " ".join(ast.unparse(node).split())[: form.MOST_TEXT].encode("utf-8", "replace").decode()
        except (RecursionError, ValueError):
            return type(node).__name__

    def name(self, name: str) -> form.Name:
        """A variable by its name in the form."""
        return form.Name(self.renamed.get(name, name))

    def _on_constant(self, node: ast.Constant) -> form.Expression:
        value = node.value
        match value:
            case bool():
                return form.Constant(value, Kind.BOOLEAN)
            case int() if abs(value) < 1 << 63:
                return form.Constant(value)
            case float() if value - value == 0:
                return form.Constant(value, Kind.FLOAT)
            case None:
                return form.Constant(None, Kind.UNKNOWN)
            case str() if value.isascii() or value.encode("utf-8", "replace").decode() == value:
                return form.Constant(value[: form.MOST_TEXT], Kind.CHARACTER)
        return form.Unknown(repr(value)[: form.MOST_TEXT] if not isinstance(value, int) else "large integer")

    def _on_name(self, node: ast.Name) -> form.Expression:
        return self.name(node.id)

    def _on_binop(self, node: ast.BinOp) -> form.Expression:
        left = self.expression(node.left)
        right = self.expression(node.right)
        if isinstance(node.op, ast.MatMult):
            if self.rank(left) == self.rank(right) == 1:
                return form.Call("dot", (left, right))
            return form.Call("matmul", (left, right))
        displays = [one for one in (left, right) if isinstance(one, form.Call) and one.function in ("list", "tuple")]
        if displays and isinstance(node.op, ast.Add):
            return form.Call("concatenate", (left, right))
        return form.Operation(library.OPERATORS[type(node.op)], (left, right))

    def _on_unaryop(self, node: ast.UnaryOp) -> form.Expression:
        operand = self.expression(node.operand)
        if isinstance(node.op, ast.UAdd):
            return operand
        if isinstance(node.op, ast.USub) and isinstance(operand, form.Constant) and isinstance(operand.value, int):
            return form.Constant(-operand.value)
        return form.Operation(library.OPERATORS[type(node.op)], (operand,))

    def _on_boolop(self, node: ast.BoolOp) -> form.Expression:
        operator = library.OPERATORS[type(node.op)]
        value = self.expression(node.values[0])
        for part in node.values[1:]:
            with self.block() as needed:
                right = self.expression(part)
            if not needed:
                value = form.Operation(operator, (value, right))
                continue
            result = self.temporary()
            self.assign(result, value)
            condition = result if operator == "and" else form.Operation("not", (result,))
            self.out.append(form.Branch(self.place, condition, (*needed, form.Assign(self.place, result, right))))
            value = result
        return value

    def _on_compare(self, node: ast.Compare) -> form.Expression:
        left = self.expression(node.left)
        tests: list[form.Expression] = []
        for operator, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.expression(comparator)
            match operator:
                case ast.IsNot() | ast.NotIn():
                    word = "is" if isinstance(operator, ast.IsNot) else "in"
                    test: form.Expression = form.Operation("not", (form.Operation(word, (left, right)),))
                case _:
                    test = form.Operation(library.OPERATORS[type(operator)], (left, right))
            tests.append(test)
            left = right
        value = tests[0]
        for test in tests[1:]:
            value = form.Operation("and", (value, test))
        return value

    def _on_ifexp(self, node: ast.IfExp) -> form.Expression:
        condition = self.truth(self.expression(node.test))
        with self.block() as true_needs:
            true = self.expression(node.body)
        with self.block() as false_needs:
            false = self.expression(node.orelse)
        if not true_needs and not false_needs:
            return form.Operation("select", (condition, true, false))
        result = self.temporary()
        true_needs.append(form.Assign(self.place, result, true))
        false_needs.append(form.Assign(self.place, result, false))
        self.out.append(form.Branch(self.place, condition, tuple(true_needs), tuple(false_needs)))
        return result

    def _on_namedexpr(self, node: ast.NamedExpr) -> form.Expression:
        self.store(node.target, self.expression(node.value))
        return self.expression(node.target)

    def _on_attribute(self, node: ast.Attribute) -> form.Expression:
        path = self.imports.path(node)
        if path:
            constants = {"math.pi": 3.141592653589793, "numpy.pi": 3.141592653589793, "math.e": 2.718281828459045}
            return form.Constant(constants[path], Kind.FLOAT) if path in constants else form.Name(path)
        base = self.expression(node.value)
        if node.attr == "T":
            return form.Call("transpose", (base,))
        if node.attr in ("shape", "size") and self.rank(base):
            return form.Call(node.attr, (base,))
        if node.attr in ("real", "imag") and self.rank(base):
            return form.Call(node.attr, (base,))
        return form.Member(base, node.attr)

    def _on_subscript(self, node: ast.Subscript) -> form.Expression:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return form.Call("size", (self.expression(node.value.value), self.expression(node.slice)))
        base = self.expression(node.value)
        if isinstance(base, form.Call) and base.function == "shape":
            return form.Call("size", (*base.arguments, self.expression(node.slice)))
        listed = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        before: tuple[form.Expression, ...] = ()
        if isinstance(base, form.Subscript) and not any(map(self._is_array_index, base.indices)):
            dimension, before = len(base.indices), base.indices
            base = base.base
        else:
            dimension = 0
        indices: list[form.Expression] = list(before)
        for position, part in enumerate(listed):
            if isinstance(part, ast.Constant) and part.value is Ellipsis:
                missing = self.rank(base) - (dimension + len(listed) - 1)
                if self.rank(base) and missing >= 0:
                    indices += [form.Section()] * missing
                    dimension += missing - 1
                    continue
                if len(listed) == 1:
                    indices.append(form.Section())
                    continue
                return self.unknown(node, base)
            if isinstance(part, ast.Constant) and part.value is None:
                return self.unknown(node, base)
            indices.append(self._index(part, base, dimension + position))
        return form.Subscript(base, tuple(indices))

    def _is_array_index(self, index: form.Expression) -> bool:
        return isinstance(index, form.Section) or self.rank(index) > 0

    def _index(self, node: ast.expr, base: form.Expression, dimension: int) -> form.Expression:
        if isinstance(node, ast.Name) and node.id in self.slices:
            lower, upper, step = self.slices[node.id]
            node = ast.Slice(lower, upper, step)
        if isinstance(node, ast.Slice):
            return self._section(node, base, dimension)
        index = self.expression(node)
        if is_negative(index):
            return add(self.extent(base, dimension), index)
        return index

    def _section(self, node: ast.Slice, base: form.Expression, dimension: int) -> form.Expression:
        step = self.expression(node.step) if node.step is not None else None
        if step == ONE:
            step = None
        if step is not None and is_negative(step):
            first = self._index(node.lower, base, dimension) if node.lower else None
            last = self._index(node.upper, base, dimension) if node.upper else None
            return form.Section(
                first if first is not None else subtract(self.extent(base, dimension), ONE),
                add(last, ONE) if last is not None else ZERO,
                step,
            )
        first = self._index(node.lower, base, dimension) if node.lower else None
        last = subtract(self._index(node.upper, base, dimension), ONE) if node.upper else None
        return form.Section(first, last, step)

    def extent(self, base: form.Expression, dimension: int) -> form.Expression:
        """The number of elements of a base along a dimension."""
        if isinstance(base, form.Name):
            if not dimension and f"%length.{base.name}" in self.variables:
                return form.Name(f"%length.{base.name}")
            variable = self.variables.get(base.name)
            if variable and isinstance(variable.type, form.ArrayType) and dimension < len(variable.type.shape):
                known = variable.type.shape[dimension]
                if known is not None:
                    return known
        return form.Call("size", (base, form.Constant(dimension)))

    def _on_tuple(self, node: ast.Tuple) -> form.Expression:
        return form.Call("tuple", self.all(node.elts))

    def _on_list(self, node: ast.List) -> form.Expression:
        return form.Call("list", self.all(node.elts))

    def _on_set(self, node: ast.Set) -> form.Expression:
        return form.Call("set", self.all(node.elts))

    def _on_dict(self, node: ast.Dict) -> form.Expression:
        return form.Call("dict", self.all([part for part in (*node.keys, *node.values) if part is not None]))

    def _on_starred(self, node: ast.Starred) -> form.Expression:
        return self.expression(node.value)

    def _on_joinedstr(self, node: ast.JoinedStr) -> form.Expression:
        parts = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        return form.Call("format", self.all(parts))

    def _on_await(self, node: ast.Await) -> form.Expression:
        return self.impure("await", (self.expression(node.value),))

    def _on_yield(self, node: ast.Yield) -> form.Expression:
        return self.impure("yield", (self.expression(node.value),) if node.value else ())

    def _on_yieldfrom(self, node: ast.YieldFrom) -> form.Expression:
        return self.impure("yield", (self.expression(node.value),))

    def _on_lambda(self, node: ast.Lambda) -> form.Expression:
        own = {argument.arg for argument in parameters(node)}
        names = dict.fromkeys(part.id for part in ast.walk(node.body) if isinstance(part, ast.Name))
        return form.Unknown(self.text(node), tuple(self.name(name) for name in names if name not in own))

    def all(self, nodes: list[ast.expr]) -> tuple[form.Expression, ...]:
        """Several expressions, in order."""
        return tuple([self.expression(node) for node in nodes])

    def impure(self, function: str, arguments: tuple[form.Expression, ...]) -> form.Expression:
        """A call with effects: its value is a temporary."""
        result = self.temporary()
        self.assign(result, form.Call(function, arguments, pure=False))
        return result

    def _element(self, value: form.Expression, counter: form.Expression) -> form.Expression:
        """A vector's element at a counter from 0; of arrays with more dimensions one on the diagonal."""
        if not self.rank(value):
            return value
        match value:
            case form.Name() | form.Member():
                return form.Subscript(value, (counter,) * self.rank(value))
            case form.Operation(operator=operator, operands=operands):
                return form.Operation(operator, tuple([self._element(operand, counter) for operand in operands]))
            case form.Call(function=function, arguments=arguments) if function in ELEMENTWISE:
                return form.Call(function, tuple([self._element(argument, counter) for argument in arguments]))
            case form.Subscript(base=base, indices=(index,)) if not isinstance(index, form.Section) and not is_mask(
                index, self.variables
            ):
                return form.Subscript(base, (self._element(index, counter),))
        held = self.held(value)
        return form.Subscript(held, (counter,) * self.rank(held))

    def _bind(self, target: ast.expr, value: form.Expression | list) -> None:  # type: ignore[type-arg]
        if not isinstance(value, list):
            self._unpack(target, value)
        elif isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) == len(value):
            for part, each in zip(target.elts, value, strict=True):
                self._bind(part, each)
        else:
            parts = [each for each in value if not isinstance(each, list)]
            self._unpack(target, form.Call("tuple", tuple(parts)))

    def _unpack(self, target: ast.expr, value: form.Expression) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for position, part in enumerate(target.elts):
                if isinstance(value, form.Subscript):
                    each: form.Expression = form.Subscript(value.base, (*value.indices, form.Constant(position)))
                else:
                    each = form.Subscript(value, (form.Constant(position),))
                self._unpack(part, each)
        else:
            self.store(target, value)

    def store(self, target: ast.expr, value: form.Expression) -> None:
        """Emits the store of a value to a target of an assignment."""
        raise NotImplementedError


def is_negative(index: form.Expression) -> bool:
    """Whether an index is a negative constant, or has a minus before it."""
    if isinstance(index, form.Constant):
        return isinstance(index.value, int) and index.value < 0
    return isinstance(index, form.Operation) and index.operator == "neg"
