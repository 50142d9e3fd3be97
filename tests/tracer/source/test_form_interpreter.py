"""The interpreter of the form, on forms worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from form_interpreter import UnrunnableError, run

from foretrace.tracer.source.form.records import (
    AddressOf,
    ArrayType,
    Assign,
    Branch,
    Call,
    Constant,
    Convert,
    Evaluate,
    Expression,
    Function,
    Jump,
    JumpKind,
    Kind,
    Language,
    Loop,
    LoopKind,
    Name,
    Operation,
    Place,
    PointerType,
    ScalarType,
    Section,
    Statement,
    Storage,
    Subscript,
    Target,
    Type,
    Unit,
    Variable,
)  # fmt: skip

HERE = Place(1)
FLOAT, INTEGER = ScalarType(Kind.FLOAT, 8), ScalarType(Kind.INTEGER, 4)
INDEX, N = Name("i"), Name("n")


def unit(
    body: tuple[Statement, ...],
    parameters: dict[str, Type],
    variables: dict[str, Type] | None = None,
    language: Language = Language.C,
    more: tuple[Function, ...] = (),
) -> Unit:
    names = {name: Variable(kind, Storage.PARAMETER) for name, kind in parameters.items()}
    names |= {name: Variable(kind) for name, kind in (variables or {}).items()}
    function = Function("f", HERE, tuple(parameters), names, body)
    return Unit("f.c", language, ("f.c",), 1, (function, *more))


def returned(value: Expression) -> Jump:
    return Jump(HERE, JumpKind.RETURN, value=value)


def test_a_counted_loop_changes_its_array() -> None:
    y, x = Subscript(Name("y"), (INDEX,)), Subscript(Name("x"), (INDEX,))
    body = (
        Loop(
            HERE,
            LoopKind.COUNTED,
            (Assign(HERE, y, Operation("+", (y, Operation("*", (Name("a"), x))))),),
            "i",
            Constant(0),
            Operation("-", (N, Constant(1))),
        ),
        returned(INDEX),
    )
    pointers = PointerType(FLOAT)
    form = unit(body, {"n": INTEGER, "a": FLOAT, "x": pointers, "y": pointers}, {"i": INTEGER})
    x_values, y_values = np.arange(4.0), np.ones(4)
    assert run(form, "f", 4, 2.0, x_values, y_values) == 4
    assert y_values.tolist() == [1, 3, 5, 7]


def test_integers_divide_and_wrap_as_in_c() -> None:
    half = unit((returned(Operation("/", (Name("a"), Name("b")))),), {"a": INTEGER, "b": INTEGER})
    assert run(half, "f", -7, 2) == -3
    rest = unit((returned(Operation("%", (Name("a"), Name("b")))),), {"a": INTEGER, "b": INTEGER})
    assert run(rest, "f", -7, 2) == -1
    unsigned = ScalarType(Kind.INTEGER, 4, unsigned=True)
    product = unit((returned(Operation("*", (Name("a"), Name("a")))),), {"a": unsigned})
    assert run(product, "f", 1 << 20) == 0
    narrow = unit((returned(Convert(ScalarType(Kind.INTEGER, 1), Name("a"))),), {"a": INTEGER})
    assert run(narrow, "f", 200) == -56


def test_rows_of_arrays_and_moved_pointers() -> None:
    rows = PointerType(ArrayType(FLOAT, (Constant(3),)))
    element = unit((returned(Subscript(Name("a"), (Constant(1), Constant(2)))),), {"a": rows})
    assert run(element, "f", np.arange(6.0)) == 5
    moved = Subscript(Operation("+", (Name("a"), Constant(1))), (Constant(0), Constant(1)))
    assert run(unit((returned(moved),), {"a": rows}), "f", np.arange(6.0)) == 4


def test_a_callee_changes_what_its_pointer_reaches() -> None:
    store = Assign(HERE, Subscript(Name("p"), (Constant(0),)), Constant(5))
    callee = Function("g", HERE, ("p",), {"p": Variable(PointerType(INTEGER))}, (store,))
    body = (Evaluate(HERE, Call("g", (AddressOf(INDEX),), pure=False)), returned(INDEX))
    assert run(unit(body, {}, {"i": INTEGER}, more=(callee,)), "f") == 5


def test_sections_are_arrays() -> None:
    a = ArrayType(FLOAT, (N,), (Constant(1),), first_contiguous=True)
    section = Subscript(Name("a"), (Section(Constant(2), Constant(4)),))
    body = (Assign(HERE, section, Operation("*", (section, Constant(2)))), returned(Call("sum", (Name("a"),))))
    values = np.ones(5)
    assert run(unit(body, {"n": INTEGER, "a": a}, language=Language.FORTRAN), "f", 5, values) == 8
    assert values.tolist() == [1, 2, 2, 2, 1]


def test_jumps_leave_loops_and_go_back() -> None:
    leave = Branch(HERE, Operation(">", (INDEX, Constant(5))), (Jump(HERE, JumpKind.BREAK, "outer"),))
    count = Assign(HERE, INDEX, Operation("+", (INDEX, Constant(1))))
    inner = Loop(HERE, LoopKind.ENDLESS, (count, leave))
    body = (Loop(HERE, LoopKind.ENDLESS, (inner,), label="outer"), returned(INDEX))
    assert run(unit(body, {}, {"i": INTEGER}), "f") == 6
    again = Branch(HERE, Operation("<", (INDEX, Constant(3))), (Jump(HERE, JumpKind.GOTO, "top"),))
    assert run(unit((Target(HERE, "top"), count, again, returned(INDEX)), {}, {"i": INTEGER}), "f") == 3


def test_what_cannot_run_says_so() -> None:
    with pytest.raises(UnrunnableError, match="too many steps"):
        run(unit((Loop(HERE, LoopKind.ENDLESS, ()),), {}), "f")
    with pytest.raises(UnrunnableError, match="index 3 of 3"):
        run(unit((returned(Subscript(Name("a"), (Constant(3),))),), {"a": PointerType(FLOAT)}), "f", np.ones(3))
    with pytest.raises(UnrunnableError, match="no function g"):
        run(unit((returned(Call("g", ())),), {}), "f")
