"""The interpreter of the source form with what Python's front end makes: views, and lists that grow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from form_interpreter import Array, Interpreter, Pointer, dtype_of

from foretrace.tracer.source.form import records as form

MOST_ELEMENTS = 64
"""Room for an array whose extent the form does not tell."""


class PythonInterpreter(Interpreter):
    """Makes local arrays when they are first used, and keeps views as views."""

    def call(self, name: str, arguments: Sequence[Any]) -> Any:
        self._starting = True
        return super().call(name, arguments)

    def _home(self, frame: Any, name: str) -> Any:
        variable = frame.function.variables.get(name)
        array = variable is not None and isinstance(variable.type, form.ArrayType)
        if self._starting and array and name not in frame.memory:
            return None
        return super()._home(frame, name)

    def _statement(self, statement: form.Statement, frame: Any) -> None:
        self._starting = False
        if isinstance(statement, form.Assign) and isinstance(statement.target, form.Name):
            value, name = statement.value, statement.target.name
            if isinstance(value, form.AddressOf):
                view = self._address(value.operand, frame)
                frame.memory[name] = Array(view.data[view.at :]) if isinstance(view, Pointer) else view
                return
            if isinstance(value, form.Call) and value.function == "list":
                made = np.zeros(MOST_ELEMENTS, object)
                made[: len(value.arguments)] = [self.value(part, frame) for part in value.arguments]
                frame.memory[name] = Array(made)
                return
            if isinstance(frame.memory.get(name), Array):
                del frame.memory[name]
            variable = frame.function.variables.get(name)
            if variable is not None and isinstance(variable.type, form.ArrayType):
                made = np.asarray(_plain(self.value(value, frame)))
                frame.memory[name] = Array(np.array(made))
                return
        super()._statement(statement, frame)

    def _made(self, frame: Any, variable: form.Variable) -> Any:
        kind = variable.type
        if isinstance(kind, form.ArrayType):
            extents = [MOST_ELEMENTS if extent is None else self.value(extent, frame) for extent in kind.shape]
            rooms = [int(extent) or MOST_ELEMENTS for extent in extents]  # 0: a selection's, not counted yet
            return Array(np.zeros(rooms, dtype_of(kind.element)))
        return super()._made(frame, variable)

    def _address(self, operand: form.Expression, frame: Any) -> Any:
        match operand:
            case form.Name(name=name) if isinstance(self._home(frame, name), Array):
                return self._home(frame, name)
            case form.Subscript() if any(isinstance(index, form.Section) for index in operand.indices):
                base = self.value(operand.base, frame)
                return Array(
                    base.data[tuple(self._place(index, base, n, frame) for n, index in enumerate(operand.indices))]
                )
            case form.Call(function="transpose", arguments=(inner,)):
                return Array(self.value(inner, frame).data.T)
        return super()._address(operand, frame)

    def _place(self, index: form.Expression, base: Array, dimension: int, frame: Any) -> Any:
        if not isinstance(index, form.Section):
            return self.value(index, frame)
        first, last, step = (
            None if end is None else self.value(end, frame) for end in (index.first, index.last, index.step)
        )
        last = base.data.shape[dimension] - 1 if last is None else last
        return slice(first, last + 1, step)


def _plain(value: Any) -> Any:
    return value.data if isinstance(value, Array) else value
