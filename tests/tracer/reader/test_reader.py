"""The stream reader against a slow twin, on streams written here word by word."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from word_streams import (
    ENTRY,
    HIERARCHY,
    WIDE_BYTES,
    Access,
    Execution,
    Stream,
    words_of,
)

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.simulator import Simulator
from foretrace.tracer.reader import _reader

BULK = 0xFFF << 51


def joined(accesses: list[Access]) -> list[tuple[int, int, int]]:
    """Accesses as (slot, size, address), the parts of wide ones put together."""
    result: list[tuple[int, int, int]] = []
    for slot, shift, address in accesses:
        size = 1 << shift
        if result:
            last_slot, last_size, last_address = result[-1]
            if last_slot == slot and last_address + last_size == address and last_size + size <= WIDE_BYTES:
                result[-1] = (slot, last_size + size, last_address)
                continue
        result.append((slot, size, address))
    return result


def check(executions: Sequence[Execution], chunk_words: int, hierarchy: Hierarchy = HIERARCHY) -> None:
    """Read `executions`, cut into chunks, and compare every count with a plain walk over them.

    At a reuse rate of 1 the simulator looks at every access; without reuse, only at those that change anything.
    """
    twin, ids = Simulator([hierarchy], reuse_rate=1), dict[tuple[int, int], int]()
    for block_id, accesses in executions:
        for slot, size, address in joined(accesses):
            twin.feed([address], size, ids.setdefault((block_id, slot), len(ids)), slot % 2 == 1)
    for reuse_rate in (1, None):
        under_test = Stream(hierarchy, reuse_rate)
        compare(under_test, twin, ids, executions, chunk_words)
        if reuse_rate is not None:
            reuse, twin_reuse = under_test.simulator.reuse(), twin.reuse()
            assert reuse is not None
            assert twin_reuse is not None
            assert reuse.count.tolist() == twin_reuse.count.tolist()


def compare(
    under_test: Stream,
    twin: Simulator,
    ids: Mapping[tuple[int, int], int],
    executions: Sequence[Execution],
    chunk_words: int,
) -> None:
    """Read `executions`, and compare what came of them with the `twin`, whose operations have these `ids`."""
    under_test.describe_blocks([8, 8, 8])
    words = words_of(executions)
    for number, begin in enumerate(range(0, len(words), chunk_words)):
        under_test.publish(words[begin : begin + chunk_words], number)
    under_test.read()
    operations = np.frombuffer(under_test.reader.operations(), np.uint32).reshape(-1, 3)[:, :2].tolist()
    assert operations == [list(key) for key in ids]
    executed = np.frombuffer(under_test.reader.block_executions(), np.uint64).tolist()
    counts = Counter(block_id for block_id, _ in executions)
    assert executed == [counts[1], counts[2], counts[3]]
    edges = {(a, b): n for a, b, n in np.frombuffer(under_test.reader.edges(), np.uint64).reshape(-1, 3).tolist()}
    assert edges == Counter((a, b) for (a, _), (b, _) in itertools.pairwise(executions))
    expected, found = twin.statistics(), under_test.simulator.statistics()
    for name in expected.__dataclass_fields__:
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
    assert under_test.simulator.simulated()[0].misses.tolist() == twin.simulated()[0].misses.tolist()


ADDRESSES = st.integers(0x1000, 0x1000 + 600)


@st.composite
def loops(draw: st.DrawFn) -> list[Execution]:
    """Loops of one block with strided accesses, some wide, between single executions of any block."""
    executions: list[Execution] = []
    for _ in range(draw(st.integers(1, 4))):
        block = draw(st.integers(1, 3))
        part = st.tuples(st.integers(0, 15), st.sampled_from([0, 2, 3, -1]))
        parts = draw(st.lists(part, max_size=4, unique_by=lambda slot_and_shift: slot_and_shift[0]))
        bases = [(draw(ADDRESSES), draw(st.sampled_from([0, 1, 8, -8, 16, 36]))) for _ in parts]
        for i in range(draw(st.sampled_from([1, 2, 3, 20, 60]))):
            accesses: list[Access] = []
            for (slot, shift), (base, stride) in zip(parts, bases, strict=True):
                address = base + 2000 + i * stride
                if shift >= 0:
                    accesses.append((slot, shift, address))
                else:  # a wide access, in two parts
                    accesses += [(slot, 3, address), (slot, 3, address + 8)]
            executions.append((block, accesses))
        if draw(st.booleans()):
            slots = st.tuples(st.integers(0, 15), st.integers(0, 3), ADDRESSES)
            executions.append((draw(st.integers(1, 3)), draw(st.lists(slots, max_size=5))))
    return executions


@settings(max_examples=examples(60))
@given(loops())
def test_every_count_is_that_of_a_plain_walk(executions: list[Execution]) -> None:
    check(executions, chunk_words=8192)


@st.composite
def branches(draw: st.DrawFn) -> list[Execution]:
    """A loop whose body goes one way or another, more or less often; a block sometimes does something else."""
    random = draw(st.randoms(use_true_random=False))
    parts = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 3)), max_size=5, unique_by=lambda part: part[0])
    usual = {block: draw(parts) for block in (1, 2, 3)}
    executions: list[Execution] = []
    for _ in range(draw(st.integers(1, 3))):
        second, third, other = (draw(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])) for _ in range(3))
        for i in range(draw(st.sampled_from([20, 100, 400]))):
            body = [1, *([2] * (random.random() < second)), *([3] * (random.random() < third))]
            for block in body:
                accesses = [(slot, size, 0x2000 + 8 * i * (slot % 3)) for slot, size in usual[block]]
                if random.random() < other / 10:
                    accesses = accesses[1:]
                executions.append((block, accesses))
    return executions


@settings(max_examples=examples(40))
@given(branches(), st.sampled_from([211, 8192]))
def test_every_count_of_a_loop_that_branches_is_that_of_a_plain_walk(
    executions: list[Execution], chunk_words: int
) -> None:
    check(executions, chunk_words)


def test_every_count_of_a_loop_that_changes_its_ways_is_that_of_a_plain_walk() -> None:
    """Trees of paths grow, and are given up, where what is mostly done changes for good."""
    rng = Random(1)
    executions: list[Execution] = []
    for second, third in ((1.0, 0.5), (0.0, 0.5), (0.5, 0.5), (1.0, 1.0)):
        for i in range(800):
            executions.append((1, [(0, 3, 0x1000 + 8 * i), (2, 2, 0x9000)]))
            if rng.random() < second:
                executions.append((2, [(0, 3, 0x4000 + 8 * rng.randrange(64))]))
            if rng.random() < third:
                executions.append((3, [(5, 3, 0x6000), (7, 1, 0x6000 + i)]))
    check(executions, chunk_words=4096)


def test_chunks_that_come_while_others_are_read_are_read_in_the_same_turn() -> None:
    under_test = Stream()
    under_test.describe_blocks([8])
    under_test.publish(words_of([(1, [])]), 0)

    def publish_another() -> None:
        while under_test.reader.header()["executions"] == 0:
            time.sleep(0.001)
        under_test.publish(words_of([(1, [])] * 2), 1)

    publisher = threading.Thread(target=publish_another)
    publisher.start()
    status = under_test.reader.run(2, 1000)
    publisher.join()
    assert status == _reader.MORE
    assert np.frombuffer(under_test.reader.block_executions(), np.uint64).tolist() == [3]


def test_chunk_ends_change_nothing_but_wide_accesses_across_them() -> None:
    executions: list[Execution] = [(1, [(0, 3, 0x1000 + 8 * i), (3, 2, 0x9000 - 4 * i)]) for i in range(500)]
    check(executions, chunk_words=97)


def test_repeated_accesses_of_more_lines_than_a_set_holds_miss_each_time() -> None:
    wide: list[Execution] = [(1, [(0, 7, 0x1000)])] * 200  # 128 bytes
    check(wide, chunk_words=8192, hierarchy=Hierarchy.parse("L1=64/2/32"))


@pytest.mark.parametrize("ways", [1, 2, 3, 4])
def test_arrays_that_share_their_sets_drive_each_other_out_only_where_ways_are_too_few(ways: int) -> None:
    together: list[Execution] = [(1, [(2 * k, 3, 0x1000 + 0x100000 * k + 8 * i) for k in range(3)]) for i in range(400)]
    check(together, chunk_words=8192, hierarchy=Hierarchy.parse(f"L1={ways * 256}/{ways}/32,L2=64K/4/64"))


@settings(max_examples=examples(80))
@given(
    st.lists(st.tuples(st.integers(0, 1 << 14), st.sampled_from([0, 1, 4, 8, -8, 16, 40])), min_size=2, max_size=6),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 3, 16, 64, 512]),
    st.sampled_from([32, 64]),
)
def test_a_few_lines_stay_in_few_ways_if_their_sets_are_others(
    arrays: list[tuple[int, int]], ways: int, sets: int, line_bytes: int
) -> None:
    """Where all begin in one set of the smallest cache, and in sets of their own or not in others."""
    together: list[Execution] = [
        (1, [(2 * k, 3, (1 << 20) + (offset & ~7) + stride * i) for k, (offset, stride) in enumerate(arrays)])
        for i in range(200)
    ]
    first = Hierarchy.parse(f"L1={ways * sets * line_bytes}/{ways}/{line_bytes},L2=64K/4/64")
    check(together, chunk_words=8192, hierarchy=first)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([ENTRY | 5], "never described"),
        ([1 << 51 | 0x1000], "before any block"),
        ([ENTRY | 1, 17 << 51 | 0x1000], "no instruction"),
        ([ENTRY | 1, BULK | 2 << 32 | 1], "does not add up|crosses"),
        ([ENTRY | 1, BULK | 0 << 32 | 1], "does not add up"),
    ],
)
def test_damaged_streams_are_refused(words: list[int], what: str) -> None:
    damaged = Stream()
    damaged.describe_blocks([8])
    damaged.publish(words)
    with pytest.raises(ValueError, match=what):
        damaged.read()


WORDS = [(0, 2**64 - 1), (0, 4), (2**51, 2**55), (2**63, 2**63 + 3), (2**63 + 2**48, 2**63 + 3 * 2**48)]


@settings(max_examples=examples(100))
@given(st.lists(st.one_of(*(st.integers(low, high) for low, high in WORDS)), max_size=60))
def test_random_words_are_read_or_refused(words: list[int]) -> None:
    damaged = Stream()
    damaged.describe_blocks([8, 3])
    damaged.publish(words)
    try:
        damaged.read()
    except ValueError:
        return
    assert sum(np.frombuffer(damaged.reader.block_executions(), np.uint64).tolist()) <= len(words)
