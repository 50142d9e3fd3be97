"""Terms, factors and loads of expressions, as matching compares them."""

from __future__ import annotations

from collections.abc import Iterator

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.walk import names

Terms = tuple[tuple[int, form.Expression], ...]
"""A sum: each term with its sign, 1 or -1."""


def signed_terms(expression: form.Expression, sign: int = 1) -> Terms:
    """A sum's terms with their signs."""
    match stripped(expression):
        case form.Operation(operator="+", operands=(left, right)):
            return signed_terms(left, sign) + signed_terms(right, sign)
        case form.Operation(operator="-", operands=(left, right)):
            return signed_terms(left, sign) + signed_terms(right, -sign)
        case form.Operation(operator="neg", operands=(operand,)):
            return signed_terms(operand, -sign)
        case other:
            return ((sign, other),)


def chain_operands(expression: form.Expression, operator: str) -> tuple[form.Expression, ...]:
    """A chain's operands."""
    expression = stripped(expression)
    if isinstance(expression, form.Operation) and expression.operator == operator:
        return tuple(part for operand in expression.operands for part in chain_operands(operand, operator))
    if operator == "*" and isinstance(expression, form.Operation) and expression.operator == "neg":
        return (form.Constant(-1), *chain_operands(expression.operands[0], operator))
    return (expression,)


def joined_terms(operator: str, terms: Terms) -> form.Expression:
    """Several terms joined into one expression."""
    made: form.Expression | None = None
    for sign, term in terms:
        signed = term if sign == 1 else form.Operation("neg", (term,))
        made = signed if made is None else form.Operation(operator, (made, signed))
    assert made is not None
    return made


def stripped(expression: form.Expression) -> form.Expression:
    """An expression without conversions around it."""
    while isinstance(expression, form.Convert):
        expression = expression.operand
    return expression


def outside_subscripts(expression: form.Expression) -> Iterator[form.Expression]:
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


def shifted(expression: form.Expression) -> Iterator[form.Expression]:
    """Parts of an index that may be the load of an index array: `I[i]`, `I[i] - 1`, `3 * I[i] + c`, `J[I[i]]`."""
    for _, term in signed_terms(expression):
        for factor in chain_operands(term, "*"):
            yield factor
            if isinstance(factor, form.Subscript):
                for index in factor.indices:
                    for part in outside_subscripts(index):
                        if isinstance(part, form.Subscript):
                            yield from shifted(part)


def load_within(expression: form.Expression) -> form.Expression | None:
    """The one load among an expression's terms."""
    found = [part for _, part in signed_terms(expression) if isinstance(part, form.Subscript | form.Member)]
    return found[0] if len(found) == 1 else None


def root_name(expression: form.Expression) -> str:
    """The name at the root of a load, with its members."""
    match expression:
        case form.Name(name=name):
            return name
        case form.Member(base=base, member=member):
            return f"{root_name(base)}.{member}"
        case form.Subscript(base=base):
            return root_name(base)
    return ""


def same_element(one: form.Expression, other: form.Expression) -> bool:
    """Whether two loads are of the same place of two arrays: where rows begin, and where they end."""
    if not isinstance(one, form.Subscript) or not isinstance(other, form.Subscript):
        return False
    return one.indices == other.indices and any(names(index) for index in one.indices)


def whole_number(expression: form.Expression | None) -> int | None:
    """Value of a constant that is a whole number; None for any other expression."""
    match expression:
        case form.Constant(value=int() as value):
            return value
        case form.Operation(operator="neg", operands=(form.Constant(value=int() as value),)):
            return -value
    return None


def is_one(expression: form.Expression) -> bool:
    """Whether an expression is the constant 1 or -1."""
    return whole_number(expression) in (1, -1)


def difference(one: form.Expression | None, other: form.Expression | None) -> int | None:
    """one - other, if it is a whole number."""
    left = signed_terms(one) if one is not None else ()
    right = signed_terms(other, -1) if other is not None else ()
    total = 0
    symbols: dict[form.Expression, int] = {}
    for sign, term in left + right:
        value = whole_number(term)
        if value is not None:
            total += sign * value
        else:
            symbols[term] = symbols.get(term, 0) + sign
    return None if any(symbols.values()) else total
