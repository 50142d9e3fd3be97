"""The timeline programs of a job: what its threads do, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from foretrace.replay.engine.program import Part, Run, Sharing
from foretrace.replay.offload.decisions import Activity, parts_of_activity
from foretrace.replay.offload.device_memory import Link
from foretrace.replay.records import LoopKind, Place
from foretrace.replay.workload import Region, Workload

from .conditions import CORES, Conditions


def region_names(workload: Workload) -> tuple[str, ...]:
    """A name for each region, unlike all others: function, source line, and what it is."""
    names = [_name(region) for region in workload.regions]
    counts = Counter(names)
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(f"{name} #{seen[name]}" if counts[name] > 1 else name)
    return tuple(unique)


def _name(region: Region) -> str:
    place: Place = region.place
    where = place.file.rpartition("/")[2] or place.module.rpartition("/")[2]
    what = place.module if region.kind in (LoopKind.ARRAY, LoopKind.COMPILED) else place.function
    return f"{what or '?'} {where}:{place.line}" if place.line else f"{what or '?'} {where}".rstrip()


def regions_in_order(
    conditions: Conditions,
    names: Sequence[str],
    cache: str,
    activities: Sequence[Activity],
    accelerators: int,
    link: Link,
) -> tuple[Part, ...]:
    """A job as one thread that goes through its regions in the order in which they first ran, each once."""
    program: list[Part] = []
    for token, activity in enumerate(activities):
        host = Run(names[activity.region], activity.host_s, conditions.sharing(activity.region, cache))
        program += parts_of_activity(activity, token, accelerators, names[activity.region], host, Sharing(CORES), link)
    return tuple(program)
