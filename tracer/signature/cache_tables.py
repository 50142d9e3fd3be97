"""The tables of what was simulated: cache hierarchies with their misses and events, and reuse histograms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from operator import attrgetter
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.base.results import Event, MemoryEvents
from foretrace.cache_sim.reuse.results import LINE_BYTES, NUM_WAYS, ReuseHistograms

from . import schema
from .packed_arrays import take_bytes
from .records import Signature, SimulatedHierarchy
from .schema import LARGEST, Column, Floats, Scale, StoredTables, Table, columns, packed_rows, part_table, transposed

MAX_BINS = 256
_ERRORS = (len(LINE_BYTES), NUM_WAYS, "reuse_bins")
_HierarchyId = Annotated[int, Column(Scale.OWNER, of="hierarchies")]


def _levels(signature: Signature) -> Iterator[tuple[Any, ...]]:
    for number, simulated in enumerate(signature.hierarchies):
        for level_number, level in enumerate(simulated.hierarchy.levels):
            name = simulated.hierarchy.name
            yield number, name, level_number, level.name, level.size_bytes, level.ways, level.line_bytes


def _misses(signature: Signature) -> Iterator[tuple[int, int, int, int]]:
    for number, simulated in enumerate(signature.hierarchies):
        operations, levels = np.nonzero(simulated.misses)
        counts = simulated.misses[operations, levels]
        for operation, level, count in zip(operations.tolist(), levels.tolist(), counts.tolist(), strict=True):
            yield operation, number, level, count


def _memory_events(signature: Signature) -> Iterator[tuple[int, str, Event, int | None, int | None, int]]:
    kinds = list(Event)
    for number, simulated in enumerate(signature.hierarchies):
        events = simulated.events
        for table, is_block in () if events is None else ((events.by_operation, False), (events.by_block, True)):
            where = np.nonzero(table)
            for row, part, event, count in zip(*(i.tolist() for i in where), table[where].tolist(), strict=True):
                ids = (None, row) if is_block else (row, None)
                yield number, simulated.hierarchy.parts[part].name, kinds[event], *ids, count


_reuse = attrgetter("reuse")
CACHE_TABLES = (
    Table(
        "hierarchies",
        "A cache hierarchy that was simulated.",
        columns(hierarchy_id=schema.Identity, name=str, spec=str),
        lambda s: transposed((i, one.hierarchy.name, one.hierarchy.spec) for i, one in enumerate(s.hierarchies)),
        order="",
    ),
    Table(
        "levels",
        "A level of a hierarchy; follows from its `spec`.",
        columns(
            hierarchy_id=_HierarchyId, hierarchy=str, level=int, name=str, size_bytes=int, ways=int, line_bytes=int
        ),
        lambda s: transposed(_levels(s)),
    ),
    Table(
        "misses",
        "Misses of a memory operation in a level; none where there is no row.",
        columns(operation_id=schema.OperationId, hierarchy_id=_HierarchyId, level=int, misses=schema.Count),
        lambda s: transposed(_misses(s)),
    ),
    Table(
        "memory_events",
        "Events in a part of a hierarchy that a memory operation caused, or the fetches of a block.",
        columns(
            hierarchy_id=_HierarchyId, part=str, event=Event, operation_id=schema.OperationId | None,
            block_id=schema.BlockId | None, count=schema.Count,
        ),
        lambda s: transposed(_memory_events(s)),
    ),
    part_table(
        "reuse",
        "How reuse was sampled; no row where it was not.",
        columns(
            accesses=schema.Count, bursts=schema.Count, burst_accesses=schema.Count,
            sampling_rate=Annotated[float, Column(Scale.SHARE, most=1)], sampled_blocks=schema.Count,
        ),
        _reuse,
    ),
    Table(
        "reuse_bins",
        "The lower edge of a bin of reuse distances.",
        columns(bin=schema.Identity, lower_edge_lines=Annotated[Floats, Column(unit="lines", most=math.inf)]),
        lambda reuse: (range(len(reuse.bin_edges)), reuse.bin_edges),
        _reuse,
        order="",
    ),
    part_table(
        "reuse_counts",
        "Accesses by reuse distance: see `ReuseHistograms`.",
        columns(
            operation=Annotated[npt.NDArray[np.uint32], packed_rows("<u4", "operation_id", of="memory_operations")],
            line_bytes=Annotated[npt.NDArray[np.uint16], packed_rows("<u2", unit="bytes")],
            way=Annotated[npt.NDArray[np.uint8], packed_rows("|u1", most=NUM_WAYS - 1)],
            bin=Annotated[npt.NDArray[np.uint16], packed_rows("<u2", of="reuse_bins")],
            count=Annotated[npt.NDArray[np.int64], packed_rows("<i8", "accesses", Scale.COUNT, least=-LARGEST)],
        ),
        _reuse,
    ),
    Table(
        "reuse_errors",
        "Standard errors of numbers of accesses, by line size, way and bin.",
        columns(errors=Annotated[Floats, Column(column="standard_error", packed="<f8", length=_ERRORS)]),
        lambda reuse: ([reuse.errors],),
        _reuse,
    ),
)  # fmt: skip


def read_hierarchies(stored: StoredTables) -> tuple[SimulatedHierarchy, ...]:
    """The hierarchies that were simulated.

    Raises:
        ValueError: the tables do not fit together.
        HierarchyError: a hierarchy cannot be.
    """
    num_operations, num_blocks = stored.count("memory_operations"), stored.count("blocks")
    found = stored.columns("hierarchies")
    hierarchies = [Hierarchy.parse(spec, name) for spec, name in zip(found["spec"], found["name"], strict=True)]
    for hierarchy in hierarchies:
        cells = num_operations * len(hierarchy.levels)
        if not hierarchy.is_plain:
            cells += (num_operations + num_blocks) * len(hierarchy.parts) * len(Event)
        take_bytes(cells * np.dtype(np.uint64).itemsize)
    misses = [np.zeros((num_operations, len(hierarchy.levels)), np.uint64) for hierarchy in hierarchies]
    for operation, number, level, count in zip(*stored.columns("misses").values(), strict=True):
        if level >= len(hierarchies[number].levels):
            raise ValueError(f"misses.level has the value {level}, which its hierarchy lacks")
        misses[number][operation, level] = count
    events = [_no_events(hierarchy, num_operations, num_blocks) for hierarchy in hierarchies]
    kinds = {event: number for number, event in enumerate(Event)}
    for number, part, event, operation, block, count in zip(*stored.columns("memory_events").values(), strict=True):
        recorded = events[number]
        if recorded is None or part not in recorded.parts:
            raise ValueError("memory_events.part names a part that its hierarchy lacks")
        if (operation is None) == (block is None):
            raise ValueError("memory_events.operation_id and block_id are both there, or neither")
        table, row = (recorded.by_block, block) if operation is None else (recorded.by_operation, operation)
        table[row, recorded.parts.index(part), kinds[event]] = count
    return tuple(map(SimulatedHierarchy, hierarchies, misses, events))


def _no_events(hierarchy: Hierarchy, num_operations: int, num_blocks: int) -> MemoryEvents | None:
    if hierarchy.is_plain:
        return None
    shape = (len(hierarchy.parts), len(Event))
    tables = (np.zeros((num_rows, *shape), np.uint64) for num_rows in (num_operations, num_blocks))
    return MemoryEvents(tuple(part.name for part in hierarchy.parts), *tables)


def read_reuse(stored: StoredTables) -> ReuseHistograms | None:
    """The reuse histograms, if there are any.

    Raises:
        ValueError: the tables do not fit together.
    """
    head = stored.row("reuse")
    if head is None:
        return None
    if not head["sampling_rate"] > 0 or head["burst_accesses"] > head["accesses"]:
        raise ValueError("its reuse histograms have an impossible sampling rate")
    edges = stored.columns("reuse_bins")["lower_edge_lines"]
    if not 2 <= len(edges) <= MAX_BINS or np.any(np.diff(edges) <= 0):
        raise ValueError("the bins of its reuse histograms are not in order")
    counts = stored.part("reuse_counts")
    if not np.all(np.isin(counts["line_bytes"], LINE_BYTES)):
        raise ValueError("reuse_counts.line_bytes has no line size")
    del counts["rows"]
    return ReuseHistograms(**head, **counts, **stored.part("reuse_errors"), bin_edges=edges)
