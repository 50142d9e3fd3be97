"""Records of a software-defined event's part in a program's time."""

from __future__ import annotations

from dataclasses import dataclass

from .records import LoopKind, Place, label_of


@dataclass(frozen=True, slots=True)
class NodePace:
    """A node of the execution tree, its own time in the traced run, and what an event has to do with it.

    What is neither proportional to the event nor unrecognised is fixed. `deviation` says how much the node's work of
    two equal stretches of the event differs, of all it does while the event changes; None where that is not known.
    `stretch` is how many units of the event its work repeats after, None where it does not. `node` is None for code
    that the tree has no node for.
    """

    node: int | None
    place: Place
    kind: LoopKind
    time_s: float
    proportional_s: float
    unrecognised_s: float
    deviation: float | None = None
    stretch: float | None = None

    @property
    def fixed_s(self) -> float:
        """Time that no count of the event changes."""
        return max(self.time_s - self.proportional_s - self.unrecognised_s, 0.0)

    @property
    def label(self) -> str:
        """Its kind, and the operation or function where that is what it is: "array: add"."""
        return label_of(self.kind, self.place)


@dataclass(frozen=True, slots=True)
class EventParts:
    """The time of the traced run by what an event has to do with it; `nodes`: longest time first."""

    proportional_s: float
    fixed_s: float
    unrecognised_s: float
    nodes: tuple[NodePace, ...]


@dataclass(frozen=True, slots=True)
class EventTimes:
    """A software-defined event and a program's time.

    Attributes:
        event: `library::event`.
        unit: of the event, None where its description has none.
        description: the library's.
        start: the value that it began with.
        traced: its value at the end of the traced run.
        count: the value that the time is predicted for.
        traced_s: the time predicted for the traced run.
        ratio: time for `count` over that, within [ratio_low, ratio_high] by what the event leaves open.
        parts: of the traced run's time; None where it is not known what ran while the event changed: `unknown` says
            why.
    """

    event: str
    unit: str | None
    description: str
    start: float
    traced: float
    count: float
    traced_s: float
    ratio: float
    ratio_low: float
    ratio_high: float
    parts: EventParts | None
    unknown: str = ""

    @property
    def what(self) -> str:
        """One of what it counts."""
        return self.unit or "unit"

    @property
    def proportional_per_unit_s(self) -> float | None:
        """Time of the part that is proportional to the event, for one unit of it; None where that is not known."""
        return None if self.parts is None else self.parts.proportional_s / (self.traced - self.start)

    def per_unit_s(self, time_s: float) -> float:
        """A time of the run with `count`, for one unit of the event."""
        return time_s / (self.count - self.start) if self.count > self.start else 0.0
