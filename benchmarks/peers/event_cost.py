"""Cost of counting and recording software-defined events, next to PAPI's library, in the same run.

One program, linked once, runs with each library in turn, and a third time without any call: the
timer alone, which has outliers, too, where the system interrupts. Each call is timed alone. The table has the medians
over all runs of each run's median, 99.9 % quantile and longest call, with and without the first call of each thread.
"""

from __future__ import annotations

import argparse
import ctypes.util
import os
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness.results import Part, ResultTable
from foretrace.benchmarks.harness.tools import foretrace_executable

THREADS = (1, 2, 8)
CALLS = 16_384
OPERATIONS = {"inc": "inc_counter", "record": "record"}
FORMATS = (".svg", ".png", ".pdf")
SOURCES = ("foretrace", "PAPI", "timer alone")
_PRIORITY = 1
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Cost:
    """Nanoseconds of calls: [runs, threads, CALLS] of one operation and source."""

    ns: Floats

    def quantile_ns(self, share: float) -> float:
        """The median over runs of each run's quantile."""
        return float(np.median(np.quantile(self.ns, share, axis=(1, 2))))

    def worst_ns(self, after: int = 0) -> float:
        """The median over runs of each run's longest call, `after` so many calls of each thread."""
        return float(np.median(self.ns[:, :, after:].max(axis=(1, 2))))


def asked(option: str) -> str:
    """Output of `foretrace events` with an option."""
    command = [foretrace_executable(), "events", option]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def build(folder: Path, libraries: Path) -> Path:
    """The program, linked with whatever is called libsde.so.1 when it starts."""
    program = folder / "event_cost"
    source = Path(__file__).with_suffix(".c")
    command = [
        "gcc",
        "-O2",
        *shlex.split(asked("--cflags")),
        str(source),
        "-o",
        str(program),
        f"-L{libraries}",
        "-l:libsde.so.1",
        "-pthread",
    ]
    subprocess.run(command, check=True)
    return program


def measured(program: Path, folder: Path, operation: str, threads: int, source: str, realtime: bool) -> Floats:
    """Nanoseconds of each call in one run, [threads, CALLS]."""
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder if source == "foretrace" else "")}
    command = [str(program), "none" if source == "timer alone" else operation, str(threads)]
    done = subprocess.run(
        command, env=environment, capture_output=True, check=True, preexec_fn=_before_all_else if realtime else None
    )
    ticks_per_us, *ticks = np.array(done.stdout.split(), np.float64)
    return np.asarray(np.reshape(ticks, (threads, CALLS)) * 1e3 / ticks_per_us, np.float64)


def _before_all_else() -> None:
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_PRIORITY))


def compared(program: Path, libraries: Path, runs: int, realtime: bool) -> dict[tuple[str, int, str], Cost]:
    """The costs by operation, number of threads and source."""
    found = {}
    for operation in OPERATIONS:
        for threads in THREADS:
            timed: dict[str, list[Floats]] = {source: [] for source in SOURCES}
            for _ in range(runs):
                for source in SOURCES:
                    timed[source].append(measured(program, libraries, operation, threads, source, realtime))
            for source, times in timed.items():
                found[operation, threads, source] = Cost(np.array(times))
    return found


def draw(costs: dict[tuple[str, int, str], Cost], output: Path) -> None:
    """The distributions, as in figure 7 of the article on software-defined events."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams |= {"svg.hashsalt": "foretrace", "svg.fonttype": "none"}
    figure = Figure(figsize=(11, 6), layout="constrained")
    axes = figure.subplots(len(OPERATIONS), len(THREADS), sharex=True, sharey=True, squeeze=False)
    edges = np.geomspace(5, 1e6, 70)
    for row, (operation, name) in enumerate(OPERATIONS.items()):
        for column, threads in enumerate(THREADS):
            for source in SOURCES:
                ns = np.maximum(costs[operation, threads, source].ns.ravel(), edges[0])
                axes[row, column].hist(ns, edges, histtype="step", label=source)
            axes[row, column].set(xscale="log", yscale="log", title=f"{name}, {threads} thread{'s' * (threads > 1)}")
    for axis in axes[-1]:
        axis.set_xlabel("ns a call")
    for axis in axes[:, 0]:
        axis.set_ylabel("calls")
    axes[0, 0].legend()
    figure.savefig(output, metadata={"Date": None} if output.suffix == ".svg" else None)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.quick(parser, "5 runs of each, not 50")
    common.realtime(parser)
    parser.add_argument("--picture", type=Path, help="draw the distributions into this file (svg, png, pdf)")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The table."""
    picture = options.picture
    if picture and (picture.suffix not in FORMATS or not picture.parent.is_dir()):
        raise EngineError(f"{picture}: a picture's name ends in {', '.join(FORMATS)}, and its folder exists")
    if not ctypes.util.find_library("sde"):
        raise EngineError("needs PAPI's libsde.so (Debian packages papi-tools and libpapi-dev)")
    libraries = Path(asked("--drop-in"))
    program = build(scratch, libraries)
    try:
        costs = compared(program, libraries, 5 if options.quick else 50, options.realtime)
    except subprocess.SubprocessError as error:
        rights = " (--realtime needs the right to real-time scheduling)" if options.realtime else ""
        raise EngineError(f"the program cannot be run{rights}: {error}") from error
    yield table(costs)
    if picture:
        draw(costs, picture)


def table(costs: dict[tuple[str, int, str], Cost]) -> ResultTable:
    """Quantiles of each call's time, by library."""
    rows = []
    for (operation, threads, source), cost in costs.items():
        is_ours = source == "foretrace"
        ratio = cost.worst_ns() / costs[operation, threads, "PAPI"].worst_ns()
        rows.append([
            OPERATIONS[operation] if is_ours else "", str(threads) if is_ours else "", source,
            *(f"{ns:,.0f}" for ns in (cost.quantile_ns(0.5), cost.quantile_ns(0.999))),
            *(f"{cost.worst_ns(after):,.0f}" for after in (0, 1)),
            f"{ratio:.2f}" if is_ours else "",
        ])  # fmt: skip
    headings = ("call", "threads", "", "median", "99.9 %", "worst", "after the 1st", "worst to PAPI's")
    return ResultTable("Nanoseconds of a call", headings, rows)
