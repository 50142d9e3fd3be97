"""Reports of gcc and clang on loops, read and compared with the dependence test on source."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from foretrace.benchmarks.__main__ import main
from foretrace.benchmarks.validation import compiler_reports
from foretrace.benchmarks.validation.compiler_reports import (
    COMPILERS,
    Cause,
    Section,
    SourceLoop,
    clang_sections,
    compare,
    gcc_sections,
    judged,
    source_loops,
    sources,
)  # fmt: skip
from foretrace.tracer.source.flow.records import LoopVerdict, Verdict

GCC_REPORT = """\
Analyzing loop at /here/x.c:3
/here/x.c:3:23: note:  === analyze_loop_nest ===
/here/x.c:3:23: note:   vectorization factor = 4
/here/x.c:3:23: note:   vectorization factor = 2
/here/x.c:3:23: optimized: loop vectorized using 32 byte vectors
/here/x.c:3:23: optimized:  loop versioned for vectorization because of possible aliasing
Analyzing loop at /here/x.c:8
/here/x.c:9:10: missed:  failed: evolution of base is not affine.
/here/x.c:9:10: missed:   possible alias involving gather/scatter between *_7 and *_7
/here/x.c:8:23: missed: couldn't vectorize loop
/here/x.c:9:10: missed: not vectorized: no vectype for stmt: _8 = *_7;
Analyzing loop at /usr/include/y.h:3
/usr/include/y.h:3:23: missed: not vectorized: control flow in loop.
/here/x.c:14:5: optimized: loop with 4 iterations completely unrolled (header execution count 100)
"""
CLANG_REPORT = """\
x.c:3:5: remark: vectorized loop (vectorization width: 4, interleaved count: 4) [-Rpass=loop-vectorize]
x.c:9:13: remark: loop not vectorized: cannot prove it is safe to reorder floating-point operations; allow it \
[-Rpass-analysis=loop-vectorize]
x.c:8:5: remark: loop not vectorized [-Rpass-missed=loop-vectorize]
x.c:12:5: remark: the cost-model indicates that vectorization is not beneficial [-Rpass-missed=loop-vectorize]
x.c:12:5: remark: the cost-model indicates that interleaving is not beneficial [-Rpass-missed=loop-vectorize]
x.c:15:5: remark: completely unrolled loop with 4 iterations [-Rpass=loop-unroll]
"""
PROGRAM = """\
void apart(double *x, const double *y, int n)
{
    for (int i = 0; i < n; i++) /* loop: parallel */
        x[i] = 2 * y[i];
}
double sum(const double *x, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++) /* loop: reduction */
        s += x[i];
    return s;
}
void ahead(double *x, int n)
{
    for (int i = 0; i < n; i++) /* loop: recurrence */
        x[i] = 3 * x[i + 1];
}
void chain(double *x, int n)
{
    for (int i = 1; i < n; i++) /* loop: recurrence */
        x[i] = 2 / x[i - 1];
}
"""


def loop(verdict: Verdict, *, has_inner: bool = False) -> SourceLoop:
    return SourceLoop(3, 5, LoopVerdict(verdict), has_inner, "parallel")


def test_gcc_says_what_it_did_and_why_not() -> None:
    sections, changed = gcc_sections(GCC_REPORT, "x.c")
    assert set(sections) == {3, 8}
    assert (sections[3].vectorised, sections[3].versioned, sections[3].lanes) == (True, True, 4)
    assert not sections[8].vectorised
    assert sections[8].cause()[0] is Cause.ACCESS  # the first reason, not that of the last kind of vectors tried
    assert list(changed) == [14]


def test_clang_names_the_loop_behind_its_reasons() -> None:
    sections, changed = clang_sections(CLANG_REPORT, "x.c", [3, 8, 12, 15])
    assert (sections[3].vectorised, sections[3].lanes) == (True, 4)
    assert sections[8].cause()[0] is Cause.ORDER
    assert sections[12].cause()[0] is Cause.COST
    assert 15 not in sections
    assert list(changed) == [15]


def test_who_agrees() -> None:
    vectorised, not_so = Section(3, vectorised=True), Section(3, words=["not vectorized: control flow in loop."])
    assert judged(loop(Verdict.PARALLEL), vectorised, None) == (True, None)
    assert judged(loop(Verdict.PARALLEL), not_so, None) == (False, Cause.CONTROL)
    assert judged(loop(Verdict.REDUCTION), not_so, Cause.ORDER) == (False, Cause.ORDER)
    assert judged(loop(Verdict.PARALLEL, has_inner=True), not_so, None) == (False, Cause.OUTER)
    assert judged(loop(Verdict.PARALLEL), Section(3, words=["of a new kind"]), None) == (False, Cause.UNEXPLAINED)
    assert judged(loop(Verdict.RECURRENCE), not_so, None) == (True, None)
    assert judged(loop(Verdict.RECURRENCE), vectorised, None) == (False, Cause.UNEXPLAINED)
    assert judged(loop(Verdict.RECURRENCE), None, None) == (None, Cause.GONE)


INSTALLED = [compiler for compiler in COMPILERS if shutil.which(compiler.name)]


@pytest.mark.parametrize("compiler", INSTALLED, ids=lambda one: one.name)
def test_a_program_compiled(compiler: compiler_reports.Compiler, tmp_path: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    found = {one.loop.line: one for one in compare(compiler, source)}
    assert [one.loop.found.verdict for one in found.values()] == [
        Verdict.PARALLEL, Verdict.REDUCTION, Verdict.RECURRENCE, Verdict.RECURRENCE,
    ]  # fmt: skip
    assert found[3].agrees
    assert (found[15].agrees, found[15].cause) == (False, Cause.ANTI)
    assert found[20].agrees
    assert found[9].agrees or found[9].cause is Cause.ORDER


def test_the_labelled_programs_hold_enough_loops() -> None:
    assert sum(len(source_loops(source)) for source in sources() if source.parent.name == "dependences") >= 60


def test_a_file_that_does_not_compile_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    (tmp_path / "idioms").mkdir()
    (tmp_path / "idioms" / "good.c").write_text(PROGRAM)
    (tmp_path / "idioms" / "bad.c").write_text("void f( /* loop: parallel */")
    monkeypatch.setattr(compiler_reports, "PROGRAMS", tmp_path)
    monkeypatch.setattr(compiler_reports, "COMPILERS", COMPILERS[:1])
    assert main(["compiler-reports"]) == 0
    shown = capsys.readouterr().out
    assert "bad.c: left out, as gcc fails" in shown
    assert "gcc: 4 loops" in shown
    assert "differ: loads precede stores" in shown
