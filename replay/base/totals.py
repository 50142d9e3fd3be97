"""Loops of a prediction summed up by source line or by function."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from .records import Bound, LoopTime, LoopTotal, Place, Prediction


class By(StrEnum):
    """Key by which loops are summed."""

    LOOP = "loop"  # each loop by itself
    LINE = "line"
    FUNCTION = "function"


def totals(prediction: Prediction, by: By) -> tuple[LoopTotal, ...]:
    """The loops of each line, function, or each loop; longest time first.

    A loop is never split: a loop counts for the line that it begins on. Low and high ends are added up, as if all
    were off the same way.
    """
    groups: dict[tuple[object, ...], list[LoopTime]] = defaultdict(list)
    for position, loop in enumerate(prediction.loops):
        place = loop.place
        where = place.file or place.module
        key = {
            By.LOOP: (position,),
            By.LINE: (where, place.line) if place.file else (where, place.function),
            By.FUNCTION: (where, place.function),
        }[by]
        groups[key].append(loop)
    found = [_total(group, prediction.time_s, by) for group in groups.values()]
    return tuple(sorted(found, key=lambda total: -total.time_s))


def _total(loops: Sequence[LoopTime], all_s: float, by: By) -> LoopTotal:
    by_bound: dict[Bound, float] = defaultdict(float)
    for loop in loops:
        by_bound[loop.bound_by] += loop.time_s
    longest = max(loops, key=lambda loop: loop.time_s)
    time_s = sum(loop.time_s for loop in loops)
    place: Place = longest.place
    if by is By.FUNCTION:
        place = replace(place, line=min(loop.place.line for loop in loops))
    return LoopTotal(
        place=place,
        label=f"{longest.label} and {len(loops) - 1} more" if len(loops) > 1 else longest.label,
        loops=len(loops),
        time_s=time_s,
        low_s=sum(loop.low_s for loop in loops),
        high_s=sum(loop.high_s for loop in loops),
        share=time_s / all_s if all_s else 0.0,
        bound_by=max(by_bound, key=lambda bound: by_bound[bound]),
    )
