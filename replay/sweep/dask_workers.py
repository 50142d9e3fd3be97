"""Workers of a Dask cluster. They are sent the content of runs and machines, and need none of their files."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from foretrace.base.errors import SweepError
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
_AHEAD = 4
"""Points that are given to the scheduler for each thread of the workers."""


def version_here() -> str:
    """The version of foretrace that a worker has."""
    return __version__


def worked_out_of(task: Task, packed: bytes) -> Answer:
    """A point's result on a worker that was sent its run."""
    return worked_out(task, lambda: task.run.kind.unpack(packed, task.run.name))


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
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
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

    def answers(self, points: Iterable[Point]) -> Iterator[Answer]:
        """The results of points, as they come in.

        Raises:
            SweepError: the scheduler is gone.
            ForetraceError: a run cannot be read here.
        """
        from distributed import as_completed

        left = iter(points)
        packed: dict[str, Future] = {}
        numbers: dict[Any, int] = {}
        done = as_completed()

        def give() -> bool:
            point = next(left, None)
            if point is None:
                return False
            future = self._client.submit(
                worked_out_of, Task.of(point), self._packed(point.run, packed), pure=False, retries=1
            )
            numbers[future.key] = point.number
            done.add(future)
            return True

        try:
            while self._threads() * _AHEAD > len(numbers) and give():
                pass
            while numbers:
                future = next(done)
                number = numbers.pop(future.key)
                yield self._answer(future, number)
                if not self._threads() and self._client.status not in ("running", "connecting"):
                    raise SweepError(f"--dask {self._address}: the scheduler is gone")
                while (self._threads() or 1) * _AHEAD > len(numbers) and give():
                    pass
        finally:
            with suppress(Exception):
                self._client.close(timeout=2)

    def _packed(self, run: Run, packed: dict[str, Future]) -> Future:
        """A run on the workers; those of the runs before are given up once their points are done."""
        if run.digest not in packed:
            packed.clear()
            packed[run.digest] = self._client.scatter(run.pack(), hash=False)
        return packed[run.digest]

    def _answer(self, future: Future, number: int) -> Answer:
        if future.status == "finished":
            found: Answer = future.result()
            return found
        if future.status == "cancelled" or future.status == "lost":
            raise SweepError(f"--dask {self._address}: the connection to the scheduler is lost")
        error = future.exception()
        return Answer(number, refused(error or SweepError("its worker was lost")), is_final=False)
