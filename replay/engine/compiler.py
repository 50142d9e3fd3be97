"""Timeline programs as the arrays that the event loop reads (engine.h)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from foretrace.errors import PredictionError

from . import _engine
from .program import (
    Barrier,
    Broadcast,
    Entity,
    Join,
    Lock,
    Offer,
    Part,
    Post,
    Repeat,
    Run,
    Sharing,
    Sleep,
    Spawn,
    System,
    Timed,
    Unlock,
    Use,
    Wait,
)

_OPERATION = np.dtype([("code", "i4"), ("a", "i4"), ("b", "i4"), ("label", "i4"), ("n", "i8"), ("x", "f8")])
_START = np.dtype([("first_operation", "i4"), ("job", "i4"), ("born", "i4")])
_CLASS = np.dtype(
    [("cores", "i4"), ("cache", "i4"), ("first_condition", "i4"), ("conditions", "i4"), ("uses", "i4", 2)]
)
MOST_PATH_LABELS = 256
"""Activities that the critical path tells apart; all others count as the last one."""
_MOST_USES = 2

Ints = npt.NDArray[np.int32]


@dataclass(slots=True)
class Compiled:
    """The arrays of a simulation, and what their numbers stand for.

    `choices` are the first operations of the choices of each `Offer`, by the number that the event loop calls with;
    `tokens` what the offers are called with.
    """

    system: System
    entities: tuple[Entity, ...]
    labels: tuple[str, ...]
    objects: tuple[str, ...]
    object_kinds: tuple[str, ...]
    groups: tuple[str, ...]
    bandwidths: tuple[str, ...]
    tokens: tuple[int, ...]
    choices: tuple[tuple[int, ...], ...]
    num_caches: int
    num_jobs: int
    operations: npt.NDArray[np.void]
    starts: npt.NDArray[np.void]
    classes: npt.NDArray[np.void]
    resources: Ints
    units: Ints
    cores: npt.NDArray[np.float64]
    conditions: npt.NDArray[np.float64]
    points: npt.NDArray[np.float64]

    def engine(self, *, most_segments: int, most_events: int, folding: bool) -> _engine.Engine:
        """An event loop at time 0."""
        waking = self.system.waking
        return _engine.Engine(
            self.operations.tobytes(), self.starts.tobytes(), self.classes.tobytes(), self.resources.tobytes(),
            self.units.tobytes(), self.cores.tobytes(), self.conditions.tobytes(), self.points.tobytes(),
            len(self.labels), min(len(self.labels), MOST_PATH_LABELS), self.num_caches, self.num_jobs, most_segments,
            most_events, folding, waking.transfer_s, waking.latency_s, waking.call_s,
        )  # fmt: skip


def compile_programs(system: System, entities: Sequence[Entity]) -> Compiled:
    """The arrays of entities that share a system.

    Raises:
        PredictionError: there is nobody, a name is used twice or not known, or a time is negative.
    """
    if not entities:
        raise PredictionError("replay: there is no entity to replay")
    if len(system.bandwidths) > _engine.MAX_RESOURCES:
        raise PredictionError(
            f"replay: {len(system.bandwidths)} shared resources, more than the {_engine.MAX_RESOURCES} there can be; "
            "replay fewer copies"
        )
    return _Compiler(system, entities).compiled()


TRANSFER = "transfer of a cache line"
"""Activity of an entity that spun, from when what it waited for happened."""
WAKING = "waking a thread"
"""Activity of an entity that slept, from when it was woken; and of the one that wakes, while it calls the system."""


@dataclass(slots=True)
class _Names:
    """Numbers of names, in the order in which they came."""

    numbers: dict[str, int] = field(default_factory=dict)

    def of(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))


class _Compiler:
    def __init__(self, system: System, entities: Sequence[Entity]) -> None:
        self.system, self.entities = system, tuple(entities)
        self.rows: list[tuple[int, int, int, int, int, float]] = []
        self.labels = _Names()
        self.groups = {name: number for number, name in enumerate(system.cores)}
        self.caches = {name: number for number, name in enumerate(system.caches)}
        self.bandwidths = {name: number for number, name in enumerate(system.bandwidths)}
        self.entity_numbers = {entity.name: number for number, entity in enumerate(self.entities)}
        if len(self.entity_numbers) < len(self.entities):
            raise PredictionError("replay: two entities have the same name")
        self.objects: dict[tuple[str, str], int] = {}
        for kind, names in (("device", system.devices), ("barrier", system.barriers)):
            for name in names:
                self.objects[kind, name] = len(self.objects)
        self.classes: dict[Sharing, int] = {}
        self.conditions: list[tuple[float, float]] = []
        self.class_rows: list[tuple[int, int, int, int, tuple[int, int]]] = []
        self.tokens: list[int] = []
        self.choices: list[tuple[int, ...]] = []

    def compiled(self) -> Compiled:
        self.number_labels()
        starts = []
        programs: dict[tuple[Part, ...], int] = {}  # alike entities share theirs
        jobs = _Names()
        for entity in self.entities:
            first = programs.get(entity.program)
            if first is None:
                first = programs[entity.program] = len(self.rows)
                self.body(entity.program)
                self.add(_engine.END)
            starts.append((first, jobs.of(str(entity.job)), int(entity.born)))
        points = [np.array(curve, np.float64) for curve in self.system.bandwidths.values()]
        firsts = np.cumsum([0, *(len(curve) for curve in points)])
        objects = tuple(self.objects)
        return Compiled(
            system=self.system,
            entities=self.entities,
            labels=tuple(self.labels.numbers) or ("",),
            objects=tuple(name for _, name in objects),
            object_kinds=tuple(kind for kind, _ in objects),
            groups=tuple(self.groups),
            bandwidths=tuple(self.bandwidths),
            tokens=tuple(self.tokens),
            choices=tuple(self.choices),
            num_caches=len(self.caches),
            num_jobs=max(len(jobs.numbers), 1),
            operations=np.array(self.rows, _OPERATION),
            starts=np.array(starts, _START),
            classes=np.array(self.class_rows, _CLASS),
            resources=np.array([(int(f), len(c)) for f, c in zip(firsts, points, strict=False)], np.int32),
            units=np.array([self.units_of(kind, name) for kind, name in objects], np.int32),
            cores=np.array(list(self.system.cores.values()), np.float64),
            conditions=np.array(self.conditions, np.float64),
            points=np.concatenate(points) if points else np.zeros(0),
        )

    def number_labels(self) -> None:
        """Activities of most time come first: the critical path has a limited number of names."""
        seconds: dict[str, float] = defaultdict(float)
        for program, count in Counter(entity.program for entity in self.entities).items():
            _add_times(program, float(count), seconds)
        for label in sorted(seconds, key=lambda name: -seconds[name]):
            self.labels.of(label)

    def units_of(self, kind: str, name: str) -> tuple[int, int]:
        """Units of an object, and those of it that are posted at the start."""
        if kind == "semaphore":
            return 1, self.system.semaphores.get(name, 0)
        given: Mapping[str, int] = {"device": self.system.devices, "barrier": self.system.barriers}.get(kind, {})
        return given.get(name, 1), 0

    def add(self, code: int, a: int = 0, *, b: int = 0, label: str | None = None, n: int = 0, x: float = 0.0) -> None:
        if not x >= 0 or x == float("inf"):
            raise PredictionError(f"replay: {label or 'an activity'} takes {x} s, must be a time")
        self.rows.append((code, a, b, self.labels.of(label) if label is not None else 0, n, x))

    def body(self, program: Sequence[Part]) -> None:
        for part in program:
            self.part(part)

    def part(self, part: Part) -> None:
        match part:
            case Run(label, time_s, sharing):
                self.add(_engine.RUN, self.class_of(sharing), label=label, x=time_s)
            case Repeat(count, body):
                self.repeat(count, body)
            case Lock(name, sleeps) | Barrier(name, sleeps):
                code, kind = _OF_NAMES[type(part)]
                self.add(code, self.object(kind, name), b=int(sleeps), label=self.said_of(sleeps))
            case Unlock(name) | Broadcast(name):
                code, kind = _OF_NAMES[type(part)]
                self.add(code, self.object(kind, name), label=self.said_of(sleeps=True))
            case Post(name, units):
                self.add(_engine.POST, self.object("semaphore", name), label=self.said_of(sleeps=True), n=units)
            case Wait(name, units, sleeps):
                what = self.object("semaphore", name)
                self.add(_engine.WAIT, what, b=int(sleeps), label=self.said_of(sleeps), n=units)
            case Spawn(entity, sleeps) | Join(entity, sleeps):
                code = _engine.SPAWN if isinstance(part, Spawn) else _engine.JOIN
                self.add(code, self.entity(entity), b=int(sleeps), label=self.said_of(sleeps))
            case Sleep(label, time_s):
                self.add(_engine.SLEEP, label=label, x=time_s)
            case Use(device, label, time_s):
                self.add(_engine.USE, self.object("device", device), label=label, x=time_s)
            case Timed(device, label, slot):
                if device is None:
                    raise PredictionError(f"replay: {label}: a time decided later needs a device")
                self.add(_engine.USE, self.object("device", device), b=slot + 1, label=label)
            case Offer(token, choices):
                self.offer(token, choices)

    def said_of(self, sleeps: bool) -> str | None:
        """What an entity does until it goes on; None where that takes no time."""
        waking = self.system.waking
        if sleeps:
            return WAKING if waking.latency_s or waking.call_s else None
        return TRANSFER if waking.transfer_s else None

    def repeat(self, count: int, body: Sequence[Part]) -> None:
        if count < 0:
            raise PredictionError(f"replay: a loop runs {count} times, must not be negative")
        first = len(self.rows)
        self.rows.append((_engine.LOOP, 0, 0, 0, count, 0.0))
        self.body(body)
        self.add(_engine.NEXT, first + 1)
        self.rows[first] = (_engine.LOOP, len(self.rows), 0, 0, count, 0.0)

    def offer(self, token: int, choices: Sequence[Sequence[Part]]) -> None:
        number = len(self.choices)
        self.tokens.append(token)
        self.choices.append(())
        self.add(_engine.CALL, n=number)
        firsts, jumps = [], []
        for choice in choices:
            firsts.append(len(self.rows))
            self.body(choice)
            jumps.append(len(self.rows))
            self.add(_engine.JUMP)
        for jump in jumps:
            self.rows[jump] = (_engine.JUMP, len(self.rows), 0, 0, 0, 0.0)
        self.choices[number] = tuple(firsts)

    def object(self, kind: str, name: str) -> int:
        if (kind, name) not in self.objects and kind in ("device", "barrier"):
            raise PredictionError(f"replay: the system has no {kind} {name}")
        return self.objects.setdefault((kind, name), len(self.objects))

    def entity(self, name: str) -> int:
        if name not in self.entity_numbers:
            raise PredictionError(f"replay: there is no entity {name} to begin or to wait for")
        return self.entity_numbers[name]

    def class_of(self, sharing: Sharing) -> int:
        number = self.classes.get(sharing)
        if number is not None:
            return number
        for what, name, known in (("cores", sharing.cores, self.groups), ("cache", sharing.cache, self.caches)):
            if name is not None and name not in known:
                raise PredictionError(f"replay: the system has no {what} {name}")
        for name in sharing.resources:
            if name not in self.bandwidths:
                raise PredictionError(f"replay: the system has no bandwidth {name}")
        uses = [self.bandwidths[name] for name in sharing.resources] + [-1] * (_MOST_USES - len(sharing.resources))
        row = (
            -1 if sharing.cores is None else self.groups[sharing.cores],
            -1 if sharing.cache is None else self.caches[sharing.cache],
            len(self.conditions),
            len(sharing.conditions),
            (uses[0], uses[1]),
        )
        self.conditions += sharing.conditions
        self.class_rows.append(row)
        return self.classes.setdefault(sharing, len(self.classes))


def _add_times(program: Sequence[Part], times: float, seconds: dict[str, float]) -> None:
    """Add the seconds of each activity of a program that runs that many times, each alone."""
    for part in program:
        match part:
            case Run(label, time_s) | Sleep(label, time_s) | Use(_, label, time_s):
                seconds[label] += time_s * times
            case Repeat(count, body):
                _add_times(body, times * count, seconds)
            case Offer(_, choices):
                _add_times(choices[0], times, seconds)
            case _:
                pass


_OF_NAMES = {
    Barrier: (_engine.BARRIER, "barrier"),
    Lock: (_engine.LOCK, "lock"),
    Unlock: (_engine.UNLOCK, "lock"),
    Broadcast: (_engine.BROADCAST, "semaphore"),
}
