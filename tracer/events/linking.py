"""Paths of the library that programs link with and of its headers."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
from pathlib import Path

from foretrace.base.errors import EventsError
from foretrace.base.files import cache_folder

NAME = "libforetrace_events.so"
_SONAMES = ("libsde.so", "libsde.so.1", "libsde.so.1.0")


def library() -> Path:
    """The shared library.

    Raises:
        EventsError: it was not built.
    """
    found = importlib.util.find_spec("foretrace.tracer.events")
    for folder in (found.submodule_search_locations or ()) if found else ():
        if (Path(folder) / NAME).exists():
            return Path(folder).resolve() / NAME
    raise EventsError(f"{NAME} is missing from this installation of foretrace; install it again")


def compiler_flags() -> str:
    """Compiler flags that find the header."""
    return shlex.join([f"-I{library().parent / 'include'}"])


def linker_flags() -> str:
    """Linker flags; programs linked with them find the library when they start."""
    folder = library().parent
    return shlex.join([f"-L{folder}", f"-Wl,-rpath,{folder}", "-lforetrace_events"])


def drop_in() -> Path:
    """A folder with links to the library under the names of PAPI's, for LD_LIBRARY_PATH.

    One file under all names: a program that loads it by several has one registry. Each installation has a folder of its
    own, so that another one does not change what a program loads.

    Raises:
        EventsError: the folder cannot be made.
    """
    base = cache_folder()
    if base is None:
        raise EventsError("there is no home directory for a folder with libsde.so.1; set XDG_CACHE_HOME")
    target = library()
    folder = base / "libsde" / hashlib.sha256(os.fsencode(target)).hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in _SONAMES:
            link = folder / name
            if link.is_symlink() and link.readlink() == target:
                continue
            made = folder / f"{name}.{os.getpid()}"
            made.unlink(missing_ok=True)
            made.symlink_to(target)
            made.replace(link)  # another process may be making it, too
    except OSError as error:
        raise EventsError(f"{folder}: cannot be made: {error.strerror}") from None
    return folder
