"""Native runs beside a reference loop: which count, what they tell of a run alone, and the loop itself."""

import os
import statistics
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrace.base.neighbours import DISTURBED, Alone, LoopSample, alone
from foretrace.benchmarks.harness import reference_loop, tools
from foretrace.benchmarks.harness.native_runs import Measured, Run, Timed, measure_in_rounds, summarise
from foretrace.benchmarks.harness.reference_loop import ReferenceLoop
from foretrace.profiles.library import find

QUIET, BESIDE = 1.01, 1.5
CLOCK_HZ = 3e9


def runs(*pairs):
    """`pairs`: processor time, and slowdown of the loop beside."""
    return [Run(tools.Cost(cpu_s + 1, cpu_s, 0.25), slowdown, CLOCK_HZ) for cpu_s, slowdown in pairs]


def test_the_least_processor_time_counts_and_the_start_is_taken_off():
    costs = [tools.Cost(9.0, 3.0, 0.5), tools.Cost(5.0, 4.0, 0.1), tools.Cost(6.0, 3.5, 0.2)]
    found = [Run(cost, 1.0, clock_hz) for cost, clock_hz in zip(costs, (4e9, 3e9, 3.5e9), strict=True)]
    assert summarise(found, []) == Measured(3.0, pytest.approx(0.5 / 3), 5.0, 0.5, 3, 3, clock_hz=4e9)
    starts = [Run(tools.Cost(2.0, 1.0, 0.25), 1.0, 2e9), Run(tools.Cost(1.5, 1.25, 0.3), 1.0, 2e9)]
    assert summarise(found, starts) == Measured(2.0, pytest.approx(0.25), 3.5, 0.25, 3, 3, clock_hz=4e9)


def test_the_clock_is_that_of_the_time_which_counts():
    measured = summarise(runs((2.0, BESIDE)), [])
    assert measured.time_clock_hz == CLOCK_HZ


def test_runs_beside_a_neighbour_do_not_count_where_there_are_others():
    found = summarise(runs((4.0, BESIDE), (3.0, QUIET), (3.3, QUIET), (2.9, BESIDE)), runs((1.0, QUIET), (0.5, BESIDE)))
    assert (found.shortest_s, found.runs, found.undisturbed_runs) == (2.0, 4, 2)
    assert found.spread == pytest.approx(0.15 / 2)
    assert found.reference_slowdown == QUIET
    beside = summarise(runs((4.0, 1.7), (3.0, 1.4)), [])
    assert (beside.shortest_s, beside.undisturbed_runs, beside.reference_slowdown) == (3.0, 0, 1.4)


def test_a_straight_line_tells_of_a_run_alone():
    line = [(slowdown, 2.0 + 0.5 * (slowdown - 1)) for slowdown in (1.2, 1.4, 1.5, 1.8, 2.0)]
    assert alone(line) == Alone(pytest.approx(2.0), pytest.approx(0, abs=1e-6))
    assert summarise(runs(*((t, s) for s, t in line)), []).alone.time_s == pytest.approx(2.0)
    with_start = summarise(runs(*((t + 1, s) for s, t in line)), runs((1.0, QUIET)))
    assert with_start.alone.time_s == pytest.approx(2.0)


def test_a_run_alone_takes_no_longer_than_the_shortest_beside_a_neighbour():
    falling = [(1.1, 2.3), (1.2, 2.25), (1.3, 2.3), (1.4, 2.2), (1.5, 2.22)]
    found = alone(falling)
    assert found.time_s == 2.2, "more of a neighbour makes nothing faster"
    assert found.error_s > 0


def test_few_or_like_runs_tell_nothing_of_one_alone():
    assert alone([(1.1, 1.0), (1.2, 1.1), (1.3, 1.2), (1.4, 1.3)]) is None
    assert alone([(1.1, 1.0)] * 5) is None


def test_a_line_that_is_uncertain_tells_nothing_of_a_run_alone():
    assert alone([(1.5, 1.0), (1.6, 1.4), (1.7, 1.1), (1.8, 1.5), (1.9, 1.3)]) is None
    assert alone([(1.5, 0.5), (1.6, 0.9), (1.7, 1.3), (1.8, 1.7), (1.9, 2.1)]) is None, (
        "it would take less than no time"
    )


@given(st.lists(st.tuples(st.floats(1, 3), st.floats(0.01, 10)), min_size=5, max_size=15))
def test_a_time_alone_is_a_number_at_most_the_shortest(pairs):
    found = alone(pairs)
    if found is not None:
        assert found.time_s <= min(time_s for _, time_s in pairs)
        assert 0 <= found.error_s <= 0.1 * found.time_s


def test_the_standard_error_is_that_of_a_line_read_at_1():
    slowdowns, noise = [1.1, 1.3, 1.5, 1.7, 1.9, 2.1], [0.01, -0.02, 0.01, 0.02, -0.03, 0.01]
    pairs = [(s, 1 + 0.5 * s + e) for s, e in zip(slowdowns, noise, strict=True)]
    slope, zero = statistics.linear_regression(*zip(*pairs, strict=True))
    residual = sum((t - zero - slope * s) ** 2 for s, t in pairs) / 4
    # Draper and Smith, Applied Regression Analysis, section 1.4: variance of a predicted mean
    mean = statistics.fmean(slowdowns)
    expected = residual * (1 / 6 + (1 - mean) ** 2 / sum((s - mean) ** 2 for s in slowdowns))
    assert alone(pairs).error_s == pytest.approx(2 * expected**0.5)


class PretendedLoop:
    """Beside the runs of these numbers it takes so many cycles; an instruction takes one undisturbed."""

    def __init__(self, *slowdowns):
        self._slowdowns = iter(slowdowns)

    def beside(self):
        return self

    def __enter__(self):
        cycles = next(self._slowdowns)
        return [LoopSample(cycles, 2e9), LoopSample(cycles, CLOCK_HZ), LoopSample(cycles, CLOCK_HZ)]

    def __exit__(self, *_):
        return None

    def slowdown(self, cycles):
        return cycles


def rounds(monkeypatch, programs, runs, *slowdowns):
    done = []
    monkeypatch.setattr(tools, "measure", lambda command: done.append(command[0]) or tools.Cost(1.0, 1.0, 0.0))
    found = measure_in_rounds(programs, runs, PretendedLoop(*slowdowns), lambda text: None)
    return "".join(done), found


def test_programs_take_turns_and_stop_when_enough_runs_were_undisturbed(monkeypatch):
    programs = [Timed("a", ("a",)), Timed("b", ("b",))]
    # a is undisturbed at once, b beside its second, fourth and fifth run
    beside = [QUIET, BESIDE, QUIET, QUIET, QUIET, BESIDE, QUIET, QUIET]
    done, found = rounds(monkeypatch, programs, 3, *beside)
    assert done == "ababab" + "bb"
    assert (found["a"].undisturbed_runs, found["b"].undisturbed_runs) == (3, 3)
    assert found["a"].clock_hz == CLOCK_HZ, "the median of three"


def test_a_neighbour_that_stays_is_not_waited_for_for_ever(monkeypatch):
    done, found = rounds(monkeypatch, [Timed("a", ("a",))], 2, *[BESIDE] * 6)
    assert done == "a" * 6
    assert (found["a"].runs, found["a"].undisturbed_runs) == (6, 0)


def test_the_start_of_python_is_measured_in_the_same_rounds(monkeypatch):
    done, found = rounds(monkeypatch, [Timed("a", ("a",), ("s",))], 1, QUIET, QUIET)
    assert done == "as"
    assert found["a"].shortest_s == found["a"].spread == 0, "it took no longer than the start"


# ---- the loop


def test_what_the_loop_takes_undisturbed_comes_from_a_measured_profile_or_from_what_was_seen():
    known = 1 / find("epyc-milan-vm").core.issue_width_instructions_per_cycle
    loop = ReferenceLoop.of(find("epyc-milan-vm"))
    assert loop.least_cycles == known
    assert loop.slowdown(known * 1.5) == pytest.approx(1.5)
    assert loop.slowdown(known * 0.9) == 1.0
    published = ReferenceLoop.of(find("jaguar-xt4"))
    assert published.least_cycles == float("inf")
    published.learn()
    least = published.least_cycles
    assert 0 < least < 2, "cycles of an instruction of which several are issued at once"
    assert published.slowdown(1.5 * least) == pytest.approx(1.5)


class PretendedKernels:
    """Of each kernel the nanoseconds that its runs take, one after the other; 100 instructions each."""

    def __init__(self, **times):
        self._times = {kernel: iter(nanoseconds) for kernel, nanoseconds in times.items()}

    def run(self, kernel, repeats):
        return next(self._times[kernel]) * 1e-9, 100, 0


def pretended(monkeypatch, *, issue, chain, processor=()):
    """A loop whose undisturbed time is taken to be a cycle, and whose kernels take these times from now on."""
    loop = ReferenceLoop(1.0)
    monkeypatch.setattr(reference_loop, "_kernels", PretendedKernels(issue=issue, int_add_64x1_chain=chain))
    clock = iter(processor)
    monkeypatch.setattr(reference_loop.time, "thread_time", lambda: next(clock, 0.0))
    return loop


def test_what_the_loop_takes_undisturbed_is_learnt_from_real_time(monkeypatch):
    """The processor's time of a sample may lack what the hypervisor took from others."""
    loop = pretended(monkeypatch, issue=[50.0], chain=[100.0, 100.0], processor=[0.0, 30e-9])
    assert loop.sample() == LoopSample(pytest.approx(0.3), pytest.approx(1e9))
    assert loop.least_cycles == pytest.approx(0.5, rel=0.003)
    assert loop.slowdown(0.3) == 1.0


def test_a_slower_clock_is_no_neighbour(monkeypatch):
    loop = pretended(monkeypatch, issue=[50.0, 60.0, 75.0], chain=[100.0, 100.0, 120.0, 120.0, 100.0, 100.0])
    assert [loop.slowdown(loop.glance()) for _ in range(3)] == pytest.approx([1.0, 1.0, 1.5], rel=0.003)


def test_the_clock_beside_a_sample_is_that_of_both_chains(monkeypatch):
    loop = pretended(monkeypatch, issue=[50.0], chain=[20.0, 30.0])
    assert loop.sample().clock_hz == pytest.approx(4e9)


def test_nothing_is_learnt_beside_a_chain_that_was_interrupted(monkeypatch):
    loop = pretended(monkeypatch, issue=[50.0, 25.0], chain=[100.0, 100.0, 300.0, 100.0])
    assert [loop.glance() for _ in range(2)] == pytest.approx([0.5, 0.25])
    assert loop.least_cycles == pytest.approx(0.5, rel=0.003)


def test_a_few_that_look_too_short_are_not_the_least(monkeypatch):
    """Both chains of a run were interrupted for as long."""
    loop = pretended(monkeypatch, issue=[50.0] * 1000, chain=[100.0] * 1998 + [300.0] * 2)
    assert [loop.glance() for _ in range(1000)][-1] == pytest.approx(50 / 300)
    assert loop.least_cycles == pytest.approx(0.5, rel=0.003)


def test_the_loop_is_sampled_before_during_and_after_what_it_is_beside():
    loop = ReferenceLoop()
    with loop.beside() as samples:
        while len(samples) < 3:  # before, and twice meanwhile
            os.sched_yield()
        assert len(samples) >= 3
    assert len(samples) >= 4
    assert all(sample.cycles > 0 and 1e7 < sample.clock_hz < 1e10 for sample in samples)


def test_the_loop_goes_after_what_it_is_beside():
    loop = ReferenceLoop()
    allowed = os.sched_getaffinity(0)
    seen = []

    def cpu():
        seen.append(os.sched_getaffinity(0))
        return max(allowed) if len(seen) > 2 else None

    with loop.beside(cpu) as samples:
        assert samples == [], "it is nowhere yet"
        while len(seen) < 5:
            os.sched_yield()
    assert seen[:2] == [allowed] * 2
    assert seen[4] == {max(allowed)}
    assert len(samples) >= 2
    assert os.sched_getaffinity(0) == allowed, "only the loop's thread goes there"


def test_a_core_that_may_not_be_used_tells_nothing():
    loop = ReferenceLoop()
    calls = []
    with loop.beside(lambda: calls.append(1) or 1 << 14) as samples:
        while len(calls) < 3:
            os.sched_yield()
    assert samples == []


def test_a_failing_program_leaves_no_thread_behind():
    loop = ReferenceLoop()
    before = threading.active_count()
    with pytest.raises(RuntimeError), loop.beside():
        raise RuntimeError
    assert threading.active_count() == before


def test_a_slowdown_just_below_the_limit_is_no_neighbour():
    assert Run(tools.Cost(1, 1), DISTURBED - 0.001, CLOCK_HZ).is_undisturbed
    assert not Run(tools.Cost(1, 1), DISTURBED, CLOCK_HZ).is_undisturbed
