"""Operators by which an assignment reduces: sums, products, minima and maxima, and conditions as truth values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.walk import names, within

from .subscripts import array_name


def reduction_operator(own: form.Expression, value: form.Expression, conditions: Sequence[form.Expression] = ()) -> str:
    """The operator by which a stored value updates its target; "": none."""
    if isinstance(value, form.Convert):
        return reduction_operator(own, value.operand, conditions)
    match value:
        case form.Operation(operator="+" | "-"):
            terms = list(_flat(value, "+"))
            hits = [positive for part, positive in terms if part == own]
            others = [part for part, _ in terms if part != own]
            return "+" if hits == [True] and not any(_uses(part, own) for part in others) else ""
        case form.Operation(operator="*" | "/"):
            terms = list(_flat(value, "*"))
            hits = [positive for part, positive in terms if part == own]
            others = [part for part, _ in terms if part != own]
            return "*" if hits == [True] and not any(_uses(part, own) for part in others) else ""
        case form.Operation(operator="and" | "or" | "&" | "|" | "^" as operator):
            parts = list(_same_operator(value, operator))
            if operator in ("and", "or"):
                parts = [truth(part) for part in parts]
            return operator if parts.count(own) == 1 and sum(_uses(part, own) for part in parts) == 1 else ""
        case form.Call(function="min" | "max" as function, arguments=arguments):
            inner = [part for part in arguments if _uses(part, own)]
            if len(inner) == 1 and (inner[0] == own or reduction_operator(own, inner[0]) == function):
                return function
            return ""
        case form.Operation(operator="select", operands=(condition, true, false)):
            for chosen, other, negative in ((true, false, False), (false, true, True)):
                if other == own:
                    if not _uses(condition, own):
                        return reduction_operator(own, chosen)
                    if not _uses(chosen, own):
                        return _extreme(own, chosen, condition, negative=negative)
            return ""
    if not _uses(value, own):
        guards = [condition for condition in conditions if _uses(condition, own)]
        if len(guards) == 1:
            return _extreme(own, value, guards[0], negative=False)
    return ""


def truth(part: form.Expression) -> form.Expression:
    """An operand of a logical operator without the comparison with 0 that C adds to an integer."""
    match part:
        case form.Operation(operator="!=", operands=(inner, form.Constant(value=0))):
            return inner
    return part


def _extreme(own: form.Expression, chosen: form.Expression, condition: form.Expression, *, negative: bool) -> str:
    """`own = chosen` where `chosen > own`: "max"; where `chosen < own`: "min"."""
    if not isinstance(condition, form.Operation) or condition.operator not in ("<", "<=", ">", ">="):
        return ""
    left, right = condition.operands
    if (left, right) == (chosen, own):
        larger = condition.operator in (">", ">=")
    elif (left, right) == (own, chosen):
        larger = condition.operator in ("<", "<=")
    else:
        return ""
    return "max" if larger != negative else "min"


def _flat(value: form.Expression, operator: str, positive: bool = True) -> Iterator[tuple[form.Expression, bool]]:
    """Operands of a chain of sums or products, and whether each is added (multiplied)."""
    inverse = "-" if operator == "+" else "/"
    if isinstance(value, form.Operation) and value.operator in (operator, inverse):
        yield from _flat(value.operands[0], operator, positive)
        yield from _flat(value.operands[1], operator, positive == (value.operator == operator))
    elif isinstance(value, form.Operation) and value.operator == "neg" and operator == "+":
        yield from _flat(value.operands[0], operator, not positive)
    else:
        yield value, positive


def _same_operator(value: form.Expression, operator: str) -> Iterator[form.Expression]:
    if isinstance(value, form.Operation) and value.operator == operator:
        for operand in value.operands:
            yield from _same_operator(operand, operator)
    else:
        yield value


def _uses(expression: form.Expression, own: form.Expression) -> bool:
    if isinstance(own, form.Name):
        return own.name in names(expression)
    root = array_name(own)
    return any(
        isinstance(part, (form.Subscript, form.Member)) and array_name(part) == root for part in within(expression)
    )
