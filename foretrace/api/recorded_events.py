"""Software-defined events of signatures: what libraries said that they did, as data frames and pictures."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from foretrace.reports import event_reports
from foretrace.reports.event_reports import EventSource, chosen

from .signatures import SignatureLike, signature_of
from .views import MOST_ROWS, Shown, ShownTable, new_figure, shortened

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordedEvents(Shown):
    """The events of one or more signatures."""

    sources: tuple[EventSource, ...]

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each event: its value at the end of the run, quartiles if it is a recorder."""
        return event_reports.with_plain_types(event_reports.frame(self.sources))

    def values(self) -> pandas.DataFrame:
        """A row for each value of a recorder that was kept; `index` counts from 0."""
        return event_reports.values_frame(self.sources)

    def samples(self) -> pandas.DataFrame:
        """A row for each event and moment; `position` counts basic blocks that the process had executed."""
        return event_reports.samples_frame(self.sources)

    def distributions(self) -> pandas.DataFrame:
        """A row for each of 1,001 quantiles of each recorder of numbers."""
        return event_reports.distributions_frame(self.sources)

    def plot(self, what: Literal["recorders", "samples", "distributions"] = "recorders") -> Figure:
        """Draw values of recorders in their order, events over the run, or distributions of recorders.

        Raises:
            EventsError: there is nothing to draw.
            OutputError: matplotlib is missing.
        """
        from foretrace.reports import event_pictures

        figures = {
            "recorders": event_pictures.recorders_figure,
            "samples": event_pictures.samples_figure,
            "distributions": event_pictures.distributions_figure,
        }
        if what not in figures:
            raise ValueError(f"{what!r}: one of {', '.join(figures)} can be drawn")
        figure = new_figure(4)
        figures[what](figure, self.sources)
        return figure

    def _line(self) -> str:
        return f"{sum(len(one.events.events) for one in self.sources)} of {', '.join(s.title for s in self.sources)}"

    def _table(self) -> ShownTable:
        found = [event for source in self.sources for event in source.events.events]
        rows = [(event_reports.short(event.full_name), *_cells(event)) for event in found[:MOST_ROWS]]
        return ShownTable(self._line(), ("event", "kind", "unit", "value"), rows, len(found), 3)


def _cells(event: Any) -> tuple[str, str, str]:
    return str(event.kind), event.unit or "", event_reports.shown(event.value)


def recorded_events(*signatures: SignatureLike, event: str | Iterable[str] = ()) -> RecordedEvents:
    """The software-defined events of signatures.

    Args:
        signatures: each a signature, a traced run, or the path of a signature file.
        event: only events of these full names, or that match these patterns (`*::residuals`).

    Raises:
        SignatureError: a path names no signature file.
        EventsError: no event is called so.
    """
    patterns = [event] if isinstance(event, str) else list(event)
    return RecordedEvents(tuple(chosen(signature_sources(signatures), patterns)))


def signature_sources(signatures: Sequence[SignatureLike]) -> list[EventSource]:
    """The events of signatures, all of them.

    Raises:
        SignatureError: a path names no signature file.
    """
    paths = [os.fspath(one) if isinstance(one, (str, os.PathLike)) else None for one in signatures]
    names = [None if path is None else Path(path).name for path in paths]
    titles: Callable[[int], str | None] = (lambda n: names[n]) if len(set(names)) == len(names) else lambda n: paths[n]
    found = []
    for number, one in enumerate(signatures):
        read = signature_of(one)
        command = read.provenance.command
        facts = {
            "signature": paths[number], "command": list(command), "complete": read.provenance.complete,
            "lost_bytes": read.events.lost_bytes,
        }  # fmt: skip
        title = titles(number) or shortened(shlex.join(command), 40)
        found.append(EventSource(title, read.events, facts))
    return found
