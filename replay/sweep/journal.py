"""The journal of a sweep: its finished points, so that a sweep that was killed goes on where it was.

A text file to which lines are appended. The first says what it is: {"schema": "foretrace.sweep-journal/1"}. Each other
line is a finished point: {"key": ..., "sum": ..., "result": {...}}, where `key` is that of the point and `sum` a
checksum of the result. A line without its end was being written when the sweep was killed: it is cut off. Other damaged
lines are counted, and their points worked out again.

Versions of the format:
    foretrace.sweep-journal/1: the first.
"""

from __future__ import annotations

import fcntl
import os
import stat
import zlib
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from foretrace.base import json_text
from foretrace.base.errors import OutputError
from foretrace.base.file_kinds import SWEEP_JOURNAL

from .fields import Row

_HEADER = b'{"schema":"foretrace.sweep-journal/1"}\n'


class _Line(msgspec.Struct):
    key: str
    sum: int
    result: dict[str, str | int | float | bool | None]


def _sum(key: str, result: Any) -> int:
    return zlib.crc32(key.encode() + json_text.encode(result))


class Journal:
    """A journal that is open for this sweep alone."""

    def __init__(self, path: Path) -> None:
        """Open a journal, or begin one.

        Raises:
            OutputError: it cannot be written, is no journal, or another sweep is writing it.
        """
        self.path = path
        self.damaged = 0
        self._results: dict[str, Row] = {}
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        except (OSError, ValueError) as error:
            raise OutputError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from None
        try:
            self._read()
        except BaseException:
            os.close(self._file)
            raise

    def _read(self) -> None:
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise OutputError(f"{self.path}: is no regular file; name another journal")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputError(f"{self.path}: another sweep is writing it; wait for it, or name another") from None
        with open(self._file, "rb", closefd=False) as file:
            head = file.readline(len(_HEADER))
            if head != _HEADER and not _HEADER.startswith(head):
                raise OutputError(f"{self.path}: is not {SWEEP_JOURNAL.title}; name another, or remove it")
            whole = len(head) if head == _HEADER else 0
            for line in file:
                if line.endswith(b"\n"):
                    whole += len(line)
                    self._add(line)
        os.ftruncate(self._file, whole)
        os.lseek(self._file, 0, os.SEEK_END)
        self._is_new = not whole
        if self._is_new:
            self._write(_HEADER)

    def _add(self, line: bytes) -> None:
        try:
            one = json_text.decode(line, _Line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.damaged += 1
            return
        if one.sum == _sum(one.key, one.result):
            self._results[one.key] = one.result
        else:
            self.damaged += 1

    def __len__(self) -> int:
        """Number of finished points."""
        return len(self._results)

    def get(self, key: str) -> Row | None:
        """The result of a finished point; None if it is not finished."""
        return self._results.get(key)

    def put(self, key: str, result: Row) -> None:
        """Write down a finished point.

        Raises:
            OutputError: the disk is full, or the journal cannot be written.
        """
        self._write(json_text.encode({"key": key, "sum": _sum(key, result), "result": result}) + b"\n")
        self._results[key] = result

    def _write(self, line: bytes) -> None:
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written: {error.strerror}") from None

    def remove(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close it, on disk. One that was begun and in which nothing was written is removed."""
        try:
            os.fsync(self._file)
            if self._is_new and not self._results:
                self.remove()
        finally:
            os.close(self._file)
