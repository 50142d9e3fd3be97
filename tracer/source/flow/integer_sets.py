"""The exact dependence test: whether a system of affine constraints has an integer solution, by islpy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product as combinations

from foretrace.tracer.source.form import records as form

from . import algebra
from .algebra import Polynomial

try:
    import islpy

    AVAILABLE = True
except ImportError:  # the extra `source` is not installed
    AVAILABLE = False
MOST_CONSTRAINTS = 60
MOST_VARIABLES = 14
MOST_FACTOR = 1 << 30
MOST_TRUNCATED = 3
"""Quotients that are rounded towards zero: each doubles the number of sets."""


Row = tuple[bool, dict[int, int], int]
"""Whether it is an equation, the factor of each column, and the constant."""


class System:
    """Constraints on integer unknowns; every atom of their polynomials is an unknown.

    A quotient by a positive constant is an unknown constrained by its dividend: `//` rounds down, `/` towards zero.
    """

    def __init__(self) -> None:
        """Starts without constraints."""
        self._columns: dict[form.Expression, int] = {}
        self._rows: list[Row] = []
        self.linear = True

    @property
    def unknowns(self) -> tuple[form.Expression, ...]:
        """The atoms of all constraints."""
        return tuple(self._columns)

    def require(self, terms: Polynomial, *, equal: bool = False) -> None:
        """Adds `terms >= 0`, or `terms == 0`."""
        row = self._row(terms)
        if row is None:
            self.linear = False
        else:
            self._rows.append((equal, *row))

    def _row(self, terms: Polynomial) -> tuple[dict[int, int], int] | None:
        row: dict[int, int] = {}
        fixed = 0
        for product, factor in terms.items():
            if abs(factor) > MOST_FACTOR or len(product) > 1:
                return None
            if not product:
                fixed = factor
            else:
                column = self._columns.setdefault(product[0], len(self._columns))
                row[column] = row.get(column, 0) + factor
        return row, fixed

    @property
    def is_large(self) -> bool:
        """Whether it has more constraints or unknowns than are solved for."""
        return len(self._rows) > MOST_CONSTRAINTS or len(self._columns) > MOST_VARIABLES

    def empty(self) -> bool | None:
        """Whether no integers fulfil all constraints; None: not decided."""
        if not AVAILABLE or not self.linear:
            return None
        alternatives = list(self._alternatives())
        if len(self._rows) + len(alternatives[0]) > MOST_CONSTRAINTS or len(self._columns) > MOST_VARIABLES:
            return None
        return all(self._is_empty([*self._rows, *rows]) for rows in alternatives)

    def _alternatives(self) -> Iterator[list[Row]]:
        """Constraints of the quotients, for each combination of signs of the truncated dividends."""
        choices: list[list[list[Row]]] = []
        truncated = position = 0
        while position < len(self._columns):  # what is divided may hold quotients itself
            atom = list(self._columns)[position]
            position += 1
            match atom:
                case form.Operation(operator="/" | "//" as operator, operands=(left, form.Constant(value=divisor))):
                    pass
                case _:
                    continue
            if type(divisor) is not int or not 0 < divisor <= MOST_FACTOR:
                continue
            dividend = algebra.polynomial(left)
            if self._row(dividend) is None:
                continue
            rest = algebra.plus(dividend, {(atom,): divisor}, -1)
            down = [rest, algebra.plus({(): divisor - 1}, rest, -1)]
            if operator == "//":
                choices.append([self._rows_of(down)])
                continue
            truncated += 1
            if truncated <= MOST_TRUNCATED:
                up = [algebra.scaled(rest, -1), algebra.plus({(): divisor - 1}, rest)]
                choices.append([self._rows_of([dividend, *down]), self._rows_of([algebra.scaled(dividend, -1), *up])])
        for chosen in combinations(*choices):
            yield [row for rows in chosen for row in rows]

    def _rows_of(self, constraints: list[Polynomial]) -> list[Row]:
        rows = [self._row(terms) for terms in constraints]
        return [(False, *row) for row in rows if row is not None]

    def _is_empty(self, rows: list[Row]) -> bool:
        context = islpy.DEFAULT_CONTEXT
        space = islpy.Space.set_alloc(context, 0, len(self._columns))
        answer = islpy.BasicSet.universe(space)
        local = islpy.LocalSpace.from_space(space)
        for equal, row, fixed in rows:
            make = islpy.Constraint.equality_alloc if equal else islpy.Constraint.inequality_alloc
            constraint = make(local).set_constant_val(islpy.Val.int_from_si(context, fixed))
            for column, factor in row.items():
                constraint = constraint.set_coefficient_val(
                    islpy.dim_type.set, column, islpy.Val.int_from_si(context, factor)
                )
            answer = answer.add_constraint(constraint)
        return bool(answer.is_empty())


def renamed(terms: Polynomial, names: Mapping[str, str]) -> Polynomial:
    """A polynomial with variables of one iteration given the names of another's."""
    return {
        tuple(
            form.Name(names[atom.name]) if isinstance(atom, form.Name) and atom.name in names else atom
            for atom in product
        ): factor
        for product, factor in terms.items()
    }
