"""The timeline programs of a job: what its threads do, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from foretrace.base.names import short_name
from foretrace.replay.base.records import LoopKind, Place
from foretrace.replay.base.spread import TYPICAL
from foretrace.replay.engine.program import Part, Run, Sharing
from foretrace.replay.offload.devices.work import Work
from foretrace.replay.offload.ranks import HostRuns
from foretrace.replay.prediction.conditions import CORES, Conditions
from foretrace.replay.workload.workload import Region, Workload


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
    what = short_name(what) or "?"
    if place.caller:
        return f"{place.name} {place.text}"
    return f"{what} {where}:{place.line}" if place.line else f"{what} {where}".rstrip()


def regions_in_order(conditions: Conditions, names: Sequence[str], cache: str) -> tuple[Part, ...]:
    """A job as one thread that goes through its regions in the order in which they first ran, each once."""
    times = conditions.run.times.time_s[TYPICAL].tolist()
    return tuple(Run(names[region], time_s, conditions.sharing(region, cache)) for region, time_s in enumerate(times))


def host_runs(conditions: Conditions, names: Sequence[str], cache: str, work: Work) -> HostRuns:
    """Makes the host's work for nodes of a program: an activity for each of their regions."""
    sharings = [conditions.sharing(region, cache) for region in range(len(names))]

    def runs(node: int, nodes: Sequence[int], host_s: float) -> tuple[Run, ...]:
        if not nodes:
            return (Run("first touch of pages", host_s, Sharing(CORES)),)
        sums = work.seconds_of(nodes)
        return tuple(Run(names[region], time_s, sharings[region]) for region, time_s in sums.items() if time_s > 0)

    return runs
