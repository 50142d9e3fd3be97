"""Which work is proportional to an event: hand-made series, and a slow reference of the comparison of stretches."""

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.replay.events.proportions import LEAST_REPEATS, MOST_OPEN, TOLERANCE, proportions

SAMPLES = 200


def one(work, values, start=0.0):
    """A node that has done `work` by each sample: its proportions, as floats."""
    found = proportions(np.asarray(values, float), start, np.rint(np.asarray(work)).astype(np.int64)[:, None])
    return {name: float(getattr(found, name)[0]) for name in found.__dataclass_fields__}


def linear(n=SAMPLES):
    return np.linspace(1 / n, 1, n)


def test_work_that_keeps_pace_is_proportional():
    found = one(1e6 * linear(), 100 * linear())
    assert found["proportional"] == 1
    assert found["unrecognised"] == 0
    assert found["deviation"] <= TOLERANCE
    assert found["least"] <= 1 <= found["most"] < 1.02


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_work_before_and_after_is_fixed(share):
    during = linear()
    values = np.concatenate([np.zeros(50), 100 * during, np.full(50, 100.0)])
    before = np.linspace(0, 1, 50) * (1 - share) / 2
    work = np.concatenate([before, before[-1] + share * during, before[-1] + share + before])
    found = one(1e6 * work, values)
    assert found["proportional"] == pytest.approx(share, abs=0.01)
    assert found["least"] - 1e-9 <= share <= found["most"] + 1e-9
    assert found["unrecognised"] == 0


def test_work_at_other_times_is_fixed():
    values = np.concatenate([np.zeros(50), 100 * linear(), np.full(50, 100.0)])
    work = np.concatenate([np.linspace(1, 50, 50), np.full(SAMPLES, 50), np.linspace(51, 100, 50)])
    found = one(1000 * work, values)
    assert found["proportional"] == found["unrecognised"] == 0
    assert np.isnan(found["deviation"])


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(lambda x: x**2, id="grows"),
        pytest.param(lambda x: np.sqrt(x), id="becomes less"),
        pytest.param(lambda x: np.minimum(2 * x, 1), id="first half only"),
        pytest.param(lambda x: np.clip(4 * x - 2, 0, 1), id="once in the middle"),
        pytest.param(lambda x: x * np.log1p(50 * x) / np.log1p(50), id="x log x"),
        pytest.param(lambda x: (x > 0.3) * 1.0, id="at one moment"),
    ],
)
def test_other_work_is_not_recognised(shape):
    found = one(1e6 * shape(linear()), 100 * linear())
    assert found["proportional"] == 0
    assert found["unrecognised"] > 0.95
    assert found["stretch"] == 0


@pytest.mark.parametrize("cycles", [3, 4, 5.5, 10])
def test_work_that_repeats_is_proportional_by_its_stretch(cycles):
    """A solver that restarts: the work of an iteration grows until it does."""
    x = linear()
    whole, rest = np.divmod(cycles * x, 1)
    found = one(1e6 * (whole + rest**2) / cycles, 90 * x)
    assert found["unrecognised"] == 0
    assert found["stretch"] == pytest.approx(90 / cycles, rel=0.05)
    assert found["least"] <= 1 <= found["most"]


def test_work_that_comes_at_once_repeats():
    """A solver that does some work each time that it restarts."""
    found = one(1e6 * np.floor(linear() * 5) / 5, 100 * linear())
    assert found["stretch"] == pytest.approx(20, rel=0.05)
    assert found["least"] <= 1 <= found["most"]


def test_what_no_sample_shows_is_not_recognised():
    """Most of the event was counted between two samples: what ran when is not known."""
    values = np.array([1, 2, 3, 4, 5, 6, 7, 8, 50, 51, 52, 53])
    found = one(1e6 * values, values)
    assert found["proportional"] == 0
    assert found["unrecognised"] > 0.9


def test_the_start_of_an_event_counts_for_nothing():
    assert one(1e6 * linear(), 1000 + 100 * linear(), 1000.0)["proportional"] == 1


def test_nodes_are_judged_one_by_one():
    x, values = linear(), 100 * linear()
    work = [1e6 * x, 1e6 * x**2, np.full(SAMPLES, 7.0), np.zeros(SAMPLES)] * 100
    found = proportions(values, 0.0, np.rint(np.array(work).T).astype(np.int64))
    for place, row in enumerate(work):
        for name, value in one(row, values).items():
            np.testing.assert_equal(getattr(found, name)[place], value)


def reference(values, work):
    """The shortest stretch for which equal stretches may have equal work, one pair after the other; 0: none.

    A stretch has at least what lies between the samples just inside of it, and at most what lies between those outside.
    """
    changes = [i for i in range(len(values)) if values[i] > (values[i - 1] if i else 0)]
    unit = min(values[i] - (values[i - 1] if i else 0) for i in changes)
    begin, end = values[changes[0]], values[changes[-2]]
    points = round((end - begin) / unit)

    def first_at(value):
        return next(i for i in range(len(values)) if values[i] >= value)

    base = work[first_at(begin)]
    during = work[first_at(end)] - base
    if during <= 0:
        return 0.0
    moments = [first_at(begin + k * unit) for k in range(points + 1)]
    high = [(work[i] - base) / during for i in moments]
    low = [((work[i - 1] if i else 0) - base) / during for i in moments]
    if sum(h - g for g, h in zip(low, high, strict=True)) / (points + 1) > MOST_OPEN:
        return 0.0

    def may_be_same(width):
        least = max(low[k + width] - high[k] for k in range(points + 1 - width))
        most = min(high[k + width] - low[k] for k in range(points + 1 - width))
        return least - most <= TOLERANCE

    run = points + 2
    for width in range(1, run // LEAST_REPEATS + 1):
        if all(may_be_same(m) for m in range(width, min(2 * run // LEAST_REPEATS, points) + 1, width)):
            return width * unit
    return 0.0


@settings(max_examples=examples(300))
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), min_size=14, max_size=60))
def test_as_the_reference(steps):
    values = np.cumsum([1.0, *(float(rise) for rise, _ in steps), 1.0])
    work = np.cumsum([1, *(executions for _, executions in steps), 1])
    if np.count_nonzero(np.diff(values)) < 10:
        return
    found = one(work, values)
    assert found["stretch"] == pytest.approx(reference(values.tolist(), work.tolist()))
    assert 0 <= found["proportional"] <= 1
    assert 0 <= found["unrecognised"] <= 1
    assert found["least"] <= found["proportional"] <= max(found["most"], 1)
    assert found["stretch"] > 0 or found["proportional"] == 0
