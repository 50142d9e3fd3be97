"""Replay of parallel runs beside SimGrid's (`smpirun -replay`), in the same run: makespans and actions a second.

Both read the same time-independent traces, on the same platform under the same model (LV08). Times are of processor
time from the start of each tool to its end, reading included. Traces are made here, from a seed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness.results import Part, ResultTable, times
from foretrace.replay.engine.network import Crossbar, FatTree, Topology, Torus

SPEED, BANDWIDTH, LATENCY = 1e9, 1.25e9, 1e-5
Lines = list[list[str]]


def platform(topology: Topology) -> str:
    """The platform as SimGrid reads it."""
    match topology:
        case Torus(sizes):
            kind = f'topology="TORUS" topo_parameters="{",".join(map(str, sizes))}"'
        case FatTree(down, up, parallel):
            parts = (",".join(map(str, part)) for part in (down, up, parallel))
            kind = f'topology="FAT_TREE" topo_parameters="{len(down)};{";".join(parts)}"'
        case _:
            kind = ""
    return (
        "<?xml version='1.0'?>\n"
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
        '<platform version="4.1">\n'
        f'  <cluster id="c" prefix="n" suffix="" radical="0-{topology.nodes - 1}" speed="{SPEED:.0f}f" '
        f'bw="{BANDWIDTH:.0f}Bps" lat="{LATENCY}s" {kind}/>\n'
        "</platform>\n"
    )


# ---- traces ----


def _neighbours(rank: int, sizes: tuple[int, ...]) -> list[int]:
    """Neighbours in a grid without wrapping around."""
    found, product = [], 1
    for size in sizes:
        at = rank // product % size
        found += [rank - product] if at else []
        found += [rank + product] if at < size - 1 else []
        product *= size
    return found


def halo(sizes: tuple[int, ...], iterations: int, size_bytes: int, seed: int) -> Lines:
    """Each rank computes, exchanges with its neighbours in a grid, and takes part in a sum."""
    generator = random.Random(seed)
    ranks = 1
    for size in sizes:
        ranks *= size
    lines: Lines = [[] for _ in range(ranks)]
    for rank, own in enumerate(lines):
        pace = generator.uniform(0.9, 1.1)
        partners = _neighbours(rank, sizes)
        for _ in range(iterations):
            own.append(f"compute {1e6 * pace * generator.uniform(0.95, 1.05):.0f}")
            own += [f"irecv {other} 1 {size_bytes}" for other in partners]
            own += [f"isend {other} 1 {size_bytes}" for other in partners]
            own += ["waitall", "allreduce 8 100"]
    return lines


def alltoall(ranks: int, iterations: int, size_bytes: int, seed: int) -> Lines:
    """Transposition: all to all, with computation between."""
    generator = random.Random(seed)
    return [
        [
            line
            for _ in range(iterations)
            for line in (f"compute {generator.uniform(1e5, 3e5):.0f}", f"alltoall {size_bytes} {size_bytes}")
        ]
        for _ in range(ranks)
    ]


def long_messages(ranks: int, iterations: int, _size_bytes: int, seed: int) -> Lines:
    """Messages of 4 MB in a ring, even ranks first, and a broadcast."""
    generator = random.Random(seed)
    lines: Lines = [[] for _ in range(ranks)]
    for rank, own in enumerate(lines):
        to, sender = (rank + 1) % ranks, (rank - 1) % ranks
        both = [f"send {to} 2 4000000", f"recv {sender} 2 4000000"]
        for _ in range(iterations):
            own += [
                f"compute {generator.uniform(1e5, 1e6):.0f}",
                *(both if rank % 2 == 0 else both[::-1]),
                "bcast 4000000",
            ]
    return lines


def irregular(ranks: int, iterations: int, _size_bytes: int, seed: int) -> Lines:
    """Random partners and sizes, some awaited one by one, and collectives in between."""
    generator = random.Random(seed)
    lines: Lines = [[] for _ in range(ranks)]
    for step in range(iterations):
        receives: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]
        sends: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]
        for rank in range(ranks):
            for other in generator.sample(range(ranks), generator.randint(1, 4)):
                if other != rank:
                    size_bytes = int(10 ** generator.uniform(0, 6.5))
                    sends[rank].append((other, size_bytes))
                    receives[other].append((rank, size_bytes))
        for rank, own in enumerate(lines):
            own.append(f"compute {generator.uniform(1e4, 1e6):.0f}")
            own += [f"irecv {other} {step % 7} {size_bytes}" for other, size_bytes in receives[rank]]
            own += [f"isend {other} {step % 7} {size_bytes}" for other, size_bytes in sends[rank]]
            one_by_one = [f"wait {other} {rank} {step % 7}" for other, _ in receives[rank]]
            own += [*one_by_one, "waitall"] if step % 2 else ["waitall"]
        what = generator.choice(
            ["barrier", "allreduce 1000 1000", "bcast 20000", "reduce 100000 10 0", "gather 300 300 0", ""]
        )
        for own in lines:
            own += [what] if what else []
    return lines


@dataclass(frozen=True, slots=True)
class Case:
    """A trace on a platform; `algorithms` by collective, as SimGrid and as we call them."""

    name: str
    topology: Topology
    lines: Callable[[float], Lines]
    algorithms: dict[str, tuple[str, str]] = field(default_factory=dict)


_PAIRWISE = {"alltoall": ("ring", "pairwise")}
CASES = (
    Case("halo and allreduce, 16 ranks", Crossbar(16), lambda work: halo((4, 4), int(4000 * work), 20_000, 1)),
    Case("halo and allreduce, 64 ranks", Crossbar(64), lambda work: halo((4, 4, 4), int(1000 * work), 20_000, 2)),
    Case("halo and allreduce, 128 ranks", Crossbar(128), lambda work: halo((8, 4, 4), int(500 * work), 80_000, 3)),
    Case("alltoall, 32 ranks", Crossbar(32), lambda work: alltoall(32, int(400 * work), 10_000, 4), _PAIRWISE),
    Case(
        "alltoall of 100 kB, 16 ranks", Crossbar(16), lambda work: alltoall(16, int(600 * work), 100_000, 5), _PAIRWISE
    ),
    Case("messages of 4 MB, 16 ranks", Crossbar(16), lambda work: long_messages(16, int(3000 * work), 0, 6)),
    Case("irregular neighbours, 32 ranks", Crossbar(32), lambda work: irregular(32, int(1000 * work), 0, 7)),
    Case("halo on a torus of 4x4x4", Torus((4, 4, 4)), lambda work: halo((4, 4, 4), int(500 * work), 80_000, 8)),
    Case(
        "irregular neighbours on a fat tree of 32",
        FatTree((8, 4), (1, 4), (1, 1)),
        lambda work: irregular(32, int(500 * work), 0, 9),
    ),
)


# ---- both tools ----


def write_trace(lines: Lines, directory: Path) -> Path:
    """Write a trace, one file a rank. Returns the list of files."""
    directory.mkdir(parents=True, exist_ok=True)
    names = []
    for rank, own in enumerate(lines):
        names.append(f"rank{rank}.txt")
        text = "".join(f"{rank} {line}\n" for line in ["init", *own, "finalize"])
        (directory / names[-1]).write_text(text, encoding="utf-8")
    listed = directory / "trace.txt"
    listed.write_text("\n".join(names) + "\n", encoding="utf-8")
    return listed


def _timed(command: list[str], directory: Path) -> tuple[str, float]:
    """Output of a command, and the processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise EngineError(f"{command[0]} ended with {done.returncode}: {(done.stderr or done.stdout)[-300:]}")
    return done.stdout + done.stderr, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def simgrid(trace: Path, case: Case, ranks: int) -> tuple[float, float]:
    """Makespan by SimGrid, and the processor time that it took, in seconds."""
    directory = trace.parent
    (directory / "platform.xml").write_text(platform(case.topology), encoding="utf-8")
    (directory / "hosts").write_text("".join(f"n{node}\n" for node in range(case.topology.nodes)), encoding="utf-8")
    settings = [f"--cfg=smpi/{name}:{theirs}" for name, (theirs, _) in case.algorithms.items()]
    command = [
        "smpirun", "-replay", trace.name, "-platform", "platform.xml", "-hostfile", "hosts", "-np", str(ranks),
        "--cfg=network/model:LV08", "--cfg=smpi/host-speed:1Gf", *settings, "--log=smpi_replay.thres:info",
    ]  # fmt: skip
    text, seconds = _timed(command, directory)
    found = re.search(r"Simulation time ([0-9.e+-]+)", text)
    if not found:
        raise EngineError(f"smpirun printed no simulation time: {text[-300:]}")
    return float(found[1]), seconds


def ours(trace: Path, case: Case) -> tuple[float, int, float]:
    """Makespan by us, actions, and the processor time that it took, in seconds."""
    named = [f"--algorithm={name}={ours}" for name, (_, ours) in case.algorithms.items()]
    command = [
        sys.executable, "-P", "-m", "foretrace", "replay", str(trace), "--platform", "platform.xml", "--network-model",
        "LV08", "--collectives", "simgrid", *named, "--json",
    ]  # fmt: skip
    text, seconds = _timed(command, trace.parent)
    found = json.loads(text)
    return found["makespan_s"], found["actions"], seconds


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.quick(parser, "a fortieth of the work")
    parser.add_argument("cases", nargs="*", metavar="WORD", help="cases with this word in their name (default: all)")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The table: each case with both makespans and speeds."""
    if not shutil.which("smpirun"):
        raise EngineError("smpirun is not installed; Debian has it in libsimgrid-dev")
    headings = ("trace", "actions", "SimGrid", "ours", "ours / SimGrid", "SimGrid actions/s", "ours", "speed")
    rows: list[list[str]] = []
    worst = 0.0
    for number, case in enumerate(CASES):
        if options.cases and not any(word in case.name for word in options.cases):
            continue
        lines = case.lines(0.1 if options.quick else 4.0)
        trace = write_trace(lines, scratch / str(number))
        their_s, their_seconds = simgrid(trace, case, len(lines))
        our_s, actions, our_seconds = ours(trace, case)
        worst = max(worst, abs(our_s / their_s - 1))
        rows.append(
            [case.name, f"{actions:,}", f"{their_s:.6f} s", f"{our_s:.6f} s", f"{our_s / their_s:.5f}",
             f"{actions / their_seconds:,.0f}", f"{actions / our_seconds:,.0f}", times(their_seconds / our_seconds)]
        )  # fmt: skip
        yield ResultTable("Replay of parallel runs beside SimGrid", headings, rows)
    yield f"The makespans differ by {worst:.2%} at most."
