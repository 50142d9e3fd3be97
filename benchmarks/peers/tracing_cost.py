"""Cost of running a program under each tool.

The tools take turns, so that a change in the machine's load hits them alike; medians are reported. foretrace simulates
three cache levels and finds address ranges, access patterns and reuse distances; cachegrind simulates two levels.
"""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.results import ResultTable, times

Wrap = Callable[[Sequence[str], Path], list[str]]
"""Makes the command under a tool from the command and a path that the tool may write to."""

START_UP_RUNS = 10


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that runs a program. `needs` is the executable without which it cannot."""

    name: str
    needs: str | None
    wrap: Wrap

    @property
    def is_installed(self) -> bool:
        """Whether it can be run here."""
        return self.needs is None or shutil.which(self.needs) is not None


TOOLS = (
    Tool("native", None, lambda command, _: list(command)),
    Tool("qemu", "qemu-x86_64", lambda command, _: ["qemu-x86_64", *command]),
    Tool("cachegrind", "valgrind", tools.cachegrind_command),
    Tool("foretrace", "qemu-x86_64", lambda command, path: tools.trace_command(command, path, tools.THREE_LEVELS)),
    Tool("drcachesim", "drrun", lambda command, _: tools.drcachesim_command(command)),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One program under all tools. Each cost is a median."""

    program: str
    command: tuple[str, ...]
    costs: dict[str, tools.Cost]

    def ratio(self, tool: str, reference: str, clock: str = "cpu_s") -> float | None:
        """Ratio of a tool's cost to that of `reference`, by wall clock or CPU time."""
        if tool not in self.costs or reference not in self.costs:
            return None
        return float(getattr(self.costs[tool], clock) / getattr(self.costs[reference], clock))


def compare(workload: programs.Workload, directory: Path, repetitions: int, available: Sequence[Tool]) -> Comparison:
    """Run a workload under each tool, `repetitions` times in turn."""
    runs: dict[str, list[tools.Cost]] = {tool.name: [] for tool in available}
    for _ in range(repetitions):
        for tool in available:
            runs[tool.name].append(tools.measure(tool.wrap(workload.command, directory / "output")))
    return Comparison(workload.name, workload.command, {name: median(taken) for name, taken in runs.items()})


def median(costs: Sequence[tools.Cost]) -> tools.Cost:
    """Medians of wall clock and CPU time, each on its own."""
    return tools.Cost(statistics.median(c.wall_s for c in costs), statistics.median(c.cpu_s for c in costs))


def start_up(directory: Path) -> tools.Cost:
    """Cost of tracing a static program that does nothing: the least of several runs.

    Raises:
        EngineError: there is no C compiler, or tracing fails.
    """
    source = directory / "nothing.c"
    source.write_text("int main(void) { return 0; }\n")
    nothing = str(directory / "nothing")
    tools.measure(["cc", "-O2", "-g", *programs.Linking.FIXED.value, "-o", nothing, str(source)])
    command = tools.trace_command([nothing], directory / "output", tools.THREE_LEVELS)
    taken = [tools.measure(command) for _ in range(START_UP_RUNS)]
    return tools.Cost(min(c.wall_s for c in taken), min(c.cpu_s for c in taken))


def summary(comparisons: Sequence[Comparison], clock: str) -> dict[str, float] | None:
    """Geometric mean and worst of foretrace's ratios to cachegrind; None without cachegrind."""
    ratios = [r for c in comparisons if (r := c.ratio("foretrace", "cachegrind", clock)) is not None]
    return {"geometric_mean": statistics.geometric_mean(ratios), "worst": max(ratios)} if ratios else None


def cost_table(title: str, clock: str, comparisons: Sequence[Comparison], available: Sequence[Tool]) -> ResultTable:
    """Seconds under each tool by one clock, and foretrace's as a multiple of cachegrind's and of none's."""
    rows = []
    for comparison in comparisons:
        costs = [f"{getattr(comparison.costs[tool.name], clock):.2f}" for tool in available]
        ratios = [comparison.ratio("foretrace", reference, clock) for reference in ("cachegrind", "native")]
        rows.append([comparison.program, *costs, *map(times, ratios)])
    found = summary(comparisons, clock)
    if found:
        gaps = [""] * len(available)
        rows.append(["geometric mean", *gaps, times(found["geometric_mean"]), ""])
        rows.append(["worst", *gaps, times(found["worst"]), ""])
    headings = ("program", *(tool.name for tool in available), "/ cachegrind", "/ native")
    data = {"programs": [asdict(one) for one in comparisons], "ratio_to_cachegrind": found}
    return ResultTable(title, headings, rows, data)


@dataclass(frozen=True, slots=True)
class FurtherTargets:
    """One program traced with the caches of 1, 2, ... machines; `costs` are medians, in that order."""

    program: str
    costs: tuple[tools.Cost, ...]

    def per_target(self, clock: str) -> float:
        """Mean share of the first target's cost that each further one adds."""
        first, last = getattr(self.costs[0], clock), getattr(self.costs[-1], clock)
        return float((last / first - 1) / (len(self.costs) - 1))


MACHINES = ("xeon-e5-2420", "xeon-e5462", "jaguar-xt4", "bluegene-q")


def further_targets(workload: programs.Workload, directory: Path, repetitions: int) -> FurtherTargets:
    """Trace a program with the caches of one machine, of two, and so on, in turn."""
    runs: list[list[tools.Cost]] = [[] for _ in MACHINES]
    for _ in range(repetitions):
        for number, taken in enumerate(runs, 1):
            taken.append(tools.measure(tools.trace_machines_command(workload.command, directory, MACHINES[:number])))
    return FurtherTargets(workload.name, tuple(map(median, runs)))


def targets_table(found: Sequence[FurtherTargets]) -> ResultTable:
    """Wall clock with 1, 2, ... machines."""
    counts = [f"{number} machine{'s' if number > 1 else ''}" for number in range(1, len(MACHINES) + 1)]
    title = f"Wall clock in seconds by the number of machines simulated, on {os.cpu_count()} CPUs (median)"
    rows = []
    for one in found:
        shares = [f"{one.per_target(clock):+.0%}" for clock in ("wall_s", "cpu_s")]
        rows.append([one.program, *(f"{cost.wall_s:.2f}" for cost in one.costs), *shares])
    return ResultTable(
        title, ("program", *counts, "per further one, wall", "CPU"), rows, [asdict(one) for one in found]
    )
