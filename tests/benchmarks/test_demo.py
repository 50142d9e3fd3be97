"""The demonstration where something is missing; what it shows elsewhere is in the README."""

from __future__ import annotations

import io
import os
import shutil
import sys
from pathlib import Path

import pytest
from rich.console import Console

from foretrace.base.errors import ForetraceError
from foretrace.benchmarks import demo


def demonstration(directory: Path, monkeypatch: pytest.MonkeyPatch, *, has_plugins: bool) -> demo.Demonstration:
    """One that finds a QEMU with or without plugins first."""
    if not has_plugins:
        tools = directory / "tools"
        tools.mkdir()
        qemu = tools / "qemu-x86_64"
        qemu.write_text("#!/bin/sh\necho 'usage: qemu-x86_64 [options] program [arguments...]'\n")
        qemu.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    return demo.Demonstration(directory, Console(file=io.StringIO()))


def test_without_plugins_the_python_part_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = demonstration(tmp_path, monkeypatch, has_plugins=False)
    problem = demo.engine_problem(made)
    assert len(problem.splitlines()) == 1
    assert f"{tmp_path}/tools/qemu-x86_64 was built without plugins" in problem
    (subject,) = demo.prepare(made, with_compiled=False)
    assert subject.is_python
    assert shutil.which("python", path=made.environment["PATH"]) == str(Path(sys.executable).with_name("python"))
    made.run("foretrace", "trace", "-o", subject.signature, "pagerank.py", "1000", output=subject.output)
    assert (tmp_path / subject.signature).exists()


def test_with_them_nothing_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = demonstration(tmp_path, monkeypatch, has_plugins=True)
    assert demo.engine_problem(made) == ""
    assert [subject.is_python for subject in demo.prepare(made, with_compiled=True)] == [False, False, True]


def test_the_short_form_marks_what_it_leaves_out() -> None:
    lines = ["head", "", "loads  1", "x" * 120, "loads  2", "foretrace: warning: busy", "b", "c", "", "d"]
    assert demo.shortened(lines, (("loads", 0), ("x", 0), ("b", 1))) == [
        "[...]", "loads  1", "x" * 94 + " [...]", "loads  2", "[...] with 1 warning", "b", "c", "[...]",
    ]  # fmt: skip
    assert demo.shortened(lines[2:3], (("loads", 0),)) == ["loads  1"]
    assert demo.shortened(["a", "", ""], (("a", 0),)) == ["a"]


def test_the_short_form_shows_the_end_of_what_fails(tmp_path: Path) -> None:
    said = io.StringIO()
    with pytest.raises(ForetraceError, match="ended with"):
        demo.Demonstration(tmp_path, Console(file=said)).run("foretrace", "info", "missing.sig")
    assert "missing.sig" in said.getvalue().partition("\n")[2]


def test_two_screens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a small program, and with a machine that is known already in place of this one's calibration."""
    said = io.StringIO()
    made = demo.Demonstration(tmp_path, Console(file=said, width=100))
    script = tmp_path / "gathers.py"
    script.write_text(
        "import numpy as np\nx, i = np.zeros(300_000), np.arange(0, 300_000, 3)\nfor _ in range(9):\n    x[i]\n"
    )
    small = demo.Subject("gathers", "g.sig", ("python", "gathers.py"), "g.txt", has_gathers=True)
    monkeypatch.setattr(demo, "engine_problem", lambda _demo: "")
    monkeypatch.setattr(demo, "prepare", lambda _demo, *, with_compiled: [small] * (1 + 2 * with_compiled))
    run = made.run

    def run_without_calibration(*command: str, output: str | None = None) -> None:
        if command[1] == "calibrate":
            shutil.copy(
                Path(demo.__file__).parents[1] / "profiles" / "machines" / "epyc-turin-vm.toml", tmp_path / "here.toml"
            )
        else:
            run(*command, output=output)

    monkeypatch.setattr(made, "run", run_without_calibration)
    demo.demonstrate(made)
    lines = said.getvalue().splitlines()
    assert 20 < len(lines) <= 50
    assert max(map(len, lines)) <= 100
    assert any("gather" in line for line in lines)
    assert "[...]" in said.getvalue()
