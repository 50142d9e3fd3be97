"""Lines of NumPy, SciPy, pandas and scikit-learn, predicted and measured here.

The lines are in array_operations.toml, as the libraries' own benchmark suites have them. Each runs in a loop of some
20 ms. Several loops make a program, which runs untraced, is traced, and runs untraced again; the prediction is for the
profile of this machine (`foretrace calibrate`). A loop's measured time is the least processor time of the untraced
runs. BLAS has one thread.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.harness.results import MeasuredPrediction, Part, growing, prediction_table, summary

from .linear_algebra import ONE_THREAD

LINES = Path(__file__).with_suffix(".toml")
LOOP_S = 0.02
MOST_CALLS = 5000
OF_PROGRAM = 12
"""Loops of one program."""
WITHIN = 2.0


@dataclass(frozen=True, slots=True)
class Group:
    """Lines that share what runs before them."""

    kind: str
    name: str
    setup: str
    operations: tuple[str, ...]

    @property
    def is_possible(self) -> bool:
        """Whether the libraries that it imports are installed."""
        modules = re.findall(r"^(?:import|from) (\w+)", self.setup, re.MULTILINE)
        return all(importlib.util.find_spec(module) for module in modules)


def read_groups(path: Path) -> tuple[Group, ...]:
    """The groups of a file of lines."""
    with path.open("rb") as file:
        found = tomllib.load(file)["group"]
    return tuple(Group(one["set"], one["name"], one["setup"], tuple(one["operations"])) for one in found)


def drawn(groups: Sequence[Group], number: int, seed: int) -> tuple[Group, ...]:
    """The groups with `number` of all their lines, drawn at random."""
    lines = [(group.name, operation) for group in groups for operation in group.operations]
    chosen = set(random.Random(seed).sample(lines, min(number, len(lines))))
    return tuple(
        Group(g.kind, g.name, g.setup, tuple(o for o in g.operations if (g.name, o) in chosen)) for g in groups
    )


def compare(
    machine: str, group: Group, operations: Sequence[str], directory: Path, runs: int
) -> Iterator[MeasuredPrediction]:
    """Trace, predict and measure lines of a group.

    Raises:
        ForetraceError: they cannot be traced or predicted.
        subprocess.CalledProcessError: one of them fails.
    """
    program, signature = directory / "lines.py", directory / "lines.sig"
    once = _write(program, group, operations, [1] * len(operations))
    calls = [max(1, min(MOST_CALLS, round(LOOP_S / max(one, 1e-9)))) for one in _measured_s(program)]
    once = _write(program, group, operations, calls)
    measured = [_measured_s(program) for _ in range(runs)]
    subprocess.run(
        [tools.foretrace_executable(), "trace", "--force", "-o", str(signature), str(program)],
        env=os.environ | ONE_THREAD,
        check=True,
        capture_output=True,
    )
    measured += [_measured_s(program) for _ in range(runs)]
    (prediction,) = tools.foretrace_json("predict", str(signature), "--machine", machine)["predictions"]
    for operation, line, of_runs in zip(operations, once, zip(*measured, strict=True), strict=True):
        own = [one for one in prediction["loops"] if one["line"] == line and Path(one["file"]).name == program.name]
        parts: dict[str, float] = defaultdict(float)
        for one in own:
            parts[one["kind"] + (" as traced" if one.get("as_traced") else "")] += one["time_s"]
        low_s, high_s = (sum(one[key] for one in own) for key in ("low_s", "high_s"))
        predicted_s = sum(one["time_s"] for one in own)
        of_it = ", ".join(f"{100 * part / predicted_s:.0f} % {kind}" for kind, part in parts.items() if part)
        yield MeasuredPrediction(
            name=operation, predicted=predicted_s, low=low_s, high=high_s, measured=min(of_runs),
            notes={"group": group.name, "of it": of_it},
        )  # fmt: skip


def _write(program: Path, group: Group, operations: Sequence[str], calls: Sequence[int]) -> list[int]:
    """Write a program that prints the processor time of each loop. The lines of the loops, counted from 1."""
    text = [group.setup.strip(), "from time import process_time as _clock"]
    lines = []
    for operation, number in zip(operations, calls, strict=True):
        text += [operation, "_begun = _clock()", f"for _ in range({number}): {operation}", "print(_clock() - _begun)"]
        lines.append("\n".join(text).count("\n"))
    program.write_text("\n".join(text) + "\n")
    return lines


def _measured_s(program: Path) -> list[float]:
    command = [sys.executable, "-P", "-W", "ignore", str(program)]
    done = subprocess.run(command, env=os.environ | ONE_THREAD, check=True, capture_output=True, text=True)
    return [float(line) for line in done.stdout.split()]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.machine(parser)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="those whose names begin so; default: all")
    parser.add_argument("--set", default="held-back", choices=("held-back", "diagnostic"), help="which lines")
    parser.add_argument("--draw", type=int, metavar="N", help="N of these lines, drawn at random; default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--runs", type=common.positive, default=3, help="untraced, before the trace and after it")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The table, and a summary of each group and of all."""
    groups = [group for group in read_groups(LINES) if group.kind == options.set]
    groups = list(groups if options.draw is None else drawn(groups, options.draw, options.seed))
    chosen = [group for group in groups if not options.groups or group.name.startswith(tuple(options.groups))]
    for group in chosen:
        if not group.is_possible:
            yield f"{group.name}: left out, as its libraries are not installed"
    lines = (
        row
        for group in chosen
        if group.is_possible
        for first in range(0, len(group.operations), OF_PROGRAM)
        for row in compare(options.machine, group, group.operations[first : first + OF_PROGRAM], scratch, options.runs)
    )
    rows: list[MeasuredPrediction] = []
    for rows in growing(lines):
        yield prediction_table("array operations, one thread", rows)
    for name in dict.fromkeys(row.notes["group"] for row in rows):
        yield f"{name}: {summary([row for row in rows if row.notes['group'] == name], WITHIN)}"
    yield f"all: {summary(rows, WITHIN)}"
