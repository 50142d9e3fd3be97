"""Data flows that are too much to weigh divisions by are cut, and what was cut is counted."""

import numpy as np
import pytest
from flow_samples import flow_of

from foretrace.replay.offload.devices import bounded_flow
from foretrace.replay.offload.devices.bounded_flow import bounded, counted_for
from foretrace.tracer.signature.data_flow_records import OUTSIDE


def test_what_others_count_for_crosses_as_a_whole():
    """Nodes 2 and 3 count for 1: what goes between them moves nowhere, and what two of them read is read once."""
    flow = flow_of([(0, [2, 3], 8), (2, [3], 16), (3, [0, 4], 32), (OUTSIDE, [4], 64)], [([2, 3], 8), ([0, 4], 8)])
    place = np.array([0, 1, 1, 1, 4])
    folded = bounded(counted_for(flow, place)).flow
    rows = {
        (int(writer), tuple(folded.set_nodes[folded.set_starts[by] : folded.set_starts[by + 1]].tolist())): size
        for writer, by, size in zip(folded.flow_writer, folded.flow_readers, folded.flow_bytes, strict=True)
    }
    assert rows == {(0, (1,)): 8, (1, (1,)): 16, (1, (0, 4)): 32, (OUTSIDE, (4,)): 64}
    assert folded.crossing_bytes(place == 1) == flow.crossing_bytes(np.isin(np.arange(5), [1, 2, 3]))


def test_a_data_flow_within_the_bounds_stays_as_it_is():
    flow = flow_of([(0, [1], 8), (0, [1], 4), (1, [], 2)], [([0, 1], 8)])
    found = bounded(flow)
    assert found.left_out_bytes == 0
    assert sorted(found.flow.flow_bytes.tolist()) == [2, 12]


def test_the_largest_rows_are_kept_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bounded_flow, "MOST_PAIRS", 100)
    everybody = list(range(40))
    flow = flow_of([(node, [one for one in everybody if one != node], 10.0 + node) for node in range(40)])
    found = bounded(flow)
    assert found.flow.flow_writer.tolist() == [38, 39]
    assert found.left_out_bytes == sum(10 + node for node in range(38))
    assert found.left_out_bytes + found.flow.flow_bytes.sum() == flow.flow_bytes.sum()
    assert found.left_out_share == found.left_out_bytes / flow.flow_bytes.sum()
    assert len(found.flow.set_starts) == 4, "of the sets that are used, and the empty one"


def test_millions_of_readers_are_bounded():
    """As a full table of sets left them: 16,000 versions that are read by all of 15,000 nodes."""
    everybody = np.arange(15_000)
    flow = flow_of([(node, everybody.tolist(), 1.0 + node) for node in range(3)])
    rows = np.arange(16_000)
    many = type(flow)(
        set_starts=flow.set_starts, set_nodes=flow.set_nodes, flow_writer=rows % 15_000,
        flow_readers=np.ones(len(rows), np.int64), flow_bytes=1.0 + rows, touched_object=flow.touched_object,
        touched_by=flow.touched_by, touched_bytes=flow.touched_bytes, objects=flow.objects,
    )  # fmt: skip
    found = bounded(many)
    lengths = np.diff(found.flow.set_starts)
    assert lengths[found.flow.flow_readers].sum() <= bounded_flow.MOST_PAIRS
    assert found.left_out_bytes + found.flow.flow_bytes.sum() == many.flow_bytes.sum()
