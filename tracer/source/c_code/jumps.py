"""`continue` in loops that do something between two iterations: without it the body falls through to that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from foretrace.tracer.source.form.records import Branch, Expression, Jump, JumpKind, Operation, Place, Statement, Target

MOST_NESTED = 24


def without_continue(body: Sequence[Statement], label: str, place: Place) -> tuple[Statement, ...]:
    """The body with `continue` replaced: by the other arm of its branch where it can be, else by a jump to its end."""
    made = _structured(body, 0)
    if not any(_continues(made)):
        return made
    return (*_jumping(made, label), Target(place, label))


def negation(condition: Expression) -> Expression:
    """The opposite condition."""
    opposites = {"==": "!=", "!=": "=="}
    match condition:
        case Operation(operator="not", operands=(inner,)):
            return inner
        case Operation(operator=operator, operands=operands) if operator in opposites:
            return Operation(opposites[operator], operands)
    return Operation("not", (condition,))


def _is_continue(statement: Statement) -> bool:
    return isinstance(statement, Jump) and statement.kind is JumpKind.CONTINUE and not statement.label


def _continues(body: Sequence[Statement]) -> Iterator[bool]:
    for statement in body:
        if _is_continue(statement):
            yield True
        elif isinstance(statement, Branch):
            yield from _continues(statement.body)
            yield from _continues(statement.otherwise)


def _structured(body: Sequence[Statement], nested: int) -> tuple[Statement, ...]:
    made: list[Statement] = []
    for place, statement in enumerate(body):
        if _is_continue(statement):
            return tuple(made)
        if isinstance(statement, Branch) and nested < MOST_NESTED:
            rest = body[place + 1 :]
            taken = bool(statement.body) and _is_continue(statement.body[-1])
            other = bool(statement.otherwise) and _is_continue(statement.otherwise[-1])
            if taken or other:
                first = statement.body if other and not taken else statement.body[:-1]
                second = statement.otherwise[:-1] if other else statement.otherwise
                if taken and not other:
                    second = (*second, *rest)
                elif other and not taken:
                    first = (*first, *rest)
                made.append(_branch(statement, _structured(first, nested + 1), _structured(second, nested + 1)))
                return tuple(made)
            if place == len(body) - 1:
                first, second = (_structured(arm, nested + 1) for arm in (statement.body, statement.otherwise))
                made.append(_branch(statement, first, second))
                return tuple(made)
        made.append(statement)
    return tuple(made)


def _branch(branch: Branch, body: tuple[Statement, ...], otherwise: tuple[Statement, ...]) -> Branch:
    if not body and otherwise:
        return Branch(branch.place, negation(branch.condition), otherwise)
    return msgspec.structs.replace(branch, body=body, otherwise=otherwise)


def _jumping(body: Sequence[Statement], label: str) -> tuple[Statement, ...]:
    made: list[Statement] = []
    for statement in body:
        if _is_continue(statement):
            statement = Jump(statement.place, JumpKind.GOTO, label)
        elif isinstance(statement, Branch):
            statement = msgspec.structs.replace(
                statement, body=_jumping(statement.body, label), otherwise=_jumping(statement.otherwise, label)
            )
        made.append(statement)
    return tuple(made)
