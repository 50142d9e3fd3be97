"""The values of one event over a run, and what makes an event unfit to predict with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretrace.base.errors import PredictionError, quoted
from foretrace.profiles.checks import suggestion
from foretrace.replay.base.spread import Floats
from foretrace.tracer.signature.event_records import EventKind, EventSamples, RecordedEvent
from foretrace.tracer.signature.records import Signature

from .proportions import LEAST_VALUES

_MOST_FIRST_STEP = 8
"""The value of a variable at the first sample, over the largest step between two: with more it did not begin with 0."""
_HINT = "foretrace events lists those of a signature"


class NoPaceError(PredictionError):
    """An event has a value, but does not tell which work goes with it."""


@dataclass(frozen=True, slots=True, eq=False)
class EventSeries:
    """An event that rose while the program ran.

    Attributes:
        event: what it is, with its last value.
        values: float64 [samples], never falling.
        start: the value that it began with.
        samples: with the executions of the tree's nodes.
    """

    event: RecordedEvent
    values: Floats
    start: float
    samples: EventSamples

    @property
    def last(self) -> float:
        """The value at the end of the run."""
        return float(self.values[-1])

    @property
    def rise(self) -> float:
        """Its gain over the run."""
        return self.last - self.start

    @property
    def num_values(self) -> int:
        """Different values at the samples, but for the one that it began with."""
        return int(np.count_nonzero(np.diff(np.concatenate([[self.start], self.values]))))


def find_event(signature: Signature, name: str) -> RecordedEvent:
    """The event of a run that is called `library::event`, or by its own name alone where that is unambiguous.

    Raises:
        PredictionError: there is none, or several, or it has no number.
    """
    events = signature.events.events
    if not events:
        raise PredictionError(
            "the signature has no software-defined events: no library of the program has any, or it was traced by an "
            "earlier version; trace it again"
        )
    found = [event for event in events if event.full_name == name] or [event for event in events if event.name == name]
    if not found:
        known = dict.fromkeys(name for event in events for name in (event.full_name, event.name))
        raise PredictionError(f"event {quoted(name)} is not in the signature{suggestion(name, known)}; {_HINT}")
    if len({event.full_name for event in found}) > 1:
        libraries = ", ".join(quoted(event.full_name) for event in found[:3])
        raise PredictionError(f"event {quoted(name)}: several libraries have one ({libraries}): name the library, too")
    if len({event.process for event in found}) > 1:
        raise PredictionError(
            f"event {quoted(name)}: {len(found)} processes of the run have it; predictions by events are made for one"
        )
    event = found[-1]
    if event.value is None:
        raise PredictionError(f"event {quoted(name)} has no value: {event.unread or 'it was not read'}")
    return event


def series_of(signature: Signature, name: str) -> EventSeries:
    """The values of an event over the run.

    Raises:
        PredictionError: there is no such event, or it is no count.
        NoPaceError: it does not tell which work goes with it; says why.
    """
    event = find_event(signature, name)
    if signature.tree is None:
        raise NoPaceError(
            "the signature has no execution tree, which says what ran while an event changed; trace the program again, "
            "without --no-tree"
        )
    number = signature.events.events.index(event)
    taken = next((one for one in signature.events.samples if number in one.events.tolist()), None)
    if taken is None:
        kind = {EventKind.CALLBACK: "a callback", EventKind.GROUP: "a group"}.get(event.kind, "an event")
        raise NoPaceError(
            f"event {quoted(name)} is {kind}, whose value is known at the end of the run only, not what ran while it "
            "changed; name a counter or a recorder"
        )
    if len({thread.process for thread in signature.tree.threads}) > 1:
        raise NoPaceError(
            f"event {quoted(name)}: the run had several processes; predictions by events are made for one"
        )
    column = taken.values[:, taken.events.tolist().index(number)].astype(np.float64)
    if not np.isfinite(column).all():
        raise PredictionError(f"event {quoted(name)} has values that are no numbers: it is no count")
    series = EventSeries(event, column, _start(event, column), taken)
    _check(series, quoted(name))
    return series


def _start(event: RecordedEvent, values: Floats) -> float:
    """First value of an event: 0, unless a variable's first value is far more than it ever gained between samples."""
    if event.kind is not EventKind.REGISTERED or not len(values):
        return 0.0
    largest = float(np.max(np.diff(values), initial=0.0))
    first = float(values[0])
    return 0.0 if 0 <= first <= _MOST_FIRST_STEP * largest else first


def _check(series: EventSeries, name: str) -> None:
    values = series.values
    if not len(values) or (series.rise == 0 and not np.any(np.diff(values))):
        last = f"it is {values[-1]:.6g} from the first sample on" if len(values) else "there are no samples of it"
        raise NoPaceError(f"event {name} never changed while the program ran ({last}): no work goes with it")
    falls = np.flatnonzero(np.diff(values) < 0)
    if len(falls):
        before, after = values[falls[0]], values[falls[0] + 1]
        raise PredictionError(
            f"event {name} fell from {before:.6g} to {after:.6g}: it is no count, or was reset; name one that only "
            "rises"
        )
    if series.num_values <= LEAST_VALUES:
        raise NoPaceError(
            f"event {name} has {series.num_values} different values at {len(values)} samples of the run, at least "
            f"{LEAST_VALUES + 1} are needed to see what keeps pace with it; trace a run in which it counts further"
        )
