"""Worker processes on this machine. Each has a socket to the sweep, and ends when that is closed.

Workers are started anew and import nothing of the program that sweeps. One that dies is replaced, and its point tried
again once.
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait

from foretrace.base.errors import SweepError

from .plan import Point
from .workers import Answer, Task

_SETTINGS = {
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
"""Environment of workers: one thread each; memory that is given back is kept for the next point (glibc), which takes
the same again."""
_TRIES = 2
_ENDS_S = 5.0
_START = "import sys; sys.path[:] = {path!r}; from foretrace.replay.sweep.workers import main; main({descriptor})"


def number_of_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


@dataclass(slots=True, eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection
    task: Task | None = None
    tries: int = 0
    is_ready: bool = False

    @classmethod
    def start(cls) -> _Worker:
        ours, theirs = socket.socketpair()
        with theirs:
            code = _START.format(path=sys.path, descriptor=theirs.fileno())
            process = subprocess.Popen(
                [sys.executable, "-c", code], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, env=_SETTINGS | os.environ,
            )  # fmt: skip
        return cls(process, Connection(ours.detach()))

    def give(self, task: Task, tries: int) -> None:
        self.task, self.tries = task, tries
        with suppress(OSError):  # it has died: its end of the socket says so
            self.connection.send(task)

    def end(self) -> None:
        """Kill it."""
        self.connection.close()
        self.process.kill()
        self.process.wait()

    def died(self) -> int:
        """Its exit code, or the negative signal that ended it, once it has closed its socket by itself."""
        self.connection.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_ENDS_S)
        self.process.kill()
        return self.process.wait()


class Processes:
    """Worker processes on this machine."""

    def __init__(self, jobs: int) -> None:
        """Take the number of processes."""
        self._jobs = jobs

    def answers(self, points: Iterable[Point]) -> Generator[Answer, None, None]:
        """The results of points, as they come in.

        Raises:
            SweepError: workers cannot be started.
        """
        left = iter(points)
        again: deque[tuple[Task, int]] = deque()
        workers: dict[Connection, _Worker] = {}

        def give(worker: _Worker) -> bool:
            if again:
                worker.give(*again.popleft())
            else:
                point = next(left, None)
                if point is None:
                    worker.task = None
                    return False
                worker.give(Task.of(point), 1)
            return True

        try:
            while True:
                while len(workers) < self._jobs:
                    started = _Worker.start()
                    workers[started.connection] = started
                    if not give(started):
                        del workers[started.connection]
                        started.end()
                        break
                if not workers:
                    return
                for connection in wait(list(workers)):
                    assert isinstance(connection, Connection)
                    worker = workers[connection]
                    try:
                        message = connection.recv()
                    except (EOFError, OSError, pickle.UnpicklingError):
                        del workers[connection]
                        yield from _after_death(worker, again)
                        continue
                    if not isinstance(message, Answer):
                        worker.is_ready = True
                        continue
                    if not give(worker):
                        del workers[connection]
                        worker.end()
                    yield message
        finally:
            for worker in workers.values():
                worker.process.kill()
            for worker in workers.values():
                worker.end()


def _after_death(worker: _Worker, again: deque[tuple[Task, int]]) -> Iterator[Answer]:
    """Have the point of a worker that died tried again, or give it up."""
    code = worker.died()
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    assert worker.task is not None, "one without a task is ended at once"
    if worker.tries < _TRIES:
        again.append((worker.task, worker.tries + 1))
        return
    if not worker.is_ready:
        raise SweepError(f"a worker process ended {how} when it was started")
    text = f"its worker process ended {how}, {_TRIES} times"
    yield Answer(worker.task.number, {"error": text}, is_final=False)
