"""Runs on chosen cores: what others had of them, from what the system counts."""

import os
import sys

import pytest

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness.cores import CoreRun, run_on, said_of_others, shortest

CORE = min(os.sched_getaffinity(0))


def stat_file(path, user, stolen=0, cores=2):
    fields = f"{user} 0 0 7 9 0 0 {stolen} 3 0"
    path.write_text("".join(f"cpu{core} {fields}\n" for core in (*range(cores), CORE)))
    return path


def counting(path, ticks, stolen=0):
    """A program that lets the counts of its core go up."""
    code = f"import pathlib; p = pathlib.Path({str(path)!r}); p.write_text(p.read_text().replace"
    return [sys.executable, "-c", f"{code}(' 0 0 0 7 9 0 0 0 3', ' {ticks} 0 0 700 900 0 0 {stolen} 3'))"]


def test_what_others_had_is_what_the_system_counts_less_the_programs_own(tmp_path):
    for ticks, is_free in ((0, True), (10**7, False)):
        stat = stat_file(tmp_path / "stat", 0)
        run = run_on([counting(stat, ticks)], [[CORE]], stat=stat)
        assert run.is_free is is_free
        assert 0 <= run.taken <= 1


def test_systems_that_count_nothing(tmp_path):
    run = run_on([[sys.executable, "-c", "pass"]], [[CORE]], stat=tmp_path / "none")
    assert run.taken is None
    assert run.is_free
    assert run.cpu_s > 0


def test_the_shortest_run_with_its_cores_counts():
    runs = [CoreRun(1.0, 1.0, 0.5), CoreRun(2.0, 2.0, 0.05), CoreRun(3.0, 3.0, 0.0)]
    assert shortest(runs).wall_s == 2
    assert shortest(runs[:1]) is None
    assert said_of_others(runs) == "others had 5% of the cores in the median of 3 runs"


def test_programs_that_fail_or_are_not_there():
    with pytest.raises(EngineError, match="ended with 3"):
        run_on([[sys.executable, "-c", "raise SystemExit(3)"]], [[CORE]])
    with pytest.raises(EngineError, match="cannot be started on cores"):
        run_on([["/nowhere/at/all"]], [[CORE]])
