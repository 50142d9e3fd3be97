"""A gather/scatter loop on a gather/scatter unit.

Equation 2 of Carrington et al., ICS'11: memory references of the loop times their size, over the accelerator's
bandwidth at the address range of the indirect accesses (equations 3 and 4 for the Convey HC-1). All memory references
of the loop move, the index and the dense side with the indirect accesses; arithmetic on what was gathered stays on the
host, after it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foretrace.base.units import format_bytes
from foretrace.profiles.profile import GatherScatterCurve, Profile
from foretrace.replay.base.spread import TYPICAL, Floats
from foretrace.replay.prediction.predict import HostRun
from foretrace.replay.workload.workload import Region
from foretrace.tracer.signature.data_flow_records import DataFlow
from foretrace.tracer.signature.records import AddressRange, MemoryOperation, Signature, merge_ranges

LOADERS_CODE = "part of the dynamic loader, not of the program; its addresses are those of unrelated libraries"
_LOADER = re.compile(r"ld(-linux.*|-musl-.*|64|-[\d.]+)?\.so(\.\d+)*")


def is_loader(module: str) -> bool:
    """Whether a module is a system's dynamic loader, by its file's name (ld.so(8))."""
    return _LOADER.fullmatch(module.rpartition("/")[2]) is not None


@dataclass(frozen=True, slots=True, eq=False)
class GatherScatter:
    """Gathers and scatters of a region: `kinds`, over `range_bytes`.

    `refs` and `moved_bytes` are all memory references of the loop, `indirect_refs` those that gather or scatter.
    """

    kinds: frozenset[str]
    range_bytes: int
    refs: int
    indirect_refs: int
    moved_bytes: int

    @classmethod
    def of(cls, signature: Signature, region: Region) -> GatherScatter | None:
        """The gathers and scatters of a region; None where it has neither."""
        if not region.idioms:
            return None
        indirect = tuple({op for idiom in region.idioms for op in idiom.operations})
        return cls(
            kinds=frozenset(str(idiom.kind) for idiom in region.idioms),
            range_bytes=indirect_range_bytes(signature, indirect),
            refs=sum(signature.operations[op].executions for op in region.operations),
            indirect_refs=sum(signature.operations[op].executions for op in indirect),
            moved_bytes=sum(signature.operations[op].total_bytes for op in region.operations),
        )

    @property
    def idiom(self) -> str:
        """ "gather", "scatter" or "gather+scatter"."""
        return "+".join(sorted(self.kinds))


def indirect_range_bytes(signature: Signature, operations: Sequence[int]) -> int:
    """Merged length of the ranges of the given operations (Carrington et al., ICS'11, section 3.2.2).

    Of array operations, whose arrays may lie elsewhere each time they run, the longest range of one execution counts.
    Where the data flow tells allocations apart, the gaps between them do not count: a table that lies in static data
    once and on the heap later is not as long as the way from one to the other. Nor is a range longer than all bytes
    that are accessed in it.
    """
    return sum(
        _length(signature, merged, [signature.operations[op] for op in operations])
        for merged in merge_ranges(_range(signature, op) for op in operations)
    )


def _length(signature: Signature, merged: AddressRange, operations: list[MemoryOperation]) -> int:
    """Bytes of one merged range that its operations reach in one execution, as far as known."""
    inside = [op for op in operations if merged.first <= op.first and op.last_exclusive <= merged.last_exclusive]
    reached = max(op.execution_range_bytes or merged.range_bytes for op in inside)
    if signature.data_flow is None:
        return reached
    return min(reached, _allocated(signature.data_flow, merged))


def _allocated(flow: DataFlow, merged: AddressRange) -> int:
    """Bytes of a range that lie in allocations; all of them where the range is in none."""
    pieces = [
        AddressRange(max(one.first, merged.first), min(one.last_exclusive, merged.last_exclusive))
        for one in flow.objects
        if one.first < merged.last_exclusive and merged.first < one.last_exclusive
    ]
    return sum(one.range_bytes for one in merge_ranges(pieces)) or merged.range_bytes


def _range(signature: Signature, operation_id: int) -> AddressRange:
    operation = signature.operations[operation_id]
    return AddressRange(operation.first, operation.last_exclusive)


def curves_of(profile: Profile, kinds: frozenset[str]) -> list[GatherScatterCurve] | None:
    """A curve for each kind of operation, None if one is not there."""
    found = []
    for kind in sorted(kinds):
        curve = profile.gather_scatter_curve(kind)
        if curve is None:
            return None
        found.append(curve)
    return found


def bandwidth_bytes_per_s(profile: Profile, kinds: frozenset[str], range_bytes: int) -> float | None:
    """Bandwidth of a loop that does all of `kinds`: the least of theirs. None where a curve does not cover it."""
    bandwidths = [curve.bandwidth_bytes_per_s(range_bytes) for curve in curves_of(profile, kinds) or []]
    known = [bandwidth for bandwidth in bandwidths if bandwidth is not None]
    return min(known) if known and len(known) == len(bandwidths) else None


def refusal(profile: Profile, kinds: frozenset[str], range_bytes: int) -> str:
    """Why a loop cannot be considered at all, or empty."""
    curves = curves_of(profile, kinds)
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
    if bandwidth_bytes_per_s(profile, kinds, range_bytes) is None:
        return f"no bandwidth of {profile.title} is known at a range of {format_bytes(range_bytes)}"
    return ""


BREAK_EVEN_RANGES = np.unique(np.geomspace(1 << 10, 1 << 34, 193).astype(np.int64))


def break_even_bytes(run: HostRun, profile: Profile, loop: GatherScatter, host_s: float, taxes_s: float) -> int | None:
    """The smallest address range from which the unit wins, all else equal; None where it never does.

    On the host, indices are taken to fall anywhere in the range, so that each cache holds its share of it. `taxes_s` is
    what the accelerator costs beside the kernel.
    """
    size = loop.moved_bytes / max(loop.refs, 1)

    def access_s(ranges: Floats) -> Floats:
        return random_access_s(run, ranges, size)

    here = float(access_s(np.array([float(max(loop.range_bytes, 1))]))[0])
    indirect_s = min(loop.indirect_refs * here, host_s)

    def wins(ranges: np.typing.NDArray[np.int64]) -> np.typing.NDArray[np.bool_]:
        hosts = host_s - indirect_s + indirect_s * access_s(ranges.astype(np.float64)) / here
        kernels = np.array([_kernel_s(profile, loop, int(r)) for r in ranges])
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


def _kernel_s(profile: Profile, loop: GatherScatter, range_bytes: int) -> float:
    """Equation 2 at another range; infinite where the accelerator is not used."""
    if refusal(profile, loop.kinds, range_bytes):
        return float("inf")
    bandwidth = bandwidth_bytes_per_s(profile, loop.kinds, range_bytes)
    return loop.moved_bytes / bandwidth if bandwidth else float("inf")


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
