"""Builds the library that records MPI calls, with the compiler of the program's MPI, and keeps it for later runs.

MPI has no binary interface of its own: handles are pointers here and numbers there. So it is compiled against the
`mpi.h` of each MPI library, once for each compiler, version and version of our source.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foretrace.base import files
from foretrace.base.errors import EngineError
from foretrace.base.files import cache_folder

from .compilers import run_compiler
from .libraries import MpiLibrary

NAME = "libforetrace_mpi.so"
_FLAGS = ("-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-fvisibility=hidden", "-ftls-model=initial-exec", "-w")


def sources() -> list[Path]:
    """The C sources of the library."""
    return sorted((_folder() / "interposer").glob("*.c"))


def _folder() -> Path:
    return Path(__file__).resolve().parent


def _root() -> Path:
    """The folder that includes begin at: that of the `foretrace` package."""
    return Path(files.__file__).parent.parent.parent


def interposer(library: MpiLibrary) -> Path:
    """The shared library that records the calls of an MPI library's programs; compiled if it was not yet.

    Raises:
        EngineError: it cannot be compiled, or there is no folder to keep it in.
    """
    base = cache_folder()
    if base is None:
        raise EngineError("there is no home directory for the library that records MPI calls; set XDG_CACHE_HOME")
    folder = base / "mpi" / _key(library)
    target = folder / NAME
    if target.exists():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "lock"):
            if not target.exists():  # another rank may have made it meanwhile
                _compile(library, target)
    except OSError as error:
        raise EngineError(f"{folder}: the library that records MPI calls cannot be made: {error.strerror}") from None
    return target


def _key(library: MpiLibrary) -> str:
    """Name of the library's folder: a digest of all that decides what the compiler makes."""
    digest = hashlib.sha256()
    headers = (*(_folder() / "interposer").glob("*.h"), *_folder().glob("*.h"), _root() / "foretrace/base/tables.h")
    for path in (*sources(), *sorted(headers)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update("\0".join((library.compiler, library.path, *_FLAGS)).encode())
    digest.update(run_compiler(library.compiler, "-E", "-dM", "-include", "mpi.h", "-x", "c", os.devnull))
    return digest.hexdigest()[:24]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """A lock among all ranks that build at the same time."""
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(library: MpiLibrary, target: Path) -> None:
    folder = os.path.dirname(library.path)  # noqa: PTH120 - "" for ""
    hidden = target.with_name(f".{NAME}.{os.getpid()}")
    try:
        run_compiler(
            library.compiler, *_FLAGS, f"-I{_root()}", *([f"-Wl,-rpath,{folder}"] if folder else []),
            "-o", str(hidden), *map(str, sources()),
        )  # fmt: skip
        hidden.replace(target)
    finally:
        hidden.unlink(missing_ok=True)
