"""Python's expressions in the form: pure ones stay expressions, the rest becomes statements before them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.records import Kind, LoopKind
from foretrace.tracer.source.form.types import ELEMENTWISE, UNKNOWN, is_mask, rank, type_of
from foretrace.tracer.source.form.walk import parts

from . import library
from .scope import Sequence, Shape, add, as_scalar_type, parameters, scalar, subtract

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
        if _negative(index):
            return add(self.extent(base, dimension), index)
        return index

    def _section(self, node: ast.Slice, base: form.Expression, dimension: int) -> form.Expression:
        step = self.expression(node.step) if node.step is not None else None
        if step == ONE:
            step = None
        if step is not None and _negative(step):
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

    # Calls

    def _on_call(self, node: ast.Call) -> form.Expression:
        path = self.imports.path(node.func)
        if path.startswith("numpy."):
            return self._numpy(node, path.removeprefix("numpy."))
        if path == "functools.reduce" and 2 <= len(node.args) <= 3 and not node.keywords:
            folded = self._folded(*node.args)
            if folded is not None:
                return folded
        if path == "itertools.accumulate" and not node.keywords and 1 <= len(node.args) <= 2:
            scan = self._scan(node.args[1]) if len(node.args) == 2 else "cumsum"
            if scan:
                return form.Call(scan, (self.expression(node.args[0]),))
        if path.startswith(("math.", "cmath.")) and (known := library.MATH.get(path.rpartition(".")[2])):
            return form.Call(known, self.all(node.args))
        if isinstance(node.func, ast.Name) and not path:
            value = self._builtin(node, node.func.id)
            if value is not None:
                return value
        if isinstance(node.func, ast.Attribute) and not path:
            return self._method(node, node.func)
        return self._user(node, path or self.text(node.func))

    def _user(self, node: ast.Call, function: str, *first: form.Expression) -> form.Expression:
        if isinstance(node.func, (ast.Name, ast.Attribute)):
            first_arguments = first
        else:
            first_arguments = (self.expression(node.func), *first)
        arguments = (*first_arguments, *self.all(node.args), *self.all([word.value for word in node.keywords]))
        return self.impure(function, tuple([self.materialised(argument) for argument in arguments]))

    def _builtin(self, node: ast.Call, name: str) -> form.Expression | None:
        if name in self.functions or self.renamed.get(name, name) in self.variables:
            return None
        comprehension = node.args[0] if node.args else None
        if name in ("sum", "min", "max", "any", "all") and isinstance(comprehension, ast.GeneratorExp):
            return self._reduced(name, comprehension, node)
        arguments = node.args
        match name, len(arguments):
            case "len", 1:
                value = self.expression(arguments[0])
                return self.extent(value, 0) if isinstance(value, form.Name) else form.Call("size", (value, ZERO))
            case (("int" | "float" | "bool" | "complex"), 1):
                return form.Convert(as_scalar_type(name), self.expression(arguments[0]))
            case (("abs" | "round"), _):
                return form.Call(name, self.all(arguments[:1]))
            case (("min" | "max"), 1):
                return form.Call(f"{name}val", self.all(arguments))
            case (("min" | "max"), count) if count > 1:
                values = self.all(arguments)
                value = values[0]
                for more in values[1:]:
                    value = form.Call(name, (value, more))
                return value
            case (("sum" | "any" | "all"), _):
                value = form.Call(name, self.all(arguments[:1]))
                return form.Operation("+", (value, self.expression(arguments[1]))) if len(arguments) > 1 else value
            case "pow", 2:
                return form.Operation("**", self.all(arguments))
            case "sorted", _:
                return form.Call("sort", self.all(arguments[:1]))
            case (("list" | "tuple"), 1) if not isinstance(arguments[0], ast.GeneratorExp):
                return form.Call("copy", self.all(arguments))
            case (("list" | "tuple"), 1) if isinstance(arguments[0], ast.GeneratorExp):
                return self._collected(arguments[0], arguments[0].elt, arguments[0].generators)
            case "range", 1:
                return form.Call("arange", self.all(arguments))
        if name in library.PURE_BUILTINS:
            return form.Call(name, self.all(arguments))
        return None

    def _method(self, node: ast.Call, function: ast.Attribute) -> form.Expression:
        method = function.attr
        if method == "append" and isinstance(function.value, ast.Name) and len(node.args) == 1:
            name = self.name(function.value.id)
            if name.name in self.lists and f"%length.{name.name}" in self.variables:
                length = form.Name(f"%length.{name.name}")
                self.assign(form.Subscript(name, (length,)), self.expression(node.args[0]))
                self.assign(length, add(length, ONE))
                return form.Constant(None, Kind.UNKNOWN)
        base = self.expression(function.value)
        array = self.rank(base) > 0 or (
            self.imports.numpy and isinstance(base, (form.Name, form.Member, form.Operation, form.Subscript))
            and scalar(base, self.variables)
        )  # fmt: skip
        if array and method in library.METHODS and not (method == "copy" and not self.rank(base)):
            return self._intrinsic(library.METHODS[method], (base, *self.all(node.args)), node)
        if self.rank(base):
            match method:
                case "mean":
                    total = self._intrinsic("sum", (base, *self.all(node.args)), node)
                    return form.Operation("/", (total, form.Call("size", (base, *total.arguments[1:]))))
                case "astype" | "tolist":
                    return form.Call("copy", (base,))
                case "reshape" | "ravel" | "flatten":
                    return form.Call("reshape", (base, *self.all(node.args)))
                case "fill" if len(node.args) == 1:
                    self.assign(
                        form.Subscript(base, (form.Section(),) * self.rank(base)), self.expression(node.args[0])
                    )
                    return form.Constant(None, Kind.UNKNOWN)
                case "sort" if not node.args and not node.keywords:
                    self.assign(base, form.Call("sort", (base,)))
                    return form.Constant(None, Kind.UNKNOWN)
        if method == "get" and 1 <= len(node.args) <= 2 and isinstance(base, form.Name) and (
            base.name in self.shape.mappings
        ):  # fmt: skip
            key, *other = self.all(node.args)
            default = other[0] if other else form.Constant(None, Kind.UNKNOWN)
            return form.Operation("select", (form.Operation("in", (key, base)), form.Subscript(base, (key,)), default))
        if method in library.PURE_METHODS:
            return form.Call(method, (base, *self.all(node.args)))
        return self._user(node, self.text(function), base)

    # NumPy

    def _numpy(self, node: ast.Call, name: str) -> form.Expression:
        keywords = {word.arg: word.value for word in node.keywords if word.arg}
        out = keywords.get("out")
        value = self._numpy_value(node, name, keywords)
        if out is None or value == form.Constant(None, Kind.UNKNOWN):
            return value
        target = self.expression(out)
        if self.rank(target) and not isinstance(target, form.Subscript):
            target = form.Subscript(target, (form.Section(),) * self.rank(target))
        self.assign(target, value)
        return self.expression(out)

    def _numpy_value(self, node: ast.Call, name: str, keywords: dict[str, ast.expr]) -> form.Expression:
        root, _, method = name.partition(".")
        if method and (operator := library.NUMPY_OPERATORS.get(root) or library.EXTREMES.get(root)):
            return self._ufunc_method(node, operator, method)
        if root.startswith(library.NUMPY_EFFECTS):
            return self._user(node, f"numpy.{name}")
        arguments = self.all(node.args)
        if name in library.NUMPY_OPERATORS:
            operator = library.NUMPY_OPERATORS[name]
            if len(arguments) == form.OPERATORS[operator]:
                return form.Operation(operator, arguments)
        match name, arguments:
            case (("zeros" | "ones" | "empty"), (shape, *_)):
                return form.Call(name, _shape(shape))
            case (("zeros_like" | "ones_like" | "empty_like"), (like, *_)) if self.rank(like):
                return form.Call(name[:-5], tuple(self.extent(like, i) for i in range(self.rank(like))))
            case "full", (shape, value, *_):
                zeros = form.Call("zeros", _shape(shape))
                return form.Operation("+", (zeros, value))
            case "full_like", (like, value, *_) if self.rank(like):
                shape = form.Call("zeros", tuple(self.extent(like, i) for i in range(self.rank(like))))
                return form.Operation("+", (shape, value))
            case (("where" | "nonzero" | "flatnonzero"), (condition,)):
                return form.Call("pack", (form.Call("arange", (self.extent(condition, 0),)), condition))
            case "linspace", (first, end, count):
                step = form.Operation("/", (subtract(end, first), subtract(count, ONE)))
                steps = form.Operation("*", (form.Call("arange", (count,)), step))
                return steps if first in (ZERO, form.Constant(0.0, Kind.FLOAT)) else form.Operation("+", (first, steps))
            case "diff", (array,) if self.rank(array) == 1:
                later = form.Section(ONE)
                earlier = form.Section(None, subtract(self.extent(array, 0), form.Constant(2)))
                if not isinstance(array, form.Name):
                    array = self.held(array)
                return form.Operation("-", (form.Subscript(array, (later,)), form.Subscript(array, (earlier,))))
            case "roll", (array, shift) if self.rank(array) == 1:
                return form.Call("cshift", (array, form.Operation("neg", (shift,))))
            case "outer", (left, right) if self.rank(left) == self.rank(right) == 1:
                return self._summed_products("i,j->ij", [left, right])
            case "einsum", (form.Constant(value=str() as text), *operands):
                made = self._einsum(text, operands)
                if made is not None:
                    return made
            case "compress", (condition, array):
                return form.Call("pack", (array, condition))
            case (("mean" | "average"), (array, *_)) if len(arguments) == 1 and not keywords:
                return form.Operation("/", (form.Call("sum", (array,)), form.Call("size", (array,))))
            case "linalg.norm", (array,) if self.rank(array) == 1:
                return form.Call("sqrt", (form.Call("sum", (form.Operation("*", (array, array)),)),))
            case "dot", (left, right):
                both = self.rank(left) == self.rank(right) == 1
                return form.Call("dot" if both else "matmul", (left, right))
            case "square", (array,):
                return form.Operation("*", (array, array))
            case "bincount", (index, *more):
                weights = more[0] if more else self.expression(keywords["weights"]) if "weights" in keywords else None
                extent = more[1] if len(more) > 1 else (
                    self.expression(keywords["minlength"]) if "minlength" in keywords else None
                )  # fmt: skip
                last = () if extent is None else (extent,)
                return form.Call("bincount", (index, weights if weights is not None else ONE, *last))
            case "put_along_axis" | "copyto", _:
                return self._user(node, f"numpy.{name}")
        if name in ("array", "asarray") and arguments and not self.rank(arguments[0]):
            return arguments[0] if isinstance(arguments[0], form.Call) else form.Call("copy", arguments[:1])
        if name in library.NUMPY:
            return self._intrinsic(library.NUMPY[name], arguments, node)
        return form.Call(f"numpy.{name}", (*arguments, *self.all([word.value for word in node.keywords])))

    def _intrinsic(self, name: str, arguments: tuple[form.Expression, ...], node: ast.Call) -> form.Call:
        if name in library.AXIS:
            axis = next((word.value for word in node.keywords if word.arg == "axis"), None)
            if axis is not None and len(arguments) == 1:
                arguments = (*arguments, self.expression(axis))
            if len(arguments) > 1 and _negative(arguments[1]) and isinstance(arguments[1], form.Constant):
                dimension = self.rank(arguments[0]) + int(arguments[1].value or 0)
                arguments = (arguments[0], form.Constant(dimension)) if dimension >= 0 else arguments
            if name == "cumsum" and self.rank(arguments[0]) <= 1:
                arguments = arguments[:1]
            if len(arguments) > 1 and arguments[1] == form.Constant(None, Kind.UNKNOWN):
                arguments = arguments[:1]
        if name == "dot" and not self.rank(arguments[0]) == self.rank(arguments[-1]) == 1:
            name = "matmul"
        if name in ("copy", "cumsum", "sort", "argsort") and len(arguments) > 1:
            arguments = arguments[:1] if name != "cumsum" else arguments
        return form.Call(name, arguments)

    def _einsum(self, text: str, operands: list[form.Expression]) -> form.Expression | None:
        """`einsum(text, *operands)`; None: it has an ellipsis, a repeated letter, or other dimensions."""
        text = text.replace(" ", "")
        inputs, arrow, output = text.partition("->")
        listed = inputs.split(",")
        if not arrow:
            output = "".join(sorted(one for one in set(inputs) if one.isalpha() and inputs.count(one) == 1))
        if len(listed) != len(operands) or not text.replace(",", "").replace("->", "").isalpha():
            return None
        if any(len(set(one)) != len(one) or len(one) > 4 for one in (*listed, output)):
            return None
        for letters, operand in zip(listed, operands, strict=True):
            if not isinstance(operand, form.Name) or self.rank(operand) not in (1, len(letters)):
                return None  # an array of unknown dimensions counts as one of 1
        return self._summed_products(f"{inputs}->{output}", operands)

    def _summed_products(self, text: str, operands: list[form.Expression]) -> form.Expression:
        """Loops that add up the products of operands' elements, with indices as `einsum` writes them."""
        inputs, _, output = text.partition("->")
        listed = inputs.split(",")
        held = [operand if isinstance(operand, form.Name) else self.held(operand) for operand in operands]
        extents: dict[str, form.Expression] = {}
        for letters, operand in zip(listed, held, strict=True):
            for dimension, letter in enumerate(letters):
                extents.setdefault(letter, self.extent(operand, dimension))
        counters = {letter: self.temporary(form.ScalarType(Kind.INTEGER, 8)) for letter in extents}
        product: form.Expression | None = None
        for letters, operand in zip(listed, held, strict=True):
            element = form.Subscript(operand, tuple(counters[letter] for letter in letters))
            product = element if product is None else form.Operation("*", (product, element))
        assert product is not None
        added = [letter for letter in extents if letter not in output]
        shape = tuple(extents[letter] for letter in output)
        kind: form.Type = form.ScalarType(Kind.FLOAT, 8)
        result = self.temporary(form.ArrayType(kind, shape, alias=False) if output else kind)
        goal = form.Subscript(result, tuple(counters[letter] for letter in output)) if output else result
        if output:
            self.assign(result, form.Call("empty", shape))
        value = form.Operation("+", (goal, product)) if added else product
        inner: tuple[form.Statement, ...] = (form.Assign(self.place, goal, value),)
        inner = self._around(inner, added, counters, extents)
        if added:
            inner = (form.Assign(self.place, goal, ZERO), *inner)
        self.out += self._around(inner, list(output), counters, extents)
        return result

    def _around(
        self,
        body: tuple[form.Statement, ...],
        letters: list[str],
        counters: dict[str, form.Name],
        extents: dict[str, form.Expression],
    ) -> tuple[form.Statement, ...]:
        for letter in reversed(letters):
            counter = counters[letter]
            last = subtract(extents[letter], ONE)
            body = (form.Loop(self.place, LoopKind.COUNTED, body, counter.name, ZERO, last, synthetic=True),)
        return body

    def _ufunc_method(self, node: ast.Call, operator: str, method: str) -> form.Expression:
        arguments = self.all(node.args)
        reduction = {"+": "sum", "*": "product", "min": "minval", "max": "maxval"}.get(operator)
        if method == "reduce" and reduction:
            return self._intrinsic(reduction, arguments[:1] if len(arguments) == 1 else arguments, node)
        scan = {"+": "cumsum", "*": "cumprod", "max": "cummax", "min": "cummin"}.get(operator)
        if method == "accumulate" and scan:
            return form.Call(scan, arguments[:1])
        if method == "at" and len(arguments) in (2, 3):
            index = arguments[1]
            value = arguments[2] if len(arguments) == 3 else None
            if not self.rank(index) and not isinstance(index, (form.Name, form.Member)):
                return self._user(node, f"numpy.{operator}.at")
            counter = self.temporary(form.ScalarType(Kind.INTEGER, 8))
            element = form.Subscript(arguments[0], (form.Subscript(index, (counter,)),))
            if value is not None and self.rank(value):
                value = self._element(value, counter)
            operands = (element,) if value is None else (element, value)
            made = form.Call(operator, operands) if operator in ("min", "max") else form.Operation(operator, operands)
            body = (form.Assign(self.place, element, made),)
            last = subtract(self.extent(index, 0), ONE)
            self.out.append(
                form.Loop(self.place, LoopKind.COUNTED, body, counter.name, ZERO, last, synthetic=True)
            )  # fmt: skip
            return form.Constant(None, Kind.UNKNOWN)
        return self._user(node, f"numpy.{operator}.{method}")

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

    # Comprehensions

    def _on_listcomp(self, node: ast.ListComp) -> form.Expression:
        return self._collected(node, node.elt, node.generators)

    def _on_generatorexp(self, node: ast.GeneratorExp) -> form.Expression:
        return self._collected(node, node.elt, node.generators)

    def _on_setcomp(self, node: ast.SetComp) -> form.Expression:
        return self._collected(node, node.elt, node.generators)

    def _on_dictcomp(self, node: ast.DictComp) -> form.Expression:
        result = self.temporary()

        def body() -> None:
            self.assign(form.Subscript(result, (self.expression(node.key),)), self.expression(node.value))

        self.assign(result, form.Call("dict", ()))
        self._generators(node.generators, body)
        return result

    def _collected(self, node: ast.expr, element: ast.expr, generators: list[ast.comprehension]) -> form.Expression:
        simple = len(generators) == 1 and not generators[0].ifs
        result = self.temporary()
        counter = None if simple else self.temporary(form.ScalarType(Kind.INTEGER, 8))
        position = len(self.out)
        if counter is not None:
            self.assign(counter, ZERO)
        kind: form.Type = UNKNOWN
        index: form.Expression = ZERO

        def body() -> None:
            nonlocal kind, index
            value = self.expression(element)
            kind = type_of(value, self.variables)
            index = counter if counter is not None else self._iteration
            self.assign(form.Subscript(result, (index,)), value)
            if counter is not None:
                self.assign(counter, add(counter, ONE))

        self._generators(generators, body)
        shape = (counter if counter is not None else self._last_extent,)
        scalar_kind = kind.element if isinstance(kind, form.ArrayType) else kind
        self.variables[result.name] = form.Variable(form.ArrayType(scalar_kind, shape, alias=False))
        self.out.insert(position, form.Assign(self.place, result, form.Call("list", ())))
        return result

    def _reduced(self, name: str, comprehension: ast.GeneratorExp, node: ast.Call) -> form.Expression:
        result = self.temporary()
        start = self.expression(node.args[1]) if name == "sum" and len(node.args) > 1 else ZERO
        first = {"sum": start, "any": form.Constant(False, Kind.BOOLEAN), "all": form.Constant(True, Kind.BOOLEAN)}
        infinite = form.Unknown("no value yet")
        self.assign(result, first.get(name, infinite))

        def body() -> None:
            value = self.expression(comprehension.elt)
            match name:
                case "sum":
                    made: form.Expression = form.Operation("+", (result, value))
                    kind = type_of(value, self.variables)
                    if isinstance(kind, form.ScalarType):
                        self.variables[result.name] = form.Variable(kind)
                case "any" | "all":
                    made = form.Operation("or" if name == "any" else "and", (result, value))
                case _:
                    made = form.Call(name, (result, value))
            self.assign(result, made)

        self._generators(comprehension.generators, body)
        return result

    def _scan(self, function: ast.expr) -> str:
        """The form's name of a scan (running total) by a function of two values; "" if the form has none."""
        if isinstance(function, ast.Name) and function.id in ("max", "min") and function.id not in self.functions:
            return f"cum{function.id}"
        return {"+": "cumsum", "*": "cumprod"}.get(library.FUNCTIONS.get(self.imports.path(function), ""), "")

    def _folded(self, function: ast.expr, over: ast.expr, start: ast.expr | None = None) -> form.Expression | None:
        """`reduce(function, over, start)` as a loop; None: the function is not known."""
        operator = library.FUNCTIONS.get(self.imports.path(function))
        names = [one.arg for one in parameters(function)] if isinstance(function, ast.Lambda) else []
        if operator is None and (len(names) != 2 or function.args.defaults):  # type: ignore[attr-defined]
            return None
        sequence = self.sequence(over)
        if sequence is None:
            return None
        result = self.temporary()
        self.assign(result, self.expression(start) if start is not None else sequence.element(ZERO))
        counter = self.temporary(form.ScalarType(Kind.INTEGER, 8))
        with self.block() as body:
            element = self.held(sequence.element(counter))
            if isinstance(function, ast.Lambda) and isinstance(element, form.Name):
                outer = self.renamed
                self.renamed = {**outer, names[0]: result.name, names[1]: element.name}
                made = self.expression(function.body)
                self.renamed = outer
            else:
                assert operator is not None
                made = form.Operation(operator, (result, element))
            self.assign(result, made)
        first, last = ZERO if start is not None else ONE, subtract(sequence.extent, ONE)
        self.out.append(form.Loop(self.place, LoopKind.COUNTED, tuple(body), counter.name, first, last, synthetic=True))
        return result

    def _generators(self, generators: list[ast.comprehension], body: Callable[[], None]) -> None:
        """Emits the loops of a comprehension around the statements of `body`."""
        bound = {
            part.id for generator in generators for part in ast.walk(generator.target) if isinstance(part, ast.Name)
        }
        renamed = dict(self.renamed)
        for name in bound:
            fresh, number = name, 2
            while fresh in self.variables or (fresh == name and name in self.shape.assigned):
                fresh, number = f"{name}'{number}", number + 1
            renamed[name] = fresh
            self.variables[fresh] = form.Variable(self.shape.type_of(name) if fresh == name else UNKNOWN)

        def level(depth: int) -> None:
            if depth == len(generators):
                body()
                return
            generator = generators[depth]

            def inside() -> None:
                if not generator.ifs:
                    level(depth + 1)
                    return
                condition = self.expression(generator.ifs[0])
                for more in generator.ifs[1:]:
                    condition = form.Operation("and", (condition, self.expression(more)))
                with self.block() as chosen:
                    level(depth + 1)
                self.out.append(form.Branch(self.place, condition, tuple(chosen)))

            self.iterate(generator.target, generator.iter, inside, names=renamed if depth == 0 else None)

        old = self.renamed
        try:
            level(0)
        finally:
            self.renamed = old

    # Iteration

    _iteration: form.Expression = ZERO
    _last_extent: form.Expression = ZERO

    def iterate(
        self,
        target: ast.expr,
        over: ast.expr,
        body: Callable[[], None],
        *,
        names: dict[str, str] | None = None,
        synthetic: bool = True,
        keep: bool = True,
        last_line: int = 0,
        label: str = "",
    ) -> None:
        """Emits a loop over an iterable; `keep`: the target may be the loop's own variable."""
        place = form.Place(self.place.line, self.place.column, last_line or self.place.last_line)
        if last_line:
            self.place = form.Place(self.place.line, self.place.column)
        simple = (
            isinstance(target, ast.Name) and isinstance(over, ast.Call) and isinstance(over.func, ast.Name)
            and over.func.id in ("range", "prange") and not over.keywords and 1 <= len(over.args) <= 3 and keep
            and over.func.id not in self.functions
        ) or self._is_prange(over)  # fmt: skip
        unordered = self._is_prange(over)
        if simple and isinstance(over, ast.Call) and isinstance(target, ast.Name):
            first, last, step = self.range(over)
            if names is not None:
                self.renamed = names
            variable = self.name(target.id)
            self.variables.setdefault(variable.name, form.Variable(form.ScalarType(Kind.INTEGER, 8)))
            if self.variables[variable.name].type == UNKNOWN:
                self.variables[variable.name] = form.Variable(form.ScalarType(Kind.INTEGER, 8))
            with self.block() as inside:
                self._iteration = subtract(variable, first)
                body()
            self._last_extent = add(subtract(last, first), ONE)
            self.out.append(
                form.Loop(
                    place, LoopKind.COUNTED, tuple(inside), variable.name, first, last, step,
                    unordered=unordered, synthetic=synthetic, label=label,
                )
            )  # fmt: skip
            return
        sequence = self.sequence(over)
        if names is not None:
            self.renamed = names
        counter = self.temporary(form.ScalarType(Kind.INTEGER, 8))
        with self.block() as inside:
            if sequence is None:
                subject = self.temporary()
                self._unpack(target, form.Unknown(self.text(over), (subject,)))
            else:
                self._bind(target, sequence.element(counter))
            self._iteration = counter
            body()
        if sequence is None:
            self._last_extent = form.Unknown("length of an iterable")
            self.out.append(form.Loop(place, LoopKind.UNKNOWN, tuple(inside), label=label, synthetic=synthetic))
            return
        self._last_extent = sequence.extent
        last = subtract(sequence.extent, ONE)
        self.out.append(
            form.Loop(
                place, LoopKind.COUNTED, tuple(inside), counter.name, ZERO, last, synthetic=synthetic, label=label
            )
        )

    def _is_prange(self, over: ast.expr) -> bool:
        return isinstance(over, ast.Call) and self.imports.path(over.func) == "numba.prange"

    def range(self, node: ast.Call) -> tuple[form.Expression, form.Expression, form.Expression | None]:
        """First, last and step of a range."""
        values = self.all(node.args)
        if len(values) == 1:
            return ZERO, subtract(values[0], ONE), None
        if len(values) == 2 or values[2] == ONE:
            return values[0], subtract(values[1], ONE), None
        first, end, step = values
        if isinstance(step, form.Constant) and isinstance(step.value, int):
            return first, subtract(end, ONE) if step.value > 0 else add(end, ONE), step
        up = form.Operation(">", (step, ZERO))
        return first, form.Operation("select", (up, subtract(end, ONE), add(end, ONE))), step

    def sequence(self, node: ast.expr) -> Sequence | None:
        """The elements of an iterable as a function of a counter; None: unknown."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not self.imports.path(node.func):
            name = node.func.id
            if name in self.functions:
                self.held(self.expression(node))
                return None
            if name in ("range", "prange") and 1 <= len(node.args) <= 3:
                first, last, step = self.range(node)
                if step is None:
                    return Sequence(add(subtract(last, first), ONE), lambda counter: add(first, counter))
                span = form.Operation("//", (subtract(last, first), step))
                return Sequence(
                    add(span, ONE), lambda counter: add(first, form.Operation("*", (counter, step)))
                )  # fmt: skip
            if name == "enumerate" and node.args and (inner := self.sequence(node.args[0])):
                element = inner.element
                start: form.Expression = ZERO
                if len(node.args) > 1 or node.keywords:
                    start = self.expression(node.args[1] if len(node.args) > 1 else node.keywords[0].value)
                return Sequence(inner.extent, lambda counter: [add(start, counter), element(counter)])
            if name == "zip" and node.args:
                several = [self.sequence(argument) for argument in node.args]
                known = [each for each in several if each is not None]
                if len(known) < len(several):
                    return None
                extent = known[0].extent
                for each in known[1:]:
                    extent = extent if each.extent == extent else form.Call("min", (extent, each.extent))
                return Sequence(extent, lambda counter: [each.element(counter) for each in known])
            if name == "reversed" and len(node.args) == 1 and (inner := self.sequence(node.args[0])):
                last, element = subtract(inner.extent, ONE), inner.element
                return Sequence(inner.extent, lambda counter: element(subtract(last, counter)))
            if name in ("list", "tuple") and len(node.args) == 1:
                return self.sequence(node.args[0])
        if isinstance(node, ast.Call) and self.imports.path(node.func) == "itertools.pairwise" and len(node.args) == 1:
            paired = self.sequence(node.args[0])
            if paired is None:
                return None
            one = paired.element
            return Sequence(subtract(paired.extent, ONE), lambda counter: [one(counter), one(add(counter, ONE))])
        value = self.expression(node)
        if isinstance(value, form.Name) and value.name in self.shape.mappings:
            return None
        if isinstance(value, (form.Name, form.Member, form.Subscript)) or self.rank(value):
            base = value if isinstance(value, (form.Name, form.Member, form.Subscript)) else self.held(value)
            return Sequence(self.extent(base, 0), lambda counter: _element_of(base, counter))
        if not isinstance(value, (form.Name, form.Constant)):
            self.held(value)
        return None

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


def _element_of(base: form.Expression, counter: form.Expression) -> form.Expression:
    if isinstance(base, form.Subscript):
        for position, index in enumerate(base.indices):
            if isinstance(index, form.Section):
                start = index.first if index.first is not None else ZERO
                moved = counter if index.step is None else form.Operation("*", (counter, index.step))
                indices = (*base.indices[:position], add(start, moved), *base.indices[position + 1 :])
                return form.Subscript(base.base, indices)
        return form.Subscript(base.base, (*base.indices, counter))
    return form.Subscript(base, (counter,))


def _negative(index: form.Expression) -> bool:
    if isinstance(index, form.Constant):
        return isinstance(index.value, int) and index.value < 0
    return isinstance(index, form.Operation) and index.operator == "neg"


def _shape(value: form.Expression) -> tuple[form.Expression, ...]:
    """The extents that a shape argument gives."""
    display = isinstance(value, form.Call) and value.function in ("tuple", "list")
    return parts(value) if display else (value,)
