"""Software-defined events of a signature: values at the ends of the processes, and samples of the run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foretrace.tracer.analysis.execution_tree.sampled_work import SampledWork
from foretrace.tracer.events.traced_board import ProcessEvents
from foretrace.tracer.reader.raw_events import RawEventSamples
from foretrace.tracer.signature.event_records import NO_EVENTS, EventKind, Events, EventSamples, RecordedEvent, thinned

_SAMPLED = (EventKind.REGISTERED, EventKind.CREATED, EventKind.RECORDER)
MOST_SAMPLED = 4096
"""FT_MAX_SAMPLED_EVENTS of stream.h."""


def events_of(
    processes: Sequence[ProcessEvents], samples: Sequence[RawEventSamples], work: Sequence[SampledWork]
) -> Events:
    """The events of all processes.

    Args:
        processes: processes with events.
        samples: samples of processes, some of which may have no events after all.
        work: work completed by each of `samples`; empty without an execution tree.
    """
    if not any(process.events or process.lost_bytes for process in processes):
        return NO_EVENTS
    sampled = {one.process: (one, work[number] if work else _without_tree(one)) for number, one in enumerate(samples)}
    events: list[RecordedEvent] = []
    found: list[EventSamples] = []
    for process in processes:
        if process.process in sampled:
            found += _samples(process, len(events), *sampled[process.process])
        events += process.events
    return Events(thinned(events), tuple(found), sum(process.lost_bytes for process in processes))


def _without_tree(samples: RawEventSamples) -> SampledWork:
    num_samples = len(samples.position)
    return SampledWork(samples.position, np.zeros(0, np.int64), np.zeros((num_samples, 0), np.int64))


def _samples(process: ProcessEvents, first: int, samples: RawEventSamples, work: SampledWork) -> list[EventSamples]:
    """The samples of a process whose events begin at `first`; the last is replaced by the values at its end."""
    kept = [
        (position, number)
        for position, (event, number) in enumerate(zip(process.events, process.numbers, strict=True))
        if event.kind in _SAMPLED and number < MOST_SAMPLED
    ]
    if not kept:
        return []
    column = {number: position for position, number in enumerate(samples.numbers.tolist())}
    values = np.zeros((len(work.position), len(kept)))
    for row, (position, number) in enumerate(kept):
        if number in column:
            values[:, row] = samples.values[:, column[number]]
        at_end = process.events[position].value
        if at_end is not None:
            values[-1, row] = at_end
    positions = np.array([first + position for position, _ in kept], np.int64)
    return [EventSamples(process.process, positions, work.position, values, work.nodes, work.executions)]
