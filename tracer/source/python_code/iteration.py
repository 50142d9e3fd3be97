"""Comprehensions, generators, and what loops of Python run over, in the form."""

from __future__ import annotations

import ast
from collections.abc import Callable

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.records import Kind, LoopKind
from foretrace.tracer.source.form.types import UNKNOWN, type_of

from . import library
from .expressions import ONE, ZERO, Expressions
from .scope import Sequence, add, parameters, subtract


class Iteration(Expressions):
    """Lowers what runs over elements: comprehensions, folds, and the sequences of loops."""

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
