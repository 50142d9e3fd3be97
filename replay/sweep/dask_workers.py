"""Workers of a Dask cluster. They are sent the content of runs and machines, and need none of their files."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from foretrace.base.errors import ForetraceError, SweepError
from foretrace.base.version import __version__

from .inputs import Run
from .methods import refused
from .plan import Point
from .workers import Answer, Task, worked_out

if TYPE_CHECKING:
    from distributed import Client, Future

_CONNECT_S = 10
_WORKERS_S = 60.0
"""Seconds to wait for the first worker."""
_TRIES = 3
_AHEAD = 4
"""Points that are given to the scheduler for each thread of the workers."""


def version_here() -> str:
    """The version of foretrace that a worker has."""
    return __version__


def worked_out_of(task: Task, packed: bytes) -> Answer:
    """A point's result on a worker that was sent its run."""
    return worked_out(task, lambda: task.run.kind.unpack(packed, task.run.name))


def _silenced() -> dict[logging.Logger, int]:
    """Keep Dask from logging what a message says in the end. Returns the levels before."""
    loggers = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict) if "distributed" in name]
    levels = {logger: logger.level for logger in loggers}
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    return levels


class DaskWorkers:
    """Workers of a Dask cluster."""

    def __init__(self, address: str) -> None:
        """Connect to a scheduler.

        Raises:
            SweepError: `distributed` is missing, the scheduler cannot be reached, or its workers have another foretrace
                or none.
        """
        try:
            from distributed import Client
        except ImportError:
            raise SweepError("--dask needs distributed; install it with: pip install 'foretrace[sweep]'") from None
        self._levels = _silenced()
        try:
            self._client: Client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError, ImportError, TypeError) as error:
            text = " ".join(str(error).split())
            raise SweepError(f"--dask {address}: no scheduler can be reached there: {text}") from None
        self._address = address
        try:
            self._check()
        except BaseException:
            self._client.close(timeout=1)
            raise

    def _check(self) -> None:
        until = time.monotonic() + _WORKERS_S
        while not self._threads():
            if time.monotonic() > until:
                raise SweepError(f"--dask {self._address}: the scheduler has no workers")
            time.sleep(0.1)
        try:
            found: Mapping[str, str] = self._client.run(version_here)
        except Exception as error:  # what a worker raises comes here as it is
            text = f"{type(error).__name__}: {error}"
            raise SweepError(
                f"--dask {self._address}: its workers cannot run foretrace {__version__} ({text}); install it there"
            ) from None
        others = sorted({version for version in found.values() if version != __version__})
        if others:
            raise SweepError(
                f"--dask {self._address}: workers have foretrace {', '.join(others)}, and this is {__version__}: "
                "install the same there"
            )

    def _threads(self) -> int:
        return sum(self._client.nthreads().values())

    def answers(self, points: Iterable[Point]) -> Generator[Answer, None, None]:
        """The results of points, as they come in.

        Raises:
            SweepError: the scheduler is gone.
        """
        from distributed import as_completed

        left = ((point, 1) for point in points)
        again: deque[tuple[Point, int]] = deque()
        packed: dict[str, Future] = {}
        given: dict[Any, tuple[Point, int]] = {}
        done = as_completed(loop=self._client.loop)

        def give() -> Iterator[Answer]:
            """Give the workers as much as they are ahead, and answer points whose run cannot be read."""
            while len(given) < _AHEAD * max(self._threads(), 1):
                point, tries = again.popleft() if again else next(left, (None, 0))
                if point is None:
                    return
                try:
                    run = self._packed(point.run, packed)
                except ForetraceError as error:
                    yield Answer(point.number, refused(error))
                    continue
                future = self._client.submit(worked_out_of, Task.of(point), run, pure=False)
                given[future.key] = point, tries
                done.add(future)

        try:
            yield from give()
            while given:
                future = next(done)
                point, tries = given.pop(future.key)
                if future.status == "finished":
                    yield future.result()
                elif self._client.status != "running":
                    raise SweepError(f"--dask {self._address}: the connection to the scheduler is lost")
                elif tries < _TRIES:
                    packed.pop(point.run.digest, None)  # it may have been on a worker that was lost
                    again.append((point, tries + 1))
                else:
                    error = future.exception() if future.status == "error" else None
                    yield Answer(point.number, refused(error or SweepError("its worker was lost")), is_final=False)
                yield from give()
        except (OSError, RuntimeError, CancelledError) as error:
            text = " ".join(str(error).split()) or type(error).__name__
            raise SweepError(f"--dask {self._address}: the connection to the scheduler is lost: {text}") from None
        finally:
            with suppress(Exception):
                self._client.close(timeout=2)
            for logger, level in self._levels.items():
                logger.setLevel(level)

    def _packed(self, run: Run, packed: dict[str, Future]) -> Future:
        """A run on the workers; those of the runs before are given up once their points are done."""
        if run.digest not in packed:
            packed.clear()
            packed[run.digest] = self._client.scatter(run.pack(), hash=False)
        return packed[run.digest]
