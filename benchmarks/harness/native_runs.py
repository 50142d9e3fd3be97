"""Native runs of the suite's programs, each beside a reference loop, in rounds until some of them were undisturbed."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from foretrace.base.neighbours import DISTURBED, Alone, LoopSample, alone, counted, reading

from . import tools
from .machine_facts import pinned
from .reference_loop import ReferenceLoop

UNDISTURBED_RUNS = 3
"""So many are waited for."""
MOST_TIMES = 3
"""At most so many times the runs that were asked for are made."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A program to time: its command, and the start-up to take off, the start of Python and its imports."""

    name: str
    command: tuple[str, ...]
    start_up: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Cost of a run, slowdown of the reference loop beside it over its undisturbed time, and clock frequency."""

    cost: tools.Cost
    slowdown: float
    clock_hz: float

    @property
    def is_undisturbed(self) -> bool:
        """Whether no neighbour was noticed."""
        return self.slowdown < DISTURBED


@dataclass(frozen=True, slots=True)
class Measured:
    """Native runs: processor time of the shortest, how far the median lies above it, real time, time in the kernel.

    Starting Python and importing packages is taken off; it is no part of a script's signature. Runs beside a disturbed
    reference loop count only where there are no others. `reference_slowdown` is how many times longer the loop took
    beside the shortest run than undisturbed, and `clock_hz` the clock then. `alone` is what the runs tell of one
    without a neighbour, None where they tell too little.
    """

    shortest_s: float
    spread: float
    wall_s: float
    kernel_s: float
    runs: int
    undisturbed_runs: int = 0
    reference_slowdown: float = 1.0
    clock_hz: float | None = None
    alone: Alone | None = None

    @property
    def time_s(self) -> float:
        """Time of the program: the shortest run."""
        return self.shortest_s

    @property
    def time_clock_hz(self) -> float | None:
        """The clock at which it takes that."""
        return self.clock_hz


def measure_in_rounds(
    programs: Sequence[Timed], runs: int, loop: ReferenceLoop, progress: Callable[[str], None]
) -> dict[str, Measured]:
    """Each program once, then each once more, ...; by name. All stay on one core, as while a machine is calibrated.

    After `runs` rounds only those go on of which fewer than three runs were undisturbed, for twice as many rounds more.
    """
    found: dict[str, list[_Beside]] = {program.name: [] for program in programs}
    starts: dict[str, list[_Beside]] = {program.name: [] for program in programs}
    with pinned():
        for number in range(MOST_TIMES * runs):
            for program in programs:
                seen = _known(found[program.name], loop)
                if number >= runs and sum(run.is_undisturbed for run in seen) >= min(runs, UNDISTURBED_RUNS):
                    continue
                progress(f"{program.name}: native run {number + 1} of {max(runs, number + 1)}")
                found[program.name].append(_run(program.command, loop))
                if program.start_up:
                    starts[program.name].append(_run(program.start_up, loop))
    return {name: summarise(_known(found[name], loop), _known(starts[name], loop)) for name in found}


@dataclass(frozen=True, slots=True)
class _Beside:
    """Cost of a run, and samples of the loop beside it; how long that takes undisturbed is learnt meanwhile."""

    cost: tools.Cost
    samples: tuple[LoopSample, ...]


def _run(command: Sequence[str], loop: ReferenceLoop) -> _Beside:
    with loop.beside() as samples:
        cost = tools.measure(command)
    return _Beside(cost, tuple(samples))


def _known(runs: Sequence[_Beside], loop: ReferenceLoop) -> list[Run]:
    return [Run(run.cost, *reading(loop, run.samples)) for run in runs]


def summarise(runs: Sequence[Run], starts: Sequence[Run]) -> Measured:
    """Measured time of one program; `starts` are the runs to be taken off, if any."""
    start = min((run.cost for run in counted(starts)), key=lambda c: c.cpu_s, default=tools.Cost(0.0, 0.0, 0.0))
    costs = [run.cost for run in counted(runs)]
    shortest = min(counted(runs), key=lambda run: run.cost.cpu_s)
    shortest_s = shortest.cost.cpu_s - start.cpu_s
    above_s = statistics.median(cost.cpu_s for cost in costs) - shortest.cost.cpu_s
    return Measured(
        shortest_s=shortest_s,
        spread=above_s / shortest_s if shortest_s > 0 else 0.0,
        wall_s=min(cost.wall_s for cost in costs) - min((run.cost.wall_s for run in counted(starts)), default=0.0),
        kernel_s=max(shortest.cost.kernel_s - start.kernel_s, 0.0),
        runs=len(runs),
        undisturbed_runs=sum(run.is_undisturbed for run in runs),
        reference_slowdown=shortest.slowdown,
        clock_hz=shortest.clock_hz,
        alone=alone([(run.slowdown, run.cost.cpu_s - start.cpu_s) for run in runs]),
    )
