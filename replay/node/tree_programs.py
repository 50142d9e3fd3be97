"""Timeline programs from an execution tree: its calls and loops in order, with their repetitions, thread by thread.

A body that ran M times in all holds each child as often as the child was entered per run of the body, at least once; a
child's time is divided by how often it is run, so that all times add up. Subtrees that take a share of `LEAST_SHARE` of
the program in one run of their body, or less, are one activity for each region in them; so are loops whose iterations
take as little.

Threads:

- Parallel regions (OpenMP): the functions that compilers make of them are run by a team. All its threads meet before
  and after each entry of one (fork and join); what runtimes do in between is wait. Other threads than the main one have
  nothing else to do.
- `pthread_create` begins the next thread of the process that no call has begun yet, in the order in which threads were
  numbered; `pthread_join` waits for them in that order. Loops around them are unrolled.
- From a call that takes a lock to the next one in the same body that gives one back is a critical section, with the own
  work on the lines between them. Each such pair is a lock of its own.
- `pthread_barrier_wait` is one barrier of all threads that call it, if they do so equally often.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from foretrace.errors import PredictionError
from foretrace.replay.engine.program import Barrier, Join, Lock, Part, Repeat, Run, Sharing, Spawn, Unlock
from foretrace.tracer.signature.tree_records import TreeNodeKind, TreeThread

from .schedules import chunks, shares_of_blocks, shares_of_chunks
from .tree_work import Special, TreeWork, is_loader

LEAST_SHARE = 1e-4
MOST_UNROLLED = 4096
"""Runs of a loop that creates threads which are told apart."""
MOST_NESTED = 150
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


@dataclass(slots=True)
class _Creations:
    """Which threads a process's calls begin, and in which order they are waited for."""

    pool: list[str]
    created: list[str] = field(default_factory=list)
    joined: int = 0
    runs: Counter[int] = field(default_factory=Counter)
    done: Counter[int] = field(default_factory=Counter)

    def due(self, node: int, entries: int, times: int) -> int:
        """How many of a call's entries belong to this run of the body around it, which runs `times` times in all."""
        self.runs[node] += 1
        until = 1 if entries == 1 else min(self.runs[node] * entries // max(times, 1), entries)
        count = until - self.done[node]
        self.done[node] = max(until, self.done[node])
        return max(count, 0)


def job_programs(
    work: TreeWork, labels: Sequence[str], sharings: Sequence[Sharing], prefix: str, threads: int | None = None
) -> JobPrograms:
    """The programs of all threads of a traced program.

    Args:
        work: its tree with times.
        labels: of regions.
        sharings: of regions.
        prefix: of the threads' and barriers' names, so that copies differ.
        threads: of each team of a parallel region; None: as traced.
    """
    return _Job(work, labels, sharings, prefix).programs(threads)


def team_size(work: TreeWork) -> int:
    """Threads that ran parallel regions; 0 if there are none."""
    return sum(bool(work.all_parallel(thread.root)) for thread in work.tree.threads)


class _Job:
    def __init__(self, work: TreeWork, labels: Sequence[str], sharings: Sequence[Sharing], prefix: str) -> None:
        self.work, self.labels, self.sharings, self.prefix = work, labels, sharings, prefix
        self.total_s = float(sum(work.inclusive_s[thread.root] for thread in work.tree.threads)) or 1.0
        self.shared_roots = Counter(thread.root for thread in work.tree.threads)
        self.notes: list[str] = []
        self.barriers: dict[str, int] = {}
        self.members: list[dict[tuple[str, str], list[int]]] = []
        self.shares: dict[tuple[str, str], list[float]] = {}
        self.dynamic: set[tuple[str, str]] = set()
        self.parallel = {node for node, special in work.special.items() if special is Special.PARALLEL}
        self.nested = 0
        self.scale = 1.0
        self.divided: frozenset[int] = frozenset()

    def programs(self, threads: int | None) -> JobPrograms:
        by_process: dict[int, list[TreeThread]] = defaultdict(list)
        for thread in self.work.tree.threads:
            by_process[thread.process].append(thread)
        made = [program for process in by_process.values() for program in self.process(process, threads)]
        made = self.with_barriers(made)
        if self.work.elsewhere_s and made:
            first = made[0]
            made[0] = ThreadProgram(first.name, (*self.runs(self.work.elsewhere_s, 1.0), *first.program), first.is_born)
        if self.work.waited_s > 0.01 * self.total_s:
            self.notes.append(
                "threads spun in the runtime of parallel regions when the program was traced: they wait in its place"
            )
        return JobPrograms(tuple(made), self.barriers, tuple(self.notes))

    def process(self, threads: list[TreeThread], asked: int | None) -> list[ThreadProgram]:
        main, *others = sorted(threads, key=lambda thread: thread.number)
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
                "one thread was traced, which tells no imbalance of loops divided beforehand: none is assumed"
            )
        apart = [thread for thread in others if thread not in in_team]
        creations = _Creations([self.name(thread.number) for thread in apart])
        parts = self.body(main.root, 1, creations)
        self.add(parts, self.never_forked(together))
        names = [self.name(main.number), *(self.name(thread.number) for thread in in_team)]
        names += [f"{self.prefix} member {number}" for number in range(len(names), size)]
        made = [ThreadProgram(name, tuple(part), True) for name, part in zip(names[:size], parts, strict=True)]
        self.members = []
        own = [(thread, tuple(self.body(thread.root, 1, creations)[0])) for thread in apart]
        begun = set(creations.created)
        unseen = [thread for thread, _ in own if self.name(thread.number) not in begun]
        if unseen:
            self.notes.append(f"who began {len(unseen)} threads is not known: they begin with the program")
        made += [
            ThreadProgram(self.name(thread.number), program, self.name(thread.number) not in begun)
            for thread, program in own
        ]
        return made

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
        found = chunks(work.tree, work.children, nodes, self.parallel)
        if found:
            self.dynamic.add(key)
            entries = max(int(work.tree.entries[groups[0][key][0]]) if key in groups[0] else 1, 1)
            return shares_of_chunks(found / entries, size)
        if as_traced:
            return []
        return shares_of_blocks(
            [sum(float(work.inclusive_s[node]) for node in group.get(key, [])) for group in groups], size
        )

    def never_forked(self, together: Iterable[tuple[str, str]]) -> list[list[Part]]:
        """Work of the team in regions and tasks that the first thread never came to: at the end of each thread."""
        parts: list[list[Part]] = [[] for _ in self.members]
        for key in together:
            if f"{self.prefix} {key[1]} fork" in self.barriers:
                continue
            for number, member in enumerate(self.members):
                share = self.shares[key][number] if key in self.shares else 1.0
                for node in member.get(key, []) if share else []:
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

    def body(self, node: int, times: int, creations: _Creations) -> list[list[Part]]:
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

    def parts_of_body(self, node: int, times: int, creations: _Creations) -> list[list[Part]]:
        share = self.shared_roots.get(node, 1) if self.work.tree.kind[node] == TreeNodeKind.THREAD else 1
        parts: list[list[Part]] = [[] for _ in range(max(len(self.members), 1))]
        sections = self.work.sections(node) if self.work.is_special_below[node] else []
        begins, ends = ({getattr(one, end): one for one in sections} for end in ("first", "last"))
        own_s = dict(self.work.own_s[node])
        for section in sections:
            for region, seconds in section.own_s.items():
                own_s[region] -= seconds
        parts[0] += self.runs(own_s, times * share / self.scale_of(node))
        parallel = [(child, self.work.parallel_below(child)) for child in self.work.children[node]]
        forks: dict[tuple[str, str], int] = Counter()
        for _, found in parallel:
            for one in found:
                forks[self.key(one)] += int(self.work.tree.entries[one])
        done: set[tuple[str, str]] = set()
        for place, (child, found) in enumerate(parallel):
            if place in begins:
                parts[0].append(Lock(f"{self.prefix} {begins[place].name}"))
                parts[0] += self.runs(begins[place].own_s, times * share / self.scale_of(node))
            if place in ends:
                self.add(parts, self.child(child, times * share, creations))
                parts[0].append(Unlock(f"{self.prefix} {ends[place].name}"))
                continue
            if not found or not self.members:
                self.add(parts, self.child(child, times * share, creations))
                continue
            parts[0] += self.runs(self.around(child, set(found)), times * share)
            for key in dict.fromkeys(self.key(one) for one in found):
                if key not in done:
                    done.add(key)
                    self.add(parts, self.fork(key, forks[key], times, creations))
        return parts

    def scale_of(self, node: int) -> float:
        """Share of a node's own work that one thread does; 1 but inside of parallel regions divided otherwise."""
        return self.scale if node in self.divided else 1.0

    @staticmethod
    def add(parts: list[list[Part]], more: Iterable[list[Part]]) -> None:
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

    def fork(self, key: tuple[str, str], entries: int, times: int, creations: _Creations) -> list[list[Part]]:
        """All entries of a parallel region in one run of a body: the team meets, works, and meets again."""
        count = max(round(entries / times), 1)
        members, self.members = self.members, []
        divided, begin, end = self.divided, f"{self.prefix} {key[1]} fork", f"{self.prefix} {key[1]} join"
        made = []
        for number, member in enumerate(members):
            nodes = member.get(key, [])
            self.scale = self.shares[key][number] if key in self.shares else 1.0
            self.divided = frozenset(below for node in nodes for below in self.below(node))
            if not self.scale:
                made.append(_repeated(count, [Barrier(begin), Barrier(end)]))
                continue
            inner: list[Part] = [Barrier(begin)]
            for node in nodes:
                inner += self.body(node, times * count, creations)[0]
            made.append(_repeated(count, [*inner, Barrier(end)]))
        self.members, self.divided = members, divided
        self.barriers[begin] = self.barriers[end] = len(members)
        return made

    def below(self, node: int) -> list[int]:
        found, pending = [], [node]
        while pending:
            found.append(pending.pop())
            pending += reversed(self.work.children[found[-1]])
        return found

    def child(self, node: int, times: int, creations: _Creations) -> list[list[Part]]:
        """All entries of a node in one run of the body above it, which runs `times` times in all."""
        tree, special = self.work.tree, self.work.special.get(node)
        entries = max(int(tree.entries[node]), 1)
        if special is Special.CREATE:
            return [self.created(node, entries, times, creations)]
        if special is Special.JOIN:
            return [self.joined(node, entries, times, creations)]
        if special in (Special.LOCK, Special.UNLOCK):
            return [self.runs(self.work.sums_below(node), times / self.scale_of(node))]
        if special is Special.BARRIER:
            return [[Barrier(f"{self.prefix} pthread barrier")] * max(round(entries / times), 1)]
        is_small = self.work.inclusive_s[node] / times <= LEAST_SHARE * self.total_s
        if not self.work.is_special_below[node] and (is_small or self.nested > MOST_NESTED):
            return [self.runs(self.work.sums_below(node), times / self.scale_of(node))]
        if is_loader(tree, node) and entries < times and self.has_barrier(node):
            return [self.runs(self.work.sums_below(node), times / self.scale_of(node))]
        count = max(round(entries / times), 1)
        if tree.kind[node] == TreeNodeKind.LOOP:
            iterations = max(round(int(tree.iterations[node]) / (times * count)), 1)
            of_iteration_s = self.work.inclusive_s[node] / (times * count * iterations)
            if not self.work.is_special_below[node] and of_iteration_s <= LEAST_SHARE * self.total_s:
                whole = self.runs(self.work.sums_below(node), times * count / self.scale_of(node))
                return [_repeated(count, whole)]
            count *= iterations
        if count > 1 and self.creates(node) and count <= MOST_UNROLLED:
            unrolled: list[list[Part]] = [[] for _ in range(max(len(self.members), 1))]
            for _ in range(count):
                self.add(unrolled, self.body(node, times * count, creations))
            return unrolled
        return [_repeated(count, parts) for parts in self.body(node, times * count, creations)]

    def has_barrier(self, node: int) -> bool:
        return any(self.work.special.get(below) is Special.BARRIER for below in self.below(node))

    def creates(self, node: int) -> bool:
        return self.work.is_special_below[node] and any(
            self.work.special.get(below) in (Special.CREATE, Special.JOIN) for below in self.below(node)
        )

    def created(self, node: int, entries: int, times: int, creations: _Creations) -> list[Part]:
        found: list[Part] = self.runs(self.work.sums_below(node), times)
        for _ in range(creations.due(node, entries, times)):
            if creations.pool:
                name = creations.pool.pop(0)
                creations.created.append(name)
                found.append(Spawn(name))
        return found

    def joined(self, node: int, entries: int, times: int, creations: _Creations) -> list[Part]:
        found: list[Part] = []
        for _ in range(creations.due(node, entries, times)):
            if creations.joined < len(creations.created):
                found.append(Join(creations.created[creations.joined]))
                creations.joined += 1
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


def _repeated(count: int, parts: list[Part]) -> list[Part]:
    return parts if count == 1 or not parts else [Repeat(count, tuple(parts))]


def _visits(program: Iterable[Part], barrier: str) -> int:
    """How often a program comes to a barrier."""
    return sum(
        part.count * _visits(part.body, barrier) if isinstance(part, Repeat) else part == Barrier(barrier)
        for part in program
    )


def _without(program: Iterable[Part], barrier: str) -> tuple[Part, ...]:
    return tuple(
        Repeat(part.count, _without(part.body, barrier)) if isinstance(part, Repeat) else part
        for part in program
        if part != Barrier(barrier)
    )
