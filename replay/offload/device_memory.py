"""What an accelerator's memory holds of a program's, and what must be transferred before a loop can run there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from foretrace.tracer.signature.records import AddressRange, merge_ranges


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


@dataclass(slots=True)
class DeviceMemory:
    """The memory of one accelerator: what it holds of each rank's memory. Ranks have memories of their own."""

    link: Link
    held: dict[int, tuple[AddressRange, ...]] = field(default_factory=dict)

    def transfer_s(self, rank: int, transfers: Iterable[Transfer]) -> tuple[float, float]:
        """Seconds to bring over what is missing of these ranges, and results back."""
        to_device_s = from_device_s = 0.0
        if self.link.shared_memory:
            return to_device_s, from_device_s
        held = self.held.get(rank, ())
        for transfer in transfers:
            size = transfer.memory.range_bytes
            inward = missing_bytes(transfer.memory, held) + (transfer.times - 1) * size
            if inward:
                to_device_s += self.link.latency_s * transfer.times + inward / self.link.to_device_bytes_per_s
            if transfer.written:
                one_s = self.link.latency_s + size / self.link.from_device_bytes_per_s
                from_device_s += one_s * transfer.times
        return to_device_s, from_device_s

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
    """The parts of some ranges that are in none of others."""
    left = list(held)
    for gone in merge_ranges(written):
        before = (AddressRange(memory.first, min(memory.last_exclusive, gone.first)) for memory in left)
        behind = (AddressRange(max(memory.first, gone.last_exclusive), memory.last_exclusive) for memory in left)
        left = [part for part in (*before, *behind) if part.range_bytes > 0]
    return merge_ranges(left)
