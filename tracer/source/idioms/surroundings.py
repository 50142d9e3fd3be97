"""Facts about the code around a statement, worked out once for a loop or a function, not once for a statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from foretrace.tracer.source.flow.records import Effect, Index, LoopFacts
from foretrace.tracer.source.flow.subscripts import array_name
from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.walk import expressions, names, statements, within


class LoopSurroundings:
    """The effects of one loop, by their targets."""

    def __init__(self, facts: LoopFacts) -> None:
        """Keep the facts; everything else is computed on demand."""
        self._facts = facts

    @cached_property
    def assigned(self) -> frozenset[str]:
        """Scalars that the loop assigns, those of loops inside it included."""
        return frozenset(one.target.name for one in self._facts.effects if isinstance(one.target, form.Name))

    @cached_property
    def assigned_inside(self) -> frozenset[str]:
        """Scalars that loops inside it assign."""
        loop = self._facts.loop
        return frozenset(
            one.target.name for one in self._facts.effects
            if isinstance(one.target, form.Name) and one.nest[-1] is not loop
        )  # fmt: skip

    @cached_property
    def filled(self) -> frozenset[str]:
        """Arrays that the loop stores to."""
        return frozenset(one.store.array for one in self._facts.effects if one.store is not None)

    @cached_property
    def places_read(self) -> dict[str, dict[tuple[Index, ...], None]]:
        """The different indices at which the loop reads each array."""
        found: dict[str, dict[tuple[Index, ...], None]] = {}
        for effect in self._facts.effects:
            for load in effect.loads:
                found.setdefault(load.array, {})[load.indices] = None
        return found

    @cached_property
    def _order(self) -> dict[int, int]:
        return {id(effect): position for position, effect in enumerate(self._facts.effects)}

    @cached_property
    def _sets(self) -> tuple[dict[tuple[str, form.Expression], int], dict[str, int]]:
        """First statements that set elements to values not of their array: by element, and in loops inside."""
        elements: dict[tuple[str, form.Expression], int] = {}
        inside: dict[str, int] = {}
        for position, one in enumerate(self._facts.effects):
            if one.store is None or one.conditions or any(load.array == one.store.array for load in one.loads):
                continue
            elements.setdefault((one.store.array, one.store.subscript), position)
            if one.nest[-1] is not self._facts.loop:
                inside.setdefault(one.store.array, position)
        return elements, inside

    def is_set_before(self, effect: Effect) -> bool:
        """Whether an earlier statement sets the element that this one stores to, or a loop inside its array."""
        assert effect.store is not None
        elements, inside = self._sets
        own = self._order[id(effect)]
        array = effect.store.array
        return elements.get((array, effect.store.subscript), own) < own or inside.get(array, own) < own


@dataclass(frozen=True)
class _Element:
    """An array element that a statement reads or stores to."""

    statement: int
    """`id` of the statement."""
    subscript: form.Subscript


@dataclass
class FunctionSurroundings:
    """Contents of the loops of one function, by loop."""

    _stored: dict[int, dict[str, tuple[form.Expression, ...]]] = field(default_factory=dict)
    _index_names: dict[int, frozenset[str]] = field(default_factory=dict)
    _read: dict[int, dict[str, list[_Element]]] = field(default_factory=dict)
    _inside: dict[int, frozenset[int]] = field(default_factory=dict)
    _assigned: dict[int, dict[form.Expression, list[form.Expression]]] = field(default_factory=dict)
    answers: dict[tuple[object, ...], bool] = field(default_factory=dict)
    """Answers to questions that were asked before."""
    unfinished: dict[form.Place, None] = field(default_factory=dict)
    """Statements with more ways to match a pattern than are tried."""

    def stored(self, loop: form.Loop, array: str) -> tuple[form.Expression, ...]:
        """The first two different elements of an array that a loop's statements store to."""
        known = self._stored.get(id(loop))
        if known is None:
            known = {}
            for part in statements(loop.body):
                if isinstance(part, form.Assign) and isinstance(part.target, form.Subscript):
                    name = array_name(part.target)
                    found = known.get(name, ())
                    if len(found) < 2 and part.target not in found:
                        known[name] = (*found, part.target)
            self._stored[id(loop)] = known
        return known.get(array, ())

    def index_names(self, loop: form.Loop) -> frozenset[str]:
        """Variables within the subscripts of a loop's body."""
        known = self._index_names.get(id(loop))
        if known is None:
            known = frozenset(
                name for part in statements(loop.body) for one in expressions(part) for element in within(one)
                if isinstance(element, form.Subscript) for index in element.indices for name in names(index)
            )  # fmt: skip
            self._index_names[id(loop)] = known
        return known

    def read(self, loop: form.Loop) -> dict[str, list[_Element]]:
        """Elements that the statements of a loop mention, but for those that they assign, by array."""
        known = self._read.get(id(loop))
        if known is None:
            known = {}
            for part in statements(loop.body):
                for one in expressions(part):
                    if isinstance(part, form.Assign) and one is part.target:
                        continue
                    for element in within(one):
                        if isinstance(element, form.Subscript):
                            known.setdefault(array_name(element), []).append(_Element(id(part), element))
            self._read[id(loop)] = known
        return known

    def inside(self, loop: form.Loop) -> frozenset[int]:
        """`id`s of the statements in a loop."""
        known = self._inside.get(id(loop))
        if known is None:
            known = self._inside[id(loop)] = frozenset(id(part) for part in statements(loop.body))
        return known

    def assigned(self, body: Sequence[form.Statement], target: form.Expression) -> list[form.Expression]:
        """Values that a function's body assigns to a scalar."""
        known = self._assigned.get(id(body))
        if known is None:
            known = {}
            for part in statements(body):
                if isinstance(part, form.Assign) and isinstance(part.target, form.Name):
                    known.setdefault(part.target, []).append(part.value)
            self._assigned[id(body)] = known
        return known.get(target, [])
