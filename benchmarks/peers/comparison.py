"""Compares foretrace with its peers in one run: what tracing costs, and whether the simulated misses agree.

A peer that is not installed is left out, and the report says so.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from foretrace.base.errors import ForetraceError
from foretrace.base.terminal import console
from foretrace.benchmarks.harness import programs, tools

from . import exactness, peak_memory, simulator_speed, tracing_cost, tree_cost

ACCESSES, QUICK_ACCESSES = 20_000_000, 500_000


class Bench:
    """What is measured, section by section. Each prints its tables and returns what goes into the JSON file."""

    def __init__(self, out: Console, directory: Path, repetitions: int, *, quick: bool) -> None:
        """Nothing is measured yet."""
        self._out = out
        self._directory = directory
        self._repetitions = repetitions
        self._quick = quick

    def cost(self) -> Any:
        """What tracing costs, beside other tools."""
        available = [tool for tool in tracing_cost.TOOLS if tool.is_installed]
        found = []
        for workload in self._five():
            with self._out.status(f"{workload.name}, {self._repetitions} x {len(available)} runs"):
                found.append(tracing_cost.compare(workload, self._directory, self._repetitions, available))
        clocks = {"wall_s": "Wall clock, seconds (median)", "cpu_s": "CPU time of all processes, seconds (median)"}
        for clock, title in clocks.items():
            self._out.print(tracing_cost.cost_table(title, clock, found, available), "")
        for tool in tracing_cost.TOOLS:
            if not tool.is_installed:
                self._out.print(f"Left out: {tool.name}, as {tool.needs} is not installed.")
        return {
            "hierarchy": tools.THREE_LEVELS,
            "not_installed": [tool.name for tool in tracing_cost.TOOLS if not tool.is_installed],
            "programs": [asdict(one) for one in found],
            "ratio_to_cachegrind": {clock: tracing_cost.summary(found, clock) for clock in clocks},
        }

    def start_up(self) -> Any:
        """What is the same for every program."""
        least = tracing_cost.start_up(self._directory)
        self._out.print(
            f"A static program that does nothing, least of {tracing_cost.START_UP_RUNS} runs: "
            f"{least.wall_s:.3f} s wall clock, {least.cpu_s:.3f} s of CPU time\n"
        )
        return asdict(least)

    def machines(self) -> Any:
        """What each further machine costs."""
        found = []
        for workload in self._five():
            with self._out.status(f"{workload.name}, 1 to {len(tracing_cost.MACHINES)} machines"):
                found.append(tracing_cost.further_targets(workload, self._directory, self._repetitions))
        self._out.print(tracing_cost.targets_table(found), "")
        return {"machines": tracing_cost.MACHINES, "programs": [asdict(one) for one in found]}

    def tree(self) -> Any:
        """What the execution tree adds."""
        found = []
        for workload in [*self._five(), *tree_cost.workloads(self._directory, quick=self._quick)]:
            with self._out.status(f"{workload.name} with and without a tree"):
                found.append(tree_cost.compare(workload, self._directory, self._repetitions))
        self._out.print(tree_cost.cost_table(found), "")
        return {
            "programs": [asdict(one) for one in found],
            "adds": {
                part: {clock: tree_cost.summary(found, part, clock) for clock in ("wall_s", "cpu_s")}
                for part in tree_cost.PARTS
            },
        }

    def exactness(self) -> Any:
        """Misses of eleven programs beside cachegrind's."""
        if not next(tool for tool in tracing_cost.TOOLS if tool.name == "cachegrind").is_installed:
            self._out.print("Left out: misses beside cachegrind's, as valgrind is not installed.\n")
            return None
        found = []
        for workload in [*self._five(), *programs.further_workloads(self._directory, quick=self._quick)]:
            with self._out.status(f"{workload.name} under cachegrind and foretrace"):
                found.append(exactness.compare(workload, self._directory))
        for level in ("d1", "ll"):
            self._out.print(exactness.misses_table(level, found), "")
        self._out.print(
            "* without the misses of a run on an empty input: dynamic programs start differently under cachegrind.\n"
        )
        return {"hierarchy": tools.HIERARCHY, "programs": [asdict(one) for one in found]}

    def simulator(self) -> Any:
        """The simulator alone."""
        speeds = simulator_speed.measure(QUICK_ACCESSES if self._quick else ACCESSES)
        self._out.print(simulator_speed.speed_table(speeds), "")
        if not importlib.util.find_spec("cachesim"):
            self._out.print("Left out: pycachesim is not installed (pip install pycachesim).\n")
        return [asdict(speed) for speed in speeds]

    def memory(self) -> Any:
        """The most memory that tracing takes."""
        greedy = str(peak_memory.build(self._directory))
        peaks = []
        for name, arguments in (peak_memory.QUICK if self._quick else peak_memory.GREEDY).items():
            with self._out.status(name):
                peaks.append(peak_memory.measure(name, [greedy, *arguments], self._directory))
        self._out.print(peak_memory.peak_table(peaks), "")
        return [asdict(peak) for peak in peaks]

    def _five(self) -> list[programs.Workload]:
        return programs.five_workloads(self._directory, quick=self._quick)


SECTIONS: dict[str, Callable[[Bench], Any]] = {
    "cost": Bench.cost,
    "start-up": Bench.start_up,
    "machines": Bench.machines,
    "tree": Bench.tree,
    "exactness": Bench.exactness,
    "simulator": Bench.simulator,
    "memory": Bench.memory,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison, print it, and write it as JSON."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="small programs, one repetition: seconds instead of minutes"
    )
    parser.add_argument("--repetitions", type=int, help="of each program under each tool (default 3)")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="this section (repeatable; default all)")
    parser.add_argument("--output", type=Path, default=Path("results/bench.json"), help="where the JSON goes")
    options = parser.parse_args(arguments)
    repetitions = options.repetitions or (1 if options.quick else 3)
    out = console()
    document: dict[str, Any] = {
        "schema": "foretrace.bench/2",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "repetitions": repetitions,
    }
    try:
        with tempfile.TemporaryDirectory(prefix="foretrace-bench-") as name:
            bench = Bench(out, Path(name), repetitions, quick=options.quick)
            for section in options.only or SECTIONS:
                document[section] = SECTIONS[section](bench)
    except ForetraceError as error:
        print(f"make bench: error: {error}", file=sys.stderr)
        return error.exit_code
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(document, indent=2) + "\n")
    out.print(f"Written to {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
