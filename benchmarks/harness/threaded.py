"""The threaded programs of `programs/threaded/`: OpenMP in C, C++ and Fortran, POSIX threads, Python's threads
and processes.

Each takes the number of threads or processes as its only argument, prints a checksum that does not depend on it but for
rounding, and runs 0.05 to 0.3 s with one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from foretrace.base.errors import EngineError

from .programs import LANGUAGES, SOURCES, compiler_for

THREADED_SOURCES = SOURCES / "threaded"
PYTHON = ".py"

PASSIVE = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "OPENBLAS_NUM_THREADS": "1"}
"""Environment in which OpenMP's threads sleep where they wait: a tracer runs one thread at a time, and others would
spin while they are not on."""


def threaded_programs() -> dict[str, Path]:
    """Source of each threaded program, by its name."""
    return {path.stem: path for path in sorted(THREADED_SOURCES.iterdir()) if path.suffix in (*LANGUAGES, PYTHON)}


def command_of(name: str, directory: Path) -> tuple[str, ...]:
    """Command that runs one of `threaded_programs`, but for the number of threads; it is compiled into `directory`.

    Raises:
        EngineError: as `build_threaded`.
    """
    source = threaded_programs()[name]
    if source.suffix == PYTHON:
        return (sys.executable, str(source))
    return (str(build_threaded(name, directory)),)


def has_processes(name: str) -> bool:
    """Whether a program's workers are processes."""
    source = threaded_programs()[name]
    return source.suffix == PYTHON and "import multiprocessing" in source.read_text()


def start_up_of(name: str) -> tuple[str, ...]:
    """Command that starts the interpreter and loads the modules of a Python program, which no prediction has; else
    empty."""
    if threaded_programs()[name].suffix != PYTHON:
        return ()
    if has_processes(name):
        return (sys.executable, "-c", "import sys, multiprocessing")
    return (sys.executable, "-c", "import sys, concurrent.futures.thread, numpy")


def build_threaded(name: str, directory: Path) -> Path:
    """Compile one of `threaded_programs` into `directory`, as a distribution would, with threads.

    Returns:
        The executable.

    Raises:
        EngineError: there is no compiler of its language, or it fails.
    """
    source = threaded_programs()[name]
    language = LANGUAGES[source.suffix]
    compiler = compiler_for(source.name, language)
    directory.mkdir(parents=True, exist_ok=True)
    for path in (source, THREADED_SOURCES / "threaded.h"):
        shutil.copy(path, directory)
    executable = directory / name
    command = [
        compiler, *language.options, "-O2", "-g", "-Wall", "-fopenmp", "-pthread", "-o", str(executable.absolute()),
        source.name, *language.libraries,
    ]  # fmt: skip
    result = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if result.returncode:
        raise EngineError(f"{source}: {compiler} failed with: {result.stderr.strip()}")
    return executable
