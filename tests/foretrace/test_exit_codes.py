"""How a command ends, and what it says last: foretrace's own exit codes can be told from the program's."""

from __future__ import annotations

import importlib
import os
import pkgutil
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import foretrace as package
from foretrace.base.errors import ForetraceError

Run = Callable[..., "subprocess.CompletedProcess[str]"]

TABLE = (Path(__file__).parents[2] / "docs" / "exit-codes.md").read_text()
DOCUMENTED = {int(code) for code in re.findall(r"^\| (\d+) \|", TABLE, re.MULTILINE)}

needs_qemu = pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-x86_64 is not installed")


def classes(kind: type[ForetraceError] = ForetraceError) -> Iterator[type[ForetraceError]]:
    yield kind
    for sub in kind.__subclasses__():
        yield from classes(sub)


def test_every_exit_code_is_documented_and_means_one_thing() -> None:
    for module in pkgutil.walk_packages(package.__path__, "foretrace."):
        spec = module.module_finder.find_spec(module.name, None)
        is_ours = spec is not None and str(spec.origin).endswith(".py")
        if is_ours and not module.name.endswith(("__main__", ".main")):
            importlib.import_module(module.name)
    codes = {kind.exit_code: kind for kind in classes() if "exit_code" in vars(kind)}
    assert len(codes) == sum("exit_code" in vars(kind) for kind in classes())
    assert {2, *codes} == DOCUMENTED
    assert set(codes) <= set(range(70, 86))


@needs_qemu
def test_each_of_our_exit_codes_comes_with_a_line_of_ours(foretrace: Run, tmp_path: Path) -> None:
    assert foretrace("trace", "-o", tmp_path / "x.sig", "--", "/bin/true").returncode == 0
    (tmp_path / "text").write_text("text")
    no_qemu = {"PATH": str(tmp_path)}
    failures: dict[int, tuple[list[str], dict[str, str] | None]] = {
        2: (["trace", "-o", "y.sig", "--unknown", "/bin/true"], None),
        71: (["trace", "-o", "y.sig", "./missing"], None),
        72: (["trace", "-o", "y.sig", "/bin/true"], no_qemu),
        73: (["info", "text"], None),
        74: (["predict", "x.sig", "--machine", "nowhere"], None),
        75: (["trace", "-o", "x.sig", "/bin/true"], None),
        76: (["trace", "-o", "y.sig", "--hierarchy", "L1=1000/8/64", "/bin/true"], None),
        81: (["simulate", "text"], None),
        82: (["predict", "x.sig", "--machine", "power6", "--timing", "text"], None),
    }
    for code, (command, environment) in failures.items():
        result = foretrace(*command, cwd=tmp_path, **({"env": environment} if environment else {}))
        assert result.returncode == code, result.stderr
        assert result.stderr.splitlines()[-1].startswith("foretrace: error: "), code
        assert result.stdout == ""
    assert not (tmp_path / "y.sig").exists()


@needs_qemu
def test_a_program_that_ends_with_such_a_code_comes_without_one(foretrace: Run, tmp_path: Path) -> None:
    for code in (2, 75):
        for program in (["--", "/bin/sh", "-c", f"exit {code}"], ["-c", f"raise SystemExit({code})"]):
            result = foretrace("trace", "--force", "-o", tmp_path / "x.sig", *program)
            assert (result.returncode, result.stderr) == (code, "")
        result = foretrace("time", "--force", "-o", tmp_path / "x.timing", "--", "/bin/sh", "-c", f"exit {code}")
        assert (result.returncode, result.stderr) == (code, "")


@pytest.mark.parametrize("verb", ["trace", "time"])
def test_the_help_points_to_the_table(verb: str, foretrace: Run) -> None:
    assert "docs/exit-codes.md" in foretrace(verb, "--help").stdout


def on_terminal(directory: Path, *command: str) -> list[str]:
    """What a command writes to a terminal on standard error."""
    master, slave = pty.openpty()
    full = [sys.executable, "-P", "-m", "foretrace", *command]
    done = subprocess.Popen(full, cwd=directory, stdin=slave, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    written = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # Linux's way to say that nobody has the other end any more
            break
        if not part:
            break
        written += part
    os.close(master)
    done.wait()
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written.decode()).replace("\r", "\n").splitlines()
    return [line for line in lines if line.startswith("foretrace: ")]


@needs_qemu
def test_a_trace_ends_by_what_it_wrote_and_what_to_type_next_on_a_terminal_only(foretrace: Run, tmp_path: Path) -> None:
    command = ["trace", "-o", "an app.sig", "--keep-stream", "app.fts", "--force", "--", "/bin/sh", "-c", "exit 3"]
    assert on_terminal(tmp_path, *command) == [
        "foretrace: wrote an app.sig and app.fts; the program ended with exit code 3",
        "foretrace: next: foretrace info 'an app.sig', or foretrace predict 'an app.sig' --all, "
        "or foretrace simulate app.fts",
    ]
    assert foretrace(*command, cwd=tmp_path).stderr == ""
    killed = on_terminal(tmp_path, "trace", "-o", "app.sig", "--", "/bin/sh", "-c", "kill $$")
    assert killed[0] == "foretrace: wrote app.sig (incomplete: the program was killed by SIGTERM)"
    for words in ("info 'an app.sig'", "predict 'an app.sig' --all --top 0"):  # what it says to type works
        run = f"{sys.executable} -P -m foretrace {words}"
        subprocess.run(run, shell=True, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
