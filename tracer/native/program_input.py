"""Standard input of a program that is run several times: each run reads what the first one could."""

from __future__ import annotations

import os
import select
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import BinaryIO, Self

from foretrace.base.errors import ProgramError

MAX_KEPT_BYTES = 1 << 30
_CHUNK_BYTES = 1 << 16
_STDIN = 0
_PROBLEM = (
    "standard input cannot be kept for several runs: {}; store it in a file and give it with <, or time a single run"
)


class ProgramInput:
    """Our own standard input, for one run after the other.

    A file is read again from where it stood. What the first run could read of a pipe or socket is kept in a temporary
    file, up to `MAX_KEPT_BYTES`, and comes to the others through pipes as well: programs may look what their input is.
    Of a terminal nothing is kept: the others find an empty input.
    """

    def __init__(self, *, several: bool = True) -> None:
        """`several`: there will be more than one run."""
        self._several = several
        self._stack = ExitStack()
        self._kept: BinaryIO | None = None
        self._problem = ""

    def __enter__(self) -> Self:
        """See what kind it is of."""
        mode = _mode()
        self._is_file, self.is_terminal = stat.S_ISREG(mode), os.isatty(_STDIN)
        self._is_stream = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        self._is_device = stat.S_ISCHR(mode) and not self.is_terminal
        self._start = os.lseek(_STDIN, 0, os.SEEK_CUR) if self._is_file else 0
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what was kept."""
        self._stack.close()

    @contextmanager
    def first(self) -> Iterator[Reading]:
        """For the first run."""
        if not (self._several and self._is_stream):
            yield Reading(None)
            return
        try:
            self._kept = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        except OSError as error:
            raise ProgramError(_PROBLEM.format(error.strerror)) from error
        with _pipe(self._arriving) as reading:
            yield reading

    @contextmanager
    def again(self) -> Iterator[Reading]:
        """For a later run.

        Raises:
            ProgramError: what the first run could read was not kept.
        """
        if self._problem:
            raise ProgramError(self._problem)
        if self._is_device:
            yield Reading(_STDIN)
        elif self._kept is not None:
            with _pipe(self._stored) as reading:
                yield reading
        elif not self._is_file:
            yield Reading(None)
        else:
            stood = os.lseek(_STDIN, 0, os.SEEK_CUR)
            own = _opened(_STDIN)
            try:
                os.lseek(own, self._start, os.SEEK_SET)
                yield Reading(own)
            finally:
                os.close(own)
                os.lseek(_STDIN, stood, os.SEEK_SET)  # where `own` is the same open file

    def _arriving(self, ended: int) -> Iterator[bytes]:
        """Blocks of the input as they arrive, kept for later runs."""
        while _ready(_STDIN, select.POLLIN, ended) and (data := os.read(_STDIN, _CHUNK_BYTES)):
            self._keep(data)
            yield data

    def _stored(self, _ended: int) -> Iterator[bytes]:
        """Blocks of the input that were kept."""
        assert self._kept is not None
        position = 0
        while data := os.pread(self._kept.fileno(), _CHUNK_BYTES, position):
            position += len(data)
            yield data

    def _keep(self, data: bytes) -> None:
        if self._problem or self._kept is None:
            return
        try:
            if self._kept.tell() + len(data) > MAX_KEPT_BYTES:
                raise OSError(0, f"it is longer than {MAX_KEPT_BYTES >> 20} MiB")
            self._kept.write(data)
            self._kept.flush()
        except OSError as error:
            self._problem = _PROBLEM.format(error.strerror)


class Reading:
    """Standard input of a run: a descriptor. None: the first run has ours, a later one an empty input."""

    def __init__(self, descriptor: int | None, begin: Callable[[], None] | None = None) -> None:
        """`begin` is called once the program has its own copy of the descriptor."""
        self.descriptor = descriptor
        self._begin = begin

    def begun(self) -> None:
        """To be called once the program runs."""
        if self._begin is not None:
            self._begin()
            self._begin = None


@contextmanager
def _pipe(chunks: Callable[[int], Iterator[bytes]]) -> Iterator[Reading]:
    """A pipe for a run, fed by a thread from when it has begun to its end.

    Args:
        chunks: what to feed; its argument is a descriptor that is at its end when the run is.
    """
    source, target = os.pipe()
    os.set_blocking(target, False)
    ended, end = os.pipe()
    feeder = threading.Thread(target=_feed, args=[chunks(ended), target, ended], name="foretrace-input", daemon=True)

    def begin() -> None:
        os.close(source)  # else the feeder would not learn that the program has closed its own
        feeder.start()

    reading = Reading(source, begin)
    try:
        yield reading
    finally:
        reading.begun()
        os.close(end)
        feeder.join()
        os.close(ended)


def _feed(chunks: Iterator[bytes], target: int, ended: int) -> None:
    """Write until there is no more, the program reads no more, or has ended."""
    try:
        for data in chunks:
            while data and _ready(target, select.POLLOUT, ended):
                data = data[os.write(target, data) :]
            if data:
                break
    except OSError:  # the program has closed its input, or ours cannot be read
        pass
    finally:
        os.close(target)


def _mode() -> int:
    try:
        return os.fstat(_STDIN).st_mode
    except OSError:  # it is closed
        return 0


def _opened(descriptor: int) -> int:
    """Descriptor of the same file, opened anew where that is allowed: so nobody else's position changes."""
    with suppress(OSError):
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    return os.dup(descriptor)


def _ready(descriptor: int, event: int, ended: int) -> bool:
    """Wait for a descriptor; False once the other one has ended."""
    poll = select.poll()
    poll.register(descriptor, event)
    poll.register(ended, select.POLLIN)
    return all(number != ended for number, _ in poll.poll())
