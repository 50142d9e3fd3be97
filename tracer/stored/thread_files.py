"""A drmemtrace trace as DynamoRIO leaves it: a file for each thread, put in one order by their timestamps."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from foretrace.base.errors import TraceFileError

from .input_file import Bytes, InputFile

_ENTRY = np.dtype([("type", "<u2"), ("size", "<u2"), ("address", "<u8")])
_THREAD, _FOOTER, _MARKER, _TIMESTAMP = 22, 26, 28, 2
_MAX_FILES = 512


class ThreadFiles:
    """The entries of all files of a directory. Between two timestamps a thread's entries stay together.

    Takes the place of `Bytes`.

    Raises:
        TraceFileError: it holds no trace files, too many, or one that is damaged.
    """

    def __init__(self, directory: Path) -> None:
        """Open the files."""
        paths = sorted(
            path for path in directory.iterdir() if path.name.endswith((".trace.zip", ".trace.gz", ".trace"))
        )
        if not 1 <= len(paths) <= _MAX_FILES:
            raise TraceFileError(
                f"{directory}: has {len(paths)} files *.trace.zip or *.trace.gz; a directory of a drmemtrace trace has "
                f"one for each thread, and at most {_MAX_FILES} can be read"
            )
        self._files = [InputFile(path) for path in paths]
        self.file = self
        self.name = str(directory)

    @property
    def offset(self) -> int:
        """Bytes taken from all files."""
        return sum(file.offset for file in self._files)

    @property
    def size_bytes(self) -> int:
        """Size of all files together, in bytes."""
        return sum(file.size_bytes or 0 for file in self._files)

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def __iter__(self) -> Iterator[bytes]:
        """Pieces of the files, in the order of their timestamps; each begins by naming its thread."""
        last = -1
        pieces = heapq.merge(*(_pieces(file, number) for number, file in enumerate(self._files)))
        for _, number, _, thread, piece in pieces:
            yield piece if number == last or not thread else thread + piece
            last = number


def _pieces(file: InputFile, number: int) -> Iterator[tuple[int, int, int, bytes, bytes]]:
    """(timestamp, file number, piece number, the entry that names the thread, entries) of one file."""
    rest, thread, stamp, order, footer = b"", b"", 0, 0, False
    for block in Bytes(file):
        data = rest + block
        whole = len(data) // _ENTRY.itemsize * _ENTRY.itemsize
        data, rest = data[:whole], data[whole:]
        entries = np.frombuffer(data, _ENTRY)
        if not len(entries):
            continue
        footer = entries["type"][-1] == _FOOTER
        if not thread and len(named := np.flatnonzero(entries["type"] == _THREAD)):
            thread = entries[named[0]].tobytes()
        stamps = np.flatnonzero((entries["type"] == _MARKER) & (entries["size"] == _TIMESTAMP))
        begins = [0, *stamps.tolist(), len(entries)]
        for begin, end in itertools.pairwise(begins):
            if begin < end:
                if entries["type"][begin] == _MARKER and entries["size"][begin] == _TIMESTAMP:
                    stamp = max(stamp, int(entries["address"][begin]))
                order += 1
                yield stamp, number, order, thread if order > 1 else b"", data[begin * 12 : end * 12]
    if rest or not footer:
        raise TraceFileError(f"{file.name}: ends without the footer of a whole trace, after {file.offset} bytes")
