"""A data flow small enough to weigh every division of a program by it.

Library code counts for the call into it, also in signatures that were recorded otherwise. What is still too much is
left out, fewest bytes first, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from foretrace.tracer.signature.data_flow_records import OUTSIDE, DataFlow

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_PAIRS = 500_000
"""Pairs of rows and the nodes that read, or touch, what they are of."""
MOST_ROWS = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class BoundedFlow:
    """A data flow; `left_out_bytes` of versions and `left_out_share` of all of them are not in it."""

    flow: DataFlow
    left_out_bytes: float = 0.0
    left_out_share: float = 0.0


def counted_for(flow: DataFlow, place: Ints) -> DataFlow:
    """The flow with each node's part as that of the node `place`, int64 [nodes], that it counts for."""
    num_sets, num_nodes = len(flow.set_starts) - 1, len(place)
    owner = np.repeat(np.arange(num_sets), np.diff(flow.set_starts))
    owner, nodes = np.divmod(np.unique(owner * num_nodes + place[flow.set_nodes]), num_nodes)
    starts = np.searchsorted(owner, np.arange(num_sets + 1))
    return replace(
        flow,
        set_starts=starts.astype(np.int64),
        set_nodes=nodes.astype(np.int64),
        flow_writer=np.append(place, OUTSIDE)[flow.flow_writer],
        node_place=place,
    )


def bounded(flow: DataFlow) -> BoundedFlow:
    """The flow with equal rows as one, sets that are used alone, and no more than a bounded number of either."""
    flow = _joined(flow)
    lengths = np.diff(flow.set_starts)
    kept = _largest(flow.flow_bytes, lengths[flow.flow_readers])
    touched = _largest(flow.touched_bytes, lengths[flow.touched_by])
    total, left_out = float(flow.flow_bytes.sum()), float(flow.flow_bytes[~kept].sum())
    found = replace(
        flow,
        flow_writer=flow.flow_writer[kept],
        flow_readers=flow.flow_readers[kept],
        flow_bytes=flow.flow_bytes[kept],
        flow_allocation=flow.flow_allocation[kept],
        flow_by_system=flow.flow_by_system[kept],
        touched_object=flow.touched_object[touched],
        touched_by=flow.touched_by[touched],
        touched_bytes=flow.touched_bytes[touched],
    )
    return BoundedFlow(_of_used_sets(found), left_out, left_out / total if total else 0.0)


def _joined(flow: DataFlow) -> DataFlow:
    """Sets that are alike as one, and rows that are."""
    numbers: dict[tuple[bytes, bool], int] = {(b"", False): 0}
    starts = flow.set_starts.tolist()
    has_system = flow.set_has_system.tolist()
    number = np.array(
        [
            numbers.setdefault((flow.set_nodes[first:last].tobytes(), system), len(numbers))
            for first, last, system in zip(starts, starts[1:], has_system, strict=False)
        ],
        np.int64,
    )
    members = [np.frombuffer(nodes, np.int64) for nodes, _ in numbers]
    columns = [flow.flow_writer, number[flow.flow_readers], flow.flow_allocation, flow.flow_by_system.astype(np.int64)]
    (writer, readers, allocation, by_system), flow_bytes = _summed(columns, flow.flow_bytes)
    (touched_object, touched_by), touched_bytes = _summed(
        [flow.touched_object, number[flow.touched_by]], flow.touched_bytes
    )
    return replace(
        flow,
        set_starts=np.cumsum([0, *map(len, members)]).astype(np.int64),
        set_nodes=np.concatenate(members).astype(np.int64),
        set_has_system=np.array([system for _, system in numbers], np.bool_),
        flow_writer=writer,
        flow_readers=readers,
        flow_bytes=flow_bytes,
        flow_allocation=allocation,
        flow_by_system=by_system.astype(np.bool_),
        touched_object=touched_object,
        touched_by=touched_by,
        touched_bytes=touched_bytes,
    )


def _summed(columns: Sequence[Ints], values: Floats) -> tuple[list[Ints], Floats]:
    """The different rows, column by column, and the sums of their values."""
    rows, number = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    sums = np.bincount(number.ravel(), values, len(rows)).astype(np.float64)
    return [np.asarray(rows[:, i], np.int64) for i in range(len(columns))], sums


def _largest(num_bytes: Floats, pairs: Ints) -> npt.NDArray[np.bool_]:
    """The rows of most bytes that stay within the bounds: bool [rows]."""
    order = np.argsort(-num_bytes, kind="stable")
    fits = (np.cumsum(pairs[order]) <= MOST_PAIRS) & (np.arange(len(order)) < MOST_ROWS)
    kept = np.zeros(len(order), np.bool_)
    kept[order] = fits
    return kept


def _of_used_sets(flow: DataFlow) -> DataFlow:
    """Copy of a data flow without sets that no row has."""
    is_used = np.zeros(len(flow.set_starts) - 1, np.bool_)
    is_used[flow.flow_readers] = is_used[flow.touched_by] = is_used[0] = True
    number = np.cumsum(is_used) - 1
    lengths = np.diff(flow.set_starts)
    return replace(
        flow,
        set_starts=np.concatenate([[0], np.cumsum(lengths[is_used])]).astype(np.int64),
        set_nodes=flow.set_nodes[np.repeat(is_used, lengths)],
        set_has_system=flow.set_has_system[is_used],
        flow_readers=number[flow.flow_readers],
        touched_by=number[flow.touched_by],
    )
