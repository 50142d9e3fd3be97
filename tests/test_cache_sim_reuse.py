"""Reuse distances against the reference, against the simulated caches, and their sampling error."""

from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.cache_sim import reference
from foretrace.cache_sim.hierarchy import Hierarchy, Level
from foretrace.cache_sim.reference import Access
from foretrace.cache_sim.results import ReuseHistograms
from foretrace.cache_sim.simulator import Simulator

Addresses = npt.NDArray[np.int64]


def fully_associative(num_lines: int) -> Hierarchy:
    return Hierarchy(f"{num_lines} lines", (Level("L1", 64 * num_lines, num_lines, 64),))


def reuse_of(simulator: Simulator) -> ReuseHistograms:
    reuse = simulator.reuse()
    assert reuse is not None
    return reuse


def counts_at_or_beyond(reuse: ReuseHistograms, distance: float) -> int:
    return int(reuse.count[reuse.bin_edges[reuse.bin] >= distance].sum())


def zipf_lines(num_accesses: int, num_lines: int, seed: int) -> Addresses:
    """Some lines are far more popular than others, and popular lines are not neighbours."""
    random = np.random.default_rng(seed)
    popularity = 1 / np.arange(1, num_lines + 1) ** 0.7
    ranks = random.choice(num_lines, num_accesses, p=popularity / popularity.sum())
    return np.asarray(random.permutation(num_lines)[ranks], dtype=np.int64)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2000), st.sampled_from([1, 8, 8, 8, 200]), st.integers(0, 2)), max_size=300),
    st.sampled_from([1, 16, 64]),
)
def test_at_rate_1_distances_are_exact(rows: list[tuple[int, int, int]], line_bytes: int) -> None:
    accesses = [Access(*row) for row in rows]
    simulator = Simulator([], reuse_rate=1, reuse_line_bytes=line_bytes)
    simulator.feed(*np.array(rows, dtype=np.int64).reshape(-1, 3).T)
    reuse = reuse_of(simulator)
    expected: Counter[tuple[int, int]] = Counter()
    for access, distance in zip(accesses, reference.reuse_distances(accesses, line_bytes), strict=True):
        value = np.inf if distance is None else distance
        expected[access.operation, int(np.searchsorted(reuse.bin_edges, value, side="right")) - 1] += 1
    found = {(int(op), int(b)): int(n) for op, b, n in zip(reuse.operation, reuse.bin, reuse.count, strict=True)}
    assert found == expected
    assert list(found) == sorted(found)
    assert reuse.sampling_rate == 1


def test_bins_are_exact_to_8_and_4_an_octave_above() -> None:
    edges = reuse_of(Simulator([])).bin_edges
    assert edges[:14].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20]
    assert edges[-1] == np.inf
    assert edges[-2] == 2.0**43 * 1.75
    assert np.all(np.diff(edges[:-1]) > 0)


def test_hand_worked() -> None:
    """a b c a: a comes back after 2 other lines; then a again: 0; d is new."""
    simulator = Simulator([], reuse_rate=1)
    simulator.feed(64 * np.array([0, 1, 2, 0, 0, 3]), 8, 0)
    reuse = reuse_of(simulator)
    assert reuse.bin_edges[reuse.bin].tolist() == [0, 2, np.inf]
    assert reuse.count.tolist() == [1, 1, 4]
    assert reuse.sampled_lines == 4


@pytest.mark.parametrize("num_lines", [10, 3000, 60_000])
def test_misses_of_a_fully_associative_cache_are_the_distances_beyond_it(num_lines: int) -> None:
    """An oracle of its own for long streams: a distance of at least its capacity is a miss."""
    addresses = 64 * zipf_lines(700_000, num_lines, seed=1)
    capacities = [8, 64, 1024, 2048]
    simulator = Simulator([fully_associative(capacity) for capacity in capacities], reuse_rate=1)
    simulator.feed(addresses, 8, 0)
    reuse = reuse_of(simulator)
    for capacity, simulated in zip(capacities, simulator.simulated(), strict=True):
        assert counts_at_or_beyond(reuse, capacity) == simulated.misses[0, 0]


def nested_working_sets(num_accesses: int, lines: tuple[int, ...], seed: int) -> Addresses:
    """Each access goes to one of a few working sets, uniformly within it."""
    random = np.random.default_rng(seed)
    chosen = random.integers(0, len(lines), num_accesses)
    within: Addresses = (random.random(num_accesses) * np.array(lines)[chosen]).astype(np.int64)
    return within + 10_000_000 * chosen


@pytest.mark.parametrize("working_sets", [(20_000,), (1_500, 30_000, 1_000_000)])
def test_sampling_error_is_bounded(working_sets: tuple[int, ...]) -> None:
    """Three million accesses are sampled at 1, then 1/2 (and, with many lines, less). Miss ratios stay within 2 %."""
    addresses = 64 * nested_working_sets(3_000_000, working_sets, seed=2)
    capacities = [1024, 4096, 16_384]
    simulator = Simulator([fully_associative(capacity) for capacity in capacities], reuse_rate=1 / 64)
    simulator.feed(addresses, 8, 0)
    reuse = reuse_of(simulator)
    assert reuse.sampling_rate <= 1 / 4
    assert reuse.sampled_lines <= 65_536
    assert int(reuse.count.sum()) == pytest.approx(len(addresses), rel=0.05)
    for capacity, simulated in zip(capacities, simulator.simulated(), strict=True):
        estimate = counts_at_or_beyond(reuse, capacity) / int(reuse.count.sum())
        assert estimate == pytest.approx(int(simulated.misses[0, 0]) / len(addresses), abs=0.02)


def test_rate_falls_to_the_wanted_one_and_no_further() -> None:
    addresses = np.arange(1 << 20) % 4096 * 8
    simulator = Simulator([], reuse_rate=1 / 4)
    rates = []
    for _ in range(6):
        simulator.feed(addresses, 8, 0)
        rates.append(reuse_of(simulator).sampling_rate)
    assert rates == [1 / 2, 1 / 4, 1 / 4, 1 / 4, 1 / 4, 1 / 4]


def test_no_distances_unless_asked_for() -> None:
    assert Simulator([], reuse_rate=None).reuse() is None


def test_merged_adds_up() -> None:
    simulator = Simulator([fully_associative(2)], reuse_rate=1)
    lines, operations = np.array([0, 1, 0, 1, 2, 0, 5]), np.array([0, 1, 2, 2, 0, 1, 4])
    simulator.feed(64 * lines, 8, operations)
    whole = Simulator([fully_associative(2)], reuse_rate=1)
    mapping = np.array([1, 0, 1, 0, 2])
    whole.feed(64 * lines, 8, mapping[operations])
    merged, expected = reuse_of(simulator).merged(mapping, 3), reuse_of(whole)
    for name in ("operation", "bin", "count"):
        assert getattr(merged, name).tolist() == getattr(expected, name).tolist()
    assert merged.dense(3).sum(axis=1).tolist() == [2, 4, 1]
    assert simulator.simulated()[0].merged(mapping, 3).misses.tolist() == whole.simulated()[0].misses.tolist()
    totals, whole_totals = simulator.statistics().merged(mapping, 3), whole.statistics()
    for name in ("executions", "total_bytes", "size_bytes", "first", "last_exclusive"):
        assert getattr(totals, name).tolist() == getattr(whole_totals, name).tolist()
    patterns = totals.repeated + totals.unit_stride + totals.strided + totals.irregular
    assert patterns.tolist() == [1, 3, 0]


@pytest.mark.parametrize("mapping", [[0], [0, 1, 3], [0, -1, 1]])
def test_merging_refuses_a_mapping_that_does_not_fit(mapping: list[int]) -> None:
    simulator = Simulator([fully_associative(2)], reuse_rate=1)
    simulator.feed([0, 64, 128], 8, [0, 1, 2])
    for record in (simulator.statistics(), simulator.simulated()[0], reuse_of(simulator)):
        with pytest.raises(ValueError, match="mapping has"):
            record.merged(mapping, 3)
