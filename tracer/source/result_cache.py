"""On-disk cache of files' results, by content.

A result holds as long as the file, the files it includes, the patterns and foretrace itself are what they were. Entries
are JSON, checked when they are read: a damaged one counts as missing.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from .idioms.records import Finding, LoopReport, SkippedPart
from .loop_text.records import LoopText

_CODE = frozenset({".py", ".so", ".toml", ".h"})
_PARSERS = ("islpy", "libclang", "tree-sitter", "tree-sitter-fortran")
MOST_BYTES = 256 << 20
"""Kept on disk; the oldest entries go first."""
_OWN_NAMES = re.compile(r"[0-9a-f]{64}\.json|new-\w+\.json")


class FileResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Analysis result of one file: findings, loops, and skipped parts."""

    findings: tuple[Finding, ...]
    loops: tuple[LoopReport, ...]
    skipped: tuple[SkippedPart, ...]
    lines: int
    includes: tuple[tuple[str, str], ...] = ()
    """Included files that it depends on, each with the digest of its content."""
    text: LoopText = LoopText()
    """The loops of its own text."""
    opaque: tuple[SkippedPart, ...] = ()
    """Statements that were not read, and may hold loops."""


@cache
def digest_of(path: Path) -> str:
    """Digest of a file's content; "" if it cannot be read. Computed once for each file in a process."""
    return _digest_now(path)


def _digest_now(path: Path) -> str:
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return ""


@cache
def _own_digest() -> str:
    """Digest of the analysis itself: the code in this folder and below, its built C core, and the parsers' versions."""
    total = hashlib.sha256()
    for path in sorted(path for path in Path(__file__).parent.rglob("*") if path.suffix in _CODE):
        total.update(path.read_bytes())
    for package in _PARSERS:
        with suppress(PackageNotFoundError):
            total.update(f"{package} {version(package)}\0".encode())
    return total.hexdigest()


class ResultCache:
    """Results by content, in a folder; without a folder it holds nothing."""

    def __init__(self, folder: Path | None, patterns: str) -> None:
        """`patterns` is the text of all patterns in use."""
        self._folder = folder
        self._patterns = patterns
        self._decoder = msgspec.json.Decoder(FileResult)

    def find(self, path: Path) -> FileResult | None:
        """The result for a file as it is now."""
        if self._folder is None:
            return None
        try:
            result = self._decoder.decode(self._entry(path).read_bytes())
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return result if all(digest_of(Path(name)) == known for name, known in result.includes) else None

    def keep(self, path: Path, result: FileResult) -> None:
        """Keep a result, unless the file changed since `find` was asked.

        A disk that is full or read-only keeps nothing, and that is no error.
        """
        if self._folder is None or _digest_now(path) != digest_of(path):
            return
        with suppress(OSError, UnicodeEncodeError):
            content = msgspec.json.encode(result)
            entry = self._entry(path)
            entry.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix="new-", suffix=".json", dir=entry.parent)
            try:
                with open(handle, "wb") as file:  # noqa: PTH123 - a handle
                    file.write(content)
                os.replace(name, entry)  # noqa: PTH105
            except BaseException:
                os.unlink(name)  # noqa: PTH108
                raise

    def trim(self) -> None:
        """Delete the oldest entries until the rest takes at most `MOST_BYTES`.

        Only in the folder itself, not in one that a link leads to, and only this user's files with an entry's name: the
        folder may hold files of others.
        """
        if self._folder is None:
            return
        with suppress(OSError):
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                _trim(folder)
            finally:
                os.close(folder)

    def _entry(self, path: Path) -> Path:
        assert self._folder is not None
        key = "\0".join((_own_digest(), self._patterns, str(path), digest_of(path)))
        return self._folder / f"{hashlib.sha256(os.fsencode(key)).hexdigest()}.json"


def _trim(folder: int) -> None:
    entries = []
    for name in os.listdir(folder):
        with suppress(OSError):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if _OWN_NAMES.fullmatch(name) and stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid():
                entries.append((found.st_mtime, found.st_size, name))
    total = sum(size for _, size, _ in entries)
    for _, size, name in sorted(entries):
        if total <= MOST_BYTES:
            break
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        total -= size
