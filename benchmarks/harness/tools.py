"""Runs programs natively, under cachegrind and under foretrace, for the benchmark and the validation."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretrace.base.errors import EngineError

HIERARCHY = "L1=32K/8/64,LL=1M/16/64"
"""Two levels: those that cachegrind is given below, in the notation of `foretrace trace --hierarchy`."""

THREE_LEVELS = "L1=32K/8/64,L2=1M/16/64,L3=32M/16/64"
"""Hierarchy that tracing is timed with."""

CACHEGRIND = (
    "valgrind",
    "--tool=cachegrind",
    "--cache-sim=yes",
    "--I1=32768,8,64",
    "--D1=32768,8,64",
    "--LL=1048576,16,64",
)


DRCACHESIM_CACHES = (
    "-cores", "1", "-line_size", "64", "-L1I_size", "32K", "-L1I_assoc", "8", "-L1D_size", "32K", "-L1D_assoc", "8",
    "-LL_size", "1M", "-LL_assoc", "16", "-data_prefetcher", "none",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one run of a command; `cpu_s` is that of the command and of all processes it waited for.

    `kernel_s` of it is what the kernel did for them.
    """

    wall_s: float
    cpu_s: float
    kernel_s: float = 0.0


def measure(
    command: Sequence[str], environment: Mapping[str, str] | None = None, directory: Path | None = None
) -> Cost:
    """Run a command to its end, in `directory` if one is given; its standard output is discarded.

    Python keeps the bytecode of what it imports, even if `environment` (by default ours) says otherwise: an installed
    foretrace has it beside it, as pip leaves it.

    Raises:
        EngineError: it fails; with what it wrote to standard error.
    """
    given = os.environ if environment is None else environment
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={name: value for name, value in given.items() if name != "PYTHONDONTWRITEBYTECODE"},
        cwd=directory,
    ) as process:
        start = time.perf_counter()
        assert process.stderr is not None
        errors = process.stderr.read()  # until it exits
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise EngineError(
            f"{' '.join(command)} ended with {process.returncode}: {errors.decode(errors='replace').strip()[-500:]}"
        )
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_stime)


@dataclass(frozen=True, slots=True)
class CacheMisses:
    """Data accesses that missed the first and the last level."""

    d1: int
    ll: int

    def __sub__(self, other: CacheMisses) -> CacheMisses:
        """Misses without those of another run."""
        return CacheMisses(self.d1 - other.d1, self.ll - other.ll)


def read_cachegrind(lines: Iterable[str]) -> CacheMisses:
    """Read cachegrind's output file: the counters its `events:` line names, summed over the program in `summary:`.

    Raises:
        EngineError: one of the two lines is missing, or they do not match.
    """
    fields = dict(line.split(":", 1) for line in lines if line.startswith(("events:", "summary:")))
    try:
        totals = dict(zip(fields["events"].split(), map(int, fields["summary"].split()), strict=True))
        return CacheMisses(d1=totals["D1mr"] + totals["D1mw"], ll=totals["DLmr"] + totals["DLmw"])
    except (KeyError, ValueError) as error:
        raise EngineError(f"not an output file of cachegrind with cache simulation: {error!r}") from error


def cachegrind_command(command: Sequence[str], output: Path) -> list[str]:
    """The command run by cachegrind with the caches of `HIERARCHY`."""
    return [*CACHEGRIND, f"--cachegrind-out-file={output}", *command]


def drcachesim_command(command: Sequence[str]) -> list[str]:
    """The command run by DynamoRIO's drcachesim with the caches of `HIERARCHY`, and without its prefetcher.

    `drrun` looks for its files from the path that it is called by.
    """
    drrun = shutil.which("drrun") or "drrun"
    return [drrun, "-t", "drcachesim", *DRCACHESIM_CACHES, "--", *command]


def foretrace_executable() -> str:
    """The `foretrace` of this Python environment.

    Raises:
        EngineError: it is not there.
    """
    beside_python = Path(sys.executable).parent / "foretrace"
    found = str(beside_python) if beside_python.exists() else shutil.which("foretrace")
    if found is None:
        raise EngineError(f"no foretrace command beside {sys.executable}: install the package")
    return found


def trace_command(command: Sequence[str], signature: Path, *hierarchies: str) -> list[str]:
    """The command traced by foretrace, simulating these hierarchies (by default `HIERARCHY`); an older signature is
    replaced."""
    options = ["-o", str(signature), "--force"]
    for hierarchy in hierarchies or (HIERARCHY,):
        options += ["--hierarchy", hierarchy]
    return [foretrace_executable(), "trace", *options, "--", *command]


def trace_machines_command(command: Sequence[str], directory: Path, machines: Sequence[str]) -> list[str]:
    """The command traced with the caches of these machines into a signature in `directory`."""
    options = ["-o", str(directory / "machines.sig"), "--force", *(f"--machine={name}" for name in machines)]
    return [foretrace_executable(), "trace", *options, "--", *command]


def foretrace_json(*arguments: str) -> dict[str, Any]:
    """The object that a verb prints with `--json`.

    Raises:
        EngineError: the verb fails; with what it wrote to standard error.
    """
    command = [foretrace_executable(), *arguments, "--json"]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode:
        raise EngineError(f"{' '.join(command)} ended with {result.returncode}: {result.stderr.strip()[-500:]}")
    value = json.loads(result.stdout)
    assert isinstance(value, dict)
    return value


def has_whole_run(signature: Path, executable: Path) -> bool:
    """Whether there is a signature of a whole run of the executable as it is now, which needs not be traced again."""
    if not signature.exists() or signature.stat().st_mtime < executable.stat().st_mtime:
        return False
    return bool(foretrace_json("info", str(signature))["complete"])


def simulated_misses(signature: Path) -> CacheMisses:
    """Misses of `HIERARCHY` in a signature traced with it alone."""
    (hierarchy,) = foretrace_json("info", str(signature))["hierarchies"]
    first, last = hierarchy["levels"]
    return CacheMisses(d1=first["misses"], ll=last["misses"])


def cachegrind_misses(output: Path) -> CacheMisses:
    """Misses in an output file of cachegrind."""
    with output.open() as lines:
        return read_cachegrind(lines)
