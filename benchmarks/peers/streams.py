"""Cost of stored streams: tracing with and without --keep-stream, size, and simulating the stream again.

The stream and the run must agree on every level's misses; where they do not, that is an error.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from foretrace.base.errors import ForetraceError
from foretrace.base.units import format_bytes, format_count
from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.results import Part, ResultTable, growing


@dataclass(frozen=True, slots=True)
class StreamCost:
    """Cost of a stored stream for one program; times are medians of wall seconds."""

    name: str
    accesses: int
    trace_s: float
    keep_s: float
    simulate_s: float
    stream_bytes: int


def measure(workload: programs.Workload, directory: Path, repetitions: int) -> StreamCost:
    """Trace a program with and without keeping its stream, and simulate the stream.

    Raises:
        ForetraceError: something fails, or the stream's misses are not those of the run.
    """
    stream, signature = directory / "stream", directory / "signature"
    plain = tools.trace_command(workload.command, signature)
    keep = [*plain[:2], "--keep-stream", str(stream), *plain[2:]]
    simulate = [tools.foretrace_executable(), "simulate", str(stream), "--hierarchy", tools.HIERARCHY]
    times: list[list[float]] = [[], [], []]
    for _ in range(repetitions):
        for column, command in zip(times, (plain, keep, simulate), strict=True):
            column.append(tools.measure(command).wall_s)
    found = tools.foretrace_json("simulate", str(stream), "--hierarchy", tools.HIERARCHY)
    if found["hierarchies"] != tools.foretrace_json("info", str(signature))["hierarchies"]:
        raise ForetraceError(f"{workload.name}: the stream's misses are not those of the run")
    trace_s, keep_s, simulate_s = map(statistics.median, times)
    accesses = found["totals"]["loads"] + found["totals"]["stores"]
    return StreamCost(workload.name, accesses, trace_s, keep_s, simulate_s, stream.stat().st_size)


def table_of(costs: Sequence[StreamCost]) -> ResultTable:
    """A row for each program."""
    rows = [
        [
            cost.name, format_count(cost.accesses), f"{cost.trace_s:.2f}",
            f"{cost.keep_s:.2f} ({cost.keep_s / cost.trace_s:.2f}x)", f"{cost.simulate_s:.2f}",
            format_bytes(cost.stream_bytes), f"{cost.stream_bytes / cost.accesses:.3f}",
        ]
        for cost in costs
    ]  # fmt: skip
    headings = ("program", "accesses", "trace", "with --keep-stream", "simulate", "stream", "bytes/access")
    return ResultTable("Stored streams, wall seconds (median)", headings, rows, [asdict(cost) for cost in costs])


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.repetitions(parser)
    parser.add_argument("--only", help="the program with this name alone")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """A table of the five programs of `make bench`."""
    workloads = programs.five_workloads(scratch, quick=options.quick)
    chosen = [workload for workload in workloads if options.only in (None, workload.name)]
    for costs in growing(measure(workload, scratch, common.repeated(options)) for workload in chosen):
        yield table_of(costs)
