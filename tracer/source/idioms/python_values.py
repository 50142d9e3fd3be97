"""Python's dictionaries, texts and objects look like arrays: `names[key] = text.strip()` is no scatter."""

from __future__ import annotations

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.walk import statements, within

from .bindings import Match
from .steps import Step

_OF_OBJECTS = frozenset({
    "str", "repr", "format", "strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "join", "lower", "upper",
    "replace", "encode", "decode", "startswith", "endswith", "dict", "set", "frozenset", "open",
    "input", "read", "readline", "items", "keys", "values", "append", "deepcopy", "getattr", "type", "isinstance",
})  # fmt: skip
"""Functions and methods that make or take texts and objects."""


_DICTIONARY = form.Call("dict", ())


def views(function: form.Function) -> frozenset[tuple[form.Place, str]]:
    """Statements in which a function names an array, or a view of one, and the name: nothing is copied there."""
    return frozenset(
        (part.place, part.target.name)
        for part in statements(function.body)
        if isinstance(part, form.Assign) and isinstance(part.target, form.Name) and _is_view(part.value)
    )


def _is_view(value: form.Expression) -> bool:
    match value:
        case form.Name() | form.Member():
            return True
        case form.Subscript(base=base, indices=indices):
            return _is_view(base) and all(isinstance(one, form.Section | form.Constant | form.Name) for one in indices)
        case form.Call(function="transpose" | "reshape", arguments=(inner, *_)):
            return _is_view(inner)
        case form.Call(function="empty" | "allocate"):
            return True
        case form.Operation(operator="select", operands=(_, yes, no)):
            return _is_view(yes) and _is_view(no)
    return False


def _only_moves(value: form.Expression, step: Step) -> bool:
    """Whether a value is an array element or a constant, or a select between these."""
    if isinstance(value, form.Operation) and value.operator == "select":
        return all(_only_moves(part, step) for part in value.operands[1:])
    return value in step.accesses or isinstance(value, form.Constant)


def is_of_arrays(match: Match, named: frozenset[tuple[form.Place, str]] = frozenset()) -> bool:
    """Whether a match's bindings may be arrays of numbers that are computed or copied, as far as its function shows.

    `named`: its `views`.
    """
    step = match.steps[0]
    function = step.facts.function
    counts = match.definition.name == "gather-modify-scatter"  # by a dictionary, too
    target = step.store.array if step.store is not None else ""
    is_name = step.effect.nest[-1].synthetic and (step.effect.place, target) in named
    if is_name and "I" not in match.bindings.arrays and _only_moves(step.value, step):
        return False
    if not counts and any(access.array.startswith("?") for access in match.bindings.arrays.values()):
        return False
    if any(isinstance(one.value, form.Call) and one.value.function in ("list", "tuple") for one in match.steps):
        return False
    inside = [part for part in within(step.value) if isinstance(part, form.Call)]
    if step.effect.nest[-1].synthetic and any(part.function not in form.INTRINSICS | {"list"} for part in inside):
        return False  # of objects: the elements of a comprehension
    roots = {access.array.split(".")[0].split("[")[0] for access in match.bindings.arrays.values()}
    for name in (*roots, *match.bindings.scalars.values()):
        variable = function.variables.get(name)
        kind = variable.type if variable is not None else None
        if isinstance(kind, form.ArrayType):
            kind = kind.element
        if isinstance(kind, form.ScalarType) and kind.kind is form.Kind.CHARACTER:
            return False
    for part in statements(function.body):
        match part:
            case form.Assign(target=form.Name(name=name), value=form.Call(function="dict" | "set")) if name in roots:
                return False
    values = (part for one in match.steps for part in within(one.value))
    return not any(_makes_objects(part) for part in values if not (counts and part == _DICTIONARY))


def _makes_objects(part: form.Expression) -> bool:
    if isinstance(part, form.Constant):
        return isinstance(part.value, str)
    if not isinstance(part, form.Call):
        return False
    name = part.function.rsplit(".", 1)[-1]
    return name in _OF_OBJECTS or (name[:1].isupper() and not name.isupper())
