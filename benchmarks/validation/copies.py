"""Copies of a program that run at the same time: slowdown predicted by the replay, and measured here.

Run by `python -m foretrace.benchmarks.validation.copies --machine results/here.toml`.

Each program is traced once and replayed with as many copies as are run, each on a core of its own. Measured is real
time, the copies pinned to the first cores, alternating with one copy alone on one of those cores: of each round, the
time of the slower copy over the mean of the runs alone before and after it. The table shows the median and quartiles
of the rounds. Rounds in which others had more than a tenth of the cores do not count, and a program without any that
counts is not compared.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from foretrace.base.errors import EngineError, ForetraceError
from foretrace.base.terminal import console
from foretrace.base.units import format_seconds
from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.cores import CoreRun, run_on, said_of_others
from foretrace.benchmarks.harness.tables import table, times

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
    """Of a program: time of a copy among others over that of one alone, predicted and measured.

    What is measured is None where the cores were never free, which `problem` says.
    """

    name: str
    alone_s: float | None
    predicted: float
    measured: float | None
    low: float | None
    high: float | None
    problem: str = ""

    @property
    def error(self) -> float | None:
        """Predicted over measured, less one."""
        return None if self.measured is None else self.predicted / self.measured - 1


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
        predicted = replayed["makespan_s"] / replayed["alone_s"]
        made = [_round(command, cores[:copies], realtime) for _ in range(rounds)]
        free = [runs for runs in made if all(run.is_free for run in runs)]
        if not free:
            together = [runs[1] for runs in made]
            yield Slowdown(name, None, predicted, None, None, None, said_of_others(together))
            continue
        ratios = [2 * runs[1].wall_s / (runs[0].wall_s + runs[2].wall_s) for runs in free]
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
        alone_s = statistics.median(run.wall_s for runs in free for run in (runs[0], runs[2]))
        yield Slowdown(name, alone_s, predicted, middle, low, high)


def _round(command: Sequence[str], cores: Sequence[int], realtime: bool) -> tuple[CoreRun, CoreRun, CoreRun]:
    """Runs of one copy alone, of copies on `cores` at once, and of one alone again."""

    def run(some: Sequence[int]) -> CoreRun:
        return run_on([command] * len(some), [[core] for core in some], realtime=realtime)

    return run(cores[:1]), run(cores), run(cores[:1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="foretrace.benchmarks.validation.copies", description=__doc__.splitlines()[0])
    parser.add_argument("--machine", required=True, metavar="PROFILE", help="the profile of this machine")
    parser.add_argument("--copies", type=int, default=2, help="that run at the same time (default 2)")
    parser.add_argument("--rounds", type=int, default=7, help="of runs alone and together (default 7)")
    parser.add_argument("--realtime", action="store_true", help="run them before all else on this machine (SCHED_FIFO)")
    options = parser.parse_args(arguments)
    if options.copies < 1 or options.rounds < 1:
        parser.error("--copies and --rounds must be at least 1")
    shown = table(
        f"{options.copies} copies at once, time over that of one alone",
        "program", "alone", "predicted", "measured", "quartiles", "error",
    )  # fmt: skip
    errors: list[float] = []
    problems: list[str] = []
    try:
        with tempfile.TemporaryDirectory(prefix="foretrace-copies-") as name:
            for row in compare(options.machine, options.copies, options.rounds, options.realtime, Path(name)):
                problems += [f"not compared: {row.name}: the cores were not free: {row.problem}"] if row.problem else []
                errors += [abs(row.error)] if row.error is not None else []
                shown.add_row(
                    row.name, "-" if row.alone_s is None else format_seconds(row.alone_s), times(row.predicted),
                    times(row.measured), f"{times(row.low)} to {times(row.high)}",
                    "-" if row.error is None else f"{row.error:+.1%}",
                )  # fmt: skip
    except ForetraceError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    out = console()
    out.print(shown)
    for problem in problems:
        out.print(problem)
    if errors:
        out.print(f"{len(errors)} programs: mean absolute error {statistics.fmean(errors):.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
