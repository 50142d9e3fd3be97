"""Runs one rank of a parallel program natively, its MPI calls recorded by a library that is preloaded into it."""

from __future__ import annotations

import datetime
import os
import platform
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from foretrace.base.errors import ProgramError
from foretrace.base.processor import cpu_model
from foretrace.base.version import __version__
from foretrace.tracer.session.launch import find_program, first_line
from foretrace.tracer.session.session import FORWARDED_SIGNALS

from .building import interposer
from .launching import position, preloaded
from .libraries import mpi_library_of
from .parts import PartHead

_BEFORE_FORWARDING_S = 0.1
"""A signal to the whole process group has reached the program, too, and most have ended by then."""


@dataclass(frozen=True, slots=True, eq=False)
class RankOutcome:
    """Facts of the run of a rank's program, and the content of the record of its MPI calls; None if it left none."""

    head: PartHead
    record: bytes | None


def check_launched(variables: Mapping[str, str]) -> None:
    """Refuse to record a program that no MPI launcher started.

    Raises:
        ProgramError: says how to start it.
    """
    if position(variables) is None:
        raise ProgramError(
            "--mpi records a rank of a parallel run, and no launcher started this one; put mpirun before it, e.g. "
            "mpirun -n 4 foretrace trace --mpi --native -o app.sig -- ./app"
        )


def run_rank(command: Sequence[str], variables: Mapping[str, str]) -> RankOutcome:
    """Run a rank's program. Its output, exit code and signals are its own; signals sent to us are passed on.

    Args:
        command: the program, with its arguments.
        variables: its environment, as the launcher made it.

    Raises:
        ProgramError: it cannot be run.
        EngineError: there is no compiler for its MPI library.
    """
    path = str(find_program(command[0]))
    words = first_line(Path(path))
    library = mpi_library_of(_interpreter(words) if words else (path,), variables)
    recorder = interposer(library)
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with tempfile.TemporaryDirectory(prefix="foretrace-") as folder:
        record = Path(folder) / "record"
        began = time.monotonic()
        ending = _run(path, command, preloaded(variables, str(recorder), str(record)))
        wall_s = time.monotonic() - began
        content = record.read_bytes() if record.exists() else None
    head = PartHead(
        command=tuple(command),
        foretrace_version=__version__,
        host=platform.node(),
        processor=cpu_model(),
        started=started,
        wall_s=wall_s,
        exit_code=ending if ending >= 0 else None,
        signal=-ending if ending < 0 else None,
    )
    return RankOutcome(head, content)


def _interpreter(words: Sequence[str]) -> tuple[str, ...]:
    """The interpreter of a script, by its first line."""
    try:
        return (str(find_program(words[0])), *words[1:])
    except ProgramError:
        return tuple(words)


def _run(path: str, command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Exit code of a program, as by `os.waitstatus_to_exitcode`."""
    awaited = {*FORWARDED_SIGNALS, signal.SIGCHLD}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    try:
        try:
            pid = os.posix_spawn(
                path, list(command), dict(variables), setsigmask=mask, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ]
            )
        except OSError as error:
            raise ProgramError(f"cannot run {path}: {error.strerror}") from error
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            number = signal.sigwait(awaited)
            if number != signal.SIGCHLD:
                time.sleep(_BEFORE_FORWARDING_S)
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    return os.waitstatus_to_exitcode(status)
                os.kill(pid, number)
    finally:
        while signal.sigtimedwait(awaited, 0) is not None:  # they were the program's
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
