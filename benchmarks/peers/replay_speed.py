"""Speed of the replay's event loop next to SimPy's own, in the same run.

The rates of both are of processor time. SimPy's is that of plain timeouts, and that of request, timeout and release of
a resource, one process an entity, over a tenth as many events. Ours is of activities that end, each of which changes
the rates of all others: entities share cores, and memory bandwidth in eight classes of demand, and take locks.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import simpy

from foretrace.base.units import format_seconds
from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness.results import Part, ResultTable, times
from foretrace.replay.engine.outcome import Outcome
from foretrace.replay.engine.program import Barrier, Entity, Lock, Repeat, Run, Sharing, System, Unlock
from foretrace.replay.engine.simulation import simulate

ENTITIES, CORES, DEMANDS = 1000, 96, (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
_LOCKS = 32


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def simpy_timeouts_per_s(events: int) -> float:
    """Plain timeouts of `ENTITIES` processes."""

    def entity(environment: simpy.Environment, delay_s: float) -> Generator[simpy.Event, None, None]:
        for _ in range(events // ENTITIES):
            yield environment.timeout(delay_s)

    environment = simpy.Environment()
    for number in range(ENTITIES):
        environment.process(entity(environment, 1 + number / ENTITIES))
    return events / _seconds(environment.run)


def simpy_cycles_per_s(cycles: int) -> float:
    """Request, timeout and release of a resource with `CORES` places."""

    def entity(
        environment: simpy.Environment, cores: simpy.Resource, delay_s: float
    ) -> Generator[simpy.Event, None, None]:
        for _ in range(cycles // ENTITIES):
            with cores.request() as core:
                yield core
                yield environment.timeout(delay_s)

    environment = simpy.Environment()
    cores = simpy.Resource(environment, CORES)
    for number in range(ENTITIES):
        environment.process(entity(environment, cores, 1 + number / ENTITIES))
    return cycles / _seconds(environment.run)


def shared(activities: int, *, classes: int = len(DEMANDS)) -> tuple[System, list[Entity]]:
    """Entities with `activities` each, of random length: on shared cores and memory, and in locks."""
    generator = random.Random(1)
    memory = tuple(10.0 * min(users, 16) for users in range(1, CORES + 1))
    system = System(cores={"cores": CORES}, bandwidths={"memory": memory})
    kinds = [Sharing("cores", None, ("memory",) if demand else (), ((1.0, demand),)) for demand in DEMANDS[:classes]]
    entities = []
    for number in range(ENTITIES):
        runs = [Run(f"activity {n}", generator.uniform(0.5e-3, 1.5e-3), kinds[n % classes]) for n in range(9)]
        lock = f"lock {number % _LOCKS}"
        inside = (Lock(lock), Run("inside", generator.uniform(0.5e-5, 1.5e-5), kinds[0]), Unlock(lock))
        entities.append(Entity(str(number), (Repeat(activities // 10, (*runs, *inside)),)))
    return system, entities


def folded(iterations: int) -> tuple[System, list[Entity]]:
    """Four threads that meet at a barrier in each iteration, with a critical section."""
    core = Sharing("cores")
    entities = [
        Entity(
            str(number),
            (
                Repeat(
                    iterations,
                    (Run("a", 1e-6 * (1 + number), core), Lock("l"), Run("b", 1e-7, core), Unlock("l"), Barrier("all")),
                ),
            ),
        )
        for number in range(4)
    ]
    return System(cores={"cores": 4}, barriers={"all": 4}), entities


def _ours(what: tuple[System, list[Entity]], *, folding: bool) -> tuple[Outcome, float]:
    outcomes: list[Outcome] = []
    seconds = _seconds(lambda: outcomes.append(simulate(*what, most_segments=0, folding=folding)))
    return outcomes[0], seconds


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.quick(parser, "a tenth of the work")


def run(options: argparse.Namespace, _scratch: Path) -> Iterator[Part]:
    """The table, and what folding is worth."""
    activities = 1000 if options.quick else 10_000
    timeouts = simpy_timeouts_per_s(ENTITIES * activities // 10)
    cycles = simpy_cycles_per_s(ENTITIES * activities // 10)
    rows = [
        ["SimPy, plain timeouts", "", "", f"{timeouts / 1e6:.2f}", times(timeouts / cycles)],
        ["SimPy, a resource", "", "", f"{cycles / 1e6:.2f}", times(1.0)],
    ]
    for name, classes in (("replay, cores alone", 1), ("replay, cores, memory and locks", len(DEMANDS))):
        outcome, seconds = _ours(shared(activities, classes=classes), folding=False)
        rate = outcome.events / seconds
        rows.append([name, f"{outcome.events:,.0f}", f"{seconds:.1f}", f"{rate / 1e6:.2f}", times(rate / cycles)])
    headings = ("what", "events", "seconds", "M events/s", "over SimPy's cycles")
    yield ResultTable(f"{ENTITIES:,} entities, events a second", headings, rows)
    for iterations in (10**2, 10**9):
        outcome, seconds = _ours(folded(iterations), folding=True)
        yield (
            f"{iterations:,} iterations of four threads with a lock and a barrier: {format_seconds(seconds)}, "
            f"{outcome.events_simulated:,} events simulated one by one"
        )
