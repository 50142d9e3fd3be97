"""Linear algebra of Python programs, predicted and measured here.

Run by `python -m foretrace.benchmarks.validation.linear_algebra`.

Each case is traced, and predicted with the profile of this machine (`foretrace calibrate`): the time of the line that
calls it. Beside it stands the processor time that the same calls take untraced. BLAS has one thread in both.
"""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretrace.base.errors import ForetraceError
from foretrace.base.terminal import console
from foretrace.base.units import format_seconds
from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.tables import table, times

PROGRAM = programs.SOURCES / "linear_algebra.py"
ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
_ROUND_S = 0.03
"""What a round of calls takes, about."""
_MOST_CALLS = 200


@dataclass(frozen=True, slots=True)
class Compared:
    """A case: seconds of a call, predicted (with its interval) and measured."""

    case: str
    predicted_s: float
    low_s: float
    high_s: float
    measured_s: float

    @property
    def is_inside(self) -> bool:
        """Whether the interval holds what was measured."""
        return self.low_s <= self.measured_s <= self.high_s


def compare(machine: str, cases: Sequence[str], directory: Path) -> Iterator[Compared]:
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
        yield Compared(
            case,
            sum(loop["time_s"] for loop in own) / calls,
            sum(loop["low_s"] for loop in own) / calls,
            sum(loop["high_s"] for loop in own) / calls,
            measured_s,
        )


def known_cases() -> dict[str, tuple[Any, Any]]:
    """Operands and call of each case."""
    cases: dict[str, tuple[Any, Any]] = runpy.run_path(str(PROGRAM))["CASES"]
    return cases


def _measured_s(case: str, calls: int) -> float:
    command = [sys.executable, "-P", str(PROGRAM), case, str(calls), "--time"]
    return float(
        subprocess.run(command, env=os.environ | ONE_THREAD, check=True, capture_output=True, text=True).stdout
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="foretrace.benchmarks.validation.linear_algebra", description=__doc__.splitlines()[0]
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help="those whose names begin so; default: all")
    parser.add_argument("--machine", required=True, metavar="PROFILE", help="the profile of this machine")
    options = parser.parse_args(arguments)
    cases = [name for name in known_cases() if not options.cases or name.startswith(tuple(options.cases))]
    shown = table("linear algebra, one thread", "case", "predicted", "interval", "measured", "predicted/measured", "")
    try:
        with tempfile.TemporaryDirectory(prefix="foretrace-linear-") as name:
            for row in compare(options.machine, cases, Path(name)):
                shown.add_row(
                    row.case,
                    format_seconds(row.predicted_s),
                    f"{format_seconds(row.low_s)} to {format_seconds(row.high_s)}",
                    format_seconds(row.measured_s),
                    times(row.predicted_s / row.measured_s),
                    "" if row.is_inside else "outside",
                )
    except ForetraceError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    console().print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
