"""Normal shape: loops that count are `COUNTED`, array syntax is loops, induction variables follow the loop's own.

A loop counts if its test compares a value that advances by the same constant in every iteration with one that does not
change inside it. Its own variable stays its variable if it is an integer that is advanced once, at the end; otherwise
(pointers, several variables in the test) a counter from 0 takes its place. Other induction variables are replaced by
their value in terms of the counter and get their last value after the loop.

The module is long for one pass: every rewriting of a loop depends on what the pass found of its variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.records import JumpKind, Kind, LoopKind, Storage
from foretrace.tracer.source.form.types import type_of
from foretrace.tracer.source.form.walk import expressions, names, rebuilt, replaced, statements, within

from . import algebra
from .algebra import Polynomial
from .arrays import without_array_syntax
from .gotos import without_gotos
from .liveness import Liveness, addressed, ends
from .names import Names
from .stores import loads_any, resized_arrays, stored_arrays, without_sizes

ZERO, ONE = form.Constant(0), form.Constant(1)
MOST_UPDATES = 8
"""Updates of one induction variable in one body; with more it is left alone."""

_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def normal(function: form.Function) -> form.Function:
    """The function in normal shape. It computes the same values."""
    function = msgspec.structs.replace(function, body=without_gotos(function.body))
    fresh = Names(function)
    body = without_array_syntax(function, fresh)
    shaped = msgspec.structs.replace(function, body=body, variables=fresh.variables)
    made = _Normalizer(shaped, fresh).body(body)
    return msgspec.structs.replace(shaped, body=tuple(made), variables=fresh.variables)


@dataclass(frozen=True)
class _Induction:
    """A variable that advances by `step` in each iteration."""

    name: str
    step: Polynomial
    updates: tuple[int, ...]
    """Positions in the body of the statements that advance it."""


@dataclass(frozen=True)
class _Count:
    """Trip count of a loop: by its own variable in natural mode, by a counter from 0 otherwise."""

    last: form.Expression
    """The last value of the counter from 0."""
    condition: tuple[form.Expression, ...]
    """Further conditions for an iteration to run."""
    natural: tuple[str, form.Expression, form.Expression | None] | None = None
    """Variable, its last value and its step."""


class _Normalizer:
    def __init__(self, function: form.Function, fresh: Names) -> None:
        self.function = function
        self.fresh = fresh
        self.variables = fresh.variables
        self.live = Liveness(function)

    def body(self, body: Sequence[form.Statement]) -> list[form.Statement]:
        made: list[form.Statement] = []
        for statement in body:
            match statement:
                case form.Loop():
                    made.extend(self.loop(statement, made))
                case form.Branch(body=inner, otherwise=otherwise):
                    made.append(
                        msgspec.structs.replace(
                            statement, body=tuple(self.body(inner)), otherwise=tuple(self.body(otherwise))
                        )
                    )
                case _:
                    made.append(statement)
        return made

    def loop(self, loop: form.Loop, before: list[form.Statement]) -> list[form.Statement]:
        """A loop in normal shape, with the statements needed before and after it."""
        body = without_continue(self.body(loop.body))
        after = self.live.after.get(id(loop), frozenset()) | self.live.lasting
        if any(isinstance(part, form.Target) for part in statements(body)):
            return [msgspec.structs.replace(loop, body=tuple(body))]
        match loop.kind:
            case LoopKind.COUNTED:
                return self._counted(loop, body, after)
            case LoopKind.CONDITIONAL if loop.condition is not None:
                made = self._tested(loop, [], [loop.condition], body, after, before)
            case LoopKind.TRAILING if loop.condition is not None:
                made = self._trailing(loop, loop.condition, body, after, before)
            case LoopKind.ENDLESS:
                made = self._endless(loop, body, after, before)
            case _:
                made = None
        return made if made is not None else self._numbered(loop, body, after)

    # Kinds of loops

    def _counted(self, loop: form.Loop, body: list[form.Statement], after: frozenset[str]) -> list[form.Statement]:
        assert loop.first is not None
        assert loop.last is not None
        made: list[form.Statement] = []
        assigned = self.live.body(body).assigned | {loop.variable}
        stored, resized = stored_arrays(body), resized_arrays(body, self.variables)
        bounds: list[form.Expression | None] = []
        for bound in (loop.first, loop.last, loop.step):
            if bound is not None and (
                names(bound) & assigned or loads_any(without_sizes(bound, resized), stored)
            ):  # fmt: skip
                frozen = self.fresh.variable("%bound", type_of(bound, self.variables))
                made.append(form.Assign(head(loop), frozen, bound))
                bound = frozen
            bounds.append(bound)
        first, last, step = bounds
        assert first is not None
        assert last is not None
        loop = msgspec.structs.replace(loop, first=first, last=last, step=step, body=tuple(body))
        inductions = self.inductions(body, assigned)
        if not inductions:
            return [*made, loop]
        stride = integer(step) if step is not None else 1
        if stride is None or any(not _divisible(each.step, stride) for each in inductions):
            if stride is None:
                return [*made, loop]
            counter = self.fresh.counter(f"%{loop.variable.lstrip('%')}")
            limit = _quotient(algebra.subtract(last, first), stride)
            value = algebra.add(first, algebra.multiply(counter, form.Constant(stride)))
            placed = [form.Assign(head(loop), form.Name(loop.variable), value), *body]
            shifted = [replace(each, updates=tuple(p + 1 for p in each.updates)) for each in inductions]
            zero_based = msgspec.structs.replace(loop, variable=counter.name, first=ZERO, last=limit, step=None)
            return [*made, *self.replaced(zero_based, placed, shifted, {(counter,): 1}, limit, after, [])]
        position = algebra.plus(algebra.polynomial(form.Name(loop.variable)), algebra.polynomial(first), -1)
        span = algebra.subtract(last, first)
        limit = _quotient(span, stride)
        return [*made, *self.replaced(loop, body, inductions, position, limit, after, [], stride)]

    def _numbered(self, loop: form.Loop, body: list[form.Statement], after: frozenset[str]) -> list[form.Statement]:
        """A loop of unknown trip count; its induction variables are expressed by the iteration number."""
        plain = msgspec.structs.replace(loop, body=tuple(body))
        if loop.kind is LoopKind.UNKNOWN or loop.variable:
            return [plain]
        found = self.inductions(body, self.live.body(body).assigned)
        inductions = [each for each in found if each.name not in after]
        if not inductions:
            return [plain]
        counter = self.fresh.counter(f"%{inductions[0].name.lstrip('%')}")
        numbered = msgspec.structs.replace(loop, variable=counter.name)
        made = self.replaced(numbered, body, inductions, {(counter,): 1}, ZERO, after, [])
        before, whole = made[: len(inductions)], made[len(inductions)]
        assert isinstance(whole, form.Loop)
        if loop.condition is not None:
            tested: Polynomial = {(counter,): 1}
            if loop.kind is LoopKind.TRAILING:
                tested[()] = 1
            values: dict[str, form.Expression] = {}
            for each, start in zip(inductions, before, strict=True):
                assert isinstance(start, form.Assign)
                current = algebra.plus({(start.target,): 1}, algebra.times(each.step, tested))
                values[each.name] = algebra.expression(current)
            whole = msgspec.structs.replace(whole, condition=replaced(loop.condition, values))
        return [*before, whole]

    def _endless(
        self, loop: form.Loop, body: list[form.Statement], after: frozenset[str], before: list[form.Statement]
    ) -> list[form.Statement] | None:
        for position, statement in enumerate(body):
            if isinstance(statement, form.Branch):
                condition = _leaves(statement, loop.label)
                if condition is None:
                    break
                rest = [*statement.otherwise, *body[position + 1 :]]
                if _breaks(statement.otherwise):
                    rest = [*statement.body, *body[position + 1 :]]
                return self._tested(loop, body[:position], [condition], rest, after, before)
            if not (isinstance(statement, form.Assign) and isinstance(statement.target, form.Name)):
                break
            if isinstance(statement.value, form.Call) and not statement.value.pure:
                break
        if body and isinstance(body[-1], form.Branch):
            condition = _leaves(body[-1], loop.label)
            other = body[-1].otherwise if _breaks(body[-1].body) else body[-1].body
            if condition is not None and not other:
                return self._trailing(loop, condition, body[:-1], after, before)
        return None

    def _tested(
        self,
        loop: form.Loop,
        prefix: list[form.Statement],
        conditions: list[form.Expression],
        rest: list[form.Statement],
        after: frozenset[str],
        before: list[form.Statement],
    ) -> list[form.Statement] | None:
        """A loop whose test follows `prefix`, at the top of each iteration."""
        body = [*prefix, *rest]
        summary = self.live.body(body)
        inductions = self.inductions(body, summary.assigned)
        if not inductions:
            return None
        known = self._offsets(prefix, inductions, summary.assigned)
        if known is None:
            return None
        exits = leaves(rest, loop.label)
        if exits and prefix and summary.assigned & after:
            return None
        count = self._count(conditions[0], inductions, known, body, summary.assigned, shifted=False)
        if count is None:
            return None
        if count.condition:
            test = count.condition[0]
            for more in count.condition[1:]:
                test = form.Operation("and", (test, more))
            if prefix and summary.assigned & after:
                return None
            jump = form.Jump(head(loop), JumpKind.BREAK)
            guard = form.Branch(head(loop), form.Operation("not", (test,)), (jump,))
            body = [*prefix, guard, *rest]
            inductions = self.inductions(body, summary.assigned)
            exits = True
        return self._emitted(loop, body, inductions, count, prefix, after, before, exits)

    def _trailing(
        self,
        loop: form.Loop,
        condition: form.Expression,
        body: list[form.Statement],
        after: frozenset[str],
        before: list[form.Statement],
    ) -> list[form.Statement] | None:
        assigned = self.live.body(body).assigned
        inductions = self.inductions(body, assigned)
        if not inductions:
            return None
        count = self._count(condition, inductions, {}, body, assigned, shifted=True)
        if count is None or count.condition:
            return None
        natural = count.natural
        if natural is not None:
            function = "max" if (integer(natural[2]) or 1) > 0 else "min" if natural[2] is not None else "max"
            least = form.Call(function, (form.Name(natural[0]), natural[1]))
            natural = (natural[0], least, natural[2])
        count = _Count(form.Call("max", (count.last, ZERO)), (), natural)
        return self._emitted(loop, body, inductions, count, [], after, before, leaves(body, loop.label))

    def _emitted(
        self,
        loop: form.Loop,
        body: list[form.Statement],
        inductions: list[_Induction],
        count: _Count,
        prefix: list[form.Statement],
        after: frozenset[str],
        before: list[form.Statement],
        exits: bool,
    ) -> list[form.Statement]:
        assigned = self.live.body(body).assigned
        made: list[form.Statement] = []
        if count.natural is not None:
            name, last, step = count.natural
            own = next(each for each in inductions if each.name == name)
            others = [each for each in inductions if each is not own]
            stride = integer(step) if step is not None else 1
            once = len(own.updates) == 1
            fits = not others or (stride is not None and all(_divisible(each.step, stride) for each in others))
            first, start = self._initial(name, last, before, assigned, loop)
            known = self.variables.get(name)
            named = not start or (known is not None and known.storage is Storage.LOCAL)
            if named and once and not prefix and fits and not (exits and name in after):
                made += start
                last = rebuilt(last, lambda part: first if part == form.Name(name) else part)
                counted = form.Loop(
                    loop.place, LoopKind.COUNTED, (), name, first, last, step,
                    unordered=loop.unordered, synthetic=loop.synthetic, label=loop.label,
                )  # fmt: skip
                position = algebra.plus(algebra.polynomial(form.Name(name)), algebra.polynomial(first), -1)
                limit = _quotient(algebra.subtract(last, first), stride) if stride is not None else ZERO
                at = own.updates[0]
                moved = {name: algebra.expression(algebra.plus({(form.Name(name),): 1}, own.step))}
                inner = [*body[:at], *(with_names(statement, moved) for statement in body[at + 1 :])]
                others = [
                    replace(each, updates=tuple(position - (position > at) for position in each.updates))
                    for each in others
                ]
                made += self.replaced(counted, inner, others, position, limit, after, [], stride or 1)
                if name in after:
                    made.append(form.Assign(head(loop), form.Name(name), _final(first, last, step, stride)))
                return made
        counter = self.fresh.counter(f"%{inductions[0].name.lstrip('%')}")
        frozen = form.Loop(
            loop.place, LoopKind.COUNTED, (), counter.name, ZERO, count.last,
            unordered=loop.unordered, synthetic=loop.synthetic, label=loop.label,
        )  # fmt: skip
        limit = self.fresh.counter("%bound")
        made.append(form.Assign(head(loop), limit, count.last))
        frozen = msgspec.structs.replace(frozen, last=limit)
        return [*made, *self.replaced(frozen, body, inductions, {(counter,): 1}, limit, after, prefix)]

    def _initial(
        self,
        name: str,
        last: form.Expression,
        before: list[form.Statement],
        assigned: frozenset[str],
        loop: form.Loop,
    ) -> tuple[form.Expression, list[form.Statement]]:
        """The loop variable's first value: as the statement before the loop gives it, or a copy of the variable."""
        previous = before[-1] if before else None
        if isinstance(previous, form.Assign) and previous.target == form.Name(name):
            value = previous.value
            pure = not (isinstance(value, form.Call) and not value.pure)
            if pure and not names(value) & (assigned | {name}) and not _loads(value):
                return value, []
        copy = self.fresh.variable(f"%{name.lstrip('%')}_first", type_of(form.Name(name), self.variables))
        return copy, [form.Assign(head(loop), copy, form.Name(name))]

    # Induction variables

    def inductions(self, body: Sequence[form.Statement], assigned: frozenset[str]) -> list[_Induction]:
        """The variables that advance by the same amount in each iteration, in the order of their first update."""
        writes: dict[str, int] = {}
        reads_only = frozenset[str]()
        for statement in statements(body):
            match statement:
                case form.Assign(target=form.Name(name=name)):
                    writes[name] = writes.get(name, 0) + 1
                    if isinstance(statement.value, form.Call) and not statement.value.pure:
                        reads_only |= self.live.lasting
                case form.Loop(variable=name) if name:
                    writes[name] = writes.get(name, 0) + MOST_UPDATES
                case form.Evaluate() | form.Opaque():
                    reads_only |= self.live.of(statement).assigned
                case form.Assign() if isinstance(statement.value, form.Call) and not statement.value.pure:
                    reads_only |= self.live.lasting
        top: dict[str, list[int]] = {}
        for position, statement in enumerate(body):
            if isinstance(statement, form.Assign) and isinstance(statement.target, form.Name):
                top.setdefault(statement.target.name, []).append(position)
        found: list[_Induction] = []
        copies: dict[str, form.Expression] = {}
        for name, positions in top.items():
            if len(positions) != writes.get(name) or len(positions) > MOST_UPDATES or name in reads_only:
                continue
            if any(not self._advances(body[position]) for position in positions):
                if name.startswith("%") and len(positions) == 1:
                    value = body[positions[0]]
                    assert isinstance(value, form.Assign)
                    copies[name] = value.value
                continue
            step = self._step(name, [body[position] for position in positions], assigned, copies)
            if step:
                found.append(_Induction(name, step, tuple(positions)))
        found.sort(key=lambda each: each.updates)
        return found

    def _advances(self, statement: form.Statement) -> bool:
        if not isinstance(statement, form.Assign) or not isinstance(statement.target, form.Name):
            return False
        value = statement.value
        if isinstance(value, form.AddressOf) and isinstance(value.operand, form.Subscript):
            return value.operand.base == statement.target
        return isinstance(value, (form.Operation, form.Convert))

    def _step(
        self,
        name: str,
        updates: Sequence[form.Statement],
        assigned: frozenset[str],
        copies: dict[str, form.Expression],
    ) -> Polynomial:
        """Step of a variable, summed over all its updates; empty: its step is not constant."""
        kind = type_of(form.Name(name), self.variables)
        if isinstance(kind, form.ScalarType):
            if kind.kind not in (Kind.INTEGER, Kind.UNKNOWN):
                return {}
        elif not isinstance(kind, form.PointerType):
            return {}
        total: Polynomial = {}
        own: Polynomial = {(form.Name(name),): 1}
        for update in updates:
            assert isinstance(update, form.Assign)
            value = update.value
            if isinstance(value, form.Convert) and isinstance(value.type, form.ScalarType):
                value = value.operand if value.type.kind is Kind.INTEGER else value
            if isinstance(value, form.AddressOf) and isinstance(value.operand, form.Subscript):
                if len(value.operand.indices) != 1:
                    return {}
                value = form.Operation("+", (value.operand.base, value.operand.indices[0]))
            value = rebuilt(value, lambda part: copies.get(part.name, part) if isinstance(part, form.Name) else part)
            step = algebra.plus(algebra.polynomial(value), own, -1)
            for product in step:
                for atom in product:
                    if names(atom) & assigned or not self._integer(atom):
                        return {}
            if kind == form.ScalarType(Kind.UNKNOWN) and algebra.constant(step) is None:
                return {}
            total = algebra.plus(total, step)
        return total

    def _integer(self, atom: form.Expression) -> bool:
        if isinstance(atom, form.Call) and atom.function in ("max", "min", "size"):
            return all(
                self._integer_terms(argument) for argument in atom.arguments if atom.function != "size"
            )  # fmt: skip
        kind = type_of(atom, self.variables)
        return isinstance(atom, form.Name) and isinstance(kind, form.ScalarType) and kind.kind is Kind.INTEGER

    def _integer_terms(self, value: form.Expression) -> bool:
        return all(self._integer(atom) for product in algebra.polynomial(value) for atom in product)

    def _offsets(
        self, prefix: list[form.Statement], inductions: list[_Induction], assigned: frozenset[str]
    ) -> dict[str, form.Expression] | None:
        """Values at the end of `prefix` in terms of values at the start of the iteration."""
        known: dict[str, form.Expression] = {}
        for statement in prefix:
            if not isinstance(statement, form.Assign) or not isinstance(statement.target, form.Name):
                return None
            known[statement.target.name] = rebuilt(
                statement.value, lambda part: known.get(part.name, part) if isinstance(part, form.Name) else part
            )
        return known

    # Tests

    def _count(
        self,
        condition: form.Expression,
        inductions: list[_Induction],
        known: dict[str, form.Expression],
        body: Sequence[form.Statement],
        assigned: frozenset[str],
        *,
        shifted: bool,
    ) -> _Count | None:
        """Trip count of a loop with this condition. `shifted`: the condition is tested after the body."""
        parts = conjuncts(condition)
        fixed = _directly_assigned(body)
        stored, resized = stored_arrays(body), resized_arrays(body, self.variables)
        for position, part in enumerate(parts):
            seen = rebuilt(part, lambda each: known.get(each.name, each) if isinstance(each, form.Name) else each)
            if loads_any(without_sizes(seen, resized), stored):
                continue
            count = self._relation(seen, inductions, fixed, shifted=shifted)
            if count is not None:
                others = tuple(parts[:position] + parts[position + 1 :])
                return _Count(count.last, others, None if others and shifted else count.natural)
        return None

    def _relation(
        self, condition: form.Expression, inductions: list[_Induction], assigned: frozenset[str], *, shifted: bool
    ) -> _Count | None:
        if isinstance(condition, form.Operation) and condition.operator == "not":
            inner = condition.operands[0]
            if isinstance(inner, form.Operation) and inner.operator in _NEGATED:
                condition = form.Operation(_NEGATED[inner.operator], inner.operands)
        operator, left = "!=", condition
        right: form.Expression = ZERO
        if isinstance(condition, form.Operation) and condition.operator in _NEGATED:
            operator = condition.operator
            left, right = condition.operands
        elif not isinstance(condition, form.Name):
            return None
        if operator == "==":
            return None
        terms = algebra.plus(algebra.polynomial(left), algebra.polynomial(right), -1)
        steps = {each.name: each for each in inductions}
        start: Polynomial = {}
        stride: Polynomial = {}
        involved: list[_Induction] = []
        for product, factor in terms.items():
            own = [atom for atom in product if isinstance(atom, form.Name) and atom.name in steps]
            if len(own) > 1 or (own and len(product) > 1):
                return None
            if own:
                induction = steps[own[0].name]
                involved.append(induction)
                stride = algebra.plus(stride, induction.step, factor)
            elif any(names(atom) & assigned for atom in product):
                return None
            start = algebra.plus(start, {product: factor})
        amount = algebra.constant(stride)
        if not involved:
            return None
        if amount is None:
            return self._symbolic(operator, terms, involved) if not shifted else None
        if amount == 0:
            return None
        down = {"<": 1, "<=": 0, "!=": 1, ">": 1, ">=": 0}[operator]
        if (operator in ("<", "<=") and amount < 0) or (operator in (">", ">=") and amount > 0):
            return None
        sign = -1 if amount > 0 else 1
        distance = algebra.plus(algebra.scaled(start, sign), {(): -down} if down else {})
        last = _quotient(algebra.expression(distance), abs(amount))
        natural = None
        if len(involved) == 1 and len(start) >= 1:
            name = form.Name(involved[0].name)
            factor = terms.get((name,), 0)
            kind = type_of(name, self.variables)
            step = algebra.constant(involved[0].step)
            if abs(factor) == 1 and isinstance(kind, form.ScalarType) and step is not None:
                bound = algebra.scaled({key: value for key, value in terms.items() if key != (name,)}, -factor)
                bound = algebra.plus(bound, {(): 1}, -down if step > 0 else down)
                natural = (name.name, algebra.expression(bound), form.Constant(step) if step != 1 else None)
        return _Count(last, (), natural)

    def _symbolic(self, operator: str, terms: Polynomial, involved: list[_Induction]) -> _Count | None:
        """A step that is not a number: its sign is that which lets the loop end."""
        if len(involved) != 1:
            return None
        name = form.Name(involved[0].name)
        factor = terms.get((name,), 0)
        if abs(factor) != 1 or operator == "!=":
            return None
        if not isinstance(type_of(name, self.variables), form.ScalarType):
            return None
        up = (operator in ("<", "<=")) == (factor > 0)
        bound = algebra.scaled({key: value for key, value in terms.items() if key != (name,)}, -factor)
        if operator in ("<", ">"):
            bound = algebra.plus(bound, {(): 1}, -1 if up else 1)
        step = algebra.expression(involved[0].step)
        last = algebra.expression(bound)
        span = form.Operation("//", (algebra.subtract(last, name), step))
        return _Count(span, (), (name.name, last, step))

    # Replacing induction variables

    def replaced(
        self,
        loop: form.Loop,
        body: Sequence[form.Statement],
        inductions: list[_Induction],
        position: Polynomial,
        limit: form.Expression,
        after: frozenset[str],
        prefix: list[form.Statement],
        stride: int = 1,
    ) -> list[form.Statement]:
        """A counted loop whose other induction variables are functions of its own; `position` counts from 0."""
        before: list[form.Statement] = []
        behind: list[form.Statement] = []
        values: dict[str, Polynomial] = {}
        kept: list[form.Statement] = []
        drops: dict[int, _Induction] = {}
        exits = leaves(body, loop.label)
        place = head(loop)
        for each in inductions:
            name = form.Name(each.name)
            first = self.fresh.variable(f"%{each.name.lstrip('%')}_first", type_of(name, self.variables))
            before.append(form.Assign(place, first, name))
            step = each.step if stride == 1 else {product: factor // stride for product, factor in each.step.items()}
            current = algebra.plus({(first,): 1}, algebra.times(step, position))
            if exits and each.name in after:
                kept.append(form.Assign(place, name, algebra.expression(current)))
                continue
            values[each.name] = current
            for update in each.updates:
                drops[update] = each
            trips = algebra.polynomial(form.Call("max", (algebra.add(limit, ONE), ZERO)))
            total = algebra.constant(algebra.polynomial(limit))
            if total is not None:
                trips = {(): max(total + 1, 0)} if total + 1 > 0 else {}
            final = algebra.expression(algebra.plus({(first,): 1}, algebra.times(each.step, trips)))
            behind.append(form.Assign(place, name, final))
        inner: list[form.Statement] = kept
        for number, statement in enumerate(body):
            induction = drops.get(number)
            if induction is not None:
                assert isinstance(statement, form.Assign)
                own: Polynomial = {(form.Name(induction.name),): 1}
                value = statement.value
                if isinstance(value, form.AddressOf) and isinstance(value.operand, form.Subscript):
                    value = form.Operation("+", (value.operand.base, value.operand.indices[0]))
                if isinstance(value, form.Convert):
                    value = value.operand
                amount = algebra.plus(algebra.polynomial(value), own, -1)
                if len(induction.updates) == 1:
                    amount = induction.step
                values[induction.name] = algebra.plus(values[induction.name], amount)
                continue
            now = {name: algebra.expression(value) for name, value in values.items()}
            inner.append(with_names(statement, now) if now else statement)
        made = msgspec.structs.replace(loop, body=tuple(inner))
        return [*before, made, *behind, *prefix]


def head(loop: form.Loop) -> form.Place:
    """The place of a loop's first line."""
    return form.Place(loop.place.line, loop.place.column, file=loop.place.file)


def with_names(statement: form.Statement, values: dict[str, form.Expression]) -> form.Statement:
    """A statement with names replaced where they are read, in its inner statements too."""

    def change(part: form.Expression) -> form.Expression:
        return values.get(part.name, part) if isinstance(part, form.Name) else part

    def simple(whole: form.Expression) -> form.Expression:
        return rebuilt(whole, change)

    match statement:
        case form.Assign(target=target, value=value):
            if not isinstance(target, form.Name):
                target = simple(target)
            return form.Assign(statement.place, target, simple(value), statement.atomic)
        case form.Evaluate(call=call):
            changed = simple(call)
            assert isinstance(changed, form.Call)
            return form.Evaluate(statement.place, changed)
        case form.Branch(condition=condition, body=body, otherwise=otherwise):
            return form.Branch(
                statement.place, simple(condition),
                tuple([with_names(part, values) for part in body]),
                tuple([with_names(part, values) for part in otherwise]),
            )  # fmt: skip
        case form.Loop():
            parts = {
                key: simple(part)
                for key in ("first", "last", "step", "condition")
                if (part := getattr(statement, key)) is not None
            }
            body = tuple([with_names(part, values) for part in statement.body])
            return msgspec.structs.replace(statement, body=body, **parts)
        case form.Jump(value=value) if value is not None:
            return msgspec.structs.replace(statement, value=simple(value))
        case form.Opaque(reads=reads, writes=writes):
            return msgspec.structs.replace(
                statement, reads=tuple(map(simple, reads)),
                writes=tuple(part if isinstance(part, form.Name) else simple(part) for part in writes),
            )  # fmt: skip
    return statement


def without_continue(body: Sequence[form.Statement]) -> list[form.Statement]:
    """A loop's body with `continue` at the end of a branch's arm turned into the branch's other arm."""
    made: list[form.Statement] = []
    for position, statement in enumerate(body):
        if isinstance(statement, form.Jump):
            made.append(statement)
            if statement.kind is JumpKind.CONTINUE and not statement.label:
                made.pop()
            return made
        if isinstance(statement, form.Branch):
            for arm, other, flipped in (
                (statement.body, statement.otherwise, False), (statement.otherwise, statement.body, True)
            ):  # fmt: skip
                if arm and arm[-1] == form.Jump(arm[-1].place, JumpKind.CONTINUE) and not ends(other):
                    rest = without_continue([*other, *body[position + 1 :]])
                    kept = without_continue(arm[:-1])
                    tail: list[form.Statement] = []
                    while kept and rest and _alike(kept[-1], rest[-1]):
                        tail.insert(0, rest[-1])
                        kept, rest = kept[:-1], rest[:-1]
                    one, two = (tuple(rest), tuple(kept)) if flipped else (tuple(kept), tuple(rest))
                    if one or two:
                        made.append(_branch(statement, one, two))
                    return [*made, *tail]
        made.append(statement)
    return made


def _branch(statement: form.Branch, one: tuple[form.Statement, ...], two: tuple[form.Statement, ...]) -> form.Branch:
    if one:
        return form.Branch(statement.place, statement.condition, one, two)
    return form.Branch(statement.place, negated(statement.condition), two)


def _alike(one: form.Statement, other: form.Statement) -> bool:
    return (
        isinstance(one, form.Assign) and isinstance(other, form.Assign)
        and one.target == other.target and one.value == other.value
    )  # fmt: skip


def negated(condition: form.Expression) -> form.Expression:
    """Negation of a condition; `<` does not become `>=`, as neither holds for a NaN."""
    if isinstance(condition, form.Operation):
        if condition.operator in ("==", "!="):
            return form.Operation(_NEGATED[condition.operator], condition.operands)
        if condition.operator == "not":
            return condition.operands[0]
        if condition.operator in ("and", "or"):
            other = "or" if condition.operator == "and" else "and"
            return form.Operation(other, tuple(map(negated, condition.operands)))
    return form.Operation("not", (condition,))


def conjuncts(condition: form.Expression) -> list[form.Expression]:
    """The conditions that all hold where this one does."""
    if isinstance(condition, form.Operation):
        if condition.operator == "and":
            return [part for operand in condition.operands for part in conjuncts(operand)]
        if condition.operator == "not":
            inner = condition.operands[0]
            if isinstance(inner, form.Operation) and inner.operator in ("not", "or"):
                return conjuncts(negated(inner))
    return [condition]


def _breaks(body: Sequence[form.Statement]) -> bool:
    return len(body) == 1 and isinstance(body[0], form.Jump) and body[0].kind is JumpKind.BREAK and not body[0].label


def _leaves(statement: form.Branch, label: str) -> form.Expression | None:
    """The condition to stay in a loop, if the statement is its exit test."""
    if _breaks(statement.body):
        return negated(statement.condition)
    return statement.condition if _breaks(statement.otherwise) else None


def leaves(body: Sequence[form.Statement], label: str = "") -> bool:
    """Whether a jump may leave the loop around a body before its last iteration."""
    return _jumps_out(body, label, own=True)


def _jumps_out(body: Sequence[form.Statement], label: str, *, own: bool) -> bool:
    for statement in body:
        match statement:
            case form.Jump(kind=kind, label=target):
                if kind in (JumpKind.RETURN, JumpKind.GOTO):
                    return True
                if kind is JumpKind.BREAK and (own if not target else target == label or not _inside(target)):
                    return True
                if kind is JumpKind.CONTINUE and target and target != label:
                    return True
            case form.Loop(body=inner):
                if _jumps_out(inner, label, own=False):
                    return True
            case form.Branch(body=inner, otherwise=otherwise):
                if _jumps_out(inner, label, own=own) or _jumps_out(otherwise, label, own=own):
                    return True
    return False


def _inside(target: str) -> bool:
    """A labelled jump may lead past any loop around it."""
    return False


def _loads(expression: form.Expression) -> bool:
    return any(isinstance(part, (form.Subscript, form.Member)) for part in within(expression))


def _directly_assigned(body: Sequence[form.Statement]) -> frozenset[str]:
    """Names that statements of a body assign, not those that its calls might."""
    found: set[str] = set()
    for statement in statements(body):
        match statement:
            case form.Assign(target=form.Name(name=name)) | form.Loop(variable=name) if name:
                found.add(name)
            case form.Opaque(writes=writes):
                found |= {name for part in writes for name in names(part)}
            case form.Evaluate(call=call):
                found |= addressed(call)
        if isinstance(statement, form.Assign) and isinstance(statement.value, form.Call):
            found |= addressed(statement.value)
    return frozenset(found)


def integer(value: form.Expression | None) -> int | None:
    """The value of an integer constant."""
    return value.value if isinstance(value, form.Constant) and type(value.value) is int else None


def _divisible(step: Polynomial, stride: int) -> bool:
    return all(factor % stride == 0 for factor in step.values())


def _quotient(value: form.Expression, divisor: int) -> form.Expression:
    """`value // divisor`, rounded down; the divisor may be negative."""
    if divisor < 0:
        value, divisor = algebra.subtract(ZERO, value), -divisor
    if divisor == 1:
        return value
    known = algebra.constant(algebra.polynomial(value))
    if known is not None:
        return form.Constant(known // divisor)
    return form.Operation("//", (value, form.Constant(divisor)))


def _final(
    first: form.Expression, last: form.Expression, step: form.Expression | None, stride: int | None
) -> form.Expression:
    """A loop variable's value after the loop."""
    if stride is None:
        assert step is not None
        trips: form.Expression = form.Operation("+", (form.Operation("//", (algebra.subtract(last, first), step)), ONE))
        amount = step
    else:
        if abs(stride) == 1:
            end = algebra.add(last, form.Constant(stride))
            one, other = integer(first), integer(end)
            if one is not None and other is not None:
                return form.Constant(max(one, other) if stride > 0 else min(one, other))
            return form.Call("max" if stride > 0 else "min", (end, first))
        trips = algebra.add(_quotient(algebra.subtract(last, first), stride), ONE)
        amount = form.Constant(stride)
    return algebra.add(first, form.Operation("*", (amount, form.Call("max", (trips, ZERO)))))


__all__ = ["conjuncts", "expressions", "leaves", "normal"]
