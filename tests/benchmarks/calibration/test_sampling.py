"""The sampling under calibration: a fake clock and fake work stand for the machine."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrace.benchmarks.harness import sampling
from foretrace.benchmarks.harness.sampling import (
    SAMPLES_OF_PASS,
    Measurement,
    Room,
    Sample,
    Samples,
    measure,
    timing_of,
)

KIB, MIB = 1 << 10, 1 << 20
OF_FOUR = 3.30682
"""What of Student's distribution with three degrees of freedom is as rare as 2 of the normal one."""


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


@pytest.fixture(autouse=True)
def undisturbed(monkeypatch):
    monkeypatch.setattr(sampling, "_interruptions", lambda: 0)


# ---- figures


def test_a_core_takes_its_shortest_time():
    timing = timing_of([[3.0, 1.0], [1.1, 5.0], [2.0]], shared=False)
    assert (timing.time_s, timing.num_samples) == (1.0, 5)
    assert timing.noise == pytest.approx(0.1), "two of three passes come so near"
    assert timing_of([[1.0], [1.01], [1.3], [1.4]], shared=False).noise == pytest.approx(0.3)


def test_what_is_shared_takes_the_lower_quartile():
    timing = timing_of([[1.0, 2.0, 2.0, 2.0, 2.0]] * 2, shared=True)
    assert timing.time_s == 2.0, "the shortest time is that of a rare moment"
    assert timing.noise == 0


@pytest.mark.parametrize(
    ("groups", "noise"),
    [
        ([[1.0], [1.0], [2.0], [2.0]], OF_FOUR * math.sqrt(1 / 3) / 2 / 1.5),
        ([[1.0], [2.0], [1.0], [2.0]], OF_FOUR * math.sqrt(1 / 3) / 2 / 1.5),  # in which order is of no matter
        ([[1.0], [2.0]] * 50, 2.02557 * math.sqrt(100 / 99 / 4) / 10 / 1.5),  # more passes tell more
        ([[1.0, 4.0], [1.0, 3.0], [1.0, 2.0], [1.0, 9.0]], 0.0),
    ],
)
def test_passes_that_disagree_are_noise(groups, noise):
    assert timing_of(groups, shared=True).noise == pytest.approx(noise, rel=0.01)


def test_noise_is_no_more_than_the_samples_are_apart():
    """Of two passes Student's distribution makes ten times their standard error."""
    assert timing_of([[1.0], [1.02]], shared=True).noise == pytest.approx(0.02)


def test_a_single_pass_is_as_noisy_as_its_samples():
    assert timing_of([[1.0, 1.5, 1.2]], shared=False).noise == pytest.approx(0.2)


@given(
    st.lists(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=5), min_size=1, max_size=6),
    st.booleans(),
)
def test_a_figure_is_one_of_its_samples(groups, shared):
    timing = timing_of(groups, shared=shared)
    assert timing.time_s in list(itertools.chain(*groups))
    assert timing.noise >= 0
    assert timing.is_stable == (timing.noise <= 0.05)


# ---- samples


def test_samples_last_about_as_long_as_asked():
    machine = Machine(2e-9)
    measurement = Measurement("work", machine.run)
    measurement.tune(1e-3)
    assert 0.5e-3 <= measurement.samples.repeats * machine.cost_s <= 4e-3
    assert len(machine.runs) < 20


def test_what_takes_long_is_not_repeated():
    machine = Machine(1.0)
    Measurement("work", machine.run).tune(1e-3)
    assert set(machine.runs) == {1}


def test_an_interruption_makes_no_sample_shorter():
    machine = Machine(2e-9, disturbance=(1.0, 1e7, 1.0, 1e7, 1.0, 1.0))
    measurement = Measurement("work", machine.run)
    measurement.tune(1e-3)
    assert 0.5e-3 <= measurement.samples.repeats * machine.cost_s <= 4e-3


def test_work_is_done_for_a_while_before_it_is_timed():
    machine = Machine(1e-3)
    measurement = Measurement("work", machine.run, warm_s=5e-3)
    measurement.sample()
    assert len(machine.runs) == 5 + SAMPLES_OF_PASS
    assert len(measurement.samples.groups[0]) == SAMPLES_OF_PASS


@pytest.mark.parametrize(
    ("interruptions", "kept"),
    [([0, 1, 1, 1, 1, 1, 1, 1], [2.0, 3.0, 4.0]), ([0, 1, 2, 3, 4, 5, 6, 7], [1.0, 2.0, 3.0, 4.0])],
)
def test_interrupted_samples_are_left_out_where_others_remain(monkeypatch, interruptions, kept):
    counts = iter(interruptions)
    monkeypatch.setattr(sampling, "_interruptions", lambda: next(counts))
    times = iter([1.0, 2.0, 3.0, 4.0])
    measurement = Measurement("work", lambda repeats: (next(times), 1))
    measurement.sample()
    assert measurement.samples.groups == [[Sample(time_s) for time_s in kept]]


# ---- beside a neighbour


class PretendedLoop:
    """Takes so many cycles one after the other; 1 is undisturbed."""

    def __init__(self, *glances):
        self._glances = iter(glances)

    def glance(self):
        return next(self._glances)

    def slowdown(self, cycles):
        return cycles


def samples(*groups, shared=False):
    """Each group of pairs: time, and slowdown of the loop beside."""
    found = [[Sample(*pair) for pair in group] for group in groups]
    return Samples(shared=shared, groups=found, loop=PretendedLoop())


def test_a_sample_is_as_disturbed_as_the_worse_moment_beside_it():
    glances = [1.0, 1.5, 1.2, 1.0, 1.01]
    measurement = Measurement("work", lambda repeats: (2.0, 1))
    measurement.sample(PretendedLoop(*glances))
    assert measurement.samples.groups == [[(2.0, 1.5), (2.0, 1.5), (2.0, 1.2), (2.0, 1.01)]]


def test_undisturbed_samples_are_waited_for_and_the_work_is_not_done_beside_a_neighbour_meanwhile(monkeypatch):
    monkeypatch.setattr(sampling.time, "monotonic", lambda: 0.0)
    glances = [1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.0, 1.0, 1.3, 1.0, 1.0, 1.0, 1.0]
    done = []
    measurement = Measurement("work", lambda repeats: (done.append(1) or 2.0, 1))
    measurement.sample(PretendedLoop(*glances), patience_s=1.0)
    # four disturbed ones; three glances without work; then all but the one before and the one after 1.3 are undisturbed
    beside = [1.5, 1.5, 1.5, 1.5, 1.0, 1.3, 1.0, 1.0, 1.0]
    assert [sample.reference_cycles for sample in measurement.samples.groups[0]] == beside
    assert len(done) == 9


def test_after_a_neighbour_the_work_fetches_its_data_again_before_it_counts(monkeypatch):
    monkeypatch.setattr(sampling.time, "monotonic", lambda: 0.0)
    glances = [1.5, 1.5, 1.5, 1.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    done = []
    measurement = Measurement("work", lambda repeats: (done.append(1) or 2.0, 1), warm_s=1e-9)
    measurement.sample(PretendedLoop(*glances), patience_s=1.0)
    # warm; four of which the last ends undisturbed; once without being timed; four that count
    assert len(done) == 1 + 4 + 1 + 4
    assert [sample.reference_cycles for sample in measurement.samples.groups[0]] == [1.5] * 4 + [1.0] * 4


def test_what_lies_in_a_cache_with_others_is_not_left_alone_for_a_neighbour(monkeypatch):
    """Others would drive it out while it waits; and where it was interrupted it is warmed up as at first."""
    counts = itertools.chain([0, 1], itertools.repeat(1))
    monkeypatch.setattr(sampling, "_interruptions", lambda: next(counts))
    done = []
    shared = sampling.Samples(shared=True)
    measurement = Measurement("work", lambda repeats: (done.append(1) or 2.0, 1), shared, warm_s=6.0)
    measurement.sample(PretendedLoop(*[1.5] * 20), patience_s=1e9)
    # three to warm up; one that is interrupted, three to warm up again, three that count
    assert len(done) == 3 + 1 + 3 + 3
    assert measurement.samples.groups == [[Sample(2.0, 1.5)] * 3]


def test_a_neighbour_that_stays_is_waited_for_no_longer_than_asked(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(sampling.time, "monotonic", lambda: next(clock))
    measurement = Measurement("work", lambda repeats: (2.0, 1))
    measurement.sample(PretendedLoop(*[1.5] * 100), patience_s=50)
    assert len(measurement.samples.groups[0]) == SAMPLES_OF_PASS
    assert 50 <= next(clock) <= 55


def test_undisturbed_samples_alone_count_where_two_groups_have_some():
    found = samples([(3.0, 1.0), (3.5, 1.0), (2.0, 1.5)], [(3.03, 1.0), (9.0, 2.0)], [(1.0, 1.03), (8.0, 1.5)])
    assert found.timing == sampling.Timing(3.0, pytest.approx(0.01), 3)
    assert found.timing.is_stable


def test_a_figure_beside_a_neighbour_may_be_off_by_as_much_as_the_loop_was():
    steady = samples([(3.0, 1.4), (3.1, 1.3)], [(3.0, 1.5), (3.0, 1.6)]).timing
    assert steady == sampling.Timing(3.0, pytest.approx(0.5), 4, disturbed=True), "the third of the least disturbed"
    wild = samples([(3.0, 1.4)], [(6.0, 1.06)]).timing
    assert (wild.time_s, wild.noise, wild.disturbed) == (3.0, 1.0, True)


def test_one_undisturbed_group_is_the_figure_but_does_not_tell_its_noise():
    found = samples([(3.0, 1.0), (2.9, 1.3)], [(3.6, 1.2), (4.0, 1.2)], [(3.6, 1.2), (4.0, 1.2)]).timing
    assert (found.time_s, found.disturbed) == (3.0, True)
    assert found.noise == pytest.approx(3.6 / 2.9 - 1)
    found = samples([(3.0, 1.0), (3.0, 1.3)], [(3.0, 1.4), (3.0, 1.5)]).timing
    assert (found.time_s, found.noise) == (3.0, pytest.approx(0.4)), "it may be undisturbed by mistake"


@given(st.lists(st.lists(st.tuples(st.floats(1e-9, 1.0), st.floats(1.0, 3.0)), min_size=1, max_size=4), min_size=1))
def test_what_was_disturbed_is_told_and_counts_as_noise(groups):
    found = samples(*groups)
    timing = found.timing
    assert timing.time_s in [time_s for group in groups for time_s, _ in group]
    if not any(slowdown < 1.02 for group in groups for _, slowdown in group):
        assert timing.disturbed
        assert timing.noise >= 0.02 - 1e-9


def test_interruptions_are_counted():
    assert sampling.resource.getrusage(sampling.resource.RUSAGE_SELF).ru_nivcsw >= 0


@pytest.mark.parametrize(
    ("size_bytes", "shared", "warm_s"),
    [
        (KIB, False, 0.002),
        (256 * KIB, False, 0.002),
        (257 * KIB, True, 0.02),
        (64 * MIB, True, 0.02),
        (65 * MIB, True, 0),
    ],
)
def test_what_lies_in_a_shared_cache_is_warmed_up_for_longer(size_bytes, shared, warm_s):
    measurement = Room.of([32 * KIB, 512 * KIB, 32 * MIB]).measurement("x", Machine(1.0).run, size_bytes)
    assert (measurement.samples.shared, measurement.warm_s) == (shared, warm_s)


def test_translation_of_scattered_accesses_is_warmed_up_beyond_caches():
    room = Room.of([32 * KIB, 512 * KIB, 32 * MIB])
    fetch = Machine(1.0).run
    far = room.measurement("x", Machine(1.0).run, 65 * MIB, warm_s=5.0, fetch=fetch, scattered=True)
    assert (far.warm_s, far.fetch) == (0.02, None)
    near = room.measurement("x", Machine(1.0).run, MIB, warm_s=5.0, fetch=fetch, scattered=True)
    assert (near.warm_s, near.fetch) == (5.0, fetch)


def test_what_something_fetches_need_not_be_warmed_up_longer_than_asked():
    room = Room.of([32 * KIB, 512 * KIB, 32 * MIB])
    fetched = room.measurement("x", Machine(1.0).run, MIB, warm_s=0.001, fetch=Machine(1.0).run)
    assert fetched.warm_s == 0.001


def test_data_is_fetched_into_a_shared_cache_before_slow_work_begins():
    done = []

    def of(name, seconds):
        return lambda repeats: (done.append(name) or seconds, 1)

    shared = Samples(shared=True)
    Measurement("work", of("work", 0.5), shared, warm_s=1.0, fetch=of("fetch", 0.01)).sample()
    assert "".join(name[0] for name in done) == "ff" + "ww" + "w" * SAMPLES_OF_PASS
    done.clear()
    Measurement("work", of("work", 0.5), Samples(), warm_s=1.0, fetch=of("fetch", 0.01)).sample()
    assert "fetch" not in done, "a cache of its own nobody else fills"


def test_fixed_work_is_not_tuned():
    done = []
    measurement = Measurement("work", lambda repeats: (done.append(repeats) or 1e-9, 1), is_fixed=True)
    sampling.measure_once([measurement], sample_s=1.0)
    assert done == [1] * SAMPLES_OF_PASS


def test_room_without_known_caches_is_that_of_usual_ones():
    assert Room.of([]) == Room(512 * KIB, 64 * MIB)
    assert Room.of([64 * KIB]) == Room(64 * KIB, 128 * KIB)


# ---- passes


def test_a_quiet_machine_is_measured_exactly():
    machine = Machine(2e-9)
    measurement = Measurement("work", machine.run)
    measure([measurement], sample_s=1e-3, passes=3, budget_s=10.0, clock=machine.clock)
    assert measurement.timing.time_s == pytest.approx(2e-9)
    assert measurement.timing.is_stable
    assert measurement.timing.num_samples == 3 * SAMPLES_OF_PASS, "stable, so not repeated further"


def test_what_is_unstable_is_repeated_until_it_is_stable():
    machine = Machine(1e-6, disturbance=(*[3.0] * 13, *[1.0] * 40))
    measurement = Measurement("work", machine.run)
    measure([measurement], sample_s=1e-4, passes=3, budget_s=10.0, clock=machine.clock)
    assert measurement.timing.is_stable
    assert measurement.timing.time_s == pytest.approx(1e-6)


def test_time_runs_out_for_what_never_settles():
    faster_each_time = (1.1**-k for k in itertools.count())
    measurement = Measurement("work", lambda repeats: (next(faster_each_time), 1))
    ticks = itertools.count()
    measure([measurement], sample_s=0.0, passes=3, budget_s=50, clock=lambda: next(ticks))
    assert not measurement.timing.is_stable
    assert 3 < len(measurement.samples.groups) <= 53


def test_a_slow_machine_makes_two_passes():
    machine = Machine(100.0)
    measurement = Measurement("work", machine.run)
    measure([measurement], sample_s=1e-3, passes=5, budget_s=1.0, clock=machine.clock)
    assert len(measurement.samples.groups) == 2


def test_each_pass_measures_all():
    order = []
    measurements = [Measurement(name, lambda repeats, name=name: (order.append(name), (1.0, 1))[1]) for name in "abc"]
    measure(measurements, sample_s=1e-3, passes=3, budget_s=1e9)
    assert "".join(order) == "aaaaaaabbbbbbbccccccc" + 2 * "aaaabbbbcccc", "thrice to choose how much to do"


def test_a_reference_is_sampled_as_long_as_any():
    steady, wild = Machine(1e-6), Machine(1e-6, disturbance=(*[3.0] * 9, *[1.0] * 40))
    reference = Measurement("clock", steady.run, Samples(), reference=True)
    measurement = Measurement("work", wild.run)
    measure([reference, measurement], sample_s=1e-4, passes=2, budget_s=10.0, clock=lambda: steady.now + wild.now)
    assert len(reference.samples.groups) == len(measurement.samples.groups) > 2


def test_progress_goes_from_nothing_to_all():
    machine = Machine(1e-6, disturbance=(3.0, 2.0, 2.5, 1.7, 1.0))
    seen = []
    measure(
        [Measurement("work", machine.run)],
        sample_s=1e-4,
        passes=5,
        budget_s=10.0,
        progress=seen.append,
        clock=machine.clock,
    )
    assert seen == sorted(seen)
    assert 0 <= seen[0] < 0.5
    assert seen[-1] == 1.0
