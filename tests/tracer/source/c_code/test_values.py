"""Programs compiled and run by gcc, and their forms run by the interpreter: the same values must come out."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from effort import examples
from form_interpreter import run
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("clang", reason="the extra 'source' is not installed")

from foretrace.tracer.source.c_code.lowering import lower_file

LENGTH = 12
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs gcc and g++")

EXPRESSIONS = st.deferred(
    lambda: st.one_of(
        st.integers(-9, 9).map(str),
        st.sampled_from(
            ["i", "j", "n", "s", "p[i]", "a[i] * 0.5", "a[at(i + j)]", "p[at(p[i])]", "(int)(u % 100u)", "c", "q[0]"]
        ),
        st.builds("({} {} {})".format, EXPRESSIONS, st.sampled_from(["+", "-", "*"]), EXPRESSIONS),
        st.builds("({} ? {} : {})".format, CONDITIONS, EXPRESSIONS, EXPRESSIONS),
        st.builds("(double)({})".format, EXPRESSIONS),
        st.builds("at((int)({}))".format, st.sampled_from(["s", "a[i]", "n - i", "n / 3"])),
    )
)
CONDITIONS = st.deferred(
    lambda: st.one_of(
        st.builds("({} {} {})".format, EXPRESSIONS, st.sampled_from(["<", "<=", "==", "!=", ">"]), EXPRESSIONS),
        st.builds("({} {} {})".format, CONDITIONS, st.sampled_from(["&&", "||"]), CONDITIONS),
        st.builds("!{}".format, CONDITIONS),
        st.sampled_from(["i % 2", "c", "p[i]"]),
    )
)
EFFECTS = st.sampled_from(
    ["j++ < 3", "(j = i - 2)", "j++ < 3 && j > 1", "i % 2 || --j > 2", "at(j++) > 1", "!(c++ % 3) && i < at(j--)"]
)
PLACES = st.sampled_from(["s", "j", "a[i]", "p[i]", "a[at(j)]", "*q", "c", "m[i % 3][at(j) % 4]", "r.z", "r.y"])
SINGLE = st.sampled_from(
    [
        "j++;", "--j;", "q = &a[i];", "q++, q--;", "s = j++ + i;", "p[at(j++)] = i;", "u = u * 77u + 13u;", "c += 100;",
        "if (i > 8) break;", "if (p[i] > 3) continue;", "if (j > 4 && p[i]) { s++; continue; }",
        "if (i == 7) goto out;",
        "{ int w = 3; while (w--) s += w; }", "{ int v = 4; do { s -= v; if (v == 2) continue; } while (--v > 0); }",
        "{ double z[2] = {1, 2}; s += z[at(j) % 2]; }", "s += i > 2 && j++ > 0;", "a[i] = p[i] = at(--j);",
    ]
)  # fmt: skip
STATEMENTS = st.deferred(
    lambda: st.one_of(
        st.builds("{} = {};".format, PLACES, EXPRESSIONS),
        st.builds("{} {}= {};".format, PLACES, st.sampled_from("+-*"), EXPRESSIONS),
        st.builds("if ({}) {{ {} }}".format, CONDITIONS, BLOCKS),
        st.builds("if ({}) {{ {} }} else {{ {} }}".format, EFFECTS, BLOCKS, BLOCKS),
        st.builds("if ({}) {{ {} }} else {{ {} }}".format, CONDITIONS, BLOCKS, BLOCKS),
        st.builds("switch (at(j)) {{ case 0: {} break; case 1: case 2: {} {} default: {} }}".format, BLOCKS, BLOCKS,
                  st.sampled_from(["break;", "", "if (c) break;"]), BLOCKS),
        st.builds("for (int k = 0; k < 3; k++) {{ {} {} }}".format, BLOCKS,
                  st.sampled_from(["", "if (k == i) continue; s += k;", "if (k > j) break; s -= 1;"])),
        SINGLE,
    )
)  # fmt: skip
BLOCKS = st.lists(STATEMENTS, max_size=3).map(" ".join)

PROGRAM = """
struct pair {{ double z; int y; }};
static int at(int i) {{ return i < 0 ? 0 : i % {length}; }}
double f(int n, double *a, int *p, double m[3][4]) {{
    int i = 0, j = 0; double s = 0; unsigned u = 7; signed char c = 1; double *q = a;
    struct pair r = {{1, 0}};
    for (i = {first}; i {comparison}; {step}) {{
        {body}
        if (s > 1e6 || s < -1e6) s = 0;
        if (j > 1000 || j < -1000) j = 0;
    }}
out:
    for (int k = 0; k < {length}; k++) {{ if (!(a[k] < 1e6 && a[k] > -1e6)) a[k] = 1; s += a[k]; }}
    return s + r.y + (r.z > 2) + j + u % 1000 + c;
}}
"""


def compiled(path: Path) -> ctypes.CDLL:
    library = path.with_suffix(".so")
    compiler = "gcc" if path.suffix == ".c" else "g++"
    command = [compiler, "-O0", "-w", "-fwrapv", "-ffp-contract=off", "-shared", "-fPIC", str(path), "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True)
    return ctypes.CDLL(str(library))


def both(path: Path, length: int) -> None:
    """Runs both and compares the value and all arrays."""
    a, p, m = np.linspace(-2, 3, LENGTH), np.arange(LENGTH, dtype=np.int32) - 3, np.ones((3, 4))
    ours = [a.copy(), p.copy(), m.copy()]
    library = compiled(path)
    library.f.restype = ctypes.c_double
    value = library.f(length, *(array.ctypes.data_as(ctypes.c_void_p) for array in (a, p, m)))
    found = run(lower_file(path), "f", length, *ours)
    np.testing.assert_array_equal(found, value)
    for theirs, made in zip((a, p, m), ours, strict=True):
        np.testing.assert_array_equal(made, theirs)


@settings(max_examples=examples(25))
@given(
    body=st.lists(STATEMENTS, min_size=1, max_size=5).map("\n        ".join),
    loop=st.sampled_from([(0, "< n", "i++"), (0, "<= n - 2", "i += 2"), (9, "> 0", "i--"), (1, "!= 11", "i += 5")]),
    length=st.integers(0, LENGTH),
)
def test_random_programs(
    tmp_path_factory: pytest.TempPathFactory, body: str, loop: tuple[int, str, str], length: int
) -> None:
    first, comparison, step = loop
    path = tmp_path_factory.mktemp("random") / "a.c"
    path.write_text(PROGRAM.format(length=LENGTH, first=first, comparison=comparison, step=step, body=body))
    both(path, length)


CXX = """
#include <algorithm>
#include <array>
#include <numeric>
#include <vector>
template <class T> struct Matrix {{
    T *cells; int columns;
    T &operator()(int i, int j) {{ return cells[i * columns + j]; }}
    T operator()(int i, int j) const {{ return cells[i * columns + j]; }}
    int size() const {{ return 3 * columns; }}
}};
template <int N> double total(const double *a) {{ double s = 0; for (int i = 0; i < N; ++i) s += a[i]; return s; }}
static void swapped(double &x, double &y) {{ double t = x; x = y; y = t; }}
static double body(int n, double *a, int *p, double *m) {{
    Matrix<double> g{{m, 4}};
    double s = 0;
    {}
    return s;
}}
extern "C" double f(int n, double *a, int *p, double *m) {{ return body(n, a, p, m); }}
"""


@pytest.mark.parametrize(
    "statements",
    [
        "for (int i = 0; i < 3; ++i) for (int j = 0; j < 4; ++j) g(i, j) += i * j; s = g.size();",
        "s = total<4>(a) + total<7>(a + 1);",
        "std::vector<double> v(n); for (auto &x : v) x = ++s; for (int i = 0; i < n; i++) a[i] = v[i];",
        "double w[3] = {1, 2, 3}; for (double x : w) s += x; for (auto &x : w) x = s; a[0] = w[2];",
        "std::transform(a, a + 5, a + 6, [&](double x) { return x * n; });",
        "s = std::accumulate(a + 1, a + 4, 1.0); s += std::inner_product(a, a + 3, m, 0.0);",
        "s = std::accumulate(a, a + 4, 1.0, [](double x, double y) { return x * y; });",
        "std::fill(a, a + 3, 7.0); std::copy(a, a + 3, m); std::iota(p, p + 6, 3);",
        "auto add = [&](int i) { s += a[i]; }; for (int i = 0; i < 4; i++) add(i);",
        "swapped(a[0], a[1]); double &x = a[2]; x = 5; std::swap(a[4], a[5]);",
        "int k = 1; double &y = a[k]; k = 3; y = k;",
        "for (double *q = a; q != a + 6; ++q) { if (*q < 0) continue; *q *= 2; }",
        "double *e = std::max_element(a, a + 6); s = *e + (e - a);",
        "s = std::count_if(a, a + 9, [](double x) { return x > 1; });",
        "std::partial_sum(a, a + 6, a);",
        "std::array<int, 4> t{4, 3, 2, 1}; for (auto x : t) p[x] = x; s = t.size();",
        "s = std::max(a[0], 2.0) + std::min(n, 3) + std::abs(a[1]);",
    ],
)
def test_cxx(tmp_path: Path, statements: str) -> None:
    path = tmp_path / "a.cpp"
    path.write_text(CXX.format(statements))
    a, p, m = np.linspace(-2, 3, LENGTH), np.arange(LENGTH, dtype=np.int32) - 3, np.ones(12)
    ours = [a.copy(), p.copy(), m.copy()]
    library = compiled(path)
    library.f.restype = ctypes.c_double
    value = library.f(6, *(array.ctypes.data_as(ctypes.c_void_p) for array in (a, p, m)))
    found = run(lower_file(path), "body", 6, *ours)
    assert found == pytest.approx(value, abs=0)
    for theirs, made in zip((a, p, m), ours, strict=True):
        np.testing.assert_array_equal(made, theirs)
