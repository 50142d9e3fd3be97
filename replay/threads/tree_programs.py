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

The module is long for one walk over the tree: what a thread does next depends on what all others have done.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from foretrace.base.errors import PredictionError
from foretrace.base.units import format_seconds
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
from foretrace.replay.tree.timed_tree import Flags
from foretrace.tracer.signature.tree_records import NodeKey, TreeNodeKind, TreeThread

from .job_programs import JobPrograms, ThreadProgram, check_conserved, of_each, with_programs, without
from .line_locks import Held, is_in_interpreter, line_in_body
from .phases import Phased
from .runtimes import SECTIONS, function_name, is_loader, is_runtime
from .stops import Draft, Rare, Stops, finished, one_of_many, repeated, units_at_start
from .teams import ONCE, Body, Doers, RegionKey, Strand, Team, region_key
from .tree_waits import TAKES, Inside, Role, Stop
from .tree_work import Section, TreeWork

PTHREAD_BARRIER = "pthread barrier"
LEAST_SHARE = 1e-4
_NOTABLE = 0.01
_GO = ("runtime.mstart", "runtime.rt0_go", "runtime.goexit")
"""Functions of Go's runtime that all its programs run."""
MOST_UNROLLED = 4096
"""Runs of a loop that creates threads which are told apart."""
MOST_NESTED = 100
"""Bodies in one another; what is below is one activity for each region in it, unless threads wait there."""


@dataclass(slots=True)
class _Creations:
    """Threads that a process's calls create, and the order in which they are waited for.

    `known` and `ends` have, by node, the threads that edges say a call creates and waits for; `pool` those that no edge
    tells the creation of. A call that no edge tells more of takes the next one. `creators` has the number of the thread
    that created each, `creator` that of the thread whose program is made.
    """

    pool: list[str]
    known: dict[int, list[str]]
    ends: dict[int, list[str]]
    creators: Mapping[str, int]
    creator: int = -1
    created: set[str] = field(default_factory=set)
    unjoined: dict[str, None] = field(default_factory=dict)
    """Threads that were created and that nothing waits for yet, in order."""
    expected: set[str] = field(init=False)
    """Threads that a call is still to wait for by its edge."""
    runs: Counter[int] = field(default_factory=Counter)
    done: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.expected = {name for ends in self.ends.values() for name in ends}

    def are_there(self, node: int) -> bool:
        """Whether all threads that a place waits for have been created."""
        return self.created.issuperset(self.ends[node])

    def next_end(self, node: int) -> str | None:
        """The thread that a place waits for next; None: there is none.

        It is the thread of the place's next edge. But where the thread whose program is made creates that one only
        later, the call waits for a thread that had already ended when it was traced, and which has no edge.
        """
        told = self.ends.get(node)
        if told and (told[0] in self.created or self.creators[told[0]] != self.creator):
            name = told.pop(0)
            self.expected.discard(name)
        else:
            name = next((one for one in self.unjoined if one not in self.expected), "")
        self.unjoined.pop(name, None)
        return name or None

    def due(self, node: int, entries: int, times: float) -> int:
        """Entries of a call in this run of the body around it, which runs `times` times in all."""
        self.runs[node] += 1
        until = 1 if entries == 1 else min(int(self.runs[node] * entries // max(times, 1)), entries)
        count = until - self.done[node]
        self.done[node] = max(until, self.done[node])
        return max(count, 0)


def job_programs(
    work: TreeWork,
    labels: Sequence[str],
    sharings: Sequence[Sharing],
    threads: int | None = None,
    of_process: Mapping[int, Sequence[Sharing]] | None = None,
    *,
    team_sleeps: bool = False,
) -> JobPrograms:
    """The programs of all threads of a traced program.

    Args:
        work: its tree with times.
        labels: of regions.
        sharings: of regions.
        threads: of each team of a parallel region; None: as traced.
        of_process: of regions, for processes whose threads share them otherwise.
        team_sleeps: whether threads sleep, rather than spin, where the runtime of parallel regions has them wait.

    Raises:
        PredictionError: calls that create threads or wait for them are nested too deeply, or the programs hold more or
            less time than was predicted, which is a bug.
    """
    made = _Job(work, labels, sharings, of_process or {}, team_sleeps).programs(threads)
    check_conserved(made.threads, work.predicted_s - work.waited_s)
    return made


def team_size(work: TreeWork) -> int:
    """Threads that ran parallel regions; 0 if there are none."""
    return sum(bool(work.all_parallel(thread.root)) for thread in work.tree.threads)


class _Job:
    """The programs of a program's threads.

    Bodies come in parts for each kind of the team's members (see `teams.py`). `doers` says which kinds do what a strand
    did, `heads` how many of the traced threads were there.
    """

    def __init__(
        self,
        work: TreeWork,
        labels: Sequence[str],
        sharings: Sequence[Sharing],
        of_process: Mapping[int, Sequence[Sharing]],
        team_sleeps: bool,
    ) -> None:
        self.work, self.labels, self.sharings = work, labels, sharings
        self.plain, self.of_process = sharings, of_process
        self.team_sleeps = team_sleeps
        self.begun: set[str] = set()
        self.total_s = float(sum(work.inclusive_s[thread.root] for thread in work.tree.threads)) or 1.0
        self.sharing_root = Counter(thread.root for thread in work.tree.threads)
        self.notes: list[str] = []
        self.barriers: dict[str, int] = {}
        self.held: str | None = None
        self.taken: set[str] = set()
        self.shared_locks: set[str] = set()
        self.most_threads = 1
        self.phased = Phased(work)
        self.nested = 0
        self.region: str | None = None
        """The function of the parallel region around a body."""
        self.in_team = False
        """Whether the team's members are at a body together."""
        self.is_divided_beforehand = False
        """Whether they are in a region whose loops are divided in blocks, not chunks or tasks."""
        self.heads = 1.0
        self.alike: dict[tuple[object, ...], list[list[Draft]]] | None = None
        """Parts of unrolled loops that create and await no threads."""
        self.creates_below = self.any_below(self.begins_or_ends)
        self.stops_below = self.any_below(lambda node: node in work.waits.stops or node in work.waits.inside)
        self.meets_below = self.any_below(lambda node: work.special.get(node) in (Role.BARRIER, Role.MEETING))

    def any_below(self, holds: Callable[[int], bool]) -> Flags:
        """bool [nodes]: whether something holds for a node or one below it."""
        return self.work.any_below(self.work.flags(filter(holds, range(len(self.work)))))

    def begins_or_ends(self, node: int) -> bool:
        """Whether threads are created or awaited in a node."""
        inside = self.work.waits.inside.get(node, ())
        return self.work.special.get(node) in (Role.CREATE, Role.JOIN) or any(one.threads for one in inside)

    def programs(self, threads: int | None) -> JobPrograms:
        self.most_threads = max(len(self.work.tree.threads), threads or 1)
        by_process: dict[int, list[TreeThread]] = defaultdict(list)
        for thread in self.work.tree.threads:
            by_process[thread.process].append(thread)
        by_name = {one.name for found in self.work.waits.line_locks.of_body.values() for one in found}
        made_by_process = [self.process(process, threads) for process in by_process.values()]
        idle = by_name - _needed_locks(made_by_process) if by_name else set()
        made = _without_locks([program for process in made_by_process for program in process], idle)
        made = self.with_barriers(made)
        semaphores = dict.fromkeys(sorted(self.shared_locks), self.most_threads)
        if self.work.waits.stops or self.work.waits.inside:
            if threads not in self.work.units:
                programs = {thread.name: (thread.program, thread.is_born) for thread in made}
                self.work.units[threads] = units_at_start(programs, self.barriers, semaphores)
            semaphores |= self.work.units[threads]
        if self.work.elsewhere_s and made:
            first = made[0]
            made[0] = replace(first, program=(*self.runs(self.work.elsewhere_s, 1.0), *first.program))
        self.notes += self.work.waits.line_locks.notes
        if any(key.function.startswith(_GO) for key in self.work.tree.keys):
            self.notes.append(
                "a Go program: its goroutines stay on the threads that ran them when it was traced, as much as each "
                "ran; Go would hand them to those that are free"
            )
        if self.work.waited_s > _NOTABLE * self.total_s:
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
        self.team = Team.of(self.work, [thread.root for thread in teams], size)
        if has_team and len(teams) == 1 and size > 1 and not self.team.shares.keys() <= self.team.dynamic:
            self.notes.append(
                "one thread was traced: loops divided beforehand are taken to be in equal blocks of iterations, and as "
                "uneven as the loops within them"
            )
        apart = [thread for thread in others if thread not in in_team]
        creations = self.creations(apart, self.processes_of(threads))
        kinds = [tuple(parts) for parts in self.thread(main, creations)]
        names = [thread_name(main.number), *(thread_name(thread.number) for thread in in_team)]
        names += [f"member {number}" for number in range(len(names), size)]
        made = [
            ThreadProgram(name, kinds[kind], name not in self.begun)
            for name, kind in zip(names[:size], self.team.kind_of, strict=True)
        ]
        own = []
        for thread in apart:
            self.team = Team.of(self.work, [thread.root], 1)
            own.append((thread_name(thread.number), tuple(self.thread(thread, creations)[0])))
        begun = creations.created
        self.begun |= begun
        unseen = [name for name, _ in own if name not in begun]
        if unseen:
            self.notes.append(f"who began {len(unseen)} threads is not known: they begin with the program")
        made += [ThreadProgram(name, program, name not in begun) for name, program in own]
        return made

    def processes_of(self, threads: list[TreeThread]) -> list[TreeThread]:
        """First threads of the processes that these threads began, at places that edges name."""
        numbers, own = {thread.number for thread in threads}, threads[0].process
        firsts: dict[int, TreeThread] = {}
        for thread in self.work.tree.threads:
            firsts.setdefault(thread.process, thread)
        return [one for process, one in firsts.items() if process > own and one.parent in numbers]

    def creations(self, apart: list[TreeThread], processes: list[TreeThread]) -> _Creations:
        """Creations of threads that are in no team, and of processes."""
        known_processes = {thread.number for thread in processes}
        names = {thread.number: thread_name(thread.number) for thread in (*apart, *processes)}
        known, ends = (
            {node: [names[number] for number in numbers if number in names] for node, numbers in edges.items()}
            for edges in (self.work.waits.creates, self.work.waits.joins)
        )
        for inside in (one for places in self.work.waits.inside.values() for one in places if one.threads):
            edges = known if inside.what is Role.CREATE else ends
            edges[id(inside)] = [names[number] for number in inside.threads if number in names]
        told = {name for created in known.values() for name in created}
        pool = [name for number, name in names.items() if name not in told and number not in known_processes]
        return _Creations(pool, known, ends, {names[one.number]: one.parent for one in (*apart, *processes)})

    def thread(self, thread: TreeThread, creations: _Creations) -> list[list[Part]]:
        """Programs of a thread, of each kind of the team's members that share its parallel regions."""
        self.doers, self.heads, self.region = self.team.first_alone, 1.0, None
        root, creations.creator = thread.root, thread.number
        share = 1.0 if self.team.threads_of[0] > 1 else 1 / self.sharing_root[root]
        bodies = self.body((Strand(0, root, share),), 1, creations)
        before, behind = self.nothing(), self.nothing()
        for place, other in enumerate(self.team.roots[1:], 1):
            outside = self.work.seconds_below(other, set(self.work.all_parallel(other)))
            self.put(before, [(self.team.outside[place], outside, 1.0)], 1)
        apart_s = 0.0
        for key, strand in self.team.left():
            seconds = self.work.seconds_below(strand.node)
            self.put(behind, [(self.team.doers(key)[strand.root], seconds, strand.share)], 1)
            alike = self.team.threads_of[strand.root]
            apart_s += (
                0.0 if key in self.team.dynamic else float(self.work.inclusive_s[strand.node]) * strand.share * alike
            )
        if apart_s > _NOTABLE * self.total_s:
            self.notes.append(
                f"{format_seconds(apart_s)} are of parallel regions that the first thread was in no team of, such as "
                "teams within teams: they run behind all else, and nobody waits for them"
            )
        return [
            [*finished([*first, *repeated(1, parts, 1), *last])]
            for first, parts, last in zip(before, bodies, behind, strict=True)
        ]

    def nothing(self) -> list[list[Draft]]:
        return [[] for _ in range(self.team.num_kinds)]

    def runs(self, seconds: Mapping[int, float], times: float) -> list[Part]:
        """Activities of regions, of `times` runs together."""
        return [
            Run(self.labels[region], time_s / times, self.sharings[region])
            for region, time_s in seconds.items()
            if time_s > 0
        ]

    def put(
        self,
        parts: list[list[Draft]],
        seconds: Iterable[tuple[Sequence[tuple[int, float]], Mapping[int, float], float]],
        times: float,
    ) -> None:
        """Add activities of `times` runs together: of each of (who does it, seconds by region, share of them)."""
        sums: dict[int, dict[int, float]] = {}
        for doers, by_region, share in seconds:
            if not by_region:
                continue
            for kind, part in doers:
                own = sums.setdefault(kind, {})
                for region, time_s in by_region.items():
                    own[region] = own.get(region, 0.0) + time_s * share * part
        for kind, own in sums.items():
            parts[kind] += self.runs(own, times)

    def put_each(
        self, parts: list[list[Draft]], body: Body, seconds: Callable[[int], Mapping[int, float]], times: float
    ) -> None:
        """Add activities of a body's nodes."""
        self.put(parts, ((self.doers[root], seconds(node), share) for root, node, share in body), times)

    def who(self, body: Body) -> list[int]:
        """Kinds of members that come to a body."""
        if len(body) == 1:
            return [kind for kind, _ in self.doers[body[0].root]]
        return sorted({kind for root, _, _ in body for kind, _ in self.doers[root]})

    def entries(self, body: Body) -> float:
        """Entries of a thread into a body."""
        return sum(int(self.work.tree.entries[node]) * share for _, node, share in body) / self.heads

    @staticmethod
    def any_of(holds: Flags, body: Body) -> bool:
        """Whether something holds for a node of a body."""
        return any(holds[node] for _, node, _ in body)

    def below(self, body: Body) -> list[Body]:
        """The children of a body, in order: nodes with the same key are one."""
        if len(body) == 1:
            ((root, parent, share),) = body
            return [(Strand(root, node, share),) for node in self.work.children[parent]]
        order: list[tuple[int, NodeKey]] = []
        found: dict[tuple[int, NodeKey], list[Strand]] = {}
        for root, parent, share in body:
            place = 0
            for node in self.work.children[parent]:
                key = int(self.work.tree.kind[node]), self.work.tree.keys[node]
                if key in found:
                    place = order.index(key, 0) + 1
                else:
                    found[key] = []
                    order.insert(place, key)
                    place += 1
                found[key].append(Strand(root, node, share))
        return [tuple(found[key]) for key in order]

    def body(self, body: Body, times: float, creations: _Creations) -> list[list[Draft]]:
        """Parts of one run of a body, which runs `times` times in all; of each kind of the team's members.

        Raises:
            PredictionError: calls that create threads or wait for them are nested too deeply.
        """
        if self.nested > 2 * MOST_NESTED:
            raise PredictionError(f"replay: threads wait in calls that are nested more than {2 * MOST_NESTED} deep")
        self.nested += 1
        parts, children = self.nothing(), self.below(body)
        first = body[0]
        mine = self.who(body)
        sections = self.sections(body, children) if self.any_of(self.work.is_special_below, body) else []
        begins, ends = ({getattr(one[0][1], end): one for one in sections} for end in ("first", "last"))
        line_sections = self.work.line_sections(first.node) if len(body) == 1 else []
        inside_s = [
            (self.doers[strand.root], section.own_s, -strand.share) for one in sections for strand, section in one
        ]
        inside_s += [(self.doers[first.root], seconds, -first.share) for _, seconds in line_sections]
        own_s = [(self.doers[root], self.work.own_s[node], share) for root, node, share in body]
        self.put(parts, [*own_s, *inside_s], times)
        held = self.held
        by_line = Held([(one, self.runs(seconds, times / first.share)) for one, seconds in line_sections], self.taken)
        places = [(child, self.forks_below(child)) for child in children]
        forks: dict[tuple[RegionKey, int], list[int]] = defaultdict(list)
        for child, found in places:
            for node in found:
                forks[region_key(self.work, node), line_in_body(self.work.tree, child[0].node)].append(node)
        left = list(self.work.waits.inside.get(first.node, ())) if len(body) == 1 else []
        into, runs = parts, times  # where a child's parts go, which runs so often
        doers, is_joint = self.doers, self.is_divided_beforehand and self.is_joint(body, children)
        for place, (child, found) in enumerate(places):
            self.doers = self.who_is_due(child, doers, times, is_joint=is_joint)
            line = line_in_body(self.work.tree, child[0].node)
            here = self.who(child)
            for inside in [inside for inside in left if inside.line < line + inside.comes_first]:
                if inside.what is not Role.JOIN or creations.are_there(id(inside)):
                    add_to(into, mine, by_line.at(inside.line))
                    add_to(into, mine, self.inside(inside, runs, first.share, creations, by_line.innermost))
                    left.remove(inside)
            add_to(into, mine, by_line.at(line))
            if place in begins:
                under = begins[place]
                if self.is_branch(child, [body for body, _ in places[place : under[0][1].last + 1]], times):
                    into, runs = self.nothing(), self.entries(child)
                taken, _ = self.lock(under[0][1])
                self.held = taken.name if isinstance(taken, Lock) else held
                add_to(into, here, [taken])
                self.put(into, [(self.doers[strand.root], one.own_s, strand.share) for strand, one in under], runs)
            if place in ends:
                self.add(into, self.child(child, runs, creations))
                add_to(into, here, [self.lock(ends[place][0][1])[1]])
                self.held = held
                if into is not parts:
                    self.add(parts, (branch(own, runs) for own in into))
                    into, runs = parts, times
                continue
            if any(node in self.work.waits.stops for _, node, _ in child):
                self.add(into, self.stops(child, runs))
                continue
            if not found:
                self.add(into, self.child(child, runs, creations))
                continue
            outside = self.work.seconds_below(child[0].node, set(found))
            self.put(into, [(self.doers[child[0].root], outside, child[0].share)], runs)
            for key in dict.fromkeys(region_key(self.work, node) for node in found):
                nodes = forks.pop((key, line), None)
                if nodes:
                    self.add(into, self.fork(key, nodes, runs, creations))
        self.doers = doers
        for inside in sorted(left, key=lambda inside: inside.what is Role.JOIN):
            add_to(parts, mine, by_line.at(inside.line))
            add_to(parts, mine, self.inside(inside, times, first.share, creations, by_line.innermost))
        add_to(parts, mine, by_line.end())
        self.nested -= 1
        return parts

    def who_is_due(self, child: Body, doers: Doers, times: float, *, is_joint: bool) -> Doers:
        """Who does a child of a body that runs `times` times a thread, where the team does as `doers` say.

        One member does for all what all threads together came to once in each run, if the team comes to the body
        jointly. Of a thread that was traced alone, it is what follows a construct for one member, up to its end or to
        where the team meets or asks for its parts of a loop. Chunks and tasks go to who is free.
        """
        if not self.is_divided_beforehand or any(is_runtime(self.work.tree, node) for _, node, _ in child):
            is_single = self.is_divided_beforehand and self.heads == 1 and self.has_role(child, Role.SINGLE)
            return self.team.one_for_all if is_single else doers
        if self.heads == 1:
            return self.doers
        is_of_one = is_joint and abs(self.entries(child) * self.heads - times) <= ONCE * times
        return self.team.one_for_all if is_of_one else doers

    def is_joint(self, body: Body, children: Sequence[Body]) -> bool:
        """Whether the team comes to a body jointly: the region's function, or what it meets in."""
        is_region = self.work.special.get(body[0].node) is Role.PARALLEL
        names = [function_name(self.work.tree, node) for child in children for _, node, _ in child]
        if any(SECTIONS.match(name) for name in names):
            return False
        return is_region or any(self.has_role(child, Role.MEETING) for child in children)

    def has_role(self, child: Body, role: Role) -> bool:
        return any(self.work.special.get(node) is role for _, node, _ in child)

    def sections(self, body: Body, children: Sequence[Body]) -> list[list[tuple[Strand, Section]]]:
        """Critical sections of a body, by their places among its children: those of all its strands."""
        if len(body) == 1:
            return [[(body[0], one)] for one in self.work.sections(body[0].node)]
        place_of = {strand.node: place for place, child in enumerate(children) for strand in child}
        found: dict[tuple[int, int], list[tuple[Strand, Section]]] = defaultdict(list)
        for strand in body:
            own = self.work.children[strand.node]
            for one in self.work.sections(strand.node):
                placed = replace(one, first=place_of[own[one.first]], last=place_of[own[one.last]])
                found[placed.first, placed.last].append((strand, placed))
        apart: list[list[tuple[Strand, Section]]] = []
        for (_, last), those in sorted(found.items()):
            if not apart or those[0][1].first > apart[-1][0][1].last:
                apart.append(those)
            else:  # threads that took other branches
                apart[-1] += [(strand, replace(one, last=last)) for strand, one in those]
        return apart

    def is_branch(self, first: Body, children: Sequence[Body], times: float) -> bool:
        """Whether a critical section is in a branch of a body that is not taken in each of its `times` runs.

        Sections in which threads wait for one another otherwise, too, are replayed as if they were.
        """
        waits = any(
            self.any_of(self.stops_below, child) or self.any_of(self.creates_below, child) for child in children
        )
        return 0 < self.entries(first) < times and not waits

    def forks_below(self, child: Body) -> list[int]:
        """The functions of parallel regions that the first thread begins in a call; none inside of a region."""
        return self.work.parallel_below(child[0].node) if self.region is None else []

    def stops(self, child: Body, times: float) -> list[list[Draft]]:
        """A call before or behind which threads wait for a semaphore, or post it."""
        waits, parts, posts = self.nothing(), self.nothing(), self.nothing()
        for root, node, share in child:
            for stop in self.work.waits.stops.get(node, ()):
                one = Stops(stop.semaphore, stop.is_wait, stop.total * share, stop.units, self.held)
                add_to(waits if stop.is_wait else posts, [kind for kind, _ in self.doers[root]], [one])
        self.put_each(parts, child, self.work.seconds_below, times)
        return [[*before, *own, *behind] for before, own, behind in zip(waits, parts, posts, strict=True)]

    def lock(self, section: Section) -> tuple[Lock | Wait, Unlock | Post]:
        """The parts that begin and end a critical section.

        A reader-writer lock is a semaphore: a reader takes one of its units, a writer all of them, first come, first
        served.
        """
        name, sleeps = section.name, self.team_sleeps if section.sleeps is None else section.sleeps
        if section.takes is Role.LOCK:
            return Lock(name, sleeps), Unlock(name)
        self.shared_locks.add(name)
        units = 1 if section.takes is Role.READ_LOCK else self.most_threads
        return Wait(name, units, sleeps), Post(name, units)

    def inside(
        self, inside: Inside, times: float, share: float, creations: _Creations, held: str | None
    ) -> list[Draft]:
        """Parts of a thread that holds the lock `held` on a line of its own body, in one run of that."""
        what = inside.what
        if isinstance(what, Stop):
            return [Stops(what.semaphore, what.is_wait, what.total * share, what.units, held)]
        count = creations.due(id(inside), len(inside.threads), times / share)
        if what is Role.CREATE:
            return [*self.spawns(id(inside), count, creations)]
        return [*self.ends(id(inside), count, creations)]

    @staticmethod
    def add(parts: list[list[Draft]], more: Iterable[Sequence[Draft]]) -> None:
        for mine, new in zip(parts, more, strict=True):
            mine += new

    def fork(self, key: RegionKey, nodes: Sequence[int], times: float, creations: _Creations) -> list[list[Draft]]:
        """All entries of a parallel region at a place, in one run of the body there: the team meets, works, and meets
        again."""
        entries = sum(int(self.work.tree.entries[node]) for node in nodes)
        is_branch = 0 < entries < times
        count = 1 if is_branch else max(round(entries / times), 1)
        runs = float(entries) if is_branch else times
        before = self.doers, self.heads
        body = self.team.strands(key, nodes)
        came = sum(int(self.work.tree.entries[node]) * share for _, node, share in body)
        self.doers, self.heads = self.team.doers(key), max(came / max(entries, 1), 1.0)
        self.region, self.in_team = key[1], True
        self.is_divided_beforehand = key not in self.team.dynamic
        inner = self.body(body, runs * count, creations)
        self.region, self.in_team, self.is_divided_beforehand = None, False, False
        self.doers, self.heads = before
        begin, end = self.meets(f"{key[1]} fork"), self.meets(f"{key[1]} join")
        if is_branch:
            return [branch([*begin, *parts, *end], runs, is_joint=True) for parts in inner]
        return [repeated(count, [*begin, *parts, *end], times) for parts in inner]

    def meets(self, name: str) -> list[Part]:
        """All members of the team wait for one another."""
        size = len(self.team.kind_of)
        if size == 1:
            return []
        self.barriers[name] = size
        return [Barrier(name, self.team_sleeps)]

    def child(self, child: Body, times: float, creations: _Creations) -> list[list[Draft]]:
        """All entries of a node in one run of the body above it, which runs `times` times in all."""
        if self.alike is None or self.any_of(self.creates_below, child):
            return self.parts_of_child(child, times, creations)
        key = (child, times, self.phased.window, self.region, self.held, tuple(self.taken))
        if key not in self.alike:
            self.alike[key] = self.parts_of_child(child, times, creations)
        return self.alike[key]

    def parts_of_child(self, child: Body, times: float, creations: _Creations) -> list[list[Draft]]:
        tree, node = self.work.tree, child[0].node
        special = next((role for _, one, _ in child if (role := self.work.special.get(one)) is not None), None)
        count = max(round(self.entries(child) / times), 1)
        whole = self.nothing()
        if special in (Role.CREATE, Role.JOIN):
            self.put_each(whole, child, self.work.seconds_below, times)
            for root, one, share in child:
                due = creations.due(one, max(int(tree.entries[one]), 1), times / share)
                begin = self.spawns if special is Role.CREATE else self.ends
                add_to(whole, [kind for kind, _ in self.doers[root]], begin(one, due, creations))
            return whole
        if special in (*TAKES, Role.UNLOCK):
            self.put_each(whole, child, self.work.seconds_below, times)
            return whole
        if special is Role.BARRIER:
            self.put_each(whole, child, self.work.seconds_below, times)
            add_to(whole, self.who(child), [Barrier(PTHREAD_BARRIER, sleeps=True)] * count)
            return whole
        is_special_below = self.any_of(self.work.is_special_below, child)
        inclusive_s = sum(float(self.work.inclusive_s[one]) * share for _, one, share in child) / self.heads
        is_small = inclusive_s / times <= LEAST_SHARE * self.total_s
        if not is_special_below and (is_small or self.nested > MOST_NESTED):
            self.put_each(whole, child, self.phased.sums, times)
            return whole
        if is_loader(tree, node) and self.entries(child) < times and self.any_of(self.meets_below, child):
            self.put_each(whole, child, self.work.seconds_below, times)
            return whole
        if special is Role.MEETING and self.in_team:
            met, entries = self.meets(f"{self.region} barrier"), self.entries(child)
            if 0 < 2 * entries < times:
                bodies = self.body(child, entries, creations)
                return [branch([*parts, *met], entries, is_joint=True) for parts in bodies]
            return [repeated(count, [*parts, *met], times) for parts in self.body(child, times * count, creations)]
        if special is Role.PARALLEL and self.in_team:  # a task, or a region inside of the region
            self.in_team = False
            found = self.several(child, count, times, times * count, creations)
            self.in_team = True
            return found
        if tree.kind[node] == TreeNodeKind.LOOP:
            scale = self.phased.scale(node)
            all_iterations = sum(int(tree.iterations[one]) * share for _, one, share in child) / self.heads
            iterations = max(round(all_iterations * scale / (times * count)), 1)
            of_iteration_s = inclusive_s / (times * count * iterations)
            if not is_special_below and of_iteration_s <= LEAST_SHARE * self.total_s:
                self.put_each(whole, child, self.phased.sums, times * count)
                return [repeated(count, parts, times) for parts in whole]
            if times == count == 1 and self.phased.may_split(node) and not self.any_of(self.creates_below, child):
                return self.phases(child, iterations, creations)
            with self.phased.inside(node):
                runs = times * count * iterations / scale if scale != 1 else times * count * iterations
                return self.several(child, count * iterations, times, runs, creations)
        return self.several(child, count, times, times * count, creations)

    def several(self, child: Body, count: int, times: float, runs: float, creations: _Creations) -> list[list[Draft]]:
        """A body that runs `count` times in each of `times` entries, `runs` times in all."""
        if count == 1 or count > MOST_UNROLLED or not self.any_of(self.creates_below, child):
            return [repeated(count, parts, times) for parts in self.body(child, runs, creations)]
        unrolled = self.nothing()
        around, self.alike = self.alike, {}
        for run in range(count):
            bodies = self.body(child, runs, creations)
            self.add(unrolled, [one_of_many(parts, run, runs) for parts in bodies])
        self.alike = around
        return unrolled

    def phases(self, child: Body, count: int, creations: _Creations) -> list[list[Draft]]:
        """A loop that is entered once, and whose body changes with the phases of the loops below it."""
        found = self.nothing()
        for begin, end in pairwise(self.phased.breaks(child[0].node, count)):
            share = (end - begin) / count
            with self.phased.within(begin / count, end / count):
                for kind, parts in enumerate(self.body(child, count, creations)):
                    here = [replace(one, total=one.total * share) if isinstance(one, Rare) else one for one in parts]
                    found[kind] += repeated(end - begin, here, 1)
        return found

    def spawns(self, node: int, count: int, creations: _Creations) -> list[Part]:
        """The next threads that a place creates."""
        found: list[Part] = []
        for _ in range(count):
            pool = creations.known.get(node) or creations.pool
            if pool:
                name = pool.pop(0)
                creations.created.add(name)
                creations.unjoined[name] = None
                found.append(Spawn(name, asleep=True))
        return found

    def ends(self, node: int, count: int, creations: _Creations) -> list[Part]:
        """Waits for the next threads that a place waits for."""
        names = (creations.next_end(node) for _ in range(count))
        return [Join(name, sleeps=True) for name in names if name is not None]

    def with_barriers(self, made: list[ThreadProgram]) -> list[ThreadProgram]:
        """Keep the pthread barrier if all that come there do so equally often."""
        visits = [count for count in of_each(made, _visits) if count]
        if visits and len(set(visits)) == 1 and len(visits) > 1:
            self.barriers[PTHREAD_BARRIER] = len(visits)
            return made
        if not visits:
            return made
        self.notes.append("threads came to pthread_barrier_wait differently often: they do not wait there")
        return with_programs(made, lambda program: without(program, _is_pthread_barrier))


def thread_name(number: int) -> str:
    """Name of a traced thread."""
    return f"thread {number}"


def branch(body: Sequence[Draft], total: float, *, is_joint: bool = False) -> list[Draft]:
    """A body that runs `total` times in all, less often than what it is in; what is rarer still is apart."""
    drafts = repeated(1, body, total)
    taken = finished(part for part in drafts if not isinstance(part, Stops | Rare))
    rarer = [part for part in drafts if isinstance(part, Stops | Rare)]
    own: list[Draft] = [Rare(taken, total, is_joint)] if taken else []
    return [*rarer, *own]


def add_to(parts: list[list[Draft]], kinds: Iterable[int], more: Sequence[Draft]) -> None:
    """Add the same parts to those of some kinds of members."""
    for kind in kinds if more else ():
        parts[kind] += more


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


def _without_locks(made: list[ThreadProgram], names: set[str]) -> list[ThreadProgram]:
    """Threads' programs without some locks."""
    if not names:
        return made
    return with_programs(
        made, lambda program: without(program, lambda part: isinstance(part, Lock | Unlock) and part.name in names)
    )


def _visits(program: Sequence[Part]) -> int:
    """Visits of a program to the pthread barrier."""
    return sum(
        part.count * _visits(part.body) if isinstance(part, Repeat) else _is_pthread_barrier(part) for part in program
    )


def _is_pthread_barrier(part: Part) -> bool:
    return isinstance(part, Barrier) and part.name == PTHREAD_BARRIER
