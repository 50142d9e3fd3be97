"""Array syntax, slices, masks and array intrinsics as synthetic loops over elements.

A statement on whole arrays becomes a nest with one loop for each dimension, in the order of memory. Values that are
made of a whole array (sums, products of matrices, prefix sums, selections by masks) become loops of their own before
the statement, with a temporary for the result. Where the target of an assignment may overlap its value, the value goes
to a temporary array first: the right side is evaluated before anything is stored.

The module is long for one pass, which has a method for each form of array syntax.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.records import Kind, LoopKind
from foretrace.tracer.source.form.text import expression_text
from foretrace.tracer.source.form.types import ELEMENTWISE, REDUCTIONS, element_type, is_mask, rank, type_of
from foretrace.tracer.source.form.walk import expressions, names, parts, rebuilt, statements, within

from . import algebra
from .names import Names
from .stores import overlaps
from .subscripts import array_name

ZERO, ONE = form.Constant(0), form.Constant(1)
_ARRAYS = (form.Name, form.Subscript, form.Member)
_SCANS = ("cumsum", "cumprod", "cummax", "cummin")
_FRESH = frozenset({"zeros", "ones", "empty", "arange", "list", "allocate"})
_ARRAY_CALLS = REDUCTIONS | {
    "dot", "matmul", "transpose", "where", "bincount", "take", "pack", "copy", "spread", "reshape", "cumsum",
    "cumprod", "cummax", "cummin",
}  # fmt: skip


class _NotLoweredError(Exception):
    """An array expression has no loops: why."""


@dataclass(frozen=True)
class _Range:
    first: form.Expression
    last: form.Expression
    step: form.Expression | None = None

    @property
    def extent(self) -> form.Expression:
        span = algebra.subtract(self.last, self.first)
        if self.step is not None:
            span = form.Operation("//", (span, self.step))
        return algebra.add(span, ONE)


@dataclass(frozen=True)
class _Counter:
    """A loop of the nest that runs over elements."""

    name: form.Name
    range: _Range


def _lies_apart(one: form.Expression, other: form.Expression) -> bool:
    """Whether two parts of one array differ in an index by a constant: two rows of a matrix."""
    if not isinstance(one, form.Subscript) or not isinstance(other, form.Subscript):
        return False
    if one.base != other.base or len(one.indices) != len(other.indices):
        return False
    return any(
        not isinstance(left, form.Section) and not isinstance(right, form.Section)
        and bool(algebra.difference(left, right))
        for left, right in zip(one.indices, other.indices, strict=True)
    )  # fmt: skip


def without_array_syntax(function: form.Function, fresh: Names) -> tuple[form.Statement, ...]:
    """A function's body with loops in place of array syntax; variables made go to `fresh`."""
    return tuple(_Arrays(fresh).body(function.body))


class _Arrays:
    def __init__(self, fresh: Names) -> None:
        self.fresh = fresh
        self.variables = fresh.variables
        self.out: list[form.Statement] = []
        self.place = form.Place(1)

    def body(self, body: Sequence[form.Statement]) -> list[form.Statement]:
        outer, self.out = self.out, []
        for statement in body:
            self.statement(statement)
        made, self.out = self.out, outer
        return made

    def statement(self, statement: form.Statement) -> None:
        self.place = statement.place
        match statement:
            case form.Loop(body=body, first=first, last=last, step=step):
                if first is not None and last is not None:
                    first, last = self.scalars(first), self.scalars(last)
                self.out.append(
                    msgspec.structs.replace(statement, body=tuple(self.body(body)), first=first, last=last, step=step)
                )
            case form.Branch(condition=condition) if rank(condition, self.variables) and self._is_where(statement):
                self._where(statement)
            case form.Branch(condition=condition, body=body, otherwise=otherwise):
                if rank(condition, self.variables):  # a scalar, whatever its parts look like
                    text = expression_text(condition)[: form.MOST_TEXT]
                    condition = form.Unknown(text, tuple(map(form.Name, sorted(names(condition)))))
                condition = self.scalars(condition)
                self.out.append(
                    form.Branch(statement.place, condition, tuple(self.body(body)), tuple(self.body(otherwise)))
                )
            case form.Assign():
                self.assign(statement)
            case form.Jump(value=value) if value is not None:
                self.out.append(msgspec.structs.replace(statement, value=self.scalars(value)))
            case form.Evaluate(call=call):
                arguments = tuple([self.scalars(argument) for argument in call.arguments])
                self.out.append(form.Evaluate(statement.place, form.Call(call.function, arguments, call.pure)))
            case _:
                self.out.append(statement)

    def _is_where(self, statement: form.Branch) -> bool:
        """Whether a branch can be a WHERE: it has only assignments to arrays, and branches that can be a WHERE."""
        return all(
            bool(rank(part.target, self.variables)) if isinstance(part, form.Assign)
            else isinstance(part, form.Branch) and bool(rank(part.condition, self.variables)) and self._is_where(part)
            for part in (*statement.body, *statement.otherwise)
        )  # fmt: skip

    def uses_arrays(self, expression: form.Expression) -> bool:
        """Whether an expression may have parts that are whole arrays."""
        for part in within(expression):
            if isinstance(part, form.Section) or (isinstance(part, form.Call) and part.function in _ARRAY_CALLS):
                return True
            if isinstance(part, form.Subscript) and any(
                isinstance(index, form.Name) and rank(index, self.variables) for index in part.indices
            ):
                return True
        return False

    def scalars(self, expression: form.Expression) -> form.Expression:
        """An expression with values made of whole arrays in temporaries, if they are scalars."""
        if not self.uses_arrays(expression):
            return expression
        mark = len(self.out)
        try:
            return self.hoisted(expression, arrays=False)
        except _NotLoweredError:
            del self.out[mark:]
            return expression

    # Assignments

    def assign(self, statement: form.Assign) -> None:
        target, value = statement.target, statement.value
        impure = isinstance(value, form.Call) and not value.pure
        plain = isinstance(target, form.Name) and not rank(target, self.variables)
        whole = isinstance(target, (form.Name, form.Member)) and not plain and bool(rank(target, self.variables))
        if impure or isinstance(value, form.AddressOf):
            self.out.append(statement)
            return
        if not whole and not self.uses_arrays(value) and (plain or not self.uses_arrays(target)):
            if plain or not rank(target, self.variables) or not isinstance(target, form.Subscript):
                self.out.append(statement)
                return
            if not self._spans(target):
                self.out.append(statement)
                return
        if isinstance(value, form.Call) and (value.function in _FRESH or "." in value.function):
            self.out.append(statement)
            return
        mark = len(self.out)
        try:
            self._assign(statement, target, value)
        except _NotLoweredError as error:
            del self.out[mark:]
            reads = tuple(form.Name(name) for name in sorted(names(value) | (set() if whole else names(target))))
            root = target if whole else form.Name(min(names(target), default="?"))
            reason = f"array expression: {error}"
            self.out.append(form.Opaque(statement.place, str(error)[: form.MOST_TEXT], reason, reads, (root,)))

    def _spans(self, target: form.Subscript) -> bool:
        """Whether a target with too few indices is a row; an element behind a pointer is none."""
        return isinstance(target.base, form.Name)

    def _assign(self, statement: form.Assign, target: form.Expression, value: form.Expression) -> None:
        dimensions = rank(target, self.variables)
        if not dimensions:
            value = self.hoisted(value, arrays=True)
            if rank(value, self.variables) and not isinstance(value, form.Name):
                raise _NotLoweredError("an array for a scalar")
            self.out.append(form.Assign(statement.place, target, value, statement.atomic))
            return
        if isinstance(target, form.Subscript) and any(is_mask(index, self.variables) for index in target.indices):
            self._masked(target, value)
            return
        if isinstance(value, form.Call) and self._emits_array(value, target, array_name(target)):
            return
        value = self.hoisted(value, arrays=True)
        if self._overlaps(target, value):
            value = self._copied(value, dimensions)
        counters = self.counters(target, value)
        store = form.Assign(self.place, self.element(target, counters), self.element(value, counters), statement.atomic)
        self.out.append(self.nest(counters, (store,), self._first_contiguous(target)))

    def _overlaps(self, target: form.Expression, value: form.Expression) -> bool:
        """Whether a value reads elements that the target may have at other places."""
        pending = [(value, True)]
        own, whole = array_name(target), self._unsectioned(target)
        while pending:
            part, aligned = pending.pop()
            if aligned and self._unsectioned(part) == whole:
                continue
            if isinstance(part, form.Call) and part.function in ("size", "shape"):
                continue  # of the array, not its elements
            if aligned and _lies_apart(part, target):
                continue
            if isinstance(part, (form.Name, form.Subscript, form.Member)):
                if overlaps(array_name(part), own):
                    return True
                while isinstance(part, (form.Subscript, form.Member)):
                    if isinstance(part, form.Subscript):
                        pending.extend((index, False) for index in part.indices)
                    part = part.base
                continue
            if isinstance(part, form.Call) and part.function not in ELEMENTWISE:
                aligned = False
            pending.extend((each, aligned) for each in parts(part))
        return False

    def _unsectioned(self, value: form.Expression) -> form.Expression:
        """`a` for `a(:, :)`."""
        if isinstance(value, form.Subscript) and value.indices == (form.Section(),) * rank(value.base, self.variables):
            return value.base
        return value

    def _copied(self, value: form.Expression, dimensions: int) -> form.Name:
        ranges = self.ranges(value)
        if len(ranges) != dimensions:
            raise _NotLoweredError("shapes that differ")
        copy = self.array(tuple(each.extent for each in ranges), value)
        counters = [_Counter(self.fresh.counter(), each) for each in ranges]
        index = tuple(self._position(counter) for counter in counters)
        self.out.append(
            self.nest(counters, (form.Assign(self.place, form.Subscript(copy, index), self.element(value, counters)),))
        )
        return copy

    def _masked(self, target: form.Subscript, value: form.Expression) -> None:
        mask = target.indices[0]
        if len(target.indices) != 1 or rank(mask, self.variables) != rank(target.base, self.variables):
            raise _NotLoweredError("a mask beside other indices")
        mask = self.hoisted(mask, arrays=True)
        target = form.Subscript(target.base, (mask,))

        def unmasked(part: form.Expression) -> form.Expression:
            return part.base if isinstance(part, form.Subscript) and part.indices == (mask,) else part

        whole = rebuilt(value, unmasked)
        alike = whole != value  # `b[mask]` stands beside the target's elements
        value = self.hoisted(whole, arrays=True)
        counters = self.counters(target.base, mask)
        store = self.element(target.base, counters)
        if rank(value, self.variables) == 1 and not alike and not self._same_shape(value, target.base):
            position = self.scalar(Kind.INTEGER)
            self.out.append(form.Assign(self.place, position, ZERO))
            taken = form.Subscript(self.named(value), (position,))
            chosen: tuple[form.Statement, ...] = (
                form.Assign(self.place, store, taken),
                form.Assign(self.place, position, form.Operation("+", (position, ONE))),
            )
        else:
            chosen = (form.Assign(self.place, store, self.element(value, counters)),)
        guarded = form.Branch(self.place, self.element(mask, counters), chosen)
        self.out.append(self.nest(counters, (guarded,), self._first_contiguous(target)))

    def _where(self, statement: form.Branch) -> None:
        """Lowers a WHERE: masked assignments to elements, whose mask is evaluated before all of them."""
        mark = len(self.out)
        try:
            self._chosen(statement, ())
        except _NotLoweredError as error:
            del self.out[mark:]
            inside = list(statements((statement,)))
            written = {name for part in inside if isinstance(part, form.Assign) for name in names(part.target)}
            read = {name for part in inside for one in expressions(part) for name in names(one)}
            text, reason = str(error)[: form.MOST_TEXT], f"array expression: {error}"
            reads, writes = [tuple(map(form.Name, sorted(each))) for each in (read, written)]
            self.out.append(form.Opaque(statement.place, text, reason, reads, writes))

    def _chosen(self, statement: form.Branch, around: tuple[form.Expression, ...]) -> None:
        mask = self.hoisted(statement.condition, arrays=True)
        inside = list(statements((*statement.body, *statement.otherwise)))
        targets = [part.target for part in inside if isinstance(part, form.Assign)]
        written = [array_name(target) for target in targets]
        read = [array_name(part) for part in within(mask) if isinstance(part, _ARRAYS)]
        if any(overlaps(one, own) for one in read for own in written) and (
            len(targets) > 1 or self._overlaps(targets[0], mask)
        ):
            mask = self._copied(mask, rank(mask, self.variables))
        opposite = form.Operation("not", (mask,))
        for block, condition in ((statement.body, mask), (statement.otherwise, opposite)):
            for part in block:
                self.place = part.place
                match part:
                    case form.Assign(target=target) if rank(target, self.variables):
                        self._guarded(part, (*around, condition))
                    case form.Branch(condition=inner) if rank(inner, self.variables):
                        self._chosen(part, (*around, condition))
                    case _:
                        raise _NotLoweredError("a WHERE with other statements than assignments")

    def _guarded(self, statement: form.Assign, conditions: tuple[form.Expression, ...]) -> None:
        target, value = statement.target, self.hoisted(statement.value, arrays=True)
        if self._overlaps(target, value):
            value = self._copied(value, rank(target, self.variables))
        counters = self.counters(target, form.Operation("and", (*conditions, value)))
        made: form.Statement = form.Assign(self.place, self.element(target, counters), self.element(value, counters))
        for condition in reversed(conditions):
            made = form.Branch(self.place, self.element(condition, counters), (made,))
        self.out.append(self.nest(counters, (made,), self._first_contiguous(target)))

    def _same_shape(self, value: form.Expression, base: form.Expression) -> bool:
        return bool(names(value) & names(base))

    # Values made of whole arrays

    def hoisted(self, value: form.Expression, *, arrays: bool) -> form.Expression:
        """Replaces reductions, scans and masked reads of whole arrays by temporaries; `arrays`: array results, too."""

        def change(part: form.Expression) -> form.Expression:
            if isinstance(part, form.Call):
                if part.function in REDUCTIONS or part.function == "dot" or part.function == "matmul":
                    if arrays or not rank(part, self.variables):
                        return self.as_temporary(part)
                elif part.function in (*_SCANS, "bincount", "pack") and arrays:
                    return self.as_temporary(part)
            if isinstance(part, form.Subscript) and arrays and any(is_mask(i, self.variables) for i in part.indices):
                return self.as_temporary(form.Call("pack", (part.base, *part.indices)))
            return part

        return rebuilt(value, change)

    def as_temporary(self, call: form.Call) -> form.Expression:
        """The temporary that holds the result of a call on whole arrays."""
        dimensions = rank(call, self.variables)
        if not dimensions:
            result = self.scalar(Kind.UNKNOWN, call)
            self._reduce(call, result)
            return result
        shape = self._shape(call)
        array = self.array(shape, call)
        if not self._emits_array(call, array, ""):
            raise _NotLoweredError(call.function)
        if call.function == "pack":
            extent = self._packed
            known = self.variables[array.name].type
            if isinstance(known, form.ArrayType):
                self.variables[array.name] = form.Variable(msgspec.structs.replace(known, shape=(extent,)))
        return array

    _packed: form.Expression = ZERO

    def _shape(self, call: form.Call) -> tuple[form.Expression | None, ...]:
        ranges = [self.ranges(argument) for argument in call.arguments]
        match call.function:
            case "matmul" | "dot":
                left, right = ranges[0], ranges[1]
                return tuple(
                    each.extent
                    for each in (*left[:-1], *right[:-2], *right[len(right) - 1 : len(right) if len(right) > 1 else 0])
                )
            case "cumsum" | "cumprod" | "cummax" | "cummin":
                return tuple(each.extent for each in ranges[0])
            case "bincount":
                return (call.arguments[2] if len(call.arguments) > 2 else None,)
            case "pack":
                return (None,)
        axis = call.arguments[1] if len(call.arguments) > 1 else None
        if isinstance(axis, form.Constant) and isinstance(axis.value, int):
            return tuple(each.extent for position, each in enumerate(ranges[0]) if position != axis.value)
        raise _NotLoweredError(f"{call.function} along a dimension that varies")

    def _emits_array(self, call: form.Call, target: form.Expression, own: str) -> bool:
        """Emits loops that compute a call's array in place; False: the call has none, or overlaps the target."""
        function = call.function
        if function not in ("matmul", "dot", *_SCANS, "bincount", "pack") and not (
            function in REDUCTIONS and len(call.arguments) > 1
        ):
            return False
        if own and any(overlaps(array_name(part), own) for part in within(call) if isinstance(part, _ARRAYS)):
            return False
        arguments = tuple(self.hoisted(argument, arrays=True) for argument in call.arguments)
        goal = self.ranges(target)

        def at(*counters: form.Expression) -> form.Expression:
            if len(goal) != len(counters):
                raise _NotLoweredError("shapes that differ")
            offsets = [algebra.add(each.first, counter) for each, counter in zip(goal, counters, strict=True)]
            whole = form.Name(target.name) if isinstance(target, form.Name) else target
            return self._at(whole, offsets)

        match function:
            case "matmul" | "dot" if len(arguments) != 2:
                raise _NotLoweredError(f"{function} of {len(arguments)} values")
            case "matmul" | "dot":
                self._product(arguments[0], arguments[1], at)
            case "cumsum" | "cumprod" | "cummax" | "cummin":
                if len(goal) != 1:
                    raise _NotLoweredError(f"{function} along a dimension")
                total = self.scalar(Kind.UNKNOWN, arguments[0])
                counters = self._zero_based(arguments[0])
                element = self.element(arguments[0], counters)
                if function in ("cummax", "cummin"):
                    first = [_Counter(ZERO, each.range) for each in counters]  # type: ignore[arg-type]
                    self.out.append(form.Assign(self.place, total, self.element(arguments[0], first)))
                    more: form.Expression = form.Call(function[3:], (total, element))
                else:
                    self.out.append(form.Assign(self.place, total, ONE if function == "cumprod" else ZERO))
                    more = form.Operation("*" if function == "cumprod" else "+", (total, element))
                add = form.Assign(self.place, total, more)
                self.out.append(
                    self.nest(counters, (add, form.Assign(self.place, at(counters[0].name), total)))
                )  # fmt: skip
            case "bincount":
                extent = goal[0].extent
                clear = _Counter(self.fresh.counter(), _Range(ZERO, algebra.subtract(extent, ONE)))
                self.out.append(self.nest([clear], (form.Assign(self.place, at(clear.name), ZERO),)))
                counters = self._zero_based(arguments[0])
                bin_at = at(self.element(arguments[0], counters))
                weight = self.element(arguments[1], counters) if len(arguments) > 1 else ONE
                self.out.append(
                    self.nest(counters, (form.Assign(self.place, bin_at, form.Operation("+", (bin_at, weight))),))
                )
            case "pack" if len(arguments) < 2:
                raise _NotLoweredError("pack without a mask")
            case "pack":
                position = self.scalar(Kind.INTEGER)
                self._packed = position
                self.out.append(form.Assign(self.place, position, ZERO))
                counters = self._zero_based(arguments[1])
                chosen = (
                    form.Assign(self.place, at(position), self.element(arguments[0], counters)),
                    form.Assign(self.place, position, form.Operation("+", (position, ONE))),
                )
                guard = form.Branch(self.place, self.element(arguments[1], counters), chosen)
                self.out.append(self.nest(counters, (guard,)))
            case _:
                self._reduce_along(form.Call(function, arguments), at)
        return True

    def _at(self, target: form.Expression, offsets: Sequence[form.Expression]) -> form.Expression:
        counters = [_Counter(form.Name("?"), each) for each in self.ranges(target)]
        values = {}
        named = []
        for number, (counter, offset) in enumerate(zip(counters, offsets, strict=True)):
            name = form.Name(f"?{number}")
            named.append(_Counter(name, counter.range))
            values[name.name] = offset
        plain = self.element(target, named)

        def change(part: form.Expression) -> form.Expression:
            return values.get(part.name, part) if isinstance(part, form.Name) else part

        return rebuilt(plain, lambda part: algebra.simplified(change(part)))

    def _product(self, left: form.Expression, right: form.Expression, at) -> None:  # type: ignore[no-untyped-def]
        rows, columns = self.ranges(left), self.ranges(right)
        if not rows or not columns or len(rows) > 2 or len(columns) > 2:
            raise _NotLoweredError("a product of unknown or more than two dimensions")
        inner = _Counter(self.fresh.counter(), _Range(ZERO, algebra.subtract(rows[-1].extent, ONE)))
        around: list[_Counter] = []
        left_counters, right_counters = [inner], [inner]
        if len(rows) == 2:
            row = _Counter(self.fresh.counter(), _Range(ZERO, algebra.subtract(rows[0].extent, ONE)))
            around.append(row)
            left_counters = [row, inner]
        if len(columns) == 2:
            column = _Counter(self.fresh.counter(), _Range(ZERO, algebra.subtract(columns[1].extent, ONE)))
            around.append(column)
            right_counters = [inner, column]
        goal = at(*[counter.name for counter in around])
        product = form.Operation("*", (self.element(left, left_counters), self.element(right, right_counters)))
        clear = form.Assign(self.place, goal, ZERO)
        add = self.nest([inner], (form.Assign(self.place, goal, form.Operation("+", (goal, product))),))
        self.out.append(self.nest(around, (clear, add)))

    def _reduce(self, call: form.Call, result: form.Expression) -> None:
        """Emits the loop that reduces arrays to a scalar."""
        arguments = tuple(self.hoisted(argument, arrays=True) for argument in call.arguments)
        if call.function in ("dot", "matmul") and len(arguments) != 2:
            raise _NotLoweredError(f"{call.function} of {len(arguments)} values")
        if call.function == "matmul" and all(rank(argument, self.variables) == 1 for argument in arguments):
            call = form.Call("dot", arguments)
        if call.function in ("dot", "matmul"):
            if any(rank(argument, self.variables) != 1 for argument in arguments):
                raise _NotLoweredError("a product of values that are not known to be arrays")
            counters = self.counters(arguments[0], arguments[1])
            element = form.Operation("*", tuple(self.element(argument, counters) for argument in arguments))
            self._accumulate("sum", result, element, counters)
            return
        if len(arguments) > 1:
            raise _NotLoweredError(f"{call.function} with options")
        if not rank(arguments[0], self.variables):
            raise _NotLoweredError(f"{call.function} of a value that is not known to be an array")
        counters = self.counters(arguments[0], arguments[0])
        self._accumulate(call.function, result, self.element(arguments[0], counters), counters)

    def _accumulate(
        self, function: str, result: form.Expression, element: form.Expression, counters: list[_Counter]
    ) -> None:
        first = [counter.range.first for counter in counters]
        if function in ("minval", "maxval", "minloc", "maxloc"):
            values = {counter.name.name: start for counter, start in zip(counters, first, strict=True)}
            start: form.Expression = rebuilt(
                element, lambda part: values.get(part.name, part) if isinstance(part, form.Name) else part
            )
        else:
            start = {
                "product": ONE, "any": form.Constant(False, Kind.BOOLEAN), "all": form.Constant(True, Kind.BOOLEAN)
            }.get(function, ZERO)  # fmt: skip
        body: tuple[form.Statement, ...]
        match function:
            case "sum" | "product":
                made: form.Expression = form.Operation("+" if function == "sum" else "*", (result, element))
            case "any" | "all":
                made = form.Operation("or" if function == "any" else "and", (result, element))
            case "minval" | "maxval":
                made = form.Call(function[:3], (result, element))
            case _:
                made = form.Operation("+", (result, ONE))
        body = (form.Assign(self.place, result, made),)
        if function == "count":
            body = (form.Branch(self.place, element, body),)
        elif function in ("minloc", "maxloc"):
            best = self.scalar(Kind.UNKNOWN)
            self.out.append(form.Assign(self.place, best, start))
            start = ZERO
            if len(counters) != 1:
                raise _NotLoweredError(f"{function} over several dimensions")
            better = form.Operation("<" if function == "minloc" else ">", (element, best))
            moved = form.Assign(self.place, result, self._position(counters[0]))
            body = (form.Branch(self.place, better, (form.Assign(self.place, best, element), moved)),)
        self.out.append(form.Assign(self.place, result, start))
        self.out.append(self.nest(counters, body))

    def _reduce_along(self, call: form.Call, at) -> None:  # type: ignore[no-untyped-def]
        array, axis = call.arguments[0], call.arguments[1]
        if not isinstance(axis, form.Constant) or not isinstance(axis.value, int) or len(call.arguments) > 2:
            raise _NotLoweredError(f"{call.function} along a dimension that varies")
        counters = self._zero_based(array)
        if not 0 <= axis.value < len(counters):
            raise _NotLoweredError(f"{call.function} along dimension {axis.value}")
        inner = counters[axis.value]
        around = [counter for counter in counters if counter is not inner]
        goal = at(*[counter.name for counter in around])
        element = self.element(array, counters)
        outer, self.out = self.out, []
        self._accumulate(call.function, goal, element, [inner])
        body, self.out = tuple(self.out), outer
        self.out.append(self.nest(around, body))

    # Elements and shapes

    def _zero_based(self, value: form.Expression) -> list[_Counter]:
        return [
            _Counter(self.fresh.counter(), _Range(ZERO, algebra.subtract(each.extent, ONE)))
            for each in self.ranges(value)
        ]

    def counters(self, target: form.Expression, value: form.Expression) -> list[_Counter]:
        """Loops over a target's elements: over its own indices, or from 0 where strides differ."""
        ranges = self.ranges(target)
        variable = self.variables.get(target.name) if isinstance(target, form.Name) else None
        if variable is not None and isinstance(variable.type, form.ArrayType) and None in variable.type.shape:
            made = self.ranges(value)
            if len(made) == len(ranges) and variable.storage is form.Storage.LOCAL:
                ranges = [_Range(ZERO, algebra.subtract(each.extent, ONE)) for each in made]
        steps = {each.step for each in ranges}
        for part in within(value):
            if isinstance(part, form.Section):
                steps.add(part.step)
        if len(steps) > 1:
            ranges = [_Range(ZERO, algebra.subtract(each.extent, ONE)) for each in ranges]
        return [_Counter(self.fresh.counter(), each) for each in ranges]

    def _position(self, counter: _Counter) -> form.Expression:
        span = algebra.subtract(counter.name, counter.range.first)
        return span if counter.range.step is None else form.Operation("//", (span, counter.range.step))

    def ranges(self, value: form.Expression) -> list[_Range]:
        """The index range of each dimension of a value."""
        match value:
            case form.Name(name=name):
                variable = self.variables.get(name)
                if variable is None or not isinstance(variable.type, form.ArrayType):
                    return []
                kind = variable.type
                return [self._dimension(value, kind, position) for position in range(len(kind.shape))]
            case form.Member(base=base, type=kind):
                if kind is None:
                    return []
                if rank(base, self.variables) or not isinstance(kind, form.ArrayType):
                    return self.ranges(base)
                return [self._dimension(value, kind, position) for position in range(len(kind.shape))]
            case form.Constant():
                return []
            case form.Subscript(base=base, indices=indices):
                return self._subscript_ranges(value, base, indices)
            case form.Convert(operand=operand) | form.AddressOf(operand=operand):
                return self.ranges(operand)
            case form.Call(function="transpose", arguments=(inner, *_)):
                return self.ranges(inner)[::-1]
            case form.Call(function="cshift", arguments=(inner, *_)):
                return self.ranges(inner)
            case form.Call(function="take", arguments=(_, index, *_)):
                return self.ranges(index)
            case form.Call(function="zeros" | "ones" | "empty", arguments=arguments):
                return [_Range(ZERO, algebra.subtract(extent, ONE)) for extent in arguments]
            case form.Call(function="arange", arguments=(extent,)):
                return [_Range(ZERO, algebra.subtract(extent, ONE))]
            case form.Call(function="arange", arguments=(first, last)):
                return [_Range(ZERO, algebra.subtract(algebra.subtract(last, first), ONE))]
            case form.Operation(operands=operands) | form.Call(arguments=operands):
                if isinstance(value, form.Call) and value.function not in ELEMENTWISE | {"copy"}:
                    if rank(value, self.variables):
                        raise _NotLoweredError(value.function)
                    return []
                best: list[_Range] = []
                for operand in operands:
                    ranges = self.ranges(operand)
                    best, other = (ranges, best) if len(ranges) > len(best) else (best, ranges)
                    ahead = len(best) - len(other)
                    best = [
                        other[position - ahead] if position >= ahead and one.extent == ONE else one
                        for position, one in enumerate(best)
                    ]
                return best
        return []

    def _dimension(self, base: form.Expression, kind: form.ArrayType, position: int) -> _Range:
        lower = kind.lower[position] if position < len(kind.lower) else ZERO
        known = kind.shape[position]
        extent = known if known is not None else form.Call("size", (base, form.Constant(position)))
        return _Range(lower, algebra.subtract(algebra.add(lower, extent), ONE))

    def _subscript_ranges(
        self, value: form.Subscript, base: form.Expression, indices: tuple[form.Expression, ...]
    ) -> list[_Range]:
        own = self.ranges(base)
        result: list[_Range] = []
        fancy = False
        for position, index in enumerate(indices):
            if isinstance(index, form.Section):
                if position < len(own):
                    whole = own[position]
                else:
                    extent = form.Call("size", (base, form.Constant(position)))
                    whole = _Range(ZERO, algebra.subtract(extent, ONE))
                first = index.first if index.first is not None else whole.first
                last = index.last if index.last is not None else whole.last
                result.append(_Range(first, last, index.step))
            elif rank(index, self.variables) and not fancy:
                if is_mask(index, self.variables):
                    raise _NotLoweredError("a mask beside other indices")
                fancy = True
                result += self.ranges(index)
        return result + own[len(indices) :]

    def element(self, value: form.Expression, counters: Sequence[_Counter]) -> form.Expression:
        """A value's element at the counters' indices; dimensions align at the last one."""
        own = rank(value, self.variables)
        if not own:
            return value
        if own > len(counters):
            raise _NotLoweredError("shapes that differ")
        counters = counters[len(counters) - own :]
        match value:
            case form.Name():
                ranges = self.ranges(value)
                return form.Subscript(value, tuple(map(self._moved, ranges, counters)))
            case form.Member(base=base, member=member, type=kind) if kind is not None and rank(base, self.variables):
                return form.Member(self.element(base, counters), member, kind)
            case form.Member():
                return form.Subscript(value, tuple(map(self._moved, self.ranges(value), counters)))
            case form.Subscript(base=form.Member(base=base, member=member, type=kind), indices=indices) if not any(
                rank(index, self.variables) or isinstance(index, form.Section) for index in indices
            ):
                return form.Subscript(form.Member(self.element(base, counters), member, kind), indices)
            case form.Subscript(base=base, indices=indices):
                return self._subscript_element(value, base, indices, list(counters))
            case form.Operation(operator=operator, operands=operands):
                return form.Operation(operator, tuple([self.element(operand, counters) for operand in operands]))
            case form.Convert(type=kind, operand=operand):
                return form.Convert(kind, self.element(operand, counters))
            case form.AddressOf(operand=operand) | form.Call(function="copy", arguments=(operand, *_)):
                return self.element(operand, counters)
            case form.Call(function="where", arguments=(condition, true, false)):
                made = [self.element(part, counters) for part in (condition, true, false)]
                return form.Operation("select", tuple(made))
            case form.Call(function="transpose", arguments=(inner,)):
                return self.element(inner, counters[::-1])
            case form.Call(function="cshift", arguments=(inner, shift)):
                return self._shifted(inner, shift, counters)
            case form.Call(function="take", arguments=(base, index)):
                return self.element(form.Subscript(base, (index,)), counters)
            case form.Call(function="zeros" | "empty"):
                return ZERO
            case form.Call(function="ones"):
                return ONE
            case form.Call(function="arange", arguments=(_,)):
                return self._position(counters[0])
            case form.Call(function="arange", arguments=(first, _)):
                return algebra.add(first, self._position(counters[0]))
            case form.Call(function=function, arguments=arguments) if function in ELEMENTWISE:
                return form.Call(function, tuple([self.element(argument, counters) for argument in arguments]))
        raise _NotLoweredError(value.function if isinstance(value, form.Call) else type(value).__name__)

    def _shifted(self, array: form.Expression, shift: form.Expression, counters: Sequence[_Counter]) -> form.Expression:
        """The element of a vector turned by `shift` places."""
        ranges = self.ranges(array)
        if len(ranges) != 1 or ranges[0].step is not None:
            raise _NotLoweredError("cshift of several dimensions")
        moved, extent = algebra.add(self._position(counters[0]), shift), ranges[0].extent
        distance = algebra.constant(algebra.polynomial(shift))
        if distance is None or distance < 0:  # remainders of negative numbers differ between languages
            moved = algebra.add(moved, extent)
        position = form.Operation("%", (moved, extent))
        return self.element(array, [_Counter(algebra.add(ranges[0].first, position), ranges[0])])  # type: ignore[arg-type]

    def _moved(self, own: _Range, counter: _Counter) -> form.Expression:
        if own.extent == ONE and counter.range.extent != ONE:
            return own.first  # one element beside each of the other's
        if own.step == counter.range.step:
            return algebra.add(own.first, algebra.subtract(counter.name, counter.range.first))
        position = self._position(counter)
        if own.step is not None:
            position = algebra.multiply(position, own.step)
        return algebra.add(own.first, position)

    def _subscript_element(
        self,
        value: form.Subscript,
        base: form.Expression,
        indices: tuple[form.Expression, ...],
        counters: list[_Counter],
    ) -> form.Expression:
        ranges = self._subscript_ranges(value, base, indices)
        result: list[form.Expression] = []
        cursor = 0
        fancy: list[_Counter] | None = None
        for index in indices:
            if isinstance(index, form.Section):
                result.append(self._moved(ranges[cursor], counters[cursor]))
                cursor += 1
            elif own := rank(index, self.variables):
                if fancy is None:
                    fancy = counters[cursor : cursor + own]
                    cursor += own
                result.append(self.element(index, fancy))
            else:
                result.append(index)
        while cursor < len(counters):
            result.append(self._moved(ranges[cursor], counters[cursor]))
            cursor += 1
        return form.Subscript(base, tuple(result))

    # Loops and temporaries

    def nest(
        self, counters: Sequence[_Counter], body: tuple[form.Statement, ...], first_contiguous: bool = False
    ) -> form.Statement:
        """Loops over the counters around a body, in the order of memory."""
        inner = body
        for counter in counters if first_contiguous else reversed(counters):
            each = counter.range
            loop = form.Loop(
                self.place, LoopKind.COUNTED, inner, counter.name.name, each.first, each.last, each.step, synthetic=True
            )
            inner = (loop,)
        if len(inner) != 1:
            return form.Branch(self.place, form.Constant(True, Kind.BOOLEAN), inner)
        return inner[0]

    def _first_contiguous(self, target: form.Expression) -> bool:
        base = target.base if isinstance(target, form.Subscript) else target
        while isinstance(base, form.Member) and not isinstance(base.type, form.ArrayType):
            base = base.base
        kind = type_of(base, self.variables)
        return isinstance(kind, form.ArrayType) and kind.first_contiguous

    def scalar(self, kind: Kind, like: form.Expression | None = None) -> form.Name:
        """A new scalar temporary, of the type of a value's elements if that is known."""
        made: form.Type = form.ScalarType(kind, 8 if kind is Kind.INTEGER else 0)
        if like is not None:
            known = element_type(like, self.variables)
            made = known if isinstance(known, form.ScalarType) else made
        return self.fresh.variable("%t", made)

    def array(self, shape: tuple[form.Expression | None, ...], like: form.Expression) -> form.Name:
        """A new array temporary."""
        return self.fresh.variable("%a", form.ArrayType(element_type(like, self.variables), shape, alias=False))

    def named(self, value: form.Expression) -> form.Name:
        """An array value as a name."""
        return value if isinstance(value, form.Name) else self._copied(value, rank(value, self.variables))
