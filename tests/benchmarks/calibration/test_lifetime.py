"""How long lines stay in a cache that others use: what is read off times, and a real run."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrace.benchmarks.calibration import line_lifetime
from foretrace.benchmarks.calibration.line_lifetime import IDLE_S, lifetime_measurements
from foretrace.benchmarks.harness import sampling
from foretrace.benchmarks.harness.sampling import Timing

KIB, MIB = 1 << 10, 1 << 20


def times(lifetime_s, *, hit_s=1e-9, miss_s=8e-9, noise=0.0):
    """Of loads whose lines go one by one, half of them within `lifetime_s`, all within twice as long."""
    shares = [min(idle_s / lifetime_s / 2, 1.0) for idle_s in IDLE_S]
    return {
        idle_s: Timing(hit_s + part * (miss_s - hit_s), noise, 12) for idle_s, part in zip(IDLE_S, shares, strict=True)
    }


@given(st.floats(0.0003, 0.03), st.floats(2.0, 20.0))
def test_the_time_after_which_half_of_the_lines_are_gone_is_found(lifetime_s, ratio):
    found, noise = line_lifetime.line_lifetime(times(lifetime_s, miss_s=ratio * 1e-9))
    assert found == pytest.approx(lifetime_s, rel=0.1)
    assert noise == pytest.approx(0.0, abs=1e-9)


def test_it_is_as_uncertain_as_the_loads_that_show_it():
    _, some = line_lifetime.line_lifetime(times(2e-3, noise=0.05))
    _, more = line_lifetime.line_lifetime(times(2e-3, noise=0.2))
    assert 0 < some < more


def test_lines_that_nobody_drives_out_have_no_lifetime():
    assert line_lifetime.line_lifetime(times(math.inf)) is None
    assert line_lifetime.line_lifetime({}) is None


def test_lines_that_are_gone_at_once_are_gone_by_the_shortest_time_measured():
    found, _ = line_lifetime.line_lifetime(times(1e-7))
    assert IDLE_S[1] / 2 <= found <= IDLE_S[1]


@pytest.mark.parametrize("cache_bytes", [[], [32 * KIB], [32 * KIB, 512 * KIB, MIB]])
def test_a_last_cache_that_is_a_core_s_own_or_hardly_larger_is_not_left_alone(cache_bytes):
    assert lifetime_measurements(cache_bytes) == {}


def test_lines_are_left_alone_for_each_of_the_times_and_read_once():
    measurements = lifetime_measurements([32 * KIB, 256 * KIB, 4 * MIB])
    assert list(measurements) == list(IDLE_S)
    sampling.measure_once(list(measurements.values()), sample_s=1e-4)
    timings = [measurement.timing for measurement in measurements.values()]
    assert all(timing.time_s > 0 for timing in timings)
    _, loads = measurements[0.0].run(1)
    assert 0 < loads <= 512 * KIB // 64 // 8
