"""Idioms and verdicts never contradict each other, whatever is read; idioms that look alike are told apart."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from effort import examples, sweep
from hypothesis import given, settings
from hypothesis import strategies as st
from random_nests import random_function, unit_of

from foretrace.tracer.source.flow.records import Verdict
from foretrace.tracer.source.form.records import Language
from foretrace.tracer.source.idioms.consistency import contradictions
from foretrace.tracer.source.idioms.patterns import built_in
from foretrace.tracer.source.idioms.recognition import recognised
from foretrace.tracer.source.idioms.records import Finding, LoopReport
from foretrace.tracer.source.scanning import file_result, scanned

PROGRAMS = Path(__file__).parents[4] / "benchmarks" / "programs"


def findings_of(tmp_path: Path, name: str, text: str) -> list[Finding]:
    (tmp_path / name).write_text(text)
    result = file_result(tmp_path / name, built_in())
    assert contradictions(result.findings, result.loops) == []
    return [one for one in result.findings if one.parent is None]


def idioms_of(tmp_path: Path, name: str, text: str) -> list[str]:
    return [one.idiom for one in findings_of(tmp_path, name, text)]


@sweep("folder", ["", "dependences"], ["dependences"])
def test_nothing_contradicts_in_all_programs_of_the_project(folder: str) -> None:
    found = scanned([PROGRAMS / folder], built_in(), processes=2)
    assert len(found.findings) > 200
    assert contradictions(found.findings, found.loops) == []


@settings(max_examples=examples(150))
@given(st.integers(0, 1 << 40))
def test_nothing_contradicts_in_random_loop_nests(seed: int) -> None:
    findings, reports, _ = recognised(unit_of(random_function(Random(seed))), built_in(), [])
    assert contradictions(findings, reports) == []


def test_a_contradiction_would_be_seen() -> None:
    loop = LoopReport("a.c", 1, 3, "f", True, Verdict.PARALLEL)
    finding = Finding("a.c", 2, 2, 1, "f", Language.C, "reduction", 1, ("i",), (), "", 1.0, "")
    assert contradictions([finding], [loop]) == ["a.c:2: reduction, and every loop around is parallel"]


def test_a_recurrence_on_a_transposed_array_is_no_transpose(tmp_path: Path) -> None:
    assert idioms_of(
        tmp_path, "a.c",
        "void adi(int n, double v[n][n], double p[n][n], double q[n][n]) {\n  for (int i = 1; i < n - 1; i++)\n"
        "    for (int j = n - 2; j >= 1; j--)\n      v[j][i] = p[i][j] * v[j+1][i] + q[i][j];\n}\n",
    ) == ["recurrence"]  # fmt: skip


def test_stacks_and_queues_are_no_compactions_and_their_counters_no_reductions(tmp_path: Path) -> None:
    stack = (
        "void stack(int *st, int *a, int n) {\n  int sp = 0, l = 0, r = n - 1;\n  for (;;) {\n    while (r > l) {\n"
        "      int i = a[l] % n;\n      if (i - l > r - i) { st[sp++] = l; st[sp++] = i - 1; l = i + 1; }\n"
        "      else { st[sp++] = i + 1; st[sp++] = r; r = i - 1; }\n    }\n    if (sp == 0) break;\n"
        "    r = st[--sp]; l = st[--sp];\n  }\n}\n"
    )
    assert idioms_of(tmp_path, "a.c", stack) == []
    queue = (
        "void bfs(int n, int *q, int *to, int *first, int *d) {\n  int h = 0, t = 1;\n  while (h < t) {\n"
        "    int v = q[h++];\n    for (int e = first[v]; e < first[v+1]; e++)\n"
        "      if (d[to[e]] < 0) {\n        d[to[e]] = d[v] + 1;\n        q[t++] = to[e];\n      }\n  }\n}\n"
    )
    assert "compaction" not in idioms_of(tmp_path, "b.c", queue)


@pytest.mark.parametrize(
    "body",
    ["if (a[i] > 0) b[m++] = a[i];", "b[m] = i; m += a[i] > 0;", "if (a[i] > 0) a[m++] = a[i];"],
)
def test_compactions(tmp_path: Path, body: str) -> None:
    text = f"int f(int n, int *a, int *b) {{ int m = 0;\n  for (int i = 0; i < n; i++) {{ {body} }}\n  return m; }}\n"
    assert idioms_of(tmp_path, "a.c", text) == ["compaction"]


def test_a_guard_makes_no_stencil_and_a_stencil_names_its_source(tmp_path: Path) -> None:
    masked, stencil = findings_of(
        tmp_path, "a.f90",
        "subroutine g(n, m, u, t)\n  integer, intent(in) :: n\n  real(8), intent(in) :: m(n), t\n"
        "  real(8), intent(inout) :: u(n)\n  integer :: i\n  do i = 2, n\n    if (max(m(i), m(i-1)) /= 0.0d0) then\n"
        "      u(i) = u(i) - t\n    end if\n  end do\nend subroutine\n"
        "subroutine h(n, f, s, u)\n  integer, intent(in) :: n\n  real(8), intent(in) :: f(n+1), s(n)\n"
        "  real(8), intent(inout) :: u(n)\n  integer :: i\n  do i = 1, n\n    u(i) = u(i) - (f(i+1) - f(i))*s(i)\n"
        "  end do\nend subroutine\n",
    )  # fmt: skip
    assert (masked.idiom, stencil.idiom, stencil.shape) == ("stream", "stencil", "(0) (1)")
    assert [(use.role, use.name) for use in stencil.arrays] == [("A", "u"), ("B", "f")]


BUTTERFLIES = {
    "separate parts": (
        "void f(double *d, int n, int m, double wr, double wi) {\n  for (int i = 1; i <= n; i += 2 * m) {\n"
        "    int j = i + m;\n    double tr = wr * d[j] - wi * d[j+1], ti = wr * d[j+1] + wi * d[j];\n"
        "    d[j] = d[i] - tr;\n    d[j+1] = d[i+1] - ti;\n    d[i] += tr;\n    d[i+1] += ti;\n  }\n}\n"
    ),
    "one array": (
        "void f(int *a, int n, int h) {\n  for (int j = 0; j < h; j++) {\n    int x = a[j], y = a[j + h];\n"
        "    a[j] = x + y; a[j + h] = x - y;\n  }\n}\n"
    ),
    "residues": (
        "void f(long *a, long *w, int h, long p) {\n  for (int j = 0; j < h; j++) {\n"
        "    long u = a[j], v = a[j+h] * w[j] % p;\n    a[j] = (u + v) % p;\n    a[j+h] = (u - v + p) % p;\n  }\n}\n"
    ),
    "twiddled difference": (
        "typedef struct { double r, i; } c;\nvoid f(int n, int h, double wr, double wi, c *x, c *y) {\n"
        "  for (int j = 0; j < n; j++) {\n    double ar = x[j].r, ai = x[j].i, br = x[j+h].r, bi = x[j+h].i;\n"
        "    y[2*j].r = ar + br; y[2*j].i = ai + bi;\n    y[2*j+1].r = wr * (ar - br) - wi * (ai - bi);\n"
        "    y[2*j+1].i = wr * (ai - bi) + wi * (ar - br);\n  }\n}\n"
    ),
}


@pytest.mark.parametrize("text", BUTTERFLIES.values(), ids=BUTTERFLIES)
def test_butterflies(tmp_path: Path, text: str) -> None:
    assert set(idioms_of(tmp_path, "a.c", text)) == {"fft-butterfly"}


HEAD = (
    "void f(int n, int w, int *rb, int *re, char *nz, int *ci, double *v, double **mv, int **mi, double *x, "
    "double *y) {\n"
)


@pytest.mark.parametrize(
    ("row", "idiom"),
    [
        ("for (int k = rb[i]; k < rb[i+1]; k++) s += v[k] * x[ci[k]];", "sparse-product-csr"),
        ("for (int k = rb[i]; k < re[i]; k++) s += v[k] * x[ci[k]];", "sparse-product-csr"),
        (
            "double *a = mv[i]; int *c = mi[i]; for (int k = 0; k < nz[i]; k++) s += a[k] * x[c[k]];",
            "sparse-product-csr",
        ),
        ("for (int k = 0; k < w; k++) s += v[i*w+k] * x[ci[i*w+k]];", "sparse-product-ell"),
        ("for (int k = 0; k < w; k++) s += v[k*n+i] * x[ci[k*n+i]];", "sparse-product-ell"),
    ],
)
def test_sparse_products_by_their_rows(tmp_path: Path, row: str, idiom: str) -> None:
    text = f"{HEAD}  for (int i = 0; i < n; i++) {{ double s = 0; {row} y[i] = s; }}\n}}\n"
    assert idioms_of(tmp_path, "a.c", text) == [idiom]


def test_python_streams_are_of_arrays(tmp_path: Path) -> None:
    found = findings_of(
        tmp_path, "a.py",
        "import numpy as np\ndef f(a, b, n):\n    c = np.zeros(n)\n    c[1:] = a[:-1] * b[1:]\n    a[2:5] += 1\n"
        "    return c\n"
        "def g(rows):\n    out = {}\n    for k in rows:\n        out[k] = rows[k].strip()\n    return out\n"
        "def h(items):\n    for i in range(len(items)):\n        items[i] = Thing(items[i])\n"
        "def t(s):\n    r = ''\n    for c in s:\n        r = r + c\n    return r\n",
    )  # fmt: skip
    assert [(one.idiom, one.first_line) for one in found] == [("stream", 4), ("stream", 5)]
    assert found[0].arrays[0].name == "c"


SOLVES = {
    "lower, by rows": "for (int k = rb[i]; k < rb[i+1] - 1; k++) s -= v[k] * x[ci[k]]; x[i] = s / v[rb[i+1]-1];",
    "lower, unit diagonal": "for (int k = rb[i]; k < rb[i+1]; k++) s -= v[k] * x[ci[k]]; x[i] = s;",
    "into the element": "for (int k = rb[i]; k < rb[i+1]; k++) x[i] -= v[k] * x[ci[k]];",
    "added": "for (int k = rb[i]; k < rb[i+1]; k++) x[i] += v[k] * x[ci[k]];",
    "padded": "for (int k = 0; k < w; k++) s -= v[i*w+k] * x[ci[i*w+k]]; x[i] = s;",
    "dense": "for (int k = 0; k < i; k++) s -= mv[i][k] * x[k]; x[i] = s / mv[i][i];",
}


@pytest.mark.parametrize("row", SOLVES.values(), ids=SOLVES)
@pytest.mark.parametrize("order", ["int i = 0; i < n; i++", "int i = n - 1; i >= 0; i--"])
def test_a_triangular_solve_in_place_is_no_product(tmp_path: Path, row: str, order: str) -> None:
    text = f"{HEAD}  for ({order}) {{ double s = x[i]; {row} }}\n}}\n"
    (tmp_path / "a.c").write_text(text)
    found = file_result(tmp_path / "a.c", built_in()).findings
    assert not [one.idiom for one in found if "product" in one.idiom]


def test_a_factorisation_in_place_is_no_matrix_product(tmp_path: Path) -> None:
    text = (
        "subroutine q(m, n, a)\n  integer :: m, n, i, j, k\n  real(8) :: a(m, n), s, t\n  do j = 1, n\n"
        "    do k = j+1, n\n      s = 0\n      do i = j, m\n        s = s + a(i,j)*a(i,k)\n      end do\n"
        "      t = s/a(j,j)\n"
        "      do i = j, m\n        a(i,k) = a(i,k) - t*a(i,j)\n      end do\n    end do\n  end do\nend subroutine\n"
    )
    assert idioms_of(tmp_path, "a.f90", text) == ["matrix-vector-product", "stream"], (
        "the column of the step, times those right"
    )


@pytest.mark.parametrize(
    "update",
    ["all = all && a[i]", "any = any || a[i]", "all = a[i] && all", "any = any || a[i] > 0", "any |= a[i] != 0",
     "all = all && b[i] < 1.0"],
)  # fmt: skip
def test_logical_operators_reduce(tmp_path: Path, update: str) -> None:
    (tmp_path / "a.c").write_text(
        "int f(int n, int *a, double *b) {\n  int all = 1, any = 0;\n  for (int i = 0; i < n; i++)\n"
        f"    {update};\n  return all + 2 * any;\n}}\n"
    )
    result = file_result(tmp_path / "a.c", built_in())
    assert [(one.idiom, one.first_line) for one in result.findings] == [("reduction", 4)]
    assert [loop.verdict for loop in result.loops] == [Verdict.REDUCTION]


@pytest.mark.parametrize(
    ("update", "idiom"),
    [
        ("t = t > a[i] ? t : a[i]; w = w > t - a[i] ? w : t - a[i];", ["reduction", "reduction"]),
        ("for (int j = 0; j < i; j++) a[i] -= a[j] * a[i + j + 1];", ["reduction"]),
        ("t = t + b[t & 7] * a[i];", ["recurrence"]),
    ],
)
def test_a_total_whose_steps_are_used_is_still_one(tmp_path: Path, update: str, idiom: list[str]) -> None:
    text = (
        f"int f(int n, int *a, const int *b) {{\n  int t = 0, w = 0;\n  for (int i = 0; i < n; i++) {{\n    {update}\n"
        "  }\n  return t + w;\n}\n"
    )
    assert idioms_of(tmp_path, "a.c", text) == idiom


@pytest.mark.parametrize(
    ("loop", "body", "idiom"),
    [
        # Interleaved complex numbers: each iteration has its own record.
        ("i = 0; i < n; i++", "y[2*i] = c * x[2*i] - s * x[2*i+1]; y[2*i+1] = c * x[2*i+1] + s * x[2*i];", "stream"),
        ("i = 0; i < n; i += 2", "y[i] = c * x[i] - s * x[i+1]; y[i+1] = c * x[i+1] + s * x[i];", "stream"),
        # Records that overlap: every second element, and an unrolled loop.
        ("i = 1; i < n; i += 2", "y[i] = x[i-1] + x[i+1];", "stencil"),
        ("i = 1; i < n; i += 2", "y[i] = x[i-1] + x[i+1]; y[i+1] = x[i] + x[i+2];", "stencil"),
    ],
)  # fmt: skip
def test_the_parts_of_a_record_are_no_neighbours(tmp_path: Path, loop: str, body: str, idiom: str) -> None:
    text = f"void f(int n, double c, double s, double *x, double *y) {{\n  for (int {loop}) {{ {body} }}\n}}\n"
    assert set(idioms_of(tmp_path, "a.c", text)) == {idiom}


@pytest.mark.parametrize(
    ("body", "idioms"),
    [
        ("if (a[i] > 0) { b[m++] = a[i]; } else { b[m++] = 1; }", []),
        ("if (a[i] > 0) { b[m++] = a[i]; } else if (a[i] < 0) { b[m++] = 0; } else { m++; }", []),
        ("if (a[i] > 0) { b[m++] = a[i]; } else if (a[i] < 0) { b[m++] = 0; }", ["compaction"]),
        ("if (a[i] > 0) { b[m++] = a[i]; } else { k++; }", ["compaction"]),
    ],
)
def test_where_each_branch_fills_a_place_nothing_is_compacted(tmp_path: Path, body: str, idioms: list[str]) -> None:
    text = (
        f"int f(int n, int *a, int *b) {{\n  int m = 0, k = 0;\n  for (int i = 0; i < n; i++) {{\n    {body}\n  }}\n"
        "  return m + k;\n}\n"
    )
    assert [one for one in idioms_of(tmp_path, "a.c", text) if one == "compaction"] == idioms


def test_what_comes_from_the_state_of_a_filter_is_no_stream(tmp_path: Path) -> None:
    text = (
        "typedef struct { int seed, err; } state;\nvoid f(int n, state *s, const short *in, int *out) {\n"
        "  for (int i = 0; i < n; i++) {\n    int x = in[i] - (s->err >> 2);\n    out[i + 1] = x << 4;\n"
        "    s->err = (s->err >> 1) + x - in[i];\n  }\n}\n"
        "void g(int n, state *s, const short *in, int *out) {\n"
        "  for (int i = 0; i < n; i++) {\n    out[i + 1] = in[i] * s->seed;\n    s->err += in[i];\n  }\n}\n"
    )
    assert [one for one in findings_of(tmp_path, "a.c", text) if one.idiom == "stream" and one.first_line != 11] == []
    assert ("stream", 11) in [(one.idiom, one.first_line) for one in findings_of(tmp_path, "a.c", text)]


def test_the_truth_of_an_array_is_no_reduction(tmp_path: Path) -> None:
    text = (
        "import numpy as np\ndef f(x, a, old):\n    s = np.dot(x.T, a @ x)\n    if s == 0:\n        x = old\n"
        "    if s > 3 and (s < 9).all():\n        x = old\n    return x\n"
    )
    assert [one.first_line for one in findings_of(tmp_path, "a.py", text) if one.idiom == "reduction"] == [6]


@pytest.mark.parametrize(
    ("body", "idioms"),
    [
        ("for (long i = 1; i <= n; i += step[1]) out(i);", []),
        ("long at = 0; while (at < n) { at += step[0]; out(at); }", []),
        ("char *q = a; for (int i = 0; i < n; i++) if (a[i] != 3) q++; out(q - a);", []),
        ("int most = 0; for (int i = 0; i < n; i++) if (step[i] + 1 > 2 * most) most++; out(most);", []),
        ("int k = 0; for (int i = 0; i < n; i++) if (a[i] > 3) k++; out(k);", ["reduction"]),
        ("long s = 0; for (int i = 0; i < n; i++) s += step[i]; out(s);", ["reduction"]),
        ("long s = 0; const long *p = step; while (p < step + n) s += *p++; out(s);", ["reduction"]),
        ("long s = 0; for (int i = 0; i < n; i++) for (int j = 0; j < i; j++) s += step[i]; out(s);", ["reduction"]),
    ],
)
def test_counters_are_no_totals(tmp_path: Path, body: str, idioms: list[str]) -> None:
    text = f"void out(long x);\nvoid f(int n, char *a, const long *step) {{\n  {body}\n}}\n"
    assert idioms_of(tmp_path, "a.c", text) == idioms


@pytest.mark.parametrize("body", ["v[i] = new T(p[i]);", "T *one = new T(p[i]); v[i] = one;"])
def test_new_objects_are_no_streams(tmp_path: Path, body: str) -> None:
    text = (
        "#include <vector>\nstruct T { int x; T(int a); };\nvoid f(std::vector<T*>& v, const int* p, int n) {\n"
        f"  for (int i = 0; i < n; i++) {{ {body} }}\n}}\n"
    )
    assert idioms_of(tmp_path, "a.cpp", text) == []


def test_a_list_that_takes_up_another_adds_no_elements(tmp_path: Path) -> None:
    text = (
        "import numpy as np\ndef f(n, rows):\n    out = ['title']\n    for r in rows:\n        out += lines(r)\n"
        "    out += [str(n)]\n    return out\n"
        "def g(x, y):\n    total = [0.0, 1.0]\n    total = np.asarray(total)\n    total += y * x\n    return total\n"
    )
    found = findings_of(tmp_path, "a.py", text)
    assert [one.first_line for one in found if one.function == "f"] == []
    assert ("stream", 11) in [(one.idiom, one.first_line) for one in found]


@pytest.mark.parametrize("update", ["one = a[i] && one != 3", "one = one == (a[i] != 0)"])
def test_what_only_looks_like_a_logical_reduction_is_none(tmp_path: Path, update: str) -> None:
    text = f"int f(int n, int *a) {{\n  int one = 1;\n  for (int i = 0; i < n; i++)\n    {update};\n  return one;\n}}\n"
    assert "reduction" not in idioms_of(tmp_path, "a.c", text)


@pytest.mark.parametrize(
    "statement",
    ["b = a[1:n]", "b = a[:, 0]", "b = a.T", "b = a.reshape(n, 2)", "b = a", "b = a[1:] if n else a[:-1]",
     "b = np.empty(n)", "b = a[k][1:]"],
)  # fmt: skip
def test_names_and_views_of_python_arrays_move_nothing(tmp_path: Path, statement: str) -> None:
    text = f"import numpy as np\ndef f(a, n, k):\n    {statement}\n    return b\n"
    assert idioms_of(tmp_path, "a.py", text) == []


@pytest.mark.parametrize(
    ("statement", "idiom"),
    [("b[:] = a[1:n]", "stream"), ("b = 2 * a[1:n]", "stream"), ("b = a[1:].copy()", "stream")],
)
def test_copies_of_python_arrays_move_something(tmp_path: Path, statement: str, idiom: str) -> None:
    text = f"import numpy as np\ndef f(a, b, n):\n    {statement}\n    return b\n"
    assert idioms_of(tmp_path, "a.py", text) == [idiom]


def test_where_and_forall_stay_beside_a_statement_that_does_not_parse(tmp_path: Path) -> None:
    text = (
        "subroutine s(n, a, b, m)\n  integer :: n, i\n  real :: a(n), b(n)\n  logical :: m(n)\n"
        "  where (a == b)\n    a = b + 1.0\n  elsewhere (m)\n    a = 0.0\n  end where\n"
        "  forall (i = 1:n, m(i))\n    a(i) = 2.0 * b(i)\n  end forall\n  where (m) a = b\n"
        "  a(1) = ?? 3\nend subroutine\n"
    )
    found = findings_of(tmp_path, "a.f90", text)
    assert {6, 8, 11, 13} <= {one.first_line for one in found}
    skipped = file_result(tmp_path / "a.f90", built_in()).skipped
    assert [part.line for part in skipped] == [14]


@pytest.mark.parametrize(
    ("text", "idiom"),
    [
        ("def f(b, at):\n    return [b[place] for place in at]\n", "gather"),
        ("def f(rows):\n    return [value for row in rows for value in row]\n", "stream"),
        ("def f(n, m):\n    return [[0.0] * n for _ in range(m)]\n", "stream"),
        ("def f(x, following):\n    while x >= 0:\n        x = following[x]\n    return x\n", "pointer-chase"),
        ("def f(node):\n    while node is not None:\n        node = node.next\n", "pointer-chase"),
        ("import numpy as np\ndef f(x):\n    at = np.argsort(x)\n    y = x[at]\n    return y.max()\n", "gather"),
        (
            "def f(words):\n    n = {}\n    for w in words:\n        n[w] = n.get(w, 0) + 1\n    return n\n",
            "gather-modify-scatter",
        ),
        (
            "def f(n):\n    f = [0, 1] + [0] * n\n    for i in range(2, n):\n        f[i] = f[i - 1] + f[i - 2]\n",
            "recurrence",
        ),
    ],
)
def test_lists_comprehensions_and_chains_of_python_are_found(tmp_path: Path, text: str, idiom: str) -> None:
    assert idiom in idioms_of(tmp_path, "a.py", text)


def test_a_copy_that_is_shifted_in_place_is_a_stream(tmp_path: Path) -> None:
    """Each element is read before it is written: no iteration needs the result of another."""
    text = "void f(int n, double *a) {\n  for (int i = 0; i < n - 1; i++)\n    a[i] = a[i + 1];\n}\n"
    assert idioms_of(tmp_path, "a.c", text) == ["stream"]
