"""New variables of a function in normal shape."""

from __future__ import annotations

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.records import Kind

INTEGER = form.ScalarType(Kind.INTEGER, 8)


class Names:
    """Creates variables with unused names."""

    def __init__(self, function: form.Function) -> None:
        """Starts with the function's own variables."""
        self.variables = dict(function.variables)
        self._numbers: dict[str, int] = {}

    def variable(self, stem: str, kind: form.Type) -> form.Name:
        """A new variable named after a stem."""
        number = self._numbers.get(stem, 0)
        name = f"{stem}{number or ''}"
        while name in self.variables:
            number += 1
            name = f"{stem}{number}"
        self._numbers[stem] = number + 1
        self.variables[name] = form.Variable(kind)
        return form.Name(name)

    def counter(self, stem: str = "%i") -> form.Name:
        """A new loop variable."""
        return self.variable(stem, INTEGER)
