"""The time of a program for another count of an event, and its time by unit of one.

The work that is proportional to the event takes N/E times as long for N instead of E, what is fixed takes as long, and
what was not recognised something between. Memory that is touched for the first time is no part of what repeats: the
pages mapped for it, and the misses of a first pass over data that later passes find in a cache, stay as they are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from foretrace.base.errors import PredictionError, quoted
from foretrace.cache_sim.reuse.model import misses_fully_associative
from foretrace.profiles.profile import Profile
from foretrace.replay.base.event_times import EventParts, EventTimes, NodePace
from foretrace.replay.base.interval import combined
from foretrace.replay.base.records import Bound, ErrorPart, LoopKind, LoopTime, Model, Place, Prediction
from foretrace.replay.base.spread import TYPICAL, Floats
from foretrace.replay.memory.hit_rates import Misses
from foretrace.replay.prediction.predict import HostRun, prediction_of
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.event_records import RecordedEvent
from foretrace.tracer.signature.tree_records import ExecutionTree, TreeNodeKind

from .paces import Paces
from .series import NoPaceError, find_event

_MOST_FIRST_PASS = 1.5
"""Lines touched for the first time, over those that come into the nearest cache from one time that things repeat to the
next: with more, each time touches memory of its own, and there is no first pass."""
_EVER = 1 << 50
"""Bytes of a cache that keeps everything."""
_NOTABLE = 0.01
_SAME_MISSES = 0.005
"""Relative, of each level: misses of a first pass that change less than that do not matter."""
_PART_NAMES = ("proportional_s", "unrecognised_s")


@dataclass(frozen=True, slots=True)
class EventQuestion:
    """An event to predict by.

    Attributes:
        name: `library::event`, or the event's own name where one library alone has it.
        count: the value to predict the time for; None: that of the traced run.
    """

    name: str
    count: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AskedEvent:
    """An event to predict by, and what a program's work has to do with it.

    Attributes:
        event: at the end of the traced run.
        count: to predict the time for.
        paces: of the program's work; None where these are not known: `unknown` says why, and `count` is the traced one.
    """

    event: RecordedEvent
    count: float
    paces: Paces | None
    unknown: str = ""

    @classmethod
    def of(cls, workload: Workload, question: EventQuestion) -> AskedEvent:
        """Look the event up.

        Raises:
            PredictionError: there is none of that name, it counted nothing, or another count is asked for and the event
                does not tell which work goes with it; says why.
        """
        event = find_event(workload.signature, question.name)
        try:
            paces = Paces.of(workload, question.name)
        except NoPaceError as error:
            if question.count is not None or event.value is None or not 0 < event.value < math.inf:
                raise
            return cls(event, float(event.value), None, str(error))
        series = paces.series
        count = series.last if question.count is None else question.count
        if not series.start <= count < math.inf:
            raise PredictionError(
                f"event {quoted(question.name)} counts from {series.start:.6g} up: {count:g} is no value for it"
            )
        return cls(event, count, paces)


def with_event(workload: Workload, profile: Profile, asked: AskedEvent, model: Model) -> Prediction:
    """A program's time on one core for a count of an event, and what the event has to do with it.

    Raises:
        PredictionError: signature and profile together do not tell enough.
    """
    run = HostRun.of(workload, profile, model)
    traced, event = prediction_of(run), asked.event
    times = EventTimes(
        event=event.full_name, unit=event.unit, description=event.description, start=0.0, traced=asked.count,
        count=asked.count, traced_s=traced.time_s, ratio=1.0, ratio_low=1.0, ratio_high=1.0, parts=None,
        unknown=asked.unknown,
    )  # fmt: skip
    if asked.paces is None:
        return replace(traced, events=times)
    return _for_count(run, traced, asked.paces, times)


def _for_count(run: HostRun, traced: Prediction, paces: Paces, times: EventTimes) -> Prediction:
    series, nodes = paces.series, paces.of_nodes
    factor = (times.count - series.start) / series.rise
    time_s = run.times.time_s[TYPICAL]
    repeated_s = _repeated_s(run, paces)
    unrecognised = paces.of_regions(nodes.unrecognised, elsewhere=1.0)
    changes = [
        (factor - 1) * (paces.of_regions(column) + halfway * unrecognised)
        for column in (nodes.least, nodes.proportional, nodes.most)
        for halfway in (0.0, 0.5, 1.0)
    ]
    new_s = time_s + repeated_s * changes[4]
    ends_s = [time_s + repeated_s * change for change in changes]
    least_s, most_s = np.maximum(np.minimum.reduce(ends_s), 0.0), np.maximum.reduce(ends_s)
    total_s, low_s, high_s = (float(times.sum()) for times in (new_s, least_s, most_s))
    part = ErrorPart("events", low_s / total_s if total_s else 1.0, high_s / total_s if total_s else 1.0)
    times = replace(
        times, start=series.start, traced=series.last, ratio=total_s / traced.time_s, ratio_low=low_s / traced.time_s,
        ratio_high=high_s / traced.time_s, parts=_parts(run, paces, time_s, repeated_s),
    )  # fmt: skip
    if factor == 1:
        return replace(traced, events=times)
    return _scaled(run, traced, time_s, new_s, part, times)


def _repeated_s(run: HostRun, paces: Paces) -> Floats:
    """[regions]: seconds of the traced run's work as it repeats: without the first touch of memory, where that was a
    first pass over what is used again each time that things repeat."""
    workload, misses = run.workload, run.misses
    rounds = paces.series.rise / _longest_stretch(run, paces)
    line_bytes = misses.hierarchy.levels[0].line_bytes
    reuse = workload.signature.reuse
    first = np.zeros(len(misses.executions))
    if reuse is not None:
        first = np.minimum(
            misses_fully_associative(reuse, [_EVER], line_bytes, misses.executions)[:, 0], misses.misses[:, -1]
        )
    region, count = workload.operations.region, len(workload.regions)
    nearest = np.bincount(region, weights=misses.misses[:, 0], minlength=count)
    touched = np.bincount(region, weights=first, minlength=count)
    is_first_pass = (touched * rounds <= _MOST_FIRST_PASS * nearest) & (rounds > 1)
    pages_s = np.where(is_first_pass & (workload.totals.array_faults == 0), run.times.pages_s, 0.0)
    time_s = run.times.time_s[TYPICAL]
    first = np.where(is_first_pass[region], first, 0.0)
    in_first_round = np.minimum(first * rounds, misses.misses[:, 0]) / np.maximum(misses.misses[:, 0], 1e-300)
    steady = (misses.misses - first[:, None]) * (rounds / np.maximum(rounds - in_first_round, 1e-300))[:, None]
    if np.allclose(steady.sum(axis=0), misses.misses.sum(axis=0), rtol=_SAME_MISSES):
        return np.asarray(time_s - pages_s, np.float64)
    again = HostRun.of(workload, run.profile, run.model, corners=(TYPICAL,), shared=_steady(misses, steady))
    of_work = again.times.time_s[TYPICAL] - again.times.pages_s
    return np.asarray(np.clip(of_work + run.times.pages_s - pages_s, 0.0, None), np.float64)


def _longest_stretch(run: HostRun, paces: Paces) -> float:
    """Units of the event after which all work of note repeats: from one restart of a solver to the next."""
    own_s = paces.seconds(run.times.time_s[TYPICAL])
    stretches = paces.of_nodes.stretch[own_s >= _NOTABLE * own_s.sum()]
    return float(stretches.max(initial=0.0)) or 1.0


def _steady(misses: Misses, steady: Floats) -> Misses:
    columns = np.column_stack([misses.executions, np.maximum(steady, 0.0)])
    return replace(misses, misses=np.minimum.accumulate(columns, axis=1)[:, 1:], fewest=None, most=None)


def _parts(run: HostRun, paces: Paces, time_s: Floats, repeated_s: Floats) -> EventParts:
    """The traced run's time by what the event has to do with it."""
    nodes = paces.of_nodes
    own_s, again_s = paces.seconds(time_s), paces.seconds(repeated_s)
    proportional_s, unrecognised_s = again_s * nodes.proportional, again_s * nodes.unrecognised
    found = [
        NodePace(
            node=node,
            place=Place(key.module, key.function, key.file, key.line, key.caller),
            kind=_kind(run.workload, paces.tree, node),
            time_s=float(own_s[node]),
            proportional_s=float(proportional_s[node]),
            unrecognised_s=float(unrecognised_s[node]),
            deviation=None if math.isnan(nodes.deviation[node]) else float(nodes.deviation[node]),
            stretch=float(nodes.stretch[node]) or None,
        )
        for node, key in enumerate(paces.tree.keys)
        if own_s[node] > 0
    ]
    known = paces.of_regions(np.ones(len(paces.tree))) > 0
    found += [
        NodePace(None, region.place, region.kind, float(time_s[index]), 0.0, float(repeated_s[index]))
        for index, region in enumerate(run.workload.regions)
        if not known[index] and time_s[index] > 0
    ]
    total_s = float(time_s.sum())
    proportional, unrecognised = (sum(getattr(node, name) for node in found) for name in _PART_NAMES)
    return EventParts(
        proportional_s=proportional,
        fixed_s=max(total_s - proportional - unrecognised, 0.0),
        unrecognised_s=unrecognised,
        nodes=tuple(sorted(found, key=lambda node: -node.time_s)),
    )


def _kind(workload: Workload, tree: ExecutionTree, node: int) -> LoopKind:
    kind, loop = TreeNodeKind(int(tree.kind[node])), int(tree.loop_id[node])
    if kind is TreeNodeKind.LEAF and loop >= 0:
        return LoopKind.COMPILED if workload.signature.loops[loop].kind == "compiled" else LoopKind.ARRAY
    return LoopKind.LOOP if kind is TreeNodeKind.LOOP else LoopKind.FUNCTION


def _scaled(
    run: HostRun, traced: Prediction, time_s: Floats, new_s: Floats, part: ErrorPart, events: EventTimes
) -> Prediction:
    """The prediction with other times of its regions, [regions]."""
    total_s = float(new_s.sum())
    factors = np.divide(new_s, time_s, out=np.ones_like(new_s), where=time_s > 0)
    order = np.argsort(-time_s, kind="stable")  # of the loops
    loops = [
        _scaled_loop(loop, float(factors[region]), total_s, part)
        for loop, region in zip(traced.loops, order.tolist(), strict=True)
    ]
    by_bound: dict[Bound, float] = defaultdict(float)
    for loop in loops:
        by_bound[loop.bound_by] += loop.time_s
    low, high = _ends(traced, part)
    return replace(
        traced,
        time_s=total_s,
        low_s=low * total_s,
        high_s=high * total_s,
        bound_by=max(by_bound, key=lambda bound: by_bound[bound]),
        loops=tuple(sorted(loops, key=lambda loop: -loop.time_s)),
        time_by_bound_s=dict(sorted(by_bound.items(), key=lambda item: -item[1])),
        errors=(*traced.errors, part),
        events=events,
    )


def _ends(one: Prediction | LoopTime, part: ErrorPart) -> tuple[float, float]:
    """Factors of the lower and the upper end, with another source of error."""
    if one.time_s <= 0:
        return 1.0, 1.0
    return combined([ErrorPart("traced", one.low_s / one.time_s, max(one.high_s / one.time_s, 1.0)), part])


def _scaled_loop(loop: LoopTime, factor: float, total_s: float, part: ErrorPart) -> LoopTime:
    time_s = factor * loop.time_s
    low, high = _ends(loop, part)
    return replace(
        loop,
        entries=round(factor * loop.entries),
        iterations=round(factor * loop.iterations),
        time_s=time_s,
        low_s=low * time_s,
        high_s=high * time_s,
        compute_s=factor * loop.compute_s,
        memory_s=factor * loop.memory_s,
        overlap_s=factor * loop.overlap_s,
        python_s=factor * loop.python_s,
        pages_s=factor * loop.pages_s,
        share=time_s / total_s if total_s else 0.0,
    )
