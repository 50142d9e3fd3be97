"""Standard streams that are closed, full or no longer read: one clear line; a traced program finds its own."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from effort import sweep

from foretrace.tracer.signature.file import read_signature

Compile = Callable[..., Path]

OPEN_ONES = r"""
#include <fcntl.h>
int main(void) {
    int open_ones = 0;
    for (int fd = 0; fd < 8; fd++) open_ones |= (fcntl(fd, F_GETFD) != -1) << fd;
    return open_ones;
}"""

OPEN_ONES_IN_PYTHON = """
import fcntl, os
open_ones = 0
for fd in range(8):
    try:
        fcntl.fcntl(fd, fcntl.F_GETFD)
        open_ones |= 1 << fd
    except OSError:
        pass
os._exit(open_ones)
"""

SHOWING = (
    "--help", "info x.sig", "info x.sig --json", "curve x.sig", "simulate x.din", "predict x.sig --all",
    "machines show bluegene-p",
)  # fmt: skip


def run(arguments: str, redirections: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run foretrace with its standard streams redirected by a shell."""
    command = f"{shlex.quote(sys.executable)} -P -m foretrace {arguments} {redirections}"
    return subprocess.run(["sh", "-c", command], cwd=directory, capture_output=True, text=True)


@pytest.fixture(scope="module")
def directory(compile_c: Compile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where there are programs, a signature and a trace."""
    made = tmp_path_factory.mktemp("streams")
    (made / "open").symlink_to(compile_c(OPEN_ONES))
    (made / "open.py").write_text(OPEN_ONES_IN_PYTHON)
    (made / "x.din").write_text("0 1000\n1 2000\n")
    assert run("trace -o x.sig -- ./open", "", made).returncode == 7
    return made


@sweep("arguments", SHOWING, ["--help", "info x.sig --json", "machines show bluegene-p"])
@pytest.mark.parametrize(
    ("redirection", "problem"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
)
def test_results_that_cannot_be_written(arguments: str, redirection: str, problem: str, directory: Path) -> None:
    result = run(arguments, redirection, directory)
    assert (result.returncode, result.stderr) == (75, f"foretrace: error: standard output: {problem}\n")


@pytest.mark.parametrize("arguments", ["--version", "machines --json"])
def test_results_that_nobody_reads(arguments: str, directory: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-P", "-m", "foretrace", *arguments.split()]
    result = subprocess.run(command, cwd=directory, stdout=write_end, stderr=subprocess.PIPE, text=True)
    os.close(write_end)
    assert (result.returncode, result.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize(("arguments", "code"), [("info missing.sig", 73), ("infos", 2), ("info", 2)])
def test_complaints_that_cannot_be_written(arguments: str, code: int, redirection: str, directory: Path) -> None:
    result = run(arguments, redirection, directory)
    assert (result.returncode, result.stdout) == (code, "")


@pytest.mark.parametrize("program", ["./open", "open.py"])
@sweep("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"], [">&-", "<&- >&- 2>&-"])
def test_a_program_finds_its_streams_as_it_would_alone(program: str, closed: str, directory: Path) -> None:
    interpreter = shlex.quote(sys.executable) if program.endswith(".py") else ""
    alone = subprocess.run(["sh", "-c", f"{interpreter} {program} {closed}"], cwd=directory, capture_output=True)
    assert run(f"trace --force -o closed.sig -- {program}", closed, directory).returncode == alone.returncode
    assert read_signature(directory / "closed.sig").provenance.complete


def test_what_an_encoding_lacks_is_escaped(directory: Path) -> None:
    (directory / "\N{SNOWMAN}.din").write_text("0 1000\n")
    command = [sys.executable, "-P", "-m", "foretrace", "simulate", "\N{SNOWMAN}.din"]
    result = subprocess.run(
        command, cwd=directory, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}, capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "\\u2603.din" in result.stdout
