"""Decisions inside a replay: whether a loop goes to an accelerator, at the moment when a rank gets to it.

A loop goes by a policy: never, always, from a static address range on (Carrington et al., ICS'11, section 3.3.2), where
it pays at that moment (greedy: with the queue there is, and what the accelerator's memory holds), or by a plan made
before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from foretrace.replay.engine.program import Offer, Part, Run, Sharing, Timed
from foretrace.replay.engine.simulation import Choice
from foretrace.replay.records import Decision, OffloadCost
from foretrace.tracer.signature.records import AddressRange

from .device_memory import DeviceMemory, Link, Transfer


class Policy(StrEnum):
    """Who goes to an accelerator."""

    NEVER = "never"
    ALWAYS = "always"
    THRESHOLD = "threshold"
    GREEDY = "greedy"
    PLAN = "plan"


@dataclass(frozen=True, slots=True)
class Offload:
    """What a region would cost on an accelerator, all entries together; or why it cannot be put there."""

    launch_s: float = 0.0
    kernel_s: float = 0.0
    arithmetic_s: float = 0.0
    transfers: tuple[Transfer, ...] = ()
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Activity:
    """All entries of a region: its time on a host core, and its terms on the accelerator if it may go there.

    `writes` are the ranges of memory that it stores to: what accelerators hold of them is stale afterwards.
    """

    region: int
    host_s: float
    entries: int = 1
    offload: Offload | None = None
    writes: tuple[AddressRange, ...] = ()


Pays = Callable[[Activity, OffloadCost], bool]


def pays_now(activity: Activity, cost: OffloadCost) -> bool:
    """The greedy policy: less time than on the host, with queue and transfers as they are now."""
    return cost.total_s < activity.host_s


def device_names(accelerators: int) -> tuple[str, ...]:
    """Of the accelerators and their copy engines, as the system of a simulation has them."""
    return tuple(name for number in range(accelerators) for name in _devices_of(number))


def _devices_of(number: int) -> tuple[str, str, str]:
    return f"accelerator {number}", f"copies to accelerator {number}", f"copies from accelerator {number}"


_IN, _KERNEL, _OUT = 0, 1, 2  # times of a decision


@dataclass(slots=True)
class Decider:
    """Answers the offers of ranks whose activities are in `ranks`, and keeps their decisions.

    Attributes:
        ranks: the activities of each rank, in order; an offer's token is an activity's number in its rank.
        link: the way to each accelerator.
        accelerators: how many there are.
        pays: the policy.
        decisions: in the order in which they were made.
    """

    ranks: Sequence[Sequence[Activity]]
    link: Link
    accelerators: int
    pays: Pays = pays_now
    decisions: list[Decision] = field(default_factory=list)
    _memories: list[DeviceMemory] = field(init=False)
    _free_at_s: list[float] = field(init=False)
    _seen: list[int] = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is held, nobody waits."""
        self._memories = [DeviceMemory(self.link) for _ in range(self.accelerators)]
        self._free_at_s = [0.0] * self.accelerators
        self._seen = [0] * len(self.ranks)

    def __call__(self, token: int, entity: int, now_s: float) -> Choice:
        """Decide about activity `token` of rank `entity`."""
        activity = self.ranks[entity][token]
        offload = activity.offload
        assert offload is not None, "only those are offered"
        for before in self.ranks[entity][self._seen[entity] : token]:  # ran on the host
            self._written(entity, before.writes, by=None)
        self._seen[entity] = token + 1
        if offload.refusal:
            self.decisions.append(
                Decision(entity, activity.region, now_s, activity.host_s, None, False, offload.refusal)
            )
            return self._stays(entity, activity)
        number, cost, (in_s, out_s) = self._best(entity, offload, now_s)
        goes = self.pays(activity, cost)
        self.decisions.append(Decision(entity, activity.region, now_s, activity.host_s, cost, goes))
        if not goes:
            return self._stays(entity, activity)
        self._free_at_s[number] = now_s + cost.total_s - cost.arithmetic_s
        self._memories[number].hold(entity, offload.transfers)
        results = (transfer.memory for transfer in offload.transfers if transfer.written)
        self._written(entity, (*activity.writes, *results), by=number)
        return Choice(1 + number, (in_s, offload.launch_s + offload.kernel_s, out_s))

    def _best(self, rank: int, offload: Offload, now_s: float) -> tuple[int, OffloadCost, tuple[float, float]]:
        """The accelerator that would begin first with all it needs, what it would cost there, transfers."""
        transfers = [memory.transfer_s(rank, offload.transfers) for memory in self._memories]
        queues = [max(free_at_s - now_s, 0.0) for free_at_s in self._free_at_s]
        number = min(range(self.accelerators), key=lambda n: queues[n] + sum(transfers[n]))
        cost = OffloadCost(
            queue_s=queues[number],
            launch_s=offload.launch_s,
            transfer_s=sum(transfers[number]),
            kernel_s=offload.kernel_s,
            arithmetic_s=offload.arithmetic_s,
        )
        return number, cost, transfers[number]

    def _stays(self, rank: int, activity: Activity) -> Choice:
        self._written(rank, activity.writes, by=None)
        return Choice(0)

    def _written(self, rank: int, ranges: Sequence[AddressRange], by: int | None) -> None:
        """Memories other than that of who wrote these ranges hold stale data of them."""
        for number, memory in enumerate(self._memories):
            if number != by:
                memory.invalidate(rank, ranges)


def parts_of_activity(
    activity: Activity, token: int, accelerators: int, label: str, host: Run, core: Sharing, link: Link
) -> tuple[Part, ...]:
    """An activity as a part of a timeline program: on the host, or offered to the accelerators.

    Args:
        activity: with its terms on an accelerator.
        token: what the `Decider` knows it by.
        accelerators: how many there are.
        label: of its kernel and copies.
        host: the activity on the host.
        core: where arithmetic that stays on the host runs.
        link: the way to an accelerator; to a shared memory there are no copies.
    """
    offload = activity.offload
    if offload is None or not accelerators:
        return (host,)
    choices: list[tuple[Part, ...]] = [(host,)]
    for number in range(accelerators):
        device, to_device, from_device = _devices_of(number)
        there: list[Part] = [Timed(device, label, _KERNEL)]
        if not link.shared_memory:
            there = [Timed(to_device, label, _IN), *there, Timed(from_device, label, _OUT)]
        if offload.arithmetic_s:
            there.append(Run(label, offload.arithmetic_s, core))
        choices.append(tuple(there))
    return (Offer(token, tuple(choices)),)
