"""Reading files up to a limit, and writing them so that they are either whole or not there."""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .errors import ForetraceError, OutputError
from .file_kinds import CSV, FileKind, kind_of


def cache_folder() -> Path | None:
    """The folder for files that can be made again: below $XDG_CACHE_HOME or ~/.cache; None without a home directory."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (base if base.is_absolute() else Path.home() / ".cache") / "foretrace"
    except RuntimeError:
        return None


def read_bounded(path: Path, max_bytes: int, what: str, error: type[ForetraceError]) -> bytes:
    """The content of a file that may come from anyone: neither a pipe that never ends nor one that fills the memory.

    Args:
        path: of the file.
        max_bytes: it may have.
        what: it should be, for the message.
        error: raised if it cannot be read, is no file, or larger; says which, and what was expected.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise error(f"{path}: is not a file; name {what}")
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as failure:
        raise error(f"{path}: cannot be read: {failure.strerror or failure}") from None
    except ValueError:  # a NUL in the name
        raise error(f"{path}: cannot be read: its name has a NUL character") from None
    if len(content) > max_bytes:
        raise error(f"{path}: is larger than {max_bytes >> 20} MiB, more than {what} can be")
    return content


def open_unfollowed(path: Path | str, access: int = os.O_RDONLY) -> int:
    """Open a file whose name anyone may have made: no symbolic link is followed, and no pipe waited for.

    Raises:
        OSError: it cannot be opened.
    """
    return os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def is_file_of(status: os.stat_result, user: int) -> bool:
    """Whether a file is a regular one that belongs to a user."""
    return stat.S_ISREG(status.st_mode) and status.st_uid == user


def is_standard_output(path: Path | str) -> bool:
    """Whether an output path means standard output: `-`, or a name that the system has for it."""
    return str(path) in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def check_output(path: Path, kind: FileKind, *, force: bool) -> None:
    """Refuse an output path early, before long work is done for it.

    Args:
        path: of the file to write. Symbolic links are followed.
        kind: what is to be written.
        force: whether an empty file, or one of the same kind, may be replaced. Nothing else ever is.

    Raises:
        OutputError: it may not be replaced, is no regular file, or could not be created.
    """
    target = _target(path, kind, force=force)
    if not target.parent.is_dir():
        raise OutputError(f"{path}: there is no directory {target.parent}")
    try:
        tempfile.TemporaryFile(dir=target.parent).close()  # not every system that allows it can do it: /proc cannot
    except OSError as error:
        raise OutputError(f"{path}: the directory {target.parent} cannot be written: {error.strerror}") from error


def _target(path: Path, kind: FileKind, *, force: bool) -> Path:
    """The file that an output path leads to, whether it exists or not.

    Raises:
        OutputError: it may not be replaced, or is no regular file.
    """
    if is_standard_output(path):
        raise OutputError(f"{path}: {kind.title} cannot be written to standard output; name a file")
    target = _followed(path)
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return target
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
    except ValueError:  # a NUL in the name
        raise OutputError(f"{path}: cannot be written: its name has a NUL character") from None
    if stat.S_ISDIR(found.st_mode):
        raise OutputError(f"{path}: is a directory; name a file")
    if not stat.S_ISREG(found.st_mode) or target.parent == _DESCRIPTORS:
        raise OutputError(f"{path}: is {_what(found.st_mode)}; name a regular file, or one that does not exist")
    there = kind_of(target, kind, CSV)
    if not force and (there is kind or not found.st_size):
        raise OutputError(f"{path}: exists already; choose another name, or overwrite it with --force")
    if there is kind or not found.st_size:
        return target
    what = "nothing that foretrace wrote" if there is None else there.title
    again = "" if force else " exists already, and"
    raise OutputError(f"{path}:{again} is {what}: --force replaces only {kind.title}; choose another name")


_DESCRIPTORS = Path("/proc/self/fd")
_MOST_LINKS = 40  # as Linux has it (path_resolution(7))


def _followed(path: Path) -> Path:
    """The target of a chain of symbolic links, followed up to names of open file descriptors."""
    target = path
    for _ in range(_MOST_LINKS):
        if re.fullmatch(r"/dev/(stdin|stderr|stdout|fd/\d+)|/proc/[^/]+/fd/\d+", str(target)):
            return _DESCRIPTORS / target.name
        try:
            target = target.parent / target.readlink()
        except (OSError, ValueError):
            return target
    raise OutputError(f"{path}: its symbolic links lead nowhere; name a file")


def _what(mode: int) -> str:
    """Name of a kind of file that output is never written to."""
    if stat.S_ISREG(mode):
        return "a name of an open file"
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def write_output(path: Path | str, data: bytes, kind: FileKind, *, force: bool) -> None:
    """Write text to a file, as `write_atomically` does, or to standard output where the path means that."""
    if not is_standard_output(path):
        write_atomically(Path(path), data, kind, force=force)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_atomically(path: Path, data: bytes, kind: FileKind, *, force: bool) -> None:
    """Write a file atomically: it is never visible half-written.

    Args:
        path: of the file. Symbolic links are followed.
        data: its content.
        kind: what it is.
        force: whether an empty file, or one of the same kind, may be replaced. Nothing else ever is.

    Raises:
        OutputError: it may not be replaced, the disk is full, or the path cannot be written.
    """
    with open_atomically(path, kind, force=force) as file:
        file.write(data)


@contextmanager
def open_atomically(path: Path, kind: FileKind, *, force: bool) -> Iterator[BinaryIO]:
    """A file that comes into being, whole, when the context ends, and not at all if it ends with an exception.

    Raises:
        OutputError: as for `write_atomically`; also where writing within the context fails.
    """
    check_output(path, kind, force=force)
    target = _target(path, kind, force=force)
    hidden = target.with_name(f".foretrace-{secrets.token_hex(8)}")
    try:
        with _unnamed_file(target.parent) or hidden.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not hidden.exists():
                # Only linkat() follows the link in /proc, which is called if a directory is given; the path needs none.
                os.link(f"/proc/self/fd/{file.fileno()}", hidden, src_dir_fd=file.fileno())
        if force:
            hidden.replace(_target(path, kind, force=True))  # somebody else may have written there meanwhile
        else:
            os.link(hidden, target)  # fails, atomically, if the file has come into being meanwhile
    except FileExistsError as error:
        raise OutputError(f"{path}: exists already; choose another name, or overwrite it with --force") from error
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        hidden.unlink(missing_ok=True)


def _unnamed_file(directory: Path) -> BinaryIO | None:
    """A new unnamed file, which vanishes if this process is killed; None where the system cannot make one."""
    try:
        file = os.fdopen(os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666), "wb")
    except OSError:
        return None
    if Path(f"/proc/self/fd/{file.fileno()}").exists():  # by which it gets its name
        return file
    file.close()
    return None
