"""Places that predictions leave to each machine: where intervals overlap, the order is undecided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .records import Prediction


@dataclass(frozen=True, slots=True)
class Rank:
    """The best and the worst place that a machine may have among others, counted from 1."""

    best: int
    worst: int

    def __str__(self) -> str:
        """`3`, or `2-5` where the order is undecided."""
        return f"{self.best}" if self.best == self.worst else f"{self.best}-{self.worst}"


def ranks(predictions: Sequence[Prediction]) -> tuple[Rank, ...]:
    """The place of each: behind those whose interval ends before its own begins, before those that begin behind it.

    Where machines are predicted with several numbers of threads each, those with the same number are compared.
    """
    by_threads = len({one.machine for one in predictions}) < len(predictions)
    found = []
    for one in predictions:
        others = [other for other in predictions if not by_threads or other.threads == one.threads]
        best = 1 + sum(other.high_s < one.low_s for other in others)
        found.append(Rank(best, len(others) - sum(other.low_s > one.high_s for other in others)))
    return tuple(found)
