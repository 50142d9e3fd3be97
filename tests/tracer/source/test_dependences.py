"""The dependence test's answers for loops whose dependences are known."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.tracer.source.c_code.lowering import lower_file
from foretrace.tracer.source.flow import integer_sets
from foretrace.tracer.source.flow.dependences import verdict
from foretrace.tracer.source.flow.effects import facts
from foretrace.tracer.source.flow.integer_sets import System
from foretrace.tracer.source.flow.normal import normal
from foretrace.tracer.source.flow.records import LoopVerdict, Verdict
from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.python_code import lower_text

FUNCTION = """
import numpy as np
def f(a: np.ndarray, b: np.ndarray, c: np.ndarray, idx: np.ndarray, n: int, m: int):
    x = a[0, 0]
"""


def verdicts(body: str, arrays: str = "") -> list[LoopVerdict]:
    source = FUNCTION.replace("    x = a[0, 0]\n", arrays) + textwrap.indent(textwrap.dedent(body), "    ")
    return [verdict(each) for each in facts(normal(lower_text(source).functions[0]))]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for i in range(n):\n  a[i] = b[i]", "parallel"),
        ("for i in range(n):\n  a[i] = a[i] * 2", "parallel"),
        ("for i in range(n):\n  t = b[i]\n  a[i] = t * t", "parallel"),
        ("for i in range(n):\n  a[2 * i] = a[2 * i + 1]", "parallel"),
        ("for i in range(n):\n  a[i] = a[i + n]", "parallel"),
        ("for i in range(0, n, 4):\n  a[i] = 0\n  a[i + 3] = 1", "parallel"),
        ("for i in range(10):\n  a[i] = a[i + 10]", "parallel"),
        ("for i in range(n):\n  a[n - 1 - i] = b[i]", "parallel"),
        ("for i in range(n):\n  a[i + 1] = a[i] + b[i]", "recurrence"),
        ("for i in range(n):\n  a[i] = a[i + 1]", "recurrence"),
        ("for i in range(n):\n  a[3] = b[i]", "parallel"),
        ("for i in range(10):\n  a[i] = a[9 - i]", "recurrence"),
        ("t = 0\nfor i in range(n):\n  a[i] = t\n  t = b[i]", "recurrence"),
        ("s = 0\nfor i in range(n):\n  s += b[i]\n  a[i] = s", "recurrence"),
        ("k = 0\nfor i in range(n):\n  if b[i] > 0:\n    a[k] = i\n    k += 1", "recurrence"),
        ("s = 0\nfor i in range(n):\n  s += b[i]\nreturn s", "reduction"),
        ("s = 0\nfor i in range(n):\n  if b[i] > 0:\n    s = b[i] + s\nreturn s", "reduction"),
        ("s = 1\nfor i in range(n):\n  s = s * b[i] * 2\nreturn s", "reduction"),
        ("s = 1\nfor i in range(n):\n  s = 3 - s\nreturn s", "recurrence"),
        ("s = b[0]\nfor i in range(n):\n  s = max(s, b[i])\nreturn s", "reduction"),
        ("s = b[0]\nfor i in range(n):\n  if b[i] < s:\n    s = b[i]\nreturn s", "reduction"),
        ("s = b[0]\nfor i in range(n):\n  if b[i] < s:\n    s = c[i]\nreturn s", "recurrence"),
        ("s = 0\nfor i in range(n):\n  s = s + s * b[i]\nreturn s", "recurrence"),
        ("for i in range(n):\n  a[idx[i]] += 1", "reduction"),
        ("for i in range(n):\n  a[idx[i]] = b[i]", "unknown"),
        ("for i in range(n):\n  a[i] = b[idx[i]]", "parallel"),
        ("for i in range(n):\n  a[i] = a[idx[i]]", "unknown"),
        ("for i in range(n):\n  a[i * m] = 1", "parallel"),
        ("for i in range(n):\n  a[i] = a[i + m]", "unknown"),
        ("for i in range(n):\n  g(i)", "unknown"),
        ("for i in range(n):\n  if b[i] == 0:\n    break\n  a[i] = 0", "unknown"),
        ("p = b[0]\nwhile p > 0:\n  p = b[p]", "recurrence"),
        ("last = 0\nfor i in range(n):\n  if b[i] > 0:\n    last = i\nreturn last", "recurrence"),
        ("found = False\nfor i in range(n):\n  if b[i] > 0:\n    found = True\nreturn found", "reduction"),
    ],
)
def test_one_loop(body: str, expected: str) -> None:
    assert [each.verdict for each in verdicts(body)] == [expected]


def test_the_reductions_name_variable_and_operator() -> None:
    body = (
        "best = b[0]\nat = 0\nfor i in range(1, n):\n  if b[i] > best:\n    best = b[i]\n    at = i\nreturn best + at"
    )
    assert verdicts(body)[0].reductions == (("at", "maxloc"), ("best", "max"))


def test_a_recurrence_has_its_distance() -> None:
    (answer,) = verdicts("for i in range(2, n):\n  a[i] = a[i - 2]")
    (found,) = answer.dependences
    assert (found.distance, found.certain, found.source.store, found.sink.store) == (2, True, True, False)
    (answer,) = verdicts("for i in range(0, n, 2):\n  a[i + 4] = a[i]")
    assert answer.dependences[0].distance == 2


def test_an_antidependence_runs_from_the_load_to_the_store() -> None:
    (answer,) = verdicts("for i in range(n):\n  a[i] = a[i + 1]")
    assert (answer.dependences[0].source.store, answer.dependences[0].distance) == (False, 1)


def test_repetitions_write_the_same_elements() -> None:
    outer, inner = verdicts("for t in range(m):\n  for i in range(n):\n    a[i] = b[i]")
    assert outer.verdict is Verdict.RECURRENCE
    assert inner.verdict is Verdict.PARALLEL


def test_bounds_of_inner_loops_are_read() -> None:
    body = "for i in range(1, n):\n  for j in range(a[i - 1]):\n    a[i] = 0"
    assert verdicts(body)[0].verdict is Verdict.RECURRENCE
    answer = verdicts(body.replace("a[i - 1]", "b[i - 1]"))[0]
    assert answer.verdict is Verdict.PARALLEL
    assert "a and b do not overlap" in answer.assumptions


def test_a_matrix_product() -> None:
    body = """
    for i in range(n):
        for j in range(n):
            c[i, j] = 0
            for k in range(n):
                c[i, j] += a[i, k] * b[k, j]
    """
    answers = verdicts(body)
    assert [each.verdict for each in answers] == ["parallel", "parallel", "reduction"]
    assert answers[2].reductions == (("c", "+"),)
    assert "a and c do not overlap" in answers[0].assumptions


def test_linearised_subscripts_do_not_hide_independence() -> None:
    body = "for i in range(n):\n  for j in range(m):\n    a[i * m + j] = a[i * m + j] + 1"
    assert [each.verdict for each in verdicts(body)] == ["parallel", "parallel"]


FACTORS = ("0", "1", "2", "3", "n", "2*n", "3*n", "n*n", "3*n*n", "(n+1)", "3*(n+2)")
ROWS = ("range(n)", "range(3)", "range(1, 3)")
COLUMNS = ("range(n)", "range(3)", "range(i)")
LEFT = ("range(j)", "range(3)")


@settings(max_examples=examples(150))
@given(st.data())
def test_no_linearised_subscript_hides_a_meeting(data: st.DataObject) -> None:
    rows, columns, left = (data.draw(st.sampled_from(ranges)) for ranges in (ROWS, COLUMNS, LEFT))
    factors = st.tuples(*[st.sampled_from(FACTORS)] * 4)
    written, read = (" + ".join(f"{factor}*{name}" for factor, name in zip(data.draw(factors), ("i", "j", "k", "1"),
                                                                           strict=True)) for _ in range(2))  # fmt: skip
    body = f"for i in {rows}:\n  for j in {columns}:\n    for k in {left}:\n      a[{written}] = a[{read}] * 2 + 1"
    found = verdicts(body, "    x = a[0]\n")
    for n in (1, 2, 3, 5):
        touched: dict[tuple[int, tuple[int, ...], int], set[tuple[int, bool]]] = {}
        for i in eval(rows, {"n": n}):
            for j in eval(columns, {"n": n, "i": i}):
                for k in eval(left, {"j": j}):
                    for level, outer, own in ((0, (), i), (1, (i,), j), (2, (i, j), k)):
                        for text, store in ((written, True), (read, False)):
                            place = eval(text, {"n": n, "i": i, "j": j, "k": k})
                            touched.setdefault((level, outer, place), set()).add((own, store))
        met = {level for (level, _, _), uses in touched.items()
               if any(store for _, store in uses) and len({own for own, _ in uses}) > 1}  # fmt: skip
        wrong = {level for level in met if found[level].verdict is Verdict.PARALLEL and not found[level].private}
        assert not wrong, (n, body, found)


def test_gauss_seidel_carries_in_both_loops() -> None:
    body = "for i in range(1, n):\n  for j in range(1, n):\n    a[i, j] = a[i - 1, j] + a[i, j - 1]"
    assert [each.verdict for each in verdicts(body)] == ["recurrence", "recurrence"]


@pytest.mark.skipif(not integer_sets.AVAILABLE, reason="islpy is not installed")
def test_triangles_need_the_exact_test() -> None:
    body = "for i in range(n):\n  for j in range(i):\n    a[i, j] = a[j, i]"
    assert [each.verdict for each in verdicts(body)] == ["parallel", "parallel"]


def test_without_the_library_the_answer_is_weaker_never_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "for i in range(n):\n  for j in range(i):\n    a[i, j] = a[j, i]"
    monkeypatch.setattr(integer_sets, "AVAILABLE", False)
    assert [each.verdict for each in verdicts(body)] == ["unknown", "unknown"]


def test_local_arrays_that_are_written_first_are_private() -> None:
    body = """
    t = np.zeros(3)
    for i in range(n):
        for k in range(3):
            t[k] = b[3 * i + k]
        for k in range(3):
            a[3 * i + k] = t[2 - k]
    """
    answer = verdicts(body)[0]
    assert answer.verdict is Verdict.PARALLEL
    assert "t" in answer.private
    body = body.replace("for k in range(3):\n            t[k]", "for k in range(2):\n            t[k]")
    assert verdicts(body)[0].verdict is not Verdict.PARALLEL


def test_what_the_source_promises_is_an_assumption() -> None:
    source = "from numba import prange\ndef f(a, b, idx, n):\n    for i in prange(n):\n        a[idx[i]] = b[i]\n"
    (each,) = facts(normal(lower_text(source).functions[0]))
    answer = verdict(each)
    assert answer.verdict is Verdict.PARALLEL
    assert "the source declares its iterations independent" in answer.assumptions


def test_pointers_are_assumed_apart_unless_restrict_says_so(tmp_path: Path) -> None:
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    from foretrace.tracer.source.c_code.lowering import lower_file

    for qualifier, assumptions in (("", ("x and y do not overlap",)), ("restrict", ())):
        path = tmp_path / "f.c"
        head = f"void f(int n, double *{qualifier} x, double *{qualifier} y)"
        path.write_text(head + "{ for (int i = 0; i < n; i++) y[i] = x[i]; }")
        (each,) = facts(normal(lower_file(path).functions[0]))
        assert verdict(each).verdict is Verdict.PARALLEL
        assert verdict(each).assumptions == assumptions


@pytest.mark.parametrize(
    ("bounds", "body", "expected"),
    [
        ("i = 0; i < n / 2", "x[i] = x[n - 1 - i];", Verdict.PARALLEL),
        ("i = 0; i < (n + 1) / 2", "x[i] = x[n - 1 - i];", Verdict.PARALLEL),
        ("i = 0; i < n / 3", "x[i] = x[n / 3 + i]; x[2 * (n / 3) + i] = 0;", Verdict.PARALLEL),
        ("i = 0; i <= n / 2", "x[i] = x[n - 1 - i];", Verdict.UNKNOWN),  # n = 4: i = 1 and i = 2
        ("i = -10; i < n / 4", "x[i] = x[n - 1 - i];", Verdict.UNKNOWN),  # n = -8: i = -3 reads x[-6]
        ("i = 0; i < n / 3", "x[i] = x[n / 3 + i]; x[n / 3 + 1 + i] = 0;", Verdict.RECURRENCE),
    ],
)
@pytest.mark.skipif(not integer_sets.AVAILABLE, reason="islpy is not installed")
def test_bounds_that_are_quotients(bounds: str, body: str, expected: Verdict, tmp_path: Path) -> None:
    source = tmp_path / "quotient.c"
    source.write_text(f"void f(double *x, int n) {{ for (int {bounds}; i++) {{ {body} }} }}")
    (loop,) = facts(normal(lower_file(source).functions[0]))
    assert verdict(loop).verdict is expected


@pytest.mark.skipif(not integer_sets.AVAILABLE, reason="islpy is not installed")
@pytest.mark.parametrize("operator", ["/", "//"])
@pytest.mark.parametrize("divisor", [1, 2, 3, 7])
def test_a_quotient_has_one_value(operator: str, divisor: int) -> None:
    quotient = form.Operation(operator, (form.Name("e"), form.Constant(divisor)))
    for dividend in range(-15, 16):
        expected = dividend // divisor if operator == "//" else int(dividend / divisor)
        for value in range(expected - 2, expected + 3):
            system = System()
            system.require({(form.Name("e"),): 1, (): -dividend}, equal=True)
            system.require({(quotient,): 1, (): -value}, equal=True)
            assert system.empty() is (value != expected), (dividend, value)


@pytest.mark.parametrize(
    ("body", "keeps"),
    [
        ("c[i] += o.c[i];", True),  # elements are no size
        ("c[i] = 1; if (i == 5) c = w;", False),
        ("c[i] = 1; if (i == 5) *this = o;", False),
        ("c[i] = 1; c.push_back(2);", False),
    ],
)
def test_a_member_keeps_its_size_where_its_elements_change(body: str, keeps: bool, tmp_path: Path) -> None:
    source = tmp_path / "member.cpp"
    source.write_text(
        "#include <vector>\nstruct M { std::vector<double> c; void f(const M &o, const std::vector<double> &w) {"
        f" for (std::size_t i = 0; i < c.size(); ++i) {{ {body} }} }} }};"
    )
    (loop,) = facts(normal(lower_file(source).functions[0]))
    assert (verdict(loop).verdict is Verdict.PARALLEL) is keeps
