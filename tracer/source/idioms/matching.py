"""Matching of patterns against loops' effects: a match binds the names of a pattern to parts of the program.

Both sides are trees: the pattern's is Python's syntax tree, the program's is the source form with temporaries resolved.
A matcher is a generator of bindings; where several ways lead to a match, it tries them one after the other.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import permutations
from typing import TypeGuard

from foretrace.tracer.source.flow import algebra
from foretrace.tracer.source.flow.dependences import reduction_operator, truth
from foretrace.tracer.source.flow.records import Access, Effect, Index, IndexKind, LoopFacts
from foretrace.tracer.source.flow.stores import overlaps
from foretrace.tracer.source.flow.subscripts import Scope
from foretrace.tracer.source.flow.subscripts import access as access_of
from foretrace.tracer.source.flow.subscripts import loads as element_loads
from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.walk import blocks, names, parts, rebuilt, replaced, statements, within

from .patterns import (
    DISTANCE,
    INDUCTION,
    OPERATORS,
    PLACES,
    VALUES,
    IdiomDefinition,
    LoopPattern,
    Pattern,
    StatementPattern,
)
from .surroundings import FunctionSurroundings, LoopSurroundings

Place = tuple[form.Expression, ...]
Terms = tuple[tuple[int, form.Expression], ...]
"""A sum: each term with its sign, 1 or -1."""

MOST_DELAYS = 6
"""Iterations that a value may have been handed on."""
MOST_NEST = 6
"""Induction variables are looked for among this many innermost loops."""
MOST_TRIES, MOST_TRIES_A_PART = 1_000, 10
"""Largest number of comparisons of a part of a pattern with a part of a program, for one idiom and its first statement:
a fixed number, and more for each part of the statement."""

_COMPARISONS = {"<", "<=", ">", ">=", "==", "!="}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_TRUTHS = {*_COMPARISONS, "not", "and", "or"}
_CHAINS = {
    ast.Add: "+", ast.Sub: "+", ast.Mult: "*", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.And: "and",
    ast.Or: "or",
}  # fmt: skip
_SMALL_TABLE = 65536
"""Elements of the largest array of known size that still counts as a table."""


class _Parts:
    """Parts of expressions, found once for each expression.

    An expression is known by its identity, since hashing a large one takes as long as walking over it.
    """

    def __init__(self, accesses: dict[form.Expression, Access]) -> None:
        self._accesses = accesses
        self._known: dict[int, tuple[form.Expression, frozenset[str], tuple[form.Expression, ...]]] = {}

    def names(self, expression: form.Expression) -> frozenset[str]:
        """The variables an expression reads."""
        return self._parts_of(expression)[1]

    def elements(self, expression: form.Expression) -> tuple[form.Expression, ...]:
        """The array elements an expression reads outside of subscripts, each once."""
        return self._parts_of(expression)[2]

    def _parts_of(
        self, expression: form.Expression
    ) -> tuple[form.Expression, frozenset[str], tuple[form.Expression, ...]]:
        known = self._known.get(id(expression))
        if known is None:
            elements = dict.fromkeys(
                part
                for part in _outside_subscripts(expression)
                if isinstance(part, form.Subscript | form.Member | form.Name) and part in self._accesses
            )
            known = (expression, frozenset(names(expression)), tuple(elements))
            self._known[id(expression)] = known
        return known


@dataclass(frozen=True)
class Step:
    """An effect, prepared for matching."""

    effect: Effect
    facts: LoopFacts
    """Facts of the innermost loop around it."""
    target: form.Expression
    value: form.Expression
    """Value with minima and maxima in one notation, whether written as calls, selects or guards."""
    conditions: tuple[form.Expression, ...]
    accesses: dict[form.Expression, Access]
    """The loads and the store, by their expressions."""
    variables: tuple[str, ...]
    """Induction variables of the loops around it, outermost first; "" for a loop without."""
    handed: frozenset[str] = frozenset()
    """Scalars that the next loop around hands from one iteration to the next."""
    loop: LoopSurroundings = field(kw_only=True, repr=False, compare=False)
    """Facts about the innermost loop around it."""
    function: FunctionSurroundings = field(kw_only=True, repr=False, compare=False)
    parts: _Parts = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Starts without known parts."""
        object.__setattr__(self, "parts", _Parts(self.accesses))

    @cached_property
    def num_parts(self) -> int:
        """Parts of its expressions."""
        return sum(1 for one in (self.target, self.value, *self.conditions) for _ in within(one))

    @property
    def store(self) -> Access | None:
        """The element that it writes; None: it assigns a scalar."""
        return self.accesses.get(self.target) if self.effect.store is not None else None


@dataclass(frozen=True)
class Bindings:
    """Bindings of a pattern's names."""

    loops: dict[str, str]
    """Induction variables."""
    arrays: dict[str, Access]
    scalars: dict[str, str]
    places: dict[str, Place]
    values: dict[str, Terms]
    distance: int | None = None

    def with_loops(self, loops: dict[str, str]) -> Bindings:
        """These, with induction variables bound."""
        return Bindings(loops, self.arrays, self.scalars, self.places, self.values, self.distance)

    def array(self, name: str, access: Access) -> Bindings | None:
        """These bindings with `name` bound to an array; None if it is bound to another one."""
        known = self.arrays.get(name)
        if known is not None:
            return self if _one_array(known, access) else None
        return Bindings(
            self.loops, {**self.arrays, name: access}, self.scalars, self.places, self.values, self.distance
        )

    def scalar(self, name: str, variable: str) -> Bindings | None:
        """These bindings with `name` bound to a scalar; None if either is bound to another one."""
        known = self.scalars.get(name)
        if known is not None:
            return self if known == variable else None
        if variable in self.scalars.values():
            return None
        scalars = {**self.scalars, name: variable}
        return Bindings(self.loops, self.arrays, scalars, self.places, self.values, self.distance)

    def place(self, name: str, place: Place) -> Bindings | None:
        """These bindings with `name` bound to a place; None if it is bound to another one."""
        known = self.places.get(name)
        if known is not None:
            return self if known == place else None
        return Bindings(self.loops, self.arrays, self.scalars, {**self.places, name: place}, self.values, self.distance)

    def value(self, name: str, terms: Terms) -> Bindings | None:
        """These bindings with `name` bound to a value; None if it is bound to another one."""
        known = self.values.get(name)
        if known is not None:
            return self if sorted(known, key=repr) == sorted(terms, key=repr) else None
        return Bindings(self.loops, self.arrays, self.scalars, self.places, {**self.values, name: terms}, self.distance)

    def with_distance(self, distance: int) -> Bindings | None:
        """These bindings with `d` bound to a distance; None if it is bound to another one."""
        if self.distance is not None:
            return self if self.distance == distance else None
        return Bindings(self.loops, self.arrays, self.scalars, self.places, self.values, distance)


def _one_array(one: Access, other: Access) -> bool:
    """Whether two accesses are to one array, or one of them to a member of the other's elements."""
    return overlaps(one.array, other.array) and ("[" in one.array) == ("[" in other.array)


@dataclass(frozen=True)
class Match:
    """A match of a pattern: its bindings and the matched statements."""

    definition: IdiomDefinition
    pattern: Pattern
    bindings: Bindings
    steps: tuple[Step, ...]
    """One for each statement of the pattern."""


def prepared(
    facts: LoopFacts, around: LoopFacts | None = None, function: FunctionSurroundings | None = None
) -> list[Step]:
    """The effects of a loop itself, without those of inner loops, prepared for matching.

    A scalar that saves an element's old value while the element is overwritten, as in an exchange, is replaced by the
    element. So is a scalar from the iteration before that held no carried value: `left = here; here = a[i]`. `around`:
    the next loop around this one. `function`: results cached for other loops of the same function.
    """
    loop, function = LoopSurroundings(facts), function or FunctionSurroundings()
    handed = frozenset(name.name for name in around.carried) if around is not None else frozenset()
    kept = {name.name for name in (*facts.carried, *facts.live_out)}
    inside = {loop.variable for effect in facts.effects for loop in effect.nest[len(facts.nest) :]}
    values = _delayed(facts)
    scope = Scope(facts.nest, facts.function.variables)
    loads = {name: tuple(element_loads(value, scope, facts.loop.place)) for name, value in values.items()}
    steps = []
    for effect in facts.effects:
        if not effect.nest or effect.nest[-1] is not facts.loop:
            if isinstance(effect.target, form.Name):
                values.pop(effect.target.name, None)  # a loop inside changes it
            continue
        if _lists(effect.value) or (isinstance(effect.target, form.Name) and effect.target.name in inside):
            continue  # what an inner loop leaves in its own variable
        if _skips_behind(effect, facts):
            continue
        step = _prepared(effect, facts, values, loads, handed, loop, function)
        if step.store is not None and _is_object(step.value):
            continue
        if isinstance(effect.target, form.Name) and effect.target.name not in kept:
            values[effect.target.name] = step.value
            loads[effect.target.name] = tuple(step.accesses.values())
        else:
            steps.append(step)
    return steps


def _skips_behind(effect: Effect, facts: LoopFacts) -> bool:
    """Whether a pointer moves on by a number that is no constant, as an inner loop leaves it: no sum of elements."""
    if not isinstance(effect.target, form.Name):
        return False
    variable = facts.function.variables.get(effect.target.name)
    if variable is None or not isinstance(variable.type, form.PointerType):
        return False
    moved = algebra.plus(algebra.polynomial(effect.value), {(effect.target,): 1}, -1)
    return bool(moved) and algebra.constant(moved) is None and all(effect.target not in product for product in moved)


def _lists(value: form.Expression) -> bool:
    """Whether a value is new memory: uninitialised, with a list of values, or a text."""
    if isinstance(value, form.Constant):
        return isinstance(value.value, str)
    return isinstance(value, form.Call) and value.function in ("allocate", "empty", "array")


def _is_object(value: form.Expression) -> bool:
    """A new object of C++."""
    return isinstance(value, form.Call) and value.function.startswith("new ")


def _delayed(facts: LoopFacts) -> dict[str, form.Expression]:
    """Scalars carried from the iteration before, with the expression of elements that it assigned to them."""
    loop = facts.loop
    carried = {name.name for name in facts.carried}
    stored = {effect.store.array for effect in facts.effects if effect.store is not None}
    step = 1 if loop.step is None else _whole(loop.step)
    left: dict[str, form.Expression] = {}
    updates: dict[str, int] = {}
    for effect in facts.effects:
        if isinstance(effect.target, form.Name):
            name = effect.target.name
            updates[name] = updates.get(name, 0) + 1
            steady = not effect.conditions and not any(load.array in stored for load in effect.loads)
            if name in carried and effect.nest[-1] is loop and steady:
                left[name] = effect.value
    if not loop.induction or not step:
        return {}
    earlier = form.Operation("-", (form.Name(loop.induction), form.Constant(step)))
    before: dict[str, form.Expression] = {loop.induction: earlier}
    found: dict[str, form.Expression] = {}
    for _ in range(MOST_DELAYS):
        for name, value in left.items():
            if name in found or updates[name] > 1:
                continue
            known = {other: found[other] for other in names(value) & carried if other in found}
            if names(value) & carried == known.keys():
                found[name] = rebuilt(replaced(replaced(value, known), before), _simplified)
    return {
        name: value for name, value in found.items()
        if any(isinstance(part, form.Subscript) for part in within(value))
    }  # fmt: skip


def _simplified(part: form.Expression) -> form.Expression:
    if isinstance(part, form.Subscript):
        return form.Subscript(part.base, tuple(map(algebra.simplified, part.indices)))
    return part


def _prepared(
    effect: Effect,
    facts: LoopFacts,
    values: dict[str, form.Expression],
    loads: dict[str, tuple[Access, ...]],
    handed: frozenset[str],
    loop: LoopSurroundings,
    function: FunctionSurroundings,
) -> Step:
    accesses: dict[form.Expression, Access] = {load.subscript: load for load in effect.loads}
    if effect.store is not None:
        accesses.setdefault(effect.store.subscript, effect.store)
    target, value, conditions = effect.target, effect.value, effect.conditions
    own = target.name if isinstance(target, form.Name) else ""
    if own in values:
        values = {name: known for name, known in values.items() if name != own}
    mentioned = {name for one in (target, value, *conditions) for name in names(one) if name in values}
    if mentioned:
        scope = Scope(effect.nest, facts.function.variables)
        if effect.store is not None:
            target = replaced(target, values)
            accesses.setdefault(target, access_of(target, scope, effect.place, store=True))
        value = replaced(value, values)
        conditions = tuple(replaced(condition, values) for condition in conditions)
        for name in mentioned:
            for access in loads[name]:
                accesses.setdefault(access.subscript, access)
        for part in (target, value, *conditions):
            for access in element_loads(part, scope, effect.place):
                accesses.setdefault(access.subscript, access)
    value = rebuilt(value, _canonical)
    conditions = tuple(rebuilt(condition, _canonical) for condition in conditions)
    value, conditions = _guarded(target, value, conditions)
    variables = tuple(around.variable for around in effect.nest)
    return Step(
        effect, facts, target, value, conditions, accesses, variables, handed, loop=loop, function=function
    )  # fmt: skip


def _canonical(expression: form.Expression) -> form.Expression:
    """Minima and maxima rewritten as selects."""
    match expression:
        case form.Operation(
            operator="select", operands=(form.Operation(operator=operator, operands=compared), yes, no)
        ):
            if operator in ("<", "<=", ">", ">=") and {yes, no} == set(compared):
                smaller = (operator in ("<", "<=")) == (yes == compared[0])
                return form.Call("min" if smaller else "max", (yes, no))
        case form.Operation(operator="and" | "or" as operator, operands=operands):
            return form.Operation(operator, tuple(map(truth, operands)))
    return expression


def _guarded(
    target: form.Expression, value: form.Expression, conditions: tuple[form.Expression, ...]
) -> tuple[form.Expression, tuple[form.Expression, ...]]:
    """Choices that keep the old value are guards; a guard that compares old and new value is a minimum or maximum."""
    match value:
        case form.Operation(operator="+", operands=operands) if target in operands:
            added = _stripped(operands[1] if operands[0] == target else operands[0])
            if isinstance(added, form.Operation) and added.operator in _TRUTHS:
                one = form.Operation("+", (target, form.Constant(1)))
                return one, (*conditions, added)
        case form.Operation(operator="select", operands=(condition, yes, no)) if no == target:
            value, conditions = yes, (*conditions, condition)
        case form.Operation(operator="select", operands=(condition, yes, no)) if yes == target:
            value, conditions = no, (*conditions, form.Operation("not", (condition,)))
    if conditions:
        match conditions[-1]:
            case form.Operation(operator=operator, operands=(left, right)) if {left, right} == {target, value}:
                if operator in ("<", "<=", ">", ">=") and target != value:
                    smaller = (operator in ("<", "<=")) == (left == value)
                    return form.Call("min" if smaller else "max", (target, value)), conditions[:-1]
    return value, conditions


def matches(definition: IdiomDefinition, steps: Sequence[Step], first: Step) -> Iterator[Match]:
    """The ways in which an idiom fits, with `first` as the statement of its pattern that comes first.

    `steps` are all statements in the same loops: those that further statements of a pattern may be. Where there are
    more ways than are tried, the statement is kept as one that is `unfinished`.
    """
    tries = _Tries(MOST_TRIES + MOST_TRIES_A_PART * first.num_parts)
    try:
        for pattern in definition.patterns:
            statement = pattern.statements[0]
            if not _possible(statement, first):
                continue
            for bindings in _placed(pattern, statement, first, tries):
                begun = Match(definition, pattern, bindings, (first,))
                if definition.where is not None and _settled(definition.where, begun) is False:
                    continue
                for chosen, bound in _rest(pattern, 1, (first,), steps, bindings, tries):
                    match = Match(definition, pattern, bound, chosen)
                    if definition.where is None or _holds(definition.where, match):
                        yield match
                        return
    except _TriesSpentError:
        first.function.unfinished[first.effect.place] = None


class _TriesSpentError(Exception):
    """A statement has more ways to match an idiom than are tried."""


class _Tries:
    """Budget of comparisons of a part of a pattern with a part of a program."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, number: int = 1) -> None:
        """Count tries.

        Raises:
            _TriesSpentError: there are none left.
        """
        self._left -= number
        if self._left < 0:
            raise _TriesSpentError


def _possible(statement: StatementPattern, step: Step) -> bool:
    """Whether the kinds of target and nest allow a match: the cheap part."""
    wants_array = isinstance(statement.target, ast.Subscript)
    if wants_array != (step.effect.store is not None):
        return False
    return len(statement.loops) <= len(step.effect.nest) and not (statement.guards and not step.conditions)


def _placed(pattern: Pattern, statement: StatementPattern, step: Step, tries: _Tries) -> Iterator[Bindings]:
    """Bindings of one statement, for each way to choose its induction variables."""
    empty = Bindings({}, {}, {}, {}, {})
    wanted = _induction_names(pattern)
    around = [loop.variable for loop in statement.loops if loop.variable]
    candidates = [variable for variable in reversed(step.variables[-MOST_NEST:]) if variable]
    for chosen in permutations(candidates, len(wanted)):
        loops = dict(zip(wanted, chosen, strict=True))
        if around and not _nested(statement.loops, step, loops):
            continue
        yield from _matched(pattern, statement, step, empty.with_loops(loops), tries)


@lru_cache(maxsize=4096)
def _induction_names(pattern: Pattern) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for statement in pattern.statements:
        conditions = [loop.condition for loop in statement.loops if loop.condition is not None]
        for part in (statement.target, statement.value, *statement.guards, *conditions):
            for node in ast.walk(part):
                if isinstance(node, ast.Name) and node.id in INDUCTION:
                    found.setdefault(node.id)
        for loop in statement.loops:
            if loop.variable:
                found.setdefault(loop.variable)
    return tuple(found)


def _nested(loops: Sequence[LoopPattern], step: Step, chosen: dict[str, str]) -> bool:
    """Whether the loops stand in the pattern's order, the last one innermost."""
    positions = [step.variables.index(chosen[loop.variable]) for loop in loops if loop.variable]
    return positions == sorted(positions) and positions[-1] == len(step.variables) - 1


def _rest(
    pattern: Pattern,
    position: int,
    chosen: tuple[Step, ...],
    steps: Sequence[Step],
    bindings: Bindings,
    tries: _Tries,
) -> Iterator[tuple[tuple[Step, ...], Bindings]]:
    """The pattern's other statements, found among `steps`."""
    if position == len(pattern.statements):
        yield chosen, bindings
        return
    statement = pattern.statements[position]
    for step in steps:
        tries.take()
        if any(step is one for one in chosen) or step.effect.nest != chosen[0].effect.nest:
            continue
        if _possible(statement, step):
            for bound in _matched(pattern, statement, step, bindings, tries):
                yield from _rest(pattern, position + 1, (*chosen, step), steps, bound, tries)


def _matched(
    pattern: Pattern, statement: StatementPattern, step: Step, bindings: Bindings, tries: _Tries
) -> Iterator[Bindings]:
    """Bindings with which one statement fits: loops, target, value and guards."""
    matcher = _Matcher(pattern, step, tries)
    for bound in matcher.loops(statement.loops, bindings):
        for targeted in matcher.value(statement.target, step.target, bound):
            if len(statement.loops) > 1 and not step.handed.isdisjoint(targeted.scalars.values()):
                continue  # a total over all iterations of the loops around, too
            for valued in matcher.value(statement.value, step.value, targeted):
                yield from matcher.guards(statement.guards, valued)


class _Matcher:
    """One statement of a pattern against one effect."""

    def __init__(self, pattern: Pattern, step: Step, tries: _Tries) -> None:
        self._pattern = pattern
        self._step = step
        self._tries = tries

    def loops(self, loops: Sequence[LoopPattern], bindings: Bindings) -> Iterator[Bindings]:
        """Bounds and conditions of the loops."""
        bound: Bindings | None = bindings
        for pattern in loops:
            if pattern.span:
                loop = self._step.effect.nest[self._step.variables.index(bindings.loops[pattern.variable])]
                access = self._span(loop)
                bound = None if access is None or bound is None else bound.array(pattern.span, access)
            if pattern.condition is not None:
                bound = None if bound is None else self._goes_on_while(pattern.condition, bound)
        if bound is not None:
            yield bound

    def _goes_on_while(self, pattern: ast.expr, bindings: Bindings) -> Bindings | None:
        """Bindings for a loop's condition to continue: its own, or one whose negation leaves the loop."""
        own = self._step.effect.nest[-1].condition
        given = [] if own is None else [own]
        if self._step.facts.early_exit:
            given += self._step.conditions
        for condition in given:
            for bound in self.value(pattern, condition, bindings):
                return bound
        return None

    def _span(self, loop: form.Loop) -> Access | None:
        """The array that holds a loop's bounds in neighbouring elements."""
        if loop.first is None or loop.last is None:
            return None
        first, last = _load_within(loop.first), _load_within(loop.last)
        if first is None and last is not None and self._goes_on(loop):
            return Access(_root(last), last, (), False, loop.place)
        if first is None or last is None or first == last:
            return None
        if _root(first) != _root(last) and not _same_element(first, last):
            return None
        return Access(_root(first), first, (), False, loop.place)

    def _goes_on(self, loop: form.Loop) -> bool:
        """Whether a loop starts where its last execution ended."""
        return isinstance(loop.first, form.Name) and loop.first.name.startswith(f"%{loop.variable.lstrip('%')}_first")

    def guards(self, guards: Sequence[ast.expr], bindings: Bindings) -> Iterator[Bindings]:
        """Bindings with which each guard of the pattern matches one of the statement's conditions."""
        if not guards:
            yield bindings
            return
        for condition in self._step.conditions:
            for bound in self.value(guards[0], condition, bindings):
                yield from self.guards(guards[1:], bound)

    def value(self, pattern: ast.expr, expression: form.Expression, bindings: Bindings) -> Iterator[Bindings]:
        """Bindings with which a pattern's expression fits one of the program."""
        self._tries.take()
        expression = _stripped(expression)
        match pattern:
            case ast.Name(id="_"):
                if self._free_of_scalars((expression,), (), bindings):
                    yield bindings
            case ast.Name(id=name) if name in VALUES:
                bound = bindings.value(name, _terms(expression))
                if bound is not None:
                    yield bound
            case ast.Name(id=name) if name in INDUCTION:
                if expression == form.Name(bindings.loops[name]):
                    yield bindings
            case ast.Name(id=name):
                if isinstance(expression, form.Name) and expression.name not in self._step.variables:
                    bound = bindings.scalar(name, expression.name)
                    if bound is not None:
                        yield bound
            case ast.Call(func=ast.Name(id="_"), args=arguments):
                if self._free_of_scalars((expression,), arguments, bindings):
                    yield from self._containing(arguments, (expression,), bindings)
            case ast.Call(func=ast.Name(id=function), args=arguments):
                if isinstance(expression, form.Call) and expression.function == function:
                    for order in permutations(expression.arguments, len(arguments)):
                        yield from self._all(arguments, order, bindings)
            case ast.Subscript() | ast.Attribute():
                yield from self._element(pattern, expression, bindings)
            case ast.BinOp(op=operator) if type(operator) in _CHAINS:
                yield from self._chain(pattern, _CHAINS[type(operator)], expression, bindings)
            case ast.BoolOp(op=operator):
                yield from self._chain(pattern, _CHAINS[type(operator)], expression, bindings)
            case ast.Constant(value=value):
                if isinstance(expression, form.Constant) and expression.value == value:
                    yield bindings
            case ast.BinOp(op=operator, left=left, right=right) if type(operator) in OPERATORS:
                yield from self._operation(OPERATORS[type(operator)], [left, right], expression, bindings)
            case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in OPERATORS:
                name = OPERATORS[type(operator)]
                yield from self._operation(name, [left, right], expression, bindings)
                if name in _TURNED:
                    yield from self._operation(_TURNED[name], [right, left], expression, bindings)
            case ast.UnaryOp(op=operator, operand=operand):
                name = "not" if isinstance(operator, ast.Not) else "neg"
                yield from self._operation(name, [operand], expression, bindings)

    def _operation(
        self, operator: str, operands: list[ast.expr], expression: form.Expression, bindings: Bindings
    ) -> Iterator[Bindings]:
        if isinstance(expression, form.Operation) and expression.operator == operator:
            yield from self._all(operands, expression.operands, bindings)

    def _all(
        self, patterns: Sequence[ast.expr], expressions: Sequence[form.Expression], bindings: Bindings
    ) -> Iterator[Bindings]:
        if not patterns:
            yield bindings
            return
        for bound in self.value(patterns[0], expressions[0], bindings):
            yield from self._all(patterns[1:], expressions[1:], bound)

    def _free_of_scalars(
        self, expressions: Sequence[form.Expression], listed: Sequence[ast.expr], bindings: Bindings
    ) -> bool:
        """Whether expressions do without the pattern's scalars, but for those listed."""
        if not bindings.scalars:
            return True
        allowed = {node.id for one in listed for node in ast.walk(one) if isinstance(node, ast.Name)}
        forbidden = {bindings.scalars[name] for name in self._pattern.scalars - allowed if name in bindings.scalars}
        return all(forbidden.isdisjoint(self._step.parts.names(expression)) for expression in expressions)

    def _containing(
        self, wanted: Sequence[ast.expr], expressions: Sequence[form.Expression], bindings: Bindings
    ) -> Iterator[Bindings]:
        """Bindings with which all of `wanted` occur somewhere in expressions, outside of subscripts."""
        if not wanted:
            yield bindings
            return
        for expression in expressions:
            for part in self._candidates(wanted[0], expression):
                for bound in self.value(wanted[0], part, bindings):
                    yield from self._containing(wanted[1:], expressions, bound)

    def _candidates(self, pattern: ast.expr, expression: form.Expression) -> Iterable[form.Expression]:
        """The parts of an expression that a pattern may fit."""
        if _is_element(pattern):
            return self._step.parts.elements(expression)
        return _outside_subscripts(expression)

    # Sums, products and other chains

    def _chain(
        self, pattern: ast.expr, operator: str, expression: form.Expression, bindings: Bindings
    ) -> Iterator[Bindings]:
        """Match operands in any order; remaining ones join an operand that may be anything, or is invariant."""
        wanted = _pattern_operands(pattern, operator)
        given = _terms(expression) if operator == "+" else tuple((1, one) for one in _operands(expression, operator))
        if len(given) < len(wanted):
            return
        self._tries.take(len(given))
        yield from self._operands(operator, wanted, given, bindings)

    def _operands(
        self, operator: str, wanted: Sequence[tuple[int, ast.expr]], given: Terms, bindings: Bindings
    ) -> Iterator[Bindings]:
        if not wanted:
            if (operator == "*" and all(self._invariant(one) for _, one in given)) or not given:
                yield bindings
            return
        (sign, pattern), *others = wanted
        if not others and _takes_rest(pattern):
            rest = tuple((sign * one_sign, one) for one_sign, one in given)
            if isinstance(pattern, ast.Name) and pattern.id in VALUES:
                bound = bindings.value(pattern.id, rest)
                if bound is not None:
                    yield bound
            elif rest:
                yield from self._remaining(pattern, operator, rest, bindings)
            return
        known = isinstance(pattern, ast.Name) and bindings.values.get(pattern.id)
        if known:
            signed = [(sign * one_sign, one) for one_sign, one in known]
            self._tries.take(len(signed) * len(given))
            if all(term in given for term in signed):
                yield from self._operands(
                    operator, others, tuple(term for term in given if term not in signed), bindings
                )
            return
        for position, (one_sign, one) in enumerate(given):
            left = given[:position] + given[position + 1 :]
            if one_sign == sign or _takes_rest(pattern) or _is_product(pattern):
                for bound in self.value(pattern, one, bindings):
                    yield from self._operands(operator, others, left, bound)

    def _remaining(self, pattern: ast.expr, operator: str, rest: Terms, bindings: Bindings) -> Iterator[Bindings]:
        """Match the remaining operands of a chain with an operand that stands for any value."""
        arguments = pattern.args if isinstance(pattern, ast.Call) else []
        if len(rest) > 1 and all(map(_is_element, arguments)):
            operands = [one for _, one in rest]
            if self._free_of_scalars(operands, arguments, bindings):
                yield from self._containing(arguments, operands, bindings)
        else:
            yield from self.value(pattern, _joined(operator, rest), bindings)

    def _fixed(self, expression: form.Expression) -> bool:
        return self._invariant(expression) and not (names(expression) & self._step.loop.assigned)

    def _invariant(self, expression: form.Expression) -> bool:
        return not any(part in self._step.accesses for part in within(expression)) and not (
            names(expression) & set(self._step.variables)
        )

    # Elements of arrays

    def _element(self, pattern: ast.expr, expression: form.Expression, bindings: Bindings) -> Iterator[Bindings]:
        """An element of an array, or a member of one."""
        if isinstance(pattern, ast.Attribute):
            if isinstance(expression, form.Member):
                yield from self.value(pattern.value, expression.base, bindings)
            return
        assert isinstance(pattern, ast.Subscript)
        if not isinstance(pattern.value, ast.Name):
            return
        if not pattern.value.id[0].isupper():  # s[0].M: an element of what a scalar points at
            if isinstance(expression, form.Subscript):
                for bound in self.value(pattern.value, expression.base, bindings):
                    if expression.indices == (form.Constant(0),):
                        yield bound
            return
        access = self._step.accesses.get(expression)
        if access is None:
            return
        bound_array = bindings.array(pattern.value.id, access)
        if bound_array is not None:
            yield from self._place(pattern.slice, access, bound_array)

    def _place(self, pattern: ast.expr, access: Access, bindings: Bindings) -> Iterator[Bindings]:
        """The place of an element, against a pattern's index or indices."""
        innermost = self._step.variables[-1]
        match pattern:
            case ast.Name(id="_"):
                yield bindings
                return
            case ast.Name(id=name) if name in PLACES:
                bound = bindings.place(name, tuple(index.expression for index in access.indices))
                if bound is not None:
                    yield bound
                return
            case ast.Constant(value=value) if value is Ellipsis:
                if all(
                    index.kind is IndexKind.INVARIANT
                    or (index.kind is IndexKind.AFFINE and innermost not in dict(index.coefficients))
                    for index in access.indices
                ):
                    yield bindings
                return
        wanted = pattern.elts if isinstance(pattern, ast.Tuple) else [pattern]
        chosen = set(bindings.loops.values())
        relevant = [index for index in access.indices if _concerns(index, chosen)]
        if len(wanted) == len(relevant):
            yield from self._indices(wanted, relevant, access, bindings)
        elif len(relevant) == 1 and len(wanted) == 2:
            yield from self._linear(wanted, relevant[0], bindings)
        elif len(wanted) == 1 and len({variable for index in relevant for variable, _ in index.coefficients}) == 1:
            yield from self._indices(wanted, relevant[:1], access, bindings)  # a diagonal

    def _indices(
        self, wanted: Sequence[ast.expr], given: Sequence[Index], access: Access, bindings: Bindings
    ) -> Iterator[Bindings]:
        if not wanted:
            yield bindings
            return
        for bound in self._index(wanted[0], given[0], access, bindings):
            yield from self._indices(wanted[1:], given[1:], access, bound)

    def _index(self, pattern: ast.expr, index: Index, access: Access, bindings: Bindings) -> Iterator[Bindings]:
        match pattern:
            case ast.Name(id=name) if name in INDUCTION:
                if self._affine(index, name, bindings):
                    yield bindings
            case ast.BinOp(op=ast.Sub(), left=ast.Name(id=name), right=ast.Name(id=distance)) if distance == DISTANCE:
                if self._affine(index, name, bindings):
                    apart = self._distance(index, access, name, bindings)
                    bound = bindings.with_distance(apart) if apart else None
                    if bound is not None:
                        yield bound
            case ast.BinOp(op=operator, left=ast.Name(id=name), right=ast.Constant(value=int() as ahead)):
                if self._affine(index, name, bindings):
                    behind = ahead if isinstance(operator, ast.Sub) else -ahead
                    if self._distance(index, access, name, bindings, other=True) == behind:
                        yield bindings
            case ast.Name():  # a counter, perhaps with something added
                terms = _terms(index.expression)
                for position, (sign, term) in enumerate(terms):
                    others = terms[:position] + terms[position + 1 :]
                    if sign == 1 and all(self._fixed(one) for _, one in others):
                        yield from self.value(pattern, term, bindings)
            case ast.Subscript():
                for part in _shifted(index.expression):
                    yield from self.value(pattern, part, bindings)
            case ast.Call(func=ast.Name(id="_"), args=arguments):
                if index.kind is IndexKind.INDIRECT:
                    yield from self._containing(arguments, (index.expression,), bindings)

    def _affine(self, index: Index, name: str, bindings: Bindings) -> bool:
        """Whether an index is affine in exactly one of the pattern's induction variables."""
        if index.kind is not IndexKind.AFFINE:
            return False
        own = bindings.loops[name]
        variables = {variable for variable, _ in index.coefficients}
        if variables & set(bindings.loops.values()) != {own}:
            return False
        order = self._step.variables
        return all(order.index(variable) <= order.index(own) for variable in variables if variable in order)

    def _linear(self, wanted: Sequence[ast.expr], index: Index, bindings: Bindings) -> Iterator[Bindings]:
        """Match two linearised indices, `A[i * n + j]`: the one whose factor is 1 is contiguous."""
        if index.kind is not IndexKind.AFFINE:
            if index.kind is IndexKind.INDIRECT:
                return
            return
        factors = dict(index.coefficients)
        slow, fast = [bindings.loops.get(one.id) if isinstance(one, ast.Name) else None for one in wanted]
        if slow in factors and fast in factors and _is_one(factors[fast]) and not _is_one(factors[slow]):
            yield bindings

    def _distance(
        self, index: Index, access: Access, name: str, bindings: Bindings, *, other: bool = False
    ) -> int | None:
        """Iterations of a loop between the place that the statement writes and this one; None: not constant.

        `other`: this one may be in another array.
        """
        store = self._step.store
        if store is None or len(store.indices) != len(access.indices) or (store.array != access.array and not other):
            return None
        variable = bindings.loops[name]
        loop = self._step.effect.nest[self._step.variables.index(variable)]
        step = _whole(loop.step) if loop.step is not None else 1
        for written, read in zip(store.indices, access.indices, strict=True):
            if read is index:
                factor = _whole(dict(index.coefficients)[variable])
                if written.coefficients != read.coefficients or not factor or not step:
                    return None
                apart = _difference(written.offset, read.offset)
                if apart is None or apart % (factor * step):
                    return None
                return apart // (factor * step)
        return None


def _is_element(pattern: ast.expr) -> bool:
    """Whether a pattern stands for an element of an array: `A[i]`, `A[i].m`."""
    while isinstance(pattern, ast.Attribute):
        pattern = pattern.value
    return isinstance(pattern, ast.Subscript) and isinstance(pattern.value, ast.Name) and pattern.value.id[0].isupper()


def _takes_rest(pattern: ast.expr) -> bool:
    """Whether a pattern's operand stands for any value, so that it may take several operands of a chain."""
    match pattern:
        case ast.Name(id=name):
            return name == "_" or name in VALUES
        case ast.Call(func=ast.Name(id="_")):
            return True
    return False


def _is_product(pattern: ast.expr) -> bool:
    """Whether a pattern is a product, which takes a sign as one of the factors that do not vary."""
    return isinstance(pattern, ast.BinOp) and isinstance(pattern.op, ast.Mult)


@lru_cache(maxsize=4096)
def _pattern_operands(pattern: ast.expr, operator: str) -> tuple[tuple[int, ast.expr], ...]:
    """Operands of a pattern's chain with their signs, those that take the rest last."""

    def flat(node: ast.expr, sign: int) -> Iterator[tuple[int, ast.expr]]:
        match node:
            case ast.BinOp(op=op, left=left, right=right) if _CHAINS.get(type(op)) == operator:
                yield from flat(left, sign)
                yield from flat(right, -sign if isinstance(op, ast.Sub) else sign)
            case ast.BoolOp(op=op, values=values) if _CHAINS.get(type(op)) == operator:
                for value in values:
                    yield from flat(value, sign)
            case _:
                yield sign, node

    return tuple(sorted(flat(pattern, 1), key=lambda one: _takes_rest(one[1])))


def _terms(expression: form.Expression, sign: int = 1) -> Terms:
    """A sum's terms with their signs."""
    match _stripped(expression):
        case form.Operation(operator="+", operands=(left, right)):
            return _terms(left, sign) + _terms(right, sign)
        case form.Operation(operator="-", operands=(left, right)):
            return _terms(left, sign) + _terms(right, -sign)
        case form.Operation(operator="neg", operands=(operand,)):
            return _terms(operand, -sign)
        case other:
            return ((sign, other),)


def _operands(expression: form.Expression, operator: str) -> tuple[form.Expression, ...]:
    """A chain's operands."""
    expression = _stripped(expression)
    if isinstance(expression, form.Operation) and expression.operator == operator:
        return tuple(part for operand in expression.operands for part in _operands(operand, operator))
    if operator == "*" and isinstance(expression, form.Operation) and expression.operator == "neg":
        return (form.Constant(-1), *_operands(expression.operands[0], operator))
    return (expression,)


def _joined(operator: str, terms: Terms) -> form.Expression:
    """Several terms joined into one expression."""
    made: form.Expression | None = None
    for sign, term in terms:
        signed = term if sign == 1 else form.Operation("neg", (term,))
        made = signed if made is None else form.Operation(operator, (made, signed))
    assert made is not None
    return made


def _stripped(expression: form.Expression) -> form.Expression:
    """An expression without conversions around it."""
    while isinstance(expression, form.Convert):
        expression = expression.operand
    return expression


def _outside_subscripts(expression: form.Expression) -> Iterator[form.Expression]:
    """An expression and its parts, without the indices of subscripts."""
    pending = [expression]
    while pending:
        current = pending.pop()
        yield current
        match current:
            case form.Operation(operands=parts) | form.Call(arguments=parts) | form.Unknown(reads=parts):
                pending.extend(reversed(parts))
            case form.Convert(operand=operand):
                pending.append(operand)


def _shifted(expression: form.Expression) -> Iterator[form.Expression]:
    """Parts of an index that may be the load of an index array: `I[i]`, `I[i] - 1`, `3 * I[i] + c`, `J[I[i]]`."""
    for _, term in _terms(expression):
        for factor in _operands(term, "*"):
            yield factor
            if isinstance(factor, form.Subscript):
                for index in factor.indices:
                    for part in _outside_subscripts(index):
                        if isinstance(part, form.Subscript):
                            yield from _shifted(part)


def _load_within(expression: form.Expression) -> form.Expression | None:
    """The one load among an expression's terms."""
    found = [part for _, part in _terms(expression) if isinstance(part, form.Subscript | form.Member)]
    return found[0] if len(found) == 1 else None


def _root(expression: form.Expression) -> str:
    """The name at the root of a load, with its members."""
    match expression:
        case form.Name(name=name):
            return name
        case form.Member(base=base, member=member):
            return f"{_root(base)}.{member}"
        case form.Subscript(base=base):
            return _root(base)
    return ""


def _same_element(one: form.Expression, other: form.Expression) -> bool:
    """Whether two loads are of the same place of two arrays: where rows begin, and where they end."""
    if not isinstance(one, form.Subscript) or not isinstance(other, form.Subscript):
        return False
    return one.indices == other.indices and any(names(index) for index in one.indices)


def _concerns(index: Index, variables: set[str]) -> bool:
    if index.kind is IndexKind.AFFINE:
        return any(variable in variables for variable, _ in index.coefficients)
    return index.kind is not IndexKind.INVARIANT


def _whole(expression: form.Expression | None) -> int | None:
    match expression:
        case form.Constant(value=int() as value):
            return value
        case form.Operation(operator="neg", operands=(form.Constant(value=int() as value),)):
            return -value
    return None


def _is_one(expression: form.Expression) -> bool:
    return _whole(expression) in (1, -1)


def _difference(one: form.Expression | None, other: form.Expression | None) -> int | None:
    """one - other, if it is a whole number."""
    left = _terms(one) if one is not None else ()
    right = _terms(other, -1) if other is not None else ()
    total = 0
    symbols: dict[form.Expression, int] = {}
    for sign, term in left + right:
        value = _whole(term)
        if value is not None:
            total += sign * value
        else:
            symbols[term] = symbols.get(term, 0) + sign
    return None if any(symbols.values()) else total


# Conditions


def offsets(match: Match) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Offsets of the first statement's reads of each array from the place it writes, in the array's own dimensions.

    Only reads that move with the store count: same induction variables, same factors, constant differences. An array
    with other dimensions than the stored one has offsets in those that both share: `u[0][i - 1]` beside `f[k][j][i]`.
    """
    step = match.steps[0]
    store = step.store
    found: dict[str, set[tuple[int, ...]]] = {}
    reads: dict[str, Access] = {}
    if store is None:
        return {}
    moving = [index for index in store.indices if index.kind is IndexKind.AFFINE]
    for load in [step.accesses[part] for part in _chosen_among(step.value) if part in step.accesses]:
        read = [index for index in load.indices if index.kind is IndexKind.AFFINE]
        pairs = [(one, other) for one in read for other in moving if one.coefficients == other.coefficients]
        alike = len(pairs) == len(read) == len(moving) and len(load.indices) == len(store.indices)
        apart = _distances(pairs) if alike or load.array != store.array else None
        if apart is not None and (alike or _is_shared(load, pairs)):
            found.setdefault(load.array, set()).add(apart)
            reads[load.array] = load
    return {
        array: tuple(sorted(places))[: 1 if len(places) > 1 and _in_records(reads[array], step) else None]
        for array, places in found.items()
    }


def _in_records(load: Access, step: Step) -> bool:
    """Whether no two iterations read the same elements: each its own record, as of interleaved complex numbers.

    The loop moves by more elements in some dimension than all its reads of the array are apart there.
    """
    moving = [index for index in load.indices if index.kind is IndexKind.AFFINE]
    beside: list[list[int]] = [[] for _ in moving]
    for indices in step.loop.places_read.get(load.array, ()):
        places = [index for index in indices if index.kind is IndexKind.AFFINE]
        if [place.coefficients for place in places] != [index.coefficients for index in moving]:
            return False
        for position, (place, index) in enumerate(zip(places, moving, strict=True)):
            apart = _difference(place.offset, index.offset)
            if apart is None:
                return False
            beside[position].append(apart)
    spans = [max(one) - min(one) if one else 0 for one in beside]
    strides = [_stride(index, step) for index in moving]
    return any(spans) and all(span < stride for span, stride in zip(spans, strides, strict=True) if span)


def _stride(index: Index, step: Step) -> int:
    """Least distance between an index of two iterations that follow each other, as far as it is known; at least 1."""
    steps = {loop.variable: 1 if loop.step is None else _whole(loop.step) for loop in step.effect.nest}
    return min((abs((_whole(factor) or 1) * (steps.get(name) or 1)) for name, factor in index.coefficients), default=1)


def _chosen_among(value: form.Expression) -> Iterator[form.Expression]:
    """A value and its parts, without the conditions that choose it: these enter no sum."""
    pending = [value]
    while pending:
        current = pending.pop()
        yield current
        if isinstance(current, form.Operation) and current.operator == "select":
            pending += current.operands[1:]
        else:
            pending += parts(current)


def sources(match: Match) -> dict[str, Access]:
    """Arrays of a finding, by the pattern's names; a stencil's source is the array read at most offsets."""
    found = dict(match.bindings.arrays)
    if match.definition.name == "stencil" and "B" in found:
        step, places = match.steps[0], offsets(match)
        store = step.store
        name = max(places, key=lambda one: (len(places[one]), store is None or one != store.array), default="")
        found["B"] = next((one for one in step.accesses.values() if one.array == name and not one.store), found["B"])
    return found


def _distances(pairs: Sequence[tuple[Index, Index]]) -> tuple[int, ...] | None:
    apart = [_difference(one.offset, other.offset) for one, other in pairs]
    known = tuple(one for one in apart if one is not None)
    return known if len(known) == len(apart) else None


def _is_shared(load: Access, pairs: Sequence[tuple[Index, Index]]) -> bool:
    """Whether a read shares some of the store's dimensions, each with one of its own; no other is indirect."""
    if not pairs or any(len({id(one) for one in side}) != len(pairs) for side in zip(*pairs, strict=True)):
        return False
    return all(index.kind in (IndexKind.AFFINE, IndexKind.INVARIANT) for index in load.indices)


def _holds(condition: ast.expr, match: Match) -> bool:
    match condition:
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_holds(value, match) for value in values)
        case ast.BoolOp(values=values):
            return any(_holds(value, match) for value in values)
        case ast.UnaryOp(operand=operand):
            return not _holds(operand, match)
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            one, other = _number(left, match), _number(right, match)
            return {
                ast.Lt: one < other, ast.LtE: one <= other, ast.Gt: one > other, ast.GtE: one >= other,
                ast.Eq: one == other, ast.NotEq: one != other,
            }.get(type(operator), False)  # fmt: skip
        case _:
            return bool(_number(condition, match))


def _settled(condition: ast.expr, match: Match) -> bool | None:
    """Truth of a condition that the first statement alone decides; None: it depends on statements still to be found."""
    match condition:
        case ast.BoolOp(op=operator, values=values):
            answers = [_settled(value, match) for value in values]
            decisive = not isinstance(operator, ast.And)
            return decisive if decisive in answers else None if None in answers else not decisive
        case ast.UnaryOp(operand=operand):
            answer = _settled(operand, match)
            return None if answer is None else not answer
        case _:
            asked = {one.func.id for one in ast.walk(condition) if isinstance(one, ast.Call) and _is_name(one.func)}
            return _holds(condition, match) if asked <= _OF_FIRST else None


def _is_name(node: ast.expr) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name)


def _number(node: ast.expr, match: Match) -> int:
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int)
        return node.value
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    arguments = [argument.id for argument in node.args if isinstance(argument, ast.Name)]
    return int(_QUESTIONS[node.func.id](match, *arguments))


def _same_array(match: Match, one: str, other: str) -> bool:
    arrays = match.bindings.arrays
    return one in arrays and other in arrays and arrays[one].array == arrays[other].array


def _differs(match: Match, one: str, other: str) -> bool:
    places = match.bindings.places
    return one in places and other in places and places[one] != places[other]


def _compares(match: Match, array: str) -> bool:
    """The guards, the loop's condition or a minimum compare elements of the array."""
    step, bound = match.steps[0], match.bindings.arrays.get(array)
    if bound is None:
        return False
    name = bound.array
    tested = [*step.conditions, *(loop.condition for loop in step.effect.nest if loop.condition is not None)]
    compared: list[form.Expression] = [
        part for one in tested for part in within(one)
        if isinstance(part, form.Operation) and part.operator in _COMPARISONS
    ]  # fmt: skip
    compared_calls = [
        part for part in within(step.value) if isinstance(part, form.Call) and part.function in ("min", "max")
    ]
    return any(
        overlaps(step.accesses[part].array, name)
        for one in (*compared, *compared_calls) for part in within(one) if part in step.accesses
    )  # fmt: skip


def _updates(match: Match, array: str) -> bool:
    """The statement reads the place of the array that it writes."""
    step, access = match.steps[0], match.bindings.arrays.get(array)
    if step.store is None or access is None or access.subscript != step.target:
        return False
    return any(step.target in within(part) for part in (step.value, *step.conditions))


def _rewritten(match: Match, array: str) -> bool:
    """Whether the next loop around writes other elements of the array than are read: a solve in place, no product."""
    step, access = match.steps[0], match.bindings.arrays.get(array)
    if access is None or len(step.effect.nest) < 2:
        return False
    stored = step.function.stored(step.effect.nest[-2], access.array)
    return any(element != access.subscript for element in stored)


def _most_offsets(match: Match) -> int:
    return max((len(places) for places in offsets(match).values()), default=0)


def _reads_earlier_iteration(match: Match) -> bool:
    """Whether an iteration reads a value that an earlier one wrote: not a later one, and not itself."""
    distance = match.bindings.distance
    if distance is not None:
        return distance > 0
    return bool(match.bindings.scalars) or _stands_still(match.steps[0])


def _grows(match: Match) -> bool:
    """Whether the places that are filled are only ever added to, and not read in the loops that fill them.

    A stack and a queue are filled likewise, but also emptied. Where each branch fills a place, none is left out.
    """
    step = match.steps[0]
    store, inner, outer = step.store, step.effect.nest[-1], step.effect.nest[0]
    scalars = frozenset(match.bindings.scalars.values())
    asked = ("grows", None if store is None else store.array, scalars, id(inner), id(outer))
    counters = {form.Name(name) for name in scalars}
    known = step.function.answers.get(asked)
    if known is None:
        known = step.function.answers[asked] = _only_grows(step, counters)
    return known and not _always(inner.body, step.effect.place, counters)


def _only_grows(step: Step, counters: set[form.Name]) -> bool:
    for counter in counters:
        for value in step.function.assigned(step.facts.function.body, counter):
            moved = algebra.constant(algebra.plus(algebra.polynomial(value), {(counter,): 1}, -1))
            if moved is not None and moved < 0:
                return False
    store = step.store
    if store is None:
        return True
    inside = step.function.inside(step.effect.nest[-1])
    for array, elements in step.function.read(step.effect.nest[0]).items():
        if overlaps(store.array, array):
            for element in elements:
                counted = any(counters & set(within(index)) for index in element.subscript.indices)
                if element.statement not in inside or counted:
                    return False
    return True


def _always(body: Sequence[form.Statement], place: form.Place, counters: Collection[form.Name]) -> bool:
    """Whether both sides of the outermost branch around a place move a counter."""
    for part in body:
        inside = any(one.place == place for one in statements((part,)))
        if isinstance(part, form.Branch) and inside:
            return _moved(part.body, counters) and _moved(part.otherwise, counters)
        if inside:
            return any(_always(block, place, counters) for block in blocks(part))
    return False


def _moved(body: Sequence[form.Statement], counters: Collection[form.Name]) -> bool:
    return any(
        (isinstance(part, form.Assign) and part.target in counters)
        or (isinstance(part, form.Branch) and _moved(part.body, counters) and _moved(part.otherwise, counters))
        for part in body
    )


def _ragged(match: Match) -> bool:
    """Whether the innermost loop's number of iterations is read from memory: rows of different lengths."""
    loop = match.steps[0].effect.nest[-1]
    return any(
        isinstance(part, form.Subscript)
        for bound in (loop.first, loop.last) if bound is not None for part in within(bound)
    )  # fmt: skip


def _indexes(match: Match) -> bool:
    """Whether a scalar of the pattern says where elements are: it counts places, and is no result."""
    step = match.steps[0]
    scalars = set(match.bindings.scalars.values())
    variables = [step.facts.function.variables.get(name) for name in scalars]
    if any(one is not None and isinstance(one.type, form.PointerType) for one in variables):
        return True
    return not scalars.isdisjoint(step.function.index_names(step.effect.nest[-1]))


def _many(match: Match) -> bool:
    """Whether the values added to a scalar differ between iterations, and do not depend on the scalar itself.

    A counter that advances by an invariant array element has a constant step.
    """
    step = match.steps[0]
    scalars = set(match.bindings.scalars.values())
    if any(not scalars.isdisjoint(names(one)) for one in step.conditions):
        return False
    if not scalars or len(match.pattern.statements) > 1 or step.conditions:
        return True
    changed = {name.name for name in step.facts.carried} | {loop.variable for loop in step.effect.nest}
    own = set(within(step.value))
    return any(
        access.array in step.loop.filled or not changed.isdisjoint(step.parts.names(part))
        or any(_moves(access, variable) != [] for variable in step.variables)
        for part, access in step.accesses.items() if part in own
    )  # fmt: skip


def _stands_still(step: Step) -> bool:
    """The statement changes one element over and over, and no earlier one sets it: `total[0] += a[i]`."""
    store = step.store
    if store is None or _moves(store, step.variables[-1]) != []:
        return False
    return not step.loop.is_set_before(step.effect)


def _table(match: Match, array: str) -> bool:
    """Whether an array is a look-up table: constant, or small and of known size, or with a masked index."""
    access = match.bindings.arrays.get(array)
    if access is None:
        return False
    root = access.array.split(".")[0]
    variable = match.steps[0].facts.function.variables.get(root)
    if variable is not None:
        if variable.constant and variable.storage not in (form.Storage.PARAMETER, form.Storage.REFERENCE):
            return True
        if isinstance(variable.type, form.ArrayType):
            extents = [_whole(extent) for extent in variable.type.shape]
            if all(extents):
                elements = 1
                for extent in extents:
                    elements *= extent or 1
                return elements <= _SMALL_TABLE and variable.storage is not form.Storage.LOCAL
    return any(
        isinstance(part, form.Operation) and part.operator in ("&", "%")
        for index in access.indices for part in within(index.expression)
    )  # fmt: skip


def _computed(match: Match) -> bool:
    """The value comes from scalars that other statements compute: from earlier iterations, or no element at all."""
    step = match.steps[0]
    read = {part.name for part in _outside_subscripts(step.value) if isinstance(part, form.Name)}
    if not read.isdisjoint(name.name for name in step.facts.carried):
        return True
    return not step.loop.assigned_inside.isdisjoint(read) and not any(
        part in step.accesses for part in within(step.value)
    )


def _commutes(match: Match) -> bool:
    """The statement updates a place by an operator for which the order does not matter."""
    step = match.steps[0]
    return bool(reduction_operator(step.target, step.value, step.conditions))


def _in_step(match: Match) -> bool:
    """Whether the statement's reads and writes advance by equal strides in the innermost loop, or are invariant.

    An array that is read must move with the one that is written, unless the value depends on none, or on the loop's
    variable besides. Local arrays that the loop fills itself, and elements that it stores to, count as scalars.
    """
    step = match.steps[0]
    store, variable = step.store, step.variables[-1]
    if store is None:
        return False
    written = _moves(store, variable)
    if not written:
        return False
    inside = list(_outside_subscripts(step.value))
    values = [step.accesses[part] for part in inside if part in step.accesses]
    filled = step.loop.filled
    read = [
        moves for access in values
        if (moves := _moves(access, variable)) or not (
            access.array in filled and (moves == [] or _is_local(access.array, step))
        )
    ]  # fmt: skip
    moving = written in read or not read or form.Name(variable) in inside
    return moving and all(moves == written for moves in read if moves)


def _is_local(array: str, step: Step) -> bool:
    known = step.facts.function.variables.get(array)
    return known is not None and known.storage is form.Storage.LOCAL and isinstance(known.type, form.ArrayType)


def _moves(access: Access, variable: str) -> list[form.Expression] | None:
    """Strides of an access's indices in a loop; None: not constant."""
    found = []
    for index in access.indices:
        if index.kind is IndexKind.AFFINE:
            found += [factor for name, factor in index.coefficients if name == variable]
        elif index.kind is not IndexKind.INVARIANT:
            return None
    return found


def _reads_behind(match: Match) -> bool:
    """Whether the other places of the written array that are read were written by earlier iterations of one loop."""
    step = match.steps[0]
    store = step.store
    if store is None:
        return False
    read = [place for place in offsets(match).get(store.array, ()) if any(place)]
    moved = {position for place in read for position, apart in enumerate(place) if apart}
    if len(moved) != 1:
        return False
    position = moved.pop()
    index = [index for index in store.indices if index.kind is IndexKind.AFFINE][position]
    if len(index.coefficients) != 1:
        return False
    variable, factor = index.coefficients[0]
    loop = step.effect.nest[step.variables.index(variable)]
    step_size = 1 if loop.step is None else _whole(loop.step)
    direction = (_whole(factor) or 0) * (step_size or 0)
    return all(place[position] * direction < 0 for place in read)


def _innermost(match: Match, name: str) -> bool:
    return match.bindings.loops.get(name) == match.steps[0].variables[-1]


def _varies(match: Match, name: str) -> bool:
    """A value that depends on an element of an array."""
    accesses = match.steps[0].accesses
    return any(part in accesses for _, term in match.bindings.values.get(name, ()) for part in within(term))


_QUESTIONS: dict[str, Callable[..., int]] = {
    "same": _same_array, "differs": _differs, "compares": _compares, "updates": _updates, "offsets": _most_offsets,
    "carried": _reads_earlier_iteration, "table": _table, "innermost": _innermost, "varies": _varies,
    "computed": _computed, "in_step": _in_step, "behind": _reads_behind, "commutes": _commutes,
    "grows": _grows, "indexes": _indexes, "many": _many, "ragged": _ragged, "rewritten": _rewritten,
}  # fmt: skip
_OF_FIRST = frozenset({"computed", "in_step", "behind", "commutes", "ragged", "offsets"})
"""Requirements that depend on the first statement alone."""
