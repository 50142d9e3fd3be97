"""Timeline programs as the arrays that the event loop reads (engine.h)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import PredictionError

from . import _engine
from .program import (
    ALGORITHMS,
    Await,
    Barrier,
    Broadcast,
    Collective,
    Entity,
    Join,
    Lock,
    Offer,
    Part,
    Post,
    Receive,
    Repeat,
    Run,
    Send,
    Sharing,
    Sleep,
    Spawn,
    Started,
    System,
    Timed,
    Unlock,
    Use,
    Wait,
    Waking,
)

OPERATION = np.dtype([("code", "i4"), ("a", "i4"), ("b", "i4"), ("label", "i4"), ("n", "i8"), ("x", "f8")])
START = np.dtype([(name, "i4") for name in ("first_operation", "job", "born", "node", "first_slot", "slots")])
CLASS = np.dtype([(name, "i4") for name in ("cores", "cache", "first_condition", "conditions", "first_use", "uses")])
MESSAGE = np.dtype([("peer", "i4"), ("tag", "i4"), ("communicator", "i4")])
COMMUNICATOR = np.dtype([("first_member", "i4"), ("members", "i4")])
COLLECTIVE = np.dtype(
    [(name, "i4") for name in ("algorithm", "communicator", "root", "first_count", "counts", "kind", "sizes_differ")]
)
_ANY = -1
_MOST_TAG = 2**31 - 1
MOST_REQUESTS = 1 << 20
"""Requests of an entity."""
MOST_PATH_LABELS = 256
"""Activities that the critical path tells apart; all others count as the last one."""

Ints = npt.NDArray[np.int32]
_Meant = str | Sharing | Send | Receive | Collective


@dataclass(slots=True)
class Traffic:
    """Tables that operations on messages refer to.

    Attributes:
        messages: (peer, tag, communicator) of each kind of message.
        communicators: (first member, members) of each; `members` are entities.
        collectives: (algorithm, communicator, root, first count, what counts are by, kind of operation, whether
            members may say different sizes) of each.
        counts: bytes by rank, or by pair of ranks, of collectives.
        slot_lists: requests that are awaited together.
    """

    messages: npt.NDArray[np.void]
    communicators: npt.NDArray[np.void]
    members: Ints
    collectives: npt.NDArray[np.void]
    counts: npt.NDArray[np.float64]
    slot_lists: Ints


@dataclass(slots=True)
class Compiled:
    """The arrays of a simulation, and what their numbers stand for.

    `choices` are the first operations of the choices of each `Offer`, by the number that the event loop calls with;
    `tokens` what the offers are called with. `place_of` says where an operation is from, such as a file and line.
    `names` are the labels without their places, if these have any. `path_bins` tells entities apart on the critical
    path: as many ranges of them, in order.
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
    uses: Ints
    resources: Ints
    units: Ints
    cores: npt.NDArray[np.float64]
    conditions: npt.NDArray[np.float64]
    points: npt.NDArray[np.float64]
    traffic: Traffic
    place_of: Callable[[int], str] | None = None
    names: tuple[str, ...] = ()
    path_bins: int = 0

    def engine(self, *, most_segments: int, most_events: int, folding: bool) -> _engine.Engine:
        """An event loop at time 0."""
        waking = self.system.waking
        traffic = self.traffic
        network, regimes = self.system.network.packed(self.first_link) if self.system.network else (b"", b"")
        return _engine.Engine(
            self.operations.tobytes(), self.starts.tobytes(), self.classes.tobytes(), self.uses.tobytes(),
            self.resources.tobytes(), self.units.tobytes(), self.cores.tobytes(), self.conditions.tobytes(),
            self.points.tobytes(), traffic.messages.tobytes(), traffic.communicators.tobytes(),
            traffic.members.tobytes(), traffic.collectives.tobytes(), traffic.counts.tobytes(),
            traffic.slot_lists.tobytes(), regimes, network, len(self.labels),
            min(len(self.labels), MOST_PATH_LABELS), self.path_bins, self.num_caches, self.num_jobs, most_segments,
            most_events, folding, waking.transfer_s, waking.latency_s, waking.call_s,
        )  # fmt: skip

    @property
    def first_link(self) -> int:
        """Number of the network's first link among the resources."""
        return len(self.system.bandwidths)


def compile_programs(system: System, entities: Sequence[Entity]) -> Compiled:
    """The arrays of entities that share a system.

    Raises:
        PredictionError: there is nobody, a name is used twice or not known, or a time is negative.
    """
    if not entities:
        raise PredictionError("replay: there is no entity to replay")
    return _Compiler(system, entities).compiled()


TRANSFER = "transfer of a cache line"
"""Activity of an entity that spun, from the event it waited for until it goes on."""
WAKING = "waking a thread"
"""Activity of an entity that slept, from its wake-up until it goes on; and of the waker, during the system call."""


@dataclass(slots=True)
class _Numbers:
    """Assigns numbers to names, in order of first use."""

    of_name: dict[str, int] = field(default_factory=dict)

    def of(self, name: str) -> int:
        return self.of_name.setdefault(name, len(self.of_name))


@dataclass(slots=True)
class _Code:
    """A program's operations, for all entities that run it.

    Attributes:
        operations: with jumps and decisions counted from the program's first ones. Field `a` is still open where a
            symbol stands for it.
        jumps: rows whose `a` is an operation.
        symbols: keys whose numbers an entity's names decide: (kind, name), a `Sharing` for activities, the part for
            messages and collectives.
        rows, symbol_of: the rows whose `a` is the number of a symbol, and that symbol.
        calls: rows whose `n` is a decision; `tokens` and `choices` of these decisions.
        lists: rows whose `a` is the first of `slot_lists`. `slots` is the number of requests of an entity.
    """

    operations: npt.NDArray[np.void]
    jumps: Ints
    symbols: list[tuple[str, _Meant]]
    rows: Ints
    symbol_of: Ints
    calls: Ints
    tokens: list[int]
    choices: list[tuple[int, ...]]
    lists: Ints
    slot_lists: list[int]
    slots: int


class _Coder:
    """Makes the code of a program."""

    def __init__(self, labels: _Numbers, waking: Waking) -> None:
        self.labels, self.waking = labels, waking
        self.rows: list[tuple[int, int, int, int, int, float]] = []
        self.jumps: list[int] = []
        self.symbols: dict[tuple[str, _Meant], int] = {}
        self.sharings: dict[int, int] = {}
        self.open: list[tuple[int, int]] = []
        self.calls: list[int] = []
        self.tokens: list[int] = []
        self.choices: list[tuple[int, ...]] = []
        self.lists: list[int] = []
        self.slot_lists: list[int] = []
        self.slots = 0

    def code(self, program: Sequence[Part]) -> _Code:
        self.body(program)
        self.add(_engine.END)
        rows, symbol_of = np.array(self.open, np.int32).reshape(-1, 2).T
        return _Code(
            operations=np.array(self.rows, OPERATION),
            jumps=np.array(self.jumps, np.int32),
            symbols=list(self.symbols),
            rows=rows,
            symbol_of=symbol_of,
            calls=np.array(self.calls, np.int32),
            tokens=self.tokens,
            choices=self.choices,
            lists=np.array(self.lists, np.int32),
            slot_lists=self.slot_lists,
            slots=self.slots,
        )

    def add(self, code: int, a: int = 0, *, b: int = 0, label: str | None = None, n: int = 0, x: float = 0.0) -> None:
        if not x >= 0 or x == float("inf"):
            raise PredictionError(f"replay: {label or 'an activity'} takes {x} s, must be a time")
        self.rows.append((code, a, b, self.labels.of(label) if label is not None else 0, n, x))

    def at(
        self, code: int, kind: str, name: str, *, b: int = 0, label: str | None = None, n: int = 0, x: float = 0.0
    ) -> None:
        """Add an operation on what a name stands for."""
        self.open.append((len(self.rows), self.symbols.setdefault((kind, name), len(self.symbols))))
        self.add(code, b=b, label=label, n=n, x=x)

    def body(self, program: Sequence[Part]) -> None:
        for part in program:
            self.part(part)

    def part(self, part: Part) -> None:
        match part:
            case Run(label, time_s, sharing):
                self.open.append((len(self.rows), self.sharing(sharing)))
                self.add(_engine.RUN, label=label, x=time_s)
            case Repeat(count, body):
                self.repeat(count, body)
            case Lock(name, sleeps) | Barrier(name, sleeps):
                code, kind = _OF_NAMES[type(part)]
                self.at(code, kind, name, b=int(sleeps), label=self.said_of(sleeps))
            case Unlock(name) | Broadcast(name):
                code, kind = _OF_NAMES[type(part)]
                self.at(code, kind, name, label=self.said_of(sleeps=True))
            case Post(name, units):
                self.at(_engine.POST, "semaphore", name, label=self.said_of(sleeps=True), n=units)
            case Wait(name, units, sleeps):
                self.at(_engine.WAIT, "semaphore", name, b=int(sleeps), label=self.said_of(sleeps), n=units)
            case Spawn(entity, sleeps) | Join(entity, sleeps):
                code = _engine.SPAWN if isinstance(part, Spawn) else _engine.JOIN
                self.at(code, "entity", entity, b=int(sleeps), label=self.said_of(sleeps))
            case Sleep(label, time_s):
                self.add(_engine.SLEEP, label=label, x=time_s)
            case Use(device, label, time_s):
                self.at(_engine.USE, "device", device, label=label, x=time_s)
            case Timed(device, label, slot):
                if device is None:
                    raise PredictionError(f"replay: {label}: a time decided later needs a device")
                self.at(_engine.USE, "device", device, b=slot + 1, label=label)
            case Offer(token, choices):
                self.offer(token, choices)
            case Send(_, size_bytes, label, request=request):
                self.on_message(_engine.SEND, part, label, request, size_bytes)
            case Receive(label=label, request=request):
                self.on_message(_engine.RECEIVE, part, label, request, part.room_bytes or 0.0)
            case Await(requests, any_one, label):
                if any(number < 1 for number in requests):
                    raise PredictionError(f"replay: {label}: requests are numbered from 1, not {min(requests)}")
                self.reserve(label, max(requests, default=0))
                self.lists.append(len(self.rows))
                first = len(self.slot_lists)
                self.slot_lists += [number - 1 for number in requests]
                self.add(_engine.AWAIT, first, b=int(any_one), label=label, n=len(requests) or -1)
            case Collective():
                self.collective(part)
            case Started(steps, request):
                if request < 1 or not steps or len({step.communicator for step in steps}) > 1:
                    raise PredictionError("replay: collectives beside an entity need a request, and one communicator")
                self.reserve(steps[0].label, request)
                self.collective(steps[0], request, len(steps))
                for step in steps[1:]:
                    self.collective(step)

    def collective(self, part: Collective, request: int = 0, steps: int = 0) -> None:
        self.check_sizes(part.label, part.size_bytes, *part.counts)
        self.open.append((len(self.rows), self.symbols.setdefault(("collective", part), len(self.symbols))))
        self.add(_engine.COLLECTIVE, b=request, label=part.label, n=steps, x=part.size_bytes)

    def on_message(self, code: int, part: Send | Receive, label: str, request: int, size_bytes: float) -> None:
        self.check_sizes(label, size_bytes)
        tag = part.tag
        if not (0 <= tag <= _MOST_TAG if tag is not None else isinstance(part, Receive)):
            raise PredictionError(f"replay: {label}: tag {tag}, must be 0 to {_MOST_TAG}")
        self.reserve(label, request)
        self.open.append((len(self.rows), self.symbols.setdefault(("message", part), len(self.symbols))))
        flag = part.synchronous if isinstance(part, Send) else part.room_bytes is not None
        self.add(code, b=request, label=label, n=int(flag), x=size_bytes)

    @staticmethod
    def check_sizes(label: str, *sizes_bytes: float) -> None:
        for size_bytes in sizes_bytes:
            if not 0 <= size_bytes < float("inf"):
                raise PredictionError(f"replay: {label}: a message of {size_bytes} bytes, must be a size")

    def reserve(self, label: str, request: int) -> None:
        if not 0 <= request <= MOST_REQUESTS:
            raise PredictionError(f"replay: {label}: request {request}, must be 0 to {MOST_REQUESTS}")
        self.slots = max(self.slots, request)

    def sharing(self, sharing: Sharing) -> int:
        number = self.sharings.get(id(sharing))  # by identity: most are the same object, and long
        if number is None:
            number = self.symbols.setdefault(("class", sharing), len(self.symbols))
            self.sharings[id(sharing)] = number
        return number

    def said_of(self, sleeps: bool) -> str | None:
        """Label of an entity's wake-up time; None where it takes none."""
        if sleeps:
            return WAKING if self.waking.latency_s or self.waking.call_s else None
        return TRANSFER if self.waking.transfer_s else None

    def repeat(self, count: int, body: Sequence[Part]) -> None:
        if count < 0:
            raise PredictionError(f"replay: a loop runs {count} times, must not be negative")
        first = len(self.rows)
        self.rows.append((_engine.LOOP, 0, 0, 0, count, 0.0))
        self.body(body)
        self.jumps += [first, len(self.rows)]
        self.add(_engine.NEXT, first + 1)
        self.rows[first] = (_engine.LOOP, len(self.rows), 0, 0, count, 0.0)

    def offer(self, token: int, choices: Sequence[Sequence[Part]]) -> None:
        number = len(self.choices)
        self.tokens.append(token)
        self.choices.append(())
        self.calls.append(len(self.rows))
        self.add(_engine.CALL, n=number)
        firsts, jumps = [], []
        for choice in choices:
            firsts.append(len(self.rows))
            self.body(choice)
            jumps.append(len(self.rows))
            self.add(_engine.JUMP)
        for jump in jumps:
            self.rows[jump] = (_engine.JUMP, len(self.rows), 0, 0, 0, 0.0)
        self.jumps += jumps
        self.choices[number] = tuple(firsts)


class _Compiler:
    def __init__(self, system: System, entities: Sequence[Entity]) -> None:
        self.system, self.entities = system, tuple(entities)
        self.labels = _Numbers()
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
        self.sharings: dict[Sharing, int] = {}
        self.alike: dict[int, int] = {}
        self.classes: dict[tuple[int, str | None, tuple[str, ...]], int] = {}
        self.first_conditions: list[int] = []
        self.conditions: list[tuple[float, float]] = []
        self.class_rows: list[tuple[int, int, int, int, int, int]] = []
        self.uses: list[int] = []
        self.operations: list[npt.NDArray[np.void]] = []
        self.num_operations = 0
        self.tokens: list[int] = []
        self.choices: list[tuple[int, ...]] = []
        self.messages: dict[tuple[int, int, int], int] = {}
        self.communicators = {name: number for number, name in enumerate(system.communicators)}
        self.members = {name: frozenset(members) for name, members in system.communicators.items()}
        self.collectives: dict[tuple[int, int, int, tuple[float, ...], str], int] = {}
        self.slot_lists: list[int] = []

    def compiled(self) -> Compiled:
        self.number_labels()
        starts = []
        num_slots = 0
        codes: dict[int, _Code] = {}  # alike entities share theirs
        bound: dict[tuple[int, int], int] = {}
        jobs = _Numbers()
        self.check_ranks()
        for entity in self.entities:
            which = id(entity.program), id(entity.names) if entity.names else 0
            if which not in bound:
                if which[0] not in codes:
                    codes[which[0]] = _Coder(self.labels, self.system.waking).code(entity.program)
                bound[which] = self.bind(codes[which[0]], entity.names)
            slots = codes[which[0]].slots
            starts.append((bound[which], jobs.of(str(entity.job)), int(entity.born), entity.node, num_slots, slots))
            num_slots += slots
        points = [np.array(curve, np.float64) for curve in self.system.bandwidths.values()]
        if self.system.network:
            points += [*self.system.network.capacities.reshape(-1, 1)]
        firsts = np.cumsum([0, *(len(curve) for curve in points)])
        objects = tuple(self.objects)
        return Compiled(
            system=self.system,
            entities=self.entities,
            labels=tuple(self.labels.of_name) or ("",),
            objects=tuple(name for _, name in objects),
            object_kinds=tuple(kind for kind, _ in objects),
            groups=tuple(self.groups),
            bandwidths=(*self.bandwidths, *(self.system.network.topology.links() if self.system.network else ())),
            tokens=tuple(self.tokens),
            choices=tuple(self.choices),
            num_caches=len(self.caches),
            num_jobs=max(len(jobs.of_name), 1),
            operations=np.concatenate(self.operations),
            starts=np.array(starts, START),
            classes=np.array(self.class_rows, CLASS),
            uses=np.array(self.uses, np.int32),
            resources=np.array([(int(f), len(c)) for f, c in zip(firsts, points, strict=False)], np.int32),
            units=np.array([self.units_of(kind, name) for kind, name in objects], np.int32),
            cores=np.array(list(self.system.cores.values()), np.float64),
            conditions=np.array(self.conditions, np.float64),
            points=np.concatenate(points) if points else np.zeros(0),
            traffic=self.traffic(),
        )

    def check_ranks(self) -> None:
        """Check who is where in the network, and in communicators."""
        for name, members in self.system.communicators.items():
            if not members:
                raise PredictionError(f"replay: communicator {name} has no members")
            for member in members:
                self.entity(member)
            if len(self.members[name]) < len(members):
                twice = next(member for member, count in Counter(members).items() if count > 1)
                raise PredictionError(f"replay: communicator {name} has {twice} twice")
        if self.system.network is None:
            return
        nodes = self.system.network.topology.nodes
        for entity in self.entities:
            if not 0 <= entity.node < nodes:
                raise PredictionError(f"replay: {entity.name} is on node {entity.node} of a network of {nodes}")

    def traffic(self) -> Traffic:
        members = [[self.entity(name) for name in names] for names in self.system.communicators.values()]
        firsts = np.cumsum([0, *map(len, members)])
        counts = np.cumsum([0, *(len(key[3]) for key in self.collectives)])
        collectives = [
            (
                *key[:3],
                int(first) if key[3] else -1,
                _engine.COUNTS_OF_PAIRS if len(key[3]) > len(members[key[1]]) else _engine.COUNTS_FROM,
                self.labels.of(key[4]),
                0,
            )
            for key, first in zip(self.collectives, counts, strict=False)
        ]
        return Traffic(
            messages=np.array([*self.messages], MESSAGE),
            communicators=np.array([(int(f), len(m)) for f, m in zip(firsts, members, strict=False)], COMMUNICATOR),
            members=np.array([entity for each in members for entity in each], np.int32),
            collectives=np.array(collectives, COLLECTIVE),
            counts=np.array([count for key in self.collectives for count in key[3]], np.float64),
            slot_lists=np.array(self.slot_lists, np.int32),
        )

    def number_labels(self) -> None:
        """Number the activities by descending time, as the critical path has a limited number of names. Wake-ups
        always have one."""
        waking = self.system.waking
        if waking.latency_s or waking.call_s:
            self.labels.of(WAKING)
        if waking.transfer_s:
            self.labels.of(TRANSFER)
        seconds: dict[str, float] = defaultdict(float)
        programs = {id(entity.program): entity.program for entity in self.entities}
        for program, count in Counter(id(entity.program) for entity in self.entities).items():
            _add_times(programs[program], float(count), seconds)
        for label in sorted(seconds, key=lambda name: -seconds[name]):
            self.labels.of(label)

    def units_of(self, kind: str, name: str) -> tuple[int, int]:
        """Capacity of an object, and the units posted at the start."""
        if kind == "semaphore":
            return 1, self.system.semaphores.get(name, 0)
        given: Mapping[str, int] = {"device": self.system.devices, "barrier": self.system.barriers}.get(kind, {})
        return given.get(name, 1), 0

    def bind(self, code: _Code, names: Mapping[str, str]) -> int:
        """Add a program's operations, shared by entities that bind its names alike. Returns the first one's number."""
        first, operations = self.num_operations, code.operations.copy()
        numbers = np.array([self.number(kind, what, names) for kind, what in code.symbols], np.int32)
        operations["a"][code.rows] = numbers[code.symbol_of]
        operations["a"][code.jumps] += first
        operations["n"][code.calls] += len(self.choices)
        operations["a"][code.lists] += len(self.slot_lists)
        self.slot_lists += code.slot_lists
        self.tokens += code.tokens
        self.choices += [tuple(at + first for at in choice) for choice in code.choices]
        self.operations.append(operations)
        self.num_operations += len(operations)
        return first

    def number(self, kind: str, what: _Meant, names: Mapping[str, str]) -> int:
        match what:
            case Sharing():
                return self.class_of(what, names)
            case Send(to, _, _, tag, communicator):
                return self.message(names.get(to, to), tag, names.get(communicator, communicator))
            case Receive(sender, _, tag, communicator):
                sender = None if sender is None else names.get(sender, sender)
                return self.message(sender, _ANY if tag is None else tag, names.get(communicator, communicator))
            case Collective():
                return self.collective(what, names)
        name = names.get(what, what)
        return self.entity(name) if kind == "entity" else self.object(kind, name)

    def communicator(self, name: str) -> int:
        if name not in self.communicators:
            raise PredictionError(f"replay: the system has no communicator {name}")
        return self.communicators[name]

    def message(self, peer: str | None, tag: int, communicator: str) -> int:
        if self.system.network is None:
            raise PredictionError("replay: the system has no network for messages")
        key = _ANY if peer is None else self.entity(peer), tag, self.communicator(communicator)
        if peer is not None and peer not in self.members[communicator]:
            raise PredictionError(f"replay: communicator {communicator} has no member {peer}")
        return self.messages.setdefault(key, len(self.messages))

    def collective(self, part: Collective, names: Mapping[str, str]) -> int:
        communicator = names.get(part.communicator, part.communicator)
        number = self.communicator(communicator)
        ranks = len(self.system.communicators[communicator])
        if self.system.network is None:
            raise PredictionError("replay: the system has no network for collectives")
        if part.algorithm not in ALGORITHMS:
            raise PredictionError(f"replay: there is no algorithm {part.algorithm}; there are {', '.join(ALGORITHMS)}")
        if not 0 <= part.root < ranks:
            raise PredictionError(f"replay: {part.label}: communicator {communicator} has no rank {part.root}")
        if part.counts and len(part.counts) not in (ranks, ranks * ranks):
            raise PredictionError(f"replay: {part.label}: {len(part.counts)} counts for {ranks} ranks")
        if part.algorithm == "exclusive-or" and ranks & (ranks - 1):
            raise PredictionError(f"replay: {part.label}: {ranks} ranks are no power of two, as exclusive-or needs")
        key = ALGORITHMS.index(part.algorithm), number, part.root, part.counts, part.label
        return self.collectives.setdefault(key, len(self.collectives))

    def object(self, kind: str, name: str) -> int:
        if (kind, name) not in self.objects and kind in ("device", "barrier"):
            raise PredictionError(f"replay: the system has no {kind} {name}")
        return self.objects.setdefault((kind, name), len(self.objects))

    def entity(self, name: str) -> int:
        if name not in self.entity_numbers:
            raise PredictionError(f"replay: there is no entity {name}")
        return self.entity_numbers[name]

    def class_of(self, sharing: Sharing, names: Mapping[str, str]) -> int:
        alike = self.alike.get(id(sharing))
        if alike is None:
            alike = self.alike[id(sharing)] = self.sharings.setdefault(sharing, len(self.sharings))
            if alike == len(self.first_conditions):
                self.first_conditions.append(len(self.conditions))
                self.conditions += sharing.conditions
        cache = None if sharing.cache is None else names.get(sharing.cache, sharing.cache)
        resources = tuple(names.get(name, name) for name in sharing.resources)
        number = self.classes.get((alike, cache, resources))
        if number is not None:
            return number
        for what, name, known in (("cores", sharing.cores, self.groups), ("cache", cache, self.caches)):
            if name is not None and name not in known:
                raise PredictionError(f"replay: the system has no {what} {name}")
        for name in resources:
            if name not in self.bandwidths:
                raise PredictionError(f"replay: the system has no bandwidth {name}")
        row = (
            -1 if sharing.cores is None else self.groups[sharing.cores],
            -1 if cache is None else self.caches[cache],
            self.first_conditions[alike],
            len(sharing.conditions),
            len(self.uses),
            len(resources),
        )
        self.uses += [self.bandwidths[name] for name in resources]
        self.class_rows.append(row)
        return self.classes.setdefault((alike, cache, resources), len(self.classes))


def _add_times(program: Sequence[Part], times: float, seconds: dict[str, float]) -> None:
    """Add the seconds of each activity of a program that runs `times` times, each activity at full speed."""
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
