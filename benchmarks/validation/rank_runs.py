"""Parallel runs: time predicted by the replay of their ranks, and measured here.

Each program is run by its launcher, its MPI calls recorded and its computation timed, some times over; measured is the
shortest time from MPI_Init to MPI_Finalize. Then it is traced once. Predicted is the makespan of the traced run on a
node of the machine; the note has that of the timed run, in which only messages and waits are the replay's. Ranks that
share a core wait for each other in ways that no replay knows: run no more than there are cores.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.harness.results import (
    MeasuredPrediction,
    Part,
    formatted,
    growing,
    prediction_table,
    summary,
)


def compare(
    commands: Sequence[Sequence[str]], launcher: Sequence[str], machine: str, ranks: int, rounds: int, directory: Path
) -> Iterator[MeasuredPrediction]:
    """Run, trace and replay each command.

    Raises:
        EngineError: one could not be recorded.
    """
    for command in commands:
        shortest: dict[str, float] = {}
        for _ in range(rounds):
            timed = _recorded(["--native"], command, launcher, ranks, directory / "timed.sig")
            found = tools.foretrace_json("replay", str(timed), "--machine", machine, "--ranks-per-node", str(ranks))
            if not shortest or found["recorded_s"] < shortest["recorded_s"]:
                shortest = found
        traced = _recorded([], command, launcher, ranks, directory / "traced.sig")
        found = tools.foretrace_json("replay", str(traced), "--machine", machine, "--ranks-per-node", str(ranks))
        yield MeasuredPrediction(
            name=Path(command[0]).name,
            predicted=found["makespan_s"],
            low=found["low_s"],
            high=found["high_s"],
            measured=shortest["recorded_s"],
            notes={"timed": formatted(shortest["makespan_s"], "s"), "messages": f"{found['messages']:,.0f}"},
        )


def _recorded(how: list[str], command: Sequence[str], launcher: Sequence[str], ranks: int, output: Path) -> Path:
    started = [*launcher, "-n", str(ranks), tools.foretrace_executable(), "trace", "--mpi", *how, "--force"]
    done = subprocess.run([*started, "-o", str(output), "--", *command], capture_output=True, text=True, check=False)
    if done.returncode or not output.exists():
        raise EngineError(f"{command[0]}: could not be recorded: {done.stderr.strip().splitlines()[-1:]}")
    return output


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.machine(parser)
    common.rounds(parser, 5)
    parser.add_argument("--ranks", type=common.positive, default=2, help="of each program (default 2)")
    parser.add_argument("--launcher", default="mpirun", help="that starts them (default mpirun)")
    parser.add_argument("programs", nargs="+", help="MPI programs, each with its arguments as one word")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The table of times."""
    commands = [shlex.split(program) for program in options.programs]
    title = f"{options.ranks} ranks on {options.machine}"
    rows: list[MeasuredPrediction] = []
    for rows in growing(
        compare(commands, shlex.split(options.launcher), options.machine, options.ranks, options.rounds, scratch)
    ):
        yield prediction_table(title, rows)
    yield summary(rows)
