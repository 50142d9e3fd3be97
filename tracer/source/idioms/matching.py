"""Matching of patterns against loops' effects: a match binds the names of a pattern to parts of the program.

Both sides are trees: the pattern's is Python's syntax tree, the program's is the source form with temporaries resolved.
A matcher is a generator of bindings; where several ways lead to a match, it tries them one after the other. The
module is long for one class, which has a method for each kind of part of a pattern.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import permutations

from foretrace.tracer.source.flow.records import Access, Index, IndexKind
from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.walk import names, within

from .bindings import Bindings, Match
from .conditions import condition_holds, settled_condition
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
from .steps import Step
from .terms import (
    Terms,
    chain_operands,
    difference,
    is_one,
    joined_terms,
    load_within,
    outside_subscripts,
    root_name,
    same_element,
    shifted,
    signed_terms,
    stripped,
    whole_number,
)

MOST_NEST = 6
"""Induction variables are looked for among this many innermost loops."""
MOST_TRIES, MOST_TRIES_A_PART = 1_000, 10
"""Largest number of comparisons of a part of a pattern with a part of a program, for one idiom and its first statement:
a fixed number, and more for each part of the statement."""

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}

_CHAINS = {
    ast.Add: "+", ast.Sub: "+", ast.Mult: "*", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.And: "and",
    ast.Or: "or",
}  # fmt: skip


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
                if definition.where is not None and settled_condition(definition.where, begun) is False:
                    continue
                for chosen, bound in _rest(pattern, 1, (first,), steps, bindings, tries):
                    match = Match(definition, pattern, bound, chosen)
                    if definition.where is None or condition_holds(definition.where, match):
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
        first, last = load_within(loop.first), load_within(loop.last)
        if first is None and last is not None and self._goes_on(loop):
            return Access(root_name(last), last, (), False, loop.place)
        if first is None or last is None or first == last:
            return None
        if root_name(first) != root_name(last) and not same_element(first, last):
            return None
        return Access(root_name(first), first, (), False, loop.place)

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
        expression = stripped(expression)
        match pattern:
            case ast.Name(id="_"):
                if self._free_of_scalars((expression,), (), bindings):
                    yield bindings
            case ast.Name(id=name) if name in VALUES:
                bound = bindings.value(name, signed_terms(expression))
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
        return outside_subscripts(expression)

    # Sums, products and other chains

    def _chain(
        self, pattern: ast.expr, operator: str, expression: form.Expression, bindings: Bindings
    ) -> Iterator[Bindings]:
        """Match operands in any order; remaining ones join an operand that may be anything, or is invariant."""
        wanted = _pattern_operands(pattern, operator)
        given = (
            signed_terms(expression)
            if operator == "+"
            else tuple((1, one) for one in chain_operands(expression, operator))
        )
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
            yield from self.value(pattern, joined_terms(operator, rest), bindings)

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
                terms = signed_terms(index.expression)
                for position, (sign, term) in enumerate(terms):
                    others = terms[:position] + terms[position + 1 :]
                    if sign == 1 and all(self._fixed(one) for _, one in others):
                        yield from self.value(pattern, term, bindings)
            case ast.Subscript():
                for part in shifted(index.expression):
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
        if slow in factors and fast in factors and is_one(factors[fast]) and not is_one(factors[slow]):
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
        step = whole_number(loop.step) if loop.step is not None else 1
        for written, read in zip(store.indices, access.indices, strict=True):
            if read is index:
                factor = whole_number(dict(index.coefficients)[variable])
                if written.coefficients != read.coefficients or not factor or not step:
                    return None
                apart = difference(written.offset, read.offset)
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


def _concerns(index: Index, variables: set[str]) -> bool:
    if index.kind is IndexKind.AFFINE:
        return any(variable in variables for variable, _ in index.coefficients)
    return index.kind is not IndexKind.INVARIANT
