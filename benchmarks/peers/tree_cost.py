"""What the execution tree, its data flow and the windows in which dependences are looked for add to tracing: the same
programs traced with all of them, without windows, with the tree alone and without, alternating."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.tables import table

from .tracing_cost import median

WAYS = {"all": (), "flow": ("--no-windows",), "tree": ("--no-data-flow",), "neither": ("--no-tree",)}
"""Each with the options for it; each records less than the one before."""
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
"""The same for the data flow, windows included."""


@dataclass(frozen=True, slots=True)
class TreeCost:
    """Medians of one program's whole traces, by way."""

    program: str
    costs: dict[str, tools.Cost]

    def share(self, clock: str) -> float:
        """What the tree adds, as a share of tracing without it."""
        return self._added("tree", "neither", clock)

    def flow_share(self, clock: str) -> float:
        """What the data flow adds, windows included, as a share of tracing with the tree."""
        return self._added("all", "tree", clock)

    def windows_share(self, clock: str) -> float:
        """The windows' part of that, as a share of the same."""
        return self.flow_share(clock) - self._added("flow", "tree", clock)

    def _added(self, way: str, reference: str, clock: str) -> float:
        return float(getattr(self.costs[way], clock) / getattr(self.costs[reference], clock) - 1)


PARTS = {"tree": TreeCost.share, "data flow": TreeCost.flow_share, "windows": TreeCost.windows_share}
"""What is added: the data flow with its windows, and these alone."""


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
    commands = {way: [*command[:split], *options, *command[split:]] for way, options in WAYS.items()}
    for _ in range(repetitions):
        for way, taken in runs.items():
            taken.append(tools.measure(commands[way]))
    return TreeCost(workload.name, {way: median(taken) for way, taken in runs.items()})


def summary(found: Sequence[TreeCost], part: str, clock: str) -> dict[str, float]:
    """Mean and worst share of one of the `PARTS`."""
    shares = [PARTS[part](one, clock) for one in found]
    return {"mean": statistics.fmean(shares), "worst": max(shares)}


def _shares(one: TreeCost) -> tuple[float, ...]:
    return tuple(share(one, clock) for share in PARTS.values() for clock in ("wall_s", "cpu_s"))


def cost_table(found: Sequence[TreeCost]) -> Table:
    """Seconds of all ways, and what the tree, the data flow and the windows add."""
    made = table(
        f"Execution tree and data flow: seconds of a whole trace (median); they may add {GOAL:.0%} and {FLOW_GOAL:.0%}",
        "program", *WAYS, "tree adds, wall", "CPU", "flow adds, wall", "CPU", "of it windows, wall", "CPU",
    )  # fmt: skip
    for one in found:
        seconds = [f"{one.costs[way].wall_s:.2f}" for way in WAYS]
        shares = _shares(one)
        made.add_row(one.program, *seconds, *(f"{share:+.1%}" for share in shares))
    columns = list(zip(*map(_shares, found), strict=True))
    blank = [""] * len(WAYS)
    made.add_row("mean", *blank, *(f"{statistics.fmean(column):+.1%}" for column in columns))
    made.add_row("worst", *blank, *(f"{max(column):+.1%}" for column in columns))
    return made
