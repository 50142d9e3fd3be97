"""Building, timing, tracing and replaying a program of somebody else, each step bounded in time.

A program runs in a scratch copy of its folder, with its standard input empty. What fails is an `EngineError` of one
line, whatever the program does: the rest of the list goes on.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.harness.cores import CoreRun, run_on, said_of_others, shortest
from foretrace.benchmarks.harness.threaded import PASSIVE

_GRACE_S = 10
"""Between the signal that asks a process to end, and the one that ends it."""
_NOTHING = ("true",)
"""Command that costs the start of a process, with all that bounds it."""
_START_UP = (sys.executable, "-c", "import numpy")
"""Command that costs the start of a Python program; no prediction has it."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Settings of program runs: at most `limit_s` each step, timed in `rounds`, with `realtime` before all else on
    this machine. `exit_code` is what a program ends with that did all it should."""

    limit_s: float
    rounds: int
    realtime: bool
    exit_code: int = 0

    def build(self, lines: Sequence[str], folder: Path) -> None:
        """Run shell lines in a program's scratch folder.

        Raises:
            EngineError: one fails.
        """
        for line in lines:
            self._run(["sh", "-c", line], folder, "building")

    def native_s(self, command: Sequence[str], folder: Path) -> float:
        """Processor time of the shortest run on one core, less what it takes to start a process, or Python.

        Raises:
            EngineError: it fails.
        """
        start_up = _START_UP if command[0] == sys.executable else _NOTHING
        start_s = replace(self, exit_code=0)._least_cpu_s(start_up, folder)
        return max(self._least_cpu_s(command, folder) - start_s, 0.0)

    def threaded_run(self, command: Sequence[str], folder: Path, threads: int, cores: Sequence[int]) -> CoreRun:
        """One run with so many OpenMP threads on the first cores, no more of them than threads.

        Raises:
            EngineError: it fails.
        """
        used = cores[: min(threads, len(cores))]
        bounded = replace(self, exit_code=0 if command == _NOTHING else self.exit_code)._bounded(command, folder)
        return run_on([bounded], [used], realtime=self.realtime, environment=environment_of(threads))

    def trace(
        self,
        command: Sequence[str],
        folder: Path,
        signature: Path,
        environment: Mapping[str, str] | None = None,
        *,
        dependences: bool = True,
    ) -> None:
        """Trace a program, with its dependences unless told not to.

        Raises:
            EngineError: it fails.
        """
        program = command[1:] if command[0] == sys.executable else command
        self.trace_with(["--dependences"] if dependences else [], program, folder, signature, environment)

    def trace_with(
        self,
        options: Sequence[str],
        program: Sequence[str],
        folder: Path | None,
        signature: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Trace a program with options of the verb.

        Raises:
            EngineError: it fails.
        """
        verb = [tools.foretrace_executable(), "trace", *options, "--force", "-o", str(signature), "--", *program]
        self._run(verb, folder, "trace", environment, self.exit_code)

    def verb(self, *arguments: str) -> dict[str, Any]:
        """The object that a verb prints with `--json`.

        Raises:
            EngineError: it fails.
        """
        text = self._run([tools.foretrace_executable(), *arguments, "--json"], None, arguments[0])
        value = json.loads(text)
        assert isinstance(value, dict)
        return value

    def _least_cpu_s(self, command: Sequence[str], folder: Path) -> float:
        core = sorted(os.sched_getaffinity(0))[:1]
        bounded = self._bounded(command, folder)
        return min(run_on([bounded], [core], realtime=self.realtime).cpu_s for _ in range(self.rounds))

    def _bounded(self, command: Sequence[str], folder: Path) -> list[str]:
        status = ["sh", "-c", f'"$@"; [ $? = {self.exit_code} ]', "sh"] if self.exit_code else []
        return ["env", "-C", str(folder), "timeout", f"{self.limit_s:g}", *status, *command]

    def _run(
        self,
        command: Sequence[str],
        folder: Path | None,
        what: str,
        environment: Mapping[str, str] | None = None,
        exit_code: int = 0,
    ) -> str:
        with subprocess.Popen(
            command, cwd=folder, env=os.environ | (environment or {}), stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="replace", start_new_session=True,
        ) as process:  # fmt: skip
            try:
                output, errors = process.communicate(timeout=self.limit_s)
            except subprocess.TimeoutExpired:
                _end(process)
                raise EngineError(f"{what}: no end within {self.limit_s:g} s") from None
        if process.returncode != exit_code:
            said = errors.strip().splitlines()[-1:] or [f"ended with {process.returncode}"]
            raise EngineError(f"{what}: {said[0][:200]}")
        return output


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and its group: politely, so that a tracer ends its program, then for good."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        os.killpg(process.pid, how)
        try:
            process.communicate(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
        return


def environment_of(threads: int) -> dict[str, str]:
    """Environment in which an OpenMP program has this many threads, which sleep where they wait."""
    return PASSIVE | {"OMP_NUM_THREADS": str(threads)}


def scratch_copy(source: Path, directory: Path, name: str) -> Path:
    """A program's folder in the scratch directory: that of an earlier run, or a new copy."""
    folder = directory / name
    if not folder.exists():
        shutil.copytree(source, folder, symlinks=True)
    return folder


def measured_threads(
    runner: Runner, commands: Mapping[int, Sequence[str]], folder: Path
) -> dict[int, tuple[float | None, str]]:
    """Real time of the shortest run with each number of threads, all alternating, less the start of a process; None and
    why where the cores were never free.

    Raises:
        EngineError: the program fails.
    """
    cores = sorted(os.sched_getaffinity(0))[:2]
    runs: dict[int, list[CoreRun]] = {threads: [] for threads in commands}
    start_s = min(runner.threaded_run(_NOTHING, folder, 1, cores).wall_s for _ in range(runner.rounds))
    for _ in range(runner.rounds):
        for threads, command in commands.items():
            runs[threads].append(runner.threaded_run(command, folder, threads, cores))
    found: dict[int, tuple[float | None, str]] = {}
    for threads, some in runs.items():
        best = shortest(some)
        found[threads] = (max(best.wall_s - start_s, 0.0), "") if best else (None, said_of_others(some))
    return found
