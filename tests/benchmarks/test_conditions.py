"""Other conditions on the same machine: what a command sees of them, and that nothing is left of them."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness import conditions
from foretrace.benchmarks.harness.buffers import huge_page_bytes

TELL = """
import os
from foretrace.benchmarks.harness.buffers import Pages, allocate, huge_page_bytes, page_bytes_of
print(len(os.sched_getaffinity(0)), huge_page_bytes(), page_bytes_of(allocate(16 << 20, Pages.HUGE)))
"""


def run(*options):
    command = [sys.executable, "-P", "-m", "foretrace.benchmarks", "conditions", *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_without_huge_pages_there_are_none():
    result = run("--without-huge-pages", "--", sys.executable, "-P", "-c", TELL)
    assert result.stdout.split()[1:] == ["None", str(os.sysconf("SC_PAGESIZE"))], result.stderr


def test_huge_pages_are_back_afterwards():
    before = huge_page_bytes()
    with conditions.without_huge_pages():
        assert huge_page_bytes() is None
    assert huge_page_bytes() == before


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_beside_a_neighbour_a_command_has_one_core_and_the_neighbour_ends_with_it():
    allowed, before = os.sched_getaffinity(0), _children()
    with conditions.neighbour():
        assert os.sched_getaffinity(0) == {max(allowed)}
        (child,) = set(_children()) - set(before)
        assert os.sched_getaffinity(child) <= allowed
    assert os.sched_getaffinity(0) == allowed
    assert _children() == before
    result = run("--neighbour", "--", sys.executable, "-P", "-c", TELL)
    assert result.stdout.split()[0] == "1", result.stderr


def test_a_neighbour_needs_a_core_of_its_own(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with pytest.raises(EngineError, match="needs a core of its own"), conditions.neighbour():
        pass


@pytest.mark.skipif(shutil.which(f"qemu-{platform.machine()}") is None, reason="needs QEMU's user mode")
def test_an_emulated_command_is_run_by_qemu(tmp_path):
    """Of what it starts nothing is emulated: readlink sees what runs the shell."""
    told = "readlink /proc/$$/exe; exit 3"
    result = run("--emulated", "--", "sh", "-c", told)
    assert (Path(result.stdout.strip()).name, result.returncode) == (f"qemu-{platform.machine()}", 3)
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh -e\n{told}\n")
    script.chmod(0o755)
    result = run("--emulated", "--", script)
    assert (Path(result.stdout.strip()).name, result.returncode) == (f"qemu-{platform.machine()}", 3)


def test_what_cannot_be_emulated_is_said(monkeypatch):
    monkeypatch.setattr(conditions.shutil, "which", {"qemu-z80": "/bin/qemu-z80"}.get)
    with pytest.raises(EngineError, match="is not on PATH"):
        conditions.emulated(["sh"])
    monkeypatch.setattr(conditions.platform, "machine", lambda: "z80")
    with pytest.raises(EngineError, match="sh: no such command"):
        conditions.emulated(["sh"])


def test_the_exit_code_is_the_command_s():
    assert run("--", "sh", "-c", "exit 7").returncode == 7


def _children():
    return [int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
