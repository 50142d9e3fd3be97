"""Findings of a file: what they say, which one claims a statement, and how they are related."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretrace.tracer.source.idioms.patterns import built_in, definition
from foretrace.tracer.source.idioms.recognition import MOST_TEXT, recognised
from foretrace.tracer.source.idioms.records import Finding, LoopReport
from foretrace.tracer.source.languages import lower
from foretrace.tracer.source.python_code import lower_text


def found_in(source: str) -> tuple[list[Finding], list[LoopReport]]:
    return recognised(lower_text(source), built_in(), source.splitlines())[:2]


PRODUCT = """
import numpy as np

def product(start, column, value, x, y, n):
    for row in range(n):
        total = 0.0
        for k in range(start[row], start[row + 1]):
            total += value[k] * x[column[k]]
        y[row] = total
"""


def test_a_finding_says_where_what_and_why() -> None:
    findings, loops = found_in(PRODUCT)
    whole, *parts = findings
    assert (whole.idiom, whole.function, whole.first_line, whole.loop_line) == ("sparse-product-csr", "product", 8, 7)
    assert (whole.depth, whole.induction, whole.parent) == (2, ("row", "k"), None)
    assert {use.role: (use.name, use.index) for use in whole.arrays} == {
        "P": ("start", ""), "V": ("value", "k"), "X": ("x", "column[k]"), "I": ("column", "k"),
    }  # fmt: skip
    assert whole.text == "total += value[k] * x[column[k]]"
    assert "sparse matrix" in whole.reason
    assert [(part.idiom, part.parent) for part in parts] == [("gather", 0), ("reduction", 0)]
    assert [(loop.line, loop.last_line, str(loop.verdict)) for loop in loops] == [
        (5, 9, "parallel"), (7, 8, "reduction"),
    ]  # fmt: skip
    assert loops[1].reason == "total is reduced by +"
    assert "start and y do not overlap" in loops[0].assumptions


def test_data_flow_decides_not_text() -> None:
    findings, _ = found_in(
        "def f(values, constants, dest, source, c, n):\n"
        "    values[c] = constants[c]\n"
        "    for i in range(n):\n"
        "        item = source[i]\n"
        "        dest[i] = item\n"
    )
    assert [(one.idiom, one.first_line) for one in findings] == [("stream", 5)]


def test_the_first_definition_that_fits_claims_a_statement() -> None:
    unit = lower_text("def f(a, b, n):\n    for i in range(n):\n        a[i] = b[i]\n")
    copy, fill = definition("copy", ["A[i] = B[i]"], ""), definition("anything", ["A[i] = _"], "")
    assert [one.idiom for one in recognised(unit, (copy, fill), [])[0]] == ["copy"]
    assert [one.idiom for one in recognised(unit, (fill, copy), [])[0]] == ["anything"]


def test_what_is_not_known_of_a_loop_lowers_the_confidence() -> None:
    plain, _ = found_in("def f(a, b, n):\n    for i in range(n):\n        a[i] = b[i]\n")
    calling, _ = found_in("def f(a, b, n):\n    for i in range(n):\n        a[i] = b[i]\n        g(a)\n")
    leaving, _ = found_in(
        "def f(a, b, n):\n    for i in range(n):\n        if b[i] < 0:\n            break\n        a[i] = b[i]\n"
    )
    assert plain[0].confidence > leaving[0].confidence > calling[0].confidence
    assert "the loop calls g" in calling[0].reason
    assert "the loop may end early" in leaving[0].reason


def test_a_stencil_has_its_shape_and_statements_of_one_finding_its_lines() -> None:
    findings, _ = found_in(
        "def f(a, b, n):\n"
        "    for i in range(1, n):\n"
        "        a[i] = b[i - 1] + b[i + 1]\n"
        "    total = 0\n"
        "    for i in range(n):\n"
        "        total += b[i]\n"
        "        a[i] = total\n"
    )
    assert {(one.idiom, one.first_line, one.last_line, one.shape) for one in findings} == {
        ("stencil", 3, 3, "(-1) (1)"), ("prefix-scan", 6, 7, ""),
    }  # fmt: skip


def test_long_text_is_cut() -> None:
    values = " + ".join(f"b[i + {k}]" for k in range(60))
    findings, _ = found_in(f"def f(a, b, n):\n    for i in range(n):\n        a[i] = {values}\n")
    assert len(findings[0].text) == MOST_TEXT
    assert findings[0].text.endswith("...")


def test_instances_of_a_template_are_one_finding(tmp_path: Path) -> None:
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    from foretrace.tracer.source.c_code.lowering import lower_file

    path = tmp_path / "f.cpp"
    path.write_text(
        "template <class T> void fill(T *a, int n) {\n    for (int i = 0; i < n; i++)\n        a[i] = 0;\n}\n"
        "void use(float *x, double *y) { fill(x, 3); fill(y, 3); }\n"
    )
    findings, _, _ = recognised(lower_file(path), built_in(), path.read_text().splitlines())
    assert [(one.idiom, one.first_line) for one in findings] == [("stream", 3)]


def found_in_file(path: Path, source: str) -> list[Finding]:
    path.write_text(source)
    return recognised(lower(path), built_in(), source.splitlines())[0]


def test_rows_with_a_margin_are_two_dimensions(tmp_path: Path) -> None:
    """A row of n + 4 elements beside one of n + 5: `k * (n + 4) + j` as a sum is n * k + 4 * k + j."""
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    source = """
void cells(int n, int m, double *restrict a, const double *restrict b) {
    for (int k = 1; k <= m; k++)
        for (int j = 1; j <= n; j++)
            a[(k + 2) * (n + 5) + j] = b[(k + 2) * (n + 4) + j] + b[(k + 1) * (n + 4) + j]
                                     + b[(k + 2) * (n + 4) + j - 1];
}
"""
    (one,) = found_in_file(tmp_path / "cells.c", source)
    assert (one.idiom, one.shape) == ("stencil", "(-1,0) (0,-1) (0,0)")
    assert [use.index for use in one.arrays] == ["k + 2, j", "k + 2, j"]


def test_a_choice_between_neighbours_is_no_gather(tmp_path: Path) -> None:
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    source = """
void upwind(int n, double *restrict f, const double *restrict v, const double *restrict d) {
    for (int j = 1; j < n; j++) {
        int donor = v[j] > 0 ? j - 1 : j;
        f[j] = v[j] * d[donor];
    }
}
"""
    assert "gather" not in {one.idiom for one in found_in_file(tmp_path / "upwind.c", source)}


def test_a_linear_buffer_of_fortran_has_its_first_dimension_first(tmp_path: Path) -> None:
    pytest.importorskip("tree_sitter_fortran", reason="tree-sitter-fortran is not installed")
    source = """
subroutine pack(n, m, buffer, turned, field)
  integer, intent(in) :: n, m
  real(8) :: buffer(n*m), turned(n*m), field(n, m)
  integer :: j, k
  do k = 1, m
    do j = 1, n
      buffer(j + (k - 1) * n) = field(j, k)
    end do
  end do
  do j = 1, n
    do k = 1, m
      turned(k + (j - 1) * m) = field(j, k)
    end do
  end do
end subroutine
"""
    found = found_in_file(tmp_path / "pack.f90", source)
    assert {one.first_line: one.idiom for one in found} == {8: "stream", 13: "transpose"}
