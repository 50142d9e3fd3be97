"""Bindings of a pattern's names to parts of a program, and matches made of them."""

from __future__ import annotations

from dataclasses import dataclass

from foretrace.tracer.source.flow.records import Access
from foretrace.tracer.source.flow.stores import overlaps
from foretrace.tracer.source.form import records as form

from .patterns import (
    IdiomDefinition,
    Pattern,
)
from .steps import Step
from .terms import Terms

Place = tuple[form.Expression, ...]


@dataclass(frozen=True)
class Bindings:
    """Bindings of a pattern's names."""

    loops: dict[str, str]
    """Induction variables."""
    arrays: dict[str, Access]
    scalars: dict[str, str]
    places: dict[str, Place]
    values: dict[str, Terms]
    distance: int | None = None

    def with_loops(self, loops: dict[str, str]) -> Bindings:
        """These, with induction variables bound."""
        return Bindings(loops, self.arrays, self.scalars, self.places, self.values, self.distance)

    def array(self, name: str, access: Access) -> Bindings | None:
        """These bindings with `name` bound to an array; None if it is bound to another one."""
        known = self.arrays.get(name)
        if known is not None:
            return self if _one_array(known, access) else None
        return Bindings(
            self.loops, {**self.arrays, name: access}, self.scalars, self.places, self.values, self.distance
        )

    def scalar(self, name: str, variable: str) -> Bindings | None:
        """These bindings with `name` bound to a scalar; None if either is bound to another one."""
        known = self.scalars.get(name)
        if known is not None:
            return self if known == variable else None
        if variable in self.scalars.values():
            return None
        scalars = {**self.scalars, name: variable}
        return Bindings(self.loops, self.arrays, scalars, self.places, self.values, self.distance)

    def place(self, name: str, place: Place) -> Bindings | None:
        """These bindings with `name` bound to a place; None if it is bound to another one."""
        known = self.places.get(name)
        if known is not None:
            return self if known == place else None
        return Bindings(self.loops, self.arrays, self.scalars, {**self.places, name: place}, self.values, self.distance)

    def value(self, name: str, terms: Terms) -> Bindings | None:
        """These bindings with `name` bound to a value; None if it is bound to another one."""
        known = self.values.get(name)
        if known is not None:
            return self if sorted(known, key=repr) == sorted(terms, key=repr) else None
        return Bindings(self.loops, self.arrays, self.scalars, self.places, {**self.values, name: terms}, self.distance)

    def with_distance(self, distance: int) -> Bindings | None:
        """These bindings with `d` bound to a distance; None if it is bound to another one."""
        if self.distance is not None:
            return self if self.distance == distance else None
        return Bindings(self.loops, self.arrays, self.scalars, self.places, self.values, distance)


def _one_array(one: Access, other: Access) -> bool:
    """Whether two accesses are to one array, or one of them to a member of the other's elements."""
    return overlaps(one.array, other.array) and ("[" in one.array) == ("[" in other.array)


@dataclass(frozen=True)
class Match:
    """A match of a pattern: its bindings and the matched statements."""

    definition: IdiomDefinition
    pattern: Pattern
    bindings: Bindings
    steps: tuple[Step, ...]
    """One for each statement of the pattern."""
