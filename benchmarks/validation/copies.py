"""Copies of a program that run at the same time: slowdown predicted by the replay, and measured here.

Run by `python -m foretrace.benchmarks.validation.copies --machine results/here.toml`.

Each program is traced once and replayed with as many copies as are run, each on a core of its own. Measured is real
time, the copies pinned to the first cores, alternating with one copy alone on one of those cores: of each round, the
time of the slower copy over the mean of the runs alone before and after it. The table shows the median and quartiles
of the rounds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.tables import table, times
from foretrace.errors import EngineError, ForetraceError
from foretrace.terminal import console

PROGRAMS = {
    "mandelbrot": ("900", "600", "300"),
    "lu": ("1200", "37"),
    "stencil2d": ("1531", "1187", "60"),
    "spmv": ("50000", "16", "400"),
    "triad": ("2000000", "150"),
    "updates": ("64", "25000000"),
}
"""Arguments of the six programs: two compute-bound, the others ever more bound by memory."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Of a program: time of a copy among others over that of one alone, predicted and measured."""

    name: str
    alone_s: float
    predicted: float
    measured: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1


def compare(machine: str, copies: int, rounds: int, realtime: bool, directory: Path) -> Iterator[Slowdown]:
    """Trace, replay and run each program.

    Raises:
        ForetraceError: one cannot be built, traced, replayed or run; or there are fewer cores than copies.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < copies:
        raise EngineError(f"{copies} copies need {copies} cores, and there are {len(cores)}")
    for name, arguments in PROGRAMS.items():
        command = (str(programs.build(name, directory)), *arguments)
        signature = str(directory / "traced.sig")
        subprocess.run(
            [tools.foretrace_executable(), "trace", "--force", "-o", signature, "--", *command],
            check=True,
            capture_output=True,
        )
        replayed = tools.foretrace_json(
            "replay", signature, "--machine", machine, "--copies", str(copies), "--cores", str(copies)
        )
        measured = [_round(command, cores[:copies], realtime) for _ in range(rounds)]
        ratios = [together_s / alone_s for alone_s, together_s in measured]
        low, middle, high = statistics.quantiles(ratios, n=4) if rounds > 1 else (ratios[0],) * 3
        alone_s = statistics.median(alone for alone, _ in measured)
        yield Slowdown(name, alone_s, replayed["makespan_s"] / replayed["alone_s"], middle, low, high)


def _round(command: Sequence[str], cores: Sequence[int], realtime: bool) -> tuple[float, float]:
    """Seconds of one copy alone (mean of before and after), and of the slowest of copies on `cores` at once."""
    before_s = _run_s(command, cores[:1], realtime)
    together_s = _run_s(command, cores, realtime)
    after_s = _run_s(command, cores[:1], realtime)
    return (before_s + after_s) / 2, together_s


def _run_s(command: Sequence[str], cores: Sequence[int], realtime: bool) -> float:
    priority = ["chrt", "-f", "10"] if realtime else []
    start = time.perf_counter()
    running = [
        subprocess.Popen([*priority, "taskset", "-c", str(core), *command], stdout=subprocess.DEVNULL) for core in cores
    ]
    codes = [process.wait() for process in running]
    if any(codes):
        raise EngineError(
            f"{command[0]} failed" + (" (chrt needs the right to real-time scheduling)" if realtime else "")
        )
    return time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="foretrace.benchmarks.validation.copies", description=__doc__.splitlines()[0])
    parser.add_argument("--machine", required=True, metavar="PROFILE", help="the profile of this machine")
    parser.add_argument("--copies", type=int, default=2, help="that run at the same time (default 2)")
    parser.add_argument("--rounds", type=int, default=7, help="of runs alone and together (default 7)")
    parser.add_argument("--realtime", action="store_true", help="run them before all else on this machine (chrt -f)")
    options = parser.parse_args(arguments)
    if options.copies < 1 or options.rounds < 1:
        parser.error("--copies and --rounds must be at least 1")
    if shutil.which("taskset") is None:
        parser.error("needs taskset (Debian package util-linux)")
    shown = table(
        f"{options.copies} copies at once, time over that of one alone",
        "program", "alone", "predicted", "measured", "quartiles", "error",
    )  # fmt: skip
    errors = []
    try:
        with tempfile.TemporaryDirectory(prefix="foretrace-copies-") as name:
            for row in compare(options.machine, options.copies, options.rounds, options.realtime, Path(name)):
                errors.append(abs(row.error))
                quartiles = f"{times(row.low)} to {times(row.high)}"
                alone = f"{row.alone_s * 1e3:.0f} ms"
                shown.add_row(
                    row.name, alone, times(row.predicted), times(row.measured), quartiles, f"{row.error:+.1%}"
                )
    except ForetraceError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    out = console()
    out.print(shown)
    out.print(f"mean absolute error {statistics.fmean(errors):.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
