"""Idioms of our own programs in what compilers make of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from effort import sweep

from foretrace.base.errors import ForetraceError
from foretrace.benchmarks.harness.programs import LANGUAGES, SOURCES
from foretrace.benchmarks.validation.built_idioms import (
    EXAMPLES,
    LEVELS,
    Example,
    judge,
    line_of,
    source_findings,
    table_of,
)
from foretrace.tracer.source.idioms.patterns import built_in


def test_every_built_in_idiom_has_an_example() -> None:
    assert {one.idiom for one in EXAMPLES} == {one.name for one in built_in()}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: f"{one.idiom}-{one.program}")
def test_examples_are_lines_of_programs(example: Example) -> None:
    lines = (SOURCES / example.program).read_text().splitlines()
    assert example.text in lines[line_of(example) - 1]


def test_a_text_that_no_line_has_is_an_error() -> None:
    with pytest.raises(ForetraceError, match="no line has"):
        line_of(Example("stream", "triad.c", "a[j] = b[j];", ()))


@sweep("level", LEVELS, [("-O2",)], ids=" ".join)
def test_examples_are_found_with_source_and_stripped(level: tuple[str, ...], tmp_path: Path) -> None:
    if not (shutil.which(LANGUAGES[".c"].compilers[0]) and shutil.which("strip")):
        pytest.skip("needs gcc and strip")
    examples = [one for one in EXAMPLES if one.program in ("triad.c", "spmv.c")]
    outcomes = judge(examples, level, source_findings(examples), tmp_path)
    assert [(one.is_joined, one.is_shown, one.remark) for one in outcomes] == [(True, True, "")] * 2
    assert len(table_of(outcomes).rows) == 2


def test_an_idiom_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    wrong = Example("transpose", "triad.c", "a[i] = b[i] + s * c[i];", ("300", "1"))
    (outcome,) = judge([wrong], LEVELS[0], source_findings([wrong]), tmp_path)
    assert not outcome.is_joined
    assert outcome.remark == "the source is read as stream"
