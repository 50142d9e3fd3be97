"""Linear algebra of Python programs, predicted and measured here.

Each case is traced, and predicted with the profile of this machine (`foretrace calibrate`): the time of the line that
calls it. Beside it stands the processor time that the same calls take untraced. BLAS has one thread in both.
"""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.results import MeasuredPrediction, Part, growing, prediction_table, summary

PROGRAM = programs.SOURCES / "linear_algebra.py"
ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
_ROUND_S = 0.03
"""Approximate time of a round of calls."""
_MOST_CALLS = 200


def compare(machine: str, cases: Sequence[str], directory: Path) -> Iterator[MeasuredPrediction]:
    """Trace, predict and measure cases, one after the other.

    Raises:
        ForetraceError: one cannot be traced or predicted.
    """
    lines = {case: call.__code__.co_firstlineno for case, (_, call) in known_cases().items()}
    for case in cases:
        calls = max(1, min(_MOST_CALLS, round(_ROUND_S / _measured_s(case, 1))))
        measured_s = _measured_s(case, calls)
        signature = directory / "traced.sig"
        subprocess.run(
            [tools.foretrace_executable(), "trace", "--force", "-o", str(signature), str(PROGRAM), case, str(calls)],
            env=os.environ | ONE_THREAD,
            check=True,
            capture_output=True,
        )
        (prediction,) = tools.foretrace_json("predict", str(signature), "--machine", machine)["predictions"]
        own = [loop for loop in prediction["loops"] if loop["line"] == lines[case]]
        own = [loop for loop in own if Path(loop["file"]).name == PROGRAM.name]
        predicted, low, high = (sum(loop[key] for loop in own) / calls for key in ("time_s", "low_s", "high_s"))
        yield MeasuredPrediction(name=case, predicted=predicted, low=low, high=high, measured=measured_s)


def known_cases() -> dict[str, tuple[Any, Any]]:
    """Operands and call of each case."""
    cases: dict[str, tuple[Any, Any]] = runpy.run_path(str(PROGRAM))["CASES"]
    return cases


def _measured_s(case: str, calls: int) -> float:
    command = [sys.executable, "-P", str(PROGRAM), case, str(calls), "--time"]
    return float(
        subprocess.run(command, env=os.environ | ONE_THREAD, check=True, capture_output=True, text=True).stdout
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.machine(parser)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="those whose names begin so; default: all")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The table and its summary."""
    cases = [name for name in known_cases() if not options.cases or name.startswith(tuple(options.cases))]
    rows: list[MeasuredPrediction] = []
    for rows in growing(compare(options.machine, cases, scratch)):
        yield prediction_table("linear algebra, one thread", rows)
    yield summary(rows, 2.0)
