"""What valgrind's callgrind counts of a program: an oracle for execution trees that shares nothing with them.

The format is that of callgrind's manual, section "Callgrind Format Specification".
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

_COST = re.compile(r"(?:0x[0-9a-f]+|\d+|\+\d+|-\d+|\*) (\d+)")


@dataclass(frozen=True, slots=True)
class Callgrind:
    """Instructions of functions by name, and calls of functions by callers with the instructions below them."""

    own: Counter[str] = field(default_factory=Counter)
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    below: Counter[tuple[str, str]] = field(default_factory=Counter)


def run_callgrind(directory: Path, *program: str | Path) -> Callgrind:
    """Run a program under callgrind."""
    out = directory / "callgrind.out"
    options = [f"--callgrind-out-file={out}", "--compress-strings=no", "--compress-pos=no"]
    command = ["valgrind", "--tool=callgrind", *options, *map(str, program)]
    subprocess.run(command, check=True, capture_output=True)
    found = Callgrind()
    function = callee = ""
    calls = 0
    for line in out.read_text().splitlines():
        if line.startswith("fn="):
            function = line[3:].partition("'")[0]  # behind the apostrophe is a level of recursion
        elif line.startswith("cfn="):
            callee = line[4:].partition("'")[0]
        elif line.startswith("calls="):
            calls = int(line[6:].split()[0])
        elif cost := _COST.match(line):
            if calls:
                found.calls[function, callee] += calls
                found.below[function, callee] += int(cost[1])
                calls = 0
            else:
                found.own[function] += int(cost[1])
    return found
