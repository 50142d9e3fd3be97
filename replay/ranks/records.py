"""The result of a replay of ranks: makespan, what each rank did and waited for, links, the critical path."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from foretrace.profiles.ranges import Assumption
from foretrace.replay.engine.outcome import Outcome

from .actions import Kind, RankActions
from .platform import Platform
from .programs import Hosts


@dataclass(frozen=True, slots=True)
class LinkUse:
    """Use of a link. `utilisation` is the share of its capacity over the makespan, `full_s` how long it was full."""

    name: str
    size_bytes: float
    utilisation: float
    full_s: float


@dataclass(frozen=True, slots=True)
class ActionTime:
    """Seconds that all ranks together spent in a kind of action, and how much of the critical path it is."""

    action: str
    time_s: float
    times: int
    path_s: float


@dataclass(frozen=True, slots=True, eq=False)
class RankReplay:
    """Result of a replay of ranks.

    Attributes:
        origin: of the run.
        platform, hosts: where it was replayed.
        library: whose choices of collective algorithms were followed; `algorithms` names those that were not.
        times: how often each kind of action happened, in the order of `Kind`. Those that looked for a message
            (`Kind.TEST`) are left out.
        outcome: of the simulation. Its entities are the ranks.
        left_out: calls by name that were left out, and how often.
        unfinished: ranks that did not come to the end of MPI.
        title: of the machine; "" for a platform.
        ends_s: of the makespan's interval; None where no figure has a range.
        assumptions, warnings: on the machine, and on the run.
    """

    origin: str
    platform: Platform
    hosts: Hosts
    library: str
    algorithms: dict[str, str]
    times: tuple[int, ...]
    outcome: Outcome
    left_out: dict[str, int] = field(default_factory=dict)
    unfinished: tuple[int, ...] = ()
    title: str = ""
    ends_s: tuple[float, float] | None = None
    assumptions: tuple[Assumption, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, run: RankActions, where: tuple[Platform, Hosts], library: str, algorithms: dict[str, str], outcome: Outcome
    ) -> RankReplay:
        """The result of a run's simulation."""
        times = np.bincount(run.actions["kind"], weights=run.times, minlength=len(Kind)).astype(np.int64)
        times[[Kind.REPEAT, Kind.END_REPEAT]] = 0
        left_out = dict(run.left_out)
        if times[Kind.TEST]:
            left_out["test"] = left_out.get("test", 0) + int(times[Kind.TEST])
        return cls(
            run.origin, *where, library, algorithms, tuple(times.tolist()), outcome, left_out, run.unfinished
        )  # fmt: skip

    @property
    def actions(self) -> int:
        """Number of actions of all ranks."""
        return sum(self.times)

    @property
    def machine(self) -> str:
        """Name of the platform."""
        return self.platform.name

    @property
    def timeline_title(self) -> str:
        """The platform and the ranks, above a timeline."""
        return f"{self.platform.name}, {len(self.hosts.node_of)} ranks"

    @property
    def low_s(self) -> float:
        """Lower end of the makespan's interval: a platform's figures have no ranges."""
        return self.ends_s[0] if self.ends_s else self.makespan_s

    @property
    def high_s(self) -> float:
        """Upper end of the makespan's interval."""
        return self.ends_s[1] if self.ends_s else self.makespan_s

    @property
    def makespan_s(self) -> float:
        """End of the last rank."""
        return self.outcome.makespan_s

    @property
    def compute_s(self) -> npt.NDArray[np.float64]:
        """[ranks] seconds of computation, sharing of cores included."""
        return self.outcome.seconds("run")

    @property
    def partner_s(self) -> npt.NDArray[np.float64]:
        """[ranks] seconds of waiting for the other side of a message to come."""
        return self.outcome.seconds("partner")

    @property
    def transfer_s(self) -> npt.NDArray[np.float64]:
        """[ranks] seconds of waiting for messages on their way."""
        return self.outcome.seconds("transfer")

    @property
    def imbalance(self) -> float:
        """Longest computation of a rank over the mean; 1 where nobody computes."""
        mean = float(self.compute_s.mean())
        return float(self.compute_s.max()) / mean if mean > 0 else 1.0

    @property
    def links(self) -> list[LinkUse]:
        """The links, and memories of nodes, by descending utilisation; without those that nobody used."""
        outcome = self.outcome
        memories = (
            [self.hosts.memory_bytes_per_s[-1]] * outcome.compiled.first_link if self.hosts.memory_bytes_per_s else []
        )
        room = np.concatenate([memories, self.platform.network.capacities]) * max(self.makespan_s, 1e-300)
        order = np.argsort(-outcome.bandwidth_bytes / room, kind="stable")
        return [
            LinkUse(
                outcome.compiled.bandwidths[i],
                float(outcome.bandwidth_bytes[i]),
                float(outcome.bandwidth_bytes[i] / room[i]),
                float(outcome.bandwidth_full_s[i]),
            )
            for i in order.tolist()
            if outcome.bandwidth_bytes[i] > 0
        ]

    @property
    def by_action(self) -> list[ActionTime]:
        """Time by kind of action, longest part of the critical path first."""
        outcome = self.outcome
        found = [
            ActionTime(label, float(seconds), times, outcome.path_s.get(label, 0.0))
            for label, seconds, times in zip(outcome.compiled.labels, outcome.label_s, self.times, strict=True)
            if seconds > 0 or outcome.path_s.get(label, 0.0) > 0
        ]
        return sorted(found, key=lambda one: (-one.path_s, -one.time_s))
