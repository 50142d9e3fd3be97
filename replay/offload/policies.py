"""Policies of offloading as functions that a replay asks at each loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from foretrace.replay.predict import HostRun

from .costs import Accelerator, Candidate, break_even_bytes
from .decisions import Activity, Pays, Policy, pays_now
from .ranks import replay

MOST_PLANNED = 64
"""Loops that a plan weighs one by one; those of less time on the host go as the greedy policy says."""


def pays_by(
    policy: Policy,
    run: HostRun,
    accelerator: Accelerator | None,
    found: Sequence[Candidate],
    activities: Sequence[Activity],
) -> Pays:
    """A policy for a program's gather/scatter loops.

    Args:
        policy: which.
        run: the program on the host.
        accelerator: with none, nobody is asked.
        found: the loops that may go to it.
        activities: of the program, with their terms on the accelerator.
    """
    if policy is Policy.NEVER or accelerator is None:
        return lambda activity, cost: False
    if policy is Policy.ALWAYS:
        return lambda activity, cost: True
    if policy is Policy.THRESHOLD:
        return _among(_beyond_threshold(run, accelerator, found))
    return _among(_planned(activities, accelerator)) if policy is Policy.PLAN else pays_now


def _among(regions: frozenset[int]) -> Pays:
    return lambda activity, cost: activity.region in regions


def _beyond_threshold(run: HostRun, accelerator: Accelerator, found: Sequence[Candidate]) -> frozenset[int]:
    """Loops whose range is at least the accelerator's published threshold; if there is none, the break-even range."""
    going = set()
    for candidate in found:
        published = [curve.minimum_range_bytes for curve in accelerator.curves(candidate.kinds) or []]
        known = [least for least in published if least is not None]
        taxes_s = candidate.offload.launch_s + candidate.offload.arithmetic_s
        least = max(known) if known else break_even_bytes(run, accelerator, candidate, taxes_s)
        if least is not None and candidate.range_bytes >= least:
            going.add(candidate.index)
    return frozenset(going)


def _planned(activities: Sequence[Activity], accelerator: Accelerator) -> frozenset[int]:
    """The set of loops whose replay ends first, by improvement: a loop is moved if that shortens it, until none does.

    It begins with what the greedy policy offloads, and again with all of them: loops that share data may pay together
    where none pays alone. Moves are tried in order of time on the host.
    """

    def end_s(regions: frozenset[int]) -> float:
        return replay([activities], accelerators=1, link=accelerator.link, pays=_among(regions)).makespan_s

    greedy = replay([activities], accelerators=1, link=accelerator.link)
    movable = [one for one in activities if one.offload is not None and not one.offload.refusal]
    order = [one.region for one in sorted(movable, key=lambda one: -one.host_s)][:MOST_PLANNED]
    starts = (frozenset(decision.region for decision in greedy.decisions if decision.offload), frozenset(order))
    return min((_improved(start, order, end_s) for start in starts), key=end_s)


def _improved(
    regions: frozenset[int], order: Sequence[int], end_s: Callable[[frozenset[int]], float]
) -> frozenset[int]:
    """A set that no move of one of its loops, or of another one, shortens."""
    best, best_s, improved = regions, end_s(regions), True
    while improved:
        improved = False
        for region in order:
            changed = best ^ {region}
            changed_s = end_s(changed)
            if changed_s < best_s:
                best, best_s, improved = changed, changed_s, True
    return best
