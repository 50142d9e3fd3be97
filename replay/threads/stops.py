"""Stops and branches that are rarer than the body around them in folded programs; units of semaphores at the start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from foretrace.replay.engine.program import Entity, Lock, Part, Post, Repeat, Run, System, Unlock, Wait
from foretrace.replay.engine.simulation import DeadlockError, simulate

MOST_ATTEMPTS = 32
"""To find units at the start with which no thread waits forever."""


@dataclass(frozen=True, slots=True)
class Stops:
    """A place in a body where a thread waits for a semaphore, or posts it: `total` times in all, `units` each time.

    `held` is a lock that the thread has there, and gives back while it waits. Such a place stands in a body until it is
    known how often that runs (see `repeated`).
    """

    semaphore: str
    is_wait: bool
    total: float
    units: int
    held: str | None

    def parts(self, times: int, due: float) -> list[Part]:
        """One stop for `times`, of which `due` were expected."""
        if not self.is_wait:
            return [Post(self.semaphore, times * self.units)]
        wait = Wait(self.semaphore, times * self.units, sleeps=True)
        return [wait] if self.held is None else [Unlock(self.held), wait, Lock(self.held, sleeps=True)]


@dataclass(frozen=True, slots=True)
class Rare:
    """A branch of a body that is taken `total` times in all, which is less often than the body runs.

    It is a critical section, or where a team meets. `body` is what happens each time. `is_joint`: all members of a team
    take it together, and equally often.
    """

    body: tuple[Part, ...]
    total: float
    is_joint: bool = False

    def parts(self, times: int, due: float) -> list[Part]:
        """The branch, taken `times` times, with the time of the `due` times that were expected."""
        body = scaled(self.body, due / times)
        return [*body] if times == 1 else [Repeat(times, body)]


Draft = Part | Stops | Rare


def scaled(body: Iterable[Part], factor: float) -> tuple[Part, ...]:
    """A body whose activities take `factor` times as long."""
    return tuple(
        Repeat(part.count, scaled(part.body, factor)) if isinstance(part, Repeat)
        else replace(part, time_s=part.time_s * factor) if isinstance(part, Run)
        else part
        for part in body
    )  # fmt: skip


def repeated(count: int, body: Sequence[Draft], entries: float) -> list[Draft]:
    """A body that runs `count` times each time that the thread comes there, which it does `entries` times in all.

    What is rarer than that goes to the front, and is left to what is around it.
    """
    if not any(isinstance(part, Stops | Rare) for part in body):
        return list(body) if count == 1 or not body else [Repeat(count, finished(body))]
    taken_here = {part.name for part in body if isinstance(part, Lock)}
    outside: list[Draft] = [
        replace(part, held=None) if isinstance(part, Stops) and part.held in taken_here else part
        for part in body
        if isinstance(part, Stops | Rare) and part.total < entries
    ]
    inside = [part for part in body if not (isinstance(part, Stops | Rare) and part.total < entries)]
    due = {id(part): part.total / entries for part in inside if isinstance(part, Stops | Rare)}
    return [*outside, *_grouped(count, inside, due)]


def one_of_many(body: Sequence[Draft], run: int, runs: float) -> list[Draft]:
    """Run number `run` of a body that is unrolled, and runs `runs` times in all: its share of what is rare."""
    found: list[Draft] = []
    for part in body:
        if isinstance(part, Stops | Rare):
            times = int(part.total * (run + 1) / runs) - int(part.total * run / runs)
            times = max(times, isinstance(part, Rare))  # its time is kept
            found += part.parts(times, part.total / runs) if times else []
        else:
            found.append(part)
    return found


def _grouped(count: int, body: Sequence[Draft], due: Mapping[int, float]) -> list[Part]:
    """A body that runs `count` times, in which what has an `id` happens `due[id]` times, at least once, evenly spread.

    What a team does jointly decides alone into how many groups the runs are divided, as these are the same for all of
    its members.
    """
    rare = [part for part in body if isinstance(part, Stops | Rare)]
    if not rare:
        return list(finished(body)) if count == 1 else [Repeat(count, finished(body))]
    times = {id(part): max(round(due[id(part)]), 1) for part in rare}
    leading = [part for part in rare if isinstance(part, Rare) and part.is_joint] or rare
    groups = min(max(times[id(part)] for part in leading), count)
    often = {id(part) for part in rare if 2 * times[id(part)] >= groups}
    first: list[Draft] = []
    for part in body:
        if isinstance(part, Stops | Rare) and id(part) in often:
            first += part.parts(max(round(times[id(part)] / groups), 1), due[id(part)] / groups)
        else:
            first.append(part)
    plain = finished(part for part in body if not isinstance(part, Stops | Rare))
    length = count // groups
    rest = [Repeat(length - 1, plain)] if length > 1 and plain else []
    left = count - length * groups
    behind: list[Part] = [Repeat(left, plain)] if left and plain else []
    return [*_grouped(groups, [*first, *rest], due), *behind]


def finished(body: Iterable[Draft]) -> tuple[Part, ...]:
    """A body without stops; what else is rare happens once, in its whole time."""
    found: list[Part] = []
    for part in body:
        if isinstance(part, Rare):
            found += part.parts(1, part.total)
        elif not isinstance(part, Stops):
            found.append(part)
    return tuple(found)


def units_at_start(
    programs: Mapping[str, tuple[tuple[Part, ...], bool]],
    barriers: Mapping[str, int],
    known: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Units that semaphores have when a program begins, so that it comes to its end as it did when it was traced.

    A program's threads wait for more units than are posted where some were there before, as in a buffer with room.
    Which of several threads goes first is not known: the first one by number does.

    Args:
        programs: by thread, its parts and whether it begins with the program.
        barriers: how many threads meet at each.
        known: units of other semaphores, which are not looked for.
    """
    known = known or {}
    bare = {name: (_bare(parts), is_born) for name, (parts, is_born) in programs.items()}
    balance: Counter[str] = Counter()
    for parts, _ in bare.values():
        _count(parts, 1, balance)
    units = {name: max(-balance[name], 0) for name in sorted(balance) if name not in known}
    entities = [Entity(name, parts, born=is_born) for name, (parts, is_born) in bare.items()]
    for attempt in range(MOST_ATTEMPTS):
        try:
            simulate(System(barriers=dict(barriers), semaphores={**known, **units}), entities, most_segments=0)
        except DeadlockError as error:
            missing = [name for name in error.semaphores if name in units]
            if not missing:
                break
            units[missing[0]] += 1 << attempt // 4
        else:
            break
    return units


def _bare(parts: Iterable[Part]) -> tuple[Part, ...]:
    """A program without its work."""
    found: list[Part] = []
    for part in parts:
        if isinstance(part, Repeat):
            body = _bare(part.body)
            found += [Repeat(part.count, body)] if body else []
        elif not isinstance(part, Run):
            found.append(part)
    return tuple(found)


def _count(parts: Iterable[Part], times: int, balance: Counter[str]) -> None:
    """Add what is posted, and subtract what is waited for."""
    for part in parts:
        if isinstance(part, Repeat):
            _count(part.body, times * part.count, balance)
        elif isinstance(part, Post):
            balance[part.name] += times * part.units
        elif isinstance(part, Wait):
            balance[part.name] -= times * part.units
