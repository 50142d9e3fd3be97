"""What the execution tree adds to tracing: the same programs traced with it and without, alternating."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.tables import table

from .tracing_cost import median

WAYS = ("with", "without")
PROGRAMS = (
    ("queens", ("10",)),
    ("quicksort", ("300000",)),
    ("tree_search", ("100000", "200000")),
    ("cg", ("20000", "5")),
)
"""Besides those of the other sections: recursion, and small loops that are entered often."""
QUICK_PROGRAMS = (("queens", ("7",)),)
GOAL = 0.10
"""Of the tracing time that the tree may take."""


@dataclass(frozen=True, slots=True)
class TreeCost:
    """Medians of one program's whole traces, by way."""

    program: str
    costs: dict[str, tools.Cost]

    def share(self, clock: str) -> float:
        """What the tree adds, as a share of tracing without it."""
        return float(getattr(self.costs["with"], clock) / getattr(self.costs["without"], clock) - 1)


def workloads(directory: Path, *, quick: bool) -> list[programs.Workload]:
    """The programs, built."""
    return [
        programs.Workload(name, (str(programs.build(name, directory)), *arguments))
        for name, arguments in (QUICK_PROGRAMS if quick else PROGRAMS)
    ]


def compare(workload: programs.Workload, directory: Path, repetitions: int) -> TreeCost:
    """Trace a program both ways, alternating."""
    runs: dict[str, list[tools.Cost]] = {way: [] for way in WAYS}
    command = tools.trace_command(workload.command, directory / "output", tools.THREE_LEVELS)
    split = command.index("--")
    commands = {"with": command, "without": [*command[:split], "--no-tree", *command[split:]]}
    for _ in range(repetitions):
        for way, taken in runs.items():
            taken.append(tools.measure(commands[way]))
    return TreeCost(workload.name, {way: median(taken) for way, taken in runs.items()})


def summary(found: Sequence[TreeCost], clock: str) -> dict[str, float]:
    """Mean and worst share."""
    shares = [one.share(clock) for one in found]
    return {"mean": statistics.fmean(shares), "worst": max(shares)}


def cost_table(found: Sequence[TreeCost]) -> Table:
    """Seconds both ways, and what the tree adds."""
    made = table(
        f"Execution tree: seconds of a whole trace (median); it may add {GOAL:.0%}",
        "program", "with", "without", "adds, wall", "adds, CPU",
    )  # fmt: skip
    for one in found:
        seconds = [f"{one.costs[way].wall_s:.2f}" for way in WAYS]
        made.add_row(one.program, *seconds, f"{one.share('wall_s'):+.1%}", f"{one.share('cpu_s'):+.1%}")
    sums = [summary(found, clock) for clock in ("wall_s", "cpu_s")]
    for name in ("mean", "worst"):
        made.add_row(name, "", "", *(f"{of_clock[name]:+.1%}" for of_clock in sums))
    return made
