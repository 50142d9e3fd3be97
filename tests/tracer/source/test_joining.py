"""Source loops joined with loops that ran."""

from __future__ import annotations

import pytest

from foretrace.tracer.source.flow.records import Verdict
from foretrace.tracer.source.form.records import Language
from foretrace.tracer.source.idioms.records import Finding, Findings, LoopReport
from foretrace.tracer.source.joining import Ran, join


def loop(file: str, line: int, last: int, verdict: Verdict = Verdict.PARALLEL) -> LoopReport:
    return LoopReport(file, line, last, "f", True, verdict)


def finding(file: str, line: int, loop_line: int, idiom: str) -> Finding:
    return Finding(file, line, line, loop_line, "f", Language.C, idiom, 1, ("i",), (), "", 0.9, "")


def found(findings: list[Finding], loops: list[LoopReport]) -> Findings:
    return Findings(tuple(findings), tuple(loops), 1, 100, ())


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
    (one,) = join(found([], NEST), [Ran(file, line, False)]).joined
    assert (None if one.loop is None else (one.loop.line, one.loop.last_line)) == expected


def test_findings_of_the_loop_come_before_those_inside_it() -> None:
    findings = [finding("src/a/k.c", 13, 12, "reduction"), finding("src/a/k.c", 19, 10, "stream")]
    joined = join(found(findings, NEST), [Ran("a/k.c", 10, False), Ran("a/k.c", 12, False)]).joined
    assert [one.idioms for one in joined] == [("stream", "reduction"), ("reduction",)]


def test_what_never_ran_is_listed() -> None:
    findings = [finding("src/a/k.c", 13, 12, "reduction"), finding("src/b/k.c", 10, 10, "gather")]
    result = join(found(findings, NEST), [Ran("a/k.c", 12, False)])
    assert [one.idiom for one in result.never_ran] == ["gather"]


@pytest.mark.parametrize(
    ("idiom", "verdict", "ran", "words"),
    [
        ("stream", Verdict.PARALLEL, Ran("k.c", 1, True), "no indirect index"),
        ("gather", Verdict.PARALLEL, Ran("k.c", 1, False), "no indirect access"),
        ("stream", Verdict.PARALLEL, Ran("k.c", 1, False, "serial"), "depend on one another"),
        ("recurrence", Verdict.RECURRENCE, Ran("k.c", 1, False, "parallel"), "no iteration needed another"),
        ("scatter", Verdict.UNKNOWN, Ran("k.c", 1, True, "parallel"), "met no place twice"),
        ("stream", Verdict.PARALLEL, Ran("k.c", 1, False, "parallel"), ""),
        ("gather", Verdict.PARALLEL, Ran("k.c", 1, True, "parallel"), ""),
    ],
)
def test_contradictions_are_said(idiom: str, verdict: Verdict, ran: Ran, words: str) -> None:
    tree = found([finding("k.c", 1, 1, idiom)], [loop("k.c", 1, 3, verdict)])
    (one,) = join(tree, [ran]).joined
    assert bool(one.disagreements) == bool(words)
    assert words in " ".join(one.disagreements)


def test_another_version_of_a_file_is_noticed() -> None:
    moved = [Ran("a/k.c", 50, False), Ran("a/k.c", 60, False), Ran("a/k.c", 12, False)]
    assert join(found([], NEST), moved).other_versions == ("src/a/k.c",)
    assert join(found([], NEST), moved[1:]).other_versions == ()
