"""Runs a command on this machine as if it were another one: beside a neighbour, without huge pages, or emulated.

    python -m foretrace.benchmarks conditions --neighbour -- foretrace calibrate -o beside.toml

Calibrated and validated like this, it is a second machine, one that anyone can make out of the first. The one that is
far from it is QEMU: it translates each instruction into others, so that arithmetic in floating point, branches and
loads cost several times as much, each by a factor of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import platform
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from foretrace.base.errors import EngineError
from foretrace.benchmarks.kernels import _kernels

from .buffers import allocate
from .results import Part

_PR_SET_PDEATHSIG, _PR_SET_THP_DISABLE = 1, 41  # linux/prctl.h
_COPIED_BYTES = 256 << 20
_LONGEST_INTERPRETER_BYTES = 256  # BINPRM_BUF_SIZE of linux/binfmts.h


@contextlib.contextmanager
def without_huge_pages() -> Iterator[None]:
    """Neither this process nor those it starts get transparent huge pages.

    Raises:
        EngineError: the system cannot do that.
    """
    _prctl(_PR_SET_THP_DISABLE, 1)
    try:
        yield
    finally:
        _prctl(_PR_SET_THP_DISABLE, 0)


@contextlib.contextmanager
def neighbour() -> Iterator[None]:
    """This process and those it starts stay on one core, and on another one memory is copied all the time.

    Raises:
        EngineError: there is only one core.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise EngineError("a neighbour needs a core of its own, and this process may use only one")
    child = os.fork()
    if child == 0:
        _copy_for_ever(cpus[0])
    try:
        os.sched_setaffinity(0, {cpus[-1]})
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.sched_setaffinity(0, cpus)


def _copy_for_ever(cpu: int) -> None:
    """Copy memory on a core, as the neighbour, until it or whoever started it is ended."""
    try:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.sched_setaffinity(0, {cpu})
        data = allocate(_COPIED_BYTES)
        while True:
            _kernels.run("copy16", data=data)
    finally:
        os._exit(1)


def emulated(command: Sequence[str]) -> list[str]:
    """The command as QEMU's user mode runs it; a script by its interpreter. What it starts runs natively again.

    Raises:
        EngineError: there is no QEMU for this machine's instructions, or no such command.
    """
    name = f"qemu-{platform.machine()}"
    qemu, program = shutil.which(name), shutil.which(command[0])
    if qemu is None:
        raise EngineError(f"{name} is not on PATH; Debian's package is qemu-user")
    if program is None:
        raise EngineError(f"{command[0]}: no such command")
    with Path(program).open("rb") as file:
        first = file.readline(_LONGEST_INTERPRETER_BYTES)
    by = shlex.split(os.fsdecode(first[2:])) if first.startswith(b"#!") else []
    return [qemu, *by, program, *command[1:]]


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise EngineError(f"prctl({option}, {value}): {os.strerror(ctypes.get_errno())}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The conditions, and the command."""
    parser.add_argument("--neighbour", action="store_true", help="copy memory on another core meanwhile")
    parser.add_argument("--without-huge-pages", action="store_true", help="give no transparent huge pages")
    parser.add_argument("--emulated", action="store_true", help="run the command in QEMU's user mode")
    parser.add_argument("command", nargs="+")


def run(options: argparse.Namespace, _scratch: Path) -> Iterator[Part]:
    """Run a command under the conditions asked for.

    Raises:
        SystemExit: with its exit code, if that is not 0.
    """
    command = emulated(options.command) if options.emulated else options.command
    with contextlib.ExitStack() as conditions:
        if options.without_huge_pages:
            conditions.enter_context(without_huge_pages())
        if options.neighbour:
            conditions.enter_context(neighbour())
        code = subprocess.run(command, check=False).returncode
    if code:
        raise SystemExit(code)
    yield from ()
