"""C and C++ as source form: what each construct becomes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("clang", reason="the extra 'source' is not installed")

from foretrace.tracer.source.c_code.arguments import Options
from foretrace.tracer.source.c_code.lowering import lower_file
from foretrace.tracer.source.form.records import ArrayType, PointerType, Unit
from foretrace.tracer.source.form.text import body_lines, type_text


def lowered(tmp_path: Path, text: str, name: str = "a.c") -> Unit:
    path = tmp_path / name
    path.write_text(text)
    return lower_file(path)


def body(unit: Unit, name: str = "f") -> list[str]:
    function = next(function for function in unit.functions if function.name == name)
    return [line.split("  #")[0].rstrip() for line in body_lines(function.body)]


def form(tmp_path: Path, text: str, name: str = "a.c", function: str = "f") -> list[str]:
    return body(lowered(tmp_path, text, name), function)


def in_f(tmp_path: Path, statements: str, parameters: str = "int n, double *a, double *b, int *p") -> list[str]:
    return form(tmp_path, f"int g(int);\nvoid f({parameters}) {{ {statements} }}\n")


def in_cxx(tmp_path: Path, statements: str, before: str = "", parameters: str = "") -> list[str]:
    parameters = parameters or "std::vector<double> &a, const std::vector<double> &b, int n"
    includes = "#include <algorithm>\n#include <array>\n#include <numeric>\n#include <span>\n#include <vector>\n"
    return form(tmp_path, f"{includes}{before}\nvoid f({parameters}) {{ {statements} }}\n", "a.cpp")


def test_a_for_loop_is_its_start_its_condition_and_its_step_at_the_end(tmp_path: Path) -> None:
    assert in_f(tmp_path, "for (int i = 0; i < n; i++) a[i] += 2 * b[i];") == [
        "i = 0",
        "loop while i < n",
        "  a[i] = a[i] + 2.0 * b[i]",
        "  i = i + 1",
    ]


def test_parts_of_a_for_loop_that_are_left_out(tmp_path: Path) -> None:
    assert in_f(tmp_path, "int i; for (i = 0;; i = p[i]) a[i] = 0;") == ["i = 0", "loop", "  a[i] = 0.0", "  i = p[i]"]
    assert in_f(tmp_path, "int i = n; for (; i > 0;) { a[i] = 0; i--; }")[1:] == [
        "loop while i > 0", "  a[i] = 0.0", "  i = i - 1",
    ]  # fmt: skip
    assert in_f(tmp_path, "int i = 3; for (;; i = p[i]) a[i] = 0;") == ["i = 3", "loop", "  a[i] = 0.0", "  i = p[i]"]


def test_side_effects_become_statements_in_order_of_evaluation(tmp_path: Path) -> None:
    assert in_f(tmp_path, "a[n++] = *b++;") == ["a[n] = b[0]", "b = b + 1", "n = n + 1"]
    assert in_f(tmp_path, "a[++n] = 1;") == ["n = n + 1", "a[n] = 1.0"]
    assert in_f(tmp_path, "*a = g(n) + (n = 2);") == ["%1 = g(n)", "n = 2", "a[0] = %1 + n"]
    assert in_f(tmp_path, "int i = (n = 3, n + 1);") == ["n = 3", "i = n + 1"]
    assert in_f(tmp_path, "a[0] = b[0] = 1;") == ["b[0] = 1.0", "a[0] = b[0]"]


def test_conditions_with_side_effects(tmp_path: Path) -> None:
    assert in_f(tmp_path, "while (n--) a[n] = 0;") == ["loop while n != 0", "  n = n - 1", "  a[n] = 0.0", "n = n - 1"]
    assert in_f(tmp_path, "while (n-- > 0) { if (g(n)) break; }") == [
        "loop", "  %1 = n > 0", "  n = n - 1", "  if not %1", "    break", "  %2 = g(n)", "  if %2 != 0", "    break",
    ]  # fmt: skip
    assert in_f(tmp_path, "do a[n] = 0; while (--n);") == ["loop do while n != 0", "  a[n] = 0.0", "  n = n - 1"]
    assert in_f(tmp_path, "if (n && g(n)) n = 1;") == [
        "%2 = n != 0", "if %2", "  %1 = g(n)", "  %2 = %1 != 0", "if %2", "  n = 1",
    ]  # fmt: skip
    assert in_f(tmp_path, "n = n > 0 ? g(n) : 2;") == [
        "if n > 0", "  %1 = g(n)", "  %2 = %1", "else", "  %2 = 2", "n = %2",
    ]  # fmt: skip
    assert in_f(tmp_path, "n = n > 0 && n < 9 ? n : 2;") == ["n = (n > 0 and n < 9 ? n : 2)"]


def test_continue_is_the_other_arm_or_a_jump_to_the_step(tmp_path: Path) -> None:
    loop = "for (int i = 0; i < n; i++) {{ {} }}"
    assert in_f(tmp_path, loop.format("if (p[i]) continue; a[i] = 1;")) == [
        "i = 0", "loop while i < n", "  if p[i] == 0", "    a[i] = 1.0", "  i = i + 1",
    ]  # fmt: skip
    nested = loop.format("if (n) { if (p[i]) continue; a[i] = 1; } b[i] = 1;")
    assert in_f(tmp_path, nested) == [
        "i = 0", "loop while i < n", "  if n != 0", "    if p[i] != 0", "      goto next'1", "    a[i] = 1.0",
        "  b[i] = 1.0", "  next'1:", "  i = i + 1",
    ]  # fmt: skip


def test_a_switch_is_a_chain_of_branches_or_jumps(tmp_path: Path) -> None:
    assert in_f(tmp_path, "switch (n) { case 1: case 2: a[0] = 1; break; case 3: return; default: a[0] = 2; }") == [
        "if n == 1 or n == 2", "  a[0] = 1.0", "else", "  if n == 3", "    return", "  else", "    a[0] = 2.0",
    ]  # fmt: skip
    assert in_f(tmp_path, "switch (n) { case 1: a[0] = 1; case 2: a[1] = 1; }") == [
        "if n == 1", "  goto case'2", "if n == 2", "  goto case'3", "goto end'1", "case'2:", "a[0] = 1.0", "case'3:",
        "a[1] = 1.0", "end'1:",
    ]  # fmt: skip


def test_jumps_and_assembly(tmp_path: Path) -> None:
    assert in_f(tmp_path, "again: n--; if (n) goto again;") == ["again:", "n = n - 1", "if n != 0", "  goto again"]
    assert in_f(tmp_path, '__asm__("nop" : "=r"(n));') == ["opaque (it is assembly) reads [n] writes [n], and more"]


def test_arrays_pointers_and_addresses(tmp_path: Path) -> None:
    assert in_f(tmp_path, "m[n][2] = *(q[n] + 1); *(a + n) = a[n - 1]; b = &a[n] + 1; b = a + n;",
                "int n, double m[][3], double **q, double *a, double *b") == [
        "m[n, 2] = q[n][1]", "a[n] = a[n - 1]", "b = &a[n + 1]", "b = a + n",
    ]  # fmt: skip
    rows = "double m[3][4]; double (*r)[4] = m; r[n][1] = m[1][n]; g(n); double *s = m[2]; s[1] = 0;"
    assert in_f(tmp_path, rows) == [
        "r = &m[0]", "r[n, 1] = m[1, n]", "g(n)", "s = &m[2, 0]", "s[1] = 0.0",
    ]  # fmt: skip


def test_types_of_variables(tmp_path: Path) -> None:
    text = """
    static const int table[3] = {1, 2, 3};
    float grid[4][5];
    unsigned f(int n, double *restrict a, double m[][3], unsigned char c) {
        double v[n][4]; static long calls = 0; calls += table[n]; grid[n][0] = m[0][0] + c + v[0][0]; return *a;
    }"""
    unit = lowered(tmp_path, text)
    variables = unit.functions[0].variables
    kinds = {name: type_text(variable.type) for name, variable in variables.items()}
    assert kinds == {
        "n": "integer32", "a": "float64*", "m": "float64[3]*", "c": "unsigned8", "v": "float64[%1, 4]",
        "%1": "integer64", "calls": "integer64", "table": "integer32[3]", "grid": "float32[4, 5]",
    }  # fmt: skip
    restrict = variables["a"].type
    assert isinstance(restrict, PointerType)
    assert restrict.restrict
    assert variables["table"].constant
    assert variables["table"].value is not None
    assert variables["calls"].storage == "static"
    assert variables["grid"].storage == "global"
    assert unit.functions[0].result is not None
    assert type_text(unit.functions[0].result) == "unsigned32"


def test_structures_and_unions(tmp_path: Path) -> None:
    text = "struct p { double x[3]; struct { int y; }; }; void f(struct p *s, struct p t, int n) {"
    assert form(tmp_path, text + " s->x[n] = t.x[0]; s[n].y = (*s).y; }") == ["s[0].x[n] = t.x[0]", "s[n].y = s[0].y"]


def test_conversions_that_change_something(tmp_path: Path) -> None:
    conversions = "n = a[0]; n += a[0]; a[0] = n / 2; a[0] = (double)n / 2; n = (unsigned char)n; n = -1 % n;"
    assert in_f(tmp_path, conversions) == [
        "n = integer32(a[0])", "n = integer32(n + a[0])", "a[0] = n / 2", "a[0] = float64(n) / 2.0", "n = unsigned8(n)",
        "n = -1 % n",
    ]  # fmt: skip


def test_macros_expand(tmp_path: Path) -> None:
    text = (
        "#define AT(i, j) a[(i) * n + (j)]\n#define EACH(i) for (int i = 0; i < n; i++)\nvoid f(double *a, int n) {\n"
    )
    assert form(tmp_path, text + "EACH(i) AT(i, 0) = 1;\n}\n") == [
        "i = 0", "loop while i < n", "  a[i * n + 0] = 1.0", "  i = i + 1",
    ]  # fmt: skip


def test_shadowed_names_differ(tmp_path: Path) -> None:
    assert in_f(tmp_path, "int i = 0; { int i = 1; n = i; } n = i;") == ["i = 0", "i'2 = 1", "n = i'2", "n = i"]


def test_small_functions_are_inlined_and_others_called(tmp_path: Path) -> None:
    text = "static int at(int i, int j) { return i * 10 + j; }\nvoid h(double *);\nvoid f(double *a, int n) {"
    assert form(tmp_path, text + " a[at(n, 1)] = 0; h(a); h(&a[n]); }") == ["a[n * 10 + 1] = 0.0", "h(a)", "h(&a[n])"]


def test_memory_functions_are_loops(tmp_path: Path) -> None:
    text = "#include <string.h>\n#include <stdlib.h>\nvoid f(double *a, double *b, int n) {"
    assert form(tmp_path, text + " memcpy(a, b, n * sizeof(double)); memset(a, 0, 8 * sizeof *a); }") == [
        "loop %1 = 0 .. n - 1", "  a[%1] = b[%1]", "loop %2 = 0 .. 7", "  a[%2] = 0.0",
    ]  # fmt: skip
    assert form(tmp_path, text + " double *c = malloc(n * sizeof(double)); free(c); }") == [
        "c = allocate(n)",
        "free(c)",
    ]


def test_openmp(tmp_path: Path) -> None:
    text = """void f(double *a, int n) {
    double s = 0;
    #pragma omp parallel for reduction(+:s) \\
        schedule(static)
    for (int i = 0; i < n; i++)
        s += a[i];
    // a comment between
    #pragma omp simd collapse(2)
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            a[i * n + j] = s;
    for (int i = 0; i < n; i++)
        #pragma omp atomic
        a[0] += i;
}"""
    made = [line.strip() for line in form(tmp_path, text)]
    assert [line for line in made if "loop" in line] == [
        "unordered loop while i < n", "unordered loop while i'2 < n", "unordered loop while j < n",
        "loop while i'3 < n",
    ]  # fmt: skip
    assert "atomic a[0] = a[0] + i'3" in made


def test_headers_that_are_missing_cost_no_function(tmp_path: Path) -> None:
    text = '#include "generated.h"\nstatic double a[SIZE];\n'
    text += "void f(void) { for (int i = 0; i < SIZE; i++) a[i] = unknown(i); }"
    for name in ("a.c", "a.cpp"):
        unit = lowered(tmp_path, text, name)
        assert body(unit) == ["i = 0", "loop while i < SIZE", "  a[i] = unknown(i)", "  i = i + 1"]
        assert {part.what for part in unit.skipped} == {"include", "declaration"}
        kind = unit.functions[0].variables["a"].type
        assert isinstance(kind, ArrayType)
        assert kind.shape == (None,)


def test_headers_are_found_among_the_sources(tmp_path: Path) -> None:
    (tmp_path / "include" / "deep").mkdir(parents=True)
    (tmp_path / "include" / "deep" / "size.h").write_text("#define SIZE 12\n")
    (tmp_path / "src").mkdir()
    source = tmp_path / "src" / "a.c"
    source.write_text('#include "deep/size.h"\nint f(void) { return SIZE; }\n')
    unit = lower_file(source, Options(roots=(tmp_path,)))
    assert body(unit) == ["return 12"]
    assert not unit.skipped


def test_compile_commands(tmp_path: Path) -> None:
    path = tmp_path / "a.c"
    path.write_text("int f(void) { return SIZE; }\n")
    command = {"directory": str(tmp_path), "file": "a.c", "command": "cc -DSIZE=4 -fplugin=evil.so -o a.o -c a.c"}
    (tmp_path / "compile_commands.json").write_text(json.dumps([command]))
    assert body(lower_file(path)) == ["return 4"]
    (tmp_path / "compile_commands.json").write_text(
        '[{"directory": 3, "file": []}, 7, {"file": "a.c", "command": "\'"}]'
    )
    other = tmp_path / "b.c"
    other.write_text("int f(void) { return 5; }\n")
    assert body(lower_file(other)) == ["return 5"]


def test_range_for_and_iterators(tmp_path: Path) -> None:
    assert in_cxx(tmp_path, "for (auto &x : a) x *= 2; for (double x : b) n += x > 0;") == [
        "loop %1 = 0 .. size(a) - 1", "  a[%1] = a[%1] * 2.0", "loop %2 = 0 .. size(b) - 1", "  x = b[%2]",
        "  n = n + (x > 0.0)",
    ]  # fmt: skip
    assert in_cxx(tmp_path, "for (auto it = a.begin(); it != a.end(); ++it) *it = 1;") == [
        "it = &a[0]", "loop while it != &a[size(a)]", "  it[0] = 1.0", "  it = it + 1",
    ]  # fmt: skip
    assert in_cxx(tmp_path, "double v[3]; for (auto &x : v) x = 0;") == ["loop %1 = 0 .. 2", "  v[%1] = 0.0"]


def test_algorithms_are_loops(tmp_path: Path) -> None:
    assert in_cxx(tmp_path, "double s = std::accumulate(a.begin(), a.end(), 0.0);") == [
        "%1 = 0.0", "loop %2 = 0 .. size(a) - 1", "  %1 = %1 + a[%2]", "s = %1",
    ]  # fmt: skip
    assert in_cxx(tmp_path, "std::transform(b.begin(), b.end(), a.begin(), [&](double x) { return x * n; });") == [
        "loop %1 = 0 .. size(b) - 1", "  a[%1] = b[%1] * n",
    ]  # fmt: skip
    assert in_cxx(tmp_path, "double s = std::inner_product(a.begin(), a.begin() + n, b.begin(), 1.0);") == [
        "%1 = 1.0", "loop %2 = 0 .. n - 1", "  %1 = %1 + a[%2] * b[%2]", "s = %1",
    ]  # fmt: skip
    assert in_cxx(tmp_path, "std::for_each(a.begin(), a.end(), [](double &x) { x += 1; });") == [
        "loop %1 = 0 .. size(a) - 1", "  a[%1] = a[%1] + 1.0",
    ]  # fmt: skip
    assert in_cxx(tmp_path, "std::copy(b.begin(), b.end(), a.begin()); std::fill(a.begin(), a.end(), 0);") == [
        "loop %1 = 0 .. size(b) - 1", "  a[%1] = b[%1]", "loop %2 = 0 .. size(a) - 1", "  a[%2] = 0",
    ]  # fmt: skip


def test_elements_of_containers_and_matrices(tmp_path: Path) -> None:
    matrix = """template <class T> struct Matrix {
        int columns; std::vector<T> cells;
        T &operator()(int i, int j) { return cells[i * columns + j]; }
        const T &operator()(int i, int j) const { return cells[i * columns + j]; }
    };"""
    assert in_cxx(tmp_path, "m(i, 1) = v[i][2] + g[i][1] + s[i];", matrix,
                  "Matrix<double> &m, std::vector<std::vector<double>> &v, std::vector<std::array<double, 3>> &g, "
                  "std::span<float> s, int i") == [
        "m.cells[i * m.columns + 1] = v[i][2] + g[i, 1] + s[i]",
    ]  # fmt: skip


def test_templates_are_lowered_by_their_instances(tmp_path: Path) -> None:
    text = """template <class T, int N> T total(const T *a) {
        T s = 0; for (int i = 0; i < N; i++) s += a[i]; return s; }
    template <class T> void unused(T *a, int n) { for (int i = 0; i < n; i++) a[i] = i; }
    double f(const double *a, const float *b) { return total<double, 3>(a) + total<float, 4>(b); }"""
    unit = lowered(tmp_path, text, "a.cpp")
    assert [(function.name, function.instance_of) for function in unit.functions] == [
        ("total<double, 3>", "total"), ("total<float, 4>", "total"), ("unused", "unused"), ("f", ""),
    ]  # fmt: skip
    assert body(unit, "total<float, 4>")[2] == "loop while i < 4"
    assert body(unit, "unused")[1] == "loop while i < n"


def test_methods_members_and_lambdas(tmp_path: Path) -> None:
    text = """struct S { double *d; int n; void scale(double s); };
    void S::scale(double s) { for (int i = 0; i < n; ++i) d[i] *= s; }
    void f(double *a, int n) { auto set = [&](int i) { a[i] = 1; }; for (int i = 0; i < n; i++) set(i); }"""
    unit = lowered(tmp_path, text, "a.cpp")
    assert body(unit, "S::scale") == ["i = 0", "loop while i < this.n", "  this.d[i] = this.d[i] * s", "  i = i + 1"]
    assert body(unit)[:3] == ["i = 0", "loop while i < n", "  a[i] = 1.0"]


def test_a_lambda_that_captures_by_name_leaves_the_function_whole(tmp_path: Path) -> None:
    text = """double f(double *a, int n, double m) {
        auto near = [m, twice = 2 * m](double v) { return v - m; };
        for (int i = 0; i < n; i++) a[i] = near(a[i]);
        return m; }"""
    unit = lowered(tmp_path, text, "a.cpp")
    assert next(one.parameters for one in unit.functions if one.name == "f") == ("a", "n", "m")
    assert body(unit)[1:] == ["loop while i < n", "  a[i] = a[i] - m", "  i = i + 1", "return m"]


def test_structured_bindings(tmp_path: Path) -> None:
    before = "struct P { int a; double b; };"
    assert in_cxx(tmp_path, "auto &[a, b] = p; b = 2; auto [c, d] = p; b = d;", before, "P &p") == [
        "p.b = 2.0", "%1 = p.a", "%2 = p.b", "p.b = %2",
    ]  # fmt: skip
    assert in_cxx(tmp_path, "for (const auto &[a, b] : v) s += b;", before, "const std::vector<P> &v, double s") == [
        "loop %1 = 0 .. size(v) - 1", "  s = s + v[%1].b",
    ]  # fmt: skip


def test_references(tmp_path: Path) -> None:
    assert in_cxx(tmp_path, "double &x = a[n]; x = 1; n++; double &y = b2[0]; y = n; c = 3;", "",
                  "std::vector<double> &a, double *b2, int n, double &c") == [
        "x = &a[n]", "x[0] = 1.0", "n = n + 1", "b2[0] = n", "c[0] = 3.0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",
        "int f(void) { return 1",
        "void f(int n) { for (int i = 0; i < n; i++) {",
        '#include "a.c"\nint f(void) { return 1; }',
        "int f(int n) { return " + "(" * 5000 + "n" + ")" * 5000 + "; }",
        "int f(int n) { return " + "+".join(["n"] * 3000) + "; }",
        "void f(int n) { " + "if (n) { " * 200 + "n = 1;" + " }" * 200 + " }",
        "void f(int n) { " + "if (n) n = 1; else " * 400 + "n = 2; }",
        "int a[] = {" + "1," * 100_000 + "};\nint f(void) { return a[0]; }",
        "#define A B B\n#define B C C\n#define C D D\n#define D x;\nvoid f(int x) { A A A A }",
        "void f(int x) { " + "x = x + 1; " * 20_000 + "}",
        "template <int N> struct S { enum { value = S<N - 1>::value }; }; int f() { return S<9>::value; }",
    ],
    ids=range(12),
)
def test_hostile_text_costs_at_most_itself(tmp_path: Path, text: str) -> None:
    for name in ("a.c", "a.cpp"):
        unit = lowered(tmp_path, text, name)
        assert len(unit.functions) <= 1


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.c"
    path.write_bytes(b'const char *s = "\xff\xfe";\nint f(void) { return 1; /* \xe9 */ }\n')
    assert body(lower_file(path)) == ["return 1"]
    path.write_bytes(b"int a;\0\0")
    assert [part.what for part in lower_file(path).skipped] == ["file"]


def test_constants_that_are_no_numbers_of_json(tmp_path: Path) -> None:
    unit = lowered(tmp_path, "double f(void) { return 1e999; }")
    assert body(unit) == ["return ?{1e999; }}"]
