"""Memory that a list of statements may store to, as names of arrays.

A name of an array stands for all its elements and members: a store to `grid` may change `grid.cells`, one to
`grid.cells` changes neither `grid.size` nor memory under other names. Copies of pointers are followed: a store through
`row` counts as one to `a` if the statements, or the values known before them, say that `row` points into `a`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.types import Variables, type_of
from foretrace.tracer.source.form.walk import parts, rebuilt, statements

from .subscripts import array_name

ANYTHING = "?"
"""A store through something without a name: it may change any array."""


def stored_arrays(
    body: Sequence[form.Statement], values: Mapping[str, form.Expression] | None = None
) -> frozenset[str]:
    """Names of arrays that a body may store to. `values`: known values of pointers before it."""
    found: set[str] = set()
    copies: dict[str, set[str]] = {}
    for statement in statements(body):
        match statement:
            case form.Assign(target=target, value=value):
                if isinstance(value, form.Call) and not value.pure:
                    found.update(reached(value))
                if not isinstance(target, form.Name):
                    found.add(array_name(target))
                elif isinstance(value, (form.AddressOf, form.Operation, form.Name, form.Member, form.Subscript)):
                    copies.setdefault(target.name, set()).add(array_name(value))
            case form.Evaluate(call=call):
                found.update(reached(call))
            case form.Opaque(writes=writes):
                found.update(array_name(part) for part in writes)
    pending = list(found)
    while pending:
        name = pending.pop()
        root = root_of(name)
        more = set(copies.get(root, ()))
        if values is not None and root in values:
            more.add(array_name(values[root]))
        fresh = {each + name[len(root) :] for each in more} - found
        if len(found) > 500:
            return frozenset((*found, ANYTHING))
        found |= fresh
        pending.extend(fresh)
    return frozenset(found)


def resized_arrays(body: Sequence[form.Statement], variables: Variables) -> frozenset[tuple[str, int]]:
    """Arrays whose number of elements a body may change, by calls or by assigning them as a whole: name and depth.

    With depth 1 the rows of an array of arrays change, with depth 0 the array itself.
    """
    found: set[tuple[str, int]] = set()
    for statement in statements(body):
        match statement:
            case form.Assign(target=target, value=value):
                if isinstance(value, form.Call) and not value.pure:
                    found.update((name, 0) for name in reached(value))
                kind = type_of(target, variables)
                element = isinstance(kind, form.PointerType) or (
                    isinstance(kind, form.ScalarType) and kind.kind is not form.Kind.UNKNOWN
                )
                if not element:
                    found.add((array_name(target), len(_path(target))))
            case form.Evaluate(call=call):
                found.update((name, 0) for name in reached(call))
            case form.Opaque(writes=writes):
                found.update((array_name(part), 0) for part in writes)
    return frozenset(found)


def _path(expression: form.Expression) -> list[form.Expression]:
    """The indices on the access path from a variable to a part of it."""
    found: list[form.Expression] = []
    while isinstance(expression, (form.Subscript, form.Member)):
        if isinstance(expression, form.Subscript):
            found += expression.indices
        expression = expression.base
    return found


def moved_pointers(body: Sequence[form.Statement]) -> frozenset[str]:
    """Names of members that a body may assign themselves, rather than the memory they point at."""
    found: set[str] = set()
    for statement in statements(body):
        match statement:
            case form.Assign(target=target, value=value):
                if isinstance(value, form.Call) and not value.pure:
                    found.update(reached(value))
                if isinstance(target, form.Member):
                    found.add(array_name(target))
            case form.Evaluate(call=call):
                found.update(reached(call))
            case form.Opaque(writes=writes):
                found.update(array_name(part) for part in writes)
    return frozenset(found)


def without_sizes(expression: form.Expression, resized: Iterable[tuple[str, int]]) -> form.Expression:
    """An expression in which sizes of arrays that are not resized load only their indices' operands."""
    resized = tuple(resized)

    def change(part: form.Expression) -> form.Expression:
        match part:
            case form.Call(function="size", arguments=(array, *_)):
                own = array_name(array)
                indices = _path(array)
                changes = any(overlaps(own, other) and depth <= len(indices) for other, depth in resized)
                if own != ANYTHING and not changes:
                    return form.Call("size", tuple(indices))
        return part

    return rebuilt(expression, change)


def reached(call: form.Call) -> Iterator[str]:
    """Names of the memory that a called function reaches through its arguments."""
    for argument in call.arguments:
        yield from _reached(argument)


def _reached(argument: form.Expression) -> Iterator[str]:
    match argument:
        case form.Constant():
            return
        case form.Name() | form.AddressOf() | form.Member() | form.Convert():
            yield array_name(argument)
        case form.Subscript():
            yield f"{array_name(argument)}[]"
            if any(isinstance(index, form.Section) for index in argument.indices):
                yield array_name(argument)
        case _:
            for part in parts(argument):
                yield from _reached(part)


def root_of(name: str) -> str:
    """The variable at the root of an array's name."""
    return name.split(".", 1)[0].split("[", 1)[0]


def overlaps(one: str, other: str) -> bool:
    """Whether one array's name is the other's, or a part of it."""
    if ANYTHING in (one, other):
        return True
    shorter, longer = (one, other) if len(one) <= len(other) else (other, one)
    return longer.startswith(shorter) and (len(longer) == len(shorter) or longer[len(shorter)] in ".[")


class Arrays:
    """A set of array names with a test for overlap."""

    def __init__(self, array_names: Iterable[str]) -> None:
        """Take the names, and their prefixes that name an enclosing object."""
        self._names = frozenset(array_names)
        self._starts = frozenset(start for name in self._names for start in _wholes(name))

    def overlap(self, name: str) -> bool:
        """Whether `overlaps` holds for a name and one of these."""
        if not self._names:
            return False
        if name == ANYTHING or ANYTHING in self._names or name in self._names or name in self._starts:
            return True
        return any(start in self._names for start in _wholes(name))


def _wholes(name: str) -> Iterator[str]:
    """Names of the objects that enclose an array, as prefixes of its name."""
    return (name[:position] for position, letter in enumerate(name) if letter in ".[")


def loads_any(expression: form.Expression, arrays: Iterable[str] | Arrays) -> bool:
    """Whether an expression loads an element or a member of one of the arrays."""
    names = arrays if isinstance(arrays, Arrays) else Arrays(arrays)
    return any(names.overlap(array_name(part)) for part in loaded(expression))


def loaded(expression: form.Expression) -> Iterator[form.Expression]:
    """Loads of an expression: elements, members, and pointers on the way to them, but not their enclosing objects."""
    pending = [expression]
    while pending:
        part = pending.pop()
        address = isinstance(part, form.AddressOf)
        if isinstance(part, form.AddressOf):
            part = part.operand
        if isinstance(part, (form.Subscript, form.Member)):
            if not address:
                yield part
            inner: form.Expression = part
            while isinstance(inner, form.Member):
                inner = inner.base
            if isinstance(inner, form.Subscript):
                pending.extend(inner.indices)
                inner = inner.base
            if not isinstance(inner, form.Name):
                pending.append(inner)
        else:
            pending.extend(parts(part))
