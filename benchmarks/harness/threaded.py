"""The threaded programs of `programs/threaded/`: OpenMP in C, C++ and Fortran, and POSIX threads.

Each takes the number of threads as its only argument, prints a checksum that does not depend on it but for rounding,
and runs 0.05 to 0.3 s with one.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from foretrace.errors import EngineError

from .programs import LANGUAGES, SOURCES, compiler_for

THREADED_SOURCES = SOURCES / "threaded"

PASSIVE = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
"""Environment in which OpenMP's threads sleep where they wait: a tracer runs one thread at a time, and others would
spin while they are not on."""


def threaded_programs() -> dict[str, Path]:
    """Source of each threaded program, by its name."""
    return {path.stem: path for path in sorted(THREADED_SOURCES.iterdir()) if path.suffix in LANGUAGES}


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
