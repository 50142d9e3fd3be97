"""Python's dictionaries, texts and objects look like arrays: `names[key] = text.strip()` is no scatter."""

from __future__ import annotations

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.walk import statements, within

from .matching import Match

_OF_OBJECTS = frozenset({
    "str", "repr", "format", "strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "join", "lower", "upper",
    "replace", "encode", "decode", "startswith", "endswith", "dict", "set", "list", "tuple", "frozenset", "open",
    "input", "read", "readline", "items", "keys", "values", "append", "deepcopy", "getattr", "type", "isinstance",
})  # fmt: skip
"""Functions and methods that make or take texts and objects."""


def is_of_arrays(match: Match) -> bool:
    """Whether what a match binds may be arrays of numbers, as far as its function tells."""
    function = match.steps[0].facts.function
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
    return not any(_makes_objects(part) for step in match.steps for part in within(step.value))


def _makes_objects(part: form.Expression) -> bool:
    if isinstance(part, form.Constant):
        return isinstance(part.value, str)
    if not isinstance(part, form.Call):
        return False
    name = part.function.rsplit(".", 1)[-1]
    return name in _OF_OBJECTS or (name[:1].isupper() and not name.isupper())
