"""The reuse histograms of a signature on disk. There are very many counts: each column of them is one packed array.

Like the rest of a signature, all of it may come from anyone.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from foretrace.cache_sim.reuse.results import LINE_BYTES, NUM_WAYS, ReuseHistograms

from .packed_arrays import packed, unpacked

MAX_REUSE_COUNTS = 1 << 26
_COLUMNS = {"operation": "<u4", "line_bytes": "<u2", "way": "u1", "bin": "<u2", "count": "<i8"}
_ERRORS = "<f8"


def rows(reuse: ReuseHistograms) -> Iterator[tuple[str, Iterable[tuple[Any, ...]]]]:
    """Each table with its rows."""
    yield "reuse", [(reuse.accesses, reuse.bursts, reuse.burst_accesses, reuse.sampling_rate, reuse.sampled_blocks)]
    yield "reuse_bins", enumerate(reuse.bin_edges.tolist())
    yield "reuse_counts", [(len(reuse.count), *(packed(getattr(reuse, name), kind) for name, kind in _COLUMNS.items()))]
    yield "reuse_errors", [(packed(reuse.errors, _ERRORS),)]


def read(database: sqlite3.Connection, num_operations: int) -> ReuseHistograms | None:
    """Read the tables.

    Raises:
        ValueError: they do not fit together, or the rest of the signature.
    """
    head = database.execute("SELECT * FROM reuse").fetchall()
    if not head:
        return None
    accesses, bursts, burst_accesses, rate, blocks = head[0]
    if not 0 < rate <= 1 or min(accesses, bursts, blocks) < 0 or not 0 <= burst_accesses <= accesses:
        raise ValueError("its reuse histograms have an impossible sampling rate")
    edges = np.array([row[1] for row in database.execute("SELECT * FROM reuse_bins ORDER BY bin")], np.float64)
    if not 2 <= len(edges) <= 256 or np.any(np.isnan(edges)) or np.any(np.diff(edges) <= 0):
        raise ValueError("the bins of its reuse histograms are not in order")
    operation, line_bytes, way, bins, count = _counts(database)
    for column, end in ((operation, num_operations), (way, NUM_WAYS), (bins, len(edges))):
        if len(column) and not 0 <= column.min() <= column.max() < end:
            raise ValueError("a reuse count belongs to no operation, way size or bin")
    if not np.all(np.isin(line_bytes, LINE_BYTES)):
        raise ValueError("a reuse count belongs to no line size")
    errors = _errors(database, len(edges))
    if not np.all((errors >= 0) & (errors < math.inf)):
        raise ValueError("a standard error of its reuse histograms is impossible")
    return ReuseHistograms(
        accesses=accesses,
        bursts=bursts,
        burst_accesses=burst_accesses,
        sampling_rate=rate,
        sampled_blocks=blocks,
        bin_edges=edges,
        operation=operation.astype(np.uint32),
        line_bytes=line_bytes.astype(np.uint16),
        way=way.astype(np.uint8),
        bin=bins.astype(np.uint16),
        count=count,
        errors=errors,
    )


def _counts(database: sqlite3.Connection) -> tuple[npt.NDArray[Any], ...]:
    found = database.execute("SELECT * FROM reuse_counts").fetchall()
    if len(found) != 1 or not isinstance(found[0][0], int) or not 0 <= found[0][0] <= MAX_REUSE_COUNTS:
        raise ValueError("its reuse histograms have an impossible number of counts")
    length, *blobs = found[0]
    kinds = zip(blobs, _COLUMNS.values(), strict=True)
    return tuple(unpacked(blob, kind, length, "a column of reuse counts") for blob, kind in kinds)


def _errors(database: sqlite3.Connection, num_bins: int) -> npt.NDArray[np.float64]:
    found = database.execute("SELECT * FROM reuse_errors").fetchall()
    if len(found) != 1:
        raise ValueError("its reuse histograms have no standard errors")
    shape = (len(LINE_BYTES), NUM_WAYS, num_bins)
    return unpacked(found[0][0], _ERRORS, math.prod(shape), "the standard errors of reuse").reshape(shape)
