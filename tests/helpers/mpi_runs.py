"""MPI programs compiled, run under foretrace, and compared with what they counted themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from foretrace.tracer.signature.file import read_signature
from foretrace.tracer.signature.rank_records import END, REPEAT, CallKind, RankRecord, RankRun

PROGRAMS = Path(__file__).parent / "mpi_programs"
LIBRARIES = ("openmpi", "mpich")
_COMPILERS = {".c": "mpicc", ".f90": "mpif90"}
_made: dict[tuple[Path, str], Path] = {}
UNTALLIED = {CallKind.WAIT, CallKind.WAIT_ALL, CallKind.TEST, CallKind.FINALIZE}
"""Kinds that a program's tally leaves out unless it names them."""


def environment() -> dict[str, str]:
    """Variables with which Open MPI starts more ranks than there are cores, also for root, and is quiet."""
    return {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_btl_base_warn_component_unused": "0",
    }


def needs(library: str, *programs: str) -> None:
    """Skip where an MPI library is not installed."""
    for name in (f"mpirun.{library}", f"mpicc.{library}", *programs):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed (Debian: openmpi-bin, libopenmpi-dev, mpich, libmpich-dev, gfortran)")


def compiled(source: Path, library: str) -> Path:
    """A program compiled for an MPI library, once for all tests of a process."""
    if (source, library) not in _made:
        compiler = f"{_COMPILERS[source.suffix]}.{library}"
        needs(library, compiler)
        made = Path(tempfile.mkdtemp(prefix="mpi-programs-")) / source.stem
        subprocess.run([compiler, "-O1", "-g", "-w", f"-I{PROGRAMS}", "-o", made, source, "-lm"], check=True)
        _made[source, library] = made
    return _made[source, library]


def started(library: str, ranks: int, *command: object, **options: object) -> subprocess.CompletedProcess[str]:
    """A command run by a launcher, to its end."""
    given = {"env": environment(), "timeout": 240, **options}
    return subprocess.run(
        [f"mpirun.{library}", "-n", str(ranks), *map(str, command)], capture_output=True, text=True, **given
    )


def foretrace(*arguments: object) -> list[object]:
    """The command line of foretrace."""
    return [sys.executable, "-P", "-m", "foretrace", *arguments]


def captured(library: str, ranks: int, output: Path, *command: object) -> tuple[RankRun, str]:
    """The run of a program that ends well, and what it printed."""
    done = started(library, ranks, *foretrace("trace", "--mpi", "--native", "-o", output, "--", *command))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(output.parent.glob(f"{output.name}.*")), done.stderr
    run = read_signature(output).ranks
    assert run is not None and len(run.ranks) == ranks
    assert all(record.is_complete for record in run.ranks)
    return run, done.stdout


def tallies(printed: str) -> dict[int, Counter[tuple[str, int, int]]]:
    """Counts that each rank made itself: times by kind, partner and bytes."""
    found: dict[int, Counter[tuple[str, int, int]]] = {}
    for line in printed.splitlines():
        if line.startswith("tally "):
            _, rank, kind, peer, size, times = line.split()
            found.setdefault(int(rank), Counter())[kind, int(peer), int(size)] += int(times)
    return found


def recorded(record: RankRecord, tallied: Counter[tuple[str, int, int]]) -> Counter[tuple[str, int, int]]:
    """Counts of a rank's record, of the kinds that a tally can tell."""
    named = {kind for kind, _, _ in tallied}
    found: Counter[tuple[str, int, int]] = Counter()
    for call in record.calls:
        kind = CallKind(call["kind"])
        name = kind.name.lower().replace("_", "")
        if kind in UNTALLIED and name not in named:
            continue
        if call["first_count"] >= 0:
            members = record.communicators[call["communicator"]]
            for rank, size in enumerate(record.counts[call["first_count"] :][: len(members)].tolist()):
                found[name, rank, size] += int(call["times"])
        else:
            found[name, int(call["peer"]), int(call["size_bytes"])] += int(call["times"])
    return found


def unfolded(record: RankRecord) -> list[int]:
    """The numbers of a rank's calls in order."""
    stack: list[tuple[int, list[int]]] = [(1, [])]
    for call, times in record.steps.tolist():
        if call == REPEAT:
            stack.append((times, []))
        elif call == END:
            count, body = stack.pop()
            stack[-1][1].extend(body * count)
        else:
            stack[-1][1].append(call)
    assert len(stack) == 1
    return stack[0][1]
