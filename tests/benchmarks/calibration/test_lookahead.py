"""How far ahead streams are fetched beside others: what is read off times, and a real run."""

import pytest

from foretrace.benchmarks.calibration.prefetch_suite import (
    BUSY_MIXES,
    MIXES,
    Lookahead,
    Mix,
    lookahead,
    mix_measurements,
    stream_points,
)
from foretrace.benchmarks.harness import sampling
from foretrace.benchmarks.harness.sampling import Room, Timing

KIB, MIB = 1 << 10, 1 << 20
CACHES = [32 * KIB, 256 * KIB, 4 * MIB]
SMALL, LARGE = MIB, 8 * MIB
LATENCY_S, LINE_S, IN_FLIGHT = 150e-9, 1.5e-9, 320


def times(near_places, *, core_s=0.1e-9):
    """Of whose 100 lines ahead a near one takes `near_places`; the core's own work takes `core_s` a line."""
    found = {}
    for far, near in MIXES:
        work_s = core_s * (far + near)
        ahead = LATENCY_S / LINE_S / (far + near_places * near) + IN_FLIGHT / (16 * (far + near))
        found[Mix(far, near, SMALL)] = Timing(work_s, 0.01, 12)
        found[Mix(far, near, LARGE)] = Timing(max(work_s, far * LINE_S, LATENCY_S / ahead), 0.01, 12)
    return found


def look(found):
    return lookahead(found, {LARGE: LATENCY_S}, LINE_S, IN_FLIGHT)


@pytest.mark.parametrize("near_places", [1.5, 3.0, 8.0])
def test_what_near_lines_take_of_those_ahead_is_found(near_places):
    found = look(times(near_places))
    assert found.lines == pytest.approx(100)
    assert found.near_places == pytest.approx(near_places, rel=0.02)
    assert found.noise < 0.02


def test_a_disturbed_time_is_in_the_noise():
    found = times(3.0)
    found[Mix(2, 4, LARGE)] = Timing(1.5 * found[Mix(2, 4, LARGE)].time_s, 0.01, 12)
    assert look(found).near_places == pytest.approx(3.0, rel=0.25)
    assert 0.05 < look(found).noise < 0.5


def test_near_streams_that_hold_up_none_take_no_places():
    assert look(times(0.0)) is None
    assert look(times(3.0, core_s=20e-9)) is None, "the core's own work hides it"


def test_without_the_latency_over_as_much_memory_nothing_is_told():
    assert lookahead(times(3.0), {SMALL: LATENCY_S}, LINE_S, IN_FLIGHT) is None
    assert lookahead({}, {LARGE: LATENCY_S}, LINE_S, IN_FLIGHT) is None


BUSY_S = 13e-9


def busy_times(late, ahead=None):
    """Of streams of whose lines `late` are waited for, by how many near ones there are for each; in each 13 ns."""
    found = {}
    for far, near in BUSY_MIXES:
        own = IN_FLIGHT / (16 * (far + near) + 160)
        work_s = BUSY_S
        if ahead is not None:
            work_s = max(work_s, LATENCY_S / (ahead.lines / (far + near * ahead.near_places) + own))
        more_s = far * late[near / far] * (LATENCY_S - own * work_s)
        found[Mix(far, near, SMALL, busy=True)] = Timing(BUSY_S, 0.01, 12)
        found[Mix(far, near, LARGE, busy=True)] = Timing(work_s + more_s, 0.01, 12)
    return found


@pytest.mark.parametrize("ahead", [None, Lookahead(100, 2.5, 0.1), Lookahead(40, 4.0, 0.1)])
def test_lines_that_busy_streams_wait_for_are_found(ahead):
    found = busy_times({0.5: 0.002, 1.0: 0.007, 2.0: 0.02}, ahead)
    points = stream_points(found, {LARGE: LATENCY_S}, LINE_S, IN_FLIGHT, ahead, "here")
    assert [point.misses_per_line for point in points] == [0.5, 1.0, 2.0]
    assert [point.fetched_ahead for point in points] == pytest.approx([0.998, 0.993, 0.98], abs=1e-4)
    assert all(0 < point.noise < 0.01 for point in points)


def test_busy_streams_that_wait_for_none_are_fetched_ahead():
    found = busy_times(dict.fromkeys((0.5, 1.0, 2.0), -0.001))
    points = stream_points(found, {LARGE: LATENCY_S}, LINE_S, IN_FLIGHT, None, "here")
    assert [point.fetched_ahead for point in points] == [1, 1, 1]
    assert stream_points(found, {SMALL: LATENCY_S}, LINE_S, IN_FLIGHT, None, "here") == ()
    assert stream_points({}, {LARGE: LATENCY_S}, LINE_S, IN_FLIGHT, None, "here") == ()


@pytest.mark.parametrize("cache_bytes", [[], [32 * KIB], [32 * KIB, 64 * KIB]])
def test_without_a_second_cache_of_some_size_there_is_nothing_to_measure(cache_bytes):
    assert mix_measurements(cache_bytes, LARGE, room=Room.of(cache_bytes)) == {}


def test_streams_go_through_caches_and_memory():
    measurements = mix_measurements(CACHES, 4 * LARGE, room=Room.of(CACHES))
    expected = {Mix(far, near, size) for far, near in MIXES for size in (SMALL, LARGE)}
    expected |= {Mix(far, near, size, busy=True) for far, near in BUSY_MIXES for size in (SMALL, LARGE)}
    assert set(measurements) == expected
    sampling.measure_once(list(measurements.values()), sample_s=1e-5)
    assert all(measurement.timing.time_s > 0 for measurement in measurements.values())
