"""A slow, plain twin of replay/core/core_model.c: the same core, instruction by instruction, with nothing forgotten.

What the C core keeps in rings (times of retirement, uses of a unit, recent accesses) is kept whole here.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

NUM_CAUSES = 11
(ISSUE, COMPUTE, DIVIDE, CHAIN, FORWARD, PORTS, BRANCH, CACHE_BANDWIDTH, MEMORY_BANDWIDTH, CACHE_LATENCY,
 MEMORY_LATENCY) = range(NUM_CAUSES)  # fmt: skip
MISSED, TAKEN, SECOND_HALF = 1, 2, 4
ALL_DEPEND = 0xFFFF
WRONG = 64
IN_REACH = 64
MAX_LEVELS = 8
NEVER = -1e30
FETCHED_AHEAD = 8.0


class Rate:
    """A unit: how much of each stretch of cycles is taken."""

    def __init__(self, stretch: float) -> None:
        self.stretch = stretch
        self.used: defaultdict[int, float] = defaultdict(float)

    def take(self, start: float, cycles: float) -> tuple[float, float]:
        """When a use of so many cycles begins, and when it is over."""
        begin = end = start
        begun = False
        number = int(start / self.stretch)
        while cycles > 1e-12:
            room = self.stretch - self.used[number]
            if room > 1e-9:
                part = min(room, cycles)
                if not begun:
                    begin = max(start, number * self.stretch + (self.used[number] if self.stretch > 1 else 0))
                begun = True
                self.used[number] += part
                cycles -= part
                end = number * self.stretch + self.used[number]
            number += 1
        return begin, end


@dataclass
class Access:
    """What is remembered of an access. `written`: of a store, when it is in the cache. `operation` brought the line in
    from `level`; 0 once it has been stored to, or where that is not known."""

    line: float
    cause: int | None
    bytes: float
    operation: int = 0
    level: int = 0
    data: float = NEVER
    written: float = NEVER


class Core:
    """Runs one path; `cycles` float64 [2, blocks, causes] is added to."""

    def __init__(self, figures, instructions, registers, blocks, operations, path, cycles) -> None:
        for name in figures.dtype.names:
            setattr(self, name, figures[name].item())
        self.slot = 1 / self.width
        self.startable: list[float] = []  # vectors that can start
        self.last_scheduled = 0.0
        self.instructions, self.registers, self.blocks, self.operations = instructions, registers, blocks, operations
        self.path, self.branches, self.depends, self.store_distances, self.line_distances = path
        self.cycles = cycles
        self.ready: defaultdict[int, float] = defaultdict(float)
        self.early: defaultdict[int, float] = defaultdict(float)  # for those that take results early
        self.units = [Rate(1) for _ in range(8)]
        self.lines = [Rate(16) for _ in range(MAX_LEVELS)]
        self.load_unit, self.store_unit = Rate(1), Rate(1)
        self.accesses: list[Access | None] = []
        self.retired: list[float] = []
        self.left: list[tuple[float, int | None]] = []  # stores: when written, and what their line was waited for
        self.clock = self.redirect = self.fetched = self.foreseen = self.last_written = 0.0
        self.line, self.jumped = 0, False
        self.begun = ""  # whether what it leads to is fetched "alone" so far, or is the "second" fetched at once
        self.decodes = False  # what was fetched last
        self.decoded: defaultdict[int, list[int]] = defaultdict(list)
        self.last_started = 0.0
        numbers = np.arange(len(operations) * MAX_LEVELS, dtype=np.uint64)
        self.due = (numbers * np.uint64(2654435761) % np.uint64(65536) / 65536).reshape(-1, MAX_LEVELS).tolist()
        self.wrong: list[tuple[float, float]] = []  # branches: the dispatch behind them, less `passed`, and when known
        self.passed = 0.0
        self.depending = 0
        self.astray_ready: dict[int, float] = {}

    def run(self) -> None:
        for execution, number in enumerate(self.path.tolist()):
            block = self.blocks[number]
            row = self.cycles[int(bool(self.branches[execution] & SECOND_HALF)), number]
            first_access = len(self.accesses)
            self.accesses += [None] * int(block["n_operations"])
            done = 0.0
            lines = int(not self.jumped and block["first_line"] != self.line)
            self.line = int(block["first_line"])
            for place in range(block["first"], block["first"] + block["n_instructions"]):
                one = self.instructions[place]
                self.line += int(one["lines"])
                cycles = self.second_line() if lines + int(one["lines"]) else 0.0
                if one["decoded"]:
                    decodes = self.decode > 0 and not self.is_decoded(place)
                    switching = self.decode_switch_cycles if decodes and not self.decodes else 0
                    cycles = max(cycles, decodes * int(one["decoded"]) * self.decode + switching)
                    self.decodes = decodes
                if cycles:
                    self.fetch_code(cycles)
                lines = 0
                done = self.run_one(one, int(block["first_operation"]), first_access, row)
            self.depending = max(self.depending - 1, 0)
            if self.branches[execution] & MISSED:
                self.miss(done, int(self.depends[execution]))
            self.line, self.jumped = block["last_line"], bool(self.branches[execution] & TAKEN)
            if self.jumped:
                again = self.path[execution : execution + 2].tolist() == [number, number]
                self.follow(again=again)

    def follow(self, *, again: bool) -> None:
        """A taken branch, `again` to the block that it ends."""
        cycles = self.taken_branch
        self.foreseen = max(self.foreseen + cycles, self.clock - FETCHED_AHEAD)
        if not self.pairs or again:
            self.begun = ""
        else:
            self.begun = "second" if self.begun == "alone" else "alone"
            cycles = 0.0 if self.begun == "second" else 2 * self.taken_branch
        self.fetch_code(max(cycles, self.foreseen - self.fetched))

    def second_line(self) -> float:
        """Another line of code: what a pair of branches leads to is not fetched at once."""
        cycles = 2 * self.taken_branch if self.begun == "second" else 0.0
        self.begun = ""
        return cycles

    def is_decoded(self, place: int) -> bool:
        """Whether the group that begins there is among the last ones of its set of lines; from now on it is."""
        groups = self.decoded[self.line % 64]
        found = place in groups
        if found:
            groups.remove(place)
        self.decoded[self.line % 64] = [place, *groups][: self.decoded_ways]
        return found

    def fetch_code(self, cycles: float) -> None:
        """A line of code, or what a taken branch leads to."""
        self.fetched = max(self.fetched + cycles, self.clock - FETCHED_AHEAD)
        self.clock = max(self.clock, self.fetched)

    def miss(self, done: float, depends: int) -> None:
        self.redirect = done + self.refill
        if depends == ALL_DEPEND or self.in_order:
            self.wrong = []
            return
        if not self.wrong:
            self.passed, self.depending, self.astray_ready = 0.0, 0, {}
        if len(self.wrong) < WRONG:
            self.wrong.append((self.clock - self.passed, done))
        self.depending = max(self.depending, depends)

    def ring(self, items, size: float) -> float:
        """What is left behind by an item so many before."""
        size = max(int(size), 1)
        return items[-size] if len(items) >= size else 0.0

    def dispatch(self, one) -> tuple[float, int]:
        at, cause = max(self.clock, self.ring(self.retired, self.window_instructions)), ISSUE
        if self.in_order:
            at = max(at, self.last_started)
        if self.redirect > at:
            at, cause = self.redirect, BRANCH
            self.fetched = max(self.fetched, at)
            self.foreseen = max(self.foreseen, at)
        written, waited_for = self.ring(self.left, self.storing_instructions) or (0.0, None)
        if one["store"] >= 0 and written > at:
            at, cause = written, PORTS if waited_for is None else waited_for
        self.clock = at + self.slot
        return at, cause

    def dispatch_astray(self, one) -> float:
        room = self.ring(self.retired, self.window_instructions)
        while self.wrong and max(self.wrong[0][0] + self.passed, room) >= self.wrong[0][1]:
            self.wrong.pop(0)
        if not self.wrong:
            return math.inf
        at = max(self.wrong[0][0] + self.passed, room)
        self.passed += self.slot
        return at if not self.depending or one["runs_anyway"] else math.inf

    def ask_astray(self, at: float) -> float:
        for clock, until in self.wrong:
            asked = max(at, clock + self.passed - self.slot)
            if asked < until:
                return asked
        return math.inf

    def level_of(self, operation: int, distance: int) -> int:
        facts, due = self.operations[operation], self.due[operation]
        far = distance == 0 or distance > IN_REACH
        share = facts["candidates"] if far else 1 - facts["candidates"]
        missing = sum(facts["share"][1 : self.n_levels])
        if missing <= 0 or share <= 0:
            return 0
        of_far = min(missing, facts["candidates"])
        chance = (of_far if far else missing - of_far) / share
        level = 0
        for i in range(1, self.n_levels):
            due[i] += chance * facts["share"][i] / missing
            if due[i] >= due[level] and due[i] >= 1:
                level = i
        if level:
            due[level] -= 1
        return level

    def fetch_line(self, operation: int, level: int, start: float) -> tuple[float, int | None]:
        facts, due = self.operations[operation], self.due[operation]
        if level == 0:
            return start + facts["latency"][0], None
        in_memory = level + 1 == self.n_levels
        due[0] += facts["irregular"][level]
        irregular = due[0] >= 1
        asked = start if irregular else max(start - self.lead, 0)
        nearer = [self.lines[i].take(asked, facts["stream"][i])[1] for i in range(1, level)]
        through = max([asked, *nearer]) + facts["latency"][0]
        if irregular:
            due[0] -= 1
            begin, _ = self.lines[level].take(start, facts["random"][level])
            return max(begin + facts["latency"][level], through), MEMORY_LATENCY if in_memory else CACHE_LATENCY
        begin, end = self.lines[level].take(asked, facts["stream"][level])
        cause = MEMORY_BANDWIDTH if in_memory else CACHE_BANDWIDTH
        return max(max(start, end) + facts["latency"][0], through, begin + facts["latency"][level]), cause

    def access(self, operation: int, slot: int, start: float, *, stores: bool) -> tuple[float, int | None]:
        distance = int(self.line_distances[slot])
        level = self.level_of(operation, distance)
        at, cause = self.fetch_line(operation, level, start)
        own = Access(at, cause, self.operations[operation]["bytes"], operation, level)
        before = self.accesses[slot - distance] if 0 < distance <= slot else None
        if before is not None:
            if before.line > at:
                own.line, own.cause = before.line, before.cause
            if level == 0:
                own.operation, own.level = before.operation, before.level
        if stores and level == 0:
            for passed in range(1, own.level + 1):
                self.lines[passed].take(start, self.operations[own.operation]["write_back"][passed])
        if stores:
            own.level = 0
        self.accesses[slot] = own
        return own.line, own.cause

    def load(self, operation: int, slot: int, asked: float, early: float) -> tuple[float, int | None]:
        facts = self.operations[operation]
        at, cause = self.access(operation, slot, min(asked, early), stores=False)
        hit = asked + facts["latency"][0]
        at = max(at, hit)
        distance = int(self.store_distances[slot])
        store = self.accesses[slot - distance] if 0 < distance <= slot else None
        if store is None:
            return at, cause
        there = store.written + hit - asked if facts["bytes"] > store.bytes else hit
        return (max(there, store.data + self.forward), FORWARD) if store.written > asked else (at, cause)

    def schedule(self, dispatched: float) -> float:
        """When a vector instruction can start, but for its operands and its unit."""
        at = max(dispatched, self.last_scheduled)
        while self.startable and self.startable[0] <= at:
            heapq.heappop(self.startable)
        if len(self.startable) >= max(int(self.vector_scheduled_instructions), 1):
            at = max(at, heapq.heappop(self.startable))
        self.last_scheduled = at
        return at

    def run_one(self, one, first_operation: int, first_slot: int, row) -> float:
        begin = int(one["registers"])
        ends = np.cumsum([begin, one["n_reads"], one["n_addresses"], one["n_writes"]]).tolist()
        reads, addresses, writes = (self.registers[left:right].tolist() for left, right in itertools.pairwise(ends))

        def latest(names, at):
            return max([at, *(self.ready[name] for name in names)])

        def latest_astray(names, at):
            return max([at, *(self.astray_ready.get(name, self.ready[name]) for name in names)])

        dispatched, dispatch_cause = self.dispatch(one)
        astray = self.dispatch_astray(one)
        known = asked = loaded = operands = dispatched
        load_cause = None
        loads = one["load"] >= 0
        if loads:
            operation, slot = first_operation + int(one["load"]), first_slot + int(one["load"])
            known = latest(addresses, dispatched)
            asked, _ = self.load_unit.take(known, self.load_cycles)
            ready = latest_astray(addresses, astray)
            early = self.ask_astray(ready)
            is_early = early < asked
            loaded, load_cause = self.load(operation, slot, asked, early if is_early else math.inf)
            operands = loaded
            line, near = self.accesses[slot].line, self.operations[operation]["latency"][0]
            astray = max(line, early + near) if is_early else max(ready, loaded)
        astray = latest_astray(reads, astray) + one["latency"]
        operands = max([operands, *((self.early if one["takes_early"] else self.ready)[name] for name in reads)])
        if one["is_scheduled"]:
            operands = max(operands, self.schedule(dispatched))
        busy = one["unit_cycles"] > 0
        started = self.units[one["unit"]].take(operands, one["unit_cycles"])[0]
        done = started + one["latency"]
        is_load = loads and not busy and one["latency"] == 0
        self.last_started = latest(addresses, asked if is_load else started)
        if one["is_scheduled"]:
            heapq.heappush(self.startable, started)
        for name in writes:
            self.ready[name] = done
            self.early[name] = done - one["sooner"]
            if self.wrong:
                self.astray_ready[name] = min(astray, done)
        in_turn = (self.retired[-1] if self.retired else 0.0) + self.slot
        before = done
        if one["store"] >= 0:
            done = self.write_back(one, first_operation, first_slot, latest(addresses, dispatched), done)
        self.retired.append(max(in_turn, done))
        row[ISSUE] += self.slot
        late = max(done - in_turn, 0)
        stages = (
            (done - started, DIVIDE if one["cause"] == DIVIDE else CHAIN),
            (started - operands, one["cause"]),
            (operands - (loaded if loads else dispatched), CHAIN),
            (loaded - asked if loads else 0, CHAIN if load_cause is None else load_cause),
            (asked - known if loads else 0, PORTS),
            (known - dispatched if loads else 0, CHAIN),
        )
        for length, cause in stages:
            part = min(late, max(length, 0))
            row[cause] += part
            late -= part
        row[dispatch_cause] += late
        assert before <= done
        return done

    def write_back(self, one, first_operation: int, first_slot: int, known: float, data: float) -> float:
        operation, slot = first_operation + int(one["store"]), first_slot + int(one["store"])
        asked, _ = self.store_unit.take(known, self.store_cycles)
        line, cause = self.access(operation, slot, asked, stores=True)
        done = max(data, asked + 1)
        retired = max(self.retired[-1] if self.retired else 0.0, done)
        free = max(self.last_written + self.store_cycles, retired + 1)
        self.last_written = max(free, line)
        self.left.append((self.last_written, cause if line > free else None))
        own = self.accesses[slot]
        own.data, own.written = data, self.last_written
        return done
