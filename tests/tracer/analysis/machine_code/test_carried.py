"""Loops that compilers make look serial: counters with several updates, spilled values, places of extremes, unrolled
updates, sums that are set back."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from carried_programs import (
    FUSED,
    LONG_BODIES,
    PLACES,
    RESETS,
    SET_BACK,
    SHIFTED,
    SPILLED,
    TWO_UPDATES,
    UNROLLED_UPDATES,
    UNSET,
    UNSET_SPILLED,
    UPDATES,
)
from effort import sweep
from traces import trace_binary

from foretrace.tracer.analysis.data_flow.verdicts import verdicts

BUILT = [
    *(("gcc", level) for level in ("-O1", "-O2", "-O3")),
    *((compiler, "-O2") for compiler in ("clang", "aarch64-linux-gnu-gcc", "riscv64-linux-gnu-gcc")),
]
SOURCES = {
    "two_updates": TWO_UPDATES, "places": PLACES, "unset": UNSET, "updates": UPDATES,
    "unrolled_updates": UNROLLED_UPDATES, "resets": RESETS, "shifted": SHIFTED, "set_back": SET_BACK,
}  # fmt: skip
ALL = [(name, *built) for name in SOURCES for built in BUILT]
_LABEL = re.compile(r"/\* (parallel|reduction|collision|recurrence) \*/")
_SAID = {"none": "parallel", "privatisable": "parallel"}


def expected(source: str) -> dict[int, str]:
    """Verdicts by line."""
    lines = enumerate(source.splitlines(), 1)
    return {number: match[1] for number, line in lines for match in _LABEL.finditer(line)}


def found(source: str, compiler: str, level: str, directory: Path) -> dict[int, set[str]]:
    """What loops are found to carry, by line. A loop may be several of the binary."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    program, code = directory / "program", directory / "program.c"
    code.write_text(source)
    command = [compiler, level, "-g", "-fno-inline", "-static", "-o", str(program), str(code), "-lm"]
    subprocess.run(command, check=True, cwd=directory)
    signature = trace_binary([str(program)], has_dependences=True).signature
    assert signature.tree is not None
    by_line: dict[int, set[str]] = {}
    for one in verdicts(signature):
        key = signature.tree.keys[one.node]
        if Path(key.file).name == code.name and not key.caller:  # no library's, called there
            said = one.verdict.name.lower()
            by_line.setdefault(key.line, set()).add(_SAID.get(said, said))
    return by_line


# In short: each source by one compiler, and one source by each compiler at each level.
@sweep(("name", "compiler", "level"), ALL, [one for one in ALL if one[0] == "updates" or one[1:] == ("gcc", "-O2")])
def test_what_loops_carry(name: str, compiler: str, level: str, tmp_path: Path) -> None:
    source = SOURCES[name]
    by_line = found(source, compiler, level, tmp_path)
    labels = expected(source)
    assert {line: by_line[line] for line in labels if line in by_line} == {
        line: {label} for line, label in labels.items() if line in by_line
    }
    assert by_line.keys() & labels.keys()


@sweep("level", ["-O1", "-O2", "-O3"], ["-O2"])
@pytest.mark.parametrize("source", [SPILLED, UNSET_SPILLED, FUSED], ids=["spilled", "unset_spilled", "fused"])
def test_what_loops_carry_on_x86_64(source: str, level: str, tmp_path: Path) -> None:
    by_line = found(source, "gcc", level, tmp_path)
    labels = expected(source)
    assert {line: by_line[line] for line in labels} == {line: {label} for line, label in labels.items()}


# In short: one for each instruction set.
@sweep(("compiler", "level"), BUILT, [one for one in BUILT if one[0] != "clang" and one[1] == "-O2"])
def test_bodies_longer_than_what_is_translated_at_a_time(compiler: str, level: str, tmp_path: Path) -> None:
    by_line = found(LONG_BODIES, compiler, level, tmp_path)
    labels = expected(LONG_BODIES)
    assert {line: by_line.get(line) for line in labels} == {line: {label} for line, label in labels.items()}
