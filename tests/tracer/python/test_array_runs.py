"""Array operations, which simulators take whole, count the same as access by access, however often they repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from array_streams import ADDRESS_MASK, BLOCK_ID, NUM_BLOCKS, STORE_ID, Entry, Operand, Operation, Step, Stream, walked
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.reuse.model import misses_from_reuse
from foretrace.cache_sim.simulator import Simulator


def counted(simulator: Simulator) -> list[bytes]:
    """What was counted of reuse before it is scaled, to which arrays and single accesses have different ways."""
    records = (simulator._core.reuse() or [b""] * 8)[7]
    size = 16
    found = [records[at : at + size] for at in range(0, len(records), size)]
    return sorted(record for record in found if any(record[8:]))


def check(steps: Sequence[Step], hierarchy: Hierarchy, reuse_rate: float | None = 1) -> None:
    under_test = Stream(hierarchy, reuse_rate)
    under_test.run(steps)
    twin = walked(under_test, steps)
    expected, found = twin.statistics(), under_test.simulator.statistics()
    for name in expected.__dataclass_fields__:
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
    assert under_test.simulator.simulated()[0].misses.tolist() == twin.simulated()[0].misses.tolist()
    assert counted(under_test.simulator) == counted(twin), "sampled in other ways"
    entered = Counter(step.block_id for step in steps if isinstance(step, Entry)) + Counter([BLOCK_ID])
    executions = np.frombuffer(under_test.reader.block_executions(), np.uint64)
    assert executions.tolist() == [entered[block_id] for block_id in range(1, NUM_BLOCKS + 1)]
    runs, points = Counter[int](), Counter[int]()
    for step in steps:
        if not isinstance(step, Entry):
            number = STORE_ID if isinstance(step, int) else under_test.ids[step.shape()]
            runs[number] += 1
            points[number] += 1 if isinstance(step, int) else int(np.prod(step.extents))
    arrays = np.frombuffer(under_test.reader.arrays(), np.uint64).reshape(-1, 3).tolist()
    assert [row[1:] for row in arrays] == [[runs[n], points[n]] for n in range(1, len(arrays) + 1)]
    reuse, twin_reuse = under_test.simulator.reuse(), twin.reuse()
    if reuse_rate == 1 and reuse is not None and twin_reuse is not None:
        for name in ("operation", "line_bytes", "way", "bin", "count"):
            assert getattr(reuse, name).tolist() == getattr(twin_reuse, name).tolist(), name


HIERARCHIES = [Hierarchy.parse(spec) for spec in (
    "L1=256/2/32,L2=1K/4/64", "L1=64/1/64", "L1=4K/8/64,L2=16K/16/64,L3=96K/24/64", "L1=512/1/32,L2=8K/32/128",
)]  # fmt: skip


@st.composite
def operations(draw: st.DrawFn) -> Operation:
    extents = (*draw(st.lists(st.integers(1, 12), max_size=2)), draw(st.integers(1, 90)))
    points = int(np.prod(extents))
    index = tuple(draw(st.lists(st.integers(-3, 40), min_size=points, max_size=points))) if points < 100 else ()
    operands = []
    for _ in range(draw(st.integers(1, 4))):
        base = 0x10000 + draw(st.integers(0, 3000))
        strides = tuple(draw(st.sampled_from([0, 1, 8, -8, 16, 24, 64, -100, 300])) for _ in extents)
        operand = Operand(base, strides, draw(st.sampled_from([1, 8, 16, 100])), draw(st.booleans()))
        operands.append(operand)
    if index and draw(st.booleans()):
        operands[-1] = Operand(operands[-1].base, (draw(st.sampled_from([8, 40])),), 8, False, True)
        return Operation(extents, tuple(operands), index)
    return Operation(extents, tuple(operands))


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    """Loops in loops over a few operations and single accesses, some of them cut short."""
    pool = draw(st.lists(operations(), min_size=1, max_size=3))
    step = st.one_of(st.sampled_from(pool), st.integers(0x10000, 0x10800), st.builds(Entry, st.integers(1, NUM_BLOCKS)))
    result: list[Step] = []
    for _ in range(draw(st.integers(1, 3))):
        body: list[Step] = []
        for _ in range(draw(st.integers(1, 3))):
            inner = draw(st.lists(step, min_size=1, max_size=3))
            body += inner * draw(st.sampled_from([1, 2, 7, 20]))
        times = draw(st.sampled_from([1, 3, 9]))
        result += (body * times)[: draw(st.integers(1, 600))]
    return result


@settings(max_examples=examples(30))
@given(programs(), st.sampled_from(HIERARCHIES))
def test_every_count_is_that_of_a_walk(steps: list[Step], hierarchy: Hierarchy) -> None:
    check(steps, hierarchy)


def vector(base: int, length: int, stride: int = 8, *, is_store: bool = False) -> Operation:
    return Operation((length,), (Operand(base, (stride,), is_store=is_store),))


@pytest.mark.parametrize("hierarchy", HIERARCHIES, ids=lambda hierarchy: hierarchy.name)
@pytest.mark.parametrize("cut", [0, 1, 3])
def test_what_repeats_counts_each_time(hierarchy: Hierarchy, cut: int) -> None:
    a, b, gathered = (
        0x20000,
        0x41040,
        Operation((50,), (Operand(0x9000, (8,), is_indexed=True),), tuple(range(0, 150, 3))),
    )
    body: list[Step] = [vector(a, 500), vector(b, 300, 24, is_store=True), gathered, 0x8008, vector(a, 100, -40)]
    check(body * 200 + body[:cut] + [vector(0x80000, 64), *body * 3], hierarchy)


def test_steps_of_changing_length_are_told_apart() -> None:
    steps: list[Step] = [vector(0x20000, 100 + length) for length in range(40) for _ in range(12)]
    check(steps, HIERARCHIES[0])


def test_elements_of_blocks_that_run_again_and_again_are_counted() -> None:
    """As in a loop over lists, which is read by path; now and then with another block, an array, or a longer way."""
    steps: list[Step] = []
    for i in range(3000):
        steps += [Entry(1), 0x10000 + 8 * i, 0x40000 + 8 * (i * 7919 % 1000), Entry(2), 0x10000 + 8 * i]
        steps += [Entry(3)] if i % 7 == 0 else []
        steps += [0x8000] if i % 100 == 3 else []
        steps += [vector(0x20000, 40), Entry(2)] if i % 500 == 1 else []
    for hierarchy in HIERARCHIES:
        check(steps, hierarchy)


def test_results_in_the_middle_of_a_repetition_are_those_so_far() -> None:
    body: list[Step] = [vector(0x20000, 400), 0x9000, vector(0x50000, 77)]
    under_test = Stream(HIERARCHIES[0])
    so_far: list[Step] = []
    for part in (body * 100 + body[:1], body[1:] + body * 50, body[:2], body[2:] + body * 70):
        under_test.run(part)
        so_far += part
        misses = under_test.simulator.simulated()[0].misses
        assert misses.tolist() == walked(under_test, so_far).simulated()[0].misses.tolist()


def test_ten_thousand_million_accesses_are_counted() -> None:
    rows = Operation((1 << 16, 1 << 12), (Operand(0x10_0000_0000, (1 << 15, 8)),))  # 2 GiB from end to end
    times, accesses = 41, 41 << 28
    assert accesses > 10**10
    under_test = Stream(Hierarchy.parse("L1=32K/8/64"), reuse_rate=None)
    under_test.run([rows] * times)
    found = under_test.simulator.statistics()
    assert found.executions.tolist() == [0, accesses]
    assert found.total_bytes.tolist() == [0, 8 * accesses]
    assert found.unit_stride.tolist() == [0, accesses - times]  # but for the ways back to the beginning, and the first
    assert under_test.simulator.simulated()[0].misses.tolist() == [[0], [accesses // 8]]


@pytest.mark.parametrize("extents", [(5 << 28,), (5, 1 << 28), (3, 2, 1 << 28), (2, 5, 1 << 27), (1 << 28, 5)])
def test_operations_too_large_to_be_one_run_are_several(extents: tuple[int, ...]) -> None:
    strides = tuple(int(np.prod(extents[d + 1 :])) for d in range(len(extents)))
    bytes_touched = int(np.prod(extents))
    under_test = Stream(Hierarchy.parse("L1=32K/8/64"), reuse_rate=None)
    under_test.run([Operation(extents, (Operand(0x10_0000_0000, strides, 1),))])
    found = under_test.simulator.statistics()
    assert found.executions.tolist() == [0, bytes_touched]
    assert found.unit_stride.tolist() == [0, bytes_touched - 1]
    assert under_test.simulator.simulated()[0].misses.tolist() == [[0], [bytes_touched // 64]]


@pytest.mark.parametrize("reuse_rate", [1 / 2, 1 / 4])  # at lower rates repetitions are passed over
def test_reuse_is_sampled_as_in_a_walk(reuse_rate: float) -> None:
    rows = Operation((60, 70), tuple(Operand(0x100010 + 0x40000 * i, (1000, 8)) for i in range(3)))
    narrow = Operation((900, 3), (Operand(0x300000, (24, 8)), Operand(0x3FF0FC, (48, 16), 16, True)))
    gathered = Operation((900,), (Operand(0x9000, (8,)), Operand(0x500000, (8,), is_indexed=True)), tuple(range(900)))
    body: list[Step] = [rows, vector(0x700000, 4000), 0x8000, narrow, gathered]
    check(body * 12 + body[:3] + [vector(0x20000, 4000), *body * 20], HIERARCHIES[2], reuse_rate)


ONE_LEVEL = [Hierarchy.parse(spec) for spec in ("A=4K/4/64", "B=8K/1/64", "C=48K/12/64", "D=256K/8/64", "E=2M/16/64")]


@pytest.mark.parametrize(("length", "times"), [(500, 4000), (60000, 300)], ids=["whole", "in bursts"])
def test_one_repetition_stands_for_those_passed_over(length: int, times: int) -> None:
    """An operation that mostly repeats on few arrays, but not always: its misses follow only if each time counts."""
    halves = Operation((length,), (Operand(0x180000, (24,), 4),))
    near: list[Step] = [vector(0x100000, length), halves, vector(0x300000, length, 16, is_store=True)]
    gathered = Operation((900,), (Operand(0x600000, (520,), is_indexed=True),), tuple(range(900)))
    far: list[Step] = [vector(0x800000 + i * 0x100000, 50 * length) for i in range(2)]
    under_test = Stream(ONE_LEVEL[0], 1 / 64, ONE_LEVEL[1:])
    under_test.run([*near, gathered] * times + near[:2] + far + [gathered, *near] * (times // 4))
    reuse, executions = under_test.simulator.reuse(), under_test.simulator.statistics().executions
    assert reuse is not None
    assert reuse.burst_accesses < 0.1 * reuse.accesses
    for simulated in under_test.simulator.simulated():
        estimate = misses_from_reuse(reuse, simulated.hierarchy, executions)
        error = abs(estimate.sum() - simulated.misses.sum()) / executions.sum()
        assert error < 0.01, simulated.hierarchy.name


ONE_LINE_SIZE = [
    Hierarchy.parse(spec) for spec in ("L1=256/2/64,L2=3K/4/64", "L1=2K/4/64", "L1=512/8/64,L2=4K/2/64,L3=9K/12/64")
]


@st.composite
def streams(draw: st.DrawFn) -> Operation:
    """Operations on vectors of which most are longer than the caches above, here and there with lines in common."""
    operands: list[Operand] = []
    for number in range(draw(st.integers(1, 4))):
        size = draw(st.sampled_from([1, 4, 8, 16]))
        stride = draw(st.sampled_from([1, 1, 2, 3, -1])) * size
        place = (
            draw(st.sampled_from([0, 8, 48, 56, 60]))
            + draw(st.sampled_from([0x40000, 0x40000, 0x40000, 0x80])) * number
        )
        operand = Operand(0x200000 + place, (stride,), size, draw(st.booleans()))
        if operands and draw(st.booleans()):
            before = operands[-1]
            operand = Operand(before.base, before.strides, before.size_bytes, not before.is_store)
        operands.append(operand)
    return Operation((draw(st.sampled_from([700, 3000, 3001, 9000])),), tuple(operands))


@settings(max_examples=examples(60))
@given(st.lists(streams(), min_size=1, max_size=4), st.sampled_from(ONE_LINE_SIZE), st.data())
def test_streams_leave_the_caches_as_a_walk_does(
    pool: list[Operation], hierarchy: Hierarchy, data: st.DataObject
) -> None:
    steps: list[Step] = []
    for operation in pool:
        ends = [operand.base + (operation.extents[0] - 1) * operand.strides[0] for operand in operation.operands]
        near = [end - 64 * data.draw(st.integers(-2, 40)) for end in ends]
        steps += [operation, *data.draw(st.permutations(near)), *(operand.base for operand in operation.operands)]
    check(steps, hierarchy, None)


def test_what_would_wrap_is_walked() -> None:
    top = ADDRESS_MASK - 100
    check([vector(top, 40), vector(50, 40, -8), vector(top, 40)], HIERARCHIES[0])
