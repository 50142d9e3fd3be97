"""Regions of a prediction summed up by source line or by function."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from .records import Bound, Place, Prediction, RegionTime, RegionTotal


class By(StrEnum):
    """What regions are summed by."""

    LOOP = "loop"  # each region by itself
    LINE = "line"
    FUNCTION = "function"


def totals(prediction: Prediction, by: By) -> tuple[RegionTotal, ...]:
    """The regions of each line, function, or each region; longest time first.

    A region is never split: a loop counts for the line that it begins on. Low and high ends are added up, as if all
    were off the same way.
    """
    groups: dict[tuple[object, ...], list[RegionTime]] = defaultdict(list)
    for position, region in enumerate(prediction.regions):
        place = region.place
        where = place.file or place.module
        key = {
            By.LOOP: (position,),
            By.LINE: (where, place.line) if place.file else (where, place.function),
            By.FUNCTION: (where, place.function),
        }[by]
        groups[key].append(region)
    found = [_total(group, prediction.time_s, by) for group in groups.values()]
    return tuple(sorted(found, key=lambda total: -total.time_s))


def _total(regions: Sequence[RegionTime], all_s: float, by: By) -> RegionTotal:
    by_bound: dict[Bound, float] = defaultdict(float)
    for region in regions:
        by_bound[region.bound_by] += region.time_s
    longest = max(regions, key=lambda region: region.time_s)
    time_s = sum(region.time_s for region in regions)
    place: Place = longest.place
    if by is By.FUNCTION:
        place = replace(place, line=min(region.place.line for region in regions))
    return RegionTotal(
        place=place,
        label=f"{longest.label} and {len(regions) - 1} more" if len(regions) > 1 else longest.label,
        regions=len(regions),
        time_s=time_s,
        low_s=sum(region.low_s for region in regions),
        high_s=sum(region.high_s for region in regions),
        share=time_s / all_s if all_s else 0.0,
        bound_by=max(by_bound, key=lambda bound: by_bound[bound]),
    )
