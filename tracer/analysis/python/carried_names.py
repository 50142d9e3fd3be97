"""Loop-carried dependences of Python source through names.

A name is carried if an iteration may read it before it assigns it, and assigns it. As for machine code
(tracer/analysis/machine_code/carried.py), the kind depends on how its new value is computed from its old one: by adding
a loop invariant, by one associative operation and for no other use, or in another way.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from foretrace.tracer.signature.data_flow_records import DependenceKind

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "add", ast.Mult: "multiply", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
}  # fmt: skip
_CHOICES = {"min": "min", "max": "max", "minimum": "min", "maximum": "max", "fmin": "min", "fmax": "max"}
Loop = ast.For | ast.AsyncFor | ast.While


@dataclass(frozen=True, slots=True)
class CarriedName:
    """A name that a loop carries."""

    name: str
    kind: DependenceKind
    operation: str = ""


@dataclass(slots=True)
class _Use:
    """Uses of a name: `assigned` are its new values, each with its operator and whether a condition guards it."""

    assigned: list[tuple[ast.expr, ast.operator | None, bool]] = field(default_factory=list)
    other_targets: int = 0  # of loops, with statements and so on
    reads: int = 0


class SourceLoops:
    """The loops of a source file, by line."""

    def __init__(self, text: str) -> None:
        """Take a file apart.

        Raises:
            SyntaxError, ValueError: it is not in this interpreter's Python.
        """
        tree = ast.parse(text)
        self._loops: dict[int, Loop] = {}
        self._statements: dict[int, list[ast.stmt]] = {}
        self._functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        for node in ast.walk(tree):
            if isinstance(node, Loop):
                self._loops.setdefault(node.lineno, node)
            if isinstance(node, ast.stmt):
                self._statements.setdefault(node.lineno, []).append(node)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._functions.append(node)

    def carried(self, line: int) -> list[CarriedName]:
        """Names carried by the loop on a line; empty where no loop statement is (a comprehension)."""
        loop = self._loops.get(line)
        return [] if loop is None else list(_Names(loop).carried_names())

    def update(self, line: int) -> str | None:
        """The operation of an update of an element (`a[i] += x`) on a line: "" if it is not associative; None if the
        line has none."""
        for statement in self._statements.get(line, ()):
            found = _element_update(statement)
            if found is not None:
                return found
        return None

    def is_indirect(self, line: int) -> bool:
        """Whether a line stores into an element whose index is itself an element, or a variable that holds one."""
        around = [loop for loop in self._loops.values() if loop.lineno <= line <= (loop.end_lineno or 0)]
        for statement in self._statements.get(line, ()):
            for target in _targets(statement):
                inside = [node for part in _indices(target) for node in ast.walk(part)]
                names = {node.id for node in inside if isinstance(node, ast.Name)}
                if any(isinstance(node, ast.Subscript) for node in inside):
                    return True
                if any(_is_element(name, loop) for name in names for loop in around):
                    return True
        return False

    def is_new(self, line: int, loop_line: int) -> bool:
        """Whether a line stores into an object that each iteration of the loop on `loop_line` creates anew."""
        names = {name for statement in self._statements.get(line, ()) for name in _stored_into(statement)}
        loop = self._loops.get(loop_line)
        if not names or loop is None:
            return False
        if loop.lineno <= line <= (loop.end_lineno or 0):
            made = set(_assigned_names(loop.body))
        else:
            inside = [f for f in self._functions if f.lineno <= line <= (f.end_lineno or 0)]
            made = set(_assigned_names(max(inside, key=lambda f: f.lineno).body)) if inside else set()
        return names <= made


def _element_update(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Subscript):
        return _OPERATORS.get(type(statement.op), "")
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        target, value = ast.unparse(statement.targets[0]), statement.value
        if isinstance(value, ast.BinOp) and target in (ast.unparse(value.left), ast.unparse(value.right)):
            return _OPERATORS.get(type(value.op), "")
        if isinstance(value, ast.Call) and target in map(ast.unparse, value.args):
            return _CHOICES.get(_called(value), "")
    return None


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.AugAssign | ast.AnnAssign):
        return [statement.target]
    return statement.targets if isinstance(statement, ast.Assign) else []


def _indices(target: ast.expr) -> Iterator[ast.expr]:
    while isinstance(target, ast.Subscript):
        yield target.slice
        target = target.value


def _is_element(name: str, loop: Loop) -> bool:
    """Whether a name is an element: the loop goes over elements by it, or assigns one to it."""
    if not isinstance(loop, ast.While) and name in _element_targets(loop):
        return True
    return any(
        isinstance(node, ast.Assign)
        and any(_path(target) == name for target in node.targets)
        and any(isinstance(part, ast.Subscript) for part in ast.walk(node.value))
        for statement in loop.body
        for node in ast.walk(statement)
    )


def _element_targets(loop: ast.For | ast.AsyncFor) -> set[str]:
    """The loop variables that are elements of a collection, not numbers of a range."""
    called = _called(loop.iter) if isinstance(loop.iter, ast.Call) else ""
    if called == "range":
        return set()
    target: ast.expr = loop.target
    if called == "enumerate" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        target = target.elts[1]
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _stored_into(statement: ast.stmt) -> Iterator[str]:
    for target in _targets(statement):
        base: ast.expr = target
        while isinstance(base, ast.Subscript):
            base = base.value
        if isinstance(target, ast.Subscript) and isinstance(base, ast.Name):
            yield base.id


def _assigned_names(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Names that statements bind to something, not by an update."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    yield from (
                        n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
                    )


def _called(call: ast.Call) -> str:
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _path(node: ast.AST) -> str:
    """A name, or an attribute of one (`self.total`); "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (above := _path(node.value)):
        return f"{above}.{node.attr}"
    return ""


def _reads(node: ast.AST) -> Iterator[str]:
    """The names that an expression reads, as often as it does."""
    path = _path(node)
    if path and isinstance(node, ast.Name | ast.Attribute):
        if isinstance(node.ctx, ast.Load):
            yield path
        return
    for child in ast.iter_child_nodes(node):
        yield from _reads(child)


class _Names:
    """The names of a loop."""

    def __init__(self, loop: Loop) -> None:
        self._uses: dict[str, _Use] = {}
        self._before: set[str] = set()  # read before they are certainly assigned
        self._tests: list[ast.expr] = []
        certain: set[str] = set()
        if isinstance(loop, ast.While):
            self._expression(loop.test, certain)
            self._tests.append(loop.test)
        else:
            self._target(loop.target, certain, None, is_sometimes=False)
        self._block(loop.body, certain, is_sometimes=False)

    # ---- reading the body ----

    def _use(self, name: str) -> _Use:
        return self._uses.setdefault(name, _Use())

    def _expression(self, node: ast.AST | None, certain: set[str]) -> None:
        if node is None:
            return
        for name in _reads(node):
            self._use(name).reads += 1
            if name not in certain:
                self._before.add(name)
        for inside in ast.walk(node):
            if isinstance(inside, ast.NamedExpr):
                self._assign(inside.target.id, inside.value, None, certain, is_sometimes=True)

    def _assign(
        self, name: str, value: ast.expr | None, operator: ast.operator | None, certain: set[str], *, is_sometimes: bool
    ) -> None:
        use = self._use(name)
        if value is None:
            use.other_targets += 1
        else:
            use.assigned.append((value, operator, is_sometimes))
        if not is_sometimes:
            certain.add(name)

    def _target(self, target: ast.expr, certain: set[str], value: ast.expr | None, *, is_sometimes: bool) -> None:
        if path := _path(target):
            self._assign(path, value, None, certain, is_sometimes=is_sometimes)
        elif isinstance(target, ast.Tuple | ast.List):
            values: Sequence[ast.expr | None] = [value] * len(target.elts)
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                values = value.elts
            for one, of_one in zip(target.elts, values, strict=True):
                self._target(one, certain, of_one, is_sometimes=is_sometimes)
        elif isinstance(target, ast.Starred):
            self._target(target.value, certain, value, is_sometimes=is_sometimes)
        else:
            self._expression(target, certain)  # the parts of a subscript are read

    def _block(self, body: Iterable[ast.stmt], certain: set[str], *, is_sometimes: bool) -> None:
        for statement in body:
            self._statement(statement, certain, is_sometimes=is_sometimes)

    def _statement(self, statement: ast.stmt, certain: set[str], *, is_sometimes: bool) -> None:
        match statement:
            case ast.Assign(targets=targets, value=value):
                self._expression(value, certain)
                for target in targets:
                    self._target(target, certain, value, is_sometimes=is_sometimes)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._expression(value, certain)
                self._target(target, certain, value, is_sometimes=is_sometimes)
            case ast.AugAssign(target=target, op=operator, value=value):
                self._expression(value, certain)
                if path := _path(target):
                    if path not in certain:
                        self._before.add(path)
                    self._assign(path, value, operator, certain, is_sometimes=is_sometimes)
                else:
                    self._expression(target, certain)
            case ast.If(test=test, body=body, orelse=orelse):
                self._expression(test, certain)
                self._tests.append(test)
                one, other = set(certain), set(certain)
                self._block(body, one, is_sometimes=True)
                self._block(orelse, other, is_sometimes=True)
                certain |= self._certain(body, certain) & self._certain(orelse, certain)
            case ast.For(target=target, iter=values, body=body, orelse=orelse):
                self._expression(values, certain)
                inside = set(certain)
                self._target(target, inside, None, is_sometimes=False)
                self._block(body, inside, is_sometimes=False)
                self._block(orelse, set(certain), is_sometimes=False)
            case ast.While(test=test, body=body, orelse=orelse):
                self._expression(test, certain)
                self._tests.append(test)
                self._block(body, set(certain), is_sometimes=False)
                self._block(orelse, set(certain), is_sometimes=False)
            case ast.With(items=items, body=body):
                for item in items:
                    self._expression(item.context_expr, certain)
                    if item.optional_vars is not None:
                        self._target(item.optional_vars, certain, None, is_sometimes=is_sometimes)
                self._block(body, certain, is_sometimes=is_sometimes)
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=last):
                self._block(body, certain, is_sometimes=is_sometimes)
                for handler in handlers:
                    self._block(handler.body, set(certain), is_sometimes=True)
                self._block(orelse, certain, is_sometimes=is_sometimes)
                self._block(last, certain, is_sometimes=is_sometimes)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return
            case _:
                self._expression(statement, certain)

    @staticmethod
    def _certain(body: Iterable[ast.stmt], before: set[str]) -> set[str]:
        """Names that a branch assigns unconditionally, at its own level."""
        found = set(before)
        for statement in body:
            if isinstance(statement, ast.Assign):
                found |= {path for target in statement.targets if (path := _path(target))}
        return found

    # ---- what is carried ----

    def carried_names(self) -> Iterator[CarriedName]:
        """Carried names, without induction variables and values that are only passed on."""
        for name, use in self._uses.items():
            if name not in self._before or not use.assigned:
                continue
            found = self._classify(name, use)
            if found is not None:
                yield found

    def _classify(self, name: str, use: _Use) -> CarriedName | None:
        recurrence = CarriedName(name, DependenceKind.RECURRENCE)
        is_tested = any(name in _reads(test) for test in self._tests)
        if not any(self._depends_on(value, operator, name) for value, operator, _ in use.assigned):
            if not is_tested or not all(sometimes for _, _, sometimes in use.assigned):
                return None  # handed on
            return CarriedName(name, DependenceKind.REDUCTION) if self._is_choice(name, use) else recurrence
        forms = [_update_of(name, value, operator) for value, operator, _ in use.assigned]
        operations = {form[0] for form in forms if form is not None}
        if None in forms or len(operations) != 1:
            return recurrence
        (operation,) = operations
        others = [other for form in forms if form is not None for other in form[1]]
        is_regular = not any(sometimes for _, _, sometimes in use.assigned)
        if operation == "add" and is_regular and not any(self._changes(n) for other in others for n in _reads(other)):
            return None  # an induction variable
        own_reads = sum(list(_reads(value)).count(name) for value, _, _ in use.assigned)
        if use.reads > own_reads or any(name in _reads(other) for other in others):
            return recurrence
        return CarriedName(name, DependenceKind.REDUCTION, operation)

    def _changes(self, name: str) -> bool:
        use = self._uses.get(name)
        return use is not None and bool(use.assigned or use.other_targets)

    def _depends_on(self, value: ast.expr, operator: ast.operator | None, name: str) -> bool:
        """Whether a value depends on a name's old one, by way of others that the loop assigns."""
        if operator is not None:
            return True
        seen: set[str] = set()
        pending = list(_reads(value))
        while pending:
            one = pending.pop()
            if one == name:
                return True
            if one in seen:
                continue
            seen.add(one)
            for inner, _, _ in self._uses[one].assigned if one in self._uses else ():
                pending.extend(_reads(inner))
        return False

    def _is_choice(self, name: str, use: _Use) -> bool:
        """Whether a name is replaced by the value it is compared with, as the least or the largest so far."""
        values = {ast.unparse(value) for value, _, _ in use.assigned}
        for test in self._tests:
            for node in ast.walk(test):
                if not isinstance(node, ast.Compare) or len(node.comparators) != 1:
                    continue
                sides = (ast.unparse(node.left), ast.unparse(node.comparators[0]))
                is_order = isinstance(node.ops[0], ast.Lt | ast.Gt | ast.LtE | ast.GtE)
                if is_order and name in sides and values <= {side for side in sides if side != name}:
                    reads = sum(list(_reads(one)).count(name) for one in self._tests)
                    return use.reads == reads
        return False


def _update_of(name: str, value: ast.expr, operator: ast.operator | None) -> tuple[str, list[ast.expr]] | None:
    """The associative operation that updates a name from its old value, and the other operands."""
    if operator is not None:
        operation = _OPERATORS.get(type(operator))
        return None if operation is None else (operation, [value])
    if isinstance(value, ast.BinOp):
        operation = _OPERATORS.get(type(value.op))
        sides = [value.left, value.right]
        own = [side for side in sides if _path(side) == name]
        if operation is None or len(own) != 1 or (isinstance(value.op, ast.Sub) and own[0] is value.right):
            return None
        return operation, [side for side in sides if side is not own[0]]
    if isinstance(value, ast.Call) and _called(value) in _CHOICES and name in map(_path, value.args):
        return _CHOICES[_called(value)], [one for one in value.args if _path(one) != name]
    return None
