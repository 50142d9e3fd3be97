"""The residuals of the held-back programs on all measured machines: replay/base/residuals.csv.

The interval of every prediction follows from that table (`replay/base/residuals.py`).
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness.results import Part, ResultTable, say
from foretrace.benchmarks.harness.suite import HELD_BACK, HELD_OUT, TEXTBOOK, choose
from foretrace.profiles.profile import Profile
from foretrace.replay.base.interval import combined
from foretrace.replay.base.residuals import COVERAGE, Residual, format_residuals, model_range, share_inside
from foretrace.replay.base.spread import TYPICAL
from foretrace.replay.prediction.predict import HostRun
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.file import read_signature

from .ablation import signatures
from .validation_file import MEASURED, MeasuredMachine, find_validation

TABLE = Path(__file__).parents[2] / "replay" / "residuals.csv"
COMMENT = """\
Measured and predicted times of the programs that the model was not made with, on calibrated machines.
Written by `make residuals`, from benchmarks/measured and traced signatures. low and high: factors of all other sources
of error of that prediction. The interval of predictions follows from them: replay/base/residuals.py."""

_Job = tuple[Path, str, str, Profile, float]


def _residual(job: _Job) -> Residual | None:
    """Residual of a program on a machine; None where the core model has no part in it."""
    path, program, label, profile, measured_s = job
    workload = Workload.of(read_signature(path))
    if workload.core is None:
        return None
    run = HostRun.of(workload, profile)
    low, high = combined(run.other_errors())
    return Residual(label, program, measured_s, float(run.times.time_s[TYPICAL].sum()), low, high)


def residuals(
    machines: Sequence[MeasuredMachine], directory: Path, progress: Callable[[str], None]
) -> tuple[Residual, ...]:
    """Predict the held-back programs on the machines that they were measured on.

    Args:
        machines: with their measured times.
        directory: where the programs' signatures are, or are to be.
        progress: is given a line on what comes next.
    """
    compiled = {program.name for program in choose("") if not program.is_python}
    programs = sorted({name for machine in machines for name in machine.programs} & HELD_BACK & compiled)
    paths = signatures(directory, programs, progress)
    jobs: list[_Job] = [
        (path, name, machine.label, machine.profile, machine.programs[name].measured.time_s)
        for name, path in paths.items()
        for machine in machines
        if name in machine.programs
    ]
    with ProcessPoolExecutor() as pool:
        return tuple(one for one in pool.map(_residual, jobs) if one is not None)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.directory(parser, Path("results/suite"))
    parser.add_argument("--table", type=Path, default=TABLE, metavar="FILE", help="to be written")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The interval that follows from the table, and the errors by machine and kind of program."""
    machines = [find_validation(path.stem) for path in sorted(MEASURED.glob("*.json"))]
    found = residuals(machines, common.kept(options, scratch), say)
    options.table.write_text(format_residuals(found, COMMENT))
    low, high = model_range(found)
    yield (
        f"{low:.2f} to {high:.2f} for {COVERAGE:.0%} of the times; with each program left out "
        f"{share_inside(found):.0%} are inside"
    )
    groups = {"all": list(found)}
    for machine in dict.fromkeys(one.machine for one in found):
        of_machine = [one for one in found if one.machine == machine]
        groups[f"{machine}: all"] = of_machine
        for kind, programs in _GROUPS:
            groups[f"{machine}: {kind}"] = [one for one in of_machine if one.program in programs]
    headings = ("errors", "times", "mean error", "median", "worst", "geometric mean", "inside")
    rows = [[name, *_cells(some, (low, high))] for name, some in groups.items() if some]
    yield ResultTable("errors", headings, rows)


_GROUPS = (
    ("held-out programs of the suite", frozenset(HELD_OUT)),
    ("textbook kernels", frozenset(TEXTBOOK)),
    ("of the system", HELD_BACK - set(HELD_OUT) - set(TEXTBOOK)),
)


def _cells(found: Sequence[Residual], interval: tuple[float, float]) -> list[str]:
    """Cells of a table row with the errors of some residuals."""
    logs = [-one.log_error for one in found]
    errors = [math.expm1(value) for value in logs]
    return [
        str(len(found)), f"{statistics.mean(map(abs, errors)):.1%}", f"{statistics.median(map(abs, errors)):.1%}",
        f"{max(errors, key=abs):+.0%}", f"{math.expm1(statistics.mean(logs)):+.1%}",
        str(sum(one.is_inside(*interval) for one in found)),
    ]  # fmt: skip
