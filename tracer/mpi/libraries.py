"""The MPI library that a program uses, and the compiler that belongs to it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from foretrace.base.errors import EngineError

from .compilers import linked_library, loaded_library

_NAMES = {"Open MPI": ("mpicc.openmpi", "mpicc"), "MPICH": ("mpicc.mpich", "mpicc")}
_LONGEST_S = 60


@dataclass(frozen=True, slots=True)
class MpiLibrary:
    """An MPI library: its compiler, and the file that a program loads; "" where only the compiler is known."""

    compiler: str
    path: str = ""


def mpi_library_of(command: Sequence[str], variables: Mapping[str, str]) -> MpiLibrary:
    """The MPI library of a program.

    `MPICC` names the compiler. Else the library that the program loads decides, or that of mpi4py in its interpreter,
    or the launcher's variables where the program is a script or loads the library itself.

    Args:
        command: the program, by its path, with its arguments.
        variables: its environment.

    Raises:
        EngineError: no compiler belongs to it.
    """
    path = loaded_library(command[0]) or _library_of_python(command[0])
    if named := variables.get("MPICC"):
        compiler = shutil.which(named)
        if compiler is None:
            raise EngineError(f"MPICC={named}: there is no such compiler")
        return MpiLibrary(compiler, path)
    candidates = _candidates(path, variables)
    for name in candidates:
        compiler = shutil.which(name)
        if compiler is not None and (not path or _links_with(compiler, path)):
            return MpiLibrary(compiler, path)
    wanted = f"to {path}" if path else "to the program's MPI library"
    raise EngineError(
        f"recording MPI calls takes the C compiler that belongs {wanted}, and there is none (looked for "
        f"{', '.join(candidates)}); install it (on Debian libopenmpi-dev or libmpich-dev), or name it: "
        "MPICC=/path/to/mpicc"
    )


def _library_of_python(program: str) -> str:
    """MPI library that mpi4py in a Python interpreter is linked with; "" if none, or for another program."""
    if not re.fullmatch(r"(python|pypy)[\d.]*", Path(program).name):
        return ""
    ask = "import importlib.util as u; s = u.find_spec('mpi4py'); print(s and s.submodule_search_locations[0] or '')"
    try:
        done = subprocess.run(
            [program, "-c", ask], capture_output=True, text=True, timeout=_LONGEST_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    folder = done.stdout.strip()
    modules = sorted(Path(folder).glob("MPI*.so")) if folder else []
    return next(filter(None, (loaded_library(str(module)) for module in modules)), "")


def _candidates(path: str, variables: Mapping[str, str]) -> list[str]:
    """Compilers that may belong to a library, the likeliest first."""
    names: list[str] = []
    if path:
        real = Path(path).resolve()
        folders = dict.fromkeys(parent / "bin" for parent in list(real.parents)[1:4] if parent != parent.parent)
        is_mpich = "mpich" in real.name
        known = _NAMES["MPICH"] if is_mpich else (*_NAMES["Open MPI"], "mpicc.mpich")
        names += [str(folder / name) for folder in folders for name in known if (folder / name).exists()]
        names += known
    elif "OMPI_COMM_WORLD_SIZE" in variables:
        names += _NAMES["Open MPI"]
    elif "PMI_SIZE" in variables and "PMIX_RANK" not in variables:
        names += _NAMES["MPICH"]
    else:
        names += ["mpicc"]
    return list(dict.fromkeys(names))


def _links_with(compiler: str, path: str) -> bool:
    """Whether programs of a compiler are linked with the library at a path."""
    found = linked_library(compiler)
    return bool(found) and os.path.realpath(found) == os.path.realpath(path)
