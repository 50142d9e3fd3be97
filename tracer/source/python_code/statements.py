"""Python's statements in the form."""

from __future__ import annotations

import ast
from collections.abc import Callable

import msgspec

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.records import JumpKind, Kind, LoopKind
from foretrace.tracer.source.form.types import UNKNOWN, type_of
from foretrace.tracer.source.form.walk import names

from . import library
from .calls import Calls
from .expressions import MOST_DEPTH, ONE, ZERO, TooDeepError
from .scope import Shape, own_nodes


class Statements(Calls):
    """Lowers the statements of one function."""

    def __init__(
        self, imports: library.Imports, functions: frozenset[str], shape: Shape, storage: form.Storage
    ) -> None:
        """Starts a function whose names live in `storage`."""
        super().__init__(imports, functions, shape)
        self.storage = storage
        self.skipped: list[form.Skipped] = []
        self.nesting = 0
        self._broken: list[form.Name | None] = []
        """For each loop around: the flag that a `break` clears, for its `else`."""

    def declare(self, name: str, kind: form.Type) -> None:
        """Makes a name of the source a variable of the function, or widens its known type."""
        known = self.variables.get(name)
        if known is None:
            storage = form.Storage.GLOBAL if name in self.shape.foreign else self.storage
            self.variables[name] = form.Variable(kind, storage, address_taken=name in self.shape.captured)
        elif known.type == UNKNOWN and kind != UNKNOWN:
            self.variables[name] = form.Variable(kind, known.storage, address_taken=known.address_taken)

    def statements(self, body: list[ast.stmt]) -> None:
        """Emits the statements of a body."""
        self.nesting += 1
        try:
            for node in body:
                self.statement(node)
        finally:
            self.nesting -= 1

    def inside(self, body: list[ast.stmt]) -> tuple[form.Statement, ...]:
        """The statements of a body."""
        with self.block() as statements:
            self.statements(body)
        return tuple(statements)

    def statement(self, node: ast.stmt) -> None:
        """Emits one statement; one that is nested too deep is opaque."""
        outer_place = self.place
        self.place = form.Place(node.lineno, node.col_offset + 1, node.end_lineno or 0)
        if self.place.last_line == node.lineno:
            self.place = form.Place(node.lineno, node.col_offset + 1)
        mark = len(self.out)
        try:
            if self.nesting > MOST_DEPTH // 2:
                raise TooDeepError
            method: Callable[[ast.stmt], None] | None = getattr(self, f"_do_{type(node).__name__.lower()}", None)
            if method is not None:
                method(node)
        except (TooDeepError, RecursionError):
            if self.nesting > MOST_DEPTH // 4 and self.nesting != MOST_DEPTH // 2 and isinstance(node, ast.If):
                raise TooDeepError from None
            del self.out[mark:]
            self._opaque(node, f"nested deeper than {MOST_DEPTH} levels")
        finally:
            self.place = outer_place

    def _opaque(self, node: ast.stmt, reason: str) -> None:
        reads: dict[str, None] = {}
        writes: dict[str, None] = {}
        for part in own_nodes([node]):
            if isinstance(part, ast.Name):
                (reads if isinstance(part.ctx, ast.Load) else writes)[self.renamed.get(part.id, part.id)] = None
        read, written = [tuple(form.Name(name) for name in each) for each in (reads, writes)]
        place = form.Place(node.lineno, node.col_offset + 1, node.end_lineno or 0)
        self.out.append(form.Opaque(place, type(node).__name__, reason, read, written, anything=True))
        self.skipped.append(form.Skipped(place, "statement", reason))

    # Stores

    def store(self, target: ast.expr, value: form.Expression) -> None:
        """Emits the store of a value to a target of an assignment."""
        match target:
            case ast.Name(id=name):
                self._bind_name(self.renamed.get(name, name), value)
            case ast.Starred(value=inner):
                self.store(inner, form.Unknown("rest of a sequence", tuple(form.Name(n) for n in sorted(names(value)))))
            case ast.Tuple() | ast.List():
                self._unpack(target, self._stable(value))
            case _:
                place = self.expression(target)
                if isinstance(place, (form.Name, form.Member, form.Subscript)):
                    if self.rank(value) and not self.rank(place):  # an attribute or element becomes an array
                        value = self.materialised(value)
                        value = value if isinstance(value, form.AddressOf) else form.AddressOf(value)
                    self.assign(place, value)
                else:
                    self.out.append(
                        form.Opaque(self.place, self.text(target), "store to an unknown target", (value,), (), True)
                    )

    def _stable(self, value: form.Expression) -> form.Expression:
        return value if isinstance(value, (form.Name, form.Subscript, form.Call)) else self.held(value)

    def _bind_name(self, name: str, value: form.Expression) -> None:
        kind = type_of(value, self.variables)
        guess = self.shape.type_of(name)
        if isinstance(value, form.Call) and value.function == "list":
            self.lists.add(name)
            element = type_of(value.arguments[0], self.variables) if value.arguments else UNKNOWN
            if not isinstance(element, form.ScalarType):
                element = UNKNOWN
            extent = form.Constant(len(value.arguments)) if value.arguments else None
            dimensions = max(self.shape.arrays.get(name, 1), 1)
            kind = form.ArrayType(element, (extent, *[None] * (dimensions - 1)), alias=False)
            if name in self.shape.appended and name not in self.shape.resized:
                length = f"%length.{name}"
                self.variables[length] = form.Variable(form.ScalarType(Kind.INTEGER, 8))
                self.assign(form.Name(length), form.Constant(len(value.arguments)))
                kind = msgspec.structs.replace(kind, shape=(None, *kind.shape[1:]))
        elif repeated := self._repeated(value):
            self.lists.add(name)
            kind = form.ArrayType(repeated[0], (repeated[1],), alias=False)
            value = form.Call("zeros", (repeated[1],)) if repeated[2] == ZERO else value
        elif isinstance(kind, form.ArrayType):
            self.lists.discard(name)
            value, kind = self._array_value(value, kind)
        elif isinstance(guess, form.ArrayType) and isinstance(value, (form.Name, form.Subscript, form.Member)):
            value = form.AddressOf(value)
            kind = guess
        if kind == UNKNOWN:
            kind = guess
        self.declare(name, kind)
        array = isinstance(self.variables[name].type, form.ArrayType)
        fresh = isinstance(value, form.Call) and value.function in ("list", "dict", "zeros", "ones", "empty")
        if array and not fresh and not self.rank(value) and not isinstance(value, form.AddressOf):
            kept = self.temporary(type_of(value, self.variables))  # a name is bound anew: nothing is copied
            self.assign(kept, value)
            value = form.AddressOf(kept)
        self.assign(form.Name(name), value)

    def _repeated(self, value: form.Expression) -> tuple[form.Type, form.Expression, form.Expression] | None:
        """`[x] * n`: its element type, its length and x."""
        if isinstance(value, form.Operation) and value.operator == "*":
            for display, count in (value.operands, value.operands[::-1]):
                if isinstance(display, form.Call) and display.function == "list" and len(display.arguments) == 1:
                    return type_of(display.arguments[0], self.variables), count, display.arguments[0]
        return None

    def _array_value(self, value: form.Expression, kind: form.ArrayType) -> tuple[form.Expression, form.ArrayType]:
        """An array as a name is bound to it: views become addresses; shapes are kept where they are known."""
        match value:
            case form.Call(function="copy", arguments=(inner, *_)):
                shape = (
                    tuple(self.extent(inner, i) for i in range(len(kind.shape)))
                    if isinstance(inner, form.Name)
                    else kind.shape
                )
                return value, form.ArrayType(kind.element, shape, alias=False)
            case form.Name() | form.Member():
                return form.AddressOf(value), kind
            case form.Subscript(base=base, indices=indices):
                root = base.name if isinstance(base, form.Name) else ""
                if root in self.lists and any(isinstance(index, form.Section) for index in indices):
                    return form.Call("copy", (value,)), kind
                if all(isinstance(index, form.Section) or not self.rank(index) for index in indices):
                    missing = self.rank(base) - len(indices)
                    whole = form.Subscript(base, (*indices, *[form.Section()] * missing))
                    return form.AddressOf(whole), kind
            case form.Call(function="transpose"):
                return form.AddressOf(value), kind
        shape = self._known_shape(value, len(kind.shape))
        return value, form.ArrayType(kind.element, shape or kind.shape, alias=False)

    def _known_shape(self, value: form.Expression, dimensions: int) -> tuple[form.Expression | None, ...]:
        """The shape of an expression's array, where one of its operands gives it."""
        match value:
            case form.Name(name=name):
                variable = self.variables.get(name)
                if variable and isinstance(variable.type, form.ArrayType) and len(variable.type.shape) == dimensions:
                    return tuple(self.extent(value, i) for i in range(dimensions))
            case form.Operation(operands=operands) | form.Call(function="abs" | "sqrt" | "exp", arguments=operands):
                for operand in operands:
                    if self.rank(operand) == dimensions and (shape := self._known_shape(operand, dimensions)):
                        return shape
            case form.Call(function="zeros" | "ones" | "empty", arguments=arguments):
                return tuple(arguments)
        return ()

    def _do_assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, (ast.Tuple, ast.List)):
            starred = any(isinstance(part, ast.Starred) for part in target.elts)
            if (
                isinstance(node.value, (ast.Tuple, ast.List))
                and len(node.value.elts) == len(target.elts)
                and not starred
            ):
                self._parallel(target.elts, node.value.elts)
                return
            if isinstance(node.value, ast.Attribute) and node.value.attr == "shape" and not starred:
                base = self.expression(node.value.value)
                for dimension, part in enumerate(target.elts):
                    self.store(part, form.Call("size", (base, form.Constant(dimension))))
                return
        if isinstance(target, ast.Name) and len(node.targets) == 1 and self._sliced(target.id, node.value):
            return
        value = self.expression(node.value)
        if len(node.targets) > 1:
            value = self._stable(value) if not isinstance(value, form.Call) else self.held(value)
        for each in node.targets:
            self.store(each, value)

    def _sliced(self, name: str, value: ast.expr) -> bool:
        """Takes note of `name = slice(first, end)`: its parts go to variables that data flow resolves."""
        match value:
            case ast.Call(func=ast.Name(id="slice"), args=[*parts], keywords=[]) if 1 <= len(parts) <= 3:
                listed: list[ast.expr] = [ast.Constant(None), *parts] if len(parts) == 1 else parts
                kept: list[ast.expr | None] = []
                for position, part in enumerate(listed):
                    if isinstance(part, ast.Constant):
                        kept.append(None if part.value is None else part)
                        continue
                    variable = f"%{name}.{position}"
                    lowered = self.expression(part)
                    self.variables.setdefault(variable, form.Variable(form.ScalarType(Kind.INTEGER, 8)))
                    self.assign(form.Name(variable), lowered)
                    kept.append(ast.Name(variable, ast.Load()))
                self.slices[name] = (*kept, *[None] * (3 - len(kept)))[:3]  # type: ignore[assignment]
                return True
        self.slices.pop(name, None)
        return False

    def _parallel(self, targets: list[ast.expr], values: list[ast.expr]) -> None:
        written: set[str] = set()
        for target in targets:
            written |= {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
        read_later = {
            part.id for value in values[1:] for part in ast.walk(value) if isinstance(part, ast.Name)
        }  # fmt: skip
        pieces = list(self.all(values))
        written = {self.renamed.get(name, name) for name in written}
        independent = not written & {self.renamed.get(name, name) for name in read_later}
        simple = all(isinstance(target, ast.Name) for target in targets)
        if not (independent and simple):
            pieces = [self.held(piece) for piece in pieces]
        for target, piece in zip(targets, pieces, strict=True):
            self.store(target, piece)

    def _do_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.store(node.target, self.expression(node.value))

    def _do_augassign(self, node: ast.AugAssign) -> None:
        target = self.expression(node.target)
        if isinstance(target, form.Subscript):
            target = self._settled(target)
        value = self.expression(node.value)
        if isinstance(node.op, ast.Add) and isinstance(target, form.Name) and target.name in self.lists:
            self.impure("extend", (target, value))  # a list grows; no element is added to another one
            return
        if isinstance(node.op, ast.MatMult):
            made: form.Expression = form.Call("matmul", (target, value))
        else:
            made = form.Operation(library.OPERATORS[type(node.op)], (target, value))
        if isinstance(target, form.Name):
            if self.rank(target):
                self.assign(form.Subscript(target, (form.Section(),) * self.rank(target)), made)
                return
            kind = type_of(made, self.variables)
            self.declare(target.name, kind if isinstance(kind, form.ScalarType) else self.shape.type_of(target.name))
        if isinstance(target, (form.Name, form.Member, form.Subscript)):
            self.assign(target, made)
        else:
            self._opaque(node, "store to an unknown target")

    def _settled(self, target: form.Subscript) -> form.Subscript:
        """A target whose indices are evaluated once: calls are already temporaries, the rest has no effects."""
        return target

    # Effects

    def _do_expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        mark = len(self.out)
        value = self.expression(node.value)
        last = self.out[-1] if len(self.out) > mark else None
        if not isinstance(last, form.Assign) or last.target != value or not isinstance(last.target, form.Name):
            return
        if isinstance(last.value, form.Call) and not last.value.pure:
            self.out[-1] = form.Evaluate(self.place, last.value)
            del self.variables[last.target.name]

    def _do_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Name):
                place = self.expression(target)
                root = form.Name(min(names(place), default="?"))
                self.out.append(form.Opaque(self.place, self.text(target), "deletes elements", (), (root,)))

    def _do_return(self, node: ast.Return) -> None:
        value = self.expression(node.value) if node.value is not None else None
        if isinstance(value, form.Call) and value.function == "tuple":
            value = form.Call("tuple", tuple([self.materialised(part) for part in value.arguments]))
        elif value is not None:
            value = self.materialised(value)
        self.out.append(form.Jump(self.place, JumpKind.RETURN, value=value))

    def _do_raise(self, node: ast.Raise) -> None:
        self.out.append(form.Jump(self.place, JumpKind.EXIT))

    def _do_break(self, node: ast.Break) -> None:
        flag = self._broken[-1] if self._broken else None
        if flag is not None:
            self.assign(flag, form.Constant(True, Kind.BOOLEAN))
        self.out.append(form.Jump(self.place, JumpKind.BREAK))

    def _do_continue(self, node: ast.Continue) -> None:
        self.out.append(form.Jump(self.place, JumpKind.CONTINUE))

    # Compound statements

    def _do_if(self, node: ast.If) -> None:
        condition = self.truth(self.expression(node.test))
        body = self.inside(node.body)
        self.out.append(form.Branch(self._head(node), condition, body, self.inside(node.orelse)))

    def _head(self, node: ast.stmt) -> form.Place:
        return self.place

    def _do_for(self, node: ast.For) -> None:
        keep = isinstance(node.target, ast.Name) and not (
            self.shape.read_after_loops(node.target.id) or self._rebinds(node.body, node.target.id)
            or node.target.id in self.shape.foreign or self.storage is form.Storage.GLOBAL
        )  # fmt: skip
        flag = self._else_flag(node)

        def body() -> None:
            self._broken.append(flag)
            self.statements(node.body)
            self._broken.pop()

        self.iterate(node.target, node.iter, body, synthetic=False, keep=keep, last_line=node.end_lineno or 0)
        self._else(node, flag)

    _do_asyncfor = _do_for

    def _rebinds(self, body: list[ast.stmt], name: str) -> bool:
        return any(
            isinstance(part, ast.Name) and part.id == name and not isinstance(part.ctx, ast.Load)
            for part in own_nodes(body)
        )

    def _else_flag(self, node: ast.For | ast.While) -> form.Name | None:
        if not node.orelse or not any(isinstance(part, ast.Break) for part in own_nodes(node.body)):
            return None
        flag = self.temporary(form.ScalarType(Kind.BOOLEAN, 1))
        self.assign(flag, form.Constant(False, Kind.BOOLEAN))
        return flag

    def _else(self, node: ast.For | ast.While, flag: form.Name | None) -> None:
        if flag is None:
            self.statements(node.orelse)
        else:
            condition = form.Operation("not", (flag,))
            self.out.append(form.Branch(self.place, condition, self.inside(node.orelse)))

    def _do_while(self, node: ast.While) -> None:
        flag = self._else_flag(node)
        with self.block() as needed:
            condition = self.truth(self.expression(node.test))
        self._broken.append(flag)
        body = self.inside(node.body)
        self._broken.pop()
        if isinstance(condition, form.Constant) and condition.value:
            self.out.append(form.Loop(self.place, LoopKind.ENDLESS, body))
        elif needed:
            leave = form.Branch(
                form.Place(node.lineno), form.Operation("not", (condition,)),
                (form.Jump(form.Place(node.lineno), JumpKind.BREAK),),
            )  # fmt: skip
            self.out.append(form.Loop(self.place, LoopKind.ENDLESS, (*needed, leave, *body)))
        else:
            self.out.append(form.Loop(self.place, LoopKind.CONDITIONAL, body, condition=condition))
        self._else(node, flag)

    def _do_with(self, node: ast.With) -> None:
        for item in node.items:
            value = self.held(self.expression(item.context_expr))
            if item.optional_vars is not None:
                entered = self.impure("__enter__", (value,))
                self.store(item.optional_vars, entered)
        self.statements(node.body)

    _do_asyncwith = _do_with

    def _do_try(self, node: ast.Try) -> None:
        self.statements(node.body)
        raised = self.temporary(form.ScalarType(Kind.BOOLEAN, 1)) if node.handlers else None
        if raised is not None:
            self.assign(raised, form.Unknown("an exception was raised"))
        for handler in node.handlers:
            text = "except " + (self.text(handler.type) if handler.type else "")
            with self.block() as body:
                if handler.name:
                    self._bind_name(self.renamed.get(handler.name, handler.name), form.Unknown("the exception"))
                self.statements(handler.body)
            condition = form.Unknown(text.strip()[: form.MOST_TEXT], (raised,) if raised is not None else ())
            self.out.append(form.Branch(form.Place(handler.lineno, 1, handler.end_lineno or 0), condition, tuple(body)))
        self.statements(node.orelse)
        self.statements(node.finalbody)

    _do_trystar = _do_try

    def _do_match(self, node: ast.Match) -> None:
        subject = self.held(self.expression(node.subject))
        self._cases(subject, node.cases)

    def _cases(self, subject: form.Expression, cases: list[ast.match_case]) -> None:
        if not cases:
            return
        case, *rest = cases
        condition = self._pattern(subject, case.pattern)
        captured = [
            part.name for part in ast.walk(case.pattern) if isinstance(part, (ast.MatchAs, ast.MatchStar)) and part.name
        ]
        with self.block() as body:
            for name in captured:
                whole = isinstance(case.pattern, ast.MatchAs) and case.pattern.name == name
                value = subject if whole else form.Unknown(f"capture {name}", (subject,))
                self._bind_name(self.renamed.get(name, name), value)
            if case.guard is not None:
                guard = self.expression(case.guard)
                if captured:
                    condition = form.Unknown("a guarded pattern", (subject,))
                else:
                    condition = guard if condition is None else form.Operation("and", (condition, guard))
            self.statements(case.body)
        if condition is None:
            self.out.extend(body)
            return
        with self.block() as otherwise:
            self.nesting += 1
            if self.nesting > MOST_DEPTH:
                raise TooDeepError
            self._cases(subject, rest)
            self.nesting -= 1
        place = form.Place(case.body[0].lineno)
        self.out.append(form.Branch(place, condition, tuple(body), tuple(otherwise)))

    def _pattern(self, subject: form.Expression, pattern: ast.pattern) -> form.Expression | None:
        """The condition that a subject matches; None: always."""
        match pattern:
            case ast.MatchValue(value=value):
                return form.Operation("==", (subject, self.expression(value)))
            case ast.MatchSingleton(value=value):
                return form.Operation("is", (subject, self.expression(ast.Constant(value))))
            case ast.MatchAs(pattern=None):
                return None
            case ast.MatchOr(patterns=patterns):
                tests = [self._pattern(subject, each) for each in patterns]
                condition = tests[0]
                for test in tests[1:]:
                    if condition is None or test is None:
                        return None
                    condition = form.Operation("or", (condition, test))
                return condition
        return form.Unknown(self.text(pattern), (subject,))


__all__ = ["ONE", "Statements"]
