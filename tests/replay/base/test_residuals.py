"""The interval from residuals of held-back programs: what split conformal prediction promises, and the table."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrace.benchmarks.harness.suite import HELD_BACK
from foretrace.benchmarks.validation.validation_file import find_validation
from foretrace.replay.base import residuals
from foretrace.replay.base.interval import combined, model_error
from foretrace.replay.base.records import ErrorPart
from foretrace.replay.base.residuals import (
    COVERAGE,
    Residual,
    conformal_quantile,
    format_residuals,
    model_range,
    read_residuals,
    share_inside,
)


def test_the_quantile_is_one_rank_higher_than_that_of_a_sample():
    scores = [float(n) for n in range(1, 20)]
    assert conformal_quantile(scores, 0.95) == 19, "20 x 0.95"
    assert conformal_quantile(scores, 0.9) == 18
    assert conformal_quantile(scores[:18], 0.95) == 18, "the largest, where 19 of 18 would be needed"
    assert conformal_quantile([*scores, 20.0], 0.95) == 20, "ceil of 19.95"
    with pytest.raises(ValueError, match="no scores"):
        conformal_quantile([], 0.95)


@given(st.lists(st.floats(0, 10), min_size=11, max_size=60), st.sampled_from([0.5, 0.8, 0.9]))
def test_a_score_left_out_lies_below_the_others_quantile_as_often_as_promised(scores, level):
    """Whichever of n + 1 scores is the new one: of all choices at least the share `level` is inside."""
    inside = sum(one <= conformal_quantile(scores[:i] + scores[i + 1 :], level) for i, one in enumerate(scores))
    assert inside >= level * len(scores) - 1e-9


factors = st.floats(1.0, 4.0)


@given(st.floats(0.2, 5.0), factors, factors, factors, factors)
def test_a_time_is_inside_together_with_the_other_sources_where_its_score_is_in_the_models_range(m, low, high, a, b):
    one = Residual("m", "p", m, 1.0, 1 / low, high)
    others, model = ErrorPart("others", 1 / low, high), ErrorPart("model", 1 / a, b)
    least, most = combined([others, model])
    inside = one.below <= math.log(a) and one.above <= math.log(b)
    assert inside == (least <= m <= most) or math.isclose(m, least, rel_tol=1e-9) or math.isclose(m, most, rel_tol=1e-9)


def rows(*errors, **other):
    return [Residual("m", f"p{n}", math.exp(error), 1.0, 1.0, 1.0) for n, error in enumerate(errors)]


def test_each_end_has_its_own_quantile():
    low, high = model_range(rows(*[-0.1] * 10, *[0.3] * 10))
    assert (math.log(low), math.log(high)) == (pytest.approx(-0.1), pytest.approx(0.3))
    wide = [Residual("m", "p", 1.2, 1.0, 0.5, 1.5)] * 20
    assert model_range(wide) == (1.0, 1.0), "what other sources explain is not counted again"


def test_programs_are_left_out_whole():
    errors = rows(*[0.1] * 19, 0.5)
    again = [*errors, Residual("n", "p19", math.exp(0.5), 1.0, 1.0, 1.0)]
    assert share_inside(errors) == pytest.approx(19 / 20)
    assert share_inside(again) == pytest.approx(19 / 21), "its time on another machine does not vouch for it"


def test_a_table_comes_back_as_it_was_written():
    found = [Residual("m", "b", 0.123, 0.2, 0.9, 1.5), Residual("m", "a", 1.0, 2.0, 1.0, 1.0)]
    text = format_residuals(found, "what\nit is")
    assert text.startswith("# what\n# it is\nmachine,program,")
    assert read_residuals(text) == (found[1], found[0])


def test_the_table_holds_held_back_programs_as_they_were_measured():
    found = read_residuals(residuals.TABLE.read_text())
    assert {one.program for one in found} <= HELD_BACK
    for label in {one.machine for one in found}:
        measured = find_validation(label).programs
        own = [one for one in found if one.machine == label]
        assert {one.program for one in own} <= set(measured)
        for one in own:
            assert one.measured_s == pytest.approx(measured[one.program].measured.time_s, rel=1e-4)


def test_predictions_take_their_range_from_the_table():
    found = read_residuals(residuals.TABLE.read_text())
    low, high = model_range(found)
    part = model_error(1.0)
    assert (part.low, part.high) == (low, high)
    assert (model_error(0.5).low, model_error(0.5).high) == (
        pytest.approx((1 + low) / 2),
        pytest.approx((1 + high) / 2),
    )
    inside = sum(one.below <= -math.log(low) and one.above <= math.log(high) for one in found)
    assert inside >= COVERAGE * len(found) - 1
