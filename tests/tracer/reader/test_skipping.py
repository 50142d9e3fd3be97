"""Bursts that the reader makes: what it hands over of array operations, and that it counts the others."""

from __future__ import annotations

import itertools

import burst_schedule_reference
import numpy as np
from array_streams import BLOCK_ID, Entry, Operand, Operation, Step, Stream
from burst_schedule_reference import COUNT, NEW_CODE
from effort import examples
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.tracer.reader import _reader
from foretrace.tracer.sampling.burst_schedule import Schedule

HIERARCHY = Hierarchy.parse("L1=4K/4/64")
UNIT = _reader.CHUNK_WORDS
BASE = 0x100000


def _sampling(schedule: Schedule) -> Stream:
    stream = Stream(HIERARCHY, reuse_rate=None)
    stream.reader.sample(
        schedule.seed, schedule.first_chunks, schedule.period_chunks, schedule.warm_chunks, schedule.measured_chunks
    )
    return stream


def _handed_over(marks: list[tuple[int, int]], total: int) -> list[tuple[int, int]]:
    """First access and the one behind the last, of each stretch that is in no gap."""
    starts = [0, *(time for time, _ in marks)]
    ends = [*(time for time, _ in marks), total]
    phases = [0, *(phase for _, phase in marks)]
    return [(a, b) for a, b, phase in zip(starts, ends, phases, strict=True) if phase != COUNT and b > a]


@settings(max_examples=examples(12), phases=[Phase.explicit, Phase.generate])
@given(
    seed=st.integers(0, 2**63 - 1),
    lengths=st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 3), st.integers(1, 3)),
    shapes=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 2000)), min_size=1, max_size=4),
    dims=st.integers(1, 3),
)
def test_the_accesses_of_bursts_are_handed_over(
    seed: int, lengths: tuple[int, int, int, int], shapes: list[tuple[int, int, int]], dims: int
) -> None:
    """Operations that go on through memory where the last one ended: their nth access is at the nth word."""
    schedule = Schedule(*lengths, seed=seed)
    steps: list[Step] = []
    total = 0
    for shape in itertools.cycle(shapes):
        extents = shape if dims == 3 else (shape[0] * shape[1], shape[2]) if dims == 2 else (int(np.prod(shape)),)
        strides = tuple(8 * int(np.prod(extents[d + 1 :])) for d in range(len(extents)))
        steps += [Operation(extents, (Operand(BASE + 8 * total, strides),)), Entry(BLOCK_ID)]
        total += int(np.prod(extents))
        if total > 50 * UNIT or len(steps) > 1000:
            break
    under_test = _sampling(schedule)
    under_test.run(steps)
    expected = [mark for mark in burst_schedule_reference.phases(schedule, "c" * total, UNIT) if mark[0] < total]
    marks = under_test.marks[: len(expected)]  # one more is possible where the stream ends with a phase
    assert [phase for _, phase in marks] == [phase for _, phase in expected]
    stretches = _handed_over(expected, total)
    fed = [sum(max(0, min(end, time) - begin) for begin, end in stretches) for time, _ in expected]
    assert [accesses for accesses, _ in marks] == fed
    found = under_test.simulator.statistics()
    assert int(found.executions.sum()) == sum(end - begin for begin, end in stretches)
    gaps = len([1 for (_, end), (begin, _) in itertools.pairwise(stretches) if begin > end])
    assert int(found.executions[1] - found.unit_stride[1]) == 1 + gaps
    assert int(found.last_exclusive[1]) == BASE + 8 * stretches[-1][1]
    points = np.frombuffer(under_test.reader.arrays(), np.uint64).reshape(-1, 3)[1, 2]
    assert points == total


def test_an_operation_that_is_first_seen_in_a_gap_is_handed_over_in_part_and_gets_a_burst() -> None:
    schedule = Schedule(1, 100, 1, 1, seed=0)
    assert burst_schedule_reference.phases(schedule, "c" * 40)[0] == (1, COUNT)
    known = Operation((UNIT,), (Operand(BASE, (8,)),))
    new = Operation((5 * UNIT,), (Operand(BASE, (8,), is_store=True), Operand(BASE + (1 << 30), (8,), size_bytes=4)))
    under_test = _sampling(schedule)
    under_test.run([known] * 12 + [new] * 3)
    assert [phase for _, phase in under_test.marks] == [COUNT, NEW_CODE, COUNT]
    begun, ended = (accesses for accesses, _ in under_test.marks[1:3])
    assert begun == 3 * UNIT  # the first chunk, and as many points of both operands
    assert ended - begun == UNIT
    arrays = np.frombuffer(under_test.reader.arrays(), np.uint64).reshape(-1, 3)
    assert arrays[2].tolist()[1:] == [3, 15 * UNIT]


def test_elements_and_gathers_are_counted_in_gaps() -> None:
    gather = Operation((50,), (Operand(BASE, (8,), is_indexed=True),), tuple(range(50)))
    steps: list[Step] = []
    for i in range(8000):
        steps += [Entry(1), BASE + 8 * (i % 500), Entry(2), BASE + 8 * (i * 7919 % 1000)]
        steps += [gather] if i % 10 == 0 else []
    under_test = _sampling(Schedule(1, 2, 1, 1, seed=3))
    under_test.run(steps)
    executions = np.frombuffer(under_test.reader.block_executions(), np.uint64)
    assert executions.tolist() == [8001, 8000, 0]
    arrays = np.frombuffer(under_test.reader.arrays(), np.uint64).reshape(-1, 3)
    assert arrays[:, 1:].tolist() == [[16000, 16000], [800, 40000]]
    fed = under_test.simulator.statistics().executions
    assert 0 < int(fed[0]) < 16000
    assert 0 < int(fed[1]) < 40000
