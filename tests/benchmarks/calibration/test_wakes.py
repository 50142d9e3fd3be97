"""Threads that take turns: what their kernel refuses, and the measurements made of it."""

import os

import pytest

from foretrace.benchmarks.calibration.wake_suite import wake_measurements
from foretrace.benchmarks.kernels import _kernels
from foretrace.profiles.figure import figures_of_record
from foretrace.profiles.profile import Core

CORES = sorted(os.sched_getaffinity(0))


@pytest.mark.parametrize("cpus", [(0, 0), (-1, 1), (0, 1 << 20)])
def test_turns_need_two_cores(cpus):
    with pytest.raises(ValueError, match="must be two below"):
        _kernels.take_turns(cpus, 1, 0.0, True)


@pytest.mark.parametrize("work_s", [-1.0, 2.0, float("nan")])
def test_the_work_of_a_turn_is_limited(work_s):
    with pytest.raises(ValueError, match="from 0 to 1"):
        _kernels.take_turns((0, 1), 1, work_s, True)


@pytest.mark.skipif(len(CORES) < 2, reason="turns are taken on two cores")
@pytest.mark.parametrize("sleeps", [False, True])
def test_only_sleepers_are_woken_by_calls(sleeps):
    seconds, calls_s = _kernels.take_turns((CORES[0], CORES[1]), 20, 1e-5, sleeps)
    assert seconds > 0
    assert (calls_s > 0) == sleeps


@pytest.mark.skipif(len(CORES) < 2, reason="turns are taken on two cores")
def test_each_measurement_is_of_a_figure_and_counts_its_turns():
    measurements = wake_measurements(CORES)
    assert measurements.keys() <= figures_of_record(Core).keys()
    for measurement in measurements.values():
        seconds, turns = measurement.run(5)
        assert seconds > 0
        assert turns == 10


def test_one_core_wakes_nobody():
    assert wake_measurements(CORES[:1]) == {}
