"""Misses worked out from reuse distances, against closed forms, SciPy's binomial, and simulated caches."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.cache_sim.hierarchy import Hierarchy, Level
from foretrace.cache_sim.results import ReuseHistograms
from foretrace.cache_sim.reuse_model import expected_error, miss_probabilities, misses_from_reuse
from foretrace.cache_sim.simulator import Simulator

HIERARCHY = Hierarchy.parse("L1=32K/8/64,L2=768K/12/64,L3=6M/24/64")


def fed(addresses: npt.NDArray[np.int64], operations: npt.ArrayLike = 0) -> tuple[Simulator, ReuseHistograms]:
    simulator = Simulator([HIERARCHY], reuse_rate=1 / 4)
    simulator.feed(addresses, 8, operations)
    reuse = simulator.reuse()
    assert reuse is not None
    return simulator, reuse


def test_full_associativity_is_exact() -> None:
    addresses = np.random.default_rng(0).integers(0, 4000, 100_000) * 64
    hierarchies = [Hierarchy("h", (Level("L1", 64 * lines, lines, 64),)) for lines in (4, 1024, 2048)]
    simulator = Simulator(hierarchies, reuse_rate=1)
    simulator.feed(addresses, 8, 0)
    reuse = simulator.reuse()
    assert reuse is not None
    for simulated in simulator.simulated():
        estimate = misses_from_reuse(reuse, simulated.hierarchy, [len(addresses)])
        assert estimate == pytest.approx(simulated.misses.astype(float))


def test_direct_mapped_closed_form() -> None:
    """Of d lines at random none falls into one of S sets with probability (1 - 1/S)^d."""
    _, reuse = fed(np.arange(10) * 64)
    probabilities = miss_probabilities(reuse, Level("L1", 64 * 16, 1, 64))
    assert probabilities[:8] == pytest.approx([1 - (15 / 16) ** d for d in range(8)])
    assert probabilities[-1] == 1


@pytest.mark.parametrize(("num_sets", "ways"), [(2, 1), (64, 8), (1024, 12), (3, 200), (12_288, 16)])
def test_binomial_tail_is_scipys(num_sets: int, ways: int) -> None:
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the oracle here")
    _, reuse = fed(np.arange(10) * 64)
    probabilities = miss_probabilities(reuse, Level("L1", num_sets * ways * 64, ways, 64))
    for low, high, found in zip(reuse.bin_edges[:80], reuse.bin_edges[1:81], probabilities[:80], strict=True):
        expected = stats.binom.sf(ways - 1, [low, high - 1], 1 / num_sets)
        assert expected[0] - 1e-9 <= found <= expected[1] + 1e-9


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 100), st.sampled_from([16, 64, 256]))
def test_probabilities_are_monotone(num_sets: int, ways: int, line_bytes: int) -> None:
    _, reuse = fed(np.arange(10) * 64)
    probabilities = miss_probabilities(reuse, Level("L1", num_sets * ways * line_bytes, ways, line_bytes))
    assert np.all((probabilities >= 0) & (probabilities <= 1))
    assert np.all(np.diff(probabilities) >= -1e-9)


@pytest.mark.parametrize("footprint_bytes", [16 << 10, 256 << 10, 2 << 20, 64 << 20])
def test_random_access_agrees_with_the_simulation(footprint_bytes: int) -> None:
    addresses = np.random.default_rng(1).integers(0, footprint_bytes // 8, 2_000_000) * 8
    simulator, reuse = fed(addresses)
    estimate = misses_from_reuse(reuse, HIERARCHY, [len(addresses)])[0] / len(addresses)
    assert estimate == pytest.approx(simulator.simulated()[0].misses[0] / len(addresses), abs=0.02)


def test_streams_agree_with_the_simulation_by_operation() -> None:
    """One operation walks 8 MB once: an eighth of its accesses miss. One walks 8 KB again and again: none."""
    position = np.arange(1_000_000)
    addresses = np.stack([position * 8, (1 << 40) + position % 1024 * 8], axis=1).ravel()
    simulator, reuse = fed(addresses, np.tile([0, 1], len(position)))
    totals = simulator.statistics()
    estimate = misses_from_reuse(reuse, HIERARCHY, totals.executions) / len(position)
    assert estimate == pytest.approx(np.array([[0.125] * 3, [0.0] * 3]), abs=0.01)
    other_lines = Hierarchy.parse("L1=32K/64/32,L2=4M/16/128")
    share = totals.unit_stride / totals.executions
    estimate = misses_from_reuse(reuse, other_lines, totals.executions, share) / len(position)
    assert estimate == pytest.approx(np.array([[0.25, 0.0625], [0.0, 0.0]]), abs=0.01)


def test_outer_levels_never_miss_more() -> None:
    """Even where the outer level is the smaller one, or has conflicts that the inner one has not."""
    addresses = np.random.default_rng(2).integers(0, 1 << 15, 100_000) * 8
    _, reuse = fed(addresses)
    odd = Hierarchy("h", (Level("L1", 64 << 10, 1024, 64), Level("L2", 64 << 10, 1, 64), Level("L3", 4096, 1, 64)))
    misses = misses_from_reuse(reuse, odd, [100_000, 50])
    assert np.all(np.diff(misses, axis=1) <= 0)
    assert misses[0, 0] > 0
    assert misses[1].tolist() == [0, 0, 0]  # no sample: it touches few lines


def test_expected_error() -> None:
    _, exact = fed(np.arange(1000) * 64)
    assert expected_error(exact, 0.5) == 0
    assert expected_error(fed(np.zeros(0, dtype=np.int64))[1], 0.5) == 0
    _, sampled = fed(np.tile(np.arange(4096), 1000) * 64)
    assert sampled.sampling_rate == 0.25
    expected = math.sqrt(0.25 / sampled.sampled_lines * 0.75)
    assert expected_error(sampled, 0.5) == pytest.approx(expected)
    assert 0.01 < expected < 0.02
