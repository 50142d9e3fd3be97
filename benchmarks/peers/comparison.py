"""Cost of tracing and simulated misses, compared with foretrace's peers in one run.

A peer that is not installed is left out, and the report says so.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness import programs
from foretrace.benchmarks.harness.results import Part, say

from . import exactness, peak_memory, simulator_speed, tracing_cost, tree_cost

ACCESSES, QUICK_ACCESSES = 20_000_000, 500_000


@dataclass(frozen=True, slots=True)
class Bench:
    """Sections of the comparison; executables and signatures go to `directory`."""

    directory: Path
    repetitions: int
    quick: bool

    def cost(self) -> Iterator[Part]:
        """Cost of tracing, compared with other tools."""
        available = [tool for tool in tracing_cost.TOOLS if tool.is_installed]
        found = []
        for workload in self._five():
            say(f"{workload.name}, {self.repetitions} x {len(available)} runs")
            found.append(tracing_cost.compare(workload, self.directory, self.repetitions, available))
        clocks = {"wall_s": "Wall clock, seconds (median)", "cpu_s": "CPU time of all processes, seconds (median)"}
        for clock, title in clocks.items():
            yield tracing_cost.cost_table(title, clock, found, available)
        for tool in tracing_cost.TOOLS:
            if not tool.is_installed:
                yield f"Left out: {tool.name}, as {tool.needs} is not installed."

    def start_up(self) -> Iterator[Part]:
        """Cost of the start, which is the same for every program."""
        least = tracing_cost.start_up(self.directory)
        yield (
            f"A static program that does nothing, least of {tracing_cost.START_UP_RUNS} runs: "
            f"{least.wall_s:.3f} s wall clock, {least.cpu_s:.3f} s of CPU time"
        )

    def machines(self) -> Iterator[Part]:
        """Cost of each further machine."""
        found = []
        for workload in self._five():
            say(f"{workload.name}, 1 to {len(tracing_cost.MACHINES)} machines")
            found.append(tracing_cost.further_targets(workload, self.directory, self.repetitions))
            yield tracing_cost.targets_table(found)

    def tree(self) -> Iterator[Part]:
        """Cost that the execution tree adds."""
        found = []
        for workload in [*self._five(), *tree_cost.workloads(self.directory, quick=self.quick)]:
            say(f"{workload.name} with and without a tree")
            found.append(tree_cost.compare(workload, self.directory, self.repetitions))
            yield tree_cost.cost_table(found)

    def exactness(self) -> Iterator[Part]:
        """Misses of eleven programs beside cachegrind's."""
        if not next(tool for tool in tracing_cost.TOOLS if tool.name == "cachegrind").is_installed:
            yield "Left out: misses beside cachegrind's, as valgrind is not installed."
            return
        found = []
        for workload in [*self._five(), *programs.further_workloads(self.directory, quick=self.quick)]:
            say(f"{workload.name} under cachegrind and foretrace")
            found.append(exactness.compare(workload, self.directory))
        yield from (exactness.misses_table(level, found) for level in ("d1", "ll"))
        yield "* without the misses of a run on an empty input: dynamic programs start differently under cachegrind."

    def simulator(self) -> Iterator[Part]:
        """The simulator alone."""
        yield simulator_speed.speed_table(simulator_speed.measure(QUICK_ACCESSES if self.quick else ACCESSES))
        if not importlib.util.find_spec("cachesim"):
            yield "Left out: pycachesim is not installed (pip install pycachesim)."

    def memory(self) -> Iterator[Part]:
        """The most memory that tracing takes."""
        greedy = str(peak_memory.build(self.directory))
        peaks = []
        for name, arguments in (peak_memory.QUICK if self.quick else peak_memory.GREEDY).items():
            say(name)
            peaks.append(peak_memory.measure(name, [greedy, *arguments], self.directory))
        yield peak_memory.peak_table(peaks)

    def _five(self) -> list[programs.Workload]:
        return programs.five_workloads(self.directory, quick=self.quick)


SECTIONS = {
    "cost": Bench.cost,
    "start-up": Bench.start_up,
    "machines": Bench.machines,
    "tree": Bench.tree,
    "exactness": Bench.exactness,
    "simulator": Bench.simulator,
    "memory": Bench.memory,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.repetitions(parser)
    parser.add_argument("--only", action="append", choices=SECTIONS, help="this section (repeatable; default all)")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The tables of the sections."""
    bench = Bench(scratch, common.repeated(options), options.quick)
    for section in options.only or SECTIONS:
        yield from SECTIONS[section](bench)
