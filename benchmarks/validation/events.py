"""Run times for other counts of an event, predicted from one trace and measured here.

Each solver is traced once, with few iterations, and predicted for twice and ten times as many by its event. The number
of iterations is what its command says; none converges before. Measured is processor time in rounds of one run of each
count, of Python less the start of the interpreter and its imports. `scaled` is the time measured for the traced count
times the predicted ratio, over the time measured: it shows what the event's proportions are worth. `predicted` is the
time predicted from the trace alone, over the time measured: it has the model's own error as well. Both are medians of
the rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foretrace.base.errors import EngineError
from foretrace.base.units import format_seconds
from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.cores import run_on
from foretrace.benchmarks.harness.results import Part, ResultTable, growing
from foretrace.tracer.events import linking

SOURCES = programs.SOURCES / "events"
FACTORS = (2, 10)
GOAL = 0.05
ROUNDS = 5
_START_UP = (sys.executable, "-P", "-c", "import numpy, foretrace.events")


@dataclass(frozen=True, slots=True)
class Solver:
    """A program that counts its iterations. `arguments` are those before the number of iterations."""

    name: str
    event: str
    arguments: tuple[str, ...]
    iterations: int
    is_python: bool = False


SOLVERS = (
    Solver("CG", "CG::numiter_I", ("500", "cg", "none"), 40),
    Solver("CG+ILU", "CG+ILU::numiter_I", ("500", "cg", "ilu"), 20),
    Solver("BiCGSTAB", "BiCGSTAB::numiter_I", ("500", "bicgstab", "none"), 30),
    Solver("BiCGSTAB+ILU", "BiCGSTAB+ILU::numiter_I", ("500", "bicgstab", "ilu"), 15),
    Solver("GMRES", "GMRES::numiter_I", ("400", "gmres", "none"), 90),
    Solver("GMRES+ILU", "GMRES+ILU::numiter_I", ("400", "gmres", "ilu"), 90),
    Solver("CG in NumPy", "Poisson::iterations", ("400",), 200, is_python=True),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A solver with `count` iterations, traced with `traced`.

    `traced_s` and `measured_s` are measured medians, `scaled` and `predicted` predicted over measured times less one.
    `low` and `high` bound the predicted ratio. The shares are of the traced run's predicted time.
    """

    name: str
    traced: int
    count: int
    traced_s: float
    measured_s: float
    measured_ratio: float
    ratio: float
    low: float
    high: float
    scaled: float
    predicted: float
    proportional: float
    fixed: float
    unrecognised: float


def compare(
    solvers: Iterable[Solver], machine: str, rounds: int, realtime: bool, directory: Path
) -> Iterator[Comparison]:
    """Trace, predict and run each solver.

    Raises:
        ForetraceError: one cannot be built, traced, predicted or run, or converges early.
    """
    executable = build(directory)
    for solver in solvers:
        counts = [factor * solver.iterations for factor in (1, *FACTORS)]
        found = _predicted(solver, executable, machine, counts[1:], directory)
        for count in counts:
            _check_iterations(solver, _command(solver, executable, count))
        runs_s = [_round(solver, executable, counts, realtime) for _ in range(rounds)]
        for place, prediction in enumerate(found, 1):
            event = prediction["event"]
            parts, traced_s = event["traced_parts"], event["traced_s"]
            yield Comparison(
                name=solver.name,
                traced=counts[0],
                count=counts[place],
                traced_s=statistics.median(times[0] for times in runs_s),
                measured_s=statistics.median(times[place] for times in runs_s),
                measured_ratio=statistics.median(times[place] / times[0] for times in runs_s),
                ratio=event["ratio"],
                low=event["ratio_low"],
                high=event["ratio_high"],
                scaled=statistics.median(event["ratio"] * times[0] / times[place] for times in runs_s) - 1,
                predicted=statistics.median(prediction["time_s"] / times[place] for times in runs_s) - 1,
                proportional=parts["proportional_s"] / traced_s,
                fixed=parts["fixed_s"] / traced_s,
                unrecognised=parts["unrecognised_s"] / traced_s,
            )


def build(directory: Path) -> Path:
    """Compile the Krylov solvers with the library of events.

    Raises:
        EngineError: there is no compiler, or it fails.
    """
    language = programs.LANGUAGES[".c"]
    executable = directory / "solve"
    sources = [str(SOURCES / name) for name in ("krylov.c", "solve.c")]
    command = [
        programs.compiler_for("krylov.c", language), "-std=c11", "-O2", "-g", *sources,
        *linking.compiler_flags().split(), *linking.linker_flags().split(), "-lm", "-o", str(executable),
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise EngineError(f"krylov.c cannot be compiled: {result.stderr.strip()[-500:]}")
    return executable


def _command(solver: Solver, executable: Path, count: int) -> list[str]:
    program = [sys.executable, str(SOURCES / "poisson.py")] if solver.is_python else [str(executable)]
    return [*program, *solver.arguments, str(count)]


def _check_iterations(solver: Solver, command: Sequence[str]) -> None:
    """Refuse a run that ended early."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    is_done = "did not converge" in result.stdout or solver.is_python
    if result.returncode or not is_done:
        raise EngineError(f"{' '.join(command)}: ended before it had made all iterations, or failed: {result.stdout}")


def _predicted(
    solver: Solver, executable: Path, machine: str, counts: Sequence[int], directory: Path
) -> list[dict[str, Any]]:
    signature = str(directory / "solver.sig")
    command = _command(solver, executable, solver.iterations)
    program = command[1:] if solver.is_python else command
    line = [tools.foretrace_executable(), "trace", "--force", "-o", signature, "--", *program]
    result = subprocess.run(line, capture_output=True, text=True, check=False)
    if result.returncode:
        raise EngineError(f"{solver.name}: foretrace trace failed with: {result.stderr.strip()}")
    return [
        tools.foretrace_json("predict", signature, "--machine", machine, "--set", f"{solver.event}={count}")[
            "predictions"
        ][0]
        for count in counts
    ]


def _round(solver: Solver, executable: Path, counts: Sequence[int], realtime: bool) -> list[float]:
    """Seconds of a run of each count."""
    core = [sorted(os.sched_getaffinity(0))[-1]]
    start_s = run_on([_START_UP], [core], realtime=realtime).cpu_s if solver.is_python else 0.0
    return [
        run_on([_command(solver, executable, count)], [core], realtime=realtime).cpu_s - start_s for count in counts
    ]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.machine(parser)
    common.rounds(parser, ROUNDS)
    common.realtime(parser)
    common.names(parser, [solver.name for solver in SOLVERS], "SOLVER")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The table and its summary."""
    solvers = [solver for solver in SOLVERS if not options.names or solver.name in options.names]
    rows: list[Comparison] = []
    for rows in growing(compare(solvers, options.machine, options.rounds, options.realtime, scratch)):
        yield table(rows)
    within = sum(abs(row.scaled) <= GOAL for row in rows)
    yield (
        f"scaled from the measured time of the traced count: {within} of {len(rows)} within {GOAL:.0%}; "
        f"mean {statistics.mean(abs(row.scaled) for row in rows):.1%}, "
        f"worst {max(abs(row.scaled) for row in rows):.1%}. Predicted without any measurement of the program: "
        f"mean {statistics.mean(abs(row.predicted) for row in rows):.1%}, "
        f"worst {max(abs(row.predicted) for row in rows):.1%}"
    )


def table(rows: Sequence[Comparison]) -> ResultTable:
    """A row for each solver and count."""
    headings = (
        "program", "traced", "count", "time", "ratio", "predicted", "from", "to", "scaled", "predicted", "prop.",
        "fixed", "open",
    )  # fmt: skip
    cells = [
        [
            row.name, f"{row.traced}", f"{row.count}", format_seconds(row.measured_s),
            f"{row.measured_ratio:.2f}", f"{row.ratio:.2f}", f"{row.low:.2f}", f"{row.high:.2f}", f"{row.scaled:+.1%}",
            f"{row.predicted:+.1%}", f"{row.proportional:.0%}", f"{row.fixed:.0%}", f"{row.unrecognised:.0%}",
        ]
        for row in rows
    ]  # fmt: skip
    return ResultTable("Time for more iterations, from one trace", headings, cells, [asdict(row) for row in rows])
