"""How indices depend on induction variables: affine, through index arrays, through counters, or opaque."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.records import LoopKind
from foretrace.tracer.source.form.types import Variables, type_of
from foretrace.tracer.source.form.walk import names, parts, within

from . import algebra
from .algebra import Polynomial
from .records import Access, Index, IndexKind

NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Scope:
    """What an index needs to know of the loops around it."""

    nest: tuple[form.Loop, ...]
    variables: Variables
    varying: frozenset[str] = NONE
    """Names that the outermost loop assigns, loop variables aside."""
    counters: frozenset[str] = NONE
    """Those of them that advance by an invariant amount."""

    @property
    def inductions(self) -> tuple[str, ...]:
        """Loop variables, outermost first."""
        return tuple(loop.variable for loop in self.nest if loop.kind is LoopKind.COUNTED)


def index(expression: form.Expression, scope: Scope) -> Index:
    """How one index depends on the loops around it."""
    inductions = scope.inductions
    read = names(expression)
    if not read & (scope.varying | frozenset(inductions)):
        return Index(IndexKind.INVARIANT, expression, offset=expression)
    loads = [part for part in _outer_loads(expression) if names(part) & (scope.varying | frozenset(inductions))]
    if loads:
        return _indirect(expression, loads, scope)
    terms = algebra.polynomial(expression)
    coefficients: dict[str, Polynomial] = {}
    rest: Polynomial = {}
    for product, factor in terms.items():
        own = [atom.name for atom in product if isinstance(atom, form.Name) and atom.name in inductions]
        others = tuple([atom for atom in product if not (isinstance(atom, form.Name) and atom.name in inductions)])
        mixed = [atom for atom in others if names(atom) & (scope.varying | frozenset(inductions))]
        if mixed or len(own) > 1:
            counter = len(product) == 1 and isinstance(product[0], form.Name) and product[0].name in scope.counters
            return Index(IndexKind.COUNTER if counter else IndexKind.OPAQUE, expression)
        if own:
            known = coefficients.setdefault(own[0], {})
            known[others] = known.get(others, 0) + factor
        else:
            rest[others] = factor
    listed = tuple((name, algebra.expression(coefficients[name])) for name in inductions if name in coefficients)
    return Index(IndexKind.AFFINE, expression, listed, algebra.expression(rest))


def _outer_loads(expression: form.Expression) -> Iterator[form.Expression]:
    pending = [expression]
    while pending:
        part = pending.pop()
        if isinstance(part, form.Subscript):
            yield part
        else:
            pending.extend(reversed(parts(part)))


def _indirect(expression: form.Expression, loads: Sequence[form.Expression], scope: Scope) -> Index:
    best: tuple[str, ...] = ()
    innermost: Index | None = None
    for load in loads:
        assert isinstance(load, form.Subscript)
        inner = [index(part, scope) for part in load.indices]
        deepest = max(inner, key=lambda each: each.depth)
        through = (array_name(load), *deepest.through)
        if len(through) > len(best):
            best, innermost = through, deepest
    assert innermost is not None
    return Index(IndexKind.INDIRECT, expression, innermost.coefficients, innermost.offset, len(best), best)


def array_name(expression: form.Expression) -> str:
    """The name at the root of an access with its members; "[]" stands for a load of a pointer on the way."""
    match expression:
        case form.Name(name=name):
            return name
        case form.Member(base=base, member=member):
            return f"{array_name(base)}.{member}"
        case form.Subscript(base=base):
            inner = array_name(base)
            return f"{inner}[]" if isinstance(base, form.Subscript) else inner
        case form.Convert(operand=operand) | form.AddressOf(operand=operand):
            return array_name(operand)
        case form.Operation(operands=operands) | form.Call(arguments=operands):
            for operand in operands:
                known = array_name(operand)
                if known != "?":
                    return known
    return "?"


def access(
    expression: form.Expression, scope: Scope, place: form.Place, *, store: bool = False, whole: bool = False
) -> Access:
    """The access that an expression (a `Subscript` or a member of one, or a whole array's name) stands for."""
    kind = type_of(expression, scope.variables)
    element = kind.element if isinstance(kind, form.ArrayType) else kind
    size = element.bytes if isinstance(element, (form.ScalarType, form.StructType)) else 8
    subscript = expression
    while isinstance(subscript, form.Member):
        subscript = subscript.base
    indices: tuple[Index, ...] = ()
    if isinstance(subscript, form.Subscript) and not whole:
        indices = tuple([index(part, scope) for part in subscript.indices])
        if len(indices) == 1 and indices[0].kind is IndexKind.AFFINE:
            indices = delinearised(indices[0], scope)
    return Access(array_name(expression), expression, indices, store, place, size)


def loads(expression: form.Expression, scope: Scope, place: form.Place) -> Iterator[Access]:
    """All element loads of an expression, those inside indices after the load they serve."""
    pending: list[tuple[form.Expression, bool]] = [(expression, False)]
    while pending:
        part, member = pending.pop()
        if isinstance(part, form.AddressOf):
            if isinstance(part.operand, form.Subscript):
                pending.extend((inner, False) for inner in reversed(part.operand.indices))
            continue
        if isinstance(part, form.Member):
            if not member and (any(isinstance(inner, form.Subscript) for inner in within(part)) or _moves(part, scope)):
                yield access(part, scope, place)
                pending.append((part.base, True))
            elif member:
                pending.append((part.base, True))
            continue
        if isinstance(part, form.Subscript):
            if not member:
                yield access(part, scope, place)
            pending.extend((inner, False) for inner in reversed(part.indices))
            base, inside = part.base, isinstance(part.base, form.Member)
            while isinstance(base, form.Member):
                base = base.base
            if not isinstance(base, form.Name):
                pending.append((base, inside))  # only where the member lies, not the whole structure
            continue
        pending.extend((inner, False) for inner in reversed(parts(part)))


def _moves(member: form.Member, scope: Scope) -> bool:
    """Whether a member belongs to another object in each iteration: `node.load` with `node = node.next`."""
    base: form.Expression = member
    while isinstance(base, form.Member):
        base = base.base
    return isinstance(base, form.Name) and base.name in scope.varying


# Linearised subscripts


def delinearised(linear: Index, scope: Scope) -> tuple[Index, ...]:
    """`i*n + j` with `j` in 0 .. n-1 as the indices i and j; the index itself where that is not evident."""
    split = parted(linear.expression, scope)
    if len(split) == 1:
        return (linear,)
    made = [index(algebra.expression(part), scope) for part, _ in split]
    allowed = (IndexKind.AFFINE, IndexKind.INVARIANT)
    return tuple(made) if all(part.kind in allowed for part in made) else (linear,)


def parted(linear: form.Expression, scope: Scope) -> list[tuple[Polynomial, Polynomial]]:
    """A linear subscript as parts with their strides, the part with the largest stride first."""
    return _split(algebra.polynomial(linear), {(): 1}, scope)


def _split(terms: Polynomial, unit: Polynomial, scope: Scope) -> list[tuple[Polynomial, Polynomial]]:
    inductions = frozenset(scope.inductions)
    strides: dict[tuple[tuple[form.Expression, ...], int], None] = {}
    units = 0
    for product, factor in terms.items():
        own = [atom for atom in product if isinstance(atom, form.Name) and atom.name in inductions]
        if own:
            rest = tuple(atom for atom in product if atom not in own)
            if rest or abs(factor) > 1:
                strides[(rest, abs(factor) if not rest else 1)] = None
            else:
                units += 1
    if not strides or not units:
        return [(terms, unit)]
    stride = max(strides, key=lambda each: (len(each[0]), each[1]))
    symbols, number = stride
    quotient: Polynomial = {}
    remainder: Polynomial = {}
    for product, factor in terms.items():
        left = _without(product, symbols)
        moved = bool(symbols) or any(isinstance(atom, form.Name) and atom.name in inductions for atom in product)
        if left is not None and factor % number == 0 and moved:
            quotient[left] = factor // number
        else:
            remainder[product] = factor
    size: Polynomial = {symbols: number}
    if not remainder or not quotient or not _within(remainder, size, scope):
        return [(terms, unit)]
    return [*_split(quotient, algebra.times(size, unit), scope), *_split(remainder, unit, scope)]


def _without(
    product: tuple[form.Expression, ...], symbols: tuple[form.Expression, ...]
) -> tuple[form.Expression, ...] | None:
    rest = list(product)
    for symbol in symbols:
        if symbol not in rest:
            return None
        rest.remove(symbol)
    return tuple(rest)


def _within(value: Polynomial, size: Polynomial, scope: Scope) -> bool:
    """Whether a value lies in 0 .. size - 1 wherever the loops' variables lie."""
    least = extreme(value, scope.nest, upper=False)
    greatest = extreme(value, scope.nest, upper=True)
    if least is None or greatest is None:
        return False
    low = algebra.constant(least)
    gap = algebra.constant(algebra.plus(size, greatest, -1))
    return low is not None and low >= 0 and gap is not None and gap >= 1


def extreme(value: Polynomial, nest: Sequence[form.Loop], *, upper: bool) -> Polynomial | None:
    """A bound of a polynomial over the loops' iterations, in terms of invariants; None: none is evident."""
    for loop in reversed(nest):
        if loop.kind is not LoopKind.COUNTED or loop.first is None or loop.last is None:
            continue
        parted = algebra.split(value, loop.variable)
        if parted is None:
            return None
        factor, rest = parted
        if not factor:
            continue
        amount = algebra.constant(factor)
        step = 1 if loop.step is None else loop.step.value if isinstance(loop.step, form.Constant) else None
        if amount is None or not isinstance(step, int):
            return None
        ends_at = loop.last if (amount > 0) == upper else loop.first
        if step < 0:
            ends_at = loop.first if (amount > 0) == upper else loop.last
        value = algebra.plus(rest, algebra.polynomial(ends_at), amount)
    return value
