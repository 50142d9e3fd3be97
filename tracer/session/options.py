"""Options of a trace: one record from the command line and the API down to the session that reads the stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foretrace.base.errors import ForetraceError
from foretrace.cache_sim.base.hierarchy import DEFAULT_HIERARCHY, Hierarchy
from foretrace.tracer.sampling.burst_schedule import Accuracy, Schedule, schedule_of


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """Options of tracing a program, and the optional parts of its signature.

    Attributes:
        hierarchies: caches to simulate while it runs.
        accuracy: how many of a run's accesses to record. Below `Accuracy.HIGH` they are recorded in bursts
            (docs/sampling.md); with `Accuracy.AUTO` only those beyond about 10^9.
        seed: of the random positions of bursts; None for a random seed.
        follow_children: also trace the processes that the program forks, and programs that they become; of a Python
            program also those that it starts in the same interpreter. The signature sums them up.
        python_core: one of `tracer.python.program.PythonCore`: how to follow a Python program.
        has_tree: record the execution tree. The next two need it.
        has_data_flow: record the data flow between its nodes.
        has_dependences: record the loop-carried dependences. All accesses are recorded, and reading them takes several
            times as long.
        has_windows: record dependences in windows of a binary's run, if it has a data flow and not all dependences.
        has_recorded_values: keep all values of software-defined events' recorders, not only a sample.

    Raises:
        ForetraceError: the options do not go together.
    """

    hierarchies: Sequence[Hierarchy] = (DEFAULT_HIERARCHY,)
    accuracy: Accuracy = Accuracy.AUTO
    seed: int | None = None
    follow_children: bool = False
    python_core: str = "markers"
    has_tree: bool = True
    has_data_flow: bool = True
    has_dependences: bool = False
    has_windows: bool = True
    has_recorded_values: bool = False

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        if self.has_dependences and (self.follow_children or not self.has_tree):
            raise ForetraceError("dependences are those of the loops of one process's execution tree")

    def schedule(self, *, keeps_stream: bool) -> Schedule | None:
        """Schedule of the bursts; None where all accesses are recorded.

        Raises:
            ForetraceError: all are needed, and the accuracy asks for fewer.
        """
        if not keeps_stream and not self.has_dependences:
            return schedule_of(self.accuracy, self.seed)
        if self.accuracy in (Accuracy.AUTO, Accuracy.HIGH):
            return None
        what = "a kept stream has" if keeps_stream else "dependences follow from"
        raise ForetraceError(f"{what} all accesses: --accuracy high goes with it, {self.accuracy} does not")


DEFAULT_OPTIONS = TraceOptions()
