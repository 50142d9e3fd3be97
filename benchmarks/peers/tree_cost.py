"""What the execution tree and its data flow add to tracing: the same programs traced with both, with the tree alone and
without, alternating."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.tables import table

from .tracing_cost import median

WAYS = ("flow", "with", "without")
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
FLOW_GOAL = 0.15
"""The same for the data flow."""


@dataclass(frozen=True, slots=True)
class TreeCost:
    """Medians of one program's whole traces, by way."""

    program: str
    costs: dict[str, tools.Cost]

    def share(self, clock: str) -> float:
        """What the tree adds, as a share of tracing without it."""
        return float(getattr(self.costs["with"], clock) / getattr(self.costs["without"], clock) - 1)

    def flow_share(self, clock: str) -> float:
        """What the data flow adds, as a share of tracing with the tree."""
        return float(getattr(self.costs["flow"], clock) / getattr(self.costs["with"], clock) - 1)


def workloads(directory: Path, *, quick: bool) -> list[programs.Workload]:
    """The programs, built."""
    return [
        programs.Workload(name, (str(programs.build(name, directory)), *arguments))
        for name, arguments in (QUICK_PROGRAMS if quick else PROGRAMS)
    ]


def compare(workload: programs.Workload, directory: Path, repetitions: int) -> TreeCost:
    """Trace a program in all ways, alternating."""
    runs: dict[str, list[tools.Cost]] = {way: [] for way in WAYS}
    command = tools.trace_command(workload.command, directory / "output", tools.THREE_LEVELS)
    split = command.index("--")
    options = {"flow": (), "with": ("--no-data-flow",), "without": ("--no-tree",)}
    commands = {way: [*command[:split], *option, *command[split:]] for way, option in options.items()}
    for _ in range(repetitions):
        for way, taken in runs.items():
            taken.append(tools.measure(commands[way]))
    return TreeCost(workload.name, {way: median(taken) for way, taken in runs.items()})


def summary(found: Sequence[TreeCost], clock: str) -> dict[str, float]:
    """Mean and worst share."""
    shares = [one.share(clock) for one in found]
    return {"mean": statistics.fmean(shares), "worst": max(shares)}


def _shares(one: TreeCost) -> tuple[float, ...]:
    return one.share("wall_s"), one.share("cpu_s"), one.flow_share("wall_s"), one.flow_share("cpu_s")


def cost_table(found: Sequence[TreeCost]) -> Table:
    """Seconds of all ways, and what the tree and the data flow add."""
    made = table(
        f"Execution tree and data flow: seconds of a whole trace (median); they may add {GOAL:.0%} and {FLOW_GOAL:.0%}",
        "program", "both", "tree", "neither", "tree adds, wall", "CPU", "flow adds, wall", "CPU",
    )  # fmt: skip
    for one in found:
        seconds = [f"{one.costs[way].wall_s:.2f}" for way in WAYS]
        shares = _shares(one)
        made.add_row(one.program, *seconds, *(f"{share:+.1%}" for share in shares))
    columns = list(zip(*map(_shares, found), strict=True))
    made.add_row("mean", "", "", "", *(f"{statistics.fmean(column):+.1%}" for column in columns))
    made.add_row("worst", "", "", "", *(f"{max(column):+.1%}" for column in columns))
    return made
