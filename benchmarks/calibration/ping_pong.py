"""Messages between two processes, there and back (ping-pong), through MPI where mpi4py is installed.

Run by an MPI launcher as a module it measures, and rank 0 prints one JSON object; `network_measurement` launches it.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from foretrace.benchmarks.harness.sampling import rounded, timing_of
from foretrace.profiles.points import MessagePoint
from foretrace.profiles.profile import Network

SIZES_BYTES = (8, 64, 512, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20)
SAMPLES = 7
SAMPLE_S = 0.003
TIMEOUT_S = 30.0
_TAG = 1


class Communicator(Protocol):
    """Methods used of mpi4py's communicators."""

    def Get_rank(self) -> int: ...  # noqa: N802, D102 - mpi4py's names
    def Send(self, buf: Any, dest: int, tag: int = 0) -> None: ...  # noqa: N802, D102
    def Recv(self, buf: Any, source: int, tag: int = 0) -> None: ...  # noqa: N802, D102


def ping_pong(
    communicator: Communicator,
    sizes_bytes: tuple[int, ...] = SIZES_BYTES,
    clock: Callable[[], float] = time.perf_counter,
) -> list[tuple[int, list[float]]]:
    """Samples of half the time of a message there and back, in seconds, for each size, on rank 0.

    Rank 0 decides how often, and sends the number ahead.
    """
    first = communicator.Get_rank() == 0
    results = []
    for size in sizes_bytes:
        message = bytearray(size)
        turns = 4  # those of the first sample, which warms up and tells how many a sample takes
        samples = []
        for number in range(SAMPLES + 1):
            turns = _agreed(communicator, turns)
            begin = clock()
            for _ in range(turns):
                if first:
                    communicator.Send(message, 1, _TAG)
                    communicator.Recv(message, 1, _TAG)
                else:
                    communicator.Recv(message, 0, _TAG)
                    communicator.Send(message, 0, _TAG)
            one_way_s = (clock() - begin) / turns / 2
            if number:
                samples.append(one_way_s)
            else:
                turns = max(2, min(10_000, int(SAMPLE_S / max(2 * one_way_s, 1e-9))))
        results.append((size, samples))
    return results


def _agreed(communicator: Communicator, turns: int) -> int:
    """Rank 0's number of turns, on both."""
    number = bytearray(turns.to_bytes(8, "little"))
    if communicator.Get_rank() == 0:
        communicator.Send(number, 1, _TAG)
    else:
        communicator.Recv(number, 0, _TAG)
    return int.from_bytes(number, "little")


def network_measurement(num_cores: int) -> list[tuple[int, list[float]]] | str:
    """The samples of `ping_pong` between two processes on this machine, or why there are none."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed"
    launcher = shutil.which("mpiexec") or shutil.which("mpirun")
    if launcher is None:
        return "there is no mpiexec"
    if num_cores < 2:
        return "two processes would share the one core"
    command = [launcher, "-n", "2", sys.executable, "-P", "-m", __name__]
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"{launcher} did not end within {TIMEOUT_S:g} s"
    except OSError as error:
        return f"{launcher}: {error.strerror}"
    try:
        printed = json.loads(result.stdout)
        return [(int(size), [float(sample) for sample in samples]) for size, samples in printed]
    except (ValueError, TypeError):
        lines = (result.stderr or result.stdout).split("\n")
        said = next((" ".join(line.split()) for line in lines if line.strip(" -")), "nothing")
        return f"{launcher} ended with {result.returncode} and said: {said[:200]}"


def network_of(results: list[tuple[int, list[float]]], source: str) -> tuple[Network, tuple[MessagePoint, ...]]:
    """Latency of the shortest message, bandwidth of the longest, and the time of each size."""
    timings = [(size, timing_of((samples[::2], samples[1::2]), shared=False)) for size, samples in results]
    points = tuple(MessagePoint(size, rounded(t.time_s), source, rounded(t.noise)) for size, t in timings)
    shortest, longest = points[0], points[-1]
    figures = {"latency_s": shortest.time_s, "bandwidth_bytes_per_s": rounded(longest.message_bytes / longest.time_s)}
    network = Network(
        source=dict.fromkeys(figures, source),
        latency_s=figures["latency_s"],
        bandwidth_bytes_per_s=figures["bandwidth_bytes_per_s"],
        noise={"latency_s": shortest.noise or 0.0, "bandwidth_bytes_per_s": longest.noise or 0.0},
    )
    return network, points


def main() -> None:
    """Measure, as one of two ranks."""
    from mpi4py import MPI

    results = ping_pong(MPI.COMM_WORLD)
    if MPI.COMM_WORLD.Get_rank() == 0:
        json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
