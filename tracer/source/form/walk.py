"""Walking over the form: parts of expressions, statements inside statements, and copies with parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import is_

import msgspec

from .records import (
    AddressOf,
    Assign,
    Branch,
    Call,
    Constant,
    Convert,
    Evaluate,
    Expression,
    Jump,
    Loop,
    Member,
    Name,
    Opaque,
    Operation,
    Section,
    Statement,
    Subscript,
    Unknown,
)  # fmt: skip


def parts(expression: Expression) -> tuple[Expression, ...]:
    """The operands of an expression, in order."""
    match expression:
        case Operation(operands=operands):
            return operands
        case Subscript(base=base, indices=indices):
            return (base, *indices)
        case Call(arguments=arguments):
            return arguments
        case Member(base=base):
            return (base,)
        case Convert(operand=operand) | AddressOf(operand=operand):
            return (operand,)
        case Section(first=first, last=last, step=step):
            return tuple(part for part in (first, last, step) if part is not None)
        case Unknown(reads=reads):
            return reads
        case Constant() | Name():
            return ()


def within(expression: Expression) -> Iterator[Expression]:
    """The expression and all its parts, outermost first."""
    pending = [expression]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(parts(current)))


def rebuilt(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The expression with `change` applied to each part, innermost first, and to the whole at last.

    Unchanged parts stay the same objects.
    """
    match expression:
        case Constant() | Name():
            return change(expression)
        case Section(first=first, last=last, step=step):
            made = [None if part is None else rebuilt(part, change) for part in (first, last, step)]
            if made[0] is not first or made[1] is not last or made[2] is not step:
                expression = Section(*made)
            return change(expression)
    old = parts(expression)
    new = tuple([rebuilt(part, change) for part in old])
    if all(map(is_, old, new)):
        return change(expression)
    match expression:
        case Operation():
            expression = Operation(expression.operator, new)
        case Subscript():
            expression = Subscript(new[0], new[1:])
        case Call():
            expression = Call(expression.function, new, expression.pure)
        case Member():
            expression = Member(new[0], expression.member, expression.type)
        case Convert():
            expression = Convert(expression.type, new[0])
        case AddressOf():
            expression = AddressOf(new[0])
        case Unknown():
            expression = Unknown(expression.text, new)
    return change(expression)


def replaced(expression: Expression, values: dict[str, Expression]) -> Expression:
    """The expression with names replaced by their values."""

    def value_of(part: Expression) -> Expression:
        return values.get(part.name, part) if isinstance(part, Name) else part

    return rebuilt(expression, value_of)


def names(expression: Expression) -> set[str]:
    """The variables an expression reads, bases of subscripts included."""
    return {part.name for part in within(expression) if isinstance(part, Name)}


def expressions(statement: Statement) -> tuple[Expression, ...]:
    """The expressions that stand in the statement itself, not those of statements inside it."""
    match statement:
        case Assign(target=target, value=value):
            return (target, value)
        case Evaluate(call=call):
            return (call,)
        case Loop(first=first, last=last, step=step, condition=condition):
            return tuple(part for part in (first, last, step, condition) if part is not None)
        case Branch(condition=condition):
            return (condition,)
        case Jump(value=value):
            return () if value is None else (value,)
        case Opaque(reads=reads, writes=writes):
            return (*reads, *writes)
    return ()


def blocks(statement: Statement) -> tuple[tuple[Statement, ...], ...]:
    """The lists of statements inside a statement."""
    match statement:
        case Loop(body=body):
            return (body,)
        case Branch(body=body, otherwise=otherwise):
            return (body, otherwise)
    return ()


def statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """All statements of a body and inside them, in the order of the source."""
    left = [iter(body)]
    while left:
        for statement in left[-1]:
            yield statement
            if inside := blocks(statement):
                left += [iter(block) for block in reversed(inside)]
                break
        else:
            left.pop()


def loops(body: Sequence[Statement], around: tuple[Loop, ...] = ()) -> Iterator[tuple[Loop, ...]]:
    """Each loop of a body with those around it, outermost first: the last of a tuple is the loop itself."""
    for statement in body:
        if isinstance(statement, Loop):
            nest = (*around, statement)
            yield nest
            yield from loops(statement.body, nest)
        else:
            for block in blocks(statement):
                yield from loops(block, around)


def mapped(body: Sequence[Statement], change: Callable[[Statement], Sequence[Statement]]) -> tuple[Statement, ...]:
    """The body with each statement replaced by the result of `change`, innermost first."""
    result: list[Statement] = []
    for statement in body:
        match statement:
            case Loop():
                statement = msgspec.structs.replace(statement, body=mapped(statement.body, change))
            case Branch():
                statement = msgspec.structs.replace(
                    statement, body=mapped(statement.body, change), otherwise=mapped(statement.otherwise, change)
                )
        result.extend(change(statement))
    return tuple(result)
