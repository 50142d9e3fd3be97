"""Several processes' traces as one: the same code of the same file is the same, wherever each process had it mapped.

Each file gets a range of addresses of its own, in which its code lies by file offset; what is no file gets one in each
process. So the analysis, which tells instructions apart by address and bytes, sums over processes by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import msgspec
import numpy as np

from foretrace.cache_sim.base.results import OperationStatistics
from foretrace.tracer.analysis.modules import ModuleMap
from foretrace.tracer.debug_info.perf_map import PerfMap, without_overlaps
from foretrace.tracer.debug_info.symbols import Function
from foretrace.tracer.reader.raw_events import RawEventSamples
from foretrace.tracer.reader.raw_flow import RawFlow, with_sites
from foretrace.tracer.reader.raw_flow import combined as combined_flows
from foretrace.tracer.reader.raw_trace import RawBlock, RawFile, RawTrace
from foretrace.tracer.reader.raw_tree import RawTree, combined
from foretrace.tracer.recording.recording import Recording
from foretrace.tracer.sampling.bursts import BurstCounts, concatenated
from foretrace.tracer.signature.merging import joined_misses, joined_reuse

_REGION_BYTES = 1 << 40  # longer than any file's code; there is room for 2^24 such ranges


class _Regions:
    """Address ranges of the modules, one region each."""

    def __init__(self) -> None:
        self._start: dict[tuple[str, int, int], int] = {}

    def of(self, path: str, process: int = 0, stretch: int = 0) -> int:
        """Start of the range of what is mapped from `path`; the rest tells apart what is no file."""
        return self._start.setdefault((path, process, stretch), (len(self._start) + 1) * _REGION_BYTES)

    def maps(self) -> str:
        """The ranges as a memory map."""
        lines = []
        for (path, _, _), start in self._start.items():
            name = path.replace("\\", "\\134").replace("\n", "\\012")
            lines.append(f"{start:x}-{start + _REGION_BYTES:x} r-xp 00000000 00:00 0 {name}\n")
        return "".join(lines)


def combine(
    recordings: Sequence[Recording], parents: Sequence[int], compiled: Sequence[PerfMap] = ()
) -> tuple[Recording, PerfMap]:
    """The recordings as one, of processes that those at positions `parents` created, and their perf maps likewise.

    Each process has simulated caches of its own: misses, like all counts, are summed.
    """
    regions = _Regions()
    raws = [each.raw for each in recordings]
    block_offsets = _block_offsets(raws)
    moved = [_moved(raw, regions, i, offset) for i, (raw, offset) in enumerate(zip(raws, block_offsets, strict=True))]
    offsets = np.cumsum([0, *(each.statistics.num_operations for each in recordings)])[:-1].tolist()
    names = ("operation_block", "operation_slot", "operation_array", "operation_longest_range", "edges")
    columns: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in moved]) for name in names}
    raw = replace(
        raws[0],
        blocks=tuple(block for one in moved for block in one.blocks),
        **columns,
        maps=(regions.maps(),),
        guest_base=0,
        files=_files(raws),
        paths=tuple(path for one in moved for path in one.paths),
        tree=tree_of(raws, parents),
        flow=flow_of(moved, offsets),
        event_samples=samples_of(raws, block_offsets),
        whole_masked_loads=sum(raw.whole_masked_loads for raw in raws),
        landings=tuple(dict.fromkeys(pair for one in moved for pair in one.landings)),
    )
    recording = replace(
        recordings[0],
        raw=raw,
        statistics=statistics_of([each.statistics for each in recordings]),
        simulated=[joined_misses(of_one) for of_one in zip(*(each.simulated for each in recordings), strict=True)],
        reuse=joined_reuse([each.reuse for each in recordings], offsets),
        bursts=bursts_of([each.bursts for each in recordings]),
    )
    return recording, _perf_map(raws, compiled, regions)


def _perf_map(raws: Sequence[RawTrace], compiled: Sequence[PerfMap], regions: _Regions) -> PerfMap:
    """The perf maps of all processes, with functions where their memory has a range of its own."""
    functions: list[Function] = []
    for process, (raw, perf_map) in enumerate(zip(raws, compiled, strict=False)):
        maps = ModuleMap(raw.maps, raw.guest_base, raw.files)
        for function in perf_map.functions:
            start = _address(maps, regions, process, function.start)
            functions.append(Function(function.name, start, start + function.end - function.start))
    notes = tuple(dict.fromkeys(note for perf_map in compiled for note in perf_map.notes))
    return PerfMap(without_overlaps(functions), notes)


def _files(raws: Sequence[RawTrace]) -> tuple[RawFile, ...]:
    """Copies of files that are gone, under the names that the processes' modules have."""
    found: dict[str, bytes] = {}
    for raw in raws:
        found |= ModuleMap(raw.maps, raw.guest_base, raw.files).copies
    return tuple(RawFile(path, 0, content) for path, content in found.items())


def tree_of(raws: Sequence[RawTrace], parents: Sequence[int]) -> RawTree | None:
    """The trees of all processes, if each has one."""
    known = [raw.tree for raw in raws if raw.tree is not None]
    if len(known) < len(raws):
        return None
    return combined(known, _block_offsets(raws), parents)


def _block_offsets(raws: Sequence[RawTrace]) -> list[int]:
    """The number before the first block of each process."""
    largest = (max((block.block_id for block in raw.blocks), default=0) for raw in raws)
    return list(itertools.accumulate(largest, initial=0))[:-1]


def samples_of(raws: Sequence[RawTrace], block_offsets: Sequence[int]) -> tuple[RawEventSamples, ...]:
    """Samples of all processes, in the tree of all."""
    num_nodes = [0 if raw.tree is None else len(raw.tree.nodes) for raw in raws]
    offsets = zip(raws, itertools.accumulate(num_nodes, initial=0), block_offsets, strict=False)
    return tuple(samples.moved(node, block) for raw, node, block in offsets for samples in raw.event_samples)


def flow_of(raws: Sequence[RawTrace], operation_offsets: Sequence[int]) -> RawFlow | None:
    """The data flow of all processes, if it was followed in each."""
    known = [(raw.flow, raw.tree) for raw in raws if raw.flow is not None and raw.tree is not None]
    if len(known) < len(raws):
        return None
    num_nodes = [len(tree.nodes) for _, tree in known]
    node_offsets = list(itertools.accumulate(num_nodes, initial=0))[:-1]
    return combined_flows([flow for flow, _ in known], node_offsets, operation_offsets)


def _address(maps: ModuleMap, regions: _Regions, process: int, address: int) -> int:
    """Combined address of an address of a process: each module has a region of its own."""
    path, offset = maps.locate(address)
    if path.startswith("/"):
        return regions.of(path) + offset % _REGION_BYTES
    return regions.of(path, process, address // _REGION_BYTES) + address % _REGION_BYTES


def _moved(raw: RawTrace, regions: _Regions, process: int, block_offset: int) -> RawTrace:
    """A trace with its blocks at their modules' addresses, and numbered from `block_offset`."""
    address = partial(_address, ModuleMap(raw.maps, raw.guest_base, raw.files), regions, process)

    def move(block: RawBlock) -> RawBlock:
        return msgspec.structs.replace(block, block_id=block.block_id + block_offset, address=address(block.address))

    return replace(
        raw,
        blocks=tuple(move(block) for block in raw.blocks),
        operation_block=raw.operation_block + np.uint32(block_offset),
        edges=raw.edges + np.array([block_offset, block_offset, 0], np.uint64),
        paths=tuple(msgspec.structs.replace(path, blocks=path.blocks + block_offset) for path in raw.paths),
        landings=tuple((address(behind - 1) + 1, address(pad)) for behind, pad in raw.landings),
        flow=None if raw.flow is None else with_sites(raw.flow, address),
    )


def statistics_of(parts: Sequence[OperationStatistics]) -> OperationStatistics:
    """Rows of all processes, one's behind the other's."""
    names = [field.name for field in fields(OperationStatistics)]
    return OperationStatistics(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def bursts_of(parts: Sequence[BurstCounts | None]) -> BurstCounts | None:
    """Rows of all processes likewise; None unless all have some."""
    known = [part for part in parts if part is not None]
    return concatenated(known) if len(known) == len(parts) else None
