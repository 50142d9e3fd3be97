"""Run times for other counts of an event, predicted from one trace and measured here.

Run by `python -m foretrace.benchmarks.validation.events --machine results/here.toml`.

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
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foretrace.base.errors import EngineError, ForetraceError
from foretrace.base.terminal import console, plain, print_json
from foretrace.base.units import format_seconds
from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.cores import run_on
from foretrace.benchmarks.harness.tables import table
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


def show(rows: Sequence[Comparison]) -> None:
    """Print the comparison as a table."""
    shown = table(
        "Time for more iterations, from one trace",
        "program", "traced", "count", "time", "ratio", "predicted", "from", "to", "scaled", "predicted", "prop.",
        "fixed", "open",
    )  # fmt: skip
    for row in rows:
        shown.add_row(
            plain(row.name), f"{row.traced}", f"{row.count}", format_seconds(row.measured_s),
            f"{row.measured_ratio:.2f}", f"{row.ratio:.2f}", f"{row.low:.2f}", f"{row.high:.2f}", f"{row.scaled:+.1%}",
            f"{row.predicted:+.1%}", f"{row.proportional:.0%}", f"{row.fixed:.0%}", f"{row.unrecognised:.0%}",
        )  # fmt: skip
    out = console()
    out.print(shown)
    within = sum(abs(row.scaled) <= GOAL for row in rows)
    out.print(
        f"scaled from the measured time of the traced count: {within} of {len(rows)} within {GOAL:.0%}; "
        f"mean {statistics.mean(abs(row.scaled) for row in rows):.1%}, "
        f"worst {max(abs(row.scaled) for row in rows):.1%}. Predicted without any measurement of the program: "
        f"mean {statistics.mean(abs(row.predicted) for row in rows):.1%}, "
        f"worst {max(abs(row.predicted) for row in rows):.1%}",
        soft_wrap=True,
    )


def main() -> int:
    """Compare, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("solvers", nargs="*", metavar="SOLVER", help="names such as CG+ILU; all if none is given")
    parser.add_argument("--machine", required=True, help="profile of this machine")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--realtime", action="store_true", help="run before all else on this machine")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    known = {solver.name: solver for solver in SOLVERS}
    unknown = [name for name in arguments.solvers if name not in known]
    if unknown:
        parser.error(f"there is no solver {unknown[0]!r}, but {', '.join(known)}")
    if arguments.rounds < 1:
        parser.error(f"--rounds is {arguments.rounds}, must be at least 1")
    solvers = [known[name] for name in arguments.solvers] or list(SOLVERS)
    with tempfile.TemporaryDirectory(prefix="foretrace-events-") as directory:
        try:
            rows = list(compare(solvers, arguments.machine, arguments.rounds, arguments.realtime, Path(directory)))
        except ForetraceError as error:
            print(f"events: {error}", file=sys.stderr)
            return error.exit_code
    if arguments.json:
        print_json({"schema": "foretrace.validate.events/1", "solvers": [asdict(row) for row in rows]})
    else:
        show(rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
