"""Loop-carried dependences, found against labelled.

The programs in benchmarks/programs/dependences have a label on each loop. Each is compiled without and with
optimisation, traced with --dependences, and its loops' verdicts are compared with their labels. Loops that the compiler
left no trace of are counted, not judged.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from foretrace.benchmarks.harness.results import LabelCount, Part, ResultTable, label_table
from foretrace.tracer.analysis.data_flow.verdicts import Verdict, verdicts
from foretrace.tracer.session.launch import CompiledProgram, PythonProgram
from foretrace.tracer.session.options import TraceOptions
from foretrace.tracer.signature.data_flow_records import Dependence, DependenceKind
from foretrace.tracer.signature.records import Signature
from foretrace.tracer.tracing import trace_program

FOLDER = Path(__file__).parents[1] / "programs" / "dependences"
TUNED, UNUSUAL, HELD_BACK, LATER = "loops", "unusual", "held_back", "later"
SETS = (TUNED, UNUSUAL, HELD_BACK, LATER)
LEVELS = ("-O0", "-O2")
_WITH_DEPENDENCES = TraceOptions((), has_dependences=True)
_COMPILERS = {".c": "gcc", ".f90": "gfortran"}
CROSS_COMPILERS = {
    "aarch64": ("aarch64-linux-gnu-gcc", "-static"),
    "riscv64": ("riscv64-linux-gnu-gcc", "-static"),
}
"""For programs of other instruction sets, where they are installed."""
_LABEL = re.compile(r"loop: (none|reduction|privatisable|recurrence|collision)(?: ([a-z]+))?(?: (\d+))?")


@dataclass(frozen=True, slots=True)
class Label:
    """Label of a loop: what it carries; `operation` is empty, and `distance` 0, where they are not told."""

    line: int
    verdict: Verdict
    operation: str
    distance: int


@dataclass(frozen=True, slots=True)
class Judged:
    """A labelled loop of a program compiled at `level`, and what was found: None where the binary has no such loop."""

    program: str
    level: str
    label: Label
    found: Verdict | None
    dependences: tuple[Dependence, ...]

    @property
    def is_right(self) -> bool:
        """Whether the verdict is the label's, with its operation and distance."""
        label = self.label
        kinds = [one for one in self.dependences if one.kind.name == label.verdict.name]
        has_operation = not label.operation or any(one.operation == label.operation for one in kinds)
        in_memory = [one for one in kinds if one.source >= 0]  # registers may hand a value on several times
        has_distance = not (label.distance and in_memory) or any(
            one.least_distance <= label.distance <= one.most_distance for one in in_memory
        )
        return self.found is label.verdict and has_operation and has_distance


def programs(set_name: str) -> list[Path]:
    """The sources of a set of labelled loops."""
    return sorted(path for path in FOLDER.iterdir() if path.stem == set_name)


def labels(source: Path) -> list[Label]:
    """The labels of a source file."""
    return [
        Label(number, Verdict[match[1].upper()], match[2] or "", int(match[3] or 0))
        for number, line in enumerate(source.read_text().splitlines(), 1)
        for match in _LABEL.finditer(line)
    ]


def judge(source: Path, level: str, directory: Path, compiler: Sequence[str] = ()) -> Iterator[Judged]:
    """Trace a program and judge its loops; a Python program has one level. `compiler` is not the usual one.

    Raises:
        ForetraceError: it cannot be traced.
    """
    if source.suffix == ".py":
        signature = trace_program(PythonProgram(str(source)), _WITH_DEPENDENCES).signature
    else:
        executable = directory / f"{source.stem}{source.suffix}{level}"
        command = compiler or (_COMPILERS[source.suffix],)
        subprocess.run([*command, level, "-g", "-o", str(executable), str(source), "-lm"], check=True, cwd=directory)
        signature = trace_program(CompiledProgram((str(executable),)), _WITH_DEPENDENCES).signature
    found = _by_label(signature, source.name, [label.line for label in labels(source)])
    for label in labels(source):
        verdict, dependences = found.get(label.line, (None, ()))
        yield Judged(source.name, level, label, verdict, dependences)


def _by_label(
    signature: Signature, name: str, lines: Sequence[int]
) -> dict[int, tuple[Verdict, tuple[Dependence, ...]]]:
    """The worst verdict of the loops of each label: those that begin on its line, or before the next label's."""
    assert signature.tree is not None
    found: dict[int, tuple[Verdict, tuple[Dependence, ...]]] = {}
    for loop in verdicts(signature):
        key = signature.tree.keys[loop.node]
        position = bisect_right(lines, key.line)
        if Path(key.file).name != name or position == 0 or key.caller:  # a library's, called there
            continue
        before = found.get(lines[position - 1], (Verdict.NONE, ()))
        found[lines[position - 1]] = (max(before[0], loop.verdict), (*before[1], *loop.dependences))
    return found


def table_of(judged: Sequence[Judged], title: str) -> ResultTable:
    """Precision and recall of each kind."""
    present = [one for one in judged if one.found is not None]
    counts = {verdict.name.lower(): LabelCount() for verdict in Verdict}
    for one in present:
        for verdict in Verdict:
            count = counts[verdict.name.lower()]
            count.labelled += one.label.verdict is verdict
            count.found += one.found is verdict
            count.both += one.label.verdict is verdict and one.is_right
    return label_table(title, counts)


def _parts(judged: Sequence[Judged], title: str) -> Iterator[Part]:
    absent = sum(one.found is None for one in judged)
    yield table_of(judged, f"{title}: {len(judged)} loops, {absent} of them not in the binary")
    for one in judged:
        if one.found is not None and not one.is_right:
            kinds = ", ".join(sorted({DependenceKind(d.kind).name.lower() for d in one.dependences}))
            place = f"{one.program}:{one.label.line} {one.level}"
            yield f"{place}: {one.label.verdict.name.lower()} labelled, {kinds or 'none'} found"


def add_options(_parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run(_options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """A table for each set and for each instruction set, and what differs."""
    for set_name in SETS:
        judged = [
            one
            for source in programs(set_name)
            for level in (LEVELS if source.suffix in _COMPILERS else ("",))
            for one in judge(source, level, scratch)
        ]
        yield from _parts(judged, set_name)
    for guest, compiler in CROSS_COMPILERS.items():
        if shutil.which(compiler[0]) is None:
            yield f"{guest}: left out, as {compiler[0]} is not installed"
            continue
        sources = [source for set_name in SETS for source in programs(set_name) if source.suffix == ".c"]
        judged = [one for source in sources for level in LEVELS for one in judge(source, level, scratch, compiler)]
        yield from _parts(judged, f"C of all sets, on {guest}")
