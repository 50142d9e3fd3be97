"""The folder of one run of `foretrace events -- PROGRAM`: its processes keep their boards there.

Its name identifies the foretrace that made it, so that a folder left by a killed foretrace is recognised. No other
process removes a folder in use.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .board_file import BOARD_NAME, is_running, process_start, start_of

_NAME = re.compile(r"foretrace-events-run-(\d+)-(\d+)-\w+")


def _base() -> Path:
    """Parent folder of run folders: in memory where that is writable."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


@contextmanager
def run_folder() -> Iterator[Path]:
    """A folder for the boards of one run, removed at its end."""
    prefix = f"foretrace-events-run-{os.getpid()}-{process_start('/proc/self/stat') or 0}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=_base()) as folder:
        yield Path(folder)


def left_folders() -> list[Path]:
    """Folders of this user's runs whose foretrace was killed, and whose programs run no more."""
    try:
        found = [(path, _NAME.fullmatch(path.name)) for path in sorted(_base().iterdir())]
    except OSError:
        return []
    return [
        path
        for path, name in found
        if name and _is_own(path) and not is_running(int(name[1]), int(name[2])) and not _is_in_use(path)
    ]


def remove(folder: Path) -> None:
    """Remove a run's folder with the boards in it. Links in it are not followed."""
    shutil.rmtree(folder, ignore_errors=True)


def _is_own(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _is_in_use(folder: Path) -> bool:
    """Whether a process still counts there."""
    try:
        boards = [(path, BOARD_NAME.fullmatch(path.name)) for path in folder.iterdir()]
    except OSError:
        return True
    return any(name and is_running(int(name[2]), start_of(path)) for path, name in boards)
