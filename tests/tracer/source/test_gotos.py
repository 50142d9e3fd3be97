"""Loops and branches in place of GOTO compute what the jumps compute."""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from form_interpreter import run
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.tracer.source.flow.gotos import without_gotos
from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.text import body_lines
from foretrace.tracer.source.form.walk import statements

PLACE = form.Place(1)
A = form.Name("a")
FUEL = 4
"""Element of `a` that counts jumps: none is taken from the 15th on, so that all programs end."""

INTEGERS = form.ArrayType(form.ScalarType(form.Kind.INTEGER, 8), (form.Constant(5),))
VARIABLES = {"a": form.Variable(INTEGERS), "i": form.Variable(form.ScalarType(form.Kind.INTEGER, 8))}


def element(place: int) -> form.Subscript:
    return form.Subscript(A, (form.Constant(place),))


def less(place: int, number: int) -> form.Operation:
    return form.Operation("<", (element(place), form.Constant(number)))


def added(place: int, number: int) -> form.Assign:
    return form.Assign(PLACE, element(place), form.Operation("+", (element(place), form.Constant(number))))


def jump(label: str) -> form.Jump:
    return form.Jump(PLACE, form.JumpKind.GOTO, label)


def taken(place: int, number: int, label: str, otherwise: tuple[form.Statement, ...] = ()) -> form.Branch:
    condition = form.Operation("and", (less(FUEL, 15), less(place, number)))
    return form.Branch(PLACE, condition, (added(FUEL, 1), jump(label)), otherwise)


def steps(labels: list[str]) -> st.SearchStrategy[form.Statement]:
    small = st.integers(0, 3)
    label = st.sampled_from(labels)
    plain = st.builds(added, small, st.integers(1, 3))
    jumping = st.builds(taken, small, st.integers(0, 9), label)
    either = st.builds(
        lambda place, number, one, other: taken(place, number, one, (added(place, 1), taken(place, number, other))),
        small, st.integers(0, 9), label, label,
    )  # fmt: skip
    return st.one_of(plain, jumping, either)


@st.composite
def bodies(draw: st.DrawFn, prefix: str = "l", depth: int = 0) -> tuple[form.Statement, ...]:
    labels = [f"{prefix}{number}" for number in range(draw(st.integers(1, 3)))]
    listed: list[form.Statement] = draw(st.lists(steps(labels), min_size=1, max_size=6))
    if depth == 0 and draw(st.booleans()):
        inner = draw(bodies(f"{prefix}x", 1))
        if draw(st.booleans()):
            inner = (*inner, taken(1, 7, labels[0]))
        loop = form.Loop(PLACE, form.LoopKind.COUNTED, inner, "i", form.Constant(1), form.Constant(3))
        listed.insert(draw(st.integers(0, len(listed))), loop)
    for label in labels:
        listed.insert(draw(st.integers(0, len(listed))), form.Target(PLACE, label))
    return tuple(listed)


def result(body: tuple[form.Statement, ...]) -> list[int]:
    function = form.Function("f", PLACE, ("a",), VARIABLES, body)
    cells = np.arange(5)
    run(form.Unit("x", form.Language.C, ("x",), 1, (function,)), "f", cells)
    return cells.tolist()


@settings(max_examples=examples(400))
@given(bodies())
def test_random_jumps(body: tuple[form.Statement, ...]) -> None:
    made = without_gotos(body)
    assert result(made) == result(body), "\n".join(body_lines(made))


def jumps_left(body: tuple[form.Statement, ...]) -> int:
    return sum(isinstance(part, form.Jump) and part.kind is form.JumpKind.GOTO for part in statements(body))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ((form.Target(PLACE, "x"), added(0, 1), taken(0, 9, "x")),
         ["%x: loop", "  a[0] = a[0] + 1", "  if a[4] < 15 and a[0] < 9", "    a[4] = a[4] + 1", "    continue",
          "  break"]),
        ((form.Branch(PLACE, less(0, 3), (jump("x"),)), added(1, 1), form.Target(PLACE, "x")),
         ["if not a[0] < 3", "  a[1] = a[1] + 1"]),
        ((form.Loop(PLACE, form.LoopKind.ENDLESS, (added(0, 1), form.Branch(PLACE, less(1, 2), (jump("x"),)))),
          form.Target(PLACE, "x")),
         ["loop", "  a[0] = a[0] + 1", "  if a[1] < 2", "    break"]),
    ],
)  # fmt: skip
def test_jumps_that_nest(body: tuple[form.Statement, ...], expected: list[str]) -> None:
    made = without_gotos(body)
    assert not jumps_left(made)
    assert [line.split("  #")[0].rstrip() for line in body_lines(made)] == expected


def test_jumps_into_a_loop_stay() -> None:
    inner = form.Loop(PLACE, form.LoopKind.ENDLESS, (added(0, 1), form.Target(PLACE, "x"), taken(1, 3, "x")))
    body = (taken(0, 1, "x"), added(1, 1), inner)
    assert jumps_left(without_gotos(body)) >= 1
