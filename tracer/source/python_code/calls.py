"""Calls in the form: of the file's own functions, built-in ones, methods, and NumPy's."""

from __future__ import annotations

import ast

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.records import Kind, LoopKind
from foretrace.tracer.source.form.walk import parts

from . import library
from .expressions import ONE, ZERO, is_negative
from .iteration import Iteration
from .scope import add, as_scalar_type, scalar, subtract


class Calls(Iteration):
    """Lowers calls."""

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
            if len(arguments) > 1 and is_negative(arguments[1]) and isinstance(arguments[1], form.Constant):
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


def _shape(value: form.Expression) -> tuple[form.Expression, ...]:
    """The extents that a shape argument gives."""
    display = isinstance(value, form.Call) and value.function in ("tuple", "list")
    return parts(value) if display else (value,)
