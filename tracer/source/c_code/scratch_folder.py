"""Folder of precompiled headers and other scratch files, shared by the processes that read files. A single process
makes its own.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "foretrace-source-"
_folder: list[Path] = []


def own_folder() -> Path:
    """This process's folder."""
    if not _folder:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        owner = os.getpid()
        atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None)
        _folder.append(folder)
    return _folder[0]


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder for several processes, which call `use_folder`; it is gone at the end.

    So are folders of processes that were killed before they could remove theirs.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if _is_left(left):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def use_folder(folder: Path) -> None:
    """Use a given folder for this process's files."""
    _folder[:] = [folder]


def _is_left(folder: Path) -> bool:
    """Whether a folder is this user's and its process is gone."""
    found = re.fullmatch(rf"{_PREFIX}(\d{{1,9}})-\w+", folder.name)
    with suppress(OSError):
        own = os.stat(folder, follow_symlinks=False)  # noqa: PTH116
        if found and stat.S_ISDIR(own.st_mode) and own.st_uid == os.getuid():
            try:
                os.kill(int(found[1]), 0)
            except ProcessLookupError:
                return True
    return False
