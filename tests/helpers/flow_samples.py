"""Data flows made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from foretrace.tracer.signature.data_flow_records import DataFlow, MemoryObject, ObjectKind


def flow_of(
    versions: Iterable[tuple[int, Sequence[int], float]],
    touched: Iterable[tuple[Sequence[int], float]] = (),
    objects: Sequence[MemoryObject] = (MemoryObject(ObjectKind.HEAP, "", 0, 1 << 62),),
) -> DataFlow:
    """Versions are (writer, readers, bytes); `touched` (nodes, bytes) of the first object."""
    numbers: dict[tuple[int, ...], int] = {(): 0}
    rows = [
        (writer, numbers.setdefault(tuple(sorted(readers)), len(numbers)), size) for writer, readers, size in versions
    ]
    feet = [(numbers.setdefault(tuple(sorted(nodes)), len(numbers)), size) for nodes, size in touched]
    starts = np.cumsum([0, *(len(nodes) for nodes in numbers)])
    return DataFlow(
        set_starts=np.asarray(starts, np.int64),
        set_nodes=np.array([node for nodes in numbers for node in nodes], np.int64),
        flow_writer=np.array([row[0] for row in rows], np.int64),
        flow_readers=np.array([row[1] for row in rows], np.int64),
        flow_bytes=np.array([row[2] for row in rows], np.float64),
        touched_object=np.zeros(len(feet), np.int64),
        touched_by=np.array([row[0] for row in feet], np.int64),
        touched_bytes=np.array([row[1] for row in feet], np.float64),
        objects=tuple(objects),
    )
