"""Time-independent traces as SimGrid writes and replays them: text files of actions, gzip-compressed or not.

Files are read piece by piece. What is read is bounded: `MOST_ACTIONS` of all ranks together, `MOST_BYTES` of text, a
line of `MOST_LINE_BYTES`; a file that is longer, compressed or not, is refused.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from foretrace.base.errors import TraceFileError

from ._time_independent import Reader
from .actions import ACTION, RankActions

MOST_RANKS = 1 << 20
MOST_BYTES = 16 << 30
MOST_ACTIONS = 1 << 27
MOST_LINE_BYTES = 64 << 20
_PIECE_BYTES = 1 << 22
_MOST_LIST_BYTES = 64 << 20
_GZIP = b"\x1f\x8b"


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
    reader = Reader(num_ranks, MOST_ACTIONS)
    firsts: list[tuple[str, int]] = []
    room = MOST_BYTES
    for file in files:
        before = reader.lines()
        firsts.append((str(file), before))
        for piece in _pieces(file, room):
            room -= len(piece)
            wrong = reader.read(piece)
            if wrong:
                raise TraceFileError(f"{file}:{wrong[0] - before}: {wrong[1]}")
    actions, numbers, counts, splits, copies = reader.actions()
    table = np.frombuffer(numbers, np.int64).reshape(-1, 4)
    silent = np.flatnonzero(table[:, 2] == 0)
    if len(silent):
        raise TraceFileError(f"{path}: there is no line of rank {silent[0]}, of {num_ranks} ranks")
    return RankActions(
        actions=np.frombuffer(actions, ACTION),
        firsts=np.concatenate([[0], np.cumsum(table[:, 0])]),
        requests=table[:, 1],
        counts=np.frombuffer(counts, np.float64),
        origin=str(path),
        files=tuple(firsts),
        left_out={name: times for name, times in (("comm_split", splits), ("comm_dup", copies)) if times},
        unfinished=tuple(np.flatnonzero(table[:, 3]).tolist()),
    )


def _check(path: Path) -> None:
    """Refuse what is no file, or too long."""
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


def _pieces(path: Path, most_bytes: int) -> Iterator[bytes]:
    """The text of a file in pieces of whole lines.

    Raises:
        TraceFileError: it cannot be read, or has more than `most_bytes`, or too long a line.
    """
    _check(path)
    rest, total = b"", 0
    try:
        with path.open("rb") as raw:
            is_compressed = raw.read(len(_GZIP)) == _GZIP
            raw.seek(0)
            file = gzip.GzipFile(fileobj=raw) if is_compressed else raw
            while piece := file.read(_PIECE_BYTES):
                total += len(piece)
                if total > most_bytes:
                    raise TraceFileError(f"{path}: more text than the {MOST_BYTES} bytes of a run that are read")
                lines, newline, after = piece.rpartition(b"\n")
                if newline:
                    yield rest + lines + newline
                    rest = after
                else:
                    rest += after
                if len(rest) > MOST_LINE_BYTES:
                    raise TraceFileError(f"{path}: a line has more than {MOST_LINE_BYTES} bytes")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceFileError(f"{path}: damaged or cut short: {error}") from None
    except OSError as error:
        raise TraceFileError(f"{path}: {error.strerror}") from None
    if rest:
        yield rest


def files_of(path: Path) -> list[Path]:
    """The files of a list, relative to it, or to the current folder as SimGrid has it; a file with actions itself."""
    text = b""
    for piece in _pieces(path, MOST_BYTES):
        if not text:
            lines = (line.split() for line in piece.split(b"\n"))
            words = next((words for words in lines if words and not words[0].startswith(b"#")), [])
            if len(words) >= 2 and words[0].isdigit():
                return [path]
        text += piece
        if len(text) > _MOST_LIST_BYTES:
            raise TraceFileError(f"{path}: a list of files of more than {_MOST_LIST_BYTES} bytes")
    names = [line.strip() for line in text.decode("utf-8", "replace").splitlines()]
    files = [path.parent / name if os.path.lexists(path.parent / name) else Path(name) for name in names if name]
    if not files:
        raise TraceFileError(f"{path}: lists no files, and has no actions")
    return files


def _ranks_of(path: Path) -> int:
    """Number of ranks in a file with the actions of all."""
    most = -1
    for piece in _pieces(path, MOST_BYTES):
        most = max(most, *map(int, set(re.findall(rb"^[ \t]*(\d{1,9})", piece, re.MULTILINE))), -1)
    return most + 1
