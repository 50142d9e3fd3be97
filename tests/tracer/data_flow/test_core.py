"""The C core of the data flow against a slow one, byte by byte."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from data_flow_reference import OUTSIDE, Core, Flows, Operand, Reference, build_core
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

PLACES = 6
accesses = st.tuples(
    st.integers(0, PLACES - 1), st.integers(0, 700), st.sampled_from([1, 2, 4, 8, 16, 32]), st.booleans()
)
operands = st.builds(
    Operand,
    address=st.integers(2000, 2600),
    strides=st.tuples(st.sampled_from([0, 1, 8, -8, 24, 200]), st.sampled_from([0, 4, 8, 16, 300])),
    size_bytes=st.sampled_from([1, 4, 8]),
    is_store=st.booleans(),
    is_indexed=st.booleans(),
)
arrays = st.tuples(
    st.integers(0, PLACES - 1),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.integers(0, 9),
    st.lists(operands, min_size=1, max_size=3),
)


stretches = st.tuples(st.integers(0, 700), st.integers(0, 300))
events = st.one_of(
    accesses.map(lambda one: ("access", *one)),
    st.tuples(st.just("bytes"), st.integers(0, PLACES - 1), st.integers(0, 700), st.integers(0, 300), st.booleans()),
    st.builds(lambda where, number: ("allocate", *where, number), stretches, st.integers(1, 4)),
    stretches.map(lambda where: ("release", *where)),
)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return build_core(tmp_path_factory.mktemp("core"))


@settings(max_examples=examples(150))
@given(st.lists(accesses | arrays, max_size=60), st.integers(0, 60))
def test_any_accesses(core: Any, steps: list[Any], tidy_at: int) -> None:
    reference, flow = Reference(), Core(core)
    for number, (place, *rest) in enumerate(steps):
        if number == tidy_at:
            flow.tidy(range(PLACES))
        for follower in (reference, flow):
            if len(rest) == 3 and isinstance(rest[0], int):
                follower.access(place, *rest)
            else:
                extents, seed, of_all = rest
                indices = [(seed + 7 * point) % 40 for point in range(extents[0] * extents[1])]
                follower.array(place, extents, indices, of_all)
    flows, footprints = flow.finish()
    flow.close()
    assert flows == reference.flows()
    assert footprints == reference.footprints()


@settings(max_examples=examples(150))
@given(st.lists(events, max_size=60), st.integers(0, 60))
def test_any_objects(core: Any, steps: list[Any], tidy_at: int) -> None:
    """Memory that is allocated, used and released, byte by byte."""
    reference, flow = Reference(), Core(core)
    for number, (kind, *arguments) in enumerate(steps):
        if number == tidy_at:
            flow.tidy(range(PLACES))
        getattr(flow, kind)(*arguments)
        getattr(reference, "access" if kind == "bytes" else kind)(*arguments)
    flows, footprints = flow.finish_objects()
    flow.close()
    assert flows == reference.object_flows()
    assert footprints == reference.object_footprints()


def test_the_life_of_objects(core: Any) -> None:
    """Two buffers at one address, one after the other: nothing flows from the first to who reads the second."""
    flow = Core(core)
    flow.allocate(1024, 64, 1)
    flow.access(0, 1024, 8, True)
    flow.access(1, 1024, 8, False)
    assert flow.allocated_bytes(1024) == 64
    assert flow.allocated_bytes(1032) == 0
    flow.release(1024, 64)
    flow.allocate(1024, 32, 2)
    flow.access(2, 1024, 8, False)
    assert flow.allocated_bytes(1024) == 32
    flows, footprints = flow.finish_objects()
    flow.close()
    assert flows == {(1, 0, frozenset({1})): 8, (2, OUTSIDE, frozenset({2})): 8}
    assert footprints == {(1, frozenset({0, 1})): 8, (2, frozenset({2})): 8}


def test_many_objects(core: Any) -> None:
    """More ranges than a piece of the index holds, in an order of no kind; every second one is given away again."""
    flow, generator = Core(core), np.random.default_rng(5)
    order = generator.permutation(3000)
    for number in order.tolist():
        flow.allocate(1 << 20 | 64 * number, 48, 1)
    for number in order[:1500].tolist():
        flow.allocate(1 << 20 | 64 * number, 48, 2)
    flow.allocate(1 << 20 | 64 * 1000, 64 * 100, 3)
    of_three = range(1000, 1100)
    for number in range(3000):
        expected = 0 if number in of_three and number > 1000 else 64 * 100 if number == 1000 else 48
        assert flow.allocated_bytes(1 << 20 | 64 * number) == expected
        flow.access(0, 1 << 20 | 64 * number, 8, True)
    flows, _ = flow.finish_objects()
    flow.close()
    second = len(set(order[:1500].tolist()) - set(of_three))
    assert flows == {
        (1, 0, frozenset()): 8 * (2900 - second), (2, 0, frozenset()): 8 * second, (3, 0, frozenset()): 800
    }  # fmt: skip


def test_by_hand(core: Any) -> None:
    """8 bytes are written, half of them again; all are read by two places."""
    flow = Core(core)
    flow.access(1, 64, 8, True)
    flow.access(2, 64, 8, False)
    flow.access(3, 68, 4, True)
    flow.access(2, 64, 8, False)
    flow.access(4, 72, 2, False)
    flows, footprints = flow.finish()
    flow.close()
    read = frozenset({2})
    assert flows == {(1, read): 8, (3, read): 4, (OUTSIDE, frozenset({4})): 2}
    assert footprints == {frozenset({1, 2}): 4, frozenset({1, 2, 3}): 4, frozenset({4}): 2}


@settings(max_examples=examples(50))
@given(st.lists(accesses, max_size=80))
def test_places_that_become_one(core: Any, steps: list[Any]) -> None:
    reference, flow = Reference(), Core(core)
    for place, *rest in steps:
        reference.access(place // 2, *rest)
        flow.access(place, *rest)
    flow.tidy([place // 2 for place in range(PLACES)])
    flows, footprints = flow.finish()
    flow.close()

    def read(flows: Flows) -> Flows:
        """What nobody has read counts again where another place of the same stores there."""
        return Flows({pair: num_bytes for pair, num_bytes in flows.items() if pair[1]})

    assert read(flows) == read(reference.flows())
    assert footprints == reference.footprints()


def test_runs_are_as_single_accesses(core: Any) -> None:
    generator = np.random.default_rng(1)
    addresses = generator.integers(0, 4096, (500, 3)).astype(np.uint64) * np.uint64(4)
    slots = [(0, 4, False), (1, 8, True), (2, 16, False)]
    reference, flow = Reference(), Core(core)
    flow.run(slots, addresses)
    for row in addresses.tolist():
        for (place, size_bytes, is_store), address in zip(slots, row, strict=True):
            reference.access(place, address, size_bytes, is_store)
    assert flow.finish()[0] == reference.flows()
    flow.close()


@pytest.mark.parametrize("iterations", [1, 3, 500])
def test_marked_runs_are_as_runs(core: Any, iterations: int) -> None:
    """Once blocks are sampled: accesses across blocks, of two words, and in words between them that have none."""
    random = np.random.default_rng(iterations)
    slots, slot_of_word = [(0, 8, True), (1, 16, False), (2, 4, False), (1, 1, True)], [0, 0xFFFF, 1, 1, 2, 3]
    plain, marked = Core(core, max_blocks=200), Core(core, max_blocks=200)
    for _ in range(12000 // iterations):
        words = random.integers(0x10000, 0x30000, (iterations, len(slot_of_word))).astype(np.uint64)
        words[:, 3] = words[:, 2] + np.uint64(8)
        plain.run(slots, words, slot_of_word)
        marked.run(slots, words, slot_of_word, marked=True)
    assert marked.log_weight == plain.log_weight > 1
    assert marked.finish() == plain.finish()
    plain.close()
    marked.close()


def test_too_many_sets_become_one(core: Any) -> None:
    """What is merged is counted as read by all who read any of it, and no byte is lost."""
    flow, reference = Core(core, max_sets=8), Reference()
    for word in range(64):
        for follower in (flow, reference):
            follower.access(0, 8 * word, 8, True)
            for place in range(6):
                if word >> place & 1:
                    follower.access(1 + place, 8 * word, 8, False)
    flows, _ = flow.finish()
    flow.close()
    assert sum(flows.values()) == 64 * 8
    assert {writer for writer, _ in flows} == {0}
    assert len(flows) < len(reference.flows())
    for place in range(1, 7):
        exact = sum(num_bytes for (_, readers), num_bytes in reference.flows().items() if place in readers)
        assert sum(num_bytes for (_, readers), num_bytes in flows.items() if place in readers) >= exact


def test_sets_count_as_long_as_they_are_used(core: Any) -> None:
    """Versions come to few sets of readers by way of many others: 40 places read in 30 orders, and 3 sets are left."""
    flow, reference = Core(core, max_sets=1024), Reference()
    chance = np.random.default_rng(1)
    for turn in range(120):
        if flow.has_many_sets:
            flow.tidy(range(64))
        readers = chance.permutation(40)[: 40 - turn % 2]
        if turn % 2:
            readers = np.sort(readers)[:12]
        for follower in (flow, reference):
            follower.access(0, 8, 8, True)
            for place in range(1, 40, 3) if turn % 3 == 0 else readers.tolist():
                follower.access(1 + place, 8, 8, False)
    flows, footprints = flow.finish()
    flow.close()
    assert flows == reference.flows()
    assert footprints == reference.footprints()


def test_a_sample_is_near_the_whole(core: Any) -> None:
    """One place writes 4 MiB, two others read three and one quarters of them, eight times."""
    num_bytes = 4 << 20
    whole, sample = Core(core), Core(core, max_blocks=1024)
    for flow in (whole, sample):
        for _ in range(8):
            flow.array(0, [num_bytes // 8], [], [Operand(1 << 20, (8,), 8, is_store=True)])
            flow.array(1, [num_bytes // 8 * 3 // 4], [], [Operand(1 << 20, (8,), 8, is_store=False)])
            flow.array(2, [num_bytes // 8 // 4], [], [Operand(1 << 20, (8,), 8, is_store=False)])
    exact, _ = whole.finish()
    scaled, footprints = sample.finish()
    assert whole.log_weight == 0
    assert sample.log_weight > 3
    quarter = num_bytes // 4
    assert exact == Counter(
        {(0, frozenset({1, 2})): 8 * quarter, (0, frozenset({1})): 16 * quarter, (0, frozenset()): quarter}
    )
    assert set(scaled) == set(exact)
    for flow_of, size_bytes in exact.items():
        assert scaled[flow_of] == pytest.approx(size_bytes, rel=0.1)
    assert sum(footprints.values()) == pytest.approx(num_bytes, rel=0.1)
    whole.close()
    sample.close()


@pytest.mark.parametrize("last_block", range(4))
def test_a_block_that_is_given_up_is_not_used_again(core: Any, last_block: int) -> None:
    """An access to a block whose place was remembered is the one at which blocks are given up."""
    blocks, window = 512, 1 << 18  # accesses between two looks at how many are followed
    everything = Operand(0, (16,), 8, is_store=False)
    kept, fresh = Core(core), Core(core)
    while kept.log_weight < 2:
        for flow in (kept, fresh):
            for _ in range(window // (8 * blocks) - 1):
                flow.array(0, [8 * blocks], [], [everything])
        epoch, hints = kept.epoch, [kept.new_hint() for _ in range(blocks)]
        for number in range(8 * blocks):
            block = (number + 1 + last_block) % blocks
            assert epoch == kept.epoch
            kept.access(1, 128 * block, 8, number % 3 == 0, hints[block])
            fresh.access(1, 128 * block, 8, number % 3 == 0)
    assert fresh.log_weight == kept.log_weight
    assert kept.finish() == fresh.finish()
    kept.close()
    fresh.close()
