"""Random small loop nests in the source form, and what their iterations touch when they run.

The generator makes functions on the arrays a, b (integers, 128 elements), m (12 x 12) and idx (indices into a), with
loops of all notations: counted with strides, `while` with one or two variables, countdowns, tests at the end, endless
loops with a test at the top. Whatever it makes runs and ends.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
from form_interpreter import Interpreter

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.records import JumpKind, Kind, LoopKind
from foretrace.tracer.source.form.walk import loops

INTEGER = form.ScalarType(Kind.INTEGER, 8)
EXTENT, ROWS = 128, 12
Arrays = dict[str, npt.NDArray[Any]]


def number(value: int) -> form.Constant:
    return form.Constant(value)


def op(operator: str, *operands: form.Expression) -> form.Operation:
    return form.Operation(operator, operands)


class _Generator:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.line = 1
        self.variables: dict[str, form.Variable] = {
            name: form.Variable(form.ArrayType(INTEGER, (number(EXTENT),), alias=False), form.Storage.PARAMETER)
            for name in ("a", "b", "idx")
        }
        matrix = form.ArrayType(INTEGER, (number(ROWS), number(ROWS)), alias=False)
        self.variables["m"] = form.Variable(matrix, form.Storage.PARAMETER)
        self.variables["w"] = form.Variable(form.ArrayType(INTEGER, (number(EXTENT),), alias=False))
        """Local: may be private."""
        for name in ("s", "t", "u"):
            self.variables[name] = form.Variable(INTEGER)
        self.variables["n"] = form.Variable(INTEGER, form.Storage.PARAMETER)
        self.count = 0

    def place(self) -> form.Place:
        self.line += 1
        return form.Place(self.line)

    def function(self) -> form.Function:
        start = [form.Assign(self.place(), form.Name(name), number(0)) for name in ("s", "t", "u")]
        body = [*start, *self.loop((), 0)]
        if self.random.random() < 0.4:
            body += self.loop((), 1)
        body.append(form.Assign(self.place(), form.Subscript(form.Name("b"), (number(90),)), self.total()))
        return form.Function("f", form.Place(1, 1, self.line), ("a", "b", "idx", "m", "n"), self.variables, tuple(body))

    def total(self) -> form.Expression:
        element = form.Subscript(form.Name("w"), (number(41),))
        total = op("+", form.Name("s"), form.Name(self.random.choice("stu")))
        return op("+", total, element) if self.random.random() < 0.5 else total

    def loop(self, around: tuple[str, ...], depth: int) -> list[form.Statement]:
        self.count += 1
        name = f"i{self.count}"
        self.variables[name] = form.Variable(INTEGER)
        variable = form.Name(name)
        place = self.place()
        inner = (*around, name)
        body = self.body(inner, depth)
        trips = self.random.randint(0, 5)
        last: form.Expression = number(trips - 1)
        if around and self.random.random() < 0.25:
            last = form.Name(self.random.choice(around))
        elif self.random.random() < 0.3:
            last = op("-", form.Name("n"), number(1))
        match self.random.randint(0, 7):
            case 0 | 1:
                return [form.Loop(place, LoopKind.COUNTED, tuple(body), name, number(0), last)]
            case 2:
                return [form.Loop(place, LoopKind.COUNTED, tuple(body), name, number(1), last, number(2))]
            case 3:
                return [form.Loop(place, LoopKind.COUNTED, tuple(body), name, number(trips), number(0), number(-1))]
            case 4:
                step = form.Assign(place, variable, op("+", variable, number(self.random.randint(1, 2))))
                test = op("<=", variable, last)
                return [
                    form.Assign(place, variable, number(self.random.randint(0, 1))),
                    form.Loop(place, LoopKind.CONDITIONAL, (*body, step), condition=test),
                ]
            case 5:
                step = form.Assign(place, variable, op("-", variable, number(1)))
                leave = form.Branch(place, op("<", variable, number(1)), (form.Jump(place, JumpKind.BREAK),))
                return [
                    form.Assign(place, variable, number(trips)),
                    form.Loop(place, LoopKind.ENDLESS, (leave, step, *body)),
                ]
            case 6:
                other = f"{name}b"
                self.variables[other] = form.Variable(INTEGER)
                steps = (
                    form.Assign(place, variable, op("+", variable, number(1))),
                    form.Assign(place, form.Name(other), op("-", form.Name(other), number(1))),
                )
                return [
                    form.Assign(place, variable, number(0)),
                    form.Assign(place, form.Name(other), number(trips)),
                    form.Loop(
                        place, LoopKind.CONDITIONAL, (*body, *steps), condition=op("<", variable, form.Name(other))
                    ),
                ]
            case _:
                step = form.Assign(place, variable, op("+", variable, number(1)))
                return [
                    form.Assign(place, variable, number(0)),
                    form.Loop(place, LoopKind.TRAILING, (*body, step), condition=op("<", variable, last)),
                ]

    def body(self, around: tuple[str, ...], depth: int) -> list[form.Statement]:
        made: list[form.Statement] = []
        for _ in range(self.random.randint(1, 3)):
            made += self.statement(around, depth)
        return made

    def statement(self, around: tuple[str, ...], depth: int) -> list[form.Statement]:
        kind = self.random.random()
        place = self.place()
        if depth < 2 and kind < 0.3:
            return self.loop(around, depth + 1)
        if kind < 0.4:
            body = self.statement(around, 3)
            other = self.statement(around, 3) if self.random.random() < 0.4 else []
            test = op(self.random.choice(("<", ">=", "==")), self.value(around, 1), self.value(around, 1))
            return [form.Branch(place, test, tuple(body), tuple(other))]
        if kind < 0.55:
            own = form.Name(self.random.choice("tu"))  # used at once: what is dead, the passes drop
            used = op("+", own, self.value(around, 1))
            kept = form.Assign(place, self.element(around, store=True, last="b"), used)
            return [form.Assign(place, own, self.value(around, 2)), kept]
        if kind < 0.65:
            own = form.Name("s")
            function = self.random.choice(("+", "max", "*"))
            value = self.value(around, 1)
            if function == "+":
                return [form.Assign(place, own, op("+", own, value))]
            if function == "max":
                return [form.Branch(place, op(">", value, own), (form.Assign(place, own, value),))]
            return [form.Assign(place, own, form.Call("max", (own, value)))]
        target = self.element(around, store=True)
        value = self.value(around, 2)
        if self.random.random() < 0.3:
            value = op("+", target, value)
        return (
            [form.Assign(place, target, op("%", value, number(1009)))]
            if self.random.random() < 0.3
            else [form.Assign(place, target, value)]
        )

    def value(self, around: tuple[str, ...], depth: int) -> form.Expression:
        kind = self.random.random()
        if depth and kind < 0.3:
            return op(self.random.choice("+-"), self.value(around, depth - 1), self.value(around, depth - 1))
        if kind < 0.75:
            return self.element(around)
        if kind < 0.9:
            return form.Name(self.random.choice(("s", "t", "u", *around)))
        return number(self.random.randint(-3, 3))

    def element(self, around: tuple[str, ...], *, store: bool = False, last: str = "w") -> form.Subscript:
        kind = self.random.random()
        if kind < 0.15:
            return form.Subscript(form.Name("a"), (form.Subscript(form.Name("idx"), (self.index(around),)),))
        if kind < 0.4:
            return form.Subscript(form.Name("m"), (self.near(around), self.near(around)))
        name = self.random.choice(f"ab{last}" if store else "abwi")
        return form.Subscript(form.Name("idx" if name == "i" else name), (self.index(around),))

    def near(self, around: tuple[str, ...]) -> form.Expression:
        if self.random.random() < 0.2:
            return number(self.random.randint(0, 9))
        return op("+", form.Name(self.random.choice(around)), number(self.random.randint(1, 3)))

    def index(self, around: tuple[str, ...]) -> form.Expression:
        total: form.Expression = number(self.random.choice((30, 40, 41, 42)))
        for name in self.random.sample(around, self.random.randint(0, min(2, len(around)))):
            factor = self.random.choice((-2, -1, 1, 1, 1, 2, 6))
            total = op("+", total, op("*", number(factor), form.Name(name)))
        return total


def random_function(random: Random) -> form.Function:
    """A function that runs on `arrays`."""
    return _Generator(random).function()


def arrays(random: Random) -> Arrays:
    """Arguments for it."""

    def filled(*shape: int) -> npt.NDArray[Any]:
        values = [random.randint(-9, 9) for _ in range(int(np.prod(shape)))]
        return np.array(values, np.int64).reshape(shape)

    index = np.array([random.randint(0, EXTENT - 1) for _ in range(EXTENT)], np.int64)
    return {"a": filled(EXTENT), "b": filled(EXTENT), "idx": index, "m": filled(ROWS, ROWS)}


def unit_of(function: form.Function) -> form.Unit:
    """A C unit around a function."""
    return form.Unit("f.c", form.Language.C, ("f.c",), 1, (function,))


class Conflicts(Interpreter):
    """Runs a function and notes, for each of its loops, what different iterations of it share.

    `shared[k]` are the arrays of loop k (in the order of `walk.loops`) of which two iterations of one run touch an
    element, one of them writing. `flows[k]` are scalars that an iteration reads as an earlier one left them.
    `needed[k]` are those arrays with a shared element that is no iteration's own temporary: an iteration reads it
    before it writes it, or the last one does not write it.
    """

    def __init__(self, function: form.Function) -> None:
        super().__init__(unit_of(function))
        self.numbers = {id(nest[-1]): number for number, nest in enumerate(loops(function.body))}
        self.active: list[list[Any]] = []
        self.shared: dict[int, set[str]] = defaultdict(set)
        self.flows: dict[int, set[str]] = defaultdict(set)
        self.needed: dict[int, set[str]] = defaultdict(set)

    def _loop(self, loop: form.Loop, frame: Any) -> None:
        self.active.append([self.numbers[id(loop)], -1, {}, {}, loop.variable])
        try:
            super()._loop(loop, frame)
        finally:
            number, last, elements, _, _ = self.active.pop()
            for (array, _), (readers, writers, exposed) in elements.items():
                if writers and len(writers.keys() | readers.keys()) > 1 and (exposed or last not in writers):
                    self.needed[number].add(array)

    def _iteration(self, loop: form.Loop, frame: Any) -> bool:
        self.active[-1][1] += 1
        return super()._iteration(loop, frame)

    def _touch(self, array: str, place: tuple[int, ...], *, write: bool) -> None:
        for loop, iteration, elements, _, _ in self.active:
            key = (array, place)
            known = elements.setdefault(key, ({}, {}, {}))
            readers, writers, exposed = known
            others = set(writers) | (set(readers) if write else set())
            if others - {iteration}:
                self.shared[loop].add(array)
            (writers if write else readers)[iteration] = None
            if iteration not in writers:
                exposed[iteration] = None

    def _scalar(self, name: str, *, write: bool) -> None:
        for loop, iteration, _, written, variable in self.active:
            if name == variable:
                continue
            if write:
                written[name] = iteration
            elif name in written and written[name] != iteration:
                self.flows[loop].add(name)

    def value(self, expression: form.Expression, frame: Any) -> Any:
        if isinstance(expression, form.Subscript) and isinstance(expression.base, form.Name):
            place = tuple(int(self.value(index, frame)) for index in expression.indices)
            self._touch(expression.base.name, place, write=False)
        elif isinstance(expression, form.Name):
            self._scalar(expression.name, write=False)
        return super().value(expression, frame)

    def _assign(self, target: form.Expression, value: Any, frame: Any) -> None:
        if isinstance(target, form.Subscript) and isinstance(target.base, form.Name):
            place = tuple(int(self.value(index, frame)) for index in target.indices)
            self._touch(target.base.name, place, write=True)
        elif isinstance(target, form.Name):
            self._scalar(target.name, write=True)
        super()._assign(target, value, frame)
