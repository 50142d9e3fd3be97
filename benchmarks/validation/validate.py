"""Reference figures beside foretrace's own: published tables, and run times and speed-ups measured here.

Everything foretrace says is taken from its command line, as a user gets it: programs are run, traced, predicted and
triaged, and what `--json` prints is compared.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.suite import Program
from foretrace.benchmarks.harness.threaded import threaded_programs
from foretrace.profiles.profile_file import profile_data

from . import speedup
from .run_times import Machine, RunTimes, compare
from .speedup import Speedup, mean_error
from .validation_file import SCHEMA

KIB, MIB = 1 << 10, 1 << 20

TABLE_2 = {
    ("A", 20_480): 20_400,
    ("B", 5_120): 5_080,
    ("index", 2_560): 2_540,
    ("A", 65_536): 65_520,
    ("B", 16_384): 16_344,
    ("index", 8_192): 8_192,
    ("A", 16_777_216): 16_777_128,
    ("B", 4_194_304): 4_194_264,
    ("index", 2_097_152): 2_097_132,
    ("A", 33_554_432): 33_554_352,
    ("B", 8_388_608): 8_388_568,
    ("index", 4_194_304): 4_194_284,
}
"""(array, actual bytes): measured bytes, of SGBench's scatter loop; Carrington et al., ICS'11, table 2, as printed."""

TABLE_2_RANGES = (20_480, 65_536, 256 * KIB, 1 * MIB, 4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB)
"""The eight sizes of A. The paper names the first two and the last two."""

EQUATION_RANGES = (191 * KIB, 193 * KIB, 256 * KIB, 512 * KIB, 1 * MIB, 2 * MIB, 3 * MIB - 32, 3 * MIB, 16 * MIB)


@dataclass(frozen=True, slots=True)
class RangeRow:
    """The address range of one array in one loop. `paper_bytes` is what the paper's tool measured, if published."""

    loop: str
    array: str
    actual_bytes: int
    measured_bytes: int
    paper_bytes: int | None


@dataclass(frozen=True, slots=True)
class BandwidthRow:
    """Gather/scatter bandwidth of the Convey HC-1's accelerator, by the paper's equation and as triage uses it.

    Both are None where the loop stays on the host.
    """

    range_bytes: int
    equation: str
    paper_bytes_per_s: float | None
    triage_bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class Validation:
    """All comparisons; those with the published tables are left out where only some programs were asked for."""

    ranges: tuple[RangeRow, ...]
    bandwidths: tuple[BandwidthRow, ...]
    run_times: RunTimes
    speedups: tuple[Speedup, ...] = ()
    no_speedups: str = ""

    def as_json(self) -> dict[str, Any]:
        """For `foretrace validate --json`."""
        times = self.run_times
        rows = [
            asdict(row)
            | {
                "measured": asdict(row.measured) | {"segments": None, "undivided": ""},  # keys of this schema
                "measured_s": row.measured.time_s,
                "error": row.error,
                "error_alone": row.error_alone,
                "error_of_convolution": row.error_of_convolution,
                "error_at_clock": row.error_at_clock,
                "inside": row.inside,
                "worst_loop_difference": row.worst_loop_difference,
            }
            for row in times.rows
        ]
        machine = times.machine
        return {
            "schema": SCHEMA,
            "anchored": False,
            "machine": {
                "name": machine.profile.name,
                "path": machine.path,
                "date": machine.profile.date,
                "sha256": machine.sha256,
            },
            **_summary(times),
            "held_back": None if (held_back := times.held_back) is None else _summary(held_back),
            "textbook": None if (textbook := times.textbook) is None else _summary(textbook),
            "held_out": None if (held_out := times.held_out) is None else _summary(held_out),
            "installed": None if (installed := times.installed) is None else _summary(installed),
            "share_of_loops_within_5_points": times.share_of_loops_within_5_points,
            "run_times": rows,
            "skipped": [{"program": name, "reason": reason} for name, reason in times.skipped],
            "ranges": [asdict(row) for row in self.ranges],
            "bandwidths": [asdict(row) for row in self.bandwidths],
            "speedups": [row.as_json() for row in self.speedups],
            "mean_absolute_error_of_speedup": mean_error(self.speedups),
            "mean_absolute_error_of_speedup_from_one": mean_error(self.speedups, "error_from_one"),
            "profile": profile_data(machine.profile),
        }


def _summary(times: RunTimes) -> dict[str, Any]:
    return {
        "programs": len(times.rows),
        "mean_absolute_error": times.mean_absolute_error,
        "mean_absolute_error_alone": times.mean_absolute_error_alone,
        "mean_absolute_error_of_convolution": times.mean_absolute_error_of_convolution,
        "mean_absolute_error_at_clock": times.mean_absolute_error_at_clock,
        "worst_error": {"program": times.worst.program, "error": times.worst.error},
        "share_inside": times.share_inside,
    }


def equation(range_bytes: int) -> tuple[str, float | None]:
    """Carrington et al., ICS'11, section 3.3.2: the equation's name and bandwidth in bytes/s (GB/s are assumed)."""
    if range_bytes <= 192 * KIB:
        return "not offloaded", None
    if range_bytes < 3 * MIB:
        return "3", (1e-5 * range_bytes + 12.6) * 1e9
    return "4", 48e9


def read_arrays(output: str) -> dict[str, tuple[int, int]]:
    """Name -> (address, bytes) from what sgbench prints."""
    rows = re.findall(r"^(\w+) +0x([0-9a-f]+) +(\d+)$", output, re.MULTILINE)
    return {name: (int(address, 16), int(size_bytes)) for name, address, size_bytes in rows}


def measured_ranges(info: dict[str, Any], function: str, arrays: dict[str, tuple[int, int]]) -> Iterator[RangeRow]:
    """The range of a function's loop that lies in each array. One that lies in none of them counts as 0 bytes."""
    loops = [loop for loop in info["loops"] if loop["function"] == function]
    if len(loops) != 1:
        raise EngineError(f"{function} has {len(loops)} loops in the signature, must have 1")
    for name, (address, actual_bytes) in arrays.items():
        inside = [r for r in loops[0]["ranges"] if address <= r["first"] < address + actual_bytes]
        paper_bytes = TABLE_2.get((name, actual_bytes)) if function.startswith("scatter") else None
        yield RangeRow(function, name, actual_bytes, sum(r["bytes"] for r in inside), paper_bytes)


def validate_ranges(directory: Path) -> Iterator[RangeRow]:
    """Table 2: address ranges of the scatter and the gather loop."""
    sgbench = programs.build("sgbench", directory, programs.Linking.FIXED)
    signature = directory / "ranges.sig"
    for range_bytes in TABLE_2_RANGES:
        command = tools.trace_command([str(sgbench), str(range_bytes)], signature)
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise EngineError(f"{' '.join(command)} ended with {result.returncode}: {result.stderr.strip()[-500:]}")
        info = tools.foretrace_json("info", str(signature))
        for function in ("scatter_8", "gather_8"):
            yield from measured_ranges(info, function, read_arrays(result.stdout))


def validate_bandwidths(directory: Path) -> Iterator[BandwidthRow]:
    """Equations 2 to 4: bytes that the gather loop moves over the time that triage gives it on the accelerator."""
    sgbench = programs.build("sgbench", directory, programs.Linking.FIXED)
    signature = directory / "bandwidth.sig"
    for range_bytes in EQUATION_RANGES:
        tools.measure(tools.trace_command([str(sgbench), str(range_bytes)], signature))
        options = ("--host", "convey-hc1-host", "--accelerator", "convey-hc1-fpga")
        instances = tools.foretrace_json("triage", str(signature), *options)["instances"]
        gather = next(i for i in instances if i["function"] == "gather_8")
        iterations = gather["range_bytes"] // 32  # B and index have a quarter of A's elements
        moved_bytes = iterations * (8 + 8 + 4)  # A, B, index
        name, paper = equation(gather["range_bytes"])
        ours = moved_bytes / gather["accelerator_s"] if gather["offload"] else None
        yield BandwidthRow(gather["range_bytes"], name, paper, ours)


def validate(
    directory: Path,
    machine: Machine,
    chosen: Sequence[Program],
    progress: Callable[[str], None],
    *,
    runs: int,
    tables: bool,
    under: Sequence[str] = (),
) -> Validation:
    """All comparisons. `progress` is told what comes next; without `tables` those with published ones are left out.

    `under`: see `run_times.compare`.

    Raises:
        ForetraceError: a program cannot be built, or a verb of foretrace fails.
    """
    ranges: tuple[RangeRow, ...] = ()
    bandwidths: tuple[BandwidthRow, ...] = ()
    if tables:
        progress("address ranges of gather and scatter loops")
        ranges = tuple(validate_ranges(directory))
        progress("bandwidth of the Convey HC-1's accelerator")
        bandwidths = tuple(validate_bandwidths(directory))
    times = compare(chosen, directory, machine, progress, runs=runs, under=under)
    if not tables:
        return Validation(ranges, bandwidths, times)
    if len(os.sched_getaffinity(0)) < 2:
        return Validation(ranges, bandwidths, times, no_speedups="two threads need two cores, and there is one")
    speedups = speedup.compare(threaded_programs(), machine.profile, speedup.ROUNDS, False, directory, progress)
    return Validation(ranges, bandwidths, times, tuple(speedups))
