"""Result of a simulation: times of entities, use of resources, the critical path and the timeline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from . import _engine
from .compiler import MOST_PATH_LABELS, Compiled

Floats = npt.NDArray[np.float64]

SEGMENT = np.dtype(
    [("entity", "i4"), ("label", "i4"), ("kind", "i4"), ("by", "i4"),
     ("start_s", "f8"), ("end_s", "f8"), ("times", "i8")]
)  # fmt: skip

KINDS = {
    _engine.RAN: "run",
    _engine.DEVICE: "device",
    _engine.SLEPT: "sleep",
    _engine.AT_BARRIER: "barrier",
    _engine.AT_LOCK: "lock",
    _engine.AT_WAIT: "wait",
    _engine.AT_JOIN: "join",
    _engine.AT_QUEUE: "queue",
    _engine.AT_CALL: "decision",
    _engine.AT_PARTNER: "partner",
    _engine.AT_TRANSFER: "transfer",
    _engine.FOLDED: "folded",
}
"""Kinds of timeline segments: the entity's state or the cause of its wait."""
BUSY = (_engine.RAN, _engine.DEVICE)
OTHERS = "other activities"


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Result of a simulation.

    Attributes:
        makespan_s: when the last entity was done.
        entity_s: [entities, kinds] seconds by what an entity did or waited for (see `KINDS`).
        end_s: [entities] end time of each.
        label_s: [labels] seconds that entities spent in each activity, waiting for shares included.
        label_times: [labels] how often each activity ran.
        label_waits_s: [labels, 3] seconds of waiting for late senders, for late receivers, for messages on their way.
        late_s: [entities, 4] seconds that each waited for late senders, for late receivers, and that others waited
            because it was a late sender, a late receiver.
        bandwidth_bytes: [bandwidths] bytes moved. `bandwidth_full_s` is how long each was saturated.
        core_s: [groups of cores] core seconds in use.
        device_s: [objects] unit seconds in use (devices). `object_waits` counts waits.
        path_s: {activity: seconds} of the critical path, longest first.
        path_entity_s: [bins] seconds of the critical path by range of entities: entity n is in bin n x bins / entities.
        path_hops: how often the critical path goes from one entity to another.
        pairs: [pairs, 2] entities between which there were messages, sender first.
        pair_traffic: [pairs, 2] messages and bytes of each pair; `left_out_traffic` those of pairs beyond the limit.
        segments: the timeline (`SEGMENT`), in the order in which segments ended; `segments_left_out` were too many.
        events: activities that ended, those of folded periods included; `events_simulated` were simulated one by one.
        periods_folded: periods of loops that were added up at once; `periods_estimated` of them by a window of many
            iterations, as no state repeated. `estimated_s` is the time of the estimated periods.
        sent_bytes: bytes of messages, envelopes included; `moved_bytes` those that flows moved. They differ by rounding
            alone, and by messages that were still on their way. `messages` counts the messages sent.
        unreceived: messages that nobody had received at the end. `open_requests` nobody had waited for.
        work_s: seconds of work requested; `work_done_s` seconds of work done. They differ by rounding alone.
    """

    compiled: Compiled
    makespan_s: float
    entity_s: Floats
    end_s: Floats
    label_s: Floats
    label_times: Floats
    label_waits_s: Floats
    late_s: Floats
    bandwidth_bytes: Floats
    bandwidth_full_s: Floats
    core_s: Floats
    device_s: Floats
    object_waits: Floats
    path_s: dict[str, float]
    path_entity_s: Floats
    path_hops: float
    pairs: npt.NDArray[np.int32]
    pair_traffic: Floats
    left_out_traffic: Floats
    segments: npt.NDArray[np.void]
    segments_left_out: int
    events: float
    events_simulated: int
    periods_folded: int
    periods_estimated: int
    estimated_s: float
    work_s: float
    work_done_s: float
    sent_bytes: float
    moved_bytes: float
    messages: float
    unreceived: int
    open_requests: int

    @classmethod
    def of(cls, compiled: Compiled, engine: _engine.Engine) -> Outcome:
        """Read an event loop that has finished."""
        entities, late, labels, resources, cores, objects, paths, work = (
            np.frombuffer(part, np.float64) for part in engine.sums()
        )
        n = len(compiled.entities)
        ends = np.array([engine.entity(number)[5] for number in range(n)])
        last = int(ends.argmax())
        row = paths.reshape(n, -1)[last]
        path, bins, hops = np.split(row, [len(row) - 1 - compiled.path_bins, len(row) - 1])
        ends_of_pairs, of_pairs = engine.pairs()
        traffic = np.frombuffer(of_pairs, np.float64).reshape(-1, 2) if of_pairs else np.zeros((1, 2))
        named = [*compiled.labels[: len(path)]]
        if len(compiled.labels) > MOST_PATH_LABELS:
            named[-1] = OTHERS
        order = np.argsort(-path, kind="stable")
        unreceived, open_requests = engine.leftovers()
        return cls(
            compiled=compiled,
            makespan_s=float(ends.max()),
            entity_s=entities.reshape(n, _engine.NUM_KINDS),
            end_s=ends,
            label_s=labels.reshape(-1, 5)[:, 0],
            label_times=labels.reshape(-1, 5)[:, 1],
            label_waits_s=labels.reshape(-1, 5)[:, 2:],
            late_s=late.reshape(n, 4),
            bandwidth_bytes=resources.reshape(-1, 2)[:, 0],
            bandwidth_full_s=resources.reshape(-1, 2)[:, 1],
            core_s=cores,
            device_s=objects.reshape(-1, 2)[:, 0],
            object_waits=objects.reshape(-1, 2)[:, 1],
            path_s={named[i]: float(path[i]) for i in order if path[i] > 0},
            path_entity_s=bins,
            path_hops=float(hops[0]),
            pairs=np.frombuffer(ends_of_pairs, np.int32).reshape(-1, 2),
            pair_traffic=traffic[1:],
            left_out_traffic=traffic[0],
            segments=np.frombuffer(engine.segments(), SEGMENT),
            segments_left_out=engine.segments_left_out,
            events=float(work[2]),
            events_simulated=engine.events,
            periods_folded=engine.periods_folded,
            periods_estimated=engine.periods_estimated,
            estimated_s=engine.estimated_s,
            work_s=float(work[0]),
            work_done_s=float(work[1]),
            sent_bytes=float(work[3]),
            moved_bytes=float(work[4]),
            messages=float(work[5]),
            unreceived=unreceived,
            open_requests=open_requests,
        )

    def seconds(self, kind: str) -> Floats:
        """[entities]: seconds of one kind of `KINDS`."""
        (number,) = (number for number, name in KINDS.items() if name == kind)
        return np.asarray(self.entity_s[:, number], np.float64)

    @property
    def busy_s(self) -> Floats:
        """[entities]: seconds on a core (sharing included) or a device."""
        return np.asarray(self.entity_s[:, BUSY].sum(axis=1), np.float64)
