"""The programs of a job's threads, and what holds for all of them together.

Threads that do the same have the same program, one tuple: what goes through programs visits each of these once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from foretrace.base.errors import PredictionError
from foretrace.replay.engine.program import Broadcast, Lock, Part, Post, Repeat, Run, Wait
from foretrace.replay.engine.simulation import CONSERVED

_Found = TypeVar("_Found")


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
    """Semaphores that are reader-writer locks: all units are free at first, one is a reader's."""

    @classmethod
    def of_one_thread(cls, program: tuple[Part, ...]) -> JobPrograms:
        """A job of a single thread, without a name of its own."""
        return cls((ThreadProgram("", program, True),), {}, ())


def of_each(threads: Sequence[ThreadProgram], made: Callable[[Sequence[Part]], _Found]) -> list[_Found]:
    """Applies a function to each thread's program, once per distinct program."""
    found: dict[int, _Found] = {}
    for thread in threads:
        if id(thread.program) not in found:
            found[id(thread.program)] = made(thread.program)
    return [found[id(thread.program)] for thread in threads]


def with_programs(
    threads: Sequence[ThreadProgram], made: Callable[[tuple[Part, ...]], tuple[Part, ...]]
) -> list[ThreadProgram]:
    """The threads, each with what is made of its program."""
    changed: dict[int, tuple[Part, ...]] = {}
    for thread in threads:
        if id(thread.program) not in changed:
            changed[id(thread.program)] = made(thread.program)
    return [replace(thread, program=changed[id(thread.program)]) for thread in threads]


def without(program: Iterable[Part], is_left_out: Callable[[Part], bool]) -> tuple[Part, ...]:
    """A program without some of its parts."""
    return tuple(
        Repeat(part.count, without(part.body, is_left_out)) if isinstance(part, Repeat) else part
        for part in program
        if not is_left_out(part)
    )


def run_time_s(program: Iterable[Part]) -> float:
    """Seconds that the activities of a program take alone, all together."""
    return sum(
        part.count * run_time_s(part.body) if isinstance(part, Repeat) else part.time_s
        for part in program
        if isinstance(part, Repeat | Run)
    )


def check_conserved(threads: Sequence[ThreadProgram], predicted_s: float) -> None:
    """Check that threads' programs hold all time that was predicted for the program, and no more.

    Raises:
        PredictionError: they do not, which is a bug.
    """
    made_s = sum(of_each(threads, run_time_s))
    if abs(made_s - predicted_s) > CONSERVED * predicted_s:
        raise PredictionError(
            f"replay: the programs of the threads hold {made_s:.6g} s of work where {predicted_s:.6g} s were "
            "predicted; this is a bug of foretrace"
        )


def in_job(job: int, name: str) -> str:
    """The name in the system of what a job's programs call `name`; "" is its only thread."""
    return f"job {job} {name}".rstrip()


def local_names(job: JobPrograms) -> set[str]:
    """Names of all that a job has of its own: threads, and what they meet at."""
    found = {thread.name for thread in job.threads} | {*job.barriers, *job.semaphores}

    def add(program: Iterable[Part]) -> None:
        for part in program:
            if isinstance(part, Repeat):
                add(part.body)
            elif isinstance(part, Lock | Post | Wait | Broadcast):
                found.add(part.name)

    of_each(job.threads, add)
    return found
