"""The library's face: every name is there, and the README's example does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import foretrace

README = Path(__file__).parents[2] / "README.md"


def test_every_name_is_there() -> None:
    assert len(foretrace.__all__) <= 12
    for name in foretrace.__all__:
        assert getattr(foretrace, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        foretrace.nothing  # noqa: B018


def test_the_readmes_example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, str(README), "exec"), {})
    machines = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert machines == ["jaguar-xt4", "bluegene-q"]
    assert (tmp_path / "ls.sig").exists()
