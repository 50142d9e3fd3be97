"""The result of a replay of ranks: makespan, what each rank did and waited for, links, the critical path."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from foretrace.profiles.ranges import Assumption
from foretrace.replay.engine.outcome import Outcome

from .actions import Kind, RankActions
from .checks import name_of
from .platform import Platform
from .programs import Hosts, Labels


@dataclass(frozen=True, slots=True)
class LinkUse:
    """Use of a link. `utilisation` is the share of its capacity over the makespan, `full_s` how long it was full."""

    name: str
    size_bytes: float
    utilisation: float
    full_s: float


@dataclass(frozen=True, slots=True)
class ActionTime:
    """Seconds that all ranks together spent in an action, and how much of the critical path it is.

    Attributes:
        action: its kind.
        place: file and line; "" where the actions of all places are taken together.
        times: how often it happened.
        late_sender_s: of waiting for a message that its sender sent too late; `late_receiver_s` for one that its
            receiver was not ready for.
        transfer_s: of waiting for messages on their way.
    """

    action: str
    place: str
    time_s: float
    times: int
    path_s: float
    late_sender_s: float
    late_receiver_s: float
    transfer_s: float


@dataclass(frozen=True, slots=True)
class Pair:
    """Messages that one rank sends another."""

    sender: int
    receiver: int
    messages: int
    size_bytes: float


@dataclass(frozen=True, slots=True)
class Imbalance:
    """Imbalance of the computation before a place: the work of the most loaded rank, and over the mean."""

    place: str
    time_s: float
    rank: int
    most_s: float
    over_mean: float


@dataclass(frozen=True, slots=True)
class PathPart:
    """Part of the critical path that is on some ranks."""

    first_rank: int
    last_rank: int
    time_s: float


@dataclass(frozen=True, slots=True, eq=False)
class RankReplay:
    """Result of a replay of ranks.

    Attributes:
        origin: of the run.
        platform, hosts: where it was replayed.
        library: whose choices of collective algorithms were followed; `algorithms` names those that were not.
        labels: of the actions. `label_times` is how often each happened.
        times: how often each kind of action happened, in the order of `Kind`. Those that looked for a message
            (`Kind.TEST`) are left out.
        imbalances: of the computation before each place, largest work first.
        outcome: of the simulation. Its entities are the ranks.
        left_out: calls by name that were left out, and how often.
        unfinished: ranks that did not come to the end of MPI.
        title: of the machine; "" for a platform.
        ends_s: of the makespan's interval; None where no figure has a range.
        recorded_s: how long the run took when it was timed, on the machine that it was recorded on; None: not known.
        assumptions, warnings: on the machine, and on the run.
    """

    origin: str
    platform: Platform
    hosts: Hosts
    library: str
    algorithms: dict[str, str]
    labels: Labels
    label_times: tuple[int, ...]
    times: tuple[int, ...]
    imbalances: tuple[Imbalance, ...]
    outcome: Outcome
    left_out: dict[str, int] = field(default_factory=dict)
    unfinished: tuple[int, ...] = ()
    title: str = ""
    ends_s: tuple[float, float] | None = None
    recorded_s: float | None = None
    assumptions: tuple[Assumption, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, run: RankActions, where: tuple[Platform, Hosts], library: str, algorithms: dict[str, str], outcome: Outcome
    ) -> RankReplay:
        """The result of a run's simulation."""
        often, labels = run.times, Labels.of(run)
        kinds = run.actions["kind"]
        times = np.bincount(kinds, often, minlength=len(Kind)).astype(np.int64)
        of_labels = np.bincount(labels.numbers(run, kinds, slice(None)), often, minlength=len(labels.names))
        times[[Kind.REPEAT, Kind.END_REPEAT]] = 0
        left_out = dict(run.left_out)
        if times[Kind.TEST]:
            left_out["test"] = left_out.get("test", 0) + int(times[Kind.TEST])
        work_s = run.actions["amount"] * often / where[1].flops_per_s
        return cls(
            run.origin, *where, library, algorithms, labels, tuple(map(int, of_labels)), tuple(map(int, times)),
            tuple(_imbalances(run, work_s)) if labels.has_places else (), outcome, left_out, run.unfinished,
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
        return self._times(Labels(np.arange(len(Kind)), np.full(len(Kind), -1), tuple(map(name_of, Kind))))

    @property
    def by_place(self) -> list[ActionTime]:
        """Time by kind and place of actions, longest part of the critical path first; none if no places are known."""
        return self._times(self.labels) if self.labels.has_places else []

    def _times(self, labels: Labels) -> list[ActionTime]:
        outcome, by_kind = self.outcome, not labels.has_places
        path_s = np.array([outcome.path_s.get(name, 0.0) for name in outcome.compiled.labels])
        columns = np.column_stack([outcome.label_s, self.label_times, path_s, outcome.label_waits_s])
        if by_kind and self.labels.has_places:
            sums = np.zeros((len(labels.names), columns.shape[1]))
            np.add.at(sums, self.labels.kinds, columns)
            columns = sums
        names = [name_of(Kind(kind)) for kind in labels.kinds.tolist()]
        places = [name[len(kind) :].removeprefix(" at ") for name, kind in zip(labels.names, names, strict=True)]
        found = [
            ActionTime(name, place, row[0], int(row[1]), *row[2:])
            for name, place, row in zip(names, places, columns.tolist(), strict=True)
            if row[0] > 0 or row[2] > 0
        ]
        return sorted(found, key=lambda one: (-one.path_s, -one.time_s))

    @property
    def pairs(self) -> list[Pair]:
        """Messages from rank to rank, those of collectives included, most bytes first; see `left_out_pairs`."""
        outcome = self.outcome
        order = np.argsort(-outcome.pair_traffic[:, 1], kind="stable")
        rows = np.column_stack([outcome.pairs[order], outcome.pair_traffic[order]]).tolist()
        return [Pair(int(sender), int(to), int(messages), size_bytes) for sender, to, messages, size_bytes in rows]

    @property
    def left_out_pairs(self) -> Pair | None:
        """Messages of all further pairs, where there are too many to tell apart."""
        messages, size_bytes = self.outcome.left_out_traffic.tolist()
        return Pair(-1, -1, int(messages), size_bytes) if messages else None

    @property
    def path(self) -> list[PathPart]:
        """Ranks, or ranges of as many, on which the critical path is, longest part first."""
        bins, ranks = self.outcome.path_entity_s, len(self.hosts.node_of)
        firsts = [-(-number * ranks // len(bins)) for number in range(len(bins) + 1)]
        parts = [PathPart(firsts[n], firsts[n + 1] - 1, float(bins[n])) for n in range(len(bins)) if bins[n] > 0]
        return sorted(parts, key=lambda one: -one.time_s)


def _imbalances(run: RankActions, work_s: npt.NDArray[np.float64]) -> list[Imbalance]:
    """The work of ranks before each place."""
    computes = np.flatnonzero(run.actions["kind"] == Kind.COMPUTE)
    lines, of_line = np.unique(run.actions["line"][computes], return_inverse=True)
    ranks = run.num_ranks
    keys, numbers = np.unique(of_line.reshape(-1) * ranks + run.rank_of[computes], return_inverse=True)
    sums = np.bincount(numbers.reshape(-1), work_s[computes], minlength=len(keys))
    found = []
    for number, line in enumerate(lines.tolist()):
        own = slice(*np.searchsorted(keys, [number * ranks, (number + 1) * ranks]))
        total, at = float(sums[own].sum()), int(sums[own].argmax())
        if total > 0:
            most = float(sums[own][at])
            found.append(
                Imbalance(run.place_of_line(line), total, int(keys[own][at]) % ranks, most, most * ranks / total)
            )
    return sorted(found, key=lambda one: -one.time_s)
