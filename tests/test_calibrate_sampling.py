"""The sampling under calibration: a fake clock and fake work stand for the machine."""

import itertools

import pytest

from foretrace.benchmarks.sampling import SETTLED_SAMPLES, Measurement, measure


class Machine:
    """Work that takes `cost_s` an operation, times the next factor of `disturbance`; its clock runs while it works."""

    def __init__(self, cost_s, disturbance=(1.0,)):
        self.now = 0.0
        self.cost_s = cost_s
        self.disturbance = itertools.cycle(disturbance)
        self.runs = []

    def run(self, repeats):
        seconds = repeats * self.cost_s * next(self.disturbance)
        self.now += seconds
        self.runs.append(repeats)
        return seconds, repeats

    def clock(self):
        return self.now


def test_a_quiet_machine_is_measured_exactly():
    machine = Machine(2e-9)
    measurement = Measurement("work", machine.run)
    measure([measurement], sample_s=1e-3, rounds=5, budget_s=10.0, clock=machine.clock)
    assert measurement.best_s == pytest.approx(2e-9)
    assert measurement.noise == pytest.approx(0)
    assert len(measurement.samples_s) == 5, "settled, so not repeated further"
    assert measurement.settled


def test_samples_last_about_as_long_as_asked():
    machine = Machine(2e-9)
    measurement = Measurement("work", machine.run)
    measurement.tune(1e-3)
    assert 0.5e-3 <= measurement.repeats * machine.cost_s <= 4e-3
    assert len(machine.runs) < 20


def test_what_takes_long_is_not_repeated():
    machine = Machine(1.0)
    measurement = Measurement("work", machine.run)
    measurement.tune(1e-3)
    assert machine.runs == [1]


def test_an_unsettled_measurement_is_repeated_until_it_settles():
    machine = Machine(1e-6, disturbance=(3.0, 2.0, 2.5, 1.7, 1.0))
    measurement = Measurement("work", machine.run)
    measure([measurement], sample_s=1e-4, rounds=5, budget_s=10.0, clock=machine.clock)
    assert measurement.settled
    assert measurement.best_s == pytest.approx(1e-6)
    assert sum(s == pytest.approx(1e-6) for s in measurement.samples_s) == SETTLED_SAMPLES
    assert measurement.noise > 0.5


def test_time_runs_out_for_what_never_settles():
    faster_each_time = (1.1**-k for k in itertools.count())
    measurement = Measurement("work", lambda repeats: (next(faster_each_time), 1))
    ticks = itertools.count()
    measure([measurement], sample_s=0.0, rounds=3, budget_s=50, clock=lambda: next(ticks))
    assert not measurement.settled
    assert 3 < len(measurement.samples_s) <= 53


def test_samples_are_taken_in_turns():
    order = []
    measurements = [
        Measurement(name, lambda repeats, name=name: (order.append(name), (1.0, 1))[1], repeats=1) for name in "abc"
    ]
    measure(measurements, sample_s=1e-3, rounds=4, budget_s=1e9)
    assert "".join(order) == "abc" * 5, "once to warm up, four rounds"


def test_a_reference_is_sampled_as_long_as_any():
    steady, wild = Machine(1e-6), Machine(1e-6, disturbance=(3.0, 2.0, 2.5, 1.7, 1.0))
    reference = Measurement("clock", steady.run, reference=True)
    measurement = Measurement("work", wild.run)
    measure([reference, measurement], sample_s=1e-4, rounds=5, budget_s=10.0, clock=lambda: steady.now + wild.now)
    assert len(reference.samples_s) == len(measurement.samples_s) > 5


def test_progress_goes_from_nothing_to_all():
    machine = Machine(1e-6, disturbance=(3.0, 2.0, 2.5, 1.7, 1.0))
    seen = []
    measure(
        [Measurement("work", machine.run)],
        sample_s=1e-4,
        rounds=5,
        budget_s=10.0,
        progress=seen.append,
        clock=machine.clock,
    )
    assert seen == sorted(seen)
    assert 0 < seen[0] < 0.5
    assert seen[-1] == 1.0
