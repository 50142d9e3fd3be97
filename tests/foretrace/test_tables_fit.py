"""Tables fit the terminal, or 100 columns: columns go, text is shortened, numbers stay whole."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path

import pytest
from rich.console import Console
from warm_command_line import warm_command_line

from foretrace.base.fitting_table import shorten
from foretrace.base.terminal import table

PROGRAM = r"""
#include <stdio.h>
static double x[100000]; static int at[100000];
double a_function_with_a_rather_long_name_that_gathers_what_is_spread_over_memory(void) {
    double sum = 0; for (int i = 0; i < 100000; i++) sum += x[at[i]]; return sum; }
int main(void) {
    for (int i = 0; i < 100000; i++) at[i] = (i * 7919L) % 100000;
    double sum = 0;
    for (int r = 0; r < 10; r++) sum += a_function_with_a_rather_long_name_that_gathers_what_is_spread_over_memory();
    printf("%f\n", sum); return 0; }
"""


@pytest.fixture(scope="module")
def signature(tmp_path_factory: pytest.TempPathFactory, compile_c: Callable[..., Path]) -> Path:
    path = tmp_path_factory.mktemp("tables") / "p.sig"
    program = compile_c(PROGRAM, "-O1", "-fno-inline")
    assert warm_command_line().run(["trace", "-o", str(path), "--", str(program)], path.parent).returncode == 0
    return path


FORETRACE = [sys.executable, "-m", "foretrace"]


def said_in_pipe(*arguments: str, cwd: Path) -> str:
    return warm_command_line().run([*arguments], cwd).stdout


def said_on_terminal(columns: int, *arguments: str, cwd: Path) -> str:
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        [*FORETRACE, *arguments], cwd=cwd, stdin=theirs, stdout=theirs, env=environment | {"TERM": "xterm"}
    ) as run:
        os.close(theirs)
        said = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            said += part
        assert run.wait() == 0
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m", "", said.decode().replace("\r\n", "\n"))


def table_lines(said: str) -> list[str]:
    return [line.rstrip() for line in said.splitlines() if re.search(r"\S  +\S", line) and not line.startswith("  ")]


def test_a_pipe_has_100_columns_and_a_terminal_its_own(signature: Path) -> None:
    ask = ("predict", str(signature), "--machine", "epyc-turin-vm", "--machine", "power6", "--top", "3")
    assert max(map(len, table_lines(said_in_pipe(*ask, cwd=signature.parent)))) <= 100
    for columns in (80, 200):
        said = said_on_terminal(columns, *ask, cwd=signature.parent)
        assert max(map(len, said.splitlines())) <= columns
    assert "L1 " in said and "iterations" in said  # 200 columns have room for all
    narrow = said_on_terminal(80, *ask, cwd=signature.parent)
    assert "left out to fit 80 columns" in narrow


@pytest.mark.parametrize("verb", ["info", "triage"])
def test_other_verbs_fit_too(signature: Path, verb: str) -> None:
    more = ("--host", "jaguar-xt4", "--accelerator", "convey-hc1-fpga") if verb == "triage" else ()
    said = said_on_terminal(80, verb, str(signature), *more, cwd=signature.parent)
    assert max(map(len, said.splitlines())) <= 80


def test_times_are_whole_however_narrow(signature: Path) -> None:
    document = json.loads(
        said_in_pipe("predict", str(signature), "--machine", "power6", "--json", cwd=signature.parent)
    )
    from foretrace.base.units import format_seconds

    said = said_on_terminal(40, "predict", str(signature), "--machine", "power6", cwd=signature.parent)
    assert format_seconds(document["predictions"][0]["time_s"]) in said


def test_columns_go_before_text_is_cut_to_little_and_numbers_never() -> None:
    rows = table("name", "first", "second", "third", left=("name",), drop=("third", "second"))
    rows.add_row("a" * 60, "1234567890", "234567", "345678")
    out = io.StringIO()
    Console(file=out, width=50).print(rows)
    said = out.getvalue()
    assert "1234567890" in said and "second" in said.splitlines()[0]
    assert "third" not in said.splitlines()[0]
    assert "left out to fit 50 columns: third" in said


def test_shortening_keeps_both_ends() -> None:
    assert shorten("solver.c:106", 12) == "solver.c:106"
    assert shorten("a_long_file_name.c:106", 12) == "a_lon….c:106"
