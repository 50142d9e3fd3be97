"""Conditions of patterns on their matches: offsets of stencils, sizes of tables, growth of counters and the like."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeGuard

from foretrace.tracer.source.flow import algebra
from foretrace.tracer.source.flow.records import Access, Index, IndexKind
from foretrace.tracer.source.flow.reductions import reduction_operator
from foretrace.tracer.source.flow.stores import overlaps
from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.walk import blocks, names, parts, statements, within

from .bindings import Match
from .steps import COMPARISONS, Step
from .terms import difference, outside_subscripts, whole_number

_SMALL_TABLE = 65536
"""Elements of the largest array of known size that still counts as a table."""


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
            apart = difference(place.offset, index.offset)
            if apart is None:
                return False
            beside[position].append(apart)
    spans = [max(one) - min(one) if one else 0 for one in beside]
    strides = [_stride(index, step) for index in moving]
    return any(spans) and all(span < stride for span, stride in zip(spans, strides, strict=True) if span)


def _stride(index: Index, step: Step) -> int:
    """Least distance between an index of two iterations that follow each other, as far as it is known; at least 1."""
    steps = {loop.variable: 1 if loop.step is None else whole_number(loop.step) for loop in step.effect.nest}
    return min(
        (abs((whole_number(factor) or 1) * (steps.get(name) or 1)) for name, factor in index.coefficients), default=1
    )


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
    apart = [difference(one.offset, other.offset) for one, other in pairs]
    known = tuple(one for one in apart if one is not None)
    return known if len(known) == len(apart) else None


def _is_shared(load: Access, pairs: Sequence[tuple[Index, Index]]) -> bool:
    """Whether a read shares some of the store's dimensions, each with one of its own; no other is indirect."""
    if not pairs or any(len({id(one) for one in side}) != len(pairs) for side in zip(*pairs, strict=True)):
        return False
    return all(index.kind in (IndexKind.AFFINE, IndexKind.INVARIANT) for index in load.indices)


def condition_holds(condition: ast.expr, match: Match) -> bool:
    """Whether a match meets a condition of its pattern."""
    match condition:
        case ast.BoolOp(op=ast.And(), values=values):
            return all(condition_holds(value, match) for value in values)
        case ast.BoolOp(values=values):
            return any(condition_holds(value, match) for value in values)
        case ast.UnaryOp(operand=operand):
            return not condition_holds(operand, match)
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            one, other = _number(left, match), _number(right, match)
            return {
                ast.Lt: one < other, ast.LtE: one <= other, ast.Gt: one > other, ast.GtE: one >= other,
                ast.Eq: one == other, ast.NotEq: one != other,
            }.get(type(operator), False)  # fmt: skip
        case _:
            return bool(_number(condition, match))


def settled_condition(condition: ast.expr, match: Match) -> bool | None:
    """Truth of a condition that the first statement alone decides; None: it depends on statements still to be found."""
    match condition:
        case ast.BoolOp(op=operator, values=values):
            answers = [settled_condition(value, match) for value in values]
            decisive = not isinstance(operator, ast.And)
            return decisive if decisive in answers else None if None in answers else not decisive
        case ast.UnaryOp(operand=operand):
            answer = settled_condition(operand, match)
            return None if answer is None else not answer
        case _:
            asked = {one.func.id for one in ast.walk(condition) if isinstance(one, ast.Call) and _is_name(one.func)}
            return condition_holds(condition, match) if asked <= _OF_FIRST else None


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
        if isinstance(part, form.Operation) and part.operator in COMPARISONS
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
            extents = [whole_number(extent) for extent in variable.type.shape]
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
    read = {part.name for part in outside_subscripts(step.value) if isinstance(part, form.Name)}
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
    inside = list(outside_subscripts(step.value))
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
    step_size = 1 if loop.step is None else whole_number(loop.step)
    direction = (whole_number(factor) or 0) * (step_size or 0)
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
