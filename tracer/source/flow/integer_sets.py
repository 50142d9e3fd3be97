"""The exact dependence test: whether a system of affine constraints has an integer solution, by islpy."""

from __future__ import annotations

from collections.abc import Mapping

from foretrace.tracer.source.form import records as form

from .algebra import Polynomial

try:
    import islpy

    AVAILABLE = True
except ImportError:  # the extra `source` is not installed
    AVAILABLE = False
MOST_CONSTRAINTS = 60
MOST_VARIABLES = 14
MOST_FACTOR = 1 << 30


class System:
    """Constraints on integer unknowns; every atom of their polynomials is an unknown."""

    def __init__(self) -> None:
        """Starts without constraints."""
        self._columns: dict[form.Expression, int] = {}
        self._rows: list[tuple[bool, dict[int, int], int]] = []
        self.linear = True

    @property
    def unknowns(self) -> tuple[form.Expression, ...]:
        """The atoms of all constraints."""
        return tuple(self._columns)

    def require(self, terms: Polynomial, *, equal: bool = False) -> None:
        """Adds `terms >= 0`, or `terms == 0`."""
        row: dict[int, int] = {}
        fixed = 0
        for product, factor in terms.items():
            if abs(factor) > MOST_FACTOR or len(product) > 1:
                self.linear = False
                return
            if not product:
                fixed = factor
            else:
                column = self._columns.setdefault(product[0], len(self._columns))
                row[column] = row.get(column, 0) + factor
        self._rows.append((equal, row, fixed))

    def empty(self) -> bool | None:
        """Whether no integers fulfil all constraints; None: not decided."""
        if (
            not AVAILABLE
            or not self.linear
            or len(self._rows) > MOST_CONSTRAINTS
            or len(self._columns) > MOST_VARIABLES
        ):
            return None
        context = islpy.DEFAULT_CONTEXT
        space = islpy.Space.set_alloc(context, 0, len(self._columns))
        answer = islpy.BasicSet.universe(space)
        local = islpy.LocalSpace.from_space(space)
        for equal, row, fixed in self._rows:
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
