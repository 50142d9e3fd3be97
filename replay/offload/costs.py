"""What a gather/scatter loop would cost on an accelerator, and why it goes there or not.

Equation 2 of Carrington et al., ICS'11: memory references of the loop times their size, over the accelerator's
bandwidth at the address range of the indirect accesses (equations 3 and 4 for the Convey HC-1). All memory references
of the loop move, the index and the dense side with the indirect accesses; arithmetic on what was gathered stays on the
host, after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.errors import PredictionError
from foretrace.profiles.figure import figures_of_record
from foretrace.profiles.profile import GatherScatterCurve, MachineKind, Profile
from foretrace.profiles.profile import Link as PublishedLink
from foretrace.replay.predict import HostRun
from foretrace.replay.records import Assumption, Decision
from foretrace.replay.spread import TYPICAL, Floats
from foretrace.replay.workload import Region
from foretrace.tracer.signature.records import AddressRange, MemoryOperation, Signature, merge_ranges
from foretrace.units import format_bytes, format_bytes_per_s, format_seconds

from .decisions import Activity, Offload
from .device_memory import Link, Transfer

BREAK_EVEN_RANGES = np.unique(np.geomspace(1 << 10, 1 << 34, 193).astype(np.int64))


def _launch(interval_s: float) -> tuple[float, Assumption]:
    """What a launch takes that its rank waits for, if only the interval between queued ones is published."""
    default = figures_of_record(PublishedLink)["launch_latency_s"].defaults[0]
    launch_s = max(default.typical, interval_s)
    low, high = (format_seconds(max(time_s, interval_s)) for time_s in (default.fast, default.slow))
    text = (
        f"not in the profile, {format_seconds(launch_s)} assumed ({low} to {high}) until a lone kernel is finished; "
        f"queued ones follow each other every {format_seconds(interval_s)}, but the host waits for each result"
    )
    return launch_s, Assumption("launch_latency_s", text)


@dataclass(frozen=True, slots=True, eq=False)
class Accelerator:
    """An accelerator as the replay needs it, with what had to be assumed. `launch_s` is of one that is waited for."""

    profile: Profile
    link: Link
    launch_s: float
    launch_known: bool
    assumptions: tuple[Assumption, ...]

    @classmethod
    def of(cls, profile: Profile) -> Accelerator:
        """Read an accelerator's profile.

        Raises:
            PredictionError: it is no accelerator, does not tell its gather/scatter bandwidth, or has a memory of its
                own and does not tell how fast data gets there.
        """
        if profile.kind is not MachineKind.ACCELERATOR:
            raise PredictionError(
                f"machine {profile.name}: is a host, not an accelerator; name an accelerator with --accelerator"
            )
        if not profile.gather_scatter:
            raise PredictionError(f"profile {profile.name}: gather_scatter is missing, its bandwidth is not known")
        assumptions = []
        given = profile.link
        if given is None:
            assumptions.append(Assumption("link", "not in the profile, transfers and launches are counted as free"))
            return cls(profile, Link(), 0.0, False, tuple(assumptions))
        link = Link()
        if not given.shared_memory:
            for key in ("to_device_bytes_per_s", "from_device_bytes_per_s"):
                if getattr(given, key) is None:
                    raise PredictionError(f"profile {profile.name}: link.{key} is missing, and it shares no memory")
            link = Link(
                shared_memory=False,
                to_device_bytes_per_s=given.to_device_bytes_per_s or float("inf"),
                from_device_bytes_per_s=given.from_device_bytes_per_s or float("inf"),
                latency_s=given.transfer_latency_s or 0.0,
            )
            if given.transfer_latency_s is None:
                assumptions.append(Assumption("transfer_latency", "not in the profile, counted as free"))
        launch_s = given.launch_latency_s
        if launch_s is None and given.launch_interval_s is None:
            assumptions.append(
                Assumption("launch", "not in the profile, launches counted as free: gains are the most there can be")
            )
        elif launch_s is None:
            launch_s, assumption = _launch(given.launch_interval_s or 0.0)
            assumptions.append(assumption)
        return cls(profile, link, launch_s or 0.0, launch_s is not None, tuple(assumptions))

    def curves(self, kinds: frozenset[str]) -> list[GatherScatterCurve] | None:
        """A curve for each kind of operation, None if one is not there."""
        found = []
        for kind in sorted(kinds):
            curve = self.profile.gather_scatter_curve(kind)
            if curve is None:
                return None
            found.append(curve)
        return found

    def bandwidth_bytes_per_s(self, kinds: frozenset[str], range_bytes: int) -> float | None:
        """Bandwidth of a loop that does all of `kinds`: the least of theirs. None where a curve does not cover it."""
        bandwidths = [curve.bandwidth_bytes_per_s(range_bytes) for curve in self.curves(kinds) or []]
        known = [bandwidth for bandwidth in bandwidths if bandwidth is not None]
        return min(known) if known and len(known) == len(bandwidths) else None


LOADERS_CODE = "part of the dynamic loader, not of the program; its addresses are those of unrelated libraries"
_LOADER = re.compile(r"ld(-linux.*|-musl-.*|64|-[\d.]+)?\.so(\.\d+)*")


def is_loader(module: str) -> bool:
    """Whether a module is a system's dynamic loader, by its file's name (ld.so(8))."""
    return _LOADER.fullmatch(module.rpartition("/")[2]) is not None


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A gather/scatter loop: what it moves, over which range, and its terms on the accelerator.

    `refs` and `moved_bytes` are all memory references of the loop, `indirect_refs` those that gather or scatter.
    """

    index: int
    region: Region
    kinds: frozenset[str]
    range_bytes: int
    refs: int
    indirect_refs: int
    moved_bytes: int
    offload: Offload

    @property
    def idiom(self) -> str:
        """ "gather", "scatter" or "gather+scatter"."""
        return "+".join(sorted(self.kinds))


def activities(run: HostRun) -> tuple[Activity, ...]:
    """The regions of a program as a rank replays them, nothing offloaded."""
    times = run.times.time_s[TYPICAL]
    return tuple(
        Activity(index, float(time), region.entries, writes=_written(run, region))
        for index, (region, time) in enumerate(zip(run.workload.regions, times, strict=True))
    )


def _written(run: HostRun, region: Region) -> tuple[AddressRange, ...]:
    """The ranges of memory that a region stores to."""
    operations = (run.workload.signature.operations[number] for number in region.operations)
    return merge_ranges(AddressRange(one.first, one.last_exclusive) for one in operations if one.is_store)


def candidates(run: HostRun, accelerator: Accelerator) -> tuple[Candidate, ...]:
    """The program's gather/scatter loops with their costs on the accelerator, in the order in which they first ran."""
    return tuple(
        _candidate(run, accelerator, index, region)
        for index, region in enumerate(run.workload.regions)
        if region.idioms
    )


def indirect_range_bytes(signature: Signature, operations: tuple[int, ...]) -> int:
    """Merged length of the ranges of the given operations (Carrington et al., ICS'11, section 3.2.2).

    Of array operations, whose arrays may lie elsewhere each time they run, the longest range of one execution counts.
    """
    return sum(
        _length(merged, [signature.operations[op] for op in operations])
        for merged in merge_ranges(_range(signature, op) for op in operations)
    )


def _length(merged: AddressRange, operations: list[MemoryOperation]) -> int:
    """Of one merged range, what its operations reach in one execution, as far as that is known."""
    inside = [op for op in operations if merged.first <= op.first and op.last_exclusive <= merged.last_exclusive]
    return max(op.execution_range_bytes or merged.range_bytes for op in inside)


def _range(signature: Signature, operation_id: int) -> AddressRange:
    operation = signature.operations[operation_id]
    return AddressRange(operation.first, operation.last_exclusive)


def _candidate(run: HostRun, accelerator: Accelerator, index: int, region: Region) -> Candidate:
    signature = run.workload.signature
    indirect = tuple({op for idiom in region.idioms for op in idiom.operations})
    kinds = frozenset(str(idiom.kind) for idiom in region.idioms)
    range_bytes = indirect_range_bytes(signature, indirect)
    moved = sum(signature.operations[op].total_bytes for op in region.operations)
    refusal = LOADERS_CODE if is_loader(region.place.module) else _refusal(accelerator, kinds, range_bytes)
    bandwidth = None if refusal else accelerator.bandwidth_bytes_per_s(kinds, range_bytes)
    offload = (
        Offload(refusal=refusal)
        if bandwidth is None
        else Offload(
            launch_s=accelerator.launch_s * region.entries,
            kernel_s=moved / bandwidth,
            arithmetic_s=float(run.times.arithmetic_s[index]),
            transfers=() if accelerator.link.shared_memory else _transfers(run, index),
        )
    )
    return Candidate(
        index=index,
        region=region,
        kinds=kinds,
        range_bytes=range_bytes,
        refs=sum(signature.operations[op].executions for op in region.operations),
        indirect_refs=sum(signature.operations[op].executions for op in indirect),
        moved_bytes=moved,
        offload=offload,
    )


def _refusal(accelerator: Accelerator, kinds: frozenset[str], range_bytes: int) -> str:
    """Why the loop cannot be considered at all, or empty."""
    profile = accelerator.profile
    curves = accelerator.curves(kinds)
    if curves is None:
        return f"{profile.title} has no bandwidth published for {' and '.join(sorted(kinds))}"
    for curve in curves:
        least = curve.minimum_range_bytes
        if least is not None and range_bytes < least:
            source = profile.sources.get(curve.source)
            cited = f" ({source.citation})" if source else ""
            own, needed = format_bytes(range_bytes), format_bytes(least)
            if own == needed:
                own, needed = f"{range_bytes:,} bytes", f"{least:,} bytes"
            return f"range {own} is below the {needed} at which {profile.title} pays{cited}"
    if accelerator.bandwidth_bytes_per_s(kinds, range_bytes) is None:
        return f"no bandwidth of {profile.title} is known at a range of {format_bytes(range_bytes)}"
    return ""


def _transfers(run: HostRun, index: int) -> tuple[Transfer, ...]:
    """The ranges a loop works on, each with how often it must move.

    A range that other regions write (or, if the loop writes it, touch at all) moves again as often as those are
    entered, at most once an entry of the loop.
    """
    signature, region = run.workload.signature, run.workload.regions[index]
    operations = signature.operations
    entries = np.array([other.entries for other in run.workload.regions])[run.workload.operations.region]
    first = np.array([op.first for op in operations], dtype=np.uint64)
    last = np.array([op.last_exclusive for op in operations], dtype=np.uint64)
    elsewhere = run.workload.operations.region != index
    transfers = []
    for memory in merge_ranges(_range(signature, op) for op in region.operations):
        touches = (first < np.uint64(memory.last_exclusive)) & (last > np.uint64(memory.first))
        written = bool((touches & ~elsewhere & run.workload.operations.is_store).any())
        others = touches & elsewhere & (run.workload.operations.is_store | written)
        times = min(region.entries, int(entries[others].max())) if others.any() else 1
        transfers.append(Transfer(memory, written, times))
    return tuple(transfers)


def reason(run: HostRun, accelerator: Accelerator, candidate: Candidate, decision: Decision) -> str:
    """Why the loop goes to the accelerator or stays, in one sentence."""
    if decision.refusal or decision.cost is None:
        return decision.refusal
    cost, entries = decision.cost, candidate.region.entries
    bandwidth = accelerator.bandwidth_bytes_per_s(candidate.kinds, candidate.range_bytes) or 0.0
    parts = (
        ("in the queue", cost.queue_s),
        (f"for {entries:,} launch{'es' if entries > 1 else ''}", cost.launch_s),
        ("for transfers", cost.transfer_s),
        (f"for {format_bytes(candidate.moved_bytes)} at {format_bytes_per_s(bandwidth)}", cost.kernel_s),
        ("for arithmetic left on the host", cost.arithmetic_s),
    )
    taxes = " + ".join(f"{format_seconds(seconds)} {name}" for name, seconds in parts if seconds)
    bound = run.times.bound_by[candidate.index]
    host = f"{format_seconds(decision.host_s)} on the host ({bound})"
    if not decision.offload:
        return f"host is faster: {host} against {taxes}"
    text = f"{host} against {taxes}"
    if not accelerator.launch_known:
        most = (decision.host_s - cost.total_s) / entries
        text += f"; pays while a launch costs less than {format_seconds(most)}"
    return text


def break_even_bytes(run: HostRun, accelerator: Accelerator, candidate: Candidate, taxes_s: float) -> int | None:
    """The smallest address range from which the accelerator wins, all else equal; None where it never does.

    On the host, indices are taken to fall anywhere in the range, so that each cache holds its share of it. `taxes_s` is
    what the accelerator costs beside the kernel.
    """
    host_s = float(run.times.time_s[TYPICAL, candidate.index])
    size = candidate.moved_bytes / max(candidate.refs, 1)

    def access_s(ranges: Floats) -> Floats:
        return random_access_s(run, ranges, size)

    here = float(access_s(np.array([float(max(candidate.range_bytes, 1))]))[0])
    indirect_s = min(candidate.indirect_refs * here, host_s)

    def wins(ranges: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        hosts = host_s - indirect_s + indirect_s * access_s(ranges.astype(np.float64)) / here
        kernels = np.array([_kernel_s(accelerator, candidate, int(r)) for r in ranges])
        return np.asarray(kernels + taxes_s < hosts)

    won = wins(BREAK_EVEN_RANGES)
    if not won[-1]:
        return None
    lost = np.flatnonzero(~won)
    if not len(lost):
        return int(BREAK_EVEN_RANGES[0])
    low, high = int(BREAK_EVEN_RANGES[lost[-1]]), int(BREAK_EVEN_RANGES[lost[-1] + 1])
    while high - low > 1:
        middle = (low + high) // 2
        if wins(np.array([middle]))[0]:
            high = middle
        else:
            low = middle
    return high


def _kernel_s(accelerator: Accelerator, candidate: Candidate, range_bytes: int) -> float:
    """Equation 2 at another range; infinite where the accelerator is not used."""
    if _refusal(accelerator, candidate.kinds, range_bytes):
        return float("inf")
    bandwidth = accelerator.bandwidth_bytes_per_s(candidate.kinds, range_bytes)
    return candidate.moved_bytes / bandwidth if bandwidth else float("inf")


def random_access_s(run: HostRun, range_bytes: Floats, access_bytes: float) -> Floats:
    """Time of one access at random over each range on the host."""
    figures = run.figures.memory
    sizes = np.array([level.size_bytes for level in run.misses.hierarchy.levels], dtype=np.float64)
    held = np.minimum(np.maximum.accumulate(sizes)[None, :], range_bytes[:, None]) / range_bytes[:, None]
    cumulative = np.column_stack([np.zeros(len(range_bytes)), held, np.ones(len(range_bytes))])
    shares = np.diff(cumulative, axis=1)
    costs = np.broadcast_to(figures.random_s[TYPICAL], shares.shape).copy()
    costs[:, -1] = np.interp(np.log(range_bytes), np.log(figures.random_range_bytes), figures.random_memory_s[TYPICAL])
    slot = float(figures.slot_s[TYPICAL].min()) * max(access_bytes / figures.access_bytes.max(), 1)
    return np.asarray((shares * costs).sum(axis=1) + slot)
