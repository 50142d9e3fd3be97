"""Threaded programs with one thread and with two: speed-up predicted, and measured here.

Run by `python -m foretrace.benchmarks.validation.speedup --machine results/here.toml`.

Each program is traced with one thread and with two, and predicted with two from both signatures, where it has a team
(OpenMP); one with POSIX threads from the second. Measured is real time, runs with one thread and with two alternating:
the speed-up is the shortest with one over the shortest with two.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.harness.tables import table
from foretrace.benchmarks.harness.threaded import PASSIVE, build_threaded, threaded_programs
from foretrace.errors import EngineError, ForetraceError
from foretrace.profiles.library import find
from foretrace.replay.node.speedup import possible_threads, predict_threads
from foretrace.terminal import console
from foretrace.tracer.signature.file import read_signature

TIE = 0.05
"""Speed-ups that differ by less, relatively, count as equal when ranks are compared."""


@dataclass(frozen=True, slots=True)
class Speedup:
    """Of a program with two threads over one: predicted from the traces with two threads and with one, and measured.

    `from_one` is None where the trace with one thread does not tell how two would share its work.
    """

    name: str
    alone_s: float
    predicted: float
    limit: str
    from_one: float | None
    measured: float

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1


def compare(names: Iterable[str], machine: str, rounds: int, realtime: bool, directory: Path) -> Iterator[Speedup]:
    """Trace, predict and run each program.

    Raises:
        ForetraceError: one cannot be built, traced, predicted or run; or this machine has one core.
    """
    if len(os.sched_getaffinity(0)) < 2:
        raise EngineError("two threads need two cores, and there is one")
    profile = find(machine)
    for name in names:
        executable = build_threaded(name, directory)
        signatures = {threads: read_signature(_traced(executable, threads, directory)) for threads in (1, 2)}
        (two,) = predict_threads(signatures[2], profile, [2])
        from_one = None
        if possible_threads(signatures[1], profile) is None:  # else its one worker's trace says nothing of two
            from_one = gained(predict_threads(signatures[1], profile, [2])[0])
        runs_s: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(rounds):
            for threads, times_s in runs_s.items():
                times_s.append(_run_s((str(executable), str(threads)), realtime))
        alone_s, together_s = min(runs_s[1]), min(runs_s[2])
        yield Speedup(name, alone_s, two.speedup, str(two.limit), from_one, alone_s / together_s)


def _traced(executable: Path, threads: int, directory: Path) -> Path:
    signature = directory / f"{executable.name}-{threads}.sig"
    command = [
        tools.foretrace_executable(),
        "trace",
        "--force",
        "-o",
        str(signature),
        "--",
        str(executable),
        str(threads),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | PASSIVE)
    if result.returncode:
        raise EngineError(f"{executable.name}: foretrace trace failed with: {result.stderr.strip()}")
    return signature


def _run_s(command: Sequence[str], realtime: bool) -> float:
    priority = ["chrt", "-f", "10"] if realtime else []
    start = time.perf_counter()
    code = subprocess.run([*priority, *command], stdout=subprocess.DEVNULL, env=os.environ | PASSIVE).returncode
    taken_s = time.perf_counter() - start
    if code:
        raise EngineError(
            f"{command[0]} failed" + (" (chrt needs the right to real-time scheduling)" if realtime else "")
        )
    return taken_s


def pairs_in_order(rows: Sequence[Speedup]) -> tuple[int, int]:
    """Pairs of programs whose measured speed-ups differ by `TIE` or more: how many are ranked right, and how many."""
    found = [
        (left, right)
        for left, right in itertools.combinations(rows, 2)
        if abs(left.measured / right.measured - 1) >= TIE
    ]
    right = sum((left.predicted > right.predicted) == (left.measured > right.measured) for left, right in found)
    return right, len(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="foretrace.benchmarks.validation.speedup", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--machine", required=True, metavar="PROFILE", help="the profile of this machine")
    parser.add_argument("--rounds", type=int, default=9, help="of runs with one thread and with two (default 9)")
    parser.add_argument("--realtime", action="store_true", help="run them before all else on this machine (chrt -f)")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="these only")
    options = parser.parse_args(arguments)
    known = threaded_programs()
    for name in options.programs:
        if name not in known:
            parser.error(f"there is no threaded program {name!r}: {', '.join(known)}")
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    rows = []
    try:
        with tempfile.TemporaryDirectory(prefix="foretrace-speedup-") as directory:
            for row in compare(
                options.programs or known, options.machine, options.rounds, options.realtime, Path(directory)
            ):
                rows.append(row)
    except ForetraceError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    _show(rows)
    return 0


def _show(rows: Sequence[Speedup]) -> None:
    shown = table(
        "speed-up of two threads over one", "program", "one thread", "predicted", "bound by", "from one", "measured",
        "error",
    )  # fmt: skip
    for row in sorted(rows, key=lambda row: -row.measured):
        shown.add_row(
            row.name, f"{row.alone_s * 1e3:.0f} ms", f"{row.predicted:.2f}", row.limit,
            "-" if row.from_one is None else f"{row.from_one:.2f}", f"{row.measured:.2f}", f"{row.error:+.1%}",
        )  # fmt: skip
    out = console()
    out.print(shown)
    out.print(f"mean absolute error {statistics.fmean(abs(row.error) for row in rows):.1%}")
    right, pairs = pairs_in_order(rows)
    out.print(f"{right} of {pairs} pairs that differ by {TIE:.0%} or more are ranked right")


if __name__ == "__main__":
    sys.exit(main())
