"""How far single loads from main memory lie apart: what is read off times, and a real run."""

import numpy as np
import pytest

from foretrace.benchmarks.calibration.load_times import QUANTILES, LoadTime, latency_quantiles, load_time_measurements
from foretrace.benchmarks.harness import sampling
from foretrace.benchmarks.harness.sampling import Room, Timing
from foretrace.benchmarks.kernels import _kernels

KIB, MIB = 1 << 10, 1 << 20
CLOCK_S = 25e-9


def times(*loads_s):
    """As many equal parts of the loads take so long, and reading the clock each time."""
    found = {LoadTime(4096, 0.5): Timing(CLOCK_S, 0.01, 12)}
    for quantile in QUANTILES:
        found[LoadTime(64 * MIB, quantile)] = Timing(loads_s[int(quantile * len(loads_s))] + CLOCK_S, 0.02, 12)
    return found


def test_times_are_told_over_their_mean_without_the_clock():
    found = latency_quantiles(times(100e-9, 100e-9, 120e-9, 280e-9), "here")
    assert [point.quantile for point in found] == list(QUANTILES)
    assert [point.over_mean for point in found[::4]] == pytest.approx([2 / 3, 2 / 3, 4 / 5, 28 / 15], 1e-3)
    assert {(point.source, point.noise) for point in found} == {("here", 0.02)}


def test_a_rarer_time_is_never_shorter():
    found = [point.over_mean for point in latency_quantiles(times(120e-9, 110e-9), "here")]
    assert found == [1.0] * len(QUANTILES)


def test_where_the_clock_does_not_tell_loads_apart_nothing_is_told():
    assert latency_quantiles(times(0.0, 100e-9), "here") == ()
    assert latency_quantiles({}, "here") == ()


def test_only_what_lies_beyond_the_caches_is_measured():
    assert load_time_measurements(4 * MIB, room=Room.of([32 * KIB, 4 * MIB])) == {}
    found = load_time_measurements(4 * MIB, room=Room.of([32 * KIB, 2 * MIB]))
    assert set(found) == {LoadTime(4096, 0.5), *(LoadTime(4 * MIB, quantile) for quantile in QUANTILES)}


def test_loads_are_timed_one_by_one():
    measurements = load_time_measurements(64 * MIB, room=Room.of([32 * KIB, 1 * MIB]))
    sampling.measure_once(list(measurements.values()), sample_s=1e-4)
    assert all(m.timing.time_s > 0 for m in measurements.values())
    found = latency_quantiles({load: m.timing for load, m in measurements.items()}, "here")
    if not found:
        pytest.skip("the clock does not tell loads apart, or a cache has 64 MiB")
    ratios = np.array([point.over_mean for point in found])
    assert len(ratios) == len(QUANTILES)
    assert ratios.mean() == pytest.approx(1, rel=1e-3)
    assert ratios[0] < 1 < ratios[-1]


def test_a_chain_goes_on_where_it_stopped():
    data, seconds = np.zeros(128 * 64, np.uint8), np.full(5, np.nan)
    start = -data.ctypes.data % 64
    lines = memoryview(data)[start : start + 127 * 64]
    _kernels.link_chain(lines, np.arange(7, dtype=np.uint32))
    assert _kernels.load_times(lines, seconds, 3 * 64) == (3 + 5) % 7 * 64
    assert (seconds >= 0).all()


@pytest.mark.parametrize("state", [7 * 64 + 1, 127 * 64, 1 << 63])
def test_a_state_that_is_no_line_is_refused(state):
    data = np.zeros(128 * 64, np.uint8)
    lines = memoryview(data)[-data.ctypes.data % 64 :][: 127 * 64]
    with pytest.raises(ValueError, match="no line of data"):
        _kernels.load_times(lines, np.zeros(1), state)
