"""Limits of memory and processor time: stated in one place, kept, and reached with one line."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from foretrace.cli import VERBS
from foretrace.command_line import limits

Run = Callable[..., "subprocess.CompletedProcess[str]"]
DOCUMENTED = (Path(__file__).parents[2] / "docs" / "limits.md").read_text()


def test_every_verb_has_documented_limits_or_runs_programs() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) GiB \| (\d+) s \| (.*?) ?\|$", DOCUMENTED, re.MULTILINE)
    assert {verb: (int(gib) << 30, int(cpu_s), note) for verb, gib, cpu_s, note in rows} == {
        verb: (found.memory_bytes, found.cpu_s, found.note) for verb, found in limits.LIMITS.items()
    }
    without = set(VERBS) - set(limits.LIMITS)
    assert without == {"time", "calibrate", "sgbench", "validate"}
    assert all(f"`{verb}`" in DOCUMENTED for verb in without)


@pytest.mark.parametrize("verb", sorted(limits.LIMITS))
def test_help_states_them(verb: str, foretrace: Run) -> None:
    shown = " ".join(foretrace(verb, "--help").stdout.split())
    assert f"Limits: {limits.LIMITS[verb]}; foretrace --max-memory" in shown


LIMITED = """
import resource, sys
from foretrace import cli
from foretrace.profiles import library
{fault}
library.load = library.find = take
sys.argv = ["foretrace", *{options!r}, "machines", "show", "epyc-9654"]
cli.main()
"""
TAKES_MEMORY = "def take(*_): return [bytearray(1 << 20) for _ in range(10 ** 6)]"
TAKES_TIME = """
def take(*_):
    try:
        while True: pass
    except Exception: return None
"""


@pytest.mark.parametrize(
    ("fault", "options", "words"),
    [
        (TAKES_MEMORY, ("--max-memory", "0.5"), "more memory than its limit"),
        (TAKES_TIME, ("--max-time", "1"), "more processor time than its limit"),
    ],
)
def test_a_limit_that_is_reached_ends_the_verb_with_one_line(fault: str, options: tuple[str, ...], words: str) -> None:
    script = LIMITED.format(fault=fault, options=options)
    result = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert result.returncode == 85
    [line] = result.stderr.splitlines()
    assert line.startswith("foretrace: error: ")
    assert words in line


def test_limits_never_rise() -> None:
    script = (
        "import resource; from foretrace.command_line import limits\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 2 << 30)); limits.apply(limits.READING)\n"
        "print(resource.getrlimit(resource.RLIMIT_DATA), resource.getrlimit(resource.RLIMIT_CPU))"
    )
    result = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    data, cpu = re.findall(r"\((\d+), (\d+)\)", result.stdout)
    assert data == (str(1 << 30), str(2 << 30))
    assert int(cpu[1]) - int(cpu[0]) == limits.GRACE_S


def test_a_program_that_is_run_inherits_none(foretrace: Run, tmp_path: Path) -> None:
    program = tmp_path / "shows.py"
    program.write_text("import resource; print(resource.getrlimit(resource.RLIMIT_DATA), "
                       "resource.getrlimit(resource.RLIMIT_CPU))")  # fmt: skip
    own = f"{resource.getrlimit(resource.RLIMIT_DATA)} {resource.getrlimit(resource.RLIMIT_CPU)}\n"
    assert foretrace("trace", "-o", tmp_path / "x.sig", program).stdout == own
    assert foretrace("events", "--", sys.executable, program).stdout == own
