"""A small share of what `make hostile` does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile_files import KINDS, cases

QUICK = sorted(set(KINDS) - {"C++", "debug information", "fixed Fortran"})  # these take seconds to minutes a case


@pytest.mark.parametrize("kind", QUICK)
def test_hostile_files_are_answered_or_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path.cwd())  # and back, after the cases
    ended = [result for _, _, result in cases([kind], 2, seed=7, keep=None)]
    assert [(result.command, result.fault) for result in ended if result.fault] == []
    assert len(ended) == 2
