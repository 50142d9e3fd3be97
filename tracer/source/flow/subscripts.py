"""Classification of indices by their dependence on induction variables: affine, indirect, by counter, or opaque."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import gcd

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.records import LoopKind
from foretrace.tracer.source.form.text import expression_text
from foretrace.tracer.source.form.types import Variables, type_of
from foretrace.tracer.source.form.walk import names, parts, rebuilt, within

from . import algebra
from .algebra import Polynomial
from .records import Access, Index, IndexKind

NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Scope:
    """Context of an index: the loops around it, and the names they assign."""

    nest: tuple[form.Loop, ...]
    variables: Variables
    varying: frozenset[str] = NONE
    """Names that the outermost loop assigns, loop variables aside."""
    counters: frozenset[str] = NONE
    """Varying names that advance by an invariant amount."""
    inside: frozenset[str] | None = None
    """Names that the innermost loop assigns. None: taken to be `varying`."""

    @property
    def inductions(self) -> tuple[str, ...]:
        """Loop variables, outermost first."""
        return tuple(loop.induction for loop in self.nest if loop.induction)

    @property
    def innermost(self) -> frozenset[str]:
        """The innermost loop's variable; of a loop that does not count, all loop variables, to be careful."""
        inductions = self.inductions
        return frozenset(inductions[-1:] if self.nest and self.nest[-1].induction else inductions)


def index(expression: form.Expression, scope: Scope, innermost: frozenset[str] = NONE) -> Index:
    """Classify one index by its dependence on the loops around it.

    A term that is invariant in the innermost loop that moves the element is an offset, whatever its form: `start[r]`
    in `start[r] + k`. `innermost`: the variable of that loop; by default that of the innermost loop of all.
    """
    inductions = scope.inductions
    read = names(expression)
    if not read & (scope.varying | frozenset(inductions)):
        return Index(IndexKind.INVARIANT, expression, offset=expression)
    assigned = scope.inside if scope.inside is not None and innermost <= scope.innermost else scope.varying
    moving = assigned | (innermost or scope.innermost)
    if any(isinstance(part, form.Operation) and part.operator == "%" for part in within(expression)):
        expression = rebuilt(expression, lambda part: _unwrapped(part, scope))
    loads = [part for part in _outer_loads(expression) if names(part) & moving]
    if loads:
        return _indirect(expression, loads, scope)
    terms = algebra.polynomial(expression)
    coefficients: dict[str, Polynomial] = {}
    rest: Polynomial = {}
    for product, factor in terms.items():
        own = [atom.name for atom in product if isinstance(atom, form.Name) and atom.name in inductions]
        others = tuple([atom for atom in product if not (isinstance(atom, form.Name) and atom.name in inductions)])
        mixed = [atom for atom in others if names(atom) & moving]
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


def _unwrapped(expression: form.Expression, scope: Scope) -> form.Expression:
    """`(i + 1) % n` and `(i - 1 + n) % n` without the remainder: a periodic boundary, if i has at most n values."""
    match expression:
        case form.Operation(operator="%", operands=(inner, size)) if not names(size) & frozenset(scope.inductions):
            terms = algebra.polynomial(inner)
            moving = [atoms for atoms in terms if any(names(atom) & frozenset(scope.inductions) for atom in atoms)]
            loop = next((each for each in scope.nest if moving == [(form.Name(each.variable),)]), None)
            if loop is None or abs(terms[moving[0]]) != 1 or loop.first is None or loop.last is None:
                return expression
            spare = algebra.difference(size, algebra.subtract(loop.last, loop.first))
            if spare is None or spare < 1:
                return expression
            turned = algebra.plus(terms, algebra.polynomial(size), -1)
            return algebra.expression(turned) if len(turned) < len(terms) else inner
    return expression


def _outer_loads(expression: form.Expression) -> Iterator[form.Expression]:
    """Loads that an index is computed from, without the conditions of selects."""
    pending = [expression]
    while pending:
        part = pending.pop()
        if isinstance(part, form.Subscript):
            yield part
        elif isinstance(part, form.Operation) and part.operator == "select":
            pending.extend(reversed(part.operands[1:]))
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
    indices: tuple[Index, ...] = ()
    part = expression
    read = NONE if whole else names(expression)
    innermost = frozenset([name for name in scope.inductions if name in read][-1:])
    while isinstance(part, (form.Subscript, form.Member)) and not whole:  # `a[i].m[j]`, rows behind pointers
        if isinstance(part, form.Subscript):
            own = tuple([index(each, scope, innermost) for each in part.indices])
            if indices:  # on the way to the element: what never varies says nothing
                own = tuple([each for each in own if each.kind is not IndexKind.INVARIANT])
            elif len(own) == 1 and own[0].kind is IndexKind.AFFINE:
                own = delinearised(own[0], scope)
                base = type_of(part.base, scope.variables)
                if isinstance(base, form.ArrayType) and base.first_contiguous:
                    own = own[::-1]
            indices = (*own, *indices)
        part = part.base
    return Access(array_name(expression), expression, indices, store, place, size)


def loads(expression: form.Expression, scope: Scope, place: form.Place) -> Iterator[Access]:
    """All element loads of an expression, those inside indices after the load they serve."""
    pending: list[tuple[form.Expression, bool]] = [(expression, False)]
    while pending:
        part, member = pending.pop()
        if isinstance(part, form.Call) and part.function in ("size", "shape", "lower_bound", "upper_bound"):
            continue  # asks for no element
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
    """`i*n + j` as the indices i and j; `j` is taken to stay in 0 .. n-1 where `n` is no number."""
    split = _split(algebra.polynomial(linear.expression), {(): 1}, None, scope, trusting=True)
    if len(split) == 1:
        return (linear,)
    variables = frozenset(name for name, _ in linear.coefficients[-1:])
    made = [index(algebra.expression(part.terms), scope, variables) for part in split]
    allowed = (IndexKind.AFFINE, IndexKind.INVARIANT)
    return tuple(made) if all(part.kind in allowed for part in made) else (linear,)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a linear subscript: `i` or `j` of `i*n + j`.

    Where the parts of two subscripts have the same strides and lie in one range that is no longer than the stride of
    the part before, equal subscripts have equal parts.
    """

    terms: Polynomial
    stride: Polynomial
    bounds: Bounds | None
    """None: not known, as of the first part."""

    def matches(self, other: Part, nest: Sequence[form.Loop]) -> bool:
        """Whether equal subscripts have equal parts here, provided that all parts before are equal.

        `nest`: loops around both of them.
        """
        if self.stride != other.stride or (self.bounds is None) != (other.bounds is None):
            return False
        if self.bounds is None or other.bounds is None or self.bounds == other.bounds:
            return True
        one, two = self.bounds, other.bounds
        if one.length != two.length:
            return False
        return all(
            _is_positive(algebra.plus(one.length, algebra.plus(high, low, -1), -1), nest)
            for low, high in ((one.least, two.greatest), (two.least, one.greatest))
        )


@dataclass(frozen=True, slots=True)
class Bounds:
    """Range of a part of a subscript, together with the parts after it: at most `length` values."""

    least: Polynomial
    greatest: Polynomial
    length: Polynomial
    """The stride of the part before, in units of the last part."""


Strides = dict[tuple[form.Expression, ...], int]
"""Symbols of strides, each with the largest number that divides all factors it has: 3 * n * i + 6 * n * j has n: 3."""


def parted(linear: form.Expression, scope: Scope) -> list[Part]:
    """A linear subscript as parts, the part with the largest stride first."""
    return _split(algebra.polynomial(linear), {(): 1}, None, scope)


def parted_by(linear: form.Expression, scope: Scope, strides: Strides) -> list[Part]:
    """A linear subscript as parts with given strides, those of most symbols first; one part if it does not fit them."""
    terms = algebra.polynomial(linear)
    found: list[Part] = []
    bounds: Bounds | None = None
    for symbols in sorted(strides, key=lambda each: (-len(each), [expression_text(atom) for atom in each])):
        size: Polynomial = {symbols: strides[symbols]}
        quotient, remainder = _divided(terms, symbols, strides[symbols], ())
        inner = _bounds_within(remainder, size, scope, trusting=False)
        if inner is None:
            return [Part(algebra.polynomial(linear), {(): 1}, None)]
        found.append(Part(quotient, size, bounds))
        terms, bounds = remainder, inner
    return [*found, Part(terms, {(): 1}, bounds)]


def strides_of(linear: form.Expression, scope: Scope, others: Strides | None = None) -> Strides:
    """The symbolic strides of a subscript and `others`."""
    found = dict(others or {})
    inductions = frozenset(scope.inductions)
    for product, factor in algebra.polynomial(linear).items():
        rest = tuple([atom for atom in product if not (isinstance(atom, form.Name) and atom.name in inductions)])
        if rest and len(rest) < len(product):
            found[rest] = gcd(found.get(rest, 0), factor)
    return found


def _split(
    terms: Polynomial, unit: Polynomial, bounds: Bounds | None, scope: Scope, *, trusting: bool = False
) -> list[Part]:
    inductions = frozenset(scope.inductions)
    strides: dict[tuple[tuple[form.Expression, ...], int], None] = {}
    common: dict[tuple[form.Expression, ...], int] = {}
    units = 0
    for product, factor in terms.items():
        own = [atom for atom in product if isinstance(atom, form.Name) and atom.name in inductions]
        if own:
            rest = tuple(atom for atom in product if atom not in own)
            if rest or abs(factor) > 1:
                strides[(rest, abs(factor) if not rest else 1)] = None
                if rest:
                    common[rest] = gcd(common.get(rest, 0), factor)
            else:
                units += 1
    if not strides or not units:
        return [Part(terms, unit, bounds)]
    stride = max(strides, key=lambda each: (len(each[0]), each[1]))
    symbols, number = stride
    largest = common.get(symbols, 1)
    if largest > 1 and not trusting:  # 3 * n * i + n * j: rows of 3 * n elements, if the rest stays within one
        found = _split_by(symbols, largest, terms, unit, bounds, scope, trusting=trusting)
        if found is not None:
            return found
    found = _split_by(symbols, number, terms, unit, bounds, scope, trusting=trusting)
    return found if found is not None else [Part(terms, unit, bounds)]


def _split_by(
    symbols: tuple[form.Expression, ...], number: int, terms: Polynomial, unit: Polynomial, bounds: Bounds | None,
    scope: Scope, *, trusting: bool,
) -> list[Part] | None:  # fmt: skip
    inductions = frozenset(scope.inductions)
    quotient, remainder = _divided(terms, symbols, number, inductions)
    size: Polynomial = {symbols: number}
    more = _multiple_in(remainder, quotient, inductions)
    if symbols and more:  # a stride of n + 4: `i * (n + 4) + j` as terms is n*i + 4*i + j
        size = algebra.plus(size, {(): more})
        remainder = algebra.plus(remainder, quotient, -more)
    trusted = trusting and bool(symbols)
    inner = _bounds_within(remainder, size, scope, trusting=trusted) if remainder and quotient else None
    if inner is None:
        return None
    outer = _split(quotient, algebra.times(size, unit), bounds, scope, trusting=trusting)
    return [*outer, *_split(remainder, unit, inner, scope, trusting=trusting)]


def _divided(
    terms: Polynomial, symbols: tuple[form.Expression, ...], number: int, inductions: Collection[str]
) -> tuple[Polynomial, Polynomial]:
    """Splits into `number * symbols * quotient + remainder`; without symbols only terms with an induction divide."""
    quotient: Polynomial = {}
    remainder: Polynomial = {}
    for product, factor in terms.items():
        left = _without(product, symbols)
        moved = bool(symbols) or any(isinstance(atom, form.Name) and atom.name in inductions for atom in product)
        if left is not None and factor % number == 0 and moved:
            quotient[left] = factor // number
        else:
            remainder[product] = factor
    return quotient, remainder


def _multiple_in(remainder: Polynomial, quotient: Polynomial, inductions: frozenset[str]) -> int:
    """Multiple of the quotient's moving part that a remainder has; 0: no whole multiple."""
    moving = {
        product: factor
        for product, factor in quotient.items()
        if any(isinstance(atom, form.Name) and atom.name in inductions for atom in product)
    }
    found = {divmod(remainder.get(product, 0), factor) for product, factor in moving.items()}
    if len(found) != 1:
        return 0
    times, rest = found.pop()
    return 0 if rest else times


def _without(
    product: tuple[form.Expression, ...], symbols: tuple[form.Expression, ...]
) -> tuple[form.Expression, ...] | None:
    rest = list(product)
    for symbol in symbols:
        if symbol not in rest:
            return None
        rest.remove(symbol)
    return tuple(rest)


def _bounds_within(value: Polynomial, size: Polynomial, scope: Scope, *, trusting: bool) -> Bounds | None:
    """The bounds of a value, if it lies in least .. least + size - 1 wherever the loops' variables lie.

    `trusting`: unless it evidently does not.
    """
    least = extreme(value, scope.nest, upper=False)
    greatest = extreme(value, scope.nest, upper=True)
    if least is None or greatest is None:
        return Bounds({}, {}, size) if trusting else None
    spare = algebra.plus(algebra.plus(size, greatest, -1), least)
    fits = _is_positive(spare, scope.nest) or (trusting and algebra.constant(spare) is None)
    return Bounds(least, greatest, size) if fits else None


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
        sign = _sign(factor, nest)
        step = 1 if loop.step is None else loop.step.value if isinstance(loop.step, form.Constant) else None
        if not sign or not isinstance(step, int):
            return None
        ends_at = loop.last if (sign > 0) == upper else loop.first
        if step < 0:
            ends_at = loop.first if (sign > 0) == upper else loop.last
        value = algebra.plus(rest, algebra.times(algebra.polynomial(ends_at), factor))
    return value


def _sign(factor: Polynomial, nest: Sequence[form.Loop]) -> int:
    """1 or -1 for a factor that is never negative or never positive inside a nest; 0: not known.

    Inside a loop over 0 .. n - 1, n is positive.
    """
    signs = {1 if amount > 0 else -1 for amount in factor.values()}
    if len(signs) != 1:
        return 0
    atoms = {atom for product in factor for atom in product}
    return signs.pop() if all(any(_is_size(atom, loop) for loop in nest) for atom in atoms) else 0


def _is_positive(value: Polynomial, nest: Sequence[form.Loop]) -> bool:
    rest = {product: amount for product, amount in value.items() if product}
    return value.get((), 0) >= 1 and (not rest or _sign(rest, nest) > 0)


def _is_size(atom: form.Expression, loop: form.Loop) -> bool:
    """Whether a loop that has an iteration shows an invariant not to be negative."""
    if loop.kind is not LoopKind.COUNTED or loop.step is not None or loop.first is None or loop.last is None:
        return False
    first = algebra.constant(algebra.polynomial(loop.first))
    behind = algebra.difference(loop.last, atom)
    return first is not None and behind is not None and first - behind >= 0
