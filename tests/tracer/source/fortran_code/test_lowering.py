"""Fortran lowered to the source form, construct by construct."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

pytest.importorskip("tree_sitter_fortran")

from foretrace.base.errors import SourceError
from foretrace.tracer.source.flow.normal import normal
from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.text import function_lines
from foretrace.tracer.source.fortran_code.lowering import lower_file


def lowered(tmp_path: Path, source: str, name: str = "a.f90") -> form.Unit:
    path = tmp_path / name
    path.write_text(source, encoding="utf-8")
    return lower_file(path)


def body(unit: form.Unit, number: int = 0) -> list[str]:
    """The statements of a function as text, without their places."""
    lines = list(function_lines(unit.functions[number]))[1:]
    return [line.split("  # ")[0].rstrip()[2:] for line in lines]


DECLARED = """\
    subroutine s(a, b, x, y, idx, n)
      integer, intent(in) :: n, idx(n)
      real(8), intent(inout) :: a(n, n), b(0:n), x(:), y(n)
      real(8) :: t
      logical :: ok
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("y(i) = y(i) + 2*x(idx(i))", ["y[i] = y[i] + 2 * x[idx[i]]"]),
        ("do i = 1, n\n b(i-1) = 0\n end do", ["loop i = 1 .. n", "  b[i - 1] = 0"]),
        ("do i = n, 1, -1\n y(i) = 1.5d0\n enddo", ["loop i = n .. 1 step -1", "  y[i] = 1.5"]),
        ("a(1:n:2, :) = 2*a(:, 1:n)", ["a[1 .. n step 2, ..] = 2 * a[.., 1 .. n]"]),
        ("do 10 i=1,n\n do 10 j=1,n\n 10 a(i,j) = 0", ["loop i = 1 .. n", "  loop j = 1 .. n", "    a[i, j] = 0"]),
        ("do concurrent (i=1:n, i /= 3)\n y(i) = 0\n end do",
         ["unordered loop i = 1 .. n", "  if i != 3", "    y[i] = 0"]),
        ("forall (i=1:n) y(i) = i", ["unordered loop i = 1 .. n", "  y[i] = i"]),
        ("where (x > 0)\n x = sqrt(x)\n elsewhere\n x = 0\n end where",
         ["if x > 0", "  x = sqrt(x)", "else", "  x = 0"]),
        ("do while (t > 0)\n t = t - 1\n if (ok) exit\n end do",
         ["loop while t > 0", "  t = t - 1", "  if ok", "    break"]),
        ("outer: do i=1,n\n do j=1,n\n if (ok) cycle outer\n end do\n end do outer",
         ["outer: loop i = 1 .. n", "  loop j = 1 .. n", "    if ok", "      continue outer"]),
        ("!$omp parallel do\n do i=1,n\n y(i)=0\n end do", ["unordered loop i = 1 .. n", "  y[i] = 0"]),
        ("!$omp atomic\n y(1) = y(1) + 1", ["atomic y[1] = y[1] + 1"]),
        ("y = [(i*2, i=1,n)]", ["loop i = 1 .. n", "  y[i] = i * 2"]),
        ("t = merge(1.0, 2.0, ok)", ["t = (ok ? 1.0 : 2.0)"]),
        ("t = max(x(1), x(2), t)", ["t = max(max(x[1], x[2]), t)"]),
        ("t = sum(a, dim=2)", ["t = sum(a, 1)"]),
        ("t = sum(x, mask=x>0)", ["t = sum((x > 0 ? x : 0.0))"]),
        ("t = dot_product(x, y)", ["t = dot(x, y)"]),
        ("t = g(x(1)) + 1", ["%1 = g(x[1])", "t = %1 + 1"]),
        ("call work(x(2:), t)", ["work(x[2 ..], t)"]),
        ("if (t .gt. 0 .and. .not. ok) then\n t = 1\n else if (t<0) then\n t = 2\n else\n t = 3\n endif",
         ["if t > 0 and not ok", "  t = 1", "else", "  if t < 0", "    t = 2", "  else", "    t = 3"]),
        ("select case (n)\n case (1:3, 7)\n t = 1\n case default\n t = 2\n end select",
         ["if n >= 1 and n <= 3 or n == 7", "  t = 1", "else", "  t = 2"]),
        ("associate (u => a(:, 1))\n u(2) = 3\n end associate", ["a[2, 1] = 3"]),
    ],
)  # fmt: skip
def test_statements(tmp_path: Path, source: str, expected: list[str]) -> None:
    unit = lowered(tmp_path, textwrap.dedent(DECLARED) + source + "\nend subroutine\n")
    assert not unit.skipped
    assert body(unit) == expected


def test_fixed_form_with_statement_functions_and_commons(tmp_path: Path) -> None:
    source = (
        "      subroutine s(n)\n"
        "      implicit real*8 (a-h,o-z)\n"
        "      common /blk/ c(10), d\n"
        "      sig(t) = t*d +\n"
        "     1  2\n"
        "      do 20 i=1,n\n"
        "   20 c(i) = sig(c(i))\n"
        "      if (n) 30,30,40\n"
        "   30 goto 40\n"
        "   40 return\n"
        "      end\n"
    )
    unit = lowered(tmp_path, source, "a.f")
    assert not unit.skipped
    assert body(unit)[:2] == ["loop i = 1 .. n", "  c[i] = c[i] * d + 2"]
    common = unit.functions[0].variables["c"]
    assert common.storage is form.Storage.GLOBAL
    assert common.type == form.ArrayType(
        form.ScalarType(form.Kind.FLOAT, 8),
        (form.Constant(10),),
        (form.Constant(1),),
        first_contiguous=True,
        alias=False,
    )


def test_arrays_of_modules_are_known_across_files(tmp_path: Path) -> None:
    (tmp_path / "grid.f90").write_text("module grid\n real(8), allocatable :: h(:,:)\nend module\n")
    unit = lowered(tmp_path, "subroutine s(n)\n use grid\n h(1, n) = h(2, n)\nend subroutine\n")
    assert body(unit) == ["h[1, n] = h[2, n]"]
    assert unit.files == (str(tmp_path / "a.f90"), str(tmp_path / "grid.f90"))


def test_included_declarations_and_statements_are_read(tmp_path: Path) -> None:
    (tmp_path / "c.h").write_text("real(8) w(10)\n")
    (tmp_path / "s.h").write_text("w(2) = w(1)\n")
    unit = lowered(tmp_path, "subroutine s\n include 'c.h'\n w(1) = 0\n include 's.h'\nend subroutine\n")
    assert body(unit) == ["w[1] = 0", "w[2] = w[1]"]
    assert unit.functions[0].body[1].place.file == unit.files.index(str(tmp_path / "s.h"))


def test_a_syntax_error_costs_a_statement(tmp_path: Path) -> None:
    unit = lowered(tmp_path, "subroutine s(y)\n real y(3)\n y(1) = = 2\n y(2) = 3\nend subroutine\n")
    assert body(unit)[-1] == "y[2] = 3"
    assert [part.what for part in unit.skipped] == ["statement"]


@pytest.mark.parametrize(
    "source",
    [
        "",
        "end",
        "include 'a.f90'",
        "subroutine s\n include 'a.f90'\nend",
        "module m\n use m\nend module",
        "do i=",
        "if (x) then",
        "subroutine s\n do 10 i=1,2\nend",
        "x" * 100_000,
        "x = " + "(" * 3000 + "1" + ")" * 3000,
        "a = b\x00c\n\xff\xfe",
        "#if\n#else\n#else\n",
        "use\n integer ::\n real(",
    ],
)
def test_damaged_source_is_read_as_far_as_it_goes(tmp_path: Path, source: str) -> None:
    assert isinstance(lowered(tmp_path, source), form.Unit)


@pytest.mark.parametrize("value", ["dot_product(x)", "matmul(a)", "pack(x)", "merge(x)", "transpose()", "cshift(x)"])
def test_intrinsics_without_arguments_cost_their_statement(tmp_path: Path, value: str) -> None:
    source = textwrap.dedent(DECLARED) + f"y(1) = 0\ny = {value}\nt = sum({value})\nend subroutine\n"
    (function,) = lowered(tmp_path, source).functions
    assert normal(function).body[0] == function.body[0]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"none\.f90"):
        lower_file(tmp_path / "none.f90")
