"""The threaded programs: they build, and their results do not depend on the number of threads; ranks of speed-ups."""

import subprocess

import pytest

from foretrace.benchmarks.harness.threaded import PASSIVE, command_of, threaded_programs
from foretrace.benchmarks.validation.speedup import (
    Predicted,
    Speedup,
    compared,
    mean_error,
    pairs_in_order,
    said_of,
)


@pytest.mark.parametrize("name", threaded_programs())
def test_the_result_does_not_depend_on_the_number_of_threads(name, programs_directory):
    command = command_of(name, programs_directory / "threaded")
    results = [
        subprocess.run([*command, str(threads)], capture_output=True, text=True, env=PASSIVE, check=True)
        for threads in (1, 2, 3)
    ]
    shown = [result.stdout.strip() for result in results]
    assert shown[0]
    if "." in shown[0]:  # sums of floating-point numbers, in another order
        assert [float(one) for one in shown] == pytest.approx([float(shown[0])] * 3, rel=1e-6)
    else:
        assert shown == [shown[0]] * 3


@pytest.mark.parametrize("threads", ["0", "two", "65"])
def test_bad_numbers_of_threads(threads, programs_directory):
    for name in ("triangle", "heat_team", "array_tasks", "number_tasks"):
        command = command_of(name, programs_directory / "threaded")
        result = subprocess.run([*command, threads], capture_output=True, text=True)
        assert result.returncode == 2
        assert result.stderr.startswith("usage:")


def row(name, predicted, measured, from_one=None):
    of_one = Predicted(1.0, None if from_one is None else 1.0 / from_one)
    return Speedup(name, of_one, Predicted(1.0, 1.0 / predicted), 2.0, 2.0 / measured)


def test_pairs_that_tie_are_not_ranked():
    rows = [
        row(name, predicted, measured)
        for name, predicted, measured in (("a", 2.0, 1.98), ("b", 1.9, 1.99), ("c", 1.5, 1.4), ("d", 1.4, 1.6))
    ]
    assert pairs_in_order(rows) == (4, 5)
    assert rows[2].error == pytest.approx(1.5 / 1.4 - 1)


def test_errors_of_both_traces():
    one = row("a", 1.5, 1.8, from_one=2.0)
    assert one.error == pytest.approx(1.5 / 1.8 - 1)
    assert one.error_from_one == pytest.approx(2.0 / 1.8 - 1)
    assert one.one_from_two == pytest.approx(1.0 / 2.0 - 1), "seconds with one thread, from the trace with two"
    assert one.two_from_one == pytest.approx(0.5 / (2.0 / 1.8) - 1)
    assert mean_error([one, row("b", 1.8, 1.8)]) == pytest.approx(abs(one.error) / 2)
    assert "2 programs: mean absolute error of the speed-up 8.3%" in said_of([one, row("b", 1.8, 1.8)])


def test_programs_without_a_second_core_are_not_compared():
    lost = Speedup("a", Predicted(1.0, None), Predicted(1.0, 0.5), None, None, "others had 50% of the cores")
    assert (lost.measured, lost.error, lost.one_from_two) == (None, None, None)
    assert compared([lost]) == ()
    assert mean_error([lost]) is None
    assert pairs_in_order([lost, row("b", 1.8, 1.8)]) == (0, 0)
