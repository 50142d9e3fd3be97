"""Misses worked out from reuse distances, against simulated caches."""

import numpy as np
import numpy.typing as npt
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.cache_sim.base.hierarchy import Hierarchy, Level
from foretrace.cache_sim.base.results import SimulatedHierarchy
from foretrace.cache_sim.reuse.model import _probes, miss_count_error, misses_from_reuse, misses_fully_associative
from foretrace.cache_sim.reuse.results import NUM_WAYS, ONE_SET_FAR, ONE_SET_NEAR, ReuseHistograms
from foretrace.cache_sim.simulator import Simulator

ANY_CACHES = [
    "4K/1/64", "4K/64/64", "8K/2/32", "16K/4/128", "32K/8/64", "48K/12/64", "64K/1/256", "128K/2048/64", "256K/8/64",
    "1M/16/64", "2M/1/128", "8M/16/64", "4M/65536/64", "30M/20/64", "64M/16/64",
]  # fmt: skip


def caches(geometries: list[str]) -> list[Hierarchy]:
    return [Hierarchy.parse(f"L={geometry}") for geometry in geometries]


def fed(
    addresses: npt.NDArray[np.int64], geometries: list[str], rate: float, operations: npt.ArrayLike = 0
) -> tuple[ReuseHistograms, tuple[SimulatedHierarchy, ...], npt.NDArray[np.uint64]]:
    simulator = Simulator(caches(geometries), reuse_rate=rate)
    simulator.feed(addresses, 8, operations)
    reuse = simulator.reuse()
    assert reuse is not None
    return reuse, simulator.simulated(), simulator.statistics().executions


@settings(max_examples=examples(40))
@given(
    st.lists(
        st.builds(lambda k, stride: k * stride, st.integers(0, 400), st.sampled_from([8, 64, 320, 4096, 32768])),
        max_size=400,
    )
)
def test_what_was_measured_exactly_gives_exact_misses(rows: list[int]) -> None:
    geometries = [g for g in ANY_CACHES if g != "30M/20/64"]
    addresses = np.array(rows, dtype=np.int64)
    reuse, simulated, executions = fed(addresses, geometries, 1, np.arange(len(rows)) % 3)
    for found in simulated:
        estimate = misses_from_reuse(reuse, found.hierarchy, executions)
        assert estimate == pytest.approx(found.misses.astype(float)), found.hierarchy.spec
        assert miss_count_error(reuse, found.hierarchy.levels[0]) == 0


def column_walk() -> npt.NDArray[np.int64]:
    """Down the columns of a 1024 x 1024 matrix of doubles, the rows of which are 8 KB apart: few sets are met."""
    row, column = np.meshgrid(np.arange(1024), np.arange(1024))
    return np.tile((row * 1024 + column).ravel() * 8, 4).astype(np.int64)


def zipf_gathers() -> npt.NDArray[np.int64]:
    random = np.random.default_rng(1)
    ranks = np.exp(random.random(4_000_000) * np.log(400_000)).astype(np.int64)
    return random.permutation(400_000)[ranks] * 8


def random_accesses() -> npt.NDArray[np.int64]:
    return np.random.default_rng(2).integers(0, 1 << 20, 4_000_000) * 8


def stream() -> npt.NDArray[np.int64]:
    return np.tile(np.arange(500_000) * 8, 8)


@pytest.mark.parametrize("addresses", [column_walk, zipf_gathers, random_accesses, stream])
def test_sampled_distances_agree_with_the_simulation(addresses) -> None:  # type: ignore[no-untyped-def]
    """At the default rate, over 15 geometries: 1 percentage point on average, 3 at worst."""
    reuse, simulated, executions = fed(addresses(), ANY_CACHES, 1 / 64)
    assert reuse.burst_share < 0.1
    total = int(executions.sum())
    errors = {
        found.hierarchy.spec: float(misses_from_reuse(reuse, found.hierarchy, executions)[0, 0] - found.misses.sum())
        / total
        for found in simulated
    }
    assert np.mean(np.abs(list(errors.values()))) <= 0.01, errors
    assert max(map(abs, errors.values())) <= 0.03, errors


def test_operations_are_told_apart() -> None:
    """One operation walks 8 MB once: an eighth of its accesses miss. One walks 8 KB again and again: none."""
    position = np.arange(1_000_000)
    addresses = np.stack([position * 8, (1 << 40) + position % 1024 * 8], axis=1).ravel()
    reuse, _, executions = fed(addresses, ["32K/8/64"], 1 / 64, np.tile([0, 1], len(position)))
    hierarchy = Hierarchy.parse("L1=32K/8/64,L2=1M/16/64,L3=12M/12/64")
    estimate = misses_from_reuse(reuse, hierarchy, executions) / len(position)
    assert estimate == pytest.approx(np.array([[0.125] * 3, [0.0] * 3]), abs=0.01)


def test_operations_that_a_sample_missed_have_another_one() -> None:
    """Each goes over 2 MB of its own, for a short time of a long program: some run between the windows of tracks."""
    number, elements = 150, 1 << 18
    geometries = ["32K/8/64", "512K/8/64"]
    simulator = Simulator(caches(geometries), reuse_rate=1 / 16)
    for k in range(number):
        simulator.feed((k << 30) + 8 * np.arange(elements), 8, k)
    reuse = simulator.reuse()
    assert reuse is not None
    for geometry in geometries:
        misses = misses_from_reuse(reuse, Hierarchy.parse(f"L={geometry}"), np.full(number, elements))[:, 0]
        assert misses.min() > 0.3 * elements / 8
        assert misses.sum() == pytest.approx(number * elements / 8, rel=0.3)


def test_lines_beyond_those_measured_scale_with_unit_strides() -> None:
    position = np.arange(1_000_000)
    reuse, _, executions = fed(position * 8, ["32K/8/64"], 1 / 64)
    hierarchy = Hierarchy.parse("L1=32K/8/16,L2=4M/16/512")
    estimate = misses_from_reuse(reuse, hierarchy, executions, 1.0)[0] / len(position)
    assert estimate == pytest.approx([0.5, 1 / 64], abs=0.005)


@settings(max_examples=examples(100))
@given(st.integers(1, 1 << 15), st.integers(1, 2000), st.sampled_from([16, 32, 64, 128, 256, 512]))
def test_any_geometry_has_its_distances(num_sets: int, ways: int, line_bytes: int) -> None:
    """Weights add up to one cache, of this capacity wherever so many ways were measured."""
    level = Level("L", num_sets * ways * line_bytes, ways, line_bytes)
    probes = _probes(level)
    assert sum(probe.weight for probe in probes) == pytest.approx(1)
    assert all(0 <= probe.weight <= 1 and probe.lines > 0 for probe in probes)


def test_outer_levels_never_miss_more() -> None:
    """Even where the outer level is the smaller one, or has conflicts that the inner one has not."""
    addresses = np.random.default_rng(2).integers(0, 1 << 15, 100_000) * 8
    reuse, _, _ = fed(addresses, ["4K/1/64"], 1)
    odd = Hierarchy("h", (Level("L1", 64 << 10, 1024, 64), Level("L2", 64 << 10, 1, 64), Level("L3", 4096, 1, 64)))
    misses = misses_from_reuse(reuse, odd, [100_000, 50])
    assert np.all(np.diff(misses, axis=1) <= 0)
    assert misses[0, 0] > 0
    assert misses[1].tolist() == [0, 0, 0]  # no sample: it touches few lines


def test_the_stated_error_tells_of_interpolation() -> None:
    """Eight lines 8 KB apart, again and again: six ways of 8 KB miss always, twelve of 4 KB and eight of 6 KB never."""
    addresses = np.tile(np.arange(8) * 8192, 500)
    reuse, simulated, executions = fed(addresses, ["48K/12/64", "48K/6/64", "48K/8/64"], 1)
    assert [int(found.misses.sum()) for found in simulated] == [8, len(addresses), 8]
    estimates = [float(misses_from_reuse(reuse, found.hierarchy, executions).sum()) for found in simulated]
    errors = [miss_count_error(reuse, found.hierarchy.levels[0]) for found in simulated]
    assert errors[:2] == [0, 0]
    assert estimates[0] < estimates[2] < estimates[1]
    assert errors[2] == pytest.approx(max(estimates[2] - estimates[0], estimates[1] - estimates[2]))
    assert abs(estimates[2] - 8) <= errors[2] * (1 + 1e-9)


def test_the_stated_error_covers_the_true_one() -> None:
    """Twelve programs of phases of random length: twice the standard error holds in at least 85 % of the cases."""
    geometries = ["8K/2/64", "32K/8/64", "256K/8/64"]
    within = []
    for seed in range(12):
        random = np.random.default_rng(seed)
        phases = [random.integers(0, 1 << random.integers(9, 17), random.integers(10_000, 300_000)) for _ in range(20)]
        reuse, simulated, executions = fed(np.concatenate(phases) * 8, geometries, 1 / 64)
        for found in simulated:
            estimate = misses_from_reuse(reuse, found.hierarchy, executions).sum()
            error = miss_count_error(reuse, found.hierarchy.levels[0]) + 1e-4 * reuse.accesses
            within.append(abs(estimate - found.misses.sum()) <= 2 * error)
    assert np.mean(within) >= 0.85


def histograms(rows: list[tuple[int, int, int]]) -> ReuseHistograms:
    """One operation's counts between lines of 64 bytes: (way, bin, count)."""
    edges = np.concatenate([[0.0], 2.0 ** np.arange(30), [np.inf]])
    way, bins, count = np.array(rows).T
    return ReuseHistograms(
        accesses=1000, bursts=1, burst_accesses=100, sampling_rate=0.1, sampled_blocks=10, bin_edges=edges,
        operation=np.zeros(len(rows), np.uint32), line_bytes=np.full(len(rows), 64, np.uint16),
        way=way.astype(np.uint8), bin=bins.astype(np.uint16), count=count.astype(np.int64),
        errors=np.zeros((4, NUM_WAYS, len(edges))),
    )  # fmt: skip


def test_what_misses_a_large_cache_misses_a_small_one_even_if_its_sample_lost_it() -> None:
    """Bursts saw none of a stream's lines used again; sampled classes saw 125 of 1000 accesses far apart."""
    lost = histograms([(1, 1, 1000), (ONE_SET_NEAR, 1, 1000), (ONE_SET_FAR, 28, 125)])
    small = Hierarchy.parse("L=32K/16/64")
    assert misses_from_reuse(lost, small, [1000])[0, 0] == 125
    assert misses_fully_associative(lost, [32 << 10], 64, [1000])[0, 0] == 125


def test_a_sample_that_saw_misses_is_believed() -> None:
    seen = histograms([(1, 28, 120), (ONE_SET_NEAR, 28, 120), (ONE_SET_FAR, 28, 125)])
    assert misses_fully_associative(seen, [32 << 10], 64, [1000])[0, 0] == 120


def test_fully_associative_caches_of_any_size() -> None:
    """A walk over 3 MiB, four times: a smaller cache misses all of it, a larger one the first walk."""
    elements = (3 << 20) // 8
    addresses = np.tile(np.arange(elements) * 8, 4).astype(np.int64)
    reuse, _, executions = fed(addresses, ["32K/8/64"], 1)
    sizes = [32 << 10, 5 << 19, 7 << 19, 100_000_001]
    misses = misses_fully_associative(reuse, sizes, 64, executions)[0]
    lines = (3 << 20) / 64
    assert misses == pytest.approx([4 * lines, 4 * lines, lines, lines], rel=0.02)
