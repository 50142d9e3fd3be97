"""docs/events.md: its files compile, its commands run in a clean directory, and print what it shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from effort import sweep

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "events.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = ("c", "fortran", "python")


def files() -> dict[str, str]:
    """The programs by file name: the last one that the text names before the block."""
    found = {}
    for block in BLOCK.finditer(TEXT):
        if block[1] in LANGUAGES:
            names = re.findall(r"`([\w.]+\.(?:c|f90|py))`", TEXT[: block.start()])
            found[names[-1]] = block[2]
    return found


def consoles() -> list[str]:
    return [block[2] for block in BLOCK.finditer(TEXT) if block[1] == "console"]


def steps(console: str) -> list[tuple[str, list[str]]]:
    """Commands, each with the lines that it is said to print."""
    found: list[tuple[str, list[str]]] = []
    for line in console.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
    return found


def matches(said: list[str], printed: list[str]) -> bool:
    """`[...]` stands for any lines; the widths of columns do not count."""
    pattern = "".join("(?s:.*)" if line == "[...]" else re.escape(" ".join(line.split())) + "\n" for line in said)
    return re.fullmatch(pattern, "".join(" ".join(line.split()) + "\n" for line in printed)) is not None


def test_every_program_is_used_and_every_picture_is_made() -> None:
    assert set(files()) == {"solver.c", "heat.f90", "newton.py"}
    commands = " ".join(consoles())
    assert all(f" {name} " in commands or f" {name}\n" in commands for name in files())
    for picture in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", TEXT):
        assert (ROOT / "docs" / picture).exists()
        assert f"-o {picture}" in commands or f"-o {picture}" in " ".join(TEXT.split()), "or by make"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("documentation")
    for name, content in files().items():
        (made / name).write_text(content)
    programs = Path("benchmarks/programs/events")
    shutil.copytree(ROOT / programs, made / programs)
    return made


LONG = ("./contract", "sparse_solvers", "./solve 200")
"""Larger runs of programs that are run by the commands of others, or by tests of their own."""


@sweep(
    "console", consoles(), [one for one in consoles() if not any(words in one for words in LONG)],
    ids=lambda console: steps(console)[-1][0],
)  # fmt: skip
def test_its_commands_print_what_it_says(console: str, folder: Path) -> None:
    if "gfortran" in console and not shutil.which("gfortran"):
        pytest.skip("needs gfortran")
    if "sparse_solvers" in console:
        pytest.importorskip("scipy", reason="sparse_solvers.py needs SciPy")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "120"}
    here = folder
    for command, said in steps(console):
        if command.startswith("cd "):
            here = folder / command.removeprefix("cd ")
            continue
        done = subprocess.run(
            ["bash", "-c", command], cwd=here, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert not done.stderr, command
        assert matches(said, done.stdout.splitlines()), f"{command}\n{done.stdout}"
