"""Source loops joined with loops that ran."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
from effort import sweep
from traces import trace_binary, trace_python

from foretrace.tracer.signature.records import Signature
from foretrace.tracer.source.flow.records import Verdict
from foretrace.tracer.source.form.records import Language
from foretrace.tracer.source.idioms.patterns import built_in
from foretrace.tracer.source.idioms.records import Finding, Findings, LoopReport
from foretrace.tracer.source.joining import Join, join
from foretrace.tracer.source.scanning import file_result
from foretrace.tracer.source.traced_loops import COLLISION, PARALLEL, SERIAL, Ran, Run, run_of


def loop(file: str, line: int, last: int, verdict: Verdict = Verdict.PARALLEL) -> LoopReport:
    return LoopReport(file, line, last, "f", True, verdict)


def finding(file: str, line: int, loop_line: int, idiom: str) -> Finding:
    return Finding(file, line, line, loop_line, "f", Language.C, idiom, 1, ("i",), (), "", 0.9, "")


def found(findings: list[Finding], loops: list[LoopReport]) -> Findings:
    return Findings(tuple(findings), tuple(loops), 1, 100, ())


def run(*loops: Ran) -> Run:
    lines: dict[str, set[int]] = {}
    for one in loops:
        lines.setdefault(one.file, set()).add(one.line)
    return Run(loops, {file: frozenset(at) for file, at in lines.items() if file})


NEST = [loop("src/a/k.c", 10, 20), loop("src/a/k.c", 12, 18), loop("src/b/k.c", 10, 11)]


@pytest.mark.parametrize(
    ("file", "line", "expected"),
    [
        ("/build/a/k.c", 10, (10, 20)),
        ("/build/a/k.c", 12, (12, 18)),
        ("/build/a/k.c", 15, (12, 18)),  # inlined or unrolled code has lines of the body
        ("/build/a/k.c", 30, None),
        ("/elsewhere/k.c", 10, None),  # two files fit alike
        ("b/k.c", 10, (10, 11)),
        ("", 10, None),
    ],
)
def test_a_loop_that_ran_joins_the_source_loop_at_its_place(
    file: str, line: int, expected: tuple[int, int] | None
) -> None:
    (one,) = join(found([], NEST), run(Ran(file, line))).joined
    assert (None if one.loop is None else (one.loop.line, one.loop.last_line)) == expected


def test_of_two_files_of_a_name_that_ran_the_one_whose_path_ends_alike_is_joined() -> None:
    ran = run(Ran("/libc/string/k.c", 10), Ran("/build/a/k.c", 10))
    assert [one.loop is not None for one in join(found([], NEST), ran).joined] == [False, True]


def test_findings_of_the_loop_come_before_those_inside_it() -> None:
    findings = [finding("src/a/k.c", 13, 12, "reduction"), finding("src/a/k.c", 19, 10, "stream")]
    joined = join(found(findings, NEST), run(Ran("a/k.c", 10), Ran("a/k.c", 12))).joined
    assert [one.idioms for one in joined] == [("stream", "reduction"), ("reduction",)]


def test_several_loops_of_the_binary_are_one_of_the_source() -> None:
    joined = join(found([], NEST), run(Ran("a/k.c", 12), Ran("a/k.c", 12), Ran("a/k.c", 14))).joined
    assert [one.copies for one in joined] == [3, 3, 3]


def test_array_syntax_inside_a_loop_is_not_taken_for_the_loop() -> None:
    findings = [finding("src/a/k.c", 15, 15, "stencil"), finding("src/a/k.c", 13, 12, "reduction")]
    (one,) = join(found(findings, NEST[:1]), run(Ran("a/k.c", 15))).joined
    assert one.loop is None
    assert one.idioms == ("stencil",)


def test_a_loop_of_a_library_joins_where_it_was_called() -> None:
    (one,) = join(
        found([finding("src/a/k.c", 40, 40, "reduction")], NEST),
        run(Ran("/usr/include/stl_numeric.h", 130, sites=(("/usr/include/x.h", 3), ("/build/a/k.c", 40)))),
    ).joined
    assert one.idioms == ("reduction",)
    assert one.site == ("/build/a/k.c", 40)


def test_what_never_ran_is_listed_with_its_idioms() -> None:
    findings = [finding("src/a/k.c", 13, 12, "reduction"), finding("src/b/k.c", 10, 10, "gather")]
    result = join(found(findings, NEST), run(Ran("a/k.c", 12)))
    assert [(one.file, one.line, one.idioms) for one in result.never_ran] == [("src/b/k.c", 10, ("gather",))]
    assert [result.is_never_run(one) for one in findings] == [False, True]


def test_an_inner_loop_that_never_ran_is_listed_though_the_outer_one_did() -> None:
    result = join(found([], NEST[:2]), run(Ran("a/k.c", 10), Ran("a/k.c", 19)))
    assert [one.line for one in result.never_ran] == [12]


BOTH = frozenset({"gather"})


@pytest.mark.parametrize(
    ("idiom", "verdict", "ran", "words"),
    [
        ("stream", Verdict.PARALLEL, Ran("k.c", 1, idioms=BOTH), "the source no index that is loaded"),
        ("gather", Verdict.PARALLEL, Ran("k.c", 1), "machine code shows no index"),
        ("stream", Verdict.PARALLEL, Ran("k.c", 1, judged=SERIAL), "depend on one another"),
        ("stream", Verdict.PARALLEL, Ran("k.c", 1, judged=COLLISION), "depend on one another"),
        ("reduction", Verdict.REDUCTION, Ran("k.c", 1, judged=SERIAL), "a recurrence in the run"),
        ("recurrence", Verdict.RECURRENCE, Ran("k.c", 1, judged=PARALLEL), "no iteration needed another"),
        ("scatter", Verdict.UNKNOWN, Ran("k.c", 1, idioms=frozenset({"scatter"}), judged=PARALLEL), "no place twice"),
        ("stream", Verdict.PARALLEL, Ran("k.c", 1, iterations=99, entries=1, irregular=0.9), "irregular in the run"),
        ("stream", Verdict.PARALLEL, Ran("k.c", 1, iterations=99, entries=33, irregular=0.9), ""),  # short entries
        ("stream", Verdict.PARALLEL, Ran("k.c", 1, judged=PARALLEL), ""),
        ("gather", Verdict.PARALLEL, Ran("k.c", 1, idioms=BOTH, judged=PARALLEL), ""),
        ("gather", Verdict.PARALLEL, Ran("k.c", 1, idioms=BOTH, iterations=99, entries=1, irregular=0.9), ""),
    ],
)
def test_contradictions_are_said_with_a_reason(idiom: str, verdict: Verdict, ran: Ran, words: str) -> None:
    tree = found([finding("k.c", 1, 1, idiom)], [loop("k.c", 1, 3, verdict)])
    (one,) = join(tree, run(ran)).joined
    assert len(one.disagreements) == bool(words)
    assert words in " ".join(text.what for text in one.disagreements)
    assert all(text.why for text in one.disagreements)


def test_the_remainder_of_a_vectorised_gather_is_no_contradiction() -> None:
    tree = found([finding("k.c", 1, 1, "gather")], [loop("k.c", 1, 3)])
    joined = join(tree, run(Ran("k.c", 1, idioms=BOTH), Ran("k.c", 2))).joined
    assert [one.disagreements for one in joined] == [(), ()]


def notes(directory: Path, ran: Run, lines: int = 100) -> str:
    source = directory / "k.c"
    source.write_text("\n" * lines)
    loops = [loop(str(source), 10, 20)]
    return " ".join(join(found([], loops), ran, [source]).notes)


def test_another_version_of_a_file_is_noticed(tmp_path: Path) -> None:
    assert notes(tmp_path, run(Ran("/b/k.c", 10))) == ""
    assert "2 stand where it has none" in notes(tmp_path, run(Ran("/b/k.c", 10), Ran("/b/k.c", 50), Ran("/b/k.c", 60)))
    assert "line 300 ran, and it has 100" in notes(tmp_path, run(Ran("/b/k.c", 10), Ran("/b/k.c", 300)))
    then = Run((Ran("/b/k.c", 10),), {}, {"/b/k.c": hashlib.sha256(b"what it was").hexdigest()})
    assert "content differs" in notes(tmp_path, then)
    same = Run((Ran("/b/k.c", 10),), {}, {"/b/k.c": hashlib.sha256(b"\n" * 100).hexdigest()})
    assert notes(tmp_path, same) == ""


def test_a_run_without_lines_and_another_program_are_said(tmp_path: Path) -> None:
    assert "compile with -g" in notes(tmp_path, run(Ran("", 0)))
    assert "none of the files that ran (other.c)" in notes(tmp_path, run(Ran("/b/other.c", 10)))


PROGRAM = """\
#include <stdio.h>
#define N 3000
static double a[N], b[N], c[N], h[64]; static int at[N], one[N];
static inline double dot(const double *x, const double *y) {
    double s = 0;
    for (int i = 0; i < N; i++) // reduction
        s += x[i] * y[i];
    return s;
}
static void smooth(double *restrict out, const double *restrict in) {
    for (int i = 1; i < N - 1; i++) // stencil
        out[i] = (in[i - 1] + in[i] + in[i + 1]) / 3;
}
int main(int argc, char **argv) {
    for (int i = 0; i < N; i++) { // stream
        at[i] = i * 7919 % 64;
        one[i] = i * 7 % N;
        a[i] = i;
    }
    if (argc > 3)
        for (int i = 0; i < N; i++) // never
            b[at[i]] = a[i];
    smooth(b, a);
    for (int i = 0; i < N; i++) // gather-modify-scatter
        h[at[i]] += b[i];
    for (int i = 0; i < N; i++) // scatter
        c[one[i]] = b[i];
    printf("%g %g\\n", dot(c, b) + dot(a, b), h[3]);
    return 0;
}
"""
LINES = {text.split("// ")[1]: number for number, text in enumerate(PROGRAM.splitlines(), 1) if "// " in text}


def joined_at(level: str, directory: Path) -> Join:
    """The program compiled, traced and joined with its source."""
    source, binary = directory / "program.c", directory / "program"
    source.write_text(PROGRAM)
    subprocess.run(["gcc", "-g", "-static", *level.split(), "-o", binary, source], check=True)
    signature = trace_binary([str(binary)], has_dependences=True).signature
    return joined_with(signature, source)


def joined_with(signature: Signature, source: Path) -> Join:
    result = file_result(source, built_in())
    tree = Findings(tuple(result.findings), tuple(result.loops), 1, result.lines, ())
    return join(tree, run_of(signature), [source])


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@sweep("level", ["-O0", "-O1", "-O2", "-O3 -march=haswell"], ["-O0", "-O3 -march=haswell"])
def test_a_program_joins_at_every_level_of_optimisation(level: str, tmp_path: Path) -> None:
    result = joined_at(level, tmp_path)
    by_line = {one.loop.line: one for one in result.joined if one.loop is not None}
    assert result.notes == ()
    for idiom, line in LINES.items():
        if idiom != "never":
            assert idiom in by_line[line].idioms, level
    assert [(one.line, one.idioms) for one in result.never_ran] == [(LINES["never"], ("scatter",))]
    contradictions = {line: one.disagreements for line, one in by_line.items() if one.disagreements}
    assert list(contradictions) == [LINES["scatter"]]
    assert "no place twice" in contradictions[LINES["scatter"]][0].what


def test_python_joins_loops_and_array_operations(tmp_path: Path) -> None:
    source = tmp_path / "program.py"
    source.write_text(
        "import numpy as np\n"
        "a = np.arange(500.0)\n"
        "b = np.zeros(500)\n"
        "for step in range(3):\n"
        "    b[1:-1] = a[:-2] + a[2:]\n"
        "total = 0.0\n"
        "for i in range(500):\n"
        "    total += b[i]\n"
        "if total < 0:\n"
        "    for i in range(500):\n"
        "        b[i] = 0\n"
    )
    result = joined_with(trace_python(str(source)).signature, source)
    idioms = {one.ran.line: one.idioms for one in result.joined if one.findings}
    assert "stencil" in idioms[5]
    assert "reduction" in idioms[7]
    assert [one.line for one in result.never_ran] == [10]
