"""The result of a replay on a machine: makespan, entities, resources, timeline, critical path, and what would help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretrace.profiles.ranges import Assumption
from foretrace.replay.base.records import Decision, Model
from foretrace.replay.engine.outcome import KINDS, Outcome
from foretrace.replay.prediction.conditions import LevelShare

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """Use of a resource. `utilisation` is the share of its capacity over the makespan.

    `kind` is "cores", "memory", "interpreter" (Python's lock), "accelerator", "copy engine" or "lock"; `amount` is in
    `unit`: core seconds, bytes, or seconds. `full_s`: how long all of it was in use (memory), `waits`: how often one
    had to wait.
    """

    name: str
    kind: str
    utilisation: float
    amount: float
    unit: str
    full_s: float
    waits: int


@dataclass(frozen=True, slots=True)
class PathPart:
    """An activity's part of the critical path."""

    activity: str
    time_s: float
    share: float


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The makespan if the machine had more of something, by a simulation of its own."""

    change: str
    makespan_s: float
    speedup: float


@dataclass(frozen=True, slots=True, eq=False)
class NodeReplay:
    """Result of replaying jobs on a machine.

    Attributes:
        machine, title: of the host.
        cores: that they shared. `threads` of each job, `copies` of the job.
        accelerator: its name, None for none; `accelerators` how many; `policy` of offloading.
        model: that gave the regions their times.
        makespan_s: when the last thread ended, within [low_s, high_s].
        alone_s: one copy with one thread per core and nothing else on the machine.
        prediction_s: the same by `predict`: one thread on one core.
        complete: whether the signature is.
        outcome: of the simulation.
        resources: what was used.
        caches: what each copy holds of each level, where as many as may divide it.
        critical_path: longest part first. Its times add up to the makespan, but for waits that nobody ended.
        shorter: what would shorten the makespan.
        decisions: about offloading, by activity in `regions`.
        regions: names of the program's regions.
    """

    machine: str
    title: str
    cores: int
    threads: int
    copies: int
    accelerator: str | None
    accelerators: int
    policy: str
    model: Model
    makespan_s: float
    low_s: float
    high_s: float
    alone_s: float
    prediction_s: float
    complete: bool
    outcome: Outcome
    resources: tuple[ResourceUse, ...]
    caches: tuple[LevelShare, ...]
    critical_path: tuple[PathPart, ...]
    shorter: tuple[WhatIf, ...]
    decisions: tuple[Decision, ...]
    regions: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    warnings: tuple[str, ...]

    @property
    def timeline_title(self) -> str:
        """The machine and its cores, above a timeline."""
        return f"{self.title}, {self.cores} cores"

    @property
    def entities_frame(self) -> pd.DataFrame:
        """One row for each entity: name, kind, job, busy_s, wait_s, end_s, and seconds by kind of activity or wait."""
        import pandas as pd

        entities, outcome = self.outcome.compiled.entities, self.outcome
        kinds = {f"{KINDS[number]}_s": outcome.entity_s[:, number] for number in range(outcome.entity_s.shape[1])}
        return pd.DataFrame(
            {
                "name": [entity.name for entity in entities],
                "kind": [entity.kind for entity in entities],
                "job": [entity.job for entity in entities],
                "busy_s": outcome.busy_s,
                "wait_s": self.wait_s,
                "end_s": outcome.end_s,
            }
            | kinds
        )

    @property
    def wait_s(self) -> np.typing.NDArray[np.float64]:
        """[entities]: seconds between their beginning and their end in which they were not busy."""
        return np.asarray(self.outcome.entity_s.sum(axis=1) - self.outcome.busy_s, np.float64)

    @property
    def resources_frame(self) -> pd.DataFrame:
        """One row for each resource, as `ResourceUse`."""
        import pandas as pd

        names = ResourceUse.__slots__
        return pd.DataFrame(
            [{name: getattr(use, name) for name in names} for use in self.resources], columns=list(names)
        )

    @property
    def timeline_frame(self) -> pd.DataFrame:
        """One row for each segment: entity, activity (or what it waited for), kind, start_s, end_s, times (folded)."""
        import pandas as pd

        segments, compiled = self.outcome.segments, self.outcome.compiled
        entities = np.array([entity.name for entity in compiled.entities], object)
        names = [
            what_of(self.outcome, int(label), int(kind))
            for label, kind in zip(segments["label"], segments["kind"], strict=True)
        ]
        return pd.DataFrame(
            {
                "entity": entities[segments["entity"]],
                "activity": names,
                "kind": [KINDS[int(kind)] for kind in segments["kind"]],
                "start_s": segments["start_s"],
                "end_s": segments["end_s"],
                "times": segments["times"],
            }
        )


def what_of(outcome: Outcome, label: int, kind: int) -> str:
    """Name of a timeline segment: an activity, or what an entity waited for."""
    compiled = outcome.compiled
    name = KINDS[kind]
    if name in ("run", "device", "sleep", "partner", "transfer"):
        return compiled.labels[label]
    if name == "join":
        return f"end of {compiled.entities[label].name}"
    if name == "folded":
        return "repetitions"
    return "decision" if name == "decision" else compiled.objects[label]
