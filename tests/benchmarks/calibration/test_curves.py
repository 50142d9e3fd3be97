"""What is read off curves, on synthetic ones whose answer is known: cache sizes, TLBs. Index arrays and hit rates."""

import itertools

import numpy as np
import pytest
from cache_reference import Access, simulate
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from foretrace.benchmarks.calibration.cache_sizes import cache_ends, effective_size, streamed_size, without_bumps
from foretrace.benchmarks.calibration.capacity_limits import Edge, edge_of
from foretrace.benchmarks.calibration.latency_suite import MOST_PAGES, Chain, tlb_steps, tlbs, working_sets
from foretrace.benchmarks.calibration.multimaps import Sweep, hit_rates
from foretrace.benchmarks.calibration.sgbench import Loop, index_array, ranges
from foretrace.benchmarks.calibration.window_suite import Window, in_flight
from foretrace.benchmarks.harness.sampling import Timing
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.profiles.points import IndexMode, Movement
from foretrace.profiles.profile import Core

KIB, MIB = 1 << 10, 1 << 20


# ---- cache sizes


def latency_curve(ends, times, *, eviction="lru", bumps=None):
    """Times of a chain of loads by working set. A cache keeps all of what fits; of what does not it keeps nothing
    (LRU), or its share (random)."""
    points = []
    for number, size in enumerate(working_sets(128 * MIB, fine=True)):
        if eviction == "lru":
            time = times[sum(size > end for end in ends)]
        else:
            shares = [min(1.0, end / size) for end in ends]
            inner = [0.0, *shares]
            time = sum((share - less) * t for less, share, t in zip(inner, shares, times, strict=False))
            time += (1 - shares[-1]) * times[-1]
        points.append((size, time * 1e-9 * (1 + (bumps[number % len(bumps)] if bumps else 0.0))))
    return points


three_caches = st.tuples(
    st.sampled_from([16 * KIB, 32 * KIB, 48 * KIB, 64 * KIB]),
    st.sampled_from([256 * KIB, 512 * KIB, MIB, 2 * MIB]),
    st.sampled_from([8 * MIB, 16 * MIB, 32 * MIB]),
)
four_times = st.tuples(st.floats(0.8, 2), st.floats(2.5, 4.0), st.floats(2.5, 4.0), st.floats(4.0, 10.0)).map(
    lambda x: tuple(itertools.accumulate(x, lambda a, b: a * b))
)
noise = st.lists(st.floats(0, 0.08), min_size=1, max_size=40)


@given(three_caches, four_times, st.sampled_from(["lru", "random"]), noise)
@settings(max_examples=examples(200))
def test_whole_caches_are_not_taken_for_parts(ends, times, eviction, bumps):
    points = latency_curve(ends, times, eviction=eviction, bumps=bumps)
    assert effective_size(points, ends) is None


@given(three_caches, four_times, st.sampled_from([0.125, 0.25, 0.5]), st.sampled_from(["lru", "random"]), noise)
@settings(max_examples=examples(200))
def test_a_part_of_the_last_cache_is_found(ends, times, part, eviction, bumps):
    got = max(part * ends[-1], 4 * ends[1])
    points = latency_curve((*ends[:2], got), times, eviction=eviction, bumps=bumps)
    found = effective_size(points, ends)
    if got <= 0.5 * ends[-1]:
        assert found is not None
        assert 0.7 * got <= found <= 1.5 * got


@given(three_caches, four_times, st.sampled_from([2.0, 2.5, 3.0]), noise)
@settings(max_examples=examples(200))
def test_a_part_hardly_larger_than_the_cache_before_is_found(ends, times, part, bumps):
    got = part * ends[1]
    found = effective_size(latency_curve((*ends[:2], got), times, bumps=bumps), ends)
    if got <= 0.5 * ends[-1]:
        assert found is not None
        assert 0.7 * got <= found <= 1.5 * got


@given(three_caches, four_times, st.sampled_from([0.125, 0.25, 0.4]), st.sampled_from(["lru", "random"]), noise)
@settings(max_examples=examples(200))
def test_what_streams_get_is_found(ends, times, part, eviction, bumps):
    got = max(part * ends[-1], 4 * ends[1])
    points = latency_curve((*ends[:2], got), times, eviction=eviction, bumps=bumps)
    found = streamed_size(points, ends)
    if got <= 0.5 * ends[-1]:
        assert found is not None
        assert 0.5 * got <= found <= 1.15 * got


@given(three_caches, four_times, st.sampled_from(["lru", "random"]), noise)
@settings(max_examples=examples(200))
def test_ends_are_found_without_being_told(ends, times, eviction, bumps):
    found = cache_ends(latency_curve(ends, times, eviction=eviction, bumps=bumps))
    assert len(found) == 3 or eviction == "random", "shares of one level may hide the next"
    for end, expected in zip(found, ends, strict=False):
        if len(found) == 3:
            assert 0.65 * expected <= end <= 1.5 * expected


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(1e-9, 1e-6)), max_size=30, unique_by=lambda p: p[0]))
def test_without_bumps_times_never_fall_and_are_never_more(points):
    curve = without_bumps(points)
    assert [size for size, _ in curve] == sorted(size for size, _ in points)
    assert all(a <= b for (_, a), (_, b) in itertools.pairwise(curve))
    assert all(time <= dict(points)[size] for size, time in curve)


@pytest.mark.parametrize("points", [[], [(4096, 1e-9)], [(4096, 1e-9), (8192, 1e-9)]])
def test_too_few_points_tell_nothing(points):
    assert effective_size(points, (32 * KIB, MIB)) is None
    assert cache_ends(points) == []


def test_one_cache_that_nothing_lies_beyond_is_whole():
    assert effective_size(latency_curve((), (1.0,)), (32 * KIB,)) is None
    assert effective_size(latency_curve((), (1.0,)), (32 * KIB, MIB)) is None


# ---- TLBs


@given(
    st.sampled_from([(32, 512), (64, 1024), (64, 2048), (96, 1536), (48, 1024)]),
    st.tuples(st.floats(1.5, 5), st.floats(8, 40)),
    noise,
)
def test_the_levels_of_a_tlb_are_found(entries, heights, bumps):
    counts = working_sets(MOST_PAGES, fine=True, smallest_bytes=16)
    levels = (0.0, heights[0], sum(heights))
    added = [
        levels[sum(count > end for end in entries)] * 1e-9 + 0.2e-9 * bumps[i % len(bumps)]
        for i, count in enumerate(counts)
    ]
    steps = tlb_steps(counts, added)
    assert [count for count, _ in steps] == list(entries)
    assert [height * 1e9 for _, height in steps] == pytest.approx(heights, abs=0.1)


def test_a_slow_rise_is_one_step():
    counts = [64, 96, 128, 192, 256]
    assert tlb_steps(counts, [0, 0, 20e-9, 30e-9, 31e-9]) == [(96, 30e-9)]


@pytest.mark.parametrize("added", [[], [0.0], [1e-10] * 5, [3e-9] * 5])
def test_no_rise_is_no_step(added):
    assert tlb_steps(range(16, 16 + len(added)), added) == []


# ---- instructions in flight


def window_times(window, memory_s=80e-9, cycle_s=0.3e-9, width=4, bumps=(0.0,), kind="window"):
    """Time of one load of two that overlap while a core has room for those between them; filling takes its time too."""
    sizes = (8, 16, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 384, 512, 640, 768)
    return {
        Window(kind, n): Timing(
            max(memory_s / (2 if n + 2 <= window else 1), n / width * cycle_s) * (1 + bumps[i % len(bumps)]), 0.0, 9
        )
        for i, n in enumerate(sizes)
    }


@given(st.integers(20, 600), noise)
@example(386, [0.0])
@example(385, [0.0])
def test_the_window_is_found(window, bumps):
    edge = in_flight(window_times(window, bumps=bumps))["window_instructions"]
    assert edge.figure / (1 + edge.uncertain) - 3 <= window <= edge.figure * (1 + edge.uncertain) + 3


def test_each_kind_in_flight_has_its_own_room():
    found = in_flight(window_times(400) | window_times(70, kind="storing"))
    assert found == {"window_instructions": Edge(384, 512), "storing_instructions": Edge(64, 96)}
    assert in_flight(window_times(400) | window_times(1 << 20, kind="storing")).keys() == {"window_instructions"}
    assert set(found) <= {field.name for field in structs.fields(Core)}


def test_a_neighbour_that_slows_down_some_sizes_hides_no_room():
    """What is fast with more between shows that there was room for less."""
    times = window_times(400)
    for between in (96, 160, 192):
        times[Window("window", between)] = Timing(90e-9, 0.0, 9)
    assert in_flight(times)["window_instructions"] == Edge(384, 512)


def test_a_core_without_a_window_has_none():
    assert in_flight(window_times(1 << 20)) == {}
    assert in_flight({}) == {}


@pytest.mark.parametrize("times_s", [{}, {8: 1.0}, {8: 1.0, 16: 1.49}, {8: 5.0, 16: 1.0}])
def test_no_rise_is_no_edge(times_s):
    assert edge_of({number: Timing(time_s, 0.0, 9) for number, time_s in times_s.items()}, 1.5) is None


@pytest.mark.parametrize(("disturbed", "uncertain"), [(False, 0.25), (True, 0.8)])
def test_an_edge_is_as_uncertain_as_a_neighbour_makes_it(disturbed, uncertain):
    edge = edge_of({16: Timing(1.0, 0.0, 9), 25: Timing(2.0, 0.8, 9, disturbed=disturbed)}, 1.5)
    assert (edge.figure, edge.uncertain) == (20, uncertain)


# ---- index arrays


@pytest.mark.parametrize("element_bytes", [4, 8])
@pytest.mark.parametrize("mode", list(IndexMode))
@pytest.mark.parametrize("range_bytes", [KIB, 4 * KIB, 64 * KIB, MIB])
def test_indices_span_the_range_as_their_mode_says(mode, element_bytes, range_bytes):
    count = range_bytes // element_bytes
    index = index_array(mode, count, element_bytes, np.random.default_rng(1))
    assert index.dtype == np.uint32
    assert index.max() < count
    steps = np.diff(index.astype(np.int64))
    if mode is IndexMode.STRIDE_1:
        assert np.array_equal(index, np.arange(count))
        return
    assert len(index) == count // 4
    assert index.min() < count / 4
    assert index.max() >= count * 3 / 4
    if mode is IndexMode.CLUSTERED:
        sections = index // min(4096 // element_bytes, count)
        assert np.all(np.diff(sections.astype(np.int64)) >= 0)
        assert len(np.unique(sections)) == max(1, range_bytes // 4096)
    elif mode is IndexMode.SPREAD:
        assert np.array_equal(np.sort(index), np.arange(0, count, 4)), "in order they are one constant stride"
        assert np.all(np.diff(index[::8].astype(np.int64)) == 4)
        assert np.all(np.abs(steps) >= count // 8 - 4), "but neighbours are far apart"
    else:
        assert np.mean(np.abs(steps)) == pytest.approx(count / 3, rel=0.4)


def test_ranges_begin_at_a_kilobyte():
    assert ranges(16 * KIB, fine=True) == (KIB, 2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB)
    assert ranges(16 * KIB, fine=False) == (KIB, 4 * KIB, 16 * KIB)
    assert ranges(8 * KIB, fine=False) == (KIB, 4 * KIB, 8 * KIB)


def test_an_iteration_references_elements_and_index():
    assert Loop("gather", IndexMode.RANDOM, 8, 1, KIB).referenced_bytes == 20
    assert Loop("scatter", IndexMode.RANDOM, 4, 1, KIB).referenced_bytes == 12
    assert Loop("update", IndexMode.RANDOM, 8, 1, KIB).referenced_bytes == 28


def test_working_sets():
    assert working_sets(16 * KIB, fine=False) == (4096, 8192, 16384)
    assert working_sets(16 * KIB, fine=True) == (4096, 6144, 8192, 12288, 16384)
    assert working_sets(2048, fine=True) == ()


# ---- hit rates


def reference_hit_rates(sweep, hierarchy):
    """Every access simulated by the slow reference: one pass that warms up, one that counts."""
    half = sweep.working_set_bytes // 2
    if sweep.movement is Movement.COPY:
        offsets = [a for i in range(0, half, sweep.stride_bytes) for a in (i, half + i)]
    else:
        offsets = list(range(0, sweep.working_set_bytes, sweep.stride_bytes))
    accesses = [Access(a, sweep.access_bytes, number) for number in (0, 1) for a in offsets]
    return [1 - misses[1] / len(offsets) for misses in simulate(hierarchy, accesses)]


@pytest.mark.parametrize("movement", list(Movement))
@pytest.mark.parametrize("stride_bytes", [8, 16, 64, 256])
@pytest.mark.parametrize("size_bytes", [2 * KIB, 8 * KIB, 32 * KIB, 128 * KIB])
def test_hit_rates_are_those_of_simulating_every_access(movement, stride_bytes, size_bytes):
    hierarchy = Hierarchy.parse("L1=4K/4/64,L2=16K/8/64,L3=48K/12/64")
    sweep = Sweep(movement, size_bytes, stride_bytes, 8)
    assert hit_rates(sweep, hierarchy) == pytest.approx(reference_hit_rates(sweep, hierarchy), abs=1e-4)


def test_hit_rates_with_longer_lines_further_out():
    hierarchy = Hierarchy.parse("L1=4K/4/64,L2=16K/8/128")
    sweep = Sweep(Movement.LOAD, 64 * KIB, 8, 8)
    assert hit_rates(sweep, hierarchy) == pytest.approx(reference_hit_rates(sweep, hierarchy), abs=1e-4)
    assert hit_rates(sweep, hierarchy) == pytest.approx((7 / 8, 15 / 16))


@pytest.mark.parametrize(("noise", "fewest"), [(0.0, 64), (2.0, 32)])
def test_a_tlb_is_as_uncertain_as_the_chains_that_show_it(noise, fewest):
    """64 pages do not slow loads down, 128 add 7 ns, and more of them add little more."""
    chains = {}
    for shift in range(4, 11):
        size, slow = 4096 << shift, 1 << shift > 64
        chains[Chain(size, 4096, "dense")] = Timing(1e-9, 0.0, 8)
        chains[Chain(size, 4096, "sparse")] = Timing((8 if slow else 1.4) * 1e-9, noise if shift == 6 else 0.0, 8)
    (tlb,) = tlbs(chains, "s")
    assert (tlb.entries, tlb.miss_s) == (64, pytest.approx(6.6e-9))
    assert tlb.noise["miss_s"] == 0
    assert tlb.noise["entries"] == pytest.approx(64 / fewest - 1)
