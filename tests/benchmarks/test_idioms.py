"""Labelled programs: how labels are read and judged, and that the sets that are developed with stay right."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tree_sitter_fortran", reason="the extra 'source' is not installed")

from foretrace.benchmarks.validation import idioms
from foretrace.tracer.source.form.records import Language
from foretrace.tracer.source.idioms.patterns import built_in

SOURCE = """\
def f(n, a, b, at):
    for i in range(n):  # loop: recurrence
        a[i] = b[i]  # idiom: stream
    for i in range(n):  # loop: unjudged
        a[i] = b[at[i]]  # idiom: scatter (gather)
    for i in range(n):
        b[i] = 1.0
"""


def test_differences_from_labels_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(SOURCE)
    judged = idioms.judge([path])
    assert judged.loops == 2
    assert {name: (one.labelled, one.found, one.both) for name, one in judged.idioms.items()} == {
        "stream": (1, 2, 1),  # the last loop has no label
        "scatter": (1, 0, 0),
        "gather": (1, 1, 0),  # labelled as a part
    }
    assert judged.verdicts["recurrence"].recall == judged.verdicts["parallel"].precision == 0.0
    assert [miss.place for miss in judged.misses] == ["a.py:2", "a.py:5", "a.py:7"]


@pytest.mark.parametrize("language", [Language.FORTRAN, Language.PYTHON])
def test_each_idiom_and_verdict_is_found_where_it_is_labelled(language: Language) -> None:
    judged = idioms.judge(idioms.programs(language))
    assert judged.loops > 100
    for counts in (judged.idioms, judged.verdicts):
        for name, one in counts.items():
            assert (one.precision or 0) >= 0.95, name
            assert (one.recall or 0) >= 0.95, name


@pytest.mark.parametrize("language", [Language.FORTRAN, Language.PYTHON])
def test_all_idioms_are_labelled(language: Language) -> None:
    marks = [label for path in idioms.programs(language) for label in idioms.labels(path)]
    assert {name for label in marks for name in label.idioms | label.parts} == {one.name for one in built_in()}
