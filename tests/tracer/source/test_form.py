"""The source form: text, JSON, walking and rebuilding."""

from __future__ import annotations

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.tracer.source.form.records import (
    ArrayType,
    Assign,
    Branch,
    Constant,
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
    ScalarType,
    Section,
    Skipped,
    Subscript,
    Unit,
    Variable,
)  # fmt: skip
from foretrace.tracer.source.form.text import expression_text, function_text, unit_text
from foretrace.tracer.source.form.walk import loops, mapped, names, rebuilt, replaced, statements, within

FLOAT = ScalarType(Kind.FLOAT, 8)
INDEX, N, X, Y = Name("i"), Name("n"), Name("x"), Name("y")


def axpy() -> Function:
    update = Assign(
        Place(5),
        Subscript(Y, (INDEX,)),
        Operation("+", (Subscript(Y, (INDEX,)), Operation("*", (Name("a"), Subscript(X, (INDEX,)))))),
    )
    body = (Loop(Place(4, 1, 6), LoopKind.COUNTED, (update,), "i", Constant(0), Operation("-", (N, Constant(1)))),)
    vector = Variable(ArrayType(FLOAT, (N,)))
    return Function("axpy", Place(3, 1, 7), ("n", "a", "x", "y"), {"x": vector, "y": vector}, body)


def test_a_function_prints_as_its_loops() -> None:
    lines = [line.rstrip() for line in function_text(axpy()).splitlines()]
    assert [line.split("  #")[0].rstrip() for line in lines] == [
        "function axpy(n, a, x, y)",
        "  loop i = 0 .. n - 1",
        "    y[i] = y[i] + a * x[i]",
    ]
    assert [line.split("# ")[1] for line in lines] == ["3-7", "4-6", "5"]


def test_statements_are_walked_in_the_order_of_the_source_however_deep() -> None:
    one, two, three = (Jump(Place(number), JumpKind.CONTINUE) for number in (1, 2, 3))
    branch = Branch(Place(9), Constant(1), (one,), (two,))
    assert list(statements((branch, three))) == [branch, one, two, three]
    deep = branch
    for _ in range(5000):
        deep = Branch(Place(9), Constant(1), (deep,), ())
    assert sum(1 for _ in statements((deep,))) == 5003


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (Operation("*", (Operation("+", (INDEX, N)), X)), "(i + n) * x"),
        (Operation("-", (INDEX, Operation("-", (N, X)))), "i - (n - x)"),
        (Operation("neg", (Operation("+", (INDEX, N)),)), "-(i + n)"),
        (Operation("select", (Operation("<", (INDEX, N)), X, Y)), "(i < n ? x : y)"),
        (Subscript(X, (Section(Constant(1), N, Constant(2)), INDEX)), "x[1 .. n step 2, i]"),
    ],
)
def test_expressions_print_with_the_brackets_they_need(expression: Expression, text: str) -> None:
    assert expression_text(expression) == text


def unit(function: Function) -> Unit:
    return Unit("axpy.c", Language.C, ("axpy.c",), 9, (function,), (Skipped(Place(8), "statement", "an asm block"),))


def test_a_unit_s_text_names_what_was_skipped() -> None:
    assert "skipped statement at line 8: an asm block" in unit_text(unit(axpy()))


EXPRESSIONS = st.recursive(
    st.one_of(st.builds(Name, st.sampled_from("abcij")), st.builds(Constant, st.integers(-9, 9))),
    lambda inner: st.one_of(
        st.builds(lambda a, b, o: Operation(o, (a, b)), inner, inner, st.sampled_from(["+", "-", "*", "<", "and"])),
        st.builds(lambda a, b: Subscript(a, (b,)), st.builds(Name, st.sampled_from("xyz")), inner),
    ),
    max_leaves=12,
)


@given(EXPRESSIONS)
@settings(max_examples=examples(60))
def test_any_expression_survives_rebuilding(expression: Expression) -> None:
    assert rebuilt(expression, lambda part: part) is expression
    everywhere = replaced(expression, {name: Name("z") for name in "abcij"})
    assert names(everywhere) <= {"x", "y", "z"}
    assert len(list(within(everywhere))) == len(list(within(expression)))


def test_walking_finds_loops_in_branches_and_maps_statements() -> None:
    inner = Loop(Place(3), LoopKind.ENDLESS, (Jump(Place(4), JumpKind.BREAK),))
    outer = Loop(Place(1), LoopKind.ENDLESS, (Branch(Place(2), INDEX, (inner,)),))
    assert list(loops((outer,))) == [(outer,), (outer, inner)]
    assert len(list(statements((outer,)))) == 4
    emptied = mapped((outer,), lambda statement: () if isinstance(statement, Jump) else (statement,))
    assert [type(statement).__name__ for statement in statements(emptied)] == ["Loop", "Branch", "Loop"]
