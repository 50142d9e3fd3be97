"""Fixed form made free, and preprocessor branches."""

from __future__ import annotations

from pathlib import Path

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.tracer.source.fortran_code.layout import branches_taken, free_form, is_fixed


def test_fixed_form_becomes_free_line_by_line() -> None:
    fixed = [
        "C     a comment",
        "      x = 1 +",
        "     1    2 ! behind",
        "   10 continue",
        "      DO20I=1,N",
        "      goto10",
        "\tz = 'a!b'",
        "* another",
    ]
    assert [line.rstrip() for line in free_form(fixed)] == [
        "!     a comment",
        "      x = 1 + &",
        "     &    2",
        "10    continue",
        "      do 20 I=1,N",
        "      goto 10",
        "      z = 'a!b'",
        "! another",
    ]


def test_text_behind_column_72_is_left_out() -> None:
    assert free_form([f"      {'x = 1':<66}ignored"])[0].strip() == "x = 1"


@pytest.mark.parametrize(
    ("name", "line", "fixed"),
    [("a.f", "      x = 1", True), ("a.f90", "      x = 1", False), ("a.f", "x = 1", False), ("a.F", "C x", True)],
)
def test_the_form_of_a_file(name: str, line: str, fixed: bool) -> None:
    assert is_fixed(Path(name), [line]) is fixed


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (["#ifdef A", "a", "#else", "b", "#endif"], "b"),
        (["#define A 3", "#if A > 2 && !defined(B)", "a", "#else", "b", "#endif"], "a"),
        (["#if defined(A) || X == 0", "a", "#elif 1", "b", "#endif", "c"], "ac"),
        (["#if 0", "#if 1", "a", "#endif", "#else", "b", "#endif"], "b"),
        (["#ifndef A", "a", "#undef A", "#endif"], "a"),
        (["#if (((", "a", "#endif", "b"], "b"),
        (["#endif", "a", "#else", "b"], "ab"),
        (["#if 1/0", "a", "#endif"], ""),
        (["#define SEA ip(i).ne.0", "if (SEA) SEAL", "#undef SEA", "SEA"], "if (ip(i).ne.0) SEALSEA"),
    ],
)
def test_branches_are_those_a_compiler_takes(lines: list[str], kept: str) -> None:
    made, _ = branches_taken(lines, {})
    assert len(made) == len(lines)
    assert "".join(made) == kept


def test_dropped_branches_are_named() -> None:
    _, dropped = branches_taken(["#ifdef MPI", "a", "b", "#endif"], {})
    assert [(one.first, one.last, one.condition) for one in dropped] == [(1, 4, "ifdef MPI")]


@given(st.lists(st.text(alphabet=" 0123456789abC!&'\"#()\t=,+xdo", max_size=80), max_size=12))
@settings(max_examples=examples(150))
def test_any_text_keeps_its_line_numbers(lines: list[str]) -> None:
    kept, _ = branches_taken(lines, {"a": "1"})
    assert len(free_form(kept)) == len(lines)
