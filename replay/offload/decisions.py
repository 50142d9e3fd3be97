"""Decisions inside a replay: whether a node goes to an accelerator, at the moment when a rank gets to it.

A node goes by a policy: never, always, from a static address range on (Carrington et al., ICS'11, section 3.3.2), where
it pays at that moment (greedy: with the queue there is, and what the accelerator's memory holds), or by a plan made
before. Where it stays, the candidates inside of it are asked next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from foretrace.replay.base.records import Decision, OffloadCost
from foretrace.replay.base.spread import TYPICAL
from foretrace.replay.engine.program import Offer, Part, Run, Sharing, Timed
from foretrace.replay.engine.simulation import Choice
from foretrace.replay.machine.machine import Accelerator
from foretrace.replay.offload.devices.device import Way

from .residency import HOST, Moved, Residency, Versions, results_of


@dataclass(frozen=True, slots=True)
class Offload:
    """Terms of a node on an accelerator, all entries together; or why it cannot be put there.

    `stage_s` brings what does not fit in its memory, piece by piece. `results` are values that it returns.
    """

    launches: int = 1
    launch_s: float = 0.0
    kernel_s: float = 0.0
    arithmetic_s: float = 0.0
    stage_s: float = 0.0
    results: int = 0
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Activity:
    """All entries of a node: what it does on the host, and its terms on the accelerator if it may go there.

    Attributes:
        node: of the program.
        nodes: that run when it does: on an accelerator it and all below, on the host those that no other activity has.
        host_s: of it and all below it, on the host.
        offload: its terms; None: it is not offered.
        runs: what the host does for these nodes alone.
        below: what the host does after that, if the node stays.
    """

    node: int
    nodes: Sequence[int]
    host_s: float
    offload: Offload | None = None
    own_nodes: Sequence[int] = ()
    runs: tuple[Run, ...] = ()
    below: tuple[Activity, ...] = ()


Pays = Callable[[Activity, OffloadCost], bool]


def pays_now(activity: Activity, cost: OffloadCost) -> bool:
    """The greedy policy: less time than on the host, with queue and transfers as they are now."""
    return cost.total_s < activity.host_s


def decided_beforehand(nodes: frozenset[int]) -> Pays:
    """A policy that has decided before."""
    return lambda activity, cost: activity.node in nodes


_IN, _KERNEL, _OUT = 0, 1, 2  # times of a decision


@dataclass(slots=True)
class Program:
    """A rank's activities as parts of a timeline program; an offer's token is an activity's number in `asked`.

    `asked` holds (activity, whether it may go): its own work on the host is asked for as well, since data may have to
    come back for it.
    """

    asked: list[tuple[Activity, bool]] = field(default_factory=list)

    def parts(
        self, activities: Sequence[Activity], names: Sequence[str], accelerators: int, way: Way, core: Sharing
    ) -> tuple[Part, ...]:
        """Parts of activities in order.

        Args:
            activities: with their terms.
            names: of nodes: labels of kernels and copies.
            accelerators: how many there are.
            way: to an accelerator; to a shared memory there are no copies.
            core: where arithmetic that stays on the host runs.
        """
        found: list[Part] = []
        for activity in activities:
            stays = (*self._own(activity, names, accelerators, way),
                     *self.parts(activity.below, names, accelerators, way, core))  # fmt: skip
            if activity.offload is None or not accelerators:
                found += stays
                continue
            token = len(self.asked)
            self.asked.append((activity, True))
            label, choices = names[activity.node], [stays]
            for number in range(accelerators):
                accelerator = Accelerator.of(number)
                there: list[Part] = [
                    Timed(accelerator.to_device, label, _IN),
                    Timed(accelerator.kernels, label, _KERNEL),
                    Timed(accelerator.from_device, label, _OUT),
                ]
                if activity.offload.arithmetic_s:
                    there.append(Run(label, activity.offload.arithmetic_s, core))
                choices.append(tuple(there))
            found.append(Offer(token, tuple(choices)))
        return tuple(found)

    def _own(self, activity: Activity, names: Sequence[str], accelerators: int, way: Way) -> tuple[Part, ...]:
        if not accelerators or not activity.own_nodes:
            return activity.runs
        token = len(self.asked)
        self.asked.append((activity, False))
        choices: list[tuple[Part, ...]] = [activity.runs]
        for number in range(accelerators):
            accelerator, label = Accelerator.of(number), names[activity.node]
            choices.append(
                (Timed(accelerator.from_device, label, _OUT), *activity.runs, Timed(accelerator.to_device, label, _IN))
            )
        return (Offer(token, tuple(choices)),)


@dataclass(slots=True)
class Decider:
    """Answers the offers of ranks, and keeps their decisions.

    Attributes:
        programs: of each rank.
        versions: of the program's data; ranks have memories of their own.
        way: to each accelerator.
        accelerators: how many there are.
        pays: the policy.
        decisions: in the order in which they were made.
        moved: by all ranks together.
    """

    programs: Sequence[Program]
    versions: Versions
    way: Way
    accelerators: int
    pays: Pays = pays_now
    decisions: list[Decision] = field(default_factory=list)
    moved: Moved = field(default_factory=Moved)
    _ranks: list[Residency] = field(init=False)
    _free_at_s: list[float] = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is placed, nobody waits."""
        self._ranks = [Residency(self.versions) for _ in self.programs]
        self._free_at_s = [0.0] * self.accelerators

    def __call__(self, token: int, entity: int, now_s: float) -> Choice:
        """Decide about an activity of rank `entity`, or about where its data must come from."""
        activity, may_go = self.programs[entity].asked[token]
        if not may_go:
            return self._stays(entity, activity)
        offload = activity.offload
        assert offload is not None, "only those are offered"
        if offload.refusal:
            self.decisions.append(Decision(entity, activity.node, now_s, activity.host_s, None, False, offload.refusal))
            return Choice(0)
        number, cost = self._best(entity, activity, offload, now_s)
        goes = self.pays(activity, cost)
        self.decisions.append(Decision(entity, activity.node, now_s, activity.host_s, cost, goes))
        if not goes:
            return Choice(0)
        moved = self._ranks[entity].put(activity.nodes, number, offload.launches) + results_of(offload.results)
        self.moved += moved
        to_device, from_device = moved.times_s(self.way)
        self._free_at_s[number] = now_s + cost.total_s - cost.arithmetic_s
        in_s = float(to_device[TYPICAL]) + offload.stage_s
        return Choice(1 + number, (in_s, offload.launch_s + offload.kernel_s, float(from_device[TYPICAL])))

    def _best(self, rank: int, activity: Activity, offload: Offload, now_s: float) -> tuple[int, OffloadCost]:
        """The accelerator that would begin first with all it needs, and what it would cost there."""
        transfers = []
        for number in range(self.accelerators):
            moved = self._ranks[rank].would_move(activity.nodes, number, offload.launches)
            moved += results_of(offload.results)
            transfers.append(sum(float(one[TYPICAL]) for one in moved.times_s(self.way)) + offload.stage_s)
        queues = [max(free_at_s - now_s, 0.0) for free_at_s in self._free_at_s]
        number = min(range(self.accelerators), key=lambda n: queues[n] + transfers[n])
        cost = OffloadCost(
            queue_s=queues[number],
            launch_s=offload.launch_s,
            transfer_s=transfers[number],
            kernel_s=offload.kernel_s,
            arithmetic_s=offload.arithmetic_s,
        )
        return number, cost

    def _stays(self, rank: int, activity: Activity) -> Choice:
        """The host's own work: with what it must fetch, and what it must send to those that ran before it."""
        moved = self._ranks[rank].put(activity.own_nodes, HOST)
        if moved == Moved():
            return Choice(0)
        self.moved += moved
        to_device, from_device = moved.times_s(self.way)
        device = max(self._ranks[rank].devices)
        return Choice(1 + device, (float(to_device[TYPICAL]), 0.0, float(from_device[TYPICAL])))
