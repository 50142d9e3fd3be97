"""Workers of Python programs, threads or processes: their calls, divided among another number of them.

The workers of a `concurrent.futures` pool take tasks one by one, so that none is busy for longer than a task beyond the
others. Which threads are workers follows from the frames of the pool, where the tree has them, else from what they ran:
the threads of a process, all but the first, whose outermost functions are the same; or so the first threads of all
processes but the first. What a process does when it begins (its main module, where it is spawned) each of them does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from foretrace.replay.engine.program import (
    Broadcast,
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
from foretrace.replay.tree.timed_tree import add_seconds
from foretrace.tracer.signature.tree_records import TreeNodeKind, TreeThread

from .job_programs import JobPrograms, ThreadProgram
from .line_locks import is_in_interpreter
from .tree_programs import thread_name
from .tree_work import Locked, TreeWork

_POOLS = ("concurrent/futures/thread.py", "concurrent/futures/process.py", "multiprocessing/pool.py")
_LIBRARY = (*_POOLS, "/threading.py", "/multiprocessing/process.py", "/multiprocessing/popen_fork.py",
            "/multiprocessing/context.py", "/multiprocessing/spawn.py")  # fmt: skip
_WORKERS = ("_worker", "_process_worker", "worker")
_BEGINNING = ("<module>",)


@dataclass(slots=True)
class Tasks:
    """Calls of one function by all workers: how many, their seconds by region, and those under locks by lock."""

    calls: int = 0
    seconds: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    locked: dict[str, Locked] = field(default_factory=lambda: defaultdict(Locked))

    def body(self, labels: Sequence[str], sharings: Sequence[Sharing]) -> tuple[Part, ...]:
        """One call. What is not under a lock is spread evenly between the locks.

        Locks under which all is the interpreter's work keep nobody waiting who does not wait for the interpreter.
        """
        free, kept = dict(self.seconds), dict[str, Locked]()
        for name, one in self.locked.items():
            if all(is_in_interpreter(sharings[region]) for region in one.seconds):
                add_seconds(free, one.seconds)
            else:
                kept[name] = one
        if not kept:
            return tuple(_runs(free, self.calls, labels, sharings))
        times = {name: max(round(one.times / self.calls), 1) for name, one in kept.items()}
        between = self.calls * sum(times.values())
        found: list[Part] = []
        for name, one in kept.items():
            inside = _runs(one.seconds, self.calls * times[name], labels, sharings)
            parts: tuple[Part, ...] = (
                *_runs(free, between, labels, sharings), Lock(name, sleeps=True), *inside, Unlock(name),
            )  # fmt: skip
            found += parts if times[name] == 1 else (Repeat(times[name], parts),)
        return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Workers by number of thread, and what they did: tasks by function, and the rest, which all share."""

    workers: tuple[int, ...]
    tasks: tuple[Tasks, ...]
    rest: dict[int, float]
    process: int = 0
    """Process that the workers are threads of; -1 for workers that are processes."""
    each_s: dict[int, float] = field(default_factory=dict)
    """{region: seconds} that each of them takes to begin."""

    @classmethod
    def of(cls, work: TreeWork) -> Pool | None:
        """The pool of a Python program; None if it has none that is known."""
        tree = work.tree
        firsts: dict[int, TreeThread] = {}
        for thread in tree.threads:
            firsts.setdefault(thread.process, thread)
        are_processes = len(firsts) > 1
        candidates = list(firsts.values())[1:] if are_processes else tree.threads[1:]
        found = {thread.number: _calls(work, thread.root) for thread in candidates}
        workers = tuple(number for number, (is_worker, _, _) in found.items() if is_worker)
        if not workers:
            ran = {number: {_name(work, call) for call in calls} for number, (_, calls, _) in found.items()}
            ran = {number: own for number, names in ran.items() if (own := _tasks(names))}
            first = next(iter(ran.values()), set())
            if len(ran) < 2 or any(not names & first for names in ran.values()):
                return None
            workers = tuple(ran)
        tasks: dict[tuple[str, str], Tasks] = defaultdict(Tasks)
        rest: dict[int, float] = defaultdict(float)
        each_s: dict[int, float] = defaultdict(float)
        for number in workers:
            _, calls, above = found[number]
            for call in calls:
                if are_processes and _name(work, call)[1] in _BEGINNING:
                    add_seconds(each_s, work.seconds_below(call))
                    continue
                one = tasks[_name(work, call)]
                one.calls += max(int(tree.entries[call]) + int(tree.recursive_entries[call]), 1)
                free, locked = work.locked_below(call)
                add_seconds(one.seconds, free)
                for name, under in locked.items():
                    one.locked[name].times += under.times
                    add_seconds(one.locked[name].seconds, under.seconds)
            for node in above:
                add_seconds(rest, work.own_s[node])
        each_s = {region: seconds / len(workers) for region, seconds in each_s.items()}
        return cls(workers, tuple(tasks.values()), dict(rest), -1 if are_processes else tree.threads[0].process, each_s)

    def divided(self, job: JobPrograms, size: int, labels: Sequence[str], sharings: Sequence[Sharing]) -> JobPrograms:
        """The programs of a job with `size` workers, each of which does as many of the tasks as the others.

        Other threads begin and await all of them where they began and awaited the traced ones. What they waited for
        within tasks is left out.
        """
        traced = {thread_name(number) for number in self.workers}
        names = [f"worker {number}" for number in range(size)]
        others = [thread for thread in job.threads if thread.name not in traced]
        is_born = not any(_begins(thread.program, traced) for thread in others)
        kept = [replace(thread, program=_renamed(thread.program, traced, names)) for thread in others]
        programs = self._programs(size, labels, sharings)
        made = [ThreadProgram(name, program, is_born) for name, program in zip(names, programs, strict=True)]
        workers = f"{len(self.workers)} {'processes' if self.process < 0 else 'threads'}"
        notes = [f"{workers} ran the same functions: their {self.calls:,} calls are divided among {size}"]
        programs = [thread.program for thread in job.threads if thread.name in traced]
        waited, posted = ({name for program in programs for name in _at(program, kind)} for kind in (Wait, Post))
        if waited & posted:
            count = len(waited & posted)
            notes.append(f"at {count} semaphores, queues or conditions workers wait for each other: that is left out")
        return JobPrograms((*kept, *made), job.barriers, (*job.notes, *notes))

    def more_s(self, size: int) -> float:
        """Seconds that `size` workers take to begin over those of the traced ones."""
        return sum(self.each_s.values()) * (size - len(self.workers))

    @property
    def calls(self) -> int:
        """Calls of all functions."""
        return sum(task.calls for task in self.tasks)

    def _programs(self, size: int, labels: Sequence[str], sharings: Sequence[Sharing]) -> Iterable[tuple[Part, ...]]:
        """Programs of each worker. Those that run as many calls share one."""
        bodies = [task.body(labels, sharings) for task in self.tasks]
        before = (*_runs(self.each_s, 1, labels, sharings), *_runs(self.rest, size, labels, sharings))
        found: dict[tuple[int, ...], tuple[Part, ...]] = {}
        for number in range(size):
            calls = tuple(task.calls * (number + 1) // size - task.calls * number // size for task in self.tasks)
            if calls not in found:
                own = [Repeat(count, body) for count, body in zip(calls, bodies, strict=True) if count and body]
                found[calls] = (*before, *own)
            yield found[calls]


def _calls(work: TreeWork, root: int) -> tuple[bool, list[int], list[int]]:
    """Whether a thread has the frames of a pool's worker, its outermost functions, and the frames above them."""
    is_worker, calls, above, pending = False, [], [], [root]
    while pending:
        node = pending.pop()
        key = work.tree.keys[node]
        is_library = key.file.endswith(_LIBRARY)
        is_worker = is_worker or (key.file.endswith(_POOLS) and key.function in _WORKERS)
        if work.tree.kind[node] == TreeNodeKind.CALL and not is_library:
            calls.append(node)
        else:
            above.append(node)
            pending += reversed(work.children[node])
    return is_worker, calls, above


def _tasks(names: set[tuple[str, str]]) -> set[tuple[str, str]]:
    return {name for name in names if name[1] not in _BEGINNING}


def _name(work: TreeWork, node: int) -> tuple[str, str]:
    key = work.tree.keys[node]
    return key.module, key.function


def _runs(seconds: dict[int, float], times: int, labels: Sequence[str], sharings: Sequence[Sharing]) -> Iterable[Run]:
    for region, time_s in seconds.items():
        if time_s > 0:
            yield Run(labels[region], time_s / times, sharings[region])


def _begins(program: Iterable[Part], names: set[str]) -> bool:
    return any(
        _begins(part.body, names) if isinstance(part, Repeat) else isinstance(part, Spawn) and part.entity in names
        for part in program
    )


def _at(program: Iterable[Part], kind: type[Wait] | type[Post]) -> Iterable[str]:
    for part in program:
        if isinstance(part, Repeat):
            yield from _at(part.body, kind)
        elif isinstance(part, kind):
            yield part.name


def _renamed(program: Iterable[Part], traced: set[str], names: Sequence[str]) -> tuple[Part, ...]:
    """The program with all new workers begun, and awaited, where the first of the traced ones was."""
    begun: set[type] = set()

    def walk(parts: Iterable[Part]) -> Iterable[Part]:
        for part in parts:
            if isinstance(part, Repeat):
                body = tuple(walk(part.body))
                if body:
                    yield Repeat(part.count, body)
            elif isinstance(part, Spawn | Join) and part.entity in traced:
                if type(part) not in begun:
                    begun.add(type(part))
                    yield from (replace(part, entity=name) for name in names)
            elif not isinstance(part, Wait | Post | Broadcast):
                yield part

    return tuple(walk(program))
