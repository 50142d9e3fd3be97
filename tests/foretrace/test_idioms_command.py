"""`foretrace idioms`: what a terminal shows of what was not read, and of bad patterns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import run

SOURCE = "def f(a, b, n):\n    for i in range(n):\n        a[i] = b[i]\n"


def test_branches_that_are_not_taken_are_one_line(tmp_path: Path) -> None:
    pytest.importorskip("tree_sitter_fortran", reason="the extra 'source' is not installed")
    branch = "#ifdef THERE\n  a(1) = 0\n#endif\n"
    source = tmp_path / "a.F90"
    source.write_text(
        f"subroutine f(n, a)\n  integer :: n, i\n  real :: a(n)\n{branch * 20}\n  a = 1\nend subroutine\n"
    )
    shown = run("idioms", "--no-cache", source).output
    assert "Not read, or assumed: 20 preprocessor branches not taken; --json lists them." in shown.replace("\n", " ")
    assert "skipped:" not in shown
    assert len(json.loads(run("idioms", "--no-cache", "--json", source).output)["skipped"]) == 20


def test_a_file_that_cannot_be_read_is_listed_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(SOURCE)
    (tmp_path / "bad.py").write_text("def f(:\n")
    shown = run("idioms", "--no-cache", tmp_path).output
    assert "1 stream in 2 files" in shown
    assert "skipped:" in shown
    assert "bad.py" in shown


def test_a_bad_pattern_file_is_one_error_line(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(SOURCE)
    (tmp_path / "mine.toml").write_text('[mine]\nsummary = ""\npatterns = ["A = _"]\n')
    from foretrace.base.errors import SourceError

    with pytest.raises(SourceError, match=r"mine\.toml: idiom 'mine': 'A = _': a statement assigns an element"):
        run("idioms", "--no-cache", "--patterns", tmp_path / "mine.toml", tmp_path / "good.py")


def test_the_list_shows_a_users_idioms_first(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[mine]\nsummary = "one of mine"\npatterns = ["A[i] = i"]\n')
    shown = run("idioms", "--list", "--patterns", tmp_path / "mine.toml").output
    assert shown.startswith("mine: one of mine\n    A[i] = i\n")
    assert "matrix-product: the product of two matrices" in shown
