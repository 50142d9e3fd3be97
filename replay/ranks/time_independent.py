"""Time-independent traces as SimGrid writes and replays them: text files of actions."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import numpy as np

from foretrace.base.errors import TraceFileError

from ._time_independent import Reader
from .actions import ACTION, RankActions

MOST_RANKS = 1 << 20
MOST_BYTES = 64 << 30
_HEAD_BYTES = 4096


def read_time_independent(path: Path, ranks: int | None = None) -> RankActions:
    """Read a run: a file with the actions of all ranks, or a list of the file of each rank, or of that one file.

    Args:
        path: of the list or the file.
        ranks: number of ranks; as many as act if not given.

    Raises:
        TraceFileError: a file is missing or too long, or a line is wrong.
    """
    files = files_of(path)
    num_ranks = ranks or (_ranks_of(files[0]) if len(files) == 1 else len(files))
    if not 1 <= num_ranks <= MOST_RANKS:
        raise TraceFileError(f"{path}: {num_ranks} ranks, must be 1 to {MOST_RANKS}")
    reader = Reader(num_ranks)
    for file in files:
        wrong = reader.read(_text(file))
        if wrong:
            raise TraceFileError(f"{file}:{wrong[0]}: {wrong[1]}")
    actions, numbers, counts = reader.actions()
    table = np.frombuffer(numbers, np.int64).reshape(-1, 3)
    silent = np.flatnonzero(table[:, 2] == 0)
    if len(silent):
        raise TraceFileError(f"{path}: there is no line of rank {silent[0]}, of {num_ranks} ranks")
    return RankActions(
        actions=np.frombuffer(actions, ACTION),
        firsts=np.concatenate([[0], np.cumsum(table[:, 0])]),
        requests=table[:, 1],
        counts=np.frombuffer(counts, np.float64),
        origin=str(path),
    )


def _check(path: Path) -> None:
    """Refuse what cannot be read as a whole."""
    if not str(path).isprintable():
        raise TraceFileError(f"{str(path)!r} is no name of a file")
    try:
        found = path.stat()
    except OSError as error:
        raise TraceFileError(f"{path}: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise TraceFileError(f"{path}: is no regular file")
    if found.st_size > MOST_BYTES:
        raise TraceFileError(f"{path}: {found.st_size} bytes, more than the {MOST_BYTES} that are read")


def _text(path: Path, most_bytes: int = -1) -> bytes:
    _check(path)
    try:
        with path.open("rb") as file:
            return file.read(most_bytes)
    except OSError as error:
        raise TraceFileError(f"{path}: {error.strerror}") from None


def files_of(path: Path) -> list[Path]:
    """The files of a list, relative to it, or to the current folder as SimGrid has it; a file with actions itself."""
    lines = (line.split() for line in _text(path, _HEAD_BYTES).split(b"\n"))
    words = next((words for words in lines if words and not words[0].startswith(b"#")), [])
    if len(words) >= 2 and words[0].isdigit():
        return [path]
    names = [line.strip() for line in _text(path).decode("utf-8", "replace").splitlines()]
    files = [path.parent / name if os.path.lexists(path.parent / name) else Path(name) for name in names if name]
    if not files:
        raise TraceFileError(f"{path}: lists no files, and has no actions")
    return files


def _ranks_of(path: Path) -> int:
    """Number of ranks in a file with the actions of all."""
    numbers = set(re.findall(rb"^[ \t]*(\d{1,9})", _text(path), re.MULTILINE))
    return max(map(int, numbers), default=-1) + 1
