"""The simulator: an address stream goes in, totals, misses and reuse distances of each memory operation come out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import ForetraceError
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.base.results import Event, MemoryEvents, OperationStatistics, SimulatedHierarchy
from foretrace.cache_sim.reuse.results import ReuseHistograms, measured_reuse
from foretrace.cache_sim.simulation import _core

from .simulator_core import DEFAULT_REUSE_RATE as DEFAULT_REUSE_RATE
from .simulator_core import SimulatorCore

_FETCH = 2  # FT_ACCESS_FETCH of access.h; FT_ACCESS_STORE is 1


class Simulator:
    """Simulates any number of cache hierarchies, and samples reuse distances, in one pass over an address stream.

    Plain hierarchies (see `Hierarchy.is_plain`) that begin with the same levels share the simulation of these; each of
    the others is simulated by a thread of its own. Producers in C feed it through `sink`. Results can be asked for at
    any time; they cover what was fed until then.

    Args:
        hierarchies: what to simulate.
        reuse_rate: share of the memory that reuse distances are sampled of in the long run: 1, 1/2, ... 1/512, or less
            where that would cost too much. At 1 all that uses less than 8 MB is measured exactly. None: no distances.

    Raises:
        ForetraceError: `reuse_rate` is out of range, or memory cannot hold the simulated caches.
    """

    def __init__(
        self,
        hierarchies: Sequence[Hierarchy],
        *,
        reuse_rate: float | None = DEFAULT_REUSE_RATE,
    ) -> None:
        """Allocate the simulated caches."""
        self._take(SimulatorCore(hierarchies, reuse_rate))

    @classmethod
    def of(cls, core: SimulatorCore) -> Simulator:
        """The simulator that a core, which may have been fed already, is part of."""
        simulator = cls.__new__(cls)
        simulator._take(core)
        return simulator

    def _take(self, core: SimulatorCore) -> None:
        self._hierarchies, self._level_indices, self._core = core.hierarchies, core.level_indices, core.core

    @property
    def sink(self) -> object:
        """A capsule with the `struct ft_sink` of access.h, for producers in C. It keeps the simulator alive."""
        return self._core.sink

    def feed(
        self,
        addresses: npt.ArrayLike,
        sizes_bytes: npt.ArrayLike,
        operations: npt.ArrayLike,
        stores: npt.ArrayLike = False,
        *,
        thread: int = 0,
    ) -> None:
        """Simulate accesses by one thread, in order.

        Args:
            addresses: [n] of the first bytes.
            sizes_bytes: [n] or one for all, 1 to 65535.
            operations: [n] or one for all, ids of the memory operations, dense from 0.
            stores: [n] or one for all, True for stores.
            thread: number of the thread.

        Raises:
            ForetraceError: a value is out of range, or memory ran out.
        """
        flags = np.asarray(stores, dtype=np.bool_).astype(np.uint8)
        self._feed(addresses, sizes_bytes, operations, flags, "operations", thread)

    def fetch(
        self, addresses: npt.ArrayLike, sizes_bytes: npt.ArrayLike, blocks: npt.ArrayLike, *, thread: int = 0
    ) -> None:
        """Simulate fetches of the code of basic blocks by one thread, in order; only instruction caches see them.

        Args:
            addresses: [n] of the blocks' first bytes.
            sizes_bytes: [n] or one for all, 1 to 65535.
            blocks: [n] or one for all, ids of the blocks, dense.
            thread: number of the thread.

        Raises:
            ForetraceError: a value is out of range, or memory ran out.
        """
        if any(hierarchy.instruction is not None for hierarchy in self._hierarchies):
            self._feed(addresses, sizes_bytes, blocks, np.uint8(_FETCH), "blocks", thread)

    def _feed(
        self,
        addresses: npt.ArrayLike,
        sizes_bytes: npt.ArrayLike,
        operations: npt.ArrayLike,
        flags: npt.NDArray[np.uint8] | np.uint8,
        what: str,
        thread: int,
    ) -> None:
        rows = np.atleast_1d(_column("addresses", addresses, np.uint64, 0))
        columns = (
            _column("sizes_bytes", sizes_bytes, np.uint16, 1),
            _column(what, operations, np.uint32, 0),
            np.asarray(flags),
        )
        _column("thread", thread, np.uint32, 0)
        for name, column in zip(("sizes_bytes", what, "stores"), columns, strict=True):
            if column.shape not in ((), rows.shape):
                raise ForetraceError(
                    f"{name} has shape {column.shape}, must be one value or like addresses {rows.shape}"
                )
        if _reach_too_far(rows, columns[0]):
            raise ForetraceError("addresses: an access reaches beyond the end of a 64-bit address space")
        with _memory_checked():
            self._core.set_thread(thread)
            self._core.feed(rows, *map(np.atleast_1d, columns))

    def reserve(self, num_operations: int) -> None:
        """Ensure rows for at least `num_operations` operations in the results; operations never fed have all zeros.

        Raises:
            ForetraceError: memory ran out.
        """
        try:
            self._core.reserve(num_operations)
        except MemoryError:
            raise ForetraceError(f"memory ran out for {num_operations} memory operations") from None

    @property
    def num_operations(self) -> int:
        """One more than the largest operation id fed or reserved."""
        with _memory_checked():
            return self._core.num_operations

    def statistics(self) -> OperationStatistics:
        """Totals of each operation."""
        with _memory_checked():
            table = np.frombuffer(self._core.statistics(), dtype=np.uint64).reshape(-1, 9)
            return OperationStatistics(*(np.ascontiguousarray(column) for column in table.T))

    def simulated(self) -> tuple[SimulatedHierarchy, ...]:
        """Misses of each operation, for each hierarchy in the order given."""
        with _memory_checked():
            misses = [np.frombuffer(self._core.misses(i), dtype=np.uint64) for i in range(self._num_levels)]
            plain = (np.stack([misses[i] for i in indices], axis=1) for indices in self._level_indices)
            num_operations, num_systems = self._core.num_operations, 0
            results = []
            for hierarchy in self._hierarchies:
                if hierarchy.is_plain:
                    results.append(SimulatedHierarchy(hierarchy, next(plain)))
                else:
                    results.append(self._simulated_system(num_systems, hierarchy, num_operations))
                    num_systems += 1
            return tuple(results)

    def _simulated_system(self, number: int, hierarchy: Hierarchy, num_operations: int) -> SimulatedHierarchy:
        shape = (-1, len(hierarchy.parts), len(Event))
        by_operation, by_block = (
            np.frombuffer(self._core.memory_counts(number, of_fetches), dtype=np.uint64).reshape(shape)
            for of_fetches in (False, True)
        )
        table = np.zeros((num_operations, *shape[1:]), dtype=np.uint64)
        table[: len(by_operation)] = by_operation
        events = MemoryEvents(tuple(part.name for part in hierarchy.parts), table, by_block)
        misses = np.ascontiguousarray(table[:, : len(hierarchy.levels), tuple(Event).index(Event.MISSES)])
        return SimulatedHierarchy(hierarchy, misses, events)

    def reuse(self) -> ReuseHistograms | None:
        """Reuse distances of each operation; None if they were not asked for."""
        with _memory_checked():
            result = self._core.reuse()
        if result is None:
            return None
        return measured_reuse(result, self.statistics().executions, np.array(_core.reuse_bin_edges()))

    @property
    def _num_levels(self) -> int:
        return 1 + max((i for indices in self._level_indices for i in indices), default=-1)


@contextmanager
def _memory_checked() -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise ForetraceError("memory ran out while simulating: simulate fewer or smaller caches") from None


def _reach_too_far(addresses: npt.NDArray[np.uint64], sizes_bytes: npt.NDArray[np.uint16]) -> bool:
    """Whether an access ends beyond the last address; one size may be that of all."""
    last = np.uint64(np.iinfo(np.uint64).max)
    if not len(addresses) or addresses.max() <= last - np.uint64(np.iinfo(np.uint16).max):
        return False
    return bool(np.any(addresses > last - sizes_bytes))


def _column(name: str, values: npt.ArrayLike, dtype: type[np.unsignedinteger[Any]], lowest: int) -> npt.NDArray[Any]:
    """The values as a contiguous array of a type that may be narrower, once it is certain that they fit."""
    given = np.asarray(values)
    highest = int(np.iinfo(dtype).max)
    if given.ndim > 1 or (given.dtype.kind not in "ui" and given.size):
        raise ForetraceError(f"{name} has shape {given.shape} and type {given.dtype}, must be whole numbers in one row")
    fits = given.dtype == dtype and lowest == 0  # any value does, and there may be very many
    if given.size and not fits and not lowest <= int(given.min()) <= int(given.max()) <= highest:
        raise ForetraceError(f"{name} has values from {given.min()} to {given.max()}, must be {lowest} to {highest}")
    return np.ascontiguousarray(given, dtype=dtype).reshape(given.shape)
