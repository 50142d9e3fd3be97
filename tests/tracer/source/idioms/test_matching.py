# ruff: noqa: E501 (one case a line)
"""What each part of a pattern matches, and what it does not, each against one small loop."""

from __future__ import annotations

import textwrap

import pytest

from foretrace.tracer.source.flow.effects import facts
from foretrace.tracer.source.flow.normal import normal
from foretrace.tracer.source.idioms.conditions import offsets
from foretrace.tracer.source.idioms.matching import matches
from foretrace.tracer.source.idioms.patterns import definition
from foretrace.tracer.source.idioms.steps import Step, prepared
from foretrace.tracer.source.python_code import lower_text

HEAD = """
import numpy as np
def f(a: np.ndarray, b: np.ndarray, c: np.ndarray, at: np.ndarray, n: int, m: int):
"""


def steps_of(body: str) -> list[Step]:
    source = HEAD + textwrap.indent(textwrap.dedent(body), "    ")
    loops = facts(normal(next(one for one in lower_text(source).functions if one.name == "f")))
    around = {id(loop.loop): loop for loop in loops}
    return [
        step for loop in loops
        for step in prepared(loop, around.get(id(loop.nest[-2])) if len(loop.nest) > 1 else None)
    ]  # fmt: skip


def fits(pattern: str, body: str, where: str = "") -> bool:
    steps = steps_of(body)
    mine = definition("mine", [pattern], "", where=where)
    return any(True for step in steps for _ in matches(mine, steps, step))


@pytest.mark.parametrize(
    ("pattern", "body", "expected"),
    [
        # Indices
        ("A[i] = _(B[i])", "for i in range(n):\n  a[i] = b[i]", True),
        ("A[i] = _(B[i])", "for i in range(n):\n  a[2 * i + 1] = b[i - 3]", True),
        ("A[i] = _(B[i])", "for i in range(n):\n  a[i] = b[at[i]]", False),
        ("A[i] = _(B[i])", "for i in range(n):\n  a[i] = 3", False),
        ("A[i] = _(B[...])", "for i in range(n):\n  for j in range(m):\n    a[j] = b[i]", True),
        ("A[i] = _(B[...])", "for i in range(n):\n  for j in range(m):\n    a[j] = b[j]", False),
        ("A[i] = _(B[I[i]])", "for i in range(n):\n  a[i] = b[at[i]]", True),
        ("A[i] = _(B[I[i]])", "for i in range(n):\n  a[i] = b[2 * at[i] + m]", True),
        ("A[i] = _(B[I[i]])", "for i in range(n):\n  a[i] = b[at[at[i]]]", True),
        ("A[i] = _(B[I[i]])", "for i in range(n):\n  a[i] = b[at[m]]", False),
        ("A[i] = _(B[I[i]])", "for i in range(n):\n  a[i] = b[at[i] & 7]", False),
        ("A[i] = _(B[_(I[i])])", "for i in range(n):\n  a[i] = b[at[i] & 7]", True),
        ("A[i] = _(B[I[i]])", "for i in range(n):\n  for k in range(m):\n    a[k] = b[at[i] + k]", False),
        ("A[i, j] = _(B[j, i])", "for i in range(n):\n  for j in range(m):\n    a[i, j] = b[j, i]", True),
        ("A[i, j] = _(B[j, i])", "for i in range(n):\n  for j in range(m):\n    a[i, j] = b[i, j]", False),
        ("A[i, j] = _(B[j, i])", "for i in range(n):\n  for j in range(m):\n    a[i * m + j] = b[j * n + i]", True),
        ("A[i] = _(A[i - d])", "for i in range(2, n):\n  a[i] = a[i - 2]", True),
        ("A[i] = _(A[i - d])", "for i in range(n):\n  a[i] = a[i]", False),
        ("A[i] = _(A[i - d])", "for i in range(n):\n  a[i] = b[i - 1]", False),
        ("A[i] = _(B[i - 1])", "for i in range(1, n):\n  a[i] = b[i - 1]", True),
        ("A[i] = _(B[i - 1])", "for i in range(1, n):\n  a[i] = b[i + 1]", False),
        ("A[i] = _(B[i + 2])", "for i in range(n):\n  a[i + 1] = b[i + 3]", True),
        ("A[s] = _\ns = s + 1", "k = 0\nfor i in range(n):\n  if b[i] > 0:\n    a[k] = b[i]\n    k += 1\nreturn k", True),
        # Values
        ("A[i] = i", "for i in range(n):\n  a[i] = i", True),
        ("A[i] = i", "for i in range(n):\n  a[i] = n", False),
        ("A[i] = 0", "for i in range(n):\n  a[i] = 0", True),
        ("A[i] = 0", "for i in range(n):\n  a[i] = 1", False),
        ("A[i] = B[i] + C[i]", "for i in range(n):\n  a[i] = c[i] + b[i]", True),
        ("A[i] = B[i] + C[i]", "for i in range(n):\n  a[i] = c[i] - b[i]", False),
        ("A[i] = B[i] - C[i]", "for i in range(n):\n  a[i] = c[i] - b[i]", True),
        ("A[i] = B[i] * C[i]", "for i in range(n):\n  a[i] = 2 * m * c[i] * b[i]", True),
        ("A[i] = B[i] * C[i]", "for i in range(n):\n  a[i] = c[i] * b[i] * b[i + 1]", False),
        ("A[i] = A[i] + B[i] * C[i]", "for i in range(n):\n  a[i] -= c[i] * b[i]", True),
        ("A[i] = B[i] / C[i]", "for i in range(n):\n  a[i] = b[i] / c[i]", True),
        ("A[i] = B[i] / 2", "for i in range(n):\n  a[i] = 2 / b[i]", False),
        ("A[i] = B[i] < C[i]", "for i in range(n):\n  a[i] = b[i] > c[i]", True),
        ("A[i] = max(B[i], C[i])", "for i in range(n):\n  a[i] = b[i] if b[i] > c[i] else c[i]", True),
        ("A[i] = min(B[i], C[i])", "for i in range(n):\n  a[i] = b[i] if b[i] > c[i] else c[i]", False),
        ("A[i] = _(B[i])", "for i in range(n):\n  t = b[i]\n  u = t * t\n  a[i] = u + 1", True),
        ("s = s + _(A[i])", "t = 0\nfor i in range(n):\n  t += 2 * a[i]\nreturn t", True),
        ("s = s + _(A[i])", "t = 0\nfor i in range(n):\n  t = a[i] - t\nreturn t", False),
        ("s = s + _(A[i])", "t = 0\nfor i in range(n):\n  t = t + t * a[i]\nreturn t", False),
        ("s = max(s, A[i])", "t = a[0]\nfor i in range(n):\n  if a[i] > t:\n    t = a[i]\nreturn t", True),
        # Places and values that return
        ("A[p] = v + w\nA[q] = v - w", "for i in range(n):\n  x = a[i]\n  a[i] = x + a[i + n]\n  a[i + n] = x - a[i + n]", True),
        ("A[p] = v + w\nA[q] = v - w", "for i in range(n):\n  a[i] = b[i] + 1\n  a[i + n] = b[i] - 2", False),
        # Loops and guards
        ("if _(B[i]):\n    A[i] = _", "for i in range(n):\n  if b[i] > 0:\n    a[i] = 1", True),
        ("if _(B[i]):\n    A[i] = _", "for i in range(n):\n  a[i] = b[i]", False),
        ("for i in _:\n    for j in _:\n        s = s + A[i, j]",
         "for i in range(n):\n  t = 0\n  for j in range(m):\n    t += a[i, j]\n  b[i] = t", True),
        ("for i in _:\n    for j in _:\n        s = s + A[i, j]",
         "t = 0\nfor i in range(n):\n  for j in range(m):\n    t += a[i, j]\nreturn t", False),
        ("for k in span(P):\n    s = s + A[k]",
         "for i in range(n):\n  t = 0\n  for k in range(at[i], at[i + 1]):\n    t += a[k]\n  b[i] = t", True),
        ("for k in span(P):\n    s = s + A[k]",
         "for i in range(n):\n  t = 0\n  for k in range(at[i]):\n    t += a[k]\n  b[i] = t", False),
    ],
)  # fmt: skip
def test_one_pattern_against_one_loop(pattern: str, body: str, expected: bool) -> None:
    assert fits(pattern, body) is expected


@pytest.mark.parametrize(
    ("where", "yes", "no"),
    [
        ("same(A, B)", "for i in range(n):\n  a[i] = a[i + n]", "for i in range(n):\n  a[i] = b[i]"),
        ("updates(B)", "for i in range(n):\n  a[i] = 2 * a[i]", "for i in range(n):\n  a[i] = a[i + 1]"),
        ("offsets() >= 2", "for i in range(1, n):\n  a[i] = b[i] - b[i - 1]", "for i in range(1, n):\n  a[i] = b[i - 1]"),
        ("behind()", "for i in range(2, n):\n  a[i] = a[i - 1] + a[i - 2]", "for i in range(1, n):\n  a[i] = a[i - 1] + a[i + 1]"),
        ("behind()", "for i in range(n - 1, -1, -1):\n  a[i] = a[i + 1]", "for i in range(n):\n  a[i] = a[i + 1]"),
        ("innermost(i)", "for i in range(n):\n  a[i] = b[i]", "for i in range(n):\n  for j in range(m):\n    a[i] = b[i]"),
        ("in_step()", "for i in range(n):\n  a[2 * i] = b[2 * i + 1]", "for i in range(n):\n  a[i] = b[2 * i]"),
        ("in_step()", "for i in range(n):\n  a[i] = b[i] * c[m]", "for i in range(n):\n  a[i] = b[n - i]"),
        ("commutes()", "for i in range(n):\n  a[i] = a[i] + b[i]", "for i in range(n):\n  a[i] = b[i] - a[i]"),
    ],
)  # fmt: skip
def test_conditions(where: str, yes: str, no: str) -> None:
    assert fits("A[i] = _(B[i])", yes, where)
    assert not fits("A[i] = _(B[i])", no, where)


def test_a_masked_index_makes_a_table() -> None:
    assert fits("A[i] = _(T[_(B[i])])", "for i in range(n):\n  a[i] = c[b[i] & 7]", "table(T)")
    assert not fits("A[i] = _(T[_(B[i])])", "for i in range(n):\n  a[i] = c[b[i] + 1]", "table(T)")


def test_a_condition_on_a_name_that_this_pattern_lacks_does_not_hold() -> None:
    steps = steps_of("for i in range(n):\n  a[i] = 3")
    mine = definition(
        "mine", ["A[i] = _", "A[i] = v + T[_(B[j])]"], "", where="table(T) or compares(B) or varies(v) or innermost(j)"
    )
    assert [match for step in steps for match in matches(mine, steps, step)] == []


def test_a_stencils_offsets_count_in_dimensions_of_the_array() -> None:
    body = """
    for i in range(1, n):
        for j in range(1, m):
            a[i, j] = b[i - 1, j] + b[i, j - 1] + b[i, j + 1]
    """
    steps = steps_of(body)
    (match,) = matches(definition("mine", ["A[i] = _(B[i])"], ""), steps, steps[0])
    assert offsets(match) == {"b": ((-1, 0), (0, -1), (0, 1))}


def test_values_handed_from_one_iteration_to_the_next_stand_for_their_elements() -> None:
    body = """
    left = b[0]
    here = b[1]
    for i in range(1, n - 1):
        right = b[i + 1]
        a[i] = left + here + right
        left = here
        here = right
    """
    steps = steps_of(body)
    step = next(step for step in steps if step.store is not None)
    match = next(matches(definition("mine", ["A[i] = _(B[i])"], ""), steps, step))
    assert offsets(match) == {"b": ((-1,), (0,), (1,))}
