"""Speed of sweeps: one signature on 1,000 machines, and 10,000 predictions, next to single predictions.

The machines are those that come with foretrace at clocks, memory latencies and sizes of the last cache made from a
seed: no two are alike. A sweep's time is from its start to its end, with the start of its processes.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.results import Part, ResultTable, times
from foretrace.benchmarks.harness.threaded import build_threaded
from foretrace.profiles.clock import at_clock
from foretrace.profiles.library import find, names
from foretrace.profiles.profile import MachineKind, Profile
from foretrace.profiles.profile_file import format_profile

MACHINES, PREDICTIONS, GOAL_S = 1000, 10_000, 60.0
_THREADS = 20
_ALONE = 5


def made_machines(count: int, seed: int = 1) -> Iterator[Profile]:
    """Machines that differ from one another in the clock, the last cache and the latency of memory."""
    generator = random.Random(seed)
    hosts = [host for name in names() if (host := find(name)).kind is MachineKind.HOST and host.core is not None]
    clocked = [host for host in hosts if host.core is not None and host.core.clock_hz is not None and host.caches]
    for number in range(count):
        host = clocked[number % len(clocked)]
        assert host.core is not None and host.core.clock_hz is not None
        host = at_clock(host, host.core.clock_hz * generator.uniform(0.7, 1.3))
        last = host.caches[-1]
        last = structs.replace(last, size_bytes=last.size_bytes * generator.choice((1, 1, 2)))
        slower = generator.uniform(0.8, 1.25)
        latency = tuple(
            structs.replace(point, latency_s=point.latency_s * slower)
            if point.working_set_bytes > last.size_bytes
            else point
            for point in host.latency
        )
        yield structs.replace(host, name=f"m{number:04}", caches=(*host.caches[:-1], last), latency=latency)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.quick(parser, "a twentieth of the machines")
    parser.add_argument("--jobs", type=common.positive, help="worker processes; one a core if not given")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The table."""
    count = MACHINES // 20 if options.quick else MACHINES
    folder = scratch / "machines"
    folder.mkdir()
    for profile in made_machines(count):
        (folder / f"{profile.name}.toml").write_text(format_profile(profile))
    few = scratch / "few"
    few.mkdir()
    for path in sorted(folder.iterdir())[: max(count * PREDICTIONS // MACHINES // _THREADS, 1)]:
        (few / path.name).write_bytes(path.read_bytes())
    serial = _traced([programs.build("cg", scratch), "2000", "5"], scratch / "cg.sig")
    team = _traced([build_threaded("triad_team", scratch), "2"], scratch / "team.sig")
    jobs = ["--jobs", str(options.jobs)] if options.jobs else []
    rows: list[list[str]] = []
    alone_s = _seconds_alone(serial, sorted(folder.iterdir())[:_ALONE])
    cases: tuple[tuple[str, Path, list[str | Path], int], ...] = (
        ("machines, one signature", serial, ["--machine", folder], count),
        (
            f"machines, {_THREADS} numbers of threads", team,
            ["--machine", few, "--threads", ",".join(map(str, range(1, _THREADS + 1)))],
            len(list(few.iterdir())) * _THREADS,
        ),
    )  # fmt: skip
    for name, signature, grid, points in cases:
        seconds = _seconds([signature, *grid, *jobs, "-o", scratch / f"{len(rows)}.csv"])
        rate = points / seconds
        goal = times(rate / (MACHINES / GOAL_S))
        rows.append([name, f"{points:,}", f"{seconds:.1f}", f"{rate:.1f}", times(rate * alone_s), goal])
        headings = ("sweep of", "points", "seconds", "points/s", "over single predictions", "over 1,000 a minute")
        yield ResultTable("Sweeps", headings, rows)


def _traced(command: list[str | Path], signature: Path) -> Path:
    subprocess.run(
        [tools.foretrace_executable(), "trace", "-o", str(signature), "--", *map(str, command)],
        check=True,
        capture_output=True,
    )
    return signature


def _seconds_alone(signature: Path, machines: list[Path]) -> float:
    """Seconds of `foretrace predict` for one machine, from start to end."""
    start = time.perf_counter()
    for machine in machines:
        command = [tools.foretrace_executable(), "predict", str(signature), "--machine", str(machine), "--json"]
        subprocess.run(command, check=True, capture_output=True)
    return (time.perf_counter() - start) / len(machines)


def _seconds(arguments: list[str | Path]) -> float:
    start = time.perf_counter()
    words = [tools.foretrace_executable(), "sweep", *map(str, arguments)]
    result = subprocess.run(words, stdout=subprocess.DEVNULL, check=False)
    if result.returncode not in (0, 80):
        sys.exit(result.returncode)
    return time.perf_counter() - start
