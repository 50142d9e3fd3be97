"""Cost of each accuracy of `foretrace trace`, and how far its misses are from the full trace's.

Costs are multiples of the time under QEMU alone, or of Python's for a script. The runs of a program take turns, so that
a change in the machine's load hits them alike. Costs are the shortest times.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.results import Part, ResultTable, say
from foretrace.cache_sim.base.hierarchy import Hierarchy

ACCURACIES = ("auto", "low", "medium", "high")
HIERARCHY = "L1=32K/8/64,L2=512K/8/64,LL=8M/16/64"


@dataclass(frozen=True, slots=True)
class Level:
    """Misses of one level as a share of all accesses, estimated and known, and the interval given with the estimate."""

    name: str
    estimate: float
    low: float
    high: float
    exact: float

    @property
    def is_covered(self) -> bool:
        """Whether the interval has the exact figure in it."""
        return self.low <= self.exact <= self.high


@dataclass(frozen=True, slots=True)
class Result:
    """One program at one accuracy. `levels` are empty at high accuracy, and where the run was too short for bursts."""

    program: str
    accuracy: str
    wall_s: float
    wall_ratio_to_alone: float
    recorded_share: float
    counts_are_exact: bool
    levels: tuple[Level, ...]


def _compare_levels(sampled: dict[str, Any], exact: dict[str, Any]) -> tuple[Level, ...]:
    """From two signatures as `foretrace info --json` shows them."""
    sampling = sampled["provenance"]["sampling"]
    if sampling is None:
        return ()
    accesses = exact["totals"]["loads"] + exact["totals"]["stores"]
    return tuple(
        Level(
            name=e["level"],
            estimate=e["misses"] / accesses,
            low=e["low"] / accesses,
            high=e["high"] / accesses,
            exact=known["misses"] / accesses,
        )
        for e, known in zip(sampling["misses"], exact["hierarchies"][0]["levels"], strict=True)
    )


def measure(workload: programs.Workload, directory: Path, repetitions: int, hierarchy: str, seed: int) -> list[Result]:
    """Run a program alone (under QEMU if it is a compiled one) and at each accuracy, `repetitions` times in turn.

    Raises:
        EngineError: it fails.
    """
    is_python = workload.command[0].endswith(".py")
    commands: dict[str, list[str]] = {"": [sys.executable if is_python else "qemu-x86_64", *workload.command]}
    for accuracy in ACCURACIES:
        options = ["--accuracy", accuracy, "--seed", str(seed), "--force", "-o", str(directory / f"{accuracy}.sig")]
        trace = [tools.foretrace_executable(), "trace", "--hierarchy", hierarchy, *options]
        commands[accuracy] = [*trace, *([] if is_python else ["--"]), *workload.command]
    wall_s: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repetitions):
        for name, command in commands.items():
            wall_s[name].append(tools.measure(command).wall_s)
    shown = {accuracy: tools.foretrace_json("info", f"{directory / accuracy}.sig") for accuracy in ACCURACIES}
    exact = shown["high"]
    results = []
    for accuracy, signature in shown.items():
        sampling = signature["provenance"]["sampling"]
        best_s = min(wall_s[accuracy])
        results.append(
            Result(
                program=workload.name,
                accuracy=accuracy,
                wall_s=best_s,
                wall_ratio_to_alone=best_s / min(wall_s[""]),
                recorded_share=1.0 if sampling is None else sampling["recorded_share"],
                counts_are_exact=signature["totals"] == exact["totals"],
                levels=_compare_levels(signature, exact),
            )
        )
    return results


def _long_workloads(directory: Path) -> list[programs.Workload]:
    """Programs with more accesses than `auto` records whole: one compiled, two of Python."""
    multigrid = str(programs.build("multigrid", directory))
    gray_scott, pagerank = (str(programs.SOURCES / name) for name in ("gray_scott.py", "pagerank.py"))
    return [
        programs.Workload("multigrid", (multigrid, "17", "7", "60")),
        programs.Workload("gray_scott.py", (gray_scott, "307", "600")),
        programs.Workload("pagerank.py", (pagerank, "1000000")),
    ]


def table(results: Sequence[Result], level_names: Sequence[str]) -> ResultTable:
    """Costs, and misses of each level."""
    rows = []
    for result in results:
        cells = [
            f"{100 * level.estimate:.2f} [{100 * level.low:.2f}, {100 * level.high:.2f}] {100 * level.exact:.2f}"
            + ("" if level.is_covered else " !")
            for level in result.levels
        ]
        rows.append([
            result.program, result.accuracy, f"{result.wall_s:.2f}", f"{result.wall_ratio_to_alone:.2f}x",
            f"{result.recorded_share:.1%}", "exact" if result.counts_are_exact else "differ",
            *(cells or ["" for _ in level_names]),
        ])  # fmt: skip
    headings = ("program", "accuracy", "wall s", "/ alone", "recorded", "counts", *level_names)
    title = "Misses per 100 accesses: estimate [interval] full trace"
    return ResultTable(title, headings, rows, [asdict(result) for result in results], left=("program", "accuracy"))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    parser.add_argument("--programs", nargs="*", default=[], help="names of programs (default: all)")
    parser.add_argument("--repetitions", type=common.positive, default=3, help="of each run (default 3)")
    parser.add_argument("--hierarchy", default=HIERARCHY, help=f"caches to simulate (default {HIERARCHY})")
    parser.add_argument("--seed", type=int, default=1, help="where bursts lie (default 1)")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The table, and how many intervals hold the full trace's figure."""
    results: list[Result] = []
    names = [level.name for level in Hierarchy.parse(options.hierarchy).levels]
    for workload in [*programs.five_workloads(scratch), *_long_workloads(scratch)]:
        if options.programs and workload.name not in options.programs:
            continue
        say(workload.name)
        results += measure(workload, scratch, options.repetitions, options.hierarchy, options.seed)
        yield table(results, names)
    levels = [level for result in results for level in result.levels]
    covered = sum(level.is_covered for level in levels)
    yield f"{covered} of {len(levels)} intervals (95 %) hold the full trace's figure."
