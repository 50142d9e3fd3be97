"""Why a simulation cannot go on: deadlocks with what each entity waits for, programs that do not fit each other."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.base.errors import PredictionError

from . import _engine
from .compiler import Compiled
from .outcome import KINDS

_MOST_NAMED = 8
_MOST_CALLS = 3


class DeadlockError(PredictionError):
    """Deadlock: no entity can go on, and some are not done. `waits` has one line for each of these, `semaphores` the
    semaphores they wait for, in the order of the entities."""

    def __init__(self, message: str, waits: Sequence[str] = (), semaphores: Sequence[str] = ()) -> None:
        """The message in one line."""
        super().__init__(message)
        self.waits = tuple(waits)
        self.semaphores = tuple(semaphores)


def failure(status: int, compiled: Compiled, engine: _engine.Engine) -> PredictionError:
    """Failure of a simulation that ended with a status, in one line."""
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
    if status == _engine.TRUNCATED:
        sender, sends, size_bytes, receiver, receives, room_bytes = engine.truncation()
        to, by = compiled.entities[receiver].name, compiled.entities[sender].name
        return PredictionError(
            f"replay: {to} has room for {room_bytes:g} bytes{_place(compiled, receives)}, but {by} sends "
            f"{size_bytes:g}{_place(compiled, sends)}: message truncated"
        )
    if status == _engine.DISAGREE:
        return _disagreement(compiled, engine)
    if status in (_engine.NO_MEMBER, _engine.REQUEST_OPEN, _engine.NO_REQUEST):
        operation = compiled.operations[engine.entity(engine.called)[6]]
        what = _name(compiled, int(operation["label"])) + _place(compiled, engine.entity(engine.called)[6])
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
    """Collective that a member of a communicator calls: "rank 3 calls bcast of 8 bytes at main.c:12"."""
    operation = compiled.operations[at]
    its = compiled.traffic.collectives[int(operation["a"])]
    size = "" if its["sizes_differ"] or its["first_count"] >= 0 else f" of {operation['x']:g} bytes"
    name = _name(compiled, int(operation["label"]))
    return f"{compiled.entities[entity].name} calls {name}{size}{_place(compiled, at)}"


def _name(compiled: Compiled, label: int) -> str:
    return (compiled.names or compiled.labels)[label]


def _place(compiled: Compiled, operation: int) -> str:
    """Place of an operation in its source: " at main.c:12"."""
    place = compiled.place_of(operation) if compiled.place_of else ""
    return f" at {place}" if place else ""


def _waits_for(compiled: Compiled, engine: _engine.Engine, number: int) -> str | None:
    """One line on what an entity waits for in a deadlock; None if it is done."""
    place, kind, what, owner, count, _, operation = engine.entity(number)
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
        return f"{name} waits {_pending(compiled, engine, number)}{_place(compiled, operation)}"
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
            calls.append(f"{what} ({_name(compiled, label)})")
        else:
            calls.append(f"{what} ({'any tag' if tag < 0 else f'tag {tag}'})")
    more = f" and {len(requests) - _MOST_CALLS} more messages" if len(requests) > _MOST_CALLS else ""
    return " and ".join(calls) + more
