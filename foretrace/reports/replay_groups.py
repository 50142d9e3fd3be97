"""Threads of a replay that are alike: one row with a count in tables and pictures."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

_NAME = re.compile(r"^job (\d+)(?: (\w+) (\d+))?$")
_NUMBERED = re.compile(r"^(\w+) (\d+)$")


@dataclass(frozen=True, slots=True)
class ThreadGroup:
    """Threads that are alike. `members` are their numbers among the entities, ascending; `name` is of all of them."""

    name: str
    members: tuple[int, ...]

    @property
    def title(self) -> str:
        """The name, with the count of more than one."""
        return self.name if len(self.members) == 1 else f"{self.name}  x{len(self.members)}"


def groups_of(names: Sequence[str], key: Callable[[int], Hashable]) -> list[ThreadGroup]:
    """Entities of the same key, in the order of the first of each.

    Args:
        names: of the entities.
        key: of an entity, by its number.
    """
    found: dict[Hashable, list[int]] = {}
    for number in range(len(names)):
        found.setdefault(key(number), []).append(number)
    return [ThreadGroup(name_of([names[one] for one in members]), tuple(members)) for members in found.values()]


def name_of(names: Sequence[str]) -> str:
    """One name for several entities: ranges of jobs and threads where these are all that they name."""
    numbered = [one for one in map(_NUMBERED.match, names) if one]
    if len(numbered) == len(names) and len({one[1] for one in numbered}) == 1:
        return f"{numbered[0][1]} {_ranges(sorted(int(one[2]) for one in numbered))}"
    matches = [_NAME.match(name) for name in names]
    found = [(int(one[1]), (one[2] or "", int(one[3] or 0))) for one in matches if one]
    jobs, threads = (sorted(set(part)) for part in zip(*found, strict=True)) if found else ([], [])
    if len(names) == 1 or len(found) < len(names) or len(jobs) * len(threads) != len(set(found)):
        return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    by_word: dict[str, list[int]] = {}
    for word, number in sorted(threads, key=lambda thread: thread[1]):
        by_word.setdefault(word, []).append(number)
    parts = [f"{word} {_ranges(numbers)}" for word, numbers in by_word.items() if word]
    return f"job {_ranges(jobs)}{' ' if parts else ''}{', '.join(parts)}"


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, those that follow each other as a range: "0-3, 7"."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
