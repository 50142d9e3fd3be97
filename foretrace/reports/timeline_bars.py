"""The bars of a timeline's rows: what a thread did from the start of a replay to its end, without a hole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.replay.engine.outcome import KINDS

IDLE, NOT_KEPT = "idle", "not kept"
"""A thread that has not begun or is done, and one whose segments the timeline does not hold."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of one kind: of `KINDS`, `IDLE` or `NOT_KEPT`."""

    start_s: float
    end_s: float
    kind: str


def bars_of(
    segments: npt.NDArray[np.void], makespan_s: float, most: int, *, end_s: float, are_all: bool = True
) -> list[Bar]:
    """The bars of one thread, each beginning where the one before ends, from 0 to the makespan.

    Args:
        segments: of the thread, as the outcome of a simulation has them.
        makespan_s: where the last bar ends.
        most: bars. Where there are more segments, the time is cut into as many columns, and each is of the kind that
            takes most of it.
        end_s: when the thread was done.
        are_all: whether the timeline holds all of the thread's segments; if not, what is between them was not kept.
    """
    ordered = segments[np.argsort(segments["start_s"], kind="stable")]
    gap = IDLE if are_all else NOT_KEPT
    if 2 * len(ordered) + 1 <= most:
        return _joined(_exact(ordered, makespan_s, end_s, gap))
    return _joined(_columns(ordered, makespan_s, end_s, most, gap))


def _exact(ordered: npt.NDArray[np.void], makespan_s: float, end_s: float, gap: str) -> list[Bar]:
    found, at_s = list[Bar](), 0.0
    for one in ordered:
        start_s, stop_s = max(float(one["start_s"]), at_s), min(float(one["end_s"]), makespan_s)
        if start_s > at_s:
            found.append(Bar(at_s, start_s, gap))
        if stop_s > start_s:
            found.append(Bar(start_s, stop_s, KINDS[int(one["kind"])]))
            at_s = stop_s
    last_s = min(max(end_s, at_s), makespan_s)
    return [*found, *_rest(at_s, last_s, makespan_s, gap)]


def _rest(at_s: float, last_s: float, makespan_s: float, gap: str) -> list[Bar]:
    rest = [Bar(at_s, last_s, gap), Bar(last_s, makespan_s, IDLE)]
    return [bar for bar in rest if bar.end_s > bar.start_s]


def _columns(ordered: npt.NDArray[np.void], makespan_s: float, end_s: float, most: int, gap: str) -> list[Bar]:
    edges = np.linspace(0.0, makespan_s, most + 1)
    names = [*KINDS.values(), gap]
    seconds = np.zeros((len(names), most))
    for row, number in enumerate(KINDS):
        own = ordered[ordered["kind"] == number]
        if len(own):
            times = np.stack([own["start_s"], own["end_s"]], axis=1)
            done = np.concatenate([[0.0], np.cumsum(times[:, 1] - times[:, 0])])
            seconds[row] = np.diff(np.interp(edges, times.ravel(), np.stack([done[:-1], done[1:]], axis=1).ravel()))
    seconds[-1] = np.maximum(np.diff(edges) - seconds.sum(axis=0), 0)
    kinds = [names[row] for row in seconds.argmax(axis=0)]
    return [
        Bar(float(start_s), float(stop_s), IDLE if kind == gap and start_s >= end_s else kind)
        for start_s, stop_s, kind in zip(edges[:-1], edges[1:], kinds, strict=True)
    ]


def _joined(bars: list[Bar]) -> list[Bar]:
    """Neighbours of one kind as one bar."""
    found: list[Bar] = []
    for bar in bars:
        if found and found[-1].kind == bar.kind:
            found[-1] = Bar(found[-1].start_s, bar.end_s, bar.kind)
        else:
            found.append(bar)
    return found
