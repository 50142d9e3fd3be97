"""Integer expressions as polynomials: sums of products of atoms, to compare, simplify and take apart.

An atom is an expression that is no sum or product: a name, a load, a call. A polynomial maps each product (a tuple of
atoms, sorted) to its integer factor; the empty product is the constant.
"""

from __future__ import annotations

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.text import expression_text
from foretrace.tracer.source.form.walk import within

Product = tuple[form.Expression, ...]
Polynomial = dict[Product, int]

MOST_TERMS = 40
"""Products of sums with more terms stay one atom."""


def polynomial(expression: form.Expression) -> Polynomial:
    """An expression as a polynomial."""
    match expression:
        case form.Constant(value=value):
            if type(value) is int:
                return {(): value} if value else {}
        case form.Operation(operator=operator, operands=operands):
            match operator:
                case "+" | "-":
                    return plus(polynomial(operands[0]), polynomial(operands[1]), 1 if operator == "+" else -1)
                case "neg":
                    return plus({}, polynomial(operands[0]), -1)
                case "*":
                    left, right = polynomial(operands[0]), polynomial(operands[1])
                    if len(left) * len(right) <= MOST_TERMS:
                        return times(left, right)
                case "<<":
                    amount = operands[1]
                    if isinstance(amount, form.Constant) and type(amount.value) is int and 0 <= amount.value < 32:
                        return scaled(polynomial(operands[0]), 1 << amount.value)
                case "//" | "/":
                    exact = _divided(operands[0], operands[1])
                    if exact is not None:
                        return exact
    return {(expression,): 1}


def _divided(left: form.Expression, right: form.Expression) -> Polynomial | None:
    if not (isinstance(right, form.Constant) and type(right.value) is int and right.value):
        return None
    terms = polynomial(left)
    if any(factor % right.value for factor in terms.values()):
        return None
    return {product: factor // right.value for product, factor in terms.items()}


def plus(left: Polynomial, right: Polynomial, factor: int = 1) -> Polynomial:
    """`left + factor * right`."""
    result = dict(left)
    for product, amount in right.items():
        total = result.get(product, 0) + factor * amount
        if total:
            result[product] = total
        else:
            result.pop(product, None)
    return result


def times(left: Polynomial, right: Polynomial) -> Polynomial:
    """The product of two polynomials."""
    result: Polynomial = {}
    for one, amount in left.items():
        for other, factor in right.items():
            product = tuple(sorted((*one, *other), key=_key)) if one and other else one or other
            total = result.get(product, 0) + amount * factor
            if total:
                result[product] = total
            else:
                result.pop(product, None)
    return result


def scaled(terms: Polynomial, factor: int) -> Polynomial:
    """A polynomial times an integer."""
    return {product: amount * factor for product, amount in terms.items()} if factor else {}


def _key(atom: form.Expression) -> str:
    return atom.name if isinstance(atom, form.Name) else expression_text(atom)


def constant(terms: Polynomial) -> int | None:
    """The polynomial's value, if it is a constant."""
    if not terms:
        return 0
    return terms[()] if len(terms) == 1 and () in terms else None


def difference(left: form.Expression, right: form.Expression) -> int | None:
    """`left - right`, if it is a constant."""
    if left is right:
        return 0
    return constant(plus(polynomial(left), polynomial(right), -1))


def expression(terms: Polynomial) -> form.Expression:
    """A polynomial as an expression: positive terms first, the constant last."""
    total: form.Expression | None = None
    ordered = sorted(terms.items(), key=lambda item: (not item[0], item[1] < 0))
    for product, factor in ordered:
        amount: form.Expression | None = None
        for atom in product:
            amount = atom if amount is None else form.Operation("*", (amount, atom))
        size = abs(factor)
        if amount is None:
            amount = form.Constant(size)
        elif size != 1:
            amount = form.Operation("*", (form.Constant(size), amount))
        if total is None:
            total = amount if factor > 0 else form.Constant(-size) if not product else form.Operation("neg", (amount,))
        else:
            total = form.Operation("+" if factor > 0 else "-", (total, amount))
    return form.Constant(0) if total is None else total


def simplified(value: form.Expression) -> form.Expression:
    """An integer expression with like terms taken together; the same object if nothing changes."""
    match value:
        case form.Operation(operator="+" | "-" | "*" | "neg" | "<<"):
            return expression(polynomial(value))
        case form.Operation(operator="//", operands=(left, right)):
            return form.Operation("//", (simplified(left), simplified(right)))
        case form.Call(function="max" | "min", arguments=(left, right)):
            left, right = simplified(left), simplified(right)
            gap = difference(left, right)
            if gap is not None:
                return left if (gap >= 0) == (value.function == "max") else right
            return form.Call(value.function, (left, right))
    return value


def add(left: form.Expression, right: form.Expression) -> form.Expression:
    """`left + right`, simplified."""
    return expression(plus(polynomial(left), polynomial(right)))


def subtract(left: form.Expression, right: form.Expression) -> form.Expression:
    """`left - right`, simplified."""
    return expression(plus(polynomial(left), polynomial(right), -1))


def multiply(left: form.Expression, right: form.Expression) -> form.Expression:
    """`left * right`, simplified."""
    return expression(times(polynomial(left), polynomial(right)))


def split(terms: Polynomial, name: str) -> tuple[Polynomial, Polynomial] | None:
    """A polynomial as `factor * name + rest`; None: not linear in the name, or the name stands inside an atom."""
    factor: Polynomial = {}
    rest: Polynomial = {}
    for product, amount in terms.items():
        found = 0
        others: list[form.Expression] = []
        for atom in product:
            if isinstance(atom, form.Name):
                if atom.name == name:
                    found += 1
                    continue
            elif mentions(atom, name):
                return None
            others.append(atom)
        if found > 1:
            return None
        (factor if found else rest)[tuple(others)] = amount
    return factor, rest


def mentions(value: form.Expression, name: str) -> bool:
    """Whether a name stands anywhere in an expression."""
    return any(isinstance(part, form.Name) and part.name == name for part in within(value))
