"""Bandwidth of several threads together: sequential loads, stores and copies, each thread on a core of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foretrace.benchmarks.harness.buffers import allocate
from foretrace.benchmarks.harness.sampling import Measurement, Room, Run, Timing, rounded
from foretrace.benchmarks.kernels import _kernels
from foretrace.profiles.points import Movement, ThreadPoint

_WIDTHS_BYTES = (32, 16, 8)  # the widest that there are kernels for


@dataclass(frozen=True, slots=True)
class Team:
    """Threads that each run through an array of their own."""

    movement: Movement
    threads: int
    working_set_bytes: int
    access_bytes: int


def numbers_of_threads(num_cores: int) -> tuple[int, ...]:
    """1, 2, 4, ... and all cores."""
    powers = [1 << i for i in range(num_cores.bit_length()) if 1 << i < num_cores]
    return (*powers, num_cores)


def thread_measurements(sizes_bytes: Sequence[int], cpus: Sequence[int], room: Room) -> dict[Team, Measurement]:
    """The measurements. Each core's array is as large as the largest size.

    Args:
        sizes_bytes: working sets of one thread.
        cpus: one hardware thread of each core.
        room: what stays in caches.
    """
    arrays = [allocate(max(sizes_bytes)) for _ in cpus]
    found = {}
    for movement in Movement:
        width = next(w for w in _WIDTHS_BYTES if f"{movement}{w}" in _kernels.available() or w == 8)
        kernel = f"{movement}{width}"
        if kernel not in _kernels.available():
            continue
        for size in sizes_bytes:
            for threads in numbers_of_threads(len(cpus)):
                views = [array[:size] for array in arrays[:threads]]
                run = _together(kernel, views, cpus)
                found[Team(movement, threads, size, width)] = room.measurement(movement, run, size, threads=threads)
    return found


def thread_points(measured: Mapping[Team, Timing], source: str) -> tuple[ThreadPoint, ...]:
    """Bandwidth of all threads of a team together."""
    return tuple(
        ThreadPoint(
            team.movement,
            team.threads,
            team.working_set_bytes,
            rounded(team.access_bytes / timing.time_s),
            source,
            rounded(timing.noise),
        )
        for team, timing in measured.items()
    )


def _together(kernel: str, views: Sequence[memoryview], cpus: Sequence[int]) -> Run:
    """All threads at once, each after a round of its own. The time is of one operation of all."""

    def run(repeats: int) -> tuple[float, int]:
        works = tuple((cpu, view, None, None, 0) for cpu, view in zip(cpus, views, strict=False))
        _kernels.run_together(kernel, 1, works)
        seconds, operations, _ = _kernels.run_together(kernel, repeats, works)
        return seconds, operations

    return run
