"""Effects of loops prepared for matching: delayed scalars resolved, minima and maxima in one notation."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from foretrace.tracer.source.flow import algebra
from foretrace.tracer.source.flow.records import Access, Effect, LoopFacts
from foretrace.tracer.source.flow.reductions import truth
from foretrace.tracer.source.flow.subscripts import Scope
from foretrace.tracer.source.flow.subscripts import access as access_of
from foretrace.tracer.source.flow.subscripts import loads as element_loads
from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.walk import names, rebuilt, replaced, within

from .surroundings import FunctionSurroundings, LoopSurroundings
from .terms import outside_subscripts, stripped, whole_number

MOST_DELAYS = 6
"""Iterations that a value may have been handed on."""

COMPARISONS = {"<", "<=", ">", ">=", "==", "!="}

_TRUTHS = {*COMPARISONS, "not", "and", "or"}


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
                for part in outside_subscripts(expression)
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
    step = 1 if loop.step is None else whole_number(loop.step)
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
            added = stripped(operands[1] if operands[0] == target else operands[0])
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
