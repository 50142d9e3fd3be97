"""Cost of counting and recording software-defined events, next to PAPI's library, in the same run.

Run by `make bench-events` (`ARGS=--quick`: few runs; `-o FILE.svg` draws the distributions). One program, linked once,
runs with each library in turn. Each call is timed alone. Of each run the median and the worst are taken; the table has
the median of the former and the least of the latter over all runs: what the system took from one run says nothing of a
library.
"""

from __future__ import annotations

import argparse
import ctypes.util
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from foretrace.benchmarks.harness.tables import table
from foretrace.benchmarks.harness.tools import foretrace_executable
from foretrace.terminal import console

THREADS = (1, 2, 8)
OPERATIONS = {"inc": "inc_counter", "record": "record"}
LIBRARIES = ("foretrace", "PAPI")
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Cost:
    """Nanoseconds of calls: [runs, calls] of one operation, number of threads and library."""

    ns: Floats

    @property
    def median_ns(self) -> float:
        """The median over runs of each run's median."""
        return float(np.median(np.median(self.ns, axis=1)))

    @property
    def worst_ns(self) -> float:
        """The least over runs of each run's longest call."""
        return float(self.ns.max(axis=1).min())


def asked(option: str) -> str:
    """What `foretrace events` prints with an option."""
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


def measured(program: Path, folder: Path, operation: str, threads: int, library: str) -> Floats:
    """Nanoseconds of each call in one run."""
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder if library == "foretrace" else "")}
    done = subprocess.run([program, operation, str(threads)], env=environment, capture_output=True, check=True)
    ticks_per_us, *ticks = np.array(done.stdout.split(), np.float64)
    return np.asarray(np.array(ticks) * 1e3 / ticks_per_us, np.float64)


def compared(program: Path, libraries: Path, runs: int) -> dict[tuple[str, int, str], Cost]:
    """The costs by operation, number of threads and library."""
    found = {}
    for operation in OPERATIONS:
        for threads in THREADS:
            timed: dict[str, list[Floats]] = {library: [] for library in LIBRARIES}
            for _ in range(runs):
                for library in LIBRARIES:
                    timed[library].append(measured(program, libraries, operation, threads, library))
            for library, times in timed.items():
                found[operation, threads, library] = Cost(np.array(times))
    return found


def draw(costs: dict[tuple[str, int, str], Cost], output: Path) -> None:
    """The distributions, as in figure 7 of the article on software-defined events."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6), layout="constrained")
    axes = figure.subplots(len(OPERATIONS), len(THREADS), sharex=True, sharey=True, squeeze=False)
    edges = np.geomspace(1, 1e7, 120)
    for row, (operation, name) in enumerate(OPERATIONS.items()):
        for column, threads in enumerate(THREADS):
            for library in LIBRARIES:
                ns = np.maximum(costs[operation, threads, library].ns.ravel(), 1)
                axes[row, column].hist(ns, edges, histtype="step", label=library)
            axes[row, column].set(xscale="log", yscale="log", title=f"{name}, {threads} thread{'s' * (threads > 1)}")
    for axis in axes[-1]:
        axis.set_xlabel("ns a call")
    for axis in axes[:, 0]:
        axis.set_ylabel("calls")
    axes[0, 0].legend()
    figure.savefig(output)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="foretrace.benchmarks.peers.event_cost", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="3 runs of each, not 20")
    parser.add_argument("-o", "--output", type=Path, help="draw the distributions into this file (svg, png, pdf)")
    options = parser.parse_args(arguments)
    if not ctypes.util.find_library("sde"):
        print("error: needs PAPI's libsde.so (Debian packages papi-tools and libpapi-dev)", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        libraries = Path(asked("--drop-in"))
        costs = compared(build(Path(folder), libraries), libraries, 3 if options.quick else 20)
    shown = table("Nanoseconds of a call", "call", "threads", "median", "PAPI's", "ratio", "worst", "PAPI's", "ratio")
    for operation, name in OPERATIONS.items():
        for threads in THREADS:
            ours, theirs = (costs[operation, threads, library] for library in LIBRARIES)
            shown.add_row(
                name, str(threads), f"{ours.median_ns:.1f} ns", f"{theirs.median_ns:.1f} ns",
                f"{ours.median_ns / theirs.median_ns:.2f}", f"{ours.worst_ns:,.0f} ns", f"{theirs.worst_ns:,.0f} ns",
                f"{ours.worst_ns / theirs.worst_ns:.2f}",
            )  # fmt: skip
    console().print(shown)
    if options.output:
        draw(costs, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
