"""Misses by foretrace and by cachegrind of the same programs, with the same two cache levels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.results import ResultTable

TOLERANCE = 0.001
_STRINGS_BYTES = 16384
"""Size of arguments and environment together, at the beginning of a program's stack."""


@dataclass(frozen=True, slots=True)
class Exactness:
    """Misses of one program; without those of its start where that differs from tool to tool (`is_of_work`)."""

    program: str
    reference: tools.CacheMisses
    found: tools.CacheMisses
    is_of_work: bool = False

    def difference(self, level: str) -> float | None:
        """Our misses in `level` ("d1" or "ll") relative to cachegrind's, minus 1; None if that has none."""
        reference = getattr(self.reference, level)
        return float(getattr(self.found, level) / reference - 1) if reference else None


def compare(workload: programs.Workload, directory: Path) -> Exactness:
    """Run a workload under both.

    Raises:
        EngineError: a tool fails.
    """
    reference, found = _misses(workload.command, directory)
    if workload.start_up is None:
        return Exactness(workload.name, reference, found)
    reference_at_start, found_at_start = _misses(workload.start_up, directory)
    return Exactness(workload.name, reference - reference_at_start, found - found_at_start, is_of_work=True)


def _misses(command: Sequence[str], directory: Path) -> tuple[tools.CacheMisses, tools.CacheMisses]:
    output, signature = directory / "cachegrind.out", directory / "exactness.sig"
    environment = environment_for(command)
    tools.measure(tools.cachegrind_command(command, output), environment)
    tools.measure(tools.trace_command(command, signature), environment)
    return tools.cachegrind_misses(output), tools.simulated_misses(signature)


def environment_for(command: Sequence[str]) -> dict[str, str]:
    """PATH and a filler: the program's stack begins in the same place, wherever its files lie and whoever runs it.

    A program finds the name of its file and its arguments there, its name among them, and its environment.
    """
    path = os.environ.get("PATH", os.defpath)
    taken = sum(len(os.fsencode(text)) for text in (command[0], *command, path))
    return {"PATH": path, "FILLER": "." * (-taken % _STRINGS_BYTES)}


def misses_table(level: str, found: Sequence[Exactness]) -> ResultTable:
    """Misses of both simulators in one level."""
    rows = []
    for one in found:
        counts = (f"{getattr(misses, level):,}" for misses in (one.reference, one.found))
        difference = one.difference(level)
        rows.append(
            [
                one.program + (" *" if one.is_of_work else ""),
                *counts,
                "-" if difference is None else f"{difference:+.4%}",
            ]
        )
    title = f"Data misses in {level.upper()} of {tools.HIERARCHY}"
    return ResultTable(
        title, ("program", "cachegrind", "foretrace", "difference"), rows, [asdict(one) for one in found]
    )
