"""The demonstration where something is missing; what it shows elsewhere is in the README."""

from __future__ import annotations

import io
import os
import shutil
import sys
from pathlib import Path

import pytest
from rich.console import Console

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
