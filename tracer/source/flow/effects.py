"""Effects of an iteration of each loop, with temporaries resolved.

One walk over a function in normal shape. `env` holds, for scalars and pointers assigned so far, their values in terms
of the values at the innermost iteration's start. A value leaves `env`, and its variable stands for itself again, where

- the loop about to start, or just finished, assigns the variable or one that the value names,
- a store may change an element that the value loads,
- a call or opaque statement may change what it names or loads,
- it has more than `MOST_NODES` parts.

Two accesses may touch the same memory only if the names at their roots are equal, after copies of pointers have been
resolved. Different names are taken to be different arrays; the dependence test lists what it assumes of pointers.

The module is long for one walk, which has a method for each kind of statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import is_

import msgspec

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.records import JumpKind, Kind, LoopKind, Storage
from foretrace.tracer.source.form.types import Variables, rank, type_of
from foretrace.tracer.source.form.walk import names, rebuilt, statements, within

from . import algebra
from .liveness import Liveness, addressed
from .normal import leaves, negated
from .records import Access, Effect, LoopFacts
from .stores import (
    Arrays,
    loaded,
    loads_any,
    moved_pointers,
    overlaps,
    reached,
    resized_arrays,
    stored_arrays,
    without_sizes,
)
from .subscripts import Scope, access, array_name, loads

MOST_NODES = 150
"""Larger values are not substituted: the variable stays, and its assignment is an effect."""

MOST_CONDITIONS = 40


def facts(function: form.Function) -> tuple[LoopFacts, ...]:
    """The facts of all loops of a function in normal shape, in the order of the source, outer loops first."""
    try:
        return _Flow(function).run()
    except RecursionError:
        return ()


@dataclass(slots=True)
class _Raw:
    """A statement's effect before it is known which loops keep it."""

    target: form.Expression
    value: form.Expression
    conditions: tuple[form.Expression, ...]
    nest: tuple[form.Loop, ...]
    place: form.Place
    atomic: bool
    scalar: str
    """Name of the scalar it assigns; "": it stores to memory."""
    reads: frozenset[str]
    whole: bool = False
    scope: Scope | None = None
    known: bool = False
    """The scalar's value before the assignment was known, so that its readers have that value instead of its name."""
    made: Effect | None = None

    def effect(self) -> Effect:
        """The effect's record, made when it is first asked for."""
        if self.made is None:
            scope = self.scope
            assert scope is not None
            read: list[Access] = []
            if not self.scalar and not self.whole:
                target = self.target
                while isinstance(target, form.Member):
                    target = target.base
                if isinstance(target, form.Subscript):
                    for part in target.indices:
                        read.extend(loads(part, scope, self.place))
                    if isinstance(target.base, form.Subscript):
                        read.extend(loads(target.base, scope, self.place))
            for condition in self.conditions:
                read.extend(loads(condition, scope, self.place))
            read.extend(loads(self.value, scope, self.place))
            store = None
            if not self.scalar:
                store = access(self.target, scope, self.place, store=True, whole=self.whole)
            self.made = Effect(
                self.target, self.value, self.conditions, self.nest, self.place, store, tuple(read), self.atomic
            )
        return self.made


@dataclass(slots=True)
class _Open:
    """A loop being walked."""

    loop: form.Loop
    varying: frozenset[str]
    counters: frozenset[str]


@dataclass(slots=True)
class _Flow:
    function: form.Function
    env: dict[str, form.Expression] = field(default_factory=dict)
    raw: list[_Raw] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    conditions: tuple[form.Expression, ...] = ()
    nest: tuple[form.Loop, ...] = ()
    open: list[_Open] = field(default_factory=list)
    scope: Scope | None = None
    live: Liveness = field(init=False)
    found: list[LoopFacts | None] = field(default_factory=list)
    jump_reads: list[frozenset[str]] = field(default_factory=list)
    assigned_once: frozenset[str] = frozenset()
    """Local scalars that only one statement assigns: they hold that value for their lifetime."""
    _sizes: dict[int, tuple[form.Expression, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.live = Liveness(self.function)
        self.assigned_once = _assigned_once(self.function)

    def run(self) -> tuple[LoopFacts, ...]:
        self.block(self.function.body)
        return tuple(each for each in self.found if each is not None)

    # Values

    def resolved(self, expression: form.Expression) -> form.Expression:
        """An expression with variables replaced by their values, and accesses through copies by direct ones."""
        return rebuilt(expression, self._resolve_part)

    def _resolve_part(self, part: form.Expression) -> form.Expression:
        if isinstance(part, form.Name):
            return self.env.get(part.name, part)
        if isinstance(part, form.Subscript):
            return self._direct(part)
        if isinstance(part, form.Convert):
            return self._converted(part)
        return part

    def _converted(self, part: form.Convert) -> form.Expression:
        """An expression without conversions between integers, none of which is taken to overflow."""
        if isinstance(part.type, form.ScalarType) and part.type.kind is Kind.INTEGER:
            kind = type_of(part.operand, self.function.variables)
            if isinstance(kind, form.ScalarType) and kind.kind is Kind.INTEGER:
                return part.operand
        return part

    def _direct(self, part: form.Subscript) -> form.Expression:
        """A subscript of an address, a moved pointer or a row, as a subscript of the underlying array."""
        base, indices = part.base, part.indices
        if not indices:
            return part
        for _ in range(8):
            made = self._once(base, indices)
            if made is None:
                break
            if not isinstance(made, form.Subscript):
                return made
            base, indices = made.base, made.indices
        simple = tuple([self._ran(algebra.simplified(index)) for index in indices])
        if base is part.base and all(map(is_, simple, part.indices)):
            return part
        return form.Subscript(base, simple)

    def _ran(self, index: form.Expression) -> form.Expression:
        """An index with `max(n, 0)` as n inside a loop that runs n times."""
        if not any(isinstance(part, form.Call) and part.function == "max" for part in within(index)):
            return index

        def change(part: form.Expression) -> form.Expression:
            match part:
                case form.Call(function="max", arguments=(value, form.Constant(value=0))):
                    for loop in self.nest:
                        if loop.kind is LoopKind.COUNTED and loop.step is None and loop.last is not None:
                            assert loop.first is not None
                            trips = algebra.subtract(loop.last, loop.first)
                            if algebra.difference(value, trips) == 1:
                                return value
            return part

        return algebra.simplified(rebuilt(index, change))

    def _once(self, base: form.Expression, indices: tuple[form.Expression, ...]) -> form.Expression | None:
        variables = self.function.variables
        match base:
            case form.AddressOf(operand=form.Subscript(base=inner, indices=at)):
                filled = _filled(at, indices)
                if filled is not None:
                    return form.Subscript(inner, filled)
                moved = algebra.add(at[-1], indices[0])
                return form.Subscript(inner, (*at[:-1], moved, *indices[1:]))
            case (
                form.AddressOf(operand=form.Call(function="transpose", arguments=(inner,)))
                | form.Call(function="transpose", arguments=(inner,))
            ):
                return form.Subscript(inner, indices[::-1]) if rank(inner, variables) == len(indices) else None
            case form.AddressOf(operand=form.Name() as name):
                if isinstance(type_of(name, variables), (form.ArrayType, form.PointerType)):
                    return form.Subscript(name, indices)
                if indices == (form.Constant(0),):
                    return self.env.get(name.name, name)
                return form.Subscript(name, indices) if rank(base, variables) else None
            case form.AddressOf(operand=form.Member() as member):
                return member if indices == (form.Constant(0),) else form.Subscript(member, indices)
            case form.Operation(operator="+" | "-"):
                return self._moved(base, indices)
            case form.Convert(type=form.PointerType(element=element), operand=operand):
                kind = type_of(operand, variables)
                if isinstance(kind, (form.PointerType, form.ArrayType)) and kind.element == element:
                    return form.Subscript(operand, indices)
            case form.Subscript(base=inner, indices=at):
                if isinstance(type_of(base, variables), form.ArrayType):
                    filled = _filled(at, indices)
                    return form.Subscript(inner, filled if filled is not None else (*at, *indices))
        return None

    def _moved(self, base: form.Expression, indices: tuple[form.Expression, ...]) -> form.Expression | None:
        terms = algebra.polynomial(base)
        pointers = [
            product
            for product, factor in terms.items()
            if factor == 1 and len(product) == 1
            and isinstance(type_of(product[0], self.function.variables), (form.PointerType, form.ArrayType))
        ]  # fmt: skip
        if len(pointers) != 1:
            return None
        rest = {product: factor for product, factor in terms.items() if product != pointers[0]}
        offset = algebra.expression(algebra.plus(rest, algebra.polynomial(indices[0])))
        return form.Subscript(pointers[0][0], (offset, *indices[1:]))

    def nodes(self, value: form.Expression) -> int:
        """The number of parts of an expression."""
        known = self._sizes.get(id(value))
        if known is None:
            known = (value, sum(1 for _ in within(value)))
            self._sizes[id(value)] = known
        return known[1]

    # Killing values

    def _kill_names(self, gone: frozenset[str]) -> None:
        env = self.env
        for name in [name for name, value in env.items() if name in gone or not gone.isdisjoint(names(value))]:
            del env[name]

    def _kill_loads(self, root: str, stored: form.Expression | None, *, elements: bool = False) -> None:
        """Drops values whose loads a store to `root` may change; `elements`: it stores elements, no pointer to them."""
        variables = self.function.variables if elements else None
        self._drop([name for name, value in self.env.items() if _may_load(value, root, stored, variables)])

    def _kill_call(self, call: form.Call) -> None:
        variables = self.function.variables
        self._kill_names(addressed(call) | self.live.lasting)
        arrays = Arrays(
            {*reached(call)} | {name for name, known in variables.items() if known.storage is Storage.GLOBAL}
        )
        self._drop([name for name, value in self.env.items() if loads_any(value, arrays)])

    def _drop(self, gone: Sequence[str]) -> None:
        """Drops values whose loads may have changed; a variable that still holds a loaded value replaces the load.

        So `twice` stays `2 * n` after a call, where `n = this->count; twice = 2 * n`.
        """
        env = self.env
        values = {name: env.pop(name) for name in gone}
        holders: dict[form.Expression, str] = {}
        for name, value in values.items():
            if isinstance(value, (form.Subscript, form.Member)) and name in self.assigned_once:
                holders.setdefault(value, name)
        if not holders:
            return
        for name, value in values.items():
            if holders.get(value) == name:
                continue
            loads = set(loaded(value))
            if loads and loads <= holders.keys():
                env[name] = rebuilt(value, lambda part: form.Name(holders[part]) if part in holders else part)

    # Statements

    def block(self, body: Sequence[form.Statement]) -> bool:
        """Walks a list of statements; False: no way leads past its end.

        What follows a jump is reached by jumps to its labels. Without one, it is walked over outside of loops: nothing
        computes with it there, and no loop is lost.
        """
        outer = self.conditions
        reached = True
        for statement in body:
            if not reached:
                reached = isinstance(statement, form.Target) or (bool(self.nest) and _has_target(statement))
                if not reached and self.nest:
                    continue
                self.env, self.conditions = {}, outer
            reached = self.statement(statement) and reached
        self.conditions = outer
        return reached

    def statement(self, statement: form.Statement) -> bool:
        match statement:
            case form.Assign():
                self.assign(statement)
            case form.Branch():
                return self.branch(statement)
            case form.Loop():
                self.loop(statement)
            case form.Evaluate(call=call):
                changed = self.resolved(call)
                assert isinstance(changed, form.Call)
                self.calls.append(call.function)
                self.jump_reads.append(frozenset(names(changed)))
                self._kill_call(changed)
            case form.Jump(kind=kind, value=value):
                if value is not None:
                    self.jump_reads.append(frozenset(names(self.resolved(value))))
                if kind is JumpKind.GOTO:
                    self.unknown.append("goto")
                return False
            case form.Opaque(writes=writes, anything=anything, reason=reason):
                self.unknown.append(reason)
                self.jump_reads.append(frozenset(n for part in (*statement.reads, *writes) for n in names(part)))
                self.env = {} if anything else self.env
                for part in writes:
                    for name in names(part):
                        self._kill_names(frozenset((name,)))
                        self._kill_loads(name, None)
            case form.Target():
                self.unknown.append("goto")
                self.env = {}
        return True

    def assign(self, statement: form.Assign) -> None:
        target, value = statement.target, self.resolved(statement.value)
        impure = isinstance(value, form.Call) and not value.pure
        if impure:
            assert isinstance(value, form.Call)
            self.calls.append(value.function)
            self._kill_call(value)
        if isinstance(target, form.Name):
            self._assign_name(statement, target, value, impure=impure)
            return
        if isinstance(target, form.Subscript):
            base = self.resolved(target.base)
            target = self._direct(form.Subscript(base, tuple([self.resolved(part) for part in target.indices])))
        elif isinstance(target, form.Member):
            target = form.Member(self.resolved(target.base), target.member, target.type)
        if isinstance(target, form.Name):
            self._assign_name(statement, target, value, impure=impure)
            return
        self.record(statement, target, value, "")
        root = array_name(target)
        self._kill_loads(root, target, elements=isinstance(target, form.Subscript))
        name = _root(target)
        kind = self.function.variables.get(name)
        if kind is not None and isinstance(kind.type, form.PointerType):
            taken = frozenset(n for n, known in self.function.variables.items() if known.address_taken)
            if taken:
                self._kill_names(taken)

    def _assign_name(self, statement: form.Assign, target: form.Name, value: form.Expression, *, impure: bool) -> None:
        name = target.name
        variable = self.function.variables.get(name)
        array = variable is not None and isinstance(variable.type, form.ArrayType)
        if array and not isinstance(value, form.AddressOf):
            self.record(statement, target, value, "", whole=True)
            self._kill_loads(name, None)
            self.env.pop(name, None)
            return
        self.record(statement, target, value, name)
        if impure or self.nodes(value) > MOST_NODES or value == target:
            self.env.pop(name, None)
        else:
            self.env[name] = value

    def record(
        self, statement: form.Assign, target: form.Expression, value: form.Expression, scalar: str, whole: bool = False
    ) -> None:
        """Keeps a statement's effect for the loops around it."""
        if not self.nest:
            return
        read = names(value)
        if not scalar:
            read = read | names(target)
        for condition in self.conditions:
            read = read | names(condition)
        read -= {loop.induction for loop in self.nest}
        self.raw.append(
            _Raw(
                target, value, self.conditions, self.nest, statement.place, statement.atomic, scalar, frozenset(read),
                whole, self.scope, scalar in self.env,
            )
        )  # fmt: skip

    def branch(self, statement: form.Branch) -> bool:
        condition = self.resolved(statement.condition)
        if condition == form.Constant(True, Kind.BOOLEAN):
            return self.block(statement.body)
        outer, outside = self.conditions, self.env
        bounded = len(outer) < MOST_CONDITIONS
        self.jump_reads.append(frozenset(names(condition)))
        self.env = dict(outside)
        self.conditions = (*outer, condition) if bounded else outer
        true_goes_on = self.block(statement.body)
        true = self.env
        self.env = dict(outside)
        opposite = negated(condition)
        self.conditions = (*outer, opposite) if bounded else outer
        false_goes_on = self.block(statement.otherwise)
        false = self.env
        self.conditions = outer
        if true_goes_on and false_goes_on:
            self.env = self._merged(condition, statement, outside, true, false)
            return True
        if true_goes_on or false_goes_on:
            self.env = true if true_goes_on else false
            if bounded:
                self.conditions = (*outer, condition if true_goes_on else opposite)
            return True
        return False

    def _merged(
        self,
        condition: form.Expression,
        statement: form.Branch,
        outside: dict[str, form.Expression],
        true: dict[str, form.Expression],
        false: dict[str, form.Expression],
    ) -> dict[str, form.Expression]:
        one, other = self.live.body(statement.body), self.live.body(statement.otherwise)
        stored = stored_arrays((*statement.body, *statement.otherwise), outside)
        steady = not loads_any(condition, stored)
        merged: dict[str, form.Expression] = {}
        for name in true.keys() | false.keys():
            left, right = true.get(name), false.get(name)
            if left is not None and right is not None and (left is right or left == right):
                merged[name] = left
                continue
            if (left is None and name in one.assigned) or (right is None and name in other.assigned):
                continue
            if (left is None or right is None) and name in outside:
                continue
            left = left if left is not None else form.Name(name)
            right = right if right is not None else form.Name(name)
            if steady and self.nodes(left) + self.nodes(right) + self.nodes(condition) < MOST_NODES:
                merged[name] = form.Operation("select", (condition, left, right))
        return merged

    # Loops

    def loop(self, loop: form.Loop) -> None:
        summary = self.live.of(loop)
        assigned = summary.assigned
        stored = stored_arrays(loop.body, self.env)
        resized = resized_arrays(loop.body, self.function.variables)
        bounds = (loop.first, loop.last, loop.step)
        early = [None if bound is None else self._bound(bound) for bound in bounds]
        pointers = Arrays(moved_pointers(loop.body))
        self._kill_names(assigned)
        for root in stored:
            self._kill_loads(root, None, elements=not pointers.overlap(root))
        final: list[form.Expression | None] = []
        for bound, value in zip(bounds, early, strict=True):
            changes = value is not None and (
                names(value) & assigned or loads_any(without_sizes(value, resized), stored)
            )  # fmt: skip
            if bound is not None and changes:
                value = self._bound(bound)
            final.append(value)
        first, last, step = final
        if step == form.Constant(1):
            step = None
        condition = loop.condition
        if condition is not None and loop.kind is not LoopKind.TRAILING:
            condition = self.resolved(condition)
        head = msgspec.structs.replace(loop, first=first, last=last, step=step, condition=condition)
        outer_nest, outer_scope, outer_conditions = self.nest, self.scope, self.conditions
        self.nest = (*outer_nest, head)
        if not outer_nest:
            self.conditions = ()
        varying = assigned - {part.induction for part in self.nest}
        if outer_scope is not None:
            varying |= outer_scope.varying - {loop.variable}
            counters = outer_scope.counters
        else:
            counters = _counters(loop.body)
        self.scope = Scope(self.nest, self.function.variables, varying, counters, assigned)
        slot = len(self.found)
        self.found.append(None)
        marks = (len(self.raw), len(self.calls), len(self.unknown), len(self.jump_reads))
        if loop.kind is LoopKind.UNKNOWN:
            self.unknown.append("a loop over an unknown iterable")
        if condition is not None:
            self.jump_reads.append(frozenset(names(condition)))
        for bound in (first, last, step):
            if bound is not None:
                self.jump_reads.append(frozenset(names(bound)))
        self.block(loop.body)
        self.found[slot] = self._facts(loop, head, marks)
        self.nest, self.scope, self.conditions = outer_nest, outer_scope, outer_conditions
        self._kill_names(assigned)
        for root in stored:
            self._kill_loads(root, None, elements=not pointers.overlap(root))

    def _bound(self, bound: form.Expression) -> form.Expression:
        return algebra.simplified(self.resolved(bound))

    def _facts(self, loop: form.Loop, head: form.Loop, marks: tuple[int, int, int, int]) -> LoopFacts:
        raw = self.raw[marks[0] :]
        inside = self.live.body(loop.body)
        after = frozenset(inside.assigned) if self.live.jumps else self.live.after.get(id(loop), frozenset())
        live_out = {each.scalar for each in raw if each.scalar} & (after | self.live.lasting)
        needed: set[str] = set(live_out)
        for reads in self.jump_reads[marks[3] :]:
            needed |= reads
        for each in raw:
            if not each.scalar:
                needed |= each.reads
        pending = [each for each in raw if each.scalar]
        kept_scalars: set[int] = set()
        changed = True
        while changed:
            changed = False
            rest = []
            for each in reversed(pending):
                if each.scalar in needed:
                    kept_scalars.add(id(each))
                    needed |= each.reads
                    changed = True
                else:
                    rest.append(each)
            rest.reverse()
            pending = rest
        passing = _overwritten([each for each in raw if not each.scalar or id(each) in kept_scalars])
        effects = tuple(
            [each.effect() for each in raw if (not each.scalar or id(each) in kept_scalars) and id(each) not in passing]
        )
        own = {head.induction}
        seen: set[str] = set()
        for reads in self.jump_reads[marks[3] :]:
            seen |= reads
        for each in raw:
            if not each.scalar or id(each) in kept_scalars:
                seen |= each.reads
        assigned_names = frozenset(each.scalar for each in raw if each.scalar) | (
            inside.assigned if self.unknown[marks[2] :] or self.calls[marks[1] :] else frozenset()
        )
        rebound = {each.scalar for each in raw}
        carried = sorted(
            name for name in inside.exposed & assigned_names & seen
            if name not in own and (name in rebound or not self._is_array(name))
        )  # fmt: skip
        return LoopFacts(
            self.function, head, self.nest, effects,
            tuple(form.Name(name) for name in carried),
            tuple(form.Name(name) for name in sorted(live_out)),
            tuple(dict.fromkeys(self.unknown[marks[2] :])),
            leaves(loop.body, loop.label),
            tuple(dict.fromkeys(self.calls[marks[1] :])),
            self._arrays_out(loop, raw),
        )  # fmt: skip

    def _arrays_out(self, loop: form.Loop, raw: Sequence[_Raw]) -> tuple[str, ...]:
        stored = {_root(each.target) for each in raw if not each.scalar}
        after = self.live.after.get(id(loop), frozenset())
        found = []
        for name in sorted(stored):
            variable = self.function.variables.get(name)
            if variable is not None and variable.storage is Storage.LOCAL and (self.live.jumps or name in after):
                found.append(name)
        return tuple(found)

    def _is_array(self, name: str) -> bool:
        variable = self.function.variables.get(name)
        return variable is not None and isinstance(variable.type, form.ArrayType)


def _assigned_once(function: form.Function) -> frozenset[str]:
    counts: dict[str, int] = {}
    for statement in statements(function.body):
        if isinstance(statement, form.Assign) and isinstance(statement.target, form.Name):
            name = statement.target.name
            counts[name] = counts.get(name, 0) + 1
        elif isinstance(statement, form.Loop):
            counts[statement.variable] = 2
    return frozenset(
        name for name, known in function.variables.items()
        if counts.get(name) == 1 and known.storage is Storage.LOCAL and not known.address_taken
    )  # fmt: skip


def _overwritten(kept: Sequence[_Raw]) -> set[int]:
    """Values of a scalar that the same iteration overwrites before any other statement reads the scalar itself.

    What is left takes the place of both statements.
    """
    gone: set[int] = set()
    last: dict[str, _Raw] = {}
    for each in kept:
        for name in [name for name in last if name in each.reads or last[name].nest != each.nest]:
            if not (each.scalar == name and each.nest == last[name].nest):
                del last[name]
        if not each.scalar:
            continue
        before = last.get(each.scalar)
        if before is not None and each.known and each.conditions == before.conditions[: len(each.conditions)]:
            gone.add(id(before))
            first, end = before.place, each.place
            if first.file == end.file and first.line <= end.line:
                each.place = form.Place(first.line, first.column, end.last, first.file)
        last[each.scalar] = each
    return gone


def _has_target(statement: form.Statement) -> bool:
    return any(isinstance(part, form.Target) for part in statements((statement,)))


def _filled(
    at: tuple[form.Expression, ...], indices: tuple[form.Expression, ...]
) -> tuple[form.Expression, ...] | None:
    """Indices of a view put in place of its sections; None: it has none."""
    if not any(isinstance(each, form.Section) for each in at):
        return None
    left = list(indices)
    result: list[form.Expression] = []
    for each in at:
        if isinstance(each, form.Section) and left:
            index = left.pop(0)
            if isinstance(index, form.Section):
                result.append(each if index == form.Section() else index)
                continue
            moved = index if each.step is None else algebra.multiply(index, each.step)
            result.append(moved if each.first is None else algebra.add(each.first, moved))
        else:
            result.append(each)
    return (*result, *left)


def _root(expression: form.Expression) -> str:
    while True:
        match expression:
            case form.Subscript(base=base) | form.Member(base=base):
                expression = base
            case form.Convert(operand=operand) | form.AddressOf(operand=operand):
                expression = operand
            case form.Name(name=name):
                return name
            case _:
                return ""


def _may_load(
    value: form.Expression, array: str, stored: form.Expression | None, variables: Variables | None = None
) -> bool:
    """Whether an expression loads an element of an array that a store to `stored` (None: to all of it) may change.

    With `variables`, only elements are stored: a member that points to them stays.
    """
    for part in loaded(value):
        pointer = variables is not None and isinstance(part, form.Member) and array_name(part) == array
        if pointer and variables is not None and isinstance(type_of(part, variables), form.PointerType):
            continue
        if overlaps(array_name(part), array) and not (stored is not None and _distinct(part, stored)):
            return True
    return False


def _distinct(one: form.Expression, other: form.Expression) -> bool:
    """Whether two elements of one array differ in an index by a constant that is not zero."""
    while isinstance(one, form.Member) and isinstance(other, form.Member):
        one, other = one.base, other.base
    if not isinstance(one, form.Subscript) or not isinstance(other, form.Subscript):
        return False
    if one.base != other.base or len(one.indices) != len(other.indices):
        return False
    return any(algebra.difference(left, right) for left, right in zip(one.indices, other.indices, strict=True))


def _counters(body: Sequence[form.Statement]) -> frozenset[str]:
    """Scalars that some statement of a body advances by a constant."""
    found: set[str] = set()
    for statement in statements(body):
        if isinstance(statement, form.Assign) and isinstance(statement.target, form.Name):
            value = statement.value
            if (
                isinstance(value, form.Operation)
                and value.operator in ("+", "-")
                and statement.target in value.operands
            ):
                found.add(statement.target.name)
    return frozenset(found)
