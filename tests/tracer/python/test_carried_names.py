"""What loops of Python carry by names, from the source alone."""

from __future__ import annotations

import textwrap

import pytest

from foretrace.tracer.analysis.python.carried_names import SourceLoops


def carried(body: str, head: str = "for i in range(n):") -> set[tuple[str, str, str]]:
    loops = SourceLoops(f"{head}\n{textwrap.indent(textwrap.dedent(body), '    ')}")
    return {(one.name, one.kind.name.lower(), one.operation) for one in loops.carried(1)}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = x[i]\nz[i] = y * 2", set()),
        ("s += x[i]", {("s", "reduction", "add")}),
        ("s = x[i] * s", {("s", "reduction", "multiply")}),
        ("s = s - x[i]", {("s", "reduction", "add")}),
        ("s = x[i] - s", {("s", "recurrence", "")}),
        ("s += x[i]\ny[i] = s", {("s", "recurrence", "")}),
        ("s += x[i]\ns *= 2", {("s", "recurrence", "")}),
        ("k += 2", set()),
        ("if x[i]:\n    k += 1", {("k", "reduction", "add")}),
        ("if x[i]:\n    y[k] = x[i]\n    k += 1", {("k", "recurrence", "")}),
        ("m = max(m, x[i])", {("m", "reduction", "max")}),
        ("if x[i] < m:\n    m = x[i]", {("m", "reduction", "")}),
        ("if x[i] < m:\n    m = x[i]\n    k = i", {("m", "reduction", "")}),
        ("if x[i] != m:\n    m = x[i]", {("m", "recurrence", "")}),
        ("y[i] = x[i] - before\nbefore = x[i]", set()),
        ("a, b = b, a + b", {("a", "recurrence", ""), ("b", "recurrence", "")}),
        ("self.total += x[i]", {("self.total", "reduction", "add")}),
        ("for j in range(i):\n    s += x[j]", {("s", "reduction", "add")}),
        ("t = 0\nfor j in range(i):\n    t += x[j]\ny[i] = t", set()),
        ("u = v\nv = 2 * u + x[i]", {("v", "recurrence", "")}),
    ],
)
def test_names(body: str, expected: set[tuple[str, str, str]]) -> None:
    assert carried(body) == expected


def test_a_while_loop_depends_on_what_it_tests() -> None:
    assert carried("x = x / 2", "while x > 1:") == {("x", "recurrence", "")}
    assert carried("i += 1", "while i < n:") == set()


def test_lines_without_a_loop_carry_nothing() -> None:
    assert SourceLoops("y = [x for x in z]\n").carried(1) == []


def test_updates_of_elements() -> None:
    loops = SourceLoops("a[i] += 1\na[i] = a[i] * x\na[i] = 3\na[k[i]] -= x\na[i] = x - a[i] / 2\n")
    assert [loops.update(line) for line in range(1, 7)] == ["add", "multiply", None, "add", None, None]
    assert [loops.is_indirect(line) for line in range(1, 5)] == [False, False, False, True]
