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
from .outcome import KINDS, Outcome
from .program import Entity, System

MOST_SEGMENTS = 1_000_000
MOST_EVENTS = 2_000_000_000
_MOST_NAMED = 8
_MOST_CALLS = 3
_REGISTERS = 4
CONSERVED = 1e-6
"""Rounding makes the work done differ from the work asked for; a larger share than this is a bug."""


class DeadlockError(PredictionError):
    """Deadlock: no entity can go on, and some are not done. `waits` has one line for each of these, `semaphores` the
    semaphores they wait for, in the order of the entities."""

    def __init__(self, message: str, waits: Sequence[str] = (), semaphores: Sequence[str] = ()) -> None:
        """The message in one line."""
        super().__init__(message)
        self.waits = tuple(waits)
        self.semaphores = tuple(semaphores)


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
            raise _error(status, compiled, engine)


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


def _error(status: int, compiled: Compiled, engine: _engine.Engine) -> PredictionError:
    if status == _engine.DEADLOCK:
        lines = (_waits_for(compiled, engine, number) for number in range(len(compiled.entities)))
        waits = [line for line in lines if line is not None]
        more = f"; and {len(waits) - _MOST_NAMED} more" if len(waits) > _MOST_NAMED else ""
        at = [engine.entity(number)[:3] for number in range(len(compiled.entities))]
        wanted = [
            compiled.objects[what] for place, kind, what in at if place == _engine.QUEUED and kind == _engine.AT_WAIT
        ]
        message = f"replay: deadlock after {engine.now:.6g} s: {'; '.join(waits[:_MOST_NAMED])}{more}"
        return DeadlockError(message, waits, wanted)
    who = compiled.entities[engine.called].name if engine.called >= 0 else ""
    if status == _engine.NOT_OWNED:
        operation = compiled.operations[engine.entity(engine.called)[6]]
        lock = compiled.objects[int(operation["a"])]
        return PredictionError(f"replay: {who} gives back lock {lock}, which it does not hold")
    if status == _engine.DISAGREE:
        return _disagreement(compiled, engine)
    if status in (_engine.NO_MEMBER, _engine.REQUEST_OPEN, _engine.NO_REQUEST):
        operation = compiled.operations[engine.entity(engine.called)[6]]
        what = compiled.labels[int(operation["label"])]
        if status == _engine.NO_MEMBER:
            return PredictionError(f"replay: {who} takes part in {what}, but is no member of its communicator")
        if status == _engine.REQUEST_OPEN:
            return PredictionError(f"replay: {who}: {what} is given request {operation['b']}, which is not awaited yet")
        return PredictionError(f"replay: {who}: {what} names a request that it does not have")
    if status == _engine.TOO_DEEP:
        return PredictionError(f"replay: {who} nests more than {_engine.MAX_NESTING} loops")
    return PredictionError(
        "replay: too many events to simulate one by one, and no repetition was found; replay a shorter run"
    )


def _disagreement(compiled: Compiled, engine: _engine.Engine) -> PredictionError:
    """Two members of a communicator take part in different collectives at the same time."""
    who, own, other, others = engine.disagreement()
    rows = [compiled.traffic.collectives[int(compiled.operations[at]["a"])] for at in (own, others)]
    roots = [f" with root {row['root']}" if rows[0]["root"] != rows[1]["root"] else "" for row in rows]
    said = [
        _collective(compiled, entity, at) + root
        for entity, at, root in zip((who, other), (own, others), roots, strict=True)
    ]
    return PredictionError(f"replay: {said[0]}, but {said[1]}")


def _collective(compiled: Compiled, entity: int, at: int) -> str:
    """What a member of a communicator takes part in: "rank 3 calls bcast of 8 bytes from rank 0 (main.c:12)"."""
    operation = compiled.operations[at]
    its = compiled.traffic.collectives[int(operation["a"])]
    size = "" if its["sizes_differ"] or its["first_count"] >= 0 else f" of {operation['x']:g} bytes"
    place = f" ({compiled.place_of(at)})" if compiled.place_of else ""
    return f"{compiled.entities[entity].name} calls {compiled.labels[int(operation['label'])]}{size}{place}"


def _waits_for(compiled: Compiled, engine: _engine.Engine, number: int) -> str | None:
    """One line on what an entity waits for in a deadlock; None if it is done."""
    place, kind, what, owner, count, _, _ = engine.entity(number)
    name = compiled.entities[number].name
    if place == _engine.DONE:
        return None
    if place == _engine.UNBORN:
        return f"{name} was never started"
    if place != _engine.QUEUED:
        return f"{name} makes no progress"
    if kind == _engine.AT_JOIN:
        return f"{name} waits for the end of {compiled.entities[what].name}"
    if kind == _engine.AT_TRANSFER:
        return f"{name} waits {_pending(compiled, engine, number)}"
    thing = compiled.objects[what]
    if kind == _engine.AT_LOCK:
        return f"{name} waits for lock {thing}, held by {compiled.entities[owner].name}"
    if kind == _engine.AT_BARRIER:
        return f"{name} waits at barrier {thing}, to which {count} of {compiled.system.barriers[thing]} came"
    if kind == _engine.AT_WAIT:
        return f"{name} waits for {thing}, which nobody posts"
    return f"{name} waits for {thing} ({KINDS[kind]})"


def _pending(compiled: Compiled, engine: _engine.Engine, number: int) -> str:
    """The messages that an entity waits for: "to send 100 bytes to rank 4 (tag 7)"."""
    calls = []
    requests = engine.pending(number)
    for is_send, peer, tag, communicator, size_bytes, label in requests[:_MOST_CALLS]:
        partner = "anybody" if peer < 0 else compiled.entities[peer].name
        what = f"to send {size_bytes:g} bytes to {partner}" if is_send else f"to receive from {partner}"
        if communicator < 0:
            calls.append(f"{what} ({compiled.labels[label]})")
        else:
            calls.append(f"{what} ({'any tag' if tag < 0 else f'tag {tag}'})")
    more = f" and {len(requests) - _MOST_CALLS} more messages" if len(requests) > _MOST_CALLS else ""
    return " and ".join(calls) + more
