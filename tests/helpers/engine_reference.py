"""A slow, obvious replay of timeline programs: what the event loop in C must agree with.

Every entity is a Python generator that walks its tree. After each event all rates are worked out again, flow by flow,
and every entity's remaining work is lowered. Nothing is folded. Entities whose work ends at one instant go on in order
of their numbers.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from foretrace.replay.engine.program import (
    Barrier,
    Broadcast,
    Join,
    Lock,
    Post,
    Repeat,
    Run,
    Sharing,
    Sleep,
    Spawn,
    Unlock,
    Use,
    Wait,
)


def progressive_filling(asked, ways, capacities, steps=20_000):
    """Max-min fair rates: all flows grow by small steps until they have what they asked for or a resource is full."""
    given = np.zeros(len(asked))
    growing = np.array([want > 0 for want in asked])
    step = max([*asked, 1e-300]) / steps
    while growing.any():
        for i in np.flatnonzero(growing):
            used = [sum(given[j] for j in range(len(asked)) if r in ways[j]) for r in range(len(capacities))]
            more = min(step, asked[i] - given[i], *[capacities[r] - used[r] for r in ways[i]])
            given[i] += max(more, 0)
            growing[i] = more >= step
    return given


def exact_filling(asked, ways, capacities):
    """The same by levels: the lowest level at which a flow stops, again and again."""
    given = dict.fromkeys(range(len(asked)), 0.0)
    left = list(capacities)
    growing = {i for i, want in enumerate(asked) if want > 0}
    for i in list(growing):
        if not ways[i]:
            given[i] = asked[i]
            growing.discard(i)
    level = 0.0
    while growing:
        users = [sum(r in ways[i] for i in growing) for r in range(len(left))]
        rises = [asked[i] - level for i in growing]
        rises += [left[r] / users[r] for r in range(len(left)) if users[r]]
        rise = max(min(rises), 0.0)
        level += rise
        for r in range(len(left)):
            left[r] -= rise * users[r]
        stop = {
            i for i in growing
            if asked[i] - level <= 1e-12 * asked[i] or any(left[r] <= 1e-12 * capacities[r] for r in ways[i])
        }  # fmt: skip
        for i in growing:
            given[i] = level
        growing -= stop
    return [given[i] for i in range(len(asked))]


def capacity(points, users):
    return float(np.interp(users, np.arange(1, len(points) + 1), points))


def renamed(part, names):
    """A part with what its names stand for."""
    if isinstance(part, Run):
        share = part.sharing
        resources = tuple(names.get(name, name) for name in share.resources)
        return replace(part, sharing=replace(share, cache=names.get(share.cache, share.cache), resources=resources))
    of_type = [field for field in ("name", "entity", "device") if hasattr(part, field)]
    return replace(part, **{field: names.get(getattr(part, field), getattr(part, field)) for field in of_type})


@dataclass
class _Walker:
    entity: object
    steps: object
    left: float = 0.0
    what: object = None
    again: object = None
    end: float | None = None
    since: float = 0.0
    spent: dict = field(default_factory=lambda: defaultdict(float))


class Reference:
    """Runs entities on a system. `end_s` by name; `spent_s` by name and kind; `stuck` names who never ended."""

    def __init__(self, system, entities):
        self.system, self.now = system, 0.0
        self.walkers = {entity.name: _Walker(entity, self.walk(entity.program, entity.names)) for entity in entities}
        self.ready = deque(entity.name for entity in entities if entity.born)
        self.unborn = {entity.name for entity in entities if not entity.born}
        self.queues = defaultdict(deque)
        self.owner, self.arrived = {}, defaultdict(int)
        self.contended, self.retries = set(), set()
        self.units = defaultdict(int, system.semaphores)
        self.busy_units = defaultdict(int)
        self.run()
        self.end_s = {name: walker.end for name, walker in self.walkers.items()}
        self.spent_s = {name: dict(walker.spent) for name, walker in self.walkers.items()}
        self.stuck = [name for name, end in self.end_s.items() if end is None]

    def walk(self, program, names):
        for part in program:
            if isinstance(part, Repeat):
                for _ in range(part.count):
                    yield from self.walk(part.body, names)
            else:
                yield renamed(part, names)

    def wake(self, name, kind):
        """What an entity did is over."""
        self.walkers[name].spent[kind] += self.now - self.walkers[name].since
        self.ready.append(name)

    def pause(self, name, seconds):
        """Whether an entity goes on only after some seconds."""
        walker = self.walkers[name]
        walker.since = self.now
        if seconds:
            walker.what, walker.left = Sleep("waking", 0.0), seconds
        return bool(seconds)

    def rouse(self, waiting, kind, called_s=0.0):
        """Let entities go on, each (name, whether it sleeps); seconds that calls take who does so."""
        waking = self.system.waking
        for name, sleeps in waiting:
            self.walkers[name].spent[kind] += self.now - self.walkers[name].since
            if not self.pause(name, called_s + waking.latency_s if sleeps else waking.transfer_s):
                self.ready.append(name)
            called_s += waking.call_s if sleeps else 0.0
        return called_s

    def steps_of(self, name):
        """The parts left, an attempt to get a lock first that it was woken for."""
        walker = self.walkers[name]
        return chain([walker.again], walker.steps) if name in self.retries else walker.steps

    def step(self, name):
        """Go on with an entity until it waits."""
        walker = self.walkers[name]
        for part in self.steps_of(name):
            walker.since = self.now
            match part:
                case Run(_, time_s, _) | Sleep(_, time_s):
                    walker.what, walker.left = part, time_s
                    return
                case Use(device, _, time_s):
                    walker.what, walker.left = part, time_s
                    if self.busy_units[device] == self.system.devices[device]:
                        walker.what = None
                        self.queues["device", device].append((name, part))
                    else:
                        self.busy_units[device] += 1
                    return
                case Barrier(barrier, sleeps):
                    self.arrived[barrier] += 1
                    waiting = self.queues["barrier", barrier]
                    if self.arrived[barrier] < self.system.barriers[barrier]:
                        waiting.append((name, sleeps))
                        return
                    self.arrived[barrier] = 0
                    called_s = self.rouse(list(waiting), "barrier")
                    waiting.clear()
                    if self.pause(name, called_s):
                        return
                case Lock(lock, sleeps):
                    if self.owner.get(lock) is not None:
                        self.queues["lock", lock].append((name, sleeps))
                        walker.again = part
                        self.contended |= {lock} if sleeps else set()
                        return
                    self.owner[lock] = name
                    if name in self.retries:
                        self.contended.add(lock)
                    self.retries.discard(name)
                case Unlock(lock):
                    waiting = self.queues["lock", lock]
                    self.owner[lock] = None
                    called_s = 0.0
                    if waiting and not waiting[0][1]:
                        self.owner[lock] = waiting[0][0]
                        self.rouse([waiting.popleft()], "lock")
                    elif waiting and lock in self.contended:
                        self.retries.add(waiting[0][0])
                        called_s = self.rouse([waiting.popleft()], "lock")
                    self.contended.discard(lock)
                    if self.pause(name, called_s):
                        return
                case Post(semaphore, units):
                    self.units[semaphore] += units
                    waiting, woken = self.queues["wait", semaphore], []
                    while waiting and waiting[0][1] <= self.units[semaphore]:
                        other, wanted, sleeps = waiting.popleft()
                        self.units[semaphore] -= wanted
                        woken.append((other, sleeps))
                    if self.pause(name, self.rouse(woken, "wait")):
                        return
                case Wait(semaphore, units, sleeps):
                    if self.queues["wait", semaphore] or self.units[semaphore] < units:
                        self.queues["wait", semaphore].append((name, units, sleeps))
                        return
                    self.units[semaphore] -= units
                case Broadcast(semaphore):
                    waiting = self.queues["wait", semaphore]
                    woken = [(other, sleeps) for other, _, sleeps in waiting]
                    waiting.clear()
                    if self.pause(name, self.rouse(woken, "wait")):
                        return
                case Spawn(other, asleep):
                    if other in self.unborn:
                        self.unborn.discard(other)
                        self.walkers[other].since = self.now
                        if asleep and self.pause(name, self.rouse([(other, True)], "join")):
                            return
                        if not asleep:
                            self.ready.append(other)
                case Join(other, sleeps):
                    if self.walkers[other].end is None:
                        self.queues["join", other].append((name, sleeps))
                        return
                case _:
                    if self.message(name, part):
                        return
        walker.end = self.now
        self.rouse(list(reversed(self.queues["join", name])), "join")

    def message(self, name, part):
        """Do a part about messages; whether the entity waits. See message_reference.py."""
        raise NotImplementedError(part)

    def rates(self, running):
        """Of each entity that runs, its speed."""
        sharing = {name: self.walkers[name].what.sharing for name in running}
        groups = [share.cores for share in sharing.values()]
        jobs = defaultdict(set)
        for name, share in sharing.items():
            jobs[share.cache].add(self.walkers[name].entity.job)
        names = list(self.system.bandwidths)
        full, asked, ways = {}, [], []
        for name, share in sharing.items():
            core = 1.0 if share.cores is None else min(1.0, self.system.cores[share.cores] / groups.count(share.cores))
            row = min(len(jobs[share.cache]), len(share.conditions)) - 1 if share.cache is not None else 0
            speed, demand = share.conditions[row]
            full[name] = speed * core
            asked.append(demand * core)
            ways.append({names.index(resource) for resource in share.resources})
        wanted = [sum(want for want, way in zip(asked, ways, strict=True) if r in way) for r in range(len(names))]
        capacities = [
            capacity(self.system.bandwidths[resource], wanted[r] / self.system.bandwidths[resource][0])
            for r, resource in enumerate(names)
        ]
        given = exact_filling(asked, ways, capacities)
        return {
            name: full[name] * (got / want if want > 0 else 1.0)
            for name, got, want in zip(sharing, given, asked, strict=True)
        }

    def run(self):
        while True:
            while self.ready:
                self.step(self.ready.popleft())
            at_work = [name for name, walker in self.walkers.items() if walker.what is not None]
            if not at_work:
                return
            running = [name for name in at_work if isinstance(self.walkers[name].what, Run)]
            speed = dict.fromkeys(at_work, 1.0) | self.rates(running)
            ends = {name: self.walkers[name].left / speed[name] for name in at_work}
            passed = min(ends.values())
            self.now += passed
            done = [name for name in at_work if ends[name] <= passed + 1e-12 * self.now]
            for name in at_work:
                self.walkers[name].left -= passed * speed[name]
            for name in done:
                self.complete(name)

    def complete(self, name):
        walker = self.walkers[name]
        part, walker.what = walker.what, None
        self.wake(name, {Run: "run", Sleep: "sleep", Use: "device"}[type(part)])
        if isinstance(part, Use):
            waiting = self.queues["device", part.device]
            if waiting:
                other, its = waiting.popleft()
                self.walkers[other].spent["queue"] += self.now - self.walkers[other].since
                self.walkers[other].since = self.now
                self.walkers[other].what, self.walkers[other].left = its, its.time_s
            else:
                self.busy_units[part.device] -= 1


ALONE = Sharing()
