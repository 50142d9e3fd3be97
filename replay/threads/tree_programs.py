"""Timeline programs from an execution tree: its calls and loops in order, with their repetitions, thread by thread.

A body that ran M times in all holds each child as often as the child was entered per run of the body, at least once; a
child's time is divided by how often it is run, so that all times add up. Subtrees that take a share of `LEAST_SHARE` of
the program in one run of their body, or less, are one activity for each region in them; so are loops whose iterations
take as little.

Threads:

- Parallel regions (OpenMP): the functions that compilers make of them are run by a team. All its threads meet before
  and after each entry of one (fork and join); what runtimes do in between is wait. Other threads than the main one have
  nothing else to do.
- A call that creates threads begins those that the signature's edges name, or else the next one that no edge tells the
  creation of; a join waits for the thread that its edge names, or else for the next one that no other join waits for.
  Loops around them are unrolled.
- From a call that takes a lock to the next one in the same body that gives one back is a critical section, with the own
  work on the lines between them. Each such pair is a lock of its own, but for those that edges show to be the same.
  Readers of a reader-writer lock hold it together.
- Condition variables, semaphores and bare futexes are semaphores: see `tree_waits.py`.

Phases: a loop that the program enters once is split where loops below it change (see `phases.py`).
- `pthread_barrier_wait` is one barrier of all threads that call it, if they do so equally often.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from foretrace.errors import PredictionError
from foretrace.replay.engine.program import (
    Barrier,
    Join,
    Lock,
    Part,
    Post,
    Repeat,
    Run,
    Sharing,
    Spawn,
    Unlock,
    Wait,
)
from foretrace.tracer.signature.tree_records import TreeNodeKind, TreeThread

from .line_locks import Held, is_in_interpreter, line_in_body
from .phases import Phased
from .schedules import BLOCKS, chunks, runs_as_task, shares_of_blocks, shares_of_chunks, work_along
from .stops import Draft, Stops, finished, one_of_many, repeated, units_at_start
from .tree_waits import TAKES, Inside, Role, Stop
from .tree_work import Section, TreeWork, is_loader

LEAST_SHARE = 1e-4
_GO = ("runtime.mstart", "runtime.rt0_go", "runtime.goexit")
"""Functions of Go's runtime that all its programs run."""
MOST_UNROLLED = 4096
"""Runs of a loop that creates threads which are told apart."""
MOST_NESTED = 100
"""Bodies in one another; what is below is one activity for each region in it, unless threads wait there."""


@dataclass(frozen=True, slots=True)
class ThreadProgram:
    """A thread's program. `is_born`: it begins with the program, and not by another one's `Spawn`."""

    name: str
    program: tuple[Part, ...]
    is_born: bool


@dataclass(frozen=True, slots=True)
class JobPrograms:
    """The threads of a program, its barriers with how many threads meet there, and what could not be told."""

    threads: tuple[ThreadProgram, ...]
    barriers: dict[str, int]
    notes: tuple[str, ...]
    semaphores: dict[str, int] = field(default_factory=dict)
    shared_locks: frozenset[str] = frozenset()
    """Those of the semaphores that are reader-writer locks: all units are free at first, one is a reader's."""


@dataclass(slots=True)
class _Creations:
    """Which threads a process's calls begin, and in which order they are waited for.

    `known` and `ends` have, by node, the threads that edges say a call creates and waits for; `pool` those that no edge
    tells the creation of. A call that no edge tells more of takes the next one.
    """

    pool: list[str]
    known: dict[int, list[str]]
    ends: dict[int, list[str]]
    created: list[str] = field(default_factory=list)
    joined: set[str] = field(default_factory=set)
    runs: Counter[int] = field(default_factory=Counter)
    done: Counter[int] = field(default_factory=Counter)

    def are_there(self, node: int) -> bool:
        """Whether all threads that a place waits for have been created."""
        return set(self.ends[node]) <= set(self.created)

    def due(self, node: int, entries: int, times: float) -> int:
        """How many of a call's entries belong to this run of the body around it, which runs `times` times in all."""
        self.runs[node] += 1
        until = 1 if entries == 1 else min(int(self.runs[node] * entries // max(times, 1)), entries)
        count = until - self.done[node]
        self.done[node] = max(until, self.done[node])
        return max(count, 0)


def job_programs(
    work: TreeWork,
    labels: Sequence[str],
    sharings: Sequence[Sharing],
    prefix: str,
    threads: int | None = None,
    of_process: Mapping[int, Sequence[Sharing]] | None = None,
) -> JobPrograms:
    """The programs of all threads of a traced program.

    Args:
        work: its tree with times.
        labels: of regions.
        sharings: of regions.
        prefix: of the threads' and barriers' names, so that copies differ.
        threads: of each team of a parallel region; None: as traced.
        of_process: of regions, for processes whose threads share them otherwise.
    """
    return _Job(work, labels, sharings, prefix, of_process or {}).programs(threads)


def team_size(work: TreeWork) -> int:
    """Threads that ran parallel regions; 0 if there are none."""
    return sum(bool(work.all_parallel(thread.root)) for thread in work.tree.threads)


class _Job:
    def __init__(
        self,
        work: TreeWork,
        labels: Sequence[str],
        sharings: Sequence[Sharing],
        prefix: str,
        of_process: Mapping[int, Sequence[Sharing]],
    ) -> None:
        self.work, self.labels, self.sharings, self.prefix = work, labels, sharings, prefix
        self.plain, self.of_process = sharings, of_process
        self.begun: set[str] = set()
        self.total_s = float(sum(work.inclusive_s[thread.root] for thread in work.tree.threads)) or 1.0
        self.shared_roots = Counter(thread.root for thread in work.tree.threads)
        self.notes: list[str] = []
        self.barriers: dict[str, int] = {}
        self.members: list[dict[tuple[str, str], list[int]]] = []
        self.shares: dict[tuple[str, str], list[float]] = {}
        self.dynamic: set[tuple[str, str]] = set()
        self.parallel = {node for node, role in work.special.items() if role is Role.PARALLEL}
        self.run_whole: set[int] = set()
        self.held: str | None = None
        self.taken: set[str] = set()
        self.shared_locks: set[str] = set()
        self.most_threads = 1
        self.phased = Phased(work)
        self.team_sleeps = work.team_sleeps
        self.nested = 0
        self.scale = 1.0
        self.divided: frozenset[int] = frozenset()

    def programs(self, threads: int | None) -> JobPrograms:
        self.most_threads = max(len(self.work.tree.threads), threads or 1)
        by_process: dict[int, list[TreeThread]] = defaultdict(list)
        for thread in self.work.tree.threads:
            by_process[thread.process].append(thread)
        by_name = {
            f"{self.prefix} {one.name}" for found in self.work.waits.line_locks.of_body.values() for one in found
        }
        made_by_process = [self.process(process, threads) for process in by_process.values()]
        idle = by_name - _needed_locks(made_by_process)
        made = [_without_locks(program, idle) for process in made_by_process for program in process]
        made = self.with_barriers(made)
        semaphores = dict.fromkeys(sorted(self.shared_locks), self.most_threads)
        if self.work.waits.stops or self.work.waits.inside:
            if threads not in self.work.units:
                programs = {thread.name: (thread.program, thread.is_born) for thread in made}
                found = units_at_start(programs, self.barriers, semaphores)
                self.work.units[threads] = {name.removeprefix(self.prefix): units for name, units in found.items()}
            semaphores |= {f"{self.prefix}{name}": units for name, units in self.work.units[threads].items()}
        if self.work.elsewhere_s and made:
            first = made[0]
            made[0] = ThreadProgram(first.name, (*self.runs(self.work.elsewhere_s, 1.0), *first.program), first.is_born)
        self.notes += self.work.waits.line_locks.notes
        if any(key.function.startswith(_GO) for key in self.work.tree.keys):
            self.notes.append(
                "a Go program: its goroutines stay on the threads that ran them when it was traced, as much as each "
                "ran; Go would hand them to those that are free"
            )
        if self.work.waited_s > 0.01 * self.total_s:
            self.notes.append(
                "threads spun in the runtime of parallel regions when the program was traced: they wait in its place"
            )
        return JobPrograms(tuple(made), self.barriers, tuple(self.notes), semaphores, frozenset(self.shared_locks))

    def process(self, threads: list[TreeThread], asked: int | None) -> list[ThreadProgram]:
        main, *others = sorted(threads, key=lambda thread: thread.number)
        self.sharings = self.of_process.get(main.process, self.plain)
        has_team = bool(self.work.all_parallel(main.root))
        in_team = [thread for thread in others if has_team and self.work.all_parallel(thread.root)]
        teams = [main, *in_team]
        size = (asked or len(teams)) if has_team else 1
        as_traced = size == len(teams)
        groups = [self.groups(thread.root) for thread in teams]
        self.members, self.shares = groups, {}
        together: dict[tuple[str, str], list[int]] = defaultdict(list)
        for group in groups:
            for key, nodes in group.items():
                together[key] += nodes
        if not as_traced:
            self.members = [dict[tuple[str, str], list[int]]() for _ in range(size)]
        for key, nodes in together.items():  # divided anew, all of the team's work, unless as it was
            shares = self.divided_among(key, nodes, groups, size, as_traced)
            if shares:
                self.shares[key] = shares
                for member in self.members:
                    member[key] = nodes
        if has_team and len(teams) == 1 and size > 1 and not self.shares.keys() <= self.dynamic:
            self.notes.append(
                "one thread was traced: loops divided beforehand are taken to be in equal blocks of iterations, and as "
                "uneven as the loops within them"
            )
        apart = [thread for thread in others if thread not in in_team]
        creations = self.creations(apart, self.processes_of(threads))
        parts = self.root(main.root, creations, together)
        names = [self.name(main.number), *(self.name(thread.number) for thread in in_team)]
        names += [f"{self.prefix} member {number}" for number in range(len(names), size)]
        made = [
            ThreadProgram(name, tuple(part), name not in self.begun)
            for name, part in zip(names[:size], parts, strict=True)
        ]
        self.members = []
        own = [(thread, tuple(self.root(thread.root, creations)[0])) for thread in apart]
        begun = set(creations.created)
        self.begun |= begun
        unseen = [thread for thread, _ in own if self.name(thread.number) not in begun]
        if unseen:
            self.notes.append(f"who began {len(unseen)} threads is not known: they begin with the program")
        made += [
            ThreadProgram(self.name(thread.number), program, self.name(thread.number) not in begun)
            for thread, program in own
        ]
        return made

    def processes_of(self, threads: list[TreeThread]) -> list[TreeThread]:
        """First threads of the processes that these threads began, at places that edges name."""
        numbers, own = {thread.number for thread in threads}, threads[0].process
        firsts: dict[int, TreeThread] = {}
        for thread in self.work.tree.threads:
            firsts.setdefault(thread.process, thread)
        return [one for process, one in firsts.items() if process > own and one.parent in numbers]

    def creations(self, apart: list[TreeThread], processes: list[TreeThread]) -> _Creations:
        """Of threads that are in no team, and of processes."""
        known_processes = {thread.number for thread in processes}
        names = {thread.number: self.name(thread.number) for thread in (*apart, *processes)}
        known, ends = (
            {node: [names[number] for number in numbers if number in names] for node, numbers in edges.items()}
            for edges in (self.work.waits.creates, self.work.waits.joins)
        )
        for inside in (one for places in self.work.waits.inside.values() for one in places if one.threads):
            edges = known if inside.what is Role.CREATE else ends
            edges[id(inside)] = [names[number] for number in inside.threads if number in names]
        told = {name for created in known.values() for name in created}
        pool = [name for number, name in names.items() if name not in told and number not in known_processes]
        return _Creations(pool, known, ends)

    def divided_among(
        self,
        key: tuple[str, str],
        nodes: Sequence[int],
        groups: Sequence[dict[tuple[str, str], list[int]]],
        size: int,
        as_traced: bool,
    ) -> list[float]:
        """Shares of a parallel region's work of each of `size` threads; none where it stays as it was traced."""
        work = self.work
        own = groups[0].get(key, [])
        if any(runs_as_task(work.tree, node) for node in own):
            self.dynamic.add(key)
            return shares_of_chunks(sum(int(work.tree.entries[node]) for node in nodes), size)
        found = chunks(work.tree, work.children, nodes, self.parallel)
        if found:
            self.dynamic.add(key)
            entries = max(int(work.tree.entries[own[0]]) if own else 1, 1)
            return shares_of_chunks(found / entries, size)
        if as_traced:
            return []
        along = np.zeros((len(groups), BLOCKS))
        for member, group in enumerate(groups):
            for node in group.get(key, []):
                along[member] += work_along(work, node)
        return shares_of_blocks(along.ravel().tolist(), size)

    def never_forked(self, together: Iterable[tuple[str, str]]) -> list[list[Part]]:
        """Work of the team in regions and tasks that the first thread never came to: at the end of each thread.

        What ran with a call that creates threads has run.
        """
        parts: list[list[Part]] = [[] for _ in self.members]
        for key in together:
            if f"{self.prefix} {key[1]} fork" in self.barriers:
                continue
            for number, member in enumerate(self.members):
                share = self.shares[key][number] if key in self.shares else 1.0
                for node in member.get(key, []) if share else []:
                    if node in self.run_whole:
                        continue
                    parts[number] += self.runs(self.work.sums_below(node), 1 / share)
        return parts

    def name(self, number: int) -> str:
        return f"{self.prefix} thread {number}"

    def groups(self, root: int) -> dict[tuple[str, str], list[int]]:
        """The functions of parallel regions of a thread, by module and name."""
        found: dict[tuple[str, str], list[int]] = defaultdict(list)
        for node in self.work.all_parallel(root):
            found[self.key(node)].append(node)
        return found

    def key(self, node: int) -> tuple[str, str]:
        key = self.work.tree.keys[node]
        return key.module, key.function

    def runs(self, seconds: dict[int, float], times: float) -> list[Part]:
        """Activities of regions, of `times` runs together."""
        return [
            Run(self.labels[region], time_s / times, self.sharings[region])
            for region, time_s in seconds.items()
            if time_s > 0
        ]

    def root(self, node: int, creations: _Creations, regions: Iterable[tuple[str, str]] = ()) -> list[list[Part]]:
        """Programs of a thread, of each member of the team that shares these parallel regions."""
        bodies = self.body(node, 1, creations)
        self.add(bodies, self.never_forked(regions))
        return [list(finished(repeated(1, parts, 1))) for parts in bodies]

    def body(self, node: int, times: float, creations: _Creations) -> list[list[Draft]]:
        """Parts of one run of a node's body, which runs `times` times in all; of each member of the team.

        Raises:
            PredictionError: calls that create threads or wait for them are nested too deeply.
        """
        if self.nested > 2 * MOST_NESTED:
            raise PredictionError(f"replay: threads wait in calls that are nested more than {2 * MOST_NESTED} deep")
        self.nested += 1
        parts = self.parts_of_body(node, times, creations)
        self.nested -= 1
        return parts

    def parts_of_body(self, node: int, times: float, creations: _Creations) -> list[list[Draft]]:
        share = self.shared_roots.get(node, 1) if self.work.tree.kind[node] == TreeNodeKind.THREAD else 1
        parts: list[list[Draft]] = [[] for _ in range(max(len(self.members), 1))]
        sections = self.work.sections(node) if self.work.is_special_below[node] else []
        begins, ends = ({getattr(one, end): one for one in sections} for end in ("first", "last"))
        own_s = dict(self.work.own_s[node])
        for section in sections:
            for region, seconds in section.own_s.items():
                own_s[region] -= seconds
        line_sections = self.work.line_sections(node)
        for _, inside_s in line_sections:
            for region, time_s in inside_s.items():
                own_s[region] -= time_s
        parts[0] += self.runs(own_s, times * share / self.scale_of(node))
        held = self.held
        by_line = Held(
            [(one, self.runs(inside_s, times * share / self.scale_of(node))) for one, inside_s in line_sections],
            self.prefix, self.taken,
        )  # fmt: skip
        parallel = [(child, self.work.parallel_below(child)) for child in self.work.children[node]]
        forks: dict[tuple[str, str], int] = Counter()
        for _, found in parallel:
            for one in found:
                forks[self.key(one)] += int(self.work.tree.entries[one])
        done: set[tuple[str, str]] = set()
        left = list(self.work.waits.inside.get(node, ()))
        for place, (child, found) in enumerate(parallel):
            line = line_in_body(self.work.tree, child)
            for inside in [inside for inside in left if inside.line < line + inside.comes_first]:
                if inside.what is not Role.JOIN or creations.are_there(id(inside)):
                    parts[0] += by_line.at(inside.line)
                    parts[0] += self.inside(inside, times * share, creations, by_line.innermost)
                    left.remove(inside)
            parts[0] += by_line.at(line)
            if place in begins:
                taken, _ = self.lock(begins[place])
                self.held = taken.name if isinstance(taken, Lock) else held
                parts[0].append(taken)
                parts[0] += self.runs(begins[place].own_s, times * share / self.scale_of(node))
            if place in ends:
                self.add(parts, self.child(child, times * share, creations))
                parts[0].append(self.lock(ends[place])[1])
                self.held = held
                continue
            if child in self.work.waits.stops:
                stops = [
                    Stops(f"{self.prefix} {stop.semaphore}", stop.is_wait, stop.total, stop.units, self.held)
                    for stop in self.work.waits.stops[child]
                ]
                parts[0] += [stop for stop in stops if stop.is_wait]
                parts[0] += self.runs(self.work.sums_below(child), times * share / self.scale_of(child))
                parts[0] += [stop for stop in stops if not stop.is_wait]
                continue
            if not found or not self.members:
                self.add(parts, self.child(child, times * share, creations))
                continue
            parts[0] += self.runs(self.around(child, set(found)), times * share)
            for key in dict.fromkeys(self.key(one) for one in found):
                if key not in done:
                    done.add(key)
                    self.add(parts, self.fork(key, forks[key], times, creations))
        for inside in sorted(left, key=lambda inside: inside.what is Role.JOIN):
            parts[0] += by_line.at(inside.line)
            parts[0] += self.inside(inside, times * share, creations, by_line.innermost)
        parts[0] += by_line.end()
        return parts

    def lock(self, section: Section) -> tuple[Lock | Wait, Unlock | Post]:
        """What begins a critical section, and what ends it.

        A reader-writer lock is a semaphore: a reader takes one of its units, a writer all of them, first come, first
        served.
        """
        name = f"{self.prefix} {section.name}"
        if section.takes is Role.LOCK:
            return Lock(name, section.sleeps), Unlock(name)
        self.shared_locks.add(name)
        units = 1 if section.takes is Role.READ_LOCK else self.most_threads
        return Wait(name, units, section.sleeps), Post(name, units)

    def inside(self, inside: Inside, times: float, creations: _Creations, held: str | None) -> list[Draft]:
        """What a thread that has the lock `held` does on a line of a body of its own, in one run of that."""
        what = inside.what
        if isinstance(what, Stop):
            return [Stops(f"{self.prefix} {what.semaphore}", what.is_wait, what.total, what.units, held)]
        count = creations.due(id(inside), len(inside.threads), times)
        if what is Role.CREATE:
            return [*self.spawns(id(inside), count, creations)]
        return [*self.ends(id(inside), count, creations)]

    def scale_of(self, node: int) -> float:
        """Share of a node's own work that one thread does; 1 but inside of parallel regions divided otherwise."""
        return self.scale if node in self.divided else 1.0

    @staticmethod
    def add(parts: list[list[Draft]], more: Iterable[Sequence[Draft]]) -> None:
        for mine, new in zip(parts, more, strict=False):
            mine += new

    def around(self, node: int, inside: set[int]) -> dict[int, float]:
        """Seconds by region of a call to a runtime, without the parallel regions below it."""
        sums: dict[int, float] = {}
        pending = [node]
        while pending:
            one = pending.pop()
            if one in inside:
                continue
            pending += self.work.children[one]
            for region, seconds in self.work.own_s[one].items():
                sums[region] = sums.get(region, 0.0) + seconds
        return sums

    def fork(self, key: tuple[str, str], entries: int, times: float, creations: _Creations) -> list[list[Draft]]:
        """All entries of a parallel region in one run of a body: the team meets, works, and meets again."""
        count = max(round(entries / times), 1)
        members, self.members = self.members, []
        divided, begin, end = self.divided, f"{self.prefix} {key[1]} fork", f"{self.prefix} {key[1]} join"
        made = []
        for number, member in enumerate(members):
            nodes = member.get(key, [])
            self.scale = self.shares[key][number] if key in self.shares else 1.0
            self.divided = frozenset(below for node in nodes for below in self.below(node))
            inner: list[Draft] = [Barrier(begin, self.team_sleeps)]
            if not self.scale:
                made.append(repeated(count, [*inner, Barrier(end, self.team_sleeps)], times))
                continue
            for node in nodes:
                inner += self.body(node, times * count, creations)[0]
            made.append(repeated(count, [*inner, Barrier(end, self.team_sleeps)], times))
        self.members, self.divided = members, divided
        self.barriers[begin] = self.barriers[end] = len(members)
        return made

    def below(self, node: int) -> list[int]:
        found, pending = [], [node]
        while pending:
            found.append(pending.pop())
            pending += reversed(self.work.children[found[-1]])
        return found

    def child(self, node: int, times: float, creations: _Creations) -> list[list[Draft]]:
        """All entries of a node in one run of the body above it, which runs `times` times in all."""
        tree, special = self.work.tree, self.work.special.get(node)
        entries = max(int(tree.entries[node]), 1)
        if special is Role.CREATE:
            return [[*self.created(node, entries, times, creations)]]
        if special is Role.JOIN:
            return [[*self.joined(node, entries, times, creations)]]
        if special in (*TAKES, Role.UNLOCK):
            return [[*self.runs(self.work.sums_below(node), times / self.scale_of(node))]]
        if special is Role.BARRIER:
            return [[Barrier(f"{self.prefix} pthread barrier", sleeps=True)] * max(round(entries / times), 1)]
        is_small = self.work.inclusive_s[node] / times <= LEAST_SHARE * self.total_s
        if not self.work.is_special_below[node] and (is_small or self.nested > MOST_NESTED):
            return [[*self.runs(self.phased.sums(node), times / self.scale_of(node))]]
        if is_loader(tree, node) and entries < times and self.has_barrier(node):
            return [[*self.runs(self.work.sums_below(node), times / self.scale_of(node))]]
        count = max(round(entries / times), 1)
        if tree.kind[node] == TreeNodeKind.LOOP:
            scale = self.phased.scale(node)
            iterations = max(round(int(tree.iterations[node]) * scale / (times * count)), 1)
            of_iteration_s = self.work.inclusive_s[node] / (times * count * iterations)
            if not self.work.is_special_below[node] and of_iteration_s <= LEAST_SHARE * self.total_s:
                whole = self.runs(self.phased.sums(node), times * count / self.scale_of(node))
                return [repeated(count, whole, times)]
            if times == count == 1 and self.phased.may_split(node) and not self.creates(node):
                return self.phases(node, iterations, creations)
            with self.phased.inside(node):
                runs = times * count * iterations / scale if scale != 1 else times * count * iterations
                return self.several(node, count * iterations, times, runs, creations)
        return self.several(node, count, times, times * count, creations)

    def several(self, node: int, count: int, times: float, runs: float, creations: _Creations) -> list[list[Draft]]:
        """A body that runs `count` times in each of `times` entries, `runs` times in all."""
        if count > 1 and self.creates(node) and count <= MOST_UNROLLED:
            unrolled: list[list[Draft]] = [[] for _ in range(max(len(self.members), 1))]
            for run in range(count):
                bodies = self.body(node, runs, creations)
                self.add(unrolled, [one_of_many(parts, run, runs) for parts in bodies])
            return unrolled
        return [repeated(count, parts, times) for parts in self.body(node, runs, creations)]

    def phases(self, node: int, count: int, creations: _Creations) -> list[list[Draft]]:
        """A loop that is entered once, and whose body changes with the phases of the loops below it."""
        found: list[list[Draft]] = [[] for _ in range(max(len(self.members), 1))]
        for begin, end in pairwise(self.phased.breaks(node, count)):
            with self.phased.within(begin / count, end / count):
                self.add(found, [repeated(end - begin, parts, 1) for parts in self.body(node, count, creations)])
        return found

    def has_barrier(self, node: int) -> bool:
        return any(self.work.special.get(below) is Role.BARRIER for below in self.below(node))

    def creates(self, node: int) -> bool:
        return bool(self.work.is_special_below[node]) and any(
            self.work.special.get(below) in (Role.CREATE, Role.JOIN)
            or any(one.threads for one in self.work.waits.inside.get(below, ()))
            for below in self.below(node)
        )

    def created(self, node: int, entries: int, times: float, creations: _Creations) -> list[Part]:
        due = creations.due(node, entries, times)
        self.run_whole.update(self.work.all_parallel(node))
        return [*self.runs(self.work.sums_below(node), times), *self.spawns(node, due, creations)]

    def spawns(self, node: int, count: int, creations: _Creations) -> list[Part]:
        """The next threads that a place creates."""
        found: list[Part] = []
        for _ in range(count):
            pool = creations.known.get(node) or creations.pool
            if pool:
                name = pool.pop(0)
                creations.created.append(name)
                found.append(Spawn(name, asleep=True))
        return found

    def joined(self, node: int, entries: int, times: float, creations: _Creations) -> list[Part]:
        return self.ends(node, creations.due(node, entries, times), creations)

    def ends(self, node: int, count: int, creations: _Creations) -> list[Part]:
        """Waits for the next threads that a place waits for."""
        found: list[Part] = []
        for _ in range(count):
            told = creations.ends.get(node)
            expected = {name for ends in creations.ends.values() for name in ends}
            left = [name for name in creations.created if name not in creations.joined and name not in expected]
            if told or left:
                name = told.pop(0) if told else left[0]
                creations.joined.add(name)
                found.append(Join(name, sleeps=True))
        return found

    def with_barriers(self, made: list[ThreadProgram]) -> list[ThreadProgram]:
        """Keep the pthread barrier if all that come there do so equally often."""
        name = f"{self.prefix} pthread barrier"
        visits = [count for thread in made if (count := _visits(thread.program, name))]
        if visits and len(set(visits)) == 1 and len(visits) > 1:
            self.barriers[name] = len(visits)
            return made
        if visits:
            self.notes.append("threads came to pthread_barrier_wait differently often: they do not wait there")
        return [ThreadProgram(t.name, _without(t.program, name), t.is_born) for t in made] if visits else made


def _needed_locks(processes: Sequence[Sequence[ThreadProgram]]) -> set[str]:
    """Locks under which threads do something that Python's own lock does not have them do one at a time in any case,
    and those of several processes."""
    needed: set[str] = set()
    users: dict[str, set[int]] = defaultdict(set)

    def walk(parts: Iterable[Part], process: int, held: list[str]) -> None:
        for part in parts:
            if isinstance(part, Repeat):
                walk(part.body, process, held)
            elif isinstance(part, Lock):
                held.append(part.name)
                users[part.name].add(process)
            elif isinstance(part, Unlock):
                held.remove(part.name)
            elif not (isinstance(part, Run) and is_in_interpreter(part.sharing)):
                needed.update(held)

    for number, process in enumerate(processes):
        for thread in process:
            walk(thread.program, number, [])
    return needed | {name for name, those in users.items() if len(those) > 1}


def _without_locks(thread: ThreadProgram, names: set[str]) -> ThreadProgram:
    """The thread's program without some locks."""

    def kept(parts: Iterable[Part]) -> tuple[Part, ...]:
        return tuple(
            replace(part, body=kept(part.body)) if isinstance(part, Repeat) else part
            for part in parts
            if not (isinstance(part, Lock | Unlock) and part.name in names)
        )

    return replace(thread, program=kept(thread.program)) if names else thread


def _visits(program: Iterable[Part], barrier: str) -> int:
    """How often a program comes to a barrier."""
    return sum(
        part.count * _visits(part.body, barrier) if isinstance(part, Repeat) else _is_at(part, barrier)
        for part in program
    )


def _is_at(part: Part, barrier: str) -> bool:
    return isinstance(part, Barrier) and part.name == barrier


def _without(program: Iterable[Part], barrier: str) -> tuple[Part, ...]:
    return tuple(
        Repeat(part.count, _without(part.body, barrier)) if isinstance(part, Repeat) else part
        for part in program
        if not _is_at(part, barrier)
    )
