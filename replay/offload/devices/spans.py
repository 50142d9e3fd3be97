"""Data flow of signatures that hold none: the spans between the lowest and the highest address of memory operations.

An upper bound. An operation touches no more bytes than it accesses, wherever its span begins and ends.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from foretrace.tracer.signature.data_flow_records import OUTSIDE, DataFlow, MemoryObject, ObjectKind
from foretrace.tracer.signature.records import Signature

Ints = npt.NDArray[np.int64]
MOST_OPERATIONS = 1500
"""Whose spans are told apart: those that access most bytes."""


def flow_by_spans(signature: Signature, node_of_block: Ints, entries: Ints) -> DataFlow:
    """The data flow between nodes, as far as address ranges tell.

    Each byte of a span is read and written by all nodes whose operations reach it. A node that writes does so at each
    entry: its data moves as often as it is entered, but no more often than its readers are, and no more than it stores.

    Args:
        signature: of the program.
        node_of_block: int64 [blocks], -1 for blocks of no node.
        entries: int64 [nodes].
    """
    spans = [one for one in signature.operations if one.range_bytes > 0 and node_of_block[one.block_id] >= 0]
    spans = sorted(spans, key=lambda one: -one.total_bytes)[:MOST_OPERATIONS]
    edges = sorted({edge for one in spans for edge in (one.first, one.last_exclusive)})
    lengths = np.diff(np.array(edges, np.float64)) if len(edges) > 1 else np.zeros(0)
    at = {edge: number for number, edge in enumerate(edges)}
    covered = np.zeros(len(lengths))
    readers: list[set[int]] = [set() for _ in lengths]
    stored: list[dict[int, float]] = [{} for _ in lengths]
    for one in spans:
        inside = slice(at[one.first], at[one.last_exclusive])
        covered[inside] += min(one.total_bytes / one.range_bytes, 1.0)
        node = int(node_of_block[one.block_id])
        for piece in range(inside.start, inside.stop):
            if one.is_store:
                share = one.total_bytes / one.range_bytes * float(lengths[piece])
                stored[piece][node] = stored[piece].get(node, 0.0) + share
            else:
                readers[piece].add(node)
    touched_bytes = lengths * np.minimum(covered, 1.0)
    return _flow(touched_bytes.tolist(), readers, stored, entries)


def _flow(sizes: list[float], readers: list[set[int]], stored: list[dict[int, float]], entries: Ints) -> DataFlow:
    numbers: dict[tuple[int, ...], int] = {(): 0}
    flow: dict[tuple[int, int], float] = defaultdict(float)
    touched: dict[int, float] = defaultdict(float)
    for size, reading, writing in zip(sizes, readers, stored, strict=True):
        if not size:
            continue
        read_by = numbers.setdefault(tuple(sorted(reading)), len(numbers))
        both = numbers.setdefault(tuple(sorted({*writing, *reading})), len(numbers))
        touched[both] += size
        if reading and (not writing or min(reading) < min(writing)):
            flow[OUTSIDE, read_by] += size
        most = max((int(entries[node]) for node in reading), default=1)
        for writer, written in writing.items():
            flow[writer, read_by] += min(size * min(int(entries[writer]), most), max(written, size))
    starts = np.cumsum([0, *(len(nodes) for nodes in numbers)])
    return DataFlow(
        set_starts=np.asarray(starts, np.int64),
        set_nodes=np.array([node for nodes in numbers for node in nodes], np.int64),
        flow_writer=np.array([writer for writer, _ in flow], np.int64),
        flow_readers=np.array([readers for _, readers in flow], np.int64),
        flow_bytes=np.array(list(flow.values()), np.float64),
        touched_object=np.zeros(len(touched), np.int64),
        touched_by=np.array(list(touched), np.int64),
        touched_bytes=np.array(list(touched.values()), np.float64),
        objects=(MemoryObject(ObjectKind.UNKNOWN, "", 0, 0),),
    )
