"""Lines of NumPy, SciPy, pandas and scikit-learn, predicted and measured here.

Run by `python -m foretrace.benchmarks.validation.array_operations`.

The lines are in array_operations.toml, as the libraries' own benchmark suites have them. Each runs in a loop of some
20 ms. Several loops make a program, which runs untraced, is traced, and runs untraced again; the prediction is for the
profile of this machine (`foretrace calibrate`). A loop's measured time is the least processor time of the untraced
runs. BLAS has one thread.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from foretrace.base.errors import ForetraceError
from foretrace.base.terminal import console
from foretrace.base.units import format_seconds
from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.harness.tables import table, times

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


@dataclass(frozen=True, slots=True)
class Compared:
    """A loop: seconds predicted, with the interval, and measured; `parts` are those predicted by kind of region."""

    group: str
    operation: str
    predicted_s: float
    low_s: float
    high_s: float
    measured_s: float
    parts: Mapping[str, float]

    @property
    def ratio(self) -> float:
        """Predicted over measured time."""
        return self.predicted_s / self.measured_s

    @property
    def is_within(self) -> bool:
        """Whether the prediction is within a factor of two."""
        return 1 / WITHIN <= self.ratio <= WITHIN

    @property
    def is_inside(self) -> bool:
        """Whether the interval holds what was measured."""
        return self.low_s <= self.measured_s <= self.high_s


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


def compare(machine: str, group: Group, operations: Sequence[str], directory: Path, runs: int) -> Iterator[Compared]:
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
        yield Compared(group.name, operation, predicted_s, low_s, high_s, min(of_runs), parts)


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


def _print(rows: Sequence[Compared]) -> None:
    shown = table("array operations, one thread", "line", "predicted", "interval", "measured", "ratio", "of it", "")
    for row in rows:
        shown.add_row(
            row.operation,
            format_seconds(row.predicted_s),
            f"{format_seconds(row.low_s)} to {format_seconds(row.high_s)}",
            format_seconds(row.measured_s),
            times(row.ratio),
            ", ".join(f"{100 * part / row.predicted_s:.0f} % {kind}" for kind, part in row.parts.items() if part),
            "" if row.is_inside else "outside",
        )
    console().print(shown)
    for name in dict.fromkeys(row.group for row in rows):
        _print_shares(name, [row for row in rows if row.group == name])
    _print_shares("all", rows)


def _print_shares(name: str, rows: Sequence[Compared]) -> None:
    if rows:
        middle = math.exp(statistics.median(math.log(max(row.ratio, 1e-9)) for row in rows))
        print(
            f"{name}: {len(rows)} lines, median {middle:.2f}, {sum(row.is_within for row in rows)} within a factor of "
            f"{WITHIN:g}, {sum(row.is_inside for row in rows)} inside their interval"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="foretrace.benchmarks.validation.array_operations", description=__doc__.splitlines()[0]
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="those whose names begin so; default: all")
    parser.add_argument("--machine", required=True, metavar="PROFILE", help="the profile of this machine")
    parser.add_argument("--set", default="held-back", choices=("held-back", "diagnostic"), help="which lines")
    parser.add_argument("--draw", type=int, metavar="N", help="N of these lines, drawn at random; default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--runs", type=int, default=3, help="untraced runs before the trace, and after it")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write all rows there too, as JSON")
    options = parser.parse_args(arguments)
    groups = [group for group in read_groups(LINES) if group.kind == options.set]
    groups = list(groups if options.draw is None else drawn(groups, options.draw, options.seed))
    rows: list[Compared] = []
    try:
        with tempfile.TemporaryDirectory(prefix="foretrace-arrays-") as name:
            for group in groups:
                if options.groups and not group.name.startswith(tuple(options.groups)):
                    continue
                if not group.is_possible:
                    print(f"{group.name}: left out, as its libraries are not installed")
                    continue
                for first in range(0, len(group.operations), OF_PROGRAM):
                    part = group.operations[first : first + OF_PROGRAM]
                    rows += compare(options.machine, group, part, Path(name), options.runs)
    except ForetraceError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        pass
    _print(rows)
    if options.output is not None:
        fields = ("group", "operation", "predicted_s", "low_s", "high_s", "measured_s", "parts")
        options.output.write_text(json.dumps([{f: getattr(row, f) for f in fields} for row in rows], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
