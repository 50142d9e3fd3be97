"""MPI compilers, and the MPI libraries that programs are linked with."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from pathlib import Path

from foretrace.base.errors import EngineError

_LIBRARY = re.compile(r"^\s*libmpi(?:ch)?\.so(?:\.\d+)* => (/\S+)", re.MULTILINE)
_LONGEST_S = 300


def loaded_library(program: str) -> str:
    """Path of the MPI library that a program or library is linked with, as the dynamic linker finds it; "" if none."""
    try:
        done = subprocess.run(
            ["ldd", program], capture_output=True, text=True, timeout=_LONGEST_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = _LIBRARY.search(done.stdout)
    return found[1] if found else ""


def run_compiler(*command: str) -> bytes:
    """Output of a compiler.

    Raises:
        EngineError: it fails.
    """
    try:
        done = subprocess.run(command, capture_output=True, timeout=_LONGEST_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise EngineError(f"{command[0]} took more than {_LONGEST_S} s; name another with MPICC") from None
    except OSError as error:
        raise EngineError(f"{command[0]} does not run: {error.strerror}") from None
    if done.returncode:
        lines = [line for line in done.stderr.decode(errors="replace").splitlines() if "error" in line]
        if any("neither Open MPI nor MPICH" in line for line in lines):
            raise EngineError(
                f"{command[0]} belongs to an MPI library that is neither Open MPI nor MPICH: MPI calls are recorded of "
                "these two"
            )
        why = lines[0].strip() if lines else f"exit code {done.returncode}"
        raise EngineError(f"{command[0]} cannot compile the library that records MPI calls: {why}")
    return done.stdout


@functools.cache
def linked_library(compiler: str) -> str:
    """Path of the MPI library that a compiler's programs are linked with; "" if it cannot be found out."""
    with tempfile.TemporaryDirectory() as folder:
        made = str(Path(folder) / "program")
        source = Path(folder) / "program.c"
        source.write_text("#include <mpi.h>\nint main(void) { return MPI_Finalize(); }\n")
        try:
            run_compiler(compiler, "-w", "-o", made, str(source))
        except EngineError:
            return ""
        return loaded_library(made)
