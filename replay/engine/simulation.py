"""The simulation: an event loop of our own, hosted by one process of a SimPy environment.

SimPy's clock stands still while nothing else is due in its environment: the process yields `Timeout(next - now)` only
when SimPy has something earlier, or somebody must be asked. So other processes (a decision, a network, an arrival) can
take part at the right time, and all other events cost what the event loop in C does.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

import simpy

from foretrace.base.errors import PredictionError

from . import _engine
from .compiler import Compiled, compile_programs
from .failures import DeadlockError as DeadlockError
from .failures import failure
from .outcome import Outcome
from .program import Entity, System

MOST_SEGMENTS = 1_000_000
MOST_EVENTS = 2_000_000_000
_REGISTERS = 4
CONSERVED = 1e-6
"""Rounding makes the work done differ from the work asked for; a larger share than this is a bug."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A decision: the index of the choice in its `Offer`, and the times of that choice's `Timed` parts."""

    index: int
    times_s: tuple[float, ...] = ()


class Decide(Protocol):
    """Decides at an `Offer`."""

    def __call__(self, token: int, entity: int, now_s: float) -> Choice:
        """The choice for an entity that has reached the offer with this token."""
        ...


def simulate(
    system: System,
    entities: Sequence[Entity],
    *,
    decide: Decide | None = None,
    environment: simpy.Environment | None = None,
    most_segments: int = MOST_SEGMENTS,
    most_events: int = MOST_EVENTS,
    folding: bool = True,
) -> Outcome:
    """Run entities that share a system to their end.

    Args:
        system: what they share.
        entities: who runs, and their programs.
        decide: who is asked at offers.
        environment: the SimPy environment that hosts the simulation; its other processes take part. None: one of its
            own.
        most_segments: of the timeline; more are counted and left out.
        most_events: events that are simulated one by one at most.
        folding: whether repeated periods of loops are added up at once.

    Raises:
        DeadlockError: entities wait for each other, or for somebody who never comes.
        PredictionError: a program is wrong (see `compile_programs`), or needs more events than `most_events`.
    """
    compiled = compile_programs(system, entities)
    return run_compiled(
        compiled, decide=decide, environment=environment, most_segments=most_segments, most_events=most_events,
        folding=folding,
    )  # fmt: skip


def run_compiled(
    compiled: Compiled,
    *,
    decide: Decide | None = None,
    environment: simpy.Environment | None = None,
    most_segments: int = MOST_SEGMENTS,
    most_events: int = MOST_EVENTS,
    folding: bool = True,
) -> Outcome:
    """Simulate compiled programs; arguments and errors as of `simulate`."""
    engine = compiled.engine(most_segments=most_segments, most_events=most_events, folding=folding)
    where = environment or simpy.Environment()
    process = where.process(_host(where, compiled, engine, decide))
    where.run(until=process)
    outcome = Outcome.of(compiled, engine)
    exact = not outcome.periods_estimated  # a window's first and last activities may differ
    if exact and abs(outcome.work_done_s - outcome.work_s) > CONSERVED * outcome.work_s:
        raise PredictionError(
            f"replay: {outcome.work_done_s:.6g} s of work were done where {outcome.work_s:.6g} s were asked for"
        )
    if exact and abs(outcome.moved_bytes - outcome.sent_bytes) > CONSERVED * outcome.sent_bytes:
        raise PredictionError(
            f"replay: {outcome.moved_bytes:.6g} bytes were moved where {outcome.sent_bytes:.6g} were sent"
        )
    in_pairs = float(outcome.pair_traffic[:, 1].sum() + outcome.left_out_traffic[1])
    if abs(in_pairs - outcome.sent_bytes) > CONSERVED * outcome.sent_bytes:
        raise PredictionError(f"replay: {in_pairs:.6g} bytes of pairs where {outcome.sent_bytes:.6g} were sent")
    return outcome


def _host(
    environment: simpy.Environment, compiled: Compiled, engine: _engine.Engine, decide: Decide | None
) -> Generator[simpy.Event, None, None]:
    """The process that hosts the event loop."""
    while True:
        status = engine.advance(max(float(environment.peek()), engine.now))
        if status == _engine.PAUSED or engine.now > environment.now:  # somebody else is due, or may want to know
            yield environment.timeout(max(engine.now - environment.now, 0.0))
        if status == _engine.FINISHED:
            return
        if status == _engine.CALLED:
            _answer(compiled, engine, decide)
        elif status != _engine.PAUSED:
            raise failure(status, compiled, engine)


def _answer(compiled: Compiled, engine: _engine.Engine, decide: Decide | None) -> None:
    token = compiled.tokens[engine.call]
    if decide is None:
        raise PredictionError(f"replay: nobody decides about offer {token}")
    choice = decide(token, engine.called, engine.now)
    firsts = compiled.choices[engine.call]
    if not 0 <= choice.index < len(firsts) or len(choice.times_s) > _REGISTERS:
        raise PredictionError(f"replay: offer {token} has no choice {choice.index}")
    first, second, third, fourth = (*choice.times_s, *[0.0] * (_REGISTERS - len(choice.times_s)))
    if not all(math.isfinite(time_s) and time_s >= 0 for time_s in choice.times_s):
        raise PredictionError(f"replay: offer {token}: a decision's times are {choice.times_s}, must be times")
    engine.resume(engine.called, firsts[choice.index], (first, second, third, fourth))
