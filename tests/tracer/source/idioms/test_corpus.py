"""The labelled programs: what the recogniser finds of them does not become less."""

from __future__ import annotations

import pytest

from foretrace.benchmarks.harness.results import total
from foretrace.benchmarks.validation.idioms import judge, labels, programs
from foretrace.tracer.source.form.records import Language

LEAST = 0.95
pytest.importorskip("clang.cindex", reason="libclang is not installed")


@pytest.mark.parametrize("language", [Language.C, Language.CXX])
def test_precision_and_recall_of_the_labelled_programs(language: Language) -> None:
    judged = judge(programs(language))
    assert judged.loops >= 70
    for counts in (judged.idioms, judged.verdicts):
        overall = total(counts.values())
        precision, recall = overall.precision, overall.recall
        assert precision is not None
        assert recall is not None
        assert precision >= LEAST, judged.misses
        assert recall >= LEAST, judged.misses


def test_every_built_in_idiom_is_labelled_in_c() -> None:
    named = {name for path in programs(Language.C) for label in labels(path) for name in label.idioms | label.parts}
    assert len(named) == 19
