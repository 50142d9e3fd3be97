"""A figure with a range: given with its noise, or assumed as declared and noted in one sentence."""

from __future__ import annotations

from math import inf

import pytest
from msgspec import structs

from foretrace.profiles.accelerator import AcceleratorTable
from foretrace.profiles.figure import CoreClass
from foretrace.profiles.library import find
from foretrace.profiles.ranges import (
    MOST_NOISE,
    Assumption,
    Assumptions,
    Range,
    core_figure,
    default_of,
    measured,
    noise_of,
    not_given,
)

LATENCY = Range(1.0, 2.0, 8.0)


def test_an_assumed_figure_is_noted_once_with_its_range() -> None:
    assumed = Assumptions()
    assert assumed.figure("latency_s", not_given("2 s"), LATENCY) == LATENCY
    assert assumed.figure("latency_s", "said twice", Range.exactly(3.0)) == Range.exactly(3.0)
    assumed.note("kinds", "as others")
    assert [(str(one), one.range) for one in assumed.listed] == [
        ("latency_s: not in the profile, 2 s assumed", LATENCY),
        ("kinds: as others", None),
    ]


def test_a_settled_figure_is_exactly_as_typical_and_still_noted() -> None:
    assumed = Assumptions({"latency_s"})
    assert assumed.figure("latency_s", "2 s assumed", LATENCY) == (2.0, 2.0, 2.0)
    assert assumed.figure("other_s", "2 s assumed", LATENCY) == LATENCY
    assert assumed.listed == (Assumption("latency_s", "2 s assumed"), Assumption("other_s", "2 s assumed"))
    assert assumed.listed[0].range == LATENCY


@pytest.mark.parametrize(
    ("values", "factor"), [((1, 2, 8), 8.0), ((8, 2, 1), 8.0), ((3, 3, 3), 1.0), ((inf, inf, 4), inf), ((0, 0, 2), inf)]
)
def test_the_factor_of_a_range_is_its_larger_end_over_the_smaller(values: tuple[float, ...], factor: float) -> None:
    assert Range(*values).factor == factor


def test_noise_widens_towards_both_ends_and_no_further_than_its_bound() -> None:
    assert measured(4.0, 0.25, more_is_faster=False) == (3.2, 4.0, 5.0)
    assert measured(4.0, 0.25, more_is_faster=True) == (5.0, 4.0, 3.2)
    assert noise_of({"a": 0.1, "b": 3.0}, "a") == 0.1
    assert noise_of({"a": 0.1, "b": 3.0}, "b") == MOST_NOISE
    assert noise_of(None, "a") == 0.0


def test_a_figure_of_the_core_is_as_given_or_as_declared() -> None:
    profile, assumed = find("xeon-e5-2420"), Assumptions()
    assert profile.core is not None
    given = structs.replace(profile, core=structs.replace(profile.core, thread_wake_call_s=5e-6))
    assert core_figure(given, "thread_wake_call_s", assumed) == Range.exactly(5e-6)
    assert not assumed.listed
    assert core_figure(profile, "thread_wake_call_s", assumed) == (1e-6, 3e-6, 10e-6)
    assert [one.text for one in assumed.listed] == [
        "the system call that wakes a thread, to the one that calls: not in the profile, 3 µs (1 µs to 10 µs) assumed"
    ]


def test_a_default_counts_whose_base_is_known() -> None:
    core = CoreClass()
    assert (
        default_of(AcceleratorTable, "l2_bytes_per_s", core, bases=("memory_bytes_per_s",)).of == "memory_bytes_per_s"
    )
    known = ("l2_peak_bytes_per_s", "memory_bytes_per_s")
    assert default_of(AcceleratorTable, "l2_bytes_per_s", core, bases=known).of == "l2_peak_bytes_per_s"
    with pytest.raises(LookupError, match=r"AcceleratorTable\.l2_bytes_per_s: no default"):
        default_of(AcceleratorTable, "l2_bytes_per_s", core, bases=())
