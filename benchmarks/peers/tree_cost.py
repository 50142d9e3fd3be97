"""Cost that the execution tree, its data flow and the windows in which dependences are looked for add to tracing.

The same programs are traced with all of them, without windows, with the tree alone and without, alternating.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.results import ResultTable

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
"""Share of the tracing time that the tree may take."""
FLOW_GOAL = 0.15
"""Share of the tracing time that the data flow may take, windows included."""


@dataclass(frozen=True, slots=True)
class TreeCost:
    """Medians of one program's whole traces, by way."""

    program: str
    costs: dict[str, tools.Cost]

    def share(self, clock: str) -> float:
        """Cost that the tree adds, as a share of tracing without it."""
        return self._added("tree", "neither", clock)

    def flow_share(self, clock: str) -> float:
        """Cost that the data flow adds, windows included, as a share of tracing with the tree."""
        return self._added("all", "tree", clock)

    def windows_share(self, clock: str) -> float:
        """The windows' part of that, as a share of the same."""
        return self.flow_share(clock) - self._added("flow", "tree", clock)

    def _added(self, way: str, reference: str, clock: str) -> float:
        return float(getattr(self.costs[way], clock) / getattr(self.costs[reference], clock) - 1)


PARTS = {"tree": TreeCost.share, "data flow": TreeCost.flow_share, "windows": TreeCost.windows_share}
"""Parts that are added: the data flow with its windows, and these alone."""


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


def _shares(one: TreeCost) -> tuple[float, ...]:
    return tuple(share(one, clock) for share in PARTS.values() for clock in ("wall_s", "cpu_s"))


def cost_table(found: Sequence[TreeCost]) -> ResultTable:
    """Seconds of all ways, and what the tree, the data flow and the windows add."""
    rows = []
    for one in found:
        seconds = [f"{one.costs[way].wall_s:.2f}" for way in WAYS]
        rows.append([one.program, *seconds, *(f"{share:+.1%}" for share in _shares(one))])
    columns = list(zip(*map(_shares, found), strict=True))
    blank = [""] * len(WAYS)
    rows.append(["mean", *blank, *(f"{statistics.fmean(column):+.1%}" for column in columns)])
    rows.append(["worst", *blank, *(f"{max(column):+.1%}" for column in columns)])
    added = ("tree adds, wall", "CPU", "flow adds, wall", "CPU", "of it windows, wall", "CPU")
    title = (
        f"Execution tree and data flow: seconds of a whole trace (median); they may add {GOAL:.0%} and {FLOW_GOAL:.0%}"
    )
    return ResultTable(title, ("program", *WAYS, *added), rows, [asdict(one) for one in found])
