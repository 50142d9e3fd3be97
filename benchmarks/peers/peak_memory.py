"""The most memory that foretrace itself takes while it traces programs that make it keep as much as they can."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.harness.results import ResultTable

BOUND_BYTES = 1 << 30
_SOURCE = Path(__file__).with_name("greedy.c")
_TRACE = """
import sys
from pathlib import Path
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.tracer.sampling.burst_schedule import Accuracy
from foretrace.tracer.signature.file import write_signature
from foretrace.tracer.session.launch import CompiledProgram
from foretrace.tracer.session.options import TraceOptions
from foretrace.tracer.tracing import trace_program
options = TraceOptions([Hierarchy.parse(sys.argv[2])], Accuracy.HIGH)
traced = trace_program(CompiledProgram(tuple(sys.argv[3:])), options)
write_signature(traced.signature, Path(sys.argv[1]), force=True)
with open("/proc/self/status") as status:
    peak_kib = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
print(peak_kib << 10, traced.signature.provenance.incomplete_reason)
"""
"""The program under QEMU is left out. (ru_maxrss would include the process that this one was forked from.)"""

GREEDY = {
    "300,000 blocks of 4 instructions": ("blocks", "300000", "3"),
    "100,000 blocks of 51 instructions": ("blocks", "100000", "50"),
    "12,000 blocks of 501 instructions": ("blocks", "12000", "500"),
    "6 million jumps among 4,096 blocks": ("edges", "4096", "6000000"),
    "2 GiB touched at random": ("footprint", "2048"),
    "500 threads at once": ("threads", "500"),
}
QUICK = {
    "20,000 blocks of 4 instructions": ("blocks", "20000", "3"),
    "100,000 jumps among 1,024 blocks": ("edges", "1024", "100000"),
    "64 MiB touched at random": ("footprint", "64"),
    "100 threads at once": ("threads", "100"),
}
"""Arguments of greedy.c."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The largest resident set of the process that traces, and what the signature says is missing."""

    name: str
    peak_bytes: int
    incomplete_reason: str


def build(directory: Path) -> Path:
    """Compile the greedy program.

    Raises:
        EngineError: there is no C compiler, or it fails.
    """
    executable = directory / "greedy"
    tools.measure(["cc", "-O2", "-g", "-pthread", "-o", str(executable), str(_SOURCE)])
    return executable


def measure(name: str, command: Sequence[str], directory: Path) -> Peak:
    """Trace a program whose output is empty, simulating three levels.

    Raises:
        EngineError: tracing fails.
    """
    arguments = [str(directory / "peak.sig"), tools.THREE_LEVELS, *command]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, "-P", "-c", _TRACE, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    peak_bytes, _, reason = result.stdout.strip().partition(" ")
    if result.returncode or not peak_bytes:
        raise EngineError(f"tracing {' '.join(command)} failed: {result.stderr.strip()[-500:]}")
    return Peak(name, int(peak_bytes), reason)


def peak_table(peaks: Sequence[Peak]) -> ResultTable:
    """MiB for each program."""
    rows = [
        [peak.name, f"{peak.peak_bytes / (1 << 20):.0f}", "yes" if peak.incomplete_reason else "no"] for peak in peaks
    ]
    title = f"Memory of foretrace itself, at most (bound: {BOUND_BYTES >> 20} MiB)"
    return ResultTable(title, ("program", "MiB", "cut short"), rows, [asdict(peak) for peak in peaks])
