"""Costs of instructions that cores differ in and few profiles tell: AES, SHA, CRC, carry-less products and their kin.

`instruction_costs.csv` holds one measured or published instruction for each operation and core. A core that is not in
it has the median of the listed cores of its instruction set, and their range; where none is listed, that of all cores.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from statistics import median

from .figure import CoreClass
from .points import Operation


def _llvm(model: str) -> str:
    return f"LLVM 19.1.7, {model}, as llvm-mca reports it"


SOURCES: Mapping[str, str] = {
    "instlatx64": "InstLatx64: latencies and throughputs measured with AIDA64 (github.com/InstLatx64/InstLatx64, "
    "commit 087af2c)",
    "firestorm": "D. Johnson: Apple M1 Firestorm, instruction tables (github.com/dougallj/applecpu, commit 0e6bc3f)",
    "llvm-n1": _llvm("AArch64SchedNeoverseN1.td"),
    "llvm-v1": _llvm("AArch64SchedNeoverseV1.td"),
    "llvm-v2": _llvm("AArch64SchedNeoverseV2.td"),
    "llvm-n2": _llvm("AArch64SchedNeoverseN2.td"),
    "llvm-a57": _llvm("AArch64SchedA57.td"),
    "llvm-a64fx": _llvm("AArch64SchedA64FX.td"),
    "llvm-skylake": _llvm("X86SchedSkylakeServer.td"),
    "llvm-icelake": _llvm("X86SchedIceLake.td"),
}
"""Entries of the table by their key there."""
_OF_ARM = ("neoverse-", "cortex-", "a64fx", "firestorm")


@dataclass(frozen=True, slots=True)
class ListedCost:
    """An entry of the table. `element_bits` is 0 where it stands for elements of any size."""

    operation: Operation
    element_bits: int
    microarchitecture: str
    instruction: str
    latency_cycles: float
    interval_cycles: float
    source: str

    @property
    def instruction_set(self) -> str:
        """The one that the core runs."""
        return "aarch64" if self.microarchitecture.startswith(_OF_ARM) else "x86_64"


@dataclass(frozen=True, slots=True)
class CostRange:
    """Cycles, each as (fast, typical, slow), and whose they are in words."""

    latency_cycles: tuple[float, float, float]
    interval_cycles: tuple[float, float, float]
    known_of: str

    @property
    def is_of_the_core(self) -> bool:
        """Whether the very core is listed."""
        return self.latency_cycles[0] == self.latency_cycles[2] and self.interval_cycles[0] == self.interval_cycles[2]


@functools.cache
def listed_costs() -> tuple[ListedCost, ...]:
    """The table."""
    text = (resources.files(__package__) / "instruction_costs.csv").read_text(encoding="utf-8")
    return tuple(
        ListedCost(
            Operation(row["operation"]),
            int(row["element_bits"] or 0),
            row["microarchitecture"],
            row["instruction"],
            float(row["latency_cycles"]),
            float(row["interval_cycles"]),
            row["source"],
        )
        for row in csv.DictReader(text.splitlines())
    )


@functools.cache
def listed_cost(operation: Operation, element_bits: int, core: CoreClass) -> CostRange | None:
    """The published cost of an operation on a core; None if the table does not have the operation."""
    entries = [one for one in listed_costs() if one.operation is operation]
    entries = [one for one in entries if one.element_bits == element_bits] or [
        one for one in entries if not one.element_bits
    ]
    if not entries:
        return None
    own = [one for one in entries if one.microarchitecture == core.microarchitecture]
    if own:
        return _range(own, f"{own[0].instruction} on {own[0].microarchitecture}: {SOURCES[own[0].source]}")
    kin = [one for one in entries if one.instruction_set == core.instruction_set]
    known_of = (
        f"{len(kin)} cores of {core.instruction_set}" if kin else f"{len(entries)} cores of other instruction sets"
    )
    return _range(kin or entries, f"median and range of {known_of} (profiles/instruction_costs.csv)")


def _range(entries: Iterable[ListedCost], known_of: str) -> CostRange:
    latencies = sorted(one.latency_cycles for one in entries)
    intervals = sorted(one.interval_cycles for one in entries)
    return CostRange(
        (latencies[0], median(latencies), latencies[-1]), (intervals[0], median(intervals), intervals[-1]), known_of
    )
