"""Reuse distances against the reference, and what is counted of merged and refused operations."""

from collections import Counter
from dataclasses import replace

import cache_reference as reference
import numpy as np
import numpy.typing as npt
import pytest
from cache_reference import Access
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.reuse.model import miss_count_error, misses_from_reuse
from foretrace.cache_sim.reuse.results import CHAINS, LINE_BYTES, ReuseHistograms
from foretrace.cache_sim.simulator import Simulator

NEAR_DEPTH = 30  # FT_NEAR_DEPTH of set_order.h
LEAST_FAR_BYTES = 1 << 17  # LEAST_FAR_BYTES of reuse.c


def reuse_of(simulator: Simulator) -> ReuseHistograms:
    reuse = simulator.reuse()
    assert reuse is not None
    return reuse


def fed(rows: npt.ArrayLike, rate: float = 1) -> ReuseHistograms:
    """`rows`: [n, 3] of address, size and operation."""
    simulator = Simulator([], reuse_rate=rate)
    simulator.feed(*np.asarray(rows, dtype=np.int64).reshape(-1, 3).T)
    return reuse_of(simulator)


def histogram(reuse: ReuseHistograms, line_bytes: int, way: int) -> Counter[tuple[int, int]]:
    """(operation, bin) of one way size, with the changes of smaller ways in its chain added up."""
    chain = next(chain for chain in CHAINS if way in chain)
    found: Counter[tuple[int, int]] = Counter()
    rows = (reuse.line_bytes == line_bytes) & (reuse.way >= chain.start) & (reuse.way <= way)
    for operation, index, count in zip(reuse.operation[rows], reuse.bin[rows], reuse.count[rows], strict=True):
        found[int(operation), int(index)] += int(count)
    return Counter({key: count for key, count in found.items() if count})


def expected_histogram(
    reuse: ReuseHistograms, accesses: list[Access], line_bytes: int, way: int
) -> Counter[tuple[int, int]]:
    num_sets = 1 if way in (0, 20) else (128 << way) // line_bytes
    expected: Counter[tuple[int, int]] = Counter()
    for access, distance in zip(accesses, reference.set_distances(accesses, line_bytes, num_sets), strict=True):
        lines = np.inf if distance is None else distance
        if 1 <= way <= 12 and lines >= NEAR_DEPTH:
            lines = np.inf
        least = LEAST_FAR_BYTES // line_bytes if way == 20 else 1
        if lines >= least:
            expected[access.operation, int(np.searchsorted(reuse.bin_edges, lines, side="right")) - 1] += 1
    return expected


addresses = st.one_of(
    st.integers(0, 3000),
    st.builds(lambda k, j: k * 1024 + j, st.integers(0, 60), st.integers(0, 300)),
    st.builds(lambda k, j: k << 20 | j, st.integers(0, 130), st.integers(0, 300)),
)


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(addresses, st.sampled_from([1, 8, 8, 16, 700]), st.integers(0, 2)), max_size=200))
def test_at_rate_1_distances_are_exact(rows: list[tuple[int, int, int]]) -> None:
    accesses = [Access(*row) for row in rows]
    reuse = fed(rows)
    assert reuse.sampling_rate == 1
    assert reuse.burst_share == 1
    assert not np.any(reuse.errors)
    for line_bytes in LINE_BYTES:
        for way in (0, 1, 3, 5, 8, 12, 13, 14, 19, 20):
            expected = expected_histogram(reuse, accesses, line_bytes, way)
            if way == 1 and line_bytes == 256:
                assert histogram(reuse, 256, 1).keys() == expected.keys()
            assert histogram(reuse, line_bytes, way) == expected, (line_bytes, way)


def test_many_lines_of_few_sets() -> None:
    """Lists and stacks lose their oldest lines, and say so: 600 lines of one set, up and down."""
    lines = np.concatenate([np.arange(600), np.arange(600)[::-1]])
    rows = np.column_stack([lines << 20, np.full(len(lines), 8), np.zeros(len(lines), dtype=np.int64)])
    accesses = [Access(*row) for row in rows.tolist()]
    reuse = fed(rows)
    for way in (0, 5, 12):
        assert histogram(reuse, 64, way) == expected_histogram(reuse, accesses, 64, way)
    deep = histogram(reuse, 64, 13)
    exact = expected_histogram(reuse, accesses, 64, 13)
    beyond = (0, len(reuse.bin_edges) - 1)
    for key in deep.keys() - {beyond}:
        assert reuse.bin_edges[key[1]] < 255
    assert sum(deep.values()) == sum(exact.values())
    assert deep[0, 5] == exact[0, 5] == 1


def test_bins_are_exact_to_8_and_4_an_octave_above() -> None:
    edges = reuse_of(Simulator([])).bin_edges
    assert edges[:14].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20]
    assert edges[-1] == np.inf
    assert edges[-2] == 2.0**43 * 1.75
    assert np.all(np.diff(edges[:-1]) > 0)


def test_hand_worked() -> None:
    """a b c a: a comes back after 2 other lines; then a again: 0, which nobody counts; d is new."""
    reuse = fed([(64 * line, 8, 0) for line in (0, 1, 2, 0, 0, 3)])
    last = len(reuse.bin_edges) - 1
    assert histogram(reuse, 64, 0) == {(0, 2): 1, (0, last): 4}
    assert histogram(reuse, 64, 1) == {(0, last): 4}  # four sets: each line has its own


def test_accesses_left_out_between_bursts_are_counted_once() -> None:
    """Most accesses here change nothing, and results are asked for in between."""
    simulator = Simulator([], reuse_rate=1 / 64)
    for part in range(1, 6):
        simulator.feed(np.arange(100_003) // 8 * 8, 8, 0)
        assert reuse_of(simulator).accesses == part * 100_003


def test_rates_fall_and_what_is_left_stands_for_all() -> None:
    """A stream over 16 MB, twice: each line is new once, and comes back after all others."""
    position = np.arange(1 << 21)
    simulator = Simulator([], reuse_rate=1 / 8)
    for _ in range(2):
        simulator.feed(position * 8, 8, 0)
    reuse = reuse_of(simulator)
    assert 1 / 512 <= reuse.sampling_rate <= 1 / 8
    assert 0.01 < reuse.burst_share < 0.5
    assert reuse.bursts > 10
    for line_bytes in LINE_BYTES:
        fetched = 2 * (8 << 21) / line_bytes
        for way in (0, 5, 12, 13, 20):
            counts = histogram(reuse, line_bytes, way)
            far = sum(count for (_, index), count in counts.items() if reuse.bin_edges[index] >= 12)
            assert far == pytest.approx(fetched, rel=0.03), (line_bytes, way)


def test_no_distances_unless_asked_for() -> None:
    assert Simulator([], reuse_rate=None).reuse() is None


def test_merged_adds_up() -> None:
    hierarchy = Hierarchy.parse("L1=128/2/64")
    simulator, whole = Simulator([hierarchy], reuse_rate=1), Simulator([hierarchy], reuse_rate=1)
    lines, operations = np.array([0, 1, 0, 1, 2, 0, 5]), np.array([0, 1, 2, 2, 0, 1, 4])
    simulator.feed(64 * lines, 8, operations)
    mapping = np.array([1, 0, 1, 0, 2])
    whole.feed(64 * lines, 8, mapping[operations])
    merged, expected = reuse_of(simulator).merged(mapping, 3), reuse_of(whole)
    for name in ("operation", "line_bytes", "way", "bin", "count"):
        assert getattr(merged, name).tolist() == getattr(expected, name).tolist()
    assert simulator.simulated()[0].merged(mapping, 3).misses.tolist() == whole.simulated()[0].misses.tolist()
    totals, whole_totals = simulator.statistics().merged(mapping, 3), whole.statistics()
    for name in ("executions", "total_bytes", "size_bytes", "first", "last_exclusive"):
        assert getattr(totals, name).tolist() == getattr(whole_totals, name).tolist()
    patterns = totals.repeated + totals.unit_stride + totals.strided + totals.irregular
    assert patterns.tolist() == [1, 3, 0]


@pytest.mark.parametrize("mapping", [[0], [0, 1, 3], [0, -1, 1]])
def test_merging_refuses_a_mapping_that_does_not_fit(mapping: list[int]) -> None:
    simulator = Simulator([Hierarchy.parse("L1=128/2/64")], reuse_rate=1)
    simulator.feed([0, 64, 128], 8, [0, 1, 2])
    for record in (simulator.statistics(), simulator.simulated()[0], reuse_of(simulator)):
        with pytest.raises(ValueError, match="mapping has"):
            record.merged(mapping, 3)


def test_more_memory_than_blocks_can_be_known() -> None:
    """The first burst ends when there is no room; classes become fewer until there is."""
    reuse = fed([(block * 256, 8, 0) for block in range(100_000)])
    assert reuse.sampling_rate == 1 / 4
    assert reuse.burst_share < 1
    last = len(reuse.bin_edges) - 1
    for way in (0, 12, 13, 20):
        assert histogram(reuse, 64, way)[0, last] == pytest.approx(100_000, rel=0.02), way


def test_document_tells_how_it_was_sampled() -> None:
    reuse = fed([(0, 8, 0)])
    assert reuse.document["burst_share"] == reuse.document["sampling_rate"] == 1
    noisy = replace(reuse, errors=np.full_like(reuse.errors, 0.5))
    assert noisy.document["largest_standard_error"] == 0.5


def test_bursts_are_more_where_one_moment_is_unlike_the_next() -> None:
    step = np.arange(1 << 23)
    alike = fed(np.stack([step * 8, np.full_like(step, 8), np.zeros_like(step)], axis=1), rate=1 / 64)
    again = (step // 8192 * 1024 + step % 1024) * 64  # 1024 lines, eight times each: a burst sees all missed, or none
    unlike = fed(np.stack([again, np.full_like(step, 8), np.zeros_like(step)], axis=1), rate=1 / 64)
    assert unlike.bursts > 2 * alike.bursts
    cache = Hierarchy.parse("L1=64K/1024/64")
    ((misses,),) = misses_from_reuse(unlike, cache, [len(step)])
    assert misses / len(step) == pytest.approx(1 / 8, abs=0.03)
    assert 0.001 < miss_count_error(unlike, cache.levels[0]) / len(step) < 0.03
