"""Workers of a sweep: each keeps the runs that it read last, and works out one point at a time."""

from __future__ import annotations

import gc
import resource
import signal
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, NoReturn

from foretrace.base.errors import ForetraceError

from .fields import Row
from .inputs import Run
from .methods import METHODS, LoadedRun, Values, refused
from .plan import Point

POINT_CPU_S = 600
"""Processor time that a point may take."""
_MOST_RUNS = 2
_BY_NAME = {method.name: method for method in METHODS}


@dataclass(frozen=True, slots=True)
class Task:
    """A point as it is sent to a worker."""

    number: int
    method: str
    run: Run
    values: Values

    @classmethod
    def of(cls, point: Point) -> Task:
        """The task of a point."""
        return cls(point.number, point.method.name, point.run, point.values)


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a point. `is_final`: the same point would have the same result again."""

    number: int
    result: Row
    is_final: bool = True


class _Runs:
    """The runs that were read last, by digest, or why one cannot be read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, LoadedRun | ForetraceError] = OrderedDict()

    def get(self, run: Run, read: Callable[[], Any]) -> LoadedRun | ForetraceError:
        with self._lock:  # threads of a Dask worker wait for one of them to read it
            found = self._kept.pop(run.digest, None)
            if found is None:
                while len(self._kept) >= _MOST_RUNS:
                    self._kept.popitem(last=False)
                try:
                    found = LoadedRun(read())
                except ForetraceError as error:
                    found = error
                gc.freeze()  # what a run is made of stays: a collection need not look at it
            self._kept[run.digest] = found
            return found


_RUNS = _Runs()


def worked_out(task: Task, read: Callable[[], Any]) -> Answer:
    """A point's result. `read` reads its run, where this worker does not have it."""
    try:
        run = _RUNS.get(task.run, read)
        if isinstance(run, ForetraceError):
            return Answer(task.number, refused(run))
        return Answer(task.number, _BY_NAME[task.method].result(run, task.values))
    except MemoryError:
        return Answer(task.number, {"error": "it takes more memory than its limit, or than there is"}, is_final=False)


class _TimeLimitReachedError(BaseException):
    """A point has taken its processor time."""


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise _TimeLimitReachedError


def _within_limit(task: Task) -> Answer:
    """The result of a point, or that it takes too long."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    wanted = int(used.ru_utime + used.ru_stime) + POINT_CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    try:
        return worked_out(task, task.run.read)
    except _TimeLimitReachedError:
        text = f"it takes more than {POINT_CPU_S} s of processor time"
        return Answer(task.number, {"error": text}, is_final=False)
    except Exception as error:
        return Answer(task.number, refused(error), is_final=False)


def main(descriptor: int) -> None:
    """Work out the points that come in through a socket, until it is closed: then the sweep has ended, or was killed.

    ^C is for the sweep, which ends its workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGXCPU, _stop)
    sys.setswitchinterval(1.0)  # there is one thread
    with Connection(descriptor) as sweep, suppress(EOFError, OSError):
        sweep.send("ready")
        while True:
            sweep.send(_within_limit(sweep.recv()))
