"""Copies of a program that run at the same time: slowdown predicted by the replay, and measured here.

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
from collections.abc import Iterator, Sequence
from pathlib import Path

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.cores import CoreRun, run_on, said_of_others
from foretrace.benchmarks.harness.results import (
    MeasuredPrediction,
    Part,
    formatted,
    growing,
    prediction_table,
    summary,
)

PROGRAMS = {
    "mandelbrot": ("900", "600", "300"),
    "lu": ("1200", "37"),
    "stencil2d": ("1531", "1187", "60"),
    "spmv": ("50000", "16", "400"),
    "triad": ("2000000", "150"),
    "updates": ("64", "25000000"),
}
"""Arguments of the six programs: two compute-bound, the others ever more bound by memory."""


def compare(machine: str, copies: int, rounds: int, realtime: bool, directory: Path) -> Iterator[MeasuredPrediction]:
    """Trace, replay and run each program: slowdown of a copy among others, the median of the rounds.

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
            problem = f"the cores were not free: {said_of_others([runs[1] for runs in made])}"
            yield MeasuredPrediction(name=name, unit="x", predicted=predicted, measured=None, problem=problem)
            continue
        ratios = [2 * runs[1].wall_s / (runs[0].wall_s + runs[2].wall_s) for runs in free]
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
        alone_s = statistics.median(run.wall_s for runs in free for run in (runs[0], runs[2]))
        notes = {"alone": formatted(alone_s, "s"), "quartiles": f"{low:.2f}x to {high:.2f}x"}
        yield MeasuredPrediction(name=name, unit="x", predicted=predicted, measured=middle, notes=notes)


def _round(command: Sequence[str], cores: Sequence[int], realtime: bool) -> tuple[CoreRun, CoreRun, CoreRun]:
    """Runs of one copy alone, of copies on `cores` at once, and of one alone again."""

    def run(some: Sequence[int]) -> CoreRun:
        return run_on([command] * len(some), [[core] for core in some], realtime=realtime)

    return run(cores[:1]), run(cores), run(cores[:1])


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.machine(parser)
    common.rounds(parser, 7)
    common.realtime(parser)
    parser.add_argument("--copies", type=common.positive, default=2, help="that run at the same time (default 2)")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The table of slowdowns."""
    title = f"{options.copies} copies at once, time over that of one alone"
    rows: list[MeasuredPrediction] = []
    for rows in growing(compare(options.machine, options.copies, options.rounds, options.realtime, scratch)):
        yield prediction_table(title, rows)
    yield summary(rows)
