"""Messages between two processes through MPI, where mpi4py is installed: their times by size (ping-pong), what they
cost the processors, and up to which size a send does not wait for its receive.

Run by an MPI launcher as a module it measures, and rank 0 prints one JSON object; `network_measurement` launches it on
this machine. With `-o FILE` rank 0 writes an interconnect's file: `mpirun -n 2 -host a,b python -m
foretrace.benchmarks.calibration.ping_pong -o mine.toml`.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from foretrace.base.errors import CalibrationError, ForetraceError
from foretrace.base.file_kinds import INTERCONNECT
from foretrace.base.files import write_output
from foretrace.benchmarks.harness.sampling import Timing, rounded, timing_of
from foretrace.profiles.interconnect import SCHEMA, Interconnect, format_interconnect
from foretrace.profiles.points import MessagePoint
from foretrace.profiles.profile import Network, NodeNetwork, Source, SourceKind

SIZES_BYTES = (8, 64, 512, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20)
SAMPLES = 7
SAMPLE_S = 0.003
TIMEOUT_S = 60.0
NOBODY = -2
"""Rank of a partner that does not exist: a message to it is a call that does nothing."""
BURST = 4
"""Short messages that are sent one after the other while a process is timed."""
OVERHEAD_SAMPLES = 40
THERE_S, LATE_S, LATE_TRIES = 0.5e-3, 0.02, 3
"""After the first a short message is there. A receive is late by the second where its send may wait for it, which is
believed after so many tries."""
_TAG, _DONE = 1, 2
_SHORT_BYTES = 8


class Communicator(Protocol):
    """Methods used of mpi4py's communicators."""

    def Get_rank(self) -> int: ...  # noqa: N802, D102 - mpi4py's names
    def Send(self, buf: Any, dest: int, tag: int = 0) -> None: ...  # noqa: N802, D102
    def Recv(self, buf: Any, source: int, tag: int = 0) -> None: ...  # noqa: N802, D102
    def Iprobe(self, source: int, tag: int = 0) -> bool: ...  # noqa: N802, D102


@dataclass(frozen=True, slots=True)
class Messages:
    """Samples of messages between two processes, in seconds.

    Attributes:
        messages: of each size, half the time of a message there and back.
        send_s, receive_s: of a call that sends a short message, and of one that receives one which is there.
        call_s: of a call that does nothing: what mpi4py takes.
        eager_threshold_bytes: longest message whose send did not wait for its receive; None: all that were tried.
        facts: hosts, MPI library, load.
    """

    messages: list[tuple[int, list[float]]]
    send_s: list[float]
    receive_s: list[float]
    call_s: list[float]
    eager_threshold_bytes: int | None
    facts: Mapping[str, str]


def measure(
    communicator: Communicator,
    sizes_bytes: tuple[int, ...] = SIZES_BYTES,
    clock: Callable[[], float] = time.perf_counter,
    nobody: int = NOBODY,
) -> Messages:
    """All samples, on rank 0; both ranks call it."""
    messages = ping_pong(communicator, sizes_bytes, clock)
    call_s = _calls(communicator, clock, nobody)
    send_s, receive_s = _overheads(communicator, clock)
    return Messages(messages, send_s, receive_s, call_s, eager_threshold(communicator, max(sizes_bytes), clock), {})


def _calls(communicator: Communicator, clock: Callable[[], float], nobody: int) -> list[float]:
    message, samples = bytearray(_SHORT_BYTES), []
    for _ in range(OVERHEAD_SAMPLES):
        begin = clock()
        for _ in range(BURST):
            communicator.Send(message, nobody, _TAG)
        samples.append((clock() - begin) / BURST)
    return samples


def _overheads(communicator: Communicator, clock: Callable[[], float]) -> tuple[list[float], list[float]]:
    """Samples of a short send, and of a receive whose message is there, on rank 0."""
    message = bytearray(_SHORT_BYTES)
    sends, receives = [], []
    for _ in range(OVERHEAD_SAMPLES):
        if communicator.Get_rank() == 0:
            begin = clock()
            for _ in range(BURST):
                communicator.Send(message, 1, _TAG)
            sends.append((clock() - begin) / BURST)
            communicator.Recv(message, 1, _TAG)  # the other has them all, and sends as many
            _wait(THERE_S, clock)
            begin = clock()
            for _ in range(BURST):
                communicator.Recv(message, 1, _TAG)
            receives.append((clock() - begin) / BURST)
        else:
            for _ in range(BURST):
                communicator.Recv(message, 0, _TAG)
            for _ in range(1 + BURST):
                communicator.Send(message, 0, _TAG)
    return sends, receives


def eager_threshold(
    communicator: Communicator, most_bytes: int, clock: Callable[[], float] = time.perf_counter
) -> int | None:
    """The longest message whose send does not wait for a late receive, to the byte; None: all up to `most_bytes`."""
    eager, waits = 0, most_bytes + 1
    size = most_bytes
    while waits - eager > 1:
        if any(_is_eager(communicator, size, clock) for _ in range(LATE_TRIES)):  # a busy processor makes late, too
            eager = size
        else:
            waits = size
        size = 2 * eager if eager and 2 * eager < waits else (eager + waits) // 2
    return eager if waits <= most_bytes else None


def _is_eager(communicator: Communicator, size_bytes: int, clock: Callable[[], float]) -> bool:
    """Whether a send of this size ends while its receive is still to come.

    The sender says so with a second message. The receiver looks for that one, and receives the first only afterwards.
    """
    message, token = bytearray(size_bytes), bytearray(1)
    if communicator.Get_rank() == 0:
        communicator.Recv(token, 1, _TAG)
        communicator.Send(message, 1, _TAG)
        communicator.Send(token, 1, _DONE)
        communicator.Recv(token, 1, _TAG)
        return bool(token[0])
    communicator.Send(token, 0, _TAG)
    end, is_done = clock() + LATE_S, False
    while not is_done and clock() < end:
        is_done = communicator.Iprobe(0, _DONE)
    communicator.Recv(message, 0, _TAG)
    communicator.Recv(token, 0, _DONE)
    communicator.Send(bytearray([is_done]), 0, _TAG)
    return is_done


def _wait(seconds: float, clock: Callable[[], float]) -> None:
    end = clock() + seconds
    while clock() < end:
        pass


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


def network_measurement(num_cores: int) -> Messages | str:
    """The samples of two processes on this machine, or why there are none."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed"
    launcher = shutil.which("mpiexec") or shutil.which("mpirun")
    if launcher is None:
        return "there is no mpiexec"
    if num_cores < 2:
        return "two processes would share the one core"
    command = [launcher, "-n", "2", sys.executable, "-P", "-m", __name__]
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
            env=os.environ | as_root,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{launcher} did not end within {TIMEOUT_S:g} s"
    except OSError as error:
        return f"{launcher}: {error.strerror}"
    try:
        return _read(json.loads(result.stdout))
    except (ValueError, TypeError, KeyError):
        lines = (result.stderr or result.stdout).split("\n")
        said = next((" ".join(line.split()) for line in lines if line.strip(" -")), "nothing")
        return f"{launcher} ended with {result.returncode} and said: {said[:200]}"


def _read(printed: Any) -> Messages:
    threshold = printed["eager_threshold_bytes"]
    return Messages(
        messages=[(int(size), [float(sample) for sample in samples]) for size, samples in printed["messages"]],
        send_s=[float(sample) for sample in printed["send_s"]],
        receive_s=[float(sample) for sample in printed["receive_s"]],
        call_s=[float(sample) for sample in printed["call_s"]],
        eager_threshold_bytes=None if threshold is None else int(threshold),
        facts={str(name): str(text) for name, text in printed["facts"].items()},
    )


def network_of(measured: Messages, source: str) -> tuple[Network, tuple[MessagePoint, ...]]:
    """The figures, and the time of each size. What mpi4py takes of a call is taken off each.

    On the way of a message lies one call's share of mpi4py: that of the send before MPI's own call, and that of the
    receive behind it.
    """
    call_s = min(measured.call_s)
    points = tuple(
        MessagePoint(size, rounded(_less(timing.time_s, call_s)), source, rounded(timing.noise))
        for size, timing in ((size, _timing(samples)) for size, samples in measured.messages)
    )
    shortest, longest = points[0], points[-1]
    send, receive = _timing(measured.send_s), _timing(measured.receive_s)
    figures: dict[str, float] = {
        "latency_s": shortest.time_s,
        "bandwidth_bytes_per_s": rounded(longest.message_bytes / longest.time_s),
        "send_overhead_s": rounded(_less(send.time_s, call_s)),
        "receive_overhead_s": rounded(_less(receive.time_s, call_s)),
    }
    noise = {
        "latency_s": shortest.noise or 0.0,
        "bandwidth_bytes_per_s": longest.noise or 0.0,
        "send_overhead_s": rounded(send.noise),
        "receive_overhead_s": rounded(receive.noise),
    }
    threshold = measured.eager_threshold_bytes or None
    names = [*figures, *(["eager_threshold_bytes"] if threshold else [])]
    network = Network(source=dict.fromkeys(names, source), eager_threshold_bytes=threshold, noise=noise, **figures)
    return network, points


def _timing(samples: list[float]) -> Timing:
    return timing_of((samples[::2], samples[1::2]), shared=False)


def _less(time_s: float, call_s: float) -> float:
    """A time without mpi4py's share; at least a tenth of it is MPI's."""
    return max(time_s - call_s, time_s / 10)


def measured_interconnect(name: str, measured: Messages) -> Interconnect:
    """The interconnect between the two hosts of a measurement.

    Raises:
        CalibrationError: both processes were on one host.
    """
    first, second = measured.facts["hosts"].split(", ")
    if first == second:
        raise CalibrationError(
            f"both processes ran on {first}: name two hosts (mpirun -n 2 -host a,b ...); `foretrace calibrate` "
            "measures messages within one"
        )
    source = "calibrate"
    network, points = network_of(measured, source)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Interconnect(
        schema=SCHEMA,
        name=name,
        title=f"Between {first} and {second}, as measured",
        date=today,
        sources={
            source: Source(
                SourceKind.MEASURED, "foretrace.benchmarks.calibration.ping_pong, one message after the other", today
            )
        },
        network=NodeNetwork(**{name: getattr(network, name) for name in network.__struct_fields__}),
        messages=points,
        metadata=dict(measured.facts),
    )


def _facts(communicator: Communicator, library: str) -> dict[str, str]:
    """Hosts of both ranks, the library, and the load, on rank 0."""
    own = platform.node().replace(",", " ").encode()[:255].ljust(255, b"\0")
    other = bytearray(255)
    if communicator.Get_rank() == 0:
        communicator.Recv(other, 1, _TAG)
    else:
        communicator.Send(bytearray(own), 0, _TAG)
    hosts = (one.rstrip(b"\0").decode("utf-8", "replace") or "unknown" for one in (own, bytes(other)))
    printable = "".join(character for character in library if character.isprintable())
    return {
        "hosts": ", ".join(hosts),
        "mpi": " ".join(printable.split())[:120],
        "load_at_begin": f"{os.getloadavg()[0]:.1f}",
    }


def main() -> None:
    """Measure, as one of two ranks."""
    parser = argparse.ArgumentParser(prog=f"python -m {__name__}", description=main.__doc__)
    parser.add_argument("-o", "--output", help="write the interconnect's file, in place of samples")
    parser.add_argument("--force", action="store_true", help="replace the file")
    arguments = parser.parse_args()
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.Get_size() != 2:
        sys.exit(f"foretrace: error: {world.Get_size()} processes, must be two: mpirun -n 2")
    facts = _facts(world, MPI.Get_library_version().split("\n")[0])
    measured = measure(world, nobody=MPI.PROC_NULL)
    if world.Get_rank() != 0:
        return
    if arguments.output is None:
        json.dump(asdict(measured) | {"facts": facts}, sys.stdout)
        return
    stem = "".join(c if c.isalnum() or c in "._-" else "-" for c in Path(arguments.output).stem.lower())
    try:
        interconnect = measured_interconnect(stem or "measured", replace(measured, facts=facts))
        text = format_interconnect(interconnect)
        write_output(arguments.output, text.encode(), INTERCONNECT, force=arguments.force)
    except ForetraceError as error:
        sys.exit(f"foretrace: error: {error}")


if __name__ == "__main__":
    main()
