"""Streams that prefetchers lose out of sight: what is read off times, and a real run."""

import pytest

from foretrace.benchmarks.calibration.prefetch_suite import LINES_BESIDE, Stream, prefetch_measurements, prefetch_points
from foretrace.benchmarks.harness import sampling
from foretrace.benchmarks.harness.sampling import Room, Timing

KIB, MIB = 1 << 10, 1 << 20
CACHES = [32 * KIB, 256 * KIB, 4 * MIB]
SMALL, LARGE = MIB, 8 * MIB


def times(late, *, line_s=2e-9, latency_s=100e-9, near_s=0.1e-9):
    """Of a stream of which `late`, by the lines beside it, is waited for; each near line takes `near_s`."""
    found = {}
    for number in LINES_BESIDE:
        work_s = line_s + near_s * number
        found[Stream(number, SMALL)] = Timing(work_s, 0.01, 12)
        found[Stream(number, LARGE)] = Timing(work_s + late(number) * latency_s, 0.01, 12)
    return found


def test_the_share_of_lines_that_are_waited_for_is_found():
    points = prefetch_points(times(lambda number: 0.04 if number >= 6 else 0.0), {LARGE: 100e-9}, "here")
    assert [point.misses_per_line for point in points] == [0.25, 0.5, 1.0, 1.5, 2.0, 4.0]
    assert [point.fetched_ahead for point in points] == pytest.approx([1, 1, 1, 0.96, 0.96, 0.96])
    assert all(0 < point.noise < 0.001 for point in points)


def test_a_moment_s_noise_is_no_lost_line():
    points = prefetch_points(
        times(lambda number: 0.01 * (number > 0) + 0.03 * (number in (2, 16))), {LARGE: 100e-9}, "here"
    )
    assert [point.fetched_ahead for point in points] == pytest.approx([0.99, 0.99, 0.99, 0.99, 0.99, 0.96])


def test_a_memory_that_is_bound_by_its_bandwidth_loses_none():
    """Alone the stream takes as long out of memory as beside many loads."""
    found = times(lambda _: 0.0)
    found |= {stream: Timing(8e-9, 0.01, 12) for stream in found if stream.size_bytes == LARGE}
    assert {point.fetched_ahead for point in prefetch_points(found, {LARGE: 100e-9}, "here")} == {1.0}
    assert prefetch_points(found, {SMALL: 100e-9}, "here") == ()


@pytest.mark.parametrize("cache_bytes", [[], [32 * KIB], [32 * KIB, 64 * KIB]])
def test_without_a_second_cache_of_some_size_there_is_nothing_to_measure(cache_bytes):
    assert prefetch_measurements(cache_bytes, LARGE, room=Room.of(cache_bytes)) == {}


def test_streams_go_through_caches_and_memory():
    measurements = prefetch_measurements(CACHES, 4 * LARGE, room=Room.of(CACHES))
    assert set(measurements) == {Stream(number, size) for number in LINES_BESIDE for size in (SMALL, LARGE)}
    sampling.measure_once(list(measurements.values()), sample_s=1e-5)
    assert all(measurement.timing.time_s > 0 for measurement in measurements.values())
