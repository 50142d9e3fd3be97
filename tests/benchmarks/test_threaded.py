"""The threaded programs: they build, and their results do not depend on the number of threads; ranks of speed-ups."""

import subprocess

import pytest

from foretrace.benchmarks.harness.threaded import PASSIVE, build_threaded, threaded_programs
from foretrace.benchmarks.validation.speedup import Speedup, pairs_in_order


@pytest.mark.parametrize("name", threaded_programs())
def test_the_result_does_not_depend_on_the_number_of_threads(name, programs_directory):
    executable = build_threaded(name, programs_directory / "threaded")
    results = [
        subprocess.run([executable, str(threads)], capture_output=True, text=True, env=PASSIVE, timeout=60, check=True)
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
    for name in ("triangle", "heat_team"):
        executable = build_threaded(name, programs_directory / "threaded")
        result = subprocess.run([executable, threads], capture_output=True, text=True, timeout=60)
        assert result.returncode == 2
        assert result.stderr.startswith("usage:")


def test_pairs_that_tie_are_not_ranked():
    rows = [
        Speedup(name, 1.0, predicted, "nothing", None, measured)
        for name, predicted, measured in (("a", 2.0, 1.98), ("b", 1.9, 1.99), ("c", 1.5, 1.4), ("d", 1.4, 1.6))
    ]
    assert pairs_in_order(rows) == (4, 5)
    assert rows[2].error == pytest.approx(1.5 / 1.4 - 1)
