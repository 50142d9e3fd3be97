"""Compares foretrace with its peers in one run: what tracing costs, and whether the simulated misses agree.

For each program the tools take turns, so that a change in the machine's load hits them alike; medians are reported. A
peer that is not installed is left out, and the report says so.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from foretrace.errors import ForetraceError
from foretrace.terminal import console

from . import programs, tools

Wrap = Callable[[Sequence[str], Path], list[str]]
"""Makes the command under a tool from the command and a path that the tool may write to."""


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that runs a program. `needs` is the executable without which it cannot.

    `read_misses` reads the file that the tool has written, if the tool simulates caches.
    """

    name: str
    needs: str | None
    wrap: Wrap
    read_misses: Callable[[Path], tools.CacheMisses] | None = None


TOOLS = (
    Tool("native", None, lambda command, _: list(command)),
    Tool("qemu", "qemu-x86_64", lambda command, _: ["qemu-x86_64", *command]),
    Tool("cachegrind", "valgrind", tools.cachegrind_command, tools.cachegrind_misses),
    Tool("foretrace", "qemu-x86_64", tools.trace_command, tools.simulated_misses),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One program under all tools. Each cost is a median.

    `misses` are those of the tools that simulate caches, and `start_up_misses` those of a run with nothing to do, empty
    unless the program has one.
    """

    program: str
    command: tuple[str, ...]
    costs: dict[str, tools.Cost]
    misses: dict[str, tools.CacheMisses]
    start_up_misses: dict[str, tools.CacheMisses]

    def ratio(self, tool: str, reference: str, clock: str = "cpu_s") -> float | None:
        """How many times the cost of `reference` a tool has, by wall clock or CPU time."""
        if tool not in self.costs or reference not in self.costs:
            return None
        return float(getattr(self.costs[tool], clock) / getattr(self.costs[reference], clock))

    def misses_of_work(self, tool: str) -> tools.CacheMisses | None:
        """Misses without those of the program's start, if that is known."""
        if tool not in self.misses:
            return None
        return self.misses[tool] - self.start_up_misses.get(tool, tools.CacheMisses(0, 0))

    def difference(self, level: str) -> float | None:
        """Our misses of work in `level` ("d1" or "ll") relative to cachegrind's, minus 1."""
        ours, reference = self.misses_of_work("foretrace"), self.misses_of_work("cachegrind")
        if ours is None or reference is None or not getattr(reference, level):
            return None
        return float(getattr(ours, level) / getattr(reference, level) - 1)


def compare(workload: programs.Workload, directory: Path, repetitions: int, available: Sequence[Tool]) -> Comparison:
    """Run a workload under each tool, `repetitions` times in turn."""
    output = directory / "output"
    runs: dict[str, list[tools.Cost]] = {tool.name: [] for tool in available}
    misses: dict[str, tools.CacheMisses] = {}
    start_up_misses: dict[str, tools.CacheMisses] = {}
    for _ in range(repetitions):
        for tool in available:
            runs[tool.name].append(tools.measure(tool.wrap(workload.command, output)))
            if tool.read_misses:
                misses[tool.name] = tool.read_misses(output)
    for tool in available:
        if workload.start_up and tool.read_misses:
            tools.measure(tool.wrap(workload.start_up, output))
            start_up_misses[tool.name] = tool.read_misses(output)
    costs = {
        name: tools.Cost(statistics.median(c.wall_s for c in taken), statistics.median(c.cpu_s for c in taken))
        for name, taken in runs.items()
    }
    return Comparison(workload.name, workload.command, costs, misses, start_up_misses)


def as_json(comparisons: Sequence[Comparison], missing: Sequence[str], repetitions: int) -> dict[str, Any]:
    """The whole report, as a program reads it."""
    return {
        "schema": "foretrace.bench/1",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "hierarchy": tools.HIERARCHY,
        "repetitions": repetitions,
        "not_installed": list(missing),
        "programs": [
            asdict(comparison)
            | {
                "cpu_ratio_to_cachegrind": comparison.ratio("foretrace", "cachegrind"),
                "wall_ratio_to_cachegrind": comparison.ratio("foretrace", "cachegrind", "wall_s"),
                "cpu_ratio_to_native": comparison.ratio("foretrace", "native"),
                "wall_ratio_to_native": comparison.ratio("foretrace", "native", "wall_s"),
                "d1_misses_difference": comparison.difference("d1"),
                "ll_misses_difference": comparison.difference("ll"),
            }
            for comparison in comparisons
        ],
    }


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4%}"


def _table(title: str, *headings: str) -> Table:
    """A table whose first heading is on the left, the others on the right."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="left" if heading == headings[0] else "right", no_wrap=True)
    return table


def cost_table(title: str, clock: str, comparisons: Sequence[Comparison], available: Sequence[Tool]) -> Table:
    """Seconds under each tool by one clock, and foretrace's as a multiple of cachegrind's and of none's."""
    table = _table(title, "program", *(tool.name for tool in available), "/ cachegrind", "/ native")
    for comparison in comparisons:
        costs = [f"{getattr(comparison.costs[tool.name], clock):.2f}" for tool in available]
        ratios = [comparison.ratio("foretrace", reference, clock) for reference in ("cachegrind", "native")]
        table.add_row(comparison.program, *costs, *map(_times, ratios))
    return table


def misses_table(level: str, comparisons: Sequence[Comparison]) -> Table:
    """Misses of both simulators in one level."""
    table = _table(
        f"Data misses in {level.upper()} of {tools.HIERARCHY}", "program", "cachegrind", "foretrace", "difference"
    )
    for comparison in comparisons:
        work = [comparison.misses_of_work(tool) for tool in ("cachegrind", "foretrace")]
        counts = ["-" if misses is None else f"{getattr(misses, level):,}" for misses in work]
        name = comparison.program + (" *" if comparison.start_up_misses else "")
        table.add_row(name, *counts, _percent(comparison.difference(level)))
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison, print it, and write it as JSON."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="small programs, one repetition: seconds instead of minutes"
    )
    parser.add_argument("--repetitions", type=int, help="of each program under each tool (default 3)")
    parser.add_argument("--output", type=Path, default=Path("results/bench.json"), help="where the JSON goes")
    options = parser.parse_args(arguments)
    repetitions = options.repetitions or (1 if options.quick else 3)

    out = console()
    missing = [tool.name for tool in TOOLS if tool.needs and not shutil.which(tool.needs)]
    available = [tool for tool in TOOLS if tool.name not in missing]
    for name in missing:
        out.print(f"Left out: {name} is not installed.")
    try:
        with tempfile.TemporaryDirectory(prefix="foretrace-bench-") as name:
            directory = Path(name)
            comparisons = []
            for workload in programs.five_workloads(directory, quick=options.quick):
                with out.status(f"{workload.name}, {repetitions} x {len(available)} runs"):
                    comparisons.append(compare(workload, directory, repetitions, available))
    except ForetraceError as error:
        print(f"make bench: error: {error}", file=sys.stderr)
        return error.exit_code
    report = [
        cost_table("Wall clock, seconds (median)", "wall_s", comparisons, available),
        cost_table("CPU time of all processes, seconds (median)", "cpu_s", comparisons, available),
        misses_table("d1", comparisons),
        misses_table("ll", comparisons),
    ]
    for table in report:
        out.print(table)
        out.print()
    out.print("* without the misses of a run on an empty input: dynamic programs start differently under cachegrind.")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(as_json(comparisons, missing, repetitions), indent=2) + "\n")
    out.print(f"Written to {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
