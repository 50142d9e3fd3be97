"""What the README shows is what happens: its commands run, its targets exist, its links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest
from effort import IS_FULL

from foretrace.benchmarks.harness import programs, tools
from foretrace.cli import VERBS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def console_commands():
    """Command lines (after `$ `) of all console blocks, in order."""
    blocks = re.findall(r"^```console\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def foretrace_commands():
    return [command for command in console_commands() if command.startswith("foretrace ")]


def test_every_make_target_it_names_exists():
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"\bmake ([a-z]+)\b(?=`|$)", README, re.MULTILINE))
    assert {"demo", "test"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"


def test_it_shows_every_verb():
    assert {command.split()[1] for command in foretrace_commands()} == set(VERBS)


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#:]+)\)", README))
def test_its_links_lead_to_files(path):
    assert (ROOT / path).exists()


def test_its_commands_run_in_the_order_shown(tmp_path, foretrace):
    if not tools.shutil.which("qemu-x86_64"):
        pytest.skip("needs qemu-x86_64 (Debian package qemu-user)")
    pytest.importorskip("scipy", reason="pagerank.py needs SciPy")
    programs.build("cg", tmp_path)
    (tmp_path / "pagerank.py").write_bytes((programs.SOURCES / "pagerank.py").read_bytes())
    for command in foretrace_commands():
        words = shlex.split(command, comments=True)
        if words[1] in ("validate", "calibrate", "sgbench"):  # minutes; the others need only that their options exist
            help_text = foretrace(words[1], "--help").stdout
            assert all(word in help_text for word in words[2:] if word.startswith("-"))
            continue
        if not IS_FULL:
            words = [{"20000": "2000", "15": "5"}.get(word, word) for word in words]  # a smaller system of equations
        result = foretrace(*words[1:], cwd=tmp_path)
        assert result.returncode == 0, f"{command}\n{result.stderr}"


def test_the_glossary_has_each_term_once_in_order():
    sections = (ROOT / "docs" / "glossary.md").read_text().split("\n## ")[1:]
    terms = [re.findall(r"^- \*\*(.+?)\*\*", section, re.MULTILINE) for section in sections]
    assert all(found == sorted(found, key=str.lower) and len(found) > 10 for found in terms)
    every = [term for found in terms for term in found]
    assert len(set(every)) == len(every)
