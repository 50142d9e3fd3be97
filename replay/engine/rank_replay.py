"""The replay: ranks go through their regions on host cores, and may hand some to accelerators, in SimPy's time.

A rank is a sequence of activities in the order in which they first ran. All entries of a region are replayed as one
activity (folded). At a gather/scatter loop the rank weighs, there and then, the host's time against queueing, launch,
transfers of what the accelerator does not hold already, kernel, and the arithmetic that stays on the host. Host core
and accelerator are SimPy resources, so ranks that want the same one wait for each other; a rank keeps its core while
its accelerator works.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field

import simpy

from foretrace.replay.records import Decision, OffloadCost, Replay, TimelineEntry
from foretrace.tracer.signature.records import AddressRange, merge_ranges

HOST = "host"


@dataclass(frozen=True, slots=True)
class Link:
    """The way to an accelerator's memory. With `shared_memory` nothing is transferred."""

    shared_memory: bool = True
    to_device_bytes_per_s: float = float("inf")
    from_device_bytes_per_s: float = float("inf")
    latency_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Transfer:
    """A range of memory a loop works on. It moves `times` times at most, as the host changes or reads it in between."""

    memory: AddressRange
    written: bool
    times: int = 1


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


@dataclass(slots=True)
class _Accelerator:
    """One accelerator: who uses it, when it will have done what it has taken on, and what its memory holds, by rank."""

    name: str
    link: Link
    resource: simpy.Resource
    free_at_s: float = 0.0
    held: dict[int, tuple[AddressRange, ...]] = field(default_factory=dict)

    def transfer_s(self, rank: int, transfers: Iterable[Transfer]) -> float:
        """Time to bring over what is missing of these ranges, and results back."""
        if self.link.shared_memory:
            return 0.0
        held, total_s = self.held.get(rank, ()), 0.0
        for transfer in transfers:
            size = transfer.memory.range_bytes
            inward = missing_bytes(transfer.memory, held) + (transfer.times - 1) * size
            if inward:
                total_s += self.link.latency_s * transfer.times + inward / self.link.to_device_bytes_per_s
            if transfer.written:
                total_s += (self.link.latency_s + size / self.link.from_device_bytes_per_s) * transfer.times
        return total_s

    def hold(self, rank: int, transfers: Iterable[Transfer]) -> None:
        """Remember what is over there and stays valid: what the host does not change."""
        stays = (transfer.memory for transfer in transfers if transfer.times == 1)
        self.held[rank] = merge_ranges((*self.held.get(rank, ()), *stays))

    def invalidate(self, rank: int, written: Iterable[AddressRange]) -> None:
        """Forget what was changed elsewhere: it must come over again."""
        if held := self.held.get(rank):
            self.held[rank] = without(held, written)


def missing_bytes(memory: AddressRange, held: Sequence[AddressRange]) -> int:
    """Bytes of `memory` that none of `held` (merged ranges) covers."""
    covered = 0
    for other in held:
        covered += max(
            min(memory.last_exclusive, other.last_exclusive) - max(memory.first, other.first),
            0,
        )
    return memory.range_bytes - covered


def without(held: Sequence[AddressRange], written: Iterable[AddressRange]) -> tuple[AddressRange, ...]:
    """What is left of some ranges once others are taken out of them."""
    left = list(held)
    for gone in merge_ranges(written):
        before = (AddressRange(memory.first, min(memory.last_exclusive, gone.first)) for memory in left)
        behind = (AddressRange(max(memory.first, gone.last_exclusive), memory.last_exclusive) for memory in left)
        left = [part for part in (*before, *behind) if part.range_bytes > 0]
    return merge_ranges(left)


def replay(
    ranks: Sequence[Sequence[Activity]],
    *,
    host_cores: int | None = None,
    accelerators: int = 0,
    link: Link | None = None,
) -> Replay:
    """Replay one or more ranks that share a host and its accelerators.

    Args:
        ranks: the activities of each rank, in order.
        host_cores: cores that ranks share; None for one each.
        accelerators: how many there are. With none nothing is offloaded.
        link: the way to each; None for a memory shared with the host.
    """
    environment = simpy.Environment()
    cores = simpy.Resource(environment, capacity=host_cores or max(len(ranks), 1))
    devices = [
        _Accelerator(f"accelerator {index}", link or Link(), simpy.Resource(environment, capacity=1))
        for index in range(accelerators)
    ]
    run = _Run(environment, cores, devices)
    ends = [environment.process(run.rank(index, activities)) for index, activities in enumerate(ranks)]
    environment.run()
    rank_end_s = tuple(float(process.value or 0.0) for process in ends)
    return Replay(max(rank_end_s, default=0.0), rank_end_s, tuple(run.decisions), tuple(run.timeline))


@dataclass(slots=True)
class _Run:
    """The state of one replay."""

    environment: simpy.Environment
    cores: simpy.Resource
    devices: list[_Accelerator]
    decisions: list[Decision] = field(default_factory=list)
    timeline: list[TimelineEntry] = field(default_factory=list)

    def rank(self, rank: int, activities: Sequence[Activity]) -> Generator[simpy.Event, None, float]:
        """A rank's process; its value is when it ended."""
        for activity in activities:
            with self.cores.request() as core:
                yield core
                device = self.decide(rank, activity)
                if device is None or activity.offload is None:
                    yield from self.spend(rank, activity, HOST, activity.host_s)
                    self.written(rank, activity.writes, by=None)
                else:
                    yield from self.offloaded(rank, activity, activity.offload, device)
        return float(self.environment.now)

    def decide(self, rank: int, activity: Activity) -> _Accelerator | None:
        """The accelerator that the activity goes to, None for the host; the decision is recorded."""
        offload = activity.offload
        if offload is None or not self.devices:
            return None
        now = float(self.environment.now)
        if offload.refusal:
            self.decisions.append(Decision(rank, activity.region, now, activity.host_s, None, False, offload.refusal))
            return None
        device = min(self.devices, key=lambda d: max(d.free_at_s - now, 0.0) + d.transfer_s(rank, offload.transfers))
        cost = OffloadCost(
            queue_s=max(device.free_at_s - now, 0.0),
            launch_s=offload.launch_s,
            transfer_s=device.transfer_s(rank, offload.transfers),
            kernel_s=offload.kernel_s,
            arithmetic_s=offload.arithmetic_s,
        )
        pays = cost.total_s < activity.host_s
        self.decisions.append(Decision(rank, activity.region, now, activity.host_s, cost, pays))
        if not pays:
            return None
        device.free_at_s = now + cost.total_s - cost.arithmetic_s
        return device

    def offloaded(
        self, rank: int, activity: Activity, offload: Offload, device: _Accelerator
    ) -> Generator[simpy.Event, None, None]:
        """Wait for the accelerator, use it, then do on the host what stays there."""
        transfer_s = device.transfer_s(rank, offload.transfers)
        device.hold(rank, offload.transfers)
        results = (transfer.memory for transfer in offload.transfers if transfer.written)
        self.written(rank, (*activity.writes, *results), by=device)
        with device.resource.request() as turn:
            yield turn
            yield from self.spend(rank, activity, device.name, offload.launch_s + transfer_s + offload.kernel_s)
        if offload.arithmetic_s:
            yield from self.spend(rank, activity, HOST, offload.arithmetic_s)

    def written(self, rank: int, ranges: Sequence[AddressRange], by: _Accelerator | None) -> None:
        """Memories other than that of who wrote these ranges hold stale data of them."""
        for device in self.devices:
            if device is not by:
                device.invalidate(rank, ranges)

    def spend(self, rank: int, activity: Activity, device: str, seconds: float) -> Generator[simpy.Event, None, None]:
        """Let time pass and note it in the timeline."""
        start = float(self.environment.now)
        yield self.environment.timeout(seconds)
        self.timeline.append(
            TimelineEntry(rank, activity.region, device, start, float(self.environment.now), activity.entries)
        )
