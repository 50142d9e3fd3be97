"""Reading files up to a limit, and writing them so that they are either whole or not there."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from foretrace.errors import ForetraceError, OutputError


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


def check_output(path: Path, *, force: bool) -> None:
    """Refuse an output path early, before long work is done for it.

    Raises:
        OutputError: the file exists and `force` is False, or it could not be created.
    """
    if path.is_dir():
        raise OutputError(f"{path}: is a directory; name a file")
    if path.exists() and not force:
        raise OutputError(f"{path}: exists already; choose another name, or overwrite it with --force")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: there is no directory {path.parent}")
    try:
        tempfile.TemporaryFile(dir=path.parent).close()  # not every system that allows it can do it: /proc cannot
    except OSError as error:
        raise OutputError(f"{path}: the directory {path.parent} cannot be written: {error.strerror}") from error


def write_atomically(path: Path, data: bytes, *, force: bool) -> None:
    """Write a file that nobody ever sees half-written. Without `force` an existing file stays as it is.

    Raises:
        OutputError: it exists and `force` is False, the disk is full, or the path cannot be written.
    """
    with open_atomically(path, force=force) as file:
        file.write(data)


@contextmanager
def open_atomically(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A file that comes into being, whole, when the context ends, and not at all if it ends with an exception.

    Raises:
        OutputError: as for `write_atomically`; also where writing within the context fails.
    """
    check_output(path, force=force)
    hidden = path.with_name(f".foretrace-{secrets.token_hex(8)}")
    try:
        with _unnamed_file(path.parent) or hidden.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not hidden.exists():
                # Only linkat() follows the link in /proc, which is called if a directory is given; the path needs none.
                os.link(f"/proc/self/fd/{file.fileno()}", hidden, src_dir_fd=file.fileno())
        if force:
            hidden.replace(path)
        else:
            os.link(hidden, path)  # fails, atomically, if the file has come into being meanwhile
    except FileExistsError as error:
        raise OutputError(f"{path}: exists already; choose another name, or overwrite it with --force") from error
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        hidden.unlink(missing_ok=True)


def _unnamed_file(directory: Path) -> BinaryIO | None:
    """A new file that goes with us if we are killed; None where the system has no such."""
    try:
        file = os.fdopen(os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666), "wb")
    except OSError:
        return None
    if Path(f"/proc/self/fd/{file.fileno()}").exists():  # by which it gets its name
        return file
    file.close()
    return None
