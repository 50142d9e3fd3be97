"""What iterations leave behind: loops in normal shape, temporaries resolved, subscripts classified."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from foretrace.tracer.source.flow.effects import facts
from foretrace.tracer.source.flow.normal import normal
from foretrace.tracer.source.flow.records import Access, Index, LoopFacts
from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.text import expression_text
from foretrace.tracer.source.form.walk import names
from foretrace.tracer.source.python_code import lower_text

ARRAYS = """
def f(a: np.ndarray, b: np.ndarray, c: np.ndarray, idx: np.ndarray, n: int, m: int):
"""


def python(body: str) -> tuple[LoopFacts, ...]:
    unit = lower_text("import numpy as np\n" + ARRAYS + textwrap.indent(textwrap.dedent(body), "    "))
    return facts(normal(unit.functions[0]))


def c_code(tmp_path: Path, source: str) -> tuple[LoopFacts, ...]:
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    from foretrace.tracer.source.c_code.lowering import lower_file

    path = tmp_path / "f.c"
    path.write_text(source)
    return facts(normal(lower_file(path).functions[0]))


def head(loop: form.Loop) -> str:
    if loop.kind is not form.LoopKind.COUNTED:
        return str(loop.kind)
    assert loop.first is not None
    assert loop.last is not None
    step = "" if loop.step is None else f" step {expression_text(loop.step)}"
    return f"{loop.variable} = {expression_text(loop.first)} .. {expression_text(loop.last)}{step}"


def effects(each: LoopFacts) -> list[str]:
    lines = []
    for effect in each.effects:
        text = f"{expression_text(effect.target)} = {expression_text(effect.value)}"
        if effect.conditions:
            text += " if " + " and ".join(f"({expression_text(condition)})" for condition in effect.conditions)
        lines.append(text)
    return lines


@pytest.mark.parametrize(
    ("body", "loop", "lines"),
    [
        ("for i in range(n):\n  a[i] = b[i]", "i = 0 .. n - 1", ["a[i] = b[i]"]),
        ("i = 2\nwhile i < n:\n  a[i] = b[i]\n  i += 3", "i = 2 .. n - 1 step 3", ["a[i] = b[i]"]),
        ("i = n\nwhile i > 0:\n  a[i] = b[i]\n  i -= 1", "i = n .. 1 step -1", ["a[i] = b[i]"]),
        ("i = 0\nwhile i != n:\n  a[i] = b[i]\n  i += 1", "i = 0 .. n - 1", ["a[i] = b[i]"]),
        ("i = 0\nwhile not i >= n:\n  a[i] = b[i]\n  i += 1", "i = 0 .. n - 1", ["a[i] = b[i]"]),
        ("i = 0\nwhile True:\n  if i == n: break\n  a[i] = b[i]\n  i += 1", "i = 0 .. n - 1", ["a[i] = b[i]"]),
        ("i = 0\nj = m\nwhile i < n:\n  a[i] = b[j]\n  i += 1\n  j += 2", "i = 0 .. n - 1", ["a[i] = b[m + 2 * i]"]),
        ("i = 0\nwhile i < n:\n  t = b[i]\n  i += 1\n  a[i] = t", "i = 0 .. n - 1", ["a[i + 1] = b[i]"]),
        ("for i in range(n):\n  t = b[i]\n  u = t * 2\n  a[i] = u + t", "i = 0 .. n - 1", ["a[i] = b[i] * 2 + b[i]"]),
        (
            "for i in range(n):\n  if c[i] > 0:\n    t = b[i]\n  else:\n    t = 0\n  a[i] = t",
            "i = 0 .. n - 1", ["a[i] = (c[i] > 0 ? b[i] : 0)"],
        ),
        (
            "for i in range(n):\n  if c[i] > 0:\n    continue\n  a[i] = 1",
            "i = 0 .. n - 1", ["a[i] = 1 if (not c[i] > 0)"],
        ),
        ("for i in range(n):\n  t = a[i]\n  a[i] = b[i]\n  b[i] = t", "i = 0 .. n - 1",
         ["t = a[i]", "a[i] = b[i]", "b[i] = t"]),
        ("for i in range(n):\n  t = a[i - 1]\n  a[i] = b[i]\n  c[i] = t", "i = 0 .. n - 1",
         ["a[i] = b[i]", "c[i] = a[i - 1]"]),
        ("for i in range(n):\n  k = idx[i]\n  a[k] = a[k] + 1", "i = 0 .. n - 1", ["a[idx[i]] = a[idx[i]] + 1"]),
        ("k = 0\nfor i in range(n):\n  if b[i] > 0:\n    a[k] = b[i]\n    k += 1", "i = 0 .. n - 1",
         ["a[k] = b[i] if (b[i] > 0)", "k = k + 1 if (b[i] > 0)"]),
        ("v = b[2:]\nfor i in range(n):\n  a[i] = v[i]", "i = 0 .. n - 1", ["a[i] = b[i + 2]"]),
        ("a[1:n] = b[0:n - 1] * 2", "%i = 1 .. n - 1", ["a[%i] = b[%i - 1] * 2"]),
        ("c[:] = b[idx]", "%i = 0 .. size(c, 0) - 1", ["c[%i] = b[idx[%i]]"]),
    ],
)  # fmt: skip
def test_one_loop(body: str, loop: str, lines: list[str]) -> None:
    found = python(body)
    assert [head(each.loop) for each in found] == [loop]
    assert effects(found[0]) == lines


def test_a_loop_without_a_fixed_count_stays_conditional() -> None:
    for body in (
        "i = 0\nwhile i < n:\n  i = i * 2 + 1\n  a[i] = 0",
        "i = 0\nwhile i < n:\n  n = n - b[i]\n  i += 1",
        "i = 0\nwhile b[i] > 0:\n  b[i + 1] = 0\n  i += 1",
    ):
        assert [head(each.loop) for each in python(body)] == ["conditional"]


def test_a_search_leaves_early() -> None:
    found = python("for i in range(n):\n  if a[i] == m:\n    break\nreturn i")
    assert found[0].early_exit
    assert [name.name for name in found[0].live_out] == ["i"]


def test_scalars_that_live_on_and_those_that_do_not() -> None:
    found = python("s = 0\nfor i in range(n):\n  t = b[i]\n  s += t\nreturn s")
    assert [name.name for name in found[0].carried] == ["s"]
    assert [name.name for name in found[0].live_out] == ["s"]
    assert effects(found[0]) == ["s = s + b[i]"]


def test_a_sparse_product_keeps_its_bounds() -> None:
    body = """
    for i in range(n):
        first = idx[i]
        last = idx[i + 1]
        s = 0.0
        for k in range(first, last):
            s += a[k] * b[c[k]]
        a[i] = s
    """
    outer, inner = python(body)
    assert head(inner.loop) == "k = first .. last - 1" or head(inner.loop) == "k = idx[i] .. idx[i + 1] - 1"
    assert effects(inner) == ["s = s + a[k] * b[c[k]]"]
    gathered = next(access for access in inner.effects[0].loads if access.array == "b")
    assert (gathered.indices[0].kind, gathered.indices[0].depth, gathered.indices[0].through) == ("indirect", 1, ("c",))
    assert not outer.carried


def test_unknown_calls_are_named_and_forget_what_they_may_change() -> None:
    found = python("for i in range(n):\n  t = b[i]\n  g(b)\n  a[i] = t")
    assert found[0].calls == ("g",)
    assert effects(found[0]) == ["t = b[i]", "a[i] = t"]


def test_large_values_stay_variables() -> None:
    lines = ["t = b[i]"] + ["t = t * t + c[i]"] * 12 + ["a[i] = t"]
    found = python("for i in range(n):\n" + textwrap.indent("\n".join(lines), "  "))
    assert all(len(text) < 3000 for text in effects(found[0]))
    assert "t" in {name for effect in found[0].effects for name in names(effect.value)}


def only(access: Access) -> Index:
    (index,) = access.indices
    return index


@pytest.mark.parametrize(
    ("index", "kind", "coefficients"),
    [
        ("i", "affine", [("i", "1")]),
        ("2 * i + m", "affine", [("i", "2")]),
        ("m - i", "affine", [("i", "-1")]),
        ("i * m", "affine", [("i", "m")]),
        ("m", "invariant", []),
        ("idx[i]", "indirect", [("i", "1")]),
        ("idx[c[2 * i]] + 1", "indirect", [("i", "2")]),
        ("i * i", "opaque", []),
        ("i % 3", "opaque", []),
    ],
)
def test_indices(index: str, kind: str, coefficients: list[tuple[str, str]]) -> None:
    found = python(f"for i in range(n):\n  a[{index}] = 1")
    store = found[0].effects[0].store
    assert store is not None
    got = only(store)
    assert got.kind == kind
    assert [(name, expression_text(factor)) for name, factor in got.coefficients] == coefficients


def test_depth_and_arrays_of_an_indirect_index() -> None:
    store = python("for i in range(n):\n  a[idx[c[i]]] = 1")[0].effects[0].store
    assert store is not None
    assert (only(store).depth, only(store).through) == (2, ("idx", "c"))


def test_a_counter_is_told_from_an_opaque_index() -> None:
    store = python("k = 0\nfor i in range(n):\n  if b[i]:\n    a[k] = 1\n    k += 1")[0].effects[0].store
    assert store is not None
    assert only(store).kind == "counter"


@pytest.mark.parametrize(
    ("inner", "index", "parts"),
    [
        ("range(m)", "i * m + j", ["i", "j"]),
        ("range(1, m - 1)", "(i - 1) * m + j + 1", ["i - 1", "j + 1"]),
        ("range(m)", "j * n + i", ["j", "i"]),
        ("range(4)", "4 * i + j", ["i", "j"]),
        ("range(m)", "i * m + j + 1", ["i", "j + 1"]),
        ("range(k, k + m)", "i * m + j", ["i", "j"]),
        ("range(m + 1)", "i * m + j", None),
        ("range(5)", "4 * i + j", None),
    ],
)
def test_linearised_subscripts_are_split_where_that_is_evident(inner: str, index: str, parts: list[str] | None) -> None:
    store = python(f"for i in range(n):\n  for j in {inner}:\n    a[{index}] = 1")[1].effects[0].store
    assert store is not None
    if parts is None:
        assert len(store.indices) == 1
    else:
        assert [expression_text(each.expression) for each in store.indices] == parts


@pytest.mark.parametrize(
    ("source", "loop", "lines"),
    [
        ("void f(double *p, double *end, double *q) { while (p < end) *p++ = *q++; }",
         "%q = 0 .. end - p - 1", ["p[%q] = q[%q]"]),
        ("void f(int n, double *a) { double *p = a + 5; for (int i = 0; i < n; i++) p[i] = 1; }",
         "i = 0 .. n - 1", ["a[i + 5] = 1.0"]),
        ("void f(int n, double *a, double *b) { for (int i = 0, j = 3; i < n; i++, j += 2) a[i] = b[j]; }",
         "i = 0 .. n - 1", ["a[i] = b[2 * i + 3]"]),
        ("void f(int n, int *a) { while (n--) a[n] = 0; }", "%n = 0 .. n - 1", ["a[n - %n - 1] = 0"]),
        ("void f(int n, double *a, double *b) { double *e = a + n; for (double *p = a; p != e; ++p) *p = b[p - a]; }",
         "%p = 0 .. n - 1", ["a[%p] = b[%p]"]),
        ("void f(int n, int *a) { int i = 0; do { a[i] = 1; i++; } while (i < n); }",
         "i = 0 .. max(0, n - 1)", ["a[i] = 1"]),
        ("struct s { int *v; int n; }; void f(struct s *w) { for (int i = 0; i < w->n; i++) w->v[i] = 1; }",
         "i = 0 .. w[0].n - 1", ["w[0].v[i] = 1"]),
    ],
)  # fmt: skip
def test_pointers(tmp_path: Path, source: str, loop: str, lines: list[str]) -> None:
    found = c_code(tmp_path, source)
    assert [head(each.loop) for each in found] == [loop]
    assert effects(found[0]) == lines


def test_rows_behind_pointers_are_resolved(tmp_path: Path) -> None:
    source = """void f(int n, double *a, double *b) {
      for (int i = 0; i < n; i++) { double *row = &a[i * n]; for (int j = 0; j < n; j++) row[j] = b[j * n + i]; } }"""
    found = c_code(tmp_path, source)
    assert effects(found[1]) == ["a[i * n + j] = b[j * n + i]"]
    store = found[1].effects[0].store
    assert store is not None
    assert [expression_text(each.expression) for each in store.indices] == ["i", "j"]
