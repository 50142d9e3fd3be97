"""What memory a list of statements may store to, as names of arrays.

A name of an array stands for all its elements and members: a store to `grid` may change `grid.cells`, one to
`grid.cells` changes neither `grid.size` nor what other names reach. Copies of pointers are followed: a store through
`row` counts as one to `a` if the statements, or the values known before them, say that `row` points into `a`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.walk import parts, statements, within

from .subscripts import array_name

SIZE = "{size}"
"""Behind an array's name: its size may change, not only its elements. Assignments to it as a whole do that, and calls
that take it."""
ANYTHING = "?"
"""A store through something without a name: it may change any array."""


def stored_arrays(
    body: Sequence[form.Statement], values: Mapping[str, form.Expression] | None = None
) -> frozenset[str]:
    """Names of arrays that a body may store to. `values`: what pointers are known to be before it."""
    found: set[str] = set()
    copies: dict[str, set[str]] = {}
    for statement in statements(body):
        match statement:
            case form.Assign(target=target, value=value):
                if isinstance(value, form.Call) and not value.pure:
                    found.update(resized(reached(value)))
                if isinstance(target, form.Subscript):
                    found.add(array_name(target))
                elif not isinstance(target, form.Name):
                    found.update(resized([array_name(target)]))
                elif isinstance(value, (form.AddressOf, form.Operation, form.Name, form.Member, form.Subscript)):
                    copies.setdefault(target.name, set()).add(array_name(value))
            case form.Evaluate(call=call):
                found.update(resized(reached(call)))
            case form.Opaque(writes=writes):
                found.update(resized(map(array_name, writes)))
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


def resized(names: Iterable[str]) -> Iterator[str]:
    """Names of arrays that may change as wholes: their elements and their sizes."""
    for name in names:
        yield name
        yield f"{name}{SIZE}"


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


def loads_any(expression: form.Expression, arrays: Iterable[str]) -> bool:
    """Whether an expression loads an element, a member or the changed size of one of the arrays."""
    arrays = tuple(arrays)
    if not arrays:
        return False
    for part in measured(expression):
        own = array_name(part)
        if any(_changes_size(own, array) for array in arrays):
            return True
    for part in loaded(expression):
        own = array_name(part)
        if any(overlaps(own, array) for array in arrays):
            return True
    return False


def _changes_size(own: str, array: str) -> bool:
    if array.endswith(SIZE):
        return overlaps(own, array.removesuffix(SIZE))
    return array == ANYTHING or (len(array) < len(own) and overlaps(own, array))


def measured(expression: form.Expression) -> Iterator[form.Member]:
    """Members whose size an expression asks for: that is no load of their elements."""
    for part in within(expression):
        if isinstance(part, form.Call) and part.function == "size" and isinstance(part.arguments[0], form.Member):
            yield part.arguments[0]


def loaded(expression: form.Expression) -> Iterator[form.Expression]:
    """The loads of an expression: elements, members, and pointers on the way to them, but not what they are part of."""
    pending = [expression]
    while pending:
        part = pending.pop()
        if isinstance(part, form.Call) and part.function == "size" and isinstance(part.arguments[0], form.Member):
            pending.extend(parts(part)[1:])
            inside: form.Expression = part.arguments[0]
            while isinstance(inside, form.Member):
                inside = inside.base
            if not isinstance(inside, form.Name):
                pending.append(inside)
            continue
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
