"""Every loop of the text is read or listed, with the reason: reported and listed make up the text's loops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from effort import sweep
from loop_keywords import keywords_in

from foretrace.tracer.source.counting import text_of
from foretrace.tracer.source.flow.records import Verdict
from foretrace.tracer.source.idioms.patterns import built_in
from foretrace.tracer.source.idioms.records import Findings
from foretrace.tracer.source.loop_text import c_text, fortran_text, python_text
from foretrace.tracer.source.loop_text.branches import symbols_for
from foretrace.tracer.source.scanning import scanned, source_files

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "benchmarks" / "programs"

UNDECLARED = """void f(int n, real_fp *a, real_fp *b) {
  real_fp s;
  for (int i = 0; i < n; i++)
    s = s + a[i] * b[i];
  b[0] = s;
}
void g(int n, double *a) {
  double s = 0;
  for (int i = 1; i < n; i++)
    s = s + a[i] * undeclared_thing.member;
  a[0] = s;
}
"""
ARITHMETIC_IF = """subroutine axpy(n, sa, sx, incx, sy, incy)
  integer n, incx, incy, i, m
  real sa, sx(*), sy(*)
  if (n.le.0.or.sa.eq.0.e0) return
  if (incx.eq.incy) if (incx-1) 5,20,60
5 continue
  do 10 i = 1,n
    sy(i*incy) = sy(i*incy) + sa*sx(i*incx)
10 continue
  return
20 m = mod(n,4)
  do 30 i = 1,m
    sy(i) = sy(i) + sa*sx(i)
30 continue
  return
60 continue
  do 70 i=1,n*incx,incx
    sy(i) = sa*sx(i) + sy(i)
70 continue
  return
end subroutine
"""
SUBSTRING = """subroutine s(cinfo, n, a)
  character(len=*), intent(in) :: cinfo
  integer, intent(in) :: n
  real(8), intent(inout) :: a(n)
  integer :: i
  if (cinfo(1:1) /= 'i') then
    print *, n
    do i = 1, n
      a(i) = 2*a(i)
    end do
  end if
end subroutine
"""
MACRO = """#if USE_MPI
void hidden(int n, double *a) { for (int i = 0; i < n; i++) a[i] = 2 * a[i]; }
#endif
void seen(int n, double *a) { for (int i = 0; i < n; i++) a[i] = 2 * a[i]; }
"""
SAME_LINE = """void f(double a[3][3]) {
  int i, j;
  for (i = 0; i < 3; i++) for (j = 0; j < 3; j++) a[i][j] = 2 * a[i][j];
}
"""


def read(folder: Path, name: str, text: str, **options: object) -> Findings:
    """One file, read; the loops of its text are accounted for, by an independent count."""
    path = folder / name
    path.write_text(text)
    found = scanned([folder], built_in(), processes=1, **options)  # type: ignore[arg-type]
    assert found.loops_read + len(found.unread) == found.loops_in_text == keywords_in(path)
    return found


def test_a_statement_that_does_not_compile_is_opaque_at_its_place(tmp_path: Path) -> None:
    found = read(tmp_path, "a.c", UNDECLARED)
    first, second = found.loops
    assert (first.verdict, first.lowered) == (Verdict.REDUCTION, True)  # an assumed type needs no missing header
    assert (second.line, second.verdict, second.lowered) == (9, Verdict.UNKNOWN, False)
    assert "member reference base type" in second.reason


@pytest.mark.parametrize(
    "statement",
    ["a[i] = b[i] +* 2;", "a[i] = nowhere->x[i];", "int k = b[i](3); a[i] = k;", "if (a[i].q) a[i] = 0;",
     "a[i] = 1; frobnicate b[i];", "for (int k = 0; k < a.size(); k++) a[k] = 0;", "struct none z; a[i] = z.v;"],
)  # fmt: skip
@pytest.mark.parametrize("pragma", ["", "#pragma omp parallel for\n"])
def test_a_loop_with_a_statement_that_is_not_read_is_never_parallel(
    tmp_path: Path, statement: str, pragma: str
) -> None:
    found = read(
        tmp_path, "a.c",
        f"void f(int n, double *a, double *b) {{\n{pragma}  for (int i = 0; i < n; i++) {{\n    {statement}\n"
        "  }\n}\n",
    )  # fmt: skip
    outer = next(loop for loop in found.loops if loop.last_line > loop.line)
    assert not outer.lowered
    assert outer.verdict in (Verdict.UNKNOWN, Verdict.RECURRENCE)


def test_macros_that_expand_to_nothing_are_no_statements(tmp_path: Path) -> None:
    found = read(
        tmp_path, "a.c",
        "#define TRACE(x)\n#define BEGIN\nvoid f(int n, double *a) {\n  BEGIN\n  for (int i = 0; i < n; i++) {\n"
        "    TRACE(i);\n    a[i] = 2 * a[i]; TRACE(a[i]);\n  }\n}\n",
    )  # fmt: skip
    assert [(loop.verdict, loop.lowered) for loop in found.loops] == [(Verdict.PARALLEL, True)]


def test_more_errors_than_a_compiler_shows_hide_no_loop(tmp_path: Path) -> None:
    bad = "".join(f"  a[{i}] = undeclared{i}.m;\n" for i in range(300))
    found = read(tmp_path, "a.c", f"void f(int n, double *a) {{\n{bad}  for (int i = 0; i < n; i++) a[i] = 0;\n}}\n")
    assert [loop.verdict for loop in found.loops] == [Verdict.PARALLEL]


def test_loops_behind_labels(tmp_path: Path) -> None:
    found = read(tmp_path, "a.f90", ARITHMETIC_IF)
    assert [(loop.line, loop.verdict) for loop in found.loops] == [
        (7, Verdict.PARALLEL), (12, Verdict.PARALLEL), (17, Verdict.PARALLEL),
    ]  # fmt: skip


def test_a_condition_on_a_part_of_a_text_keeps_its_block(tmp_path: Path) -> None:
    found = read(tmp_path, "a.f90", SUBSTRING)
    assert [(loop.line, loop.verdict, loop.lowered) for loop in found.loops] == [(8, Verdict.PARALLEL, True)]


def test_two_loops_on_one_line(tmp_path: Path) -> None:
    found = read(tmp_path, "a.c", SAME_LINE)
    assert [(loop.line, loop.column) for loop in found.loops] == [(3, 3), (3, 27)]


def test_a_branch_that_is_not_taken_is_listed_with_what_would_take_it(tmp_path: Path) -> None:
    found = read(tmp_path, "a.c", MACRO)
    assert found.coverage() == "read 1 of 2 loops; -DUSE_MPI would read 1 more"
    (one,) = found.unread
    assert (one.line, one.reason, one.options) == (2, "in a branch of the preprocessor: USE_MPI", "-DUSE_MPI")
    assert read(tmp_path, "a.c", MACRO, defines=["USE_MPI"]).loops_read == 2
    tried = read(tmp_path, "a.c", MACRO, branches=True)
    assert [(loop.line, loop.options) for loop in tried.loops] == [(4, ""), (2, "-DUSE_MPI")]
    assert [finding.first_line for finding in tried.findings] == [4, 2]


def test_conditions_of_branches_inside_each_other_keep_their_parts_together(tmp_path: Path) -> None:
    text = "#if defined(A) || B\n#if C\nvoid f(int n) { while (n) n--; }\n#endif\n#endif\n"
    assert [one.reason for one in read(tmp_path, "a.c", text).unread] == [
        "in a branch of the preprocessor: (defined(A) || B) && C",
    ]  # fmt: skip


def test_fortran_units_that_a_branch_includes(tmp_path: Path) -> None:
    (tmp_path / "own.h").write_text("subroutine s(n,a)\n real a(n)\n do i=1,n\n  a(i)=0\n end do\nend subroutine\n")
    text = 'module m\ncontains\n#if defined(MPI)\n# include "own.h"\n#endif\nend module\n'
    (tmp_path / "m.F90").write_text(text)
    found = scanned([tmp_path], built_in(), processes=1)
    assert found.coverage() == "read 0 of 1 loops; -DMPI would read 1 more"
    assert scanned([tmp_path], built_in(), processes=1, branches=True).loops_read == 1
    (tmp_path / "m.F90").write_text(text.replace("defined(MPI)", "! defined(MPI)"))
    assert scanned([tmp_path], built_in(), processes=1).loops_read == 1


def test_a_loop_in_a_macro_is_read_where_the_macro_is_used(tmp_path: Path) -> None:
    (tmp_path / "all.h").write_text("#define ALL(i) for (i = 0; i < n; i++)\n#define TWICE(i) ALL(i) ALL(i)\n"
                                    "#define NEVER(i) while (i < n)\n")  # fmt: skip
    (tmp_path / "a.c").write_text('#include "all.h"\nvoid f(int n, double *a) { int i; ALL(i) a[i] = 0; }\n')
    found = scanned([tmp_path], built_in(), processes=1)
    assert (found.loops_read, found.loops_in_text, len(found.loops)) == (1, 2, 1)
    assert found.unread[0].reason == "in the macro NEVER, which no file that was read uses"


def test_a_header_that_is_included_under_two_names_is_one_file(tmp_path: Path) -> None:
    for folder in ("inc", "one", "two"):
        (tmp_path / folder).mkdir()
    header = tmp_path / "inc" / "own.h"
    header.write_text(
        "template <class T> void own(int n, T *a) {\n  for (int i = 0; i < n; i++)\n    a[i] = 2 * a[i];\n}\n"
    )
    (tmp_path / "one" / "a.cpp").write_text('#include "../inc/own.h"\nvoid f(double *a) { own(3, a); }\n')
    (tmp_path / "two" / "b.cpp").write_text('#include "../one/../inc/own.h"\nvoid g(double *a) { own(4, a); }\n')
    found = scanned([tmp_path], built_in(), processes=1)
    assert [(loop.file, loop.line) for loop in found.loops] == [(str(header), 2)]
    assert [(one.file, one.idiom) for one in found.findings] == [(str(header), "stream")]
    assert (found.loops_read, len(found.unread), found.loops_in_text) == (1, 0, 1)


@pytest.mark.parametrize("bad", ["b(i) @@ 3", "2 ** ** a(i,1)", "(1,, 2)"])
def test_fortran_that_does_not_parse_is_opaque_in_place(tmp_path: Path, bad: str) -> None:
    found = read(
        tmp_path, "a.f90",
        "subroutine s(n, a, b)\n  integer n, i, j\n  real a(n,n), b(n)\n  do i = 1, n\n"
        f"    a(i,1) = {bad}\n    do j = 1, n\n      if (a(i,j) ?= 3) then\n        b(j) = a(i,j)\n      end if\n"
        "    end do\n  end do\n  do j = 1,, n\n    b(j) = 1\n  end do\n  do j = 1, n\n    b(j) = 2\n  end do\n"
        "end subroutine\n",
    )  # fmt: skip
    assert [(loop.line, loop.lowered) for loop in found.loops] == [(4, False), (6, False), (12, False), (15, True)]
    assert [loop.verdict for loop in found.loops] == [Verdict.UNKNOWN] * 3 + [Verdict.PARALLEL]


def test_code_that_is_not_lowered_is_listed(tmp_path: Path) -> None:
    found = read(tmp_path, "a.c", "#if 0\nvoid f() { for (;;) ; }\n#endif\nvoid g() { do { } while (0); }\n")
    assert [one.reason for one in found.unread] == ["in a branch of the preprocessor: 0", "it runs once: while (0)"]
    assert [one.options for one in found.unread] == ["", ""]


def test_a_file_that_is_skipped_lists_its_loops(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("for x in y:\n    print 3\n")
    found = scanned([tmp_path], built_in(), processes=1)
    assert (found.loops_read, [one.line for one in found.unread]) == (0, [1])
    assert "syntax error" in found.unread[0].reason


@sweep("folder", ["idioms", "dependences"], ["dependences"])
def test_all_programs_of_the_project_are_accounted_for(folder: str) -> None:
    found = scanned([PROGRAMS / folder], built_in(), processes=2)
    files, _ = source_files([PROGRAMS / folder])
    assert found.loops_in_text == sum(map(keywords_in, files)) > 150
    assert found.loops_read + len(found.unread) == found.loops_in_text


def test_the_command_says_it(tmp_path: Path, foretrace) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "a.c").write_text(MACRO)
    shown = foretrace("idioms", "--no-cache", tmp_path / "a.c")
    assert "Read 1 of 2 loops; -DUSE_MPI would read 1 more; --branches reads them all." in shown.stdout
    document = json.loads(foretrace("idioms", "--no-cache", "--json", tmp_path / "a.c").stdout)
    assert (document["loops_in_text"], document["loops_read"]) == (2, 1)
    assert document["options_for_more"] == [{"options": "-DUSE_MPI", "loops": 1}]
    assert [one["line"] for one in document["unread"]] == [2]
    shown = foretrace("idioms", "--no-cache", "-DUSE_MPI", "--loops", tmp_path / "a.c")
    assert "Read 2 of 2 loops" in shown.stdout


# The text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("for (;;) x(); while (a) do b(); while (c); do { while (d) ; } while (e);", 5),
        ("do do x(); while (a); while (b);", 2),
        ('// for (;;)\n/* while (1) */ s = "for (;;)"; c = \'"\'; for (auto x : y) ;', 1),
        ('s = R"(for (;;) ")"; n = 1\'000; while (n) ;', 1),
        ("#define L(i) \\\n for (i = 0; ; ) \\\n   while (1)\nL(i) x();", 2),
        ("#if A\nfor (;;) {\n#else\nwhile (1) {\n#endif\n}\ndo { } while (0);", 3),
        ("do { if (x) y(); else z(); } while (--n); forward(3); undo(); a.whiles(2);", 1),
        ("#pragma omp parallel for\nfor (;;) ;\n#error don't do for (;;)\n", 1),
    ],
)
def test_loops_in_c_text(text: str, number: int) -> None:
    assert len(c_text.loops_in(text).loops) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("do i = 1, n\nend do\nouter: do\nexit outer\nend do outer", 2),
        ("do 10 i = 1, n; do 10 j = 1, &\n  n\n10 continue\ndo while (x)\nenddo", 3),
        ("do concurrent (i = 1:n)\nend do\nforall (i = 1:n) a(i) = 0\nend forall", 2),
        ("print *, 'do i = 1, n' ! do i = 1, n\ndouble precision x\ndo_it = 3\nend do", 0),
        ("10 do 20 k=1,3\n20 continue", 1),
        ("do ! until the end of the run\nexit\nend do", 1),
        ("dofz = min(dofz, a(1, 2))\ndom = made(of=grid, by=2)\ndo i = f(1, 2), n\nend do", 1),
        ("do 10, i = 1, n\n10 a(i) = 0\ndo, i = 1, n\nend do", 2),
        ("do 10 i = 1, n\ndo 10 j = 1, n\n10 continue", 2),
        ("write (6, '(a)') &\n    'all of a line'\n!\ndo i = 1, n\nend do", 1),
        ('write (6, *) &\n  "first", &\n  "don\'t", & ! last\n  ""\ndo i = 1, n\nend do', 1),
    ],
)
def test_loops_in_fortran_text(tmp_path: Path, text: str, number: int) -> None:
    assert len(fortran_text.loops_in(text.splitlines()).loops) == number
    (tmp_path / "a.f90").write_text(text)
    assert keywords_in(tmp_path / "a.f90") == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("      DO10I=1,N\n   10 CONTINUE\n      DOI=1,N\n      ENDDO\n      DO1=2\n", 2),
        ("c     do i = 1, n\n\tdo i = 1, n\n\tend do\n", 1),
        ("      do i = 1,\n     &  n\n      end do\n", 1),
    ],
)
def test_loops_in_fixed_form(tmp_path: Path, text: str, number: int) -> None:
    path = tmp_path / "a.f"
    path.write_text(text)
    assert len(text_of(path, path.read_bytes()).loops) == number == keywords_in(path)


def test_loops_in_headers_of_either_language(tmp_path: Path) -> None:
    for text in ("subroutine s(n,a)\n real a(n)\n do i=1,n\n  a(i)=0\n end do\nend subroutine\n",
                 "static void f(int n, double *a) {\n  for (int i = 0; i < n; i++)\n    a[i] = 0;\n}\n"):  # fmt: skip
        path = tmp_path / "own.h"
        path.write_text(text)
        assert len(text_of(path, path.read_bytes()).loops) == 1 == keywords_in(path)


def test_loops_in_python_text() -> None:
    text = "for x in y:\n  while x: pass\nz = [a for a in b]\ns = 'for x in y:'\n"
    text += "async def f():\n  async for q in r: pass\n"
    assert [(one.line, one.column) for one in python_text.loops_in(text).loops] == [(1, 1), (2, 3), (6, 3)]
    assert len(python_text.loops_in("for x in y:\n  print 'a\n\nwhile (\n").loops) == 2


@pytest.mark.parametrize(
    ("condition", "symbols"),
    [
        ("USE_MPI", {"USE_MPI": "1"}),
        ("defined(A) && !defined(B)", {"A": "1", "B": None}),
        ("defined A || defined B", {"A": "1"}),
        ("DIM == 3 && X > 4", {"DIM": "3", "X": "5"}),
        ("!(defined(A) || B)", {"A": None, "B": None}),
        ("A && !A", None),
        ("0", None),
        ("VERSION(2)", None),
    ],
)
def test_symbols_that_meet_a_condition(condition: str, symbols: dict[str, str | None] | None) -> None:
    assert symbols_for(condition) == symbols
